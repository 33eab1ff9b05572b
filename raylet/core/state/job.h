/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - jobs, their runtime environments, and what of both is on its way here.
 */
#ifndef RLT_STATE_JOB_H
#define RLT_STATE_JOB_H

#include "core/wire/ctl.h"
#include "raylet/core/kit/peer.h"
#include "raylet/core/state/proc.h"

typedef MT_VEC(uint32_t) rlt_node_list;

/* What is on its way here. Zeroed: nothing is. */
struct rlt_fetch {
    struct peer_file what;
    uint32_t         node; /* that sends it; 0: nothing is on its way */
    uint64_t         have;
    uint64_t         total; /* 0: not known yet */
    uint8_t         *bytes; /* gathered so far; NULL: they go to the shell, or none has come */
};

struct rlt_env;

/* A job; or, with `env`, the workers of a job that run in a runtime environment of its own: they have their own zygote,
 * and whatever this file says of a job's workers holds for those alone. */
struct rlt_job {
    uint64_t                  job;
    uint32_t                  number;     /* short, in refs */
    uint64_t                  key;        /* in r->jobs: job; of an environment's workers, the environment's number */
    struct rlt_env           *env;        /* NULL: the job itself */
    uint32_t                  node;       /* of its driver */
    uint32_t                  node_epoch; /* where that is another node: its epoch when the job came here */
    char                      name[CTL_NAME_SIZE];
    struct rlt_proc          *driver; /* NULL: on another node */
    struct rlt_proc          *zygote; /* NULL: none was started, or it died */
    bool                      is_zygote_ready;
    bool                      is_ending;
    int                       program; /* descriptor; -1: not here yet */
    void                     *hello;   /* ctl_hello and strings, for the zygote */
    uint32_t                  hello_size;
    struct rlt_list           idle; /* rlt_proc.in_idle, longest idle first */
    uint32_t                  idle_count;
    uint32_t                  worker_count;   /* forked, greeting included */
    uint32_t                  starting_count; /* of those: greeting */
    uint32_t                  forks_wanted;   /* until the zygote is ready */
    struct rlt_list           needy;          /* rlt_lease.in_needy: granted, without a worker yet */
    struct rlt_list           in_failing;     /* r->failing: the needy leases are to be ended, with ... */
    int32_t                   needy_code;     /* ... this code, and `failure` unless its driver has ended */
    uint32_t                  needy_count;
    uint32_t                  lease_count; /* that name this job */
    uint32_t                  start_failures;
    uint32_t                  unable_count; /* workers that greeted and could not serve, since one last ended a lease */
    uint32_t                  lack_count;   /* starts for which this node lacked something, since a worker last ended a lease */
    bool                      is_passing;   /* what failed may be better later: at failed_at + MT_RLT_LACK_AGAIN_MS */
    uint64_t                  failed_at;
    int32_t                   failure_code;           /* MT_EWORKER_DIED, MT_EENV, MT_ENOMEM */
    char                      failure[CTL_TEXT_SIZE]; /* of the last start */
    rlt_node_list             shunned;                /* of this node's owners: where no worker of it could be started */
    int32_t                   shun_code;              /* why not, on the last of them */
    char                      shun_text[CTL_TEXT_SIZE];
    char                      remark[88]; /* on how its program is run here; "": nothing special */
    struct rlt_timer          timer;      /* spare worker, idle ones */
    rlt_program_files         files;      /* driver here: the program first, without its descriptor, then its libraries */
    struct peer_program_file *list;       /* the same with sizes and sums; NULL: not known (yet) */
    uint32_t                  list_count;
    bool                      is_listing; /* the shell computes it */
    struct rlt_fetch          fetch;      /* driver elsewhere: greeting, list or a file, on its way here */
    rlt_node_list             served;     /* nodes that run workers of it */
    rlt_node_list             listed;     /* nodes that wait for the list */
};

/* A runtime environment of a job, as this node knows it. */
struct rlt_env {
    uint64_t         key;    /* its owners' */
    uint64_t         number; /* ours: unique over jobs */
    struct rlt_job  *base;
    struct rlt_job  *workers; /* NULL: nobody here has asked for one */
    uint32_t         from;    /* the node to ask for the definition; 0: it was given by a process of this node */
    bool             is_defined;
    bool             is_making;   /* the shell unpacks */
    struct ctl_env   def;         /* resolved: nothing is left to a parent */
    uint8_t         *strings;     /* all variables, later ones win */
    int              archive;     /* descriptor; -1: none, or not here yet */
    bool             has_archive; /* and it is ours to close: not that of the environment that it builds on */
    char             folder[512]; /* of its files here; "": none, or not yet */
    struct rlt_fetch fetch;       /* definition or archive, on its way here */
};

static inline struct rlt_job *rlt_job_base(struct rlt_job *job)
{
    return job->env ? job->env->base : job;
}

/* It is on its way, or whole and in the shell's hands, whose word follows. */
static inline bool rlt_fetch_is_busy(const struct rlt_fetch *f)
{
    return f->node || (f->total && f->have == f->total);
}

#endif

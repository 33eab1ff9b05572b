/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - what the core knows, and the calls between its parts. Private to raylet/; every struct here belongs to the
 * one struct rlt and to whoever steps it.
 *
 *   rlt -- procs (by conn, by process number)     proc -- classes (what an owner may lease for)
 *       -- jobs  -- idle workers, leases that           -- owned leases, served leases, monitors
 *       |           wait for a worker             lease -- class and owner, worker, hold, lane
 *       -- waiting classes (first come)
 *       -- monitors, regions, names, peers
 *
 * Parts: core.c (dispatch, timers), process.c (handshake, death), pool.c (zygotes, warm workers), lease.c (classes,
 * demand, grant, recall, end), schedule.c (who gets what next), caller.c (lanes to actors of others), monitor.c,
 * message.c, region.c, names.c, object.c; bundle.c, group.c (placement groups); head.c, peers.c + link.c, remote.c, submit.c.
 */
#ifndef RLT_STATE_H
#define RLT_STATE_H

#include "core/ds/heap.h"
#include "core/base/limits.h"
#include "core/ds/map.h"
#include "core/base/rng.h"
#include "raylet/core/actions.h"
#include "raylet/core/leases/ledger.h"
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/links/link.h"
#include "raylet/core/list.h"
#include "raylet/core/links/peer.h"

#define RLT_MS UINT64_C(1000000)

#define RLT_REGION_BYTES_MAX (UINT64_C(1) << 40)

typedef MT_VEC(struct rlt_program_file) rlt_program_files;
typedef MT_VEC(uint32_t) rlt_node_list;

struct rlt_timer {
    mt_heap_node node;
    void (*fire)(struct rlt *r, struct rlt_timer *timer);
};

/* ---- processes ---------------------------------------------------------------------------------------------- */

enum rlt_proc_state {
    PROC_GREETING, /* connected or forked; CTL_HELLO has not come */
    PROC_ALIVE,
    PROC_DYING, /* its end is known; its rings are being read, its status is awaited */
};

struct rlt_proc {
    uint64_t            conn;
    uint64_t            process; /* 0 before CTL_HELLO */
    enum rlt_proc_state state;
    uint32_t            role; /* enum ctl_role; 0 before CTL_HELLO */
    int32_t             pid;
    bool                is_child; /* zygote or worker: a wait status will come */
    bool                has_status;
    bool                is_drained;
    bool                is_closed;  /* its socket has ended */
    bool                has_names;  /* it has put a name at the head */
    bool                has_remote; /* it has had leases on other nodes: what it owns may lie there */
    bool                is_leaving; /* CTL_SHUTDOWN was sent */
    bool                is_unable;  /* a worker that could not take over what it was given; `crash` says why */
    bool                is_lacking; /* a zygote or worker for which the node had no memory or descriptors; `crash` says what */
    bool                is_keeper;  /* the driver that a private raylet is for: it ends with it, greeted or not */
    int32_t             status;
    char               *crash;   /* what it wrote when it died; NULL: nothing */
    char               *stopped; /* why it is being stopped: the node is short of memory, its group was removed; NULL: it is not */
    int32_t             stopped_code;
    struct rlt_timer    timer; /* greeting, dying or leaving */
    struct rlt_job     *job;

    struct rlt_list classes;                     /* rlt_class.in_owner */
    uint32_t        class_count, class_sweep_at; /* at that count, actors' classes that are over are looked for */
    struct rlt_list owned;                       /* rlt_lease.in_owner: it is the owner or caller */
    struct rlt_list served;                      /* rlt_lease.in_worker: it is the worker */
    struct rlt_list monitors;                    /* rlt_monitor.in_watcher */

    /* worker */
    uint64_t          forked_by; /* conn of its zygote */
    struct rlt_lease *lease;     /* task or actor; NULL: warm and idle, or starting */
    struct rlt_list   in_idle;
    uint64_t          idle_since;
    bool              is_ready; /* it has greeted, and its zygote has said its pid */
    bool              is_blocked;
    bool              was_dirty; /* has served an actor or held a GPU: not given to others */

    rlt_program_files files; /* of a driver that has not greeted yet */
};

/* ---- jobs and their workers ----------------------------------------------------------------------------------- */

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

/* ---- leases ------------------------------------------------------------------------------------------------- */

struct rlt_class {
    struct rlt_list  in_owner;
    struct rlt_list  in_waiting; /* r->waiting while held < wanted */
    struct rlt_proc *owner;
    struct rlt_job  *job; /* whose workers serve it; NULL: its environment is not known here */
    struct ctl_class def;
    uint64_t         version;
    uint32_t         wanted;
    uint32_t         held;            /* STARTING (asked of another node, too) and ACTIVE */
    uint32_t         ended_elsewhere; /* leases on other nodes that are over: the head is told what is wanted anew */
    uint32_t         asked_alone;     /* the node that was asked last while the head was away */
    uint32_t         refused_alone;   /* how often it was refused while it held nothing, since its last lease from another node */
    uint32_t         placed_here;     /* leases that the head has answered with this node */
    uint64_t         waiting_since;
    bool             is_refused; /* answered with CTL_UNSCHEDULABLE at this level */
    struct rlt_list  leases;     /* rlt_lease.in_class, oldest first */
};

enum rlt_lease_kind { LEASE_TASK, LEASE_ACTOR, LEASE_CALLER };
enum rlt_lease_state {
    LEASE_STARTING, /* resources are held (or asked for), no worker yet */
    LEASE_ACTIVE,
    LEASE_RECALLED, /* its worker returns what it has not begun */
    LEASE_DRAINED,  /* the worker has forgotten it; it leaves, or the switch empties the lane */
};

struct rlt_lease {
    uint64_t             id; /* also the number of its lane on this node */
    enum rlt_lease_kind  kind;
    enum rlt_lease_state state;
    struct rlt_class *class;   /* NULL: owner dead or elsewhere, or a caller's lane */
    struct rlt_proc   *owner;  /* NULL: dead or elsewhere */
    struct rlt_proc   *worker; /* NULL: none yet, or elsewhere */
    struct rlt_job    *job;
    uint64_t           owner_process, worker_process;
    uint32_t           owner_node, worker_node;
    uint32_t           incarnation;
    mt_id              request; /* of CTL_LANE_WANT */
    struct rlt_hold    hold;
    struct rlt_bundle *bundle;   /* out of whose pool that is; NULL: of the node itself */
    bool               captures; /* what its tasks submit belongs to the group of `bundle` */
    bool               has_lane;
    bool               is_strict;     /* its worker, of this node, runs as long as the head extends it */
    bool               is_owner_dead; /* and what its worker has written for it is to die as well */
    struct ctl_ended  *end;           /* owner elsewhere: what is to be said when the switch has emptied the lane */
    uint64_t           granted_at, recalled_at;
    struct rlt_timer   timer; /* RECALLED or DRAINED: until the worker is killed */
    struct rlt_list    in_class, in_owner, in_worker, in_needy, in_all;
    uint32_t           route, peer_route; /* of a lane to another node: ours, and theirs */
    uint64_t           taken;             /* worker elsewhere, at its end: the last task that reached it */
};

/* ---- placement groups ---------------------------------------------------------------------------------------- */

enum rlt_bundle_state { BUNDLE_PREPARED, BUNDLE_COMMITTED, BUNDLE_RETURNED /* its leases are ending */ };
struct rlt_bundle {
    struct rlt_list       in_all;
    mt_id                 group;
    uint32_t              index;
    uint64_t              version; /* of its placement, by the head */
    enum rlt_bundle_state state;
    struct rlt_hold       hold; /* taken from the node ... */
    struct rlt_ledger     pool; /* ... for these leases alone */
    uint32_t              lease_count;
};

/* ---- the rest ------------------------------------------------------------------------------------------------ */

struct rlt_monitor {
    mt_id            id;
    struct rlt_proc *watcher; /* NULL: on another node */
    uint32_t         watcher_node;
    uint64_t         process; /* watched; 0: the node */
    uint32_t         node;    /* of the watched */
    struct rlt_list  in_watcher, in_all;
};

struct rlt_region {
    uint32_t number;
    uint64_t size;
    uint64_t job;
    MT_VEC(uint64_t) members; /* conns */
};

/* Another node, and the link to it. Begun by the first word in either direction. */
struct rlt_peer {
    uint32_t         node, epoch;
    bool             has_link;
    struct rlt_link  link;
    uint64_t         last_number; /* of the links that are over: none is begun or taken up under it again */
    bool             is_given_up; /* the last link was, and nothing has been heard of this epoch or a later one since */
    uint64_t         stream;      /* carries the link; 0: none does */
    uint64_t         dialing;     /* 0: no dial is under way */
    uint64_t         dialed_at, heard_at, said_at;
    bool             is_paused; /* its lanes are: too much waits for it */
    struct rlt_timer timer;
};

/* A stream between raylets, ours or accepted. */
struct rlt_stream {
    uint64_t         stream;
    struct rlt_peer *peer; /* NULL: accepted, and has not said who it is */
    bool             is_ours, is_open;
    uint64_t         heard_at; /* when a frame last came by it */
    struct rlt_timer timer;    /* accepted: until its first frame */
};

/* A node of the cluster, as the head's View says. */
struct rlt_node {
    uint32_t            node, epoch;
    uint32_t            state; /* 1 alive, 2 suspect, 3 dead */
    char                name[CTL_NAME_SIZE], address[CTL_NAME_SIZE], data_address[CTL_NAME_SIZE];
    char                labels[MT_LABELS_BYTES_MAX];
    uint32_t            total_count, free_count;
    struct ctl_resource total[CTL_RESOURCES], free[CTL_RESOURCES];
};

/* A request of a process of this node that the head has not answered yet. */
struct rlt_asked {
    mt_id                    id;
    uint64_t                 conn;
    uint32_t                 op;
    struct ctl_name          name;
    Manta__V1__ActorRequest *actor;    /* of CTL_OP_ACTOR_...; NULL: a name, or ... */
    Manta__V1__GroupRequest *group;    /* ... CTL_OP_GROUP */
    bool                     is_held;  /* not said yet: its files are on their way to the head */
    uint32_t                 programs; /* of them, the first so many are its program's */
    uint32_t                 uploaded; /* of them, so many are there: the program's, then its values, then its environment */
    int                      values;   /* -1: none */
    uint64_t                 env;      /* key; 0: none */
    uint64_t                 since;
    struct rlt_list          in_all; /* oldest first */
};

/* A submitted job whose driver runs here. */
enum rlt_submitted_state { JOB_STARTING, JOB_RUNNING, JOB_ENDED };
struct rlt_submitted {
    char                     id[CTL_NAME_SIZE];
    uint32_t                 attempt;
    enum rlt_submitted_state state;
    bool                     is_stopping; /* by order of the head, or its time is up */
    bool                     is_timed_out;
    bool                     is_reading; /* a piece of the log is on its way from the shell */
    int32_t                  pid, exit_code;
    const char              *word; /* of JobState: RUNNING SUCCEEDED FAILED STOPPED */
    char                     reason[CTL_TEXT_SIZE];
    uint64_t                 time_ms;
    uint64_t                 log_size, log_sent, log_acked;
    struct rlt_hold          hold;
    struct rlt_timer         timer; /* time limit; then from SIGTERM to SIGKILL; ENDED: to the next time it is said */
};

/* What this node and the head have said to each other. */
struct rlt_head {
    bool             is_up;         /* the stream is open */
    bool             is_registered; /* ... and the head has answered */
    bool             is_ready;      /* RLT_A_READY was said */
    char             cluster[CTL_NAME_SIZE];
    uint64_t         view_version;
    uint64_t         report_version;
    uint64_t         reported_at;
    bool             is_change_reported; /* the last report brought something new */
    uint64_t         reported_hash;      /* of what the last report said: unchanged ones wait for the next sign of life */
    struct rlt_timer report;
    struct rlt_timer patience; /* the oldest request that is not answered */
    mt_map           asked;    /* id -> rlt_asked */
    struct rlt_list  all_asked;
    struct {
        uint64_t version, at;
    } sent[8];                          /* when the last reports left, by version */
    uint64_t unanswered, unanswered_at; /* version of the last report with wants that the head has not answered, and when
                                                   the first of them left; 0: it has answered all */
    uint64_t gone[64];                  /* the last processes that ended and had names: said again after each registration */
    uint32_t gone_count;
    uint64_t jobs_gone[MT_RLT_JOBS_GONE]; /* the same of jobs whose drivers were here */
    uint32_t jobs_gone_count;
};

struct rlt {
    struct rlt_config   config;
    uint32_t            node, epoch;
    uint64_t            now;
    uint64_t            started_at;
    mt_rng              rng;
    struct rlt_actions *out; /* of the step under way */
    mt_heap             timers;
    mt_map              conns;     /* conn -> proc */
    mt_map              processes; /* process -> proc */
    mt_map              jobs;      /* key -> rlt_job */
    mt_map              envs;      /* number -> rlt_env */
    mt_map              leases;    /* id -> lease */
    mt_map              routes;    /* route -> lease */
    mt_map              monitors;  /* id of the monitor -> rlt_monitor */
    mt_map              regions;
    mt_map              names; /* without a head: hash of (space, name) -> ctl_name */
    struct rlt_list     all_leases;
    struct rlt_list     all_monitors;
    struct ctl_death    deaths[MT_RLT_DEATHS_KEPT]; /* the last ones of this node, round and round */
    uint32_t            death_count;
    struct rlt_list     waiting;    /* rlt_class.in_waiting, longest wait first */
    bool                is_dirty;   /* something may be granted now */
    struct rlt_timer    short_over; /* runs: memory is short, or was a moment ago, and nothing is granted */
    struct rlt_timer    slice;
    uint64_t            full_since;    /* all processes are actors'; 0: not so */
    struct rlt_timer    full_over;     /* somebody is to be told of it then */
    struct rlt_class    guest;         /* what a class of another node waits for here, by the head's word: only its `def` ... */
    struct rlt_timer    alone;         /* the head is away, and classes wait */
    uint32_t            guest_presses; /* ... said without the head: how often it was refused; ... */
    struct rlt_timer    guest_over;    /* ... as long as this runs */
    struct rlt_pins     pins;
    struct rlt_ledger   ledger;
    struct rlt_list     bundles; /* rlt_bundle.in_all */
    uint32_t            bundle_count;
    uint64_t            bundle_changes; /* counts them, for reports */
    uint64_t            next_conn, next_lease, next_token;
    uint32_t            next_route, next_region;
    uint32_t            worker_count;
    uint32_t            crowd; /* enum lane_crowd, as last told */
    uint64_t            strict_changes;
    uint32_t            strict_count; /* leases of strict actors whose workers are here */
    bool                is_stopping, had_keeper;
    struct rlt_head     head;
    mt_map              peers;   /* node -> rlt_peer */
    mt_map              streams; /* number -> rlt_stream */
    uint64_t            next_stream;
    mt_map              submitted; /* hash of the id -> rlt_submitted */
    mt_map              nodes;     /* number -> rlt_node: the others, and this one once the head has said so */
    struct rlt_stats    stats;     /* the counters */
};

/* ---- calls between the parts ----------------------------------------------------------------------------------- */

/* core.c */
void  rlt_timer_set(struct rlt *r, struct rlt_timer *t, uint64_t at);
void  rlt_timer_clear(struct rlt *r, struct rlt_timer *t);
void *rlt_calloc(size_t size);
void  rlt_map_put(mt_map *map, mt_id key, void *ptr);

void rlt_shut_down(struct rlt *r, const char *why);

/* process.c */
void             rlt_proc_accepted(struct rlt *r, uint64_t conn, int32_t pid);
struct rlt_proc *rlt_proc_new(struct rlt *r, uint64_t conn);
struct rlt_proc *rlt_proc_of_conn(const struct rlt *r, uint64_t conn);
struct rlt_proc *rlt_proc_of_process(const struct rlt *r, uint64_t process); /* ALIVE ones only */
void             rlt_proc_socket(struct rlt *r, const struct rlt_event *e);
void             rlt_proc_gone(struct rlt *r, struct rlt_proc *p);                   /* its end is known, or it must go */
void             rlt_proc_status(struct rlt *r, struct rlt_proc *p, int32_t status); /* it has been reaped; p may be gone after */
void             rlt_proc_drained(struct rlt *r, struct rlt_proc *p, const char *crash);
void             rlt_proc_leave(struct rlt *r, struct rlt_proc *p, const char *why); /* asks it to leave; SIGKILL if it does not */
bool             rlt_hello_strings_ok(const struct ctl_hello *h, const uint8_t *strings, size_t size);
void             rlt_proc_describe(const struct rlt *r, const struct rlt_proc *p, char *text, size_t size);

/* pool.c */
struct rlt_job *rlt_job_new(struct rlt *r, uint64_t job, uint64_t key, uint32_t node, const char *name);
void            rlt_job_begin(struct rlt *r, struct rlt_job *job); /* program and strings are here: starts the zygote */
void            rlt_job_end(struct rlt *r, struct rlt_job *job);   /* its driver is gone */
void            rlt_job_break(struct rlt *r, struct rlt_job *job); /* nothing can be started for it: job->failure says why */
void            rlt_job_free_if_empty(struct rlt *r, struct rlt_job *job); /* its environments with it, once they are empty too */
void            rlt_job_free(struct rlt *r, struct rlt_job *job);          /* the struct alone */
void            rlt_pool_balance(struct rlt *r, struct rlt_job *job);      /* forks what needy leases wait for */
void            rlt_pool_forked(struct rlt *r, struct rlt_proc *zygote, const struct rlt_event *e);
void            rlt_pool_child_exit(struct rlt *r, struct rlt_proc *zygote, const struct ctl_child_exit *exit);
void            rlt_pool_spawned(struct rlt *r, struct rlt_proc *zygote, int32_t pid);
void            rlt_pool_zygote_ready(struct rlt *r, struct rlt_proc *zygote);
void            rlt_pool_worker_ready(struct rlt *r, struct rlt_proc *worker); /* greeting and pid come in either order */
void            rlt_pool_offer(struct rlt *r, struct rlt_proc *worker);        /* it has no lease: gets one, or waits warm */
void            rlt_pool_lacks(struct rlt_proc *p, const char *what);          /* its end follows; NULL: it lacked nothing */
bool            rlt_job_is_broken(const struct rlt *r, struct rlt_job *job);   /* nothing is started for it (now) */
/* How many more leases would find a process: idle ones count, and those that leases wait for do not. */
int64_t          rlt_pool_places(const struct rlt *r);
void             rlt_pool_tell_crowd(struct rlt *r);                 /* how many wait inside tasks, where that has changed */
bool             rlt_pool_has_zygote(const struct rlt_proc *worker); /* the one that forked it lives */
void             rlt_pool_lost(struct rlt *r, struct rlt_proc *p);   /* a zygote or worker ended */
struct rlt_proc *rlt_pool_take(struct rlt *r, struct rlt_job *job);
void             rlt_pool_remove(struct rlt_proc *p); /* it is not to be taken any more */

/* The program's descriptor, -1 while it or its greeting (or its environment) is not there. */
int                           rlt_job_program(const struct rlt_job *job);
static inline struct rlt_job *rlt_job_base(struct rlt_job *job)
{
    return job->env ? job->env->base : job;
}
void rlt_job_fail(struct rlt *r, struct rlt_job *job, int32_t code, const char *text); /* for good */

/* env.c */
void rlt_env_define(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e); /* takes e->fd */
/* An environment whose definition and files are here; NULL: none of that key. Lives as long as the job. */
const struct rlt_env *rlt_env_whole(const struct rlt *r, const struct rlt_job *base, uint64_t key);
/* The workers of a job's environment; from: who can tell what it is, 0: a process of this node has said so. NULL: it is
 * not known, or there are too many. */
struct rlt_job *rlt_env_workers(struct rlt *r, struct rlt_job *base, uint64_t key, uint32_t from);
void            rlt_env_go_all(struct rlt *r, struct rlt_job *base); /* the job's program is there */
void            rlt_env_made(struct rlt *r, const struct rlt_event *e);
void            rlt_env_node_lost(struct rlt *r, uint32_t node);
void            rlt_env_job_ends(struct rlt *r, struct rlt_job *base);
bool            rlt_env_job_is_empty(const struct rlt *r, const struct rlt_job *base);
void            rlt_env_job_free(struct rlt *r, struct rlt_job *base); /* all its environments, and their workers' structs */
void            rlt_envs_fini(struct rlt *r);
void            rlt_env_wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want);
void            rlt_env_chunk(struct rlt *r, uint32_t node, const struct peer_file_chunk *c, const uint8_t *bytes);
void            rlt_env_none(struct rlt *r, uint32_t node, const struct peer_file *what);
void            rlt_env_file_ready(struct rlt *r, const struct rlt_event *e); /* takes e->fd */

/* lease.c */
void              rlt_class_define(struct rlt *r, struct rlt_proc *owner, const struct lane_record *record, const uint8_t *payload);
void              rlt_demand(struct rlt *r, struct rlt_proc *owner, const struct ctl_demand *demand);
struct rlt_class *rlt_class_find(const struct rlt_proc *owner, uint32_t class_id);
/* No worker of its job can be started on that node: it goes elsewhere, and where nothing is left its owner is told why. */
void              rlt_class_shun(struct rlt *r, struct rlt_class *c, uint32_t node, int32_t code, const char *text);
bool              rlt_class_shuns(const struct rlt_class *c, uint32_t node);
bool              rlt_class_has_node_left(const struct rlt *r, const struct rlt_class *c); /* that could ever serve it */
void              rlt_shunned_node_lost(struct rlt *r, uint32_t node); /* who returns under that number may be better */
void              rlt_class_unschedulable(struct rlt *r, struct rlt_class *c, int32_t code, const char *text);
struct rlt_lease *rlt_lease_new(struct rlt *r, enum rlt_lease_kind kind, struct rlt_job *job, uint64_t id); /* 0: draw */
void              rlt_lease_set_worker(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker);
void              rlt_lease_activate(struct rlt *r, struct rlt_lease *l, struct rlt_proc *worker);
void              rlt_lease_recall(struct rlt *r, struct rlt_lease *l, uint64_t grace_ms); /* 0: no limit */
void              rlt_lease_drained(struct rlt *r, struct rlt_proc *worker, uint64_t id);
void              rlt_lease_kill(struct rlt *r, struct rlt_proc *owner, uint64_t id);
void              rlt_lease_end(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end);
void              rlt_lease_forget(struct rlt *r, struct rlt_lease *l);   /* everybody who must know does */
void              rlt_lease_recalled(struct rlt *r, struct rlt_lease *l); /* the worker's node recalls it */
struct rlt_lease *rlt_lease_find(const struct rlt *r, uint64_t id);
void              rlt_grant_fill(const struct rlt *r, const struct rlt_lease *l, struct ctl_grant *g);
void              rlt_lease_owner_gone(struct rlt *r, struct rlt_lease *l);
void              rlt_class_drop(struct rlt *r, struct rlt_class *c);
void              rlt_class_wait(struct rlt *r, struct rlt_class *c); /* puts it among the waiting, if it still wants */
void              rlt_worker_blocked(struct rlt *r, struct rlt_proc *worker, bool is_blocked);

/* schedule.c */
/* Room is made and kept for such a class of another node, for a while. `presses`: of several the one that was refused most
 * often; 0: the head says who. */
void rlt_guest_comes(struct rlt *r, const struct ctl_class *def, uint32_t presses);
/* Whether another node's request leaves the guest its room, or has been refused as often. */
bool                   rlt_guest_allows(const struct rlt *r, const struct ctl_class *def, uint32_t presses);
void                   rlt_schedule(struct rlt *r);
bool                   rlt_is_stuck(const struct rlt *r); /* every process has been an actor's for MT_RLT_FULL_MS */
bool                   rlt_node_could_ever(const struct rlt_node *n, const struct rlt_class *c);
static inline uint32_t rlt_class_lacks(const struct rlt_class *c)
{
    return c->wanted > c->held ? c->wanted - c->held : 0;
}

/* bundle.c: what placement groups have reserved here */
void               rlt_bundle_order(struct rlt *r, const Manta__V1__BundleOrder *order);
struct rlt_ledger *rlt_lease_ledger(struct rlt *r, const struct rlt_lease *l);
/* Takes what one lease of the class needs, from the node or from a pool; false: there is no room. Its pair gives it back. */
bool        rlt_lease_take(struct rlt *r, const struct ctl_class *def, struct rlt_lease *l);
void        rlt_lease_give(struct rlt *r, struct rlt_lease *l);
bool        rlt_class_could_now(const struct rlt *r, const struct ctl_class *def);
uint64_t    rlt_bundle_recall(struct rlt *r, const struct rlt_class *c);
void        rlt_bundles_drop_all(struct rlt *r, const char *why);
void        rlt_bundles_report(struct rlt *r, Manta__V1__Report *report);
const char *rlt_bundles_check(const struct rlt *r, int64_t *reserved); /* adds to it what they reserve */
void        rlt_bundles_fini(struct rlt *r);

/* group.c */
void rlt_group_ask(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_group_answered(struct rlt *r, const Manta__V1__GroupReply *reply);
bool rlt_group_stays(const struct rlt *r, const struct rlt_asked *asked); /* it is kept until the head has answered */

/* caller.c */
void rlt_caller_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want);
void rlt_caller_drop(struct rlt *r, struct rlt_proc *caller, uint64_t id);

/* monitor.c */
void rlt_monitor_add(struct rlt *r, struct rlt_proc *watcher, mt_id id, const struct ctl_monitor *m);
void rlt_monitor_drop(struct rlt *r, struct rlt_proc *watcher, mt_id id);
void rlt_monitor_free(struct rlt *r, struct rlt_monitor *m);
void rlt_monitors_fire(struct rlt *r, const struct ctl_death *death); /* of a process of this node */
void rlt_monitor_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_monitors_node_lost(struct rlt *r, uint32_t node, const char *why);

/* message.c */
void rlt_message(struct rlt *r, struct rlt_proc *from, const struct lane_record *record, const uint8_t *payload);
void rlt_message_undelivered(struct rlt *r, const struct rlt_event *e);
void rlt_message_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_message_lost(struct rlt *r, const struct lane_record *record, const uint8_t *payload); /* with its link */

/* region.c */
void rlt_region_want(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_segment *want);
void rlt_region_drop(struct rlt *r, struct rlt_proc *p, uint32_t number);
void rlt_regions_leave(struct rlt *r, struct rlt_proc *p);
void rlt_region_failed(struct rlt *r, uint32_t number);
void rlt_regions_fini(struct rlt *r);

/* object.c: of objects whose owner and place are on two nodes */
void rlt_object_dead(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_object_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_object_owner_gone(struct rlt *r, const struct rlt_proc *owner);
void rlt_object_lease_over(struct rlt *r, const struct rlt_lease *l); /* its worker writes no more for its owner */

/* alone.c */
void rlt_alone_init(struct rlt *r);
void rlt_alone_reported(struct rlt *r, uint64_t version); /* has left with wants; 0: without any */
void rlt_alone_answered(struct rlt *r, uint64_t version);
void rlt_alone_arm(struct rlt *r); /* while the head is away and classes wait: other nodes are asked soon */

/* names.c */
void rlt_request(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload);
void rlt_names_process_gone(struct rlt *r, uint64_t process);
void rlt_names_fini(struct rlt *r);
/* Where jobs are apart: the name space in which a name of p's job stands, what it was called by p, and whether it is such. */
MT_MUST_USE mt_status rlt_name_place(const struct rlt *r, struct rlt_proc *p, bool for_all, struct ctl_name *n);
void                  rlt_name_unplace(const struct rlt *r, struct ctl_name *n);
bool                  rlt_name_is_apart(const struct rlt *r, const struct ctl_name *n);

void rlt_reply_bytes(struct rlt *r, uint64_t conn, mt_id id, const void *bytes, size_t size);

/* head.c */
void                  rlt_head_init(struct rlt *r);
void                  rlt_head_fini(struct rlt *r);
void                  rlt_head_event(struct rlt *r, const struct rlt_event *e);
void                  rlt_head_send(struct rlt *r, Manta__V1__NodeToHead *message); /* nothing while the stream is down */
void                  rlt_head_changed(struct rlt *r);                              /* a report may be due */
void                  rlt_head_ask(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, const struct ctl_name *name);
void                  rlt_head_process_gone(struct rlt *r, uint64_t process);
void                  rlt_head_job_gone(struct rlt *r, uint64_t job); /* its driver, of this node, has ended */
Manta__V1__Resource **rlt_resources_make(struct rlt *r, const struct ctl_resource *from, uint32_t count);
void                  rlt_rejoin(struct rlt *r, const char *why); /* this node was declared dead: all that runs here ends */

/* The request waits for the head's answer from now on; NULL: it was there already, or there are too many. `is_held`: it is
 * sent by rlt_head_ask_go. */
struct rlt_asked *rlt_head_asked(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, bool is_held);
void              rlt_head_ask_go(struct rlt *r, struct rlt_asked *asked);
void              rlt_head_asked_over(struct rlt *r, struct rlt_asked *asked); /* it was answered */
void              rlt_head_ask_failed(struct rlt *r, struct rlt_asked *asked, int32_t code, const char *text);

/* strict.c: leases of strict actors */
void     rlt_strict_begin(struct rlt *r, struct rlt_lease *l); /* its worker is there */
void     rlt_strict_end(struct rlt *r, struct rlt_lease *l);
uint64_t rlt_strict_hash(const struct rlt *r); /* changes when those here do */
void     rlt_strict_report(struct rlt *r, Manta__V1__Report *report);
void     rlt_strict_extend(struct rlt *r, const Manta__V1__Extend *extend);

/* detach.c: detached actors */
void rlt_detach(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload, int take_fd);
void rlt_detach_go(struct rlt *r, struct rlt_asked *asked);       /* there is a head: its program may be sent there */
void rlt_detach_listed(struct rlt *r, const struct rlt_job *job); /* job->list is there; NULL: it can't be had */
void rlt_detach_uploaded(struct rlt *r, const struct rlt_event *e);
void rlt_actor_ask(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_actor *actor);

/* submit.c */
void rlt_submit_order(struct rlt *r, const Manta__V1__HeadToNode *m);
void rlt_submit_event(struct rlt *r, const struct rlt_event *e);
void rlt_submit_registered(struct rlt *r);
void rlt_submit_fini(struct rlt *r);
void rlt_submit_kill_all(struct rlt *r);

/* memory.c */
void rlt_memory_short(struct rlt *r, const struct rlt_event *e);

/* remote.c: leases between nodes */
void rlt_remote_request(struct rlt *r, struct rlt_class *c, uint32_t node);
bool rlt_remote_lane_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want);
void rlt_remote_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void rlt_remote_activate(struct rlt *r, struct rlt_lease *l); /* its worker, of this node, is there */
void rlt_remote_lease_over(struct rlt *r, struct rlt_lease *l, const struct ctl_ended *end); /* of this node's worker */
void rlt_remote_lane_drained(struct rlt *r, uint64_t lane, uint64_t taken);
void rlt_remote_lane_broken(struct rlt *r, uint64_t lane);
void rlt_remote_node_lost(struct rlt *r, uint32_t node, const char *why);

/* program.c: jobs whose driver is on another node */
void        rlt_program_file(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e); /* from a driver; takes e->fd */
void        rlt_program_files_close(struct rlt *r, struct rlt_program_file *files, size_t count);
void        rlt_program_greeted(struct rlt *r, struct rlt_job *job, int program); /* its driver is here: takes the descriptor */
void        rlt_program_want(struct rlt *r, struct rlt_job *job);                 /* the job may be gone after */
void        rlt_program_again(struct rlt *r, struct rlt_job *job);                /* what the cache had of it was not right */
uint32_t    rlt_program_count(const struct rlt_job *job);                         /* of its files */
const char *rlt_program_path(const struct rlt_job *job, uint32_t index);
int         rlt_program_fd(const struct rlt_job *job, uint32_t index); /* -1: the cache has it */
bool        rlt_program_is_listed(struct rlt *r, struct rlt_job *job); /* false: rlt_detach_listed follows */
void        rlt_program_job_free(struct rlt *r, struct rlt_job *job);  /* what of it is the shell's */
void        rlt_program_fini(struct rlt_job *job);                     /* what of it is memory */
void        rlt_program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload);
void        rlt_program_event(struct rlt *r, const struct rlt_event *e);
void        rlt_program_job_end(struct rlt *r, const struct rlt_job *job); /* its driver was here: tells the others */
void        rlt_program_node_lost(struct rlt *r, uint32_t node);

/* peers.c */
/* Queues a record for another node. False: there is no such node, or it is dead. */
bool rlt_peer_send(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *payload, size_t size);
bool rlt_peer_send2(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *head, size_t head_size,
                    const void *tail, size_t tail_size);
void rlt_peer_event(struct rlt *r, const struct rlt_event *e);
void rlt_peer_meet(struct rlt *r, uint32_t node);            /* begins a link where there is none: whether it lives shows by that */
void rlt_peer_out(struct rlt *r, const struct rlt_event *e); /* records of the switch */
void rlt_peer_lost(struct rlt *r, struct rlt_peer *p, const char *why);
bool rlt_peer_is_newer(const struct rlt *r, const struct rlt_node *n); /* it spoke under an epoch that the head has not told of */
void rlt_peers_view(struct rlt *r, const struct rlt_node *n);          /* the head's word on a node */
void rlt_peers_lose_all(struct rlt *r, const char *why);
void rlt_peers_tell(struct rlt *r, enum peer_kind kind, const void *payload, size_t size); /* all there is a link to */
void rlt_peers_fini(struct rlt *r);

/* nodes.c */
void             rlt_nodes_view(struct rlt *r, const Manta__V1__View *view);
struct rlt_node *rlt_node_find(const struct rlt *r, uint32_t node);
/* Alive by the head's last word, and not given up here since; `n` may be NULL. */
bool rlt_node_is_there(const struct rlt *r, const struct rlt_node *n);
void rlt_nodes_reply(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t after);
void rlt_nodes_fini(struct rlt *r);

#endif

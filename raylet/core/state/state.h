/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - all that the core knows, and the calls that every room may make: timers, memory, finding, answering. The door of
 * this room. Private to raylet/core/; every struct here belongs to the one struct rlt and to whoever steps it.
 *
 *   rlt -- procs (by conn, by process number)     proc -- classes (what an owner may lease for)
 *       -- jobs  -- idle workers, leases that           -- owned leases, served leases, monitors
 *       |           wait for a worker             lease -- class and owner, worker, hold, lane
 *       -- waiting classes (first come)
 *       -- monitors, regions, names, peers
 */
#ifndef RLT_STATE_H
#define RLT_STATE_H

#include "core/base/limits/raylet.h"
#include "core/base/rng.h"
#include "core/ds/heap.h"
#include "core/ds/map.h"
#include "raylet/core/kit/actions.h"
#include "raylet/core/kit/config.h"
#include "raylet/core/kit/event.h"
#include "raylet/core/state/head.h"
#include "raylet/core/state/lease.h"
#include "raylet/core/state/node.h"

#define RLT_MS UINT64_C(1000000)

/* What one job holds here (usage/usage.c). Sums are in thousandths of what the head is told. */
struct rlt_usage {
    uint64_t job;
    bool     is_known; /* its driver is here: `id` is the submitted job's, "" of one that was started by hand */
    bool     is_news;  /* ... and the head was not told yet */
    bool     is_over;
    char     id[CTL_NAME_SIZE];
    int64_t  held[MT_RLT_RESOURCES_MAX]; /* by index of the ledger */
    uint64_t since_us;                   /* all before is counted */
    uint64_t cpu, gpu, memory, node;     /* not said yet */
};
struct rlt_usage_said { /* one message that is not acknowledged */
    uint64_t number;
    size_t   count;
    struct {
        Manta__V1__UsageOf of;
        char               id[CTL_NAME_SIZE];
    } items[];
};
struct rlt_usages {
    mt_map                 jobs; /* number -> rlt_usage */
    struct rlt_timer       timer;
    uint64_t               said, said_at;                       /* number of the last message; when one was last said */
    struct rlt_usage_said *unanswered[MT_RLT_USAGE_UNANSWERED]; /* oldest first */
    uint32_t               unanswered_count;
};

/* This node is to leave (head/drain.c). Nothing new is granted from then on. */
struct rlt_drain {
    bool             is_on;
    bool             is_over;  /* its limit has passed: what was here was stopped */
    bool             was_told; /* by a signal; the next one ends it at once */
    uint64_t         head_by;  /* told while it had no head: it ends at once where none comes until then; 0: one is there */
    uint64_t         ends;     /* when it will, or ... */
    uint64_t         leave_by; /* ... until when what was stopped may take */
    uint64_t         alone_by; /* empty, and no head to tell: it goes then; 0: not so */
    uint64_t         said_at;  /* that nothing is here any more; 0: not yet */
    char             reason[128];
    struct rlt_timer timer;

    /* values that only this node has, and that others are to adopt */
    bool     is_looking;   /* LEAVE was said, and what became of it is not known yet */
    bool     is_last_look; /* ... when nothing else was here any more */
    bool     is_clear;     /* after such a look nothing was left that somebody can hold */
    uint64_t look_at;      /* the next one */
    uint32_t values_left, values_stuck;
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
    struct rlt_list     failing;    /* rlt_job.in_failing: noted in this step, ended before its end */
    struct rlt_list     waiting;    /* rlt_class.in_waiting, longest wait first */
    uint32_t            kept;       /* resources (bits) of which those in `waiting` keep what is free for themselves */
    bool                is_dirty;   /* something may be granted now */
    struct rlt_timer    short_over; /* runs: memory is short, or was a moment ago, and nothing is granted */
    struct rlt_timer    slice;
    uint64_t            full_since;     /* all processes are actors'; 0: not so */
    struct rlt_timer    full_over;      /* somebody is to be told of it then */
    struct rlt_class    guest;          /* what a class of another node waits for here, by the head's word: only its `def` ... */
    struct rlt_timer    alone;          /* the head is away, and classes wait */
    uint64_t            asked_alone_at; /* when other nodes were asked by itself last */
    uint32_t            guest_presses;  /* ... said without the head: how often it was refused; ... */
    struct rlt_timer    guest_over;     /* ... as long as this runs */
    struct rlt_pins     pins;
    struct rlt_ledger   ledger;
    struct rlt_list     bundles; /* rlt_bundle.in_all */
    uint32_t            bundle_count;
    uint64_t            bundle_changes; /* counts them, for reports */
    uint64_t            next_conn, next_lease;
    uint32_t            next_route, next_region;
    uint32_t            worker_count;
    uint32_t            crowd; /* enum lane_crowd, as last told */
    uint64_t            strict_changes;
    uint32_t            strict_count; /* leases of strict actors whose workers are here */
    bool                is_stopping, had_keeper;
    struct rlt_head     head;
    struct rlt_drain    drain;
    struct rlt_usages   usage;
    struct rlt_timer    orphan;  /* no head was heard for so long that this node leaves */
    mt_map              peers;   /* node -> rlt_peer */
    mt_map              streams; /* number -> rlt_stream */
    uint64_t            next_stream;
    mt_map              submitted; /* hash of the id -> rlt_submitted */
    uint64_t            next_turn; /* of a submitted job that waits */
    mt_map              nodes;     /* number -> rlt_node: the others, and this one once the head has said so */
    struct {
        bool is_due, is_asked; /* there is some in this step; somebody waits for it */
    } news[CTL_NEWS];
    uint64_t         news_changes; /* the ledger's, as of the last step */
    mt_map           forgotten;    /* number -> nothing: was dead for so long that the head does not list it any more */
    struct rlt_stats stats;        /* the counters */
};

/* ---- memory and time: a raylet that is out of memory ends (rlt_out_of_memory) ---- */

void *rlt_calloc(size_t size);
void  rlt_map_put(mt_map *map, mt_id key, void *ptr);
void  rlt_timer_set(struct rlt *r, struct rlt_timer *t, uint64_t at); /* anew, if it runs */
void  rlt_timer_clear(struct rlt *r, struct rlt_timer *t);

/* ---- finding: NULL where there is none ---- */

struct rlt_proc  *rlt_proc_of_conn(const struct rlt *r, uint64_t conn);
struct rlt_proc  *rlt_proc_of_process(const struct rlt *r, uint64_t process); /* ALIVE ones only */
struct rlt_class *rlt_class_find(const struct rlt_proc *owner, uint32_t class_id);
struct rlt_lease *rlt_lease_find(const struct rlt *r, uint64_t id);
struct rlt_node  *rlt_node_find(const struct rlt *r, uint32_t node);

/* From when on nobody can count on the head; UINT64_MAX: it is there, as far as is known. */
uint64_t rlt_away_since(const struct rlt *r);
/* There is a head, and it is away, or silent. */
bool rlt_is_away(const struct rlt *r);

/* ---- saying (say.c) ---- */

/* The raylet ends, once. With a code it was refused, and its exit status says so. */
void rlt_leave(struct rlt *r, enum mt_code code, const char *why);
void rlt_shut_down(struct rlt *r, const char *why); /* in order */
/* CTL_REPLY with bytes behind it. */
void  rlt_reply_bytes(struct rlt *r, uint64_t conn, mt_id id, const void *bytes, size_t size);
char *rlt_keep_text(struct rlt *r, const char *text);
/* To the head: kept until the actions are reset; what is sent while the stream is down is dropped. */
Manta__V1__NodeToHead *rlt_to_head(struct rlt *r, Manta__V1__NodeToHead__KindCase kind);
void                   rlt_head_send(struct rlt *r, Manta__V1__NodeToHead *message);
Manta__V1__Resource  **rlt_resources_make(struct rlt *r, const struct ctl_resource *from, uint32_t count);

#endif

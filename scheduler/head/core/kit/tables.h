/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.h - the tables of the head. Behind kit.h; each room writes its own and reads the others'.
 *
 *   head -+- streams   one per attached raylet; knows its node once that has registered
 *         +- nodes     by number; each holds what it has, what was promised, and its wants
 *         +- names     by space and name
 *         +- jobs      by id; buckets: those that want the same; arrays; awaited: what they wait for
 *         |            waits: the parked WaitJob calls
 *         +- blobs     by SHA-256
 *         +- groups    placement groups by id, and by space and name
 *         +- tickets   by id; revoked: whose certificates are refused; tokens by name
 *         +- account   what users and jobs have spent, by user, day and job; how far each node's word is counted
 *         +- batches   changes that the store has not confirmed, each with the actions that wait for it
 */
#ifndef HEAD_TABLES_H
#define HEAD_TABLES_H

#include "core/base/release.h"
#include "core/base/rng.h"
#include "core/ds/heap.h"
#include "core/ds/map.h"
#include "core/ds/recent.h"
#include "core/ds/vec.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/kit/account.h"
#include "scheduler/head/core/kit/index.h"
#include "scheduler/head/core/kit/job.h"
#include "scheduler/head/core/kit/step.h"
#include "scheduler/head/core/kit/trusted.h"
#include "scheduler/head/core/kit/want.h"
#include "scheduler/policy/policy.h"
#include "scheduler/scaler/scaler.h"

/* Short forms of protobuf-c's names. */
typedef Manta__V1__NodeToHead to_head;
typedef Manta__V1__HeadToNode to_node;
typedef Manta__V1__Resource   resource;

/* ---- tables ---------------------------------------------------------------------------------------------------- */

struct stream {
    uint64_t         number;
    uint32_t         node;         /* 0: has not registered */
    uint32_t         held;         /* sends that wait for the store: later ones wait behind them */
    bool             reads_more;   /* several messages as one */
    bool             is_unread;    /* the shell does not read it: that its node is silent is the head's own doing */
    uint64_t         view_version; /* it was told of all changes up to that; 0: of none */
    struct head_peer peer;

    struct head_beat_terms beats;
    uint64_t               beat_counter; /* of the last datagram that was taken */
    uint64_t beat_ms; /* of the last one by which the node was heard, and that was answered; 0: it speaks here since */
};

struct view_change { /* of a node; none has that number: it was forgotten */
    uint64_t version;
    uint32_t node;
};

struct view_page { /* one message: what changed between two versions */
    uint64_t           since, version;
    struct head_bytes *bytes;
};

struct promise {
    uint64_t              at_ms;
    uint64_t              job; /* order of the one whose driver it is for, + 1; 0: of none */
    uint32_t              count;
    struct policy_request request;
};

struct node {
    uint32_t           epoch;
    uint64_t           boot;
    uint64_t           stream; /* 0: none */
    uint64_t           heard_ms;
    uint64_t           closed_ms; /* its last stream ended by itself */
    uint64_t           report_version;
    bool               has_reported; /* on this stream */
    char              *name, *address, *data_address;
    struct mt_versions wire; /* the versions that it speaks */
    char               reason[160];
    struct policy_node place; /* number, state, total, and free less what was promised */
    int64_t            reported[POLICY_RESOURCES_MAX];
    MT_VEC(struct promise) promises;
    int64_t  drivers_max;     /* so many drivers of submitted jobs it takes */
    uint32_t drivers;         /* that are placed there */
    uint32_t ahead;           /* those of them that wait there (jobs/ahead.c) */
    uint32_t places_reported; /* processes that it may still start */
    bool     is_stuck;        /* none, and none comes back by itself */
    uint32_t here;            /* leases, actors, drivers ... that are on it, by its word */
    uint32_t tasks_here;      /* leases of tasks among them */
    MT_VEC(struct want) wants;
    bool is_wanting; /* it stands in h->wanting */
    MT_VEC(struct node_wish) wishes;
    MT_VEC(uint64_t) voids; /* leases of strict actors there that were given up, in this epoch; oldest first */
    struct {
        bool     is_on;       /* stored; the node is DRAINING, or SUSPECT and will be */
        uint64_t limit_ms;    /* as it was asked for; stored */
        uint64_t ends_ms;     /* for people: its raylet counts for itself */
        char     reason[128]; /* stored */
        char     waits[160];  /* what it still waits for, by its raylet's word */
    } drain;
    uint64_t          view_version;   /* of its last change that others are told of */
    enum policy_state told;           /* its state as it is told of: another than its own while it stands in view.late */
    bool              is_late;        /* it stands there */
    bool              is_free_due;    /* it stands in view.free */
    bool              has_left;       /* DEAD: it was drained and is gone, as was asked for; stored */
    bool              is_seen;        /* by this head: it has said which of its processes have ended */
    uint64_t          member;         /* for whom its certificate was made; 0: it has none of its own; stored */
    uint64_t          certificate_ms; /* wall clock: when the last one ends; stored */
};

struct holder { /* of a name */
    mt_id    actor;
    char     type[HEAD_NAME_SIZE]; /* of the actor */
    uint64_t owner;                /* the process that answers for it */
    uint32_t owner_node;
    bool     is_detached; /* owner is its warden; 0: none is up. The name goes with the warden's job, not with a process */
};

struct name {
    struct head_index_node at;
    char                  *key;  /* space, 0x1f, name */
    const char            *name; /* inside key */
    struct holder          holder;
};

enum bundle_state {
    BUNDLE_NONE,      /* stands nowhere */
    BUNDLE_PREPARING, /* its node was asked */
    BUNDLE_PREPARED,  /* ... and has reserved it */
    BUNDLE_COMMITTED, /* decided, and stored: leases may use it */
};
struct bundle {
    struct policy_request request; /* amounts only */
    enum bundle_state     state;
    uint32_t              node, epoch;                /* 0: NONE */
    uint64_t              version;                    /* of its placement */
    bool                  is_told;                    /* COMMITTED: its node has said so */
    uint64_t              sent_ms;                    /* of the last order about it */
    int64_t               free[POLICY_RESOURCES_MAX]; /* of its amounts, by its node's word less what was placed since */
    uint64_t              placed_ms;
};
struct group_wait { /* of a process behind that stream */
    mt_id    request;
    uint64_t stream, due_ms;
};
struct group {
    struct head_index_node at, named; /* named.key NULL: it has no name */
    char                   key[40];   /* of its id */
    char                  *full_name; /* space, 0x1f, name; of one that is apart behind the job; NULL: none */
    mt_id                  id;
    uint64_t               job;
    uint32_t               job_node;
    bool                   is_detached;
    bool                   is_apart; /* only its job has to do with it: that has a user of its own */
    enum policy_strategy   strategy;
    uint64_t               version, order;
    uint64_t               since_ms, pressed_ms; /* it has waited for room; a node was last asked to make some */
    uint64_t               again_ms;             /* found no room: not tried before, unless something has changed */
    uint64_t               back_ms;              /* was refused: not tried before */
    uint32_t               presses, refusals;    /* since it was last placed: of nodes whose room was gone when they were asked */
    char                   why[HEAD_TEXT_SIZE];  /* no way at all with the nodes that there are; "": there may be one */
    bool                   is_open;              /* in h->open_groups: something about it is not finished */
    uint32_t               bundle_count;
    struct bundle         *bundles;
    MT_VEC(struct group_wait) waits;
};

struct batch {
    uint64_t token;
    MT_VEC(struct head_action) held;
};

struct head {
    struct head_config   config;
    struct head_counters count;
    mt_rng               rng;
    uint64_t             epoch;
    uint32_t             schema; /* of the store, as it was loaded */
    uint32_t             next_node;
    uint64_t             next_order;
    uint64_t             start_ms, now_ms, wall_ms;
    bool                 is_started;
    bool                 is_ending; /* the store failed, or shutdown was asked for: nothing more is accepted */
    enum head_room       room;
    uint64_t             room_bytes; /* of one change, while there is enough room */
    mt_status            broken;     /* the first failure of the head itself in this step */

    char     heads[MT_HEADS_MAX][MT_NAME_BYTES_MAX]; /* addresses: this one's first, then of those that stand by */
    char    *head_list[MT_HEADS_MAX];                /* the same, for messages */
    uint32_t head_count;
    uint64_t heads_told_ms;

    mt_map streams;        /* number -> struct stream */
    mt_map nodes;          /* number -> struct node */
    MT_VEC(uint32_t) dead; /* numbers, in order of death */
    uint32_t nodes_living;
    MT_VEC(char *) kinds; /* names of resources; the index is the kind */

    struct {                            /* what the nodes are told of each other (nodes/view.c) */
        uint64_t version;               /* of the last change, in this epoch */
        uint64_t floor;                 /* a node that was forgotten up to here is not in the log any more */
        MT_VEC(struct view_change) log; /* in order of versions; one that was overtaken is passed over */
        MT_VEC(uint32_t) free;          /* nodes of which that has changed since it was last told; the longest ago first */
        MT_VEC(uint32_t) late;          /* nodes that are suspect, or alive again, and the others do not know it yet; in order */
        uint32_t           states_left; /* so many of those are told before the next round */
        uint64_t           told_ms, free_told_ms;
        struct head_bytes *hints;       /* about what is free, on their way; NULL: none are */
        uint32_t           hinted;      /* so many nodes have them */
        bool               is_due;      /* something has changed since told_ms, or since the round began */
        bool               is_joined;   /* a node has joined since then */
        uint64_t           round;       /* to that version all are told in this round, ... */
        bool               is_behind;   /* ... which is not over */
        MT_VEC(struct view_page) pages; /* packed, until it is */
    } view;
    bool     is_capacity_changed; /* there is more room, or another node, since the last round of placements */
    uint64_t looked_ms;           /* it was last said so for want of a better reason (core.c) */
    uint64_t nodes_due_ms;        /* nobody's silence and no promise is due before */
    MT_VEC(uint32_t) wanting;     /* the nodes that want something, and some that did */
    uint64_t walked_ms;           /* what looks at all nodes was last done then */
    bool     is_walk_owed;        /* ... and not in the last step */
    uint32_t round;

    struct head_index names;
    mt_map            name_owners; /* process -> how many names it owns */
    struct mt_recent  gone;        /* processes that have ended lately */
    struct mt_recent  outcomes;    /* codes of name requests that may change something, by their ids */

    struct head_index jobs;
    uint32_t          jobs_active, jobs_ended;
    uint32_t          paced_count; /* buckets of jobs with a deadline */
    struct head_index buckets, arrays, awaited;
    mt_sorted         placed, ended; /* jobs STARTING and RUNNING, and those that have ended and may be forgotten, by order */
    mt_sorted         kept;          /* ... those that have ended of arrays that have not */
    mt_heap           retries;       /* those that are not started before a time */
    MT_VEC(struct bucket *) open;    /* scratch of jobs/turns.c */
    MT_VEC(struct job *) settles;    /* those that have ended in this step (jobs/queue.c) */
    mt_heap waits;
    mt_map  wait_calls; /* call -> struct wait */

    struct head_index groups, group_names;
    MT_VEC(struct group *) open_groups; /* in order of creation */
    struct mt_recent groups_over;       /* the last that were removed */
    uint32_t         group_waits;
    uint64_t         groups_due_ms; /* something is to be done about an open group then */

    mt_map tickets; /* id -> struct ticket */
    MT_VEC(struct revoked) revoked;
    struct head_index tokens; /* by name */

    struct head_account account;

    mt_map   queries; /* number -> struct query */
    uint64_t next_query;

    struct head_index blobs;
    uint64_t          blob_bytes;
    uint64_t          blob_sweep_ms;

    struct {
        struct scl             *core; /* NULL: no cluster file was ever given */
        Manta__V1__ScaleConfig *config;
        MT_VEC(Manta__V1__ScaleWant *) wants;
        MT_VEC(uint64_t) ended; /* instances that are not wanted any more, since who they are was last shut out */
        struct scl_actions actions;
        uint64_t           demands_hash, stored_next; /* what was last told and stored */
    } scale;

    /* output commit (out.c) */
    uint64_t next_token;
    MT_VEC(struct head_record) changes; /* of this step */
    MT_VEC(struct head_action) held;    /* of this step */
    MT_VEC(struct batch *) batches;
    struct head_actions *out; /* of this step */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * internal.h - the tables of the head's core, and what its files call of one another. Private to head_core.
 *
 *   head -+- streams   one per attached raylet; knows its node once that has registered
 *         +- nodes     by number; each holds what it has, what was promised, and its wants
 *         +- names     by space and name
 *         +- jobs      by id; waits are the parked WaitJob calls
 *         +- blobs     by SHA-256
 *         +- groups    placement groups by id, and by space and name
 *         +- batches   changes that the store has not confirmed, each with the actions that wait for it
 */
#ifndef HEAD_INTERNAL_H
#define HEAD_INTERNAL_H

#include "core/base/buf.h"
#include "core/ds/heap.h"
#include "core/base/limits.h"
#include "core/base/log.h"
#include "core/ds/map.h"
#include "core/ds/recent.h"
#include "core/ds/vec.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"
#include "scheduler/head/core/index.h"
#include "scheduler/head/core/store.pb-c.h"
#include "scheduler/policy/policy.h"

#include <stdio.h>

enum { HEAD_SCHEMA = 1, HEAD_NAME_SIZE = 64 /* as in the local protocol, its end included */ };

/* Short forms of protobuf-c's names. */
typedef Manta__V1__NodeToHead to_head;
typedef Manta__V1__HeadToNode to_node;
typedef Manta__V1__JobInfo    job_info;
typedef Manta__V1__JobReply   job_reply;
typedef Manta__V1__JobSpec    job_spec;
typedef Manta__V1__Resource   resource;

/* ---- tables ---------------------------------------------------------------------------------------------------- */

struct stream {
    uint64_t number;
    uint32_t node; /* 0: has not registered */
    uint32_t held; /* sends that wait for the store: later ones wait behind them */
};

struct promise {
    uint64_t              at_ms;
    uint32_t              count;
    struct policy_request request;
};

struct want {
    uint64_t              owner, job, version;
    uint32_t              class_id;
    uint32_t              wanted;
    uint32_t              placed;     /* of them answered ... */
    uint64_t              placed_ms;  /* ... then */
    uint32_t              held;       /* leases of the class, by its node's word */
    uint64_t              since_ms;   /* it was first seen, or last answered: who has waited longest is served first */
    uint64_t              pressed_ms; /* a busy node was last asked to make room for it */
    bool                  is_refused; /* the owner was told that no node can ever hold it */
    mt_id                 group;      /* its leases are in the pool of this placement group; zero: of none */
    uint32_t              bundle;     /* from 1; 0: any */
    struct policy_request request;
};

struct node {
    uint32_t           epoch;
    uint64_t           boot;
    uint64_t           stream; /* 0: none */
    uint64_t           heard_ms;
    uint64_t           report_version;
    bool               has_reported; /* on this stream */
    char              *name, *address, *data_address;
    char               reason[160];
    struct policy_node place; /* number, state, total, and free less what was promised */
    int64_t            reported[POLICY_RESOURCES_MAX];
    MT_VEC(struct promise) promises;
    uint32_t places_reported; /* processes that it may still start */
    bool     is_stuck;        /* none, and none comes back by itself */
    MT_VEC(struct want) wants;
    MT_VEC(uint64_t) voids; /* leases of strict actors there that were given up, in this epoch; oldest first */
    bool is_seen;           /* by this head: it has said which of its processes have ended */
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

/* X(name, text on the wire) */
/* clang-format off */
#define JOB_STATES(X) \
    X(PENDING, "PENDING") X(STARTING, "PENDING") X(RUNNING, "RUNNING") \
    X(STOPPED, "STOPPED") X(SUCCEEDED, "SUCCEEDED") X(FAILED, "FAILED")
/* clang-format on */
enum job_state {
#define X(name, text) JOB_##name,
    JOB_STATES(X)
#undef X
        JOB_STATE_COUNT
};

struct job {
    struct head_index_node at;
    job_spec              *spec;
    struct policy_request  request;
    enum job_state         state;
    char                   reason[HEAD_TEXT_SIZE];
    int32_t                exit_code, pid;
    uint32_t               attempt, node, failures;
    bool                   stop_requested;
    uint64_t               submitted_ms, started_ms, ended_ms; /* wall clock */
    uint64_t               order;
    uint64_t               retry_ms; /* monotonic: not started before; not stored */
    uint64_t               log_size;
    int64_t                log_base;
    bool                   log_is_full;
    uint32_t               waits; /* parked WaitJob calls */
};

struct wait {
    mt_heap_node due;
    uint64_t     call;
    struct job  *job;
};

struct blob {
    struct head_index_node at;
    char                   hex[2 * HEAD_SHA_SIZE + 1];
    uint8_t                sha256[HEAD_SHA_SIZE];
    uint64_t               size;
    uint64_t               used_ms;
    uint32_t               needed_by; /* jobs that have not ended */
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
    uint32_t               presses;
    char                   why[HEAD_TEXT_SIZE]; /* no way at all with the nodes that there are; "": there may be one */
    bool                   is_open;             /* in h->open_groups: something about it is not finished */
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
    uint32_t             next_node;
    uint64_t             next_order;
    uint64_t             start_ms, now_ms, wall_ms;
    bool                 is_started;
    bool                 is_ending; /* the store failed, or shutdown was asked for: nothing more is accepted */
    enum head_room       room;
    uint64_t             room_bytes; /* of one change, while there is enough room */
    mt_status            broken;     /* the first failure of the head itself in this step */

    mt_map streams;        /* number -> struct stream */
    mt_map nodes;          /* number -> struct node */
    MT_VEC(uint32_t) dead; /* numbers, in order of death */
    uint32_t nodes_living;
    MT_VEC(char *) kinds; /* names of resources; the index is the kind */

    bool     is_members_changed, is_free_changed; /* since the last View */
    uint64_t view_version, view_ms;
    bool     is_capacity_changed; /* since the last round of placements */
    uint32_t round;

    struct head_index names;
    mt_map            name_owners; /* process -> how many names it owns */
    struct mt_recent  gone;        /* processes that have ended lately */
    struct mt_recent  outcomes;    /* codes of name requests that may change something, by their ids */

    struct head_index jobs;
    uint32_t          jobs_active, jobs_ended;
    mt_heap           waits;
    mt_map            wait_calls; /* call -> struct wait */

    struct head_index groups, group_names;
    MT_VEC(struct group *) open_groups; /* in order of creation */
    struct mt_recent groups_over;       /* the last that were removed */
    uint32_t         group_waits;
    uint64_t         groups_due_ms; /* something is to be done about an open group then */

    mt_map   queries; /* number -> struct query */
    uint64_t next_query;

    struct head_index blobs;
    uint64_t          blob_bytes;
    uint64_t          blob_sweep_ms;

    /* output commit (out.c) */
    uint64_t next_token;
    MT_VEC(struct head_record) changes; /* of this step */
    MT_VEC(struct head_action) held;    /* of this step */
    MT_VEC(struct batch *) batches;
    struct head_actions *out; /* of this step */
};

/* ---- out.c: actions, and which of them wait for the store ------------------------------------------------------- */

void out_begin(struct head *h, struct head_actions *out);
/* Makes the step's changes one batch and puts what depends on it behind it. */
void out_end(struct head *h);
/* The oldest batch is durable: what waited for it goes out. */
void out_release(struct head *h, uint64_t token);
void out_fini(struct head *h);

/* `after_store`: not before all changes made so far are durable. Sends on one stream never overtake each other. */
void out_send(struct head *h, struct stream *s, const to_node *message, bool after_store);
void out_send_bytes(struct head *h, struct stream *s, struct head_bytes *bytes);
void out_close(struct head *h, struct stream *s);
void out_reply(struct head *h, uint64_t call, enum head_method method, const ProtobufCMessage *reply);
void out_refuse(struct head *h, uint64_t call, mt_status st);
void out_log_append(struct head *h, struct job *job, const uint8_t *text, size_t size);
void out_job(struct head *h, enum head_action_kind kind, const char *job); /* after the store */
void out_blob_drop(struct head *h, const struct blob *blob);               /* after the store */
void out_exit(struct head *h, mt_status st, bool after_store);

struct head_bytes *head_bytes_pack(const ProtobufCMessage *message); /* NULL: no memory */
void               head_bytes_unref(struct head_bytes *bytes);

/* ---- records.c: to and from the store --------------------------------------------------------------------------- */

void records_put_meta(struct head *h);
void records_put_node(struct head *h, const struct node *n);
void records_drop_node(struct head *h, uint32_t number);
void records_put_name(struct head *h, const struct name *n);
void records_drop_name(struct head *h, const char *key);
void records_put_job(struct head *h, const struct job *job);
void records_drop_job(struct head *h, const char *id);
void records_put_group(struct head *h, const struct group *g);
void records_drop_group(struct head *h, mt_id id);
/* All bundles of a group as messages: room for bundle_count, and MT_GROUP_RESOURCES_MAX. Names are borrowed. */
void records_fill_bundles(const struct head *h, const struct group *g, Manta__V1__Bundle *bundles, resource *items,
                          resource **pointers);

/* ---- core.c ----------------------------------------------------------------------------------------------------- */

/* Remembers that the head itself can't go on. */
void head_broken(struct head *h, mt_status st);
#define HEAD_TRY(h, expr) \
    do { \
        mt_status head_try_st_ = (expr); \
        if (head_try_st_.code != 0) \
            head_broken((h), head_try_st_); \
    } while (0)
/* Whether something new of that size may come in; what is there may always change. */
bool  head_has_room(struct head *h, size_t bytes);
char *head_strdup(struct head *h, const char *text);

/* ---- resources.c: names of resources to small numbers ----------------------------------------------------------- */

/* EINVAL with a text: an empty or long name, a negative or absurd amount, a name twice, too many. */
MT_MUST_USE mt_status resources_to_request(struct head *h, resource *const *from, size_t count, struct policy_request *out,
                                           char *text, size_t text_size);
MT_MUST_USE mt_status resources_to_node(struct head *h, resource *const *from, size_t count, struct node *node, char *text,
                                        size_t text_size);
/* The number of a name, made on first use; UINT32_MAX: too many kinds. */
uint32_t resources_kind(struct head *h, const char *name);
/* Borrows the name. */
void resource_fill(resource *out, const char *name, int64_t milli);

/* ---- nodes.c: registration, liveness, reports ------------------------------------------------------------------- */

struct node   *nodes_find(const struct head *h, uint32_t number);
struct stream *nodes_stream(const struct head *h, const struct node *n); /* NULL: none */
void           nodes_opened(struct head *h, uint64_t number);
void           nodes_closed(struct head *h, uint64_t number);
void           nodes_message(struct head *h, uint64_t number, const uint8_t *bytes, size_t size);
/* Ends a stream that breaks the protocol or is replaced. */
void nodes_drop_stream(struct head *h, struct stream *s, const char *why);
void nodes_tick(struct head *h);
void nodes_paused(struct head *h, uint64_t gap_ms);
void nodes_promise(struct head *h, struct node *n, const struct policy_request *request, uint32_t count);
/* The node has said that it took what was promised: its next report contains it, and the promise is over. */
void                  nodes_taken(struct head *h, struct node *n, const struct policy_request *request);
MT_MUST_USE mt_status nodes_load(struct head *h, const Manta__Store__NodeRecord *record);
void                  nodes_free(struct node *n);
/* Every node that is not dead, in order of numbers given; borrowed until the next change. */
MT_MUST_USE mt_status nodes_living(struct head *h, struct policy_node ***out_nodes, uint32_t *out_count);
void                  nodes_list(struct head *h, uint64_t call);

/* ---- view.c: the cluster as the nodes see it -------------------------------------------------------------------- */

void     view_tick(struct head *h);
uint64_t view_due_ms(const struct head *h);
/* Fills `out` (zeroed arrays are allocated; view_node_free gives them back). */
void view_node(struct head *h, const struct node *n, Manta__V1__Node *out);
/* Adds what placement groups reserve; view_node_free gives it back as well. */
void view_reserved(struct head *h, const struct node *n, Manta__V1__Node *out);
void view_node_free(Manta__V1__Node *node);

/* ---- wants.c: leases that a node cannot grant itself ------------------------------------------------------------ */

/* Its stream is a new one: a refusal that went with the old one may never have come. */
void wants_tell_again(struct node *n);
void wants_report(struct head *h, struct node *n, Manta__V1__Want *const *wants, size_t count);
/* Answers what can be answered now. */
void wants_round(struct head *h);
bool wants_in_grace(const struct head *h);
/* The node is to make room for that. */
void wants_press(struct head *h, struct node *n, const struct policy_request *request);

/* ---- names.c ---------------------------------------------------------------------------------------------------- */

void names_request(struct head *h, struct stream *s, const Manta__V1__NameRequest *request);
void names_process_gone(struct head *h, uint64_t process);
bool names_text_is_fine(const char *text, bool may_be_empty);
/* Processes, and jobs, that have ended lately. */
void                  names_remember_gone(struct head *h, uint64_t process);
bool                  names_is_gone(const struct head *h, uint64_t process);
void                  names_node_dead(struct head *h, uint32_t node);
MT_MUST_USE mt_status names_load(struct head *h, const Manta__Store__NameRecord *record);
void                  names_free(struct head *h, struct name *n);
/* Of a detached actor. EEXIST, EINVAL, EAGAIN: the name is another's, or none. */
int32_t              names_add_detached(struct head *h, const Manta__V1__DetachedActor *actor);
void                 names_drop_detached(struct head *h, const Manta__V1__DetachedActor *actor);
const struct holder *names_holder(const struct head *h, const Manta__V1__DetachedActor *actor); /* NULL: not its name */

/* ---- actors.c: detached actors, each a job of its own ------------------------------------------------------------ */

const Manta__V1__DetachedActor *actors_of(const struct head *h, mt_id id); /* NULL: none is of that id */
void                            actors_request(struct head *h, struct stream *s, const Manta__V1__ActorRequest *request);

/* ---- strict.c: leases of strict actors --------------------------------------------------------------------------- */

/* Answers a report: which of the node's strict actors may run on, and that the head is there. */
void strict_report(struct head *h, struct stream *s, const Manta__V1__Report *report);
/* The owner gives such a lease up: when this is stored it is never extended again. */
void strict_void(struct head *h, uint32_t node, uint64_t lease);

/* ---- jobs.c: the life of a job; attempts.c: what runs where; calls.c: what clients ask -------------------------- */

struct job *jobs_find(const struct head *h, const char *id);
const char *jobs_state_text(enum job_state state);
bool        jobs_has_ended(const struct job *job);
void        jobs_set_state(struct head *h, struct job *job, enum job_state next);
/* Sets the reason, ends the job, answers who waits, and stores it. */
void jobs_end(struct head *h, struct job *job, enum job_state how, int32_t exit_code, const char *reason);
void jobs_free(struct head *h, struct job *job);
/* An ended one, its record and its log. */
void                  jobs_forget(struct head *h, struct job *job);
MT_MUST_USE mt_status jobs_add(struct head *h, job_spec *take_spec, struct job **out_job);
MT_MUST_USE mt_status jobs_load(struct head *h, const Manta__Store__JobRecord *record);
void                  jobs_log(struct head *h, struct stream *s, const Manta__V1__LogChunk *chunk);
void                  jobs_log_written(struct head *h, const char *id, uint64_t size);
void                  jobs_prune(struct head *h);

void attempts_round(struct head *h);
void attempts_state(struct head *h, struct stream *s, const Manta__V1__JobState *state);
void attempts_node_registered(struct head *h, struct node *n);
void attempts_loaded(struct head *h);
void attempts_node_lost(struct head *h, uint32_t node, const char *why);
void attempts_stop(struct head *h, struct job *job, const char *why);
void attempts_log_ack(struct head *h, struct job *job, uint64_t written);

void calls_take(struct head *h, const struct head_event *event);
void calls_gone(struct head *h, uint64_t call);
void calls_tick(struct head *h);
void calls_job_ended(struct head *h, struct job *job);
/* Takes a job in, or says why not. */
MT_MUST_USE int32_t calls_submit(struct head *h, const job_spec *spec, struct job **out_job, char *text, size_t text_size);

/* ---- queries.c: what clients ask of nodes ------------------------------------------------------------------------ */

void queries_take(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request);
void queries_answer(struct head *h, const struct node *n, Manta__V1__QueryAnswer *answer);
void queries_call_gone(struct head *h, uint64_t call);
/* Answers those whose node is gone or silent. */
void queries_tick(struct head *h);
void queries_fini(struct head *h);

/* ---- groups.c: the table of placement groups, and what processes ask of it ---------------------------------------- */

/* Space and name, for people, for replies and for the store; both "" where it has none. */
void          groups_split_name(const struct group *g, char space[HEAD_NAME_SIZE], const char **out_name);
void          groups_request(struct head *h, struct stream *s, const Manta__V1__GroupRequest *request);
struct group *groups_find(const struct head *h, mt_id id); /* NULL: removed, or never there */
void          groups_job_gone(struct head *h, uint64_t job);
void          groups_node_lost(struct head *h, uint32_t node); /* its jobs have ended, its bundles stand nowhere */
void          groups_remove(struct head *h, struct group *g, const char *why);
/* Answers all who wait for it: 0, or what is wrong. */
void groups_answer_waits(struct head *h, struct group *g, int32_t code, const char *text);
void groups_list(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request);
/* "default/name" or the id, for people. */
void                  groups_name(const struct group *g, char *out, size_t size);
MT_MUST_USE mt_status groups_load(struct head *h, const Manta__Store__GroupRecord *record);
void                  groups_fini(struct head *h);
const char           *groups_check(const struct head *h); /* what must hold; NULL: it does */
uint64_t              groups_hash(const struct head *h, uint64_t hash);

/* ---- bundles.c: where bundles go, in two phases ------------------------------------------------------------------- */

bool bundles_are_placed(const struct group *g);     /* all committed: it stands */
void bundles_open(struct head *h, struct group *g); /* it is looked at in the next rounds */
void bundles_round(struct head *h);
void bundles_answer(struct head *h, struct node *n, const Manta__V1__BundleAnswer *answer);
void bundles_report(struct head *h, const struct node *n, const Manta__V1__Report *report);
void bundles_node_registered(struct head *h, const struct node *n);
void bundles_lose(struct head *h, struct group *g, uint32_t node);
void bundles_return_all(struct head *h, struct group *g, const char *why); /* it is removed */
/* Nodes for up to `wanted` leases in the pool that `w` names; 0 and *out_code not 0: never, and `text` says why. */
uint32_t bundles_place(struct head *h, const struct want *w, uint32_t wanted, uint32_t *out_nodes, int32_t *out_code, char *text,
                       size_t text_size);
/* What committed bundles reserve on the node, by its resources. */
void bundles_reserved(const struct head *h, const struct node *n, int64_t out[POLICY_RESOURCES_MAX]);

/* ---- spec.c: what a job may look like --------------------------------------------------------------------------- */

/* EINVAL with a text that says what is wrong. */
MT_MUST_USE mt_status spec_check(const job_spec *spec, char *text, size_t text_size);
MT_MUST_USE mt_status spec_copy(const job_spec *spec, job_spec **out_spec);
bool                  spec_equal(const job_spec *a, const job_spec *b);

/* ---- blobs.c ---------------------------------------------------------------------------------------------------- */

void         blobs_add(struct head *h, const uint8_t *sha256, uint64_t size);
struct blob *blobs_find(const struct head *h, const uint8_t *sha256);
/* A job that needs its files comes (+1) or has ended (-1). */
void blobs_need(struct head *h, const job_spec *spec, int change);
/* A job is deleted: its files go, but for those that another one needs. */
void blobs_release(struct head *h, const job_spec *spec);
/* The first file of the job whose content is not here; NULL: all are. */
const Manta__V1__JobFile *blobs_missing(const struct head *h, const job_spec *spec);
void                      blobs_has(struct head *h, uint64_t call, const Manta__V1__HasBlobsRequest *request);
void                      blobs_tick(struct head *h);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - what goes into a step of the head, and what comes out of it.
 */
#ifndef HEAD_STEP_H
#define HEAD_STEP_H

#include "core/base/status.h"
#include "scheduler/head/core/kit/asked.h"

#include <stdatomic.h>
#include <stdbool.h>

struct head;

/* ---- what goes in ---------------------------------------------------------------------------------------------- */
enum head_provide_op {                        /* what a provider of nodes is asked */
                       HEAD_PROVIDE_OPEN = 1, /* which one, and its settings; before all else, and again when they change */
                       HEAD_PROVIDE_CLOSE,    /* nobody needs it any more; no answer */
                       HEAD_PROVIDE_LIST,
                       HEAD_PROVIDE_LAUNCH,
                       HEAD_PROVIDE_TERMINATE,
};

enum head_event_kind {                         /* what each brings with it: the member of that name in struct head_event */
                       HEAD_EV_TICK = 1,       /* time has passed */
                       HEAD_EV_STREAM_OPENED,  /* a raylet has attached */
                       HEAD_EV_STREAM_MESSAGE, /* it says something */
                       HEAD_EV_STREAM_CLOSED,
                       HEAD_EV_STREAM_UNREAD, /* the shell reads no more of it for now, or reads it again */
                       HEAD_EV_BEATS,         /* raylets say by datagrams that they live */
                       HEAD_EV_CALL,          /* a client asks */
                       HEAD_EV_CALL_GONE,     /* it has left: no reply is wanted any more */
                       HEAD_EV_STORED,        /* the batch is durable, or the store has failed */
                       HEAD_EV_ROOM,          /* what the store can still take */
                       HEAD_EV_LOG_WRITTEN,   /* the log file of the job has that many bytes now */
                       HEAD_EV_BLOB_ADDED,    /* a verified blob is in its place */
                       HEAD_EV_HEADS,         /* which heads there are: told to raylets and clients */
                       HEAD_EV_PROVIDED,      /* the answer to HEAD_ACT_PROVIDE, or that none came in time */
};

/* How the raylet behind a stream may say by datagrams that it lives. */
struct head_beat_terms {
    uint16_t port;                    /* 0: it may not */
    uint8_t  key[HEAD_BEAT_KEY_SIZE]; /* random, of this stream alone */
};

/* One such datagram, which was sealed with the key of that stream: the shell has looked. */
struct head_beat {
    uint64_t stream;
    uint64_t counter, echo, report; /* as in core/io/beat.h */
    bool     is_taken, is_heard;    /* out: it is to be answered, with now_ms as the echo; by it the node was heard */
};

struct head_provided { /* borrowed for the step */
    enum head_provide_op op;
    uint64_t             number;  /* as in the action */
    int                  outcome; /* enum scl_outcome; of LIST anything but SCL_DONE is no listing */
    const char          *handle, *text;
    const void          *listed; /* of LIST: struct scl_listed, so many */
    size_t               count;
};

/* While there is little room nothing new is taken in (jobs, names, groups: EDISK_FULL), and what is there goes on. While there is
 * none, batches wait in the shell, and with them all that depends on them; who asks is refused at once rather than kept waiting. */
enum head_room {
    HEAD_ROOM_ENOUGH = 0, /* for one change of that many bytes */
    HEAD_ROOM_SHORT,
    HEAD_ROOM_NONE,
    HEAD_ROOM_AWAY, /* the store has not been reached for a while: nothing new (EAGAIN), and batches wait as above */
};

#define HEAD_FULL_TEXT "the head's disk is full: make room where its state folder is; nothing new is taken in until then"
#define HEAD_AWAY_TEXT "the head does not reach its store: its log says why; nothing new is taken in until then"

struct head_event {
    enum head_event_kind kind;
    uint64_t             now_ms;  /* monotonic */
    uint64_t             wall_ms; /* for people, and for tickets and certificates: it decides when they end, and nothing else */
    union {                       /* by kind; what is pointed to is borrowed for the step */
        struct {
            uint64_t               number; /* the shell's, never used twice */
            struct head_peer       peer;   /* OPENED, as the rest */
            struct head_beat_terms beats;
            bool                   is_unread; /* UNREAD */
        } stream;                             /* STREAM_OPENED, STREAM_CLOSED, STREAM_UNREAD */
        struct {
            struct head_beat *items; /* the core writes is_taken */
            size_t            count;
        } beats;
        struct {
            uint64_t       stream;
            const uint8_t *bytes; /* a packed NodeToHead */
            size_t         size;
        } message; /* STREAM_MESSAGE */
        struct {
            uint64_t         number; /* the shell's, never used twice */
            enum head_method method;
            uint64_t         token; /* the number of the caller's; 0: the cluster's own, or none was needed */
            const uint8_t   *bytes; /* a packed request */
            size_t           size;
            struct head_peer peer;
            uint64_t         asks; /* HEAD_CERTIFY: a number that only this request has, the same each time it comes */
        } call;
        struct {
            uint64_t number;
        } call_gone;
        struct {
            uint64_t  token;
            mt_status status;
        } stored;
        struct {
            enum head_room is;
            uint64_t       bytes; /* of one change, while there is enough */
        } room;
        struct {
            const char *job;
            uint64_t    size;
        } log_written;
        struct {
            const uint8_t *sha256; /* HEAD_SHA_SIZE bytes */
            uint64_t       size;
        } blob_added;
        struct head_provided provided;
        struct {
            const char *const *addresses; /* this one first; at most MT_HEADS_MAX count */
            uint32_t           count;
        } heads;
    };
};

/* ---- what comes out -------------------------------------------------------------------------------------------- */
enum head_action_kind {                    /* what each is about: the member of that name in struct head_action */
                        HEAD_ACT_SEND = 1, /* to a raylet; nothing where the stream has ended already */
                        HEAD_ACT_CLOSE,    /* end the stream, after what was sent. The core has forgotten it: no CLOSED is needed */
                        HEAD_ACT_REPLY,    /* to a client; nothing where it has left */
                        HEAD_ACT_REFUSE,   /* the request could not be read, or there is no room for a reply */
                        HEAD_ACT_STORE,    /* one atomic batch; answer with HEAD_EV_STORED, batches in order */
                        HEAD_ACT_LOG_APPEND, /* to the job's log file; answer with HEAD_EV_LOG_WRITTEN */
                        HEAD_ACT_LOG_DROP,   /* job: its log file goes */
                        HEAD_ACT_JOB_ENDED,  /* job: followers end when they have sent the whole log */
                        HEAD_ACT_BLOB_DROP,  /* the blob goes */
                        HEAD_ACT_PROVIDE,    /* ask the provider of nodes; answer with HEAD_EV_PROVIDED (OPEN and CLOSE: without) */
                        HEAD_ACT_REVOKED,    /* whoever shows a certificate of that number is refused, and cut off */
                        HEAD_ACT_TOKENS, /* these named tokens are let in from now on, and no others; who has another is cut off */
                        HEAD_ACT_EXIT,   /* end the daemon once everything before this is out; not success: the store has failed */
};

/* The tables of the store. Values are messages of scheduler/head/core/kit/store.proto. */
enum head_table {
    HEAD_TABLE_META = 1,
    HEAD_TABLE_NODES = 2,
    HEAD_TABLE_NAMES = 3,
    HEAD_TABLE_JOBS = 4,
    HEAD_TABLE_GROUPS = 5,
    HEAD_TABLE_SCALE = 6,
    HEAD_TABLE_TICKETS = 7,
    HEAD_TABLE_REVOKED = 8,
    HEAD_TABLE_TOKENS = 9,
    HEAD_TABLE_ACCOUNT = 10
};

struct head_record { /* one change of a batch */
    enum head_table table;
    uint8_t        *key;
    size_t          key_size;
    uint8_t        *value; /* NULL: delete */
    size_t          value_size;
};

struct head_bytes { /* counted, so that one View is packed once for all nodes, and in memory once until the last has it */
    atomic_uint refs;
    size_t      size;
    uint8_t     data[];
};
/* Any thread. NULL is allowed. */
void head_bytes_unref(struct head_bytes *bytes);

struct head_action {
    enum head_action_kind kind;
    union { /* by kind; bytes and records are owned by the action */
        struct {
            uint64_t           stream;
            struct head_bytes *bytes;      /* a packed HeadToNode */
            bool               reads_more; /* who gets it takes several as one */
        } send;
        struct {
            uint64_t stream;
        } close;
        struct {
            uint64_t           call;
            enum head_method   method;
            struct head_bytes *bytes; /* the packed reply of that method */
        } reply;
        struct {
            uint64_t  call;
            mt_status status;
        } refuse;
        struct {
            uint64_t            token;
            struct head_record *records;
            size_t              count;
        } store;
        struct {
            char               job[HEAD_JOB_ID_SIZE];
            uint64_t           offset;
            struct head_bytes *bytes; /* nobody else's */
        } log_append;
        struct {
            char id[HEAD_JOB_ID_SIZE];
        } job; /* LOG_DROP, JOB_ENDED */
        struct {
            uint8_t sha256[HEAD_SHA_SIZE];
        } blob_drop;
        struct {
            enum head_provide_op op;
            uint64_t             number;   /* of the instance; of LIST the listing's */
            uint32_t             limit_ms; /* for the answer */
            struct head_bytes   *line;     /* the request as the provider reads it, without the end of the line; of OPEN the
                                            provider's name stands before it, and a NUL between them. CLOSE: NULL */
            struct head_ticket   ticket;   /* of LAUNCH: signed, it goes with the line; id 0: none is needed */
        } provide;
        struct {
            uint64_t id, until_ms; /* wall clock */
        } revoked;
        struct {
            struct head_token *items;
            size_t             count;
        } tokens;
        struct {
            mt_status status;
        } exit;
    };
};

struct head_actions {
    struct head_action *items; /* to be carried out in order */
    size_t              count;
    size_t              capacity;
    uint64_t            next_ms; /* monotonic: a TICK is due then, at the latest */
};

/* Frees what the actions own and empties the list; the list itself can be used again (zero-initialised at first). */
void head_actions_clear(struct head_actions *actions);
/* The same, and gives the list's memory back. */
void head_actions_fini(struct head_actions *actions);
/* Frees a batch that was taken out of an action (set records = NULL there). */
void head_records_free(struct head_record *records, size_t count);

/* ---- how a head is made, and what it counts ---------------------------------------------------------------------- */
struct head_config {
    char     cluster[HEAD_CLUSTER_SIZE]; /* for a new store; a stored cluster id wins */
    uint64_t seed;                       /* ties between equal nodes are broken by it */
    uint64_t now_ms;
    uint64_t epoch_min;         /* this start's epoch is at least that: the fence of its store; 0: one more than the last */
    uint32_t first_node;        /* number of the first newcomer; 0: 1. Numbers below it are for raylets that ask for them */
    uint64_t grace_ms;          /* 0: MT_HEAD_GRACE_MS */
    uint64_t blob_bytes_max;    /* 0: no bound */
    uint32_t jobs_max;          /* that have not ended; 0: MT_HEAD_JOBS_ACTIVE_MAX */
    uint32_t states_each_round; /* nodes that turn suspect, or are back, of which all are told at a time; 0: by the limits */
    bool     runs_as_root, is_insecure; /* told to who asks */
    uint64_t own_member;                /* for whom the certificate beside the head was made: it can't be revoked */
};

/* What has happened so far, for metrics and for the simulation's proof that each path was taken. */
/* clang-format off */
#define HEAD_COUNTERS(X)                                                                                               \
    X(beat) X(beat_stale) X(beat_late)                                                                                  \
    X(registered) X(reconnected) X(new_epoch) X(register_refused) X(suspect) X(dead) X(pause) X(drained) X(left)        \
    X(looked) X(placed) X(replaced) X(pressed) X(unschedulable)                                                        \
    X(name_put) X(name_exists) X(name_released) X(outcome_hit)                                                         \
    X(job_submitted) X(job_repeat) X(job_started) X(job_resent) X(job_retried) X(job_ended) X(job_deleted)            \
    X(job_fenced) X(job_preempted)                                                                                     \
    X(group_made) X(group_placed) X(group_refused) X(group_lost) X(group_removed) X(group_pressed)                     \
    X(bundle_stale) X(scale_launched) X(scale_drained)                                                                 \
    X(certified) X(renewed) X(ticket_made) X(ticket_refused) X(revoked)                                                \
    X(token_made) X(token_refused)                                                                                     \
    X(no_room) X(log_repeat) X(log_gap) X(log_limit) X(blob_dropped) X(malformed)
/* clang-format on */
struct head_counters {
#define X(name) uint64_t name;
    HEAD_COUNTERS(X)
#undef X
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * message.h - what the libraries of two processes say to each other, carried by CTL_MESSAGE through the raylets.
 *
 * `ctl_message.subject` names the kind. Messages of one process to another arrive in order; one that can't be
 * delivered comes back as CTL_BOUNCE. Every wait for an answer is also bound to a monitor of the other process.
 */
#ifndef OWN_MESSAGE_H
#define OWN_MESSAGE_H

#include "core/wire/ctl.h"

enum own_subject {
    OWN_MSG_WAIT = 1,      /* own_msg_ref, to the owner: tell me the value when it is there */
    OWN_MSG_VALUE = 2,     /* own_msg_value, then bytes: the answer */
    OWN_MSG_BORROW = 3,    /* own_msg_ref, to the owner: that process holds the ref too */
    OWN_MSG_RELEASE = 4,   /* own_msg_ref, to the owner: that process holds it no longer */
    OWN_MSG_WHERE = 5,     /* own_msg_where, to the actor's creator: where does it run? */
    OWN_MSG_AT = 6,        /* own_msg_at: the answer, once it runs again or is dead for good */
    OWN_MSG_END_ACTOR = 7, /* own_msg_where, to the creator: kill it */
    /* 23 is LANE_OUTPUT_SUBJECT (core/wire/output.h) */
    OWN_MSG_CANCEL = 8, /* own_msg_cancel, to the owner of a ref, or to the worker that runs a task */
    OWN_MSG_FREE = 30,  /* own_msg_ref, to the owner: the value is to go now, whoever holds the ref */
    OWN_MSG_TAKE = 11,  /* own_msg_ref, to the owner: that process takes the refs that the value declares */
    OWN_MSG_TAKEN = 12, /* own_msg_ref: the answer: their owners have been told */
    OWN_MSG_LOST = 38,  /* own_msg_lost, to the owner: its place is not to be had; the answer, in its time, is OWN_MSG_VALUE */
    OWN_MSG_PROBE = 33, /* own_msg_probe: to who runs what is waited for, or to the owner of a value */
};

struct own_msg_ref {
    mt_id    id;
    uint64_t process; /* the holder */
    uint32_t node;
    uint32_t reserved;
};

struct own_msg_value {
    struct lane_ref ref; /* its place, where `kind` is OWN_VALUE_PLACE */
    uint32_t        kind;
    uint32_t        size; /* of the bytes that follow: the value, or an own_failure */
};
enum { OWN_VALUE_INLINE = 1, OWN_VALUE_PLACE = 2, OWN_VALUE_FAILURE = 3 };

struct own_msg_lost {
    struct own_msg_ref about;
    struct lane_ref    at;   /* where it was looked for */
    int32_t            code; /* why it could not be had */
    uint32_t           reserved;
    char               text[CTL_TEXT_SIZE];
};

/* Looks for a cycle of waiters (probe.c). */
#define OWN_PROBE_ANY UINT64_MAX
struct own_msg_probe {
    uint64_t sender, number; /* a wait of that process */
    uint64_t newest;         /* process of the wait that began last of those met, ... */
    uint64_t newest_ns;      /* ... and when */
    mt_id    about;          /* the task or call that the receiver is believed to run; to_owner: a value of the receiver's */
    uint64_t items;          /* of a generator: so many have come from it; else OWN_PROBE_ANY */
    uint32_t hops;
    uint32_t to_owner;  /* it is to follow who makes the value */
    char     path[512]; /* who waits for whom, for people */
};

struct own_msg_where {
    mt_id    actor;
    uint32_t incarnation; /* WHERE: at least this one; END_ACTOR: this one */
    uint32_t restart;     /* END_ACTOR */
};

struct own_msg_at {
    mt_id    actor;
    uint32_t state; /* enum own_actor_state */
    uint32_t incarnation;
    uint64_t process;
    uint32_t node;
    int32_t  pid;
    int32_t  status; /* dead: as waitpid gives it */
    uint32_t reserved;
    char     text[CTL_TEXT_SIZE];
};

struct own_msg_cancel {
    mt_id    id;    /* of the ref; with OWN_CANCEL_CHILDREN of the task whose children are meant */
    uint32_t flags; /* OWN_CANCEL_... */
    uint32_t reserved;
};
enum {
    OWN_CANCEL_FORCE = 1,     /* kill the worker that runs it */
    OWN_CANCEL_RECURSIVE = 2, /* what it has submitted as well */
    OWN_CANCEL_CHILDREN = 4,  /* only what it has submitted */
};

/* How a handle of an actor travels: as the bytes of an argument of type 'A'. */
struct own_actor_wire {
    mt_id    id;
    uint64_t type; /* hash of the actor type's name */
    uint32_t owner_node;
    uint32_t options;             /* OWN_ACTOR_... | retries of a call << 8, 0xffffff: without limit */
    uint64_t owner;               /* the process that answers for it; 0: of a detached one, the head knows */
    char     name[CTL_NAME_SIZE]; /* of the type */
};

enum { OWN_CALL_RETRIES_MAX = 0xfffffe };
enum { OWN_ACTOR_ANY_ORDER = 1, OWN_ACTOR_DETACHED = 2 };

#endif

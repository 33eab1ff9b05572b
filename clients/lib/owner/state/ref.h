/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.h - references and what hangs from them: values, failures, waiters.
 *
 * Data only; who may change it is in the rooms above. Thread: as own.h.
 */
#ifndef OWN_STATE_REF_H
#define OWN_STATE_REF_H

#include "clients/lib/owner/state/message.h"
#include "core/base/buf.h"
#include "core/base/machine.h"
#include "core/lane/lane.h"

struct own;
struct own_task;
struct own_class;
struct own_lane;

/* A failure as it travels and as manta_error shows it. */
struct own_failure {
    int32_t  code, user_code, outcome, pid, attempt, signal_number;
    uint32_t node;
    char     function[64];
    char     where[96];
    char     message[512];
    char     backtrace[1536];
    /* Of this process alone. */
    uint32_t                  holds;     /* of one that own_failure_new gave */
    bool                      is_wanted; /* the program has asked for it, by manta_actor_kill: no news to it */
    const struct own_failure *kept;      /* itself: own_failure_new gave it, and can share it; a copy of it differs */
};
enum { OWN_FAILURE_WIRE = offsetof(struct own_failure, holds) }; /* what travels */

/* ---- refs ---- */
enum own_ref_state { OWN_REF_PENDING = 0, OWN_REF_INLINE = 1, OWN_REF_PLACE = 2, OWN_REF_FAILED = 3 };
enum {
    OWN_REF_BORROWED = 1, /* another process owns it */
    OWN_REF_NAMED = 2,    /* in own->refs: other processes know it */
    OWN_REF_ASKED = 4,    /* borrowed: OWN_MSG_WAIT is under way */
    OWN_REF_ESCAPED = 8,  /* its place is known outside: the raylet decides when it is free */
    OWN_REF_HEAP = 16,    /* inline bytes in value.heap */
    OWN_REF_TOLD = 32,    /* borrowed: the owner knows that we hold it */
    OWN_REF_FREED = 128,  /* own_ref_free_now: whoever asks for its value is told so */
    OWN_REF_EXTRA = 64,   /* in own->extras: refs that its value declares, callbacks */
};
/* A value in the store that was lost: lineage/lost.c, again.c. */
enum own_ref_again {
    OWN_AGAIN_NOT = 0,
    OWN_AGAIN_RUNS = 1,   /* its task runs again */
    OWN_AGAIN_MOVED = 2,  /* it is at own_extra.moved now */
    OWN_AGAIN_LOST = 3,   /* for good: own_extra.lost says why */
    OWN_AGAIN_GONE = 4,   /* let go: only tasks that may run again need it, and it can be made again itself */
    OWN_AGAIN_SOUGHT = 5, /* its raylet asks the nodes that have copies; own_extra.lost says what was heard of its loss */
};
enum own_why_not { /* a lost value can't be made again */
                   OWN_WHY_NO_TASK = 0,
                   OWN_WHY_CALL = 1,
                   OWN_WHY_ONCE = 2,
                   OWN_WHY_USED_UP = 3,
                   OWN_WHY_GIVEN_UP = 4,
                   OWN_WHY_ITEM = 5, /* its generator has failed, or its run again has */
};
enum { OWN_SMALL = 56 };

enum own_waits {
    OWN_WAITS_TASK = 1,     /* a task that has the ref as argument */
    OWN_WAITS_PROCESS = 2,  /* another process */
    OWN_WAITS_CALLBACK = 3, /* the user's function */
    OWN_WAITS_FETCH = 4,    /* this process, which wants the value on its node */
};
/* Who wants to know when a ref is ready, or where an actor is. One of a task stands behind its arguments, others are malloc's. */
struct own_waiter {
    struct own_waiter *next;
    enum own_waits     kind;
    union {
        struct own_task *task;
        struct {
            uint64_t process;
            uint32_t node;
        } asker;
        struct {
            void (*fn)(void); /* as the shell knows it */
            void           *user;
            struct own_ref *ref; /* its hold; NULL: of a ref that is gone */
        } callback;
    } of;
};

struct own_ref { /* what a manta_ref names */
    mt_id              id;
    uint32_t           holds;        /* uses in this process; the user's handles, all together, are one of them */
    uint32_t           generation;   /* the upper half of the user's handles: another one when the last of them is freed */
    uint32_t           type : 8;     /* letter of the value */
    uint32_t           handles : 24; /* the user's: OWN_HANDLES_MAX of them are never counted down again */
    uint32_t           flags : 8;
    uint32_t           borrowers : 24; /* entries in own->borrows for it */
    uint8_t            state;          /* enum own_ref_state */
    uint8_t            again : 3;      /* enum own_ref_again */
    uint8_t            is_counted : 1; /* its bytes are in own->kept_bytes */
    uint8_t            why_not : 3;    /* enum own_why_not */
    uint8_t            is_heard : 1;   /* somebody was told of its failure, or is to be; else own_out.unheard is when it goes */
    uint16_t           size;           /* of an inline value */
    uint32_t           kept_by;        /* kept tasks (OWN_KEPT) that have it as an argument */
    struct own_waiter *waiters;
    struct own_task   *task; /* makes it, or may make it again (OWN_KEPT); NULL: none */
    union {
        uint8_t             small[OWN_SMALL];
        uint8_t            *heap;
        struct lane_ref     place; /* of a borrowed one `owner_node`, whatever else there is: own_ref_owner_node */
        struct own_failure *failure;
        struct own_ref     *next_free;
    } value;
};
enum { OWN_HANDLES_MAX = (1 << 24) - 1, OWN_REF_BITS = 28, OWN_REFS_MAX = 1 << OWN_REF_BITS };
enum { OWN_SMALL_BORROWED = offsetof(struct lane_ref, owner_node) }; /* larger inline values of others are in value.heap */
static_assert(sizeof(struct own_ref) == 112, "a queued task has one");

extern const struct mt_machine own_ref_machine, own_again_machine;

/* The steps that every task takes are held against their tables in builds for tests alone (debug, sanitizers, planted bugs), all
 * others in every build. */
#if defined MANTA_PLANTS || defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __OPTIMIZE__
enum { OWN_CHECKS_ALL = 1 };
#else
enum { OWN_CHECKS_ALL = 0 };
#endif

static inline void own_ref_set_state(struct own_ref *ref, enum own_ref_state to)
{
    if (OWN_CHECKS_ALL || (to != OWN_REF_PENDING && to != OWN_REF_INLINE))
        MT_TRANSITION(&own_ref_machine, ref->state, to);
    ref->state = (uint8_t)to;
}
static inline void own_ref_set_again(struct own_ref *ref, enum own_ref_again to)
{
    if (OWN_CHECKS_ALL || to != OWN_AGAIN_NOT)
        MT_TRANSITION(&own_again_machine, ref->again, to);
    ref->again = (uint8_t)(to & 7);
}
static inline bool own_ref_is_ready(const struct own_ref *ref)
{
    return ref->state != OWN_REF_PENDING;
}
/* It was lost, and may come again: nobody knows yet where it will be. */
static inline bool own_ref_is_sought(const struct own_ref *ref)
{
    return ref->again == OWN_AGAIN_RUNS || ref->again == OWN_AGAIN_SOUGHT;
}
/* Ready, and neither lost nor let go since. */
static inline bool own_ref_is_there(const struct own_ref *ref)
{
    return ref->state != OWN_REF_PENDING && !own_ref_is_sought(ref) && ref->again != OWN_AGAIN_GONE;
}
/* Of one with a place: its value is there, neither lost nor let go. */
static inline bool own_ref_has_place(const struct own_ref *ref)
{
    return ref->again == OWN_AGAIN_NOT || ref->again == OWN_AGAIN_MOVED;
}
/* The inline bytes; state is OWN_REF_INLINE. */
static inline const void *own_ref_bytes(const struct own_ref *ref)
{
    return ref->flags & OWN_REF_HEAP ? ref->value.heap : ref->value.small;
}

/* A value is not where it should be: where is it? On the stack of whoever wants to know, or left for who reads next. */
struct own_doubt {
    struct own_doubt  *next;
    mt_id              ref;
    struct own_ref    *mine; /* it is ours, and being made again; NULL: its owner has been asked */
    bool               is_over;
    struct lane_ref    place; /* then: where it is now, or ... */
    struct own_failure why;   /* ... why it is nowhere, if the code is not 0 */
};

/* What only few refs have. */
struct own_extra {
    struct own_extra   *next;     /* in own->gone_extras */
    struct own_ref    **declared; /* each with one hold */
    uint32_t            declared_count;
    bool                is_taken;  /* the declared refs of a borrowed value: its owner knows that we hold them */
    bool                is_asking; /* ... and was asked to */
    struct own_waiter  *on_free;
    struct lane_ref     moved; /* node 0: it was not */
    struct own_failure *lost;  /* AGAIN_LOST: for good; AGAIN_SOUGHT: what who missed it has said; else NULL */
    struct own_doubt   *left;  /* a reader's that gave up, its answer with it; NULL: none */
};

static inline bool own_place_is(const struct lane_ref *a, const struct lane_ref *b)
{
    return a->node == b->node && a->segment == b->segment && a->offset == b->offset && a->generation == b->generation &&
           a->attempt == b->attempt;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * inside.h - what the files of this room share: arguments, the actor's methods, values that a function returns.
 */
#ifndef LIB_RUN_INSIDE_H
#define LIB_RUN_INSIDE_H

#include "clients/lib/shell/run/run.h"

/* ---- arguments.c ---- */
/* What the function holds while it runs, for one argument. */
enum lib_hold_kind {
    LIB_HOLD_PLACE, /* a value in the store, pinned */
    LIB_HOLD_REF,   /* it came as a reference: a handle, the function's own */
    LIB_HOLD_ACTOR,
    LIB_HOLD_VIEW, /* a value that was asked for */
};
struct lib_hold {
    enum lib_hold_kind kind;
    union {
        struct lane_ref place;
        struct {
            mt_id      id;
            manta_ref *handle;
        } ref;
        manta_actor *actor;
        manta_view   view;
    } of;
};
enum { LIB_FEW_ARGUMENTS = 16 };
struct lib_arguments {
    int              count;
    int              hold_count;
    manta_arg       *args;
    struct lib_hold *holds;    /* one more than arguments: an actor's snapshot */
    void            *block;    /* of both; NULL: `few` is enough */
    size_t           end;      /* of the arguments in the payload */
    uint32_t         kept_max; /* manta_ctx.kept_max */
    char             wanted;   /* manta_ctx.wanted */
    bool             is_ahead; /* those that do not stand in the record were asked for, all of them */
    uint32_t         ahead_count;
    struct own_ref **ahead; /* of them those that their owners are asked for, held while arguments are taken; NULL: none */
    manta_arg        few[LIB_FEW_ARGUMENTS];
    struct lib_hold  few_holds[LIB_FEW_ARGUMENTS + 1];
};
static inline void lib_arguments_init(struct lib_arguments *a)
{
    a->count = a->hold_count = 0;
    a->kept_max = a->ahead_count = 0;
    a->is_ahead = false;
    a->block = NULL;
    a->ahead = NULL;
}
bool lib_arguments_take(struct lib_arguments *a, const char *signature, const struct wrk_run *run, manta_error *e);
/* A value in the store as an argument; `type`: what is wanted. */
bool lib_arguments_shared(struct lib_arguments *a, manta_arg *to, char type, const uint8_t *bytes, size_t size, manta_error *e);
/* Under the lock. Writes the ids of refs that the function kept behind the value, at most LIB_KEPT_SIZE bytes; returns how many.
 * NULL: nobody else is to be told. */
size_t lib_arguments_give_back(struct lib_arguments *a, uint8_t *held);

/* ---- actor.c ---- */
manta_status    lib_actor_create(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run);
manta_status    lib_actor_method(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run);
extern uint32_t lib_actor_save_every; /* calls of the actor here; 0: only when a method asks */
/* After a call of the actor here: a snapshot, if one is due. */
void lib_actor_save_if_due(const manta_ctx *c);

/* ---- context.c ---- */
/* What the caller wants back. */
void lib_context_begin(manta_ctx *c, struct wrk_run *run, struct lib_actor *actor);
/* What the events call it. */
void lib_event_name(const struct wrk_run *run, const char *first, const char *second);

/* ---- placed.c: results that a function writes in place ---- */
bool lib_is_placed(const manta_ctx *c, uint32_t index);
/* The function is over: they become its results; or they are given back. */
void lib_placed_end(manta_ctx *c, bool is_ok);

/* ---- slots.c: where results stand until the function is over ---- */
/* Where the head and the bytes of a result stand, and how many bytes fit; NULL without memory. */
uint8_t *lib_result_slot(manta_ctx *c, uint32_t index, size_t *out_room);
/* Whether the function has given it already. */
bool lib_result_is_given(manta_ctx *c, uint32_t index);
/* What it has in the store already goes: another value comes. */
void lib_result_clear(manta_ctx *c, uint32_t index);
/* Its head is written: of one value the context has it. */
void lib_result_note(manta_ctx *c, uint32_t index, const struct lane_value *head);
/* What it has in the store goes, as nobody will hear of it. Under the lock. */
void lib_results_drop(manta_ctx *c);
/* All values of a function with several, behind each other in c->many. ETYPE (and c->failure): one is missing. */
manta_status lib_returned(manta_ctx *c, size_t *out_size);

/* ---- returned.c ---- */
/* Writes one value as `*out` and, behind it, at most `room` bytes: inline, else a place in the store, which is `id`'s. */
manta_status lib_value_make(manta_ctx *c, mt_id id, const manta_arg *from, size_t room, struct lane_value *out, void *bytes);
/* ETYPE: the running function has returned a value of a type that its signature does not name. */
manta_status lib_result_mistyped(manta_ctx *c, char type);
/* The function says that all went well: ETYPE where it has not returned what its signature says. */
manta_status lib_result_check(manta_ctx *c);

#endif

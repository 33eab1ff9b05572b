/* SPDX-License-Identifier: Apache-2.0
 *
 * ref.h - references: made, held, shared with other processes, ready with a value or a failure, lost and made again.
 *
 * Thread: as own.h.
 */
#ifndef OWN_REF_H
#define OWN_REF_H

#include "clients/lib/owner/kit/kit.h"

/* ---- life: ref.c ---- */
/* With one hold. NULL without memory. */
struct own_ref    *own_ref_new(struct own *own, mt_id id);
struct own_ref    *own_ref_failed(struct own *own, const struct own_failure *failure);
static inline void own_ref_hold(struct own_ref *ref)
{
    ref->holds++;
}
/* Gives a hold back. What that ends further is posted: outside of the owner's rooms own_ref_drop does both. */
void own_ref_unhold(struct own *own, struct own_ref *ref);
/* Nobody holds it any more: for who has changed one of the counts. */
void own_ref_unheld(struct own *own, struct own_ref *ref);
void own_refs_drop(struct own *own, struct own_ref **take_refs, uint32_t count);
/* The value goes now, whoever holds the ref; of another's, its owner is told. False: there is none yet. */
bool own_ref_free_now(struct own *own, struct own_ref *ref);
/* The bytes of a value that nobody of this process or of others needs. */
void own_ref_value_free(struct own *own, struct own_ref *ref);
void own_refs_pack(struct own *own); /* own_close, after all tasks; own_reopen; own_fini */
void own_refs_adopt(struct own *own);
void own_refs_fini(struct own *own);

/* ---- the value: value.c ---- */
/* MT_EPROTO: a worker wrote what can't be a value of its type. `bytes` stand behind the head, all value->size of them. */
mt_status own_value_check(const struct lane_value *value, const uint8_t *bytes);
/* The value is there, and all who wait for it are told: tasks and actors among them are posted. `data` is copied. */
void own_ref_set_inline(struct own *own, struct own_ref *ref, uint8_t type, const void *data, uint32_t size);
void own_ref_set_place(struct own *own, struct own_ref *ref, const struct lane_ref *place);
void own_ref_set_failed(struct own *own, struct own_ref *ref, const struct own_failure *failure);
/* Takes `waiter` (another process, a callback; of a pending ref a fetch): answered at once if the value is there, else later. */
void own_ref_add_waiter(struct own *own, struct own_ref *ref, struct own_waiter *waiter);
/* A borrowed ref without value: ask its owner (once). */
void own_ref_ask(struct own *own, struct own_ref *ref);
/* The wire form; from now on other processes know it. */
void own_ref_wire(struct own *own, struct own_ref *ref, struct lane_ref *out);

/* ---- other processes: share.c ---- */
/* A borrowed handle on somebody else's ref (or the ref itself, if it is ours), with one hold. NULL without memory. */
struct own_ref *own_ref_borrow(struct own *own, const struct lane_ref *wire);
void            own_ref_tell(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node);
void            own_borrow_add(struct own *own, struct own_ref *ref, uint64_t process, uint32_t node);
void            own_borrow_remove(struct own *own, mt_id ref, uint64_t process);

/* ---- what only few refs have: extra.c, declare.c ---- */
struct own_extra *own_extra_of(struct own *own, const struct own_ref *ref); /* NULL: nothing */
struct own_extra *own_extra_get(struct own *own, struct own_ref *ref);      /* NULL: no memory */
/* Where the value is, as far as we know; state is OWN_REF_PLACE. Views keep to the place that they have pinned, so the first
 * one stays in value.place. */
const struct lane_ref *own_ref_place(struct own *own, const struct own_ref *ref);
void                   own_ref_moved(struct own *own, struct own_ref *ref, const struct lane_ref *place);
/* `ref` keeps the refs alive; `take_refs` (malloc) with one hold each. */
mt_status own_ref_declare(struct own *own, struct own_ref *ref, struct own_ref **take_refs, uint32_t count);
/* The refs that a place on its way to this process declares, borrowed; an array as own_ref_declare takes it. */
struct own_ref **own_refs_of_wire(struct own *own, const uint8_t *wire, uint32_t count);
/* Asks the owner of a borrowed value to know that we hold the refs which it declares. */
void own_declared_ask(struct own *own, struct own_ref *ref);
void own_declared_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size);
/* The callback is due when the ref is ready, or (on_free) when no process holds it. False: no memory. */
bool own_ref_callback(struct own *own, struct own_ref *ref, bool on_free, void (*fn)(void), void *user);

#endif

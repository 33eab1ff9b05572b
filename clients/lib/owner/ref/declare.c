/* SPDX-License-Identifier: Apache-2.0
 *
 * declare.c - refs that a value declares, and callbacks of a ref.
 *
 * Thread: the caller's, under the owner lock.
 * Always: who holds a value that declares refs holds those too, and their owners know it before the one who gave them
 *         lets go: the worker tells them before its result is published, a value's owner before it answers TAKE.
 */
#include "clients/lib/owner/ref/ref.h"
#include "clients/lib/owner/ref/kept.h"

mt_status own_ref_declare(struct own *own, struct own_ref *ref, struct own_ref **refs, uint32_t count)
{
    struct own_extra *extra = own_extra_get(own, ref);
    if (!extra || extra->declared) {
        own_refs_drop(own, refs, count);
        return extra ? mt_error(MT_EEXIST, 0, "declared refs") : mt_error(MT_ENOMEM, 0, "declared refs");
    }
    extra->declared = refs;
    extra->declared_count = count;
    extra->is_taken = true;
    return mt_ok();
}

mt_status own_lineage_declare(struct own *own, struct own_ref *ref, struct own_ref **refs, uint32_t count)
{
    struct own_extra *extra = ref->again == OWN_AGAIN_RUNS ? own_extra_of(own, ref) : NULL;
    if (ref->again != OWN_AGAIN_RUNS) {
        own_refs_drop(own, refs, count);
        return mt_ok();
    }
    if (extra) {
        struct own_ref **before = extra->declared;
        uint32_t         before_count = extra->declared_count;
        extra->declared = NULL;
        extra->declared_count = 0;
        own_refs_drop(own, before, before_count);
    }
    return own_ref_declare(own, ref, refs, count);
}

struct own_ref **own_refs_of_wire(struct own *own, const uint8_t *wire, uint32_t count)
{
    struct own_ref **refs = malloc((count ? count : 1) * sizeof *refs);
    for (uint32_t i = 0; refs && i < count; i++) {
        struct lane_ref one;
        shm_read(&one, wire + i * sizeof one, sizeof one);
        refs[i] = own_ref_borrow(own, &one);
        if (!refs[i]) {
            own_refs_drop(own, refs, i);
            return NULL;
        }
        if (refs[i]->flags & OWN_REF_BORROWED) {
            refs[i]->flags |= OWN_REF_TOLD;
            own_watch_peer(own, refs[i]->id.process, own_ref_owner_node(own, refs[i]));
        }
    }
    return refs;
}

void own_declared_ask(struct own *own, struct own_ref *ref)
{
    struct own_msg_ref message = {.id = ref->id, .process = own->process, .node = own->node};
    struct own_extra  *extra = own_extra_of(own, ref);
    if (extra->is_taken || extra->is_asking)
        return;
    extra->is_asking = true;
    own_watch_peer(own, ref->id.process, own_ref_owner_node(own, ref));
    own_send_message(own, ref->id.process, own_ref_owner_node(own, ref), OWN_MSG_TAKE, &message, sizeof message, NULL, 0);
}

/* Another process has read a value of ours and takes the refs in it: their owners hear it from us, who hold them. */
static void take(struct own *own, const struct ctl_message *from, struct own_msg_ref *about)
{
    struct own_ref   *ref = mt_map_ptr(&own->refs, about->id);
    struct own_extra *extra = ref ? own_extra_of(own, ref) : NULL;
    for (uint32_t i = 0; extra && i < extra->declared_count; i++)
        if (extra->declared[i]->id.process != from->process)
            own_ref_tell(own, extra->declared[i], from->process, from->node);
    about->process = own->process;
    about->node = own->node;
    own_send_message(own, from->process, from->node, OWN_MSG_TAKEN, about, sizeof *about, NULL, 0);
}

void own_declared_message(struct own *own, const struct ctl_message *from, const uint8_t *bytes, size_t size)
{
    struct own_msg_ref about;
    struct own_ref    *ref;
    struct own_extra  *extra;
    if (size != sizeof about)
        return;
    memcpy(&about, bytes, sizeof about);
    if (from->subject == OWN_MSG_TAKE) {
        take(own, from, &about);
        return;
    }
    ref = mt_map_ptr(&own->refs, about.id);
    extra = ref && ref->id.process == from->process ? own_extra_of(own, ref) : NULL;
    if (extra && extra->is_asking) {
        extra->is_taken = true;
        own->completed++;
    }
}

bool own_ref_callback(struct own *own, struct own_ref *ref, bool on_free, void (*fn)(void), void *user)
{
    struct own_extra  *extra = on_free ? own_extra_get(own, ref) : NULL;
    struct own_waiter *callback = on_free && !extra ? NULL : calloc(1, sizeof *callback);
    if (!callback)
        return false;
    callback->kind = OWN_WAITS_CALLBACK;
    callback->of.callback.fn = fn;
    callback->of.callback.user = user;
    if (on_free) {
        callback->next = extra->on_free;
        extra->on_free = callback;
        return true;
    }
    callback->of.callback.ref = ref;
    own_ref_hold(ref); /* until the callback has returned */
    own_ref_add_waiter(own, ref, callback);
    return true;
}

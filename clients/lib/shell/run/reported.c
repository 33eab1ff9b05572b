/* SPDX-License-Identifier: Apache-2.0
 *
 * reported.c - what a running function reports before it returns: items of a generator, refs that its value declares.
 *
 * Thread: the one that runs it; takes the owner lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"
#include "clients/lib/shell/wait/wait.h"

#include <sched.h>

enum { REFS_PER_RECORD = 256 };

/* ---- room in the ring ---- */

/* Whether the process that called is dead, as far as we know. From the first question on it is watched. */
static bool consumer_is_dead(const manta_ctx *c)
{
    return !mt_map_find(&lib.own.peers, mt_map_key(c->run->lane->owner));
}

/* Under the lock: the ring is full; the consumer's process has a mebibyte to read first, unless it is dead. */
bool lib_outcome_wait(const manta_ctx *c)
{
    own_watch_peer(&lib.own, c->run->lane->owner, c->run->lane->owner_node);
    lib_act();
    lib_unlock();
    sched_yield();
    lib_lock();
    lib_pump();
    if (consumer_is_dead(c))
        wrk_owner_gone(&lib.wrk, c->run);
    return !c->run->lane->is_gone;
}

/* ---- items ---- */

static bool may_yield(void *arg)
{
    manta_ctx *c = arg;
    uint64_t   used = wrk_used(c->run);
    return used == LANE_GONE || c->yielded < used + c->ahead || consumer_is_dead(c);
}

/* Under the lock: until the consumer is near enough. It is watched, so that its death ends the wait. */
static manta_status await_credit(manta_ctx *c)
{
    uint64_t used = wrk_used(c->run);
    if (used != LANE_GONE && c->yielded >= used + c->ahead) {
        own_watch_peer(&lib.own, c->run->lane->owner, c->run->lane->owner_node);
        lib_act();
        lib_wait(may_yield, c, INT64_MAX);
        used = wrk_used(c->run);
    }
    return used == LANE_GONE || c->yielded >= used + c->ahead ? MANTA_ECANCELLED : MANTA_OK;
}

manta_status manta_yield(manta_ctx *c, manta_arg item)
{
    struct lane_value head;
    uint64_t          bytes[(MANTA_INLINE_MAX + 8) / 8];
    char              wanted = c ? lib_result_letter(c->signature, 0) : 0;
    manta_status      code;
    if (!c)
        return MANTA_EINVAL;
    if (!c->ahead)
        return manta_fail(c, 0, "%s was called as a plain function, not by manta_call_stream: it may not yield", c->name),
               MANTA_EINVAL;
    if (!item.type || !strchr("ludbsy", item.type) || (wanted != '*' && wanted != item.type))
        return manta_fail(c, 0, "%s: item %llu is '%c', not '%c' (\"%s\")", c->name, (unsigned long long)c->yielded,
                          item.type ? item.type : '?', wanted, c->signature),
               MANTA_ETYPE;
    code = lib_value_make(c, own_stream_item_id(c->run->record.id, c->yielded), &item, MANTA_INLINE_MAX, &head, bytes);
    if (code)
        return code;
    lib_lock();
    code = await_credit(c);
    memset((uint8_t *)bytes + head.size, 0, (0u - head.size) & 7);
    while (code == MANTA_OK &&
           !wrk_report(&lib.wrk, c->run, LANE_ITEM, c->yielded, &head, sizeof head, bytes, (head.size + 7u) & ~(size_t)7))
        if (wrk_used(c->run) == LANE_GONE || !lib_outcome_wait(c))
            code = MANTA_ECANCELLED;
    if (lib.wrk.out.wake_count || lib.wrk.out.up.size)
        lib_act();
    c->yielded += code == MANTA_OK;
    lib.own.run.items = c->yielded;
    lib_unlock();
    return code;
}

/* ---- declared refs ---- */

/* Under the lock: the caller of the running task holds them from now on, as their owners are told before it hears of the
 * result; their wire forms go ahead of it. */
static manta_status refs_send(manta_ctx *c, const uint8_t *wires, manta_ref *const *refs, size_t count)
{
    const struct wrk_lane *lane = c->run->lane;
    if (c->here) /* the caller is this process */
        return own_task_declares(&lib.own, c->here, wires, count * sizeof(struct lane_ref)).code;
    for (size_t i = 0; i < count; i++)
        if (lib_ref_in(&lib.own, refs[i])->id.process != lane->owner)
            own_ref_tell(&lib.own, lib_ref_in(&lib.own, refs[i]), lane->owner, lane->owner_node);
    lib_act();
    for (size_t i = 0; i < count;) {
        size_t n = count - i < REFS_PER_RECORD ? count - i : REFS_PER_RECORD;
        if (wrk_report(&lib.wrk, c->run, LANE_REFS, 0, wires + i * sizeof(struct lane_ref), n * sizeof(struct lane_ref), NULL, 0))
            i += n;
        else if (!lib_outcome_wait(c))
            return MANTA_ECANCELLED;
    }
    lib_act();
    return MANTA_OK;
}

manta_status manta_return_refs(manta_ctx *c, const void *data, size_t size, manta_ref *const *refs, size_t count)
{
    manta_error     e;
    struct os_place place;
    struct lane_ref wire;
    void           *to;
    size_t          all;
    manta_status    code;
    if (count == 0 || !c)
        return manta_return_bytes(c, data, size);
    if (c->into || c->ahead || c->results > 1 || c->has_value)
        return manta_fail(c, 0, "%s: manta_return_refs gives the only result, once, and not of a generator or in manta_map",
                          c->name),
               MANTA_EINVAL;
    if (c->wanted != 'y' && c->wanted != '*')
        return lib_result_mistyped(c, 'y');
    code = lib_declared_store(data, size, refs, count, &place, &to, &all, &e);
    if (code)
        return manta_fail(c, 0, "%s", e.message), code;
    lib_lock();
    code = lib_declared_check(refs, count, &e);
    if (code) {
        (void)os_client_free(&lib.store, place.segment, place.offset, place.generation).code;
        lib_unlock();
        return manta_fail(c, 0, "%s", e.message), code;
    }
    code = refs_send(c, (uint8_t *)to + lib_declared_offset(size), refs, count);
    lib_unlock();
    os_client_publish(&lib.store, place, to, mt_id_with_index(c->run->record.id, 1), c->run->lane->owner_node, all, 'y', &wire);
    wire.flags |= LANE_REF_DECLARES;
    memcpy(c->bytes + sizeof(struct lane_value), &wire, sizeof wire);
    lib_result_note(c, 0, &(struct lane_value){.type = 'y', .flags = LANE_VALUE_SHARED, .size = sizeof wire});
    return code;
}

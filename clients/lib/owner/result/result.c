/* SPDX-License-Identifier: Apache-2.0
 *
 * result.c - what a task brings back: one value, several, items of a generator, and the refs that a value declares.
 *
 * Owns:   struct own_results, of the few tasks that have more than one plain value.
 * Thread: the caller's, under the owner lock.
 * Always: every ref of a task becomes ready once: all with their values, or all with one error.
 */
#include "clients/lib/owner/result/result.h"
#include "clients/lib/owner/ref/kept.h"

#include "core/base/plant.h"

/* ---- room for them ---- */

static bool more_new(struct own *own, struct own_task *task, struct own_results *r, uint32_t count)
{
    for (; r->count < count; r->count++) {
        struct own_ref *ref = own_ref_new(own, mt_id_with_index(task->id, (uint16_t)(r->count + 1)));
        if (!ref)
            return false;
        ref->task = task;
        r->more[r->count - 1] = ref;
    }
    return true;
}

static struct own_results *results_of(struct own_task *task, uint32_t count)
{
    struct own_results *r = task->results;
    if (!r)
        r = calloc(1, sizeof *r + (count - 1) * sizeof r->more[0]);
    if (r && !task->results)
        r->count = 1;
    return task->results = r;
}

bool own_results_new(struct own *own, struct own_task *task, const struct own_call *call)
{
    struct own_results *r;
    r = results_of(task, call->count > 1 ? call->count : 1);
    if (!r || !more_new(own, task, r, call->count))
        return false;
    for (uint32_t i = 0; i + 1 < r->count; i++) {
        own_ref_hold(r->more[i]); /* the task's own, beside the caller's */
        call->more[i] = r->more[i];
    }
    r->stream = call->stream;
    if (r->stream) {
        own->counter += OWN_STREAM_COUNTERS;
        r->stream->task = task;
        r->stream->id = task->id;
        r->stream->end = task->ref;
        own_ref_hold(task->ref);
    }
    return true;
}

void own_results_drop(struct own *own, struct own_task *task)
{
    struct own_results *r = task->results;
    task->results = NULL;
    for (uint32_t i = 0; i + 1 < r->count; i++) {
        r->more[i]->task = NULL;
        own_ref_unhold(own, r->more[i]);
    }
    own_refs_drop(own, r->declared, r->declared_count);
    if (r->stream)
        own_stream_over(own, r->stream);
    free(r);
}

void own_results_again(struct own *own, struct own_task *task)
{
    own_refs_drop(own, task->results->declared, task->results->declared_count);
    task->results->declared = NULL;
    task->results->declared_count = 0;
    if (task->results->stream)
        own_items_again(task->results->stream);
}

uint32_t own_results_word(const struct own_task *task)
{
    if (task->kind == LANE_CREATE)
        return task->actor->create_options;
    return task->results->stream ? LANE_STREAM | task->results->stream->ahead : task->results->count;
}

static void ref_fail(struct own *own, struct own_ref *ref, const struct own_failure *why)
{
    if (MT_UNLIKELY(own_ref_is_ready(ref)))
        own_lineage_failed(own, ref, why);
    else
        own_ref_set_failed(own, ref, why);
}

void own_task_set_failed(struct own *own, struct own_task *task, const struct own_failure *why)
{
    for (uint32_t i = 0; task->results && i + 1 < task->results->count; i++)
        ref_fail(own, task->results->more[i], why);
    if (task->results && task->results->stream)
        own_items_failed(own, task, why);
    ref_fail(own, task->ref, why);
}

/* ---- they come ---- */

void own_note_held(struct own *own, const struct own_lane *lane, const uint8_t *at, size_t size)
{
    for (; size >= sizeof(mt_id); at += sizeof(mt_id), size -= sizeof(mt_id)) {
        mt_id           id;
        struct own_ref *ref;
        shm_read(&id, at, sizeof id);
        ref = mt_map_ptr(&own->refs, id);
        if (ref && !MT_PLANT(MT_PLANT_HOLD_UNTOLD))
            own_ref_tell(own, ref, lane->worker, lane->node);
    }
}

/* Checks the value at `at`; its bytes, padded, in *out_padded. */
static mt_status value_read(const uint8_t *at, size_t size, struct lane_value *out, size_t *out_padded)
{
    if (size < sizeof *out)
        return mt_error(MT_EPROTO, 0, "a result that is cut short");
    shm_read(out, at, sizeof *out);
    *out_padded = sizeof *out + (((size_t)out->size + 7) & ~(size_t)7);
    if (*out_padded > size)
        return mt_error(MT_EPROTO, 0, "a result that runs past its record");
    return own_value_check(out, at + sizeof *out);
}

static void value_set(struct own *own, const struct own_task *task, struct own_ref *ref, const struct lane_value *value,
                      const uint8_t *bytes)
{
    struct lane_ref place = {.node = 0};
    if (!(value->flags & LANE_VALUE_SHARED) && !own_ref_is_ready(ref)) {
        own_ref_set_inline(own, ref, value->type, bytes, value->size);
        return;
    }
    if (value->flags & LANE_VALUE_SHARED)
        shm_read(&place, bytes, sizeof place);
    place.id = ref->id;
    place.attempt = task->attempt;
    if (MT_UNLIKELY(own_ref_is_ready(ref))) {
        own_lineage_value(own, ref, value, &place);
        return;
    }
    ref->flags |= OWN_REF_ESCAPED;
    own_ref_set_place(own, ref, &place);
}

/* The refs that LANE_REFS announced are the first value's. */
static mt_status declare(struct own *own, struct own_task *task)
{
    struct own_results *r = task->results;
    struct own_ref    **refs = r->declared;
    uint32_t            count = r->declared_count;
    r->declared = NULL;
    r->declared_count = 0;
    if (count && task->ref->again)
        return own_lineage_declare(own, task->ref, refs, count);
    return count ? own_ref_declare(own, task->ref, refs, count) : mt_ok();
}

mt_status own_task_set_values(struct own *own, struct own_lane *lane, struct own_task *task, const uint8_t *payload, size_t size)
{
    struct lane_value value = {.type = 'v'};
    size_t            padded = 0, at = 0;
    uint32_t          count = task->results ? task->results->count : 1;
    MT_TRY(size ? value_read(payload, size, &value, &padded) : mt_ok());
    for (uint32_t i = 1; i < count; i++) { /* all are good before one is set */
        at += padded;
        MT_TRY(value_read(payload + at, size - at, &value, &padded));
    }
    at += padded;
    own_note_held(own, lane, payload + at, size - at);
    if (MT_LIKELY(!task->results)) {
        value_set(own, task, task->ref, &value, payload + sizeof value);
        return mt_ok();
    }
    if (declare(own, task).code) {
        struct own_failure f;
        own_failure_set(&f, MT_ENOMEM, "%s: no memory for the refs that its result declares", task->name);
        own_task_set_failed(own, task, &f);
        return mt_ok();
    }
    for (uint32_t i = 0, from = 0; i < count; i++, from += (uint32_t)padded) {
        value = (struct lane_value){.type = 'v'};
        if (size)
            MT_TRY(value_read(payload + from, size - from, &value, &padded));
        value_set(own, task, i ? task->results->more[i - 1] : task->ref, &value, payload + from + sizeof value);
    }
    return mt_ok();
}

void own_task_drop_values(struct own *own, const struct own_lane *lane, const struct own_task *task, const uint8_t *payload,
                          size_t size)
{
    uint32_t count = task->results ? task->results->count : 1;
    for (uint32_t i = 0; i < count && size; i++) {
        struct lane_value value;
        struct lane_ref   place;
        size_t            padded;
        if (value_read(payload, size, &value, &padded).code)
            return;
        if (value.flags & LANE_VALUE_SHARED && own->free_place) {
            shm_read(&place, payload + sizeof value, sizeof place);
            own->free_place(own, &place, true);
        }
        payload += padded;
        size -= padded;
    }
    own_note_held(own, lane, payload, size);
}

mt_status own_task_declares(struct own *own, struct own_task *task, const uint8_t *payload, size_t size)
{
    uint32_t            count = (uint32_t)(size / sizeof(struct lane_ref));
    struct own_results *r = size % sizeof(struct lane_ref) == 0 ? results_of(task, 1) : NULL;
    struct own_ref    **refs, **all;
    if (size % sizeof(struct lane_ref))
        return mt_error(MT_EPROTO, 0, "declared refs that are cut short");
    refs = r ? own_refs_of_wire(own, payload, count) : NULL;
    all = refs ? realloc(r->declared, (r->declared_count + (size_t)count) * sizeof *all) : NULL;
    if (!all) {
        own_refs_drop(own, refs, refs ? count : 0);
        return mt_error(MT_ENOMEM, 0, "refs that a result declares");
    }
    memcpy(all + r->declared_count, refs, count * sizeof *all);
    free(refs);
    r->declared = all;
    r->declared_count += count;
    return mt_ok();
}

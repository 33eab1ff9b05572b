/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - one claimed task or call, from its record to its outcome.
 *
 * Owns:   nothing. Thread: the one that runs it; user code runs here, without the owner lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>

static manta_status run_task(manta_ctx *c, struct lib_arguments *a, const struct wrk_run *run)
{
    manta_entry *entry = lib_entry_of_hash(run->record.aux);
    if (!entry)
        return manta_fail(c, 0, "no such remote function in this executable"), MANTA_ENOFUNC;
    c->name = entry->name;
    lib_event_name(run, entry->name, NULL);
    c->signature = entry->signature;
    if (!lib_arguments_take(a, entry->signature, run, &c->failure))
        return c->has_failed = true, c->failure.code;
    c->wanted = a->wanted;
    c->kept_max = a->kept_max;
    return entry->run(c, a->count, a->args);
}

/* A timeout needs the helper, to end a function that does not look at manta_is_cancelled. Under the lock. */
static void limits_begin(manta_ctx *c, const struct wrk_run *run, uint64_t now)
{
    c->deadline_ns = 0;
    memset(&c->limits, 0, sizeof c->limits);
    if (MT_LIKELY(!(run->record.flags & LANE_TASK_LIMITED)) || run->size < sizeof c->limits)
        return;
    memcpy(&c->limits, run->payload + run->size - sizeof c->limits, sizeof c->limits);
    if (!c->limits.timeout_ms)
        return;
    c->deadline_ns = (int64_t)now + (int64_t)c->limits.timeout_ms * 1000000;
    lib_helper_start();
    shm_add32(&lib.park->bell, 1); /* it may sleep for longer */
    shm_futex_wake(&lib.park->bell, INT32_MAX);
}

/* Whether this worker has run the function as often as it may. Without memory to count: now. */
static bool is_worn_out(uint64_t function, uint32_t max_calls)
{
    static MT_VEC(struct calls {
        uint64_t function;
        uint32_t count;
    }) counts;
    struct calls first = {function, 1};
    for (size_t i = 0; i < counts.count; i++)
        if (counts.data[i].function == function)
            return ++counts.data[i].count >= max_calls;
    return mt_vec_push(&counts, first).code || max_calls <= 1;
}

/* No more tasks for this process: its lanes are given back, and it leaves when it has nothing under way of its own. */
static void retire(void)
{
    struct ctl_reply bye = {.text = "it has run max_calls tasks"};
    if (lib.is_retiring)
        return;
    lib.is_retiring = true;
    own_send(&lib.own, CTL_SHUTDOWN, own_id_next(&lib.own), &bye, sizeof bye);
    lib_act(); /* before CTL_DRAINED: it is not to be leased again */
    wrk_retire(&lib.wrk);
}

/* User code, without the lock. */
static manta_status run_user(manta_ctx *c, struct lib_arguments *a, struct wrk_run *run)
{
    manta_status code;
    if (MT_UNLIKELY(c->ahead && c->here))
        return manta_fail(c, 0, "MANTA_INLINE=1 runs no generators"), MANTA_EUNSUPPORTED;
    if (run->record.kind == LANE_TASK)
        code = run_task(c, a, run);
    else if (run->record.kind == LANE_CALL)
        code = lib_actor_method(c, a, run);
    else
        code = lib_actor_create(c, a, run);
    lib_fork_check();
    return code;
}

/* Whether the task would be tried again: read by the raylet when the node is short of memory. */
static inline void note_once(const struct wrk_run *run)
{
    bool is_once = run->record.kind == LANE_TASK && run->record.flags & LANE_TASK_ONCE;
    if (MT_UNLIKELY(is_once != lib.runs_once))
        shm_store32(&lib.park->runs_once, lib.runs_once = is_once);
}

/* Writes the head of the value that the function has returned, or of none, before its bytes; returns the bytes of both. */
static inline size_t value_head(manta_ctx *c)
{
    struct lane_value value = {.type = 'v'};
    if (c->has_value)
        value = (struct lane_value){.type = (uint8_t)c->type, .flags = c->flags, .size = c->size};
    memcpy(c->bytes, &value, sizeof value);
    return sizeof value + ((value.size + 7u) & ~7u);
}

/* Takes the arguments, runs the function and says what comes of it; without the lock. `outside`: the context of this thread
 * afterwards. *now: when the function was back. */
static inline void run_out(manta_ctx *c, struct lib_arguments *a, struct wrk_run *run, manta_ctx *outside, uint64_t *now,
                           struct lib_outcome *out)
{
    manta_status code;
    lib_arguments_init(a);
    code = run_user(c, a, run);
    lib_running = outside;
    if (MT_UNLIKELY(c->placed != NULL))
        lib_placed_end(c, code == MANTA_OK);
    if (MT_LIKELY(code == MANTA_OK))
        code = lib_result_check(c);
    if (MT_UNLIKELY(run->record.kind == LANE_CALL && !c->here && (lib_actor_save_every || c->wants_save)))
        lib_actor_save_if_due(c);
    *now = lib_now_ns();
    if (MT_UNLIKELY(c->deadline_ns) && (int64_t)*now >= c->deadline_ns) {
        lib_fail_timed_out(c);
        code = MANTA_ETIMEDOUT;
    }
    out->payload = c->bytes;
    if (MT_UNLIKELY(c->results > 1) && code == MANTA_OK && (code = lib_returned(c, &out->size)) == MANTA_OK)
        out->payload = c->many;
    else if (code == MANTA_OK)
        out->size = value_head(c);
    out->context = c;
    out->code = code;
    out->flags = code ? LANE_DONE_ERROR : 0;
    out->user_code = code ? c->failure.user_code : 0;
    if (MT_LIKELY(code == MANTA_OK))
        return;
    lib_lock();
    lib_results_drop(c);
    lib_unlock();
    out->size = lib_failure_payload(c, code, c->bytes, sizeof c->bytes);
}

uint64_t lib_run(manta_ctx *c, struct wrk_run *run, struct wrk_call *call, uint64_t *now)
{
    struct lib_arguments a;
    struct lib_outcome   out;
    uint64_t             begin = *now, took, event;

    lib_context_begin(c, run, &lib_actor_here);
    if (MT_UNLIKELY(run->record.aux != lib.named.function) && begin >= lib.named.until_ns && !call)
        lib_name_process(run, begin);
    note_once(run);
    if (!call) { /* the run that timeouts and cancels look at; threads beside each other have none */
        limits_begin(c, run, begin);
        lib.running = c;
        own_run_begin(&lib.own, run->record.id);
    } else {
        c->deadline_ns = 0;
        memset(&c->limits, 0, sizeof c->limits);
    }
    lib.begun++;
    event = lane_event_begin(&lib.events, &run->record, run->lane->owner_node, begin);
    lib_unlock();
    lib_running = c;
    run_out(c, &a, run, NULL, now, &out);
    lib_lock();
    lane_event_end(&lib.events, event, out.code, *now);
    if (!call) {
        lib.running = NULL;
        own_run_end(&lib.own);
    }
    if (a.hold_count || a.block) {
        size_t held_size = lib_arguments_give_back(&a, out.payload + out.size);
        out.size += held_size;
        if (out.code != MANTA_OK)
            memcpy(out.payload + offsetof(struct lane_failure, held_size), &(uint32_t){(uint32_t)held_size}, sizeof(uint32_t));
    }
    took = *now - begin;
    while (call ? !wrk_call_done(&lib.wrk, call, out.flags, out.code, out.user_code, out.payload, out.size, *now, took)
                : !wrk_done(&lib.wrk, out.flags, out.code, out.user_code, out.payload, out.size, *now, took))
        (void)lib_outcome_wait(c); /* a dead owner's outcome is dropped */
    if (MT_UNLIKELY(c->limits.max_calls) && is_worn_out(run->record.aux, c->limits.max_calls))
        retire();
    return took;
}

/* ---- in the process that has submitted it ---- */

static void no_memory(struct lib_outcome *out)
{
    struct lane_failure head = {.pid = (int32_t)getpid(), .node = lib.own.node};
    *out = (struct lib_outcome){.code = MANTA_ENOMEM, .flags = LANE_DONE_ERROR, .payload = out->failure};
    memcpy(out->failure, &head, sizeof head);
    out->size = sizeof head + (size_t)snprintf((char *)out->failure + sizeof head, sizeof out->failure - sizeof head,
                                               "no memory to run it in the process that has submitted it; it has not begun");
}

void lib_run_here(struct wrk_run *run, struct own_task *task, struct lib_actor *actor, struct lib_outcome *out)
{
    manta_ctx           *c = calloc(1, sizeof *c), *outer = lib.running, *outer_running = lib_running;
    struct lib_arguments a;
    uint64_t             now;
    if (!c) {
        no_memory(out);
        return;
    }
    lib_context_begin(c, run, actor);
    c->here = task;
    lib_lock();
    limits_begin(c, run, lib_now_ns());
    lib.running = c;
    lib_unlock();
    lib_running = outer_running ? c : NULL;
    run_out(c, &a, run, outer_running, &now, out);
    lib_lock();
    lib.running = outer;
    (void)lib_arguments_give_back(&a, NULL); /* what it keeps is kept by this process, whose own arguments say so */
    lib_unlock();
}

void lib_outcome_free(struct lib_outcome *out)
{
    if (!out->context)
        return;
    free(out->context->many);
    free(out->context);
}

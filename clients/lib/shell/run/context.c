/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c - a context is filled for a run; how its events call it.
 *
 * Owns:   nothing. Thread: the one that runs it.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"

/* What the events call it. */
void lib_event_name(const struct wrk_run *run, const char *first, const char *second)
{
    if (MT_LIKELY(lane_event_is_named(&lib.events, run->record.aux)))
        return;
    lib_lock();
    lane_event_name(&lib.events, run->record.aux, first, second);
    lib_unlock();
}

/* What the caller wants back. */
void lib_context_begin(manta_ctx *c, struct wrk_run *run, struct lib_actor *actor)
{
    struct lane_call_head head = {0};
    if (run->size >= sizeof head && run->record.kind != LANE_CREATE)
        memcpy(&head, run->payload, sizeof head);
    c->run = run;
    c->actor = actor;
    c->here = NULL;
    c->has_failed = c->has_value = c->is_waiting = c->wants_exit = c->wants_save = false;
    c->name = c->signature = NULL;
    c->wanted = '*';
    c->is_mistyped = false;
    c->yielded = 0;
    c->kept_max = 0;
    c->ahead = head.results & LANE_STREAM ? head.results & (LANE_STREAM - 1) : 0;
    c->into = c->ahead ? c : NULL; /* of a generator: a value that is returned takes the long way, which refuses it */
    c->results = c->ahead || head.results > LANE_RESULTS_MAX || !head.results ? 1 : head.results;
}

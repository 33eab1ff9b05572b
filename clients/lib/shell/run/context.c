/* SPDX-License-Identifier: Apache-2.0
 *
 * context.c - a context is filled for a run; how its events call it.
 *
 * Owns:   nothing. Thread: the one that runs it.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/run/inside.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"

#include <sys/prctl.h>

/* What the events call it. */
void lib_event_name(const struct wrk_run *run, const char *first, const char *second)
{
    if (MT_LIKELY(lane_event_is_named(&lib.events, run->record.aux)))
        return;
    lib_lock();
    lane_event_name(&lib.events, run->record.aux, first, second);
    lib_unlock();
}

enum { JOBS_SHOWN = 100000 }; /* numbers beyond are those of private clusters, which have one job, and fill the name */

/* A name for each thread that is made from now on, too. */
void lib_name_process(const struct wrk_run *run, uint64_t now)
{
    bool                    is_actor = run->record.kind != LANE_TASK;
    const manta_entry      *entry = is_actor ? NULL : lib_entry_of_hash(run->record.aux);
    const manta_actor_type *type = is_actor ? lib_actor_type_of_hash(run->record.aux) : NULL;
    const char             *name = entry ? entry->name : type ? type->name : "-";
    char                    text[64]; /* the kernel shows 15 letters of it */
    lib.named.function = run->record.aux;
    lib.named.until_ns = is_actor ? UINT64_MAX : now + MT_LIB_NAMED_NS;
    if (lib.own.job < JOBS_SHOWN)
        (void)snprintf(text, sizeof text, "w%u:%.15s", lib.own.job, name);
    else
        (void)snprintf(text, sizeof text, "w:%.15s", name);
    (void)prctl(PR_SET_NAME, text);
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
    c->placed = NULL;
    c->ahead = head.results & LANE_STREAM ? head.results & (LANE_STREAM - 1) : 0;
    c->into = c->ahead ? c : NULL; /* of a generator: a value that is returned takes the long way, which refuses it */
    c->results = c->ahead || head.results > LANE_RESULTS_MAX || !head.results ? 1 : head.results;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * here.c - a process runs a task that it has submitted itself: a driver with MANTA_INLINE=1, and a worker whose task
 * waits for one of its own while the node has no CPU free, or as many waiting workers as it may have (docs/design/leases.md).
 *
 * Owns:   struct lib_here, the lane that such a task is "on", of which only claims and the marks of cancelled tasks are used.
 * Thread: the one that runs the process's tasks; under the owner lock, which is released around user code.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/here/lane.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/run/run.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

void lib_here_init(struct lib_here *h, void *memory)
{
    memset(h, 0, sizeof *h);
    h->owner_end.memory = h->worker_end.memory = memory;
    h->owner_end.claims = h->worker_end.claims = lane_claims_of(memory);
    h->owner_end.peer = h->worker_end.peer = lib.park;
    h->owner_end.worker = h->worker_end.owner = lib.own.process;
    h->owner_end.node = h->worker_end.owner_node = lib.own.node;
}

void lib_here_begin(struct lib_here *h, struct own_task *task, struct wrk_run *out)
{
    uint64_t sequence = ++h->sequence;
    *out = (struct wrk_run){.lane = &h->worker_end, .payload = task->blob, .size = task->blob_size};
    out->record = (struct lane_record){.length = LANE_RECORD_SIZE,
                                       .kind = task->kind,
                                       .sequence = sequence,
                                       .id = task->id,
                                       .flags = task->is_limited ? LANE_TASK_LIMITED : 0,
                                       .attempt = task->attempt,
                                       .slot = (uint32_t)(sequence & (LANE_SLOTS - 1)),
                                       .trace = task->submitted_ns,
                                       .aux = task->function};
    own_task_set_state(task, OWN_SENT);
    task->lane = &h->owner_end;
    task->sequence = sequence;
    lane_claim_set(&h->owner_end.claims[out->record.slot], sequence, task->attempt);
    lane_claim_take(&h->owner_end.claims[out->record.slot], sequence, task->attempt, LANE_RUNNING);
}

void lib_here_end(struct lib_here *h, struct own_task *task, struct wrk_run *run, struct lib_outcome *out)
{
    task->lane = NULL;
    lane_cancel_set(lane_header_of(h->owner_end.memory), run->record.slot, false);
    lane_claim_clear(&h->owner_end.claims[run->record.slot]);
    run->record.kind = LANE_DONE;
    run->record.flags = out->flags;
    run->record.aux = (uint32_t)out->code | (uint64_t)(uint32_t)out->user_code << 32;
    (void)own_task_outcome(&lib.own, &h->owner_end, task, &run->record, out->payload, out->size).code;
    lib_outcome_free(out);
}

/* ---- a task that waits ---- */

void lib_here_stack(void)
{
    struct rlimit limit = {0};
    lib.stack_base = __builtin_frame_address(0);
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        limit.rlim_cur = MT_LIB_HERE_STACK_BYTES;
    lib.stack_bytes = limit.rlim_cur / 100 * MT_LIB_HERE_STACK_PERCENT;
}

static bool has_stack(void)
{
    const char *now = __builtin_frame_address(0);
    return (size_t)(lib.stack_base > now ? lib.stack_base - now : now - lib.stack_base) < lib.stack_bytes;
}

static struct own_task *find(const struct own_ref *ref)
{
    uint32_t crowd = lib.switch_park ? shm_load32(&lib.switch_park->crowd) : LANE_CROWD_NONE;
    if (MT_LIKELY(crowd == LANE_CROWD_NONE) || !lib_running || lib.wrk.group_count || lib.is_actors_lease || !lib.lease_cpu_milli ||
        !has_stack())
        return NULL;
    if (crowd != LANE_CROWD_FULL && lib_running->is_waiting)
        return NULL; /* its CPU is lent, and will come back to one of its children */
    if (crowd == LANE_CROWD_BUSY && lib_running->run->record.attempt > 0)
        return NULL; /* what a child's crash took along waits beside its children: then it can be told of the crash */
    if (lib_running->deadline_ns || !lib_may_wait())
        return NULL; /* no task may outlive the limit of another one */
    return own_here_find(&lib.own, ref, lib.lease_cpu_milli);
}

bool lib_here_may_run(const struct own_ref *ref)
{
    return find(ref) != NULL;
}

/* Made at its first use: few workers ever need it. */
static struct lib_here *here(void)
{
    void *memory;
    if (lib.here)
        return lib.here;
    memory = mmap(NULL, LANE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !(lib.here = calloc(1, sizeof *lib.here))) {
        if (memory != MAP_FAILED)
            munmap(memory, LANE_BYTES);
        return NULL;
    }
    lib_here_init(lib.here, memory);
    return lib.here;
}

bool lib_here_run(struct own_ref *ref)
{
    struct own_task     *task = find(ref);
    struct lib_here     *h = task ? here() : NULL;
    struct own_outer_run outer;
    struct lib_outcome   out;
    struct wrk_run       run;
    uint64_t             event;
    if (!h || !own_here_take(task))
        return false;
    lib_here_begin(h, task, &run);
    own_run_begin_inside(&lib.own, task->id, &outer);
    event = lane_event_begin(&lib.events, &run.record, lib.own.node, lib_now_ns());
    wrk_flush(&lib.wrk);
    own_flush(&lib.own);
    lib_act();
    lib_unlock();
    lib_run_here(&run, task, NULL, &out);
    lib_lock();
    lane_event_end(&lib.events, event, out.code, lib_now_ns());
    own_run_end_inside(&lib.own);
    lib_here_end(h, task, &run, &out);
    lib_act();
    return true;
}

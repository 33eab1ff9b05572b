/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.c - waiters that wait for each other: found by probes along the edges of who waits for whom.
 *
 * Owns:   nothing; own->wait is on the stack of the thread that waits.
 * Thread: the caller's, under the owner lock.
 *
 * A worker whose one thread waits for a value sends, each second, a probe towards whoever is to make it: the process that
 * runs the task, or the owner of a value that is not ours; a task that waits for its arguments is followed through each of
 * them. A process that gets one and waits itself hands it on along its own wait. A probe that comes back to its sender,
 * which still waits for the same value, has gone round a cycle in which nobody can move: each edge stood when it was
 * crossed, and stands until the next one falls (Chandy, Misra and Haas 1983, the AND model). Whether an edge stands, only
 * the process at its head knows: what it has answered may still be on its way. So a probe names the task it follows, and
 * goes on only where that task has not ended. The waiter that began last gets MT_EDEADLK; who is last is carried along, so
 * exactly one finds itself to be it.
 */
#include "clients/lib/owner/talk/talk.h"
#include "core/base/limits/lib.h"

#include <stdio.h>

enum { FOLLOWED_MAX = 64 }; /* tasks that wait for arguments, in one process, of one probe */

struct chase {
    struct own          *own;
    struct own_msg_probe probe;
    uint32_t             followed;
};

static void chase_ref(struct chase *c, struct own_ref *ref);

static void append(struct own_msg_probe *probe, const char *name, int32_t pid, uint32_t node)
{
    size_t used = strnlen(probe->path, sizeof probe->path);
    snprintf(probe->path + used, sizeof probe->path - used, "%s%s (pid %d, node %u)", used ? " waits for " : "", name, pid, node);
}

/* Our own wait goes into the chain, and is followed. */
static void go_on(struct chase *c)
{
    struct own_wait *wait = c->own->wait;
    append(&c->probe, wait->name ? wait->name : "a task", c->own->pid, c->own->node);
    if (wait->since_ns > c->probe.newest_ns || (wait->since_ns == c->probe.newest_ns && c->own->process > c->probe.newest)) {
        c->probe.newest_ns = wait->since_ns;
        c->probe.newest = c->own->process;
    }
    c->probe.hops++;
    chase_ref(c, wait->ref);
}

static bool is_run(const struct own_run *run, const struct own_msg_probe *probe)
{
    return mt_id_equal(run->id, probe->about) && (probe->items == OWN_PROBE_ANY || probe->items == run->items);
}

/* Whether what the probe follows can't end before the wait of this process does: it is what waits, or a call behind that.
 * Not a task behind it, which goes back to its owner, and not a generator with items on their way. */
static bool is_held_up(const struct own *own, const struct own_msg_probe *probe)
{
    if (is_run(&own->run, probe))
        return true;
    for (const struct own_outer_run *outer = own->outer_runs; outer; outer = outer->outer)
        if (is_run(&outer->run, probe))
            return true;
    return own->wrk && own->call_stands(own->wrk, probe->about);
}

/* The probe has reached the process that is to run something awaited. */
static void arrive(struct chase *c)
{
    struct own_wait *wait = c->own->wait;
    if (!wait || own_ref_is_ready(wait->ref) || c->probe.hops >= MT_PROBE_HOPS_MAX || !is_held_up(c->own, &c->probe))
        return;
    if (c->probe.sender != c->own->process) {
        go_on(c);
    } else if (c->probe.number == wait->number && c->probe.newest == c->own->process && !wait->is_deadlocked) {
        wait->is_deadlocked = true;
        own_failure_set(&wait->failure, MT_EDEADLK, "this wait can never end: %s waits for itself", c->probe.path);
    }
}

static void to_worker(struct chase *c, const struct own_lane *lane, const struct own_task *task)
{
    const struct own_stream *stream = task->results ? task->results->stream : NULL;
    c->probe.about = task->id;
    c->probe.items = stream ? stream->arrived : OWN_PROBE_ANY;
    c->probe.to_owner = false;
    if (lane->worker == c->own->process)
        arrive(c);
    else
        own_send_message(c->own, lane->worker, lane->node, OWN_MSG_PROBE, &c->probe, sizeof c->probe, NULL, 0);
}

static void to_owner(struct chase *c, const struct own_ref *ref)
{
    c->probe.about = ref->id;
    c->probe.to_owner = true;
    own_send_message(c->own, ref->id.process, own_ref_owner_node(c->own, ref), OWN_MSG_PROBE, &c->probe, sizeof c->probe, NULL, 0);
}

/* The call of that lane that is to run next, or runs: all others wait for it. NULL: none is under way. */
static const struct own_task *first_call(const struct own_lane *lane)
{
    const struct own_task *first = NULL;
    for (uint32_t slot = 0; lane && slot < LANE_SLOTS; slot++)
        if (lane->tasks[slot] && (!first || lane->tasks[slot]->sequence < first->sequence))
            first = lane->tasks[slot];
    return first;
}

static void chase_task(struct chase *c, const struct own_task *task)
{
    const struct own_task *first = task->actor ? first_call(task->actor->lane) : NULL;
    if (task->state == OWN_WAITING) {
        for (uint32_t i = 0; i < task->arg_count && task->args && c->followed < FOLLOWED_MAX; i++)
            if (task->args[i].ref && task->args[i].type != 'r' && !own_ref_is_ready(task->args[i].ref)) {
                c->followed++;
                chase_ref(c, task->args[i].ref);
            }
    } else if (first) {
        to_worker(c, task->actor->lane, first);
    } else if (task->state == OWN_SENT && !task->actor && task->lane->worker) {
        to_worker(c, task->lane, task);
    } /* else it waits for a lease: others may still free one */
}

static void chase_ref(struct chase *c, struct own_ref *ref)
{
    if (own_ref_is_ready(ref))
        return;
    if (ref->flags & OWN_REF_BORROWED)
        to_owner(c, ref);
    else if (ref->task)
        chase_task(c, ref->task);
}

void own_probe_tick(struct own *own)
{
    struct own_wait *wait = own->wait;
    struct chase     c = {.own = own};
    if (!wait || own->now_ns - wait->probed_ns < MT_DEADLOCK_PROBE_MS * UINT64_C(1000000))
        return;
    wait->probed_ns = own->now_ns;
    c.probe.sender = own->process;
    c.probe.number = wait->number;
    go_on(&c);
}

void own_probe_came(struct own *own, const uint8_t *bytes, size_t size)
{
    struct chase c = {.own = own};
    if (size != sizeof c.probe)
        return;
    memcpy(&c.probe, bytes, sizeof c.probe);
    c.probe.path[sizeof c.probe.path - 1] = 0;
    if (!c.probe.to_owner) {
        arrive(&c);
        return;
    }
    struct own_ref *ref = mt_map_ptr(&own->refs, c.probe.about);
    if (ref && !(ref->flags & OWN_REF_BORROWED))
        chase_ref(&c, ref);
}

void own_wait_begin(struct own *own, struct own_wait *wait, struct own_ref *ref, const char *name)
{
    wait->outer = own->wait;
    wait->ref = ref;
    wait->name = name;
    wait->is_deadlocked = false;
    wait->since_ns = wait->probed_ns = own->now_ns;
    wait->number = ++own->wait_count;
    own->wait = wait;
}

void own_wait_end(struct own *own, const struct own_wait *wait)
{
    own->wait = wait->outer;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c - nodes that are to leave: asked for by a client, or by a signal, at any moment and with any other fault.
 *
 * I15  what was acknowledged stands: the head never again counts that node, in that epoch, as alive; a raylet ends only when
 *      nothing runs there any more, or its limit has passed; one whose machine goes has ended what is there by then,
 *      however long it might have taken by an earlier word; between two heads a first signal lets it wait for the next one;
 *      what was stopped at the limit and may run again does (oracle.c)
 * I18  a node that leaves before its limit has no value whose owner lives on another node and looks for it here, unless no
 *      other node could take it
 *
 * Owns: struct sim_drains. Thread: one.
 */
#include "tests/sim/load/drain.h"

#include "tests/sim/load/job.h"

#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"
#include "tests/sim/shells/node.h"
#include "tests/sim/shells/proc.h"
#include "tests/sim/shells/store.h"

#include <stdlib.h>

enum { DRAIN_ASK_AGAIN_MS = 700, DRAIN_CALLS = 0x40000000 /* numbers of our calls lie above: those of jobs lie below */ };

struct sim_drains {
    mt_map epochs; /* node << 32 | epoch: acknowledged, it is to leave */
    struct {
        uint64_t call;   /* under way; 0: none */
        uint64_t serial; /* of the raylet that the client means */
        uint64_t limit_ms;
        uint32_t node, epoch;
    } asked; /* last; its answer may come after other nodes were told by signals */
    uint64_t next_call;
    uint32_t left;    /* how many more */
    uint32_t notices; /* how many more of these */
    mt_rng   rng;     /* its own: a seed without drains is the run that it was */
    mt_rng   notice_rng;
};

static void next_drain(struct sim *s, struct sim_event *e);
static void next_notice(struct sim *s, struct sim_event *e);
static void stop_last_try(struct sim *s, struct sim_event *e);

static uint64_t between(struct sim *s, uint64_t low, uint64_t high)
{
    return low + mt_rng_below(&s->drains->rng, high - low + 1);
}

static uint64_t notice_between(struct sim *s, uint64_t low, uint64_t high)
{
    return low + mt_rng_below(&s->drains->notice_rng, high - low + 1);
}

static void look(struct sim *s, struct sim_event *e)
{
    (void)e;
    sim_values_check_adopted(s);
    sim_after(s, 500 * SIM_MS, "look at adopted values", look, 0);
}

void sim_drains_start(struct sim *s)
{
    struct sim_drains *d = s->drains = sim_alloc(sizeof *d);
    d->rng.state = s->config.seed ^ 0xd7a1;
    if (!s->config.has_head || s->config.nodes < 2 || between(s, 0, 99) >= 50)
        return;
    d->left = (uint32_t)between(s, 2, 8);
    sim_after(s, between(s, 200, 4000) * SIM_MS, "drain", next_drain, 0);
    d->notice_rng.state = s->config.seed ^ 0x907;
    if (s->config.seed % 3 == 0) {
        d->notices = 4;
        sim_after(s, notice_between(s, 200, 2000) * SIM_MS, "notice", next_notice, 0);
    }
    sim_after(s, 300 * SIM_MS, "stop last try", stop_last_try, 0);
    sim_after(s, 500 * SIM_MS, "look at adopted values", look, 0);
}

void sim_drains_free(struct sim *s)
{
    if (!s->drains)
        return;
    mt_map_fini(&s->drains->epochs);
    free(s->drains);
    s->drains = NULL;
}

/* ---- asked for --------------------------------------------------------------------------------------------------- */

static void ask(struct sim *s, struct sim_event *e)
{
    struct sim_drains      *d = s->drains;
    Manta__V1__DrainRequest request = MANTA__V1__DRAIN_REQUEST__INIT;
    uint8_t                 bytes[128];
    (void)e;
    if (!sim_node_of(s, d->asked.serial) || s->now >= s->config.faults_until)
        return; /* it has gone meanwhile */
    request.node = d->asked.node;
    request.limit_ms = d->asked.limit_ms;
    request.reason = "asked";
    size_t size = protobuf_c_message_get_packed_size(&request.base);
    protobuf_c_message_pack(&request.base, bytes);
    d->asked.call = DRAIN_CALLS + ++d->next_call;
    sim_after(s, DRAIN_ASK_AGAIN_MS * SIM_MS, "drain again", ask, 0)->arg = d->asked.call;
    (void)sim_head_call(s, d->asked.call, HEAD_DRAIN_NODE, bytes, size);
}

static void next_drain(struct sim *s, struct sim_event *e)
{
    struct sim_drains *d = s->drains;
    struct sim_node   *n = s->nodes[between(s, 0, (uint64_t)s->config.nodes - 1)];
    bool               is_told = between(s, 0, 1);
    uint64_t           limit_ms;
    uint32_t           node, epoch;
    (void)e;
    if (s->now >= s->config.faults_until || !d->left)
        return;
    sim_after(s, between(s, 100, 2500) * SIM_MS, "drain", next_drain, 0);
    if (!sim_node_is_up(n) || n->spared_until > s->now)
        return;
    d->left--;
    limit_ms = between(s, 0, 2) ? between(s, 0, 1500) : between(s, 0, 5000);
    rlt_self(n->core, &node, &epoch);
    if (!node)
        return;
    if (is_told) {
        s->counters.drain_told++;
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_SHUTDOWN, .shutdown = {"terminated", limit_ms + 1}});
        return;
    }
    s->counters.drain_asked++;
    d->asked.serial = sim_node_serial(n);
    d->asked.limit_ms = limit_ms;
    d->asked.node = node;
    d->asked.epoch = epoch;
    ask(s, e);
}

/* By then what is there must have been ended: the machine goes. */
static void machine_goes(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->arg);
    struct rlt_stats st;
    if (!n)
        return;
    if (n->paused_until > s->now) { /* it can't know what time it is */
        sim_after(s, n->paused_until - s->now + 20 * SIM_MS, "machine goes", machine_goes, 0)->arg = e->arg;
        return;
    }
    rlt_stats(n->core, &st);
    SIM_REQUIRE(s, st.is_limit_over, "I15: node %d's machine goes now, and what is there runs on", n->index);
}

/* Most often of a node that leaves already, and would take longer. */
static void next_notice(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = s->nodes[notice_between(s, 0, (uint64_t)s->config.nodes - 1)];
    uint64_t         limit_ms = notice_between(s, 0, 1200);
    bool             any = notice_between(s, 0, 3) == 0;
    struct rlt_stats st;
    (void)e;
    if (s->now >= s->config.faults_until || !s->drains->notices)
        return;
    sim_after(s, notice_between(s, 20, 400) * SIM_MS, "notice", next_notice, 0);
    if (!sim_node_is_up(n) || n->spared_until > s->now || n->paused_until > s->now)
        return;
    rlt_stats(n->core, &st);
    if (st.is_leaving ? st.is_limit_over : !any)
        return;
    s->drains->notices--;
    s->counters.drain_noticed++;
    s->counters.drain_sooner += st.is_leaving;
    sim_after(s, (limit_ms + 20) * SIM_MS, "machine goes", machine_goes, 0)->arg = sim_node_serial(n);
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_NOTICE, .notice = {"its machine goes", limit_ms}});
}

/* Whether a task runs there that has used up its retries, of an owner on another node. */
static bool runs_last_try(struct sim *s, const struct sim_node *n)
{
    uint32_t         node, epoch;
    struct rlt_stats st;
    rlt_self(n->core, &node, &epoch);
    rlt_stats(n->core, &st);
    if (st.is_leaving)
        return false; /* a second signal would end it at once */
    MT_MAP_EACH(&s->procs, entry) {
        const struct sim_proc *p = entry->value.ptr;
        if (p->role != CTL_DRIVER || !p->is_ready || p->n == n)
            continue;
        for (size_t i = 0; i < p->own.lanes.count; i++) {
            const struct own_lane *lane = p->own.lanes.data[i];
            for (int slot = 0; slot < LANE_SLOTS && lane->node == node && !lane->actor; slot++) {
                const struct own_task *t = lane->tasks[slot];
                if (t && t->retries_left == 0 && t->attempt > 0 && t->kind == LANE_TASK)
                    return true;
            }
        }
    }
    return false;
}

/* The node leaves in the middle of it, at once: it runs again all the same. */
static void stop_last_try(struct sim *s, struct sim_event *e)
{
    (void)e;
    if (s->now >= s->config.faults_until)
        return;
    sim_after(s, 2 * SIM_MS, "stop last try", stop_last_try, 0);
    for (int i = 0; i < s->config.nodes; i++) {
        struct sim_node *n = s->nodes[i];
        if (!sim_node_is_up(n) || n->spared_until > s->now || !runs_last_try(s, n))
            continue;
        s->counters.drain_told++;
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_SHUTDOWN, .shutdown = {"terminated", 1}});
        return;
    }
}

bool sim_drain_reply(struct sim *s, const struct head_action *a)
{
    struct sim_drains *d = s->drains;
    if (a->reply.call < DRAIN_CALLS)
        return false;
    Manta__V1__DrainReply *reply = manta__v1__drain_reply__unpack(NULL, a->reply.bytes->size, a->reply.bytes->data);
    SIM_REQUIRE(s, reply, "the head's reply cannot be read");
    if (a->reply.call == d->asked.call) {
        bool is_taken = reply->code == MT_OK;
        s->counters.drain_refused += !is_taken;
        /* Said twice: the first may have been for an epoch that is over. Only what was said for sure is held against the head. */
        if (is_taken && mt_map_put_num(&d->epochs, mt_map_key((uint64_t)d->asked.node << 32 | d->asked.epoch), 1).code)
            abort();
        d->asked.serial = 0;
        d->asked.call = 0;
    }
    manta__v1__drain_reply__free_unpacked(reply, NULL);
    return true;
}

bool sim_drain_refused(struct sim *s, uint64_t call)
{
    (void)s;
    return call >= DRAIN_CALLS; /* a full disk: it is asked again */
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

void sim_drain_seen(struct sim *s, uint32_t node, uint32_t epoch, bool is_alive)
{
    SIM_REQUIRE(s, !is_alive || !mt_map_find(&s->drains->epochs, mt_map_key((uint64_t)node << 32 | epoch)),
                "I15: node %u, epoch %u was to leave, that was acknowledged, and the head counts it as alive", node, epoch);
}

/* Somebody elsewhere owns a value that stands here, and would look for it here. */
static void require_adopted(struct sim *s, const struct sim_node *n, const struct rlt_stats *st)
{
    uint32_t number, epoch;
    rlt_self(n->core, &number, &epoch);
    MT_MAP_EACH(&s->procs, at) {
        struct sim_proc *owner = at->value.ptr;
        if (owner->n == n || owner->own.process == 0 || owner->objects.is_disowned)
            continue;
        MT_MAP_EACH(&owner->own.refs, entry) {
            const struct own_ref  *ref = entry->value.ptr;
            const struct lane_ref *place = ref->state == OWN_REF_PLACE ? own_ref_place(&owner->own, ref) : NULL;
            if (!place || ref->flags & (OWN_REF_BORROWED | OWN_REF_FREED) || !own_ref_has_place(ref) || place->node != number ||
                !sim_store_holds(n, place))
                continue;
            SIM_REQUIRE(s, st->values_stuck, "I18: node %d leaves with the value %llx.%llu, whose owner lives on node %u", n->index,
                        (unsigned long long)ref->id.process, (unsigned long long)mt_id_counter(ref->id), owner->own.node);
        }
    }
}

bool sim_drain_leaves(const struct sim *s)
{
    struct rlt_stats st;
    for (int i = 0; i < s->config.nodes; i++) {
        if (!sim_node_is_up(s->nodes[i]))
            continue;
        rlt_stats(s->nodes[i]->core, &st);
        if (st.is_leaving)
            return true;
    }
    return false;
}

static void back(struct sim *s, struct sim_event *e)
{
    sim_node_start(s, s->nodes[e->arg]);
}

void sim_drain_exits(struct sim *s, struct sim_node *n, const char *why)
{
    struct rlt_stats st;
    rlt_stats(n->core, &st);
    bool is_signal = !strncmp(why, "terminated", strlen("terminated")); /* a second one, or without a head */
    SIM_REQUIRE(s, st.is_leaving || is_signal, "node %d exits: %s", n->index, why);
    SIM_REQUIRE(s, !is_signal || st.is_told || st.unheard_ms >= MT_RLT_HEAD_GAP_MS,
                "I15: node %d ends at its first signal, and has heard its head %d ms before", n->index, (int)st.unheard_ms);
    SIM_REQUIRE(s, is_signal || st.is_limit_over || st.leases_here == 0,
                "I15: node %d leaves before its limit, and %u leases are there", n->index, st.leases_here);
    SIM_REQUIRE(s, is_signal || st.is_leave_over || st.ends_unheard == 0,
                "I15: node %d leaves, and %u nodes have not heard how what they had there ended", n->index, st.ends_unheard);
    if (!is_signal && !st.is_limit_over)
        require_adopted(s, n, &st);
    s->counters.drain_left += st.is_leaving;
    sim_note(s, "leaves", (uint64_t)n->index, st.is_limit_over);
    s->left_at = s->now;
    n->is_restarting = true;
    sim_after(s, between(s, 10, 1500) * SIM_MS, "back", back, 0)->arg = (uint64_t)n->index;
    sim_node_crash(s, n);
}

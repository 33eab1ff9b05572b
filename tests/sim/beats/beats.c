/* SPDX-License-Identifier: Apache-2.0
 *
 * beats.c - see beats.h.
 *
 *   node: rlt_step --packed messages, in order--> head: head_step          what is due: a heap of events by time
 *          '-------datagrams, in any order-------> its shell's looks -'     faults until FAULTS_MS, then CALM_MS of peace
 *
 * Owns: struct world and all in it, for one run. Thread: one.
 */
#include "tests/sim/beats/beats.h"

#include "core/base/limits/net.h"
#include "core/base/rng.h"
#include "core/ds/heap.h"
#include "core/proto/manta.pb-c.h"
#include "raylet/core/core.h"
#include "scheduler/head/core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES = 3,
    FAULTS_MS = 60 * 1000,
    CALM_MS = 26 * 1000, /* who stands still then is back after at most 15 s; and QUIET_MS */
    QUIET_MS = 5000,     /* the last of it: nothing is said on streams */
    B2_MS = 4000,
    OLD_NUMBERS = 1000,
    KEPT = 64, /* datagrams that a stranger has seen */
    ALIVE = 1,
    DEAD = 3,
};
static const uint64_t MS = 1000000;

struct datagram {
    bool     is_answer, is_heard;
    uint32_t node;
    uint64_t made_ms, session, counter, echo, report;
    uint8_t  key[HEAD_BEAT_KEY_SIZE]; /* in place of a seal */
};

enum what { TO_HEAD, TO_NODE, BEAT, CLOSED_AT_HEAD, CLOSED_AT_NODE, DIAL, HEAD_TICK, NODE_TICK, STORED, FAULT };

struct due { /* something that happens */
    mt_heap_node    at;
    enum what       what;
    uint32_t        node;
    uint64_t        number; /* of a stream or of a batch */
    uint64_t        life;   /* of the head */
    uint8_t        *bytes;
    size_t          size;
    struct datagram datagram;
};

struct node {
    struct rlt *core;
    uint32_t    number;           /* by its welcome */
    uint64_t    stream;           /* 0: none */
    uint64_t    to_head, to_node; /* the last message arrives then: they don't overtake */
    uint64_t    paused_until, paused_since, tick_at;
    uint64_t    calm_since; /* neither it nor its stream had trouble */
    uint64_t    session;
    uint8_t     key[HEAD_BEAT_KEY_SIZE];
    uint64_t    lost_to_head, lost_to_node, slow_answers; /* until then */
    uint64_t    heard;                                    /* counter of the last datagram by which it was heard, in that session */
};

struct world {
    mt_rng                     rng;
    uint64_t                   now; /* ns */
    mt_heap                    queue;
    struct head               *head;
    uint64_t                   life, head_paused_until, head_calm_since, head_tick_at, stored_at, next_stream, epoch;
    struct head_actions        actions;
    struct rlt_actions         node_actions;
    struct node                nodes[NODES];
    struct datagram            kept[KEPT];
    uint64_t                   kept_count;
    bool                       is_calm, has_failed;
    uint64_t                   seed;
    struct sim_beats_counters *count;
};

static void fail(struct world *w, const char *text, uint32_t node, uint64_t number)
{
    if (!w->has_failed)
        printf("seed %" PRIu64 ", %.6f s: %s (node %u, %" PRIu64 ")\n", w->seed, (double)w->now / 1e9, text, node, number);
    w->has_failed = true;
}

static uint64_t between(struct world *w, uint64_t low, uint64_t high)
{
    return low + mt_rng_below(&w->rng, high - low + 1);
}

static bool chance(struct world *w, uint32_t percent)
{
    return mt_rng_below(&w->rng, 100) < percent;
}

static struct due *later(struct world *w, uint64_t delay_ns, enum what what, uint32_t node)
{
    struct due *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->what = what;
    d->node = node;
    d->life = w->life;
    if (mt_heap_push(&w->queue, &d->at, w->now + delay_ns).code)
        abort();
    return d;
}

/* ---- datagrams ---- */

static void datagram_send(struct world *w, const struct datagram *d)
{
    const struct node *n = &w->nodes[d->node];
    bool     is_lost = (d->is_answer ? n->lost_to_node : n->lost_to_head) > w->now ? chance(w, 80) : !w->is_calm && chance(w, 3);
    uint64_t delay = between(w, MS / 20, 2 * MS);
    w->kept[w->kept_count++ % KEPT] = *d;
    if (!w->is_calm && chance(w, 3)) { /* somebody takes it off the wire, and lets it go on later */
        w->count->held_back++;
        delay = between(w, 300, 12000) * MS;
        is_lost = false;
    } else if (d->is_answer && n->slow_answers > w->now) {
        delay = between(w, 700, 1500) * MS;
    }
    w->count->lost += is_lost;
    for (int copies = is_lost ? 0 : chance(w, 3) ? 2 : 1; copies > 0; copies--) {
        w->count->doubled += copies > 1;
        later(w, delay * (uint64_t)copies, BEAT, d->node)->datagram = *d;
    }
}

static void replay(struct world *w)
{
    uint64_t kept = w->kept_count < KEPT ? w->kept_count : KEPT;
    if (!kept)
        return;
    w->count->replayed++;
    struct datagram d = w->kept[mt_rng_below(&w->rng, kept)];
    later(w, between(w, 0, 3000) * MS, BEAT, d.node)->datagram = d;
}

/* ---- the head ---- */

static void node_step(struct world *w, uint32_t index, struct rlt_event *e);
static void head_act(struct world *w);

static void head_feed(struct world *w, struct head_event *e)
{
    e->now_ms = w->now / MS;
    e->wall_ms = 1700000000000 + e->now_ms;
    if (head_step(w->head, e, &w->actions).code)
        fail(w, "the head can not go on", 0, 0);
    head_act(w);
}

static uint32_t node_of_stream(const struct world *w, uint64_t stream)
{
    for (uint32_t i = 0; i < NODES; i++)
        if (w->nodes[i].stream == stream && stream)
            return i;
    return NODES;
}

static void stream_end(struct world *w, uint32_t index)
{
    struct node *n = &w->nodes[index];
    if (!n->stream)
        return;
    later(w, between(w, MS / 10, 20 * MS), CLOSED_AT_HEAD, index)->number = n->stream;
    later(w, between(w, MS / 10, 20 * MS), CLOSED_AT_NODE, index)->number = n->stream;
    n->stream = 0;
    n->calm_since = UINT64_MAX;
}

static void head_send(struct world *w, const struct head_action *a)
{
    uint32_t     i = node_of_stream(w, a->send.stream);
    struct node *n = &w->nodes[i];
    if (i == NODES)
        return;
    uint64_t at = w->now + between(w, MS / 20, MS);
    n->to_node = at = at > n->to_node ? at : n->to_node + 1;
    struct due *d = later(w, at - w->now, TO_NODE, i);
    d->number = a->send.stream;
    d->size = a->send.bytes->size;
    d->bytes = malloc(d->size + 1);
    if (!d->bytes)
        abort();
    memcpy(d->bytes, a->send.bytes->data, d->size);
}

static void store(struct world *w, uint64_t token)
{
    uint64_t at = w->now + between(w, MS / 10, 3 * MS);
    w->stored_at = at > w->stored_at ? at : w->stored_at + 1;
    later(w, w->stored_at - w->now, STORED, 0)->number = token;
}

static void head_act(struct world *w)
{
    for (size_t i = 0; i < w->actions.count; i++) {
        const struct head_action *a = &w->actions.items[i];
        if (a->kind == HEAD_ACT_SEND)
            head_send(w, a);
        else if (a->kind == HEAD_ACT_STORE)
            store(w, a->store.token);
        else if (a->kind == HEAD_ACT_CLOSE && node_of_stream(w, a->close.stream) < NODES)
            stream_end(w, node_of_stream(w, a->close.stream));
    }
    uint64_t next = w->actions.next_ms * MS > w->now ? w->actions.next_ms * MS : w->now + MS;
    head_actions_clear(&w->actions);
    if (!w->head_tick_at || next < w->head_tick_at) {
        w->head_tick_at = next;
        later(w, next - w->now, HEAD_TICK, 0)->number = next;
    }
}

static void head_begin(struct world *w)
{
    struct head_config config = {.cluster = "beats", .seed = w->seed, .now_ms = w->now / MS, .epoch_min = ++w->epoch};
    config.first_node = w->life ? OLD_NUMBERS : 1; /* its store is lost: who was there before keeps his number */
    w->stored_at = 0;
    w->life++;
    w->head_tick_at = 0;
    w->head_calm_since = w->now;
    if (head_new(&config, &w->head).code || head_start(w->head, w->now / MS, &w->actions).code)
        abort();
    head_act(w);
}

/* What the shell looks at, and what it says then. */
static void head_beat(struct world *w, const struct datagram *d)
{
    struct node      *n = &w->nodes[d->node];
    struct head_beat  item = {.stream = d->session, .counter = d->counter, .echo = d->echo, .report = d->report};
    bool              is_known = n->session == d->session && n->stream == d->session && !memcmp(d->key, n->key, sizeof d->key);
    struct head_event e = {.kind = HEAD_EV_BEATS, .beats = {&item, 1}};
    if (!is_known)
        return;
    head_feed(w, &e);
    w->count->refused += !item.is_taken;
    if (item.is_heard && w->now / MS - d->made_ms > MT_NODE_SUSPECT_MS)
        fail(w, "B1: a node is heard by a datagram of long ago", d->node, w->now / MS - d->made_ms);
    if (item.is_heard && d->counter <= n->heard)
        fail(w, "B1: a node is heard by a datagram that was there", d->node, d->counter);
    if (item.is_heard)
        n->heard = d->counter;
    w->count->heard += item.is_heard;
    struct datagram answer = *d;
    answer.is_answer = true;
    answer.is_heard = item.is_heard;
    answer.echo = w->now / MS;
    if (item.is_taken)
        datagram_send(w, &answer);
}

/* ---- nodes ---- */

static void node_act(struct world *w, uint32_t index, const struct rlt_action *a)
{
    struct node *n = &w->nodes[index];
    if (a->kind == RLT_A_EXIT)
        fail(w, a->exit.why, index, 0);
    if (a->kind == RLT_A_HEAD_SEND && n->stream) {
        const Manta__V1__NodeToHead *m = a->head_send.message;
        uint64_t                     at = w->now + between(w, MS / 20, MS);
        n->to_head = at = at > n->to_head ? at : n->to_head + 1;
        struct due *d = later(w, at - w->now, TO_HEAD, index);
        d->number = n->stream;
        d->size = manta__v1__node_to_head__get_packed_size(m);
        d->bytes = malloc(d->size + 1);
        if (!d->bytes)
            abort();
        manta__v1__node_to_head__pack(m, d->bytes);
        w->count->reports += m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
        if (m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_REPORT && w->is_calm && w->now >= (FAULTS_MS + CALM_MS - QUIET_MS) * MS)
            fail(w, "B4: a quiet node reports by its stream", index, 0);
    }
    if (a->kind == RLT_A_BEAT && n->stream && n->stream == n->session) {
        struct datagram d = {.node = index, .made_ms = w->now / MS, .session = n->session};
        d.counter = a->beat.counter;
        d.echo = a->beat.echo;
        d.report = a->beat.report;
        memcpy(d.key, n->key, sizeof d.key);
        datagram_send(w, &d);
    }
}

static void node_step(struct world *w, uint32_t index, struct rlt_event *e)
{
    struct node *n = &w->nodes[index];
    e->now = w->now;
    e->random = mt_rng_next(&w->rng);
    rlt_actions_reset(&w->node_actions);
    rlt_step(n->core, e, &w->node_actions);
    for (size_t i = 0; i < w->node_actions.count; i++)
        node_act(w, index, &w->node_actions.data[i]);
    uint64_t due = rlt_deadline(n->core);
    if (due != UINT64_MAX && (!n->tick_at || due < n->tick_at)) {
        n->tick_at = due > w->now ? due : w->now + 1;
        later(w, n->tick_at - w->now, NODE_TICK, index)->number = n->tick_at;
    }
}

static void node_hears(struct world *w, const struct due *d)
{
    struct node           *n = &w->nodes[d->node];
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, d->size, d->bytes);
    struct rlt_event       e = {.kind = RLT_EV_HEAD};
    if (!m)
        abort();
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED && m->registered->beats) {
        n->session = m->registered->beats->session;
        n->number = m->registered->node;
        n->heard = 0;
        memcpy(n->key, m->registered->beats->key.data, sizeof n->key);
        if (n->calm_since == UINT64_MAX)
            n->calm_since = w->now;
    }
    e.head.message = m;
    node_step(w, d->node, &e);
    manta__v1__head_to_node__free_unpacked(m, NULL);
}

static void dial(struct world *w, uint32_t index)
{
    struct node      *n = &w->nodes[index];
    struct head_event e = {.kind = HEAD_EV_STREAM_OPENED, .stream = {.number = ++w->next_stream, .beats.port = 1}};
    for (size_t i = 0; i < sizeof e.stream.beats.key; i++)
        e.stream.beats.key[i] = (uint8_t)mt_rng_next(&w->rng);
    if (w->head_paused_until > w->now) {
        later(w, 250 * MS, DIAL, index);
        return;
    }
    n->stream = w->next_stream;
    n->to_head = n->to_node = w->now;
    head_feed(w, &e);
    node_step(w, index, &(struct rlt_event){.kind = RLT_EV_HEAD_UP});
}

/* ---- faults ---- */

static void head_restart(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++)
        stream_end(w, i);
    head_free(w->head);
    w->count->head_restarted++;
    w->head_paused_until = 0;
    head_begin(w);
}

static void fault(struct world *w)
{
    uint32_t     i = (uint32_t)mt_rng_below(&w->rng, NODES);
    struct node *n = &w->nodes[i];
    uint64_t     until = w->now + between(w, 500, 8000) * MS;
    switch (mt_rng_below(&w->rng, 10)) {
    case 0: n->lost_to_head = until; break;
    case 1: n->lost_to_node = until; break;
    case 2: n->lost_to_head = n->lost_to_node = until; break;
    case 3:
    case 4: n->lost_to_head = n->slow_answers = until; break;
    case 5:
        if (n->paused_until > w->now)
            break;
        w->count->paused++;
        n->paused_since = w->now;
        n->paused_until = w->now + between(w, 100, 15000) * MS;
        break;
    case 6:
        if (w->head_paused_until > w->now)
            break;
        w->count->head_paused++;
        w->head_paused_until = w->now + between(w, 100, 5000) * MS;
        break;
    case 7:
        w->count->resets++;
        stream_end(w, i);
        break;
    case 8:
        if (chance(w, 20))
            head_restart(w);
        break;
    default: replay(w); break;
    }
    for (int k = 0; k < 4; k++)
        replay(w);
}

/* ---- what must hold ---- */

static void look_at(void *user, const struct head_node_view *v)
{
    struct world *w = user;
    for (uint32_t i = 0; i < NODES; i++) {
        const struct node *n = &w->nodes[i];
        uint64_t           calm = n->calm_since > w->head_calm_since ? n->calm_since : w->head_calm_since;
        if (v->node != n->number)
            continue;
        if (calm != UINT64_MAX && w->now > calm + B2_MS * MS && v->state != ALIVE)
            fail(w, "B2: a node that says all the time that it lives is not alive to the head", i, v->state);
        uint64_t still = n->paused_until > w->now && w->head_calm_since < n->paused_since ? (w->now - n->paused_since) / MS : 0;
        if (still > 2 * MT_NODE_SUSPECT_MS + 300 && v->state == ALIVE) /* its last datagram may have been held back so long */
            fail(w, "B3: a node that stands still is alive", i, still);
        if (still > MT_NODE_DEAD_MS + MT_NODE_SUSPECT_MS + 300 && v->state != DEAD)
            fail(w, "B3: a node that stands still is not dead", i, still);
    }
}

static void look(struct world *w)
{
    if (w->head_paused_until <= w->now)
        (void)head_view_each(w->head, look_at, w);
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *n = &w->nodes[i];
        if (n->paused_until > w->now && n->calm_since != UINT64_MAX)
            n->calm_since = n->paused_until;
    }
    if (w->head_paused_until > w->now)
        w->head_calm_since = w->head_paused_until;
}

/* ---- time ---- */

/* It stands still, or a message for it waits: until then. 0: it is here and now. */
static uint64_t waits_until(const struct world *w, const struct due *d)
{
    bool is_heads = d->what == TO_HEAD || d->what == CLOSED_AT_HEAD || d->what == HEAD_TICK || d->what == STORED ||
                    (d->what == BEAT && !d->datagram.is_answer);
    uint64_t until = is_heads ? w->head_paused_until : d->what == FAULT ? 0 : w->nodes[d->node].paused_until;
    return until > w->now ? until : 0;
}

static void closed(struct world *w, const struct due *d)
{
    if (d->what == CLOSED_AT_NODE) {
        node_step(w, d->node, &(struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
        later(w, 250 * MS, DIAL, d->node);
    } else if (d->life == w->life) {
        head_feed(w, &(struct head_event){.kind = HEAD_EV_STREAM_CLOSED, .stream = {.number = d->number}});
    }
}

static void happen(struct world *w, struct due *d)
{
    struct node *n = &w->nodes[d->node];
    switch (d->what) {
    case TO_HEAD:
        if (d->number == n->stream)
            head_feed(w, &(struct head_event){.kind = HEAD_EV_STREAM_MESSAGE, .message = {d->number, d->bytes, d->size}});
        break;
    case TO_NODE:
        if (d->number == n->stream)
            node_hears(w, d);
        break;
    case BEAT:
        if (!d->datagram.is_answer)
            head_beat(w, &d->datagram);
        else if (n->stream && n->session == d->datagram.session && !memcmp(n->key, d->datagram.key, sizeof n->key))
            node_step(
                w, d->node,
                &(struct rlt_event){.kind = RLT_EV_BEAT, .beat = {d->datagram.counter, d->datagram.echo, d->datagram.is_heard}});
        break;
    case CLOSED_AT_HEAD:
    case CLOSED_AT_NODE: closed(w, d); break;
    case DIAL: dial(w, d->node); break;
    case HEAD_TICK:
        if (d->life == w->life && d->number == w->head_tick_at) {
            w->head_tick_at = 0;
            head_feed(w, &(struct head_event){.kind = HEAD_EV_TICK});
        }
        break;
    case NODE_TICK:
        if (d->number == n->tick_at) {
            n->tick_at = 0;
            node_step(w, d->node, &(struct rlt_event){.kind = RLT_EV_TICK});
        }
        break;
    case STORED:
        if (d->life == w->life)
            head_feed(w, &(struct head_event){.kind = HEAD_EV_STORED, .stored.token = d->number});
        break;
    case FAULT:
        if (w->now < FAULTS_MS * MS) {
            fault(w);
            later(w, between(w, 50, 1500) * MS, FAULT, 0);
        }
        break;
    }
}

static void calm_down(struct world *w)
{
    w->is_calm = true;
    w->head_paused_until = 0;
    for (uint32_t i = 0; i < NODES; i++)
        w->nodes[i].paused_until = w->nodes[i].lost_to_head = w->nodes[i].lost_to_node = w->nodes[i].slow_answers = 0;
}

static void due_free(struct due *d)
{
    free(d->bytes);
    free(d);
}

static void run(struct world *w)
{
    mt_heap_node *at;
    while (!w->has_failed && (at = mt_heap_first(&w->queue)) && at->key < (FAULTS_MS + CALM_MS) * MS) {
        struct due *d = mt_container_of(mt_heap_pop(&w->queue), struct due, at);
        w->now = at->key > w->now ? at->key : w->now;
        if (!w->is_calm && w->now >= FAULTS_MS * MS)
            calm_down(w);
        uint64_t until = waits_until(w, d);
        if (until && mt_heap_push(&w->queue, &d->at, until).code)
            abort();
        if (!until)
            happen(w, d);
        look(w);
        if (!until)
            due_free(d);
    }
}

bool sim_beats_run(uint64_t seed, struct sim_beats_counters *counters)
{
    struct world *w = calloc(1, sizeof *w);
    mt_heap_node *at;
    if (!w)
        abort();
    *w = (struct world){.rng = {seed}, .seed = seed, .now = 1000 * MS, .count = counters};
    head_begin(w);
    for (uint32_t i = 0; i < NODES; i++) {
        struct rlt_config config = {.boot = mt_rng_next(&w->rng) | 1, .has_head = true, .resource_count = 1};
        snprintf(config.node_name, sizeof config.node_name, "n%u", i);
        snprintf(config.address, sizeof config.address, "10.0.0.%u:1", i);
        snprintf(config.data_address, sizeof config.data_address, "10.0.0.%u:2", i);
        snprintf(config.total[0].name, sizeof config.total[0].name, "CPU");
        config.total[0].milli = 1000;
        w->nodes[i].core = rlt_new(&config);
        w->nodes[i].calm_since = UINT64_MAX;
        later(w, between(w, 1, 100) * MS, DIAL, i);
    }
    later(w, 3000 * MS, FAULT, 0);
    run(w);
    bool ok = !w->has_failed;
    while ((at = mt_heap_pop(&w->queue)))
        due_free(mt_container_of(at, struct due, at));
    mt_heap_fini(&w->queue);
    for (uint32_t i = 0; i < NODES; i++)
        rlt_free(w->nodes[i].core);
    head_free(w->head);
    head_actions_fini(&w->actions);
    rlt_actions_fini(&w->node_actions);
    free(w);
    return ok;
}

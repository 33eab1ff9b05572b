/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the head's shell: its core, its streams, and a disk that forgets what was not synced.
 *
 * The disk: batches become durable in order, each after a while; a crash makes any prefix of those under way durable and
 * loses the rest. The core hears of a batch only when it is durable. The oracle's part (I8, I9): what a raylet was told
 * under one head stands after the next one has recovered, and no pair of node and epoch is ever given out twice.
 *
 * Owns: struct sim_head. Thread: one.
 */
#include "tests/sim/load/drain.h"
#include "tests/sim/load/job.h"
#include "tests/sim/shells/redis.h"
#include "tests/sim/shells/node.h"
#include "tests/sim/twins/net.h"
#include "tests/sim/oracle.h"

#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"

#include <stdlib.h>

struct disk_record {
    enum head_table table;
    uint8_t        *key, *value;
    size_t          key_size, value_size;
};

struct batch { /* under way to the disk */
    uint64_t            token;
    struct head_record *records;
    size_t              count;
};

struct sim_head {
    struct head        *core;
    uint64_t            serial; /* 0: down */
    uint32_t            starts;
    uint64_t            paused_until;
    uint64_t            next_stream;
    uint64_t            tick_at;
    uint64_t            newest_epoch; /* of the head */
    uint64_t            full_until;   /* its disk takes nothing; 0: it does */
    uint64_t            synced_at;    /* of the batch that was put on its way last */
    uint32_t            crash_in;     /* actions until it crashes between two of them */
    bool                is_restarting;
    struct head_actions actions;
    MT_VEC(struct disk_record) disk;
    MT_VEC(struct batch) under_way;
};

static void feed(struct sim *s, const struct head_event *from);

bool sim_head_is_up(const struct sim *s)
{
    return s->head && s->head->serial;
}

uint64_t sim_head_serial(const struct sim *s)
{
    return s->head->serial;
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */

static void disk_apply(struct sim_head *h, const struct head_record *r)
{
    size_t i = 0;
    for (; i < h->disk.count; i++) {
        struct disk_record *d = &h->disk.data[i];
        if (d->table == r->table && d->key_size == r->key_size && memcmp(d->key, r->key, r->key_size) == 0)
            break;
    }
    if (i < h->disk.count) {
        free(h->disk.data[i].key);
        free(h->disk.data[i].value);
        mt_vec_remove(&h->disk, i);
    }
    if (!r->value)
        return;
    struct disk_record d = {.table = r->table, .key_size = r->key_size, .value_size = r->value_size};
    d.key = sim_alloc(r->key_size + 1);
    d.value = sim_alloc(r->value_size + 1);
    memcpy(d.key, r->key, r->key_size);
    memcpy(d.value, r->value, r->value_size);
    if (mt_vec_push(&h->disk, d).code)
        abort();
}

static void batch_apply(struct sim_head *h, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        disk_apply(h, &b->records[i]);
}

static void synced(struct sim *s, struct sim_event *e)
{
    struct sim_head *h = s->head;
    if (e->target != h->serial || h->under_way.count == 0)
        return;
    struct batch b = h->under_way.data[0];
    SIM_REQUIRE(s, b.token == e->arg, "batches are synced out of order");
    batch_apply(h, &b);
    mt_vec_remove(&h->under_way, 0);
    head_records_free(b.records, b.count);
    feed(s, &(struct head_event){.kind = HEAD_EV_STORED, .stored.token = b.token});
}

void sim_head_stored(struct sim *s, uint64_t token)
{
    feed(s, &(struct head_event){.kind = HEAD_EV_STORED, .stored.token = token});
}

static void crash_while_writing(struct sim *s, struct sim_event *e)
{
    if (e->target != s->head->serial || s->is_healed ||
        (s->redis && s->head_spared_until > s->now)) /* on a full disk the writing takes long */
        return;
    s->counters.kill_head_writing++;
    s->counters.fault_total++;
    sim_head_crash(s);
}

static void store(struct sim *s, struct head_action *a)
{
    struct sim_head  *h = s->head;
    struct batch      b = {.token = a->store.token, .records = a->store.records, .count = a->store.count};
    uint64_t          at = s->now + sim_between(s, 100 * SIM_US, 4 * SIM_MS);
    struct sim_event *e;
    a->store.records = NULL;
    a->store.count = 0;
    if (s->config.has_redis) {
        if (!s->is_healed && s->head_spared_until <= s->now && sim_chance(s, 30000))
            sim_after(s, sim_between(s, 0, 3 * SIM_MS), "crash", crash_while_writing, h->serial);
        sim_redis_store(s, b.token, b.records, b.count);
        return;
    }
    if (mt_vec_push(&h->under_way, b).code)
        abort();
    if (at <= h->full_until)
        at = h->full_until + 1; /* it is tried again until it succeeds */
    if (at <= h->synced_at)
        at = h->synced_at + 1;
    h->synced_at = at;
    /* A moment when something may be promised that is not there yet. */
    if (!s->is_healed && s->head_spared_until <= s->now && sim_chance(s, 30000))
        sim_after(s, sim_between(s, 0, at - s->now), "crash", crash_while_writing, h->serial);
    e = sim_after(s, at - s->now, "disk", synced, h->serial);
    e->arg = b.token;
}

/* ---- what the head says is remembered ---------------------------------------------------------------------------- */

static void check_said(struct sim *s, uint64_t stream, const uint8_t *bytes, size_t size)
{
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, size, bytes);
    SIM_REQUIRE(s, m, "the head sent a message that nobody can read");
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED && m->registered->code == MT_OK)
        sim_oracle_epoch_given(s, m->registered->node, m->registered->epoch, sim_net_head_peer(s, stream));
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_VIEW)
        for (size_t i = 0; i < m->view->n_nodes; i++) {
            sim_drain_seen(s, m->view->nodes[i]->node, m->view->nodes[i]->epoch, m->view->nodes[i]->state == 1);
            if (m->view->nodes[i]->state == 3)
                sim_oracle_node_dead(s, m->view->nodes[i]->node, m->view->nodes[i]->epoch);
        }
    manta__v1__head_to_node__free_unpacked(m, NULL);
}

/* ---- what the nodes know ------------------------------------------------------------------------------------------- */

enum { LOOK_EACH = 16 };

struct compared {
    struct sim            *s;
    const struct sim_node *n;
};

static void compare_view(void *user, const struct head_node_view *said)
{
    const struct compared *c = user;
    struct rlt_node_view   known;
    bool is_same = rlt_node_look(c->n->core, said->node, &known) && known.epoch == said->epoch && known.state == said->state &&
                   !strcmp(known.name, said->name) && !strcmp(known.address, said->address) &&
                   !strcmp(known.data_address, said->data_address) && !strcmp(known.labels, said->labels);
    SIM_REQUIRE(c->s, is_same, "I16: node %d knows another node %u than the head, at the same version", c->n->index, said->node);
}

static void count_view(void *user, const struct head_node_view *said)
{
    (void)said;
    *(uint32_t *)user += 1;
}

/* I16: what a node knows of the others at a version is what the head's table was then. */
void sim_head_check_views(struct sim *s)
{
    uint32_t at_head = 0, known;
    if (!sim_head_is_up(s) || s->event_count % LOOK_EACH)
        return;
    uint64_t version = head_view_each(s->head->core, count_view, &at_head);
    for (int i = 0; i < s->config.nodes; i++) {
        struct compared c = {s, s->nodes[i]};
        if (!sim_node_is_up(c.n) || rlt_view_version(c.n->core, &known) != version)
            continue;
        SIM_REQUIRE(s, known == at_head, "I16: node %d knows %u nodes at the same version, the head %u", i, known, at_head);
        (void)head_view_each(s->head->core, compare_view, &c);
        s->counters.view_compared++;
    }
}

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

/* For the trace. */
static uint64_t stream_of_action(const struct head_action *a)
{
    return a->kind == HEAD_ACT_SEND ? a->send.stream : a->kind == HEAD_ACT_CLOSE ? a->close.stream : 0;
}

static uint64_t stream_of_event(const struct head_event *e)
{
    switch (e->kind) {
    case HEAD_EV_STREAM_MESSAGE: return e->message.stream;
    case HEAD_EV_STREAM_OPENED:
    case HEAD_EV_STREAM_CLOSED: return e->stream.number;
    default: return 0;
    }
}

static void act(struct sim *s, struct head_action *a)
{
    sim_note(s, "head action", (uint64_t)a->kind, stream_of_action(a));
    switch (a->kind) {
    case HEAD_ACT_SEND:
        check_said(s, a->send.stream, a->send.bytes->data, a->send.bytes->size);
        sim_net_head_send(s, a->send.stream, a->send.bytes->data, a->send.bytes->size);
        break;
    case HEAD_ACT_CLOSE: sim_net_head_close(s, a->close.stream); break;
    case HEAD_ACT_STORE: store(s, a); break;
    case HEAD_ACT_REVOKED:
    case HEAD_ACT_TOKENS: break;
    case HEAD_ACT_EXIT: SIM_REQUIRE(s, false, "the head ends: %s", a->exit.status.what ? a->exit.status.what : ""); break;
    case HEAD_ACT_REPLY:
        if (!sim_drain_reply(s, a))
            sim_job_reply(s, a);
        break;
    case HEAD_ACT_REFUSE:
        SIM_REQUIRE(s, a->refuse.status.code == MT_EDISK_FULL, "the head refuses a call: %s", a->refuse.status.what);
        if (!sim_drain_refused(s, a->refuse.call))
            sim_job_refused(s, a->refuse.call);
        break;
    case HEAD_ACT_LOG_APPEND: sim_job_log_append(s, a); break;
    case HEAD_ACT_LOG_DROP: sim_job_log_drop(s, a->job.id); break;
    default: break; /* followers, blobs: there are none here */
    }
}

static void tick(struct sim *s, struct sim_event *e)
{
    if (s->head->serial == e->target && s->head->tick_at == s->now) {
        s->head->tick_at = 0;
        feed(s, &(struct head_event){.kind = HEAD_EV_TICK});
    }
}

static void after_step(struct sim *s, uint64_t serial)
{
    struct sim_head *h = s->head;
    for (size_t i = 0; i < h->actions.count && h->serial == serial; i++) {
        if (h->crash_in && --h->crash_in == 0)
            sim_head_crash(s);
        else
            act(s, &h->actions.items[i]);
    }
    if (h->serial != serial)
        return;
    uint64_t next = h->actions.next_ms * SIM_MS, latest = s->now + MT_HEAD_TICK_MS * SIM_MS;
    head_actions_clear(&h->actions);
    const char *broken = head_check(h->core);
    SIM_REQUIRE(s, !broken, "I8: the head: %s", broken);
    if (next > latest)
        next = latest;
    if (next <= s->now)
        next = s->now + SIM_MS;
    if (!h->tick_at || next < h->tick_at) {
        h->tick_at = next;
        sim_after(s, next - s->now, "head tick", tick, serial);
    }
}

static void feed_late(struct sim *s, struct sim_event *e)
{
    struct head_event ev;
    if (e->target != s->head->serial)
        return;
    memcpy(&ev, e->bytes, sizeof ev);
    if (ev.kind == HEAD_EV_STREAM_MESSAGE)
        ev.message.bytes = e->bytes + sizeof ev;
    else if (ev.kind == HEAD_EV_CALL)
        ev.call.bytes = e->bytes + sizeof ev;
    feed(s, &ev);
}

/* While it is paused, what comes waits, in order. */
static void keep_for_later(struct sim *s, const struct head_event *from)
{
    struct sim_event *e = sim_after(s, s->head->paused_until - s->now, "head late", feed_late, s->head->serial);
    const uint8_t    *bytes = from->kind == HEAD_EV_CALL ? from->call.bytes : from->message.bytes;
    size_t size = from->kind == HEAD_EV_CALL ? from->call.size : from->kind == HEAD_EV_STREAM_MESSAGE ? from->message.size : 0;
    e->size = sizeof *from + size;
    e->bytes = sim_alloc(e->size + 8);
    memcpy(e->bytes, from, sizeof *from);
    if (size)
        memcpy(e->bytes + sizeof *from, bytes, size);
}

static void feed(struct sim *s, const struct head_event *from)
{
    struct sim_head  *h = s->head;
    struct head_event ev = *from;
    uint64_t          serial = h->serial;
    if (!serial)
        return;
    if (h->paused_until > s->now) {
        keep_for_later(s, from);
        return;
    }
    ev.now_ms = s->now / SIM_MS;
    ev.wall_ms = 1700000000000 + ev.now_ms;
    sim_note(s, "head", (uint64_t)ev.kind, stream_of_event(&ev));
    mt_status st = head_step(h->core, &ev, &h->actions);
    SIM_REQUIRE(s, st.code == MT_OK, "the head can not go on: %s", st.what);
    after_step(s, serial);
}

bool sim_head_call(struct sim *s, uint64_t call, int method, const uint8_t *bytes, size_t size)
{
    if (!sim_head_is_up(s))
        return false;
    feed(s, &(struct head_event){.kind = HEAD_EV_CALL,
                                 .call = {.number = call, .method = (enum head_method)method, .bytes = bytes, .size = size}});
    return true;
}

void sim_head_log_written(struct sim *s, const char *id, uint64_t size)
{
    feed(s, &(struct head_event){.kind = HEAD_EV_LOG_WRITTEN, .log_written = {id, size}});
}

uint64_t sim_head_stream_opened(struct sim *s)
{
    uint64_t number = ++s->head->next_stream;
    feed(s, &(struct head_event){.kind = HEAD_EV_STREAM_OPENED, .stream = {.number = number}});
    return number;
}

void sim_head_message(struct sim *s, uint64_t number, const uint8_t *bytes, size_t size)
{
    feed(s, &(struct head_event){.kind = HEAD_EV_STREAM_MESSAGE, .message = {number, bytes, size}});
}

void sim_head_stream_closed(struct sim *s, uint64_t number)
{
    feed(s, &(struct head_event){.kind = HEAD_EV_STREAM_CLOSED, .stream = {.number = number}});
}

bool sim_head_knows_job(const struct sim *s, const char *id)
{
    struct head_job_view view;
    return head_job_look(s->head->core, id, &view).code == MT_OK;
}

/* ---- a full disk ---- */

static void relieved(struct sim *s, struct sim_event *e)
{
    if (s->head->serial != e->target)
        return;
    s->head->full_until = 0;
    feed(s, &(struct head_event){.kind = HEAD_EV_ROOM, .room = {HEAD_ROOM_ENOUGH, UINT64_MAX}});
}

/* Others fill its disk: what was set aside is enough for the time, or it is not. */
void sim_head_fill(struct sim *s, uint64_t for_ns, bool has_reserve)
{
    struct sim_head *h = s->head;
    if (!h->serial || h->full_until)
        return;
    h->full_until = has_reserve ? 1 : s->now + for_ns;
    sim_after(s, for_ns, "relief", relieved, h->serial);
    feed(s, &(struct head_event){.kind = HEAD_EV_ROOM, .room.is = has_reserve ? HEAD_ROOM_SHORT : HEAD_ROOM_NONE});
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void load_log(struct sim *s, const char *id, uint64_t size)
{
    bool keep;
    SIM_REQUIRE(s, head_load_log(s->head->core, id, size, &keep).code == MT_OK, "the head does not take the log of %s", id);
    if (!keep)
        sim_job_log_drop(s, id);
}

static void load_record(struct sim *s, enum head_table table, mt_view key, mt_view value)
{
    mt_status st = head_load(s->head->core, table, key.data, key.size, value.data, value.size);
    SIM_REQUIRE(s, st.code == MT_OK, "I8: the head can not read what it wrote: %s", st.what);
}

static void load(struct sim *s)
{
    struct sim_head *h = s->head;
    if (s->config.has_redis)
        sim_redis_lead(s, h->serial, load_record);
    for (size_t i = 0; i < h->disk.count; i++) {
        struct disk_record *d = &h->disk.data[i];
        mt_status           st = head_load(h->core, d->table, d->key, d->key_size, d->value, d->value_size);
        SIM_REQUIRE(s, st.code == MT_OK, "I8: the head can not read what it wrote: %s", st.what);
    }
    sim_job_logs_each(s, load_log);
}

void sim_head_start(struct sim *s)
{
    struct sim_head   *h = s->head;
    struct head_config config = {.seed = mt_rng_next(&s->rng), .now_ms = s->now / SIM_MS};
    if (h->serial || s->is_over)
        return;
    config.states_each_round = s->config.seed % 3 == 0; /* as if there were thousands of nodes */
    snprintf(config.cluster, sizeof config.cluster, "0123456789abcdef0123456789abcdef");
    h->serial = sim_serial(s);
    h->starts++;
    h->next_stream = h->starts * 1000000;
    h->paused_until = h->tick_at = h->synced_at = h->full_until = h->crash_in = 0; /* it starts where there is room */
    h->is_restarting = false;
    s->counters.head_restarted += h->starts > 1;
    if (head_new(&config, &h->core).code)
        abort();
    load(s);
    SIM_REQUIRE(s, head_start(h->core, s->now / SIM_MS, &h->actions).code == MT_OK, "the head does not start");
    SIM_REQUIRE(s, head_epoch(h->core) > h->newest_epoch, "I9: a head starts with epoch %llu, after epoch %llu",
                (unsigned long long)head_epoch(h->core), (unsigned long long)h->newest_epoch);
    after_step(s, h->serial);
}

static void count(struct sim *s)
{
    const struct head_counters *c = head_counters(s->head->core);
    s->counters.node_suspect += c->suspect;
    s->counters.node_reconnected += c->reconnected;
    s->counters.node_new_epoch += c->new_epoch;
    s->counters.head_noticed_pause += c->pause;
    s->counters.name_outcome_repeated += c->outcome_hit;
    s->counters.job_submit_repeated += c->job_repeat;
    s->counters.job_fenced += c->job_fenced;
    s->counters.group_lost += c->group_lost;
    s->counters.bundle_stale += c->bundle_stale;
    s->counters.head_no_room += c->no_room;
}

void sim_head_count(struct sim *s)
{
    if (sim_head_is_up(s))
        count(s);
}

void sim_head_crash(struct sim *s)
{
    struct sim_head *h = s->head;
    uint64_t         serial = h->serial, kept;
    if (!serial)
        return;
    sim_note(s, "head crashes", serial, 0);
    count(s);
    h->serial = 0;
    sim_redis_head_died(s);
    kept = sim_random(s, h->under_way.count + 1); /* any prefix of what was being written is there */
    for (size_t i = 0; i < h->under_way.count; i++) {
        if (i < kept)
            batch_apply(h, &h->under_way.data[i]);
        else
            s->counters.head_lost_writes++;
        head_records_free(h->under_way.data[i].records, h->under_way.data[i].count);
    }
    h->under_way.count = 0;
    sim_net_end_died(s, SIM_HEAD, serial);
    if (s->jobs)
        sim_job_logs_crash(s);
    head_actions_fini(&h->actions);
    memset(&h->actions, 0, sizeof h->actions);
    head_free(h->core);
    h->core = NULL;
}

bool sim_head_wants_restart(struct sim *s)
{
    bool wants = s->head && !s->head->serial && !s->head->is_restarting;
    if (wants)
        s->head->is_restarting = true;
    return wants;
}

void sim_head_plan_crash(struct sim *s, uint32_t actions)
{
    s->head->crash_in = actions;
}

void sim_head_pause(struct sim *s, uint64_t for_ns)
{
    if (s->head->serial && s->head->paused_until <= s->now)
        s->head->paused_until = s->now + for_ns;
}

void sim_head_new(struct sim *s)
{
    s->head = sim_alloc(sizeof *s->head);
    sim_head_start(s);
}

void sim_head_free(struct sim *s)
{
    struct sim_head *h = s->head;
    if (!h)
        return;
    sim_head_crash(s);
    for (size_t i = 0; i < h->disk.count; i++) {
        free(h->disk.data[i].key);
        free(h->disk.data[i].value);
    }
    mt_vec_fini(&h->disk);
    mt_vec_fini(&h->under_way);
    sim_redis_free(s);
    head_actions_fini(&h->actions);
    free(h);
    s->head = NULL;
}

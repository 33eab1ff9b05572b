/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h.
 *
 *   under_way[0] --begin--> leader --ask--> (lost | late) --> twin --answer--> (lost) --> leader --DONE--> the head is told
 *
 * A request is a copy, since it may arrive when its sender has long given it up, or has died. The model is what was confirmed.
 *
 * Owns: struct sim_redis. Thread: one.
 */
#include "tests/sim/shells/redis.h"

#include "tests/sim/shells/node.h"
#include "tests/sim/twins/net.h"
#include "tests/sim/twins/redis.h"

#include "scheduler/head/store/leader.h"

#include <stdlib.h>

enum { LIMIT = 1000 * SIM_MS, AGAIN = 200 * SIM_MS, LOOK = 300 * SIM_MS, CALM = 6 * SIM_S };

struct under_way {
    uint64_t            token;
    struct head_record *records;
    size_t              count;
};

struct request { /* a copy of an ask */
    struct head_ask   ask;
    struct head_item *changes;
    struct head_shelf all;
    uint64_t          server; /* that it was sent to: after a failover another one answers */
};

struct sim_redis {
    struct twin_redis  server, before, model; /* before: as it was a while ago; what a failover goes back to */
    struct head_leader leader;
    uint64_t           head;  /* serial; 0: none */
    uint64_t           asked; /* number of the request whose answer is waited for; 0: none */
    uint64_t           next_number, server_number;
    uint64_t           asked_server; /* server_number then */
    uint64_t           read_only_until, calm_until;
    char               cluster[HEAD_CLUSTER_SIZE];
    struct request    *last; /* the commit under way when the head died */
    MT_VEC(struct under_way) under_way;
    MT_VEC(struct request *) late; /* will arrive some day */
};

/* ---- requests ---- */

static struct head_item *item_copy(const struct head_item *from)
{
    struct head_item *item = head_item_new(from->field, from->value);
    if (!item)
        abort();
    item->is_dropped = from->is_dropped;
    return item;
}

static void shelf_copy(struct head_shelf *to, const struct head_shelf *from)
{
    if (head_shelf_reserve(to, (uint32_t)from->count + 1).code)
        abort();
    for (const struct head_item *item = NULL; (item = head_shelf_next(from, item));)
        head_shelf_take(to, item_copy(item));
}

static struct request *request_new(const struct sim_redis *r, const struct head_ask *ask)
{
    struct request    *q = sim_alloc(sizeof *q);
    struct head_item **end = &q->changes;
    q->ask = *ask;
    q->server = r->server_number;
    for (const struct head_item *item = ask->changes; item; item = item->next, end = &(*end)->next)
        *end = item_copy(item);
    q->ask.changes = q->changes;
    if (ask->all)
        shelf_copy(&q->all, ask->all);
    q->ask.all = ask->all ? &q->all : NULL;
    return q;
}

static void request_free(struct request *q)
{
    if (!q)
        return;
    for (struct head_item *item = q->changes, *next; item; item = next) {
        next = item->next;
        free(item);
    }
    head_shelf_fini(&q->all);
    free(q);
}

static void ask_now(struct sim *s);

static void arrives(struct sim_redis *r, struct request *q, struct head_said *said)
{
    q->ask.cluster = r->cluster;
    twin_redis_do(&r->server, &q->ask, said);
}

static void late_arrives(struct sim *s, struct sim_event *e)
{
    struct sim_redis *r = s->redis;
    struct head_said  said;
    (void)e;
    if (r->late.count == 0)
        return;
    struct request *q = r->late.data[0];
    mt_vec_remove(&r->late, 0);
    if (q->server == r->server_number)
        arrives(r, q, &said);
    request_free(q);
    s->counters.store_late++;
}

/* ---- answers ---- */

static bool model_has(const struct sim_redis *r)
{
    const struct head_shelf *a = &r->server.records, *b = &r->model.records;
    struct twin_redis        copy = {0};
    if (a->count != b->count)
        return false;
    twin_redis_copy(&copy, &r->model);
    for (const struct head_item *item = NULL; (item = head_shelf_next(a, item));) {
        struct head_item *drop = item_copy(item);
        bool              is_same = false;
        for (const struct head_item *m = NULL; !is_same && (m = head_shelf_next(b, m));)
            is_same = mt_view_equal(m->field, item->field) && mt_view_equal(m->value, item->value);
        drop->is_dropped = is_same;
        if (is_same)
            head_shelf_take(&copy.records, drop);
        else
            free(drop);
    }
    bool is_empty = copy.records.count == 0;
    twin_redis_clear(&copy);
    return is_empty;
}

static void model_take(struct sim_redis *r, const struct head_item *changes)
{
    for (const struct head_item *item = changes; item; item = item->next) {
        if (head_shelf_reserve(&r->model.records, 1).code)
            abort();
        head_shelf_take(&r->model.records, item_copy(item));
    }
}

static void confirmed(struct sim *s)
{
    struct sim_redis *r = s->redis;
    struct under_way  u = r->under_way.data[0];
    SIM_REQUIRE(s, r->asked_server != r->server_number || r->server.at.seq == r->leader.at.seq,
                "I17: commit %llu is confirmed, and the store is at %llu", (unsigned long long)r->leader.at.seq,
                (unsigned long long)r->server.at.seq);
    model_take(r, r->last->changes);
    mt_vec_remove(&r->under_way, 0);
    head_records_free(u.records, u.count);
    request_free(r->last);
    r->last = NULL;
    sim_head_stored(s, u.token);
}

static void ask_later(struct sim *s, uint64_t after);

static void answered(struct sim *s, const struct head_said *said)
{
    struct sim_redis *r = s->redis;
    uint64_t          rewritten = r->leader.rewritten;
    bool              was_begun = r->last != NULL;
    r->asked = 0;
    enum head_verdict verdict = head_leader_told(&r->leader, said);
    s->counters.store_rewritten += r->leader.rewritten - rewritten;
    SIM_REQUIRE(s, verdict == HEAD_DONE || verdict == HEAD_AGAIN, "I17: the store is not the head's any more (word %d, at %llu)",
                (int)said->word, (unsigned long long)said->at.seq);
    if (verdict == HEAD_DONE && was_begun && r->leader.next.seq == 0)
        confirmed(s); /* it may have died of it */
    if (r->head && !r->asked)
        ask_later(s, verdict == HEAD_AGAIN || r->under_way.count > 0 ? 0 : LOOK);
}

static void answer(struct sim *s, struct sim_event *e)
{
    struct sim_redis *r = s->redis;
    struct head_said  said;
    if (e->target != r->head || e->arg != r->asked)
        return;
    memcpy(&said, e->bytes, sizeof said);
    answered(s, &said);
}

static void gives_up(struct sim *s, struct sim_event *e)
{
    if (e->target != s->redis->head || e->arg != s->redis->asked)
        return;
    s->redis->asked = 0;
    ask_now(s);
}

/* ---- asking ---- */

static void look(struct sim *s, struct sim_event *e)
{
    if (e->target == s->redis->head && !s->redis->asked)
        ask_now(s);
}

static void ask_later(struct sim *s, uint64_t after)
{
    sim_after(s, after + 1, "store look", look, s->redis->head);
}

static bool is_calm(const struct sim *s)
{
    return s->is_healed || s->redis->calm_until > s->now;
}

static void does(struct sim *s, struct request *q, uint64_t number)
{
    struct sim_redis *r = s->redis;
    struct head_said  said;
    arrives(r, q, &said);
    if (!is_calm(s) && sim_chance(s, 60000)) {
        s->counters.store_reply_lost++;
        s->counters.fault_total++;
        return;
    }
    struct sim_event *e = sim_after(s, sim_between(s, 50 * SIM_US, 2 * SIM_MS), "store answer", answer, r->head);
    e->arg = number;
    e->size = sizeof said;
    e->bytes = sim_alloc(sizeof said);
    memcpy(e->bytes, &said, sizeof said);
}

static void reaches(struct sim *s, struct sim_event *e)
{
    struct sim_redis *r = s->redis;
    struct request   *q;
    memcpy(&q, e->bytes, sizeof q);
    if (q->server != r->server_number) {
        s->counters.store_reply_lost++;
    } else if (s->now < r->read_only_until && !s->is_healed) {
        if (e->target == r->head && e->arg == r->asked) {
            r->asked = 0;
            ask_later(s, AGAIN);
        }
    } else {
        does(s, q, e->arg);
    }
    request_free(q);
}

static void ask_now(struct sim *s)
{
    struct sim_redis *r = s->redis;
    struct head_ask   ask;
    if (!r->last && r->under_way.count > 0) {
        struct under_way          *u = &r->under_way.data[0];
        const struct head_record **records = sim_alloc(u->count * sizeof(struct head_record *) + 1);
        for (size_t i = 0; i < u->count; i++)
            records[i] = &u->records[i];
        if (head_leader_begin(&r->leader, records, u->count).code)
            abort();
        free(records);
        head_leader_ask(&r->leader, &ask);
        r->last = request_new(r, &(struct head_ask){.kind = HEAD_ASK_APPLY, .at = r->leader.next, .changes = r->leader.changes});
    }
    head_leader_ask(&r->leader, &ask);
    r->asked = ++r->next_number;
    r->asked_server = r->server_number;
    sim_after(s, LIMIT, "store limit", gives_up, r->head)->arg = r->asked;
    bool is_lost = !is_calm(s) && sim_chance(s, 60000);
    if (is_lost) {
        s->counters.fault_total++;
        if (sim_chance(s, 700000)) { /* it lies somewhere on the way */
            if (mt_vec_push(&r->late, request_new(r, &ask)).code)
                abort();
            sim_after(s, sim_between(s, LIMIT, 4 * SIM_S), "late request", late_arrives, 0);
        }
        return;
    }
    struct request   *q = request_new(r, &ask);
    struct sim_event *e = sim_after(s, sim_between(s, 50 * SIM_US, 2 * SIM_MS), "store request", reaches, r->head);
    e->arg = r->asked;
    e->size = sizeof q;
    e->bytes = sim_alloc(sizeof q);
    memcpy(e->bytes, &q, sizeof q);
}

void sim_redis_store(struct sim *s, uint64_t token, struct head_record *take_records, size_t count)
{
    struct sim_redis *r = s->redis;
    struct under_way  u = {token, take_records, count};
    if (mt_vec_push(&r->under_way, u).code)
        abort();
    if (!r->asked)
        ask_now(s);
}

/* ---- a server that fails ---- */

/* It goes back to what it was, or to nothing; the head lives on, and gives it everything again. */
static void forget(struct sim *s)
{
    struct sim_redis *r = s->redis;
    r->server_number++;
    r->calm_until = s->head_spared_until = s->now + CALM;
    sim_head_plan_crash(s, 0);
    if (sim_chance(s, 300000)) { /* its copies have forgotten it all too */
        twin_redis_clear(&r->server);
        twin_redis_clear(&r->before);
    } else {
        twin_redis_copy(&r->server, &r->before);
    }
    s->counters.store_forgot++;
}

static void server_fault(struct sim *s, struct sim_event *e)
{
    struct sim_redis *r = s->redis;
    (void)e;
    if (s->is_healed)
        return;
    if (!is_calm(s)) {
        s->counters.fault_total++;
        if (sim_chance(s, 500000) && sim_head_is_up(s) && r->before.is_there) {
            forget(s);
        } else {
            r->read_only_until = s->now + sim_between(s, 50 * SIM_MS, SIM_S);
            s->counters.store_read_only++;
        }
        if (sim_chance(s, 700000))
            twin_redis_copy(&r->before, &r->server);
    }
    sim_after(s, sim_between(s, 100 * SIM_MS, SIM_S), "store fault", server_fault, 0);
}

/* ---- a head's life ---- */

static void check_found(struct sim *s)
{
    struct sim_redis *r = s->redis;
    if (r->last && r->server.at.seq == r->last->ask.at.seq) /* the commit that was under way has come in */
        model_take(r, r->last->changes);
    request_free(r->last);
    r->last = NULL;
    SIM_REQUIRE(s, model_has(r),
                "I17: the store has %llu records after commit %llu, and other ones than the %llu that were confirmed",
                (unsigned long long)r->server.records.count, (unsigned long long)r->server.at.seq,
                (unsigned long long)r->model.records.count);
}

void sim_redis_lead(struct sim *s, uint64_t head_serial,
                    void (*record)(struct sim *s, enum head_table table, mt_view key, mt_view value))
{
    struct sim_redis  *r = s->redis;
    struct head_said   said;
    struct head_record found;
    bool               is_new = !r;
    if (is_new) {
        r = s->redis = sim_alloc(sizeof *r);
        snprintf(r->cluster, sizeof r->cluster, "0123456789abcdef0123456789abcdef");
        sim_after(s, sim_between(s, 100 * SIM_MS, SIM_S), "store fault", server_fault, 0);
    }
    struct head_ask ask = {
        .kind = HEAD_ASK_LEAD, .cluster = "", .new_cluster = r->cluster, .may_make = is_new, .at.run = head_serial};
    twin_redis_do(&r->server, &ask, &said);
    SIM_REQUIRE(s, said.word == HEAD_WORD_OK, "I17: a head can not take the lead (word %d)", (int)said.word);
    if (head_leader_init(&r->leader, &said).code)
        abort();
    check_found(s);
    shelf_copy(&r->leader.shelf, &r->server.records);
    for (size_t i = 0; i < HEAD_PAST; i++)
        head_leader_past(&r->leader, r->server.past[i].seq, r->server.past[i].digest);
    r->head = head_serial;
    for (const struct head_item *item = NULL; (item = head_shelf_next(&r->leader.shelf, item));) {
        SIM_REQUIRE(s, head_item_unpack(item->field, item->value, &found).code == 0, "I17: a record has changed");
        record(s, found.table, mt_view_of(found.key, found.key_size), mt_view_of(found.value, found.value_size));
    }
    if (r->late.count > 0 && sim_chance(s, 500000)) /* of the one before */
        late_arrives(s, NULL);
    ask_later(s, LOOK);
}

void sim_redis_head_died(struct sim *s)
{
    struct sim_redis *r = s->redis;
    if (!r || !r->head)
        return;
    r->head = r->asked = 0;
    if (r->last && !is_calm(s) && sim_chance(s, 300000)) { /* what it had sent last is still on the way */
        struct head_ask ask;
        head_leader_ask(&r->leader, &ask);
        if (mt_vec_push(&r->late, request_new(r, &ask)).code)
            abort();
        sim_after(s, sim_between(s, SIM_MS, 3 * SIM_S), "late request", late_arrives, 0);
    }
    head_leader_fini(&r->leader);
    for (size_t i = 0; i < r->under_way.count; i++)
        head_records_free(r->under_way.data[i].records, r->under_way.data[i].count);
    r->under_way.count = 0;
}

void sim_redis_free(struct sim *s)
{
    struct sim_redis *r = s->redis;
    if (!r)
        return;
    sim_redis_head_died(s);
    for (size_t i = 0; i < r->late.count; i++)
        request_free(r->late.data[i]);
    request_free(r->last);
    mt_vec_fini(&r->late);
    mt_vec_fini(&r->under_way);
    twin_redis_clear(&r->server);
    twin_redis_clear(&r->before);
    twin_redis_clear(&r->model);
    free(r);
    s->redis = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * usage.c - what each job holds of this node, over time.
 *
 * Owns: every struct rlt_usage, and what was said of them and not acknowledged. Thread: the logic loop only.
 * Always: what is in a message that was said is in no other; a message is kept until the head's store has it, and said again
 * under its number. So each microsecond of what is reserved is counted once, whoever is killed but this raylet.
 */
#include "raylet/core/usage/usage.h"

#include "core/base/hash.h"

#include <stdio.h>
#include <stdlib.h>

enum { MILLI = 1000, MIB_SHIFT = 20 };

static bool holds_any(const struct rlt *r, const struct rlt_usage *u)
{
    for (uint32_t i = 0; i < r->ledger.count; i++)
        if (u->held[i])
            return true;
    return false;
}

/* Of the resource of which it holds the largest part of the node: that part, in thousandths. */
static uint64_t share_of(const struct rlt *r, const struct rlt_usage *u)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        uint64_t total = (uint64_t)r->ledger.total[i].milli, part = (uint64_t)u->held[i];
        uint64_t milli = total > UINT64_MAX / MILLI ? part / (total / MILLI) : part * MILLI / total;
        most = milli > most ? milli : most;
    }
    return most;
}

static uint64_t held_of(const struct rlt *r, const struct rlt_usage *u, const char *name)
{
    int at = rlt_ledger_find(&r->ledger, name);
    return at >= 0 ? (uint64_t)u->held[at] : 0;
}

/* Up to now. */
static void count(struct rlt *r, struct rlt_usage *u)
{
    uint64_t us = r->now / 1000 - u->since_us; /* so that no part of a microsecond is lost from one to the next */
    u->since_us = r->now / 1000;
    u->cpu += held_of(r, u, "CPU") * us;
    u->gpu += held_of(r, u, "GPU") * us;
    u->memory += (held_of(r, u, "memory") >> MIB_SHIFT) * us;
    u->node += share_of(r, u) * us;
}

static void tell_at(struct rlt *r, uint64_t at)
{
    if (!mt_heap_holds(&r->usage.timer.node) || r->usage.timer.node.key > at)
        rlt_timer_set(r, &r->usage.timer, at);
}

static struct rlt_usage *usage_of(struct rlt *r, uint64_t job)
{
    struct rlt_usage *u = mt_map_ptr(&r->usage.jobs, mt_map_key(job));
    if (u)
        return u;
    u = rlt_calloc(sizeof *u);
    u->job = job;
    u->since_us = r->now / 1000;
    rlt_map_put(&r->usage.jobs, mt_map_key(job), u);
    return u;
}

void rlt_usage_change(struct rlt *r, uint64_t job, const struct rlt_hold *hold, enum rlt_usage_way way)
{
    int  cpu = rlt_ledger_find(&r->ledger, "CPU");
    bool is_any = false;
    if (!r->config.has_head || r->config.is_private || !job)
        return;
    for (uint32_t i = 0; i < r->ledger.count && !is_any; i++)
        is_any = hold->amount[i] && !(hold->is_cpu_out && (int)i == cpu);
    if (!is_any)
        return;
    struct rlt_usage *u = usage_of(r, job);
    count(r, u);
    for (uint32_t i = 0; i < r->ledger.count; i++)
        if (!hold->is_cpu_out || (int)i != cpu)
            u->held[i] += (int64_t)way * hold->amount[i];
    tell_at(r, r->now + MT_RLT_USAGE_MS * RLT_MS);
}

uint64_t rlt_usage_number(const char *id)
{
    return mt_hash_text(MT_HASH_START, id) | 1;
}

void rlt_usage_known(struct rlt *r, uint64_t job, const char *id)
{
    if (!r->config.has_head || r->config.is_private)
        return;
    struct rlt_usage *u = usage_of(r, job);
    u->is_known = true;
    u->is_over = false;
    u->is_news = job != rlt_usage_number(id); /* on other nodes leases are under the driver's number */
    snprintf(u->id, sizeof u->id, "%s", id);
    if (u->is_news)
        tell_at(r, r->now + MT_RLT_USAGE_NEWS_MS * RLT_MS);
}

void rlt_usage_over(struct rlt *r, uint64_t job)
{
    struct rlt_usage *u = mt_map_ptr(&r->usage.jobs, mt_map_key(job));
    if (!u)
        return;
    u->is_over = true;
    tell_at(r, r->now + MT_RLT_USAGE_SOON_MS * RLT_MS);
}

/* ---- what the head hears ---- */

/* Takes out what can be said in whole units; the rest stays for the next time. */
static uint64_t take(uint64_t *sum)
{
    uint64_t whole = *sum / MILLI;
    *sum %= MILLI;
    return whole;
}

/* Also what holds something: the head counts on with it should this node be lost. */
static bool is_to_be_said(const struct rlt *r, const struct rlt_usage *u)
{
    return u->is_news || holds_any(r, u) || u->cpu >= MILLI || u->gpu >= MILLI || u->memory >= MILLI || u->node >= MILLI;
}

static bool is_new(const struct rlt_usage *u)
{
    return u->is_news || u->cpu >= MILLI || u->gpu >= MILLI || u->memory >= MILLI || u->node >= MILLI;
}

static void fill(struct rlt *r, struct rlt_usage *u, Manta__V1__UsageOf *out)
{
    *out = (Manta__V1__UsageOf)MANTA__V1__USAGE_OF__INIT;
    out->job = u->job;
    out->is_known = u->is_known;
    out->cpu_us = take(&u->cpu);
    out->gpu_us = take(&u->gpu);
    out->memory_mib_ms = take(&u->memory);
    out->node_us = take(&u->node);
    out->cpu_milli = held_of(r, u, "CPU");
    out->gpu_milli = held_of(r, u, "GPU");
    out->memory_mib = held_of(r, u, "memory") >> MIB_SHIFT;
    out->node_milli = share_of(r, u);
    u->is_news = false;
}

/* All that is new, as one message more that is to be acknowledged. False: nothing is. */
static bool make(struct rlt *r)
{
    size_t most = r->usage.jobs.count;
    bool   is_any = false;
    MT_MAP_EACH(&r->usage.jobs, entry) {
        count(r, entry->value.ptr);
        is_any |= is_new(entry->value.ptr);
    }
    if (!is_any)
        return false;
    struct rlt_usage_said *said = rlt_calloc(sizeof *said + most * sizeof said->items[0]);
    said->number = ++r->usage.said;
    MT_MAP_EACH(&r->usage.jobs, entry) {
        struct rlt_usage *u = entry->value.ptr;
        if (!is_to_be_said(r, u))
            continue;
        memcpy(said->items[said->count].id, u->id, sizeof u->id);
        fill(r, u, &said->items[said->count++].of);
    }
    r->usage.unanswered[r->usage.unanswered_count++] = said;
    return true;
}

/* What holds nothing, and of which all was said, is made anew when it is needed. */
static void forget_idle(struct rlt *r)
{
    MT_MAP_EACH(&r->usage.jobs, entry) {
        struct rlt_usage *u = entry->value.ptr;
        if (holds_any(r, u) || u->is_news || (u->is_known && !u->is_over))
            continue;
        mt_map_remove(&r->usage.jobs, entry->key);
        free(u);
    }
}

static void say(struct rlt *r, const struct rlt_usage_said *said)
{
    static const Manta__V1__Usage empty = MANTA__V1__USAGE__INIT;
    Manta__V1__NodeToHead        *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_USAGE);
    Manta__V1__Usage             *usage = rlt_keep(r->out, &empty, sizeof empty);
    usage->boot = r->config.boot;
    usage->number = said->number;
    usage->first = r->usage.unanswered[0]->number;
    usage->of = rlt_keep(r->out, NULL, said->count * sizeof *usage->of);
    for (size_t i = 0; i < said->count; i++) {
        usage->of[i] = rlt_keep(r->out, &said->items[i].of, sizeof said->items[i].of);
        usage->of[i]->id = rlt_keep_text(r, said->items[i].id);
    }
    usage->n_of = said->count;
    m->usage = usage;
    rlt_head_send(r, m);
    r->usage.said_at = r->now;
}

static void say_all(struct rlt *r)
{
    for (uint32_t i = 0; i < r->usage.unanswered_count; i++)
        say(r, r->usage.unanswered[i]);
}

void rlt_usage_timer(struct rlt *r)
{
    struct rlt_usages *us = &r->usage;
    if (!r->head.is_registered)
        return; /* rlt_usage_registered goes on */
    if (us->unanswered_count && r->now - us->said_at >= MT_RLT_USAGE_AGAIN_MS * RLT_MS)
        say_all(r);
    if (us->unanswered_count < MT_RLT_USAGE_UNANSWERED) {
        if (make(r))
            say(r, us->unanswered[us->unanswered_count - 1]);
        forget_idle(r);
    }
    if (us->unanswered_count)
        tell_at(r, r->now + MT_RLT_USAGE_AGAIN_MS * RLT_MS);
    else if (us->jobs.count)
        tell_at(r, r->now + MT_RLT_USAGE_MS * RLT_MS);
}

void rlt_usage_registered(struct rlt *r)
{
    say_all(r);
    if (r->usage.jobs.count || r->usage.unanswered_count)
        tell_at(r, r->now + MT_RLT_USAGE_SOON_MS * RLT_MS);
}

void rlt_usage_acked(struct rlt *r, const Manta__V1__UsageAck *ack)
{
    struct rlt_usages *us = &r->usage;
    uint32_t           kept = 0;
    if (ack->boot != r->config.boot)
        return;
    for (uint32_t i = 0; i < us->unanswered_count; i++) {
        if (us->unanswered[i]->number > ack->number)
            us->unanswered[kept++] = us->unanswered[i];
        else
            free(us->unanswered[i]);
    }
    us->unanswered_count = kept;
}

void rlt_usage_given_up(struct rlt *r)
{
    for (uint32_t i = 0; i < r->usage.unanswered_count; i++)
        free(r->usage.unanswered[i]);
    r->usage.unanswered_count = 0;
    MT_MAP_EACH(&r->usage.jobs, entry) {
        struct rlt_usage *u = entry->value.ptr;
        count(r, u);
        u->cpu = u->gpu = u->memory = u->node = 0;
    }
}

void rlt_usage_fini(struct rlt *r)
{
    for (uint32_t i = 0; i < r->usage.unanswered_count; i++)
        free(r->usage.unanswered[i]);
    MT_MAP_EACH(&r->usage.jobs, entry)
        free(entry->value.ptr);
    mt_map_fini(&r->usage.jobs);
}

void rlt_usage_held(const struct rlt *r, int64_t held[MT_RLT_RESOURCES_MAX])
{
    memset(held, 0, MT_RLT_RESOURCES_MAX * sizeof *held);
    MT_MAP_EACH(&r->usage.jobs, entry)
        for (uint32_t i = 0; i < r->ledger.count; i++)
            held[i] += ((const struct rlt_usage *)entry->value.ptr)->held[i];
}

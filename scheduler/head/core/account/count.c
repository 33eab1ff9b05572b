/* SPDX-License-Identifier: Apache-2.0
 *
 * count.c - what nodes say that jobs have held, counted once, and charged to the job and to its user.
 *
 * Always:  a message of a node is acknowledged when the store has what it adds; one that comes again is acknowledged and adds
 *          nothing. Of a node that is lost what was held is counted up to its last sign of life: its raylet counts for itself, so
 *          what it says later, under a new epoch, is about later.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/account/private.h"

enum { MILLI = 1000 };

/* ---- what it costs ---- */

/* The price of an hour of that node, in thousandths; 0: its type has none, or the cluster has not started it. */
static uint64_t price_of(const struct head *h, const struct node *n)
{
    static const char key[] = "manta.type=";
    const char       *at = h->scale.config ? n->place.labels : NULL;
    while (at && strncmp(at, key, sizeof key - 1) != 0)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    if (!at)
        return 0;
    at += sizeof key - 1;
    for (size_t i = 0; i < h->scale.config->n_types; i++) {
        const Manta__V1__ScaleType *type = h->scale.config->types[i];
        if (strlen(type->name) == strcspn(at, ",") && strncmp(type->name, at, strlen(type->name)) == 0)
            return type->price_milli > 0 ? (uint64_t)type->price_milli : 0;
    }
    return 0;
}

/* Of so many microseconds of a whole node. */
static uint64_t cost_micro(uint64_t price_milli, uint64_t node_us)
{
    const uint64_t hour_ms = UINT64_C(3600) * MILLI;
    return price_milli < UINT64_MAX / (node_us + 1) ? price_milli * node_us / (hour_ms) : node_us / hour_ms * price_milli;
}

/* What nobody else could have of the node meanwhile, in CPU-seconds: its largest part, of all its CPUs, or of one where it has
 * none. */
static double usage_of(struct head *h, const struct node *n, uint64_t node_us)
{
    int64_t cpus = policy_total(&n->place, head_resources_kind(h, "CPU"));
    return (double)node_us / 1e6 * (cpus > 0 ? (double)cpus / MILLI : 1);
}

/* ---- who pays ---- */

static void payer_is(const char *user, const char *job, struct payer *out)
{
    snprintf(out->user, sizeof out->user, "%s", user);
    snprintf(out->job, sizeof out->job, "%s", job);
}

/* The user of a submitted job; of a program that was started by hand whoever runs the node. */
static void payer_of_job(const struct head *h, const char *id, struct payer *out)
{
    struct head_index_node *at = head_index_find(&h->jobs, id);
    payer_is(!id[0] ? MT_ADMIN_NAME : at ? mt_container_of(at, struct job, at)->user : "", id, out);
}

/* False: another node has to say first whose it is. */
static bool payer_find(struct head *h, const Manta__V1__UsageOf *of, struct payer *out)
{
    const struct payer *p = head_payer_find(h, of->job);
    if (p)
        payer_is(p->user, p->job, out);
    else if (of->is_known && strlen(of->id) < HEAD_JOB_ID_SIZE)
        payer_of_job(h, of->id, out);
    else
        payer_is("", "", out);
    return p || of->is_known;
}

static bool all_known(struct head *h, const Manta__V1__Usage *usage)
{
    struct payer p;
    for (size_t i = 0; i < usage->n_of; i++)
        if (!payer_find(h, usage->of[i], &p))
            return false;
    return true;
}

/* ---- messages ---- */

static void acknowledge(struct head *h, struct stream *s, const struct meter *m)
{
    Manta__V1__UsageAck ack = MANTA__V1__USAGE_ACK__INIT;
    to_node             message = MANTA__V1__HEAD_TO_NODE__INIT;
    ack.boot = m->boot;
    ack.number = m->said;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_USAGE;
    message.usage = &ack;
    head_out_send(h, s, &message, true);
}

/* What was held by its last word is over (-1), or is what its new word says. */
static void measure(struct head *h, const struct meter_rate *rate, bool is_over)
{
    struct account *a = head_account_of(h, rate->user);
    const uint64_t  amounts[USER_RUNNING] = {rate->cpu_milli, rate->gpu_milli, rate->memory_mib << 20};
    for (int i = 0; a && i < USER_RUNNING; i++)
        a->measured[i] += is_over ? -amounts[i] : amounts[i];
}

static void forget_rates(struct head *h, struct meter *m)
{
    for (size_t i = 0; i < m->rates.count; i++)
        measure(h, &m->rates.data[i], true);
    m->rates.count = 0;
}

static void count_one(struct head *h, struct meter *m, const struct node *n, const Manta__V1__UsageOf *of)
{
    struct spent      spent = {of->cpu_us, of->gpu_us, of->memory_mib_ms, cost_micro(price_of(h, n), of->node_us)};
    struct meter_rate rate = {
        .cpu_milli = of->cpu_milli, .gpu_milli = of->gpu_milli, .memory_mib = of->memory_mib, .node_milli = of->node_milli};
    struct payer p;
    (void)payer_find(h, of, &p);
    if (of->is_known)
        head_payer_know(h, of->job, p.user, p.job);
    memcpy(rate.user, p.user, sizeof rate.user);
    memcpy(rate.job, p.job, sizeof rate.job);
    head_account_add(h, p.user, p.job, &spent, usage_of(h, n, of->node_us));
    HEAD_TRY(h, mt_vec_push(&m->rates, rate));
    measure(h, &rate, false);
}

/* Whether it is the next one that is to be counted. A raylet that has given up what it had not said begins at a later number. */
static bool is_next(const struct meter *m, const Manta__V1__Usage *usage)
{
    bool is_same = m->boot == usage->boot;
    return usage->number == usage->first ? !is_same || usage->number > m->said : is_same && usage->number == m->said + 1;
}

/* False: somebody in it may yet be known. It is said again. */
static bool may_count(struct head *h, struct meter *m, const Manta__V1__Usage *usage)
{
    if (all_known(h, usage)) {
        m->unknown_ms = 0;
        return true;
    }
    m->unknown_ms = m->unknown_ms ? m->unknown_ms : h->now_ms + !h->now_ms;
    if (h->now_ms - m->unknown_ms < MT_HEAD_PAYER_WAIT_MS)
        return false;
    m->unknown_ms = 0;
    return true;
}

void head_account_usage(struct head *h, struct stream *s, struct node *n, const Manta__V1__Usage *usage)
{
    struct meter *m = head_meter_of(h, n->place.id);
    if (!m || usage->boot != n->boot)
        return;
    bool is_again = m->boot == usage->boot && usage->number <= m->said;
    if (!is_again && (!is_next(m, usage) || !may_count(h, m, usage)))
        return;
    if (!is_again) {
        m->boot = usage->boot;
        m->said = usage->number;
        m->counted_ms = h->now_ms;
        forget_rates(h, m);
        for (size_t i = 0; i < usage->n_of; i++)
            count_one(h, m, n, usage->of[i]);
        head_account_store(h);
        head_meter_store(h, m);
    }
    acknowledge(h, s, m);
}

void head_account_node_lost(struct head *h, const struct node *n)
{
    struct meter *m = head_meter_find(h, n->place.id);
    uint64_t      end = n->closed_ms > n->heard_ms ? n->closed_ms : n->heard_ms, price = price_of(h, n);
    if (!m)
        return;
    for (size_t i = 0; i < m->rates.count && end > m->counted_ms; i++) {
        const struct meter_rate *rate = &m->rates.data[i];
        uint64_t                 ms = end - m->counted_ms;
        struct spent             spent = {rate->cpu_milli * ms, rate->gpu_milli * ms, rate->memory_mib * ms,
                                          cost_micro(price, rate->node_milli * ms)};
        head_account_add(h, rate->user, rate->job, &spent, usage_of(h, n, rate->node_milli * ms));
    }
    forget_rates(h, m);
    head_account_store(h);
    head_meter_drop(h, m);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - what was spent, by user, by day and by job; who pays for which number; how far each node's word is counted.
 *
 * Owns:    everything in h->account.
 * Always:  what a message of a node adds, and that it is counted, are in one batch.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/account/private.h"

#include "core/base/plant.h"
#include "scheduler/policy/share.h"

#include <stdlib.h>

/* Each with its letter before the key. */
enum account_kind { KIND_USER = 'u', KIND_DAY = 'd', KIND_JOB = 'j', KIND_PAYER = 'n', KIND_METER = 'm', KIND_SETTINGS = 's' };
enum { KEY_SIZE = 1 + 8 + HEAD_JOB_ID_SIZE, DAY_MS = 24 * 3600 * 1000 };

typedef Manta__Store__AccountRecord account_record;

/* ---- records ---- */

static size_t key_number(uint8_t key[KEY_SIZE], size_t at, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        key[at + i] = (uint8_t)(number >> 8 * (size - 1 - i));
    return at + size;
}

static size_t key_of(const account_record *r, uint8_t key[KEY_SIZE])
{
    size_t      at = 1;
    const char *text = r->kind == KIND_JOB ? r->job : r->user;
    key[0] = (uint8_t)r->kind;
    if (r->kind == KIND_DAY)
        at = key_number(key, at, r->day, 4);
    else if (r->kind == KIND_PAYER)
        return key_number(key, at, r->number, 8);
    else if (r->kind == KIND_METER)
        return key_number(key, at, r->node, 4);
    memcpy(key + at, text, strlen(text));
    return at + strlen(text);
}

/* `spent` may be NULL. */
static void store(struct head *h, account_record *r, const struct spent *spent, bool is_gone)
{
    uint8_t          key[KEY_SIZE];
    Manta__V1__Spent sums;
    if (spent) {
        head_account_fill(spent, &sums);
        r->spent = &sums;
    }
    head_record_change(h, HEAD_TABLE_ACCOUNT, key, key_of(r, key), is_gone ? NULL : &r->base);
}

static account_record record_of(enum account_kind kind, const char *user, const char *job)
{
    account_record r = MANTA__STORE__ACCOUNT_RECORD__INIT;
    r.kind = kind;
    r.user = (char *)(uintptr_t)user;
    r.job = (char *)(uintptr_t)job;
    return r;
}

void head_account_fill(const struct spent *from, Manta__V1__Spent *out)
{
    *out = (Manta__V1__Spent)MANTA__V1__SPENT__INIT;
    out->cpu_us = from->cpu_us;
    out->gpu_us = from->gpu_us;
    out->memory_mib_ms = from->memory_mib_ms;
    out->cost_micro = from->cost_micro;
}

static struct spent read_spent(const Manta__V1__Spent *from)
{
    return from ? (struct spent){from->cpu_us, from->gpu_us, from->memory_mib_ms, from->cost_micro} : (struct spent){0};
}

static void add(struct spent *to, const struct spent *more)
{
    to->cpu_us += more->cpu_us;
    to->gpu_us += more->gpu_us;
    to->memory_mib_ms += more->memory_mib_ms;
    to->cost_micro += more->cost_micro;
}

/* ---- users and their days ---- */

struct account *head_account_find(const struct head *h, const char *user)
{
    struct head_index_node *at = head_index_find(&h->account.users, user);
    return at ? mt_container_of(at, struct account, at) : NULL;
}

static void account_init(struct account *a, const char *user)
{
    snprintf(a->user, sizeof a->user, "%s", user);
    a->weight_milli = 1000;
    for (int i = 0; i < USER_BOUNDS; i++)
        a->bounds[i] = USER_NO_BOUND;
}

/* Beyond the bound of users all that come are one: nobody. */
struct account *head_account_of(struct head *h, const char *user)
{
    struct account *a = head_account_find(h, user);
    if (!a && user[0] && h->account.users.count >= MT_HEAD_ACCOUNTS_MAX)
        return head_account_of(h, "");
    if (a)
        return a;
    a = calloc(1, sizeof *a);
    if (a)
        account_init(a, user);
    if (!a || head_index_add(&h->account.users, &a->at, a->user).code) {
        free(a);
        head_broken(h, mt_error(MT_ENOMEM, 0, "open an account"));
        return NULL;
    }
    return a;
}

static struct account_day *day_of(struct head *h, struct account *a, uint32_t day)
{
    size_t at = a->days.count;
    while (at > 0 && a->days.data[at - 1].day > day)
        at--; /* the clock was set back */
    if (at > 0 && a->days.data[at - 1].day == day)
        return &a->days.data[at - 1];
    HEAD_TRY(h, mt_vec_reserve(&a->days, a->days.count + 1));
    if (a->days.capacity <= a->days.count)
        return NULL;
    memmove(&a->days.data[at + 1], &a->days.data[at], (a->days.count - at) * sizeof *a->days.data);
    a->days.count++;
    a->days.data[at] = (struct account_day){.day = day};
    return &a->days.data[at];
}

static void forget_old_days(struct head *h, struct account *a)
{
    while (a->days.count > MT_HEAD_ACCOUNT_DAYS) {
        account_record r = record_of(KIND_DAY, a->user, "");
        r.day = a->days.data[0].day;
        store(h, &r, NULL, true);
        mt_vec_remove(&a->days, 0);
    }
}

void head_account_store(struct head *h)
{
    for (struct head_index_node *at = h->account.users.first; at; at = at->next) {
        struct account *a = mt_container_of(at, struct account, at);
        account_record  r = record_of(KIND_USER, a->user, "");
        if (!a->is_changed)
            continue;
        a->is_changed = false;
        r.usage = head_account_usage_now(h, a);
        r.usage_ms = h->wall_ms;
        store(h, &r, &a->spent, false);
        for (size_t i = 0; i < a->days.count; i++) {
            if (!a->days.data[i].is_changed)
                continue;
            a->days.data[i].is_changed = false;
            r = record_of(KIND_DAY, a->user, "");
            r.day = a->days.data[i].day;
            store(h, &r, &a->days.data[i].spent, false);
        }
        forget_old_days(h, a);
    }
}

void head_account_store_settings(struct head *h, const struct account *a, Manta__V1__User *settings)
{
    account_record r = record_of(KIND_SETTINGS, a->user, "");
    r.settings = settings;
    store(h, &r, NULL, false);
}

/* ---- jobs ---- */

static struct bill *bill_find(const struct head *h, const char *job)
{
    struct head_index_node *at = head_index_find(&h->account.bills, job);
    return at ? mt_container_of(at, struct bill, at) : NULL;
}

static struct bill *bill_of(struct head *h, const char *job)
{
    struct bill *b = bill_find(h, job);
    if (b)
        return b;
    b = calloc(1, sizeof *b);
    if (b)
        snprintf(b->job, sizeof b->job, "%s", job);
    if (!b || head_index_add(&h->account.bills, &b->at, b->job).code) {
        free(b);
        head_broken(h, mt_error(MT_ENOMEM, 0, "make a bill"));
        return NULL;
    }
    return b;
}

static void bill_drop(struct head *h, struct bill *b)
{
    head_index_remove(&h->account.bills, &b->at);
    free(b);
}

Manta__V1__Spent *head_account_of_job(const struct head *h, const char *id, Manta__V1__Spent *out)
{
    const struct bill *b = bill_find(h, id);
    if (!b)
        return NULL;
    head_account_fill(&b->spent, out);
    return out;
}

void head_account_forget(struct head *h, const char *job)
{
    struct bill *b = bill_find(h, job);
    if (!b)
        return;
    account_record r = record_of(KIND_JOB, "", job);
    store(h, &r, NULL, true);
    bill_drop(h, b);
}

/* ---- shares ---- */

static double scale_at(const struct head *h, uint64_t wall_ms)
{
    return policy_share_scale((int64_t)(wall_ms - h->account.epoch_ms), MT_HEAD_HALF_LIFE_MS);
}

double head_account_usage_now(const struct head *h, const struct account *a)
{
    return a->usage / scale_at(h, h->wall_ms);
}

/* Of a user without an account: of one who has used nothing. */
double head_account_share(const struct job *job)
{
    return job->account ? policy_share_of(job->account->usage, job->account->weight_milli) : 0;
}

void head_account_add(struct head *h, const char *user, const char *job, const struct spent *spent, double usage)
{
    struct account     *a = head_account_of(h, user);
    struct account_day *day = a ? day_of(h, a, (uint32_t)(h->wall_ms / DAY_MS)) : NULL;
    struct bill        *bill = job[0] && head_index_find(&h->jobs, job) ? bill_of(h, job) : NULL;
    if (!a || !day)
        return;
    add(&a->spent, spent);
    add(&day->spent, spent);
    h->account.epoch_ms = h->account.epoch_ms ? h->account.epoch_ms : h->wall_ms;
    a->usage += usage * scale_at(h, h->wall_ms);
    a->is_changed = day->is_changed = true;
    if (!bill)
        return; /* a program that was started by hand, or a job that is deleted */
    account_record r = record_of(KIND_JOB, "", bill->job);
    add(&bill->spent, spent);
    store(h, &r, &bill->spent, false);
}

/* ---- who pays ---- */

struct payer *head_payer_find(const struct head *h, uint64_t number)
{
    return mt_map_ptr(&h->account.payers, mt_map_key(number));
}

static void payer_drop(struct head *h, size_t at)
{
    struct payer *p = head_payer_find(h, h->account.payer_order.data[at]);
    mt_vec_remove(&h->account.payer_order, at);
    mt_map_remove(&h->account.payers, mt_map_key(p->number));
    free(p);
}

static struct payer *payer_add(struct head *h, uint64_t number, const char *user, const char *job)
{
    struct payer *p = calloc(1, sizeof *p);
    if (!p || mt_vec_reserve(&h->account.payer_order, h->account.payer_order.count + 1).code ||
        mt_map_put_ptr(&h->account.payers, mt_map_key(number), p).code) {
        free(p);
        head_broken(h, mt_error(MT_ENOMEM, 0, "remember who pays"));
        return NULL;
    }
    h->account.payer_order.data[h->account.payer_order.count++] = number;
    p->number = number;
    snprintf(p->user, sizeof p->user, "%s", user);
    snprintf(p->job, sizeof p->job, "%s", job);
    return p;
}

/* The longest known go: a driver that is still there says who it is with each of its words. */
void head_payer_know(struct head *h, uint64_t number, const char *user, const char *job)
{
    if (head_payer_find(h, number))
        return;
    account_record r = record_of(KIND_PAYER, "", "");
    while (h->account.payer_order.count >= MT_HEAD_PAYERS_MAX) {
        r.number = h->account.payer_order.data[0];
        store(h, &r, NULL, true);
        payer_drop(h, 0);
    }
    struct payer *p = payer_add(h, number, user, job);
    if (!p)
        return;
    r = record_of(KIND_PAYER, p->user, p->job);
    r.number = number;
    store(h, &r, NULL, false);
}

/* ---- how far a node is counted ---- */

struct meter *head_meter_find(const struct head *h, uint32_t node)
{
    return mt_map_ptr(&h->account.meters, mt_map_key(node));
}

struct meter *head_meter_of(struct head *h, uint32_t node)
{
    struct meter *m = head_meter_find(h, node);
    if (m)
        return m;
    m = calloc(1, sizeof *m);
    if (!m || mt_map_put_ptr(&h->account.meters, mt_map_key(node), m).code) {
        free(m);
        head_broken(h, mt_error(MT_ENOMEM, 0, "count a node"));
        return NULL;
    }
    m->node = node;
    return m;
}

static void meter_free(struct meter *m)
{
    mt_vec_fini(&m->rates);
    free(m);
}

void head_meter_store(struct head *h, const struct meter *m)
{
    account_record r = record_of(KIND_METER, "", "");
    r.node = m->node;
    r.boot = m->boot;
    r.said = m->said;
    if (!MT_PLANT(MT_PLANT_ACCOUNT_TWICE))
        store(h, &r, NULL, false);
}

void head_meter_drop(struct head *h, struct meter *m)
{
    account_record r = record_of(KIND_METER, "", "");
    r.node = m->node;
    store(h, &r, NULL, true);
    mt_map_remove(&h->account.meters, mt_map_key(m->node));
    meter_free(m);
}

/* ---- the start and the end ---- */

static void user_load(struct head *h, struct account *a, const Manta__Store__AccountRecord *r)
{
    a->spent = read_spent(r->spent);
    h->account.epoch_ms = h->account.epoch_ms ? h->account.epoch_ms : r->usage_ms;
    a->usage = r->usage * scale_at(h, r->usage_ms);
}

static mt_status settings_load(struct head *h, const Manta__V1__User *from)
{
    const uint64_t  bounds[USER_BOUNDS] = {from->cpu_milli, from->gpu_milli, from->memory, from->running, from->waiting};
    struct account *a = strlen(from->name) < HEAD_NAME_SIZE ? head_account_of(h, from->name) : NULL;
    if (!a)
        return h->broken.code ? h->broken : mt_error(MT_ECORRUPT, 0, "the store holds a user that can't be");
    a->weight_milli = from->weight_milli;
    for (int i = 0; i < USER_BOUNDS; i++)
        a->bounds[i] = bounds[i] - 1; /* 0: no bound */
    return mt_ok();
}

mt_status head_account_load(struct head *h, const Manta__Store__AccountRecord *r)
{
    struct account     *a = NULL;
    struct account_day *day;
    struct bill        *bill;
    struct meter       *meter;
    if (strlen(r->user) >= HEAD_NAME_SIZE || strlen(r->job) >= HEAD_JOB_ID_SIZE)
        return mt_error(MT_ECORRUPT, 0, "the store holds an account that can't be");
    if (r->kind == KIND_USER || r->kind == KIND_DAY)
        a = head_account_of(h, r->user);
    if (r->kind == KIND_USER && a)
        user_load(h, a, r);
    else if (r->kind == KIND_SETTINGS && r->settings)
        return settings_load(h, r->settings);
    else if (r->kind == KIND_DAY && a && (day = day_of(h, a, r->day)))
        day->spent = read_spent(r->spent);
    else if (r->kind == KIND_JOB && (bill = bill_of(h, r->job)))
        bill->spent = read_spent(r->spent);
    else if (r->kind == KIND_PAYER && r->number && !head_payer_find(h, r->number))
        (void)payer_add(h, r->number, r->user, r->job);
    else if (r->kind == KIND_METER && (meter = head_meter_of(h, r->node)))
        *meter = (struct meter){.node = r->node, .boot = r->boot, .said = r->said};
    else
        return h->broken.code ? h->broken : mt_error(MT_EVERSION, 0, "the store holds an account of a kind that is not known");
    return h->broken;
}

void head_account_fini(struct head *h)
{
    while (h->account.users.first) {
        struct account *a = mt_container_of(h->account.users.first, struct account, at);
        head_index_remove(&h->account.users, &a->at);
        mt_vec_fini(&a->days);
        free(a);
    }
    while (h->account.bills.first)
        bill_drop(h, mt_container_of(h->account.bills.first, struct bill, at));
    head_index_fini(&h->account.users);
    head_index_fini(&h->account.bills);
    MT_MAP_EACH(&h->account.payers, payer)
        free(payer->value.ptr);
    mt_map_fini(&h->account.payers);
    mt_vec_fini(&h->account.payer_order);
    MT_MAP_EACH(&h->account.meters, meter)
        meter_free(meter->value.ptr);
    mt_map_fini(&h->account.meters);
}

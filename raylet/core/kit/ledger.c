/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger.c - taking and giving back what a node has.
 *
 * Owns: nothing; a ledger lives in the raylet, a hold in its lease. Thread: the logic loop only.
 * Always: free + leased = total for each resource; the devices' shares add up to free GPU.
 *
 * GPUs: a request of whole devices takes devices that nobody shares; a fraction below one goes to the fullest device
 * that still has room, so that whole ones stay whole.
 */
#include "raylet/core/kit/ledger.h"

#include <stdio.h>
#include <string.h>

enum { GPU_WHOLE = 1000 };

int rlt_ledger_find(const struct rlt_ledger *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->total[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool is_gpu(const struct ctl_resource *r)
{
    return strcmp(r->name, "GPU") == 0;
}

mt_status rlt_ledger_init(struct rlt_ledger *l, const struct ctl_resource *total, uint32_t count)
{
    memset(l, 0, sizeof *l);
    if (count > MT_RLT_RESOURCES_MAX)
        return mt_error(MT_EINVAL, 0, "resources: too many kinds on one node");
    for (uint32_t i = 0; i < count; i++) {
        if (total[i].milli <= 0 || rlt_ledger_find(l, total[i].name) >= 0)
            return mt_error(MT_EINVAL, 0, "resources: an amount that is not above zero, or a name twice");
        if (is_gpu(&total[i])) {
            if (total[i].milli % GPU_WHOLE || total[i].milli / GPU_WHOLE > MT_RLT_GPUS_MAX)
                return mt_error(MT_EINVAL, 0, "resources: GPUs of a node are whole devices, at most 16");
            l->gpu_count = (uint32_t)(total[i].milli / GPU_WHOLE);
            for (uint32_t g = 0; g < l->gpu_count; g++)
                l->gpu_free[g] = GPU_WHOLE;
        }
        l->total[i] = total[i];
        l->free[i] = total[i].milli;
        l->count++;
    }
    return mt_ok();
}

void rlt_ledger_pool(struct rlt_ledger *pool, struct rlt_ledger *whole, const struct rlt_hold *hold)
{
    memset(pool, 0, sizeof *pool);
    pool->whole = whole;
    pool->pins = whole->pins;
    pool->count = whole->count;
    pool->gpu_count = whole->gpu_count;
    for (uint32_t i = 0; i < whole->count; i++) {
        pool->total[i] = whole->total[i];
        pool->total[i].milli = pool->free[i] = hold->amount[i];
    }
    for (uint32_t g = 0; g < hold->gpu_count; g++)
        pool->gpu_free[hold->gpus[g]] = hold->gpu_milli;
    rlt_ledger_assert(pool);
}

mt_status rlt_request_check(struct ctl_resource *request, uint32_t count, char *text, size_t text_size)
{
    for (uint32_t i = 0; i < count; i++) {
        struct ctl_resource *r = &request[i];
        r->name[sizeof r->name - 1] = 0;
        if (!r->name[0] || r->milli <= 0) {
            snprintf(text, text_size, "resource \"%s\": the amount must be above zero (given: %.3f)", r->name,
                     (double)r->milli / 1000);
            return mt_error(MT_EINVAL, 0, "request: an amount that is not above zero");
        }
        if (is_gpu(r) && r->milli > GPU_WHOLE && r->milli % GPU_WHOLE) {
            snprintf(text, text_size, "resource \"GPU\": above one device, only whole ones (given: %.3f)", (double)r->milli / 1000);
            return mt_error(MT_EINVAL, 0, "request: GPUs above one are whole");
        }
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(request[k].name, r->name) == 0) {
                snprintf(text, text_size, "resource \"%s\" is named twice", r->name);
                return mt_error(MT_EINVAL, 0, "request: a resource twice");
            }
    }
    return mt_ok();
}

bool rlt_ledger_could_ever(const struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, uint32_t *out_lacking)
{
    for (uint32_t i = 0; i < count; i++) {
        int at = rlt_ledger_find(l, request[i].name);
        if (at < 0 || l->total[at].milli < request[i].milli) {
            if (out_lacking)
                *out_lacking = i;
            return false;
        }
    }
    return true;
}

/* Devices for `milli`: the fullest one with room for a fraction, untouched ones for whole devices. */
static bool gpus_pick(const struct rlt_ledger *l, int64_t milli, struct rlt_hold *hold)
{
    uint32_t want = milli > GPU_WHOLE ? (uint32_t)(milli / GPU_WHOLE) : 1;
    hold->gpu_milli = milli > GPU_WHOLE ? GPU_WHOLE : (int32_t)milli;
    hold->gpu_count = 0;
    if (want == 1) {
        int best = -1;
        for (uint32_t g = 0; g < l->gpu_count; g++)
            if (l->gpu_free[g] >= hold->gpu_milli && (best < 0 || l->gpu_free[g] < l->gpu_free[best]))
                best = (int)g;
        if (best >= 0)
            hold->gpus[hold->gpu_count++] = (uint16_t)best;
    } else {
        for (uint32_t g = 0; g < l->gpu_count && hold->gpu_count < want; g++)
            if (l->gpu_free[g] == GPU_WHOLE)
                hold->gpus[hold->gpu_count++] = (uint16_t)g;
    }
    return hold->gpu_count == want;
}

bool rlt_ledger_could_now(const struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, const int64_t *extra)
{
    for (uint32_t i = 0; i < count; i++) {
        int at = rlt_ledger_find(l, request[i].name);
        if (at < 0 || l->free[at] + (extra ? extra[at] : 0) < request[i].milli)
            return false;
        struct rlt_hold trial;
        if (!extra && is_gpu(&request[i]) && !gpus_pick(l, request[i].milli, &trial))
            return false;
    }
    return true;
}

bool rlt_ledger_take(struct rlt_ledger *l, const struct ctl_resource *request, uint32_t count, struct rlt_hold *out_hold)
{
    memset(out_hold, 0, sizeof *out_hold);
    if (!rlt_ledger_could_now(l, request, count, NULL))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int at = rlt_ledger_find(l, request[i].name);
        l->free[at] -= request[i].milli;
        l->leased[at] += request[i].milli;
        out_hold->amount[at] = request[i].milli;
        if (is_gpu(&request[i])) {
            bool picked = gpus_pick(l, request[i].milli, out_hold);
            MT_ASSERT(picked);
            for (uint32_t g = 0; g < out_hold->gpu_count; g++)
                l->gpu_free[out_hold->gpus[g]] -= out_hold->gpu_milli;
        }
    }
    l->changes++;
    rlt_ledger_assert(l);
    return true;
}

void rlt_ledger_pin(struct rlt_ledger *l, struct rlt_hold *hold)
{
    int at = rlt_ledger_find(l, "CPU");
    if (at >= 0 && l->pins)
        rlt_pins_take(l->pins, (uint32_t)(hold->amount[at] / 1000), hold->cpus);
}

void rlt_ledger_give(struct rlt_ledger *l, struct rlt_hold *hold)
{
    if (hold->is_cpu_out)
        rlt_ledger_retake_cpu(l, hold);
    for (uint32_t i = 0; i < l->count; i++) {
        l->free[i] += hold->amount[i];
        l->leased[i] -= hold->amount[i];
    }
    for (uint32_t g = 0; g < hold->gpu_count; g++)
        l->gpu_free[hold->gpus[g]] += hold->gpu_milli;
    if (rlt_pins_any(hold->cpus))
        rlt_pins_change(l->pins, hold->cpus, -1);
    memset(hold, 0, sizeof *hold);
    l->changes++;
    rlt_ledger_assert(l);
}

static void move_cpu(struct rlt_ledger *l, const struct rlt_hold *hold, int64_t sign)
{
    int at = rlt_ledger_find(l, "CPU");
    if (at < 0)
        return;
    l->free[at] += sign * hold->amount[at];
    l->leased[at] -= sign * hold->amount[at];
    if (rlt_pins_any(hold->cpus))
        rlt_pins_change(l->pins, hold->cpus, sign > 0 ? -1 : 1);
    (l->whole ? l->whole : l)->lent_count += hold->amount[at] ? (uint32_t)sign : 0;
    rlt_ledger_assert(l);
}

void rlt_ledger_lend_cpu(struct rlt_ledger *l, struct rlt_hold *hold)
{
    if (!hold->is_cpu_out)
        move_cpu(l, hold, 1);
    hold->is_cpu_out = true;
}

void rlt_ledger_retake_cpu(struct rlt_ledger *l, struct rlt_hold *hold)
{
    if (hold->is_cpu_out)
        move_cpu(l, hold, -1);
    hold->is_cpu_out = false;
}

void rlt_ledger_assert(const struct rlt_ledger *l)
{
    int64_t gpu_free = 0;
    for (uint32_t g = 0; g < l->gpu_count; g++) {
        MT_ASSERT(l->gpu_free[g] >= 0 && l->gpu_free[g] <= GPU_WHOLE);
        gpu_free += l->gpu_free[g];
    }
    for (uint32_t i = 0; i < l->count; i++) {
        MT_ASSERT(l->free[i] + l->leased[i] == l->total[i].milli && l->leased[i] >= 0);
        MT_ASSERT(!is_gpu(&l->total[i]) || l->free[i] == gpu_free);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * reserve.c - the one promise of a round: the first that finds no room, and could have it when jobs that run have ended, starts
 * then at the latest; what is behind it starts before only where that stays so (scheduler/policy/backfill.c).
 *
 * Owns:    nothing beyond the round. A promise is made anew in each, so nothing of it is stored.
 * Always:  a placement group that waits comes before jobs: whoever made it has had his turn and runs.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

#include "core/base/plant.h"

#include <stdlib.h>
#include <time.h>

/* An attempt of the job has ended after that: at its time it gets SIGTERM, then SIGKILL. POLICY_UNKNOWN_MS: it may run for ever. */
static uint64_t limit_of(const struct job *job)
{
    return job->spec->time_ms ? job->spec->time_ms + MT_RLT_JOB_STOP_MS : POLICY_UNKNOWN_MS;
}

static uint64_t ends_ms(const struct head *h, const struct job *job)
{
    uint64_t limit = limit_of(job), ran = h->wall_ms - job->started_ms;
    if (job->preempt_ms)
        return job->preempt_ms > h->now_ms ? job->preempt_ms : h->now_ms;
    if (limit == POLICY_UNKNOWN_MS)
        return limit;
    if (job->state != JOB_RUNNING || job->started_ms > h->wall_ms)
        ran = 0;
    return h->now_ms + (limit > ran ? limit - ran : 0);
}

struct runs {
    struct policy_release release;
    const struct job     *job;
};

static int by_end(const void *a, const void *b)
{
    const struct runs *x = a, *y = b;
    if (x->release.ends_ms != y->release.ends_ms)
        return x->release.ends_ms < y->release.ends_ms ? -1 : 1;
    return (x->job->order > y->job->order) - (x->job->order < y->job->order);
}

/* Room for `count` nodes, twice. */
static bool make_room(struct head *h, struct head_reserve *r, uint32_t count)
{
    if (r->room)
        return true;
    r->room = calloc(2 * (size_t)count + 1, sizeof *r->room);
    r->shadow = calloc(2 * (size_t)count + 1, sizeof(struct policy_node *));
    if (!r->room || !r->shadow) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "reserve room"));
        return false;
    }
    for (size_t i = 0; i < 2 * (size_t)count; i++)
        r->shadow[i] = &r->room[i];
    r->spare = r->shadow + count;
    return true;
}

static bool reserve(struct head *h, struct head_reserve *r, enum policy_strategy strategy, const struct policy_bundle *bundles,
                    uint32_t bundle_count)
{
    const size_t           count = h->placed.count;
    struct runs           *runs = calloc(count + 1, sizeof *runs);
    struct policy_release *releases = calloc(count + 1, sizeof *releases);
    size_t                 found = 0;
    if (!runs || !releases || !make_room(h, r, r->count)) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "reserve room"));
        free(runs);
        free(releases);
        return false;
    }
    for (const struct job *job = head_turns_first(&h->placed); job; job = head_turns_after(&h->placed, job))
        if (!job->is_ahead) /* who holds nothing gives nothing back */
            runs[found++] = (struct runs){{job->node, ends_ms(h, job), &job->bucket->request}, job};
    qsort(runs, found, sizeof *runs, by_end);
    for (size_t i = 0; i < found; i++)
        releases[i] = runs[i].release;
    r->is_on = policy_reserve((const struct policy_node *const *)r->nodes, r->shadow, r->count, releases, (uint32_t)found, strategy,
                              bundles, bundle_count, &h->rng, &r->at);
    if (r->is_on)
        r->waits_for = runs[r->at.waits_for - 1].job;
    free(runs);
    free(releases);
    return r->is_on;
}

/* "job X ends, at the latest at 12:00:00 UTC" */
static void say_when(const struct head *h, const struct head_reserve *r, char *text, size_t size)
{
    time_t    at = (time_t)((h->wall_ms + (r->at.at_ms - h->now_ms) + 999) / 1000);
    struct tm tm;
    char      when[40] = "";
    if (r->at.at_ms != POLICY_UNKNOWN_MS && gmtime_r(&at, &tm))
        strftime(when, sizeof when, ", at the latest at %H:%M:%S UTC", &tm);
    snprintf(text, size, "starts when job %.64s %s%s", r->waits_for->spec->id,
             r->waits_for->preempt_ms ? "has made room for it" : "ends", when[0] ? when : "; that has no time limit (--time-s)");
}

bool head_reserve_job(struct head *h, struct head_reserve *r, struct bucket *b)
{
    struct policy_bundle bundle = {&b->request, 0};
    char                 when[HEAD_TEXT_SIZE - 64];
    const struct job    *job = head_turns_first(&b->ready);
    if (r->is_on || b->request.policy == POLICY_NODE || r->tries++ >= MT_HEAD_RESERVE_TRIES ||
        !reserve(h, r, POLICY_GROUP_PACK, &bundle, 1))
        return false;
    say_when(h, r, when, sizeof when);
    snprintf(b->promise, sizeof b->promise, "reserved: %s", when);
    b->promised = job->order + 1;
    snprintf(r->for_whom, sizeof r->for_whom, "job %.64s", job->spec->id);
    return true;
}

void head_reserve_group(struct head *h, struct head_reserve *r)
{
    for (size_t i = 0; i < h->open_groups.count && !r->is_on; i++) {
        const struct group  *g = h->open_groups.data[i];
        struct policy_bundle bundles[MT_GROUP_BUNDLES_MAX];
        uint32_t             waiting = 0;
        for (uint32_t k = 0; k < g->bundle_count; k++) {
            bundles[k] = (struct policy_bundle){&g->bundles[k].request, g->bundles[k].node};
            waiting += g->bundles[k].state == BUNDLE_NONE;
        }
        if (!waiting || !g->again_ms || g->why[0] || r->tries++ >= MT_HEAD_RESERVE_TRIES)
            continue;
        if (reserve(h, r, g->strategy, bundles, g->bundle_count))
            snprintf(r->for_whom, sizeof r->for_whom, "placement group %.80s",
                     g->full_name ? strrchr(g->full_name, 0x1f) + 1 : g->key);
    }
}

bool head_reserve_place(struct head *h, struct head_reserve *r, struct bucket *b, uint32_t *out_node)
{
    uint64_t limit = limit_of(head_turns_first(&b->ready));
    if (!r->is_on || MT_PLANT(MT_PLANT_BACKFILL_DELAYS) ||
        (limit != POLICY_UNKNOWN_MS && policy_ends_before(&r->at, h->now_ms + limit)))
        return policy_place(r->nodes, r->count, &b->request, 1, &h->rng, out_node) == 1;
    policy_spare((const struct policy_node *const *)r->nodes, (const struct policy_node *const *)r->shadow, r->spare, r->count);
    if (policy_place(r->spare, r->count, &b->request, 1, &h->rng, out_node) != 1)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->nodes[i]->id == *out_node) {
            policy_take(r->nodes[i], &b->request);
            policy_take(r->shadow[i], &b->request);
            r->nodes[i]->places--;
        }
    return true;
}

bool head_reserve_keeps_back(const struct head_reserve *r, struct bucket *b)
{
    for (uint32_t i = 0; r->is_on && i < r->count; i++)
        if (r->nodes[i]->state == POLICY_ALIVE && (b->request.policy != POLICY_NODE || b->request.node == r->nodes[i]->id) &&
            policy_fits_free(r->nodes[i], &b->request)) {
            snprintf(b->why, sizeof b->why, "would delay %s, for which room is reserved%s", r->for_whom,
                     head_turns_first(&b->ready)->spec->time_ms ? ""
                                                                : ": with a short time limit (--time-s) it might start before");
            return true;
        }
    return false;
}

void head_reserve_fini(struct head_reserve *r)
{
    free(r->room);
    free(r->shadow);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * turns.c - where each job stands, and whose turn is next.
 *
 * Owns:    h->buckets, h->placed, h->ended, h->kept, h->retries, h->open.
 * Always:  a job stands in one line, by its order of submission: `ready` or `parked` of its bucket while it is PENDING, then
 *          h->placed, then h->ended, or h->kept where others of its array have not ended, so that the array's sum is whole.
 *          Its bucket lives as long as one that has not ended is of it.
 *
 * Jobs of one bucket are equal but for their order: what is true of the first is true of all. So a round looks at buckets, however
 * many jobs wait, and nothing walks through all jobs.
 */
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/nodes/nodes.h"

#include "core/base/plant.h"
#include "scheduler/policy/queue.h"

#include <inttypes.h>
#include <stdlib.h>

static struct job *job_at(mt_sorted_node *node)
{
    return node ? mt_container_of(node, struct job, in_line) : NULL;
}

/* ---- buckets ---- */

static void key_write(char *out, size_t size, const struct job *job, const struct policy_request *r)
{
    size_t used = (size_t)snprintf(out, size, "%s %" PRId32 " %" PRIu64 " %" PRIu32, job->user, job->spec->priority,
                                   job->spec->time_ms, job->spec->node);
    for (uint32_t i = 0; i < r->amount_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " %" PRIu32 "=%" PRId64, r->amounts[i].kind, r->amounts[i].amount);
    for (uint32_t i = 0; i < MT_RLT_SHUNNED_MAX && r->avoid[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, " !%" PRIu32, r->avoid[i]);
    if (job->spec->deadline_ms && used < size)
        snprintf(out + used, size - used, " %s", job->spec->id);
    else if (job->array && job->array->most && used < size)
        snprintf(out + used, size - used, " %s", job->array->id);
}

static struct bucket *bucket_of(struct head *h, struct job *job)
{
    char                    key[1024], text[HEAD_TEXT_SIZE];
    struct policy_request   request = {0};
    const job_spec         *spec = job->spec;
    struct head_index_node *at;
    if (head_spec_request(h, spec, &request, text, sizeof text).code)
        return NULL; /* was checked when it came */
    memcpy(request.avoid, job->unfit, sizeof request.avoid);
    key_write(key, sizeof key, job, &request);
    if ((at = head_index_find(&h->buckets, key)))
        return mt_container_of(at, struct bucket, at);
    struct bucket *b = calloc(1, sizeof *b);
    if (!b || !(b->key = strdup(key)) || head_index_add(&h->buckets, &b->at, b->key).code) {
        if (b)
            free(b->key);
        free(b);
        return NULL;
    }
    b->request = request;
    b->limited = job->array && job->array->most ? job->array : NULL;
    if (spec->deadline_ms) {
        b->paced = job;
        h->paced_count++;
    }
    return b;
}

static void bucket_leave(struct head *h, struct job *job)
{
    struct bucket *b = job->bucket;
    job->bucket = NULL;
    if (!b || --b->members)
        return;
    h->paced_count -= b->paced != NULL;
    head_index_remove(&h->buckets, &b->at);
    free(b->key);
    free(b);
}

/* ---- lines ---- */

static bool waits_for_others(const struct job *job)
{
    return job->spec->n_after && !MT_PLANT(MT_PLANT_AFTER_EARLY) && job->after_met != UINT64_MAX >> (64 - job->spec->n_after);
}

static mt_sorted *line_of(struct head *h, const struct job *job)
{
    if (head_jobs_has_ended(job))
        return job->array && head_array_active(job->array) ? &h->kept : &h->ended;
    if (job->state != JOB_PENDING)
        return &h->placed;
    return job->is_held || waits_for_others(job) || job->retry_ms > h->now_ms ? &job->bucket->parked : &job->bucket->ready;
}

static void leave(struct job *job)
{
    if (job->line)
        mt_sorted_remove(job->line, &job->in_line);
    job->line = NULL;
}

/* Where it is placed it is one of the node's drivers. */
static void count_driver(struct head *h, struct job *job)
{
    uint32_t     on = job->line == &h->placed ? job->node : 0;
    struct node *before = head_nodes_find(h, job->counted_on), *now = head_nodes_find(h, on);
    if (on == job->counted_on)
        return;
    if (before)
        head_nodes_drivers(h, before, -1);
    if (now)
        head_nodes_drivers(h, now, 1);
    job->counted_on = now ? on : 0;
}

void head_turns_move(struct head *h, struct job *job)
{
    mt_sorted *line = line_of(h, job);
    bool       is_again = job->state == JOB_PENDING && job->retry_ms > h->now_ms;
    if (line != job->line) {
        leave(job);
        mt_sorted_add(line, &job->in_line, job->order);
        job->line = line;
    }
    count_driver(h, job);
    if (job->retry.key != job->retry_ms || !is_again)
        mt_heap_remove(&h->retries, &job->retry);
    if (is_again && !mt_heap_holds(&job->retry))
        HEAD_TRY(h, mt_heap_push(&h->retries, &job->retry, job->retry_ms));
    if (head_jobs_has_ended(job))
        bucket_leave(h, job);
}

void head_turns_array_ended(struct head *h, const struct array *array)
{
    for (mt_sorted_node *at = mt_sorted_first(&array->jobs); at; at = mt_sorted_after(&array->jobs, at->key))
        head_turns_move(h, mt_container_of(at, struct job, in_array));
}

void head_turns_enter(struct head *h, struct job *job)
{
    if (!head_jobs_has_ended(job) && (job->bucket = bucket_of(h, job)))
        job->bucket->members++;
    else if (!head_jobs_has_ended(job))
        head_broken(h, mt_error(MT_ENOMEM, 0, "queue a job"));
    if (h->broken.code == 0)
        head_turns_move(h, job);
}

void head_turns_leave(struct head *h, struct job *job)
{
    leave(job);
    count_driver(h, job);
    mt_heap_remove(&h->retries, &job->retry);
    bucket_leave(h, job);
}

void head_turns_fini(struct head *h)
{
    mt_heap_fini(&h->retries);
    head_index_fini(&h->buckets);
    mt_vec_fini(&h->open);
}

struct job *head_turns_first(const mt_sorted *line)
{
    return job_at(mt_sorted_first(line));
}

struct job *head_turns_after(const mt_sorted *line, const struct job *job)
{
    return job_at(mt_sorted_after(line, job->order));
}

/* ---- whose turn is next ---- */

static int compare(const struct job *a, const struct job *b)
{
    const struct policy_turn x = {a->spec->priority, head_account_share(a), a->order};
    const struct policy_turn y = {b->spec->priority, head_account_share(b), b->order};
    return policy_turn_compare(&x, &y);
}

static int by_turn(const void *a, const void *b)
{
    return compare(head_turns_first(&(*(struct bucket *const *)a)->ready), head_turns_first(&(*(struct bucket *const *)b)->ready));
}

/* What is on its way to a node counts as what runs. */
static bool array_may_start(struct bucket *b)
{
    if (!b->limited || head_array_placed(b->limited) < b->limited->most)
        return true;
    snprintf(b->why, sizeof b->why, "waits for the end of another of its array, of which %u run at a time", b->limited->most);
    return false;
}

bool head_turns_may_start(struct bucket *b)
{
    bool was_over = b->is_over;
    b->is_over = !array_may_start(b) || !head_users_may_start(head_turns_first(&b->ready), b->why, sizeof b->why);
    if (b->is_over)
        b->promised = 0;
    b->is_full &= !was_over; /* why it waits was written over */
    return !b->is_over;
}

struct bucket **head_turns_open(struct head *h, size_t *out_count)
{
    for (mt_heap_node *due; (due = mt_heap_first(&h->retries)) && due->key <= h->now_ms;)
        head_turns_move(h, mt_container_of(due, struct job, retry));
    bool is_any_untried = false;
    h->open.count = 0;
    for (struct head_index_node *at = h->buckets.first; at; at = at->next) {
        struct bucket *b = mt_container_of(at, struct bucket, at);
        b->is_full &= !h->is_capacity_changed || MT_PLANT(MT_PLANT_BUCKET_FULL);
        if (b->paced)
            head_pace_look(h, b);
        if (!b->ready.count || !head_turns_may_start(b))
            continue;
        is_any_untried |= !b->is_full;
        HEAD_TRY(h, mt_vec_push(&h->open, b));
    }
    if (!is_any_untried)
        h->open.count = 0;
    if (h->open.count)
        qsort(h->open.data, h->open.count, sizeof(struct bucket *), by_turn);
    *out_count = h->open.count;
    return h->open.data;
}

/* The first of the list has another job in front now, or none. */
size_t head_turns_again(struct bucket **list, size_t count)
{
    struct bucket *b = list[0];
    size_t         at = 0;
    if (b->ready.count == 0)
        return 1;
    for (; at + 1 < count && by_turn(&list[at + 1], &b) < 0; at++)
        list[at] = list[at + 1];
    list[at] = b;
    return 0;
}

/* ---- all that wait, in their turn ---- */

struct run { /* one line, from a job on */
    const mt_sorted *line;
    struct job      *at;
};

static void sift_down(struct run *runs, size_t count, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && compare(runs[child + 1].at, runs[child].at) < 0;
        if (compare(runs[at].at, runs[child].at) < 0)
            return;
        struct run swap = runs[at];
        runs[at] = runs[child];
        runs[child] = swap;
    }
}

void head_turns_each(struct head *h, size_t skip, bool (*fn)(struct head *h, struct job *job, void *user), void *user)
{
    size_t      count = 0;
    struct run *runs = calloc(2 * h->buckets.count + 1, sizeof *runs); /* a heap, the next turn first */
    if (!runs) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list the queue"));
        return;
    }
    for (struct head_index_node *at = h->buckets.first; at; at = at->next) {
        struct bucket *b = mt_container_of(at, struct bucket, at);
        for (int i = 0; i < 2; i++) {
            const mt_sorted *line = i ? &b->parked : &b->ready;
            if (line->count)
                runs[count++] = (struct run){line, head_turns_first(line)};
        }
    }
    for (size_t i = count / 2; i-- > 0;)
        sift_down(runs, count, i);
    while (count) {
        if (skip ? skip-- == 0 : !fn(h, runs->at, user))
            break;
        if (!(runs->at = head_turns_after(runs->line, runs->at)))
            *runs = runs[--count];
        sift_down(runs, count, 0);
    }
    free(runs);
}

/* ---- why ---- */

const char *head_turns_why(const struct job *job, char *text, size_t size)
{
    if (job->state != JOB_PENDING)
        return job->reason ? job->reason : "";
    for (size_t i = 0; i < job->spec->n_after; i++)
        if (!(job->after_met & UINT64_C(1) << i)) {
            snprintf(text, size, "waits until %.64s %s", job->spec->after[i]->id,
                     policy_after_text((enum policy_after)job->spec->after[i]->kind));
            return text;
        }
    if (job->is_held) {
        snprintf(text, size, "is held: manta job release %.64s", job->spec->id);
        return text;
    }
    if (job->line == &job->bucket->ready && job->bucket->why[0])
        return job->bucket->promised == job->order + 1 ? job->bucket->promise : job->bucket->why;
    return job->reason ? job->reason : "was submitted";
}

/* ---- what must always hold ---- */

const char *head_turns_check(const struct head *h)
{
    size_t in[JOB_STATE_COUNT] = {0}, waiting = 0, members = 0;
    for (struct head_index_node *at = h->jobs.first; at; at = at->next) {
        const struct job *job = mt_container_of(at, struct job, at);
        in[job->state]++;
        if (job->counted_on != (job->line == &h->placed && head_nodes_find((struct head *)(uintptr_t)h, job->node) ? job->node : 0))
            return "a job is not counted among the drivers of its node, or of another";
        if (job->is_ahead && job->state != JOB_STARTING)
            return "a job that does not wait on a node is ahead";
        if (line_of((struct head *)(uintptr_t)h, job) != job->line && !mt_heap_holds(&job->retry))
            return "a job stands in a line that is not its own";
    }
    for (struct head_index_node *at = h->buckets.first; at; at = at->next) {
        const struct bucket *b = mt_container_of(at, struct bucket, at);
        waiting += b->ready.count + b->parked.count;
        members += b->members;
    }
    if (waiting != in[JOB_PENDING] || h->placed.count != in[JOB_STARTING] + in[JOB_RUNNING] ||
        members != waiting + h->placed.count || h->ended.count + h->kept.count != h->jobs_ended)
        return "lines of jobs have others than those in that state";
    return NULL;
}

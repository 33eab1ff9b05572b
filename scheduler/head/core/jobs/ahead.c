/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - short jobs that are sent to a node before there is room: they wait there for the end of others like them.
 *
 * Owns:    job->is_ahead and node->ahead, how many of a node's jobs are so.
 * Always:  who is ahead holds nothing, and nothing is promised to him. With the end of a job of his bucket on that node its room is
 *          his: the raylet gives it to him in the same step, and so does the head when it hears of the end.
 *
 * From the end of a job until the next has begun a word went to the head and one came back, with a commit between them: for jobs
 * of some milliseconds that was most of the time. Something is given up: a job of a higher priority that comes now waits for those
 * that wait there, too. So only jobs of a bucket whose last one was short are sent, MT_HEAD_AHEAD_MAX to a node.
 */
#include "scheduler/head/core/jobs/ahead.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/nodes/nodes.h"

void head_ahead_set(struct head *h, struct job *job, bool is_ahead)
{
    struct node *n = head_nodes_find(h, job->node);
    if (job->is_ahead == is_ahead)
        return;
    job->is_ahead = is_ahead;
    if (n && is_ahead)
        n->ahead++;
    else if (n && n->ahead)
        n->ahead--;
}

bool head_ahead_place(struct head *h, const struct head_reserve *r, const struct bucket *b, uint32_t *out_node)
{
    const struct job *first = head_turns_first(&b->ready);
    if (!b->is_short || r->is_on || b->paced || first->spec->actor)
        return false;
    for (const struct job *job = head_turns_first(&h->placed); job; job = head_turns_after(&h->placed, job)) {
        const struct node *n = job->bucket == b && !job->is_ahead && !job->preempt_ms ? head_nodes_find(h, job->node) : NULL;
        if (!n || n->place.state != POLICY_ALIVE || n->ahead >= MT_HEAD_AHEAD_MAX || n->place.drivers <= 0)
            continue;
        *out_node = job->node;
        return true;
    }
    return false;
}

/* It has begun there: what the node reports has it soon. */
void head_ahead_began(struct head *h, struct job *job)
{
    struct node *n = head_nodes_find(h, job->node);
    if (!job->is_ahead)
        return;
    head_ahead_set(h, job, false);
    if (!n)
        return;
    head_nodes_promise_job(h, n, &job->bucket->request, job->order);
    head_nodes_refresh_free(n);
}

void head_ahead_ended(struct head *h, struct job *ended)
{
    const struct node *n = head_nodes_find(h, ended->node);
    struct bucket     *b = ended->bucket;
    b->is_short = ended->state == JOB_RUNNING && h->wall_ms - ended->started_ms < MT_HEAD_AHEAD_RUN_MS;
    if (!n || !n->ahead)
        return;
    for (struct job *job = head_turns_first(&h->placed); job; job = head_turns_after(&h->placed, job))
        if (job->is_ahead && job->bucket == b && job->node == ended->node) {
            head_ahead_began(h, job);
            return;
        }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must always hold in the head's tables, and a hash of them: for the simulation and tests.
 */
#include "scheduler/head/core/core.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    return mix(hash, &number, sizeof number);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(hash, text, strlen(text) + 1);
}

static uint64_t hash_node(uint64_t hash, const struct node *n)
{
    hash = mix_number(hash, (uint64_t)n->place.id << 32 | n->epoch);
    hash = mix_number(hash, n->boot);
    hash = mix_number(hash, (uint64_t)n->place.state);
    for (uint32_t i = 0; i < n->place.resource_count; i++)
        hash = mix_number(hash, (uint64_t)n->place.resources[i].free);
    for (size_t i = 0; i < n->wants.count; i++) {
        const struct want *w = &n->wants.data[i];
        hash = mix_number(hash, w->owner ^ w->version);
        hash = mix_number(hash, (uint64_t)w->wanted << 32 | w->placed);
    }
    return hash;
}

uint64_t head_hash(const struct head *h)
{
    uint64_t hash = mix_number(0xcbf29ce484222325u, h->epoch);
    MT_MAP_EACH(&h->nodes, entry)
        hash = hash_node(hash, entry->value.ptr);
    for (const struct head_index_node *at = h->names.first; at; at = at->next) {
        const struct name *n = mt_container_of(at, struct name, at);
        hash = mix_number(mix_text(hash, n->key), n->holder.owner);
    }
    for (const struct head_index_node *at = h->jobs.first; at; at = at->next) {
        const struct job *job = mt_container_of(at, struct job, at);
        hash = mix_number(mix_text(hash, job->spec->id), (uint64_t)job->state << 32 | job->attempt);
        hash = mix_number(hash, job->log_size);
    }
    hash = head_groups_hash(h, hash);
    return mix_number(hash, h->rng.state);
}

static const char *check_nodes(const struct head *h)
{
    uint32_t living = 0;
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node   *n = entry->value.ptr;
        const struct stream *s = head_nodes_stream(h, n);
        living += n->place.state != POLICY_DEAD;
        if (n->place.id >= h->next_node && n->place.id >= h->config.first_node)
            return "a node has a number that was not given yet";
        if (n->stream != 0 && (!s || s->node != n->place.id))
            return "a node's stream is not its own";
        if (n->place.state == POLICY_ALIVE && n->stream == 0)
            return "an alive node has no stream";
        for (size_t i = 0; i < n->wants.count; i++)
            if (n->wants.data[i].placed > n->wants.data[i].wanted)
                return "a want was answered with more leases than it asked for";
    }
    return living == h->nodes_living ? NULL : "the count of living nodes is wrong";
}

static const char *check_jobs(const struct head *h)
{
    uint32_t active = 0, ended = 0;
    for (const struct head_index_node *at = h->jobs.first; at; at = at->next) {
        const struct job *job = mt_container_of(at, struct job, at);
        bool              is_placed = job->state == JOB_STARTING || job->state == JOB_RUNNING;
        *(head_jobs_has_ended(job) ? &ended : &active) += 1;
        if (is_placed && (job->node == 0 || job->attempt == 0))
            return "a job runs nowhere";
        const struct node *n = is_placed ? head_nodes_find(h, job->node) : NULL;
        if (is_placed && (!n || n->place.state == POLICY_DEAD))
            return "a job runs on a dead node";
        if (job->attempt > 0 && job->failures > job->spec->retries)
            return "a job was started again too often";
        if (head_jobs_has_ended(job) && job->waits > 0)
            return "somebody waits for a job that has ended";
    }
    return active == h->jobs_active && ended == h->jobs_ended ? NULL : "the counts of jobs are wrong";
}

static const char *check_names(const struct head *h)
{
    for (const struct head_index_node *at = h->names.first; at; at = at->next) {
        const struct name *n = mt_container_of(at, struct name, at);
        const struct node *owner = head_nodes_find(h, n->holder.owner_node);
        if (head_names_is_gone(h, n->holder.owner))
            return "a name belongs to a process that has ended";
        if (owner && owner->place.state == POLICY_DEAD)
            return "a name belongs to a dead node";
    }
    return NULL;
}

const char *head_check(const struct head *h)
{
    const char *breach = check_nodes(h);
    if (!breach)
        breach = check_jobs(h);
    if (!breach)
        breach = head_groups_check(h);
    return breach ? breach : check_names(h);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must always hold in the head's tables, and a hash of them: for the simulation and tests.
 */
#include "core/base/hash.h"
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/core.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"
#include "scheduler/head/core/trust/trust.h"
#include "core/base/limits/net.h"

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    return mt_hash_bytes(hash, &number, sizeof number);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mt_hash_bytes(hash, text, strlen(text) + 1);
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
    uint64_t hash = mix_number(MT_HASH_START, h->epoch);
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

/* ---- nodes and streams ---- */

static const char *check_node(const struct head *h, const struct node *n)
{
    const struct stream *s = head_nodes_stream(h, n);
    if (n->place.id >= h->next_node && n->place.id >= h->config.first_node)
        return "a node has a number that was not given yet";
    if (n->stream != 0 && (!s || s->node != n->place.id))
        return "a node's stream is not its own";
    if (n->place.state == POLICY_ALIVE && n->stream == 0)
        return "an alive node has no stream";
    if (n->place.state == POLICY_DEAD && n->stream != 0)
        return "a dead node has a stream";
    for (size_t i = 0; i < n->wants.count; i++)
        if (n->wants.data[i].placed > n->wants.data[i].wanted)
            return "a want was answered with more leases than it asked for";
    return NULL;
}

static const char *check_nodes(const struct head *h)
{
    uint32_t    living = 0;
    const char *breach = NULL;
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node *n = entry->value.ptr;
        living += n->place.state != POLICY_DEAD;
        if (!breach)
            breach = check_node(h, n);
    }
    MT_MAP_EACH(&h->streams, entry) {
        const struct stream *s = entry->value.ptr;
        const struct node   *n = s->node ? head_nodes_find(h, s->node) : NULL;
        if (!breach && s->node && (!n || n->stream != s->number))
            breach = "a stream's node is on another stream";
    }
    if (!breach && living != h->nodes_living)
        breach = "the count of living nodes is wrong";
    if (!breach && h->nodes.count - living != h->dead.count)
        breach = "the list of dead nodes is wrong";
    return breach;
}

/* Each node's last change stands in the log, in order, and where it says. Nobody was told of what is to come. */
static const char *check_view(const struct head *h)
{
    uint64_t last = 0;
    uint32_t found = 0;
    for (size_t i = 0; i < h->view.log.count; i++) {
        const struct view_change *c = &h->view.log.data[i];
        const struct node        *n = head_nodes_find(h, c->node);
        if (c->version <= last || c->version > h->view.version)
            return "the changes that nodes are told of are not in order";
        last = c->version;
        found += n && n->view_version == c->version;
    }
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node *n = entry->value.ptr;
        if (n->told != n->place.state && !n->is_late)
            return "a node is told of in another state than its own, and nobody will hear of it";
    }
    MT_MAP_EACH(&h->streams, entry)
        if (((const struct stream *)entry->value.ptr)->view_version > h->view.version)
            return "a stream was told of changes that are to come";
    if (h->view.log.count > head_changes_most(h))
        return "more changes are kept than may be";
    return found == h->nodes.count ? NULL : "a node's last change is not among those that the others are told of";
}

/* ---- jobs ---- */

/* Its name is there exactly as long as it has neither ended nor been told to stop. */
static bool is_named_rightly(const struct head *h, const struct job *job)
{
    bool is_meant = !head_jobs_has_ended(job) && !job->stop_requested;
    return !job->spec->actor || (head_names_holder(h, job->spec->actor) != NULL) == is_meant;
}

static const char *check_job(const struct head *h, const struct job *job)
{
    bool               is_placed = job->state == JOB_STARTING || job->state == JOB_RUNNING;
    const struct node *n = is_placed ? head_nodes_find(h, job->node) : NULL;
    if (is_placed && (job->node == 0 || job->attempt == 0))
        return "a job runs nowhere";
    if (is_placed && (!n || n->place.state == POLICY_DEAD))
        return "a job runs on a dead node";
    if (job->attempt > 0 && job->failures > job->spec->retries)
        return "a job was started again too often";
    if (head_jobs_has_ended(job) && job->waits > 0)
        return "somebody waits for a job that has ended";
    if (!is_named_rightly(h, job))
        return "a detached actor has ended and has a name, or lives and has none";
    return NULL;
}

static const char *check_jobs(const struct head *h)
{
    uint32_t active = 0, ended = 0, waits = 0;
    for (const struct head_index_node *at = h->arrays.first; at; at = at->next)
        waits += mt_container_of(at, struct array, at)->waits;
    const char *breach = NULL;
    for (const struct head_index_node *at = h->jobs.first; at && !breach; at = at->next) {
        const struct job *job = mt_container_of(at, struct job, at);
        *(head_jobs_has_ended(job) ? &ended : &active) += 1;
        waits += job->waits;
        breach = check_job(h, job);
    }
    if (!breach && (active != h->jobs_active || ended != h->jobs_ended))
        breach = "the counts of jobs are wrong";
    if (!breach)
        breach = head_turns_check(h);
    if (!breach)
        breach = head_users_check(h);
    if (!breach && (waits != h->wait_calls.count || waits != h->waits.nodes.count))
        breach = "the count of those who wait for jobs is wrong";
    return breach;
}

static const char *check_blobs(const struct head *h)
{
    uint64_t bytes = 0;
    for (const struct head_index_node *at = h->blobs.first; at; at = at->next) {
        const struct blob *blob = mt_container_of(at, struct blob, at);
        bytes += blob->size;
        if (blob->needed_by != head_blobs_needs(h, blob->sha256))
            return "a file is needed by more jobs than it knows, or by fewer";
    }
    return bytes == h->blob_bytes ? NULL : "the sum of the files' sizes is wrong";
}

/* ---- names ---- */

static const char *check_names(const struct head *h)
{
    uint64_t owned = 0, counted = 0;
    for (const struct head_index_node *at = h->names.first; at; at = at->next) {
        const struct name *n = mt_container_of(at, struct name, at);
        const struct node *owner = head_nodes_find(h, n->holder.owner_node);
        owned += n->holder.owner != 0;
        if (head_names_is_gone(h, n->holder.owner))
            return "a name belongs to a process that has ended";
        if (owner && owner->place.state == POLICY_DEAD)
            return "a name belongs to a dead node";
        if (n->holder.owner == 0 && !n->holder.is_detached)
            return "a name belongs to nobody";
    }
    MT_MAP_EACH(&h->name_owners, entry)
        counted += entry->value.num;
    return owned == counted ? NULL : "the counts of names by their owners are wrong";
}

/* ---- the output commit ---- */

static const char *check_out(const struct head *h)
{
    uint64_t held = 0, counted = 0;
    if (h->changes.count > 0 || h->held.count > 0)
        return "a change of this step, or what depends on it, is in no batch";
    for (size_t i = 0; i < h->batches.count; i++) {
        const struct batch *batch = h->batches.data[i];
        if (batch->token != h->next_token - h->batches.count + 1 + i)
            return "batches are not in order";
        for (size_t k = 0; k < batch->held.count; k++) {
            const struct head_action *a = &batch->held.data[k];
            uint64_t stream = a->kind == HEAD_ACT_SEND ? a->send.stream : a->kind == HEAD_ACT_CLOSE ? a->close.stream : 0;
            held += stream && mt_map_ptr(&h->streams, mt_map_key(stream)) != NULL;
        }
    }
    MT_MAP_EACH(&h->streams, entry)
        counted += ((const struct stream *)entry->value.ptr)->held;
    return held == counted ? NULL : "the count of messages that wait on streams is wrong";
}

/* ---- bounds ---- */

/* ---- trust ---- */

static const char *check_trust(const struct head *h)
{
    MT_MAP_EACH(&h->tickets, entry) {
        const struct ticket *t = entry->value.ptr;
        if (t->used.count > t->uses)
            return "a ticket was used more often than it was made for";
    }
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node *n = entry->value.ptr;
        if (n->member && n->place.state != POLICY_DEAD && head_revoked_has(h, n->member))
            return "a node that was revoked is not dead";
    }
    return NULL;
}

static const char *check_bounds(const struct head *h)
{
    const struct {
        size_t      count, most;
        const char *breach;
    } bounds[] = {
        {h->nodes_living, MT_NODES_MAX, "there are more nodes than may be"},
        {h->dead.count, MT_HEAD_NODES_DEAD_MAX, "more dead nodes are kept than may be"},
        {h->kinds.count, MT_HEAD_KINDS_MAX, "there are more kinds of resources than may be"},
        {h->names.count, MT_HEAD_NAMES_MAX, "there are more names than may be"},
        {h->jobs_active, h->config.jobs_max, "there are more jobs than may be"},
        {h->wait_calls.count, MT_HEAD_WAITS_MAX, "more wait for jobs than may"},
        {h->groups.count, MT_HEAD_GROUPS_MAX, "there are more placement groups than may be"},
        {h->group_waits, MT_HEAD_GROUP_WAITS_MAX, "more wait for placement groups than may"},
        {h->tickets.count, MT_TICKETS_MAX + MT_SCL_INSTANCES_MAX, "there are more tickets than may be"},
        {h->revoked.count, MT_REVOKED_MAX, "more nodes are revoked than may be"},
        {h->queries.count, MT_HEAD_QUERIES_MAX, "there are more queries than may be"},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].count > bounds[i].most)
            return bounds[i].breach;
    return NULL;
}

const char *head_check(const struct head *h)
{
    const char *(*const checks[])(const struct head *) = {check_nodes,        check_view,  check_jobs,  head_groups_check,
                                                          head_queries_check, check_names, check_blobs, check_trust,
                                                          check_out,          check_bounds};
    const char *breach = NULL;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !breach; i++)
        breach = checks[i](h);
    return breach;
}

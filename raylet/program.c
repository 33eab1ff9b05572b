/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - a job's program and the greeting of its driver, fetched from the driver's node at the first lease.
 *
 * Owns: nothing; what arrives goes into struct rlt_job and, by the shell, into a file that only a descriptor names.
 * Thread: the logic loop only.
 *
 * The receiver asks for piece after piece, a window at a time, so the sender keeps nothing. The program is run only if
 * its SHA-256 is what the driver's raylet computed from the descriptor that the driver gave it.
 */
#include "raylet/state.h"

#include <stdio.h>
#include <stdlib.h>

enum { WINDOW_CHUNKS = 64 }; /* of RLT_PROGRAM_CHUNK bytes: answered to one request */

/* ---- the receiver ------------------------------------------------------------------------------------------------ */

static void job_failed(struct rlt *r, struct rlt_job *job, const char *why)
{
    snprintf(job->failure, sizeof job->failure, "the program of job \"%s\" cannot be had on node %u: %.200s", job->name,
             r->node, why);
    job->failure_code = MT_EWORKER_DIED;
    job->start_failures = MT_RLT_START_FAILURES_MAX;
    rlt_job_break(r, job);
}

static void ask(struct rlt *r, struct rlt_job *job)
{
    struct peer_job_want want = {.job = job->job};
    bool                 has_strings = job->hello && job->hello_have == job->hello_size;
    want.part = has_strings ? PEER_JOB_PROGRAM : PEER_JOB_STRINGS;
    want.offset = has_strings ? job->program_have : job->hello_have;
    if (rlt_peer_send(r, job->node, PEER_JOB_WANT, (mt_id){0, 0}, &want, sizeof want))
        return;
    job_failed(r, job, "its driver's node is dead");
    rlt_job_end(r, job); /* nobody will say so later */
}

void rlt_program_want(struct rlt *r, struct rlt_job *job)
{
    if (job->is_program_wanted || job->program >= 0)
        return;
    job->is_program_wanted = true;
    ask(r, job);
}

static void strings_in(struct rlt *r, struct rlt_job *job, const struct peer_job_chunk *c, const uint8_t *bytes)
{
    struct ctl_hello hello;
    if (c->total < sizeof hello || c->total > sizeof hello + CTL_HELLO_STRINGS_MAX || c->offset != job->hello_have ||
        (job->hello && c->total != job->hello_size) || c->size > c->total - c->offset)
        return;
    if (!job->hello) {
        job->hello = rlt_calloc(c->total);
        job->hello_size = (uint32_t)c->total;
    }
    memcpy((uint8_t *)job->hello + c->offset, bytes, c->size);
    job->hello_have += c->size;
    if (job->hello_have < job->hello_size)
        return;
    memcpy(&hello, job->hello, sizeof hello);
    if (!rlt_hello_strings_ok(&hello, (const uint8_t *)job->hello + sizeof hello, job->hello_size - sizeof hello))
        job_failed(r, job, "the greeting of its driver does not add up");
    else
        ask(r, job);
}

static void program_in(struct rlt *r, struct rlt_job *job, const struct peer_job_chunk *c, const uint8_t *bytes)
{
    if (c->offset != job->program_have || !c->total || c->size > c->total - c->offset)
        return;
    job->program_have += c->size;
    struct rlt_action *a = rlt_act(r->out, RLT_A_PROGRAM_WRITE);
    a->job = job->job;
    a->number = c->offset;
    a->total = c->total;
    a->bytes = rlt_keep(r->out, bytes, c->size);
    a->size = c->size;
    memcpy(a->sha256, c->sha256, sizeof a->sha256);
    if (job->program_have < c->total && job->program_have % (WINDOW_CHUNKS * RLT_PROGRAM_CHUNK) == 0)
        ask(r, job);
}

static void program_ready(struct rlt *r, struct rlt_job *job, const struct rlt_event *e)
{
    if (e->fd < 0) {
        job_failed(r, job, e->text ? e->text : "it could not be written");
        return;
    }
    job->program = e->fd;
    rlt_job_begin(r, job);
}

/* ---- the driver's node ------------------------------------------------------------------------------------------- */

static void note_served(struct rlt_job *job, uint32_t node)
{
    for (size_t i = 0; i < job->served.count; i++)
        if (job->served.data[i] == node)
            return;
    if (mt_vec_push(&job->served, node).code)
        rlt_out_of_memory();
}

static void strings_send(struct rlt *r, const struct rlt_job *job, uint32_t node, uint64_t offset)
{
    for (int i = 0; i < WINDOW_CHUNKS && offset < job->hello_size; i++) {
        struct peer_job_chunk c = {.job = job->job, .offset = offset, .total = job->hello_size, .part = PEER_JOB_STRINGS};
        uint64_t              left = job->hello_size - offset;
        c.size = (uint32_t)(left < RLT_PROGRAM_CHUNK ? left : RLT_PROGRAM_CHUNK);
        rlt_peer_send2(r, node, PEER_JOB_CHUNK, (mt_id){0, 0}, &c, sizeof c, (const uint8_t *)job->hello + offset, c.size);
        offset += c.size;
    }
}

static void wanted(struct rlt *r, struct rlt_peer *p, const struct peer_job_want *want)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(want->job));
    struct peer_job none = {want->job};
    if (!job || !job->driver || job->is_ending || want->part > PEER_JOB_PROGRAM) {
        rlt_peer_send(r, p->node, PEER_JOB_NONE, (mt_id){0, 0}, &none, sizeof none);
        return;
    }
    note_served(job, p->node);
    if (want->part == PEER_JOB_STRINGS) {
        strings_send(r, job, p->node, want->offset);
        return;
    }
    for (uint64_t i = 0; i < WINDOW_CHUNKS; i++) {
        struct rlt_action *a = rlt_act(r->out, RLT_A_PROGRAM_READ);
        a->job = job->job;
        a->fd = job->program;
        a->number = want->offset + i * RLT_PROGRAM_CHUNK;
        a->node = p->node;
    }
}

static void program_bytes(struct rlt *r, struct rlt_job *job, const struct rlt_event *e)
{
    struct peer_job_chunk c = {.job = job->job, .offset = e->number, .total = e->total, .part = PEER_JOB_PROGRAM};
    if (!e->size || e->size > RLT_PROGRAM_CHUNK)
        return; /* past the end of it */
    c.size = (uint32_t)e->size;
    memcpy(c.sha256, e->sha256, sizeof c.sha256);
    rlt_peer_send2(r, e->node, PEER_JOB_CHUNK, (mt_id){0, 0}, &c, sizeof c, e->bytes, e->size);
}

void rlt_program_job_end(struct rlt *r, const struct rlt_job *job)
{
    struct peer_job end = {job->job};
    for (size_t i = 0; i < job->served.count; i++)
        rlt_peer_send(r, job->served.data[i], PEER_JOB_END, (mt_id){0, 0}, &end, sizeof end);
}

/* ---- both -------------------------------------------------------------------------------------------------------------- */

static void chunk_in(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    struct peer_job_chunk c;
    memcpy(&c, payload, sizeof c);
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(c.job));
    if (!job || job->node != p->node || job->program >= 0 || job->is_ending || !c.size ||
        record->length < LANE_RECORD_SIZE + sizeof c + c.size)
        return;
    if (c.part == PEER_JOB_STRINGS)
        strings_in(r, job, &c, payload + sizeof c);
    else
        program_in(r, job, &c, payload + sizeof c);
}

static void job_over(struct rlt *r, const struct rlt_peer *p, const struct peer_job *m, bool is_none)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(m->job));
    if (!job || job->node != p->node || job->driver)
        return;
    if (is_none)
        job_failed(r, job, "its driver has ended");
    rlt_job_end(r, job);
}

void rlt_program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t               size = record->length - LANE_RECORD_SIZE;
    struct peer_job_want want;
    struct peer_job      job;
    if (record->kind == PEER_JOB_WANT && size >= sizeof want) {
        memcpy(&want, payload, sizeof want);
        wanted(r, p, &want);
    } else if (record->kind == PEER_JOB_CHUNK && size >= sizeof(struct peer_job_chunk)) {
        chunk_in(r, p, record, payload);
    } else if (record->kind != PEER_JOB_WANT && record->kind != PEER_JOB_CHUNK && size >= sizeof job) {
        memcpy(&job, payload, sizeof job);
        job_over(r, p, &job, record->kind == PEER_JOB_NONE);
    }
}

void rlt_program_event(struct rlt *r, const struct rlt_event *e)
{
    if (rlt_env_program_event(r, e))
        return;
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(e->job));
    if (e->kind == RLT_EV_PROGRAM_BYTES && job && job->driver)
        program_bytes(r, job, e);
    else if (e->kind == RLT_EV_PROGRAM_READY && job && job->program < 0 && !job->is_ending)
        program_ready(r, job, e);
    else if (e->kind == RLT_EV_PROGRAM_READY && e->fd >= 0)
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = e->fd;
}

void rlt_program_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        if (job->node == node && !job->driver && !job->is_ending)
            rlt_job_end(r, job);
    }
}

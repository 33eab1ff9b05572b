/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - a job's program on a node that its driver is not on: the greeting of the driver, then the program's files, fetched
 * from the driver's node at the first lease.
 *
 * Owns: job->fetch. Thread: the logic loop only.
 *
 *   greeting -> list -> PROGRAM_OPEN -> the file that is missing -> PROGRAM_OPEN -> ... -> its descriptor
 */
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/jobs/private.h"
#include "raylet/core/pool/pool.h"

#include "core/sys/archive.h"
#include "core/base/limits/env.h"

#include <stdio.h>

#define LIST_BYTES_MAX ((1 + MT_PROGRAM_LIBRARIES_MAX) * sizeof(struct peer_program_file))

static const uint8_t no_sum[32];

static void job_failed(struct rlt *r, struct rlt_job *job, const char *why)
{
    char text[CTL_TEXT_SIZE];
    snprintf(text, sizeof text, "the program of job \"%s\" cannot be had on node %u (%s): %.300s", job->name, r->node,
             r->config.node_name, why);
    rlt_fetch_stop(r, &job->fetch);
    rlt_job_fail(r, job, MT_EWORKER_DIED, text);
}

static bool fetch(struct rlt *r, struct rlt_job *job, enum peer_file_part part, uint64_t index)
{
    struct peer_file what = {.job = job->job, .part = part, .index = (uint32_t)index};
    return rlt_fetch_start(r, &job->fetch, job->node, &what);
}

static void program_open(struct rlt *r, const struct rlt_job *job)
{
    struct rlt_a_program_open *a = &rlt_act(r->out, RLT_A_PROGRAM_OPEN)->program_open;
    a->job = job->job;
    a->count = job->list_count;
    a->files = rlt_keep(r->out, job->list, job->list_count * sizeof *job->list);
}

bool rlt_program_want(struct rlt *r, struct rlt_job *job)
{
    if (fetch(r, job, PEER_GREETING, 0))
        return true;
    job_failed(r, job, "its driver's node is dead");
    return false;
}

void rlt_program_again(struct rlt *r, struct rlt_job *job)
{
    if (!job->list || job->driver || job->program < 0 || job->is_ending)
        return;
    rlt_close_fd(r->out, job->program);
    job->program = -1;
    program_open(r, job);
}

static void greeting_in(struct rlt *r, struct rlt_job *job)
{
    struct ctl_hello hello;
    uint64_t         size = job->fetch.total;
    job->hello = job->fetch.bytes;
    job->hello_size = (uint32_t)size;
    job->fetch.bytes = NULL;
    if (size < sizeof hello) {
        job_failed(r, job, "the greeting of its driver is cut short");
        return;
    }
    memcpy(&hello, job->hello, sizeof hello);
    if (!rlt_hello_strings_ok(&hello, (const uint8_t *)job->hello + sizeof hello, size - sizeof hello))
        job_failed(r, job, "the greeting of its driver does not add up");
    else
        fetch(r, job, PEER_LIST, 0);
}

static const char *list_wrong(const struct peer_program_file *list, uint64_t size)
{
    uint64_t total = 0;
    if (!size || size % sizeof *list || size > LIST_BYTES_MAX)
        return "the list of its files does not add up";
    for (size_t i = 0; i < size / sizeof *list; i++) {
        if (list[i].path[sizeof list[i].path - 1] || mt_archive_path_wrong(list[i].path) || !list[i].size)
            return "the list of its files has one that can't be";
        total += list[i].size;
        if (list[i].size > (uint64_t)MT_PROGRAM_MIB_MAX << 20 || total > (uint64_t)MT_PROGRAM_MIB_MAX << 20)
            return "its files are too large";
    }
    return NULL;
}

static void list_in(struct rlt *r, struct rlt_job *job)
{
    const char *wrong;
    job->list = (struct peer_program_file *)(void *)job->fetch.bytes;
    job->list_count = (uint32_t)(job->fetch.total / sizeof *job->list);
    wrong = list_wrong(job->list, job->fetch.total);
    job->fetch.bytes = NULL;
    if (wrong)
        job_failed(r, job, wrong);
    else
        program_open(r, job);
}

static void opened(struct rlt *r, struct rlt_job *job, const struct rlt_ev_program_opened *e)
{
    if (e->is_refused) {
        job_failed(r, job, e->remark ? e->remark : "it could not be kept");
    } else if (e->fd < 0) {
        if (e->missing < job->list_count)
            fetch(r, job, PEER_PROGRAM, e->missing); /* where its node is dead by now, rlt_jobs_node_lost has ended the job */
    } else {
        job->program = e->fd;
        snprintf(job->remark, sizeof job->remark, "%.80s", e->remark ? e->remark : "");
        rlt_job_begin(r, job);
    }
}

/* ---- what other nodes say ------------------------------------------------------------------------------------------- */

static void chunk_in(struct rlt *r, uint32_t node, const struct peer_file_chunk *c, const uint8_t *bytes)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(c->what.job));
    uint32_t        part = c->what.part;
    uint64_t        most = part == PEER_GREETING ? sizeof(struct ctl_hello) + CTL_HELLO_STRINGS_MAX
                           : part == PEER_LIST   ? LIST_BYTES_MAX
                                                 : 0;
    if (!job || job->fetch.node != node || job->is_ending || part != job->fetch.what.part)
        return;
    if (part == PEER_PROGRAM && (c->what.index >= job->list_count || c->total != job->list[c->what.index].size))
        return;
    const uint8_t *sum = part == PEER_PROGRAM ? job->list[c->what.index].sha256 : no_sum;
    if (rlt_fetch_take(r, &job->fetch, c, bytes, most, sum) != RLT_FETCH_WHOLE)
        return;
    if (part == PEER_GREETING)
        greeting_in(r, job);
    else if (part == PEER_LIST)
        list_in(r, job);
}

static struct rlt_job *job_over(struct rlt *r, uint32_t node, uint64_t number, bool is_none)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(number));
    if (!job || job->node != node || job->driver)
        return NULL;
    if (is_none)
        job_failed(r, job, "its driver has ended, or its files can't be read there");
    return job;
}

struct rlt_job *rlt_program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t                 size = record->length - LANE_RECORD_SIZE;
    struct peer_file_want  want;
    struct peer_file_chunk chunk;
    struct peer_file       none;
    struct peer_job        end;
    if (record->kind == PEER_FILE_WANT && size >= sizeof want) {
        memcpy(&want, payload, sizeof want);
        (want.what.env ? rlt_env_wanted : rlt_program_wanted)(r, p->node, &want);
    } else if (record->kind == PEER_FILE_CHUNK && size >= sizeof chunk) {
        memcpy(&chunk, payload, sizeof chunk);
        if (chunk.size <= size - sizeof chunk)
            (chunk.what.env ? rlt_env_chunk : chunk_in)(r, p->node, &chunk, payload + sizeof chunk);
    } else if (record->kind == PEER_FILE_NONE && size >= sizeof none) {
        memcpy(&none, payload, sizeof none);
        if (none.env)
            rlt_env_none(r, p->node, &none);
        else
            return job_over(r, p->node, none.job, true);
    } else if (record->kind == PEER_JOB_END && size >= sizeof end) {
        memcpy(&end, payload, sizeof end);
        return job_over(r, p->node, end.job, false);
    }
    return NULL;
}

/* ---- what the shell says --------------------------------------------------------------------------------------------- */

/* The job that waits for it; NULL: none does any more. */
static struct rlt_job *waiting(const struct rlt *r, uint64_t number)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(number));
    return job && job->program < 0 && !job->driver && job->list && !job->is_ending ? job : NULL;
}

void rlt_program_file_ready(struct rlt *r, const struct rlt_ev_file_ready *e)
{
    struct rlt_job *job = waiting(r, e->file.job);
    if (!job)
        rlt_close_fd(r->out, e->fd);
    else if (e->is_refused)
        job_failed(r, job, e->why ? e->why : "a file of it could not be written");
    else
        program_open(r, job);
}

void rlt_program_opened(struct rlt *r, const struct rlt_ev_program_opened *e)
{
    struct rlt_job *job = waiting(r, e->job);
    if (job)
        opened(r, job, e);
    else
        rlt_close_fd(r->out, e->fd);
}

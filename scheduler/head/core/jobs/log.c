/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - the log of a job: pieces from raylets, notices of the head, one file.
 *
 * A raylet numbers the bytes of one attempt from 0; the file holds all attempts, one after the other, and notices of
 * the head. log_base is the difference: file position = log_base + the attempt's own offset. It is stored when it
 * changes, so that a head which was restarted finds, from the size of the file, where the raylet has to go on. */

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/nodes/nodes.h"

#include <inttypes.h>

static uint64_t log_expected(const struct job *job)
{
    return (uint64_t)((int64_t)job->log_size - job->log_base);
}

static void log_notice(struct head *h, struct job *job, const char *text)
{
    head_out_log_append(h, job, (const uint8_t *)text, strlen(text));
}

/* Bytes that never came: the raylet has lost them. */
static void log_gap(struct head *h, struct job *job, uint64_t offset)
{
    char text[96];
    h->count.log_gap++;
    snprintf(text, sizeof text, "\n[manta: %" PRIu64 " bytes of output were lost]\n", offset - log_expected(job));
    log_notice(h, job, text);
    job->log_base = (int64_t)job->log_size - (int64_t)offset;
    head_jobs_store(h, job);
}

static void log_full(struct head *h, struct job *job, uint64_t end)
{
    if (!job->log_is_full) {
        h->count.log_limit++;
        job->log_is_full = true;
        log_notice(h, job, "\n[manta: the log is full; what follows is not kept]\n");
    }
    job->log_base = (int64_t)job->log_size - (int64_t)end; /* taken in, and forgotten */
}

/* Says how much of the attempt's output is in the file, so that the raylet can forget it, and knows where to go on. */
void head_attempts_log_ack(struct head *h, struct job *job, uint64_t written)
{
    Manta__V1__LogAck ack = MANTA__V1__LOG_ACK__INIT;
    to_node           message = MANTA__V1__HEAD_TO_NODE__INIT;
    struct node      *n = head_nodes_find(h, job->node);
    if (!n || job->attempt == 0)
        return;
    ack.id = job->spec->id;
    ack.attempt = job->attempt;
    ack.offset = (int64_t)written > job->log_base ? (uint64_t)((int64_t)written - job->log_base) : 0;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_LOG_ACK;
    message.log_ack = &ack;
    head_out_send(h, head_nodes_stream(h, n), &message, true);
}

static void log_take(struct head *h, struct stream *s, struct job *job, const Manta__V1__LogChunk *chunk)
{
    uint64_t expected = log_expected(job), end = chunk->offset + chunk->text.len;
    if (end < chunk->offset || end > (uint64_t)INT64_MAX / 2) {
        head_nodes_drop_stream(h, s, "sent a piece of log at an offset that can't be");
        return;
    }
    if (end <= expected) {
        h->count.log_repeat++;
        head_attempts_log_ack(h, job, job->log_size);
        return;
    }
    if (job->log_size + chunk->text.len > MT_HEAD_JOB_LOG_BYTES_MAX) {
        log_full(h, job, end);
        head_attempts_log_ack(h, job, job->log_size);
        return;
    }
    if (chunk->offset > expected)
        log_gap(h, job, chunk->offset);
    size_t skip = chunk->offset < expected ? (size_t)(expected - chunk->offset) : 0;
    h->count.log_repeat += skip > 0;
    head_out_log_append(h, job, chunk->text.data + skip, chunk->text.len - skip);
}

void head_jobs_log(struct head *h, struct stream *s, uint32_t node, const Manta__V1__LogChunk *chunk)
{
    struct job *job = head_jobs_find(h, chunk->id);
    if (job && job->attempt == chunk->attempt && job->node == node && !head_jobs_has_ended(job))
        log_take(h, s, job, chunk);
    else
        h->count.job_fenced++;
}

void head_jobs_log_written(struct head *h, const char *id, uint64_t size)
{
    struct job *job = head_jobs_find(h, id);
    if (job && !head_jobs_has_ended(job))
        head_attempts_log_ack(h, job, size);
}

bool head_jobs_log_found(struct head *h, const char *id, uint64_t size)
{
    struct job *job = head_jobs_find(h, id);
    if (!job)
        return false;
    job->log_size = size;
    if ((int64_t)size < job->log_base)
        job->log_base = (int64_t)size; /* the file is shorter than it was: a crash of the machine */
    return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * blobs.c - which uploaded files are here, who needs them, and which may go. The bytes are the shell's.
 *
 * Owns:    the list of blobs.
 * Always:  a blob that a job needs which has not ended is never dropped.
 */

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/blobs.h"

static void hex_of(const uint8_t *sha256, char hex[2 * HEAD_SHA_SIZE + 1])
{
    for (int i = 0; i < HEAD_SHA_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", sha256[i]);
}

static struct blob *find(const struct head *h, const uint8_t *sha256)
{
    char hex[2 * HEAD_SHA_SIZE + 1];
    hex_of(sha256, hex);
    struct head_index_node *at = head_index_find(&h->blobs, hex);
    return at ? mt_container_of(at, struct blob, at) : NULL;
}

uint32_t head_blobs_needs(const struct head *h, const uint8_t sha256[HEAD_SHA_SIZE])
{
    uint32_t count = 0;
    for (struct head_index_node *at = h->jobs.first; at; at = at->next) {
        const struct job *job = mt_container_of(at, struct job, at);
        for (size_t i = 0; i < job->spec->n_files && !head_jobs_has_ended(job); i++)
            count += memcmp(job->spec->files[i]->sha256.data, sha256, HEAD_SHA_SIZE) == 0;
    }
    return count;
}

static mt_status add(struct head *h, const uint8_t *sha256, uint64_t size)
{
    struct blob *blob = find(h, sha256);
    if (blob) {
        blob->used_ms = h->now_ms;
        return mt_ok();
    }
    if (!(blob = calloc(1, sizeof *blob)))
        return mt_error(MT_ENOMEM, 0, "add a blob");
    hex_of(sha256, blob->hex);
    memcpy(blob->sha256, sha256, HEAD_SHA_SIZE);
    blob->size = size;
    blob->used_ms = h->now_ms;
    blob->needed_by = head_blobs_needs(h, sha256); /* by jobs that a crash of the machine has taken it from, too */
    mt_status st = head_index_add(&h->blobs, &blob->at, blob->hex);
    if (st.code != 0)
        free(blob);
    else
        h->blob_bytes += size;
    return st;
}

void head_blobs_add(struct head *h, const uint8_t *sha256, uint64_t size)
{
    HEAD_TRY(h, add(h, sha256, size));
}

mt_status head_blobs_found(struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size)
{
    return add(h, sha256, size);
}

mt_status head_blobs_admit(const struct head *h, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size)
{
    if (find(h, sha256))
        return mt_error(MT_EEXIST, 0, "the blob is here already");
    if (h->blobs.count >= MT_HEAD_BLOBS_MAX)
        return mt_error(MT_EAGAIN, 0, "the head keeps too many blobs");
    if (h->config.blob_bytes_max > 0 && h->blob_bytes + size > h->config.blob_bytes_max)
        return mt_error(MT_EDISK_FULL, 0, "the head's space for uploaded files is full");
    if (h->room != HEAD_ROOM_ENOUGH)
        return head_room_refusal(h);
    return mt_ok();
}

void head_blobs_need(struct head *h, const job_spec *spec, int change)
{
    for (size_t i = 0; i < spec->n_files; i++) {
        struct blob *blob = find(h, spec->files[i]->sha256.data);
        if (!blob)
            continue; /* lost from the disk: the raylet that asks for it will say so */
        MT_ASSERT(change > 0 || blob->needed_by > 0);
        blob->needed_by += (uint32_t)change;
        blob->used_ms = h->now_ms;
    }
}

const Manta__V1__JobFile *head_blobs_missing(const struct head *h, const job_spec *spec)
{
    for (size_t i = 0; i < spec->n_files; i++)
        if (!find(h, spec->files[i]->sha256.data))
            return spec->files[i];
    return NULL;
}

/* Asking for a blob uses it: who has been told that it is here does not upload it. */
void head_blobs_has(struct head *h, uint64_t call, const Manta__V1__HasBlobsRequest *request)
{
    Manta__V1__HasBlobsReply reply = MANTA__V1__HAS_BLOBS_REPLY__INIT;
    reply.missing = calloc(request->n_sha256 + 1, sizeof *reply.missing);
    if (!reply.missing) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "list blobs"));
        return;
    }
    for (size_t i = 0; i < request->n_sha256; i++) {
        struct blob *blob = request->sha256[i].len == HEAD_SHA_SIZE ? find(h, request->sha256[i].data) : NULL;
        if (blob)
            blob->used_ms = h->now_ms;
        else
            reply.missing[reply.n_missing++] = request->sha256[i];
    }
    head_out_reply(h, call, HEAD_HAS_BLOBS, &reply.base);
    free(reply.missing);
}

static void drop(struct head *h, struct blob *blob)
{
    h->count.blob_dropped++;
    h->blob_bytes -= blob->size;
    head_out_blob_drop(h, blob);
    head_index_remove(&h->blobs, &blob->at);
    free(blob);
}

/* Whoever is about to submit such a file anew finds it missing then, and uploads it again. */
void head_blobs_release(struct head *h, const job_spec *spec)
{
    for (size_t i = 0; i < spec->n_files; i++) {
        struct blob *blob = find(h, spec->files[i]->sha256.data);
        if (blob && blob->needed_by == 0)
            drop(h, blob);
    }
}

void head_blobs_tick(struct head *h)
{
    if (h->now_ms - h->blob_sweep_ms < MT_HEAD_BLOB_SWEEP_MS)
        return;
    h->blob_sweep_ms = h->now_ms;
    uint32_t dropped = 0;
    for (struct head_index_node *at = h->blobs.first, *next; at && dropped < MT_HEAD_BLOB_SWEEP_MAX; at = next) {
        struct blob *blob = mt_container_of(at, struct blob, at);
        next = at->next;
        if (blob->needed_by == 0 && h->now_ms - blob->used_ms >= MT_HEAD_BLOB_KEEP_MS) {
            drop(h, blob);
            dropped++;
        }
    }
}

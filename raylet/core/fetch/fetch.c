/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.c - see fetch.h.
 *
 * Owns: what is gathered in memory, until the caller takes it. Thread: the logic loop only.
 */
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/links/links.h"

#include <stdlib.h>

enum { WINDOW_CHUNKS = 64 }; /* of RLT_FILE_CHUNK bytes: answered to one request */

/* ---- the receiver ------------------------------------------------------------------------------------------------ */

static bool ask(struct rlt *r, const struct rlt_fetch *f)
{
    struct peer_file_want want = {.what = f->what, .offset = f->have};
    return rlt_peer_send(r, f->node, PEER_FILE_WANT, (mt_id){0, 0}, &want, sizeof want);
}

bool rlt_fetch_start(struct rlt *r, struct rlt_fetch *f, uint32_t node, const struct peer_file *what)
{
    *f = (struct rlt_fetch){.what = *what, .node = node};
    if (!ask(r, f))
        f->node = 0;
    return f->node != 0;
}

static void gather(struct rlt_fetch *f, const struct peer_file_chunk *c, const uint8_t *bytes)
{
    if (!f->bytes)
        f->bytes = rlt_calloc(c->total);
    memcpy(f->bytes + f->have, bytes, c->size);
}

static void write(struct rlt *r, const struct rlt_fetch *f, const struct peer_file_chunk *c, const uint8_t *bytes,
                  const uint8_t sha256[32])
{
    struct rlt_a_file_write *a = &rlt_act(r->out, RLT_A_FILE_WRITE)->file_write;
    a->file = f->what;
    a->offset = f->have;
    a->total = c->total;
    a->bytes = rlt_keep(r->out, bytes, c->size);
    a->size = c->size;
    memcpy(a->sha256, sha256, sizeof a->sha256);
}

enum rlt_fetch_news rlt_fetch_take(struct rlt *r, struct rlt_fetch *f, const struct peer_file_chunk *c, const uint8_t *bytes,
                                   uint64_t memory_max, const uint8_t sha256[32])
{
    if (!f->node || memcmp(&f->what, &c->what, sizeof f->what) != 0 || c->offset != f->have || !c->size || c->total <= f->have ||
        c->size > c->total - f->have || (f->total && c->total != f->total) || (memory_max && c->total > memory_max))
        return RLT_FETCH_OTHER;
    f->total = c->total;
    if (memory_max)
        gather(f, c, bytes);
    else
        write(r, f, c, bytes, sha256);
    f->have += c->size;
    if (f->have == f->total) {
        f->node = 0;
        return RLT_FETCH_WHOLE;
    }
    if (f->have % ((uint64_t)WINDOW_CHUNKS * RLT_FILE_CHUNK) == 0)
        ask(r, f); /* where its node is dead by now, that is told to all who fetch from there */
    return RLT_FETCH_PIECE;
}

void rlt_fetch_stop(struct rlt *r, struct rlt_fetch *f)
{
    if (f->node && f->have && !f->bytes)
        rlt_act(r->out, RLT_A_FILE_DROP)->file_drop.file = f->what;
    free(f->bytes);
    *f = (struct rlt_fetch){0};
}

/* ---- the sender -------------------------------------------------------------------------------------------------- */

static void chunk_send(struct rlt *r, uint32_t node, const struct peer_file *what, uint64_t offset, uint64_t total,
                       const void *bytes, size_t size)
{
    struct peer_file_chunk c = {.what = *what, .offset = offset, .total = total, .size = (uint32_t)size};
    rlt_peer_send2(r, node, PEER_FILE_CHUNK, (mt_id){0, 0}, &c, sizeof c, bytes, size);
}

void rlt_fetch_send_memory(struct rlt *r, uint32_t node, const struct peer_file_want *want, const void *all, uint64_t total)
{
    uint64_t at = want->offset;
    for (int i = 0; i < WINDOW_CHUNKS && at < total; i++) {
        uint64_t size = total - at < RLT_FILE_CHUNK ? total - at : RLT_FILE_CHUNK;
        chunk_send(r, node, &want->what, at, total, (const uint8_t *)all + at, size);
        at += size;
    }
}

void rlt_fetch_send_file(struct rlt *r, uint32_t node, const struct peer_file_want *want, int fd)
{
    for (uint64_t i = 0; i < WINDOW_CHUNKS; i++) {
        struct rlt_a_file_read *a = &rlt_act(r->out, RLT_A_FILE_READ)->file_read;
        a->file = want->what;
        a->fd = fd;
        a->offset = want->offset + i * RLT_FILE_CHUNK;
        a->node = node;
    }
}

void rlt_fetch_send_none(struct rlt *r, uint32_t node, const struct peer_file *what)
{
    rlt_peer_send(r, node, PEER_FILE_NONE, (mt_id){0, 0}, what, sizeof *what);
}

void rlt_fetch_bytes(struct rlt *r, const struct rlt_ev_file_bytes *e)
{
    if (e->size && e->size <= RLT_FILE_CHUNK) /* none: past the end of it */
        chunk_send(r, e->node, &e->file, e->offset, e->total, e->bytes, e->size);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * pipe.c - messages from one member to another: a ring of four chunks for each ordered pair, with one writer and
 * one reader. A message is at least one chunk; each carries what the whole message is, so that a receiver that expects
 * another finds out.
 *
 * Owns: nothing. Thread: one at a time per struct coll_shm.
 */
#include "sgd/coll/shm/private.h"

#include <string.h>

/* One direction of an exchange. */
struct half {
    const struct coll_message *m;
    struct coll_pipe          *pipe;
    size_t                     size, done; /* bytes */
    bool                       is_over;
};

static struct half half_of(struct coll_shm *g, const struct coll_message *m, bool is_send)
{
    struct half h = {.m = m, .is_over = m->peer >= g->members};
    if (!h.is_over) {
        h.pipe = is_send ? coll_pipe_of(g, g->rank, m->peer) : coll_pipe_of(g, m->peer, g->rank);
        h.size = m->count * coll_type_size(m->type);
    }
    return h;
}

static size_t step_size(const struct half *h)
{
    return h->size - h->done < MT_COLL_PIPE_BYTES ? h->size - h->done : MT_COLL_PIPE_BYTES;
}

/* Number of a word in this generation; 0 where it is older. */
static uint32_t number_of(const struct coll_shm *g, coll_word *word)
{
    uint64_t seen = atomic_load(word);
    return seen >> 32 == g->generation ? (uint32_t)seen : 0;
}

/* One chunk, if there is room for it. */
static mt_status send_step(struct coll_shm *g, struct half *h, bool *moved)
{
    uint32_t *sent = &g->sent[h->m->peer];
    if (h->is_over || *sent - number_of(g, &h->pipe->taken) >= COLL_PIPE_RING)
        return mt_ok();
    struct coll_pipe_chunk *chunk = &h->pipe->chunks[*sent % COLL_PIPE_RING];
    size_t                  size = step_size(h);
    uint64_t                last = atomic_load(&h->pipe->sent);
    chunk->type = (uint8_t)h->m->type;
    chunk->count = h->m->count;
    if (size)
        memcpy(chunk->body, (const char *)h->m->data + h->done, size);
    h->done += size;
    h->is_over = h->done == h->size;
    *moved = true;
    return coll_publish(g, &h->pipe->sent, &last, ++*sent);
}

/* Leaves for everybody what was sent and what was expected, and ends the generation with it. */
static mt_status other_message(struct coll_shm *g, const struct half *h, const struct coll_pipe_chunk *chunk)
{
    h->pipe->dispute = (struct coll_dispute){chunk->type, (uint8_t)h->m->type, chunk->count, h->m->count};
    coll_abort_message(g, h->m->peer);
    coll_message_explain(g, h->m->peer, g->rank);
    return mt_error(MT_EINVAL, 0, "another message was sent than is expected");
}

static mt_status receive_step(struct coll_shm *g, struct half *h, bool *moved)
{
    uint32_t *taken = &g->taken[h->m->peer];
    if (h->is_over || number_of(g, &h->pipe->sent) == *taken)
        return mt_ok();
    const struct coll_pipe_chunk *chunk = &h->pipe->chunks[*taken % COLL_PIPE_RING];
    size_t                        size = step_size(h);
    uint64_t                      last = atomic_load(&h->pipe->taken);
    if (chunk->type != (uint8_t)h->m->type || chunk->count != h->m->count)
        return other_message(g, h, chunk);
    if (size)
        memcpy((char *)h->m->data + h->done, chunk->body, size);
    h->done += size;
    h->is_over = h->done == h->size;
    *moved = true;
    return coll_publish(g, &h->pipe->taken, &last, ++*taken);
}

mt_status coll_shm_exchange(struct coll_shm *g, const struct coll_message *send, const struct coll_message *receive)
{
    struct half      out = half_of(g, send, true), in = half_of(g, receive, false);
    struct coll_idle idle = {0};

    MT_TRY(coll_alive(g));
    while (!out.is_over || !in.is_over) {
        bool moved = false;
        MT_TRY(send_step(g, &out, &moved));
        MT_TRY(receive_step(g, &in, &moved));
        if (moved)
            idle = (struct coll_idle){0};
        else
            MT_TRY(coll_idle(g, &idle, in.is_over ? send->peer : receive->peer, false));
    }
    return mt_ok();
}

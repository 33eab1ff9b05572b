/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - the collective calls over shared memory: small ones by mail, larger ones through the rings, and sums
 * of buffers in the group's heap in place.
 *
 * Owns: nothing. Thread: one at a time per struct coll_shm.
 */
#include "sgd/coll/shm/private.h"

#include <string.h>

enum {
    STREAM_BYTES = 8 * 1024 * 1024, /* what is larger is written past the caches */
    PAIR_BYTES = 1024 * 1024,       /* what is smaller stays in the second cache: no need to overlap reads from memory */
    CHUNK_BYTES_MIN = 16 * 1024,
    HEAP_BYTES_MIN = 8 * 1024,  /* what is smaller goes by mail, wherever it lies: one wait instead of two */
    PEEK_BYTES_MIN = 24 * 1024, /* what is smaller is copied into a mail in less time than the kernel takes to find its pages */
    PEEK_BYTES_MAX = COLL_RING * MT_COLL_CHUNK_BYTES, /* of all others together: what is larger takes longer than the rings */
};

/* A call while it runs. */
struct run {
    struct coll_shm        *g;
    const struct coll_call *call;
    size_t                  size;        /* of an element */
    size_t                  part, whole; /* bytes of one part of the input; of all that a member puts in */
    size_t                  chunk;       /* elements of each part that one chunk carries */
    uint64_t                staged_word, reduced_word;
    uint32_t                first_staged, first_reduced; /* the counts before this call */
    bool                    is_stream;
};

static size_t part_at(const struct run *r, uint32_t rank)
{
    return rank * r->part;
}

static void reduce(const struct run *r, const void *const *in, size_t count, void *out)
{
    coll_reduce(r->g->loops, r->call->type, r->call->op, in, r->g->members, count, out, r->is_stream, NULL);
}

static void copy(const struct run *r, void *to, const void *from, size_t size)
{
    if (to != from)
        coll_copy(r->g->loops, to, from, size, r->is_stream);
}

/* What the call gives this member: `count` elements of each part, which stand in in[rank], `offset` bytes into the part. */
static void give(const struct run *r, const void *const *in, size_t count, size_t offset)
{
    const struct coll_call *call = r->call;
    uint32_t                me = r->g->rank;
    char                   *out = (char *)call->out + offset;

    switch (call->kind) {
    case COLL_REDUCE:
        if (me != call->root)
            break;
        /* fallthrough */
    case COLL_ALL_REDUCE:
    case COLL_REDUCE_SCATTER: reduce(r, in, count, out); break;
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        for (uint32_t rank = 0; rank < r->g->members; rank++)
            copy(r, out + part_at(r, rank), in[rank], count * r->size);
        break;
    case COLL_BROADCAST:
        if (me != call->root)
            copy(r, out, in[call->root], count * r->size);
        break;
    default: break;
    }
}

/* Slice of a chunk that a member reduces for all: whole lines. */
static size_t slice_begin(const struct run *r, size_t count, uint32_t rank)
{
    size_t line = 64 / r->size, lines = (count + line - 1) / line;
    size_t begin = lines * rank / r->g->members * line;
    return begin < count ? begin : count;
}

/* ---- in place: all buffers of a sum lie in the heap ---- */

/* How many members have both buffers of this call in the heap. */
static uint32_t heap_members(const struct run *r)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < r->g->members; rank++) {
        const struct coll_mail *mail = coll_mail_of(r->g, rank, r->g->sequence);
        count += mail->in_at && mail->out_at;
    }
    return count;
}

static bool is_mine_in_heap(const struct run *r)
{
    return coll_heap_offset(r->g, r->call->in, r->part, r->call->type) &&
           coll_heap_offset(r->g, r->call->out, r->part, r->call->type);
}

/* Block by block, so that what is copied to the others is still in the second cache. */
static void reduce_and_copy(const struct run *r, const void **in, void *const *out, size_t count)
{
    struct coll_shm *g = r->g;
    size_t           block = MT_COLL_CHUNK_BYTES / 4 / r->size;
    for (size_t at = 0, n; at < count; at += n) {
        char *mine = (char *)out[g->rank] + at * r->size;
        n = count - at < block ? count - at : block;
        coll_reduce(g->loops, r->call->type, r->call->op, in, g->members, n, mine, false, NULL);
        for (uint32_t rank = 0; rank < g->members; rank++) {
            copy(r, (char *)out[rank] + at * r->size, mine, n * r->size);
            in[rank] = (const char *)in[rank] + n * r->size;
        }
    }
}

/* Each member reduces its slice of all inputs and writes it into all outputs. The second arrival says that this is done;
 * after it nobody touches another's buffers. */
static mt_status run_in_heap(struct run *r)
{
    struct coll_shm *g = r->g;
    const void      *in[MT_GROUP_MEMBERS_MAX];
    void            *out[MT_GROUP_MEMBERS_MAX];
    char            *base = (char *)g->shared;
    size_t           begin = slice_begin(r, r->call->count, g->rank), end = slice_begin(r, r->call->count, g->rank + 1);
    struct coll_call barrier = {.kind = COLL_BARRIER};

    for (uint32_t rank = 0; rank < g->members; rank++) {
        const struct coll_mail *mail = coll_mail_of(g, rank, g->sequence);
        in[rank] = base + mail->in_at + begin * r->size;
        out[rank] = base + mail->out_at + begin * r->size;
    }
    if (r->is_stream)
        coll_reduce_past(g->loops, r->call->type, r->call->op, in, g->members, end - begin, out, g->members);
    else
        reduce_and_copy(r, in, out, end - begin);
    return coll_arrive(g, &barrier, NULL, 0);
}

/* ---- middle: read where it lies ---- */

static bool is_for_peeking(const struct run *r)
{
    return r->call->kind == COLL_ALL_REDUCE && r->whole >= PEEK_BYTES_MIN && r->whole * (r->g->members - 1) <= PEEK_BYTES_MAX;
}

/* How many members can read all others' memory. */
static uint32_t peeking_members(const struct run *r)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < r->g->members; rank++)
        count += coll_mail_of(r->g, rank, r->g->sequence)->peeks != 0;
    return count;
}

/* Everyone reads all others' inputs into its own ring; one of two that has an output beside its input, into that. After the
 * second arrival nobody looks at an input of another any more; so only then an output that is the input is written. Where a
 * member died meanwhile, nobody comes that far. */
static mt_status run_peeking(struct run *r)
{
    struct coll_shm *g = r->g;
    char            *to = g->members == 2 && r->call->out != r->call->in ? r->call->out : coll_ring_of(g, g->rank, 0);
    const void      *in[MT_GROUP_MEMBERS_MAX];
    struct coll_call barrier = {.kind = COLL_BARRIER};

    for (uint32_t rank = 0; rank < g->members; rank++) {
        in[rank] = rank == g->rank ? r->call->in : to;
        if (rank == g->rank)
            continue;
        MT_TRY(coll_peek(g, rank, coll_mail_of(g, rank, g->sequence)->address, to, r->whole));
        to += r->whole;
    }
    MT_TRY(coll_arrive(g, &barrier, NULL, 0));
    reduce(r, in, r->call->count, r->call->out);
    return mt_ok();
}

/* ---- small: everything by mail ---- */

/* The bodies of all members' mails, `offset` bytes in. */
static void bodies(const struct run *r, size_t offset, const void **out)
{
    for (uint32_t rank = 0; rank < r->g->members; rank++)
        out[rank] = coll_mail_of(r->g, rank, r->g->sequence)->body + offset;
}

static mt_status run_small(struct run *r)
{
    const struct coll_call *call = r->call;
    struct coll_shm        *g = r->g;
    const void             *in[MT_GROUP_MEMBERS_MAX];
    bool                    is_giver = call->kind != COLL_BROADCAST || g->rank == call->root;
    bool                    may_skip = call->kind == COLL_ALL_REDUCE && r->whole >= HEAP_BYTES_MIN, may_peek = is_for_peeking(r);
    bool                    skips = (may_skip && is_mine_in_heap(r)) || (may_peek && g->peeks);

    /* Who has both buffers in the heap, or can read the others', hopes that all do, and sends no data. */
    MT_TRY(coll_arrive(g, call, call->in, is_giver && !skips ? r->whole : 0));
    uint32_t in_heap = may_skip ? heap_members(r) : 0, peeking = may_peek ? peeking_members(r) : 0;
    if (in_heap == g->members)
        return run_in_heap(r);
    if (peeking == g->members)
        return run_peeking(r);
    if (in_heap > 0 || peeking > 0)
        MT_TRY(coll_arrive(g, call, call->in, r->whole));
    bodies(r, call->kind == COLL_REDUCE_SCATTER || call->kind == COLL_ALL_TO_ALL ? part_at(r, g->rank) : 0, in);
    give(r, in, call->count, 0);
    return mt_ok();
}

/* ---- large: through the rings ---- */

/* Elements of chunk `i` of each part. */
static size_t chunk_count(const struct run *r, uint32_t i)
{
    size_t done = (size_t)i * r->chunk;
    return done >= r->call->count ? 0 : r->call->count - done < r->chunk ? r->call->count - done : r->chunk;
}

static uint32_t chunks_of(const struct run *r)
{
    return (uint32_t)((r->call->count + r->chunk - 1) / r->chunk);
}

/* Tells that chunk `i` is in the ring. */
static mt_status staged(struct run *r, uint32_t i)
{
    return coll_publish(r->g, &r->g->shared->entries[r->g->rank].staged, &r->staged_word, r->first_staged + i + 1);
}

/* Puts chunk `i` of this member's input into its ring: of every part, where there is one for each member. */
static mt_status stage(struct run *r, uint32_t i)
{
    struct coll_shm *g = r->g;
    size_t           bytes = chunk_count(r, i) * r->size, offset = (size_t)i * r->chunk * r->size;
    char            *ring = coll_ring_of(g, g->rank, r->first_staged + i);
    bool             is_giver = r->call->kind != COLL_BROADCAST || g->rank == r->call->root;

    for (uint32_t part = 0; is_giver && part < r->whole / r->part; part++)
        memcpy(ring + part * r->chunk * r->size, (const char *)r->call->in + part_at(r, part) + offset, bytes);
    return staged(r, i);
}

static mt_status wait_staged(struct run *r, uint32_t i)
{
    for (uint32_t rank = 0; rank < r->g->members; rank++)
        if (rank != r->g->rank)
            MT_TRY(coll_wait(r->g, &r->g->shared->entries[rank].staged, r->first_staged + i + 1, rank));
    return mt_ok();
}

/* What a member does with chunk `i` of all members. */
static void take(struct run *r, uint32_t i)
{
    const struct coll_call *call = r->call;
    struct coll_shm        *g = r->g;
    const void             *in[MT_GROUP_MEMBERS_MAX];
    bool                    has_parts = call->kind == COLL_REDUCE_SCATTER || call->kind == COLL_ALL_TO_ALL;

    for (uint32_t rank = 0; rank < g->members; rank++)
        in[rank] = coll_ring_of(g, rank, r->first_staged + i) + (has_parts ? g->rank * r->chunk * r->size : 0);
    give(r, in, chunk_count(r, i), (size_t)i * r->chunk * r->size);
}

/* Three members and more: each reduces its slice of chunk `i` into the results ring; the others copy it from there. */
static mt_status reduce_slice(struct run *r, uint32_t i)
{
    struct coll_shm *g = r->g;
    const void      *in[MT_GROUP_MEMBERS_MAX];
    size_t           count = chunk_count(r, i), begin = slice_begin(r, count, g->rank), end = slice_begin(r, count, g->rank + 1);

    for (uint32_t rank = 0; rank < g->members; rank++)
        in[rank] = coll_ring_of(g, rank, r->first_staged + i) + begin * r->size;
    coll_reduce(g->loops, r->call->type, r->call->op, in, g->members, end - begin,
                coll_results_of(g, r->first_reduced + i) + begin * r->size, false, NULL);
    return coll_publish(g, &g->shared->entries[g->rank].reduced, &r->reduced_word, r->first_reduced + i + 1);
}

static mt_status take_results(struct run *r, uint32_t i)
{
    for (uint32_t rank = 0; rank < r->g->members; rank++)
        if (rank != r->g->rank)
            MT_TRY(coll_wait(r->g, &r->g->shared->entries[rank].reduced, r->first_reduced + i + 1, rank));
    copy(r, (char *)r->call->out + (size_t)i * r->chunk * r->size, coll_results_of(r->g, r->first_reduced + i),
         chunk_count(r, i) * r->size);
    return mt_ok();
}

/* A sum of two: each reduces all of it, and stages the next chunk meanwhile. */
static mt_status run_pair(struct run *r)
{
    struct coll_shm *g = r->g;
    uint32_t         chunks = chunks_of(r), other = 1 - g->rank;
    const char      *in = r->call->in;

    MT_TRY(stage(r, 0));
    for (uint32_t i = 0; i < chunks; i++) {
        size_t           offset = (size_t)i * r->chunk * r->size, next = offset + r->chunk * r->size;
        struct coll_also also = {coll_ring_of(g, g->rank, r->first_staged + i + 1), in + next, chunk_count(r, i + 1) * r->size};
        const void      *both[2] = {[0] = NULL};
        MT_TRY(wait_staged(r, i));
        both[g->rank] = in + offset;
        both[other] = coll_ring_of(g, other, r->first_staged + i);
        coll_reduce(g->loops, r->call->type, r->call->op, both, 2, chunk_count(r, i), (char *)r->call->out + offset, r->is_stream,
                    &also);
        if (i + 1 < chunks)
            MT_TRY(staged(r, i + 1));
    }
    return mt_ok();
}

static mt_status run_chunks(struct run *r, bool is_sliced)
{
    uint32_t chunks = chunks_of(r);
    MT_TRY(stage(r, 0));
    for (uint32_t i = 0; i < chunks; i++) {
        if (i + 1 < chunks)
            MT_TRY(stage(r, i + 1));
        MT_TRY(wait_staged(r, i));
        if (!is_sliced)
            take(r, i);
        else
            MT_TRY(reduce_slice(r, i));
        if (is_sliced && i > 0)
            MT_TRY(take_results(r, i - 1));
    }
    return is_sliced ? take_results(r, chunks - 1) : mt_ok();
}

static mt_status run_large(struct run *r)
{
    struct coll_shm   *g = r->g;
    struct coll_entry *entry = &g->shared->entries[g->rank];
    bool               is_sliced = r->call->kind == COLL_ALL_REDUCE && g->members > 2;
    bool               is_pair = r->call->kind == COLL_ALL_REDUCE && g->members == 2 && r->whole >= PAIR_BYTES;
    size_t             parts = r->whole > r->part ? g->members : 1, bytes = MT_COLL_CHUNK_BYTES;

    while (bytes > CHUNK_BYTES_MIN && bytes * COLL_RING > r->whole)
        bytes /= 2; /* so that nobody waits long for the first one */
    r->chunk = bytes / parts / 64 * 64 / r->size;
    r->first_staged = g->chunks;
    r->first_reduced = g->reduced;
    r->staged_word = (uint64_t)g->generation << 32 | g->chunks;
    r->reduced_word = (uint64_t)g->generation << 32 | g->reduced;
    mt_status st = is_pair ? run_pair(r) : run_chunks(r, is_sliced);
    g->chunks = (uint32_t)atomic_load(&entry->staged);
    g->reduced = (uint32_t)atomic_load(&entry->reduced);
    return st;
}

/* ---- any call ---- */

static void alone(const struct run *r)
{
    const void *in = r->call->in;
    if (r->call->kind == COLL_BARRIER || r->call->kind == COLL_BROADCAST || !r->part || r->call->out == in)
        return;
    memcpy(r->call->out, in, r->part);
}

mt_status coll_shm_run(struct coll_shm *g, const struct coll_call *call)
{
    bool       has_parts = call->kind == COLL_REDUCE_SCATTER || call->kind == COLL_ALL_TO_ALL;
    struct run r = {.g = g, .call = call, .size = coll_type_size(call->type)};

    r.part = call->count * r.size;
    r.whole = has_parts ? r.part * g->members : r.part;
    r.is_stream = r.part >= STREAM_BYTES;
    if (g->members == 1) {
        MT_TRY(coll_alive(g));
        alone(&r);
        return mt_ok();
    }
    if (r.whole <= MT_COLL_MAIL_BYTES && r.whole * (g->members - 1) <= MT_COLL_MAIL_BYTES)
        return run_small(&r);
    MT_TRY(coll_arrive(g, call, NULL, 0));
    if (call->kind == COLL_ALL_REDUCE && heap_members(&r) == g->members)
        return run_in_heap(&r);
    return is_for_peeking(&r) && peeking_members(&r) == g->members ? run_peeking(&r) : run_large(&r);
}

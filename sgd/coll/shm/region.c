/* SPDX-License-Identifier: Apache-2.0
 *
 * region.c - the region's layout: where each thing is.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/coll/shm/private.h"

enum { HEAP_SIZE_SHIFT_MAX = 46 };

struct layout {
    size_t rings, results, pipes, heap, end;
};

static struct layout layout_of(const struct coll_shm_plan *plan)
{
    struct layout l;
    size_t        members = plan->members_max, rings = plan->is_bare ? 0 : COLL_RING * (size_t)MT_COLL_CHUNK_BYTES;
    size_t        pipes = plan->is_bare ? 0 : members * members * sizeof(struct coll_pipe);
    size_t        words = sizeof(struct coll_shared) + members * COLL_MAILS * sizeof(struct coll_mail);
    l.rings = (words + COLL_PAGE - 1) / COLL_PAGE * COLL_PAGE;
    l.results = l.rings + members * rings;
    l.pipes = l.results + rings;
    l.heap = (l.pipes + pipes + COLL_PAGE - 1) / COLL_PAGE * COLL_PAGE;
    l.end = l.heap + (plan->heap_size + COLL_PAGE - 1) / COLL_PAGE * COLL_PAGE;
    return l;
}

mt_status coll_shm_size(const struct coll_shm_plan *plan, size_t *out_size)
{
    if (plan->members_max == 0 || plan->members_max > MT_GROUP_MEMBERS_MAX || plan->heap_size >> HEAP_SIZE_SHIFT_MAX)
        return mt_error(MT_EINVAL, 0, "group: number of members or size of the heap out of range");
    *out_size = layout_of(plan).end;
    return mt_ok();
}

uint64_t coll_layout_word(const struct coll_shm_plan *plan)
{
    return (uint64_t)plan->members_max << 48 | (uint64_t)plan->is_bare << 47 | ((plan->heap_size + COLL_PAGE - 1) / COLL_PAGE + 1);
}

void coll_shm_lay(void *region, const struct coll_shm_plan *plan)
{
    struct coll_shared *shared = region;
    uint64_t            none = 0;
    atomic_compare_exchange_strong(&shared->layout, &none, coll_layout_word(plan));
}

char *coll_ring_of(const struct coll_shm *g, uint32_t rank, uint32_t chunk)
{
    size_t index = (size_t)rank * COLL_RING + chunk % COLL_RING;
    return (char *)g->shared + layout_of(&g->plan).rings + index * MT_COLL_CHUNK_BYTES;
}

char *coll_results_of(const struct coll_shm *g, uint32_t chunk)
{
    return (char *)g->shared + layout_of(&g->plan).results + (size_t)(chunk % COLL_RING) * MT_COLL_CHUNK_BYTES;
}

struct coll_pipe *coll_pipe_of(const struct coll_shm *g, uint32_t from, uint32_t to)
{
    struct coll_pipe *pipes = (struct coll_pipe *)(void *)((char *)g->shared + layout_of(&g->plan).pipes);
    return pipes + (size_t)from * g->plan.members_max + to;
}

char *coll_heap_of(const struct coll_shm *g, uint32_t rank, uint64_t *out_size)
{
    uint64_t share = g->plan.heap_size / g->members / COLL_PAGE * COLL_PAGE;
    *out_size = share;
    return (char *)g->shared + layout_of(&g->plan).heap + rank * share;
}

uint64_t coll_heap_offset(const struct coll_shm *g, const void *data, size_t size, enum coll_type type)
{
    struct layout l = layout_of(&g->plan);
    uintptr_t     at = (uintptr_t)data - (uintptr_t)g->shared;
    if ((uintptr_t)data >= (uintptr_t)g->shared && at >= l.heap && at + size <= l.end)
        return at % coll_type_size(type) == 0 ? at : 0;
    for (uint32_t i = 0; i < g->adopted_count; i++) {
        const struct coll_adopted *a = &g->adopted[i];
        at = (uintptr_t)data - a->at;
        if ((uintptr_t)data >= a->at && at + size <= a->size)
            return at % coll_type_size(type) == 0 ? a->offset + at : 0;
    }
    return 0;
}

void *coll_shm_heap(const struct coll_shm *g)
{
    return (char *)g->shared + layout_of(&g->plan).heap;
}

void *coll_shm_alloc(struct coll_shm *g, size_t size)
{
    uint64_t share;
    char    *heap = coll_heap_of(g, g->rank, &share);
    if (size > share || g->heap_used > share - size)
        return NULL;
    heap += g->heap_used;
    g->heap_used += (size + 63) / 64 * 64;
    return heap;
}

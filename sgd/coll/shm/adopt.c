/* SPDX-License-Identifier: Apache-2.0
 *
 * adopt.c - a member's own buffers made part of the group's heap: their pages are replaced by pages of the region
 * with the same content, at the same address. So all that is said of the heap holds for them.
 *
 * Owns:   those pages, until the generation's end; then ordinary ones take their place, with their content again.
 * Thread: one at a time per struct coll_shm.
 * Always: nothing is mapped over what is not known to be ordinary memory, or to be ours still: a user may have unmapped a
 *         buffer without a word. The kernel's list of mappings says what is there.
 */
#include "sgd/coll/shm/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A line of that list. */
struct mapping {
    unsigned long begin, end, offset, inode;
    unsigned      major, minor;
    char          access[5], name[16]; /* the name's beginning */
};

static bool mapping_read(FILE *maps, struct mapping *m)
{
    char  *line = NULL;
    size_t room = 0;
    bool   is_read = false;
    while (!is_read && getline(&line, &room, maps) > 0) {
        m->name[0] = 0;
        is_read = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %15s", &m->begin, &m->end, m->access, &m->offset, &m->major, &m->minor,
                         &m->inode, m->name) >= 7;
    }
    free(line);
    return is_read;
}

/* Memory of this process alone, as malloc and mmap give it. A stack's mapping grows, and must stay. */
static bool is_ordinary(const struct mapping *m, const struct mapping *like)
{
    (void)like;
    return strcmp(m->access, "rw-p") == 0 && m->inode == 0 && strcmp(m->name, "[stack]") != 0;
}

static bool is_same_file(const struct mapping *m, const struct mapping *like)
{
    return strcmp(m->access, "rw-s") == 0 && m->inode == like->inode && m->major == like->major && m->minor == like->minor &&
           m->offset - m->begin == like->offset - like->begin;
}

/* Whether every page of [at, at + size) lies in a mapping that is good. */
static bool is_all(uintptr_t at, size_t size, bool (*is_good)(const struct mapping *, const struct mapping *),
                   const struct mapping *like)
{
    FILE          *maps = fopen("/proc/self/maps", "re");
    struct mapping m;
    uintptr_t      next = at;
    while (maps && next < at + size && mapping_read(maps, &m))
        if (m.end > next) {
            if (m.begin > next || !is_good(&m, like))
                break;
            next = m.end;
        }
    if (maps)
        fclose(maps);
    return next >= at + size;
}

/* Whether the pages at an adopted buffer are still those that were put there. */
static bool is_ours(const struct coll_shm *g, const struct coll_adopted *a)
{
    FILE          *maps = fopen("/proc/self/maps", "re");
    uintptr_t      there = (uintptr_t)g->shared + a->offset;
    struct mapping m;
    bool           is_found = false;
    while (maps && !is_found && mapping_read(maps, &m))
        is_found = m.begin <= there && there < m.end;
    if (maps)
        fclose(maps);
    m.offset += there - m.begin; /* as if a mapping began at the buffer */
    m.begin = a->at;
    return is_found && is_all(a->at, a->size, is_same_file, &m);
}

static struct coll_adopted *adopted_at(struct coll_shm *g, uintptr_t at)
{
    for (uint32_t i = 0; i < g->adopted_count; i++)
        if (g->adopted[i].size && g->adopted[i].at == at)
            return &g->adopted[i];
    return NULL;
}

/* A place in the heap: one that was given back, or a new one. NULL: there is none. */
static struct coll_adopted *room_for(struct coll_shm *g, size_t size)
{
    for (uint32_t i = 0; i < g->adopted_count; i++)
        if (!g->adopted[i].size && g->adopted[i].room >= size)
            return &g->adopted[i];
    uint64_t share;
    char    *heap = coll_heap_of(g, g->rank, &share);
    uint64_t used = (g->heap_used + COLL_PAGE - 1) / COLL_PAGE * COLL_PAGE;
    if (g->adopted_count == MT_COLL_REGISTERED_MAX || used > share || size > share - used)
        return NULL;
    struct coll_adopted *a = &g->adopted[g->adopted_count++];
    *a = (struct coll_adopted){.room = size, .offset = (uint64_t)(heap + used - (char *)g->shared)};
    g->heap_used = used + size;
    return a;
}

static mt_status refuse(struct coll_shm *g, enum mt_code code, int sys, const char *why)
{
    snprintf(g->text, sizeof g->text, "group \"%s\": %s%s%s", g->name, why, sys ? ": " : "", sys ? strerror(sys) : "");
    return mt_error(code, sys, "group: a buffer can't be registered");
}

static bool overlaps_another(const struct coll_shm *g, uintptr_t at, size_t size)
{
    for (uint32_t i = 0; i < g->adopted_count; i++)
        if (at < g->adopted[i].at + g->adopted[i].size && g->adopted[i].at < at + size)
            return true;
    return false;
}

mt_status coll_shm_adopt(struct coll_shm *g, void *data, size_t size)
{
    uintptr_t at = (uintptr_t)data;
    if (at == 0 || size == 0 || at % COLL_PAGE || size % COLL_PAGE || at + size < at)
        return refuse(g, MT_EINVAL, 0, "a buffer to register begins and ends at a page (4096 bytes)");
    if (overlaps_another(g, at, size))
        return refuse(g, MT_EINVAL, 0, "the buffer is registered already, or a part of it");
    if (!is_all(at, size, is_ordinary, NULL))
        return refuse(g, MT_EINVAL, 0,
                      "only memory of this process alone can be registered (malloc, anonymous mmap), not a "
                      "mapped file, shared memory or a stack");
    MT_TRY(coll_alive(g));
    struct coll_adopted *a = room_for(g, size);
    if (!a)
        return refuse(g, MT_ENOMEM, 0, "the heap has no room for the buffer, or too many are registered");
    char *there = (char *)g->shared + a->offset;
    memcpy(there, data, size);
    /* An old size of 0 maps the same pages a second time. */
    if (mremap(there, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, data) == MAP_FAILED)
        return refuse(g, MT_ENOMEM, errno, "the pages of a buffer can't be replaced");
    (void)madvise(data, size, MADV_POPULATE_WRITE);
    a->at = at;
    a->size = size;
    return mt_ok();
}

/* Ordinary pages in place of those of the region. Others may still write to the latter: what they write then is lost. */
static mt_status give_back(struct coll_shm *g, struct coll_adopted *a)
{
    struct coll_adopted was = *a;
    a->size = 0;
    a->at = 0;
    if (!is_ours(g, &was))
        return mt_ok();
    void *copy = mmap(NULL, was.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy != MAP_FAILED) {
        memcpy(copy, (void *)was.at, was.size);
        if (mremap(copy, was.size, was.size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)was.at) != MAP_FAILED)
            return mt_ok();
        (void)munmap(copy, was.size);
    }
    *a = was;
    return refuse(g, MT_ENOMEM, errno, "no memory for a registered buffer's content");
}

mt_status coll_shm_give_back(struct coll_shm *g, void *data)
{
    struct coll_adopted *a = adopted_at(g, (uintptr_t)data);
    return a ? give_back(g, a) : refuse(g, MT_EINVAL, 0, "no buffer that begins there is registered");
}

mt_status coll_shm_give_back_all(struct coll_shm *g)
{
    for (uint32_t i = 0; i < g->adopted_count; i++)
        if (g->adopted[i].size)
            MT_TRY(give_back(g, &g->adopted[i]));
    g->adopted_count = 0;
    return mt_ok();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - the twin of system/memory.h and system/backing.h: plain memory behind the segments of simulated nodes.
 *
 * Owns: the table of descriptors of segments. Thread: one.
 * Always: all who map a segment see the same bytes at the same address; a mapping counts, and what nobody maps is gone.
 */
#include "tests/sim/twins/io.h"

#include "objectstore/system/backing.h"

#include <errno.h>
#include <sys/mman.h>

struct sim_mem *sim_memory_of(struct sim *s, int fd)
{
    return mt_map_ptr(&s->memories, mt_map_key((uint64_t)fd));
}

static int fd_of(struct sim *s, struct sim_mem *m)
{
    int fd = sim_fd_new(s, s->acting ? s->acting->serial : 0);
    if (mt_map_put_ptr(&s->memories, mt_map_key((uint64_t)fd), sim_mem_ref(m)).code)
        abort();
    return fd;
}

static void fd_close(struct sim *s, int fd)
{
    sim_mem_unref(s, sim_memory_of(s, fd));
    mt_map_remove(&s->memories, mt_map_key((uint64_t)fd));
    sim_fd_close(s, fd);
}

static struct sim_mem *mem_make(struct sim *s, uint64_t size)
{
    struct sim_mem *m = sim_mem_new(s, size);
    if (mt_map_put_ptr(&s->mapped, mt_map_key((uintptr_t)m->base), m).code)
        abort();
    return m;
}

static void zero(void *base, uint64_t size)
{
    if (madvise(base, size, MADV_DONTNEED) != 0)
        abort();
}

/* ---- system/backing.h ------------------------------------------------------------------------------------------------ */

mt_status os_backing_make(uint64_t size, struct os_backing *out)
{
    struct sim *s = sim_running();
    if (!s->is_healed && sim_chance(s, 20000)) {
        s->counters.segment_failed++;
        s->counters.fault_total++;
        return mt_error(MT_ESYS, ENFILE, "memfd_create");
    }
    struct sim_mem *data = mem_make(s, size), *generations = mem_make(s, os_generations_bytes(size));
    *out = (struct os_backing){.data_rw = fd_of(s, data),
                               .data_ro = fd_of(s, data),
                               .generations_ro = fd_of(s, generations),
                               .data = data->base,
                               .generations = generations->base};
    s->acting->n->memory_bytes += size;
    return mt_ok();
}

void os_backing_close(const struct os_backing *backing, uint64_t size)
{
    struct sim *s = sim_running();
    zero(backing->data, size); /* whoever still maps it reads zeros */
    os_memory_unmap(backing->data, size);
    os_memory_unmap(backing->generations, os_generations_bytes(size));
    fd_close(s, backing->data_rw);
    fd_close(s, backing->data_ro);
    fd_close(s, backing->generations_ro);
    s->acting->n->memory_bytes -= size;
}

uint64_t sim_memory_bytes(const struct sim_node *n)
{
    return n->memory_bytes;
}

/* ---- system/memory.h ------------------------------------------------------------------------------------------------- */

mt_status os_memory_map(int fd, uint64_t size, bool writable, void **out_base)
{
    struct sim_mem *m = sim_memory_of(sim_running(), fd);
    (void)writable;
    SIM_REQUIRE(sim_running(), m && size <= m->size, "I6: a raylet maps a descriptor that is closed");
    *out_base = sim_mem_ref(m)->base;
    return mt_ok();
}

void os_memory_unmap(void *base, uint64_t size)
{
    struct sim *s = sim_running();
    (void)size;
    if (base)
        sim_mem_unref(s, mt_map_ptr(&s->mapped, mt_map_key((uintptr_t)base)));
}

mt_status os_memory_prefault(void *base, uint64_t size)
{
    (void)base;
    (void)size;
    return mt_ok();
}

void os_memory_drop(void *base, uint64_t size)
{
    zero(base, size);
}

mt_status os_memory_punch(int fd, uint64_t offset, uint64_t size)
{
    zero(sim_memory_of(sim_running(), fd)->base + offset, size);
    return mt_ok();
}

uint64_t os_memory_resident(int fd)
{
    (void)fd;
    return 0;
}

bool os_cgroup_look(struct os_cgroup_look *look, const char *mount, uint64_t now_ms)
{
    (void)mount;
    (void)now_ms;
    look->limit = UINT64_MAX;
    look->usage = 0;
    return true;
}

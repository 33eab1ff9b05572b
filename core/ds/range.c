/* SPDX-License-Identifier: Apache-2.0
 *
 * range.c - addresses without memory, which is put behind them step by step.
 *
 * Owns: the addresses and the memory. Thread: the caller's.
 */
#include "core/ds/range.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, LIMIT_SHARE = 4 };

/* A leak checker does not look for pointers in what mmap gave unless it is told to. */
#ifdef __SANITIZE_ADDRESS__
void __lsan_register_root_region(const void *at, size_t size);
void __lsan_unregister_root_region(const void *at, size_t size);
#else
#define __lsan_register_root_region(at, size)   ((void)(at), (void)(size))
#define __lsan_unregister_root_region(at, size) ((void)(at), (void)(size))
#endif

static size_t in_pages(size_t size)
{
    return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* Pages that nobody may touch cost nothing, but count against a limit on addresses (ulimit -v). */
static mt_status reserve(mt_range *range, size_t room)
{
    struct rlimit limit;
    void         *base;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur / LIMIT_SHARE < room)
        room = in_pages(limit.rlim_cur / LIMIT_SHARE);
    base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return mt_error(MT_ENOMEM, errno, "no addresses for a table");
    range->base = base;
    range->room = room;
    __lsan_register_root_region(base, room);
    return mt_ok();
}

mt_status mt_range_grow(mt_range *range, size_t more, size_t room)
{
    more = in_pages(more);
    if (!range->base)
        MT_TRY(reserve(range, in_pages(room)));
    if (more > range->room - range->size)
        return mt_error(MT_ENOMEM, 0, "a table is as large as it may get");
    if (mprotect((char *)range->base + range->size, more, PROT_READ | PROT_WRITE))
        return mt_error(MT_ENOMEM, errno, "no memory for a table");
    range->size += more;
    return mt_ok();
}

void mt_range_fini(mt_range *range)
{
    if (!range->base)
        return;
    __lsan_unregister_root_region(range->base, range->room);
    munmap(range->base, range->room);
    *range = (mt_range){0};
}

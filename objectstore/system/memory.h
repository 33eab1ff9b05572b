/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - shared memory from the kernel, for segments, lanes, park pages and regions alike. Daemon side.
 *
 * Every piece is a memfd that can neither shrink nor grow (so no peer makes a reader fault) and that nobody re-opens
 * for writing through /proc unless root (mode 0400). Access is by passed descriptor only. Thread: any.
 */
#ifndef OS_MEMORY_H
#define OS_MEMORY_H

#include "core/base/status.h"

#include <stdbool.h>

/* A zeroed memfd of `size` bytes (made a multiple of the page), sealed; descriptors are close-on-exec and the caller's.
 * `out_ro` may be NULL. `name` is for /proc/PID/maps. Pages cost nothing until touched. ESYS; EINVAL: size 0. */
MT_MUST_USE mt_status os_memory_create(const char *name, uint64_t size, int *out_rw, int *out_ro);

/* Maps `size` bytes of `fd`. ESYS. */
MT_MUST_USE mt_status os_memory_map(int fd, uint64_t size, bool writable, void **out_base);
void                  os_memory_unmap(void *base, uint64_t size);

/* Makes the pages of a writable mapping present in one go: several times faster than faulting them one by one. Blocks
 * for about 0.3 s per GiB. ESYS: out of memory or the mapping is not writable. */
MT_MUST_USE mt_status os_memory_prefault(void *base, uint64_t size);

/* Gives the pages of a range back to the kernel; they read as zero afterwards, in every mapping. ESYS. */
MT_MUST_USE mt_status os_memory_punch(int fd, uint64_t offset, uint64_t size);

/* The same for a range of a mapping; where the kernel refuses, the pages stay. */
void os_memory_drop(void *base, uint64_t size);

/* Bytes of `fd` that have pages now; 0 where that cannot be told. */
uint64_t os_memory_resident(int fd);

/* --- what the cgroup allows --------------------------------------------------------------------------------- */

/* Past the limit the kernel kills instead of refusing, so the store compares before it grows. */
struct os_headroom {
    uint64_t limit;    /* bytes; UINT64_MAX: none */
    uint64_t usage;    /* bytes charged now, without page cache that the kernel drops by itself */
    uint64_t resident; /* of those, bytes of segments (os_memory_resident, summed) */
    uint64_t reserve;  /* bytes kept free for everything that is not the store */
    uint64_t kept;     /* bytes of the store that are not for the one who asks, unless it can't do without them */
};

/* Reads limit and usage of the tightest control group that this process is in: v2 memory.max or v1 memory.limit_in_bytes, up
 * to the root, `mount` being where they are mounted ("/sys/fs/cgroup"). No limit is UINT64_MAX. Blocks briefly on files
 * of the kernel. ESYS only where /proc/self/cgroup cannot be read. */
MT_MUST_USE mt_status os_cgroup_read(const char *mount, uint64_t *out_limit, uint64_t *out_usage);

/* When to look next at memory of which `usage` of `limit` bytes are used: before what is left below MT_MEMORY_SHORT_PERMILLE can be
 * gone, however fast `cpus` CPUs take it (MT_MEMORY_MIB_EACH_MS); from MT_MEMORY_LOOK_MS_MIN to _MAX. */
uint64_t os_memory_look_ms(uint64_t limit, uint64_t usage, uint64_t cpus);

/* The same for who asks often: the figures of a moment ago. Zeroed at first. */
enum { OS_CGROUP_LOOK_MS = 10 };
struct os_cgroup_look {
    uint64_t at_ms; /* when they were read; 0: at the next look they are, whatever the time is */
    uint64_t limit, usage;
};
/* Reads them where OS_CGROUP_LOOK_MS have passed since the last time, and says so. Where they cannot be read there is no limit. */
bool os_cgroup_look(struct os_cgroup_look *look, const char *mount, uint64_t now_ms);

#endif

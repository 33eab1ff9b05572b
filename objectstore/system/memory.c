/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - shared memory from the kernel. Thread: any; owns nothing.
 */
#include "objectstore/system/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY_PAGE = 4096, MEMORY_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static mt_status system_error(const char *what)
{
    return mt_error(MT_ESYS, errno, what);
}

/* A second open file of the same memory, which can't be mapped writable. */
static mt_status reopen_read_only(int fd, int *out_ro)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *out_ro = open(path, O_RDONLY | O_CLOEXEC);
    return *out_ro < 0 ? system_error("open shared memory read-only") : mt_ok();
}

mt_status os_memory_create(const char *name, uint64_t size, int *out_rw, int *out_ro)
{
    if (size == 0 || size > INT64_MAX - MEMORY_PAGE)
        return mt_error(MT_EINVAL, 0, "create shared memory");
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return system_error("memfd_create");
    mt_status st = mt_ok();
    if (ftruncate(fd, (off_t)((size + MEMORY_PAGE - 1) / MEMORY_PAGE * MEMORY_PAGE)) != 0)
        st = system_error("size shared memory");
    else if (fchmod(fd, 0400) != 0)
        st = system_error("fchmod shared memory");
    else if (fcntl(fd, F_ADD_SEALS, MEMORY_SEALS) != 0)
        st = system_error("seal shared memory");
    else if (out_ro)
        st = reopen_read_only(fd, out_ro);
    if (st.code != MT_OK) {
        close(fd);
        return st;
    }
    *out_rw = fd;
    return mt_ok();
}

mt_status os_memory_map(int fd, uint64_t size, bool writable, void **out_base)
{
    void *base = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return system_error("map shared memory");
    *out_base = base;
    return mt_ok();
}

void os_memory_unmap(void *base, uint64_t size)
{
    if (base)
        munmap(base, size);
}

mt_status os_memory_prefault(void *base, uint64_t size)
{
    if (madvise(base, size, MADV_POPULATE_WRITE) == 0)
        return mt_ok();
    if (errno != EINVAL)
        return system_error("pre-fault shared memory");
    /* Before Linux 5.14: touch every page. A read and a write back, since the page may be in use. */
    for (uint64_t i = 0; i < size; i += MEMORY_PAGE)
        __atomic_fetch_add((uint8_t *)base + i, 0, __ATOMIC_RELAXED);
    return mt_ok();
}

mt_status os_memory_punch(int fd, uint64_t offset, uint64_t size)
{
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) != 0)
        return system_error("punch shared memory");
    return mt_ok();
}

void os_memory_drop(void *base, uint64_t size)
{
    (void)madvise(base, size, MADV_REMOVE);
}

uint64_t os_memory_resident(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

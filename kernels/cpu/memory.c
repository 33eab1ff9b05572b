/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - memory of tables on the CPU: the process's own. Owns nothing. Thread: any.
 */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 * 1024 * 1024 };

/* A model reads some hundred megabytes a step, in rows that lie a page apart: to find each page of 4 KiB costs a twentieth of
 * its time. Where there are no larger ones, nothing is lost. */
static void pages_enlarge(void *memory, size_t size)
{
    uintptr_t first = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t)memory + size) / HUGE_PAGE * HUGE_PAGE;
    if (end > first)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
}

mt_status k_alloc_cpu(size_t size, void **out)
{
    void *memory = calloc(size ? size : 1, 1); /* pages cost nothing until they are touched */
    if (!memory)
        return mt_error(MT_ENOMEM, 0, "allocate buffers");
    pages_enlarge(memory, size);
    *out = memory;
    return mt_ok();
}

void k_release_cpu(void *memory)
{
    free(memory);
}

mt_status k_copy_cpu(struct k_stream *stream, void *to, const void *from, size_t size)
{
    (void)stream;
    if (size)
        memcpy(to, from, size);
    return mt_ok();
}

mt_status k_clear_cpu(struct k_stream *stream, void *to, size_t size)
{
    (void)stream;
    if (size)
        memset(to, 0, size);
    return mt_ok();
}

mt_status k_wait_cpu(struct k_stream *stream)
{
    (void)stream;
    return mt_ok();
}

mt_status k_pin_cpu(void *memory, size_t size)
{
    (void)memory, (void)size;
    return mt_ok();
}

void k_unpin_cpu(void *memory)
{
    (void)memory;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * k_memory.c - memory of tables on the CPU: the process's own. Owns nothing. Thread: any.
 */
#include "kernels/k_private.h"

#include <stdlib.h>
#include <string.h>

mt_status k_alloc_cpu(size_t size, void **out)
{
    void *memory = calloc(size ? size : 1, 1); /* pages cost nothing until they are touched */
    if (!memory)
        return mt_error(MT_ENOMEM, 0, "allocate buffers");
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

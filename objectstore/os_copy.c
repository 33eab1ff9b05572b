/* SPDX-License-Identifier: Apache-2.0
 *
 * os_copy.c - copying large values: stores that go around the caches save the read of each line that is
 * overwritten.
 *
 * Thread: any; owns nothing. The widest stores that the CPU has are chosen on each call: the check is one
 * load. Tried: plain memcpy (glibc uses non-temporal stores itself, but only past 3/4 of the shared cache,
 * 360 MiB here).
 */
#include "objectstore/os_client.h"

#include <string.h>

enum {
    COPY_STREAM_MIN = 2 * 1024 * 1024
}; /* bytes; below, the copy stays in the L2 cache for its first reader */

#if defined(__x86_64__)
#include <immintrin.h>

/* `to` is 64-aligned, `size` a multiple of 256. */
__attribute__((target("avx512f"))) static void stream_avx512(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i += 256) {
        __m512i a = _mm512_loadu_si512((const void *)(from + i));
        __m512i b = _mm512_loadu_si512((const void *)(from + i + 64));
        __m512i c = _mm512_loadu_si512((const void *)(from + i + 128));
        __m512i d = _mm512_loadu_si512((const void *)(from + i + 192));
        _mm512_stream_si512((void *)(to + i), a);
        _mm512_stream_si512((void *)(to + i + 64), b);
        _mm512_stream_si512((void *)(to + i + 128), c);
        _mm512_stream_si512((void *)(to + i + 192), d);
    }
}

__attribute__((target("avx2"))) static void stream_avx2(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i += 32) {
        __m256i a = _mm256_loadu_si256((const void *)(from + i));
        _mm256_stream_si256((void *)(to + i), a);
    }
}

void os_copy(void *to, const void *from, size_t size)
{
    bool wide = __builtin_cpu_supports("avx512f");
    if (size < COPY_STREAM_MIN || (!wide && !__builtin_cpu_supports("avx2"))) {
        memcpy(to, from, size);
        return;
    }
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = -(uintptr_t)out & 63;
    memcpy(out, in, head);
    size_t body = (size - head) & ~(size_t)255;
    if (wide)
        stream_avx512(out + head, in + head, body);
    else
        stream_avx2(out + head, in + head, body);
    _mm_sfence(); /* streaming stores are not ordered by a release store */
    memcpy(out + head + body, in + head + body, size - head - body);
}
#else
void os_copy(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}
#endif

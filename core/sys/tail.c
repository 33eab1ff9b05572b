/* SPDX-License-Identifier: Apache-2.0
 *
 * tail.c - streams that remember their end. Owns: the two streams, for the life of the process. Thread: any.
 */
#include "core/sys/tail.h"

#include "core/base/status.h"
#include "core/sys/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void keep(struct mt_tail *tail, const char *bytes, size_t size)
{
    uint64_t at = atomic_load_explicit(&tail->written, memory_order_relaxed);
    for (size_t i = size > MT_TAIL_BYTES ? size - MT_TAIL_BYTES : 0; i < size; i++)
        tail->bytes[(at + i) % MT_TAIL_BYTES] = bytes[i];
    atomic_store_explicit(&tail->written, at + size, memory_order_release);
}

/* Two threads may print at a time through the two streams: then bytes of the tail may mix, which harms nobody. */
static ssize_t through(void *cookie, const char *bytes, size_t size, int fd)
{
    keep(cookie, bytes, size);
    return mt_write_all(fd, bytes, size) ? 0 : (ssize_t)size; /* as fopencookie wants it */
}

static ssize_t through_out(void *cookie, const char *bytes, size_t size)
{
    return through(cookie, bytes, size, STDOUT_FILENO);
}

static ssize_t through_err(void *cookie, const char *bytes, size_t size)
{
    return through(cookie, bytes, size, STDERR_FILENO);
}

void mt_tail_clear(struct mt_tail *tail)
{
    atomic_store(&tail->written, 0);
}

void mt_tail_attach(struct mt_tail *tail)
{
    mt_tail_clear(tail);
    FILE *out = fopencookie(tail, "w", (cookie_io_functions_t){.write = through_out});
    FILE *err = fopencookie(tail, "w", (cookie_io_functions_t){.write = through_err});
    if (!out || !err)
        return;
    setvbuf(out, NULL, _IOLBF, 0);
    setvbuf(err, NULL, _IONBF, 0);
    fflush(stdout);
    stdout = out;
    stderr = err;
}

void mt_tail_read(const struct mt_tail *tail, char *out, size_t size)
{
    uint64_t written = atomic_load_explicit(&tail->written, memory_order_acquire);
    uint64_t begin = written > MT_TAIL_BYTES ? written - MT_TAIL_BYTES : 0;
    size_t   n = 0;
    MT_ASSERT(size >= 4);
    while (begin > 0 && begin < written && tail->bytes[(begin - 1) % MT_TAIL_BYTES] != '\n' && written - begin > size / 2)
        begin++;
    if (written - begin > size / 2)
        begin = written - size / 2;
    for (; begin < written && n + 4 < size; begin++) {
        char c = tail->bytes[begin % MT_TAIL_BYTES];
        if (c != '\n')
            out[n++] = (unsigned char)c < ' ' ? ' ' : c;
        else if (begin + 1 < written && n > 0)
            memcpy(out + n, " | ", 3), n += 3;
    }
    out[n] = 0;
}

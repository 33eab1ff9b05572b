/* SPDX-License-Identifier: Apache-2.0
 *
 * tail.h - the last that a worker printed, kept in memory that it shares, so that others find it when the worker is dead.
 *
 * Standard output and error of the worker's process become streams that write through to where they went before, and copy
 * the end of it. What goes past them (write(2)) is not kept. Thread: any may print; one reads, after the writer's death.
 */
#ifndef MT_BASE_TAIL_H
#define MT_BASE_TAIL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MT_TAIL_BYTES = 504 };

struct mt_tail {
    _Atomic uint64_t written; /* bytes ever; the last MT_TAIL_BYTES of them are there */
    char             bytes[MT_TAIL_BYTES];
};

/* Forgets what was printed. */
void mt_tail_clear(struct mt_tail *tail);
/* Empties the tail and puts stdout and stderr of this process through it, for the rest of its life; `tail` stays mapped so
 * long. Where that fails they stay as they were. */
void mt_tail_attach(struct mt_tail *tail);

/* The last lines, without a line that begins before what is kept, as one line of text with " | " between them. */
void mt_tail_read(const struct mt_tail *tail, char *out, size_t size);

#endif

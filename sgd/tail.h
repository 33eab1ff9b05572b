/* SPDX-License-Identifier: Apache-2.0
 *
 * tail.h - the last that a worker printed, kept in shared memory where the driver finds it when the worker is dead.
 *
 * Standard output and error of the worker's process become streams that write through to where they went before, and copy
 * the end of it. What goes past them (write(2)) is not kept. Thread: any may print; one reads, after the writer's death.
 */
#ifndef SGD_TAIL_H
#define SGD_TAIL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { SGD_TAIL_BYTES = 504 };

struct sgd_tail {
    _Atomic uint64_t written; /* bytes ever; the last SGD_TAIL_BYTES of them are there */
    char             bytes[SGD_TAIL_BYTES];
};

/* Empties the tail and puts stdout and stderr of this process through it, for the rest of its life; `tail` stays mapped so
 * long. Where that fails they stay as they were. */
void sgd_tail_attach(struct sgd_tail *tail);

/* The last lines, without a line that begins before what is kept, as one line of text with " | " between them. */
void sgd_tail_read(const struct sgd_tail *tail, char *out, size_t size);

#endif

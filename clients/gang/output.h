/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - what the ranks print: whole lines with the rank in front, or a file for each rank; and the last lines of each.
 *
 * Thread: the driver's. Blocks on who reads the output, and on the disk.
 */
#ifndef GNG_OUTPUT_H
#define GNG_OUTPUT_H

#include "core/base/buf.h"
#include "core/base/limits/gang.h"

#include <stdbool.h>
#include <stdio.h>

struct gng_printed { /* of one rank */
    mt_buf line[2];  /* begun, of standard output and error */
    FILE  *file[2];  /* of a folder */
    char   tail[MT_GANG_TAIL_BYTES];
    size_t tail_at; /* bytes ever */
};

struct gng_output {
    const char         *dir;  /* NULL: none */
    int                 bare; /* the rank whose standard output is ours, as it is; -1: none */
    struct gng_printed *of;
    int                 count;
};

/* Room for so many ranks. ENOMEM; ESYS: the folder can't be made. */
MT_MUST_USE mt_status gng_output_open(struct gng_output *o, const char *dir, int bare, int count);
void                  gng_output_close(struct gng_output *o);
/* `stream`: 0 is standard output, 1 standard error. ENOMEM; ESYS, EDISK_FULL: it can't be written. */
MT_MUST_USE mt_status gng_output_take(struct gng_output *o, int rank, int stream, mt_view bytes);
/* The rank has ended: a last line without an end is printed. */
MT_MUST_USE mt_status gng_output_end(struct gng_output *o, int rank);
/* Its last lines, each with its end; "" where it printed nothing. */
void gng_output_tail(const struct gng_output *o, int rank, char *out, size_t size);

#endif

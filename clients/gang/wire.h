/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - what the driver of a gang and its supervisors say to each other: words one after the other in the bytes of actor calls.
 *
 *   ready(wants a port) -> struct gng_seat      where the supervisor is
 *   tell(words)         driver to supervisor:   START, SIGNAL, and of PMI: ROOM
 *   poll -> words       supervisor to driver:   OUT, ERR, STARTED, ENDED, and of PMI: FENCE; waits until there is something
 *
 * Both ends are of one program. Little-endian; a reader asks once, at the end.
 */
#ifndef GNG_WIRE_H
#define GNG_WIRE_H

#include "core/base/buf.h"
#include "core/base/limits/gang.h"

#include <stdint.h>

enum gng_wire_kind {
    GNG_WIRE_START = 1, /* number: the attempt; bytes: gng_start_put */
    GNG_WIRE_SIGNAL,    /* number: which */
    GNG_WIRE_OUT,       /* bytes that it has printed */
    GNG_WIRE_ERR,
    GNG_WIRE_STARTED, /* number: pid */
    GNG_WIRE_ENDED,   /* number: as waitpid gives it, or -errno: it could not be started; bytes: what is to be said of it, or "" */
};

struct gng_wire {
    uint8_t  kind;
    uint32_t attempt; /* that it belongs to; words of another one change nothing */
    int64_t  number;
    mt_view  bytes; /* borrowed */
};

/* What a supervisor says of itself. */
struct gng_seat {
    uint32_t node;
    int32_t  port;         /* 0: none was wanted */
    char     devices[256]; /* CUDA_VISIBLE_DEVICES of its lease */
};

static inline mt_status gng_wire_put(mt_buf *buf, const struct gng_wire *m)
{
    mt_writer w = mt_writer_to_buf(buf, SIZE_MAX);
    mt_writer_u8(&w, m->kind);
    mt_writer_u32(&w, m->attempt);
    mt_writer_u64(&w, (uint64_t)m->number);
    mt_writer_blob(&w, m->bytes);
    return w.status;
}

/* The next word; false at the end, or where it is cut off. */
static inline bool gng_wire_take(mt_reader *r, struct gng_wire *out)
{
    if (r->left == 0 || r->failed)
        return false;
    out->kind = mt_reader_u8(r);
    out->attempt = mt_reader_u32(r);
    out->number = (int64_t)mt_reader_u64(r);
    out->bytes = mt_reader_blob(r, UINT32_MAX);
    return !r->failed;
}

#endif

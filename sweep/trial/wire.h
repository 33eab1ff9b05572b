/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - what the driver and its slots say to each other: messages one after the other in the bytes of actor calls.
 *
 *   tell(bytes)     driver to slot:   START, ANSWER, RETURN
 *   poll -> bytes   slot to driver:   REPORT, SAVED, FINISHED, RETURNED; waits until there is something
 *
 * Both ends are of one program. Little-endian (core/base/buf.h); the reader's end is checked once, after a message.
 */
#ifndef SWP_WIRE_H
#define SWP_WIRE_H

#include "core/base/buf.h"
#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"

enum swp_wire_kind {
    SWP_WIRE_START = 1, /* trial, run, ready_seq; number: seed; flags: attempt; text: parameters; step, bytes: state; ask_from */
    SWP_WIRE_ANSWER,    /* trial, run; flags: enum swp_decision; ask_from */
    SWP_WIRE_RETURN,
    SWP_WIRE_REPORT,   /* trial, run, step; number: bits of the value; flags: wants an answer; text: other metric or "" */
    SWP_WIRE_SAVED,    /* trial, run, step, bytes */
    SWP_WIRE_FINISHED, /* trial, run, ready_seq; number: status; step: ms it took; flags: SWP_FINISHED_; text: why it failed */
    SWP_WIRE_RETURNED, /* trial (-1: there was none), run */
};

enum { SWP_FINISHED_FINAL = 1 /* no retry helps */, SWP_FINISHED_STOPPED = 2 /* it was told to stop */ };

struct swp_wire {
    uint8_t  kind;
    uint32_t run, flags;
    int64_t  trial, step, ask_from; /* ask_from: a report of this step or a later one waits for its answer */
    uint64_t number;
    uint64_t ready_seq;   /* the record that let the attempt begin: driver.h */
    mt_view  text, bytes; /* borrowed */
};

static inline mt_status swp_wire_put(mt_buf *buf, const struct swp_wire *m)
{
    mt_writer w = mt_writer_to_buf(buf, SIZE_MAX);
    mt_writer_u8(&w, m->kind);
    mt_writer_u32(&w, m->run);
    mt_writer_u32(&w, m->flags);
    mt_writer_u64(&w, (uint64_t)m->trial);
    mt_writer_u64(&w, (uint64_t)m->step);
    mt_writer_u64(&w, (uint64_t)m->ask_from);
    mt_writer_u64(&w, m->number);
    mt_writer_u64(&w, m->ready_seq);
    mt_writer_blob(&w, m->text);
    mt_writer_u64(&w, m->bytes.size);
    mt_writer_bytes(&w, m->bytes.data, m->bytes.size);
    return w.status;
}

/* The next message; false at the end, or where it is cut off. */
static inline bool swp_wire_take(mt_reader *r, struct swp_wire *out)
{
    if (r->left == 0 || r->failed)
        return false;
    out->kind = mt_reader_u8(r);
    out->run = mt_reader_u32(r);
    out->flags = mt_reader_u32(r);
    out->trial = (int64_t)mt_reader_u64(r);
    out->step = (int64_t)mt_reader_u64(r);
    out->ask_from = (int64_t)mt_reader_u64(r);
    out->number = mt_reader_u64(r);
    out->ready_seq = mt_reader_u64(r);
    out->text = mt_reader_blob(r, UINT32_MAX);
    out->bytes = mt_reader_bytes(r, mt_reader_u64(r));
    return !r->failed;
}

#endif

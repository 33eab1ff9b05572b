/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - what the driver of a gang and its supervisors say to each other: words one after the other in the bytes of actor calls.
 *
 *   ready(wants a port) -> struct gng_seat      where the supervisor is
 *   tell(words)         driver to supervisor:   START, SIGNAL, HEARS, and of PMI: FENCED
 *   poll -> words       supervisor to driver:   OUT, ERR, STARTED, SAID, ENDED, FAULT, and of PMI: FENCE; waits until there is
 *                                               something
 *
 * Both directions are streams: words come in pieces that fit into a call (MT_GANG_PIECE_BYTES), so none needs room in an object
 * store, which may be full for as long as a gang runs. Who gets pieces keeps them until a word is whole (gng_wire_next).
 *
 * Both ends are of one program. Little-endian; a reader asks once, at the end.
 */
#ifndef GNG_WIRE_H
#define GNG_WIRE_H

#include "core/base/buf.h"
#include "core/base/limits/gang.h"

#include <stdbool.h>
#include <stdint.h>

enum gng_wire_kind {
    GNG_WIRE_START = 1, /* number: the attempt; bytes: gng_start_put */
    GNG_WIRE_SIGNAL,    /* number: which */
    GNG_WIRE_OUT,       /* bytes that it has printed */
    GNG_WIRE_ERR,
    GNG_WIRE_FENCE,   /* of PMI, from the first rank of each node: what its ranks have put; all of them wait */
    GNG_WIRE_FENCED,  /* to it: what those of the other nodes have put */
    GNG_WIRE_FAULT,   /* gng_fault_number; bytes: what is wrong */
    GNG_WIRE_SAID,    /* of ranks that go on without a dead one: a line (meet.h) */
    GNG_WIRE_HEARS,   /* to it: bytes for its socket */
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
    char     pmi[48];      /* the name of the socket where it would serve PMI */
};

/* Of a START: where the rank's node is reached, where rank 0's, the port on that, and the secret; empty: no Horovod. */
struct gng_horovod {
    mt_view  own, host, secret;
    uint32_t port;
};

/* What a START says. */
struct gng_start {
    uint32_t           rank, first, local, size; /* the rank; its node has ranks first .. first + local - 1, of size */
    mt_view            pmi, mapping;             /* where PMI is served, and PMI_process_mapping; empty: no PMI */
    mt_view            space;                    /* likewise: what its key-value space is named after, the same for all ranks */
    struct gng_horovod horovod;
    uint32_t           hang_ms; /* a rank that does nothing for so long is at fault; 0: nobody looks */
    uint32_t           meets;   /* it has a socket for lines to and from the driver */
    uint32_t           env_count, argc;
    mt_view            texts; /* the variables, then the words, each with its end */
};

static inline mt_status gng_start_put(mt_buf *buf, const struct gng_start *s)
{
    mt_writer w = mt_writer_to_buf(buf, SIZE_MAX);
    mt_writer_u32(&w, s->rank);
    mt_writer_u32(&w, s->first);
    mt_writer_u32(&w, s->local);
    mt_writer_u32(&w, s->size);
    mt_writer_blob(&w, s->pmi);
    mt_writer_blob(&w, s->mapping);
    mt_writer_blob(&w, s->space);
    mt_writer_blob(&w, s->horovod.own);
    mt_writer_blob(&w, s->horovod.host);
    mt_writer_blob(&w, s->horovod.secret);
    mt_writer_u32(&w, s->horovod.port);
    mt_writer_u32(&w, s->hang_ms);
    mt_writer_u32(&w, s->meets);
    mt_writer_u32(&w, s->env_count);
    mt_writer_u32(&w, s->argc);
    mt_writer_blob(&w, s->texts);
    return w.status;
}

static inline mt_status gng_start_take(mt_view bytes, struct gng_start *out)
{
    mt_reader r = mt_reader_of(bytes);
    out->rank = mt_reader_u32(&r);
    out->first = mt_reader_u32(&r);
    out->local = mt_reader_u32(&r);
    out->size = mt_reader_u32(&r);
    out->pmi = mt_reader_blob(&r, UINT32_MAX);
    out->mapping = mt_reader_blob(&r, UINT32_MAX);
    out->space = mt_reader_blob(&r, UINT32_MAX);
    out->horovod.own = mt_reader_blob(&r, UINT32_MAX);
    out->horovod.host = mt_reader_blob(&r, UINT32_MAX);
    out->horovod.secret = mt_reader_blob(&r, UINT32_MAX);
    out->horovod.port = mt_reader_u32(&r);
    out->hang_ms = mt_reader_u32(&r);
    out->meets = mt_reader_u32(&r);
    out->env_count = mt_reader_u32(&r);
    out->argc = mt_reader_u32(&r);
    out->texts = mt_reader_blob(&r, UINT32_MAX);
    return mt_reader_end(&r);
}

/* A FAULT's number: whose, the exit status that it asks for (-1: none), and whether its end is what is wrong. */
struct gng_fault {
    int  rank, code;
    bool is_end;
};
static inline int64_t gng_fault_number(struct gng_fault f)
{
    return (int64_t)f.rank * 1024 + (f.code + 1) * 2 + f.is_end;
}
static inline struct gng_fault gng_fault_of(int64_t number)
{
    struct gng_fault f = {(int)(number / 1024), (int)(number % 1024 / 2) - 1, number % 2 != 0};
    return f;
}

static inline mt_status gng_wire_put(mt_buf *buf, const struct gng_wire *m)
{
    mt_writer w = mt_writer_to_buf(buf, SIZE_MAX);
    mt_writer_u8(&w, m->kind);
    mt_writer_u32(&w, m->attempt);
    mt_writer_u64(&w, (uint64_t)m->number);
    mt_writer_blob(&w, m->bytes);
    return w.status;
}

/* The next word of what has come, from byte *at on, which goes behind it. False: no further one is whole. */
static inline bool gng_wire_next(const mt_buf *come, size_t *at, struct gng_wire *out)
{
    if (*at == come->size)
        return false;
    mt_reader r = mt_reader_of(mt_view_of(come->data + *at, come->size - *at));
    out->kind = mt_reader_u8(&r);
    out->attempt = mt_reader_u32(&r);
    out->number = (int64_t)mt_reader_u64(&r);
    out->bytes = mt_reader_blob(&r, UINT32_MAX);
    if (r.failed)
        return false;
    *at = come->size - r.left;
    return true;
}

/* The words before byte `at` were taken: what is left is the begin of one whose rest has still to come. */
static inline void gng_wire_taken(mt_buf *come, size_t at)
{
    if (at && at < come->size)
        memmove(come->data, come->data + at, come->size - at);
    come->size -= at;
}

#endif

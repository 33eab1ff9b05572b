/* SPDX-License-Identifier: Apache-2.0
 *
 * link.h - records between two nodes: each once and in order, over streams that come and go. Private to raylet/.
 *
 * A link outlives the streams that carry it. Frames are numbered from 1 in each direction; the receiver acknowledges
 * cumulatively; what is not acknowledged is sent again when another stream carries on. On the same one it is not: a stream
 * loses nothing while it lives, and an end that is slow must not be sent the same twice. A frame that has been taken in before
 * is dropped, one with a gap before it too (it will come again, in order).
 *
 * A link has a number. Both ends draw one when they begin; the higher wins, so they agree after one exchange. An end that
 * has given the other up begins again with a higher number: that tells the other that all that was bound to the former
 * link is over (link_take says so once, by *is_reset).
 *
 * Credit: the receiver says how many bytes it will hold that it has not worked off; the sender has no more than that on
 * its way. Pure: no clock, no I/O. Thread: the logic loop only.
 */
#ifndef RLT_LINK_H
#define RLT_LINK_H

#include "core/ds/vec.h"
#include "core/lane/ring.h"
#include "core/proto/manta.pb-c.h"

enum {
    LINK_FRAME_BYTES = 32 * 1024,        /* of records in one frame; one larger record goes alone */
    LINK_WINDOW_BYTES = 4 * 1024 * 1024, /* credit that a receiver gives */
    LINK_FIRST_BYTES = 1024 * 1024,      /* ... assumed until it has spoken */
    LINK_QUEUE_BYTES = 16 * 1024 * 1024, /* queued and not acknowledged: beyond, lanes to that node pause */
    LINK_ACK_BYTES = 256 * 1024,         /* taken in and not acknowledged: acknowledge at once */
};

struct link_frame {
    struct link_frame *next;
    uint64_t           sequence; /* 0: not sent yet */
    size_t             size;
    bool               is_control;
    uint8_t            bytes[];
};

struct rlt_link {
    uint32_t           node, epoch; /* the other end */
    uint64_t           number;
    bool               is_agreed;    /* a frame of this number has come in */
    struct link_frame *first, **end; /* not acknowledged, oldest first */
    struct link_frame *unsent;       /* the first of them that has not been sent on the present stream */
    uint64_t           sent;         /* sequence */
    uint64_t           taken;        /* of the other direction: all up to here are in */
    uint64_t           acked_taken;  /* ... and said so */
    uint64_t           taken_bytes;  /* since the last acknowledgement that was sent */
    uint64_t           queued_bytes; /* not acknowledged, sent or not */
    uint64_t           flight_bytes; /* sent, not acknowledged */
    uint64_t           credit;       /* of the other end */
};

void link_init(struct rlt_link *l, uint32_t node, uint32_t epoch, uint64_t number);
void link_fini(struct rlt_link *l);

/* Queues a run of whole, padded records, all below or all from LANE_CTL. Copies. */
void link_queue(struct rlt_link *l, const uint8_t *bytes, size_t size);

/* The next frame that may go out now, NULL where there is none (nothing queued, or no credit). Counts as sent. */
const struct link_frame *link_next(struct rlt_link *l);
/* From here on another stream carries the link: all that is not acknowledged goes out again. Returns how many frames. */
uint32_t link_rewind(struct rlt_link *l);

/* The header of the next frame to be sent. */
void link_fill(struct rlt_link *l, uint32_t own_node, uint32_t own_epoch, const struct link_frame *f, Manta__V1__Frame *out);

enum link_verdict {
    LINK_STALE,  /* of a lower number: tell the other end ours */
    LINK_SEEN,   /* nothing new, or a gap before it; the header was taken in */
    LINK_NEW,    /* the records are to be taken in now */
    LINK_BROKEN, /* no such frame: drop the stream */
};
/* Takes in what a frame says. A higher number than ours becomes ours. *is_reset: the former had been agreed on, so the other end
 * has forgotten it, and what was queued is gone. Otherwise nobody has seen what is queued: it goes out under the new number. */
enum link_verdict link_take(struct rlt_link *l, const Manta__V1__Frame *f, bool *is_reset);
/* Whether its number is higher than ours: to look at what is queued before link_take drops it. */
bool link_would_reset(const struct rlt_link *l, const Manta__V1__Frame *f);

/* Whether an acknowledgement should go out even without records. */
static inline bool link_owes_ack(const struct rlt_link *l)
{
    return l->taken != l->acked_taken;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.h - signs of life as datagrams: a node says to its head that it lives, and the head answers.
 *
 * Both share a key that the head has drawn for this one stream and told there (TLS beyond loopback). A datagram is 56 bytes, its
 * numbers little-endian:
 *
 *   0 "MB", version, kind, 4 zeros    8 session    16 counter    24 echo    32 report    40 seal: SipHash-2-4 of 0 to 39, 128 bits
 *   kind: 1 a beat, 2 an answer, 3 an answer to one by which the node was heard
 *
 * So nothing that a stranger sends has an effect, and what was heard on the wire can't be altered. That it is not repeated, or held
 * back and said later, is for the machines at both ends to see to, by counter and echo (docs/design/head.md).
 */
#ifndef MT_IO_BEAT_H
#define MT_IO_BEAT_H

#include "core/io/io.h"

#include <netinet/in.h>

enum {
    IO_BEAT_KEY_BYTES = 16,
    IO_BEAT_BYTES = 56,
    IO_BEATS_BATCH = 64, /* read, and sent, by one system call */
};

struct io_beat {
    bool     is_answer; /* by the head, ... */
    bool     is_heard;  /* ... which has heard the node by it; else the echo was too old */
    uint64_t session;   /* for which the key was drawn */
    uint64_t counter;   /* of the node's, each time a higher one; in an answer: of the beat that it answers */
    uint64_t echo;      /* in an answer: the head's clock; in a beat: that of the last answer that was heard; 0: none was */
    uint64_t report;    /* of a beat: the version of the node's last report, which still stands */
};

struct io_beat_in { /* one that came; nothing of it is true before io_beat_check has said so */
    struct io_beat      beat;
    uint8_t             bytes[IO_BEAT_BYTES];
    struct sockaddr_in6 from; /* or an IPv4 one */
    socklen_t           from_size;
};

struct io_beats {
    /* Datagrams came that look like beats. Loop thread. */
    void (*came)(struct io_beats *beats, const struct io_beat_in *list, uint32_t count);
    uint16_t              port; /* of this end */
    struct io_beats_impl *impl; /* private; NULL while closed */
};

/* Binds the numeric address; `port` 0: any. EEXIST: that port is taken; ENOMEM, ESYS, EINVAL. Loop thread, as all here. */
MT_MUST_USE mt_status io_beats_open(struct io_loop *loop, struct io_beats *beats, const char *host, uint16_t port);
/* For datagrams to and from that address alone. */
MT_MUST_USE mt_status io_beats_dial(struct io_loop *loop, struct io_beats *beats, const char *host, uint16_t port);
/* Nothing where it is closed. */
void io_beats_close(struct io_beats *beats);

/* Whether it was sealed with that key. */
bool io_beat_check(struct io_beats *beats, const struct io_beat_in *in, const uint8_t key[IO_BEAT_KEY_BYTES]);
/* Seals it and queues it for where `to` came from; what is queued leaves when `came` returns, or by io_beats_flush. A datagram
 * that can't be sent is one that gets lost. */
void io_beats_answer(struct io_beats *beats, const struct io_beat *beat, const struct io_beat_in *to,
                     const uint8_t key[IO_BEAT_KEY_BYTES]);
void io_beats_flush(struct io_beats *beats);
/* The same of one that was dialled. */
void io_beats_say(struct io_beats *beats, const struct io_beat *beat, const uint8_t key[IO_BEAT_KEY_BYTES]);

#endif

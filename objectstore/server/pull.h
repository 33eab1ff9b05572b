/* SPDX-License-Identifier: Apache-2.0
 *
 * pull.h - how an object's bytes go from one node to another: the format, and both ends as state machines.
 *
 * A large object has a connection for itself, in chunks, several asked for ahead; then the next object may be asked for. Small ones
 * share one: each is one chunk, and many are asked for ahead. Answers come in the order of the requests:
 *
 *   puller                                      source
 *   hello {magic, version, who, to whom, token}
 *   request {ref, offset, size} ...   ------->  pins the object until its last byte is sent
 *                                     <-------  reply {code, offset, size, sum}, then `size` bytes of the value
 *
 * All little-endian, no padding. Both ends say where the next bytes are to go (room) and are told how many came
 * (received): a value is received straight into its segment and sent from it. No system call, clock or allocation here;
 * transfer/transfer.h is the shell. Whatever is not right ends the connection, never more.
 */
#ifndef OS_PULL_H
#define OS_PULL_H

#include "core/base/release.h"
#include "core/io/token.h"
#include "core/lane/record.h"

#include <sys/uio.h>

enum {
    OS_WIRE_MAGIC = 0x6a626f6d, /* "mobj" */
    OS_WIRE_CODES = 128,        /* codes are below */
    OS_PULL_AHEAD = 4,          /* chunks asked for and not yet received */
    OS_PULL_BEHIND = 8,         /* chunks that a slow source has and has not sent, at least */
};

struct os_wire_hello {
    uint32_t magic;
    uint16_t version_max, version_min; /* spoken by the puller */
    uint32_t from_node, from_epoch;
    uint32_t to_node, to_epoch; /* the source as the puller knows it; another epoch is another raylet: EFENCED */
    uint8_t  token[IO_TOKEN_HEX];
};
struct os_wire_request {
    uint32_t        magic;
    uint32_t        serial; /* from 0, one more each, on a connection */
    struct lane_ref ref;
    uint64_t        offset; /* in the value */
    uint64_t        size;   /* at most MT_OBJECT_CHUNK_BYTES_MAX */
};
struct os_wire_reply {
    uint32_t magic;
    uint32_t serial;
    int32_t  code;         /* enum mt_code; not 0: no bytes follow */
    uint32_t flags;        /* OS_WIRE_ ... */
    uint64_t offset, size; /* as asked */
    uint64_t sum;          /* os_sum of the bytes that follow */
    uint64_t value_sum;    /* of the whole value, where its writer has made one */
};
enum {
    OS_WIRE_SUMMED = 1,
    OS_WIRE_ELSEWHERE =
        2, /* with EAGAIN: the node `offset` has the value, or is about to; ask there. An older puller asks again here */
    OS_WIRE_GOES_ON = 4, /* with a code: what else was asked for is answered all the same. An older source closes the connection */
    OS_WIRE_AHEAD_SHIFT = 8, /* with bytes, from here up: how many more chunks of that size stand there already. An older source
                                says 0, and is never slow */
    OS_WIRE_AHEAD_MAX = (1 << 24) - 1,
};
static_assert(sizeof(struct os_wire_hello) == 88 && sizeof(struct os_wire_request) == 80 && sizeof(struct os_wire_reply) == 48,
              "the wire format has no padding");

/* --- the puller ----------------------------------------------------------------------------------------------- */

/* How a source that is sent the value itself keeps up, from one look to the next. */
struct os_pace {
    int64_t  since_ms; /* 0: not looked yet. Then: */
    uint64_t good;     /* what this node had */
    uint64_t there;    /* what the source had */
    uint64_t best;     /* bytes a second: the most that the source got, or sent here, from one look to the next */
};

struct os_pull {
    struct lane_ref      ref;      /* of the object at its source */
    uint8_t             *data;     /* where the value goes; the caller's */
    uint64_t             asked;    /* bytes of the value */
    uint64_t             received; /* bytes of the value */
    uint64_t             good;     /* ... that are what was sent */
    uint64_t             chunk_end;
    uint32_t             chunk; /* bytes asked for at a time */
    uint32_t             patience_ms;
    uint32_t             elsewhere; /* refused with EAGAIN: the node to ask; 0: none was named */
    uint32_t             slow_ms;   /* from look to look; 0: nobody looks how quick the source is */
    struct os_pace       pace;
    uint32_t             serial_first, serial_asked, serial_got;
    uint32_t             head_have; /* bytes of `head` that are there */
    bool                 in_body, done;
    int64_t              progress_ms;
    struct os_wire_reply head;
};

/* `data` has room for ref->size bytes. */
void os_pull_start(struct os_pull *pull, const struct lane_ref *ref, void *data, int64_t now_ms);
/* Right after start: the connection has carried requests before, the next one has this serial. */
void os_pull_go_on(struct os_pull *pull, uint32_t serial);
/* Right after start: the first `have` bytes, less than all and whole chunks, are there. */
void os_pull_resume(struct os_pull *pull, uint64_t have);
/* The next request to send; false while enough are under way, or all is asked for. */
bool os_pull_request(struct os_pull *pull, struct os_wire_request *out);
/* Where the next bytes of the connection go, and at most how many. Not after `done`. */
void os_pull_room(struct os_pull *pull, void **out_at, size_t *out_size);
/* `size` bytes are there. pull->done when the value is whole. ECORRUPT: a chunk is not what was sent. ETIMEDOUT: from one look to
 * the next, slow_ms, the source has sent less than half of what it got or sent in any such time, and more than OS_PULL_BEHIND
 * chunks wait there: what it sends is slow, and not what it is sent. EPROTO: the source broke the rules; or the code with which it
 * refused (EOBJ_LOST, EFENCED, ...). Then the pull has failed. */
MT_MUST_USE mt_status os_pull_received(struct os_pull *pull, size_t size, int64_t now_ms);
/* The source has said, by its last reply, that the object is not to be had; and it goes on with what else was asked for. */
static inline bool os_pull_is_refused_alone(const struct os_pull *pull)
{
    return pull->head_have == sizeof pull->head && pull->head.code != MT_OK && pull->head.flags & OS_WIRE_GOES_ON;
}
/* ETIMEDOUT: nothing has come for patience_ms, which is MT_OBJECT_FETCH_MS unless the caller sets it after start. */
MT_MUST_USE mt_status os_pull_check(const struct os_pull *pull, int64_t now_ms);

/* --- the source ----------------------------------------------------------------------------------------------- */

enum os_serve_state { OS_SERVE_HELLO, OS_SERVE_REQUEST, OS_SERVE_ASKED, OS_SERVE_REPLY };

struct os_serve {
    enum os_serve_state    state;
    uint32_t               have; /* bytes of hello or request that are there */
    uint32_t               serial;
    bool                   fenced; /* the puller means another raylet */
    struct os_wire_hello   hello;
    struct os_wire_request request; /* valid in ASKED and REPLY */
    struct os_wire_reply   reply;
    bool                   is_summed; /* set by the caller before answer: the value has a sum of its own, ... */
    uint64_t               value_sum; /* ... this one */
    uint32_t               elsewhere; /* ... with EAGAIN: the node to ask; 0: none */
    const uint8_t         *body;
    uint64_t               sent; /* bytes of reply and body */
};

void os_serve_start(struct os_serve *serve);
/* Where the next bytes of the connection go; size 0 while a request is answered: do not read then. */
void os_serve_room(struct os_serve *serve, void **out_at, size_t *out_size);
/* `size` bytes are there. EAUTH, EPROTO, EVERSION: drop the connection, without a word. In state ASKED the caller finds
 * serve->request's object and calls os_serve_answer. `node` and `epoch` are our own. */
MT_MUST_USE mt_status os_serve_received(struct os_serve *serve, size_t size, const struct io_token *token, uint32_t node,
                                        uint32_t epoch);
/* The value (its start, pinned until the reply is sent), or why not. */
void os_serve_answer(struct os_serve *serve, int32_t code, const void *value);
/* The same of a value whose first `have` bytes are there. False: what is asked for is not, and nothing is answered yet. */
bool os_serve_answer_part(struct os_serve *serve, const void *value, uint64_t have);
/* The bytes that are still to be sent of the reply. */
static inline uint64_t os_serve_left(const struct os_serve *serve)
{
    return sizeof serve->reply + serve->reply.size - serve->sent;
}
/* What is to be sent now: one or two pieces. */
int os_serve_out(const struct os_serve *serve, struct iovec out[2]);
/* `size` bytes are sent. False: the puller means another raylet, and has been told so: close the connection. */
bool os_serve_sent(struct os_serve *serve, size_t size);

#endif

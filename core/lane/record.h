/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - the one record header of rings and wire, and what records carry. Frozen.
 *
 *   0        4      6      8       12      16         24              40        44     48       56      64
 *   +--------+------+------+-------+-------+----------+---------------+---------+------+--------+-------+
 *   | length | kind | flags| route | epoch | sequence | id (16 bytes) | attempt | slot | trace  | aux   | payload..
 *   +--------+------+------+-------+-------+----------+---------------+---------+------+--------+-------+
 *
 * All little-endian, as the machines are. `length` counts header and payload; a record takes the next multiple of
 * 64 bytes in a ring. A reader copies the header out once and validates the copy: a peer is not trusted.
 */
#ifndef LANE_RECORD_H
#define LANE_RECORD_H

#include "core/base/id.h"

struct lane_record {
    uint32_t length;   /* bytes, header included; LANE_RECORD_SIZE <= length <= LANE_RECORD_MAX */
    uint16_t kind;     /* enum lane_kind */
    uint16_t flags;    /* by kind */
    uint32_t route;    /* where the switch sends it; 0 inside one node */
    uint32_t epoch;    /* of the sender's node, by the head at registration: fences what is stale */
    uint64_t sequence; /* of this record on its lane, from 1 */
    mt_id    id;       /* of the task, call or request; made by the sender */
    uint32_t attempt;  /* of the task (from 0), or incarnation of the actor */
    uint32_t slot;     /* in the lane's table of claims */
    uint64_t trace;    /* TASK, CREATE, CALL: when it was submitted, wall clock in ns; 0: its owner keeps no events */
    uint64_t aux;      /* TASK, CALL: hash of the function's name; DONE: status code | user code << 32 */
};

enum {
    LANE_RECORD_SIZE = 64,
    LANE_RECORD_MAX = 16384, /* header and inline payload; what is larger lives in a segment */
};
static_assert(sizeof(struct lane_record) == LANE_RECORD_SIZE, "frozen: one cache line");
static_assert(offsetof(struct lane_record, sequence) == 16 && offsetof(struct lane_record, id) == 24 &&
                  offsetof(struct lane_record, slot) == 44 && offsetof(struct lane_record, aux) == 56,
              "frozen offsets");

enum lane_kind {
    LANE_PAD = 1,      /* fills the end of an area */
    LANE_JUMP = 2,     /* the producer goes on in area `slot` (ring.h) */
    LANE_TASK = 3,     /* owner -> worker: run the function */
    LANE_CREATE = 4,   /* owner -> worker: make the actor; claimed like a task */
    LANE_CALL = 5,     /* caller -> actor: run a method */
    LANE_DONE = 6,     /* worker -> owner: the outcome of one slot */
    LANE_RETURNED = 7, /* worker -> owner: this slot has not run and will not run here */
    LANE_END = 8,      /* worker -> owner: the last record of the lease */
    LANE_REVOKE = 9,   /* owner -> switch: try to take this slot back (the claims are on another node) */
    LANE_CANCEL = 10,  /* owner -> switch: the same, and if it runs already, ask it to stop */
    LANE_ARGUMENT =
        11, /* owner -> worker of another node: a lane_value, argument `aux` (from 0) of the task in that slot, which is ahead */
    LANE_ITEM = 15,  /* worker -> owner: one item of the generator that runs; aux: its index, from 0 */
    LANE_ACK = 16,   /* owner -> switch: so many of its items have been used (the credit words are on another node) */
    LANE_REFS = 17,  /* worker -> owner: lane_refs that the value of the DONE to come declares; several add up */
    LANE_EXIT = 20,  /* actor -> creator: it ends of its own will, so there is no restart */
    LANE_SAVED = 21, /* actor -> creator: a lane_value, the snapshot that its next incarnation begins with */
    LANE_CTL = 64,   /* from here on: control records between a process and its raylet (ctl.h) */
};

/* flags of LANE_CALL: the concurrency group stands in bits 11 to 14, 0 is the default one */
enum { LANE_CALL_GROUP_SHIFT = 11 };
/* flags of LANE_TASK */
enum {
    LANE_TASK_LIMITED = 0x8000, /* the payload's last 8 bytes are a lane_limits */
    LANE_TASK_ONCE = 0x4000,    /* its owner won't try it again should its worker die */
    LANE_TASK_FEEDS = 0x2000,   /* the payload's last 16 bytes are a lane_edge: the cell that takes the result (edge.h) */
    LANE_TASK_AHEAD = 0x1000,   /* some arguments are lane_edges: it begins when their cells are filled */
    LANE_TASK_TOLD = 0x0800,    /* its owner waits for the outcome, to send it on: it is told at once */
};
struct lane_limits {
    uint32_t timeout_ms; /* from the start of the run; 0: none */
    uint32_t max_calls;  /* runs of this function after which the worker makes room for a fresh one; 0: none */
};

/* flags of LANE_DONE */
enum {
    LANE_DONE_ERROR = 1, /* the payload is a lane_failure */
};

/* An argument or a return value: this, then `size` bytes, padded to 8, then `ref_count` struct lane_ref: the refs that the
 * value declares. A ref travels as an argument of type 'r' or in such a list; id bytes inside a value keep nothing alive. */
struct lane_value {
    uint8_t  type;      /* a letter of the signature: l u d b s y r A; 'v' is no value */
    uint8_t  flags;     /* LANE_VALUE_... */
    uint16_t ref_count; /* 0 in this version: a reader refuses what it does not know */
    uint32_t size;
};
enum {
    LANE_VALUE_SHARED = 1, /* the bytes are a lane_ref: the value lives in a segment */
    LANE_VALUE_ASKED = 2,  /* an argument whose bytes are a lane_asked; of another type than 'r' the worker asks for the value */
    LANE_VALUE_EDGE = 4,   /* an argument of a task with LANE_TASK_AHEAD: the bytes are a lane_edge, the value comes by its cell */
};
/* A letter that values have. */
static inline bool lane_type_is_known(uint8_t type)
{
    switch (type) {
    case 'l':
    case 'u':
    case 'd':
    case 'b':
    case 's':
    case 'y':
    case 'r':
    case 'A':
    case 'v': return true;
    default: return false;
    }
}
/* Whether so many bytes can be a value of that type: no number has three, and no text is without its NUL. */
static inline bool lane_size_fits(uint8_t type, uint64_t size)
{
    switch (type) {
    case 'l':
    case 'u':
    case 'd': return size == 8;
    case 'b': return size == 1;
    case 's': return size >= 1;
    case 'v': return size == 0;
    default: return lane_type_is_known(type);
    }
}

/* A ref in short, where the arguments of a task would not fit into a record otherwise. */
struct lane_asked {
    mt_id    id;
    uint32_t owner_node;
    uint32_t job;
};
static_assert(sizeof(struct lane_asked) == 24, "frozen");
static_assert(sizeof(struct lane_value) == 8, "followed by its bytes, 8-aligned");

/* The wire form of a ref. The owner is the process that made the id. */
struct lane_ref {
    mt_id    id;
    uint32_t owner_node; /* where the owner's process is */
    uint32_t node;       /* where the value is; 0: only the owner knows */
    uint32_t segment;    /* on that node */
    uint32_t generation; /* of the place: a reader pins, then compares */
    uint64_t offset;     /* of the object header in the segment */
    uint64_t size;       /* of the value, without header */
    uint32_t job;
    uint8_t  type;    /* letter of the value */
    uint8_t  flags;   /* LANE_REF_... */
    uint16_t attempt; /* of the task that made the value; 0 where none did: of two places, which is the later one */
};
static_assert(sizeof(struct lane_ref) == 56, "frozen");
enum {
    LANE_REF_DECLARES = 1, /* the value ends with the refs that it declares: lane_refs, then a lane_declared */
};

/* The end of a value with LANE_REF_DECLARES: data, padded to 8, `count` struct lane_ref, this. */
struct lane_declared {
    uint64_t data_size;
    uint32_t count;
    uint32_t reserved;
};

/* The first eight bytes of the arguments of a task or call. */
struct lane_call_head {
    uint32_t argc;
    uint32_t results; /* values it shall return, 0 or 1: one; with LANE_STREAM: items it may be ahead of its consumer.
                         Of LANE_CREATE: what the actor's process must know, OWN_CREATE_... */
};
enum { LANE_STREAM = 1 << 30, LANE_AHEAD_MAX = 2048, LANE_RESULTS_MAX = 128 };

/* Payload of LANE_DONE with LANE_DONE_ERROR; text follows, not NUL-terminated, then ids of refs to the record's end. */
struct lane_failure {
    int32_t  pid;
    uint32_t node;
    uint32_t where_size; /* of "file:line" or a symbol, first in the text; the message is the rest */
    uint32_t held_size;  /* of the ids of refs that the worker still holds, 16 bytes each */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h - what a worker has run: a ring of 64-byte events in memory that its raylet has mapped.
 *
 * One writer, the worker, under its own lock; one reader, the raylet. The writer never waits: the newest event takes the
 * place of the oldest, and the reader sees from `begun` what has been overwritten while it copied. One event is written
 * twice: when its task begins (`ended_ns` 0: it runs, or its worker was killed in it) and when it ends. The worker makes no
 * system call for it and the raylet is not told; it reads when somebody asks.
 *
 *   0        header, then LANE_EVENT_NAMES names: what the functions' hashes stand for
 *   32768    the events; number n stands at n modulo `capacity`
 */
#ifndef LANE_EVENT_H
#define LANE_EVENT_H

#include "core/lane/record.h"
#include "core/lane/shm.h"

enum {
    LANE_EVENT_NAMES = 511,
    LANE_EVENT_NAME_SIZE = 56,
    LANE_EVENTS_OFFSET = 32 * 1024,
};

struct lane_event {
    mt_id    id;           /* of the task */
    uint64_t function;     /* hash of its name */
    uint64_t submitted_ns; /* wall clock of the submitter; 0: it keeps no events */
    uint64_t started_ns;   /* wall clock */
    shm_u64  ended_ns;     /* 0: it has not ended */
    int32_t  code;         /* enum mt_code or the function's own */
    uint32_t owner_node;
    uint16_t attempt;
    uint16_t kind; /* LANE_TASK, LANE_CREATE, LANE_CALL */
    uint32_t reserved;
};
static_assert(sizeof(struct lane_event) == 64, "one cache line an event");

struct lane_event_name {
    uint64_t hash;
    char     text[LANE_EVENT_NAME_SIZE]; /* cut; NUL-terminated */
};

struct lane_events {
    uint32_t               capacity; /* a power of two; written by the raylet before the worker gets the memory */
    shm_u32                name_count;
    shm_u64                begun; /* events begun; the newest has the number begun - 1 */
    shm_u64                ended; /* events ended: what tells a worker that runs something */
    uint8_t                pad[40];
    struct lane_event_name names[LANE_EVENT_NAMES];
};
static_assert(sizeof(struct lane_events) == LANE_EVENTS_OFFSET, "the events begin on a page");

static inline size_t lane_events_bytes(uint32_t capacity)
{
    return LANE_EVENTS_OFFSET + (size_t)capacity * sizeof(struct lane_event);
}
static inline struct lane_event *lane_event_at(struct lane_events *events, uint32_t capacity, uint64_t number)
{
    return (struct lane_event *)(void *)((uint8_t *)events + LANE_EVENTS_OFFSET) + (number & (capacity - 1));
}

/* The worker's end. Zeroed it records nothing. */
struct lane_event_writer {
    struct lane_events *shared;
    uint32_t            capacity;
    uint64_t            begun, ended;
    uint64_t            wall_ns;    /* what to add to the monotonic clock */
    shm_u64             named[256]; /* hashes whose name stands in `shared`, by their low bits; read without the lock */
};

static inline bool lane_event_is_named(struct lane_event_writer *w, uint64_t hash)
{
    return !w->shared || shm_load64(&w->named[hash & 255]) == hash;
}

/* The task of `record` begins. The number is for lane_event_end. */
static inline uint64_t lane_event_begin(struct lane_event_writer *w, const struct lane_record *record, uint32_t owner_node,
                                        uint64_t now_ns)
{
    struct lane_event *event;
    if (!w->shared)
        return 0;
    /* Fetched ahead: a store that misses the cache would hold up every later one, the outcome's publication included. */
    __builtin_prefetch(lane_event_at(w->shared, w->capacity, w->begun + 4), 1);
    event = lane_event_at(w->shared, w->capacity, w->begun);
    shm_store64(&event->ended_ns, 0);
    event->id = record->id;
    event->function = record->aux;
    event->submitted_ns = record->trace;
    event->started_ns = now_ns + w->wall_ns;
    event->code = 0;
    event->owner_node = owner_node;
    event->attempt = (uint16_t)record->attempt;
    event->kind = record->kind;
    shm_store64_release(&w->shared->begun, w->begun + 1);
    return w->begun++;
}

/* It has ended. One whose place was taken by later ones meanwhile is not known any more. */
static inline void lane_event_end(struct lane_event_writer *w, uint64_t number, int32_t code, uint64_t now_ns)
{
    struct lane_event *event;
    if (!w->shared)
        return;
    shm_store64(&w->shared->ended, ++w->ended);
    if (w->begun - number > w->capacity)
        return;
    event = lane_event_at(w->shared, w->capacity, number);
    event->code = code;
    shm_store64_release(&event->ended_ns, now_ns + w->wall_ns);
}

/* Says what a hash stands for, once for each. */
void lane_event_name(struct lane_event_writer *w, uint64_t hash, const char *first, const char *second);

/* The raylet's end: event `number`, copied. False: it was never there, or has been overwritten. The writer may be hostile:
 * `capacity` is what the raylet made. */
bool lane_event_read(struct lane_events *events, uint32_t capacity, uint64_t number, struct lane_event *out);
/* The name of a hash; a number in hex where it has none. `out` gets LANE_EVENT_NAME_SIZE bytes. */
void lane_event_name_of(struct lane_events *events, uint64_t hash, char out[LANE_EVENT_NAME_SIZE]);

#endif

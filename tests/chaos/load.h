/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h - the ledger that driver and workers of the chaos load append to, outside the engine.
 *
 * One file, one record of 64 bytes a write with O_APPEND: begin and end of each execution, by the process that executes;
 * submission and outcome of each call, by its caller. tests/chaos/ledger.py reads it back.
 */
#ifndef CHAOS_LOAD_H
#define CHAOS_LOAD_H

#include <manta.h>

#include <stdbool.h>
#include <stdint.h>

enum chaos_what { CHAOS_BEGIN = 1, CHAOS_END = 2, CHAOS_SUBMIT = 3, CHAOS_OUTCOME = 4, CHAOS_WRONG = 5 };

/* The first byte of a key: what may happen to it. */
enum chaos_kind {
    CHAOS_TASK = 1,   /* retried three times */
    CHAOS_ONCE = 2,   /* never retried */
    CHAOS_PARENT = 3, /* submits children and adds them up */
    CHAOS_CHILD = 4,  /* of a task: its caller may die with it */
    CHAOS_CALL = 5,   /* of an actor that restarts, retried */
    CHAOS_CALL_ONCE = 6,
    CHAOS_FETCH = 7, /* reads a value, makes one */
    CHAOS_NAP = 8,   /* what manta_wait waits for */
    CHAOS_NAMED = 9, /* a call of an actor found by its name: needs the head */
};

struct chaos_record {
    uint64_t key, time_ns;
    uint32_t what; /* enum chaos_what */
    int32_t  attempt, pid;
    uint32_t node;
    int32_t  code, outcome; /* CHAOS_OUTCOME: of manta_get */
    int32_t  retries;       /* CHAOS_SUBMIT; < 0: without limit */
    int32_t  signal_number;
    uint8_t  reserved[16];
};

/* Opens the ledger once per process. */
void chaos_ledger_open(const char *path);
void chaos_ledger_write(const struct chaos_record *record);
void chaos_note(enum chaos_what what, uint64_t key, int attempt);

/* A value from a key that is the same wherever it is made; the low byte is left for the attempt. */
static inline int64_t chaos_value(uint64_t key)
{
    key ^= key >> 31;
    key *= 0x9e3779b97f4a7c15u;
    key ^= key >> 29;
    return (int64_t)(key & ~(uint64_t)0xff & INT64_MAX);
}
void     chaos_fill(uint8_t *bytes, size_t size, uint64_t key);
bool     chaos_is_filled(const uint8_t *bytes, size_t size, uint64_t key);
uint64_t chaos_now_ns(void);
void     chaos_sleep_us(int64_t us);

#endif

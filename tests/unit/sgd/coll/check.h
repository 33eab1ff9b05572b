/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - for tests: every collective call with every type, operation and size, and messages, over whatever transport,
 * each result compared with what a few lines of integer arithmetic say.
 */
#ifndef TEST_SGD_COLL_CHECK_H
#define TEST_SGD_COLL_CHECK_H

#include "sgd/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void pause_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* A member of a group, whatever it goes over. */
struct coll_tested {
    void *g;
    mt_status (*run)(void *g, const struct coll_call *call);
    mt_status (*exchange)(void *g, const struct coll_message *send, const struct coll_message *receive);
    uint32_t    rank, members;
    const char *text;
};

/* Element i of the input that `rank` gives to part `part` in a round: small, so that every type can hold it and sums of
 * eight are exact in all of them. */
static inline int value(uint32_t round, uint32_t rank, uint32_t part, size_t i)
{
    return (int)((i * 7 + rank * 13 + part * 5 + round * 3) % 11);
}

/* x as an element of a type. All of these are exact. */
static inline void element_put(enum coll_type type, void *to, int x)
{
    float    f = (float)x;
    double   d = x;
    int32_t  i = x;
    int64_t  l = x;
    uint8_t  u = (uint8_t)x;
    uint32_t bits;
    uint16_t half = 0;
    memcpy(&bits, &f, sizeof bits);
    if (type == COLL_BF16)
        half = (uint16_t)(bits >> 16);
    else if (type == COLL_F16 && x != 0)
        half = (uint16_t)((bits >> 31 << 15) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
    const void *from[COLL_TYPES] = {&f, &d, &half, &half, &i, &l, &u};
    memcpy(to, from[type], coll_type_size(type));
}

static inline int expected(enum coll_op op, uint32_t members, uint32_t round, uint32_t part, size_t i)
{
    int result = value(round, 0, part, i);
    for (uint32_t rank = 1; rank < members; rank++) {
        int x = value(round, rank, part, i);
        result = op == COLL_MAX ? (x > result ? x : result) : op == COLL_MIN ? (x < result ? x : result) : result + x;
    }
    return result;
}

/* One call with buffers at an odd address, its result compared; 0 where all is well. */
static inline int coll_check_call(const struct coll_tested *t, enum coll_kind kind, enum coll_type type, enum coll_op op,
                                  size_t count, uint32_t round, bool in_place)
{
    size_t           size = coll_type_size(type), members = t->members;
    bool             has_in_parts = kind == COLL_REDUCE_SCATTER || kind == COLL_ALL_TO_ALL;
    bool             has_out_parts = kind == COLL_ALL_GATHER || kind == COLL_ALL_TO_ALL;
    uint32_t         root = round % t->members;
    char            *room = malloc(2 * members * count * size + 8), *in = room + 1, *out = in + members * count * size + 1;
    struct coll_call call = {.kind = kind, .type = type, .op = op, .count = count, .in = in, .out = in_place ? in : out};
    int              bad = 0;

    if (kind == COLL_ALL_GATHER && in_place)
        call.in = in + t->rank * count * size;
    for (uint32_t part = 0; part < (has_in_parts ? members : 1); part++)
        for (size_t i = 0; i < count; i++)
            element_put(type, (char *)(uintptr_t)call.in + (part * count + i) * size, value(round, t->rank, part, i));
    if (kind == COLL_BROADCAST || kind == COLL_REDUCE)
        call.root = root;
    if (kind == COLL_BROADCAST)
        call.out = in;
    mt_status st = t->run(t->g, &call);
    if (st.code != MT_OK)
        fprintf(stderr, "%s\n", t->text);
    bad |= st.code != MT_OK;
    if (kind == COLL_BARRIER || (kind == COLL_REDUCE && t->rank != root)) {
        free(room);
        return bad;
    }
    for (uint32_t part = 0; !bad && part < (has_out_parts ? members : 1); part++)
        for (size_t i = 0; i < count && !bad; i++) {
            char want[8];
            int  x = kind == COLL_BROADCAST        ? value(round, root, 0, i)
                     : kind == COLL_ALL_GATHER     ? value(round, part, 0, i)
                     : kind == COLL_ALL_TO_ALL     ? value(round, part, t->rank, i)
                     : kind == COLL_REDUCE_SCATTER ? expected(op, t->members, round, t->rank, i)
                                                   : expected(op, t->members, round, 0, i);
            element_put(type, want, x);
            bad = memcmp((char *)call.out + (part * count + i) * size, want, size) != 0;
            if (bad)
                fprintf(stderr, "%s %s %s count %zu: rank %u part %u element %zu\n", coll_kind_name(kind), coll_type_name(type),
                        coll_op_name(op), count, t->rank, part, i);
        }
    free(room);
    return bad;
}

/* All of them; 0 where all is well. */
static inline int coll_check_every_call(const struct coll_tested *t)
{
    static const size_t counts[] = {0, 1, 3, 100, 4097, 70001, 300007};
    uint32_t            round = 0;
    for (int kind = COLL_BARRIER; kind < COLL_KINDS; kind++)
        for (int type = 0; type < COLL_TYPES; type++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                int ops = kind == COLL_ALL_REDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER ? COLL_OPS : 1;
                /* Large ones of one type each: the paths differ by bytes only. */
                if (counts[c] > 100000 && type != kind % COLL_TYPES)
                    continue;
                for (int op = 0; op < ops; op++, round++)
                    if (op != COLL_MEAN && coll_check_call(t, (enum coll_kind)kind, (enum coll_type)type, (enum coll_op)op,
                                                           counts[c], round, round % 3 == 0))
                        return 2;
            }
    return 0;
}

/* A ring of messages: large ones all at once, small ones one after the other. */
static inline int coll_check_ring(const struct coll_tested *t, uint32_t round, size_t count, bool at_once)
{
    uint32_t            n = t->members, to = (t->rank + 1) % n, from = (t->rank + n - 1) % n;
    int32_t            *out = malloc((count + 1) * sizeof *out), *in = malloc((count + 1) * sizeof *in);
    struct coll_message m = {to, COLL_I32, count, out}, w = {from, COLL_I32, count, in}, none = {.peer = MT_GROUP_MEMBERS_MAX};
    int                 bad = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)(i + t->rank * 1000 + round);
    bad = at_once ? t->exchange(t->g, &m, &w).code != MT_OK
                  : t->exchange(t->g, &m, &none).code || t->exchange(t->g, &none, &w).code;
    for (size_t i = 0; i < count && !bad; i++)
        bad = in[i] != (int32_t)(i + from * 1000 + round);
    free(out), free(in);
    return bad;
}

/* Messages of up to `count_max` elements; then rank 1 expects something else of rank 0, and everyone is told. */
static inline int coll_check_messages(const struct coll_tested *t, uint32_t rounds, size_t count_max)
{
    int32_t x[5] = {0};
    for (uint32_t round = 0; round < rounds; round++) {
        bool is_large = round % 10 == 9;
        if (coll_check_ring(t, round, is_large ? count_max : round % 3 ? round * 7 : 0, is_large || round % 2))
            return 2;
    }
    struct coll_message m = {1, COLL_I32, 5, x}, w = {0, COLL_F32, 5, x}, none = {.peer = MT_GROUP_MEMBERS_MAX};
    struct coll_call    barrier = {.kind = COLL_BARRIER};
    mt_status           st = t->run(t->g, &barrier);      /* nobody is in the rounds any more when two disagree */
    if (st.code && (t->rank < 2 || st.code != MT_EINVAL)) /* which may reach the others while they are in here */
        return 6;
    st = t->rank == 0 ? t->exchange(t->g, &m, &none) : t->rank == 1 ? t->exchange(t->g, &none, &w) : mt_ok();
    if (t->rank == 1 ? st.code != MT_EINVAL : st.code == MT_OK && t->run(t->g, &barrier).code != MT_EINVAL)
        return 4;
    return strstr(t->text, "rank 0 sent 5 int32, rank 1 expected 5 float32") ? 0 : 5;
}

#endif

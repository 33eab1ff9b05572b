/* SPDX-License-Identifier: Apache-2.0
 *
 * math.c - the tree over inputs, block by block, so that what is between two additions stays in the first cache.
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/coll/math/math.h"

#include "sgd/coll/math/loops.h"

#include <string.h>

/* A piece is what the processor looks ahead: it reads the next while it waits for the last. */
enum { BLOCK_BYTES = 4096, PIECE_BYTES = 512, INPUTS_MAX = 64, DEPTH_MAX = 7, LINE = 64 };

static const struct {
    const char    *name;
    uint8_t        size, lane_size;
    enum coll_lane lane;
    int8_t         half; /* which of the 16-bit floats; -1: computed as it is stored */
} types[COLL_TYPES] = {
    [COLL_F32] = {"float32", 4, 4, COLL_LANE_F32, -1},  [COLL_F64] = {"float64", 8, 8, COLL_LANE_F64, -1},
    [COLL_BF16] = {"bfloat16", 2, 4, COLL_LANE_F32, 0}, [COLL_F16] = {"float16", 2, 4, COLL_LANE_F32, 1},
    [COLL_I32] = {"int32", 4, 4, COLL_LANE_I32, -1},    [COLL_I64] = {"int64", 8, 8, COLL_LANE_I64, -1},
    [COLL_U8] = {"uint8", 1, 1, COLL_LANE_U8, -1},
};

static const char *const op_names[COLL_OPS] = {"sum", "mean", "max", "min"};

size_t coll_type_size(enum coll_type type)
{
    return types[type].size;
}

const char *coll_type_name(enum coll_type type)
{
    return types[type].name;
}

const char *coll_op_name(enum coll_op op)
{
    return op_names[op];
}

const struct coll_loops *coll_loops_choose(const char *name)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && (!name || strcmp(name, "avx512") == 0))
        return &coll_loops_avx512;
    /* Every processor with AVX2 has F16C. */
    if (__builtin_cpu_supports("avx2") && (!name || strcmp(name, "avx2") == 0))
        return &coll_loops_avx2;
#endif
    return !name || strcmp(name, "base") == 0 ? &coll_loops_base : NULL;
}

/* One reduction of a block: what each level of the tree needs. */
struct tree {
    const struct coll_loops *loops;
    enum coll_type           type;
    void (*combine)(void *out, const void *a, const void *b, size_t n);
    const void *const *in;
    size_t             at, n; /* the block, in elements */
};

/* Input i of the block as its lane computes it: in place, or widened into `room`. */
static const void *leaf(const struct tree *t, uint32_t i, void *room)
{
    const char *data = (const char *)t->in[i] + t->at * types[t->type].size;
    if (types[t->type].half < 0)
        return data;
    t->loops->widen[types[t->type].half](room, data, t->n);
    return room;
}

/* Inputs first .. first + count - 1, combined in rooms[0]; a lone input stays where it is, if it can. */
static const void *branch(const struct tree *t, uint32_t first, uint32_t count, char (*rooms)[BLOCK_BYTES])
{
    if (count == 1)
        return leaf(t, first, rooms[0]);
    uint32_t    left = 1u << (31 - __builtin_clz(count - 1));
    const void *a = branch(t, first, left, rooms), *b = branch(t, first + left, count - left, rooms + 1);
    t->combine(rooms[0], a, b, t->n);
    return rooms[0];
}

/* The block of all inputs: result in `out`, which no input overlaps but exactly. */
static void block_reduce(const struct tree *t, enum coll_op op, uint32_t inputs, void *out, char (*rooms)[BLOCK_BYTES])
{
    int8_t      half = types[t->type].half;
    const void *result;
    if (inputs == 2 && half < 0 && op != COLL_MEAN) { /* the common case, without a detour */
        const char *a = t->in[0], *b = t->in[1];
        t->combine(out, a + t->at * types[t->type].size, b + t->at * types[t->type].size, t->n);
        return;
    }
    result = branch(t, 0, inputs, rooms);
    if (op == COLL_MEAN && inputs > 1) /* then the result is in rooms[0], which may be written */
        t->loops->divide[types[t->type].lane](rooms[0], t->n, inputs);
    if (half >= 0)
        t->loops->narrow[half](out, result, t->n);
    else if (out != result)
        memmove(out, result, t->n * types[t->type].size);
}

enum coll_type coll_partial_type(enum coll_type type)
{
    return types[type].half < 0 ? type : COLL_F32;
}

void coll_widen(const struct coll_loops *loops, enum coll_type type, void *out, const void *in, size_t count)
{
    MT_ASSERT(types[type].half >= 0);
    loops->widen[types[type].half](out, in, count);
}

void coll_partial_end(const struct coll_loops *loops, enum coll_type type, enum coll_op op, void *partial, uint32_t inputs,
                      size_t count, void *out)
{
    if (op == COLL_MEAN)
        loops->divide[types[type].lane](partial, count, inputs);
    if (types[type].half >= 0)
        loops->narrow[types[type].half](out, partial, count);
    else if (out != partial)
        memcpy(out, partial, count * types[type].size);
}

/* Past the caches where whole lines are written. */
static void copy_past(const struct coll_loops *loops, void *to, const void *from, size_t size)
{
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    if (size < head + LINE) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, head);
    size_t lines = (size - head) / LINE, tail = head + lines * LINE;
    loops->stream((char *)to + head, (const char *)from + head, lines);
    memcpy((char *)to + tail, (const char *)from + tail, size - tail);
}

void coll_copies_end(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

void coll_copy(const struct coll_loops *loops, void *to, const void *from, size_t size, bool is_stream)
{
    if (!is_stream) {
        memcpy(to, from, size);
        return;
    }
    copy_past(loops, to, from, size);
    coll_copies_end();
}

/* The next piece of a copy. */
static void also_step(struct coll_also *left, size_t size)
{
    size = size < left->size ? size : left->size;
    if (size == 0)
        return;
    memcpy(left->to, left->from, size);
    left->to = (char *)left->to + size, left->from = (const char *)left->from + size, left->size -= size;
}

/* Where a reduction goes. */
struct target {
    void *const *out;
    uint32_t     outs;
    bool         is_stream;
    bool         is_alike; /* all outputs have their first whole line at the same element ... */
    size_t       head;     /* ... which is so many bytes from their beginning */
};

static struct target target_of(void *const *out, uint32_t outs, size_t size, bool is_stream)
{
    struct target to = {out, outs, is_stream, true, (LINE - (uintptr_t)out[0] % LINE) % LINE};
    for (uint32_t o = 1; o < outs; o++)
        to.is_alike &= (uintptr_t)out[o] % LINE == (uintptr_t)out[0] % LINE;
    to.is_alike &= to.head % size == 0;
    to.is_stream = is_stream && (outs > 1 || to.is_alike);
    return to;
}

/* The block into all outputs. */
static void block_put(const struct tree *t, enum coll_op op, uint32_t inputs, const struct target *to, char (*rooms)[BLOCK_BYTES])
{
    _Alignas(LINE) char result[BLOCK_BYTES];
    size_t              size = types[t->type].size;

    block_reduce(t, op, inputs, to->is_stream ? result : (char *)to->out[0] + t->at * size, rooms);
    for (uint32_t o = 0; to->is_stream && o < to->outs; o++)
        copy_past(t->loops, (char *)to->out[o] + t->at * size, result, t->n * size);
}

/* All whole lines of two inputs at once, from element t->at, where a line begins. Returns how many elements. */
static size_t lines_put(const struct tree *t, enum coll_op op, const struct target *to, size_t count, struct coll_also *also)
{
    size_t      size = types[t->type].size, at = t->at * size, lines = (count - t->at) * size / LINE;
    size_t      groups = (lines * LINE + COLL_BESIDE_BYTES - 1) / COLL_BESIDE_BYTES, copied = groups * COLL_BESIDE_BYTES;
    const char *a = t->in[0], *b = t->in[1];
    void       *out[INPUTS_MAX];
    for (uint32_t o = 0; o < to->outs; o++)
        out[o] = (char *)to->out[o] + at;
    t->loops->combine_past[types[t->type].lane][op](out, to->outs, a + at, b + at, lines, also);
    if (copied > also->size)
        copied = also->size / COLL_BESIDE_BYTES * COLL_BESIDE_BYTES;
    also->to = (char *)also->to + copied, also->from = (const char *)also->from + copied, also->size -= copied;
    return lines * LINE / size;
}

/* Block by block up to element `end`. */
static void blocks_put(struct tree *t, enum coll_op op, uint32_t inputs, const struct target *to, size_t end, size_t block,
                       struct coll_also *also)
{
    _Alignas(LINE) char rooms[DEPTH_MAX][BLOCK_BYTES];
    for (; t->at < end; t->at += t->n) {
        t->n = block < end - t->at ? block : end - t->at;
        also_step(also, block * types[t->type].size);
        block_put(t, op, inputs, to, rooms);
    }
}

static void reduce_to(const struct coll_loops *loops, enum coll_type type, enum coll_op op, const void *const *in, uint32_t inputs,
                      size_t count, const struct target *to, const struct coll_also *also)
{
    struct coll_also left = also ? *also : (struct coll_also){0};
    struct tree      t = {.loops = loops, .type = type, .in = in};
    size_t           block = (also ? PIECE_BYTES : BLOCK_BYTES) / types[type].lane_size;

    MT_ASSERT(inputs >= 1 && inputs <= INPUTS_MAX && to->outs >= 1 && to->outs <= INPUTS_MAX);
    t.combine = loops->combine[types[type].lane][op == COLL_MEAN ? COLL_SUM : op];
    if (to->is_stream && to->is_alike) {
        size_t head = to->head / types[type].size;
        blocks_put(&t, op, inputs, to, head < count ? head : count, block, &left);
        if (inputs == 2 && types[type].half < 0 && op != COLL_MEAN)
            t.at += lines_put(&t, op, to, count, &left);
    }
    blocks_put(&t, op, inputs, to, count, block, &left);
    also_step(&left, left.size);
    if (to->is_stream)
        coll_copies_end();
}

void coll_reduce(const struct coll_loops *loops, enum coll_type type, enum coll_op op, const void *const *in, uint32_t inputs,
                 size_t count, void *out, bool is_stream, const struct coll_also *also)
{
    struct target to = target_of(&out, 1, types[type].size, is_stream);
    reduce_to(loops, type, op, in, inputs, count, &to, also);
}

void coll_reduce_past(const struct coll_loops *loops, enum coll_type type, enum coll_op op, const void *const *in, uint32_t inputs,
                      size_t count, void *const *out, uint32_t outs)
{
    struct target to = target_of(out, outs, types[type].size, true);
    reduce_to(loops, type, op, in, inputs, count, &to, NULL);
}

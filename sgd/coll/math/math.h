/* SPDX-License-Identifier: Apache-2.0
 *
 * math.h - elementwise reduction of several vectors, for every type and operation of the public collectives.
 *
 * The inputs are combined in one fixed binary tree over their positions: ((0+1)+(2+3))+..., the left part of n always
 * being the largest power of two below n. bf16 and fp16 are widened to fp32, combined there, and rounded once (to
 * nearest, ties to even). So the bits depend on the inputs and their order only: not on the processor's vectors,
 * alignment, time, or on how a vector is cut among members.
 *
 *   sum   integers wrap            mean   the sum divided by the number of inputs; integers are cut towards zero
 *   max, min   what is not a number in any input stays so
 *
 * Thread: any; nothing is shared, nothing is allocated. Pointers need no alignment.
 */
#ifndef SGD_COLL_MATH_H
#define SGD_COLL_MATH_H

#include "core/base/status.h"

#include <stdbool.h>

/* The numbers are those of the public header. */
enum coll_type { COLL_F32, COLL_F64, COLL_BF16, COLL_F16, COLL_I32, COLL_I64, COLL_U8, COLL_TYPES };
enum coll_op { COLL_SUM, COLL_MEAN, COLL_MAX, COLL_MIN, COLL_OPS };

/* A copy that is made beside a reduction, piece by piece, so that each waits for memory while the other works. */
struct coll_also {
    void       *to;
    const void *from;
    size_t      size;
};
enum { COLL_BESIDE_BYTES = 256 };

/* Inside: in what a type is computed. */
enum coll_lane { COLL_LANE_F32, COLL_LANE_F64, COLL_LANE_I32, COLL_LANE_I64, COLL_LANE_U8, COLL_LANES };
/* The loops of one instruction set; n elements each. An output may be one of the inputs, exactly; widen and narrow: none. */
struct coll_loops {
    /* out = a (op) b, by lane; there is no entry for the mean, which is a sum. */
    void (*combine[COLL_LANES][COLL_OPS])(void *out, const void *a, const void *b, size_t n);
    void (*divide[COLL_LANES])(void *x, size_t n, uint32_t by);
    void (*widen[2])(float *out, const void *in, size_t n); /* bf16, fp16 */
    void (*narrow[2])(void *out, const float *in, size_t n);
    void (*stream)(void *to, const void *from, size_t lines); /* past the caches; `to` aligned, whole lines of 64 bytes */
    /* combine and stream in one: each of `outs` aligned vectors gets whole lines. Beside it the first bytes of `also` are
     * copied: of COLL_BESIDE_BYTES each, as many as there are in `lines` lines, but no part of one. */
    void (*combine_past[COLL_LANES][COLL_OPS])(void *const *out, uint32_t outs, const void *a, const void *b, size_t lines,
                                               const struct coll_also *also);
};

/* The fastest loops that this processor has, or those called `name` ("base", "avx2", "avx512") where it has them (else NULL). */
const struct coll_loops *coll_loops_choose(const char *name);

/* Bytes of an element; "float32", ...; "sum", ... Both for a number in range. */
size_t      coll_type_size(enum coll_type type);
const char *coll_type_name(enum coll_type type);
const char *coll_op_name(enum coll_op op);

/* out = the combination of in[0 .. inputs-1] (1 to 64), `count` elements each. `out` may be one of the inputs, exactly.
 * With `is_stream` the result is written past the caches: for what is not read again soon. `also` may be NULL. */
void coll_reduce(const struct coll_loops *loops, enum coll_type type, enum coll_op op, const void *const *in, uint32_t inputs,
                 size_t count, void *out, bool is_stream, const struct coll_also *also);
/* The same into each of out[0 .. outs-1], past the caches. Each may be one of the inputs, exactly. */
void coll_reduce_past(const struct coll_loops *loops, enum coll_type type, enum coll_op op, const void *const *in, uint32_t inputs,
                      size_t count, void *const *out, uint32_t outs);
/* In which type a part of a reduction is kept until it is complete: float32 for the floats of 16 bits, which are rounded once. */
enum coll_type coll_partial_type(enum coll_type type);
/* One of these as float32. */
void coll_widen(const struct coll_loops *loops, enum coll_type type, void *out, const void *in, size_t count);
/* A complete sum of `inputs`, of the partial type, as the result is: divided where it is a mean, and rounded. `partial` is written,
 * and may be `out` where both types are one. */
void coll_partial_end(const struct coll_loops *loops, enum coll_type type, enum coll_op op, void *partial, uint32_t inputs,
                      size_t count, void *out);
/* What this thread has streamed comes before what it writes next, for every reader. */
void coll_copies_end(void);
/* memcpy, or past the caches. */
void coll_copy(const struct coll_loops *loops, void *to, const void *from, size_t size, bool is_stream);

#endif

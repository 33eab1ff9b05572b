/* SPDX-License-Identifier: Apache-2.0
 *
 * math_test.c - reductions: the tree's order, every type and operation, the same bits from every instruction set.
 */
#include "core/base/rng.h"
#include "sgd/coll/math/math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 3001, INPUTS = 13 };
static const char *const names[] = {"base", "avx2", "avx512"};

static char *inputs_make(enum coll_type type, uint32_t inputs, uint64_t seed)
{
    mt_rng rng = {seed};
    size_t size = COUNT * coll_type_size(type);
    char  *data = malloc(inputs * size);
    assert_non_null(data);
    for (size_t i = 0; i < inputs * size; i++)
        data[i] = (char)mt_rng_next(&rng);
    /* Floats of a similar size, so that sums are rounded and don't overflow; some are subnormal or no number. */
    for (size_t i = 0; i < inputs * COUNT; i++) {
        float  x = (float)((double)mt_rng_below(&rng, 2000001) / 1e6 - 1.0);
        double y = x * 1.000000001;
        if (type == COLL_F32)
            memcpy(data + i * 4, &x, 4);
        else if (type == COLL_F64)
            memcpy(data + i * 8, &y, 8);
    }
    return data;
}

/* What each instruction set makes of the same inputs, at odd addresses and lengths. */
static void same_bits_everywhere(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 64, 1023, COUNT - 1};
    for (int type = 0; type < COLL_TYPES; type++)
        for (int op = 0; op < COLL_OPS; op++)
            for (uint32_t inputs = 1; inputs <= INPUTS; inputs += inputs < 4 ? 1 : 3)
                for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                    size_t      size = coll_type_size((enum coll_type)type);
                    char       *data = inputs_make((enum coll_type)type, inputs, (uint64_t)(type * 100 + op));
                    const void *in[INPUTS];
                    char       *out[2] = {calloc(COUNT + 16, size), calloc(COUNT + 16, size)};
                    for (uint32_t i = 0; i < inputs; i++)
                        in[i] = data + i * COUNT * size + 1;
                    for (size_t n = 0; n < 3; n++) {
                        const struct coll_loops *loops = coll_loops_choose(names[n]);
                        if (!loops)
                            continue;
                        char *to = out[n > 0] + 3 * n;
                        coll_reduce(loops, (enum coll_type)type, (enum coll_op)op, in, inputs, counts[c], to, n & 1, NULL);
                        assert_memory_equal(to, out[0], counts[c] * size);
                    }
                    free(data), free(out[0]), free(out[1]);
                }
}

/* Into several vectors past the caches, alike in their alignment or not, one of them an input: what coll_reduce makes. */
static void past_the_caches(void **state)
{
    (void)state;
    static const size_t shifts[][3] = {{0, 0, 0}, {8, 72, 8}, {0, 8, 16}, {1, 1, 1}};
    static const size_t counts[] = {0, 5, 16, 333, COUNT - 1};
    for (int type = 0; type < COLL_TYPES; type++)
        for (int op = 0; op < COLL_OPS; op++)
            for (uint32_t inputs = 1; inputs <= 3; inputs++)
                for (size_t c = 0; c < 5 * 4 * 3; c++) {
                    const struct coll_loops *loops = coll_loops_choose(names[c / 20]);
                    size_t                   size = coll_type_size((enum coll_type)type), count = counts[c % 5];
                    char                    *data = inputs_make((enum coll_type)type, inputs, c), *want = calloc(COUNT, size);
                    char                    *room = aligned_alloc(64, 3 * (COUNT * 8 + 192) / 64 * 64);
                    const void              *in[3];
                    void                    *out[3];
                    for (uint32_t i = 0; i < 3; i++) {
                        out[i] = room + i * ((COUNT * 8 + 191) / 64 * 64) + shifts[c / 5 % 4][i];
                        in[i] = data + (i < inputs ? i : 0) * COUNT * size;
                    }
                    memcpy(out[0], in[0], count * size);
                    if (loops) {
                        coll_reduce(loops, (enum coll_type)type, (enum coll_op)op, in, inputs, count, want, false, NULL);
                        in[0] = out[0];
                        coll_reduce_past(loops, (enum coll_type)type, (enum coll_op)op, in, inputs, count, out,
                                         1 + (uint32_t)c % 3);
                        for (size_t i = 0; i < 1 + c % 3; i++)
                            assert_memory_equal(out[i], want, count * size);
                    }
                    free(data), free(want), free(room);
                }
}

/* A copy beside a reduction is whole, whichever of the two is longer. */
static void a_copy_beside(void **state)
{
    (void)state;
    static _Alignas(64) float a[COUNT], b[COUNT], out[COUNT], from[2 * COUNT], to[2 * COUNT];
    const void               *in[2] = {a, b};
    for (size_t i = 0; i < 2 * COUNT; i++)
        from[i] = (float)i + 1, a[i / 2] = (float)i, b[i / 2] = 3;
    for (size_t n = 0; n < 3; n++)
        for (size_t shift = 0; shift < 3; shift++)
            for (size_t size = 0; size <= sizeof to - 64; size = size * 3 + 100) {
                const struct coll_loops *loops = coll_loops_choose(names[n]);
                struct coll_also         also = {to, from + shift, size};
                memset(to, 0, sizeof to), memset(out, 0, sizeof out);
                if (loops)
                    coll_reduce(loops, COLL_F32, COLL_SUM, in, 2, 1000, out + shift, true, &also);
                for (size_t i = 0; loops && i < 1000; i++)
                    assert_true(out[shift + i] == a[i] + b[i]);
                assert_true(!loops || (memcmp(to, from + shift, size) == 0 && ((char *)to)[size] == 0));
            }
}

static float tree(const float *x, uint32_t n)
{
    uint32_t left = 1;
    if (n == 1)
        return x[0];
    while (left * 2 < n)
        left *= 2;
    return tree(x, left) + tree(x + left, n - left);
}

static void sums_are_trees(void **state)
{
    (void)state;
    for (uint32_t inputs = 1; inputs <= INPUTS; inputs++) {
        const float *data = (const float *)(const void *)inputs_make(COLL_F32, inputs, inputs);
        const void  *in[INPUTS];
        static float out[COUNT];
        for (uint32_t i = 0; i < inputs; i++)
            in[i] = data + i * COUNT;
        coll_reduce(coll_loops_choose(NULL), COLL_F32, COLL_MEAN, in, inputs, COUNT, out, true, NULL);
        for (size_t k = 0; k < COUNT; k++) {
            float column[INPUTS], want;
            for (uint32_t i = 0; i < inputs; i++)
                column[i] = ((const float *)in[i])[k];
            want = inputs == 1 ? column[0] : tree(column, inputs) / (float)inputs;
            assert_memory_equal(&out[k], &want, sizeof want);
        }
        free((void *)(uintptr_t)data);
    }
}

static void integers(void **state)
{
    (void)state;
    const struct coll_loops *loops = coll_loops_choose(NULL);
    int32_t                  a[3] = {INT32_MAX, -7, 5}, b[3] = {1, 2, -9}, out[3];
    int64_t                  c[2] = {INT64_MIN, -7}, d[2] = {-1, 2}, wide[2];
    uint8_t                  e[2] = {250, 3}, f[2] = {10, 4}, bytes[2];
    const void              *in[2] = {a, b};
    coll_reduce(loops, COLL_I32, COLL_SUM, in, 2, 3, out, false, NULL);
    assert_true(out[0] == INT32_MIN && out[1] == -5 && out[2] == -4);
    coll_reduce(loops, COLL_I32, COLL_MEAN, in, 2, 3, out, false, NULL);
    assert_true(out[1] == -2 && out[2] == -2); /* towards zero */
    coll_reduce(loops, COLL_I32, COLL_MAX, in, 2, 3, out, false, NULL);
    assert_true(out[0] == INT32_MAX && out[1] == 2 && out[2] == 5);
    in[0] = c, in[1] = d;
    coll_reduce(loops, COLL_I64, COLL_SUM, in, 2, 2, wide, false, NULL);
    assert_true(wide[0] == INT64_MAX && wide[1] == -5);
    in[0] = e, in[1] = f;
    coll_reduce(loops, COLL_U8, COLL_SUM, in, 2, 2, bytes, false, NULL);
    assert_true(bytes[0] == 4 && bytes[1] == 7);
    coll_reduce(loops, COLL_U8, COLL_MIN, in, 2, 2, bytes, false, NULL);
    assert_true(bytes[0] == 10 && bytes[1] == 3);
}

/* Every 16-bit float is widened and narrowed to itself (what is no number becomes quiet); halfway cases go to even. */
static void halves(void **state)
{
    (void)state;
    static uint16_t all[65536], back[65536];
    static float    wide[65536];
    for (size_t n = 0; n < 3; n++) {
        const struct coll_loops *loops = coll_loops_choose(names[n]);
        for (int half = 0; loops && half < 2; half++) {
            for (uint32_t i = 0; i < 65536; i++)
                all[i] = (uint16_t)i;
            loops->widen[half](wide, all, 65536);
            loops->narrow[half](back, wide, 65536);
            for (uint32_t i = 0; i < 65536; i++)
                assert_int_equal(back[i], isnan(wide[i]) ? i | (half ? 0x200 : 0x40) : i);
        }
    }
    const struct coll_loops *loops = coll_loops_choose("base");
    float                    odd[4] = {1.0f + 1.0f / 2048, 1.0f + 3.0f / 2048, 65520.0f, 65519.0f};
    uint16_t                 out[4];
    loops->narrow[1](out, odd, 4);
    assert_true(out[0] == 0x3c00 && out[1] == 0x3c02 && out[2] == 0x7c00 && out[3] == 0x7bff);
    float odd_b[2] = {1.0f + 1.0f / 256, 1.0f + 3.0f / 256};
    loops->narrow[0](out, odd_b, 2);
    assert_true(out[0] == 0x3f80 && out[1] == 0x3f82);
}

static void not_a_number(void **state)
{
    (void)state;
    for (int op = 0; op < COLL_OPS; op++)
        for (int where = 0; where < 3; where++) {
            float       x[3] = {1, 2, 3}, out = 0;
            const void *in[3] = {&x[0], &x[1], &x[2]};
            x[where] = NAN;
            coll_reduce(coll_loops_choose(NULL), COLL_F32, (enum coll_op)op, in, 3, 1, &out, false, NULL);
            assert_true(isnan(out));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_everywhere), cmocka_unit_test(past_the_caches), cmocka_unit_test(a_copy_beside),
        cmocka_unit_test(sums_are_trees),       cmocka_unit_test(integers),        cmocka_unit_test(halves),
        cmocka_unit_test(not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tree_test.c - the fixed tree over virtual ranks: how many buffers its sum needs, and its bits.
 */
#include "core/base/rng.h"
#include "sgd/sum/group.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { FLOATS = 1300, VRANKS_MOST = 64 };

static const struct k_ops *kernels(void)
{
    const struct k_ops *ops = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &ops).code, MT_OK);
    return ops;
}

static void contribution(float *out, uint32_t v)
{
    mt_rng rng = {v + 1};
    for (size_t i = 0; i < FLOATS; i++)
        out[i] = (float)((double)mt_rng_below(&rng, 2000001) / 1e6 - 1.0);
}

static bool is_power(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* A worker's share of up to 64 virtual ranks, in a group of any size. */
static void few_buffers_do_for_a_share(void **state)
{
    (void)state;
    for (uint32_t vranks = 1; vranks <= VRANKS_MOST; vranks++)
        for (uint32_t members = 1; members <= vranks; members++)
            for (uint32_t r = 0; r < members; r++) {
                uint32_t        first = sgd_share_first(vranks, members, r), s = sgd_share_first(vranks, members, r + 1) - first;
                struct sgd_lane lane = sgd_lane_of(first, first + s, 0, 1);
                double          beside = is_power(vranks) && is_power(members) ? 1 : 2; /* odd ends */
                assert_true(s == vranks / members || s == (vranks + members - 1) / members);
                assert_true(sgd_lane_buffers(&lane) <= log2(s) + beside);
            }
}

/* Beyond 64 virtual ranks runs with odd ends on both sides need more, whatever the order (docs/design/training.md). */
static void few_groups_of_more_virtual_ranks_need_more(void **state)
{
    uint32_t over = 0;
    (void)state;
    for (uint32_t vranks = VRANKS_MOST + 1; vranks <= 128; vranks++)
        for (uint32_t members = 1; members <= vranks; members++) {
            bool is_over = false;
            for (uint32_t r = 0; r < members; r++) {
                uint32_t        first = sgd_share_first(vranks, members, r), last = sgd_share_first(vranks, members, r + 1);
                struct sgd_lane lane = sgd_lane_of(first, last, 0, 1);
                is_over |= sgd_lane_buffers(&lane) > log2(last - first) + 2;
                assert_true(sgd_lane_buffers(&lane) <= log2(last - first) + 2.65);
            }
            over += is_over;
        }
    assert_int_equal(over, 29);
}

/* What a group makes room for is what its lanes' stacks reach, and no more. */
static void the_region_has_room_for_them_only(void **state)
{
    static const uint32_t cases[][4] = {{64, 1, 1, 7}, {64, 2, 1, 12},   {64, 4, 1, 20},
                                        {8, 8, 1, 8},  {1024, 1, 1, 11}, {64, 1, 2, 12}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t                size, floats = 1 << 20;
        struct sgd_group_plan plan = {
            .vranks = cases[i][0], .members_max = cases[i][1], .lanes = cases[i][2], .slot_floats = floats};
        assert_int_equal(sgd_group_region_size(&plan, &size).code, MT_OK);
        assert_int_equal(size / (floats * sizeof(float)), cases[i][3] + 1); /* and the sum */
    }
}

/* The buffer of each contribution is the stack's next, counted as it is used. */
static uint32_t lane_run(const struct sgd_lane *lane, float *stack, struct sgd_addend *out, uint32_t *out_used)
{
    struct sgd_left left[SGD_PIECES_MAX];
    uint32_t        count;
    for (uint32_t done = 0; done < sgd_lane_length(lane); done++) {
        uint32_t now = sgd_lane_height(lane, done);
        for (uint32_t top = done ? sgd_lane_height(lane, done - 1) : 0; done && top >= now; top--)
            assert_int_equal(
                sgd_tree_add(kernels(), stack + (top - 1) * FLOATS, stack + top * FLOATS, (struct sgd_range){0, FLOATS}).code,
                MT_OK);
        contribution(stack + now * FLOATS, sgd_lane_vrank(lane, done));
        *out_used = now + 1 > *out_used ? now + 1 : *out_used;
    }
    count = sgd_lane_left(lane, left);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct sgd_addend){left[i].piece, stack + left[i].buffer * FLOATS};
    return count;
}

static void any_lanes_give_the_bits_of_the_whole_tree(void **state)
{
    static float      given[VRANKS_MOST][FLOATS], stack[VRANKS_MOST][SGD_PIECES_MAX * FLOATS], want[FLOATS], got[FLOATS];
    const float      *in[VRANKS_MOST];
    struct sgd_addend addends[VRANKS_MOST * SGD_PIECES_MAX];
    (void)state;
    for (uint32_t v = 0; v < VRANKS_MOST; v++) {
        contribution(given[v], v);
        in[v] = given[v];
    }
    for (uint32_t vranks = 1; vranks <= VRANKS_MOST; vranks += vranks < 17 ? 1 : 11) {
        assert_int_equal(kernels()->tree_sum(NULL, in, vranks, FLOATS, want).code, MT_OK);
        for (uint32_t lanes = 1; lanes <= vranks; lanes++) {
            uint32_t count = 0;
            for (uint32_t l = 0; l < lanes; l++) {
                struct sgd_lane lane = sgd_lane_of(0, vranks, l, lanes);
                uint32_t        used = 0;
                count += lane_run(&lane, stack[l], addends + count, &used);
                assert_int_equal(used, sgd_lane_buffers(&lane));
            }
            assert_int_equal(sgd_tree_join(kernels(), addends, count, (struct sgd_range){0, FLOATS}, 0, 1, got).code, MT_OK);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_buffers_do_for_a_share),
        cmocka_unit_test(few_groups_of_more_virtual_ranks_need_more),
        cmocka_unit_test(the_region_has_room_for_them_only),
        cmocka_unit_test(any_lanes_give_the_bits_of_the_whole_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

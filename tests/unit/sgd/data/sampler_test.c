/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler_test.c - each record once per epoch, the same for any cut into workers, and resumable at any
 * sample.
 */
#include "sgd/data/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_record_comes_once_per_epoch(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 64, 100, 257, 1000, 60000};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct sgd_sampler sampler = {.seed = s, .records = sizes[s], .vranks = 1, .micro_batch = 1};
        unsigned char     *seen = calloc(sizes[s], 1);
        assert_non_null(seen);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizes[s]);
            for (uint64_t i = 0; i < sizes[s]; i++) {
                uint64_t record = sgd_sampler_record(&sampler, epoch * sizes[s] + i);
                assert_true(record < sizes[s]);
                assert_int_equal(seen[record]++, 0);
            }
        }
        free(seen);
    }
}

static void epochs_and_seeds_are_shuffled_differently(void **state)
{
    struct sgd_sampler one = {1, 1000, 1, 1, false}, two = {2, 1000, 1, 1, false};
    int                same_epoch = 0, same_seed = 0, in_place = 0;
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        same_epoch += sgd_sampler_record(&one, i) == sgd_sampler_record(&one, 1000 + i);
        same_seed += sgd_sampler_record(&one, i) == sgd_sampler_record(&two, i);
        in_place += sgd_sampler_record(&one, i) == i;
    }
    /* One agreement is expected of random permutations; 10 has a probability below 1e-6. The seeds are fixed.
     */
    assert_in_range(same_epoch, 0, 10);
    assert_in_range(same_seed, 0, 10);
    assert_in_range(in_place, 0, 10);
}

/* Where record 0 lands over many epochs: each tenth of the epoch about equally often. */
static void positions_are_spread_evenly(void **state)
{
    enum { RECORDS = 1000, EPOCHS = 5000 };
    struct sgd_sampler sampler = {7, RECORDS, 1, 1, false};
    int                tenths[10] = {0};
    (void)state;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        tenths[sgd_sampler_record(&sampler, epoch * RECORDS) / (RECORDS / 10)]++;
    for (int t = 0; t < 10; t++) /* 500 expected, deviation 21 */
        assert_in_range(tenths[t], 400, 600);
}

static void a_step_is_cut_into_virtual_ranks_in_order(void **state)
{
    enum { VRANKS = 8, MICRO = 5, STEPS = 60 };
    struct sgd_sampler sampler = {3, 103, VRANKS, MICRO, false}; /* 40 does not divide 103: steps straddle epochs */
    (void)state;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t samples = step * sgd_sampler_step_size(&sampler);
        for (uint32_t v = 0; v < VRANKS; v++) {
            uint64_t batch[MICRO];
            sgd_sampler_batch(&sampler, samples, v, batch);
            for (uint32_t i = 0; i < MICRO; i++)
                assert_int_equal(batch[i], sgd_sampler_record(&sampler, samples + v * MICRO + i));
        }
    }
    assert_int_equal(sgd_sampler_epoch(&sampler, 102), 0);
    assert_int_equal(sgd_sampler_epoch(&sampler, 103), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_comes_once_per_epoch),
        cmocka_unit_test(epochs_and_seeds_are_shuffled_differently),
        cmocka_unit_test(positions_are_spread_evenly),
        cmocka_unit_test(a_step_is_cut_into_virtual_ranks_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

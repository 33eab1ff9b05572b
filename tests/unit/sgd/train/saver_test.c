/* SPDX-License-Identifier: Apache-2.0
 *
 * saver_test.c - a checkpoint written beside the training is the state of the moment at which it was offered.
 */
#include "tests/unit/sgd/temp.h"

#include "core/base/clock.h"
#include "sgd/model/mlp.h"
#include "sgd/train/saver.h"

enum { RECORDS = 64, RECORD = 16 };

static struct {
    uint8_t            records[RECORDS * RECORD], labels[RECORDS];
    struct sgd_dataset data;
    struct sgd_model  *model;
    struct sgd_trainer trainer;
    struct sgd_saver   saver;
} t;

/* The saver's thread begins with this; a test holds it there, as other processes that have all CPUs. */
static _Atomic bool is_held;
int                 __wrap_setpriority(int which, unsigned who, int priority);
int                 __wrap_setpriority(int which, unsigned who, int priority)
{
    (void)which, (void)who, (void)priority;
    while (is_held)
        mt_sleep_ms(1);
    return 0;
}

static int set_up(void **state)
{
    const struct k_ops *ops;
    assert_int_equal(temp_make(state), 0);
    for (size_t i = 0; i < sizeof t.records; i++)
        t.records[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < RECORDS; i++)
        t.labels[i] = (uint8_t)(i % 10);
    assert_int_equal(sgd_dataset_borrow(t.records, t.labels, RECORDS, RECORD, &t.data).code, MT_OK);
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &ops).code, MT_OK);
    struct sgd_mlp_config mlp = {.ops = ops, .inputs = RECORD, .hidden = {8}, .batch_max = 16};
    assert_int_equal(sgd_mlp_new(&mlp, &t.model).code, MT_OK);
    struct sgd_trainer_config config = {
        .ops = ops, .model = t.model, .train = &t.data, .seed = 3, .vranks = 1, .micro_batch = 4, .epochs = 100};
    assert_int_equal(sgd_trainer_init(&t.trainer, &config).code, MT_OK);
    assert_int_equal(sgd_trainer_begin(&t.trainer).code, MT_OK);
    assert_int_equal(sgd_saver_init(&t.saver, &t.trainer, *state, &(struct sgd_keep){.newest = 3}).code, MT_OK);
    return 0;
}

static int tear_down(void **state)
{
    sgd_saver_fini(&t.saver);
    sgd_saver_fini(&t.saver); /* twice is nothing */
    sgd_trainer_fini(&t.trainer);
    t.model->ops->free(t.model);
    return temp_remove(state);
}

static void step(void)
{
    float            *slot = calloc(sgd_trainer_slot(t.model), sizeof *slot);
    struct sgd_result result;
    assert_non_null(slot);
    assert_int_equal(sgd_train_compute(&t.trainer, 0, 1, &slot).code, MT_OK);
    assert_int_equal(sgd_train_apply(&t.trainer, slot, &result).code, MT_OK);
    free(slot);
}

static void what_was_offered_is_saved(void **state)
{
    struct sgd_checkpoint_report report;
    uint64_t                     saved;
    mt_status                    result;
    size_t                       size = t.model->params.floats * sizeof(float);
    float                       *then = malloc(size);

    assert_non_null(then);
    assert_false(sgd_saver_take(&t.saver, true, &saved, &result)); /* nothing was offered */
    step();
    memcpy(then, t.trainer.params, size);
    assert_true(sgd_saver_offer(&t.saver, 7));
    for (int i = 0; i < 5; i++)
        step(); /* goes on while it is written */
    assert_true(sgd_saver_take(&t.saver, true, &saved, &result));
    assert_int_equal(result.code, MT_OK);
    assert_int_equal(saved, 1);
    assert_false(sgd_saver_take(&t.saver, false, &saved, &result)); /* told once */
    assert_int_equal(sgd_trainer_resume(&t.trainer, *state, &report).code, MT_OK);
    assert_int_equal(t.trainer.state->step, 1);
    assert_memory_equal(t.trainer.params, then, size);
    free(then);
}

/* Large enough to be copied in many pieces, by both threads, while steps want to change it. */
static void a_large_state_is_of_one_moment(void **state)
{
    struct sgd_checkpoint_report report;
    struct sgd_model            *small = t.model, *large;
    uint64_t                     saved;
    mt_status                    result;
    struct sgd_mlp_config        mlp = {.ops = t.trainer.config.ops, .inputs = RECORD, .hidden = {60000}, .batch_max = 16};
    struct sgd_trainer_config    config = t.trainer.config;

    sgd_saver_fini(&t.saver);
    sgd_trainer_fini(&t.trainer);
    assert_int_equal(sgd_mlp_new(&mlp, &large).code, MT_OK);
    config.model = t.model = large;
    assert_int_equal(sgd_trainer_init(&t.trainer, &config).code, MT_OK);
    sgd_trainer_begin(&t.trainer);
    assert_int_equal(sgd_saver_init(&t.saver, &t.trainer, *state, &(struct sgd_keep){.newest = 1}).code, MT_OK);
    struct sgd_state *then = malloc(t.trainer.state_size);
    assert_non_null(then);
    for (int i = 0; i < 5; i++) {
        step();
        memcpy(then, t.trainer.state, t.trainer.state_size);
        assert_true(sgd_saver_offer(&t.saver, 1));
        if (i % 2)
            step();
        else
            sgd_trainer_begin(&t.trainer); /* as who changes the state without a step */
        assert_true(sgd_saver_take(&t.saver, true, &saved, &result));
        assert_int_equal(result.code, MT_OK);
        assert_int_equal(sgd_trainer_resume(&t.trainer, *state, &report).code, MT_OK);
        assert_int_equal(t.trainer.state->step, then->step);
        assert_memory_equal(t.trainer.state->floats, then->floats, t.trainer.state_size - sizeof *then);
    }
    free(then);
    sgd_saver_fini(&t.saver);
    sgd_trainer_fini(&t.trainer);
    large->ops->free(large);
    config.model = t.model = small;
    assert_int_equal(sgd_trainer_init(&t.trainer, &config).code, MT_OK);
}

/* Whoever would wait for it without a sign of life would be taken for hung: it is asked first. */
static void a_thread_that_starts_is_busy(void **state)
{
    uint64_t  saved;
    mt_status result;
    (void)state;
    assert_false(sgd_saver_is_busy(&t.saver)); /* there is none */
    is_held = true;
    sgd_saver_start(&t.saver);
    bool is_busy = sgd_saver_is_busy(&t.saver);
    is_held = false;
    assert_true(is_busy);
    while (sgd_saver_is_busy(&t.saver))
        mt_sleep_ms(1);
    assert_true(sgd_saver_offer(&t.saver, 1));
    assert_true(sgd_saver_take(&t.saver, true, &saved, &result));
    assert_int_equal(result.code, MT_OK);
}

static void one_at_a_time(void **state)
{
    uint64_t  saved, offered = 0, taken = 0;
    mt_status result;
    (void)state;
    for (int i = 0; i < 200; i++) {
        step();
        offered += sgd_saver_offer(&t.saver, 1);
        if (sgd_saver_take(&t.saver, false, &saved, &result)) {
            assert_int_equal(result.code, MT_OK);
            taken++;
        }
    }
    taken += sgd_saver_take(&t.saver, true, &saved, &result);
    assert_true(offered >= 1);
    assert_int_equal(taken, offered);
}

static void a_failure_is_told(void **state)
{
    char      path[TEMP_PATH + 16];
    uint64_t  saved;
    mt_status result;
    snprintf(path, sizeof path, "%s/a/b", (char *)*state);
    sgd_saver_fini(&t.saver);
    assert_int_equal(sgd_saver_init(&t.saver, &t.trainer, path, &(struct sgd_keep){.newest = 1}).code, MT_OK);
    step();
    assert_true(sgd_saver_offer(&t.saver, 1));
    assert_true(sgd_saver_take(&t.saver, true, &saved, &result));
    assert_int_equal(result.code, MT_ENOENT);
    assert_true(sgd_saver_offer(&t.saver, 1)); /* it may be tried again; the end waits for it */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_offered_is_saved),
        TEST(a_large_state_is_of_one_moment),
        TEST(a_thread_that_starts_is_busy),
        TEST(one_at_a_time),
        TEST(a_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

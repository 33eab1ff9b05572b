/* SPDX-License-Identifier: Apache-2.0
 *
 * accuracy_test.c - one epoch of Fashion-MNIST in one process: the parts together learn what they should.
 */
#include "tests/unit/sgd/crew.h"

#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

static void an_epoch_of_fashion_mnist_is_learned(void **state)
{
    struct k_config           kernels = {.kind = K_CPU};
    struct sgd_trainer_config config = {.seed = 1};
    struct sgd_dataset        train, test;
    struct sgd_trainer        trainer;
    struct sgd_result         result;
    struct sgd_group          group;
    struct crew               crew;
    (void)state;

    mt_status st = sgd_dataset_load_fashion(NULL, true, &train);
    if (st.code != 0)
        fail_msg("%s", st.what);
    assert_int_equal(sgd_dataset_load_fashion(NULL, false, &test).code, MT_OK);
    assert_int_equal(k_ops_choose(&kernels, &config.ops).code, MT_OK);
    struct sgd_mlp_config mlp = {.ops = config.ops, .batch_max = 250};
    assert_int_equal(sgd_mlp_new(&mlp, &config.model).code, MT_OK);
    config.train = &train;
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_OK);
    crew_init(&crew, sgd_trainer_plan(&trainer), NULL);
    assert_int_equal(crew_join(&crew, &group, 0, (struct crew_order){1, 1}).code, MT_OK);

    assert_int_equal(sgd_trainer_begin(&trainer).code, MT_OK);
    while (!sgd_trainer_is_done(&trainer))
        assert_int_equal(sgd_train_step(&trainer, &group, &result).code, MT_OK);
    assert_int_equal(trainer.state->step, 625);
    assert_int_equal(sgd_trainer_evaluate(&trainer, &test, &result).code, MT_OK);
    assert_int_equal(result.samples, 10000);
    if (result.accuracy < 0.8f)
        fail_msg("accuracy %g", (double)result.accuracy);

    sgd_trainer_fini(&trainer);
    config.model->ops->free(config.model);
    sgd_dataset_fini(&train);
    sgd_dataset_fini(&test);
    sgd_group_leave(&group);
    crew_fini(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_epoch_of_fashion_mnist_is_learned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

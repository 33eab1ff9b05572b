/* SPDX-License-Identifier: Apache-2.0
 *
 * models_test.c - what each model promises a trainer: its gradient is that of its loss, training lowers the loss, and
 * 1, 2 and 4 workers end with the same bits; with products of bfloat16 as well, and then near those of float32.
 */
#include "tests/unit/sgd/crew.h"

#include "core/base/rng.h"
#include "sgd/model/cnn.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

#include <math.h>

enum { RECORDS = 128, VRANKS = 4, MICRO = 4, EPOCHS = 5, FLOATS_MAX = 20000 };

/* A model, and data with something to learn. */
struct kind {
    const char *name;
    struct sgd_model *(*make)(const struct k_ops *ops, uint32_t batch_max);
    void (*fill)(mt_rng *rng, uint8_t *record, uint8_t label);
    uint32_t record_size, classes;
    float    rate;
};

/* ---- the kinds ---- */

static struct sgd_model *cnn_make(const struct k_ops *ops, uint32_t batch_max)
{
    struct sgd_cnn_config config = {.ops = ops,
                                    .height = 9,
                                    .width = 8,
                                    .channels = {3, 4},
                                    .dense = 6,
                                    .outputs = 3,
                                    .dropout = {0.1f, 0.2f},
                                    .batch_max = batch_max};
    struct sgd_model     *model = NULL;
    assert_int_equal(sgd_cnn_new(&config, &model).code, MT_OK);
    return model;
}

/* A bright row, column or nothing. */
static void picture_fill(mt_rng *rng, uint8_t *record, uint8_t label)
{
    for (int i = 0; i < 72; i++)
        record[i] = (uint8_t)(mt_rng_below(rng, 60));
    uint64_t at = 1 + mt_rng_below(rng, 6);
    for (uint64_t i = 0; label && i < 8; i++)
        record[label == 1 ? at * 8 + i : i * 8 + at] = 250;
}

static struct sgd_model *gpt2_make(const struct k_ops *ops, uint32_t batch_max)
{
    struct sgd_gpt2_config config = {
        .ops = ops, .shape = {.layers = 2, .width = 12, .heads = 3, .context = 7, .vocabulary = 11}, .batch_max = batch_max};
    struct sgd_model *model = NULL;
    assert_int_equal(sgd_gpt2_new(&config, &model).code, MT_OK);
    return model;
}

/* Each token tells the next, after a first one that is any. */
static void window_fill(mt_rng *rng, uint8_t *record, uint8_t label)
{
    (void)label;
    record[0] = (uint8_t)mt_rng_below(rng, 11);
    for (int i = 1; i < 8; i++)
        record[i] = (uint8_t)((record[i - 1] * 3 + 1) % 11);
}

static const struct kind kinds[] = {
    {"cnn", cnn_make, picture_fill, 72, 3, 0.05f},
    {"gpt2", gpt2_make, window_fill, 8, 1, 0.1f},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct sgd_model *mlp_make(const struct k_ops *ops, uint32_t batch_max)
{
    struct sgd_mlp_config config = {.ops = ops, .inputs = 72, .outputs = 3, .hidden = {24, 16}, .batch_max = batch_max};
    struct sgd_model     *model = NULL;
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
    return model;
}

static const struct kind mlp = {"mlp", mlp_make, picture_fill, 72, 3, 0.02f};

static struct sgd_dataset data_make(const struct kind *kind)
{
    static uint8_t     records[RECORDS * 512], labels[RECORDS];
    struct sgd_dataset set;
    mt_rng             rng = {31};
    for (size_t i = 0; i < RECORDS; i++) {
        labels[i] = (uint8_t)(i % kind->classes);
        kind->fill(&rng, records + i * kind->record_size, labels[i]);
    }
    assert_int_equal(sgd_dataset_borrow(records, labels, RECORDS, kind->record_size, &set).code, MT_OK);
    return set;
}

static const struct k_ops *kernels(enum k_kind which)
{
    const struct k_ops *ops = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = which}, &ops).code, MT_OK);
    return ops;
}

/* ---- gradient ---- */

/* The loss of a training step: with a key, dropout and all. */
static double loss_at(struct sgd_model *model, const float *params, const struct sgd_batch *batch)
{
    static float grads[FLOATS_MAX];
    float        metrics[SGD_METRICS];
    assert_int_equal(model->ops->gradient(model, params, batch, 1.0f, grads, metrics).code, MT_OK);
    return (double)metrics[SGD_METRIC_LOSS];
}

static void gradient_check(const struct kind *kind, enum k_kind which)
{
    struct sgd_dataset set = data_make(kind);
    struct sgd_model  *model = kind->make(kernels(which), 3);
    static float       params[FLOATS_MAX], grads[FLOATS_MAX], again[FLOATS_MAX];
    float              metrics[SGD_METRICS];
    struct sgd_batch   batch = {
          .records = set.records, .labels = set.labels, .count = 3, .record_size = kind->record_size, .key = 1000};
    size_t n = model->params.floats, bad = 0;
    mt_rng rng = {41};

    assert_true(n <= FLOATS_MAX);
    model->ops->init(model, 5, params);
    for (size_t i = 0; i < n; i++) /* away from the small values of a beginning, where all slopes are small */
        params[i] += (float)((double)mt_rng_below(&rng, 2001) / 1e4 - 0.1);
    memset(grads, 0xff, sizeof grads); /* set, not added to */
    assert_int_equal(model->ops->gradient(model, params, &batch, 0.5f, grads, metrics).code, MT_OK);
    assert_true(metrics[SGD_METRIC_SAMPLES] == 3.0f);
    assert_int_equal(model->ops->gradient(model, params, &batch, 0.5f, again, metrics).code, MT_OK);
    assert_memory_equal(grads, again, n * sizeof *grads);
    for (size_t i = 0; i < n; i += 1 + n / 500) {
        float keep = params[i], step = 2e-3f;
        params[i] = keep + step;
        double up = loss_at(model, params, &batch);
        params[i] = keep - step;
        double down = loss_at(model, params, &batch);
        params[i] = keep;
        double want = 0.5 * (up - down) / (2 * (double)step);
        bad += fabs(want - (double)grads[i]) > 1e-2 * (0.05 + fabs(want));
    }
    /* A kink of ReLU or of a maximum between the two points bends the line, now and then. */
    if (bad > 15)
        fail_msg("%s: %zu of some 500 gradients are not the slope", kind->name, bad);
    model->ops->free(model);
}

/* Without a key nothing is dropped, nor in what is evaluated: the loss is that of a model that never drops. */
static void only_a_key_drops(void **state)
{
    (void)state;
    static float          params[FLOATS_MAX];
    float                 metrics[SGD_METRICS];
    struct sgd_dataset    set = data_make(&kinds[0]);
    struct sgd_cnn_config config = {
        .ops = kernels(K_CPU), .height = 9, .width = 8, .channels = {3, 4}, .dense = 6, .outputs = 3, .batch_max = RECORDS};
    struct sgd_model *model = cnn_make(kernels(K_CPU), RECORDS), *never = NULL;
    struct sgd_batch  batch = {.records = set.records, .labels = set.labels, .count = RECORDS, .record_size = set.record_size};
    assert_int_equal(sgd_cnn_new(&config, &never).code, MT_OK);
    model->ops->init(model, 5, params);
    double whole = loss_at(never, params, &batch);
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_OK);
    assert_true((double)metrics[SGD_METRIC_LOSS] == whole);
    assert_true(loss_at(model, params, &batch) == whole);
    for (batch.key = 1; batch.key < 4; batch.key++)
        assert_true(loss_at(model, params, &batch) != whole);
    model->ops->free(model);
    never->ops->free(never);
}

static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        gradient_check(&kinds[k], K_CPU);
        gradient_check(&kinds[k], K_REFERENCE);
    }
}

/* ---- training ---- */

struct board {
    const struct kind *kind;
    struct sgd_dataset set;
    float              loss[2]; /* of the whole set: before, after */
    bool               is_half; /* products of bfloat16 */
    float              params[CREW_MAX][FLOATS_MAX];
};

static const struct k_ops *half_kernels(void)
{
    const struct k_ops *ops = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU, .bf16 = true}, &ops).code, MT_OK);
    return ops;
}

static struct sgd_trainer trainer_make(struct board *board)
{
    struct sgd_trainer        trainer;
    struct sgd_trainer_config config = {.ops = board->is_half ? half_kernels() : kernels(K_CPU),
                                        .train = &board->set,
                                        .seed = 9,
                                        .vranks = VRANKS,
                                        .micro_batch = MICRO,
                                        .epochs = EPOCHS,
                                        .optimizer.rate = board->kind->rate};
    config.model = board->kind->make(config.ops, RECORDS);
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_OK);
    return trainer;
}

static void trainer_unmake(struct sgd_trainer *trainer)
{
    struct sgd_model *model = trainer->config.model;
    sgd_trainer_fini(trainer);
    model->ops->free(model);
}

static mt_status work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    struct board      *board = crew->shared;
    struct sgd_trainer trainer = trainer_make(board);
    struct sgd_group   group;
    struct sgd_result  result;

    MT_TRY(crew_join(crew, &group, rank, order));
    assert_int_equal(sgd_trainer_begin(&trainer).code, MT_OK);
    MT_TRY(sgd_trainer_evaluate(&trainer, &board->set, &result));
    if (rank == 0)
        board->loss[0] = result.loss;
    while (!sgd_trainer_is_done(&trainer))
        MT_TRY(sgd_train_step(&trainer, &group, &result));
    MT_TRY(sgd_trainer_evaluate(&trainer, &board->set, &result));
    if (rank == 0)
        board->loss[1] = result.loss;
    memcpy(board->params[rank], trainer.params, trainer.config.model->params.floats * sizeof(float));
    trainer_unmake(&trainer);
    return mt_ok();
}

static void train(struct board *board, uint32_t members)
{
    struct sgd_trainer trainer = trainer_make(board);
    struct crew        crew;
    crew_init(&crew, sgd_trainer_plan(&trainer), work);
    trainer_unmake(&trainer);
    crew.shared = board;
    crew_run(&crew, members);
    crew_fini(&crew);
}

static void training_learns_and_has_the_same_bits_at_any_size(void **state)
{
    static float  first[FLOATS_MAX];
    struct board *board = shared_memory(sizeof *board);
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        board->kind = &kinds[k];
        board->set = data_make(&kinds[k]);
        for (uint32_t members = 1; members <= 4; members *= 2) {
            memset(board->params, 0, sizeof board->params);
            train(board, members);
            if (members == 1)
                memcpy(first, board->params[0], sizeof first);
            for (uint32_t rank = 0; rank < members; rank++)
                assert_memory_equal(first, board->params[rank], sizeof first);
            if (!(board->loss[1] < 0.8f * board->loss[0]))
                fail_msg("%s: loss went from %g to %g", kinds[k].name, (double)board->loss[0], (double)board->loss[1]);
        }
    }
    munmap(board, sizeof *board);
}

/* The tolerance that docs/design/zero.md states: a twentieth of what was learned. */
static void half_learns_alike_and_has_the_same_bits_at_any_size(void **state)
{
    static float  first[FLOATS_MAX], full[FLOATS_MAX];
    struct board *board = shared_memory(sizeof *board);
    (void)state;
    for (size_t k = 0; k <= KINDS; k++) {
        board->kind = k < KINDS ? &kinds[k] : &mlp;
        board->set = data_make(board->kind);
        board->is_half = false;
        train(board, 1);
        float before = board->loss[0], want = board->loss[1];
        memcpy(full, board->params[0], sizeof full);
        board->is_half = true;
        for (uint32_t members = 1; members <= 4; members *= 2) {
            train(board, members);
            if (members == 1)
                memcpy(first, board->params[0], sizeof first);
            for (uint32_t rank = 0; rank < members; rank++)
                assert_memory_equal(first, board->params[rank], sizeof first);
        }
        assert_memory_not_equal(first, full, sizeof first);
        if (!(fabsf(board->loss[1] - want) < 0.05f * (before - want)))
            fail_msg("%s: loss %g, with bfloat16 %g, at first %g", board->kind->name, (double)want, (double)board->loss[1],
                     (double)before);
    }
    munmap(board, sizeof *board);
}

/* ---- what is refused ---- */

static void cnn_refuses_what_it_cannot_be(void **state)
{
    static const struct sgd_cnn_config bad[] = {
        {.batch_max = 0},
        {.batch_max = 1, .height = 5},
        {.batch_max = 1, .width = 5000},
        {.batch_max = 1, .outputs = 257},
        {.batch_max = 1, .dropout = {1.0f, 0}},
        {.batch_max = 1, .dropout = {0, NAN}},
        {.batch_max = 1, .cast = {.deviation = -1}},
        {.batch_max = 1, .channels = {2000, 1}},
    };
    struct sgd_model *model = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sgd_cnn_config config = bad[i];
        config.ops = kernels(K_CPU);
        assert_int_equal(sgd_cnn_new(&config, &model).code, MT_EINVAL);
    }
    assert_null(model);
    model = cnn_make(kernels(K_CPU), 2);
    uint8_t          records[72 * 3] = {0}, labels[3] = {0, 3, 0};
    static float     params[FLOATS_MAX];
    float            metrics[SGD_METRICS];
    struct sgd_batch batch = {.records = records, .labels = labels, .count = 2, .record_size = 72};
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_EINVAL); /* a label of 3 */
    labels[1] = 0;
    batch.count = 3;
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_EINVAL);
    batch.count = 2, batch.record_size = 71;
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_EINVAL);
    model->ops->free(model);
}

static void gpt2_refuses_what_it_cannot_be(void **state)
{
    static const struct sgd_gpt2_config bad[] = {
        {.batch_max = 0},
        {.batch_max = 1, .shape = {.width = 100, .heads = 3}},
        {.batch_max = 1, .shape = {.layers = 100000}},
        {.batch_max = 1, .shape = {.vocabulary = UINT32_MAX}},
        {.batch_max = 1, .token_bytes = 4},
    };
    struct sgd_model *model = NULL;
    uint8_t           record[8] = {0, 1, 2, 3, 4, 5, 6, 11};
    static float      params[FLOATS_MAX];
    float             metrics[SGD_METRICS];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sgd_gpt2_config config = bad[i];
        config.ops = kernels(K_CPU);
        assert_int_equal(sgd_gpt2_new(&config, &model).code, MT_EINVAL);
    }
    assert_null(model);
    model = gpt2_make(kernels(K_CPU), 1);
    struct sgd_batch batch = {.records = record, .labels = record, .count = 1, .record_size = 8};
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_EINVAL); /* there is no token 11 */
    record[7] = 10;
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_OK);
    batch.record_size = 9;
    assert_int_equal(model->ops->evaluate(model, params, &batch, metrics).code, MT_EINVAL);
    model->ops->free(model);
}

/* Whatever the memory held, a model begins with the same values. */
static void initial_values_do_not_depend_on_the_memory(void **state)
{
    (void)state;
    const struct k_config kernels = {.kind = K_CPU};
    const struct k_ops   *ops;
    assert_int_equal(k_ops_choose(&kernels, &ops).code, MT_OK);
    for (int k = 0; k <= KINDS; k++) {
        struct sgd_model *model = (k < KINDS ? kinds[k] : mlp).make(ops, 1);
        size_t            size = model->params.floats * sizeof(float);
        float            *clean = calloc(1, size), *dirty = malloc(size);
        assert_true(clean && dirty);
        memset(dirty, 0x5a, size);
        model->ops->init(model, 3, clean);
        model->ops->init(model, 3, dirty);
        assert_memory_equal(clean, dirty, size);
        free(clean), free(dirty);
        model->ops->free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_loss),
        cmocka_unit_test(only_a_key_drops),
        cmocka_unit_test(initial_values_do_not_depend_on_the_memory),
        cmocka_unit_test(training_learns_and_has_the_same_bits_at_any_size),
        cmocka_unit_test(half_learns_alike_and_has_the_same_bits_at_any_size),
        cmocka_unit_test(cnn_refuses_what_it_cannot_be),
        cmocka_unit_test(gpt2_refuses_what_it_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

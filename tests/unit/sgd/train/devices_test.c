/* SPDX-License-Identifier: Apache-2.0
 *
 * devices_test.c - a worker that computes several virtual ranks at the same time: the same bits for any number of devices and
 * workers, with every model, between nodes, from a mapped file; the same error, whichever thread it comes from.
 *
 * Workers are threads here, each with a trainer of its own, so that a thread sanitizer sees all of it.
 */
#include "tests/unit/sgd/temp.h"

#include "core/base/rng.h"
#include "sgd/model/cnn.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

#include <pthread.h>
#include <time.h>

enum { RECORDS = 96, RECORD_MAX = 784, CLASSES = 3, VRANKS = 7, MICRO = 2, WORKERS_MAX = 3, DEVICES_MAX = 3, NODES_MAX = 2 };

/* A model, made once for each device. */
struct kind {
    const char *name;
    struct sgd_model *(*make)(const struct k_ops *ops);
    uint32_t record_size, limit; /* bytes of a record are below `limit` */
    bool     bf16, is_mapped;
    uint32_t steps;
};

static struct sgd_model *mlp_make(const struct k_ops *ops)
{
    struct sgd_mlp_config config = {.ops = ops, .inputs = 72, .outputs = CLASSES, .hidden = {24, 16}, .batch_max = 8};
    struct sgd_model     *model = NULL;
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
    return model;
}

/* Large enough to be summed while it is computed, and for sums and updates to be cut among the devices. */
static struct sgd_model *wide_make(const struct k_ops *ops)
{
    struct sgd_mlp_config config = {.ops = ops, .inputs = 784, .outputs = CLASSES, .hidden = {700}, .batch_max = 8};
    struct sgd_model     *model = NULL;
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
    return model;
}

static struct sgd_model *cnn_make(const struct k_ops *ops)
{
    struct sgd_cnn_config config = {.ops = ops,
                                    .height = 9,
                                    .width = 8,
                                    .channels = {3, 4},
                                    .dense = 6,
                                    .outputs = CLASSES,
                                    .dropout = {0.1f, 0.2f},
                                    .batch_max = 8};
    struct sgd_model     *model = NULL;
    assert_int_equal(sgd_cnn_new(&config, &model).code, MT_OK);
    return model;
}

static struct sgd_model *gpt2_make(const struct k_ops *ops)
{
    struct sgd_gpt2_config config = {
        .ops = ops, .shape = {.layers = 2, .width = 12, .heads = 3, .context = 7, .vocabulary = 11}, .batch_max = 8};
    struct sgd_model *model = NULL;
    assert_int_equal(sgd_gpt2_new(&config, &model).code, MT_OK);
    return model;
}

static struct sgd_model *half_make(const struct k_ops *ops)
{
    struct sgd_gpt2_config config = {
        .ops = ops, .shape = {.layers = 1, .width = 64, .heads = 1, .context = 8, .vocabulary = 11}, .batch_max = 8};
    struct sgd_model *model = NULL;
    assert_int_equal(sgd_gpt2_half_new(&config, &model).code, MT_OK);
    return model;
}

static const struct kind kinds[] = {
    {"mlp", mlp_make, 72, 256, false, false, 8},     {"mlp bf16", mlp_make, 72, 256, true, false, 8},
    {"wide", wide_make, 784, 256, false, false, 2},  {"cnn", cnn_make, 72, 256, false, false, 8},
    {"cnn bf16", cnn_make, 72, 256, true, false, 8}, {"gpt2", gpt2_make, 8, 11, false, true, 8},
    {"gpt2 bf16", gpt2_make, 8, 11, true, false, 8}, {"gpt2 on bf16", half_make, 9, 11, false, false, 4},
};
enum { KINDS = sizeof kinds / sizeof *kinds, WIDE = 2 };

/* ---- a run ---- */

struct run {
    const struct kind    *kind;
    const struct k_ops   *ops;
    struct sgd_dataset    train, validate;
    struct sgd_group_plan plan;
    uint32_t              workers, devices, nodes;
    bool                  zero, zero_backup;
    void                 *regions[NODES_MAX];
    size_t                region_size;
    struct sgd_group_net  net;
    struct coll_door      doors[NODES_MAX];
    struct sgd_result     closed; /* what it found when it validated */
};

struct worker {
    struct run *run;
    uint32_t    rank;
    mt_status   st;
    float      *params;
};

struct machine {
    struct sgd_trainer trainer;
    struct sgd_model  *models[DEVICES_MAX];
};

static void machine_make(struct machine *m, const struct run *run)
{
    for (uint32_t d = 0; d < run->devices; d++)
        m->models[d] = run->kind->make(run->ops);
    struct sgd_trainer_config config = {.ops = run->ops,
                                        .model = m->models[0],
                                        .devices = run->devices,
                                        .others = m->models + 1,
                                        .train = &run->train,
                                        .validate = &run->validate,
                                        .seed = 3,
                                        .vranks = VRANKS,
                                        .micro_batch = MICRO,
                                        .epochs = 1000,
                                        .zero = run->zero,
                                        .zero_backup = run->zero_backup,
                                        .optimizer = {.rate = 0.02f, .clip_norm = 0.4f}};
    assert_int_equal(sgd_trainer_init(&m->trainer, &config).code, MT_OK);
}

static void machine_unmake(struct machine *m, const struct run *run)
{
    sgd_trainer_fini(&m->trainer);
    for (uint32_t d = 0; d < run->devices; d++)
        m->models[d]->ops->free(m->models[d]);
}

static mt_status steps_make(struct run *run, struct worker *w, struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_result result;
    if (!run->zero || w->rank == 0)
        MT_TRY(sgd_trainer_begin(trainer));
    if (run->zero)
        MT_TRY(sgd_trainer_sync(trainer, group));
    while (trainer->state->step < run->kind->steps) {
        MT_TRY(sgd_train_step(trainer, group, &result));
        if (sgd_trainer_is_open(trainer))
            MT_TRY(sgd_trainer_close(trainer, group, &result));
    }
    trainer->state->progress.stop = SGD_STOPPING; /* in all of them: the last is validated, too */
    MT_TRY(sgd_trainer_close(trainer, group, &result));
    if (w->rank == 0)
        run->closed = result;
    memcpy(w->params, trainer->params, trainer->config.model->params.floats * sizeof(float));
    return mt_ok();
}

static void *work(void *arg)
{
    struct worker       *w = arg;
    struct run          *run = w->run;
    struct machine       m;
    struct sgd_group     group;
    struct sgd_group_net net = run->net;
    machine_make(&m, run);
    net.node = run->nodes > 1 ? w->rank : 0;
    struct sgd_group_config config = {.region = run->regions[net.node],
                                      .region_size = run->region_size,
                                      .plan = run->plan,
                                      .generation = 1,
                                      .rank = w->rank,
                                      .members = run->workers,
                                      .net = run->nodes > 1 ? &net : NULL,
                                      .door = &run->doors[net.node]};
    w->st = sgd_group_join(&group, &config);
    if (w->st.code == MT_OK)
        w->st = steps_make(run, w, &m.trainer, &group);
    if (w->st.code != MT_OK)
        sgd_group_abort(config.region, 1, (enum mt_code)w->st.code, w->rank);
    sgd_group_leave(&group);
    machine_unmake(&m, run);
    return NULL;
}

static void nodes_open(struct run *run)
{
    run->net = (struct sgd_group_net){.nodes = run->nodes, .group = 9, .secret = "a secret of thirty-two bytes..."};
    for (uint32_t n = 0; n < run->nodes && run->nodes > 1; n++) {
        run->net.first[n + 1] = (uint8_t)(n + 1);
        assert_int_equal(coll_door_open(&run->doors[n], &run->net.at[n]).code, MT_OK);
    }
}

/* Gives what the workers ended with, which is the same in all; free it. */
static float *run_made(struct run *run)
{
    pthread_t      threads[WORKERS_MAX];
    struct worker  workers[WORKERS_MAX];
    struct machine m;
    machine_make(&m, run); /* to learn the plan */
    size_t size = m.trainer.config.model->params.floats * sizeof(float);
    run->plan = sgd_trainer_plan(&m.trainer);
    run->plan.is_wide = run->nodes > 1;
    machine_unmake(&m, run);
    assert_int_equal(sgd_group_region_size(&run->plan, &run->region_size).code, MT_OK);
    for (uint32_t n = 0; n < run->nodes; n++) {
        run->regions[n] = aligned_alloc(64, (run->region_size + 63) / 64 * 64);
        assert_non_null(run->regions[n]);
        memset(run->regions[n], 0, run->region_size);
    }
    nodes_open(run);
    for (uint32_t w = 0; w < run->workers; w++) {
        workers[w] = (struct worker){.run = run, .rank = w, .params = malloc(size)};
        assert_non_null(workers[w].params);
        assert_int_equal(pthread_create(&threads[w], NULL, work, &workers[w]), 0);
    }
    for (uint32_t w = 0; w < run->workers; w++) {
        assert_int_equal(pthread_join(threads[w], NULL), 0);
        assert_int_equal(workers[w].st.code, MT_OK);
        assert_memory_equal(workers[w].params, workers[0].params, size);
        if (w)
            free(workers[w].params);
    }
    for (uint32_t n = 0; n < run->nodes; n++) {
        free(run->regions[n]);
        if (run->nodes > 1)
            coll_door_close(&run->doors[n]);
    }
    return workers[0].params;
}

/* ---- the data ---- */

static uint8_t records[RECORDS * RECORD_MAX], labels[RECORDS];

static void data_make(void **state, const struct kind *kind, struct run *run)
{
    mt_rng rng = {17};
    char   path[TEMP_PATH];
    for (size_t i = 0; i < (size_t)RECORDS * kind->record_size; i++)
        records[i] = (uint8_t)mt_rng_below(&rng, kind->limit);
    for (size_t i = 0; i < RECORDS; i++)
        labels[i] = (uint8_t)mt_rng_below(&rng, CLASSES);
    assert_int_equal(sgd_dataset_borrow(records, labels, RECORDS, kind->record_size, &run->train).code, MT_OK);
    assert_int_equal(sgd_dataset_borrow(records, labels, RECORDS / 2 - 1, kind->record_size, &run->validate).code, MT_OK);
    if (!kind->is_mapped)
        return;
    FILE *file = fopen(temp_path(state, "records", path), "wb");
    assert_true(file && fwrite(records, kind->record_size, RECORDS, file) == RECORDS && fclose(file) == 0);
    assert_int_equal(sgd_dataset_map(path, kind->record_size, 0, &run->train).code, MT_OK);
}

static void run_begin(void **state, struct run *run, const struct kind *kind)
{
    *run = (struct run){.kind = kind, .workers = 1, .devices = 1, .nodes = 1};
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU, .bf16 = kind->bf16}, &run->ops).code, MT_OK);
    data_make(state, kind, run);
}

static size_t size_of(const struct run *run)
{
    return run->plan.mean_floats * sizeof(float);
}

/* ---- tests ---- */

static void any_number_of_devices_gives_the_same_bits(void **state)
{
    for (size_t k = 0; k < KINDS; k++) {
        struct run run;
        run_begin(state, &run, &kinds[k]);
        float            *wanted = run_made(&run);
        struct sgd_result closed = run.closed;
        assert_true(closed.samples == RECORDS / 2 - 1);
        for (size_t s = 0; s < (k == WIDE ? 2 : 5); s++) {
            static const uint32_t sizes[][2] = {{1, 2}, {2, 2}, {1, 3}, {2, 1}, {3, 3}};
            run.workers = sizes[s][0], run.devices = sizes[s][1];
            float *params = run_made(&run);
            assert_memory_equal(params, wanted, size_of(&run));
            assert_memory_equal(run.closed.values, closed.values, sizeof closed.values);
            free(params);
        }
        free(wanted);
        sgd_dataset_fini(&run.train);
    }
}

static _Atomic uint32_t    updaters; /* threads that have made a part of an update */
static const struct k_ops *noting_real;

static mt_status noting_update(struct k_stream *stream, const struct k_sgd *sgd)
{
    static _Thread_local bool is_known;
    updaters += !is_known;
    is_known = true;
    return noting_real->sgd_update(stream, sgd);
}

/* The optimizer's state in shards, with and without a backup: each device makes a part of its worker's shard. */
static void shards_are_cut_among_the_devices(void **state)
{
    struct run   run;
    struct k_ops noting;
    run_begin(state, &run, &kinds[WIDE]);
    float *wanted = run_made(&run);
    noting_real = run.ops;
    noting = *run.ops;
    noting.sgd_update = noting_update;
    run.ops = &noting;
    run.zero = true;
    for (run.workers = 1; run.workers <= WORKERS_MAX; run.workers++)
        for (run.devices = 1; run.devices <= DEVICES_MAX; run.devices++) {
            run.zero_backup = run.devices % 2 == 0;
            atomic_store(&updaters, 0);
            float *params = run_made(&run);
            assert_memory_equal(params, wanted, size_of(&run));
            assert_int_equal(atomic_load(&updaters), run.workers * run.devices);
            free(params);
        }
    free(wanted);
}

/* Two nodes of one worker: 4 and 3 virtual ranks, the last of each device's summed while it is computed. */
static void sums_beside_the_work_of_several_devices(void **state)
{
    struct run run;
    run_begin(state, &run, &kinds[WIDE]);
    float *wanted = run_made(&run);
    run.workers = run.nodes = 2;
    for (run.devices = 1; run.devices <= DEVICES_MAX; run.devices++) {
        float *params = run_made(&run);
        assert_memory_equal(params, wanted, size_of(&run));
        free(params);
    }
    free(wanted);
}

/* ---- errors ---- */

struct failing {
    struct sgd_model  model;
    struct sgd_model *inner;
};

static bool           fails; /* in virtual ranks 2 and 5, where this is set */
static struct failing failing[DEVICES_MAX];

static mt_status failing_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                                  float *grads, float metrics[SGD_METRICS])
{
    struct failing *f = (struct failing *)model;
    uint64_t        v = batch->sample / MICRO;
    if (fails && v == 5)
        return mt_error(MT_ETASK, 0, "of virtual rank 5");
    if (fails && v == 2) { /* long after the other */
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        return mt_error(MT_ETASK, 0, "of virtual rank 2");
    }
    return f->inner->ops->gradient(f->inner, params, batch, scale, grads, metrics);
}

static mt_status failing_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                                  float metrics[SGD_METRICS])
{
    struct failing *f = (struct failing *)model;
    return f->inner->ops->evaluate(f->inner, params, batch, metrics);
}

static void failing_init(struct sgd_model *model, uint64_t seed, float *params)
{
    struct failing *f = (struct failing *)model;
    f->inner->ops->init(f->inner, seed, params);
}

static void failing_free(struct sgd_model *model)
{
    struct failing *f = (struct failing *)model;
    f->inner->ops->free(f->inner);
}

static const struct sgd_model_ops failing_ops = {failing_init, failing_gradient, failing_evaluate, failing_free};
static uint32_t                   failing_made;

static struct sgd_model *failing_make(const struct k_ops *ops)
{
    struct failing *f = &failing[failing_made++ % DEVICES_MAX];
    f->inner = mlp_make(ops);
    f->model = *f->inner;
    f->model.ops = &failing_ops;
    return &f->model;
}

static const struct kind failing_kind = {"failing", failing_make, 72, 256, false, false, 1};

static void the_lowest_virtual_rank_says_what_is_wrong(void **state)
{
    struct run run;
    run_begin(state, &run, &failing_kind);
    for (run.devices = 1; run.devices <= DEVICES_MAX; run.devices++) {
        struct machine m;
        float         *slots[VRANKS];
        failing_made = 0;
        machine_make(&m, &run);
        for (uint32_t v = 0; v < VRANKS; v++)
            assert_non_null(slots[v] = calloc(sgd_trainer_slot(m.models[0]), sizeof(float)));
        assert_int_equal(sgd_trainer_begin(&m.trainer).code, MT_OK);
        fails = true;
        mt_status st = sgd_train_compute(&m.trainer, 0, VRANKS, slots);
        fails = false;
        assert_int_equal(st.code, MT_ETASK);
        assert_string_equal(st.what, "of virtual rank 2");
        assert_int_equal(sgd_train_compute(&m.trainer, 0, VRANKS, slots).code, MT_OK); /* nothing is left of it */
        for (uint32_t v = 0; v < VRANKS; v++)
            free(slots[v]);
        machine_unmake(&m, &run);
    }
}

static void devices_must_be_alike(void **state)
{
    struct run         run;
    struct sgd_trainer trainer;
    run_begin(state, &run, &kinds[0]);
    struct sgd_model         *models[2] = {mlp_make(run.ops), cnn_make(run.ops)};
    struct sgd_trainer_config config = {
        .ops = run.ops, .model = models[0], .devices = 2, .others = models + 1, .train = &run.train, .micro_batch = MICRO};
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_EINVAL);
    config.devices = MT_TRAIN_DEVICES_MAX + 1;
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_EINVAL);
    config.devices = 1;
    models[0]->extra_metrics = SGD_METRICS_ALL - SGD_METRICS + 1;
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_EINVAL);
    models[0]->extra_metrics--; /* as many as there is room for */
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_OK);
    sgd_trainer_fini(&trainer);
    for (int i = 0; i < 2; i++)
        models[i]->ops->free(models[i]);
}

/* Two devices that announce their gradients in different orders would sum what is not there yet. */
static void other_announcements_are_an_error(void **state)
{
    struct run       run;
    struct sgd_group group;
    run_begin(state, &run, &kinds[0]);
    run.plan = (struct sgd_group_plan){.vranks = 2, .slot_floats = 100, .mean_floats = 90};
    assert_int_equal(sgd_group_region_size(&run.plan, &run.region_size).code, MT_OK);
    void *region = aligned_alloc(64, (run.region_size + 63) / 64 * 64);
    assert_non_null(region);
    memset(region, 0, run.region_size);
    struct sgd_group_config config = {
        .region = region, .region_size = run.region_size, .plan = run.plan, .generation = 1, .rank = 0, .members = 1};
    assert_int_equal(sgd_group_join(&group, &config).code, MT_OK);
    struct sgd_overlap *overlap = sgd_overlap_new(run.ops, NULL);
    assert_non_null(overlap);
    for (int wrong = 0; wrong < 2; wrong++) {
        sgd_overlap_begin(overlap, &group, 2);
        sgd_overlap_ready(overlap, 1, wrong ? 8 : 0, wrong ? 16 : 8);
        sgd_overlap_ready(overlap, 0, 0, 8);
        sgd_overlap_ready(overlap, 0, 8, 16);
        assert_int_equal(sgd_overlap_end(overlap).code, wrong ? MT_EINVAL : MT_OK);
    }
    sgd_overlap_free(overlap);
    sgd_group_leave(&group);
    free(region);
}

/* ---- the threads themselves ---- */

struct tally {
    uint32_t by[4], round;
    bool     slow;
};

static mt_status tally_work(void *user, uint32_t index)
{
    struct tally *t = user;
    t->by[index] = t->round;
    if (t->slow && index == t->round % 4)
        nanosleep(&(struct timespec){0, 300000}, NULL); /* longer than the others poll */
    return index >= 2 && t->round == 7 ? mt_error(MT_ETASK, (int)index, "of a member") : mt_ok();
}

static void a_team_does_each_piece_once(void **state)
{
    (void)state;
    struct sgd_team *team = sgd_team_new(4);
    struct tally     t = {.slow = false};
    assert_non_null(team);
    assert_int_equal(sgd_team_members(team), 4);
    for (t.round = 1; t.round <= 2000; t.round++) {
        uint32_t count = t.round % 4 + 1;
        t.slow = t.round % 50 < 4;
        mt_status st = sgd_team_run(team, count, tally_work, &t);
        assert_int_equal(st.code, t.round == 7 ? MT_ETASK : MT_OK);
        assert_int_equal(st.sys, t.round == 7 ? 2 : 0); /* the lower one's */
        for (uint32_t i = 0; i < 4; i++)
            assert_true((t.by[i] == t.round) == (i < count));
    }
    sgd_team_free(team);
    sgd_team_free(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, temp_make, temp_remove)
    const struct CMUnitTest tests[] = {
        TEST(a_team_does_each_piece_once),
        TEST(any_number_of_devices_gives_the_same_bits),
        TEST(shards_are_cut_among_the_devices),
        TEST(sums_beside_the_work_of_several_devices),
        TEST(the_lowest_virtual_rank_says_what_is_wrong),
        TEST(devices_must_be_alike),
        TEST(other_announcements_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

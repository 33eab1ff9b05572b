/* SPDX-License-Identifier: Apache-2.0
 *
 * resident_test.c - a trainer whose state is on a device: the host's bits, for any number of workers, with the sum through the
 * host's slots and between devices; nothing large is copied where nobody needs it, and what is needed is there in time.
 *
 * The device is that of guarded.h: what touches its memory from outside dies. Workers are threads, each with a trainer and a
 * device of its own. Sums between devices are this test's (--wrap): by them it is seen what the trainer hands over.
 */
#include "tests/unit/sgd/guarded.h"
#include "tests/unit/sgd/temp.h"

#include "core/base/rng.h"
#include "sgd/sum/device_sum.h"
#include "sgd/sum/wide.h"
#include "sgd/model/gpt2.h"
#include "sgd/model/mlp.h"
#include "sgd/train/saver.h"
#include "sgd/train/trainer.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

enum { RECORDS = 96, INPUTS = 20, CLASSES = 3, MICRO = 2, WORKERS_MAX = 4, STEPS = 6, FLOATS = 20 * 12 + 12 + 12 * 3 + 3 };

static float               records[RECORDS * INPUTS];
static uint8_t             labels[RECORDS];
static struct sgd_dataset  data, some; /* to train with, to validate with */
static const struct k_ops *cpu, *device;

/* ---- a run ---- */

struct run {
    const struct k_ops  *ops; /* the models' */
    struct sgd_optimizer optimizer;
    uint32_t             workers, vranks, steps;
    uint32_t             refuses;    /* this rank can't sum between devices; WORKERS_MAX: nobody does */
    uint32_t             late_after; /* the last rank begins without a state, after so many steps of the others; 0: with them */
    uint32_t             breaks;     /* this rank's device, in the step after the second; WORKERS_MAX: none does */
    pthread_barrier_t    between;    /* generations */
    const char          *folder;     /* rank 0 saves there after each step */
    bool                 is_wide;    /* each worker is on a node of its own */
    void                *regions[WORKERS_MAX]; /* one, or one for each node */
    size_t               region_size;
    struct sgd_group_net net;
    struct coll_door     doors[WORKERS_MAX];
    struct sgd_result    closed;
};

struct worker {
    struct run        *run;
    uint32_t           rank;
    mt_status          st;
    struct sgd_model  *model;
    struct sgd_trainer trainer;
    struct sgd_saver   saver;
    struct sgd_result  closed;
    float              params[FLOATS];
    bool               had_state; /* in the end */
    uint64_t           step;
};

static struct sgd_model *model_make(const struct k_ops *ops)
{
    struct sgd_mlp_config config = {
        .ops = ops, .inputs = INPUTS, .outputs = CLASSES, .hidden = {12}, .batch_max = 8, .cast = {.element = {'f', 4}}};
    struct sgd_model *model = NULL;
    assert_int_equal(sgd_mlp_new(&config, &model).code, MT_OK);
    assert_int_equal(model->params.floats, FLOATS);
    return model;
}

static void trainer_make(struct sgd_trainer *trainer, const struct run *run, struct sgd_model *model)
{
    struct sgd_trainer_config config = {.ops = cpu,
                                        .model = model,
                                        .train = &data,
                                        .validate = &some,
                                        .seed = 3,
                                        .vranks = run->vranks,
                                        .micro_batch = MICRO,
                                        .epochs = 1000,
                                        .workers_max = run->workers,
                                        .optimizer = run->optimizer};
    assert_int_equal(sgd_trainer_init(trainer, &config).code, MT_OK);
}

static void worker_make(struct worker *w)
{
    w->model = model_make(w->run->ops);
    trainer_make(&w->trainer, w->run, w->model);
    if (w->run->folder && w->rank == 0)
        assert_int_equal(sgd_saver_init(&w->saver, &w->trainer, w->run->folder, &(struct sgd_keep){.newest = 99}).code, MT_OK);
}

static void worker_unmake(struct worker *w)
{
    sgd_saver_fini(&w->saver);
    sgd_trainer_fini(&w->trainer);
    w->model->ops->free(w->model);
}

static void *region_of(const struct worker *w)
{
    return w->run->regions[w->run->is_wide ? w->rank : 0];
}

static mt_status join(struct worker *w, uint32_t generation, uint32_t members, struct sgd_group *group)
{
    struct run             *run = w->run;
    struct sgd_group_net    net = run->net;
    struct sgd_group_config config = {.region = region_of(w),
                                      .region_size = run->region_size,
                                      .plan = sgd_trainer_plan(&w->trainer),
                                      .generation = generation,
                                      .rank = w->rank,
                                      .members = members,
                                      .net = run->is_wide ? &net : NULL,
                                      .door = &run->doors[w->rank]};
    net.node = w->rank;
    config.plan.is_wide = run->is_wide;
    return sgd_group_join(group, &config);
}

static mt_status state_get(struct worker *w, struct sgd_group *group)
{
    mt_status st = sgd_trainer_sync(&w->trainer, group);
    if (st.code != MT_ENOENT)
        return st;
    if (w->rank == 0)
        MT_TRY(sgd_trainer_begin(&w->trainer));
    return sgd_trainer_sync(&w->trainer, group);
}

static void save_offer(struct worker *w)
{
    uint64_t  step;
    mt_status result = mt_ok();
    (void)sgd_saver_take(&w->saver, true, &step, &result);
    assert_int_equal(result.code, MT_OK);
    assert_true(sgd_saver_offer(&w->saver, 1));
}

static mt_status steps_make(struct worker *w, struct sgd_group *group, uint32_t until)
{
    struct sgd_result result;
    while (w->trainer.state->step < until) {
        if (w->rank == w->run->breaks && w->trainer.state->step == 2)
            guarded.fails_in = 1;
        MT_TRY(sgd_train_step(&w->trainer, group, &result));
        if (sgd_trainer_is_open(&w->trainer))
            MT_TRY(sgd_trainer_close(&w->trainer, group, &result));
        if (w->run->folder && w->rank == 0)
            save_offer(w);
    }
    return mt_ok();
}

/* To some step in a generation of its own, the last one with a validation. */
static mt_status generation_run(struct worker *w, uint32_t generation, uint32_t members, uint32_t until)
{
    struct sgd_group group;
    mt_status        st = join(w, generation, members, &group);
    if (st.code == MT_OK)
        st = state_get(w, &group);
    if (st.code == MT_OK)
        st = steps_make(w, &group, until);
    if (st.code == MT_OK && until == w->run->steps) {
        w->trainer.state->progress.stop = SGD_STOPPING;
        st = sgd_trainer_close(&w->trainer, &group, &w->closed);
    }
    if (st.code != MT_OK)
        sgd_group_abort(region_of(w), generation, (enum mt_code)st.code, w->rank);
    sgd_trainer_leave(&w->trainer);
    sgd_group_leave(&group);
    return st;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct run    *run = w->run;
    guarded_reset();
    worker_make(w);
    w->st = mt_ok();
    if (run->late_after && w->rank + 1 != run->workers)
        w->st = generation_run(w, 1, run->workers - 1, run->late_after);
    pthread_barrier_wait(&run->between);
    if (w->st.code == MT_OK)
        w->st = generation_run(w, 2, run->workers, run->steps);
    w->had_state = w->trainer.has_state;
    w->step = w->trainer.state->step;
    if (w->st.code == MT_OK) {
        assert_int_equal(sgd_resident_pull(&w->trainer).code, MT_OK);
        memcpy(w->params, w->trainer.params, sizeof w->params);
    }
    worker_unmake(w);
    guarded_reset();
    return NULL;
}

static void nodes_open(struct run *run)
{
    run->net = (struct sgd_group_net){.nodes = run->workers, .group = 9, .secret = "a secret of thirty-two bytes..."};
    for (uint32_t n = 0; n < run->workers; n++) {
        run->net.first[n + 1] = (uint8_t)(n + 1);
        assert_int_equal(coll_door_open(&run->doors[n], &run->net.at[n]).code, MT_OK);
    }
}

static void regions_make(struct run *run)
{
    struct sgd_model     *model = model_make(cpu);
    struct sgd_group_plan plan = {
        .vranks = run->vranks, .slot_floats = sgd_trainer_slot(model), .mean_floats = FLOATS, .is_wide = run->is_wide};
    assert_int_equal(sgd_group_region_size(&plan, &run->region_size).code, MT_OK);
    for (uint32_t n = 0; n < (run->is_wide ? run->workers : 1); n++) {
        assert_non_null(run->regions[n] = aligned_alloc(64, (run->region_size + 63) / 64 * 64));
        memset(run->regions[n], 0, run->region_size);
    }
    model->ops->free(model);
    if (run->is_wide)
        nodes_open(run);
}

static void regions_unmake(struct run *run)
{
    for (uint32_t n = 0; n < (run->is_wide ? run->workers : 1); n++) {
        free(run->regions[n]);
        if (run->is_wide)
            coll_door_close(&run->doors[n]);
    }
}

static void workers_run(struct run *run, struct worker *workers)
{
    pthread_t threads[WORKERS_MAX];
    regions_make(run);
    assert_int_equal(pthread_barrier_init(&run->between, NULL, run->workers), 0);
    for (uint32_t w = 0; w < run->workers; w++) {
        workers[w] = (struct worker){.run = run, .rank = w};
        assert_int_equal(pthread_create(&threads[w], NULL, work, &workers[w]), 0);
    }
    for (uint32_t w = 0; w < run->workers; w++)
        assert_int_equal(pthread_join(threads[w], NULL), 0);
    pthread_barrier_destroy(&run->between);
    regions_unmake(run);
}

/* What all of them end with. */
static void run_made(struct run *run, float params[FLOATS])
{
    static struct worker workers[WORKERS_MAX];
    workers_run(run, workers);
    for (uint32_t w = 0; w < run->workers; w++) {
        assert_int_equal(workers[w].st.code, MT_OK);
        assert_memory_equal(workers[w].params, workers[0].params, sizeof workers[0].params);
        assert_memory_equal(&workers[w].closed, &workers[0].closed, sizeof workers[0].closed);
    }
    run->closed = workers[0].closed;
    memcpy(params, workers[0].params, sizeof workers[0].params);
}

static struct run a_run(const struct k_ops *ops)
{
    return (struct run){.ops = ops,
                        .workers = 1,
                        .vranks = 8,
                        .steps = STEPS,
                        .refuses = WORKERS_MAX,
                        .breaks = WORKERS_MAX,
                        .optimizer = {.rate = 0.05f, .decay = 0.01f}};
}

static int data_make(void **state)
{
    mt_rng rng = {17};
    for (size_t i = 0; i < RECORDS * INPUTS; i++)
        records[i] = (float)((double)mt_rng_below(&rng, 2000) / 1000.0 - 1.0);
    for (size_t i = 0; i < RECORDS; i++)
        labels[i] = (uint8_t)mt_rng_below(&rng, CLASSES);
    assert_int_equal(sgd_dataset_borrow((const uint8_t *)records, labels, RECORDS, sizeof(float) * INPUTS, &data).code, MT_OK);
    assert_int_equal(sgd_dataset_borrow((const uint8_t *)records, labels, 31, sizeof(float) * INPUTS, &some).code, MT_OK);
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &cpu).code, MT_OK);
    device = guarded_table();
    guarded_reset();
    return temp_make(state);
}

/* ---- sums between devices, of this test ---- */

struct sgd_device_sum {
    const struct k_ops *ops;
    bool                is_joined;
    uint32_t            asked; /* whether it is ready, in this generation */
};

static struct run      *summed; /* whose workers may sum; NULL: nobody may */
static float            handed[WORKERS_MAX][SGD_PIECES_MAX][FLOATS];
static _Atomic uint32_t device_sums;
static uint32_t         late_steps; /* of a generation, before sums between devices are ready */

mt_status __wrap_sgd_device_sum_new(const struct k_ops *ops, int number, struct sgd_device_sum **out, char text[256]);
mt_status __wrap_sgd_device_sum_begin(struct sgd_device_sum *s, struct sgd_group *group);
mt_status __wrap_sgd_device_sum_ready(struct sgd_device_sum *s, struct sgd_group *group, bool *out_is_ready);
mt_status __wrap_sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces, uint32_t count,
                                    size_t floats, float *out);
void      __wrap_sgd_device_sum_beats(struct sgd_device_sum *s, void (*beat)(void *user), void *user);
bool      __wrap_sgd_device_sum_is_stuck(const struct sgd_device_sum *s);
void      __wrap_sgd_device_sum_leave(struct sgd_device_sum *s);
void      __wrap_sgd_device_sum_free(struct sgd_device_sum *s);

mt_status __wrap_sgd_device_sum_new(const struct k_ops *ops, int number, struct sgd_device_sum **out, char text[256])
{
    static _Atomic uint32_t asked;
    (void)number;
    if (!summed || (summed->refuses < WORKERS_MAX && atomic_fetch_add(&asked, 1) % summed->workers == summed->refuses)) {
        snprintf(text, 256, "none here");
        return mt_error(MT_EUNSUPPORTED, 0, "none here");
    }
    *out = malloc(sizeof **out);
    assert_non_null(*out);
    **out = (struct sgd_device_sum){.ops = ops};
    return mt_ok();
}

void __wrap_sgd_device_sum_beats(struct sgd_device_sum *s, void (*beat)(void *user), void *user)
{
    (void)beat, (void)user;
    assert_non_null(s);
}

bool __wrap_sgd_device_sum_is_stuck(const struct sgd_device_sum *s)
{
    (void)s;
    return false;
}

mt_status __wrap_sgd_device_sum_begin(struct sgd_device_sum *s, struct sgd_group *group)
{
    uint64_t can[MT_GROUP_MEMBERS_MAX];
    MT_TRY(sgd_group_exchange(group, s != NULL, can));
    for (uint32_t m = 0; m < group->members; m++)
        if (!can[m])
            return mt_error(MT_EUNSUPPORTED, 0, "not all can");
    s->is_joined = true;
    s->asked = 0;
    return mt_ok();
}

/* In all members alike: they ask once before each step. */
mt_status __wrap_sgd_device_sum_ready(struct sgd_device_sum *s, struct sgd_group *group, bool *out_is_ready)
{
    *out_is_ready = s->asked++ >= late_steps;
    return sgd_group_meet(group);
}

/* The largest aligned runs of a member's virtual ranks, and how many. */
static uint32_t runs_of(const struct sgd_group *group, uint32_t rank, uint32_t level[SGD_PIECES_MAX])
{
    uint32_t at = sgd_share_first(group->plan.vranks, group->members, rank), count = 0;
    uint32_t last = sgd_share_first(group->plan.vranks, group->members, rank + 1);
    while (at < last) {
        uint32_t l = 0;
        while (at % (2u << l) == 0 && at + (2u << l) <= last)
            l++;
        level[count++] = l;
        at += 1u << l;
    }
    return count;
}

/* All members' pieces in one tree: what is of one size becomes one of the next, the rest joins from the right. */
static void pieces_join(const struct sgd_group *group, float out[FLOATS])
{
    static _Thread_local float stack[2 * SGD_PIECES_MAX][FLOATS];
    uint32_t                   levels[2 * SGD_PIECES_MAX], depth = 0;
    for (uint32_t rank = 0; rank < group->members; rank++) {
        uint32_t level[SGD_PIECES_MAX], count = runs_of(group, rank, level);
        for (uint32_t i = 0; i < count; i++) {
            memcpy(stack[depth], handed[rank][i], sizeof *stack);
            levels[depth++] = level[i];
            while (depth > 1 && (levels[depth - 2] == levels[depth - 1] || (rank + 1 == group->members && i + 1 == count))) {
                for (size_t f = 0; f < FLOATS; f++)
                    stack[depth - 2][f] = stack[depth - 2][f] + stack[depth - 1][f];
                levels[depth - 2]++;
                depth--;
            }
        }
    }
    memcpy(out, stack[0], sizeof *stack);
}

mt_status __wrap_sgd_device_sum_run(struct sgd_device_sum *s, struct sgd_group *group, const float *const *pieces, uint32_t count,
                                    size_t floats, float *out)
{
    float    sum[FLOATS];
    uint32_t level[SGD_PIECES_MAX];
    assert_true(s->is_joined);
    assert_int_equal(floats, FLOATS);
    assert_int_equal(count, runs_of(group, group->rank, level));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(pieces[i] != out);
        MT_TRY(s->ops->copy(NULL, handed[group->rank][i], pieces[i], sizeof *handed[0]));
    }
    MT_TRY(s->ops->wait(NULL));
    MT_TRY(sgd_group_meet(group));
    pieces_join(group, sum);
    MT_TRY(s->ops->copy(NULL, out, sum, sizeof sum));
    device_sums++;
    return sgd_group_meet(group);
}

void __wrap_sgd_device_sum_leave(struct sgd_device_sum *s)
{
    assert_non_null(s);
    s->is_joined = false;
}

void __wrap_sgd_device_sum_free(struct sgd_device_sum *s)
{
    assert_false(s->is_joined);
    free(s);
}

/* ---- tests ---- */

static const struct sgd_optimizer optimizers[] = {
    {.rate = 0.05f, .decay = 0.01f},
    {.rate = 0.05f, .clip_norm = 0.2f},
    {.kind = SGD_ADAMW, .rate = 0.01f, .warmup = 3},
    {.kind = SGD_ADAMW, .rate = 0.01f, .clip_norm = 0.1f, .schedule = SGD_CONSTANT},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static void one_worker_gives_the_hosts_bits(void **state)
{
    (void)state;
    static const uint32_t vranks[] = {1, 2, 3, 6, 7, 8, 13};
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        if (optimizers[o].clip_norm > 0) /* its length is summed in another order */
            continue;
        for (size_t v = 0; v < sizeof vranks / sizeof *vranks; v++) {
            struct run host = a_run(cpu), there = a_run(device);
            float      wanted[FLOATS], params[FLOATS];
            host.vranks = there.vranks = vranks[v];
            host.optimizer = there.optimizer = optimizers[o];
            run_made(&host, wanted);
            run_made(&there, params);
            assert_memory_equal(params, wanted, sizeof wanted);
            assert_memory_equal(&there.closed, &host.closed, sizeof host.closed);
        }
    }
}

static void any_number_of_workers_gives_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t vranks[] = {7, 8};
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t v = 0; v < 2; v++) {
            struct run run = a_run(device);
            float      wanted[FLOATS], params[FLOATS];
            run.vranks = vranks[v];
            run.optimizer = optimizers[o];
            run_made(&run, wanted);
            for (run.workers = 2; run.workers <= WORKERS_MAX; run.workers++)
                for (int way = 0; way < 4; way++) { /* by slots; between devices, from the third step on; where one can't */
                    summed = way ? &run : NULL;
                    run.refuses = way == 3 ? 1 : WORKERS_MAX;
                    late_steps = way == 2 ? 2 : 0;
                    device_sums = 0;
                    run_made(&run, params);
                    assert_memory_equal(params, wanted, sizeof wanted);
                    assert_int_equal(device_sums, way == 1 || way == 2 ? (STEPS - late_steps) * run.workers : 0);
                }
            summed = NULL;
            late_steps = 0;
            run.is_wide = true;
            run.workers = 2;
            run_made(&run, params);
            assert_memory_equal(params, wanted, sizeof wanted);
        }
}

/* A worker that comes later gets the state from those that have it; they have it on their devices only. */
static void who_comes_later_is_given_the_state(void **state)
{
    (void)state;
    float wanted[FLOATS], params[FLOATS];
    for (uint32_t workers = 2; workers <= 3; workers++)
        for (uint32_t after = 1; after <= 3; after += 2) {
            struct run run = a_run(device);
            run_made(&run, wanted);
            run.workers = workers;
            run.late_after = after;
            run_made(&run, params);
            assert_memory_equal(params, wanted, sizeof wanted);
        }
}

static struct sgd_group alone_group;

static void alone_begin(struct worker *w, struct run *run)
{
    regions_make(run);
    *w = (struct worker){.run = run};
    worker_make(w);
    assert_int_equal(join(w, 1, 1, &alone_group).code, MT_OK);
    assert_int_equal(state_get(w, &alone_group).code, MT_OK);
}

static void alone_end(struct worker *w)
{
    sgd_trainer_leave(&w->trainer);
    sgd_group_leave(&alone_group);
    worker_unmake(w);
    regions_unmake(w->run);
    guarded_reset();
}

static void a_step_of_one_worker_copies_no_parameters(void **state)
{
    struct run        run = a_run(device);
    struct worker     w;
    struct sgd_result result;
    size_t            records_up = 8 * MICRO * (INPUTS * sizeof(float) + 1);
    size_t            scores_down = 8 * MICRO * (CLASSES + 1) * sizeof(float);
    (void)state;
    run.optimizer = optimizers[3];
    guarded.large = FLOATS * sizeof(float);
    alone_begin(&w, &run);
    assert_int_equal(guarded.copies_large, 0); /* nobody has asked for it yet */
    assert_int_equal(sgd_train_step(&w.trainer, &alone_group, &result).code, MT_OK);
    assert_int_equal(guarded.copies_large, 1); /* its beginning */
    guarded.copies_large = 0;
    for (int i = 0; i < 5; i++) {
        guarded.up = guarded.down = 0;
        assert_int_equal(sgd_train_step(&w.trainer, &alone_group, &result).code, MT_OK);
        assert_int_equal(guarded.up, records_up);
        assert_int_equal(guarded.down, scores_down);
    }
    assert_int_equal(sgd_trainer_evaluate(&w.trainer, &some, &result).code, MT_OK);
    assert_int_equal(guarded.copies_large, 0);
    assert_int_equal(sgd_resident_pull(&w.trainer).code, MT_OK);
    assert_int_equal(sgd_resident_pull(&w.trainer).code, MT_OK);
    assert_int_equal(guarded.copies_large, 1);     /* all of it in one, and once */
    assert_int_equal(guarded.buffers_most, 2 + 4); /* the model's, the state, and log2(8) + 1 gradients */
    alone_end(&w);
}

/* Who sums by itself gets the gradients, and hands over their mean. */
static void a_reduction_of_the_callers_own(void **state)
{
    const struct k_ops *tables[2] = {cpu, device};
    float               params[2][FLOATS];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct run        run = a_run(tables[i]);
        struct worker     w = {.run = &run};
        struct sgd_result result;
        size_t            size = FLOATS + SGD_METRICS + SGD_FLAGS;
        float            *slots[2] = {calloc(size, sizeof(float)), calloc(size, sizeof(float))};
        assert_true(slots[0] && slots[1]);
        run.vranks = 2;
        worker_make(&w);
        assert_int_equal(sgd_trainer_begin(&w.trainer).code, MT_OK);
        for (int step = 0; step < 3; step++) {
            assert_int_equal(sgd_train_compute(&w.trainer, 0, 2, slots).code, MT_OK);
            for (size_t f = 0; f < size; f++)
                slots[0][f] = (slots[0][f] + slots[1][f]) * (f < FLOATS ? 0.5f : 1.0f);
            assert_int_equal(sgd_train_apply(&w.trainer, slots[0], &result).code, MT_OK);
        }
        assert_int_equal(sgd_resident_pull(&w.trainer).code, MT_OK);
        memcpy(params[i], w.trainer.params, sizeof *params);
        free(slots[0]), free(slots[1]);
        worker_unmake(&w);
    }
    assert_memory_equal(params[0], params[1], sizeof *params);
    guarded_reset();
}

static void checkpoints_are_what_the_device_had(void **state)
{
    struct run run = a_run(device);
    float      wanted[FLOATS], params[FLOATS];
    char       folder[TEMP_PATH];
    run.optimizer = optimizers[2];
    run_made(&run, wanted);
    run.folder = temp_path(state, "run", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    run.steps = 4;
    run_made(&run, params); /* its fourth step is in the folder */
    run.folder = NULL;
    run.steps = STEPS;

    struct worker                w;
    struct sgd_checkpoint_report report = {0};
    regions_make(&run);
    w = (struct worker){.run = &run};
    worker_make(&w);
    assert_int_equal(join(&w, 1, 1, &alone_group).code, MT_OK);
    assert_int_equal(sgd_trainer_resume(&w.trainer, folder, &report).code, MT_OK);
    assert_int_equal(w.trainer.state->step, 4);
    assert_int_equal(sgd_trainer_sync(&w.trainer, &alone_group).code, MT_OK);
    assert_int_equal(steps_make(&w, &alone_group, STEPS).code, MT_OK);
    /* which asks for it itself: */
    assert_int_equal(sgd_trainer_save(&w.trainer, folder, &(struct sgd_keep){.newest = 9}, 2).code, MT_OK);
    assert_memory_equal(w.trainer.params, wanted, sizeof wanted);
    assert_int_equal(sgd_trainer_resume(&w.trainer, folder, &report).code, MT_OK);
    assert_int_equal(w.trainer.state->step, STEPS);
    assert_memory_equal(w.trainer.params, wanted, sizeof wanted);
    alone_end(&w);
}

/* ---- what is not finite ---- */

static void the_virtual_rank_of_a_bad_record_is_named(void **state)
{
    (void)state;
    uint64_t           indices[MICRO];
    struct sgd_sampler sampler = {3, RECORDS, 8, MICRO, false};
    sgd_sampler_batch(&sampler, 2 * 8 * MICRO, 5, indices); /* of the third step */
    float *bad = &records[indices[1] * INPUTS + 7], good = *bad;
    for (int way = 0; way < 3; way++) {
        static struct worker workers[WORKERS_MAX];
        struct run           run = a_run(device);
        run.workers = way ? 2 : 1;
        summed = way == 2 ? &run : NULL;
        *bad = NAN;
        if (way == 0) {
            struct worker w;
            alone_begin(&w, &run);
            assert_int_equal(steps_make(&w, &alone_group, STEPS).code, MT_ETASK);
            assert_non_null(strstr(w.trainer.fault, "step 3: the loss is not finite"));
            assert_non_null(strstr(w.trainer.fault, "virtual rank 5"));
            assert_int_equal(w.trainer.state->step, 2);
            assert_true(w.trainer.has_state);
            alone_end(&w);
        } else {
            workers_run(&run, workers);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(workers[i].st.code, MT_ETASK);
                assert_true(workers[i].step == 2 && workers[i].had_state);
            }
        }
        *bad = good;
        summed = NULL;
    }
}

/* The loss is finite, the gradient of virtual rank 6 in the second step is not. */
static const struct sgd_model_ops *real_model_ops;

static mt_status bad_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                              float *grads, float metrics[SGD_METRICS])
{
    MT_TRY(real_model_ops->gradient(model, params, batch, scale, grads, metrics));
    return batch->sample == (8 + 6) * MICRO ? device->scale(NULL, INFINITY, grads, 3) : mt_ok();
}

static void the_virtual_rank_of_a_bad_gradient_is_named(void **state)
{
    struct run           run = a_run(device);
    struct worker        w;
    struct sgd_model_ops ops;
    float                before[FLOATS];
    (void)state;
    alone_begin(&w, &run);
    real_model_ops = w.model->ops;
    ops = *real_model_ops;
    ops.gradient = bad_gradient;
    w.model->ops = &ops;
    assert_int_equal(steps_make(&w, &alone_group, 1).code, MT_OK);
    assert_int_equal(sgd_resident_pull(&w.trainer).code, MT_OK);
    memcpy(before, w.trainer.params, sizeof before);
    assert_int_equal(steps_make(&w, &alone_group, 2).code, MT_ETASK);
    assert_non_null(strstr(w.trainer.fault, "the gradient is not finite"));
    assert_non_null(strstr(w.trainer.fault, "virtual rank 6, records from sample 28"));
    assert_true(w.trainer.is_culprit);
    assert_int_equal(sgd_resident_pull(&w.trainer).code, MT_OK);
    assert_memory_equal(w.trainer.params, before, sizeof before);
    w.model->ops = real_model_ops;
    assert_int_equal(steps_make(&w, &alone_group, 3).code, MT_OK); /* nothing is left of it */
    alone_end(&w);
}

/* ---- a device that fails ---- */

static void a_failed_device_has_no_state(void **state)
{
    static struct worker workers[WORKERS_MAX];
    struct run           run = a_run(device);
    (void)state;
    run.workers = 2;
    run.breaks = 1;
    workers_run(&run, workers);
    assert_int_equal(workers[1].st.code, MT_EDEVICE);
    assert_false(workers[1].had_state);
    assert_int_equal(workers[0].st.code, MT_EDEVICE); /* as it was told */
    assert_true(workers[0].step == 2);
}

/* ---- what a model makes of the parameters ---- */

static uint32_t          casts;
static struct k_half_ops counting_half;

static mt_status counting_cast(struct k_stream *stream, const float *in, k_half *out, size_t count)
{
    casts++;
    return k_half_reference.cast(stream, in, out, count);
}

static void bfloat16_is_made_once_for_each_step(void **state)
{
    static uint8_t     text[RECORDS * 9];
    struct k_ops       ops = *cpu;
    struct sgd_dataset set;
    struct sgd_result  result;
    struct run         run = a_run(&ops);
    struct worker      w = {.run = &run};
    (void)state;
    counting_half = k_half_reference;
    counting_half.cast = counting_cast;
    ops.is_device = true;
    ops.half = &counting_half;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * i % 11);
    assert_int_equal(sgd_dataset_borrow(text, NULL, RECORDS, 9, &set).code, MT_OK);
    struct sgd_gpt2_config model = {
        .ops = &ops, .shape = {.layers = 1, .width = 64, .heads = 1, .context = 8, .vocabulary = 11}, .batch_max = 8};
    assert_int_equal(sgd_gpt2_half_new(&model, &w.model).code, MT_OK);
    struct sgd_trainer_config config = {
        .ops = cpu, .model = w.model, .train = &set, .vranks = 4, .micro_batch = MICRO, .epochs = 9};
    assert_int_equal(sgd_trainer_init(&w.trainer, &config).code, MT_OK);
    struct sgd_group_plan plan = sgd_trainer_plan(&w.trainer);
    assert_int_equal(sgd_group_region_size(&plan, &run.region_size).code, MT_OK);
    assert_non_null(run.regions[0] = aligned_alloc(64, (run.region_size + 63) / 64 * 64));
    memset(run.regions[0], 0, run.region_size);
    assert_int_equal(join(&w, 1, 1, &alone_group).code, MT_OK);
    assert_int_equal(state_get(&w, &alone_group).code, MT_OK);
    for (uint32_t step = 1; step <= 5; step++) {
        assert_int_equal(sgd_train_step(&w.trainer, &alone_group, &result).code, MT_OK);
        assert_int_equal(casts, step);
    }
    assert_int_equal(sgd_trainer_evaluate(&w.trainer, &set, &result).code, MT_OK);
    assert_int_equal(casts, 6); /* after the fifth update */
    assert_int_equal(sgd_trainer_evaluate(&w.trainer, &set, &result).code, MT_OK);
    assert_int_equal(casts, 6);
    float before = result.loss;
    assert_int_equal(sgd_trainer_begin(&w.trainer).code, MT_OK); /* other parameters, from the host */
    assert_int_equal(sgd_trainer_evaluate(&w.trainer, &set, &result).code, MT_OK);
    assert_true(casts == 7 && result.loss != before);
    alone_end(&w);
}

static void what_a_device_can_not_do_is_refused(void **state)
{
    struct sgd_trainer trainer;
    struct sgd_model  *models[2] = {model_make(device), model_make(device)};
    (void)state;
    struct sgd_trainer_config config = {
        .ops = cpu, .model = models[0], .others = models + 1, .devices = 2, .train = &data, .micro_batch = MICRO};
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_EINVAL);
    config.devices = 1;
    config.zero = true;
    assert_int_equal(sgd_trainer_init(&trainer, &config).code, MT_EINVAL);
    for (int i = 0; i < 2; i++)
        models[i]->ops->free(models[i]);
    guarded_reset();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, data_make, temp_remove)
    const struct CMUnitTest tests[] = {
        TEST(one_worker_gives_the_hosts_bits),
        TEST(any_number_of_workers_gives_the_same_bits),
        TEST(who_comes_later_is_given_the_state),
        TEST(a_step_of_one_worker_copies_no_parameters),
        TEST(a_reduction_of_the_callers_own),
        TEST(checkpoints_are_what_the_device_had),
        TEST(the_virtual_rank_of_a_bad_record_is_named),
        TEST(the_virtual_rank_of_a_bad_gradient_is_named),
        TEST(a_failed_device_has_no_state),
        TEST(bfloat16_is_made_once_for_each_step),
        TEST(what_a_device_can_not_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

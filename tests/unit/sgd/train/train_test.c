/* SPDX-License-Identifier: Apache-2.0
 *
 * train_test.c - the promise of the trainer: the same final bits for any number of workers, after any death,
 * and after a stop and a resume from disk.
 */
#include "tests/unit/sgd/crew.h"
#include "tests/unit/sgd/temp.h"

#include "core/base/rng.h"
#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

#include <math.h>
#include <stdatomic.h>

enum { RECORDS = 1000, RECORD = 64, CLASSES = 10, VRANKS = 8, MICRO = 4, STEPS = 62, FLOATS = 64 * 32 + 32 + 320 + 10 };

/* What the parent and all workers share beside the region. */
struct board {
    struct { /* who dies where: at a step, on entry of one of the kernels that the step runs */
        uint32_t rank, step;
        enum { IN_COMPUTE, IN_REDUCE, IN_UPDATE } where;
    } death;
    _Atomic uint64_t steps_done;               /* by rank 0, for kills from outside */
    float            params[CREW_MAX][FLOATS]; /* what each worker ended with */
    char             folder[TEMP_PATH];        /* checkpoints; empty: none */
    uint32_t         save_every, stop_at;
    uint32_t         root_dies_in_sync; /* of generation 2 */
    uint64_t         began_at[4];       /* step at which rank 1 began each generation */
};

static uint8_t            data_records[RECORDS * RECORD], data_labels[RECORDS];
static struct sgd_dataset data;
/* For the kernel that kills its own process: in a worker only. */
static struct {
    const struct k_ops *real;
    bool                is_armed;
    uint32_t            where;
} lethal;

static void data_make(void)
{
    mt_rng rng = {77};
    for (size_t i = 0; i < sizeof data_records; i++)
        data_records[i] = (uint8_t)mt_rng_next(&rng);
    for (size_t i = 0; i < RECORDS; i++) {
        data_labels[i] = (uint8_t)mt_rng_below(&rng, CLASSES);
        memset(data_records + i * RECORD + data_labels[i] * 6, 255, 6); /* something to learn */
    }
    assert_int_equal(sgd_dataset_borrow(data_records, data_labels, RECORDS, RECORD, &data).code, MT_OK);
}

static void die_if(uint32_t where)
{
    if (lethal.is_armed && lethal.where == where)
        raise(SIGKILL);
}

static mt_status lethal_bias_grad(struct k_stream *stream, const float *x, float *out, size_t rows, size_t cols)
{
    die_if(IN_COMPUTE);
    return lethal.real->bias_grad(stream, x, out, rows, cols);
}
static mt_status lethal_tree_sum(struct k_stream *stream, const float *const *in, size_t n, size_t count, float *out)
{
    die_if(IN_REDUCE);
    return lethal.real->tree_sum(stream, in, n, count, out);
}
static mt_status lethal_update(struct k_stream *stream, const struct k_sgd *sgd)
{
    die_if(IN_UPDATE);
    return lethal.real->sgd_update(stream, sgd);
}

static const struct k_ops *lethal_kernels(void)
{
    static struct k_ops ops;
    lethal.real = crew_kernels();
    ops = *lethal.real;
    ops.bias_grad = lethal_bias_grad;
    ops.tree_sum = lethal_tree_sum;
    ops.sgd_update = lethal_update;
    return &ops;
}

static void trainer_make(struct sgd_trainer *trainer, const struct k_ops *ops)
{
    struct sgd_mlp_config     mlp = {.ops = ops, .inputs = RECORD, .hidden = {32}, .batch_max = 64};
    struct sgd_trainer_config config = {.ops = ops,
                                        .train = &data,
                                        .seed = 5,
                                        .vranks = VRANKS,
                                        .micro_batch = MICRO,
                                        .epochs = 2,
                                        .optimizer = {.warmup = 5, .rate = 0.05f, .decay = 1e-4f}};
    assert_int_equal(sgd_mlp_new(&mlp, &config.model).code, MT_OK);
    assert_int_equal(config.model->params.floats, FLOATS);
    assert_int_equal(sgd_trainer_init(trainer, &config).code, MT_OK);
    assert_int_equal(trainer->steps_total, STEPS + 1); /* 2000 samples in steps of 32 */
}

static void trainer_unmake(struct sgd_trainer *trainer)
{
    struct sgd_model *model = trainer->config.model;
    sgd_trainer_fini(trainer);
    model->ops->free(model);
}

/* Brings all members to one state: from survivors, else from disk, else from the seed. */
static mt_status state_get(struct sgd_trainer *trainer, struct sgd_group *group, const char *folder)
{
    struct sgd_checkpoint_report report;
    mt_status                    st = sgd_trainer_sync(trainer, group);
    if (st.code != MT_ENOENT)
        return st;
    if (group->rank == 0) {
        st = *folder ? sgd_trainer_resume(trainer, folder, &report) : mt_error(MT_ENOENT, 0, "");
        if (st.code == MT_ENOENT)
            assert_int_equal(sgd_trainer_begin(trainer).code, MT_OK);
        else
            MT_TRY(st);
    }
    return sgd_trainer_sync(trainer, group);
}

/* What a worker of a real run does in one generation; its trainer outlives the generation. */
static mt_status train_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    static struct sgd_trainer trainer;
    struct board             *board = crew->shared;
    struct sgd_group          group;
    struct sgd_result         result;

    if (!trainer.state)
        trainer_make(&trainer, lethal_kernels());
    lethal.where = board->death.where;
    MT_TRY(crew_join(crew, &group, rank, order));
    if (board->root_dies_in_sync && order.generation == 2 && rank == 0) {
        struct sgd_agreement agreement;
        MT_TRY(sgd_group_agree(&group, true, sgd_trainer_how_far(&trainer), &agreement));
        raise(SIGKILL);
    }
    MT_TRY(state_get(&trainer, &group, board->folder));
    if (rank == 1)
        board->began_at[order.generation & 3] = trainer.state->step;
    if (rank == 0) /* may have got the last step by the sync */
        atomic_store(&board->steps_done, trainer.state->step);
    while (!sgd_trainer_is_done(&trainer) && (!board->stop_at || trainer.state->step < board->stop_at)) {
        uint64_t step = trainer.state->step;
        lethal.is_armed = order.generation == 1 && board->death.rank == rank && board->death.step == step + 1;
        MT_TRY(sgd_train_step(&trainer, &group, &result));
        if (rank == 0) {
            atomic_store(&board->steps_done, step + 1);
            if (board->save_every && (step + 1) % board->save_every == 0)
                MT_TRY(sgd_trainer_save(&trainer, board->folder, &(struct sgd_keep){.newest = 2}, order.generation));
        }
    }
    memcpy(board->params[rank], trainer.params, sizeof board->params[rank]);
    return mt_ok();
}

static struct board *board_make(struct crew *crew)
{
    struct sgd_trainer trainer;
    trainer_make(&trainer, crew_kernels());
    crew_init(crew, sgd_trainer_plan(&trainer), train_work);
    trainer_unmake(&trainer);
    struct board *board = crew->shared = shared_memory(sizeof *board);
    return board;
}

static void board_unmake(struct crew *crew)
{
    munmap(crew->shared, sizeof(struct board));
    crew_fini(crew);
}

/* The reference: one process, no group but of itself. */
static void reference_run(float out[FLOATS], struct sgd_result *out_last)
{
    struct sgd_trainer trainer;
    struct sgd_group   group;
    struct crew        crew;
    trainer_make(&trainer, crew_kernels());
    crew_init(&crew, sgd_trainer_plan(&trainer), NULL);
    assert_int_equal(crew_join(&crew, &group, 0, (struct crew_order){1, 1}).code, MT_OK);
    assert_int_equal(sgd_trainer_begin(&trainer).code, MT_OK);
    while (!sgd_trainer_is_done(&trainer))
        assert_int_equal(sgd_train_step(&trainer, &group, out_last).code, MT_OK);
    memcpy(out, trainer.params, FLOATS * sizeof *out);
    assert_int_equal(trainer.state->samples, (STEPS + 1) * VRANKS * MICRO);
    trainer_unmake(&trainer);
    sgd_group_leave(&group);
    crew_fini(&crew);
}

static float reference[FLOATS];

static int reference_setup(void **state)
{
    struct sgd_result last = {0};
    (void)state;
    data_make();
    reference_run(reference, &last);
    return last.loss > 0 && last.loss < 1.5f ? 0 : -1; /* it learns: chance is 2.3 */
}

static void workers_end_with(struct crew *crew, uint32_t members)
{
    struct board *board = crew->shared;
    for (uint32_t rank = 0; rank < members; rank++)
        assert_memory_equal(board->params[rank], reference, sizeof reference);
}

static void any_number_of_workers_gives_the_same_weights(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct crew crew;
        board_make(&crew);
        crew_run(&crew, sizes[s]);
        workers_end_with(&crew, sizes[s]);
        board_unmake(&crew);
    }
}

/* After a death: the survivors were released with the typed error, and generation 2 ends with the same bits,
 * with `members` in it. */
static void go_on_after(struct crew *crew, uint32_t victim, uint32_t before, uint32_t members)
{
    crew_bury(crew, victim, 1);
    for (uint32_t rank = 0; rank < before; rank++)
        if (rank != victim)
            assert_int_equal(crew_report(crew, rank), MT_EWORKER_DIED);
    if (victim < members)
        crew_hire(crew, victim);
    crew_order_all(crew, 2, members);
    for (uint32_t rank = 0; rank < members; rank++)
        assert_int_equal(crew_report(crew, rank), MT_OK);
    workers_end_with(crew, members);
    for (uint32_t rank = 0; rank < members; rank++)
        crew_dismiss(crew, rank);
}

static void a_death_anywhere_in_a_step_changes_nothing(void **state)
{
    static const uint32_t steps[] = {1, 17, STEPS + 1};
    (void)state;
    for (uint32_t members = 2; members <= 4; members += 2)
        for (uint32_t victim = 0; victim < members; victim += members - 1) /* the first and the last */
            for (size_t s = 0; s < 3; s++)
                for (uint32_t where = IN_COMPUTE; where <= IN_UPDATE; where++) {
                    struct crew   crew;
                    struct board *board = board_make(&crew);
                    board->death.rank = victim, board->death.step = steps[s], board->death.where = where;
                    for (uint32_t rank = 0; rank < members; rank++)
                        crew_hire(&crew, rank);
                    crew_order_all(&crew, 1, members);
                    /* Whoever dies in the last update has let the others finish: then nothing is left to go
                     * on with. */
                    if (steps[s] == STEPS + 1 && where == IN_UPDATE) {
                        crew_bury(&crew, victim, 1);
                        for (uint32_t rank = 0; rank < members; rank++) {
                            if (rank == victim)
                                continue;
                            int32_t code = crew_report(&crew, rank);
                            assert_true(code == MT_OK || code == MT_EWORKER_DIED);
                            if (code == MT_OK)
                                assert_memory_equal(board->params[rank], reference, sizeof reference);
                            crew_dismiss(&crew, rank);
                        }
                    } else {
                        go_on_after(&crew, victim, members, members);
                    }
                    board_unmake(&crew);
                }
}

/* The last rank dies and is not replaced: the others take over its virtual ranks. */
static void a_smaller_group_gives_the_same_weights(void **state)
{
    struct crew   crew;
    struct board *board = board_make(&crew);
    (void)state;
    board->death.rank = 3, board->death.step = 20, board->death.where = IN_REDUCE;
    for (uint32_t rank = 0; rank < 4; rank++)
        crew_hire(&crew, rank);
    crew_order_all(&crew, 1, 4);
    go_on_after(&crew, 3, 4, 3);
    board_unmake(&crew);
}

/* The last rank dies; in the next generation the root dies too, while it hands the state on. The ranks
 * between them have it still: no step is lost, although there is no checkpoint. */
static void the_state_survives_the_death_of_its_root(void **state)
{
    enum { MEMBERS = 4 };
    struct crew   crew;
    struct board *board = board_make(&crew);
    (void)state;
    board->death.rank = 3, board->death.step = 20, board->death.where = IN_COMPUTE;
    board->root_dies_in_sync = 1;
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        crew_hire(&crew, rank);
    crew_order_all(&crew, 1, MEMBERS);
    crew_bury(&crew, 3, 1);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(crew_report(&crew, rank), MT_EWORKER_DIED);
    crew_hire(&crew, 3);
    crew_order_all(&crew, 2, MEMBERS);
    crew_bury(&crew, 0, 2);
    for (uint32_t rank = 1; rank < MEMBERS; rank++)
        assert_int_equal(crew_report(&crew, rank), MT_EWORKER_DIED);
    crew_hire(&crew, 0);
    crew_order_all(&crew, 3, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        assert_int_equal(crew_report(&crew, rank), MT_OK);
    assert_int_equal(board->began_at[3], 19);
    workers_end_with(&crew, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        crew_dismiss(&crew, rank);
    board_unmake(&crew);
}

/* SIGKILL from outside, at random steps and instants, several times in one run. */
static void kills_at_random_change_nothing(void **state)
{
    enum { RUNS = 12, MEMBERS = 3, KILLS = 4 };
    mt_rng rng = {31};
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct crew   crew;
        struct board *board = board_make(&crew);
        uint32_t      generation = 1;
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            crew_hire(&crew, rank);
        for (int k = 0; k < KILLS; k++, generation++) {
            uint64_t until = atomic_load(&board->steps_done) + mt_rng_below(&rng, STEPS / KILLS);
            crew_order_all(&crew, generation, MEMBERS);
            while (atomic_load(&board->steps_done) < until && atomic_load(&board->steps_done) <= STEPS)
                usleep(50);
            usleep((useconds_t)mt_rng_below(&rng, 300));
            uint32_t victim = (uint32_t)mt_rng_below(&rng, MEMBERS);
            kill(crew.pids[victim], SIGKILL);
            crew_bury(&crew, victim, generation);
            for (uint32_t rank = 0; rank < MEMBERS; rank++) {
                int32_t code = rank == victim ? MT_OK : crew_report(&crew, rank);
                assert_true(code == MT_OK || code == MT_EWORKER_DIED); /* OK: it had finished before the kill */
            }
            crew_hire(&crew, victim);
        }
        crew_order_all(&crew, generation, MEMBERS);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            assert_int_equal(crew_report(&crew, rank), MT_OK);
        workers_end_with(&crew, MEMBERS);
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            crew_dismiss(&crew, rank);
        board_unmake(&crew);
    }
}

/* All workers stop; others, of another number, resume from the newest checkpoint. */
static void a_run_resumed_from_disk_gives_the_same_weights(void **state)
{
    struct crew   crew;
    struct board *board = board_make(&crew);
    temp_path(state, "checkpoints", board->folder);
    board->save_every = 10;
    board->stop_at = 34; /* 4 steps after the last save are lost, and repeated */
    crew_run(&crew, 4);
    assert_memory_not_equal(board->params[0], reference, sizeof reference);
    board->stop_at = 0;
    crew_fini(&crew);
    struct sgd_trainer trainer;
    trainer_make(&trainer, crew_kernels());
    crew_init(&crew, sgd_trainer_plan(&trainer), train_work);
    crew.shared = board;
    trainer_unmake(&trainer);
    crew_run(&crew, 2);
    workers_end_with(&crew, 2);
    board_unmake(&crew);
}

static void a_checkpoint_of_another_run_is_refused(void **state)
{
    struct sgd_checkpoint_report report;
    struct sgd_trainer           trainer, other;
    char                         folder[TEMP_PATH];
    temp_path(state, "checkpoints", folder);
    trainer_make(&trainer, crew_kernels());
    assert_int_equal(sgd_trainer_begin(&trainer).code, MT_OK);
    assert_int_equal(sgd_trainer_save(&trainer, folder, &(struct sgd_keep){0}, 1).code, MT_OK);

    struct sgd_trainer_config config = trainer.config;
    config.seed = 6;
    assert_int_equal(sgd_trainer_init(&other, &config).code, MT_OK);
    assert_int_equal(sgd_trainer_resume(&other, folder, &report).code, MT_EINVAL);
    assert_false(other.has_state);
    sgd_trainer_fini(&other);

    struct sgd_mlp_config wide = {.ops = config.ops, .inputs = RECORD, .hidden = {33}, .batch_max = 64};
    config.seed = 5;
    assert_int_equal(sgd_mlp_new(&wide, &config.model).code, MT_OK);
    assert_int_equal(sgd_trainer_init(&other, &config).code, MT_OK);
    assert_int_equal(sgd_trainer_resume(&other, folder, &report).code, MT_EINVAL);
    assert_false(other.has_state);
    trainer_unmake(&other);
    trainer_unmake(&trainer);
}

static void a_loss_that_is_not_finite_stops_before_the_update(void **state)
{
    struct sgd_trainer trainer;
    struct sgd_group   group;
    struct sgd_result  result;
    struct crew        crew;
    (void)state;
    trainer_make(&trainer, crew_kernels());
    crew_init(&crew, sgd_trainer_plan(&trainer), NULL);
    assert_int_equal(crew_join(&crew, &group, 0, (struct crew_order){1, 1}).code, MT_OK);
    assert_int_equal(sgd_trainer_begin(&trainer).code, MT_OK);
    trainer.params[3] = NAN;
    float before = trainer.params[100];
    assert_int_equal(sgd_train_step(&trainer, &group, &result).code, MT_ETASK);
    assert_true(trainer.params[100] == before);
    assert_int_equal(trainer.state->step, 0);
    trainer_unmake(&trainer);
    sgd_group_leave(&group);
    crew_fini(&crew);
}

static void bad_configurations_are_refused(void **state)
{
    struct sgd_trainer trainer, other;
    (void)state;
    trainer_make(&trainer, crew_kernels());
    struct sgd_trainer_config good = trainer.config, bad;
    bad = good, bad.vranks = MT_VRANKS_MAX + 1;
    assert_int_equal(sgd_trainer_init(&other, &bad).code, MT_EINVAL);
    bad = good, bad.micro_batch = 65;
    assert_int_equal(sgd_trainer_init(&other, &bad).code, MT_EINVAL);
    bad = good, bad.optimizer.rate = -1.0f;
    assert_int_equal(sgd_trainer_init(&other, &bad).code, MT_EINVAL);
    bad = good, bad.optimizer.momentum = 1.0f;
    assert_int_equal(sgd_trainer_init(&other, &bad).code, MT_EINVAL);
    struct sgd_dataset wrong = data;
    wrong.record_size = RECORD / 2;
    bad = good, bad.train = &wrong;
    assert_int_equal(sgd_trainer_init(&other, &bad).code, MT_EINVAL);
    trainer_unmake(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers_gives_the_same_weights),
        cmocka_unit_test(a_death_anywhere_in_a_step_changes_nothing),
        cmocka_unit_test(a_smaller_group_gives_the_same_weights),
        cmocka_unit_test(the_state_survives_the_death_of_its_root),
        cmocka_unit_test(kills_at_random_change_nothing),
        cmocka_unit_test_setup_teardown(a_run_resumed_from_disk_gives_the_same_weights, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_run_is_refused, temp_make, temp_remove),
        cmocka_unit_test(a_loss_that_is_not_finite_stops_before_the_update),
        cmocka_unit_test(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, reference_setup, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * zero_test.c - an optimizer's state in shards: the weights are those of a run without, for any number of workers, after deaths and
 * changes of size; each worker has its part of the state only; checkpoints are read with and without shards.
 */
#include "tests/unit/sgd/crew.h"
#include "tests/unit/sgd/temp.h"

#include "core/base/rng.h"
#include "sgd/model/mlp.h"
#include "sgd/train/trainer.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { RECORDS = 400, RECORD = 64, CLASSES = 10, VRANKS = 8, MICRO = 4, STEPS = 25, HIDDEN = 128 };
enum { FLOATS = RECORD * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };

enum where { NOWHERE, IN_COMPUTE, IN_REDUCE, IN_NORM, IN_UPDATE };

struct board {
    struct sgd_trainer_config config; /* of all trainers but for what is theirs alone */
    struct {
        uint32_t   rank, step;
        enum where where;
    } death;
    _Atomic uint64_t steps_done;
    uint64_t         began_at[8], bytes[CREW_MAX]; /* the step with which rank 0 began a generation; of the optimizer's state */
    float            params[CREW_MAX][FLOATS];
    char             folder[TEMP_PATH];
    uint32_t         save_every, stop_at;
    uint64_t         leavers; /* when it stops: of the ranks, those who will be in no other generation */
    float            poison;  /* of rank 1's parameters, before its third step */
};

static uint8_t            data_records[RECORDS * RECORD], data_labels[RECORDS];
static struct sgd_dataset data;
static struct {
    const struct k_ops *real;
    bool                is_armed;
    enum where          where;
} lethal;

static void die_if(enum where where)
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
static mt_status lethal_sum_squares(struct k_stream *stream, const float *x, size_t count, double *out)
{
    die_if(IN_NORM);
    return lethal.real->sum_squares(stream, x, count, out);
}
static mt_status lethal_update(struct k_stream *stream, const struct k_adamw *adamw)
{
    mt_status st = lethal.real->adamw_update(stream, adamw);
    die_if(IN_UPDATE); /* in the middle: some blocks are done */
    return st;
}

static const struct k_ops *kernels(void)
{
    static struct k_ops ops;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &lethal.real).code, MT_OK);
    ops = *lethal.real;
    ops.bias_grad = lethal_bias_grad;
    ops.tree_sum = lethal_tree_sum;
    ops.sum_squares = lethal_sum_squares;
    ops.adamw_update = lethal_update;
    return &ops;
}

static void trainer_make(struct sgd_trainer *trainer, const struct sgd_trainer_config *like)
{
    struct sgd_trainer_config config = *like;
    config.ops = kernels();
    struct sgd_mlp_config mlp = {.ops = config.ops, .inputs = RECORD, .hidden = {HIDDEN}, .batch_max = 64};
    assert_int_equal(sgd_mlp_new(&mlp, &config.model).code, MT_OK);
    assert_int_equal(config.model->params.floats, FLOATS);
    assert_int_equal(sgd_trainer_init(trainer, &config).code, MT_OK);
    assert_int_equal(trainer->steps_total, STEPS);
}

static void trainer_unmake(struct sgd_trainer *trainer)
{
    struct sgd_model *model = trainer->config.model;
    sgd_trainer_fini(trainer);
    model->ops->free(model);
}

static mt_status state_get(struct sgd_trainer *trainer, struct sgd_group *group, const char *folder)
{
    struct sgd_checkpoint_report report;
    mt_status                    st = sgd_trainer_sync(trainer, group);
    if (st.code != MT_ENOENT)
        return st;
    if (group->rank == 0) {
        st = *folder ? sgd_trainer_resume(trainer, folder, &report) : mt_error(MT_ENOENT, 0, "");
        if (st.code == MT_ENOENT)
            st = sgd_trainer_begin(trainer);
        MT_TRY(st);
    }
    return sgd_trainer_sync(trainer, group);
}

static mt_status step_make(struct sgd_trainer *trainer, struct sgd_group *group, struct board *board, struct crew_order order)
{
    struct sgd_result result;
    uint64_t          step = trainer->state->step;
    lethal.where = board->death.where;
    lethal.is_armed = order.generation == 1 && board->death.rank == group->rank && board->death.step == step + 1;
    if (group->rank == 1 && step == 2 && board->poison != 0)
        trainer->params[5] = board->poison;
    MT_TRY(sgd_train_step(trainer, group, &result));
    lethal.is_armed = false;
    if (group->rank == 0)
        atomic_store(&board->steps_done, step + 1);
    if (board->save_every && (step + 1) % board->save_every == 0 && (group->rank == 0 || trainer->config.zero))
        MT_TRY(sgd_trainer_save(trainer, board->folder, &(struct sgd_keep){.newest = 2}, order.generation));
    return mt_ok();
}

static mt_status train_work(struct crew *crew, uint32_t rank, struct crew_order order)
{
    static struct sgd_trainer trainer;
    struct board             *board = crew->shared;
    struct sgd_group          group;

    if (!trainer.state)
        trainer_make(&trainer, &board->config);
    mt_status st = crew_join(crew, &group, rank, order);
    if (st.code == MT_OK)
        st = state_get(&trainer, &group, board->folder);
    if (st.code == MT_OK && rank == 0) {
        board->began_at[order.generation & 7] = trainer.state->step;
        atomic_store(&board->steps_done, trainer.state->step); /* the last one may have counted although the abort hid it */
    }
    while (st.code == MT_OK && !sgd_trainer_is_done(&trainer) && (!board->stop_at || trainer.state->step < board->stop_at))
        st = step_make(&trainer, &group, board, order);
    if (st.code == MT_OK && board->leavers)
        st = sgd_zero_hand_over(&trainer, &group, rank == 0 ? board->leavers : 0);
    if (st.code == MT_OK)
        memcpy(board->params[rank], trainer.params, sizeof board->params[rank]);
    board->bytes[rank] = sgd_zero_bytes(&trainer);
    sgd_group_leave(&group);
    return st;
}

static struct sgd_trainer_config config_of(bool zero, bool backup)
{
    return (struct sgd_trainer_config){.train = &data,
                                       .seed = 5,
                                       .vranks = VRANKS,
                                       .micro_batch = MICRO,
                                       .epochs = 2,
                                       .optimizer = {.kind = SGD_ADAMW, .warmup = 5, .rate = 0.01f, .clip_norm = 0.9f},
                                       .zero = zero,
                                       .zero_backup = backup};
}

static struct board *board_make(struct crew *crew, bool zero, bool backup)
{
    struct sgd_trainer        trainer;
    struct sgd_trainer_config config = config_of(zero, backup);
    trainer_make(&trainer, &config);
    crew_init(crew, sgd_trainer_plan(&trainer), train_work);
    trainer_unmake(&trainer);
    struct board *board = crew->shared = shared_memory(sizeof *board);
    board->config = config;
    return board;
}

static void board_unmake(struct crew *crew)
{
    munmap(crew->shared, sizeof(struct board));
    crew_fini(crew);
}

static float reference[FLOATS];

/* One worker, nothing sharded. */
static int reference_setup(void **state)
{
    struct crew crew;
    mt_rng      rng = {77};
    (void)state;
    for (size_t i = 0; i < sizeof data_records; i++)
        data_records[i] = (uint8_t)mt_rng_next(&rng);
    for (size_t i = 0; i < RECORDS; i++) {
        data_labels[i] = (uint8_t)mt_rng_below(&rng, CLASSES);
        memset(data_records + i * RECORD + data_labels[i] * 6, 255, 6);
    }
    assert_int_equal(sgd_dataset_borrow(data_records, data_labels, RECORDS, RECORD, &data).code, MT_OK);
    struct board *board = board_make(&crew, false, false);
    crew_run(&crew, 1);
    memcpy(reference, board->params[0], sizeof reference);
    board_unmake(&crew);
    return 0;
}

static void workers_end_with(struct crew *crew, uint32_t members)
{
    struct board *board = crew->shared;
    for (uint32_t rank = 0; rank < members; rank++)
        assert_memory_equal(board->params[rank], reference, sizeof reference);
}

static void hire(struct crew *crew, uint32_t first, uint32_t last)
{
    for (uint32_t rank = first; rank < last; rank++)
        crew_hire(crew, rank);
}

static void reports_take(struct crew *crew, uint32_t members, uint32_t but, int32_t code)
{
    for (uint32_t rank = 0; rank < members; rank++)
        if (rank != but)
            assert_int_equal(crew_report(crew, rank), code);
}

static void dismiss(struct crew *crew, uint32_t members)
{
    for (uint32_t rank = 0; rank < members; rank++)
        crew_dismiss(crew, rank);
}

/* ---- sizes ---- */

static void shards_give_the_same_weights_and_share_the_memory(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= 4; members++)
        for (int backup = 0; backup < 2; backup++) {
            struct crew   crew;
            struct board *board = board_make(&crew, true, backup);
            uint64_t      all = 0, whole = 2 * FLOATS * sizeof(float), block = 2 * SGD_SHARD_BLOCK * sizeof(float);
            crew_run(&crew, members);
            workers_end_with(&crew, members);
            for (uint32_t rank = 0; rank < members; rank++) {
                uint64_t copies = backup && members > 1 ? 2 : 1;
                assert_true(board->bytes[rank] <= copies * (whole / members + block));
                all += board->bytes[rank];
            }
            assert_int_equal(all, backup && members > 1 ? 2 * whole : whole);
            board_unmake(&crew);
        }
}

/* ---- deaths ---- */

/* With a second copy of each shard nothing is lost, whatever the victim was at. */
static void a_death_with_a_backup_loses_no_step(void **state)
{
    (void)state;
    for (uint32_t members = 2; members <= 4; members += 2)
        for (enum where where = IN_COMPUTE; where <= IN_UPDATE; where++) {
            struct crew   crew;
            struct board *board = board_make(&crew, true, true);
            uint32_t      victim = where % members;
            board->death.rank = victim, board->death.step = 9, board->death.where = where;
            hire(&crew, 0, members);
            crew_order_all(&crew, 1, members);
            crew_bury(&crew, victim, 1);
            reports_take(&crew, members, victim, MT_EWORKER_DIED);
            crew_hire(&crew, victim);
            crew_order_all(&crew, 2, members);
            reports_take(&crew, members, UINT32_MAX, MT_OK);
            /* Who dies in the update has let the others pass the guard; one that has seen that makes the step count. */
            assert_true(board->began_at[2] == 8 || (where == IN_UPDATE && board->began_at[2] == 9));
            workers_end_with(&crew, members);
            dismiss(&crew, members);
            board_unmake(&crew);
        }
}

/* Without, its shard is gone: all go back to the newest checkpoint. */
static void a_death_without_a_backup_goes_back_to_the_checkpoint(void **state)
{
    for (enum where where = IN_COMPUTE; where <= IN_UPDATE; where += 3) {
        struct crew   crew;
        struct board *board = board_make(&crew, true, false);
        temp_path(state, where == IN_COMPUTE ? "first" : "second", board->folder);
        board->save_every = 6;
        board->death.rank = 1, board->death.step = 16, board->death.where = where;
        hire(&crew, 0, 3);
        crew_order_all(&crew, 1, 3);
        crew_bury(&crew, 1, 1);
        reports_take(&crew, 3, 1, MT_EWORKER_DIED);
        crew_hire(&crew, 1);
        crew_order_all(&crew, 2, 3);
        reports_take(&crew, 3, UINT32_MAX, MT_OK);
        assert_int_equal(board->began_at[2], 12);
        workers_end_with(&crew, 3);
        dismiss(&crew, 3);
        board_unmake(&crew);
    }
}

/* A generation ends at any instant, for a larger one: nobody dies, so nothing is lost, although each shard is there once. */
static void growing_at_any_instant_loses_no_step(void **state)
{
    static const uint32_t sizes[] = {1, 2, 2, 3, 3, 4};
    enum { RUNS = 6, SIZES = sizeof sizes / sizeof *sizes };
    mt_rng rng = {9};
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct crew   crew;
        struct board *board = board_make(&crew, true, false);
        hire(&crew, 0, 4);
        for (uint32_t g = 1; g <= SIZES; g++) {
            uint32_t members = sizes[g - 1];
            uint64_t done = atomic_load(&board->steps_done), until = done + mt_rng_below(&rng, 3);
            board->began_at[g] = UINT64_MAX; /* unless it gets so far */
            crew_order_all(&crew, g, members);
            while (g < SIZES && atomic_load(&board->steps_done) < until && atomic_load(&board->steps_done) < STEPS)
                usleep(20);
            if (g < SIZES) {
                usleep((useconds_t)mt_rng_below(&rng, 400));
                sgd_group_abort(crew.region, g, MT_EAGAIN, 0);
            }
            for (uint32_t rank = 0; rank < members; rank++) {
                int32_t code = crew_report(&crew, rank);
                assert_true(code == MT_OK || (code == MT_EAGAIN && g < SIZES));
            }
            assert_true(board->began_at[g] >= done);
        }
        workers_end_with(&crew, sizes[SIZES - 1]);
        dismiss(&crew, 4);
        board_unmake(&crew);
    }
}

/* ---- leaving ---- */

/* Members that go on purpose give their shards to those who stay; then others come. */
static void who_leaves_hands_its_shards_over(void **state)
{
    static const struct {
        uint32_t members, stop_at;
        uint64_t leavers;
    } generations[] = {{4, 6, 0xc}, {2, 11, 0x2}, {1, 14, 0}, {3, 19, 0x4}, {2, 0, 0}};
    (void)state;
    for (int backup = 0; backup < 2; backup++) {
        struct crew   crew;
        struct board *board = board_make(&crew, true, backup);
        uint64_t      began = 0;
        hire(&crew, 0, 4);
        for (uint32_t g = 0; g < sizeof generations / sizeof *generations; g++) {
            board->stop_at = generations[g].stop_at;
            board->leavers = generations[g].leavers;
            crew_order_all(&crew, g + 1, generations[g].members);
            reports_take(&crew, generations[g].members, UINT32_MAX, MT_OK);
            assert_int_equal(board->began_at[g + 1], began);
            began = generations[g].stop_at;
        }
        workers_end_with(&crew, 2);
        dismiss(&crew, 4);
        board_unmake(&crew);
    }
}

/* One of them dies, or the generation ends, while they do: the weights are right, from wherever they go on. */
static void handing_over_may_end_at_any_instant(void **state)
{
    mt_rng rng = {3};
    (void)state;
    for (int run = 0; run < 8; run++) {
        struct crew   crew;
        struct board *board = board_make(&crew, true, false);
        hire(&crew, 0, 4);
        board->stop_at = 5;
        board->leavers = 0xc;
        crew_order_all(&crew, 1, 4);
        while (atomic_load(&board->steps_done) < 5)
            usleep(20);
        usleep((useconds_t)mt_rng_below(&rng, 300));
        sgd_group_abort(crew.region, 1, MT_EAGAIN, 0);
        for (uint32_t rank = 0; rank < 4; rank++) {
            int32_t code = crew_report(&crew, rank);
            assert_true(code == MT_OK || code == MT_EAGAIN);
        }
        board->stop_at = 0;
        board->leavers = 0;
        crew_order_all(&crew, 2, 2);
        reports_take(&crew, 2, UINT32_MAX, MT_OK);
        assert_true(board->began_at[2] == 5 || board->began_at[2] == 0);
        workers_end_with(&crew, 2);
        dismiss(&crew, 4);
        board_unmake(&crew);
    }
}

/* ---- checkpoints ---- */

static void run_from(struct crew *crew, const char *folder, bool zero, uint32_t members, uint32_t began_at)
{
    struct board *board = board_make(crew, zero, false);
    snprintf(board->folder, sizeof board->folder, "%s", folder);
    crew_run(crew, members);
    assert_int_equal(board->began_at[1], began_at);
    workers_end_with(crew, members);
    board_unmake(crew);
}

static void run_until(const char *folder, bool zero, uint32_t members)
{
    struct crew   crew;
    struct board *board = board_make(&crew, zero, false);
    snprintf(board->folder, sizeof board->folder, "%s", folder);
    board->save_every = 5;
    board->stop_at = 12;
    crew_run(&crew, members);
    board_unmake(&crew);
}

static void checkpoints_are_read_with_and_without_shards(void **state)
{
    struct crew crew;
    char        sharded[TEMP_PATH], whole[TEMP_PATH];
    temp_path(state, "sharded", sharded);
    temp_path(state, "whole", whole);
    run_until(sharded, true, 4);
    run_until(whole, false, 2);
    run_from(&crew, sharded, false, 2, 10);
    run_from(&crew, sharded, true, 3, 10);
    run_from(&crew, sharded, true, 1, 10);
    run_from(&crew, whole, true, 4, 10);
}

static void part_path(const char *folder, int step, int part, const char *end, char out[2 * TEMP_PATH])
{
    snprintf(out, 2 * TEMP_PATH, "%s/step-%020d/optimizer-%d-of-3.%s", folder, step, part, end);
}

/* One that is cut short, one that is not there, one of another step: the checkpoint before is taken. */
static void a_damaged_part_is_passed_over(void **state)
{
    char folder[TEMP_PATH], path[2 * TEMP_PATH], other[2 * TEMP_PATH];
    for (int damage = 0; damage < 4; damage++) {
        struct crew crew;
        char        name[8];
        snprintf(name, sizeof name, "%d", damage);
        temp_path(state, name, folder);
        run_until(folder, true, 3);
        part_path(folder, 10, 1, damage == 2 ? "json" : "safetensors", path);
        part_path(folder, 5, 1, "json", other);
        if (damage == 0) {
            assert_int_equal(truncate(path, 5000), 0);
        } else if (damage < 3) {
            assert_int_equal(unlink(path), 0);
        } else {
            part_path(folder, 10, 1, "json", path);
            assert_int_equal(rename(other, path), 0);
            part_path(folder, 5, 1, "safetensors", other);
            part_path(folder, 10, 1, "safetensors", path);
            assert_int_equal(rename(other, path), 0);
            run_from(&crew, folder, true, 2, 0); /* that of step 5 has lost its part */
            continue;
        }
        run_from(&crew, folder, true, 2, 5);
    }
}

static void nothing_but_checkpoints_is_left(void **state)
{
    char folder[TEMP_PATH];
    temp_path(state, "clean", folder);
    run_until(folder, true, 4);
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        assert_true(entry->d_name[0] == '.' ? entry->d_name[1] == 0 || entry->d_name[1] == '.'
                                            : strncmp(entry->d_name, "step-", 5) == 0);
    closedir(entries);
}

static size_t entries_count(const char *folder)
{
    size_t count = 0;
    DIR   *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

/* A part that will not come, since the generation is over or its writer has said that it can't: an error, and nothing is left. */
static void a_save_without_all_parts_ends(void **state)
{
    static const float         values[4] = {1, 2, 3, 4};
    char                       folder[TEMP_PATH], path[2 * TEMP_PATH];
    _Atomic bool               given_up = false;
    struct sgd_checkpoint_meta meta = {.step = 7, .generation = 3, .kernels = "none"};
    struct sgd_checkpoint_part part = {.index = 0, .parts = 2, .mark = 1, .given_up = &given_up};
    struct sgd_tensor          tensor = {.name = "w", .dtype = SGD_F32, .ndim = 1, .shape = {4}, .data = values};
    temp_path(state, "given", folder);
    assert_int_equal(sgd_checkpoint_save_part(folder, &meta, &part, NULL, 0).code, MT_OK);
    snprintf(path, sizeof path, "%s/.tmp-3-1-of-2-parts/optimizer-1-of-2.full", folder);
    file_put(path, "", 0);
    assert_int_equal(sgd_checkpoint_save_with_parts(folder, &(struct sgd_keep){0}, &meta, &part, &tensor, 1).code, MT_EDISK_FULL);
    assert_int_equal(entries_count(folder), 2); /* "." and ".." */
    atomic_store(&given_up, true);
    assert_int_equal(sgd_checkpoint_save_part(folder, &meta, &part, NULL, 0).code, MT_OK);
    assert_int_equal(sgd_checkpoint_save_with_parts(folder, &(struct sgd_keep){0}, &meta, &part, &tensor, 1).code, MT_ECANCELLED);
    assert_int_equal(entries_count(folder), 2);
}

/* ---- a gradient that breaks ---- */

static void a_broken_gradient_stops_all_before_the_update(void **state)
{
    struct crew   crew;
    struct board *board = board_make(&crew, true, true);
    (void)state;
    board->poison = NAN;
    hire(&crew, 0, 3);
    crew_order_all(&crew, 1, 3);
    reports_take(&crew, 3, UINT32_MAX, MT_ETASK);
    assert_int_equal(atomic_load(&board->steps_done), 2);
    dismiss(&crew, 3);
    board_unmake(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_give_the_same_weights_and_share_the_memory),
        cmocka_unit_test(a_death_with_a_backup_loses_no_step),
        cmocka_unit_test_setup_teardown(a_death_without_a_backup_goes_back_to_the_checkpoint, temp_make, temp_remove),
        cmocka_unit_test(growing_at_any_instant_loses_no_step),
        cmocka_unit_test(who_leaves_hands_its_shards_over),
        cmocka_unit_test(handing_over_may_end_at_any_instant),
        cmocka_unit_test_setup_teardown(checkpoints_are_read_with_and_without_shards, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(a_damaged_part_is_passed_over, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(nothing_but_checkpoints_is_left, temp_make, temp_remove),
        cmocka_unit_test_setup_teardown(a_save_without_all_parts_ends, temp_make, temp_remove),
        cmocka_unit_test(a_broken_gradient_stops_all_before_the_update),
    };
    return cmocka_run_group_tests(tests, reference_setup, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse_libraries_test.c - what a program can do wrong with the libraries above libmanta: collectives, training, sweeps, and the
 * client of jobs. Nothing crashes, hangs or gives rubbish.
 *
 * Thread: the driver's main one. Each case is a process of its own (harness.h).
 */
#include "clients/control/manta_client.h"
#include "sgd/manta_collective.h"
#include "sgd/manta_sgd.h"
#include "sweep/manta_sweep.h"
#include "tests/integration/bad_input/misuse.h"
#include "tests/unit/raylet/folder.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The call's error says which call, and which argument. */
#define CHECK_NULL(e, call, argument) \
    do { \
        CHECK_EQ((e).code, MANTA_EINVAL); \
        CHECK(strstr((e).message, call)); \
        CHECK(strstr((e).message, argument)); \
        memset(&(e), 0, sizeof(e)); \
    } while (0)

static void in_a_child(void (*fn)(void *), void *arg)
{
    int   status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fn(arg);
        _exit(42);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 42);
}

/* ---- collectives ---- */

static void collectives_of_nothing(void)
{
    manta_error e;
    CHECK(!manta_coll_group_new(NULL, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = -1}, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = 1 << 30}, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK(!manta_coll_join(NULL, 0, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK(!manta_coll_join(&(manta_coll_id){{0}}, 0, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    manta_coll_id rubbish;
    memset(&rubbish, 0x5a, sizeof rubbish);
    CHECK(!manta_coll_join(&rubbish, 0, &e));
    CHECK(e.code != MANTA_OK);
    manta_coll_id id;
    memset(&id, 0x5a, sizeof id);
    manta_coll_group_id(NULL, &id);
    CHECK(!manta_coll_join(&id, 0, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK_EQ(manta_coll_group_next(NULL, 1, &id, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_group_next", "group is NULL");
    CHECK_EQ(manta_coll_group_watch(NULL, 0, NULL, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_group_watch", "group is NULL");
    manta_coll_group_abort(NULL);
    manta_coll_group_free(NULL);
    manta_coll_leave(NULL);
    goes_on();
}
static void members_of_nothing(void)
{
    manta_error       e;
    float             x[4] = {0};
    uint64_t          flags = 0;
    manta_coll_id     id = {{0}};
    manta_coll_tensor tensor = {x, x, 4};
    CHECK_EQ(manta_coll_agree(NULL, &flags, NULL, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_agree", "coll is NULL");
    CHECK_EQ(manta_coll_shrink(NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_regroup(NULL, &id, 0, &e), MANTA_EINVAL);
    CHECK(!manta_coll_alloc(NULL, 64, &e));
    CHECK_NULL(e, "manta_coll_alloc", "coll is NULL");
    CHECK_EQ(manta_coll_register(NULL, x, 4096, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_unregister(NULL, x, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_all_reduce(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_reduce(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, 0, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_reduce_scatter(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_all_gather(NULL, x, x, 4, MANTA_COLL_F32, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_broadcast(NULL, x, 4, MANTA_COLL_F32, 0, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_all_to_all(NULL, x, x, 4, MANTA_COLL_F32, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_barrier(NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_all_reduce_many(NULL, &tensor, 1, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EINVAL);
    CHECK(!manta_coll_all_reduce_start(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e));
    CHECK_EQ(manta_coll_wait(NULL, 0, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_send(NULL, x, 4, MANTA_COLL_F32, 0, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_receive(NULL, x, 4, MANTA_COLL_F32, 0, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_receive", "coll is NULL");
    CHECK_EQ(manta_coll_send_receive(NULL, x, 4, 0, x, 4, 0, MANTA_COLL_F32, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_rank(NULL), -1);
    CHECK_EQ(manta_coll_size(NULL), 0);
    CHECK_EQ(manta_coll_generation(NULL), 0);
    manta_coll_abort(NULL);
    goes_on();
}
static void requests_of_nothing(void)
{
    manta_error       e;
    float             x[4] = {0};
    manta_coll_tensor tensor = {x, x, 4};
    CHECK(!manta_coll_all_reduce_many_start(NULL, &tensor, 1, MANTA_COLL_F32, MANTA_COLL_SUM, &e));
    CHECK_NULL(e, "manta_coll_all_reduce", "coll is NULL");
    CHECK(!manta_coll_reduce_scatter_start(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e));
    CHECK(!manta_coll_all_gather_start(NULL, x, x, 4, MANTA_COLL_F32, &e));
    CHECK(!manta_coll_broadcast_start(NULL, x, 4, MANTA_COLL_F32, 0, &e));
    CHECK_NULL(e, "manta_coll_broadcast", "coll is NULL");
    CHECK(manta_coll_test(NULL));
    CHECK_EQ(manta_coll_wait(NULL, MANTA_FOREVER, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_wait", "request is NULL");
}
static void communicators_of_nothing(void)
{
    manta_error e;
    float       x[4] = {0};
    CHECK(!manta_coll_gpu_join(NULL, NULL, &e));
    CHECK_NULL(e, "manta_coll_gpu_join", "coll is NULL");
    CHECK_EQ(manta_coll_gpu_renew(NULL, 0, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_gpu_renew", "gpu is NULL");
    CHECK_EQ(manta_coll_gpu_all_reduce(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, NULL, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_gpu_all_reduce", "gpu is NULL");
    CHECK_EQ(manta_coll_gpu_reduce_scatter(NULL, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_gpu_all_gather(NULL, x, x, 4, MANTA_COLL_F32, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_gpu_broadcast(NULL, x, 4, MANTA_COLL_F32, 0, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_gpu_all_to_all(NULL, x, x, 4, MANTA_COLL_F32, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_coll_gpu_wait(NULL, NULL, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_coll_gpu_wait", "gpu is NULL");
    manta_coll_gpu_leave(NULL);
}
/* A group of one, whose member is the driver. */
static manta_coll_group *group_of_one(void)
{
    manta_error       e;
    manta_coll_group *group = manta_coll_group_new(&(manta_coll_opts){.size = 1, .heap_bytes = 1 << 20}, &e);
    CHECK(group);
    return group;
}
static manta_coll *member_of(manta_coll_group *group)
{
    manta_error   e;
    manta_coll_id id;
    manta_coll_group_id(group, &id);
    manta_coll *coll = manta_coll_join(&id, 0, &e);
    CHECK(coll);
    return coll;
}
static void works(manta_coll *coll)
{
    manta_error e;
    float       x[4] = {1, 2, 3, 4};
    CHECK_CODE(manta_coll_all_reduce(coll, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_OK, &e);
    CHECK(x[3] == 4);
    CHECK_EQ(manta_coll_rank(coll), 0);
}
/* Each call with a group that is none says so. */
static void no_group(manta_coll_group *group, manta_status why)
{
    manta_error   e;
    manta_coll_id id;
    manta_coll_group_id(group, &id);
    CHECK(!manta_coll_join(&id, 0, &e));
    CHECK_EQ(e.code, MANTA_EINVAL);
    CHECK_CODE(manta_coll_group_next(group, 1, &id, &e), why, &e);
    CHECK_CODE(manta_coll_group_watch(group, 0, NULL, &e), why, &e);
    CHECK_SAYS(e.message, "manta_coll_group_watch");
    CHECK_SAYS(e.message, "group was freed before");
    manta_coll_group_abort(group);
    manta_coll_group_free(group);
}
static void group_kept(void)
{
    manta_coll_group *freed = group_of_one(), *group;
    manta_coll       *coll;
    manta_coll_group_free(freed);
    no_group(freed, MANTA_EHANDLE);
    for (int i = 0; i < 100; i++) { /* its memory and its place are others' by now */
        group = group_of_one();
        CHECK(group != freed);
        coll = member_of(group);
        no_group(freed, MANTA_EHANDLE);
        works(coll);
        no_group((manta_coll_group *)coll, MANTA_EHANDLE);
        manta_coll_leave(coll);
        manta_coll_group_free(group);
    }
    goes_on();
}
static void no_member(manta_coll *coll)
{
    manta_error       e;
    float             x[4] = {0};
    uint64_t          flags = 0;
    manta_coll_id     id = {{0}};
    manta_coll_tensor tensor = {x, x, 4};
    CHECK_CODE(manta_coll_agree(coll, &flags, NULL, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_shrink(coll, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_regroup(coll, &id, 0, &e), MANTA_EHANDLE, &e);
    CHECK(!manta_coll_alloc(coll, 64, &e));
    CHECK_EQ(e.code, MANTA_EHANDLE);
    CHECK_CODE(manta_coll_register(coll, x, 4096, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_unregister(coll, x, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_all_reduce(coll, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EHANDLE, &e);
    CHECK_SAYS(e.message, "coll has left before");
    CHECK_CODE(manta_coll_all_reduce_many(coll, &tensor, 1, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_barrier(coll, &e), MANTA_EHANDLE, &e);
    CHECK_CODE(manta_coll_send(coll, x, 4, MANTA_COLL_F32, 0, &e), MANTA_EHANDLE, &e);
    CHECK_SAYS(e.message, "manta_coll_send");
    CHECK(!manta_coll_all_reduce_start(coll, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e));
    CHECK_EQ(e.code, MANTA_EHANDLE);
    CHECK(!manta_coll_gpu_join(coll, NULL, &e));
    CHECK_EQ(e.code, MANTA_EHANDLE);
    CHECK_EQ(manta_coll_rank(coll), -1);
    CHECK_EQ(manta_coll_size(coll), 0);
    CHECK_EQ(manta_coll_generation(coll), 0);
    manta_coll_abort(coll);
    manta_coll_leave(coll);
}
static void member_kept(void)
{
    manta_coll_group *group = group_of_one();
    manta_coll       *left = member_of(group), *coll;
    manta_coll_leave(left);
    no_member(left);
    manta_coll_group_free(group);
    for (int i = 0; i < 100; i++) {
        group = group_of_one();
        coll = member_of(group);
        CHECK(coll != left);
        no_member(left);
        no_member((manta_coll *)group);
        works(coll);
        manta_coll_leave(coll);
        manta_coll_group_free(group);
    }
    goes_on();
}
static void request_kept(void)
{
    manta_error         e;
    float               x[4] = {1, 2, 3, 4};
    manta_coll_group   *group = group_of_one();
    manta_coll         *coll = member_of(group);
    manta_coll_request *first = manta_coll_all_reduce_start(coll, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), *next = NULL;
    CHECK_CODE(manta_coll_wait(first, MANTA_FOREVER, &e), MANTA_OK, &e);
    for (int i = 0; i < 1000; i++) {
        next = manta_coll_all_reduce_start(coll, x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e);
        CHECK(next && next != first);
        CHECK_CODE(manta_coll_wait(first, MANTA_FOREVER, &e), MANTA_EHANDLE, &e);
        CHECK_SAYS(e.message, "waited for before");
        CHECK(manta_coll_test(first));
        CHECK_CODE(manta_coll_wait((manta_coll_request *)coll, 0, &e), MANTA_EHANDLE, &e);
        if (i < 999)
            CHECK_CODE(manta_coll_wait(next, MANTA_FOREVER, &e), MANTA_OK, &e);
    }
    manta_coll_leave(coll); /* and `next` goes with it */
    CHECK_CODE(manta_coll_wait(next, MANTA_FOREVER, &e), MANTA_EHANDLE, &e);
    CHECK(manta_coll_test(next));
    manta_coll_group_free(group);
    goes_on();
}
static void collectives_of_rubbish(void)
{
    static char thing[64];
    manta_error e;
    uintptr_t   numbers[] = {1, 8, 0xffffffff, (uintptr_t)thing, 0xdeadbeefdeadbeef, 0x1b0000000, UINTPTR_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        no_group((manta_coll_group *)numbers[i], MANTA_EHANDLE);
        no_member((manta_coll *)numbers[i]);
        CHECK_CODE(manta_coll_wait((manta_coll_request *)numbers[i], MANTA_FOREVER, &e), MANTA_EHANDLE, &e);
        CHECK_CODE(manta_coll_gpu_wait((manta_coll_gpu *)numbers[i], NULL, &e), MANTA_EHANDLE, &e);
        CHECK_CODE(manta_coll_gpu_renew((manta_coll_gpu *)numbers[i], 0, &e), MANTA_EHANDLE, &e);
        CHECK_CODE(manta_coll_gpu_broadcast((manta_coll_gpu *)numbers[i], thing, 4, MANTA_COLL_F32, 0, NULL, &e), MANTA_EHANDLE,
                   &e);
        CHECK_SAYS(e.message, "manta_coll_gpu_broadcast");
        manta_coll_gpu_leave((manta_coll_gpu *)numbers[i]);
    }
    goes_on();
}
/* What its parent has: the group's memory is shared with the parent's, so no call may touch it. */
static void child_has_a_group(void *arg)
{
    manta_error        e;
    float              x[4] = {0};
    manta_coll_group **group = arg;
    CHECK_CODE(manta_coll_all_reduce((manta_coll *)group[1], x, x, 4, MANTA_COLL_F32, MANTA_COLL_SUM, &e), MANTA_EFORKED, &e);
    CHECK_CODE(manta_coll_group_watch(group[0], 0, NULL, &e), MANTA_EFORKED, &e);
    manta_coll_abort((manta_coll *)group[1]);
    manta_coll_leave((manta_coll *)group[1]);
    manta_coll_group_abort(group[0]);
    manta_coll_group_free(group[0]);
}
static void group_of_the_parent(void)
{
    manta_coll_group *group = group_of_one();
    manta_coll       *coll = member_of(group);
    in_a_child(child_has_a_group, (manta_coll_group *[]){group, (manta_coll_group *)coll});
    works(coll);
    manta_coll_leave(coll);
    manta_coll_group_free(group);
    goes_on();
}
static void child_makes_a_group(void *arg)
{
    manta_error e;
    (void)arg;
    CHECK(!manta_coll_group_new(&(manta_coll_opts){.size = 2, .heap_bytes = 1 << 20}, &e));
    CHECK_EQ(e.code, MANTA_EFORKED);
}
static void collectives_in_a_fork(void)
{
    in_a_child(child_makes_a_group, NULL);
    goes_on();
}

/* ---- training ---- */

static void training_of_nothing(void)
{
    manta_error      e;
    manta_sgd_result result;
    manta_sgd_opts   opts = {.seed = 1};
    CHECK(manta_sgd_fit(NULL, NULL, NULL, &e) != MANTA_OK);
    CHECK_EQ(manta_sgd_fit(NULL, &opts, &result, &e), MANTA_EINVAL);
    CHECK_EQ(manta_sgd_fit("no such operator", &opts, &result, &e), MANTA_EINVAL);
    CHECK_EQ(manta_sgd_check(NULL, &opts, &e), MANTA_EINVAL);
    CHECK(manta_sgd_check("mlp", NULL, NULL) >= MANTA_OK);
    CHECK(manta_sgd_attach(NULL, NULL, NULL, &result, &e) != MANTA_OK);
    CHECK(manta_sgd_attach("no such run", NULL, NULL, NULL, &e) != MANTA_OK);
    goes_on();
}
/* What an operator may call, with one that is none: each says so by `why`, or gives what a caller can go on with. */
static void nothing_is_done(manta_sgd *t, manta_status why)
{
    float               *value = NULL, *gradient = NULL;
    manta_sgd_data_shape info;
    int64_t              shape[1] = {4};
    CHECK(!manta_sgd_alloc(t, 64));
    CHECK_EQ(manta_sgd_conf_i64(t, "x", 7), 7);
    CHECK(manta_sgd_conf_f64(t, "x", 0.5) == 0.5);
    CHECK(strcmp(manta_sgd_conf_str(t, "x", "y"), "y") == 0);
    CHECK_EQ(manta_sgd_param(t, "w", MANTA_SGD_F32, 1, shape, &value, &gradient), why);
    CHECK_EQ(manta_sgd_data(t, "x", &(manta_sgd_data_opts){.validate = true}), why);
    CHECK(!manta_sgd_data_info(t, true, &info));
    CHECK_EQ(manta_sgd_metric(t, "loss", 1.0), why);
    CHECK_EQ(manta_sgd_ready(t, &gradient, 0, 0), why);
    CHECK_EQ(manta_sgd_fail(t, t ? MANTA_ETASK : MANTA_EINVAL, "why"), why); /* of NULL it gives the code back */
    manta_sgd_devices_max(t, 1);
    manta_sgd_gpus(t, 1);
    CHECK_EQ(manta_sgd_device(t), 0);
    CHECK_EQ(manta_sgd_device_count(t), 0);
    CHECK(!manta_sgd_is_driver(t));
    CHECK_EQ(manta_sgd_seed(t), 0);
    CHECK_EQ(manta_sgd_batch_max(t), 0);
    CHECK_EQ(manta_sgd_step(t), 0);
}
static void operator_of_nothing(void)
{
    nothing_is_done(NULL, MANTA_EINVAL);
    CHECK_EQ(manta_sgd_data(NULL, NULL, NULL), MANTA_EINVAL);
}
static manta_sgd *kept;
static float     *kept_value, *kept_gradient;

static manta_status keeps_setup(manta_sgd *t, void **self)
{
    (void)self;
    kept = t;
    return manta_sgd_param(t, "w", MANTA_SGD_F32, 1, (const int64_t[]){4}, &kept_value, &kept_gradient);
}
static manta_status keeps_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    (void)self, (void)b;
    return manta_sgd_metric(t, "loss", 1.0);
}
MANTA_SGD_OPERATOR(keeps, .setup = keeps_setup, .train_batch = keeps_train);

/* Its setup has given the operator away, and the run is over. */
static void operator_kept(void)
{
    manta_error e;
    (void)manta_sgd_check("keeps", &(manta_sgd_opts){.seed = 1}, &e); /* it has no data: that is told, or not */
    CHECK(kept);
    nothing_is_done(kept, MANTA_EHANDLE);
}
/* And another one is there by now: it is not taken for that. */
static void operator_kept_beside_another(void)
{
    manta_error e;
    manta_sgd  *before;
    for (int i = 0; i < 100; i++) {
        before = kept;
        (void)manta_sgd_check("keeps", &(manta_sgd_opts){.seed = 1}, &e);
        CHECK(kept && kept != before);
    }
}
static void operator_of_rubbish(void)
{
    static char thing[64];
    nothing_is_done((manta_sgd *)(void *)thing, MANTA_EHANDLE);
    nothing_is_done((manta_sgd *)(uintptr_t)1, MANTA_EHANDLE);
    nothing_is_done((manta_sgd *)UINTPTR_MAX, MANTA_EHANDLE);
}
static void child_trains(void *arg)
{
    manta_error      e;
    manta_sgd_result result;
    (void)arg;
    CHECK_EQ(manta_sgd_fit("mlp", &(manta_sgd_opts){.seed = 1}, &result, &e), MANTA_EFORKED);
}
static void training_in_a_fork(void)
{
    in_a_child(child_trains, NULL);
    goes_on();
}

/* ---- sweeps ---- */

static manta_status tries(manta_trial *t)
{
    (void)manta_trial_report(t, 1, "loss", 1.0);
    return MANTA_OK;
}
MANTA_TRIAL(tries);

/* That of the trial before, in the same process: it is over. */
static manta_status keeps_trial(manta_trial *t)
{
    static manta_trial *before;
    bool                is_told = !before || (before != t && manta_trial_fail(before, "x") == MANTA_EHANDLE &&
                               manta_trial_report(before, 1, "loss", -2.0) == MANTA_TRIAL_STOP && manta_trial_number(before) == 0);
    before = t;
    (void)manta_trial_report(t, 1, "loss", is_told ? 1.0 : -1.0);
    return MANTA_OK;
}
MANTA_TRIAL(keeps_trial);

static manta_sweep_opts sweep_opts(void)
{
    static const manta_sweep_axis space[] = {{.kind = MANTA_SWEEP_AXIS_UNIFORM, .name = "x", .low = 0, .high = 1},
                                             {.kind = MANTA_SWEEP_AXIS_END}};
    return (manta_sweep_opts){.name = "misused", .space = space, .metric = "loss", .trials = 1};
}
static void sweep_of_nothing(void)
{
    manta_error        e;
    manta_sweep_result result;
    manta_sweep_opts   opts = sweep_opts();
    CHECK_EQ(manta_sweep_run(NULL, NULL, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_sweep_run("tries", NULL, &result, &e), MANTA_EINVAL);
    CHECK(manta_sweep_run(NULL, &opts, &result, &e) != MANTA_OK);
    CHECK_EQ(manta_sweep_run("no such trial", &opts, &result, &e), MANTA_ENOFUNC);
    opts.space = NULL;
    CHECK(manta_sweep_run("tries", &opts, &result, &e) != MANTA_OK || result.trials >= 0);
    CHECK(manta_sweep_tell(NULL, NULL, 0, 0, &e) != MANTA_OK);
    CHECK(manta_sweep_tell("/nowhere", "x", 77, 0, &e) != MANTA_OK);
    goes_on();
}
static void trial_kept(void)
{
    manta_error        e;
    manta_sweep_result result;
    manta_sweep_opts   opts = sweep_opts();
    char               storage[] = "/tmp/manta-misuse-XXXXXX";
    CHECK(mkdtemp(storage));
    opts.storage = storage;
    opts.trials = 40;
    CHECK_CODE(manta_sweep_run("keeps_trial", &opts, &result, &e), MANTA_OK, &e);
    CHECK_EQ(result.completed, 40);
    CHECK(result.best == 1.0);
    CHECK(folder_remove(storage));
}
/* Seen once and freed twice, and looked at in between. */
static void view_kept(void)
{
    char               storage[] = "/tmp/manta-misuse-XXXXXX";
    manta_error        e;
    manta_sweep_result result;
    manta_sweep_weight weight;
    manta_sweep_opts   opts = sweep_opts();
    CHECK(mkdtemp(storage));
    opts.storage = storage;
    CHECK_CODE(manta_sweep_run("tries", &opts, &result, &e), MANTA_OK, &e);
    manta_sweep_view *view = manta_sweep_look(storage, "misused", &e), *second = manta_sweep_look(storage, "misused", &e);
    CHECK(view && second);
    CHECK_EQ(view->count, 1);
    manta_sweep_view_free(view);
    manta_sweep_view_free(view);
    CHECK_CODE(manta_sweep_export(view, "csv", stderr, &e), MANTA_EHANDLE, &e);
    CHECK(strstr(e.message, "manta_sweep_export") && strstr(e.message, "freed before"));
    CHECK_EQ(manta_sweep_importance(view, NULL, &weight, 1, &e), -1);
    CHECK_EQ(e.code, MANTA_EHANDLE);
    for (int i = 0; i < 100; i++) { /* others come and go where it stood */
        manta_sweep_view *other = manta_sweep_look(storage, "misused", &e);
        CHECK(other && other != view);
        manta_sweep_view_free(view);
        CHECK_CODE(manta_sweep_export(view, "csv", stderr, &e), MANTA_EHANDLE, &e);
        CHECK_EQ(other->count, 1);
        manta_sweep_view_free(other);
    }
    CHECK_CODE(manta_sweep_export(second, "csv", stderr, &e), MANTA_OK, &e);
    manta_sweep_view_free(second);
    CHECK(folder_remove(storage));
}
static void view_of_rubbish(void)
{
    static manta_sweep_view thing;
    manta_error             e;
    manta_sweep_weight      weight;
    manta_sweep_view       *views[] = {&thing, (manta_sweep_view *)(uintptr_t)8, (manta_sweep_view *)UINTPTR_MAX};
    for (int i = 0; i < 3; i++) {
        CHECK_CODE(manta_sweep_export(views[i], "csv", stderr, &e), MANTA_EHANDLE, &e);
        CHECK_EQ(manta_sweep_importance(views[i], NULL, &weight, 1, &e), -1);
        CHECK_EQ(e.code, MANTA_EHANDLE);
        manta_sweep_view_free(views[i]);
    }
}
static void looks_of_nothing(void)
{
    manta_error        e;
    manta_sweep_weight weight;
    CHECK(!manta_sweep_look(NULL, NULL, &e));
    CHECK(!manta_sweep_look("/nowhere", "x", &e));
    CHECK_EQ(e.code, MANTA_ENOENT);
    manta_sweep_view_free(NULL);
    CHECK_EQ(manta_sweep_export(NULL, "csv", stderr, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_sweep_export", "view is NULL");
    CHECK_EQ(manta_sweep_importance(NULL, NULL, &weight, 1, &e), -1);
    CHECK_NULL(e, "manta_sweep_importance", "view is NULL");
    CHECK(manta_sweep_params(NULL, NULL, NULL) <= 0);
    CHECK_EQ(manta_sweep_names("/nowhere", NULL, NULL), 0);
}
static void trial_of_nothing(void)
{
    size_t  size;
    int64_t step;
    CHECK(manta_trial_f64(NULL, "x") == 0);
    CHECK_EQ(manta_trial_i64(NULL, "x"), 0);
    CHECK(strcmp(manta_trial_str(NULL, "x"), "") == 0);
    CHECK(!manta_trial_has(NULL, "x"));
    CHECK(strcmp(manta_trial_params(NULL), "{}") == 0);
    CHECK_EQ(manta_trial_number(NULL), 0);
    CHECK_EQ(manta_trial_attempt(NULL), 0);
    CHECK_EQ(manta_trial_seed(NULL), 0);
    CHECK_EQ(manta_trial_report(NULL, 1, "loss", 1.0), MANTA_TRIAL_STOP);
    CHECK_EQ(manta_trial_save(NULL, 1, "x", 1), MANTA_EINVAL);
    CHECK_EQ(manta_trial_load(NULL, NULL, 0), 0);
    CHECK(!manta_trial_dir(NULL));
    CHECK(!manta_trial_state(NULL, &size, &step));
    CHECK(!manta_trial_data(NULL, &size));
    CHECK_EQ(manta_trial_fail(NULL, "x"), MANTA_EINVAL);
}
static void trial_of_rubbish(void)
{
    static char  thing[64];
    manta_trial *trials[] = {(manta_trial *)(void *)thing, (manta_trial *)(uintptr_t)8, (manta_trial *)UINTPTR_MAX};
    for (int i = 0; i < 3; i++) {
        manta_trial *t = trials[i];
        size_t       size;
        int64_t      step;
        CHECK(manta_trial_f64(t, "x") == 0);
        CHECK(strcmp(manta_trial_str(t, "x"), "") == 0);
        CHECK(!manta_trial_has(t, "x"));
        CHECK(strcmp(manta_trial_params(t), "{}") == 0);
        CHECK_EQ(manta_trial_number(t), 0);
        CHECK_EQ(manta_trial_report(t, 1, "loss", 1.0), MANTA_TRIAL_STOP);
        CHECK_EQ(manta_trial_save(t, 1, "x", 1), MANTA_EHANDLE);
        CHECK_EQ(manta_trial_load(t, NULL, 0), 0);
        CHECK(!manta_trial_dir(t));
        CHECK(!manta_trial_state(t, &size, &step));
        CHECK(!manta_trial_data(t, &size));
        CHECK_EQ(manta_trial_fail(t, "x"), MANTA_EHANDLE);
    }
}
static void child_sweeps(void *arg)
{
    manta_error        e;
    manta_sweep_result result;
    CHECK_EQ(manta_sweep_run("tries", arg, &result, &e), MANTA_EFORKED);
}
static void sweep_in_a_fork(void)
{
    manta_sweep_opts opts = sweep_opts();
    in_a_child(child_sweeps, &opts);
    goes_on();
}

/* ---- the client of jobs ---- */

static void client_of_nothing(void)
{
    manta_error         e;
    manta_job_info      info, *jobs;
    manta_cluster_node *nodes;
    manta_rows         *rows;
    size_t              count;
    CHECK(!manta_client_open(&(manta_client_opts){.address = "no address at all"}, &e));
    manta_client_close(NULL);
    CHECK_EQ(manta_job_submit(NULL, NULL, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_job_submit", "job is NULL");
    CHECK_EQ(manta_job_submit(NULL, &(manta_job){.id = "j", .argv = (const char *const[]){"x", NULL}}, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_job_submit", "client is NULL");
    CHECK_EQ(manta_job_follow(NULL, NULL, NULL, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_job_wait(NULL, NULL, 0, &info, &e), MANTA_EINVAL);
    CHECK_EQ(manta_job_get(NULL, "x", &info, &e), MANTA_EINVAL);
    CHECK_EQ(manta_job_stop(NULL, "x", &e), MANTA_EINVAL);
    CHECK_EQ(manta_job_delete(NULL, "x", &e), MANTA_EINVAL);
    CHECK_EQ(manta_job_list(NULL, &jobs, &count, &e), MANTA_EINVAL);
    CHECK_EQ(manta_nodes_list(NULL, &nodes, &count, NULL, &e), MANTA_EINVAL);
    CHECK_EQ(manta_state_list(NULL, NULL, &rows, &e), MANTA_EINVAL);
    CHECK_EQ(manta_state_each(NULL, NULL, NULL, NULL, &rows, &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_state_each", "client is NULL");
    CHECK_EQ(manta_cluster_stop(NULL, "x", &e), MANTA_EINVAL);
    CHECK_NULL(e, "manta_cluster_stop", "client is NULL");
    manta_rows_free(NULL);
    manta_rows_free(&(manta_rows){0});
    manta_rows_free((manta_rows *)(uintptr_t)8);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(collectives_of_nothing),
        CASE(members_of_nothing),
        CASE(requests_of_nothing, .no_init = true),
        CASE(communicators_of_nothing, .no_init = true),
        CASE(operator_of_nothing, .no_init = true),
        CASE(collectives_in_a_fork),
        CASE(group_kept),
        CASE(member_kept),
        CASE(request_kept),
        CASE(collectives_of_rubbish),
        CASE(group_of_the_parent),
        CASE(operator_kept_beside_another, .no_init = true),
        CASE(trial_kept),
        CASE(operator_kept, .no_init = true),
        CASE(operator_of_rubbish, .no_init = true),
        CASE(training_of_nothing),
        CASE(training_in_a_fork),
        CASE(view_kept),
        CASE(view_of_rubbish, .no_init = true),
        CASE(trial_of_rubbish, .no_init = true),
        CASE(sweep_of_nothing),
        CASE(looks_of_nothing),
        CASE(trial_of_nothing, .no_init = true),
        CASE(sweep_in_a_fork),
        CASE(client_of_nothing, .no_init = true),
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}

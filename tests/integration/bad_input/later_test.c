/* SPDX-License-Identifier: Apache-2.0
 *
 * later_test.c - a program that was built against the headers of a later release: its new options stand in the words that are
 * reserved here. Each call refuses them and says so; none ignores them. What the library fills has 0 in these words.
 *
 * Thread: the driver's main one. Each case is a process of its own (harness.h).
 */
#include "clients/control/manta_client.h"
#include "sgd/manta_collective.h"
#include "sgd/manta_sgd.h"
#include "sweep/manta_sweep.h"
#include "tests/integration/bad_input/misuse.h"

/* The last word of those that are reserved: a check of the first ones alone would not do. */
#define LATER        .reserved[3] = 1
#define SAYS_SO(e)   CHECK_SAYS((e).message, "reserved")
#define IS_ZERO(out) CHECK(is_zero((out).reserved, sizeof(out).reserved))

static bool is_zero(const uint64_t *words, size_t size)
{
    for (size_t i = 0; i < size / sizeof *words; i++)
        if (words[i])
            return false;
    return true;
}

#define CHECK_REFUSED(call) \
    do { \
        manta_error e_; \
        CHECK_CODE(call, MANTA_EINVAL, &e_); \
        SAYS_SO(e_); \
    } while (0)
#define CHECK_NONE(call) \
    do { \
        manta_error e_ = {.code = MANTA_OK}; \
        CHECK(!(call)); \
        CHECK_EQ(e_.code, MANTA_EINVAL); \
        SAYS_SO(e_); \
    } while (0)
#define CHECK_REF(call) \
    do { \
        manta_error e_; \
        CHECK_FAILS(call, MANTA_EINVAL, &e_); \
        SAYS_SO(e_); \
    } while (0)

static void options_of_tasks(void)
{
    manta_ref      *ref = ready_ref();
    manta_buffer    buffer;
    manta_error     e;
    manta_task_opts later = {LATER};
    int64_t         item = 1, result;
    CHECK_REF(add_remote(&later, 1, 2));
    CHECK_REF(manta_call("add", &later, MANTA_ARGS(manta_i64(1), manta_i64(2))));
    CHECK_REFUSED(manta_map("misuse_shared", &later, &item, 1, sizeof item, 1, &result, sizeof result, &e_));
    manta_generator *g = manta_call_stream("counts", &later, MANTA_ARGS(manta_i64(3)));
    CHECK_CODE(manta_next(g, TEST_WAIT_MS, &(manta_view){.data = NULL}, &e), MANTA_EINVAL, &e);
    SAYS_SO(e);
    manta_generator_free(g);
    CHECK_REFUSED(manta_cancel(ref, &(manta_cancel_opts){LATER}, &e_));
    CHECK_REF(manta_put_with("x", 1, &(manta_put_opts){LATER}));
    CHECK_REFUSED(manta_create_with(1, &(manta_put_opts){LATER}, &buffer, &e_));
    CHECK_NONE(manta_env_new(&(manta_runtime_env){LATER}, &e_));
    CHECK_NONE(manta_pg_new(&(manta_bundle){.num_cpus = 1}, 1, &(manta_pg_opts){LATER}, &e_));
    CHECK_NONE(manta_pg_new(&(manta_bundle){.num_cpus = 1, LATER}, 1, NULL, &e_));
    manta_free(ref);
    goes_on();
}

static void options_of_actors(void)
{
    manta_actor *wrong = manta_actor_new("thing", &(manta_actor_opts){LATER}, MANTA_NO_ARGS);
    manta_actor *actor = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    CHECK_REF(manta_actor_call(wrong, "one", MANTA_NO_ARGS));
    CHECK_REF(manta_actor_call_with(actor, "one", &(manta_actor_call_opts){LATER}, MANTA_NO_ARGS));
    CHECK_I64(manta_actor_call(actor, "one", MANTA_NO_ARGS), 1);
    manta_actor_free(wrong);
    manta_actor_free(actor);
}

static void options_of_init(void)
{
    CHECK_REFUSED(manta_init(&test_argc, &test_argv, &(manta_init_opts){LATER}, &e_));
    CHECK(!manta_is_initialized());
}

static manta_status returns_one(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
static void function_registered(void)
{
    static manta_entry entry = {.name = "later", .signature = ">l", .run = returns_one, LATER};
    manta_register(&entry);
    CHECK_REFUSED(manta_init(&test_argc, &test_argv, NULL, &e_));
}
static void actor_type_registered(void)
{
    static manta_actor_type type = {.name = "later", .signature = "", .create = thing_new, LATER};
    manta_register_actor(&type);
    CHECK_REFUSED(manta_init(&test_argc, &test_argv, NULL, &e_));
}

static void options_of_trainings(void)
{
    manta_sgd_tracker tracker = {LATER};
    manta_sgd_opts    later[] = {{LATER},
                                 {.scaling = {LATER}},
                                 {.run = {LATER}},
                                 {.failure = {LATER}},
                                 {.checkpoint = {LATER}},
                                 {.optimizer = {LATER}},
                                 {.tracker = &tracker}};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        CHECK_REFUSED(manta_sgd_check("mlp", &later[i], &e_));
        CHECK_REFUSED(manta_sgd_fit("mlp", &later[i], NULL, &e_));
    }
    CHECK_NONE(manta_coll_group_new(&(manta_coll_opts){.size = 1, LATER}, &e_));
}

static manta_status setup_later(manta_sgd *t, void **self)
{
    float *value, *gradient;
    (void)self;
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &(int64_t){1}, &value, &gradient);
    return manta_sgd_data(t, "/nowhere", &(manta_sgd_data_opts){.record = 8, LATER});
}
static manta_status batch_never(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    (void)t, (void)self, (void)b;
    return MANTA_OK;
}
MANTA_SGD_OPERATOR(data_later, .setup = setup_later, .train_batch = batch_never);
MANTA_SGD_OPERATOR(operator_later, .setup = setup_later, .train_batch = batch_never, LATER);

static void operators_registered(void)
{
    CHECK_REFUSED(manta_sgd_check("data_later", NULL, &e_));
    CHECK_REFUSED(manta_sgd_check("operator_later", NULL, &e_));
}

static manta_status trial_never(manta_trial *t)
{
    return manta_trial_report(t, 1, "loss", 1) ? MANTA_OK : MANTA_OK;
}
MANTA_TRIAL(trial_never);

static void options_of_sweeps(void)
{
    const manta_sweep_axis *space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1));
    const manta_sweep_axis *later = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1, LATER));
    manta_sweep_command     command = {.argv = (const char *const[]){"true", NULL}, LATER};
    CHECK_REFUSED(
        manta_sweep_run("trial_never", &(manta_sweep_opts){.metric = "loss", .trials = 1, .space = space, LATER}, NULL, &e_));
    CHECK_REFUSED(manta_sweep_run("trial_never", &(manta_sweep_opts){.metric = "loss", .trials = 1, .space = later}, NULL, &e_));
    CHECK_REFUSED(
        manta_sweep_run(NULL, &(manta_sweep_opts){.metric = "loss", .trials = 1, .space = space, .command = &command}, NULL, &e_));
    manta_sweep_view                  view = {.importance = "fanova", .mode = "min", .seed = "0"};
    const manta_sweep_importance_opts weigh = {LATER};
    manta_error                       e;
    CHECK_EQ(manta_sweep_importance(&view, &weigh, NULL, 0, &e), -1);
    SAYS_SO(e);
}

static void options_of_clients(void)
{
    CHECK_NONE(manta_client_open(&(manta_client_opts){.address = "/nowhere", LATER}, &e_));
    CHECK_REFUSED(manta_job_submit(NULL, &(manta_job){.id = "x", .argv = (const char *const[]){"true", NULL}, LATER}, &e_));
}

/* ---- what the library fills ---- */

static void died(void *user, const manta_death *death)
{
    bool *is_clean = user;
    *is_clean = is_zero(death->reserved, sizeof death->reserved);
}

static void what_is_filled(void)
{
    manta_error     e;
    manta_node_info nodes[2];
    manta_actor    *actor = manta_actor_new("thing", NULL, MANTA_NO_ARGS);
    bool            is_clean = false;
    uint64_t        watch;
    memset(&e, 0xff, sizeof e);
    CHECK_FAILS(manta_call("nobody", NULL, MANTA_NO_ARGS), MANTA_ENOFUNC, &e);
    IS_ZERO(e);
    memset(nodes, 0xff, sizeof nodes);
    CHECK_EQ(manta_nodes(nodes, 2, &e), 1);
    IS_ZERO(nodes[0]);
    CHECK(nodes[1].reserved[0] == UINT64_MAX); /* not a byte beyond the last one */
    CHECK_CODE(manta_actor_watch(actor, died, &is_clean, &watch, &e), MANTA_OK, &e);
    CHECK_I64(manta_actor_call(actor, "one", MANTA_NO_ARGS), 1);
    manta_actor_kill(actor, false);
    for (int i = 0; i < TEST_WAIT_MS / 10 && !is_clean; i++)
        test_sleep_ms(10);
    CHECK(is_clean);
    manta_unwatch(watch);
    manta_actor_free(actor);
}

static manta_status looks_at_itself(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_runtime at;
    (void)argc, (void)argv;
    memset(&at, 0xff, sizeof at);
    manta_runtime_of(c, &at);
    return manta_return_bool(c, is_zero(at.reserved, sizeof at.reserved) && at.pid > 0);
}
MANTA_REGISTER(looks_at_itself, ">b");

static void what_a_task_is_told(void)
{
    manta_error e;
    bool        is_clean = false;
    manta_ref  *ref = manta_call("looks_at_itself", NULL, MANTA_NO_ARGS);
    CHECK_CODE(manta_get_bool(ref, TEST_WAIT_MS, &is_clean, &e), MANTA_OK, &e);
    CHECK(is_clean);
    manta_free(ref);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(options_of_tasks),
        CASE(options_of_actors),
        CASE(options_of_init, .no_init = true),
        CASE(function_registered, .no_init = true),
        CASE(actor_type_registered, .no_init = true),
        CASE(options_of_trainings),
        CASE(operators_registered),
        CASE(options_of_sweeps),
        CASE(options_of_clients),
        CASE(what_is_filled),
        CASE(what_a_task_is_told),
        {.name = NULL},
    };
    return test_main(argc, argv, cases);
}

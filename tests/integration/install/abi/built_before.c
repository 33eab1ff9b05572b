/* SPDX-License-Identifier: Apache-2.0
 *
 * built_before.c - a program of the last release: built against its headers, run with the present libraries. It hands over every
 * kind of struct, and sees that nothing behind them is touched.
 */
#include <dlfcn.h>
#include <manta.h>
#include <manta_client.h>
#include <manta_collective.h>
#include <manta_sgd.h>
#include <manta_sweep.h>
#include <stdlib.h>
#include <string.h>

#define MUST(what) \
    do { \
        if (!(what)) \
            return fprintf(stderr, "%s:%d: not true: %s: %s\n", __FILE__, __LINE__, #what, e.message), 1; \
    } while (0)

enum { WAIT_MS = 30 * 1000 };

MANTA_TASK(double, scale, (double, x), (int64_t, n))
{
    return x * (double)n;
}

static int64_t      total;
static manta_status counter_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc;
    total = argv[0].l;
    *self = &total;
    return MANTA_OK;
}
static manta_status counter_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, total += argv[0].l);
}
MANTA_ACTOR(counter, "l", counter_new, NULL, {"add", "l>l", counter_add});

static manta_status where(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct {
        manta_runtime is;
        unsigned char behind[256];
    } at;
    (void)argc, (void)argv;
    memset(&at, 0x5a, sizeof at);
    manta_runtime_of(c, &at.is);
    for (size_t i = 0; i < sizeof at.behind; i++)
        if (at.behind[i] != 0x5a)
            return manta_fail(c, 1, "byte %zu behind manta_runtime was written", i);
    return manta_return_str(c, at.is.function);
}
MANTA_REGISTER(where, ">s");

static manta_status trial(manta_trial *t)
{
    return manta_trial_report(t, 1, "loss", manta_trial_f64(t, "x")) == MANTA_TRIAL_STOP ? MANTA_OK : MANTA_OK;
}
MANTA_TRIAL(trial);

static int tasks(void)
{
    manta_error     e = {.code = MANTA_OK};
    manta_task_opts opts = {.num_cpus = 1, .max_retries = MANTA_NO_RETRY};
    double          y = 0;
    int64_t         sum = 0;
    manta_view      view;
    manta_ref      *ref = scale_remote(&opts, 2.0, 21);
    MUST(manta_get_f64(ref, WAIT_MS, &y, &e) == MANTA_OK && y == 42.0);
    manta_free(ref);
    ref = manta_call("where", NULL, MANTA_NO_ARGS);
    MUST(manta_get(ref, WAIT_MS, &view, &e) == MANTA_OK && strcmp(view.data, "where") == 0);
    manta_release(&view);
    manta_free(ref);
    ref = manta_put_with("value", 6, &(manta_put_opts){.checksum = true});
    MUST(manta_get(ref, WAIT_MS, &view, &e) == MANTA_OK && strcmp(view.data, "value") == 0);
    manta_release(&view);
    manta_free(ref);
    manta_actor *actor = manta_actor_new("counter", &(manta_actor_opts){.max_restarts = 1}, MANTA_ARGS(manta_i64(40)));
    ref = manta_actor_call(actor, "add", MANTA_ARGS(manta_i64(2)));
    MUST(manta_get_i64(ref, WAIT_MS, &sum, &e) == MANTA_OK && sum == 42);
    manta_free(ref);
    manta_actor_free(actor);
    manta_pg *pg = manta_pg_new(&(manta_bundle){.num_cpus = 1}, 1, &(manta_pg_opts){.strategy = MANTA_PG_PACK}, &e);
    MUST(pg && manta_pg_wait(pg, WAIT_MS, &e) == MANTA_OK);
    manta_pg_free(pg);
    return 0;
}

/* The present symbols take the structs of then, however they were found. */
static int found_by_name(void)
{
    manta_error e = {.code = MANTA_OK};
    manta_ref *(*call)(const char *, const manta_task_opts *, int, const manta_arg *);
    double y = 0;
    *(void **)&call = dlsym(RTLD_DEFAULT, "manta_call");
    MUST(call && call == &manta_call);
    manta_ref *ref = call("scale", &(manta_task_opts){.num_cpus = 1}, MANTA_ARGS(manta_f64(0.5), manta_i64(84)));
    MUST(manta_get_f64(ref, WAIT_MS, &y, &e) == MANTA_OK && y == 42.0);
    manta_free(ref);
    return 0;
}

static int above(void)
{
    manta_error        e = {.code = MANTA_OK};
    manta_sweep_result result;
    manta_sweep_opts   sweep = {.storage = getenv("BUILT_BEFORE"),
                                .metric = "loss",
                                .trials = 2,
                                .concurrency = 1,
                                .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1))};
    manta_sgd_opts     training = {.scaling = {.max_workers = 2}, .config = (const char *[]){"data=/nowhere", NULL}};
    MUST(manta_sweep_run("trial", &sweep, &result, &e) == MANTA_OK && result.completed == 2);
    manta_sweep_view *view = manta_sweep_look(sweep.storage, "sweep", &e);
    MUST(view && view->count == 2 && view->trials[1].has_value && view->report_count == 2);
    manta_sweep_view_free(view);
    MUST(manta_sgd_check("mlp", &training, &e) == MANTA_ENOENT);
    manta_coll_group *group = manta_coll_group_new(&(manta_coll_opts){.size = 1}, &e);
    MUST(group);
    manta_coll_group_free(group);
    MUST(!manta_client_open(&(manta_client_opts){.address = "/nowhere"}, &e) && e.code);
    return 0;
}

int main(int argc, char **argv)
{
    struct {
        manta_node_info node;
        unsigned char   behind[256];
    } at;
    manta_error     e = {.code = MANTA_OK};
    manta_init_opts opts = {.num_cpus = 2};
    if (manta_init(&argc, &argv, &opts, &e))
        return manta_perror(&e);
    memset(&at, 0x5a, sizeof at);
    MUST(manta_nodes(&at.node, 1, &e) == 1 && at.node.cpus == 2);
    for (size_t i = 0; i < sizeof at.behind; i++)
        MUST(at.behind[i] == 0x5a);
    return tasks() || found_by_name() || above() || manta_shutdown();
}

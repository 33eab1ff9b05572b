/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_test.c - sweeps through the public API: what they find, that they resume, and what happens to bad input.
 */
#include <manta_sweep.h>

#include "tests/integration/cluster/nodes.h"
#include "tests/integration/harness.h"
#include "tests/integration/sweep/storage.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- trials ---- */

static double bowl(manta_trial *t)
{
    double x = manta_trial_f64(t, "x") - 0.3;
    return x * x;
}

static manta_status quick(manta_trial *t)
{
    manta_trial_report(t, 1, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(quick);

static manta_status steps(manta_trial *t)
{
    int64_t i = 0, first = manta_trial_load(t, &i, sizeof i);
    if (first != i)
        return manta_trial_fail(t, "it goes on at %lld with the state of %lld", (long long)first, (long long)i);
    while (i < 27) {
        double value = bowl(t) + 1.0 / (double)(++i);
        manta_trial_save(t, i, &i, sizeof i);
        if (manta_trial_report(t, i, "loss", value) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}
MANTA_TRIAL(steps);

/* Waits until the sweep's journal, as anybody sees it, has so many steps of this trial; and with them what it had saved before. */
static void journal_await(manta_trial *t, int64_t step)
{
    int64_t     seen = -1;
    manta_error e;
    char        above[128], *end, *name;
    snprintf(above, sizeof above, "%s", manta_trial_dir(t));
    CHECK((end = strstr(above, "/trials/")));
    *end = 0;
    CHECK((name = strrchr(above, '/')));
    *name++ = 0;
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; seen < step && test_now_ms() < limit; test_sleep_ms(2)) {
        manta_sweep_view *view = manta_sweep_look(above, name, &e);
        if (view && manta_trial_number(t) < view->count)
            seen = view->trials[manta_trial_number(t)].step;
        manta_sweep_view_free(view);
    }
}

/* Dies in its first attempt of each third trial, behind step 3. */
static manta_status dies(manta_trial *t)
{
    int64_t i = 0;
    manta_trial_load(t, &i, sizeof i);
    if (manta_trial_attempt(t) > 0 && i < 3)
        return manta_trial_fail(t, "its state is lost");
    for (; i < 6; i++) {
        int64_t next = i + 1;
        manta_trial_save(t, next, &next, sizeof next);
        manta_trial_report(t, i, "loss", bowl(t));
        if (manta_trial_attempt(t) == 0 && manta_trial_number(t) % 3 == 0 && i == 4) {
            journal_await(t, 3);
            raise(SIGKILL);
        }
    }
    return MANTA_OK;
}
MANTA_TRIAL(dies);

static manta_status hangs(manta_trial *t)
{
    manta_trial_report(t, 0, "loss", bowl(t));
    if (manta_trial_attempt(t) == 0 && manta_trial_number(t) == 1)
        for (;;)
            test_sleep_ms(1000);
    return MANTA_OK;
}
MANTA_TRIAL(hangs);

static manta_status mute(manta_trial *t)
{
    (void)t;
    return MANTA_OK;
}
MANTA_TRIAL(mute);

static manta_status other_name(manta_trial *t)
{
    manta_trial_report(t, 0, "los", 1);
    return MANTA_OK;
}
MANTA_TRIAL(other_name);

static manta_status not_finite(manta_trial *t)
{
    int64_t n = manta_trial_number(t);
    manta_trial_report(t, 0, "loss", n == 0 ? (double)NAN : n == 1 ? (double)INFINITY : bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(not_finite);

static manta_status unknown_parameter(manta_trial *t)
{
    manta_trial_report(t, 0, "loss", manta_trial_f64(t, "learning_rate"));
    return MANTA_OK;
}
MANTA_TRIAL(unknown_parameter);

static manta_status shares(manta_trial *t)
{
    size_t      size;
    const char *data = manta_trial_data(t, &size);
    if (!data || size != 6 || memcmp(data, "shared", 6) != 0)
        return manta_trial_fail(t, "the data are not there");
    return quick(t);
}
MANTA_TRIAL(shares);

static manta_status waits(manta_trial *t)
{
    for (int i = 0; i < 20000; i++) {
        test_sleep_ms(1);
        if (manta_trial_report(t, i, "loss", bowl(t)) == MANTA_TRIAL_STOP)
            return MANTA_OK;
    }
    return MANTA_OK;
}
MANTA_TRIAL(waits);

static const manta_sweep_axis line[] = {{.kind = MANTA_SWEEP_AXIS_UNIFORM, .name = "x", .low = 0, .high = 1},
                                        {.kind = MANTA_SWEEP_AXIS_END}};

static manta_sweep_opts options(int64_t trials)
{
    return (manta_sweep_opts){
        .name = "mine", .storage = storage, .metric = "loss", .trials = trials, .concurrency = 2, .space = line, .seed = 3};
}

/* ---- what a sweep does ---- */

static void finds_and_resumes(void)
{
    manta_error        e;
    manta_sweep_result r, again;
    storage_make();
    manta_sweep_opts o = options(300);
    CHECK_CODE(manta_sweep_run("quick", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.trials, 300);
    CHECK_EQ(r.completed, 300);
    CHECK(r.has_best && r.best < 1e-3);
    CHECK_SAYS(r.params_json, "\"x\":0.");
    CHECK_CODE(manta_sweep_run("quick", &o, &again, &e), MANTA_OK, &e); /* there is nothing left to do */
    CHECK_EQ(again.finished_before, 300);
    CHECK(again.best == r.best && again.best_trial == r.best_trial);
    o.trials = 310; /* more of them */
    CHECK_CODE(manta_sweep_run("quick", &o, &again, &e), MANTA_OK, &e);
    CHECK_EQ(again.completed, 310);
    o = options(20);
    o.name = "data";
    o.data = "shared";
    o.data_size = 6;
    CHECK_CODE(manta_sweep_run("shares", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 20);
    storage_clear();
}

static void samplers_and_schedulers(void)
{
    static const char *const pairs[][3] = {{"tpe", "fifo", ""},
                                           {"sobol", "median", "grace=3"},
                                           {"random", "asha", "max_t=27,eta=3"},
                                           {"tpe", "asha_promote", "max_t=27,eta=3"},
                                           {"random", "hyperband", "max_t=9,eta=3"},
                                           {"random", "pbt", "interval=5"},
                                           {"gp", "fifo", ""}};
    storage_make();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char               name[64];
        manta_error        e;
        manta_sweep_result r;
        manta_sweep_opts   o = options(12);
        snprintf(name, sizeof name, "%s-%s", pairs[i][0], pairs[i][1]);
        o.name = name;
        o.sampler = pairs[i][0];
        o.scheduler = pairs[i][1];
        o.scheduler_opts = pairs[i][2];
        CHECK_CODE(manta_sweep_run("steps", &o, &r, &e), MANTA_OK, &e);
        CHECK_EQ(r.completed + r.stopped + r.failed, r.trials);
        CHECK_EQ(r.failed, 0);
        CHECK_EQ(r.trials, 12);
        CHECK(r.has_best);
        if (strcmp(o.scheduler, "asha") == 0)
            CHECK(r.stopped > 0 && r.completed > 0); /* who has come to max_t has completed */
    }
    storage_clear();
}

static void stoppers(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(6);
    o.stop = "steps,limit=5";
    CHECK_CODE(manta_sweep_run("steps", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.stopped, 6);
    CHECK_EQ(r.reports, 30);
    o.name = "time";
    o.stop = NULL;
    o.trials = 0;
    r.stopped = 0;
    for (o.time_s = 0.3; r.stopped == 0; o.time_s *= 2) { /* over all its runs; in the first one perhaps none was begun */
        CHECK(o.time_s < 60);
        CHECK_CODE(manta_sweep_run("waits", &o, &r, &e), MANTA_OK, &e);
        CHECK_EQ(r.completed, 0);
    }
    storage_clear();
}

static void dies_and_hangs(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(9);
    CHECK_CODE(manta_sweep_run("dies", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 9);
    CHECK_EQ(r.retried, 3);
    CHECK_EQ(r.reports, 9 * 6); /* none twice */
    o.name = "hangs";
    o.trials = 4;
    o.trial_timeout_s = 1;
    CHECK_CODE(manta_sweep_run("hangs", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 4);
    manta_sweep_view *view = manta_sweep_look(storage, "hangs", &e);
    CHECK(view && view->trials[1].retries >= 1); /* others may be late too, on a machine that has no time for them */
    manta_sweep_view_free(view);
    storage_clear();
}

/* ---- from outside ---- */

static int tell_stop(void *user, const manta_sweep_progress *p)
{
    int64_t    *told = user;
    manta_error e;
    if (p->running == 2 && *told == 0) {
        *told = 1;
        CHECK_CODE(manta_sweep_tell(storage, "mine", MANTA_SWEEP_STOP_TRIAL, 0, &e), MANTA_OK, &e);
    }
    if (p->stopped == 1 && *told == 1) {
        *told = 2;
        CHECK_CODE(manta_sweep_tell(storage, "mine", MANTA_SWEEP_STOP, 0, &e), MANTA_OK, &e);
    }
    return 0;
}

static void told_from_outside(void)
{
    manta_error        e;
    manta_sweep_result r;
    int64_t            told = 0;
    storage_make();
    CHECK_EQ(manta_sweep_tell(storage, "none", MANTA_SWEEP_STOP, 0, &e), MANTA_ENOENT);
    manta_sweep_opts o = options(4);
    o.progress = tell_stop;
    o.user = &told;
    CHECK_CODE(manta_sweep_run("waits", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(told, 2);
    CHECK(r.is_stopped);
    CHECK_EQ(r.stopped, 1);
    CHECK_EQ(r.completed, 0);
    CHECK_CODE(manta_sweep_tell(storage, "mine", MANTA_SWEEP_TRIALS, 1, &e), MANTA_OK, &e); /* heeded when it is resumed */
    manta_sweep_view *view = manta_sweep_look(storage, "mine", &e);
    CHECK(view);
    CHECK_EQ(view->is_running, false);
    CHECK_STR(view->state, "stopped");
    CHECK_STR(view->trials[0].state, "stopped");
    manta_sweep_view_free(view);
    storage_clear();
}

/* ---- commands ---- */

static void commands(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts    o = options(6);
    manta_sweep_command c = {
        .argv = (const char *const[]){"sh", "-c", "echo starting; echo \"step=1 loss=$1 other=2\"", "sh", "{x}", NULL}};
    o.command = &c;
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 6);
    CHECK_EQ(r.reports, 12);
    o.name = "environment";
    c.argv = (const char *const[]){
        "sh", "-c", "[ \"$1\" = \"--x=$MANTA_PARAM_x\" ] && echo \"{\\\"loss\\\": $V, \\\"step\\\": 4}\"", "sh", "{args}", NULL};
    c.env = (const char *const[]){"V={x}", NULL};
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 6);
    o.name = "file";
    c.env = NULL;
    c.metrics = "{file}.out";
    c.argv = (const char *const[]){"sh", "-c", "test -s $1 && echo loss={x} > $1.out", "sh", "{file}", NULL};
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 6);
    storage_clear();
}

/* A folder of its own, which stays where it has left something; and the file by which it says that it is done. */
static void commands_done(void)
{
    manta_error        e;
    manta_sweep_result r;
    char               path[128];
    storage_make();
    manta_sweep_opts    o = options(4);
    manta_sweep_command c = {.argv = (const char *const[]){"sh", "-c",
                                                           "[ $1 = 1 ] && echo kept > $MANTA_TRIAL_DIR/left; echo step=1 loss=1; "
                                                           "echo step=2 loss=$1 > $MANTA_TRIAL_DONE; [ $1 != 2 ] || exit 3",
                                                           "sh", "{trial}", NULL}};
    o.command = &c;
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 4); /* the one with status 3 had said that it is done */
    CHECK_EQ(r.retried, 0);
    CHECK_EQ(r.reports, 8);
    manta_sweep_view *view = manta_sweep_look(storage, "mine", &e);
    CHECK(view);
    for (int64_t i = 0; i < 4; i++) {
        CHECK(view->trials[i].value == (double)i && view->trials[i].step == 2);
        snprintf(path, sizeof path, "%s/mine/trials/%d", storage, (int)i);
        CHECK_EQ(access(path, F_OK) == 0, i == 1);
    }
    manta_sweep_view_free(view);
    o.name = "again"; /* it dies behind its word, and has another to say if it were started again */
    o.trials = 1;
    c.argv = (const char *const[]){"sh", "-c",
                                   "echo step=$MANTA_TRIAL_ATTEMPT loss=$MANTA_TRIAL_ATTEMPT > $MANTA_TRIAL_DONE; "
                                   "kill -9 $PPID; sleep 60",
                                   NULL};
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 1);
    CHECK_EQ(r.retried, 1);
    CHECK(r.has_best && r.best_trial == 0 && r.best == 0);
    storage_clear();
}

/* Who is stopped ends with all that it has started: here the program that a shell waits for, which would beat for ever. */
static void commands_stop(void)
{
    manta_error        e;
    manta_sweep_result r;
    char               path[128], child[32] = "";
    storage_make();
    manta_sweep_opts o = options(1);
    snprintf(path, sizeof path, "P=%s/pid", storage);
    manta_sweep_command c = {
        .argv = (const char *const[]){"sh", "-c", "sh -c 'echo $$ > $P; echo loss=1; while :; do sleep 0.01; done'; echo never",
                                      NULL},
        .env = (const char *const[]){path, NULL}};
    o.command = &c;
    o.stop = "threshold,value=2";
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.stopped, 1);
    FILE *f = fopen(path + 2, "re");
    CHECK(f && fgets(child, sizeof child, f));
    fclose(f);
    int pid = (int)strtol(child, NULL, 10);
    CHECK(pid > 1);
    CHECK(test_gone(pid));
    storage_clear();
}

static void bad_commands(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts    o = options(1);
    manta_sweep_command c = {.argv = (const char *const[]){"sh", "-c", "echo going down >&2; exit 3", NULL}};
    o.command = &c;
    o.retries = 1;
    CHECK_EQ(manta_sweep_run(NULL, &o, &r, &e), MANTA_ETASK);
    CHECK_SAYS(e.message, "status 3");
    CHECK_SAYS(e.message, "going down");
    CHECK_EQ(r.retried, 1);
    o.name = "nowhere";
    c.argv = (const char *const[]){"/nowhere/at/all", NULL};
    CHECK_EQ(manta_sweep_run(NULL, &o, &r, &e), MANTA_ETASK);
    CHECK_SAYS(e.message, "No such file");
    o.name = "braces";
    c.argv = (const char *const[]){"echo", "loss={y}", NULL};
    CHECK_EQ(manta_sweep_run(NULL, &o, &r, &e), MANTA_ETASK);
    CHECK_SAYS(e.message, "no parameter");
    o.name = "flood"; /* much output, none of it kept */
    c.argv = (const char *const[]){"sh", "-c", "head -c 300000000 /dev/zero; echo; echo loss=1", NULL};
    CHECK_CODE(manta_sweep_run(NULL, &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 1);
    storage_clear();
}

/* ---- bad input ---- */

static void expect(const char *trial, const manta_sweep_opts *o, manta_status wanted, const char *word)
{
    manta_error e;
    CHECK_CODE(manta_sweep_run(trial, o, NULL, &e), wanted, &e);
    CHECK_SAYS(e.message, word);
}

static void bad_options(void)
{
    storage_make();
    manta_sweep_opts o = options(5);
    setenv("MANTA_INLINE", "1", 1);
    expect("quick", &o, MANTA_EUNSUPPORTED, "MANTA_INLINE");
    unsetenv("MANTA_INLINE");
    o.metric = NULL;
    expect("quick", &o, MANTA_EINVAL, "metric");
    o = options(0);
    expect("quick", &o, MANTA_EINVAL, "never end");
    o = options(5);
    o.name = "../up";
    expect("quick", &o, MANTA_EINVAL, "name");
    o = options(5);
    o.sampler = "magic";
    expect("quick", &o, MANTA_EINVAL, "magic");
    o.sampler = "tpe";
    o.sampler_opts = "speed=9";
    expect("quick", &o, MANTA_EINVAL, "speed");
    o = options(5);
    o.scheduler = "soon";
    expect("quick", &o, MANTA_EINVAL, "soon");
    o = options(5);
    o.space = NULL;
    expect("quick", &o, MANTA_EINVAL, "space");
    o.space = (const manta_sweep_axis[]){{.kind = MANTA_SWEEP_AXIS_END}};
    expect("quick", &o, MANTA_EINVAL, "space");
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 2, 1));
    expect("quick", &o, MANTA_EINVAL, "x");
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1), MANTA_SWEEP_UNIFORM("y", 0, 1, .when = "z == 1"));
    expect("quick", &o, MANTA_EINVAL, "z");
    o = options(5);
    o.constraints = (const char *const[]){"x <= -1", NULL};
    expect("quick", &o, MANTA_EINVAL, "space");
    o = options(5);
    o.stop = "boredom";
    expect("quick", &o, MANTA_EINVAL, "boredom");
    o = options(5);
    expect("nobody", &o, MANTA_ENOFUNC, "nobody");
    o.name = "gpus";
    o.gpus = 3;
    expect("quick", &o, MANTA_EUNSCHEDULABLE, "GPU");
    storage_clear();
}

static void bad_trials(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(3);
    expect("mute", &o, MANTA_ETASK, "without reporting \"loss\"");
    o.name = "other";
    expect("other_name", &o, MANTA_ETASK, "never reported \"loss\", but \"los\"");
    o.name = "unknown";
    expect("unknown_parameter", &o, MANTA_ETASK, "learning_rate");
    o.name = "finite";
    o.trials = 6;
    CHECK_CODE(manta_sweep_run("not_finite", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.failed, 2);
    CHECK_EQ(r.completed, 4);
    CHECK_EQ(r.retried, 0);
    o.name = "many";
    o.trials = 1000;
    expect("mute", &o, MANTA_ETASK, "the first 16 trials failed");
    storage_clear();
}

static void another_space(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(5);
    CHECK_CODE(manta_sweep_run("quick", &o, &r, &e), MANTA_OK, &e);
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 2));
    expect("quick", &o, MANTA_EINVAL, "x");
    CHECK(manta_sweep_run("quick", &o, &r, &e) == MANTA_EINVAL);
    CHECK_SAYS(e.message, "another search space");
    o = options(5);
    o.seed = 4;
    expect("quick", &o, MANTA_EINVAL, "seed");
    o = options(5);
    o.name = "in_order";
    o.ordered = true;
    CHECK_CODE(manta_sweep_run("quick", &o, &r, &e), MANTA_OK, &e);
    o.concurrency++; /* other trials would have been seen at each draw */
    expect("quick", &o, MANTA_EINVAL, "concurrency of an ordered sweep");
    storage_clear();
}

static int run_second(void *user, const manta_sweep_progress *p)
{
    int *tried = user;
    if (p->running > 0 && !*tried) {
        manta_sweep_opts o = options(5);
        *tried = 1;
        expect("quick", &o, MANTA_EEXIST, "another driver");
    }
    return *tried;
}

static void two_of_one_name(void)
{
    manta_error        e;
    manta_sweep_result r;
    int                tried = 0;
    storage_make();
    manta_sweep_opts o = options(2);
    o.progress = run_second;
    o.user = &tried;
    CHECK_CODE(manta_sweep_run("waits", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(tried, 1);
    storage_clear();
}

/* ---- a disk that is full, a node and a head that die ---- */

struct relief {
    struct rlimit before;
    int           full; /* how often the sweep said that its disk is full */
};

static int relieve(void *user, const manta_sweep_progress *p)
{
    struct relief *relief = user;
    if (!p->message || !strstr(p->message, "disk is full"))
        return 0;
    relief->full++;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &relief->before), 0);
    return 0;
}

static int stop_when_full(void *user, const manta_sweep_progress *p)
{
    int *full = user;
    *full = *full || (p->message && strstr(p->message, "disk is full"));
    return *full;
}

static int tell_when_full(void *user, const manta_sweep_progress *p)
{
    manta_error e;
    int        *full = user;
    if (*full || !p->message || !strstr(p->message, "disk is full"))
        return 0;
    CHECK_CODE(manta_sweep_tell(storage, "mine", MANTA_SWEEP_STOP, 0, &e), MANTA_OK, &e);
    *full = 1;
    return 0;
}

/* Resumes with 64 KiB more each time, until there is room to begin, for what the trials had left is written then. */
static manta_status resume_in_little_room(const manta_sweep_opts *o, const int *full, struct rlimit *room, manta_sweep_result *r,
                                          manta_error *e)
{
    manta_status code = MANTA_EDISK_FULL;
    for (int i = 0; i < 20 && code == MANTA_EDISK_FULL && !*full; i++) {
        room->rlim_cur += 64 * 1024;
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, room), 0);
        code = manta_sweep_run("quick", o, r, e);
    }
    return code;
}

/* Waits for room, says so, and goes on; who stops it while it waits is not kept, nor is who does so from outside. */
static void full_disk(void)
{
    struct rlimit      before, small;
    manta_error        e;
    manta_sweep_result r;
    int                is_full = 0;
    storage_make();
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){512 * 1024, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0); /* no file of this process grows beyond */
    manta_sweep_opts o = options(20000);
    o.progress = stop_when_full;
    o.user = &is_full;
    CHECK_CODE(manta_sweep_run("quick", &o, &r, &e), MANTA_EDISK_FULL, &e);
    CHECK_SAYS(e.message, "disk is full");
    is_full = 0;
    o.progress = tell_when_full;
    CHECK_CODE(resume_in_little_room(&o, &is_full, &small, &r, &e), MANTA_EDISK_FULL, &e);
    CHECK_EQ(is_full, 1);
    struct relief relief = {.before = before};
    o.progress = relieve;
    o.user = &relief;
    CHECK_CODE(resume_in_little_room(&o, &relief.full, &small, &r, &e), MANTA_OK, &e); /* what was in the journal is kept */
    CHECK_EQ(relief.full, 1);
    CHECK_EQ(r.completed, r.trials);
    CHECK_EQ(r.trials, 20000);
    CHECK(r.finished_before > 0);
    storage_clear();
}

struct victims {
    struct nodes *nodes;
    int           struck;
};

static int strike(void *user, const manta_sweep_progress *p)
{
    struct victims *v = user;
    if (p->completed >= 2 && v->struck == 0) {
        v->struck = 1;
        nodes_kill(&v->nodes->raylets[1]);
    } else if (p->completed >= 8 && v->struck == 1) {
        v->struck = 2;
        nodes_kill(&v->nodes->head);
    }
    return 0;
}

static manta_status slow(manta_trial *t)
{
    int64_t i = 0;
    for (manta_trial_load(t, &i, sizeof i); i < 10;) {
        test_sleep_ms(20);
        i++;
        manta_trial_save(t, i, &i, sizeof i);
        manta_trial_report(t, i, "loss", bowl(t));
    }
    return MANTA_OK;
}
MANTA_TRIAL(slow);

/* Two raylets; one dies, later the head: the sweep goes on, and each trial has all its reports once. */
static void a_node_and_the_head_die(void)
{
    struct nodes       n;
    manta_error        e;
    manta_sweep_result r;
    nodes_start(&n, 2, "2");
    storage_make();
    struct victims   v = {&n, 0};
    manta_sweep_opts o = options(14);
    o.concurrency = 4;
    o.progress = strike;
    o.user = &v;
    CHECK_CODE(manta_sweep_run("slow", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 14);
    CHECK_EQ(r.reports, 140);
    CHECK_EQ(v.struck, 2);
    storage_clear();
    nodes_stop(&n);
}

/* ---- an object store that is full ---- */

enum { FULL_STORE = 64 << 20, FULL_STATE = 8 << 20, FULL_PIECE = 4 << 20, FULL_PIECES = 4096 };

/* Has saved a state, waits until no store has room for it, and fails. */
static manta_status fails_when_full(manta_trial *t)
{
    size_t             size;
    const uint64_t    *number = manta_trial_data(t, &size);
    struct test_board *board = test_board_map(*number);
    void              *state = calloc(1, FULL_STATE);
    CHECK(state);
    if (manta_trial_attempt(t) == 0) {
        manta_trial_save(t, 1, state, FULL_STATE);
        manta_trial_report(t, 1, "loss", bowl(t));
        journal_await(t, 1);
        board->words[0] = 1;
        free(state);
        return manta_trial_fail(t, test_board_wait(&board->words[1], 1) ? "once" : "nobody came");
    }
    if (manta_trial_load(t, state, FULL_STATE) != 1)
        return manta_trial_fail(t, "its state is lost");
    free(state);
    manta_trial_report(t, 2, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(fails_when_full);

static struct {
    struct test_board *board;
    manta_ref         *pieces[FULL_PIECES];
    int                count;
} full;

/* Puts values of this size until there is no room for another one; how many. */
static int fill_with(size_t size)
{
    static const char piece[FULL_PIECE];
    manta_error       e = {0};
    manta_view        view;
    int               before = full.count;
    while (e.code == MANTA_OK) {
        CHECK(full.count < FULL_PIECES);
        full.pieces[full.count++] = manta_put(piece, size);
        if (manta_get(full.pieces[full.count - 1], TEST_WAIT_MS, &view, &e) == MANTA_OK)
            manta_release(&view);
    }
    CHECK_EQ(e.code, MANTA_ESTORE_FULL);
    return full.count - before - 1;
}

/* What a worker does not need any more it gives back a little later: until nothing has come for a while. */
static int fill(void *user, const manta_sweep_progress *p)
{
    (void)user, (void)p;
    if (full.board->words[0] == 0 || full.board->words[1])
        return 0;
    for (int quiet = 0; quiet < 10; test_sleep_ms(100))
        quiet = fill_with(FULL_PIECE) + fill_with(FULL_PIECE / 64) ? 0 : quiet + 1;
    full.board->words[1] = 1;
    return 0;
}

/* A trial whose state finds no room on its way to its next attempt has failed, and says why. Where a worker had no CPU while the
 * store was filled, it gives room back behind that: then once more. */
static void full_store(void)
{
    manta_error        e;
    manta_sweep_result r;
    uint64_t           number;
    char               name[32];
    manta_status       code = MANTA_OK;
    full.board = test_board_new(&number);
    storage_make();
    manta_sweep_opts o = options(1);
    o.name = name;
    o.retries = 1;
    o.data = &number;
    o.data_size = sizeof number;
    o.progress = fill;
    for (int64_t i = 0, limit = test_now_ms() + TEST_WAIT_MS; code == MANTA_OK; i++) {
        CHECK(test_now_ms() < limit);
        snprintf(name, sizeof name, "mine-%lld", (long long)i);
        full.board->words[0] = full.board->words[1] = 0;
        code = manta_sweep_run("fails_when_full", &o, &r, &e);
        while (full.count > 0)
            manta_free(full.pieces[--full.count]);
    }
    CHECK_CODE(code, MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "object store is full");
    CHECK_EQ(r.failed, 1);
    CHECK_EQ(r.retried, 1);
    storage_clear();
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"finds_and_resumes", finds_and_resumes, TWO_CPUS},
    {"samplers_and_schedulers", samplers_and_schedulers, TWO_CPUS},
    {"stoppers", stoppers, TWO_CPUS},
    {"dies_and_hangs", dies_and_hangs, TWO_CPUS},
    {"told_from_outside", told_from_outside, TWO_CPUS},
    {"commands", commands, TWO_CPUS},
    {"commands_done", commands_done, TWO_CPUS},
    {"commands_stop", commands_stop, TWO_CPUS},
    {"bad_commands", bad_commands, TWO_CPUS},
    {"bad_options", bad_options, TWO_CPUS},
    {"bad_trials", bad_trials, TWO_CPUS},
    {"another_space", another_space, TWO_CPUS},
    {"two_of_one_name", two_of_one_name, TWO_CPUS},
    {"full_disk", full_disk, TWO_CPUS},
    {"full_store", full_store, {.num_cpus = 2, .store_memory = FULL_STORE, .spill_dir = "none"}, false, 0},
    {"a_node_and_the_head_die", a_node_and_the_head_die, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

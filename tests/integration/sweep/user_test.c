/* SPDX-License-Identifier: Apache-2.0
 *
 * user_test.c - what somebody does with a sweep day by day: pauses it, lets it go on, wants more of it, begins one with what
 * another has found, and packs trials with fractions of GPUs, or of several workers, on the nodes that are there.
 */
#include <manta_sgd.h>
#include <manta_sweep.h>

#include "tests/integration/cluster/nodes.h"
#include "tests/integration/harness.h"
#include "tests/integration/sweep/regression.h"
#include "tests/integration/sweep/storage.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double bowl(manta_trial *t)
{
    double x = manta_trial_f64(t, "x") - 0.3;
    return x * x;
}

static const manta_sweep_axis line[] = {{.kind = MANTA_SWEEP_AXIS_UNIFORM, .name = "x", .low = 0, .high = 1},
                                        {.kind = MANTA_SWEEP_AXIS_END}};

static manta_sweep_opts options(int64_t trials)
{
    return (manta_sweep_opts){
        .name = "mine", .storage = storage, .metric = "loss", .trials = trials, .concurrency = 2, .space = line, .seed = 3};
}

/* ---- pause, go on, more ---- */

static manta_status short_one(manta_trial *t)
{
    test_sleep_ms(5);
    manta_trial_report(t, 1, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(short_one);

/* As short, but the second half, which takes long until the test has seen the sweep rest: it is to be paused before its end. */
static manta_status short_half(manta_trial *t)
{
    bool waits = manta_trial_number(t) >= 100 && access(manta_trial_str(t, "rested"), F_OK) != 0;
    test_sleep_ms(waits ? 200 : 5);
    manta_trial_report(t, 1, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(short_half);

struct teller {
    char    rested[96]; /* the file that says so */
    int     stage;
    int64_t seen; /* ended, when nothing ran any more */
    int     looks;
};

static void tell(int what, int64_t value)
{
    manta_error e;
    CHECK_CODE(manta_sweep_tell(storage, "mine", what, value, &e), MANTA_OK, &e);
}

/* Pauses once trials run; lets it go on when it has rested, and nothing was begun, for a while; then wants more trials. */
static int pause_and_go(void *user, const manta_sweep_progress *p)
{
    struct teller *t = user;
    if (t->stage == 0 && p->completed > 0) {
        tell(MANTA_SWEEP_PAUSE, 0);
        t->stage = 1;
    } else if (t->stage == 1 && p->running == 0) {
        CHECK(p->completed < 200);
        t->looks = p->completed == t->seen ? t->looks : 0; /* before it rests nothing may run while the disk takes its time */
        t->seen = p->completed;
        if (++t->looks == 3) {
            FILE *f = fopen(t->rested, "we");
            CHECK(f && fclose(f) == 0);
            tell(MANTA_SWEEP_TRIALS, 220);
            tell(MANTA_SWEEP_GO, 0);
            t->stage = 2;
        }
    }
    return 0;
}

static void pause_and_more(void)
{
    manta_error        e;
    manta_sweep_result r;
    struct teller      t = {.stage = 0};
    storage_make();
    snprintf(t.rested, sizeof t.rested, "%s/rested", storage);
    manta_sweep_opts o = options(200);
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1), MANTA_SWEEP_CONST("rested", t.rested));
    o.progress = pause_and_go;
    o.user = &t;
    CHECK_CODE(manta_sweep_run("short_half", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(t.stage, 2);
    CHECK_EQ(r.completed, 220);
    storage_clear();
}

static manta_status endless(manta_trial *t)
{
    for (int64_t i = 0; manta_trial_report(t, i, "loss", bowl(t)) != MANTA_TRIAL_STOP; i++)
        test_sleep_ms(2);
    return MANTA_OK;
}
MANTA_TRIAL(endless);

/* Rows of the live table, and one trial that is stopped by hand while the other goes on. */
static int stop_first(void *user, const manta_sweep_progress *p)
{
    int *stage = user;
    for (int i = 0; i < p->row_count; i++) {
        CHECK(strstr(p->rows[i].params, "\"x\""));
        CHECK_STR(p->rows[i].state, "running");
        if (*stage == 0 && p->rows[i].trial == 1 && p->rows[i].has_value && p->rows[i].step > 0) {
            tell(MANTA_SWEEP_STOP_TRIAL, 1);
            *stage = 1;
        }
    }
    for (int i = 0; i < p->row_count && *stage == 3; i++) /* all that are left, by hand */
        tell(MANTA_SWEEP_STOP_TRIAL, p->rows[i].trial);
    if (*stage == 1 && p->stopped == 1 && p->running == 2) { /* the third one has its place */
        tell(MANTA_SWEEP_TIME, 1);                           /* it was an hour: that is up now */
        *stage = 2;
    }
    return 0;
}

static void stop_one_and_time(void)
{
    manta_error        e;
    manta_sweep_result r, again;
    int                stage = 0;
    storage_make();
    manta_sweep_opts o = options(0);
    o.time_s = 3600;
    o.progress = stop_first;
    o.user = &stage;
    CHECK_CODE(manta_sweep_run("endless", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(stage, 2);
    CHECK_EQ(r.trials, r.stopped);
    CHECK(r.stopped >= 3 && r.completed == 0);
    tell(MANTA_SWEEP_TIME, 3600); /* more of both, while nobody runs it */
    tell(MANTA_SWEEP_TRIALS, r.trials + 2);
    stage = 3;
    CHECK_CODE(manta_sweep_run("endless", &o, &again, &e), MANTA_OK, &e);
    CHECK_EQ(again.trials, r.trials + 2);
    CHECK_EQ(again.stopped, again.trials);
    manta_sweep_view *view = manta_sweep_look(storage, "mine", &e);
    CHECK(view);
    CHECK_EQ(view->completed + view->stopped + view->failed, again.trials);
    CHECK_STR(view->trials[1].state, "stopped");
    manta_sweep_view_free(view);
    storage_clear();
}

/* ---- what a function that fails has printed ---- */

static manta_status talks(manta_trial *t)
{
    printf("trial %lld, attempt %d\n", (long long)manta_trial_number(t), manta_trial_attempt(t));
    if (manta_trial_number(t) == 1) {
        fprintf(stderr, "the disk of sorrow\n");
        raise(SIGKILL);
    }
    if (manta_trial_number(t) == 2)
        return manta_trial_fail(t, "no luck");
    manta_trial_report(t, 1, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(talks);

static void last_words(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(3);
    o.retries = 1;
    CHECK_CODE(manta_sweep_run("talks", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 1);
    CHECK_EQ(r.failed, 2);
    CHECK_EQ(r.retried, 2);
    manta_sweep_view *view = manta_sweep_look(storage, "mine", &e);
    CHECK(view);
    CHECK_SAYS(view->trials[1].why, "trial 1, attempt 1 | the disk of sorrow");
    CHECK_SAYS(view->trials[2].why, "no luck; it printed last: trial 2, attempt 1");
    CHECK_EQ(view->trials[1].retries, 1);
    manta_sweep_view_free(view);
    storage_clear();
}

/* ---- what another sweep has found ---- */

static double mean_loss(const char *name, int64_t count)
{
    manta_error       e;
    manta_sweep_view *view = manta_sweep_look(storage, name, &e);
    double            sum = 0;
    CHECK(view);
    CHECK_EQ(view->count, count);
    for (int64_t i = 0; i < count; i++)
        sum += view->trials[i].value;
    manta_sweep_view_free(view);
    return sum / (double)count;
}

static void warm_start(void)
{
    manta_error        e;
    manta_sweep_result r;
    storage_make();
    manta_sweep_opts o = options(60);
    o.concurrency = 1;
    o.name = "before";
    CHECK_CODE(manta_sweep_run("short_one", &o, &r, &e), MANTA_OK, &e);
    o.trials = 10;
    o.sampler = "tpe"; /* draws its first ten at random where it knows nothing */
    o.name = "cold";
    CHECK_CODE(manta_sweep_run("short_one", &o, &r, &e), MANTA_OK, &e);
    o.name = "warm";
    o.warm_start = (const char *const[]){"before", NULL};
    CHECK_CODE(manta_sweep_run("short_one", &o, &r, &e), MANTA_OK, &e);
    CHECK(mean_loss("warm", 10) < mean_loss("cold", 10) / 4);
    o.name = "wrong";
    o.warm_start = (const char *const[]){"nowhere", NULL};
    CHECK_EQ(manta_sweep_run("short_one", &o, &r, &e), MANTA_ENOENT);
    CHECK_SAYS(e.message, "nowhere");
    o.metric = "accuracy";
    o.warm_start = (const char *const[]){"before", NULL};
    CHECK_EQ(manta_sweep_run("short_one", &o, &r, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "its metric is \"loss\"");
    storage_clear();
}

/* Tells the place that it began at, and goes on with a state, as HyperBand and PBT want it. */
static manta_status climbs(manta_trial *t)
{
    int64_t i = 0;
    if (manta_trial_load(t, &i, sizeof i) == 0)
        manta_trial_report(t, 0, "drawn", bowl(t));
    while (i < 9) {
        i++;
        manta_trial_save(t, i, &i, sizeof i);
        if (manta_trial_report(t, i, "loss", bowl(t)) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}
MANTA_TRIAL(climbs);

static double mean_drawn(const char *name)
{
    manta_error       e;
    manta_sweep_view *view = manta_sweep_look(storage, name, &e);
    double            sum = 0;
    int               count = 0;
    CHECK(view);
    for (int64_t i = 0; i < view->report_count; i++)
        if (view->reports[i].metric) {
            CHECK_STR(view->reports[i].metric, "drawn");
            sum += view->reports[i].value;
            count++;
        }
    manta_sweep_view_free(view);
    CHECK_EQ(count, 10);
    return sum / count;
}

/* Schedulers that pause and copy trials take what a former sweep has found through the sampler; one that looks at nothing is
 * refused, with what to do. */
static void warm_schedulers(void)
{
    static const char *const schedulers[][2] = {{"hyperband", "max_t=9,eta=3"}, {"pbt", "interval=3"}, {"asha", "max_t=9,eta=3"}};
    const char *const        names[] = {"before", NULL};
    manta_error              e;
    manta_sweep_result       r;
    storage_make();
    manta_sweep_opts o = options(60);
    o.name = "before";
    CHECK_CODE(manta_sweep_run("short_one", &o, &r, &e), MANTA_OK, &e);
    o.trials = 10;
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++) {
        char cold[32], warm[32];
        snprintf(cold, sizeof cold, "cold-%s", schedulers[i][0]);
        snprintf(warm, sizeof warm, "warm-%s", schedulers[i][0]);
        o.scheduler = schedulers[i][0];
        o.scheduler_opts = schedulers[i][1];
        o.sampler = "tpe";
        o.name = cold;
        o.warm_start = NULL;
        CHECK_CODE(manta_sweep_run("climbs", &o, &r, &e), MANTA_OK, &e);
        o.name = warm;
        o.warm_start = names;
        CHECK_CODE(manta_sweep_run("climbs", &o, &r, &e), MANTA_OK, &e);
        CHECK(mean_drawn(warm) < mean_drawn(cold) / 4);
        o.name = "blind";
        o.sampler = i == 0 ? NULL : i == 1 ? "sobol" : "random";
        CHECK_EQ(manta_sweep_run("climbs", &o, &r, &e), MANTA_EINVAL);
        CHECK_SAYS(e.message, "take tpe, cmaes or gp");
    }
    storage_clear();
}

/* ---- a policy, and its replay ---- */

/* Its value is of all the places that it, or whoever it is a copy of, has been at. */
static manta_status wanders(manta_trial *t)
{
    struct {
        int64_t steps;
        double  sum;
    } way = {0};
    manta_trial_load(t, &way, sizeof way);
    while (way.steps < 12) {
        way.steps++;
        way.sum += bowl(t) * (double)way.steps;
        manta_trial_save(t, way.steps, &way, sizeof way);
        if (manta_trial_report(t, way.steps, "loss", way.sum) == MANTA_TRIAL_STOP)
            break;
    }
    return MANTA_OK;
}
MANTA_TRIAL(wanders);

static void replays_a_policy(void)
{
    manta_error        e;
    manta_sweep_result r;
    char               what[32], text[4096] = "";
    storage_make();
    manta_sweep_opts o = options(6);
    o.name = "people";
    o.scheduler = "pbt";
    o.scheduler_opts = "interval=3,in_step";
    CHECK_CODE(manta_sweep_run("wanders", &o, &r, &e), MANTA_OK, &e);
    manta_sweep_view *view = manta_sweep_look(storage, "people", &e);
    CHECK(view && view->copy_count > 0);
    CHECK_STR(view->state, "done");
    const manta_sweep_copy *last = &view->copies[view->copy_count - 1];
    while (last > view->copies && last->from_step >= 12) /* copied at the end: it made no step afterwards */
        last--;
    CHECK(last->from_step % 3 == 0 && last->from_step > 0 && strcmp(last->before, last->after) != 0);
    FILE *f = fmemopen(text, sizeof text - 1, "w");
    CHECK(f);
    CHECK_CODE(manta_sweep_export(view, "policy", f, &e), MANTA_OK, &e);
    fclose(f);
    CHECK_SAYS(text, last->after);
    snprintf(what, sizeof what, "people:%lld", (long long)last->trial);
    double wanted = view->trials[last->trial].value;
    manta_sweep_view_free(view);
    o = options(0);
    o.replay = what;
    CHECK_CODE(manta_sweep_run("wanders", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 1);
    CHECK(r.best == wanted);
    o.name = "wrong";
    o.replay = "nowhere";
    CHECK_EQ(manta_sweep_run("wanders", &o, &r, &e), MANTA_ENOENT);
    o.replay = "people:99";
    CHECK_EQ(manta_sweep_run("wanders", &o, &r, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "no such trial");
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("y", 0, 1));
    o.replay = what;
    CHECK_EQ(manta_sweep_run("wanders", &o, &r, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "another space");
    o = options(1);
    o.scheduler = "replay";
    CHECK_EQ(manta_sweep_run("wanders", &o, &r, &e), MANTA_EINVAL);
    CHECK_SAYS(e.message, "NAME:TRIAL");
    storage_clear();
}

/* ---- where trials run ---- */

static void ledger_write(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void ledger_write(const char *format, ...)
{
    char    text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    FILE *f = fopen(getenv("TEST_LEDGER"), "ae");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

/* Calls `fn` with each line of the ledger. Returns how many. */
static int ledger_read(void (*fn)(void *user, const char *text), void *user)
{
    char  text[200];
    int   count = 0;
    FILE *f = fopen(getenv("TEST_LEDGER"), "re");
    CHECK(f);
    while (fgets(text, sizeof text, f)) {
        fn(user, text);
        count++;
    }
    fclose(f);
    return count;
}

/* Waits until lines begin with so many different numbers: so many trials, or nodes, are at work at a time. */
static bool ledger_await(int wanted)
{
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; test_now_ms() < limit; test_sleep_ms(5)) {
        unsigned seen[64] = {0};
        char     text[200];
        int      count = 0;
        FILE    *f = fopen(getenv("TEST_LEDGER"), "re");
        while (f && count < wanted && fgets(text, sizeof text, f)) {
            unsigned number = (unsigned)strtoul(text, NULL, 10);
            int      i = 0;
            while (i < count && seen[i] != number)
                i++;
            if (i == count)
                seen[count++] = number;
        }
        if (f)
            fclose(f);
        if (count == wanted)
            return true;
    }
    return false;
}

/* The file is made before the first process of the job is. */
static void ledger_make(void)
{
    char path[64] = "/tmp/manta-ledger-XXXXXX";
    if (getenv("MANTA_ROLE"))
        return;
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    setenv("TEST_LEDGER", path, 1);
}

/* Which half of which node's device, and which memory the data are in. */
static manta_status placed(manta_trial *t)
{
    size_t             size;
    const char        *data = manta_trial_data(t, &size), *devices = getenv("CUDA_VISIBLE_DEVICES");
    char               mapping[512];
    unsigned long long inode = 0;
    if (!data || size != 6 << 20 || data[12345] != 'd')
        return manta_trial_fail(t, "the data are not there");
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(mapping, sizeof mapping, maps)) {
        unsigned long      from, to;
        unsigned long long found;
        if (sscanf(mapping, "%lx-%lx %*s %*s %*s %llu", &from, &to, &found) == 3 && (unsigned long)data >= from &&
            (unsigned long)data < to)
            inode = found;
    }
    if (maps)
        fclose(maps);
    ledger_write("%d %u %s %llu\n", (int)getpid(), manta_node(), devices ? devices : "-", inode);
    if (!ledger_await(4))
        return manta_trial_fail(t, "four don't run at a time");
    manta_trial_report(t, 1, "loss", bowl(t));
    return MANTA_OK;
}
MANTA_TRIAL(placed);

struct places {
    struct {
        unsigned           node;
        unsigned long long inode;
        int                pids[8], count;
    } nodes[4];
    int count;
};

static void place_take(void *user, const char *text)
{
    struct places     *p = user;
    unsigned           node;
    char               devices[32];
    unsigned long long inode;
    int                pid, i = 0;
    CHECK_EQ(sscanf(text, "%d %u %31s %llu", &pid, &node, devices, &inode), 4);
    CHECK_STR(devices, "0"); /* each node has one */
    while (i < p->count && p->nodes[i].node != node)
        i++;
    if (i == p->count) {
        CHECK(p->count < 4);
        p->nodes[p->count++].node = node;
        p->nodes[i].inode = inode;
    }
    CHECK(inode != 0 && p->nodes[i].inode == inode); /* one copy on a node */
    for (int k = 0; k < p->nodes[i].count; k++)
        if (p->nodes[i].pids[k] == pid)
            return;
    CHECK(p->nodes[i].count < 2); /* half a device each, in one process from trial to trial */
    p->nodes[i].pids[p->nodes[i].count++] = pid;
}

/* Two nodes with one device each: four trials of half a device at a time, and one copy of the data on each node. */
static void halves_of_gpus(void)
{
    struct nodes       n;
    manta_error        e;
    manta_sweep_result r;
    struct places      p = {.count = 0};
    ledger_make();
    nodes_start_gpus(&n, 2, "4", "1");
    storage_make();
    char *data = malloc(6 << 20);
    CHECK(data);
    memset(data, 'd', 6 << 20);
    manta_sweep_opts o = options(24);
    o.gpus = 0.5;
    o.concurrency = 0; /* as many as there is room for */
    o.data = data;
    o.data_size = 6 << 20;
    CHECK_CODE(manta_sweep_run("placed", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 24);
    CHECK_EQ(r.retried, 0);
    CHECK_EQ(ledger_read(place_take, &p), 24);
    CHECK_EQ(p.count, 2);
    for (int i = 0; i < p.count; i++)
        CHECK_EQ(p.nodes[i].count, 2);
    free(data);
    unlink(getenv("TEST_LEDGER"));
    storage_clear();
    nodes_stop(&n);
}

/* ---- trials that are training jobs ---- */

typedef struct {
    float      *w, *g;
    int64_t     n;
    const char *folder; /* of the gates; "" : none */
} model;

static void gate_path(char path[600], const char *folder, const char *name)
{
    snprintf(path, 600, "%.500s/%s", folder, name);
}

static void gate_open(const char *folder, const char *name)
{
    char path[600];
    gate_path(path, folder, name);
    FILE *f = fopen(path, "we");
    if (!f || fclose(f) != 0)
        abort();
}

static bool gate_close(const char *folder, const char *name)
{
    char path[600];
    gate_path(path, folder, name);
    return unlink(path) == 0;
}

static bool gate_is_open(const char *folder, const char *name)
{
    char path[600];
    gate_path(path, folder, name);
    return access(path, F_OK) == 0;
}

static manta_status model_setup(manta_sgd *t, void **self)
{
    model *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->n = 3;
    m->folder = manta_sgd_conf_str(t, "gates", "");
    while (m->folder[0] && !manta_sgd_is_driver(t) && !gate_close(m->folder, "a") && !gate_close(m->folder, "b"))
        test_sleep_ms(1);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = 4 * (m->n + 1)});
}

static manta_status model_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    model *m = self;
    if (m->folder[0] && gate_is_open(m->folder, "slow"))
        test_sleep_ms(manta_sgd_step(t) < 2000 ? 3 : 30); /* of 4000: where little time is left more is made of it */
    return manta_sgd_metric(t, "loss", regression_loss(b, m->n, m->w, m->g));
}
MANTA_SGD_OPERATOR(regression, .setup = model_setup, .train_batch = model_batch);

/* The trial holds the CPUs, on one node, and its workers run on them. */
static manta_status job(manta_trial *t)
{
    manta_error      e;
    manta_sgd_result r;
    char             data[80];
    ledger_write("%u\n", manta_node());
    if (!ledger_await(2))
        return manta_trial_fail(t, "both nodes don't run trials");
    snprintf(data, sizeof data, "data=%s", manta_trial_str(t, "file"));
    if (manta_sgd_fit("regression",
                      &(manta_sgd_opts){.scaling = {.min_workers = 1, .max_workers = 2},
                                        .run = {.epochs = 2, .batch = 16},
                                        .optimizer = {MANTA_SGD_MOMENTUM, .lr = manta_trial_f64(t, "x")},
                                        .config = (const char *[]){data, NULL}},
                      &r, &e))
        return manta_trial_fail(t, "%s", e.message);
    manta_trial_report(t, 1, "loss", r.loss);
    return MANTA_OK;
}
MANTA_TRIAL(job);

struct elastic {
    const char *folder;
    int         pids[2], stage;
    bool        is_disturbed;
};

/* One of two workers dies, and finds no gate open until the other one has made steps alone. */
static int elastic_event(void *user, const manta_sgd_event *event)
{
    struct elastic *x = user;
    if (event->kind == MANTA_SGD_WORKER && event->rank < 2)
        x->pids[event->rank] = event->pid;
    if (!x->is_disturbed || event->kind != MANTA_SGD_STEP)
        return 0;
    if (x->stage == 0 && event->workers == 2) {
        kill(x->pids[1], SIGKILL);
        x->stage = 1;
    } else if (x->stage == 1 && event->workers == 1) {
        gate_open(x->folder, "a");
        x->stage = 2;
    } else if (x->stage == 2 && event->workers == 2) {
        gate_close(x->folder, "slow");
        x->stage = 3;
    }
    return 0;
}

/* A trial that shrinks to one worker and grows again to two, beside one that nobody disturbs: the same weights. */
static manta_status elastic_job(manta_trial *t)
{
    manta_error      e;
    manta_sgd_result r;
    char             data[80], gates[600];
    struct elastic   x = {.folder = manta_trial_dir(t), .is_disturbed = manta_trial_i64(t, "disturbed")};
    snprintf(data, sizeof data, "data=%s", manta_trial_str(t, "file"));
    snprintf(gates, sizeof gates, "gates=%.500s", x.folder);
    gate_open(x.folder, "a");
    gate_open(x.folder, "b");
    if (x.is_disturbed)
        gate_open(x.folder, "slow"); /* so that there are steps left when it has grown */
    if (manta_sgd_fit("regression",
                      &(manta_sgd_opts){.scaling = {.min_workers = 1, .max_workers = 2},
                                        .run = {.epochs = 1000, .batch = 16, .log_steps = 5},
                                        .failure = {.max_failures = 1},
                                        .optimizer = {MANTA_SGD_MOMENTUM, .lr = 0.01},
                                        .config = (const char *[]){data, gates, NULL},
                                        .on_event = elastic_event,
                                        .user = &x},
                      &r, &e))
        return manta_trial_fail(t, "%s", e.message);
    if (x.is_disturbed && x.stage != 3)
        return manta_trial_fail(t, "it came to stage %d", x.stage);
    manta_trial_report(t, 1, "restarts", r.restarts);
    manta_trial_report(t, 1, "loss", (double)(r.weights >> 12));
    return MANTA_OK;
}
MANTA_TRIAL(elastic_job);

static void data_write(const char *path)
{
    FILE *f = fopen(path, "we");
    CHECK(f);
    for (int r = 0; r < 64; r++) {
        float record[4] = {(float)(r % 4) / 4, (float)(r % 7) / 7, (float)(r % 5) / 5, 0};
        record[3] = record[0] - 2 * record[1] + record[2] / 2;
        fwrite(record, sizeof record, 1, f);
    }
    CHECK_EQ(fclose(f), 0);
}

/* Two nodes with two CPUs each, and trials that take two: one on each node at a time, with up to two workers each. */
static void training_jobs(void)
{
    struct nodes       n;
    manta_error        e;
    manta_sweep_result r;
    char               data[96];
    ledger_make();
    nodes_start(&n, 2, "2");
    storage_make();
    snprintf(data, sizeof data, "%s/train.bin", storage);
    data_write(data);
    manta_sweep_opts o = options(4);
    o.cpus = 2;
    o.concurrency = 0;
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_LOG_UNIFORM("x", 1e-3, 1e-1), MANTA_SWEEP_CONST("file", data));
    CHECK_CODE(manta_sweep_run("job", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 4);
    CHECK_EQ(r.retried, 0);
    unlink(getenv("TEST_LEDGER"));
    storage_clear();
    nodes_stop(&n);
}

static void jobs_shrink_and_grow(void)
{
    manta_error        e;
    manta_sweep_result r;
    char               data[96];
    storage_make();
    snprintf(data, sizeof data, "%s/train.bin", storage);
    data_write(data);
    manta_sweep_opts o = options(2);
    o.sampler = "grid";
    o.cpus = 2;
    o.retries = MANTA_NO_RETRY;
    o.space = MANTA_SWEEP_SPACE(MANTA_SWEEP_GRID("disturbed", MANTA_SWEEP_VALUES("1", "0")), MANTA_SWEEP_CONST("file", data));
    CHECK_CODE(manta_sweep_run("elastic_job", &o, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.completed, 2);
    manta_sweep_view *view = manta_sweep_look(storage, "mine", &e);
    CHECK(view);
    CHECK(view->trials[0].value == view->trials[1].value);
    for (int64_t i = 0; i < view->report_count; i++)
        if (view->reports[i].metric) /* the disturbed one's, then the other's */
            CHECK(view->reports[i].value == (view->reports[i].trial == 0 ? 1 : 0));
    manta_sweep_view_free(view);
    storage_clear();
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"pause_and_more", pause_and_more, TWO_CPUS},
    {"stop_one_and_time", stop_one_and_time, TWO_CPUS},
    {"last_words", last_words, TWO_CPUS},
    {"warm_start", warm_start, TWO_CPUS},
    {"halves_of_gpus", halves_of_gpus, {0}, true, 0},
    {"warm_schedulers", warm_schedulers, TWO_CPUS},
    {"replays_a_policy", replays_a_policy, TWO_CPUS},
    {"training_jobs", training_jobs, {0}, true, 0},
    {"jobs_shrink_and_grow", jobs_shrink_and_grow, TWO_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_load.c - a driver of a sweep for tests that kill it, and to measure with.
 *
 *   sweep_load NAME [key=value...]      trial=noop|timed|steps|job|command|done trials= concurrency= sampler= scheduler= options=
 *                                       seed= ordered= ms= steps= cpus= retries= ledger=FILE data=FILE
 *   sweep_load --command done|plain     what is a trial with trial=command, or with trial=done
 *
 * Each trial that begins and ends says so in the ledger, one line by one write. The last line of output is the result, as JSON.
 */
#include <manta_report.h>
#include <manta_sgd.h>
#include <manta_sweep.h>

#include "tests/integration/sweep/regression.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void ledger_line(const char *what, long long trial, int attempt)
{
    const char *path = getenv("SWEEP_LEDGER");
    char        line[128];
    if (!path || !path[0])
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int n = snprintf(line, sizeof line, "%s %lld %d %d\n", what, trial, attempt, (int)getpid());
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static void ledger_write(const char *what, manta_trial *t)
{
    ledger_line(what, (long long)manta_trial_number(t), manta_trial_attempt(t));
}

static void pause_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000 * (double)(long)(ms / 1000)) * 1e6)};
    nanosleep(&t, NULL);
}

static double value_of(manta_trial *t)
{
    double x = manta_trial_f64(t, "x");
    return (x - 0.3) * (x - 0.3) + (double)manta_trial_i64(t, "n") * 1e-3;
}

static manta_status noop(manta_trial *t)
{
    manta_trial_report(t, 1, "loss", value_of(t));
    return MANTA_OK;
}
MANTA_TRIAL(noop);

/* Sleeps, and tells the ledger. */
static manta_status timed(manta_trial *t)
{
    ledger_write("begin", t);
    pause_ms(strtod(getenv("SWEEP_MS"), NULL));
    manta_trial_report(t, 1, "loss", value_of(t));
    ledger_write("end", t);
    return MANTA_OK;
}
MANTA_TRIAL(timed);

/* Several steps with a state: the value of step i is a function of the parameters and i alone. */
static manta_status steps(manta_trial *t)
{
    int64_t sum = 0, first, wanted = strtol(getenv("SWEEP_STEPS"), NULL, 10);
    first = manta_trial_load(t, &sum, sizeof sum);
    ledger_write("begin", t);
    for (int64_t i = first; i < wanted; i++) {
        pause_ms(strtod(getenv("SWEEP_MS"), NULL));
        sum += i;
        manta_trial_save(t, i + 1, &sum, sizeof sum);
        if (manta_trial_report(t, i, "loss", value_of(t) + (double)(wanted * (wanted - 1) / 2 - sum) * 1e-2) == MANTA_TRIAL_STOP)
            break;
    }
    ledger_write("end", t);
    return MANTA_OK;
}
MANTA_TRIAL(steps);

/* ---- a trial that is a training job ---- */

typedef struct {
    float  *w, *g;
    int64_t n;
} model;

static manta_status model_setup(manta_sgd *t, void **self)
{
    model *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->n = 3;
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = 4 * (m->n + 1)});
}

static manta_status model_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    model *m = self;
    pause_ms(strtod(getenv("SWEEP_MS"), NULL));
    return manta_sgd_metric(t, "loss", regression_loss(b, m->n, m->w, m->g));
}
MANTA_SGD_OPERATOR(regression, .setup = model_setup, .train_batch = model_batch);

static int job_event(void *user, const manta_sgd_event *event)
{
    return event->kind == MANTA_SGD_SAVED &&
           manta_trial_report(user, event->step, "saved", (double)event->step) == MANTA_TRIAL_STOP;
}

/* Its value is the bits of the final weights: what was lost, or made twice, would be seen. */
static manta_status job(manta_trial *t)
{
    manta_error      e;
    manta_sgd_result r;
    char             data[300];
    ledger_write("begin", t);
    snprintf(data, sizeof data, "data=%s", getenv("SWEEP_DATA"));
    manta_sgd_opts o = {
        .scaling = {.min_workers = 1, .max_workers = 2},
        .run = {.name = "fit", .storage = manta_trial_dir(t), .batch = 16, .epochs = (int)strtol(getenv("SWEEP_STEPS"), NULL, 10)},
        .failure = {.max_failures = -1},
        .checkpoint = {.every_steps = 2},
        .optimizer = {MANTA_SGD_MOMENTUM, .lr = manta_trial_f64(t, "x") / 10},
        .config = (const char *[]){data, NULL},
        .seed = (uint64_t)manta_trial_i64(t, "n"),
        .on_event = job_event,
        .user = t};
    if (manta_sgd_fit("regression", &o, &r, &e))
        return manta_trial_fail(t, "%s", e.message);
    manta_trial_report(t, r.steps, "loss", (double)(r.weights >> 12));
    ledger_write("end", t);
    return MANTA_OK;
}
MANTA_TRIAL(job);

/* ---- a trial that is a command ---- */

/* Writes a file aside and renames it. */
static void file_put(const char *path, const char *text)
{
    char aside[600];
    snprintf(aside, sizeof aside, "%.580s.new", path);
    FILE *f = fopen(aside, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0 || rename(aside, path) != 0)
        abort();
}

/* As `steps`, with its state in a file of its own. `says_done`: before the ledger hears of it. */
static int command(bool says_done)
{
    char      state[600], saved[32];
    long long i = 0, trial = strtoll(getenv("MANTA_TRIAL"), NULL, 10), wanted = strtol(getenv("SWEEP_STEPS"), NULL, 10);
    double    x = manta_report_param("x", 0), base = (x - 0.3) * (x - 0.3) + manta_report_param("n", 0) * 1e-3;
    int       attempt = (int)strtol(getenv("MANTA_TRIAL_ATTEMPT"), NULL, 10);
    snprintf(state, sizeof state, "%.500s/state", manta_report_dir());
    FILE *f = fopen(state, "re");
    if (f && fscanf(f, "%lld", &i) != 1)
        abort();
    if (f)
        fclose(f);
    ledger_line("begin", trial, attempt);
    for (i = i < wanted ? i : wanted - 1; i < wanted; i++) {
        pause_ms(strtod(getenv("SWEEP_MS"), NULL));
        manta_report(i, "loss", base + (double)(wanted - i) * 1e-2);
        snprintf(saved, sizeof saved, "%lld\n", i + 1);
        file_put(state, saved);
    }
    if (says_done && manta_report_done(wanted - 1, "loss", base + 1e-2) != 0)
        abort();
    ledger_line("end", trial, attempt);
    _exit(0);
}

/* ---- the sweep ---- */

static const char *word(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t size = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, size) == 0 && argv[i][size] == '=')
            return argv[i] + size + 1;
    return otherwise;
}

static double number(int argc, char **argv, const char *name, double otherwise)
{
    const char *text = word(argc, argv, name, NULL);
    return text ? strtod(text, NULL) : otherwise;
}

int main(int argc, char **argv)
{
    manta_error        e;
    manta_sweep_result r;
    if (argc < 2)
        return 2;
    if (argc == 3 && strcmp(argv[1], "--command") == 0)
        return command(strcmp(argv[2], "done") == 0);
    if (!getenv("MANTA_ROLE")) { /* for the workers as well */
        setenv("SWEEP_MS", word(argc, argv, "ms", "0"), 1);
        setenv("SWEEP_STEPS", word(argc, argv, "steps", "10"), 1);
        setenv("SWEEP_LEDGER", word(argc, argv, "ledger", ""), 1);
        setenv("SWEEP_DATA", word(argc, argv, "data", ""), 1);
    }
    manta_init_opts init = {.num_cpus = number(argc, argv, "node_cpus", 0)};
    if (manta_init(&argc, &argv, &init, &e))
        return manta_perror(&e);
    manta_sweep_opts    o = {.name = argv[1],
                             .metric = "loss",
                             .trials = (int64_t)number(argc, argv, "trials", 100),
                             .concurrency = (int)number(argc, argv, "concurrency", 2),
                             .sampler = word(argc, argv, "sampler", "random"),
                             .scheduler = word(argc, argv, "scheduler", "fifo"),
                             .scheduler_opts = word(argc, argv, "options", NULL),
                             .sampler_opts = word(argc, argv, "sampler_options", NULL),
                             .stop = word(argc, argv, "stop", NULL),
                             .seed = (uint64_t)number(argc, argv, "seed", 1),
                             .ordered = number(argc, argv, "ordered", 0) > 0,
                             .cpus = number(argc, argv, "cpus", 1),
                             .retries = (int)number(argc, argv, "retries", 0),
                             .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1), MANTA_SWEEP_INT("n", 1, 10))};
    const char         *trial = word(argc, argv, "trial", "noop");
    bool                says_done = strcmp(trial, "done") == 0, is_command = says_done || strcmp(trial, "command") == 0;
    manta_sweep_command c = {.argv = (const char *const[]){"/proc/self/exe", "--command", says_done ? "done" : "plain", NULL}};
    o.command = is_command ? &c : NULL;
    manta_status code = manta_sweep_run(is_command ? NULL : trial, &o, &r, &e);
    if (code != MANTA_OK)
        return manta_perror(&e);
    printf("{\"best\":%.17g,\"best_trial\":%lld,\"trials\":%lld,\"completed\":%lld,\"stopped\":%lld,\"failed\":%lld,"
           "\"retried\":%lld,\"before\":%lld,\"reports\":%lld,\"seconds\":%.4f,\"params\":%s}\n",
           r.best, (long long)r.best_trial, (long long)r.trials, (long long)r.completed, (long long)r.stopped, (long long)r.failed,
           (long long)r.retried, (long long)r.finished_before, (long long)r.reports, r.seconds, r.params_json);
    return manta_shutdown();
}

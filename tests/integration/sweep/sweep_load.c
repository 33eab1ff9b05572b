/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep_load.c - a driver of a sweep for tests that kill it, and to measure with.
 *
 *   sweep_load NAME [key=value...]      trial=noop|timed|steps trials= concurrency= sampler= scheduler= options= seed= ordered=
 *                                       ms= steps= cpus= retries= ledger=FILE
 *
 * Each trial that begins and ends says so in the ledger, one line by one write. The last line of output is the result, as JSON.
 */
#include <manta_sweep.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void ledger_write(const char *what, manta_trial *t)
{
    const char *path = getenv("SWEEP_LEDGER");
    char        line[128];
    if (!path || !path[0])
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int n = snprintf(line, sizeof line, "%s %lld %d %d\n", what, (long long)manta_trial_number(t),
                     manta_trial_attempt(t), (int)getpid());
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
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
        if (manta_trial_report(t, i, "loss", value_of(t) + (double)(wanted * (wanted - 1) / 2 - sum) * 1e-2) == MANTA_STOP)
            break;
    }
    ledger_write("end", t);
    return MANTA_OK;
}
MANTA_TRIAL(steps);

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
    if (!getenv("MANTA_ROLE")) { /* for the workers as well */
        setenv("SWEEP_MS", word(argc, argv, "ms", "0"), 1);
        setenv("SWEEP_STEPS", word(argc, argv, "steps", "10"), 1);
        setenv("SWEEP_LEDGER", word(argc, argv, "ledger", ""), 1);
    }
    manta_init_opts init = {.num_cpus = number(argc, argv, "node_cpus", 0)};
    if (manta_init(&argc, &argv, &init, &e))
        return manta_perror(&e);
    manta_sweep_opts o = {.name = argv[1], .metric = "loss", .trials = (int64_t)number(argc, argv, "trials", 100),
                          .concurrency = (int)number(argc, argv, "concurrency", 2), .sampler = word(argc, argv,
                                                                                                    "sampler", "random"),
                          .scheduler = word(argc, argv, "scheduler", "fifo"), .scheduler_opts = word(argc, argv, "options", NULL),
                          .sampler_opts = word(argc, argv, "sampler_options", NULL), .stop = word(argc, argv, "stop", NULL),
                          .seed = (uint64_t)number(argc, argv, "seed", 1), .ordered = number(argc, argv, "ordered", 0) > 0,
                          .cpus = number(argc, argv, "cpus", 1), .retries = (int)number(argc, argv, "retries", 0),
                          .space = MANTA_SPACE(MANTA_UNIFORM("x", 0, 1), MANTA_INT("n", 1, 10))};
    manta_status code = manta_sweep_run(word(argc, argv, "trial", "noop"), &o, &r, &e);
    if (code != MANTA_OK)
        return manta_perror(&e);
    printf("{\"best\":%.17g,\"best_trial\":%lld,\"trials\":%lld,\"completed\":%lld,\"stopped\":%lld,\"failed\":%lld,"
           "\"retried\":%lld,\"before\":%lld,\"reports\":%lld,\"seconds\":%.4f,\"params\":%s}\n",
           r.best, (long long)r.best_trial, (long long)r.trials, (long long)r.completed, (long long)r.stopped, (long long)r.failed,
           (long long)r.retried, (long long)r.finished_before, (long long)r.reports, r.seconds, r.params_json);
    return manta_shutdown();
}

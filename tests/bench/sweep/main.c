/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-bench-sweep, which `manta bench --sweep` executes: how fast sweeps are.
 *
 *   manta-bench-sweep [-n trials] [-o table|wide|json] [ROW...]
 *
 *   trials        no-op trials of a C function finished per second, 2 slots, durable
 *   trials_cmd    trials of a command that prints its metric, per second; xargs: the same command by xargs -P2
 *   trials_ideal  trials of 10 ms on 2 slots: time over the ideal; half of -n
 *   sleeps        floor: two processes that only sleep as long, over the ideal
 *   trials_16     10,000 trials of 1 s on 16 slots in simulated time, over the ideal; the row tune_16: Ray Tune's published
 *   report        cost of a report to its trial, where nobody decides on it
 *   memory_10k    memory of the driver for 10,000 trials
 *   disk_sync     floor: 4 KiB appended and on the disk, in the folder of the journal
 *
 * Each sweep has a folder of its own in $TMPDIR, which is removed. Thread: the main one.
 */
#include "tests/bench/bench.h"
#include "tests/bench/sweep/sim.h"
#include "tests/bench/usage.h"

#include <manta_sweep.h>

#include <fcntl.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SYNCS = 100, REPORTS = 20000, SLEEP_MS = 10, SLEEPS = 300, SIM_TRIALS = 10000 };

extern char **environ;

static struct {
    int64_t trials;
    char    storage[256];
} options = {.trials = 20000};

/* ---- trials ---- */

static manta_status noop(manta_trial *t)
{
    manta_trial_report(t, 1, "loss", manta_trial_f64(t, "x"));
    return MANTA_OK;
}
MANTA_TRIAL(noop);

static void sleep_once(void)
{
    struct timespec pause = {0, SLEEP_MS * 1000000l};
    nanosleep(&pause, NULL);
}

static manta_status sleeps(manta_trial *t)
{
    sleep_once();
    return noop(t);
}
MANTA_TRIAL(sleeps);

/* Its value is what a report costs, in microseconds. */
static manta_status reports(manta_trial *t)
{
    uint64_t began = bench_now_ns();
    for (int i = 0; i < REPORTS; i++)
        manta_trial_report(t, i, "other", i);
    manta_trial_report(t, 1, "loss", (double)(bench_now_ns() - began) * 1e-3 / REPORTS);
    return MANTA_OK;
}
MANTA_TRIAL(reports);

static bool sweep(const char *name, const char *trial, int64_t trials, const manta_sweep_command *command,
                  int (*progress)(void *, const manta_sweep_progress *), void *user, manta_sweep_result *r)
{
    manta_error      e;
    manta_sweep_opts o = {.name = name,
                          .storage = options.storage,
                          .metric = "loss",
                          .trials = trials,
                          .concurrency = 2,
                          .seed = 1,
                          .command = command,
                          .progress = progress,
                          .user = user,
                          .space = MANTA_SWEEP_SPACE(MANTA_SWEEP_UNIFORM("x", 0, 1))};
    if (manta_sweep_run(trial, &o, r, &e) == MANTA_OK && r->completed == trials)
        return true;
    fprintf(stderr, "manta-bench-sweep: %s: %s\n", name, e.message);
    return false;
}

static bool run_trials(struct bench_row *row)
{
    manta_sweep_result warm, r;
    if (!sweep("warm", "noop", 100, NULL, NULL, NULL, &warm) || !sweep("trials", "noop", options.trials, NULL, NULL, NULL, &r))
        return false;
    row->value = (double)r.completed / r.seconds;
    row->n = (uint64_t)r.completed;
    return true;
}

static bool run_ideal(struct bench_row *row)
{
    manta_sweep_result r;
    int64_t            trials = options.trials / 2;
    if (!sweep("ideal", "sleeps", trials, NULL, NULL, NULL, &r))
        return false;
    row->value = r.seconds / ((double)trials * SLEEP_MS * 1e-3 / 2);
    row->n = (uint64_t)trials;
    return true;
}

/* What two processes take that do nothing but sleep: a sleep ends late. */
static bool run_sleeps(struct bench_row *row)
{
    uint64_t began = bench_now_ns();
    pid_t    pid = fork();
    for (int i = 0; i < SLEEPS && pid >= 0; i++)
        sleep_once();
    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        return false;
    row->value = (double)(bench_now_ns() - began) * 1e-9 / (SLEEPS * SLEEP_MS * 1e-3);
    row->n = 2 * SLEEPS;
    return true;
}

static bool run_simulated(struct bench_row *row)
{
    double seconds, ideal;
    row->n = SIM_TRIALS;
    bool ok = sweep_sim_run(SIM_TRIALS, &seconds, &ideal);
    row->value = seconds / ideal;
    return ok;
}

/* The same trials on as many CPUs: Ray's documentation, "scalability and overhead benchmarks" of Tune. */
static bool run_tune(struct bench_row *row)
{
    row->n = SIM_TRIALS;
    row->value = 715.27 / 625;
    return true;
}

static bool run_report(struct bench_row *row)
{
    manta_sweep_result r;
    if (!sweep("report", "reports", 4, NULL, NULL, NULL, &r))
        return false;
    row->value = r.best;
    row->n = 4 * REPORTS;
    return true;
}

static const char *const command_argv[] = {"/bin/echo", "loss=1", NULL};

static bool run_command(struct bench_row *row)
{
    manta_sweep_result  r;
    manta_sweep_command c = {.argv = command_argv};
    int64_t             trials = options.trials / 10;
    if (!sweep("command", NULL, trials, &c, NULL, NULL, &r))
        return false;
    row->value = (double)trials / r.seconds;
    row->n = (uint64_t)trials;
    return true;
}

static bool run_xargs(struct bench_row *row)
{
    char  script[128];
    pid_t pid;
    int   status;
    snprintf(script, sizeof script, "seq %lld | xargs -P2 -I{} /bin/echo loss=1 >/dev/null", (long long)(options.trials / 10));
    char    *argv[] = {"sh", "-c", script, NULL};
    uint64_t began = bench_now_ns();
    if (posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return false;
    row->n = (uint64_t)options.trials / 10;
    row->value = (double)row->n / ((double)(bench_now_ns() - began) * 1e-9);
    return true;
}

/* ---- memory ---- */

static double resident_mb(void)
{
    long  pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) * 1e-6;
}

static int resident_look(void *user, const manta_sweep_progress *p)
{
    double *most = user, now = resident_mb();
    (void)p;
    *most = now > *most ? now : *most;
    return 0;
}

static bool run_memory(struct bench_row *row)
{
    manta_sweep_result r;
    double             most = 0, before = resident_mb();
    int64_t            trials = 10000;
    if (!sweep("memory", "noop", trials, NULL, resident_look, &most, &r))
        return false;
    row->value = most > before ? most - before : 0;
    row->n = (uint64_t)trials;
    return true;
}

static bool run_sync(struct bench_row *row)
{
    char path[300], bytes[4096] = "";
    snprintf(path, sizeof path, "%s/sync", options.storage);
    int      fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    uint64_t began = bench_now_ns();
    bool     ok = fd >= 0;
    for (int i = 0; i < SYNCS && ok; i++)
        ok = write(fd, bytes, sizeof bytes) == sizeof bytes && fdatasync(fd) == 0;
    row->value = (double)(bench_now_ns() - began) * 1e-3 / SYNCS;
    row->n = SYNCS;
    if (fd >= 0)
        close(fd);
    return ok;
}

static const struct {
    const char *id, *unit;
    bool (*run)(struct bench_row *row);
} rows[] = {{"disk_sync", "us", run_sync},
            {"trials", "1/s", run_trials},
            {"trials_cmd", "1/s", run_command},
            {"xargs", "1/s", run_xargs},
            {"trials_ideal", "x ideal", run_ideal},
            {"sleeps", "x ideal", run_sleeps},
            {"trials_16", "x ideal", run_simulated},
            {"tune_16", "x ideal", run_tune},
            {"report", "us", run_report},
            {"memory_10k", "MB", run_memory}};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- main ---- */

static bool is_named(const char *id, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], id) == 0)
            return true;
    return count == 0;
}

static bool words_read(struct bench *b, int argc, char **argv)
{
    int letter;
    while ((letter = getopt(argc, argv, "n:o:")) >= 0)
        if (letter == 'n')
            options.trials = strtoll(optarg, NULL, 10);
        else if (letter == 'o')
            b->options.output = strcmp(optarg, "json") == 0 ? BENCH_JSON : strcmp(optarg, "wide") == 0 ? BENCH_WIDE : BENCH_TABLE;
        else
            return false;
    return options.trials >= 100;
}

static void storage_clear(void)
{
    pid_t pid;
    char *argv[] = {"rm", "-rf", options.storage, NULL};
    if (posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    static struct bench b;
    manta_error         e;
    const char         *tmp = getenv("TMPDIR");
    manta_init_opts     init = {.num_cpus = 2};
    bool                ok = true;
    bool                is_help = bench_is_help(argc, argv);
    if (is_help || (!getenv("MANTA_ROLE") && !words_read(&b, argc, argv)))
        return bench_usage(is_help, "--sweep [-n trials (100 or more)] [-o table|wide|json] [ROW...]");
    if (manta_init(&argc, &argv, &init, &e))
        return manta_perror(&e), 1;
    snprintf(options.storage, sizeof options.storage, "%.200s/manta-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(options.storage))
        return perror(options.storage), 1;
    bench_print_head(&b);
    for (int i = 0; i < ROWS; i++) {
        struct bench_row row = {.id = rows[i].id, .unit = rows[i].unit};
        if (!is_named(rows[i].id, argc - optind, argv + optind))
            continue;
        bool is_good = rows[i].run(&row);
        if (is_good)
            bench_print_row(&b, &row);
        ok = ok && is_good;
    }
    manta_shutdown();
    storage_clear();
    return ok ? 0 : 1;
}

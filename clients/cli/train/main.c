/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-train, which `manta train` executes: trains what a file describes (job.h).
 *
 *   manta train job.yaml [--set SECTION.KEY=VALUE]... [--quiet] [--check], or --keys
 *
 * As the command of a sweep's trial (MANTA_TRIAL is set) it prints the metrics of each validation as such a trial should.
 *
 * It is a driver like any other program's: it uses the cluster that MANTA_ADDRESS names (`manta train` names this machine's,
 * where one runs), else brings its own, and its workers are processes of this same program. Exit status: 0 done, 1 failed, 2 wrong
 * words or a wrong file, 143 paused by SIGTERM: the present step is saved, and the same command goes on. (A detached run goes on by
 * itself.)
 *
 * Thread: the main one.
 */
#include "clients/cli/train/job.h"
#include "clients/cli/train/log.h"
#include "clients/cli/words/printed.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* As trial of a sweep (manta_sweep.h: what a command prints). */
static void metrics_tell(const manta_sgd_event *event)
{
    if (event->kind != MANTA_SGD_VALIDATED || !getenv("MANTA_TRIAL"))
        return;
    printf("step=%lld", (long long)event->step);
    for (int i = 0; i < event->metrics; i++)
        printf(" %s=%.9g", event->names[i], event->values[i]);
    printf("\n");
    fflush(stdout);
}

static int on_event(void *user, const manta_sgd_event *event)
{
    train_log_event(user, event);
    metrics_tell(event);
    return 0;
}

static int usage(FILE *to, int status)
{
    fprintf(to, "usage: manta train FILE [--set SECTION.KEY=VALUE]... [--quiet] [--check]\n"
                "       manta train --keys          what the file may say, and the defaults\n"
                "  train what a YAML file describes; \"-\": standard input\n\n"
                "  --set     puts a value in the place of the file's\n"
                "  --quiet   prints the result only\n"
                "  --check   says whether it could be trained: file, model, data; trains nothing\n\n"
                "  model: {name: mlp, hidden: [256]}\n"
                "  data: {path: FOLDER}\n"
                "  run: {name: first, storage: FOLDER, epochs: 5, batch: 64, timeline: FILE, tracking: FOLDER}\n"
                "  scaling: {min_workers: 1, max_workers: 2}\n"
                "  optimizer: {kind: momentum, lr: 0.02, schedule: cosine}\n"
                "  failure: {max_failures: -1}\n"
                "  checkpoint: {every_s: 30, keep: 2}\n"
                "  log: {csv: FILE, tensorboard: FOLDER}\n");
    return status;
}

struct words {
    const char *file;
    bool        is_quiet, is_check;
};

static int wrong(const char *what, const char *word)
{
    fprintf(stderr, "manta train: %s%s\nSee: manta train --help\n", what, word);
    return 2;
}

/* What stands behind `manta train`, but for the values of --set: 0, or the exit status. */
static int words_sort(int argc, char **argv, struct words *words)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--set") == 0) {
            if (++i == argc)
                return wrong("--set lacks its value: SECTION.KEY=VALUE", "");
        } else if (strcmp(argv[i], "--quiet") == 0) {
            words->is_quiet = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            words->is_check = true;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return wrong("not understood: ", argv[i]);
        } else if (words->file) {
            return wrong("one FILE is trained, so this one is too much: ", argv[i]);
        } else {
            words->file = argv[i];
        }
    }
    return words->file ? 0 : argc > 1 ? wrong("FILE is missing", "") : usage(stderr, 2);
}

static bool job_make(struct job *job, int argc, char **argv, const struct words *words)
{
    bool is_made = job_read(job, words->file);
    for (int i = 1; is_made && i + 1 < argc; i++)
        if (strcmp(argv[i], "--set") == 0)
            is_made = job_set(job, argv[++i]);
    return is_made;
}

static volatile int wants_pause;

static void on_sigterm(int number)
{
    (void)number;
    wants_pause = 1;
}

/* The first SIGTERM: who sends it gives us some time. A second one ends this process. */
static void pause_by_signal(manta_sgd_opts *opts)
{
    struct sigaction action = {.sa_handler = on_sigterm, .sa_flags = SA_RESTART | SA_RESETHAND};
    if (opts->run.detached)
        return;
    opts->pause = &wants_pause;
    sigaction(SIGTERM, &action, NULL);
}

static int paused(const struct job *job, long long step)
{
    const char *kept = job->opts.run.storage ? "the same command goes on from there" : "nothing is kept, run.storage is not set";
    printf("paused at step=%lld by SIGTERM: %s\n", step, kept);
    return 128 + SIGTERM;
}

static int train(struct job *job, const struct words *words)
{
    struct train_log log;
    manta_sgd_result r;
    manta_error      e;
    char             text[JOB_ERROR_SIZE];

    if (!train_log_open(&log, job->csv, job->tensorboard, words->is_quiet, text, sizeof text)) {
        fprintf(stderr, "manta train: %s\n", text);
        return 1;
    }
    job->opts.on_event = on_event;
    job->opts.user = &log;
    pause_by_signal(&job->opts);
    manta_status code = manta_sgd_fit(job->name, &job->opts, &r, &e);
    train_log_close(&log);
    if (code != MANTA_OK) {
        fprintf(stderr, "manta train: %s%s\n", job_place(job, &e, text), e.message);
        return 1;
    }
    if (r.stopped == MANTA_SGD_PAUSED)
        return paused(job, (long long)r.steps);
    printf("loss=%.6g accuracy=%.4f steps=%lld%s weights=%016llx\n", r.loss, r.accuracy, (long long)r.steps,
           r.stopped ? " stopped early" : "", (unsigned long long)r.weights);
    printf("%.1f s, %d restarts, slowest recovery %.1f ms, %lld steps lost, %.2f MB of optimizer state in a worker\n", r.wall_s,
           r.restarts, r.slowest_s * 1e3, (long long)r.steps_lost, (double)r.optimizer_bytes * 1e-6);
    return 0;
}

static int check(struct job *job)
{
    manta_error e;
    char        text[JOB_ERROR_SIZE];
    if (manta_sgd_check(job->name, &job->opts, &e) == MANTA_OK)
        return 0;
    fprintf(stderr, "manta train: %s%s\n", job_place(job, &e, text), e.message);
    return 1;
}

/* 0: go on; else the exit status. Wrong words need no cluster; a process for workers gets none. */
static int prepare(struct job *job, int argc, char **argv, struct words *words)
{
    if (getenv("MANTA_ROLE"))
        return 0;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        exit(cli_printed("manta train", usage(stdout, 0)));
    if (argc == 2 && strcmp(argv[1], "--keys") == 0) {
        job_keys_print(stdout);
        exit(cli_printed("manta train", 0));
    }
    int status = words_sort(argc, argv, words);
    if (status)
        return status;
    if (job_make(job, argc, argv, words))
        return 0;
    fprintf(stderr, "manta train: %s\n", job->settings.error);
    return 2;
}

int main(int argc, char **argv)
{
    static struct job job;
    struct words      words = {0};
    manta_error       e;
    int               status = prepare(&job, argc, argv, &words);

    if (status == 0 && words.is_check) {
        status = check(&job);
    } else if (status == 0) {
        if (manta_init(&argc, &argv, NULL, &e))
            return manta_perror(&e), 1;
        status = cli_printed("manta train", train(&job, &words));
        manta_shutdown();
    }
    job_fini(&job);
    return status;
}

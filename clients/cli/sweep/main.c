/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-sweep, which `manta sweep` executes: runs what a file describes (file.h), and shows and steers sweeps.
 *
 * It is a driver like any other program's: it uses the cluster that MANTA_ADDRESS names, else brings its own. What
 * `resume NAME` needs is kept beside the journal (kept.h). Exit status: 0 done, 1 failed, 2 wrong words or a wrong file,
 * 130 or 143 where SIGINT or SIGTERM ended it before all trials were begun.
 *
 * Thread: the main one.
 */
#include "clients/cli/sweep/board.h"
#include "clients/cli/sweep/file.h"
#include "clients/cli/sweep/kept.h"
#include "clients/cli/sweep/screen.h"
#include "clients/cli/words/printed.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BEST_SHOWN = 10, PAIRS_SHOWN = 10, WEIGHTS_MAX = FILE_PARAMS_MAX * (FILE_PARAMS_MAX + 1) / 2 };

static volatile sig_atomic_t interrupted_by; /* a signal's number; 0: none came */

static int usage(FILE *to, int status)
{
    fprintf(to, "usage: manta sweep FILE [--quiet]       run what a YAML file describes; where it was begun, go on with it\n"
                "       manta sweep --keys                 what the file may say, and the defaults\n"
                "       manta sweep resume NAME [--quiet]\n"
                "       manta sweep list                   all sweeps\n"
                "       manta sweep show NAME              how it stands, and its best trials\n"
                "       manta sweep best NAME              the best trial's parameters, as JSON\n"
                "       manta sweep importance NAME [fanova|ped_anova] [--pairs]\n"
                "                                          how much each parameter matters, and two together\n"
                "       manta sweep export NAME csv|jsonl|policy|html [FILE], or tensorboard FOLDER\n"
                "       manta sweep stop NAME [TRIAL]      the sweep, which can be resumed, or one trial, for good\n"
                "       manta sweep pause|go NAME\n"
                "       manta sweep trials NAME N          how many trials there are to be in all\n"
                "       manta sweep time NAME SECONDS      how long it may take in all\n"
                "  --storage FOLDER   where sweeps are; default: $MANTA_SWEEPS, else ~/.manta/sweeps\n\n"
                "  name: first\n  metric: loss\n  mode: min\n  trials: 100\n  concurrency: 4\n"
                "  trial: {command: [python3, train.py, \"{args}\"]}\n"
                "  space:\n    lr: {type: loguniform, low: 1e-5, high: 1e-1}\n    layers: [1, 2, 3]\n"
                "  sampler: tpe\n  scheduler: asha\n  scheduler_opts: \"max_t=27,eta=3\"\n");
    return status;
}

struct words {
    const char *storage, *rest[4];
    int         count;
    bool        is_quiet, has_pairs;
};

static int wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int wrong(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "manta sweep: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nSee: manta sweep --help\n");
    return 2;
}

/* 0, or the exit status. */
static int words_read(struct words *w, int argc, char **argv)
{
    if (argc < 2)
        return usage(stderr, 2);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quiet") == 0)
            w->is_quiet = true;
        else if (strcmp(argv[i], "--pairs") == 0)
            w->has_pairs = true;
        else if (strcmp(argv[i], "--storage") == 0 && i + 1 < argc)
            w->storage = argv[++i];
        else if (strcmp(argv[i], "--storage") == 0)
            return wrong("--storage lacks its value: a folder");
        else if (argv[i][0] == '-' && argv[i][1])
            return wrong("not understood: %s", argv[i]);
        else if (w->count == 4)
            return wrong("unexpected word \"%s\"", argv[i]);
        else
            w->rest[w->count++] = argv[i];
    return w->count ? 0 : wrong("FILE is missing");
}

static int failed(const char *text)
{
    fprintf(stderr, "manta sweep: %s\n", text);
    return 1;
}

/* ---- running ---- */

static void on_signal(int number)
{
    interrupted_by = number;
}

struct keeping {
    const struct sweep_file *file;
    struct screen           *screen;
    bool                     is_kept;
};

static int on_first_progress(void *user, const manta_sweep_progress *p)
{
    struct keeping *k = user;
    if (!k->is_kept)
        kept_write(k->file->opts.storage, k->file->opts.name ? k->file->opts.name : "sweep", &k->file->settings);
    k->is_kept = true;
    screen_show(k->screen, p);
    return interrupted_by != 0;
}

/* With as many digits as it takes to be read back. */
static const char *real_text(double value, char out[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

static int run(const struct words *w, struct sweep_file *f)
{
    struct screen      screen;
    struct keeping     keeping = {f, &screen, false};
    manta_sweep_result r;
    manta_error        e;
    char               value[32];
    struct sigaction   action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    screen_open(&screen, f->opts.name ? f->opts.name : "sweep", f->opts.metric, w->is_quiet);
    if (!f->opts.storage)
        f->opts.storage = w->storage;
    f->opts.progress = on_first_progress;
    f->opts.user = &keeping;
    manta_status code = manta_sweep_run(f->function, &f->opts, &r, &e);
    screen_close(&screen);
    if (code != MANTA_OK)
        return failed(e.message);
    printf("%s: %" PRId64 " trials, %" PRId64 " completed, %" PRId64 " stopped early, %" PRId64 " failed, %.1f s%s\n", screen.name,
           r.trials, r.completed, r.stopped, r.failed, r.seconds, r.is_stopped ? "; not all were begun" : "");
    if (r.has_best)
        printf("best %s: trial %" PRId64 " %s\n", real_text(r.best, value), r.best_trial, r.params_json);
    if (r.is_stopped)
        fprintf(stderr, "manta sweep: stopped before its end; go on with: manta sweep resume %s%s%s\n", screen.name,
                f->opts.storage ? " --storage " : "", f->opts.storage ? f->opts.storage : "");
    return r.is_stopped && interrupted_by ? 128 + interrupted_by : 0; /* as a shell says it of a program that a signal ended */
}

/* ---- looking ---- */

static int on_name(void *user, const char *name)
{
    const struct words *w = user;
    manta_error         e;
    manta_sweep_view   *v = manta_sweep_look(w->storage, name, &e);
    if (!v) {
        printf("%-24s %s\n", name, e.message);
        return 0;
    }
    printf("%-24s %-10s %8" PRId64 " %8" PRId64 " %8" PRId64 " %8" PRId64 " ", name, v->state, v->count, v->completed, v->stopped,
           v->failed);
    if (v->best >= 0)
        printf("%s=%.6g\n", v->metric, v->trials[v->best].value);
    else
        printf("-\n");
    manta_sweep_view_free(v);
    return 0;
}

static int list(struct words *w)
{
    printf("%-24s %-10s %8s %8s %8s %8s %s\n", "NAME", "STATE", "TRIALS", "ENDED", "STOPPED", "FAILED", "BEST");
    if (manta_sweep_names(w->storage, on_name, w) == 0)
        printf("(none)\n");
    return 0;
}

static int by_value(const void *a, const void *b, void *user)
{
    const manta_sweep_view  *v = user;
    const manta_sweep_trial *x = &v->trials[*(const int64_t *)a], *y = &v->trials[*(const int64_t *)b];
    double                   sign = strcmp(v->mode, "max") == 0 ? -1 : 1;
    if (x->has_value != y->has_value)
        return x->has_value ? -1 : 1;
    return (sign * x->value > sign * y->value) - (sign * x->value < sign * y->value);
}

static int show(const manta_sweep_view *v)
{
    int64_t *order = calloc((size_t)v->count + 1, sizeof *order);
    printf("%s: %s %s, %s; sampler %s, scheduler %s, seed %s\n", v->name, v->mode, v->metric, v->state, v->sampler, v->scheduler,
           v->seed);
    printf("%" PRId64 " trials: %" PRId64 " completed, %" PRId64 " stopped early, %" PRId64 " failed, %" PRId64 " retries; "
           "%.1f s, begun or resumed %" PRId64 " times\n\n",
           v->count, v->completed, v->stopped, v->failed, v->retried, v->seconds, v->drivers);
    for (int64_t i = 0; order && i < v->count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, (size_t)v->count, sizeof *order, by_value, (void *)(uintptr_t)v);
    printf("%8s %-10s %14s %8s %8s  %s\n", "TRIAL", "STATE", v->metric, "STEP", "SECONDS", "PARAMETERS");
    for (int64_t i = 0; order && i < v->count && i < BEST_SHOWN; i++) {
        const manta_sweep_trial *t = &v->trials[order[i]];
        printf("%8" PRId64 " %-10s %14.6g %8" PRId64 " %8.2f  %s\n", t->number, t->state, t->value, t->step,
               t->ended_s > 0 ? t->ended_s - t->drawn_s : 0, t->params);
    }
    for (int64_t i = 0, said = 0; i < v->count && said < BEST_SHOWN; i++)
        if (v->trials[i].why && ++said)
            printf("%strial %" PRId64 " failed: %s\n", said == 1 ? "\n" : "", i, v->trials[i].why);
    free(order);
    return 0;
}

static int best(const manta_sweep_view *v)
{
    if (v->best < 0)
        return failed("no trial has ended with a value yet");
    printf("%s\n", v->trials[v->best].params);
    return 0;
}

/* What one parameter explains by itself comes first; of pairs what they explain beyond that. */
static void weights_print(const manta_sweep_view *v, const manta_sweep_weight *weights, int count, bool is_fanova, bool has_pairs)
{
    double explained = 0;
    int    pairs = 0;
    for (int i = 0; i < count && !weights[i].other[0]; i++) {
        printf("%-24s %5.1f %%\n", weights[i].name, 100 * weights[i].weight);
        explained += weights[i].variance;
    }
    if (v->completed > MANTA_SWEEP_WEIGHED_MAX)
        printf("by %d completed trials, drawn from %" PRId64, MANTA_SWEEP_WEIGHED_MAX, v->completed);
    else
        printf("by %" PRId64 " completed trials", v->completed);
    if (is_fanova)
        printf("; single parameters explain %.1f %% of the variance%s", 100 * explained,
               explained < 0.9 && !has_pairs ? ", for pairs of them see --pairs" : "");
    printf("\n");
    for (int i = 0; i < count && pairs < PAIRS_SHOWN; i++)
        if (weights[i].other[0] && ++pairs)
            printf("%s * %s  %.1f %%\n", weights[i].name, weights[i].other, 100 * weights[i].variance);
}

static int importance(const struct words *w, const manta_sweep_view *v)
{
    manta_sweep_importance_opts opts = {.method = w->count > 2 ? w->rest[2] : v->importance, .pairs = w->has_pairs};
    manta_sweep_weight         *weights = calloc(WEIGHTS_MAX, sizeof *weights);
    manta_error                 e;
    int                         count = weights ? manta_sweep_importance(v, &opts, weights, WEIGHTS_MAX, &e) : -1;
    if (count >= 0)
        weights_print(v, weights, count, strcmp(opts.method, "fanova") == 0, w->has_pairs);
    free(weights);
    return count >= 0 ? 0 : failed(weights ? e.message : "no memory");
}

static int tensorboard(const manta_sweep_view *v, const char *folder)
{
    if (sweep_board_write(v, folder))
        return 0;
    fprintf(stderr, "manta sweep: %s: %s\n", folder, strerror(errno));
    return 1;
}

static int export(const manta_sweep_view *v, const char *format, const char *path)
{
    manta_error e;
    FILE       *to = path ? fopen(path, "we") : stdout;
    if (!to) {
        fprintf(stderr, "manta sweep: %s: %s\n", path, strerror(errno));
        return 1;
    }
    manta_status code = manta_sweep_export(v, format, to, &e);
    if (to != stdout && fclose(to) != 0 && code == MANTA_OK)
        return failed("the disk refuses the results");
    return code == MANTA_OK ? 0 : failed(e.message);
}

static int look(const struct words *w)
{
    const char       *verb = w->rest[0];
    manta_error       e;
    manta_sweep_view *v = w->count > 1 ? manta_sweep_look(w->storage, w->rest[1], &e) : NULL;
    int               status;
    if (w->count < 2)
        return wrong("%s: NAME is missing (manta sweep list)", verb);
    if (!v)
        return failed(e.message);
    if (strcmp(verb, "show") == 0)
        status = show(v);
    else if (strcmp(verb, "best") == 0)
        status = best(v);
    else if (strcmp(verb, "importance") == 0)
        status = importance(w, v);
    else
        status = w->count == 4 && strcmp(w->rest[2], "tensorboard") == 0 ? tensorboard(v, w->rest[3])
                 : w->count > 2                                          ? export(v, w->rest[2], w->rest[3])
                                : wrong("export: what as is missing: csv, jsonl, policy, html or tensorboard");
    manta_sweep_view_free(v);
    return status;
}

static int tell(const struct words *w)
{
    const char *verb = w->rest[0], *text = w->rest[2];
    char       *end = NULL;
    int64_t     value = text ? strtoll(text, &end, 10) : 0;
    int         what = strcmp(verb, "pause") == 0    ? MANTA_SWEEP_PAUSE
                       : strcmp(verb, "go") == 0     ? MANTA_SWEEP_GO
                       : strcmp(verb, "trials") == 0 ? MANTA_SWEEP_TRIALS
                       : strcmp(verb, "time") == 0   ? MANTA_SWEEP_TIME
                       : text                        ? MANTA_SWEEP_STOP_TRIAL
                                                     : MANTA_SWEEP_STOP;
    manta_error e;
    if (w->count < 2)
        return wrong("%s: NAME is missing (manta sweep list)", verb);
    if (text && (end == text || *end))
        return wrong("%s %s: \"%s\" is not a whole number", verb, w->rest[1], text);
    if ((what == MANTA_SWEEP_TRIALS || what == MANTA_SWEEP_TIME) && !text)
        return wrong("%s %s: a number is missing", verb, w->rest[1]);
    return manta_sweep_tell(w->storage, w->rest[1], what, value, &e) == MANTA_OK ? 0 : failed(e.message);
}

/* ---- words ---- */

static bool is_one_of(const char *word, const char *words)
{
    size_t size = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += size)
        if ((at == words || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0))
            return true;
    return false;
}

/* -1: there is a file to be run, in f. Else the exit status. */
static int prepare(struct words *w, struct sweep_file *f, int argc, char **argv)
{
    static char path[KEPT_PATH_SIZE], storage[KEPT_PATH_SIZE], error[KEPT_ERROR_SIZE];
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--keys") == 0) {
        sweep_keys_print(stdout);
        return 0;
    }
    int status = words_read(w, argc, argv);
    if (status)
        return status;
    if (strcmp(w->rest[0], "list") == 0)
        return list(w);
    if (is_one_of(w->rest[0], "show best importance export"))
        return look(w);
    if (is_one_of(w->rest[0], "stop pause go trials time"))
        return tell(w);
    const char *file = w->rest[0];
    if (strcmp(file, "resume") != 0 && w->count > 1 && access(file, F_OK) == 0)
        return wrong("unexpected word \"%s\"", w->rest[1]);
    if (strcmp(file, "resume") != 0 && (w->count > 1 || (!strpbrk(file, "./-") && access(file, F_OK) != 0)))
        return wrong("\"%s\" is neither a file nor one of the words that there are", file);
    if (strcmp(file, "resume") == 0) {
        if (w->count < 2)
            return wrong("resume: NAME is missing (manta sweep list)");
        if (!kept_enter(w->storage, w->rest[1], path, storage, error))
            return failed(error);
        file = path;
    }
    if (sweep_file_read(f, file)) {
        if (file == path)
            f->opts.storage = storage; /* where it was found, whatever the file says */
        return -1;
    }
    fprintf(stderr, "manta sweep: %s\n", f->settings.error);
    return 2;
}

int main(int argc, char **argv)
{
    static struct sweep_file f;
    struct words             words = {0};
    manta_error              e;
    int                      status = getenv("MANTA_ROLE") ? -1 : cli_printed("manta sweep", prepare(&words, &f, argc, argv));

    if (status < 0) {
        manta_runtime_env env = {.code = f.code};
        manta_init_opts   opts = {.runtime_env = f.code ? &env : NULL};
        if (manta_init(&argc, &argv, &opts, &e))
            return manta_perror(&e), 1;
        status = cli_printed("manta sweep", run(&words, &f));
        manta_shutdown();
    }
    sweep_file_fini(&f);
    return status;
}

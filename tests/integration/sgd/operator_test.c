/* SPDX-License-Identifier: Apache-2.0
 *
 * operator_test.c - operators of a user's own: parameters, data, metrics and configuration under their names, optimizers and
 * schedules, early stopping, the best checkpoints; and what is refused, with the reason.
 *
 * The operator fits a line of INPUTS weights. A ledger beside the data notes for which sample of the run each record was used,
 * per epoch, by whichever worker: a file that all of them map. A record that is used for two samples of one epoch breaks it.
 * Gates let a test say how many workers may start: setup waits until there is one for it. Thread: the driver's main one.
 */
#include "tests/integration/harness.h"
#include "tests/integration/sgd/gates.h"

#include <manta_sgd.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUTS = 15, RECORDS = 1000, CHECKS = 100, BATCH = 64, PATH_SIZE = 512, EPOCHS_MAX = 64 };
enum { LEDGER = EPOCHS_MAX * RECORDS + 1, ELASTIC_EPOCHS = 60, UNTIL_US = 20 * 1000 };

struct line {
    float            *w, *g, *b, *gb; /* weights and offset, their gradients */
    int64_t           n, one;
    _Atomic uint32_t *ledger;  /* [epoch][record]: the sample, from 1; the last word counts contradictions */
    int64_t           poison;  /* the sample at which the gradient breaks; -1: none */
    int64_t           slow_us; /* a pause in each batch */
    const char       *until;   /* a file: the second half of the run goes slowly until it is there; NULL: it does not */
};

/* ---- the operator ---- */
static void ledger_note(const struct line *m, const manta_sgd_batch *b)
{
    for (int64_t i = 0; m->ledger && i < b->count; i++) {
        uint64_t sample = b->sample + (uint64_t)i, epoch = sample / RECORDS;
        if (epoch >= EPOCHS_MAX)
            continue;
        uint32_t before = atomic_exchange(&m->ledger[epoch * RECORDS + b->numbers[i]], (uint32_t)sample + 1);
        if (before && before != sample + 1)
            m->ledger[LEDGER - 1]++;
    }
}

static double forward_backward(const struct line *m, const float *record, int64_t count, bool is_training, double *wide)
{
    double loss = 0;
    for (int64_t r = 0; r < count; r++, record += INPUTS + 1) {
        float error = m->b[0] - record[INPUTS];
        for (int64_t i = 0; i < m->n; i++)
            error += m->w[i] * record[i];
        for (int64_t i = 0; is_training && i < m->n; i++)
            m->g[i] += 2 * error * record[i] / (float)count;
        if (is_training)
            m->gb[0] += 2 * error / (float)count;
        loss += (double)(error * error);
        *wide = fmax(*wide, fabs((double)error));
    }
    return loss / (double)count;
}

static _Atomic uint32_t *ledger_open(const char *path)
{
    int   fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, LEDGER * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* A run in which something is to happen does not end before it has, however long that takes. */
static void pause_make(const struct line *m, const manta_sgd_batch *b)
{
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    if (m->until && b->sample > (uint64_t)(ELASTIC_EPOCHS / 2 * RECORDS) && access(m->until, F_OK) != 0)
        usleep(UNTIL_US);
}

static manta_status line_setup(manta_sgd *t, void **self)
{
    struct line *m = *self = manta_sgd_alloc(t, sizeof *m);
    const char  *folder = manta_sgd_conf_str(t, "folder", "."), *train = manta_sgd_conf_str(t, "train", "train.bin");
    char         path[PATH_SIZE];
    m->n = manta_sgd_conf_i64(t, "n", INPUTS), m->one = 1;
    m->poison = manta_sgd_conf_i64(t, "poison", -1);
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    m->until = manta_sgd_conf_str(t, "until", NULL);
    m->ledger = manta_sgd_conf_str(t, "ledger", NULL) ? ledger_open(manta_sgd_conf_str(t, "ledger", NULL)) : NULL;
    if (manta_sgd_conf_str(t, "gates", NULL) && !manta_sgd_is_driver(t))
        gates_pass(manta_sgd_conf_str(t, "gates", NULL));
    manta_sgd_param(t, "line/w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    manta_sgd_param(t, manta_sgd_conf_str(t, "second", "line/b"), MANTA_SGD_F32, 1, &m->one, &m->b, &m->gb);
    manta_sgd_metric(t, "widest", 0);
    if (manta_sgd_conf_i64(t, "validate", 1)) {
        snprintf(path, sizeof path, "%s/check.bin", folder);
        manta_sgd_data(t, path, &(manta_sgd_data_opts){.record = 4 * (INPUTS + 1), .skip = 16, .validate = true});
    }
    snprintf(path, sizeof path, "%s/%s", folder, train);
    return manta_sgd_data(t, path, &(manta_sgd_data_opts){.record = 4 * (INPUTS + 1), .skip = 16, .shuffle = true});
}

static manta_status line_init(manta_sgd *t, void *self)
{
    struct line *m = self;
    m->b[0] = (float)manta_sgd_conf_f64(t, "offset", 0);
    return MANTA_OK;
}

static manta_status line_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct line *m = self;
    double       widest = 0, loss = forward_backward(m, b->data, b->count, true, &widest);
    ledger_note(m, b);
    pause_make(m, b);
    gates_hold(t);
    if (manta_sgd_conf_str(t, "crash", NULL)) {
        fprintf(stderr, "the well is %s\n", manta_sgd_conf_str(t, "crash", NULL));
        raise(SIGKILL);
    }
    if (m->poison >= 0 && b->sample <= (uint64_t)m->poison && (uint64_t)m->poison < b->sample + (uint64_t)b->count)
        m->g[1] = (float)NAN;
    if (manta_sgd_conf_str(t, "unknown", NULL))
        return manta_sgd_metric(t, "unheard", 1);
    manta_sgd_metric(t, "widest", widest);
    return manta_sgd_metric(t, "loss", loss);
}

static manta_status line_check(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct line *m = self;
    double       widest = 0;
    manta_sgd_metric(t, "loss", forward_backward(m, b->data, b->count, false, &widest));
    return manta_sgd_metric(t, "widest", widest);
}
MANTA_SGD_OPERATOR(line, .setup = line_setup, .init = line_init, .train_batch = line_train, .validate_batch = line_check);

/* ---- an operator on tables: the label of a record as a line of its columns ---- */

enum { COLUMNS = 4, ROWS = 400 };
struct table {
    float  *w, *g;
    int64_t n;
};

static manta_status table_setup(manta_sgd *t, void **self)
{
    struct table       *m = *self = manta_sgd_alloc(t, sizeof *m);
    const char         *labels = manta_sgd_conf_str(t, "labels", NULL);
    manta_sgd_data_opts opts = {.shuffle = true,
                                .format = labels ? MANTA_SGD_NPY : MANTA_SGD_CSV,
                                .labels = labels,
                                .label = labels ? 0 : -1,
                                .classes = (int)manta_sgd_conf_i64(t, "classes", 8)};
    m->n = COLUMNS;
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "table", ""), &opts);
}

static manta_status table_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct table *m = self;
    const float  *x = b->data;
    double        loss = 0;
    for (int64_t r = 0; r < b->count; r++, x += COLUMNS) {
        float error = -(float)b->labels[r];
        for (int i = 0; i < COLUMNS; i++)
            error += m->w[i] * x[i];
        for (int i = 0; i < COLUMNS; i++)
            m->g[i] += 2 * error * x[i] / (float)b->count;
        loss += (double)(error * error) / (double)b->count;
    }
    gates_hold(t);
    return manta_sgd_metric(t, "loss", loss);
}
MANTA_SGD_OPERATOR(table, .setup = table_setup, .train_batch = table_train);

/* ---- its data ---- */
static char folder[PATH_SIZE];

static void set_write(const char *name, int records, unsigned state)
{
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wbe");
    CHECK(f && fwrite("sixteen bytes...", 16, 1, f) == 1);
    for (int r = 0; r < records; r++) {
        float record[INPUTS + 1] = {[INPUTS] = 1};
        for (int i = 0; i < INPUTS; i++) {
            state = state * 1664525u + 1013904223u;
            record[i] = (float)(state >> 16) / 65536 - 0.5f;
            record[INPUTS] += record[i] * (float)(i - 7);
        }
        CHECK_EQ(fwrite(record, sizeof record, 1, f), 1);
    }
    CHECK_EQ(fclose(f), 0);
}

static char *config[8];
static char  config_texts[8][PATH_SIZE + 64], blows[PATH_SIZE + 16];

static void config_set(int at, const char *name, const char *value)
{
    snprintf(config_texts[at], sizeof config_texts[at], "%s=%s", name, value);
    config[at] = config_texts[at];
}

static void config_blows(int at, int count, int64_t steps)
{
    gates_blows(config_texts[at], sizeof config_texts[at], blows, count, steps);
    config[at] = config_texts[at];
}

static void data_make(void)
{
    snprintf(folder, sizeof folder, "%s/operator", getenv("XDG_RUNTIME_DIR"));
    snprintf(blows, sizeof blows, "%s/blows", folder);
    CHECK_EQ(mkdir(folder, 0700), 0);
    set_write("train.bin", RECORDS, 1);
    set_write("check.bin", CHECKS, 2);
    memset(config, 0, sizeof config);
    config_set(0, "folder", folder);
}

static void data_clear(void)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-r", folder, NULL}, output, sizeof output), 0);
}

/* ---- a run ---- */
struct follow {
    int     validated, reported, kills, stops; /* stops: how often it was told to */
    int64_t stop_at, steps, next_step;
    double  widest;
    int     pids[8], stage, workers, most;
    bool    is_elastic;
    char    sizes[64];
};
static struct follow followed;

static void elastic_event(struct follow *f, const manta_sgd_event *event);

static int on_event(void *user, const manta_sgd_event *event)
{
    struct follow *f = user;
    if (event->kind == MANTA_SGD_WORKER)
        f->pids[event->rank] = event->pid;
    f->validated += event->kind == MANTA_SGD_VALIDATED;
    f->reported += event->kind == MANTA_SGD_STEP;
    if (event->metrics > 2) {
        CHECK_EQ(event->metrics, 3);
        CHECK_STR(event->names[2], "widest");
        f->widest = event->values[2];
    }
    f->steps = event->steps;
    f->workers = event->workers;
    f->most = event->workers > f->most ? event->workers : f->most;
    if (event->kind == MANTA_SGD_RESIZED)
        snprintf(f->sizes + strlen(f->sizes), sizeof f->sizes - strlen(f->sizes), " %d", event->workers);
    if (f->is_elastic)
        elastic_event(f, event);
    if (event->kind == MANTA_SGD_STEP && f->kills > 0 && f->pids[0] > 1) {
        CHECK_EQ(kill(f->pids[0], SIGKILL), 0);
        f->pids[0] = 0;
        f->kills--;
        gates_open(blows, 1);
    }
    bool stops = event->kind == MANTA_SGD_STEP && f->stop_at && event->step >= f->stop_at;
    if (stops && f->stops++ > 0) /* it knows of it: who waits in the middle, since we came late, may go on */
        gates_open(blows, 1);
    return stops;
}

static manta_sgd_opts options(int workers, int epochs)
{
    followed = (struct follow){0};
    return (manta_sgd_opts){.scaling.max_workers = workers,
                            .run = {.epochs = epochs, .batch = BATCH, .shards = 8, .log_steps = 5},
                            .failure.max_failures = -1,
                            .optimizer = {.lr = 0.1},
                            .config = (const char *const *)config,
                            .seed = 3,
                            .on_event = on_event,
                            .user = &followed};
}

static manta_sgd_result fit(const manta_sgd_opts *opts)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit("line", opts, &r, &e), MANTA_OK, &e);
    return r;
}

static void refused(const manta_sgd_opts *opts, const char *name, manta_status wanted, const char *word)
{
    manta_error e;
    CHECK_CODE(manta_sgd_fit(name, opts, NULL, &e), wanted, &e);
    CHECK_SAYS(e.message, word);
}

/* ---- what it does ---- */
static void learns_and_validates(void)
{
    data_make();
    manta_sgd_opts   opts = options(2, 30);
    manta_sgd_result r = fit(&opts);
    CHECK(r.loss < 0.01);
    CHECK_EQ(followed.validated, 30);
    CHECK_EQ(r.steps, (30 * RECORDS + BATCH - 1) / BATCH);
    CHECK_EQ(followed.steps, r.steps);
    CHECK(followed.reported > 50 && followed.widest > 0 && followed.widest < 1);
    for (int kind = 0; kind < 6; kind++) { /* the same bits for any number of workers, whatever the optimizer */
        uint64_t weights = 0;
        for (int workers = 1; workers <= 4; workers *= 2) {
            opts = options(workers, 5);
            opts.optimizer.kind = kind & 1 ? MANTA_SGD_ADAMW : MANTA_SGD_MOMENTUM;
            opts.optimizer.schedule = kind / 2;
            opts.optimizer.warmup_steps = kind;
            opts.optimizer.clip_norm = kind == 3 ? 0.5 : 0;
            opts.run.shards = 4;
            opts.run.validate_epochs = 2;
            r = fit(&opts);
            CHECK(workers == 1 || r.weights == weights);
            CHECK_EQ(followed.validated, 3);
            weights = r.weights;
        }
    }
    data_clear();
}

static void ledger_make(char path[PATH_SIZE + 16])
{
    snprintf(path, PATH_SIZE + 16, "%s/ledger", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, LEDGER * sizeof(uint32_t)) == 0);
    close(fd);
    config_set(1, "ledger", path);
}

/* Each record of every whole epoch, and no record twice in any. */
static void ledger_check(const char *path, int64_t samples)
{
    _Atomic uint32_t *ledger = ledger_open(path);
    int64_t           used = 0;
    CHECK(ledger);
    CHECK_EQ(ledger[LEDGER - 1], 0);
    for (int64_t i = 0; i < LEDGER - 1; i++)
        used += ledger[i] != 0;
    CHECK(used >= samples && used <= samples + BATCH); /* a step that was begun and not ended */
    for (int64_t i = 0; i < samples / RECORDS * RECORDS; i++)
        CHECK(ledger[i] != 0);
    munmap(ledger, LEDGER * sizeof(uint32_t));
}

/* Stopped by on_event, which is the run's end: a checkpoint of its own, and nothing more to do. */
static void every_record_once(void)
{
    char path[PATH_SIZE + 16], storage[PATH_SIZE + 16];
    data_make();
    ledger_make(path);
    snprintf(storage, sizeof storage, "%s/storage", folder);
    config_set(2, "slow_us", "500");
    config_blows(3, 1, EPOCHS_MAX * RECORDS / BATCH);
    manta_sgd_opts opts = options(2, EPOCHS_MAX); /* far more than are made */
    opts.run.storage = storage;
    followed.stop_at = 150;
    manta_sgd_result r = fit(&opts);
    CHECK(r.stopped && r.steps >= 150 && r.steps < EPOCHS_MAX * RECORDS / BATCH);
    ledger_check(path, r.steps * BATCH);
    uint64_t weights = r.weights;
    followed.stop_at = 0;
    r = fit(&opts);
    CHECK(r.stopped && r.first_step == r.steps && r.weights == weights);
    data_clear();
}

static char gates[PATH_SIZE + 16], until[PATH_SIZE + 16]; /* until: the end of the slow part of a run */

/* 2 workers, then 1, 4, and 2 again: nobody is replaced until a gate opens. */
static void elastic_event(struct follow *f, const manta_sgd_event *event)
{
    if (event->kind != MANTA_SGD_STEP || event->step < f->next_step)
        return;
    if (f->stage == 0 && event->workers == 2)
        CHECK_EQ(kill(f->pids[1], SIGKILL), 0);
    else if (f->stage == 1 && event->workers == 1)
        gates_open(gates, 3);
    else if (f->stage == 2 && event->workers == 4)
        CHECK_EQ(kill(f->pids[0], SIGKILL) | kill(f->pids[2], SIGKILL), 0);
    else if (f->stage == 3 && event->workers == 2)
        gates_open(until, 1);
    else
        return;
    f->stage++;
    f->next_step = event->step + 20;
}

static void shrinks_and_grows(void)
{
    char path[PATH_SIZE + 16];
    data_make();
    manta_sgd_opts opts = options(1, ELASTIC_EPOCHS);
    uint64_t       wanted = fit(&opts).weights;
    ledger_make(path);
    snprintf(gates, sizeof gates, "%s/gates", folder);
    snprintf(until, sizeof until, "%s/until", folder);
    config_set(2, "gates", gates);
    config_set(3, "slow_us", "300");
    config_set(4, "until", until);
    gates_open(gates, 2);
    opts = options(4, ELASTIC_EPOCHS);
    opts.scaling.min_workers = 1;
    followed.is_elastic = true;
    followed.next_step = 20;
    manta_sgd_result r = fit(&opts);
    CHECK_EQ(followed.stage, 4);
    CHECK_SAYS(followed.sizes, " 1 "); /* before it perhaps 2, where the second came late; then perhaps by way of 2 and 3 */
    CHECK_SAYS(followed.sizes, " 4 ");
    CHECK_STR(followed.sizes + strlen(followed.sizes) - 2, " 2");
    CHECK_EQ(r.restarts, 3);
    CHECK(r.weights == wanted);
    ledger_check(path, r.steps * BATCH);
    data_clear();
}

/* More workers than there are CPUs: the run goes on with those that it gets, which hold their CPUs as long as they live. */
static void more_than_fit(void)
{
    data_make();
    manta_sgd_opts opts = options(1, 10);
    uint64_t       wanted = fit(&opts).weights;
    config_set(1, "slow_us", "200");
    opts = options(4, 10);
    opts.scaling.min_workers = 1;
    opts.scaling.cpus = 1;
    CHECK(fit(&opts).weights == wanted);
    CHECK(followed.most >= 1 && followed.most <= 2);
    data_clear();
}

static void resumes_with_adamw(void)
{
    char storage[PATH_SIZE + 16];
    data_make();
    snprintf(storage, sizeof storage, "%s/storage", folder);
    manta_sgd_opts opts = options(1, 20);
    opts.optimizer.kind = MANTA_SGD_ADAMW, opts.optimizer.lr = 0.05;
    uint64_t wanted = fit(&opts).weights;
    config_blows(1, 2, 20 * RECORDS / BATCH);
    opts = options(2, 20);
    opts.optimizer.kind = MANTA_SGD_ADAMW, opts.optimizer.lr = 0.05;
    opts.run.storage = storage;
    opts.checkpoint.every_steps = 20;
    followed.kills = 2;
    CHECK(fit(&opts).weights == wanted);
    CHECK_EQ(followed.kills, 0);
    data_clear();
}

static int checkpoints(const char *storage, char *names, size_t size)
{
    char command[PATH_SIZE + 64];
    int  count = 0;
    snprintf(command, sizeof command, "ls %s/train | grep step-", storage);
    test_program((char *[]){"sh", "-c", command, NULL}, names, size);
    for (const char *c = names; *c; c++)
        count += *c == '\n';
    return count;
}

/* A score that only gets worse, since a large loss counts as good: the best checkpoints are the first, and patience ends the
 * run. */
static void keeps_the_best_and_stops_early(void)
{
    char storage[PATH_SIZE + 16], names[4096];
    data_make();
    snprintf(storage, sizeof storage, "%s/storage", folder);
    manta_sgd_opts opts = options(2, 30);
    opts.optimizer.lr = 1e-4;
    opts.run.patience = 3, opts.run.min_delta = 1e-3;
    opts.run.storage = storage;
    opts.checkpoint.keep = 1, opts.checkpoint.keep_best = 2;
    opts.checkpoint.score = "loss", opts.checkpoint.score_max = true; /* the largest loss: the earliest */
    manta_sgd_result r = fit(&opts);
    CHECK(r.stopped);
    CHECK_EQ(followed.validated, 4);
    int count = checkpoints(storage, names, sizeof names);
    CHECK(count >= 2 && count <= 3);
    CHECK_SAYS(names, "step-00000000000000000063"); /* the last */
    CHECK_SAYS(names, "step-00000000000000000016"); /* the end of the first epoch */
    data_clear();
}

/* ---- tables ---- */
static void npy_write(const char *name, const char *descr, const char *shape, const void *data, size_t size)
{
    char path[PATH_SIZE + 32], head[118];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    FILE *f = fopen(path, "wbe");
    CHECK(f && fprintf(f, "%cNUMPY%c%c%c%c%-117s\n", 0x93, 1, 0, 118, 0, head) == 128);
    CHECK(fwrite(data, size, 1, f) == 1 && fclose(f) == 0);
}

/* The same numbers as x.npy with y.npy, and as all.csv; as short.npy the first half of a record is missing. */
static void tables_make(void)
{
    static float   points[ROWS][COLUMNS];
    static int64_t labels[ROWS];
    char           path[PATH_SIZE + 32];
    unsigned       state = 5;
    snprintf(path, sizeof path, "%s/all.csv", folder);
    FILE *f = fopen(path, "we");
    CHECK(f && fprintf(f, "a,b,c,d,class\n") > 0);
    for (int r = 0; r < ROWS; r++) {
        state = state * 1664525u + 1013904223u;
        labels[r] = state >> 29;
        for (int i = 0; i < COLUMNS; i++) {
            state = state * 1664525u + 1013904223u;
            points[r][i] = (float)(state >> 16) / 65536 - 0.5f + (i == 1 ? (float)labels[r] / 4 : 0);
            CHECK(fprintf(f, "%.9g,", (double)points[r][i]) > 0);
        }
        CHECK(fprintf(f, "%d\n", (int)labels[r]) > 0);
    }
    CHECK_EQ(fclose(f), 0);
    npy_write("x.npy", "<f4", "(400, 4)", points, sizeof points);
    npy_write("y.npy", "<i8", "(400,)", labels, sizeof labels);
    npy_write("short.npy", "<f4", "(400, 4)", points, sizeof points - 8);
}

static void config_file(int at, const char *name, const char *file)
{
    char path[PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    config_set(at, name, path);
}

/* From a CSV file and from arrays of NumPy: the same weights, with two workers of which one is killed. */
static void tables(void)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = options(1, 40);
    data_make();
    tables_make();
    config_file(0, "table", "all.csv");
    CHECK_CODE(manta_sgd_fit("table", &opts, &r, &e), MANTA_OK, &e);
    CHECK(r.loss < 2 && r.steps == 40 * ROWS / BATCH);
    uint64_t wanted = r.weights;
    config_set(1, "classes", "7");
    refused(&opts, "table", MANTA_ECORRUPT, "all.csv, line ");
    config_file(1, "labels", "y.npy");
    config_file(0, "table", "x.npy");
    config_blows(2, 1, 40 * ROWS / BATCH);
    opts = options(2, 40);
    followed.kills = 1;
    CHECK_CODE(manta_sgd_fit("table", &opts, &r, &e), MANTA_OK, &e);
    CHECK(r.weights == wanted && r.restarts == 1);
    config_file(0, "table", "short.npy");
    refused(&opts, "table", MANTA_ECORRUPT, "short.npy");
    config_set(2, "classes", "7");
    config_file(0, "table", "x.npy");
    refused(&opts, "table", MANTA_ECORRUPT, "y.npy");
    data_clear();
}

/* ---- a tracker ---- */
struct told {
    int     begins, params, reports, checkpoints, ends, fails_at; /* the report that it fails at; 0: none */
    int64_t from, last;
    bool    has_name, has_config, has_widest;
    char    status[32], error[512], log_failed[256];
};

static int told_begin(void *user, const char *run, int64_t from)
{
    struct told *t = user;
    CHECK_STR(run, "train");
    t->begins++, t->from = from, t->last = from;
    return 0;
}

static int told_params(void *user, int count, const char *const *names, const char *const *values)
{
    struct told *t = user;
    t->params++;
    for (int i = 0; i < count; i++) {
        t->has_name = t->has_name || (strcmp(names[i], "operator") == 0 && strcmp(values[i], "line") == 0);
        t->has_config = t->has_config || (strcmp(names[i], "config.n") == 0 && strcmp(values[i], "15") == 0);
    }
    return 0;
}

static int told_metrics(void *user, int64_t step, int count, const char *const *names, const double *values)
{
    struct told *t = user;
    CHECK(step >= t->last && step > t->from - 1);
    t->last = step;
    for (int i = 0; i < count; i++)
        t->has_widest = t->has_widest || (strcmp(names[i], "validate/widest") == 0 && values[i] > 0);
    return ++t->reports == t->fails_at;
}

static int told_artifact(void *user, const char *name, const char *path)
{
    struct told *t = user;
    CHECK_STR(name, "checkpoint");
    CHECK(path[0] == '/' && strstr(path, "/train/step-"));
    t->checkpoints++;
    return 0;
}

static int told_end(void *user, const char *status, int64_t step, const char *error)
{
    struct told *t = user;
    t->ends += step >= 0;
    snprintf(t->status, sizeof t->status, "%s", status);
    snprintf(t->error, sizeof t->error, "%s", error ? error : "");
    return 0;
}

static const manta_sgd_tracker teller = {
    .begin = told_begin, .params = told_params, .metrics = told_metrics, .artifact = told_artifact, .end = told_end};

static int log_failed_note(void *user, const manta_sgd_event *event)
{
    struct told *t = user;
    if (event->kind == MANTA_SGD_LOG_FAILED)
        snprintf(t->log_failed, sizeof t->log_failed, "%s", event->text);
    return 0;
}

static struct told tracked(manta_sgd_opts *opts, int fails_at, manta_status wanted)
{
    struct told t = {.fails_at = fails_at};
    manta_error e;
    opts->tracker = &teller, opts->tracker_user = &t;
    opts->on_event = log_failed_note, opts->user = &t;
    CHECK_CODE(manta_sgd_fit("line", opts, NULL, &e), wanted, &e);
    return t;
}

/* A run, the same that goes on, one whose tracker fails in the middle, and one that fails itself. */
static void tracker_is_told(void)
{
    char storage[PATH_SIZE + 16];
    data_make();
    snprintf(storage, sizeof storage, "%s/storage", folder);
    config_set(1, "n", "15");
    manta_sgd_opts opts = options(1, 2);
    opts.run.storage = storage, opts.run.log_steps = 4;
    struct told t = tracked(&opts, 0, MANTA_OK);
    CHECK(t.begins == 1 && t.from == 0 && t.params == 1 && t.has_name && t.has_config && t.has_widest);
    CHECK(t.reports == 8 + 2 && t.checkpoints >= 1 && t.ends == 1); /* 32 steps, or 31.25: the last one is not whole */
    CHECK_STR(t.status, "finished");
    opts.run.epochs = 3;
    t = tracked(&opts, 0, MANTA_OK);
    CHECK(t.begins == 1 && t.from == 32 && t.params == 1 && t.ends == 1);
    opts.run.storage = NULL;
    t = tracked(&opts, 2, MANTA_OK);
    CHECK(t.reports == 2 && t.ends == 0);
    CHECK_SAYS(t.log_failed, "the tracker has failed");
    opts.optimizer.max_norm = 1e-9;
    t = tracked(&opts, 0, MANTA_ETASK);
    CHECK_STR(t.status, "failed");
    CHECK_SAYS(t.error, "more than 1e-09");
    config[1] = NULL;
    data_clear();
}

/* ---- what it refuses ---- */
static void refused_config(const char *name, const char *value, manta_status wanted, const char *word)
{
    manta_sgd_opts opts = options(2, 1);
    config_set(1, name, value);
    refused(&opts, "line", wanted, word);
    config[1] = NULL;
}

static void bad_operators(void)
{
    char path[PATH_SIZE + 16];
    data_make();
    manta_sgd_opts opts = options(1, 1);
    refused(&opts, "nobody", MANTA_EINVAL, "nobody");
    refused_config("n", "many", MANTA_EINVAL, "config n");
    refused_config("n", "0", MANTA_EINVAL, "line/w");
    refused_config("second", "line/w", MANTA_EEXIST, "line/w");
    refused_config("second", "a b", MANTA_EINVAL, "name");
    refused_config("train", "nowhere.bin", MANTA_ENOENT, "nowhere.bin");
    refused_config("unknown", "1", MANTA_EINVAL, "unheard");
    snprintf(path, sizeof path, "%s/train.bin", folder);
    CHECK_EQ(truncate(path, 16 + 4 * (INPUTS + 1) * 10 + 7), 0);
    refused(&opts, "line", MANTA_ECORRUPT, "train.bin");
    config[1] = "no pair";
    refused(&opts, "line", MANTA_EINVAL, "NAME=value");
    data_clear();
}

/* What is not finite names the step, the worker and the virtual rank, and stops before the update. */
static void not_finite(void)
{
    manta_error    e;
    manta_sgd_opts opts;
    data_make();
    opts = options(2, 1);
    config_set(1, "poison", "60"); /* in the first batch: of the last of 8 virtual ranks */
    CHECK_CODE(manta_sgd_fit("line", &opts, NULL, &e), MANTA_ETASK, &e);
    CHECK_SAYS(e.message, "rank 1");
    CHECK_SAYS(e.message, "step 1:");
    CHECK_SAYS(e.message, "virtual rank 7");
    CHECK_SAYS(e.message, "not finite");
    config[1] = NULL;
    opts.optimizer.max_norm = 0.01;
    refused(&opts, "line", MANTA_ETASK, "more than 0.01");
    data_clear();
}

/* The error of a run that was given up has the last words of the one that died. */
static void last_words(void)
{
    data_make();
    manta_sgd_opts opts = options(1, 1);
    config_set(1, "crash", "poisoned");
    opts.failure.max_failures = 2;
    refused(&opts, "line", MANTA_EWORKER_DIED, "max_failures is 2");
    refused(&opts, "line", MANTA_EWORKER_DIED, "it printed last: the well is poisoned");
    data_clear();
}

static void bad_numbers(void)
{
    data_make();
    manta_sgd_opts opts = options(2, 1);
    opts.scaling.min_workers = 3;
    refused(&opts, "line", MANTA_EINVAL, "min_workers");
    opts = options(-1, 1);
    refused(&opts, "line", MANTA_EINVAL, "max_workers");
    opts = options(1, 1);
    opts.optimizer.kind = 7;
    refused(&opts, "line", MANTA_EINVAL, "optimizer");
    opts = options(1, 1);
    opts.optimizer.clip_norm = -1;
    refused(&opts, "line", MANTA_EINVAL, "clip_norm");
    opts = options(1, 1);
    opts.checkpoint.score = "beauty";
    refused(&opts, "line", MANTA_EINVAL, "beauty");
    data_clear();
}

/* A checkpoint that another model, or another optimizer, has made: refused, with the difference. */
static void another_checkpoint(void)
{
    char storage[PATH_SIZE + 16];
    data_make();
    snprintf(storage, sizeof storage, "%s/storage", folder);
    manta_sgd_opts opts = options(2, 1);
    opts.run.storage = storage;
    (void)fit(&opts);
    config_set(1, "n", "14");
    refused(&opts, "line", MANTA_EINVAL, "line/w is [15] there and [14] here");
    config_set(1, "second", "line/c");
    refused(&opts, "line", MANTA_EINVAL, "no line/c");
    config[1] = NULL;
    opts.optimizer.kind = MANTA_SGD_ADAMW;
    refused(&opts, "line", MANTA_EINVAL, "optimizer.m.line/w");
    data_clear();
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"learns_and_validates", learns_and_validates, TWO_CPUS},
    {"every_record_once", every_record_once, TWO_CPUS},
    {"shrinks_and_grows", shrinks_and_grows, TWO_CPUS},
    {"more_than_fit", more_than_fit, TWO_CPUS},
    {"resumes_with_adamw", resumes_with_adamw, TWO_CPUS},
    {"keeps_the_best_and_stops_early", keeps_the_best_and_stops_early, TWO_CPUS},
    {"tables", tables, TWO_CPUS},
    {"tracker_is_told", tracker_is_told, TWO_CPUS},
    {"bad_operators", bad_operators, TWO_CPUS},
    {"not_finite", not_finite, TWO_CPUS},
    {"last_words", last_words, TWO_CPUS},
    {"bad_numbers", bad_numbers, TWO_CPUS},
    {"another_checkpoint", another_checkpoint, TWO_CPUS},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * hang_test.c - the watchdog over real workers: who works, gets no CPU, waits for the disk or only takes long is left alone; who is
 * stopped or asleep in a lock is replaced; and the error says where a worker hung.
 *
 * The operator's values follow its data. In the middle of one step (or of a validation) whoever takes the file of trouble away
 * does what that says, so it happens once. Thread: the driver's main one.
 */
#include "tests/integration/harness.h"
#include "tests/integration/sgd/busy.h"

#include <manta_sgd.h>

#include "core/base/limits/train.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum {
    RECORDS = 96,
    RECORD = 16,
    BATCH = 16,
    EPOCHS = 10,
    STALL_STEP = 20,
    STALL_MS = 3000,
    LOAD_MS = MT_TRAIN_START_MS + 5000,
    PATH_SIZE = 400
};

/* ---- the operator ---- */

struct follower {
    float      *w, *g;
    const char *files;
};

static double distance(const struct follower *m, const manta_sgd_batch *b, float *gradient)
{
    double loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        for (int64_t i = 0; i < RECORD; i++) {
            float error = m->w[i] - (float)((const uint8_t *)b->data)[r * RECORD + i] / 256;
            if (gradient)
                gradient[i] += 2 * error / (float)b->count;
            loss += (double)(error * error) / (double)b->count;
        }
    return loss;
}

static int stall_ms = STALL_MS;

static void *open_late(void *path)
{
    test_sleep_ms(stall_ms);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    return NULL;
}

/* Who spawns waits in the kernel, in state D as for a disk, until the child has a program; which first opens a pipe that nobody
 * writes to yet. */
static void wait_as_for_a_disk(const char *files)
{
    char                       path[PATH_SIZE + 32];
    pthread_t                  writer;
    pid_t                      child;
    posix_spawn_file_actions_t actions;
    snprintf(path, sizeof path, "%s.pipe", files);
    CHECK(mkfifo(path, 0600) == 0 && pthread_create(&writer, NULL, open_late, path) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0);
    CHECK_EQ(posix_spawnp(&child, "true", &actions, NULL, (char *[]){"true", NULL}, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    busy_await(child);
    CHECK(pthread_join(writer, NULL) == 0 && unlink(path) == 0);
}

static void sleep_in_a_lock(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

static void trouble(const struct follower *m, const char *where)
{
    static const char *const kinds[] = {"sleep", "spin", "disk", "lock", "starve", "stop"};
    for (int i = 0; i < 6; i++) {
        char path[PATH_SIZE + 32];
        snprintf(path, sizeof path, "%s.%s.%s", m->files, where, kinds[i]);
        if (unlink(path) != 0)
            continue;
        if (i == 0)
            test_sleep_ms(STALL_MS);
        else if (i == 1)
            busy_spin(STALL_MS);
        else if (i == 2)
            wait_as_for_a_disk(m->files);
        else if (i == 3)
            sleep_in_a_lock();
        else if (i == 4)
            busy_starve(40, STALL_MS); /* far less of a CPU than a fifth, from which on it would be at work */
        else
            raise(SIGSTOP);
    }
}

static manta_status follower_setup(manta_sgd *t, void **self)
{
    struct follower *m = *self = manta_sgd_alloc(t, sizeof *m);
    int64_t          n = RECORD;
    m->files = manta_sgd_conf_str(t, "data", NULL);
    if (!manta_sgd_is_driver(t)) {
        stall_ms = LOAD_MS;
        trouble(m, "setup");
        stall_ms = STALL_MS;
    }
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &n, &m->w, &m->g);
    manta_sgd_data(t, m->files, &(manta_sgd_data_opts){.record = RECORD, .validate = true});
    return manta_sgd_data(t, m->files, &(manta_sgd_data_opts){.record = RECORD, .shuffle = true});
}

static manta_status follower_train(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct follower *m = self;
    if (manta_sgd_step(t) == STALL_STEP)
        trouble(m, "train");
    return manta_sgd_metric(t, "loss", distance(m, b, m->g));
}

static manta_status follower_validate(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    if (manta_sgd_step(t) > STALL_STEP)
        trouble(self, "validate");
    return manta_sgd_metric(t, "loss", distance(self, b, NULL));
}
MANTA_SGD_OPERATOR(follower, .setup = follower_setup, .train_batch = follower_train, .validate_batch = follower_validate);

/* ---- a run ---- */

static char data_config[PATH_SIZE + 8], *const data_path = data_config + sizeof "data=" - 1;
static int  hung, lost;
static char hung_text[512], lost_text[512];

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (event->kind == MANTA_SGD_HUNG) {
        hung++;
        snprintf(hung_text, sizeof hung_text, "%s", event->text);
    }
    if (event->kind == MANTA_SGD_LOST) {
        lost++;
        snprintf(lost_text, sizeof lost_text, "%s", event->text);
    }
    return 0;
}

static void data_make(void)
{
    uint8_t  bytes[RECORDS * RECORD];
    uint32_t state = 5;
    snprintf(data_config, sizeof data_config, "data=%s/follower.bin", getenv("XDG_RUNTIME_DIR"));
    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24);
    }
    FILE *file = fopen(data_path, "wbe");
    CHECK(file && fwrite(bytes, sizeof bytes, 1, file) == 1 && fclose(file) == 0);
}

static void trouble_make(const char *kind)
{
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s.%s", data_path, kind);
    FILE *file = fopen(path, "wbe");
    CHECK(file && fclose(file) == 0);
}

/* Of two workers one meets this trouble (NULL: none); the limit is `hang_after`. */
static manta_status run(const char *kind, double hang_after, int max_failures, manta_sgd_result *r, manta_error *e)
{
    const char    *config[] = {data_config, NULL};
    manta_sgd_opts opts = {.scaling = {.min_workers = 2, .max_workers = 2},
                           .run = {.epochs = EPOCHS, .batch = BATCH, .shards = 8, .log_steps = 5},
                           .failure = {.max_failures = max_failures, .hang_after = hang_after},
                           .optimizer.lr = 0.05,
                           .config = config,
                           .on_event = on_event};
    hung = lost = 0;
    if (kind)
        trouble_make(kind);
    return manta_sgd_fit("follower", &opts, r, e);
}

static uint64_t calm(void)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(run(NULL, 0, 0, &r, &e), MANTA_OK, &e);
    return r.weights;
}

/* ---- cases ---- */

/* Asleep for some seconds, once, as in a slow read over a network; at work, without a CPU, or waiting for the disk, for longer than
 * the limit. */
static void hang_none(void)
{
    static const struct {
        const char *kind;
        double      hang_after;
    } runs[] = {{"train.sleep", 0},  {"validate.sleep", 0},  {"train.spin", 0.5},
                {"train.disk", 0.5}, {"validate.spin", 0.5}, {"train.starve", 0.5}};
    data_make();
    uint64_t wanted = calm();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        manta_error      e;
        manta_sgd_result r;
        manta_status     code = run(runs[i].kind, runs[i].hang_after, 0, &r, &e);
        if (code)
            fprintf(stderr, "hang_none: the run of %s\n", runs[i].kind);
        CHECK_CODE(code, MANTA_OK, &e);
        CHECK_EQ(hung, 0);
        CHECK_EQ(r.restarts, 0);
        CHECK(r.weights == wanted);
    }
    CHECK_EQ(unlink(data_path), 0);
}

/* It hung there, and for as long as the limit at least: how much longer is the machine's affair. */
static void check_hung(const char *text, const char *where, double hang_after)
{
    const char *at = strstr(text, where);
    CHECK_SAYS(text, where);
    CHECK(strtod(at + strlen(where), NULL) >= hang_after);
}

static void hang_found(void)
{
    static const struct {
        const char *kind;
        double      hang_after;
        const char *says;
    } runs[] = {{"train.stop", 0, "at step 21 in train_batch for "},
                {"train.lock", 1, "at step 21 in train_batch for "},
                {"validate.lock", 1, "at step 24 in validate_batch for "}};
    data_make();
    uint64_t wanted = calm();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        manta_error      e;
        manta_sgd_result r;
        CHECK_CODE(run(runs[i].kind, runs[i].hang_after, 1, &r, &e), MANTA_OK, &e);
        CHECK_EQ(hung, 1);
        check_hung(hung_text, runs[i].says, runs[i].hang_after);
        CHECK_EQ(!!strstr(hung_text, ", stopped by a signal"), i == 0);
        CHECK_EQ(r.restarts, 1);
        CHECK(r.weights == wanted);
    }
    CHECK_EQ(unlink(data_path), 0);
}

/* The run ends with what its worker did, not with how that was ended. */
static void hang_ends_the_run(void)
{
    manta_error      e;
    manta_sgd_result r;
    data_make();
    CHECK_CODE(run("train.lock", 1, 0, &r, &e), MANTA_EWORKER_DIED, &e);
    check_hung(e.message, "hung at step 21 in train_batch for ", 1);
    CHECK_SAYS(e.message, "failure.hang_after");
    CHECK(!strstr(e.message, "SIGKILL") && !strstr(e.message, "signal 9"));
    CHECK_EQ(unlink(data_path), 0);
}

/* Before they are ready one waits for its data for longer than a run waits for a worker that is not there: it is let load. The
 * other sleeps for ever: a third takes its place. */
static void hang_loads(void)
{
    manta_error      e;
    manta_sgd_result r;
    data_make();
    uint64_t wanted = calm();
    trouble_make("setup.disk");
    CHECK_CODE(run("setup.lock", 0, 1, &r, &e), MANTA_OK, &e);
    CHECK_EQ(lost, 1);
    CHECK_SAYS(lost_text, "hung as it loaded");
    CHECK(r.weights == wanted);
    CHECK_EQ(unlink(data_path), 0);
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"hang_none", hang_none, TWO_CPUS},   {"hang_found", hang_found, TWO_CPUS}, {"hang_ends_the_run", hang_ends_the_run, TWO_CPUS},
    {"hang_loads", hang_loads, TWO_CPUS}, {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos_test.c - random hard treatment of training runs: workers are killed, stopped, and stopped for a moment, at any point:
 * while they start, load, join, compute, add up, validate and save, with the optimizer's state whole or in shards. Each run
 * must end with the weights of a calm one.
 *
 *   integration_sgd_chaos chaos                   30 blows
 *   CHAOS_BLOWS=1000 CHAOS_SEED=7 ... chaos       as many as one likes (scripts/chaos_train.sh)
 *
 * A second process deals the blows at random moments, since nothing in the run may decide when: it reads the workers' pids
 * from a file that all map, where each worker notes itself as soon as its setup begins. Of each pid it takes a pidfd first and
 * then looks whether the pid is still noted, so a number that was used again is never hit.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <manta_sgd.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIDS = 16, VALUES = 64, PARAMS = 5000, RECORDS = 640, BATCH = 64, EPOCHS = 40, PATH_SIZE = 512, BLOWS_PER_RUN = 10 };

/* ---- what all processes share ---- */
struct shared {
    _Atomic int pids[PIDS];
    _Atomic int is_on; /* blows may fall */
    _Atomic int left;  /* of this run */
    _Atomic int kills, stops, pauses;
};
static struct shared *shared;

static void shared_open(const char *path, int flags)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0 || (flags && ftruncate(fd, sizeof *shared) != 0))
        return;
    void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared = map == MAP_FAILED ? NULL : map;
    close(fd);
}

static void pid_note(int pid)
{
    for (int i = 0; shared && i < PIDS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&shared->pids[i], &none, pid))
            return;
    }
}

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- the process that deals blows ---- */
static void blow(uint64_t *state)
{
    int slot = (int)(draw(state) % PIDS), pid = atomic_load(&shared->pids[slot]), what = (int)(draw(state) % 8);
    if (pid <= 1)
        return;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return;
    if (atomic_load(&shared->pids[slot]) == pid && atomic_fetch_sub(&shared->left, 1) > 0) {
        int number = what < 5 ? SIGKILL : SIGSTOP;
        syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
        if (what >= 6) { /* for a moment only */
            usleep((useconds_t)(draw(state) % 200000));
            syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
        }
        atomic_fetch_add(what < 5 ? &shared->kills : what == 5 ? &shared->stops : &shared->pauses, 1);
        if (number == SIGKILL || what == 5)
            atomic_compare_exchange_strong(&shared->pids[slot], &pid, 0);
    }
    close(fd);
}

static pid_t dealer_start(uint64_t seed)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t state = seed;;) {
        usleep((useconds_t)(draw(&state) % 60000));
        if (atomic_load(&shared->is_on) && atomic_load(&shared->left) > 0)
            blow(&state);
    }
}

/* ---- the operator: a vector that learns the data's mean again and again, slowly enough to be hit ---- */
struct mean {
    float  *w, *g;
    int64_t n;
    int64_t slow_us;
};

static manta_status mean_setup(manta_sgd *t, void **self)
{
    struct mean *m = *self = manta_sgd_alloc(t, sizeof *m);
    if (manta_sgd_conf_str(t, "pids", NULL) && !manta_sgd_is_driver(t)) {
        shared_open(manta_sgd_conf_str(t, "pids", NULL), 0);
        pid_note(getpid());
    }
    m->n = PARAMS; /* some blocks of the optimizer's shards */
    m->slow_us = manta_sgd_conf_i64(t, "slow_us", 0);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, &m->n, &m->w, &m->g);
    manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = 4 * VALUES, .validate = true});
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &(manta_sgd_data_opts){.record = 4 * VALUES, .shuffle = true});
}

static manta_status mean_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct mean *m = self;
    const float *x = b->data;
    double       loss = 0;
    for (int64_t r = 0; r < b->count; r++)
        for (int64_t i = 0; i < m->n; i++) {
            float error = m->w[i] - x[r * VALUES + i % VALUES];
            loss += (double)(error * error);
            if (m->g)
                m->g[i] += 2 * error / (float)b->count;
        }
    if (m->slow_us)
        usleep((useconds_t)m->slow_us);
    return manta_sgd_metric(t, "loss", loss / (double)b->count);
}
MANTA_SGD_OPERATOR(mean, .setup = mean_setup, .train_batch = mean_batch, .validate_batch = mean_batch);

/* ---- runs ---- */
static char folder[PATH_SIZE], data_config[PATH_SIZE + 32], pids_config[PATH_SIZE + 32];

static void data_make(uint64_t seed)
{
    char  path[PATH_SIZE + 16];
    float record[VALUES];
    snprintf(folder, sizeof folder, "%s/chaos", getenv("XDG_RUNTIME_DIR"));
    CHECK_EQ(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(data_config, sizeof data_config, "data=%s", path);
    FILE *f = fopen(path, "wbe");
    CHECK(f);
    for (int r = 0; r < RECORDS; r++) {
        for (int i = 0; i < VALUES; i++)
            record[i] = (float)(draw(&seed) % 1000) / 500 - 1;
        CHECK_EQ(fwrite(record, sizeof record, 1, f), 1);
    }
    CHECK_EQ(fclose(f), 0);
}

static void clear(const char *path)
{
    char output[256];
    test_program((char *[]){"rm", "-rf", (char *)path, NULL}, output, sizeof output);
}

static int on_event(void *user, const manta_sgd_event *event)
{
    (void)user;
    if (getenv("TEST_EVENTS"))
        fprintf(stderr, "%lld %s\n", (long long)test_now_ms(), event->text);
    CHECK(event->kind != MANTA_SGD_LOG_FAILED);
    for (int i = 0; event->kind == MANTA_SGD_LOST && i < PIDS; i++) {
        int pid = event->pid;
        atomic_compare_exchange_strong(&shared->pids[i], &pid, 0);
    }
    return 0;
}

static manta_sgd_opts options(const char *const *config)
{
    return (manta_sgd_opts){.run = {.epochs = EPOCHS, .batch = BATCH, .shards = 8, .log_steps = 20},
                            .failure = {.max_failures = -1, .backoff_s = 0.001},
                            .optimizer = {.kind = MANTA_SGD_ADAMW, .lr = 0.01},
                            .config = config,
                            .on_event = on_event};
}

static void run_calm(uint64_t *weights)
{
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = options((const char *[]){data_config, NULL});
    CHECK_CODE(manta_sgd_fit("mean", &opts, &r, &e), MANTA_OK, &e);
    *weights = r.weights;
}

/* A whole document, whatever happened to those who wrote it. */
static void seen_check(const char *timeline)
{
    static const char end[] = "\n]}\n";
    char              text[sizeof end] = "";
    FILE             *f = fopen(timeline, "re");
    CHECK(f && fseek(f, 1 - (long)sizeof end, SEEK_END) == 0 && fread(text, sizeof end - 1, 1, f) == 1 && fclose(f) == 0);
    CHECK_STR(text, end);
    clear(timeline);
}

static void run_hard(uint64_t *state, uint64_t wanted, int blows)
{
    char             storage[PATH_SIZE + 16], timeline[PATH_SIZE + 16], tracking[PATH_SIZE + 16];
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = options((const char *[]){data_config, pids_config, "slow_us=300", NULL});
    snprintf(storage, sizeof storage, "%s/storage", folder);
    opts.scaling.max_workers = 1 + (int)(draw(state) % 4);
    opts.scaling.min_workers = 1 + (int)(draw(state) % (uint64_t)opts.scaling.max_workers);
    opts.scaling.spares = (int)(draw(state) % 3);
    opts.run.storage = draw(state) % 4 ? storage : NULL;
    opts.checkpoint.every_steps = 1 + (int64_t)(draw(state) % 20);
    opts.checkpoint.keep_best = (int)(draw(state) % 2);
    opts.optimizer.zero = (int)(draw(state) % 2);
    opts.optimizer.zero_backup = draw(state) % 2 && opts.optimizer.zero;
    snprintf(timeline, sizeof timeline, "%s/timeline", folder);
    snprintf(tracking, sizeof tracking, "%s/tracking", folder);
    bool is_seen = draw(state) % 2;
    opts.run.timeline = is_seen ? timeline : NULL;
    opts.run.tracking = is_seen ? tracking : NULL;
    atomic_store(&shared->left, blows);
    atomic_store(&shared->is_on, 1);
    manta_status code = manta_sgd_fit("mean", &opts, &r, &e);
    atomic_store(&shared->is_on, 0);
    atomic_store(&shared->left, 0);
    for (int i = 0; i < PIDS; i++)
        atomic_store(&shared->pids[i], 0);
    CHECK_CODE(code, MANTA_OK, &e);
    CHECK(r.weights == wanted);
    clear(storage);
    if (is_seen)
        seen_check(timeline);
    clear(tracking);
}

static void chaos(void)
{
    const char *blows_text = getenv("CHAOS_BLOWS"), *seed_text = getenv("CHAOS_SEED");
    int         blows = blows_text ? (int)strtol(blows_text, NULL, 10) : 30, runs = 0;
    uint64_t    seed = seed_text ? strtoull(seed_text, NULL, 10) : 1, state = seed, wanted = 0;
    int64_t     begun = test_now_ms(), slowest = 0;

    data_make(seed);
    snprintf(pids_config, sizeof pids_config, "pids=%s/pids", folder);
    shared_open(pids_config + strlen("pids="), O_CREAT);
    CHECK(shared);
    alarm(blows_text ? 3600 : 240); /* instead of the harness's */
    run_calm(&wanted);
    pid_t dealer = dealer_start(seed);
    for (int dealt = 0; dealt < blows; runs++) {
        int64_t run_begun = test_now_ms();
        run_hard(&state, wanted, BLOWS_PER_RUN);
        dealt = shared->kills + shared->stops + shared->pauses;
        slowest = test_now_ms() - run_begun > slowest ? test_now_ms() - run_begun : slowest;
        if (runs % 10 == 9)
            fprintf(stderr, "%d runs, %d blows, %.0f s\n", runs + 1, dealt, (double)(test_now_ms() - begun) * 1e-3);
    }
    kill(dealer, SIGKILL);
    CHECK_EQ(waitpid(dealer, NULL, 0), dealer);
    fprintf(stderr, "seed %llu: %d runs, %d kills, %d stops, %d pauses; all ended with weights %016llx; slowest run %.1f s\n",
            (unsigned long long)seed, runs, shared->kills, shared->stops, shared->pauses, (unsigned long long)wanted,
            (double)slowest * 1e-3);
    clear(folder);
}

static const struct test_case cases[] = {
    {"chaos", chaos, {.num_cpus = 4}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

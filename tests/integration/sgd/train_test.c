/* SPDX-License-Identifier: Apache-2.0
 *
 * train_test.c - training jobs over real worker processes that are killed: the same bits come out, nothing is lost, and
 * what can't go on says why.
 *
 * Thread: the driver's main one; on_event runs there, inside manta_sgd_fit.
 */
#include "tests/integration/harness.h"
#include "tests/mounts.h"

#include <manta_sgd.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { RECORDS = 1920, TEST_RECORDS = 480, SIDE = 28, RECORD = SIDE * SIDE, BATCH = 96, STEPS_PER_EPOCH = RECORDS / BATCH };
enum { SHORT_EPOCHS = 10, PATH_SIZE = 512, TRIES = 5 };
enum { LONG_EPOCHS = TEST_SLOWER > 1 ? 30 : 120 }; /* there is time for blows */

/* ---- a small data set in the runtime folder, which the harness clears away ---- */
static char folder[PATH_SIZE];

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void idx_write(const char *name, int ndim, const uint32_t *dims, const uint8_t *bytes, size_t size)
{
    char    path[PATH_SIZE + 64];
    uint8_t head[16] = {0, 0, 8, (uint8_t)ndim};
    for (int d = 0; d < ndim; d++)
        for (int i = 0; i < 4; i++)
            head[4 + 4 * d + i] = (uint8_t)(dims[d] >> (24 - 8 * i));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wbe");
    CHECK(f && fwrite(head, 4 + 4 * (size_t)ndim, 1, f) == 1 && fwrite(bytes, size, 1, f) == 1 && fclose(f) == 0);
}

/* Ten classes of pictures: a bright stripe whose place is the class, in noise. */
static void set_write(const char *images_name, const char *labels_name, uint32_t count, uint32_t seed)
{
    uint8_t *images = malloc((size_t)count * RECORD), *labels = malloc(count);
    CHECK(images && labels);
    for (uint32_t r = 0; r < count; r++) {
        labels[r] = (uint8_t)(draw(&seed) % 10);
        for (uint32_t i = 0; i < RECORD; i++)
            images[(size_t)r * RECORD + i] = (uint8_t)(draw(&seed) % 160 + (i / SIDE / 3 == labels[r] ? 60 : 0));
    }
    idx_write(images_name, 3, (const uint32_t[]){count, SIDE, SIDE}, images, (size_t)count * RECORD);
    idx_write(labels_name, 1, &count, labels, count);
    free(images), free(labels);
}

static void data_make(void)
{
    snprintf(folder, sizeof folder, "%s/train", getenv("XDG_RUNTIME_DIR"));
    CHECK_EQ(mkdir(folder, 0700), 0);
    set_write("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", RECORDS, 1);
    set_write("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", TEST_RECORDS, 2);
}

static void data_clear(void)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-r", folder, NULL}, output, sizeof output), 0);
}

/* ---- following a run ---- */
struct follow {
    int     pids[8], spare;
    int     lost, recovered, saved, save_failed, skipped;
    int64_t step, begun; /* -1: not begun */
    char    begun_text[256], skipped_text[256], failed_text[256];
    int     kills;    /* still to do */
    int     together; /* workers to kill at a time */
    int64_t kill_at;  /* the step from which on */
    int     hung;
    char    hung_text[256];
    bool    stop_spare, with_spare, kill_spare, stop_other, stop_one, when_saved, counts_threads;
    bool    is_recovering;
};

/* Threads of the process that a worker was forked from: more than one, and it could not fork. */
static int threads_of_parent(int pid)
{
    char path[64], text[512] = "", output[4096];
    int  parent = 0, threads = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0 && fclose(f) == 0);
    CHECK_EQ(sscanf(strrchr(text, ')'), ") %*c %d", &parent), 1);
    snprintf(path, sizeof path, "/proc/%d/task", parent);
    CHECK_EQ(test_program((char *[]){"ls", path, NULL}, output, sizeof output), 0);
    for (const char *c = output; *c; c++)
        threads += *c == '\n';
    return threads;
}

/* Never a process of which we have not heard: 0 would be everybody who has to do with this test. */
static void signal_worker(int pid, int number)
{
    CHECK(pid > 1);
    CHECK_EQ(kill(pid, number), 0);
}

static void kill_some(struct follow *f)
{
    int first = (int)((getpid() + f->kills) % 2); /* not always the same */
    if (f->stop_one) {
        signal_worker(f->pids[first], SIGSTOP);
        f->kills--;
        f->is_recovering = true;
        return;
    }
    if (f->stop_spare)
        signal_worker(f->spare, SIGSTOP);
    if (f->stop_other)
        signal_worker(f->pids[1 - first], SIGSTOP);
    for (int i = 0; i < f->together; i++)
        signal_worker(f->together == 1 ? f->pids[first] : f->pids[i], SIGKILL);
    f->kills--;
    f->is_recovering = true;
}

/* What the next blow needs is not there yet, and the run is not to end before it is. */
static int slow_down(const struct follow *f)
{
    enum { NAP_MS = 50 };
    if (!f->pids[0])
        return 0;
    signal_worker(f->pids[0], SIGSTOP);
    test_sleep_ms(NAP_MS);
    signal_worker(f->pids[0], SIGCONT);
    return 0;
}

static void copy_text(char *to, const char *text)
{
    snprintf(to, 256, "%s", text);
}

static int on_event(void *user, const manta_sgd_event *event)
{
    struct follow *f = user;
    if (event->kind == MANTA_SGD_WORKER) {
        f->pids[event->rank] = event->pid;
        f->spare = f->spare == event->pid ? 0 : f->spare;
        if (f->counts_threads)
            CHECK_EQ(threads_of_parent(event->pid), 1);
    }
    if (event->kind == MANTA_SGD_SPARE)
        f->spare = event->pid;
    else if (event->kind == MANTA_SGD_BEGUN)
        f->begun = event->step, copy_text(f->begun_text, event->text);
    else if (event->kind == MANTA_SGD_SKIPPED)
        f->skipped++, copy_text(f->skipped_text, event->text);
    else if (event->kind == MANTA_SGD_SAVE_FAILED)
        f->save_failed++, copy_text(f->failed_text, event->text);
    f->saved += event->kind == MANTA_SGD_SAVED;
    f->lost += event->kind == MANTA_SGD_LOST;
    if (event->kind == MANTA_SGD_HUNG)
        f->hung++, copy_text(f->hung_text, event->text);
    if (event->kind == MANTA_SGD_RECOVERED)
        f->recovered++, f->is_recovering = false;
    if (event->kind == MANTA_SGD_STEP)
        f->step = event->step;
    if (event->kind != MANTA_SGD_STEP || f->is_recovering)
        return 0;
    if (f->kills > 0 && ((f->with_spare && !f->spare) || (f->when_saved && !f->saved)))
        return slow_down(f);
    if (f->kill_spare) {
        signal_worker(f->spare, SIGKILL);
        f->kill_spare = false;
        f->spare = 0;
    } else if (f->kills > 0 && f->step >= f->kill_at && f->pids[0] && f->pids[1])
        kill_some(f);
    return 0;
}

static struct follow followed;
static char          data_config[PATH_SIZE + 8], hidden_config[32];
static const char   *config[] = {data_config, hidden_config, NULL};

static void data_set(const char *path)
{
    snprintf(data_config, sizeof data_config, "data=%s", path);
}

static void hidden_set(int width)
{
    snprintf(hidden_config, sizeof hidden_config, "hidden=%d", width);
}

static manta_sgd_opts options(int workers, int epochs)
{
    followed = (struct follow){.begun = -1, .together = 1, .kill_at = 20};
    data_set(folder);
    hidden_set(64);
    return (manta_sgd_opts){.scaling.max_workers = workers,
                            .run = {.epochs = epochs, .batch = BATCH, .shards = 8, .log_steps = 10},
                            .failure.max_failures = -1,
                            .config = config,
                            .seed = 7,
                            .on_event = on_event,
                            .user = &followed};
}

static manta_sgd_result fit(const manta_sgd_opts *opts)
{
    manta_error      e;
    manta_sgd_result r;
    CHECK_CODE(manta_sgd_fit("mlp", opts, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.steps, STEPS_PER_EPOCH * (opts->run.epochs ? opts->run.epochs : 1));
    return r;
}

/* A run that all blows have met. Where the driver had no CPU for as long as one takes, its steps were over before: then there is
 * another. */
static manta_sgd_result struck(const manta_sgd_opts *opts)
{
    struct follow    blows = followed;
    manta_sgd_result r = fit(opts);
    for (int tries = 1; (followed.kills > 0 || followed.is_recovering) && tries < TRIES; tries++) {
        char output[256];
        if (opts->run.storage)
            CHECK_EQ(test_program((char *[]){"rm", "-r", (char *)(uintptr_t)opts->run.storage, NULL}, output, sizeof output), 0);
        followed = blows;
        r = fit(opts);
    }
    CHECK(followed.kills == 0 && !followed.is_recovering);
    return r;
}

static uint64_t calm(int epochs)
{
    manta_sgd_opts   opts = options(1, epochs);
    manta_sgd_result r = fit(&opts);
    CHECK_EQ(r.restarts, 0);
    CHECK(r.accuracy > 0.9); /* the stripes are learnt */
    return r.weights;
}

static void storage_of(manta_sgd_opts *opts, char path[PATH_SIZE + 16])
{
    snprintf(path, PATH_SIZE + 16, "%s/storage", folder);
    opts->run.storage = path;
    opts->run.name = "mine";
    opts->checkpoint.every_steps = 50;
}

/* ---- the same bits ---- */
static void any_number_of_workers(void)
{
    data_make();
    uint64_t wanted = calm(SHORT_EPOCHS);
    for (int workers = 2; workers <= 4; workers *= 2) {
        manta_sgd_opts opts = options(workers, SHORT_EPOCHS);
        followed.counts_threads = true;
        CHECK(fit(&opts).weights == wanted);
        CHECK_EQ(followed.begun, 0);
    }
    manta_sgd_opts other = options(2, SHORT_EPOCHS);
    other.seed = 8;
    CHECK(fit(&other).weights != wanted);
    data_clear();
}

static void a_worker_killed(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    followed.kills = 3;
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(r.restarts, 3);
    CHECK_EQ(followed.lost, 3);
    CHECK(followed.recovered >= 1);
    CHECK(r.weights == wanted);
    CHECK_EQ(followed.begun, 0); /* begun once: the state always came from the survivor */
    CHECK_EQ(r.last.lost, 1);
    CHECK(r.last.total_s > 0 && r.slowest_s >= r.last.total_s);
    data_clear();
}

static void a_spare_takes_over(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    opts.scaling.spares = 1;
    followed.kills = 2;
    followed.with_spare = followed.kill_spare = true; /* which is replaced as well */
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(r.restarts, 2);
    CHECK_EQ(followed.lost, 3);
    CHECK(r.last.start_s == 0 && r.last.load_s == 0); /* it was there already */
    CHECK(r.weights == wanted);
    data_clear();
}

/* One that stands still before it has its rank is found as soon as any that is stopped. */
static void a_stopped_spare(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    opts.scaling.spares = 1;
    followed.kills = 1;
    followed.with_spare = followed.stop_spare = true;
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(followed.hung, 1);
    CHECK_SAYS(followed.hung_text, "stopped by a signal");
    CHECK_EQ(r.restarts, 2);
    CHECK(r.weights == wanted);
    data_clear();
}

/* One worker hangs while another dies: it is killed too, since it could write into what the next generation uses. */
static void a_stuck_worker(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    followed.kills = 1, followed.stop_other = true;
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(r.restarts, 2);
    CHECK(r.weights == wanted);
    data_clear();
}

/* A worker that hangs alone, while nobody dies, is found by the watchdog. */
static void a_worker_hangs(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    followed.kills = 1, followed.stop_one = true;
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(followed.hung, 1);
    CHECK_EQ(r.restarts, 1);
    CHECK(r.weights == wanted);
    data_clear();
}

static void all_killed(void)
{
    data_make();
    uint64_t       wanted = calm(LONG_EPOCHS);
    char           storage[PATH_SIZE + 16];
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    storage_of(&opts, storage);
    followed.kills = 1, followed.together = 2, followed.when_saved = true;
    manta_sgd_result r = struck(&opts);
    CHECK_EQ(r.restarts, 2);
    CHECK_SAYS(followed.begun_text, "checkpoint");
    CHECK(followed.begun >= 50);
    CHECK_EQ(r.first_step, 0);
    CHECK(r.weights == wanted);
    opts = options(2, LONG_EPOCHS); /* without checkpoints: from the beginning, to the same end */
    followed.kills = 1, followed.together = 2;
    CHECK(struck(&opts).weights == wanted);
    CHECK_SAYS(followed.begun_text, "seed");
    data_clear();
}

/* ---- resuming by name ---- */
/* The name of the newest checkpoint, or of the one `back` before it; or "". A step that comes due while the last checkpoint is
 * still being written is saved later, so their steps are not known beforehand, but for the last one. */
static void newest(const char *storage, int back, char name[32])
{
    char   pattern[2 * PATH_SIZE], output[4096] = "";
    size_t size;
    snprintf(pattern, sizeof pattern, "ls -d %s/mine/step-* 2>/dev/null | tail -%d | head -1", storage, back + 1);
    test_program((char *[]){"sh", "-c", pattern, NULL}, output, sizeof output);
    size = strcspn(output, "\n");
    name[0] = 0;
    if (size >= 25)
        snprintf(name, 32, "%.25s", output + size - 25);
}

/* The example program, killed when its first checkpoint is there. */
static void driver_start_and_kill(const char *storage)
{
    char  program[PATH_SIZE], epochs[16], name[32] = "";
    pid_t pid;
    snprintf(program, sizeof program, "%s/train_fashion_mnist", test_bin());
    snprintf(epochs, sizeof epochs, "%d", LONG_EPOCHS);
    char *argv[] = {
        program,  "--workers", "2",         "--epochs",      epochs,   "--hidden", "64",     "--batch", "96",
        "--data", folder,      "--storage", (char *)storage, "--name", "mine",     "--seed", "7",       "--checkpoint-steps",
        "50",     NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    CHECK_EQ(posix_spawn(&pid, program, &quiet, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; !name[0] && test_now_ms() < limit; test_sleep_ms(5))
        newest(storage, 0, name);
    CHECK(name[0]);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void driver_killed(void)
{
    char storage[PATH_SIZE + 16];
    data_make();
    manta_sgd_opts undisturbed = options(1, LONG_EPOCHS), opts = options(2, LONG_EPOCHS);
    undisturbed.run.shards = opts.run.shards = 0; /* as the example has it */
    uint64_t wanted = fit(&undisturbed).weights;
    storage_of(&opts, storage);
    driver_start_and_kill(storage);
    manta_sgd_result r = fit(&opts);
    CHECK_SAYS(followed.begun_text, "checkpoint");
    CHECK(r.first_step >= 50);
    CHECK(r.weights == wanted);
    r = fit(&opts); /* once more: there is nothing left to do */
    CHECK_EQ(r.first_step, r.steps);
    CHECK(r.weights == wanted);
    data_clear();
}

static void flip_a_byte(const char *storage, const char *checkpoint)
{
    char    path[2 * PATH_SIZE];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/mine/%s/model.safetensors", storage, checkpoint);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, &byte, 1, 20000) == 1);
    byte ^= 1;
    CHECK_EQ(pwrite(fd, &byte, 1, 20000), 1);
    close(fd);
}

static void damaged_checkpoint(void)
{
    char        storage[PATH_SIZE + 16], name[32], before[32];
    manta_error e;
    data_make();
    manta_sgd_opts opts = options(2, SHORT_EPOCHS);
    storage_of(&opts, storage);
    uint64_t wanted = fit(&opts).weights;
    newest(storage, 0, name);
    newest(storage, 1, before);
    CHECK_STR(name, "step-00000000000000000200");
    flip_a_byte(storage, name);
    opts = options(2, SHORT_EPOCHS); /* the same run again: only its last steps are left */
    storage_of(&opts, storage);
    manta_sgd_result r = fit(&opts);
    CHECK_EQ(followed.skipped, 1);
    CHECK_SAYS(followed.skipped_text, name);
    CHECK_SAYS(followed.skipped_text, "layers.0.weight");
    CHECK_EQ(r.first_step, strtoull(before + strlen("step-"), NULL, 10));
    CHECK(r.first_step > 0 && r.first_step < 200);
    CHECK(r.weights == wanted);
    opts.seed = 9;
    CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "seed");
    opts.seed = 7, hidden_set(32);
    CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "another model");
    hidden_set(64), opts.run.batch = 64;
    CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "batch");
    data_clear();
}

/* ---- what can't be ---- */
static void one_driver_at_a_time(void)
{
    char        storage[PATH_SIZE + 16], path[2 * PATH_SIZE];
    manta_error e;
    data_make();
    manta_sgd_opts opts = options(1, 1);
    storage_of(&opts, storage);
    (void)fit(&opts);
    snprintf(path, sizeof path, "exec 9>>%s/mine/lock && flock -x 9 && exec sleep 30", storage);
    pid_t pid;
    char *argv[] = {"sh", "-c", path, NULL};
    CHECK_EQ(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
    manta_status code = MANTA_OK;
    for (int64_t limit = test_now_ms() + TEST_WAIT_MS; code == MANTA_OK && test_now_ms() < limit;)
        code = manta_sgd_fit("mlp", &opts, NULL, &e);
    CHECK_EQ(code, MANTA_EEXIST);
    CHECK_SAYS(e.message, "another driver");
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    data_clear();
}

static void no_data(void)
{
    manta_error    e;
    manta_sgd_opts opts = options(2, 1);
    data_set("/nowhere");
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_ENOENT, &e);
    CHECK_SAYS(e.message, "dataset-fashion-mnist");
    data_make();
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte.gz", folder);
    CHECK_EQ(truncate(path, 1000), 0);
    data_set(folder);
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_ECORRUPT, &e);
    CHECK_SAYS(e.message, folder);
    data_clear();
}

static void too_many_failures(void)
{
    manta_error e;
    data_make();
    manta_sgd_opts opts = options(2, LONG_EPOCHS);
    opts.failure.max_failures = 1;
    followed.kills = 2;
    struct follow blows = followed;
    manta_status  code = MANTA_OK;
    for (int tries = 0; code == MANTA_OK && tries < TRIES; tries++) { /* as `struck` */
        followed = blows;
        code = manta_sgd_fit("mlp", &opts, NULL, &e);
    }
    CHECK_CODE(code, MANTA_EWORKER_DIED, &e);
    CHECK_SAYS(e.message, "max_failures is 1");
    CHECK_SAYS(e.message, "SIGKILL");
    CHECK_EQ(e.signal_number, SIGKILL);
    CHECK_EQ(followed.lost, 2);
    data_clear();
}

static void refuse(void (*change)(manta_sgd_opts *), manta_status wanted, const char *word)
{
    manta_error    e;
    manta_sgd_opts opts = options(1, 1);
    change(&opts);
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), wanted, &e);
    CHECK_SAYS(e.message, word);
}
static void too_many_workers(manta_sgd_opts *o)
{
    o->scaling.max_workers = 9;
}
static void odd_batch(manta_sgd_opts *o)
{
    o->run.batch = 97;
}
static void negative_rate(manta_sgd_opts *o)
{
    o->optimizer.lr = -1;
}
static void bad_name(manta_sgd_opts *o)
{
    o->run.name = "../elsewhere";
}
static void no_parent(manta_sgd_opts *o)
{
    o->run.storage = "/nowhere/at/all";
}
static void too_hot(manta_sgd_opts *o)
{
    o->optimizer.lr = 1e30;
}
static void bad_options(void)
{
    data_make();
    refuse(too_many_workers, MANTA_EINVAL, "workers");
    refuse(odd_batch, MANTA_EINVAL, "batch");
    refuse(negative_rate, MANTA_EINVAL, "lr");
    refuse(bad_name, MANTA_EINVAL, "name");
    refuse(no_parent, MANTA_ENOENT, "/nowhere/at/all");
    refuse(too_hot, MANTA_ETASK, "not finite");
    data_clear();
}

/* A GPU is asked for where the driver shows none, or where there is no driver at all. */
static void no_gpu(void)
{
    manta_error e;
    data_make();
    manta_sgd_opts opts = options(1, 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    opts.config = (const char *const[]){"device=cuda", NULL};
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EUNSUPPORTED, &e);
    CHECK_SAYS(e.message, "no GPU: ");
    opts.config = (const char *const[]){"device=gpu", NULL};
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "config device is \"gpu\"");
    opts.config = (const char *const[]){data_config, "precision=fp8", NULL};
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "config precision is \"fp8\"");
    opts.config = (const char *const[]){data_config, "precision=tf32", NULL};
    CHECK_CODE(manta_sgd_fit("mlp", &opts, NULL, &e), MANTA_EINVAL, &e);
    CHECK_SAYS(e.message, "that is for config device=cuda");
    data_clear();
}

/* ---- a full disk ---- */

/* A disk of 64 KiB in a mount namespace of this driver's own. Where that is not allowed (so we are not root), a folder
 * that may not be written. */
static manta_status small_disk(const char *path)
{
    CHECK_EQ(mkdir(path, 0700), 0);
    return mounts_apart() && mount("tmpfs", path, "tmpfs", 0, "size=65536") == 0 ? MANTA_EDISK_FULL : MANTA_ESYS;
}

static void full_disk(void)
{
    char             storage[PATH_SIZE + 16], path[2 * PATH_SIZE];
    manta_error      e;
    manta_sgd_result r;
    if (getenv("MANTA_ROLE")) /* a process for workers: it has the disk from the driver, which made it before manta_init */
        manta_init(&test_argc, &test_argv, NULL, &e);
    data_make();
    manta_sgd_opts opts = options(2, SHORT_EPOCHS);
    storage_of(&opts, storage);
    manta_status wanted = small_disk(storage);
    if (wanted == MANTA_ESYS && geteuid() == 0) { /* whom no mode keeps from writing: a container */
        data_clear();
        test_skip("no file system can be mounted here, and root may write everywhere");
    }
    snprintf(path, sizeof path, "%s/mine", storage);
    CHECK_EQ(mkdir(path, 0700), 0);
    CHECK_CODE(manta_init(&test_argc, &test_argv, NULL, &e), MANTA_OK, &e);
    uint64_t calm_weights = calm(SHORT_EPOCHS);
    opts = options(2, SHORT_EPOCHS);
    storage_of(&opts, storage);
    if (wanted == MANTA_ESYS)
        CHECK_EQ(chmod(path, 0500), 0);
    CHECK_CODE(manta_sgd_fit("mlp", &opts, &r, &e), wanted, &e);
    if (wanted == MANTA_EDISK_FULL) {
        CHECK_SAYS(e.message, "No space");
        CHECK(followed.save_failed >= 1);
        CHECK_EQ(followed.saved, 0);
        CHECK(r.weights == calm_weights); /* and yet it was trained to the end */
        CHECK_EQ(umount(storage), 0);
    }
    CHECK_EQ(manta_shutdown(), 0);
    chmod(path, 0700);
    data_clear();
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
static const struct test_case cases[] = {
    {"any_number_of_workers", any_number_of_workers, TWO_CPUS},
    {"a_worker_killed", a_worker_killed, TWO_CPUS},
    {"a_spare_takes_over", a_spare_takes_over, TWO_CPUS},
    {"a_stopped_spare", a_stopped_spare, TWO_CPUS},
    {"a_stuck_worker", a_stuck_worker, TWO_CPUS},
    {"a_worker_hangs", a_worker_hangs, TWO_CPUS},
    {"all_killed", all_killed, TWO_CPUS},
    {"driver_killed", driver_killed, TWO_CPUS},
    {"damaged_checkpoint", damaged_checkpoint, TWO_CPUS},
    {"one_driver_at_a_time", one_driver_at_a_time, TWO_CPUS},
    {"no_data", no_data, TWO_CPUS},
    {"too_many_failures", too_many_failures, TWO_CPUS},
    {"bad_options", bad_options, TWO_CPUS},
    {"no_gpu", no_gpu, TWO_CPUS},
    {"full_disk", full_disk, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

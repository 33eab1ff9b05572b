/* SPDX-License-Identifier: Apache-2.0
 *
 * detach_test.c - training runs that outlive their drivers: found again by name, with the same result to the bit.
 *
 * Thread: the driver's main one; on_event runs there.
 */
#include "tests/integration/cluster/nodes.h"

#include <manta_sgd.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WIDTH = 32, RECORDS = 4096, BATCH = 16, STEPS = RECORDS / BATCH, HELD_US = 20000, PATH_SIZE = 512 };

/* ---- what is trained: a point that is drawn to the records; slowly, as long as a file is there ---- */
struct drawn {
    float      *value, *gradient;
    const char *hold;
};

static manta_status drawn_setup(manta_sgd *t, void **self)
{
    struct drawn *d = manta_sgd_alloc(t, sizeof *d);
    int64_t       width = WIDTH;
    if (!d)
        return manta_sgd_fail(t, MANTA_ENOMEM, "drawn");
    *self = d;
    d->hold = manta_sgd_conf_str(t, "hold", "");
    manta_status code = manta_sgd_param(t, "point", MANTA_SGD_F32, 1, &width, &d->value, &d->gradient);
    if (code != MANTA_OK)
        return code;
    manta_sgd_data_opts opts = {.format = MANTA_SGD_RECORDS, .record = WIDTH, .shuffle = true};
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""), &opts);
}

static manta_status drawn_batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct drawn  *d = self;
    const uint8_t *records = b->data;
    double         loss = 0;
    while (access(d->hold, F_OK) == 0) {
        usleep(HELD_US);
        if (manta_sgd_step(t) < STEPS / 2) /* the second half is not made before all has happened */
            break;
    }
    for (int64_t i = 0; i < b->count; i++)
        for (int w = 0; w < WIDTH; w++) {
            float far = d->value[w] - (float)records[i * WIDTH + w] / 256.0f;
            d->gradient[w] += far / (float)b->count;
            loss += (double)(far * far) / (double)b->count;
        }
    return manta_sgd_metric(t, "loss", loss);
}
MANTA_SGD_OPERATOR(drawn, .setup = drawn_setup, .train_batch = drawn_batch);

/* ---- a run ---- */
static char        data_config[PATH_SIZE], hold_config[PATH_SIZE], storage[PATH_SIZE];
static const char *config[] = {data_config, hold_config, NULL};

static void data_make(void)
{
    char          path[PATH_SIZE];
    unsigned char record[WIDTH];
    snprintf(path, sizeof path, "%s/points", getenv("XDG_RUNTIME_DIR"));
    FILE *f = fopen(path, "wbe");
    CHECK(f);
    for (int i = 0; i < RECORDS; i++) {
        for (int w = 0; w < WIDTH; w++)
            record[w] = (unsigned char)(i * 7 + w * 13);
        CHECK(fwrite(record, sizeof record, 1, f) == 1);
    }
    CHECK_EQ(fclose(f), 0);
}

static void hold(bool is_on)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/hold", getenv("XDG_RUNTIME_DIR"));
    if (is_on)
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    else
        unlink(path);
}

static void files_clear(void)
{
    char line[3 * PATH_SIZE], output[256];
    snprintf(line, sizeof line, "rm -rf %s/points %s/said %s", getenv("XDG_RUNTIME_DIR"), getenv("XDG_RUNTIME_DIR"), storage);
    CHECK_EQ(test_program((char *[]){"sh", "-c", line, NULL}, output, sizeof output), 0);
}

struct seen {
    int     workers, begun, steps;
    int64_t first_step; /* told */
    int64_t begun_at;
    bool    says;  /* leaves a mark for the test when there is a step */
    bool    kills; /* the actor that drives the run, once two checkpoints are there */
};

static void control_kill(void)
{
    manta_error  e;
    manta_actor *actor = manta_actor_find("sgd.mine", TEST_WAIT_MS, &e);
    CHECK(actor);
    manta_actor_kill(actor, true);
    manta_view   view = {0};
    manta_status code;
    do { /* until the next life answers: what is asked from here on is asked of that one */
        manta_ref *ref = manta_actor_call(actor, "differs", MANTA_ARGS(manta_bytes_of("other", 5)));
        code = manta_get(ref, TEST_WAIT_MS, &view, &e);
        manta_free(ref);
    } while (code == MANTA_EACTOR_DIED);
    CHECK_CODE(code, MANTA_OK, &e);
    manta_release(&view);
    manta_actor_free(actor);
}

static int on_event(void *user, const manta_sgd_event *event)
{
    struct seen *seen = user;
    seen->workers += event->kind == MANTA_SGD_WORKER;
    seen->begun += event->kind == MANTA_SGD_BEGUN;
    seen->begun_at = event->kind == MANTA_SGD_BEGUN ? event->step : seen->begun_at;
    if (seen->kills && event->kind == MANTA_SGD_SAVED && event->step >= 8) {
        seen->kills = false;
        control_kill();
        hold(false);
    }
    if (event->kind != MANTA_SGD_STEP)
        return 0;
    CHECK(event->metrics >= 1 && strcmp(event->names[0], "loss") == 0 && event->values[0] == event->loss);
    CHECK(event->text && event->steps == STEPS);
    if (seen->steps++ == 0) {
        char path[PATH_SIZE];
        seen->first_step = event->step;
        snprintf(path, sizeof path, "%s/said", getenv("XDG_RUNTIME_DIR"));
        if (seen->says)
            close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    return 0;
}

static manta_sgd_opts options(struct seen *seen)
{
    *seen = (struct seen){.workers = 0};
    snprintf(data_config, sizeof data_config, "data=%s/points", getenv("XDG_RUNTIME_DIR"));
    snprintf(hold_config, sizeof hold_config, "hold=%s/hold", getenv("XDG_RUNTIME_DIR"));
    snprintf(storage, sizeof storage, "%s/storage", getenv("XDG_RUNTIME_DIR"));
    return (manta_sgd_opts){.scaling.max_workers = 2,
                            .run = {.name = "mine", .batch = BATCH, .shards = 8, .log_steps = 4},
                            .failure.max_failures = -1,
                            .config = config,
                            .seed = 3,
                            .on_event = on_event,
                            .user = seen};
}

static uint64_t calm(void)
{
    struct seen      seen;
    manta_error      e;
    manta_sgd_result r;
    manta_sgd_opts   opts = options(&seen);
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.steps, STEPS);
    return r.weights;
}

/* A driver that asks for the run and follows it. */
static void other_driver(void)
{
    struct seen      seen;
    manta_error      e;
    manta_sgd_result r;
    char             address[PATH_SIZE];
    manta_sgd_opts   opts = options(&seen);
    snprintf(address, sizeof address, "%s/manta/c/n0", getenv("XDG_RUNTIME_DIR"));
    manta_init_opts init = {.address = address};
    CHECK_CODE(manta_init(&test_argc, &test_argv, &init, &e), MANTA_OK, &e);
    opts.run.detached = seen.says = true;
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_OK, &e);
    CHECK_EQ(manta_shutdown(), 0);
}

/* Starts it and waits for its first steps. */
static pid_t other_start(void)
{
    char  path[PATH_SIZE], *argv[] = {"/proc/self/exe", "--run", "other_driver", NULL};
    pid_t pid;
    snprintf(path, sizeof path, "%s/said", getenv("XDG_RUNTIME_DIR"));
    hold(true);
    CHECK_EQ(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    CHECK_SOON(access(path, F_OK) == 0);
    return pid;
}

/* ---- cases ---- */

/* SIGKILL of the driver in the middle; another one finds the run by its name. */
static void driver_dies(void)
{
    struct nodes     n;
    struct seen      seen;
    manta_error      e;
    manta_sgd_result r;
    nodes_start(&n, 1, "4");
    data_make();
    uint64_t wanted = calm();
    (void)options(&seen);
    pid_t other = other_start();
    CHECK_EQ(kill(other, SIGKILL), 0);
    CHECK_EQ(waitpid(other, NULL, 0), other);
    hold(false);
    CHECK_CODE(manta_sgd_attach("mine", on_event, &seen, &r, &e), MANTA_OK, &e);
    CHECK_EQ(r.steps, STEPS);
    CHECK_EQ(r.restarts, 0); /* it has not even noticed */
    CHECK(r.weights == wanted);
    CHECK_EQ(seen.begun, 1); /* told from the beginning */
    CHECK(seen.workers >= 2 && seen.first_step == 4);
    CHECK_CODE(manta_sgd_attach("mine", on_event, &seen, &r, &e), MANTA_ENOENT, &e); /* the result was fetched */
    files_clear();
    nodes_stop(&n);
}

/* The same call with the same options joins the run; with others it is refused, and says what differs. */
static void two_of_a_name(void)
{
    struct nodes     n;
    struct seen      seen;
    manta_error      e;
    manta_sgd_result r;
    nodes_start(&n, 1, "4");
    data_make();
    uint64_t       wanted = calm();
    pid_t          other = other_start();
    int            status;
    manta_sgd_opts opts = options(&seen);
    opts.run.detached = true;
    opts.optimizer.lr = 0.5;
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_EEXIST, &e);
    CHECK_SAYS(e.message, "optimizer.lr");
    CHECK_SAYS(e.message, "mine");
    CHECK_EQ(kill(other, SIGKILL), 0);
    CHECK_EQ(waitpid(other, &status, 0), other);
    hold(false);
    opts = options(&seen);
    opts.run.detached = true;
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_OK, &e);
    CHECK(r.weights == wanted);
    opts.config = (const char *[]){hold_config, NULL}; /* the name is free; this one has no data, and says so */
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_ENOENT, &e);
    opts.run.name = "";
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_EINVAL, &e);
    files_clear();
    nodes_stop(&n);
}

/* The process that drives the run dies: it is made again, and goes on from a checkpoint. */
static void controller_dies(void)
{
    struct nodes     n;
    struct seen      seen;
    manta_error      e;
    manta_sgd_result r;
    nodes_start(&n, 1, "4");
    data_make();
    uint64_t       wanted = calm();
    manta_sgd_opts opts = options(&seen);
    opts.run.storage = storage;
    opts.checkpoint.every_steps = 4;
    opts.run.detached = true;
    CHECK_CODE(manta_sgd_attach("mine", NULL, NULL, NULL, &e), MANTA_ENOENT, &e);
    seen.kills = true;
    hold(true);
    CHECK_CODE(manta_sgd_fit("drawn", &opts, &r, &e), MANTA_OK, &e);
    CHECK(!seen.kills);
    CHECK_EQ(seen.begun, 2);
    CHECK(seen.begun_at >= 8); /* the second time */
    CHECK(r.weights == wanted);
    files_clear();
    nodes_stop(&n);
}

#define OWN_INIT {0}, true, 0
static const struct test_case cases[] = {
    {"driver_dies", driver_dies, OWN_INIT},         {"two_of_a_name", two_of_a_name, OWN_INIT},
    {"controller_dies", controller_dies, OWN_INIT}, {NULL, NULL, {0}, false, 0},
    {"other_driver", other_driver, OWN_INIT}, /* started by the others only */
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].name && strcmp(argv[2], cases[i].name) == 0)
            return test_main(argc, argv, &cases[i]);
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.c - see jobs.h. A head with SQLite and raylets of this machine; the jobs are programs of coreutils.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one, and CLIENTS that only submit.
 */
#include "tests/bench/cluster/jobs/jobs.h"

#include "tests/bench/cluster/rig.h"

#include <fcntl.h>
#include <manta_client.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STARTS = 20, NOOPS = 1000, FIRST = 400, TASKS = 1000, CLIENTS = 64, SUBMIT_MS = 3000, WAIT_MS = 60000, SYNCS = 200 };

struct jobs {
    struct bench     *b;
    struct rig_folder folder;
    pid_t             head, raylet;
    manta_client     *client;
};

static bool raylet_of(struct jobs *j, const char *name, const char *cpus)
{
    rig_end(&j->raylet, SIGTERM);
    return (j->raylet = rig_raylet(&j->folder, &(struct rig_raylet){.name = name, .cpus = cpus}, -1)) > 0;
}

/* ---- from submit until the driver runs ---- */

struct stamp { /* what `date +%s%N` has printed */
    char   text[64];
    size_t size;
};

static int stamp_add(void *user, const manta_log *log)
{
    struct stamp *s = user;
    for (size_t i = 0; i < log->len && s->size + 1 < sizeof s->text; i++)
        s->text[s->size++] = log->text[i];
    return 0;
}

static double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* How long the program itself takes to print; < 0: it failed. */
static double bare_ms(const struct rig_folder *f, int i)
{
    const char *argv[] = {"/bin/date", "+%s%N", NULL};
    char        log[32], path[RIG_PATH], text[64] = "";
    double      from = wall_ms();
    snprintf(log, sizeof log, "date-%d", i);
    snprintf(path, sizeof path, "%.63s/%s", f->dir, log);
    pid_t pid = rig_spawn(f, log, -1, (char *const *)(uintptr_t)argv);
    waitpid(pid, NULL, 0);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof text, file))
        text[0] = '\0';
    if (file)
        fclose(file);
    return strtod(text, NULL) / 1e6 - from;
}

static bool starts(struct jobs *j)
{
    static const char *const argv[] = {"/bin/date", "+%s%N", NULL};
    struct bench_samples     samples = {0};
    struct bench_row         row = {0};
    double                   floor = 0;
    manta_error              e;
    if (!bench_samples_init(&samples))
        return false;
    for (int i = 0; i < STARTS; i++) {
        struct stamp s = {.size = 0};
        manta_job    job = {.id = manta_job_new_id(), .argv = argv, .cpus = 1};
        double       from = wall_ms();
        if (manta_job_submit(j->client, &job, &e) != MANTA_OK || manta_job_follow(j->client, job.id, stamp_add, &s, &e) != MANTA_OK)
            return bench_say(&e, "jobs: start");
        bench_samples_add(&samples, strtod(s.text, NULL) / 1e6 - from);
        floor += bare_ms(&j->folder, i) / STARTS;
    }
    bench_samples_row(&samples, 0.5, &row);
    bench_print_value(j->b, "jobs", "ms", row.value, STARTS);
    bench_print_value(j->b, "jobs.floor", "ms", floor, STARTS); /* the same program, started by hand */
    return true;
}

/* ---- no-op jobs, and tasks of an array ---- */

static double array_s(struct jobs *j, uint32_t count)
{
    static const char *const argv[] = {"/bin/true", NULL};
    manta_job                job = {.id = manta_job_new_id(), .argv = argv, .cpus = 1, .array = count};
    manta_job_array_info     info;
    manta_error              e;
    double                   from = rig_now_ms();
    if (manta_job_submit(j->client, &job, &e) != MANTA_OK ||
        manta_job_array_wait(j->client, job.id, WAIT_MS, &info, &e) != MANTA_OK) {
        bench_say(&e, "jobs: array");
        return -1;
    }
    if (info.succeeded == count)
        return (rig_now_ms() - from) / 1e3;
    fprintf(stderr, "jobs: %u of %u jobs have succeeded\n", info.succeeded, count);
    return -1;
}

static double xargs_s(const struct rig_folder *f, int count, int at_a_time)
{
    char        command[96];
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    double      from = rig_now_ms();
    int         status = -1;
    snprintf(command, sizeof command, "seq %d | xargs -P%d -n1 /bin/true", count, at_a_time);
    waitpid(rig_spawn(f, "xargs.log", -1, (char *const *)(uintptr_t)argv), &status, 0);
    return status ? -1 : (rig_now_ms() - from) / 1e3;
}

/* On two CPUs the first array of a node that has just come is told apart. */
static bool arrays(struct jobs *j)
{
    double many = raylet_of(j, "many", "64") ? array_s(j, NOOPS) : -1, bare_many = xargs_s(&j->folder, NOOPS, 64);
    double first = many > 0 && raylet_of(j, "two", "2") ? array_s(j, FIRST) : -1;
    double two = first > 0 ? array_s(j, TASKS) : -1, bare = xargs_s(&j->folder, TASKS, 2);
    if (many <= 0 || bare_many <= 0 || two <= 0 || bare <= 0)
        return false;
    bench_print_value(j->b, "jobs.noop", "jobs/s", NOOPS / many, NOOPS);
    bench_print_value(j->b, "jobs.noop.floor", "tasks/s", NOOPS / bare_many, NOOPS); /* xargs -P64 */
    bench_print_value(j->b, "jobs.array", "tasks/s", TASKS / two, TASKS);
    bench_print_value(j->b, "jobs.array.floor", "tasks/s", TASKS / bare, TASKS); /* xargs -P2 */
    bench_print_value(j->b, "jobs.array.ratio", "x", bare / two, TASKS);
    bench_print_value(j->b, "jobs.array.first", "tasks/s", FIRST / first, FIRST);
    return true;
}

/* ---- durable submits ---- */

struct submitter {
    pthread_t    thread;
    double       until_ms;
    uint32_t     done;
    bool         has_failed;
    _Atomic int *ready;
};

static void *submit_on(void *user)
{
    static const char *const argv[] = {"/bin/true", NULL};
    struct submitter        *s = user;
    manta_error              e;
    manta_client            *client = manta_client_open(NULL, &e);
    s->has_failed = !client;
    (*s->ready)++;
    while (*s->ready < CLIENTS)
        bench_sleep_us(500);
    s->until_ms = rig_now_ms() + SUBMIT_MS;
    while (!s->has_failed && rig_now_ms() < s->until_ms) {
        manta_job job = {.id = manta_job_new_id(), .argv = argv, .hold = true};
        s->has_failed = manta_job_submit(client, &job, &e) != MANTA_OK;
        s->done += !s->has_failed;
    }
    if (s->has_failed)
        bench_say(&e, "jobs: submit");
    manta_client_close(client);
    return NULL;
}

static double sync_rate(const struct rig_folder *f)
{
    char   path[RIG_PATH];
    double from = rig_now_ms();
    snprintf(path, sizeof path, "%.63s/sync", f->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; i < SYNCS; i++)
        if (write(fd, path, 64) != 64 || fsync(fd) != 0)
            return -1;
    close(fd);
    return SYNCS / (rig_now_ms() - from) * 1e3;
}

static bool submits(struct jobs *j)
{
    static struct submitter submitters[CLIENTS];
    static _Atomic int      ready;
    uint32_t                done = 0;
    bool                    ok = true;
    for (int i = 0; i < CLIENTS; i++) {
        submitters[i] = (struct submitter){.ready = &ready};
        if (pthread_create(&submitters[i].thread, NULL, submit_on, &submitters[i]))
            return false;
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(submitters[i].thread, NULL);
        done += submitters[i].done;
        ok &= !submitters[i].has_failed;
    }
    double rate = done / (SUBMIT_MS / 1e3), floor = sync_rate(&j->folder);
    bench_print_value(j->b, "jobs.submit", "jobs/s", rate, done);
    bench_print_value(j->b, "jobs.submit.floor", "fsync/s", floor, SYNCS);
    bench_print_value(j->b, "jobs.submit.ratio", "x", rate / (CLIENTS * floor), done); /* of 64 times the floor */
    return ok && floor > 0;
}

bool bench_jobs(struct bench *b)
{
    struct jobs j = {.b = b};
    manta_error e;
    if (!rig_folder_make(&j.folder) || (j.head = rig_head(&j.folder)) < 0)
        return false;
    setenv("MANTA_ADDRESS", j.folder.dir, 1);
    bool ok = (j.client = manta_client_open(NULL, &e)) || bench_say(&e, "jobs");
    ok = ok && raylet_of(&j, "home", "2") && starts(&j) && arrays(&j) && submits(&j);
    manta_client_close(j.client);
    rig_end(&j.raylet, SIGTERM);
    rig_end(&j.head, SIGTERM);
    unsetenv("MANTA_ADDRESS");
    if (ok)
        rig_folder_remove(&j.folder);
    return ok;
}

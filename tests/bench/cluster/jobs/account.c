/* SPDX-License-Identifier: Apache-2.0
 *
 * account.c - see account.h. Jobs of several sizes come, wait for nobody and sleep; the head is killed while they run. Each prints
 * the time when it begins and when it ends: that is all the observer has, and the number of CPUs and GPUs that it has asked for.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/jobs/account.h"

#include "tests/bench/cluster/rig.h"

#include <manta_client.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 48, KILL_AFTER = 36, GAP_US = 100 * 1000, NAP_MIN_S = 6, NAP_KINDS = 5, WAIT_MS = 60000 };

struct seen {
    char   id[64];
    double cpus, gpus;
    char   text[96]; /* two times, in nanoseconds */
    size_t size;
};

static int text_add(void *user, const manta_log *log)
{
    struct seen *s = user;
    for (size_t i = 0; i < log->len && s->size + 1 < sizeof s->text; i++)
        s->text[s->size++] = log->text[i];
    return 0;
}

static bool submit(manta_client *client, int number, struct seen *s)
{
    char        script[96];
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    manta_job   job = {.id = manta_job_new_id(), .argv = argv, .cpus = 1 + number % 3, .gpus = number % 4 == 0, .retries = 0};
    manta_error e;
    snprintf(script, sizeof script, "date +%%s%%N; sleep %d.%d; date +%%s%%N", NAP_MIN_S + number % NAP_KINDS, number % 10);
    *s = (struct seen){.cpus = job.cpus, .gpus = job.gpus};
    snprintf(s->id, sizeof s->id, "%s", job.id);
    return manta_job_submit(client, &job, &e) == MANTA_OK || bench_say(&e, "account: submit");
}

/* How long it was seen to run; < 0: it failed. */
static double seconds_seen(manta_client *client, struct seen *s, double *told_cpu_s)
{
    manta_job_info info;
    manta_error    e;
    char          *second;
    if (manta_job_follow(client, s->id, text_add, s, &e) != MANTA_OK ||
        manta_job_wait(client, s->id, WAIT_MS, &info, &e) != MANTA_OK) {
        bench_say(&e, "account: wait");
        return -1;
    }
    double from = strtod(s->text, &second), to = strtod(second, NULL);
    *told_cpu_s = info.cpu_s;
    if (strcmp(info.state, "SUCCEEDED") == 0 && info.attempt == 1 && to > from)
        return (to - from) / 1e9;
    fprintf(stderr, "account: a job is %s: %s\n", info.state, info.reason);
    return -1;
}

static double off_percent(double told, double seen)
{
    return fabs(told - seen) / seen * 100;
}

static bool print_rows(struct bench *b, manta_client *client, struct seen *jobs)
{
    manta_account *rows;
    manta_error    e;
    size_t         count;
    double         cpu_s = 0, gpu_s = 0, worst = 0, told, told_cpu_s = 0, told_gpu_s = 0;
    for (int i = 0; i < JOBS; i++) {
        double seconds = seconds_seen(client, &jobs[i], &told);
        if (seconds < 0)
            return false;
        cpu_s += seconds * jobs[i].cpus;
        gpu_s += seconds * jobs[i].gpus;
        worst = fmax(worst, off_percent(told, seconds * jobs[i].cpus));
    }
    if (manta_account_list(client, NULL, &rows, &count, &e) != MANTA_OK)
        return bench_say(&e, "account");
    for (size_t i = 0; i < count; i++) {
        told_cpu_s += rows[i].cpu_s;
        told_gpu_s += rows[i].gpu_s;
    }
    free(rows);
    bench_print_value(b, "account", "%", off_percent(told_cpu_s, cpu_s), JOBS);
    bench_print_value(b, "account.gpu", "%", off_percent(told_gpu_s, gpu_s), JOBS);
    bench_print_value(b, "account.job", "%", worst, JOBS); /* that job of which it is most */
    bench_print_value(b, "account.told", "CPU-s", told_cpu_s, JOBS);
    bench_print_value(b, "account.seen", "CPU-s", cpu_s, JOBS);
    return true;
}

bool bench_account(struct bench *b)
{
    static struct seen jobs[JOBS];
    struct rig_folder  folder;
    struct rig_raylet  of = {.name = "node", .cpus = "200", .gpus = "16"};
    manta_client      *client = NULL;
    manta_error        e;
    pid_t              head, raylet = 0;
    if (!rig_folder_make(&folder) || (head = rig_head(&folder)) < 0)
        return false;
    setenv("MANTA_ADDRESS", folder.dir, 1);
    bool ok = (raylet = rig_raylet(&folder, &of, -1)) > 0 && ((client = manta_client_open(NULL, &e)) || bench_say(&e, "account"));
    for (int i = 0; ok && i < JOBS; i++) {
        ok = submit(client, i, &jobs[i]);
        bench_sleep_us(GAP_US); /* so that none waits for another's start */
        if (ok && i == KILL_AFTER) {
            rig_end(&head, SIGKILL);
            ok = (head = rig_head(&folder)) > 0;
        }
    }
    ok = ok && print_rows(b, client, jobs);
    manta_client_close(client);
    rig_end(&raylet, SIGTERM);
    rig_end(&head, SIGTERM);
    unsetenv("MANTA_ADDRESS");
    if (ok)
        rig_folder_remove(&folder);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * failover.c - head_failover: a real head over a Redis that three real Sentinels watch. Its master dies, again and again, when its
 * replica has not heard the last second.
 *
 *   head_failover [-o table|json]
 *
 *   redis_failover    from the moment that the replica is the master until a job is acknowledged: the longest.  .own: what Sentinel
 *                     itself needs from the master's death, the longest.  .lost: jobs that were acknowledged, and are unknown
 *                     after.  .crashes: heads that ended
 *
 * Thread: the main one submits; another one looks when the replica has become the master.
 */
#include "clients/control/manta_client.h"
#include "tests/bench/bench.h"
#include "tests/integration/head/rig.h"
#include "tests/redis/sentinel.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, FORGOTTEN_MS = 1000, JOBS_MAX = 100000, PATIENCE = 40000 };

static struct bench bench;

struct watcher {
    struct redis_sentinels *redis;
    double                  switched_ms;
};

static double now_ms(void)
{
    return (double)bench_now_ns() / 1e6;
}

static void *watch(void *arg)
{
    struct watcher      *w = arg;
    struct redis_server *next = &w->redis->servers[!w->redis->master];
    char                 said[64] = "";
    while (!strstr(said, "master\r\n")) {
        bench_sleep_us(2000);
        REDIS_SAY(next, said, "ROLE");
    }
    w->switched_ms = now_ms();
    return NULL;
}

static bool submit(manta_client *c, int number)
{
    manta_error  e;
    char         id[32];
    manta_job    job = {.id = id, .argv = (const char *const[]){"x", NULL}};
    manta_status st = MANTA_EAGAIN;
    snprintf(id, sizeof id, "job-%d", number);
    for (double end = now_ms() + PATIENCE; (st == MANTA_EAGAIN || st == MANTA_ECONN) && now_ms() < end;)
        st = manta_job_submit(c, &job, &e);
    return st == MANTA_OK || bench_say(&e, "a job");
}

static int lost_of(manta_client *c, int count)
{
    int lost = 0;
    for (int i = 0; i < count; i++) {
        manta_error    e;
        manta_job_info info;
        char           id[32];
        snprintf(id, sizeof id, "job-%d", i);
        lost += manta_job_get(c, id, &info, &e) != MANTA_OK;
    }
    return lost;
}

/* One failover; false: no job was acknowledged any more. */
static bool fail_over(struct redis_sentinels *redis, manta_client *c, int *jobs, double *own, double *beyond)
{
    struct redis_server *master = &redis->servers[redis->master], *replica = &redis->servers[!redis->master];
    struct watcher       watcher = {redis, 0};
    pthread_t            thread;
    redis_sentinels_in_step(redis);
    kill(replica->pid, SIGSTOP);
    for (double end = now_ms() + FORGOTTEN_MS; now_ms() < end && *jobs < JOBS_MAX; ++*jobs)
        if (!submit(c, *jobs))
            return false;
    redis_server_kill(replica, SIGKILL);
    double begun = now_ms();
    redis_server_kill(master, SIGKILL);
    redis_sentinels_replica(redis, !redis->master);
    if (pthread_create(&thread, NULL, watch, &watcher) != 0)
        return false;
    bool   ok = submit(c, (*jobs)++);
    double acknowledged = now_ms();
    pthread_join(thread, NULL);
    *own = watcher.switched_ms - begun > *own ? watcher.switched_ms - begun : *own;
    *beyond = acknowledged - watcher.switched_ms > *beyond ? acknowledged - watcher.switched_ms : *beyond;
    redis_sentinels_switch(redis);
    redis_sentinels_replica(redis, !redis->master);
    redis_sentinels_in_step(redis);
    bench_sleep_us(7000000); /* Sentinel does not try again sooner */
    return ok;
}

static void print(const char *id, const char *unit, double value, uint64_t n)
{
    struct bench_row row = {.id = id, .unit = unit, .value = value, .n = n};
    bench_print_row(&bench, &row);
}

static bool measured(struct redis_sentinels *redis, struct daemon *head)
{
    const char       *more[] = {"--store", redis->url, NULL};
    manta_client_opts opts = {.address = head->run, .timeout_ms = PATIENCE};
    manta_error       e;
    double            own = 0, beyond = 0;
    int               jobs = 0;
    if (!daemon_start(head, more, NULL))
        return false;
    manta_client *c = manta_client_open(&opts, &e);
    bool          ok = c || bench_say(&e, "the head");
    for (int i = 0; i < ROUNDS && ok; i++)
        ok = fail_over(redis, c, &jobs, &own, &beyond);
    bool has_ended = daemon_is_over(head);
    print("redis_failover", "ms", beyond, ROUNDS);
    print("redis_failover.own", "ms", own, ROUNDS);
    print("redis_failover.crashes", "", has_ended, ROUNDS);
    if (ok && !has_ended) { /* what the store alone has */
        (void)daemon_end(head, SIGKILL);
        ok = daemon_start(head, more, NULL);
    }
    int lost = ok ? lost_of(c, jobs) : jobs;
    print("redis_failover.lost", "", lost, (uint64_t)jobs);
    manta_client_close(c);
    return ok && lost == 0;
}

int main(int argc, char **argv)
{
    static struct redis_sentinels redis;
    static struct daemon          head;
    if (argc == 3 && strcmp(argv[1], "-o") == 0)
        bench.options.output = strcmp(argv[2], "json") == 0 ? BENCH_JSON : BENCH_TABLE;
    signal(SIGPIPE, SIG_IGN);
    redis_sentinels_new(&redis, 300);
    daemon_init(&head);
    head.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bench_print_head(&bench);
    bool ok = measured(&redis, &head);
    daemon_fini(&head);
    redis_sentinels_free(&redis);
    return ok ? 0 : 1;
}

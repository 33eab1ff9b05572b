/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel_test.c - a real manta-head over a Redis that real Sentinels watch. Whatever they do, what a client was told stays, and
 * the head goes on by itself.
 */
#include "manta_client.h"
#include "tests/integration/head/rig.h"
#include "tests/redis/sentinel.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 20 };

struct world {
    struct redis_sentinels redis;
    struct daemon          head;
    const char            *more[4];
    int                    jobs;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_sentinels_new(&w->redis, SENTINEL_NEVER_DOWN);
    daemon_init(&w->head);
    w->more[0] = "--store";
    w->more[1] = w->redis.url;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    daemon_fini(&w->head);
    redis_sentinels_free(&w->redis);
    free(w);
    return 0;
}

static void start(struct world *w)
{
    if (!daemon_start(&w->head, w->more, NULL))
        fail_msg("the head does not start");
}

static manta_client *open_client(const struct world *w)
{
    manta_error       e;
    manta_client_opts opts = {.address = w->head.run, .timeout_ms = RIG_PATIENCE_MS};
    manta_client     *c = manta_client_open(&opts, &e);
    if (!c)
        fail_msg("%s", e.message);
    return c;
}

/* Until it is acknowledged. */
static void submit(struct world *w, int count)
{
    manta_client *c = open_client(w);
    for (int end = w->jobs + count; w->jobs < end; w->jobs++) {
        manta_error  e;
        char         id[32];
        manta_job    job = {.id = id, .argv = (const char *const[]){"x", NULL}};
        manta_status code = MANTA_EAGAIN;
        snprintf(id, sizeof id, "job-%d", w->jobs);
        for (int i = 0; i < 100 && (code == MANTA_EAGAIN || code == MANTA_ECONN); i++, mt_sleep_ms(code ? 100 : 0))
            code = manta_job_submit(c, &job, &e);
        if (code != MANTA_OK)
            fail_msg("%s: %s", id, e.message);
    }
    manta_client_close(c);
}

/* A server that is demoted takes commits until it hears of that. The head that lives writes them again: until then it has to. */
static void all_is_at_the_master(struct world *w)
{
    char said[64] = "";
    long has = 0;
    for (int i = 0; i < 1000 && has < w->jobs; i++, mt_sleep_ms(20)) {
        REDIS_SAY(&w->redis.servers[w->redis.master], said, "HLEN", "manta:{test}:records");
        has = said[0] == ':' ? strtol(said + 1, NULL, 10) - 1 : 0; /* one is the head's own */
    }
    if (has < w->jobs)
        fail_msg("of %d jobs the master has %ld: %s", w->jobs, has, said);
}

/* The head is the one that was started, and has all; a next one, from the store alone, has it too. */
static void nothing_is_lost(struct world *w)
{
    all_is_at_the_master(w);
    for (int i = 0; i < 2; i++) {
        manta_client *c = open_client(w);
        for (int job = 0; job < w->jobs; job++) {
            manta_error    e;
            manta_job_info info;
            char           id[32];
            snprintf(id, sizeof id, "job-%d", job);
            if (manta_job_get(c, id, &info, &e) != MANTA_OK)
                fail_msg("%s was acknowledged: %s", id, e.message);
        }
        manta_client_close(c);
        if (i == 1)
            break;
        assert_false(daemon_is_over(&w->head));
        assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL);
        start(w);
    }
}

static void a_dead_master_is_followed_by_its_replica(void **state)
{
    struct world *w = *state;
    start(w);
    submit(w, BEFORE);
    redis_sentinels_in_step(&w->redis);
    redis_server_kill(&w->redis.servers[w->redis.master], SIGKILL);
    redis_sentinels_failover(&w->redis);
    submit(w, 1);
    redis_sentinels_switch(&w->redis);
    submit(w, BEFORE);
    nothing_is_lost(w);
}

/* The connection to the old master holds, and that one is read-only now. */
static void a_master_that_is_none_any_more_is_left(void **state)
{
    struct world *w = *state;
    start(w);
    submit(w, BEFORE);
    redis_sentinels_failover(&w->redis);
    redis_sentinels_switch(&w->redis);
    submit(w, BEFORE);
    REDIS_DO(&w->redis.each[1], "SENTINEL", "RESET", "main"); /* knows of no replica for a moment, and does not matter */
    submit(w, BEFORE);
    nothing_is_lost(w);
}

/* The replica has not heard the last commits, and the master comes back as its replica: the living head writes them again. */
static void what_a_failover_forgets_is_written_again(void **state)
{
    struct world        *w = *state;
    struct redis_server *master = &w->redis.servers[0], *replica = &w->redis.servers[1];
    char                 before[64], after[64];
    start(w);
    submit(w, BEFORE);
    redis_sentinels_in_step(&w->redis);
    kill(replica->pid, SIGSTOP);
    submit(w, BEFORE);                   /* into the socket of one that stands still ... */
    redis_server_kill(replica, SIGKILL); /* ... and dies */
    redis_server_kill(master, SIGKILL);
    redis_sentinels_replica(&w->redis, 1);
    redis_sentinels_failover(&w->redis);
    redis_sentinels_switch(&w->redis);
    REDIS_SAY(replica, before, "HLEN", "manta:{test}:records");
    submit(w, 1);
    redis_sentinels_replica(&w->redis, 0);
    redis_sentinels_in_step(&w->redis);
    REDIS_SAY(replica, after, "HLEN", "manta:{test}:records");
    assert_true(strtol(after + 1, NULL, 10) >= strtol(before + 1, NULL, 10) + 1);
    nothing_is_lost(w);
}

static void sentinels_that_are_gone_are_named(void **state)
{
    struct world *w = *state;
    char          url[300];
    w->more[1] = url;
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/other?cluster=test", w->redis.each[0].port);
    assert_false(daemon_start(&w->head, w->more, NULL));
    redis_server_kill(&w->redis.each[0], SIGKILL);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d/main?cluster=test", w->redis.each[0].port,
             w->redis.each[1].port);
    start(w); /* one that answers is enough */
    submit(w, 1);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(a_dead_master_is_followed_by_its_replica),
        WITH(a_master_that_is_none_any_more_is_left),
        WITH(what_a_failover_forgets_is_written_again),
        WITH(sentinels_that_are_gone_are_named),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * standby_test.c - real heads over one real redis-server: one leads, another stands by, and what a client was told stays.
 *
 * MANTA_KILLS: how often a head or Redis is killed under load; default: 10. MANTA_STOPPED_MS: for how long a leader is stopped;
 * default: 3500 (its lock ends after 2000).
 */
#include "manta_client.h"
#include "tests/integration/head/rig.h"
#include "tests/redis/redis.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 100000, HEADS = 2, LOCK_MS = 2000 };

struct world {
    struct redis_server redis;
    struct daemon       heads[HEADS];
    char                logs[HEADS][128], list[200], token_file[160];
};

static int number_of(const char *name, int otherwise)
{
    const char *given = getenv(name);
    return given ? (int)strtol(given, NULL, 10) : otherwise;
}

static bool log_says(const struct world *w, int head, const char *text)
{
    return rig_file_says(w->logs[head], text);
}

static void start(struct world *w, int head, bool is_standby)
{
    const char *more[8] = {"--store", w->redis.url, "--token-file", w->token_file, is_standby ? "--standby" : NULL, NULL};
    if (!daemon_start(&w->heads[head], more, NULL))
        fail_msg("head %d does not start: %s", head, rig_file_end(w->logs[head]));
    snprintf(w->list, sizeof w->list, "%s,%s", w->heads[0].address, w->heads[1].address);
}

static manta_client *open_client(const struct world *w, const char *address, int timeout_ms, manta_error *e)
{
    manta_client_opts opts = {.address = address ? address : w->list, .token_file = w->token_file, .timeout_ms = timeout_ms};
    return manta_client_open(&opts, e);
}

/* Who leads, as all that answer say; its epoch. Waits until somebody does. */
static int leader(const struct world *w, uint64_t *epoch, char standbys[160])
{
    manta_error         e;
    manta_cluster_info  info;
    manta_cluster_node *nodes;
    size_t              count;
    manta_client       *c = NULL;
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; !c && mt_now_ms() < end;)
        c = open_client(w, NULL, 10000, &e);
    if (!c || manta_nodes_list(c, &nodes, &count, &info, &e))
        fail_msg("nobody leads: %s", e.message);
    free(nodes);
    manta_client_close(c);
    if (epoch)
        *epoch = info.head_epoch;
    if (standbys)
        memcpy(standbys, info.standbys, sizeof info.standbys);
    return strcmp(info.address, w->heads[1].address) == 0;
}

static void wait_standby(const struct world *w)
{
    char    standbys[160] = "";
    int64_t end = mt_now_ms() + RIG_PATIENCE_MS;
    while (!standbys[0] && mt_now_ms() < end) {
        leader(w, NULL, standbys);
        mt_sleep_ms(20);
    }
    assert_string_not_equal(standbys, "");
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_server_new(&w->redis, NULL);
    for (int i = 0; i < HEADS; i++) {
        daemon_init(&w->heads[i]);
        snprintf(w->logs[i], sizeof w->logs[i], "%s/head%d.log", w->redis.dir, i);
        w->heads[i].out = open(w->logs[i], O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    snprintf(w->token_file, sizeof w->token_file, "%s/token", w->redis.dir);
    start(w, 0, false);
    start(w, 1, true);
    wait_standby(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < HEADS; i++) {
        daemon_fini(&w->heads[i]);
        close(w->heads[i].out);
    }
    redis_server_free(&w->redis);
    free(w);
    return 0;
}

/* What the heads did, for who reads why nobody answered. */
static void tell_logs(const struct world *w)
{
    for (int i = 0; i < HEADS; i++)
        print_message("-- head %d, %s: ...%s\n", i, w->heads[i].address, rig_file_end(w->logs[i]));
}

static void submit(const struct world *w, manta_client *c, const char *id)
{
    manta_error e;
    manta_job   job = {.id = id, .argv = (const char *const[]){"x", NULL}};
    if (manta_job_submit(c, &job, &e) != MANTA_OK) {
        tell_logs(w);
        fail_msg("%s: %s", id, e.message);
    }
}

static void check_job(const struct world *w, const char *id)
{
    manta_error    e;
    manta_job_info info;
    manta_client  *c = open_client(w, NULL, 15000, &e);
    if (!c || manta_job_get(c, id, &info, &e)) {
        tell_logs(w);
        fail_msg("%s was accepted: %s", id, e.message);
    }
    manta_client_close(c);
}

/* ---- */

static void who_asks_one_that_stands_by_is_sent_on(void **state)
{
    struct world *w = *state;
    manta_error   e;
    char          standbys[160];
    manta_client *c = open_client(w, w->heads[1].address, 5000, &e); /* the one that stands by, and no list */
    if (!c)
        fail_msg("%s", e.message);
    submit(w, c, "one");
    manta_client_close(c);
    check_job(w, "one");
    assert_int_equal(leader(w, NULL, standbys), 0);
    assert_string_equal(standbys, w->heads[1].address);
}

static void a_killed_leader_is_followed_at_once(void **state)
{
    struct world *w = *state;
    manta_error   e;
    uint64_t      before, after;
    leader(w, &before, NULL);
    manta_client *c = open_client(w, NULL, 15000, &e);
    submit(w, c, "one");
    int64_t begun = mt_now_ms();
    assert_int_equal(daemon_end(&w->heads[0], SIGKILL), SIGKILL);
    submit(w, c, "two"); /* the same client */
    int took = (int)(mt_now_ms() - begun);
    print_message("acknowledged again after %d ms\n", took);
    manta_client_close(c);
    assert_int_equal(leader(w, &after, NULL), 1);
    assert_int_equal(after, before + 1);
    if (took < LOCK_MS / 2) /* a head that got no CPU for so long may find the lock gone, too */
        assert_true(log_says(w, 1, "its process is gone"));
    check_job(w, "one");
    start(w, 0, false); /* as its keeper would: it has led, and another does now */
    wait_standby(w);
    assert_int_equal(leader(w, NULL, NULL), 1);
    assert_int_equal(daemon_end(&w->heads[1], SIGKILL), SIGKILL);
    check_job(w, "two");
    assert_int_equal(leader(w, &after, NULL), 0);
    assert_int_equal(after, before + 2);
}

static void copy_secret(const char *from, const char *to)
{
    char    text[256];
    int     in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t size = read(in, text, sizeof text);
    assert_true(size > 0 && write(out, text, (size_t)size) == size);
    close(in);
    close(out);
}

/* It believes that it leads: no store, raylet or client does. */
static void a_leader_that_was_stopped_has_no_effect(void **state)
{
    struct world      *w = *state;
    manta_error        e;
    manta_job_info     info;
    struct fake_raylet raylet;
    uint64_t           before, after;
    int                stopped_ms = number_of("MANTA_STOPPED_MS", 3500), orders = 0;
    char               path[160], was[256], is[256];
    leader(w, &before, NULL);
    snprintf(path, sizeof path, "%s/token", w->heads[0].run); /* where the rig looks for it */
    copy_secret(w->token_file, path);
    raylet_open(&raylet, &w->heads[0], 7);
    manta_client *old = open_client(w, w->heads[0].address, 3000, &e), *c = open_client(w, NULL, 15000, &e);
    submit(w, c, "one");
    (void)raylet_next(&raylet, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB); /* nothing of it is still on its way */
    assert_int_equal(kill(w->heads[0].pid, SIGSTOP), 0);
    int64_t begun = mt_now_ms();
    submit(w, c, "two");
    print_message("acknowledged again %d ms after its stop\n", (int)(mt_now_ms() - begun));
    assert_int_equal(leader(w, &after, NULL), 1);
    assert_int_equal(after, before + 1);
    if (mt_now_ms() - begun < stopped_ms)
        mt_sleep_ms(stopped_ms - (int)(mt_now_ms() - begun));
    size_t heard = raylet.count;
    REDIS_SAY(&w->redis, was, "HMGET", "manta:{test}:head", "fence", "run", "place");
    assert_int_equal(kill(w->heads[0].pid, SIGCONT), 0);
    /* Asked while it wakes up, it says nothing: by its own tables there is no such job. */
    assert_non_null(old);
    assert_int_equal(manta_job_get(old, "two", &info, &e), MANTA_ECONN);
    manta_client_close(old);
    int status = daemon_wait(&w->heads[0]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(log_says(w, 0, "another head has taken the lead"));
    REDIS_SAY(&w->redis, is, "HMGET", "manta:{test}:head", "fence", "run", "place");
    assert_string_equal(is, was);
    for (size_t i = heard; i < raylet.count; i++) /* a hint may have been on its way */
        orders += raylet.messages[i]->kind_case != MANTA__V1__HEAD_TO_NODE__KIND_FREE;
    assert_int_equal(orders, 0);
    print_message("stopped for %d ms; effects at store, raylet and client: 0\n", stopped_ms);
    raylet_close(&raylet);
    manta_client_close(c);
    check_job(w, "one");
    check_job(w, "two");
    start(w, 0, true);
    wait_standby(w);
}

/* The one that stands by knows no other leader, and sends on to the one that says nothing. */
static void a_leader_that_stands_still_keeps_nobody_from_the_next(void **state)
{
    struct world *w = *state;
    manta_error   e;
    leader(w, NULL, NULL);
    assert_int_equal(kill(w->heads[0].pid, SIGSTOP), 0);
    manta_client *c = open_client(w, w->heads[1].address, 15000, &e);
    if (!c)
        fail_msg("%s", e.message);
    submit(w, c, "one");
    manta_client_close(c);
    assert_int_equal(kill(w->heads[0].pid, SIGKILL), 0);
    (void)daemon_wait(&w->heads[0]);
    start(w, 0, true);
    wait_standby(w);
}

static void the_lead_is_handed_over(void **state)
{
    struct world *w = *state;
    manta_error   e;
    uint64_t      first, epoch;
    char          id[32];
    int64_t       longest = 0;
    int           next = 0;
    manta_client *c = open_client(w, NULL, 15000, &e), *other = open_client(w, NULL, 15000, &e);
    leader(w, &first, NULL);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 40; k++) {
            int64_t begun = mt_now_ms();
            snprintf(id, sizeof id, "job-%d", next++);
            submit(w, c, id);
            longest = mt_now_ms() - begun > longest ? mt_now_ms() - begun : longest;
            if (k == 20 && manta_cluster_step_down(other, "a test", &e) != MANTA_OK)
                fail_msg("%s", e.message);
        }
        wait_standby(w);
        leader(w, &epoch, NULL);
        assert_int_equal(epoch, first + (uint64_t)i + 1);
        assert_false(daemon_is_over(&w->heads[0]));
        assert_false(daemon_is_over(&w->heads[1]));
    }
    print_message("longest wait over 4 handovers: %d ms\n", (int)longest);
    manta_client_close(other);
    manta_client_close(c);
    for (int i = 0; i < next; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        check_job(w, id);
    }
}

static void nobody_hands_over_to_nobody(void **state)
{
    struct world *w = *state;
    manta_error   e;
    assert_int_equal(daemon_end(&w->heads[1], SIGTERM), 0);
    manta_client *c = open_client(w, w->heads[0].address, 5000, &e);
    int64_t       end = mt_now_ms() + RIG_PATIENCE_MS;
    manta_status  code;
    while ((code = manta_cluster_step_down(c, NULL, &e)) != MANTA_ENOENT && mt_now_ms() < end)
        mt_sleep_ms(20);
    assert_int_equal(code, MANTA_ENOENT);
    assert_non_null(strstr(e.message, "--standby"));
    manta_client_close(c);
    assert_int_equal(leader(w, NULL, NULL), 0);
    start(w, 1, true);
}

/* What was acknowledged in a run of kills is there after each. */
static void nothing_acknowledged_is_lost_in_kills(void **state)
{
    static bool   accepted[JOBS_MAX];
    struct world *w = *state;
    int           kills = number_of("MANTA_KILLS", 10), next = 0;
    int64_t       longest = 0;
    manta_error   e;
    char          id[32];
    for (int i = 0; i < kills; i++) {
        int64_t       until = mt_now_ms() + 30 + i * 37 % 90, killed = 0;
        int           at = leader(w, NULL, NULL), since = 0; /* acknowledged after the kill */
        manta_client *c = open_client(w, NULL, 15000, &e);
        while (c && next < JOBS_MAX && (!killed || mt_now_ms() < killed + (since ? 60 : RIG_PATIENCE_MS))) {
            snprintf(id, sizeof id, "job-%d", next);
            manta_job job = {.id = id, .argv = (const char *const[]){"x", NULL}};
            int64_t   begun = mt_now_ms();
            accepted[next++] = manta_job_submit(c, &job, &e) == MANTA_OK;
            longest = mt_now_ms() - begun > longest ? mt_now_ms() - begun : longest;
            since += killed && accepted[next - 1];
            mt_sleep_ms(kills / 50); /* a head keeps 10,000 jobs, and they are to last for all kills */
            if (killed || mt_now_ms() < until)
                continue;
            killed = mt_now_ms();
            if (i % 3 == 2) {
                redis_server_kill(&w->redis, SIGKILL);
                redis_server_start(&w->redis, NULL);
            } else {
                assert_int_equal(daemon_end(&w->heads[at], SIGKILL), SIGKILL);
            }
        }
        manta_client_close(c);
        if (!since)
            tell_logs(w);
        assert_true(since > 0);
        if (i % 3 != 2)
            start(w, at, true);
        wait_standby(w);
    }
    int           count = 0;
    manta_client *c = open_client(w, NULL, 15000, &e);
    for (int i = 0; i < next; i++) {
        manta_job_info info;
        snprintf(id, sizeof id, "job-%d", i);
        count += accepted[i];
        if (accepted[i] && manta_job_get(c, id, &info, &e))
            fail_msg("%s was accepted: %s", id, e.message);
    }
    manta_client_close(c);
    print_message("%d kills, %d acknowledged jobs, none lost; longest wait %d ms\n", kills, count, (int)longest);
    assert_true(count > kills);
}

/* ---- words ---- */

static void expect_refusal(struct world *w, const char *const *more, const char *why)
{
    int status = 0;
    assert_false(daemon_start(&w->heads[1], more, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    if (!log_says(w, 1, why))
        fail_msg("%s does not say \"%s\"", w->logs[1], why);
}

static void what_cannot_stand_by_says_why(void **state)
{
    struct world *w = *state;
    char          url[200];
    assert_int_equal(daemon_end(&w->heads[1], SIGTERM), 0);
    expect_refusal(w, (const char *const[]){"--standby", NULL}, "--standby wants the --store");
    expect_refusal(w, (const char *const[]){"--standby", "--store", w->redis.url, NULL}, "a copy of the leader's file");
    snprintf(url, sizeof url, "redis+unix://%s?cluster=nobody", w->redis.socket);
    expect_refusal(w, (const char *const[]){"--standby", "--store", url, "--token-file", w->token_file, NULL},
                   "no cluster to stand by for");
    expect_refusal(
        w, (const char *const[]){"--standby", "--store", w->redis.url, "--token-file", w->token_file, "--cluster", "x", NULL},
        "not of x");
    start(w, 1, true);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(who_asks_one_that_stands_by_is_sent_on),
        WITH(a_killed_leader_is_followed_at_once),
        WITH(a_leader_that_was_stopped_has_no_effect),
        WITH(a_leader_that_stands_still_keeps_nobody_from_the_next),
        WITH(the_lead_is_handed_over),
        WITH(nobody_hands_over_to_nobody),
        WITH(nothing_acknowledged_is_lost_in_kills),
        WITH(what_cannot_stand_by_says_why),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

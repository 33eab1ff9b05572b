/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_test.c - a real manta-head over a real redis-server: what a client was told stays, whoever of the two dies.
 *
 * MANTA_KILLS: how often one of them is killed under load; default: 12.
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

enum { JOBS_MAX = 100000 };

struct world {
    struct redis_server redis;
    struct daemon       head;
    char                log[128];
    const char         *more[8];
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_server_new(&w->redis, NULL);
    daemon_init(&w->head);
    snprintf(w->log, sizeof w->log, "%s/head.log", w->redis.dir);
    w->head.out = open(w->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    w->more[0] = "--store";
    w->more[1] = w->redis.url;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    daemon_fini(&w->head);
    close(w->head.out);
    redis_server_free(&w->redis);
    free(w);
    return 0;
}

static bool log_says(const struct world *w, const char *text)
{
    return rig_file_says(w->log, text);
}

static void start(struct world *w)
{
    char text[4096] = "";
    if (daemon_start(&w->head, w->more, NULL))
        return;
    (void)!pread(w->head.out, text, sizeof text - 1, 0);
    fail_msg("the head does not start: %s", text);
}

static manta_client *open_client(const struct world *w, int timeout_ms, manta_error *e)
{
    manta_client_opts opts = {.address = w->head.run, .timeout_ms = timeout_ms};
    return manta_client_open(&opts, e);
}

/* ECONN: it may have come in. */
static manta_status submit(const struct world *w, const char *id, int timeout_ms, manta_error *e)
{
    manta_job     job = {.id = id, .argv = (const char *const[]){"x", NULL}};
    manta_client *c = open_client(w, timeout_ms, e);
    manta_status  code = c ? manta_job_submit(c, &job, e) : e->code;
    manta_client_close(c);
    return code;
}

static void submit_at_last(const struct world *w, const char *id)
{
    manta_error  e;
    manta_status code;
    int64_t      end = mt_now_ms() + RIG_PATIENCE_MS;
    while ((code = submit(w, id, 2000, &e)) != MANTA_OK && mt_now_ms() < end)
        mt_sleep_ms(20);
    if (code != MANTA_OK)
        fail_msg("%s: %s", id, e.message);
}

static void check_job(const struct world *w, const char *id)
{
    manta_error    e;
    manta_job_info info;
    manta_client  *c = open_client(w, 15000, &e);
    if (!c || manta_job_get(c, id, &info, &e))
        fail_msg("%s was accepted: %s", id, e.message);
    manta_client_close(c);
}

/* ---- one of them dies ---- */

static void a_dead_redis_is_waited_for(void **state)
{
    struct world *w = *state;
    manta_error   e;
    int64_t       begun;
    start(w);
    submit_at_last(w, "before");
    redis_server_kill(&w->redis, SIGKILL);
    check_job(w, "before"); /* reads go on */
    while (submit(w, "during", 500, &e) == MANTA_ECONN && e.outcome == MANTA_NOT_DONE)
        ; /* the head could not even be asked in that time */
    assert_true(e.code == MANTA_EAGAIN || (e.code == MANTA_ECONN && e.outcome == MANTA_UNKNOWN));
    begun = mt_now_ms(); /* after a while in words, and at once */
    while (submit(w, "new", 500, &e) != MANTA_EAGAIN && mt_now_ms() - begun < RIG_PATIENCE_MS)
        mt_sleep_ms(50);
    assert_int_equal(e.code, MANTA_EAGAIN);
    assert_int_equal(e.outcome, MANTA_NOT_DONE);
    assert_non_null(strstr(e.message, "does not reach its store"));
    assert_false(daemon_is_over(&w->head));
    assert_true(log_says(w, "store_away"));
    redis_server_start(&w->redis, NULL);
    begun = mt_now_ms();
    submit_at_last(w, "new");
    print_message("on again %d ms after Redis\n", (int)(mt_now_ms() - begun));
    submit_at_last(w, "during");
    assert_true(log_says(w, "store_back"));
    assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL);
    start(w);
    check_job(w, "before");
    check_job(w, "during");
    check_job(w, "new");
}

static void a_redis_that_was_emptied_is_filled_again(void **state)
{
    struct world *w = *state;
    char          said[64] = "";
    start(w);
    submit_at_last(w, "one");
    submit_at_last(w, "two");
    REDIS_DO(&w->redis, "FLUSHALL");
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; strcmp(said, ":1\r\n") != 0 && mt_now_ms() < end; mt_sleep_ms(20))
        REDIS_SAY(&w->redis, said, "EXISTS", "manta:{test}:records");
    assert_string_equal(said, ":1\r\n");
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; !log_says(w, "store_rewritten"); mt_sleep_ms(20))
        assert_true(mt_now_ms() < end); /* it hears last that it has done so */
    assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL);
    start(w);
    check_job(w, "one");
    check_job(w, "two");
}

/* Redis has no time for a head that starts: that is no reason not to. */
static void a_redis_that_stands_still_is_waited_for(void **state)
{
    enum { STILL_MS = 2500 }; /* longer than the head waits for one answer */
    struct world *w = *state;
    assert_int_equal(kill(w->redis.pid, SIGSTOP), 0);
    pid_t waker = fork();
    assert_true(waker >= 0);
    if (waker == 0) {
        mt_sleep_ms(STILL_MS);
        kill(w->redis.pid, SIGCONT);
        _exit(0);
    }
    start(w);
    assert_int_equal(waitpid(waker, NULL, 0), waker);
    submit_at_last(w, "one");
}

/* A head that stood still for longer than its lock, while another one took over: it ends, with the reason. */
static void a_head_that_was_followed_ends(void **state)
{
    struct world *w = *state;
    struct daemon other;
    start(w);
    submit_at_last(w, "one");
    daemon_init(&other);
    assert_false(daemon_start(&other, w->more, NULL)); /* not while the first one leads */
    assert_int_equal(kill(w->head.pid, SIGSTOP), 0);
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; !daemon_start(&other, w->more, NULL); mt_sleep_ms(100))
        assert_true(mt_now_ms() < end); /* until the lock of the first one is over */
    assert_int_equal(kill(w->head.pid, SIGCONT), 0);
    int status = daemon_wait(&w->head);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(log_says(w, "another head has taken the lead"));
    daemon_fini(&other);
}

/* What was acknowledged in a run of kills is there after each. */
static void nothing_acknowledged_is_lost_in_kills(void **state)
{
    static bool   accepted[JOBS_MAX];
    struct world *w = *state;
    const char   *wanted = getenv("MANTA_KILLS");
    int           kills = wanted ? (int)strtol(wanted, NULL, 10) : 12, next = 0, checked = 0;
    manta_error   e;
    char          id[32];
    start(w);
    for (int i = 0; i < kills; i++) {
        manta_client *c = NULL;
        for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; !c && mt_now_ms() < end;)
            c = open_client(w, 1000, &e);
        int64_t until = mt_now_ms() + 30 + i * 37 % 90;
        int     fresh = 0;
        for (bool is_killed = false; c && next < JOBS_MAX && (!is_killed || mt_now_ms() < until + 60); next++) {
            snprintf(id, sizeof id, "job-%d", next);
            manta_job job = {.id = id, .argv = (const char *const[]){"x", NULL}};
            accepted[next] = manta_job_submit(c, &job, &e) == MANTA_OK;
            fresh += accepted[next];
            mt_sleep_ms(kills / 50); /* a head keeps 10,000 jobs, and they are to last for all kills */
            if (!is_killed && mt_now_ms() >= until && (fresh > 0 || mt_now_ms() >= until + RIG_PATIENCE_MS)) {
                is_killed = true;
                if (i % 2)
                    redis_server_kill(&w->redis, SIGKILL);
                else
                    assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL);
                if (i % 2 == 0)
                    break;
            }
        }
        manta_client_close(c);
        assert_true(fresh > 0);
        if (i % 2)
            redis_server_start(&w->redis, NULL);
        else
            start(w);
        for (; checked < next; checked++) {
            snprintf(id, sizeof id, "job-%d", checked);
            if (accepted[checked] && checked % 7 == 0)
                check_job(w, id);
        }
    }
    assert_int_equal(daemon_end(&w->head, SIGKILL), SIGKILL);
    start(w);
    int           count = 0;
    manta_client *c = open_client(w, 15000, &e);
    for (int i = 0; i < next; i++) {
        manta_job_info info;
        snprintf(id, sizeof id, "job-%d", i);
        count += accepted[i];
        if (accepted[i] && manta_job_get(c, id, &info, &e))
            fail_msg("%s was accepted: %s", id, e.message);
    }
    manta_client_close(c);
    print_message("%d kills, %d acknowledged jobs, none lost\n", kills, count);
    assert_true(count > kills);
}

/* ---- words ---- */

static void expect_refusal(struct world *w, const char *const *more, const char *why)
{
    int status = 0;
    assert_false(daemon_start(&w->head, more, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    if (!log_says(w, why))
        fail_msg("%s does not say \"%s\"", w->log, why);
}

static void a_password_stands_in_no_argument_and_no_log(void **state)
{
    struct world *w = *state;
    char          auth[128], url[200], path[64], said[4096];
    snprintf(auth, sizeof auth, "%s/auth", w->redis.dir);
    int fd = open(auth, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "very-secret\n", 12), 12);
    close(fd);
    REDIS_DO(&w->redis, "CONFIG", "SET", "requirepass", "very-secret");
    expect_refusal(w, w->more, "NOAUTH");
    snprintf(url, sizeof url, "redis+unix://ann:very-secret@%s?cluster=test", w->redis.socket);
    expect_refusal(w, (const char *const[]){"--store", url, NULL}, "--store-auth");
    expect_refusal(w, (const char *const[]){"--store-auth", auth, NULL}, "go with --store");
    w->more[2] = "--store-auth";
    w->more[3] = auth;
    start(w);
    submit_at_last(w, "one");
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)w->head.pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, said, sizeof said - 1);
    close(fd);
    assert_true(size > 0);
    assert_null(memmem(said, (size_t)size, "very-secret", 11));
    assert_false(log_says(w, "very-secret"));
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(a_dead_redis_is_waited_for),
        WITH(a_redis_that_was_emptied_is_filled_again),
        WITH(a_redis_that_stands_still_is_waited_for),
        WITH(a_head_that_was_followed_ends),
        WITH(nothing_acknowledged_is_lost_in_kills),
        WITH(a_password_stands_in_no_argument_and_no_log),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

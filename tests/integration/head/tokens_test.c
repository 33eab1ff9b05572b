/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens_test.c - named tokens at real heads: each right against each call on the wire, what ends when one is revoked, what holds
 * through kills, over both stores and at heads that stand by.
 */
#include "manta_client.h"
#include "scheduler/head/core/kit/step.h"
#include "tests/integration/head/rig.h"
#include "tests/redis/redis.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 2, PATH = 160 };

struct world {
    struct redis_server redis;
    struct daemon       heads[HEADS];
    char                log[PATH], token_file[PATH], list[200];
};

static void start(struct world *w, int head, bool is_redis, bool is_standby)
{
    const char *redis[] = {"--store", w->redis.url, "--token-file", w->token_file, is_standby ? "--standby" : NULL, NULL};
    const char *plain[] = {"--token-file", w->token_file, NULL};
    if (!daemon_start(&w->heads[head], is_redis ? redis : plain, NULL))
        fail_msg("head %d does not start: see %s", head, w->log);
    snprintf(w->list, sizeof w->list, "%s%s%s", w->heads[0].address, w->heads[1].address[0] ? "," : "", w->heads[1].address);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    redis_server_new(&w->redis, NULL);
    snprintf(w->log, PATH, "%s/log", w->redis.dir);
    snprintf(w->token_file, PATH, "%s/token", w->redis.dir);
    for (int i = 0; i < HEADS; i++) {
        daemon_init(&w->heads[i]);
        w->heads[i].out = open(w->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
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

/* ---- bearers ---- */

static const char *file_of(const struct world *w, const char *name, char out[PATH])
{
    if (!name)
        return w->token_file;
    snprintf(out, PATH, "%s/%s.token", w->redis.dir, name);
    return out;
}

/* `name` NULL: the cluster's own token. `address` NULL: any head. */
static manta_client *open_as(const struct world *w, const char *name, const char *address, manta_error *e)
{
    char              path[PATH];
    manta_client_opts opts = {
        .address = address ? address : w->list, .token_file = file_of(w, name, path), .timeout_ms = RIG_PATIENCE_MS};
    return manta_client_open(&opts, e);
}

static manta_client *must_open(const struct world *w, const char *name)
{
    manta_error   e;
    manta_client *c = open_as(w, name, NULL, &e);
    if (!c)
        fail_msg("%s: %s", name ? name : "admin", e.message);
    return c;
}

/* Makes a token and its file. */
static void make(const struct world *w, const char *name, int right, uint64_t valid_ms)
{
    manta_error      e;
    manta_token_opts opts = {.name = name, .right = right, .valid_ms = valid_ms};
    char            *text, path[PATH];
    manta_client    *admin = must_open(w, NULL);
    if (manta_token_create(admin, &opts, &text, NULL, &e) != MANTA_OK)
        fail_msg("%s", e.message);
    int fd = open(file_of(w, name, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    free(text);
    manta_client_close(admin);
}

static void shut_out(const struct world *w, const char *name)
{
    manta_error   e;
    manta_client *admin = must_open(w, NULL);
    if (manta_token_revoke(admin, name, &e) != MANTA_OK)
        fail_msg("%s", e.message);
    manta_client_close(admin);
}

/* Refused at its first call, in these words. */
static void is_refused(const struct world *w, const char *name, const char *address, const char *words)
{
    manta_error   e;
    manta_client *c = open_as(w, name, address, &e);
    if (c)
        fail_msg("%s is let in", name);
    assert_int_equal(e.code, MANTA_EAUTH);
    if (!strstr(e.message, words))
        fail_msg("\"%s\" lacks \"%s\"", e.message, words);
}

static void submit(manta_client *c, const char *id)
{
    manta_error e;
    manta_job   job = {.id = id, .argv = (const char *const[]){"x", NULL}};
    if (manta_job_submit(c, &job, &e) != MANTA_OK)
        fail_msg("%s: %s", id, e.message);
}

/* ---- the table, on the wire ---- */

struct raw { /* calls as any program would make them */
    struct rpc         *rpc;
    struct rpc_channel *channel;
};

static void raw_open(struct raw *raw, const struct world *w, const char *name)
{
    char            path[PATH];
    struct io_token token;
    assert_int_equal(io_token_read(file_of(w, name, path), &token).code, MT_OK);
    assert_int_equal(rpc_new(NULL, &raw->rpc).code, MT_OK);
    struct rpc_channel_config config = {.target = w->heads[0].address, .token = &token};
    assert_int_equal(rpc_channel_open(raw->rpc, &config, &raw->channel).code, MT_OK);
}

static void raw_close(struct raw *raw)
{
    rpc_channel_close(raw->channel);
    rpc_free(raw->rpc);
}

static int raw_call(struct raw *raw, const char *name, mt_view request)
{
    char   method[64], detail[MT_ERROR_BYTES_MAX] = "";
    mt_buf reply = {0};
    snprintf(method, sizeof method, "/manta.v1.Head/%s", name);
    mt_status st = rpc_call_blocking(raw->channel, method, request, RIG_PATIENCE_MS, RPC_WAIT_READY, &reply, detail);
    mt_buf_fini(&reply);
    return st.code;
}

/* One that is not refused says nothing, perhaps: it is not waited for. */
static int raw_stream(struct raw *raw, const char *name, bool is_refused)
{
    char                     method[64], detail[MT_ERROR_BYTES_MAX] = "";
    int                      timeout_ms = is_refused ? RIG_PATIENCE_MS : 1000;
    struct rpc_stream_config config = {.method = method, .timeout_ms = timeout_ms, .flags = RPC_WAIT_READY};
    struct rpc_reader       *reader;
    mt_buf                   message = {0};
    snprintf(method, sizeof method, "/manta.v1.Head/%s", name);
    assert_int_equal(rpc_reader_open(raw->channel, &config, mt_view_of("", 0), &reader).code, MT_OK);
    mt_status st = rpc_reader_next(reader, RIG_PATIENCE_MS, &message, detail);
    mt_buf_fini(&message);
    rpc_reader_close(reader);
    return st.code;
}

static void each_right_against_each_call(void **state)
{
    static const struct {
        const char *name;
        int         needs;
        bool        is_stream;
    } calls[] = {
#define X(name, method, right) {#name, right, false},
        HEAD_METHODS(X)
#undef X
            {"StepDown", MT_MAY_ADMIN, false},
        {"Certify", MT_MAY_ADMIN, false},
        {"Nonsense", MT_MAY_ADMIN, false},
        {"FollowJob", MT_MAY_READ, true},
        {"PutBlob", MT_MAY_SUBMIT, true},
        {"GetBlob", MT_MAY_ADMIN, true},
        {"Backup", MT_MAY_ADMIN, true},
        {"StandBy", MT_MAY_ADMIN, true},
        {"Attach", MT_MAY_ADMIN, true},
    };
    static const char *const names[] = {NULL, "reader", "submitter", "root"};
    static const uint8_t     look[] = {0x08, HEAD_SCALE_STATUS}; /* ScaleRequest.op */
    struct world            *w = *state;
    start(w, 0, false, false);
    for (int right = MT_MAY_READ; right <= MT_MAY_ADMIN; right++)
        make(w, names[right], right, 0);
    for (int right = MT_MAY_READ; right <= MT_MAY_ADMIN; right++) {
        struct raw raw;
        raw_open(&raw, w, names[right]);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            bool is_scale = strcmp(calls[i].name, "Scale") == 0;
            if (right == MT_MAY_ADMIN && strcmp(calls[i].name, "Shutdown") == 0)
                continue; /* it may: see below */
            int code = calls[i].is_stream ? raw_stream(&raw, calls[i].name, right < calls[i].needs)
                                          : raw_call(&raw, calls[i].name, is_scale ? mt_view_of(look, 2) : mt_view_of("", 0));
            if ((code == MT_EAUTH) != (right < calls[i].needs) && strcmp(calls[i].name, "Nonsense") != 0)
                fail_msg("%s by %s: %s", calls[i].name, names[right], mt_code_name(code));
        }
        raw_close(&raw);
    }
    struct raw raw;
    raw_open(&raw, w, "root");
    assert_int_equal(raw_call(&raw, "Shutdown", mt_view_of("", 0)), MT_OK);
    raw_close(&raw);
    assert_int_equal(daemon_wait(&w->heads[0]), 0);
}

/* ---- what ends ---- */

struct follower {
    pthread_t     thread;
    manta_client *client;
    bool          waits; /* for the job's end, and does not follow its log */
    manta_status  code;
    manta_error   e;
};

static int line(void *user, const manta_log *log)
{
    (void)user, (void)log;
    return 0;
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    f->code = f->waits ? manta_job_wait(f->client, "one", MANTA_FOREVER, NULL, &f->e)
                       : manta_job_follow(f->client, "one", line, NULL, &f->e);
    return NULL;
}

static void who_is_revoked_hears_nothing_more(void **state)
{
    struct world   *w = *state;
    struct follower f[2] = {{.waits = false}, {.waits = true}};
    manta_error     e;
    start(w, 0, false, false);
    make(w, "ann", MANTA_TOKEN_SUBMIT, 0);
    manta_client *ann = must_open(w, "ann");
    submit(ann, "one");
    for (int i = 0; i < 2; i++) {
        f[i].client = must_open(w, "ann");
        assert_int_equal(pthread_create(&f[i].thread, NULL, follow, &f[i]), 0);
    }
    mt_sleep_ms(300); /* both have asked; should one not have, it is refused all the same */
    int64_t begun = mt_now_ms();
    shut_out(w, "ann");
    for (int i = 0; i < 2; i++) {
        pthread_join(f[i].thread, NULL);
        assert_int_equal(f[i].code, MANTA_EAUTH);
        assert_non_null(strstr(f[i].e.message, "revoked"));
        manta_client_close(f[i].client);
    }
    print_message("shut out %d ms after the word\n", (int)(mt_now_ms() - begun));
    assert_int_equal(manta_job_stop(ann, "one", &e), MANTA_EAUTH); /* by a connection that was there */
    manta_client_close(ann);
    is_refused(w, "ann", NULL, "\"ann\" was revoked");
    manta_client  *admin = must_open(w, NULL);
    manta_job_info info;
    assert_int_equal(manta_job_get(admin, "one", &info, &e), MANTA_OK); /* its jobs go on */
    assert_string_equal(info.state, "PENDING");
    assert_string_equal(info.user, "ann");
    manta_client_close(admin);
}

static void they_hold_through_a_restart(void **state)
{
    struct world *w = *state;
    manta_error   e;
    start(w, 0, false, false);
    make(w, "ann", MANTA_TOKEN_SUBMIT, 0);
    make(w, "bob", MANTA_TOKEN_READ, 0);
    make(w, "late", MANTA_TOKEN_READ, 1000);
    shut_out(w, "bob");
    assert_int_equal(daemon_end(&w->heads[0], SIGKILL), SIGKILL);
    start(w, 0, false, false);
    manta_client *ann = must_open(w, "ann");
    submit(ann, "one");
    assert_int_equal(manta_cluster_stop(ann, NULL, &e), MANTA_EAUTH);
    assert_non_null(strstr(e.message, "\"ann\" is good for submit; this needs admin"));
    is_refused(w, "bob", NULL, "\"bob\" was revoked");
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; mt_now_ms() < end; mt_sleep_ms(50)) {
        manta_client *late = open_as(w, "late", NULL, &e);
        if (!late)
            break;
        manta_client_close(late);
    }
    is_refused(w, "late", NULL, "\"late\" has ended");
    make(w, "bob", MANTA_TOKEN_READ, 0); /* the name again, with another text */
    manta_client_close(must_open(w, "bob"));
    manta_client_close(ann);
}

static void is_unknown(const struct world *w, const char *address, int64_t timeout_ms, int code)
{
    manta_error       e;
    char              path[PATH];
    manta_client_opts opts = {.address = address, .token_file = file_of(w, "unknown", path), .timeout_ms = timeout_ms};
    do { /* a crowded machine may not answer at all within the limit */
        if (manta_client_open(&opts, &e))
            fail_msg("an unknown token is let in at %s", address);
    } while (e.code == MANTA_ECONN);
    assert_int_equal(e.code, code);
    if (code == MANTA_ENOTLEADER)
        assert_non_null(strstr(e.message, "does not know the token"));
}

/* One that stands by may not have heard yet of what the leader has made: it refuses nobody of itself. */
static void what_is_unknown_the_leader_refuses(void **state)
{
    struct world *w = *state;
    manta_error   e;
    char          path[PATH];
    start(w, 0, true, false);
    start(w, 1, true, true);
    make(w, "ann", MANTA_TOKEN_SUBMIT, 0);
    manta_client *ann = open_as(w, "ann", w->heads[1].address, &e); /* it has heard of this one */
    if (!ann)
        fail_msg("%s", e.message);
    manta_client_close(ann);
    int fd = open(file_of(w, "unknown", path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(dprintf(fd, "%064d", 7), 64);
    close(fd);
    is_unknown(w, w->heads[1].address, 500, MANTA_ENOTLEADER); /* asked again until then */
    is_unknown(w, w->heads[0].address, 0, MANTA_EAUTH);
    is_unknown(w, w->list, 0, MANTA_EAUTH);
}

static void a_head_that_takes_over_knows_them(void **state)
{
    struct world *w = *state;
    manta_error   e;
    start(w, 0, true, false);
    make(w, "before", MANTA_TOKEN_SUBMIT, 0);
    start(w, 1, true, true);
    make(w, "ann", MANTA_TOKEN_SUBMIT, 0);
    make(w, "bob", MANTA_TOKEN_SUBMIT, 0);
    for (const char *const *name = (const char *const[]){"before", "ann", NULL}; *name; name++) {
        manta_client *c = open_as(w, *name, w->heads[1].address, &e); /* it stands by: they are sent on */
        if (!c)
            fail_msg("%s: %s", *name, e.message);
        submit(c, *name);
        manta_client_close(c);
    }
    shut_out(w, "bob");
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; mt_now_ms() < end; mt_sleep_ms(20)) {
        manta_client *bob = open_as(w, "bob", w->heads[1].address, &e);
        if (!bob)
            break; /* in its own words, or in those of the leader to which it was sent */
        manta_client_close(bob);
    }
    is_refused(w, "bob", w->heads[1].address, "\"bob\" was revoked");
    assert_int_equal(daemon_end(&w->heads[0], SIGKILL), SIGKILL);
    manta_client *ann = must_open(w, "ann");
    submit(ann, "after");
    assert_int_equal(manta_job_stop(ann, "before", &e), MANTA_EAUTH);
    assert_int_equal(manta_job_stop(ann, "ann", &e), MANTA_OK);
    manta_client_close(ann);
    is_refused(w, "bob", w->heads[1].address, "\"bob\" was revoked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_right_against_each_call, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_revoked_hears_nothing_more, setup, teardown),
        cmocka_unit_test_setup_teardown(they_hold_through_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_unknown_the_leader_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_that_takes_over_knows_them, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

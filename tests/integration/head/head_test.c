/* SPDX-License-Identifier: Apache-2.0
 *
 * head_test.c - a real manta-head, the control client, and a raylet's stream: jobs with files, restarts by SIGKILL,
 * refusals, a full disk, and what is left afterwards.
 */
#include <sys/resource.h>

#include "manta_client.h"
#include "core/sha/sha256.h"
#include "tests/integration/head/rig.h"
#include "tests/plug/plug.h"
#include "tests/port.h"
#include "tests/redis/redis.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

static size_t count_files(const char *folder, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    DIR   *dir = opendir(path);
    size_t count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count > 2 ? count - 2 : 0;
}

struct seen {
    char   text[4096];
    size_t size;
};
static int keep(void *user, const manta_log *log)
{
    struct seen *s = user;
    assert_int_equal(log->offset, s->size);
    assert_true(s->size + log->len < sizeof s->text);
    memcpy(s->text + s->size, log->text, log->len);
    s->size += log->len;
    return 0;
}

struct beside {
    manta_client *client;
    manta_status  code;
    manta_error   e;
    const char   *id; /* of a job that is there */
};
static void *call_beside(void *arg)
{
    struct beside *b = arg;
    b->code = manta_job_get(b->client, b->id, NULL, &b->e);
    return NULL;
}
/* Inside a call: the thread itself may call, another one may not; and the client goes with the call that it is closed in. */
static int misuse_inside(void *user, const manta_log *log)
{
    struct beside *b = user;
    pthread_t      thread;
    (void)log;
    assert_int_equal(pthread_create(&thread, NULL, call_beside, b), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b->code, MANTA_EAGAIN);
    assert_non_null(strstr(b->e.message, "manta_job_get: client: another thread"));
    assert_int_equal(manta_job_get(b->client, b->id, NULL, &b->e), MANTA_OK);
    manta_client_close(b->client);
    assert_int_equal(manta_job_get(b->client, b->id, NULL, &b->e), MANTA_EHANDLE);
    return 1;
}

struct count {
    size_t bytes;
};
static int add_up(void *user, const manta_log *log)
{
    ((struct count *)user)->bytes += log->len;
    return 0;
}

/* ---- the way of a job ---- */

/* Into the current folder: four files, of which two have the same content. */
static void write_job_files(void)
{
    rig_file_write("trainer", "#!/bin/sh\necho hello\n", 0755);
    assert_int_equal(mkdir("data", 0700), 0);
    assert_int_equal(mkdir("data/deep", 0700), 0);
    rig_file_write("data/one.bin", "1111", 0644);
    rig_file_write("data/deep/two.bin", "1111", 0600); /* the same content: one blob */
    rig_file_write("data/empty", "", 0644);
}

/* The only one, as soon as it is alive: one that has said nothing for a while is suspect. The caller frees it. */
static manta_cluster_node *alive_node(manta_client *c, struct fake_raylet *r, manta_cluster_info *cluster)
{
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; mt_now_ms() < end; mt_sleep_ms(10)) {
        manta_error         e;
        manta_cluster_node *nodes;
        size_t              count;
        raylet_report(r);
        assert_int_equal(manta_nodes_list(c, &nodes, &count, cluster, &e), MANTA_OK);
        assert_int_equal(count, 1);
        if (nodes[0].state == MANTA_NODE_ALIVE)
            return nodes;
        free(nodes);
    }
    fail_msg("the node is not alive");
    return NULL;
}

static void a_job_with_files_from_submission_to_its_end(void **unused)
{
    (void)unused;
    struct daemon      d;
    struct fake_raylet r;
    manta_error        e;
    manta_job_info     info;
    struct seen        seen = {0};
    char               cwd[512], folder[160];
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(folder, sizeof folder, "%s/work", d.folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chdir(folder), 0);
    write_job_files();
    manta_client *c = daemon_client(&d);
    manta_job     job = {.id = manta_job_new_id(),
                         .argv = (const char *const[]){"./trainer", "--epochs", "5", NULL},
                         .files = (const char *const[]){"trainer", "data/", NULL},
                         .cpus = 1,
                         .retries = 2,
                         .time_s = 60,
                         .env = (const char *const[]){"MODE=test", NULL}};
    if (manta_job_submit(c, &job, &e))
        fail_msg("%s", e.message);
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_OK);
    assert_int_equal(count_files(d.state, "blobs"), 3);
    raylet_open(&r, &d, 7);
    const Manta__V1__StartJob *start = raylet_next(&r, KIND(START_JOB))->start_job;
    assert_string_equal(start->spec->id, job.id);
    assert_int_equal(start->spec->n_files, 4);
    assert_string_equal(start->spec->files[1]->path, "data/deep/two.bin");
    assert_int_equal(start->spec->files[0]->mode, 0755);
    assert_string_equal(start->spec->env[0], "MODE=test");
    assert_int_equal(start->spec->time_ms, 60000);
    raylet_job_state(&r, job.id, 1, "RUNNING", 0, "");
    raylet_log(&r, job.id, 1, 0, "hello\n");
    assert_int_equal(raylet_next(&r, KIND(LOG_ACK))->log_ack->offset, 6);
    assert_int_equal(manta_job_wait(c, job.id, 50, &info, &e), MANTA_ETIMEDOUT);
    assert_string_equal(info.state, "RUNNING");
    raylet_log(&r, job.id, 1, 6, "world\n");
    raylet_job_state(&r, job.id, 1, "SUCCEEDED", 0, "exit 0");
    struct beside beside = {.client = daemon_client(&d), .id = job.id};
    assert_int_equal(manta_job_follow(beside.client, job.id, misuse_inside, &beside, &e), MANTA_ECANCELLED);
    if (manta_job_follow(c, job.id, keep, &seen, &e))
        fail_msg("%s", e.message);
    assert_string_equal(seen.text, "hello\nworld\n");
    assert_int_equal(manta_job_wait(c, job.id, MANTA_FOREVER, &info, &e), MANTA_OK);
    assert_string_equal(info.state, "SUCCEEDED");
    manta_job_info *jobs;
    size_t          count;
    assert_int_equal(manta_job_list(c, &jobs, &count, &e), MANTA_OK);
    assert_int_equal(count, 1);
    assert_string_equal(jobs[0].id, job.id);
    free(jobs);
    manta_cluster_info  cluster;
    manta_cluster_node *nodes = alive_node(c, &r, &cluster);
    assert_true(nodes[0].resources[0].total == 4.0);
    assert_int_equal(cluster.head_epoch, 1);
    free(nodes);
    manta_client_close(c);
    raylet_close(&r);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

/* ---- SIGKILL ---- */

/* Closes its client. */
static void *follow_it(void *arg)
{
    static struct seen seen;
    manta_error        e;
    memset(&seen, 0, sizeof seen);
    if (manta_job_follow(arg, "survivor", keep, &seen, &e))
        snprintf(seen.text, sizeof seen.text, "error: %s", e.message);
    manta_client_close(arg);
    return seen.text;
}

static int setup_redis(void **state)
{
    static struct redis_server server;
    redis_server_new(&server, NULL);
    *state = &server;
    return 0;
}

static int teardown_redis(void **state)
{
    redis_server_free(*state);
    return 0;
}

/* Over both stores: with a redis-server as the state, its own. */
static void a_killed_head_comes_back_with_everything(void **state)
{
    struct redis_server *redis = *state;
    const char *const   *more = redis ? (const char *const[]){"--store", redis->url, NULL} : NULL;
    struct daemon        d;
    struct fake_raylet   r;
    manta_error          e;
    manta_job_info       info;
    pthread_t            follower;
    void                *text;
    char                 offset_text[32];
    daemon_init(&d);
    assert_true(daemon_start(&d, more, NULL));
    manta_client *c = daemon_client(&d);
    manta_job     job = {.id = "survivor", .argv = (const char *const[]){"x", NULL}};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_OK);
    raylet_open(&r, &d, 7);
    raylet_next(&r, KIND(START_JOB));
    raylet_job_state(&r, "survivor", 1, "RUNNING", 0, "");
    raylet_next(&r, KIND(JOB_ACK)); /* acknowledged: it survives everything */
    /* The client is made while a head is there: a thread may start late. */
    assert_int_equal(pthread_create(&follower, NULL, follow_it, daemon_client(&d)), 0);
    uint64_t offset = 0;
    for (int i = 0; i < 4; i++) {
        snprintf(offset_text, sizeof offset_text, "line %d\n", i);
        raylet_log(&r, "survivor", 1, offset, offset_text);
        offset += strlen(offset_text);
        while (raylet_next(&r, KIND(LOG_ACK))->log_ack->offset < offset)
            ;
        assert_true(WIFSIGNALED(daemon_end(&d, SIGKILL)));
        char before[sizeof d.address], port[128];
        memcpy(before, d.address, sizeof before);
        int held = port_hold_this((uint16_t)strtoul(strrchr(before, ':') + 1, NULL, 10)); /* -1: somebody was quick */
        snprintf(port, sizeof port, "%s/port", d.state);
        if (i % 2)
            unlink(port); /* another port: clients find it by the address file */
        assert_true(daemon_start(&d, more, NULL));
        if (i % 2 == 0 && held >= 0)
            assert_string_equal(d.address, before);
        close(held);
        raylet_again(&r, &d);
        assert_int_equal(r.epoch, 1);
        assert_int_equal(raylet_next(&r, KIND(LOG_ACK))->log_ack->offset, offset);
        assert_int_equal(manta_job_get(c, "survivor", &info, &e), MANTA_OK);
        assert_string_equal(info.state, "RUNNING");
    }
    raylet_job_state(&r, "survivor", 1, "SUCCEEDED", 0, "exit 0");
    assert_int_equal(manta_job_wait(c, "survivor", 20000, &info, &e), MANTA_OK);
    assert_int_equal(pthread_join(follower, &text), 0);
    assert_string_equal(text, "line 0\nline 1\nline 2\nline 3\n");
    manta_cluster_info  cluster;
    manta_cluster_node *nodes;
    size_t              count;
    assert_int_equal(manta_nodes_list(c, &nodes, &count, &cluster, &e), MANTA_OK);
    assert_int_equal(cluster.head_epoch, 5);
    assert_int_equal(count, 1);
    free(nodes);
    manta_client_close(c);
    raylet_close(&r);
    daemon_fini(&d);
}

/* ---- refusals ---- */

static void expect_refusal(struct daemon *d, const char *const *more, const char *why)
{
    char text[1024] = "";
    int  fds[2], status = 0;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct daemon other = *d;
    other.out = fds[1];
    assert_false(daemon_start(&other, more, &status));
    close(fds[1]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    ssize_t size = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    assert_true(size > 0);
    if (!strstr(text, why))
        fail_msg("\"%s\" does not say \"%s\"", text, why);
}

static void wrong_starts_are_refused_with_a_reason(void **unused)
{
    (void)unused;
    struct daemon d;
    char          path[128];
    daemon_init(&d);
    assert_true(daemon_start(&d, (const char *const[]){"--cluster", "ours", NULL}, NULL));
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    expect_refusal(&d, (const char *const[]){"--listen", "0.0.0.0:0", NULL}, "the one address");
    expect_refusal(&d, (const char *const[]){"--tls-dir", "/nowhere/tls", NULL}, "certificates in /nowhere/tls");
    expect_refusal(&d, (const char *const[]){"--tls-dir", "/nowhere/tls", "--insecure", NULL}, "opposite");
    expect_refusal(&d, (const char *const[]){"--listen", "nonsense", NULL}, "bad option or value: nonsense");
    expect_refusal(&d, (const char *const[]){"--bogus", NULL}, "bad option or value: --bogus");
    assert_true(daemon_start(&d, (const char *const[]){"--cluster", "ours", NULL}, NULL));
    expect_refusal(&d, NULL, "another head uses this state folder");
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    expect_refusal(&d, (const char *const[]){"--cluster", "theirs", NULL}, "belongs to cluster ours, not to theirs");
    snprintf(path, sizeof path, "%s/token", d.run);
    assert_int_equal(chmod(path, 0644), 0);
    expect_refusal(&d, NULL, "token");
    daemon_fini(&d);
}

static void an_upload_that_lies_is_not_kept(void **unused)
{
    (void)unused;
    struct daemon             d;
    struct rpc               *rpc;
    struct rpc_channel       *channel;
    struct io_token           token;
    struct rpc_channel_config config = {.target = d.address, .token = &token};
    struct rpc_stream_config  stream = {.method = "/manta.v1.Head/PutBlob", .timeout_ms = 10000, .flags = RPC_WAIT_READY};
    struct rpc_reader        *reader;
    char                      path[128], detail[MT_ERROR_BYTES_MAX];
    uint8_t                   sum[32] = {1, 2, 3};
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    snprintf(path, sizeof path, "%s/token", d.run);
    assert_int_equal(io_token_read(path, &token).code, MT_OK);
    assert_int_equal(rpc_new(NULL, &rpc).code, MT_OK);
    assert_int_equal(rpc_channel_open(rpc, &config, &channel).code, MT_OK);
    Manta__V1__BlobChunk chunk = MANTA__V1__BLOB_CHUNK__INIT;
    mt_buf               bytes = {0}, reply = {0};
    ProtobufCMessage    *answer;
    chunk.sha256 = (ProtobufCBinaryData){32, sum};
    chunk.size = 4;
    chunk.data = (ProtobufCBinaryData){4, (uint8_t *)"abcd"};
    assert_int_equal(rpc_pack(&chunk.base, &bytes).code, MT_OK);
    assert_int_equal(rpc_reader_open(channel, &stream, mt_buf_view(&bytes), &reader).code, MT_OK);
    mt_buf_fini(&bytes);
    assert_int_equal(rpc_reader_next(reader, 10000, &reply, detail).code, MT_OK);
    assert_int_equal(rpc_unpack(&manta__v1__put_blob_reply__descriptor, mt_buf_view(&reply), 4096, &answer).code, MT_OK);
    assert_int_equal(((Manta__V1__PutBlobReply *)answer)->code, MT_ECORRUPT);
    rpc_unpack_free(answer);
    mt_buf_fini(&reply);
    rpc_reader_close(reader);
    rpc_channel_close(channel);
    rpc_free(rpc);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    assert_int_equal(count_files(d.state, "blobs"), 0);
    daemon_fini(&d);
}

#ifdef PLUG_SO /* what is loaded before libc does not go with a sanitizer */
/* ---- a power cut ---- */

static bool daemon_start_plugged(struct daemon *d, const char *notes)
{
    setenv("LD_PRELOAD", PLUG_SO, 1);
    setenv("PLUG_FOLDER", d->folder, 1);
    setenv("PLUG_NOTES", notes, 1);
    bool is_up = daemon_start(d, NULL, NULL);
    unsetenv("LD_PRELOAD");
    return is_up;
}

static struct io_token token_of(const struct daemon *d)
{
    struct io_token token;
    char            path[128];
    snprintf(path, sizeof path, "%s/token", d->run);
    assert_int_equal(io_token_read(path, &token).code, MT_OK);
    return token;
}

static void check_blob(const struct daemon *d, const char *text)
{
    char      path[256], content[256] = "";
    uint8_t   sum[32];
    char      hex[MT_SHA256_HEX_SIZE];
    mt_sha256 sha;
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, text, strlen(text));
    mt_sha256_end(&sha, sum);
    snprintf(path, sizeof path, "%s/blobs/%s", d->state, mt_sha256_hex(sum, hex));
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, content, sizeof content - 1), strlen(text));
    close(fd);
    assert_string_equal(content, text);
}

/* Of the disk only what was synced is left, the strictest that can happen: what the client was told is there. */
static void what_was_taken_outlives_the_power(void **unused)
{
    (void)unused;
    struct daemon  d;
    manta_error    e;
    manta_job_info info;
    char           notes[96], after[96], old[96], path[128];
    daemon_init(&d);
    snprintf(notes, sizeof notes, "%s/notes", d.folder);
    snprintf(after, sizeof after, "%s/after", d.folder);
    snprintf(old, sizeof old, "%s/old", d.folder);
    snprintf(path, sizeof path, "%s/input", d.folder);
    assert_int_equal(mkdir(notes, 0700), 0);
    assert_true(daemon_start_plugged(&d, notes));
    manta_client *c = daemon_client(&d);
    rig_file_write(path, "content of the upload", 0600);
    manta_job job = {.id = "taken", .argv = (const char *const[]){"x", NULL}, .files = (const char *const[]){path, NULL}};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_OK);
    manta_client_close(c);
    assert_true(WIFSIGNALED(daemon_end(&d, SIGKILL)));
    struct io_token token = token_of(&d);
    assert_int_equal(plug_pull(d.folder, notes, after), 0);
    assert_int_equal(rename(d.run, old), 0);
    snprintf(path, sizeof path, "%s/run", after);
    assert_int_equal(rename(path, d.run), 0);
    check_blob(&d, "content of the upload");
    assert_true(daemon_start(&d, NULL, NULL));
    assert_string_equal(token_of(&d).hex, token.hex); /* else every node and client would have to be told */
    c = daemon_client(&d);
    assert_int_equal(manta_job_wait(c, "taken", 50, &info, &e), MANTA_ETIMEDOUT); /* it waits for a node */
    assert_string_equal(info.id, "taken");
    manta_client_close(c);
    check_blob(&d, "content of the upload"); /* and the head has not taken it for rubbish */
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

#endif
/* ---- clients that are misused ---- */

static void check_is_refused(manta_client *c, manta_status code)
{
    manta_error         e;
    manta_job_info     *jobs;
    manta_cluster_node *nodes;
    manta_rows         *rows;
    size_t              count;
    assert_int_equal(manta_job_submit(c, &(manta_job){.id = "k", .argv = (const char *const[]){"x", NULL}}, &e), code);
    assert_int_equal(manta_job_follow(c, "j", keep, NULL, &e), code);
    assert_int_equal(manta_job_wait(c, "j", 0, NULL, &e), code);
    assert_int_equal(manta_job_get(c, "j", NULL, &e), code);
    assert_int_equal(manta_job_stop(c, "j", &e), code);
    assert_int_equal(manta_job_delete(c, "j", &e), code);
    assert_int_equal(manta_job_list(c, &jobs, &count, &e), code);
    assert_int_equal(manta_nodes_list(c, &nodes, &count, NULL, &e), code);
    assert_int_equal(manta_state_list(c, &(manta_look){.kind = "tasks"}, &rows, &e), code);
    assert_int_equal(manta_node_drain(c, 1, 0, "x", &e), code);
    assert_int_equal(manta_cluster_stop(c, "x", &e), code);
    assert_int_equal(e.code, code);
    assert_int_equal(e.outcome, MANTA_NOT_DONE);
    assert_non_null(strstr(e.message, "manta_cluster_stop"));
}

static void a_client_that_is_closed_forked_or_none_is_refused(void **unused)
{
    (void)unused;
    struct daemon d;
    manta_error   e;
    int           status;
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    manta_client *c = daemon_client(&d), *other = daemon_client(&d);
    check_is_refused((manta_client *)(void *)&d, MANTA_EHANDLE);
    manta_client_close((manta_client *)(void *)&d);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        check_is_refused(c, MANTA_EFORKED);
        assert_null(manta_client_open(&(manta_client_opts){.address = d.run}, &e));
        assert_int_equal(e.code, MANTA_EFORKED);
        manta_client_close(c);
        _exit(42);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    assert_int_equal(manta_job_submit(c, &(manta_job){.id = "j", .argv = (const char *const[]){"x", NULL}}, &e), MANTA_OK);
    manta_client_close(c);
    check_is_refused(c, MANTA_EHANDLE);
    manta_client_close(c);
    manta_client *next = daemon_client(&d); /* in its place */
    check_is_refused(c, MANTA_EHANDLE);
    manta_client_close(c);
    assert_int_equal(manta_job_get(next, "j", NULL, &e), MANTA_OK);
    manta_client_close(next);
    assert_int_equal(manta_job_get(other, "j", NULL, &e), MANTA_OK);
    manta_client_close(other);
    daemon_fini(&d);
}

/* ---- a full disk ---- */

/* One submission; ECONN: it may have come in. */
static manta_status submit_large(const struct daemon *d, const char *id, int timeout_ms, manta_error *e)
{
    static char       large[20000];
    manta_client_opts opts = {.address = d->run, .timeout_ms = timeout_ms};
    manta_job         job = {.id = id, .argv = (const char *const[]){"x", large, NULL}};
    memset(large, 'a', sizeof large - 1);
    manta_client *c = manta_client_open(&opts, e);
    manta_status  code = c ? manta_job_submit(c, &job, e) : e->code;
    manta_client_close(c);
    return code;
}

static void check_jobs(const struct daemon *d, int accepted)
{
    manta_error    e;
    manta_job_info info;
    char           id[32];
    manta_client  *c = daemon_client(d);
    for (int i = 0; i < accepted; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        if (manta_job_get(c, id, &info, &e))
            fail_msg("%s was accepted: %s", id, e.message);
    }
    manta_client_close(c);
}

/* To the daemon it is as if its disk were full where its files reach so far. */
static void file_size_limit(const struct daemon *d, rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(prlimit(d->pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void a_full_disk_refuses_what_is_new_and_keeps_what_is_there(void **unused)
{
    enum { ACCEPTED = 3 };
    (void)unused;
    struct daemon d;
    manta_error   e;
    char          path[128], id[32];
    manta_status  code;
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    for (int i = 0; i < ACCEPTED; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        assert_int_equal(submit_large(&d, id, RIG_PATIENCE_MS, &e), MANTA_OK);
    }
    manta_client *c = daemon_client(&d);
    snprintf(path, sizeof path, "%s/large", d.folder);
    rig_file_write(path, "x", 0600);
    file_size_limit(&d, 4096); /* not one page of the log */
    manta_job job = {.id = "large", .argv = (const char *const[]){"x", NULL}, .files = (const char *const[]){path, NULL}};
    assert_int_equal(truncate(path, 1024 * 1024), 0);
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_EDISK_FULL);
    assert_int_equal(count_files(d.state, "blobs"), 0);
    snprintf(id, sizeof id, "job-%d", ACCEPTED); /* comes in before the head knows, and waits for the disk: neither yes nor no */
    while (submit_large(&d, id, 500, &e) == MANTA_ECONN && e.outcome == MANTA_NOT_DONE)
        ; /* the head could not even be asked in that time */
    assert_int_equal(e.code, MANTA_ECONN);
    assert_int_equal(e.outcome, MANTA_UNKNOWN);
    for (int i = 0; i < 20; i++) { /* from then on at once, and in words */
        assert_int_equal(submit_large(&d, "new", RIG_PATIENCE_MS, &e), MANTA_EDISK_FULL);
        assert_int_equal(e.outcome, MANTA_NOT_DONE);
        assert_non_null(strstr(e.message, "disk is full"));
    }
    assert_false(daemon_is_over(&d));
    int64_t begun = mt_now_ms();
    file_size_limit(&d, RLIM_INFINITY);
    while ((code = submit_large(&d, "new", 500, &e)) != MANTA_OK && mt_now_ms() - begun < RIG_PATIENCE_MS)
        ;
    assert_int_equal(code, MANTA_OK);
    print_message("on again %d ms after relief\n", (int)(mt_now_ms() - begun));
    assert_int_equal(submit_large(&d, id, RIG_PATIENCE_MS, &e), MANTA_OK); /* if it is there, that is the same one */
    check_jobs(&d, ACCEPTED + 1);
    manta_client_close(c);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    assert_true(daemon_start(&d, NULL, NULL)); /* and the next head has them too */
    check_jobs(&d, ACCEPTED + 1);
    daemon_fini(&d);
}

static void a_log_that_cannot_be_written_does_not_keep_its_job(void **unused)
{
    (void)unused;
    static char        piece[100 * 1024 + 1];
    struct daemon      d;
    struct fake_raylet r;
    manta_error        e;
    manta_job_info     info;
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    manta_client *c = daemon_client(&d);
    manta_job     job = {.id = "loud", .argv = (const char *const[]){"x", NULL}};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_OK);
    raylet_open(&r, &d, 7);
    raylet_next(&r, KIND(START_JOB));
    raylet_job_state(&r, "loud", 1, "RUNNING", 0, "");
    file_size_limit(&d, 256 * 1024);
    memset(piece, 'a', sizeof piece - 1);
    for (uint64_t offset = 0; offset < 4 * (sizeof piece - 1); offset += sizeof piece - 1)
        raylet_log(&r, "loud", 1, offset, piece);
    while (raylet_next(&r, KIND(LOG_ACK))->log_ack->offset < 4 * (sizeof piece - 1))
        ;
    raylet_job_state(&r, "loud", 1, "SUCCEEDED", 0, "");
    assert_int_equal(manta_job_wait(c, "loud", 20000, &info, &e), MANTA_OK);
    assert_string_equal(info.state, "SUCCEEDED");
    struct count count = {0};
    assert_int_equal(manta_job_follow(c, "loud", add_up, &count, &e), MANTA_ESYS); /* and who reads it is told */
    assert_non_null(strstr(e.message, "could not be written"));
    assert_in_range(count.bytes, 100 * 1024, 256 * 1024);
    manta_client_close(c);
    raylet_close(&r);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

/* ---- a user's program ---- */

static pid_t run_yardstick(const struct daemon *d, const char *folder, int out)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("MANTA_ADDRESS", d->run, 1);
        dup2(out, 1);
        if (chdir(folder) == 0)
            execl(YARDSTICK, YARDSTICK, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void the_yardstick_program_ends_as_its_job_does(void **unused)
{
    (void)unused;
    struct daemon      d;
    struct fake_raylet r;
    char               path[160], text[64] = "";
    int                fds[2], status;
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    snprintf(path, sizeof path, "%s/data", d.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/trainer", d.folder);
    rig_file_write(path, "#!/bin/sh\n", 0755);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = run_yardstick(&d, d.folder, fds[1]);
    close(fds[1]);
    manta_error     e;
    manta_job_info *jobs;
    size_t          count = 0;
    manta_client   *c = daemon_client(&d);
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; count == 0; mt_sleep_ms(10)) {
        assert_true(mt_now_ms() < end);
        assert_int_equal(manta_job_list(c, &jobs, &count, &e), MANTA_OK);
        free(jobs);
    }
    manta_client_close(c);
    raylet_open(&r, &d, 7); /* now: one that says nothing for a while is sent no job */
    const Manta__V1__StartJob *start = raylet_next(&r, KIND(START_JOB))->start_job;
    assert_int_equal(start->spec->retries, 2);
    assert_int_equal(start->spec->n_files, 1);
    raylet_job_state(&r, start->spec->id, 1, "RUNNING", 0, "");
    raylet_log(&r, start->spec->id, 1, 0, "epoch 1\n");
    raylet_job_state(&r, start->spec->id, 1, "STOPPED", 42, "the time limit passed");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_int_equal(read(fds[0], text, sizeof text - 1), 8);
    close(fds[0]);
    assert_string_equal(text, "epoch 1\n");
    raylet_close(&r);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

/* ---- ends ---- */

static void the_end_of_the_cluster_reaches_everybody(void **unused)
{
    (void)unused;
    struct daemon      d;
    struct fake_raylet r;
    manta_error        e;
    char               path[128];
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    raylet_open(&r, &d, 7);
    manta_client *c = daemon_client(&d);
    assert_int_equal(manta_cluster_stop(c, "test", &e), MANTA_OK);
    assert_string_equal(raylet_next(&r, KIND(SHUTDOWN))->shutdown->reason, "test");
    assert_int_equal(daemon_wait(&d), 0);
    snprintf(path, sizeof path, "%s/head.addr", d.run);
    assert_int_equal(access(path, F_OK), -1);
    manta_client_close(c);
    raylet_close(&r);
    daemon_fini(&d);
}

static void a_private_head_ends_with_its_driver_and_leaves_nothing(void **unused)
{
    (void)unused;
    struct daemon      d;
    struct fake_raylet r;
    int                ends[2];
    char               number[16];
    daemon_init(&d);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
    snprintf(number, sizeof number, "%d", ends[0]);
    assert_true(daemon_start(&d, (const char *const[]){"--watch-fd", number, NULL}, NULL));
    close(ends[0]);
    memset(&r, 0, sizeof r);
    raylet_open(&r, &d, 7);
    assert_int_equal(r.node, 2); /* 1 is the driver's own raylet, which knows it from the start */
    raylet_close(&r);
    close(ends[1]);
    assert_int_equal(daemon_wait(&d), 0);
    assert_int_equal(access(d.run, F_OK), -1);
    assert_int_equal(rmdir(d.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_files_from_submission_to_its_end),
        cmocka_unit_test(a_killed_head_comes_back_with_everything),
        cmocka_unit_test_setup_teardown(a_killed_head_comes_back_with_everything, setup_redis, teardown_redis),
        cmocka_unit_test(wrong_starts_are_refused_with_a_reason),
        cmocka_unit_test(an_upload_that_lies_is_not_kept),
#ifdef PLUG_SO
        cmocka_unit_test(what_was_taken_outlives_the_power),
#endif
        cmocka_unit_test(a_client_that_is_closed_forked_or_none_is_refused),
        cmocka_unit_test(a_full_disk_refuses_what_is_new_and_keeps_what_is_there),
        cmocka_unit_test(a_log_that_cannot_be_written_does_not_keep_its_job),
        cmocka_unit_test(the_yardstick_program_ends_as_its_job_does),
        cmocka_unit_test(the_end_of_the_cluster_reaches_everybody),
        cmocka_unit_test(a_private_head_ends_with_its_driver_and_leaves_nothing),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * answers_test.c - what libmanta_client makes of a head's answers, by a head that gives those which it is told to.
 *
 * Thread: the client on the test's, the head on its own.
 */
#include "clients/control/control.h"

#include "core/base/clock.h"
#include "core/io/loop.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LIMIT_MS = MT_CTL_HELLO_MS, /* of opening, whatever is asked for */
    WELL = -1,
    LATE_MS = 200, /* a first upload or backup is refused after so long */
    PATIENCE_MS = 3000,
    STILL_MS = PATIENCE_MS + 300
};

/* Answers the first call so, and all others never; with code 0 the first one never, and all others well; with WELL all well: it has
 * no file, and of uploads and backups it refuses the first one, late. */
struct head {
    struct rpc_service service;
    struct io_token    token;
    int32_t            code;
    const char        *detail;
    unsigned           calls;
    struct rpc_gone    gone;
    struct rpc_call   *held;
    struct io_loop    *loop;
    unsigned           streams;
    struct io_timer    late;
    struct rpc_stream *stream;

    struct rpc_stream_handler put, backup;

    struct rpc        *rpc;
    struct rpc_server *server;
    pthread_t          thread;
    char               folder[64], address[32], token_file[80];
};

static int told[2]; /* to who stops this process: now */

/* The first call is here: the machine stands still. (A tenth of a second after it was made it might not be.) */
static void stand_still(void)
{
    if (write(told[1], "s", 1) != 1)
        abort();
}

static void let_go(struct rpc_gone *gone)
{
    rpc_call_fail(mt_container_of(gone, struct head, gone)->held, mt_error(MT_ECANCELLED, 0, "nobody waits"), NULL);
}

static void nothing_is_there(struct rpc_call *call, mt_view request)
{
    ProtobufCMessage        *asked;
    Manta__V1__HasBlobsReply reply = MANTA__V1__HAS_BLOBS_REPLY__INIT;
    mt_buf                   bytes = {0};
    assert_int_equal(rpc_unpack(&manta__v1__has_blobs_request__descriptor, request, MT_CONTROL_BYTES_MAX, &asked).code, 0);
    reply.missing = ((Manta__V1__HasBlobsRequest *)asked)->sha256;
    reply.n_missing = ((Manta__V1__HasBlobsRequest *)asked)->n_sha256;
    assert_int_equal(rpc_pack(&reply.base, &bytes).code, 0);
    rpc_call_reply(call, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    rpc_unpack_free(asked);
}

static void has_blobs(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    struct head *h = mt_container_of(service, struct head, service);
    bool         is_first = h->calls++ == 0;
    if (h->code == WELL) {
        nothing_is_there(call, request);
        return;
    }
    if (is_first && h->code) {
        rpc_call_fail(call, mt_error(h->code, 0, "refused"), h->detail);
        return;
    }
    if (!is_first && !h->code) {
        rpc_call_reply(call, mt_view_text("")); /* of a message whose fields are all unset */
        return;
    }
    if (is_first)
        stand_still();
    h->held = call;
    h->gone.run = let_go;
    rpc_call_on_gone(call, &h->gone);
}

/* ---- uploads and backups ---- */

static void refuse_late(struct io_timer *timer)
{
    rpc_stream_finish(mt_container_of(timer, struct head, late)->stream, mt_error(MT_EAGAIN, 0, "refused"), "later");
}

/* The client has said all. True: the answer is to be given now. */
static bool is_to_answer(struct head *h, struct rpc_stream *stream)
{
    h->stream = stream;
    if (h->streams++ > 0)
        return true;
    io_timer_start(h->loop, &h->late, LATE_MS);
    stand_still();
    return false;
}

static void answer(struct rpc_stream *stream, const ProtobufCMessage *message)
{
    mt_buf bytes = {0};
    assert_int_equal(rpc_pack(message, &bytes).code, 0);
    assert_int_equal(rpc_stream_send(stream, mt_buf_view(&bytes)).code, 0);
    rpc_stream_finish(stream, mt_ok(), NULL);
    mt_buf_fini(&bytes);
}

static void put_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    Manta__V1__PutBlobReply reply = MANTA__V1__PUT_BLOB_REPLY__INIT;
    reply.text = (char *)"";
    if (is_to_answer(mt_container_of(handler, struct head, put), stream))
        answer(stream, &reply.base);
}

static void backup_ended(struct rpc_stream_handler *handler, struct rpc_stream *stream)
{
    static uint8_t       state[] = "state";
    uint8_t              sum[MT_SHA256_SIZE];
    mt_sha256            sha;
    Manta__V1__BlobChunk chunk = MANTA__V1__BLOB_CHUNK__INIT;
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, state, sizeof state);
    mt_sha256_end(&sha, sum);
    chunk.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    chunk.size = sizeof state;
    chunk.data = (ProtobufCBinaryData){sizeof state, state};
    if (is_to_answer(mt_container_of(handler, struct head, backup), stream))
        answer(stream, &chunk.base);
}

static void taken(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    (void)handler, (void)stream, (void)message;
}

static void stream_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    (void)handler, (void)result;
    rpc_stream_free(stream);
}

static struct rpc_stream_handler *put_blob(struct rpc_service *service, struct rpc_stream *stream)
{
    struct head *h = mt_container_of(service, struct head, service);
    (void)stream;
    h->put = (struct rpc_stream_handler){taken, NULL, put_ended, stream_closed};
    return &h->put;
}

static struct rpc_stream_handler *backup(struct rpc_service *service, struct rpc_stream *stream)
{
    struct head *h = mt_container_of(service, struct head, service);
    (void)stream;
    h->backup = (struct rpc_stream_handler){taken, NULL, backup_ended, stream_closed};
    return &h->backup;
}

/* ---- the head ---- */

static const struct rpc_method methods[] = {{"/manta.v1.Head/HasBlobs", 0, has_blobs, NULL, MT_MAY_NOTHING},
                                            {"/manta.v1.Head/PutBlob", 0, NULL, put_blob, MT_MAY_NOTHING},
                                            {"/manta.v1.Head/Backup", 0, NULL, backup, MT_MAY_NOTHING}};

static void *serve(void *arg)
{
    struct head *h = arg;
    io_loop_run(h->loop);
    rpc_server_close(h->server);
    rpc_free(h->rpc);
    return NULL;
}

static void head_start(struct head *h, int32_t code, const char *detail)
{
    *h = (struct head){.service = {methods, 3},
                       .late = {.fire = refuse_late},
                       .code = code,
                       .detail = detail,
                       .folder = "/tmp/manta-answers-XXXXXX"};
    assert_non_null(mkdtemp(h->folder));
    snprintf(h->token_file, sizeof h->token_file, "%s/token", h->folder);
    assert_int_equal(io_token_make(h->token_file, &h->token).code, 0);
    struct rpc_server_config config = {.token = &h->token};
    assert_int_equal(io_loop_new(&h->loop).code, 0);
    assert_int_equal(rpc_new(h->loop, &h->rpc).code, 0);
    assert_int_equal(rpc_server_open(h->rpc, &h->service, &config, &h->server).code, 0);
    snprintf(h->address, sizeof h->address, "127.0.0.1:%u", rpc_server_port(h->server));
    assert_int_equal(pthread_create(&h->thread, NULL, serve, h), 0);
}

static void head_stop(struct head *h)
{
    io_loop_stop(h->loop);
    pthread_join(h->thread, NULL);
    io_loop_free(h->loop);
    unlink(h->token_file);
    rmdir(h->folder);
}

/* The last try ends at the client's limit: what is told is what a head has said before. */
static void is_told(int32_t code, const char *detail, const char *says)
{
    struct head h;
    manta_error e;
    head_start(&h, code, detail);
    manta_client_opts opts = {.address = h.address, .token_file = h.token_file, .timeout_ms = LIMIT_MS};
    assert_null(manta_client_open(&opts, &e));
    head_stop(&h);
    assert_true(h.calls > 1);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.message, says));
    assert_non_null(strstr(e.message, h.address));
}

static void a_try_that_is_cut_short_hides_no_answer(void **state)
{
    (void)state;
    is_told(MT_ENOTLEADER, "leader=", "knows of none that leads");
    is_told(MT_ENOTLEADER, RPC_TOKEN_NOT_HERE, "does not know the token in");
}

/* ---- machines that stand still for longer than the client's limit ---- */

/* A process that stops its parent for so long at each byte that comes through `told`, until its end. */
static pid_t stopper(void)
{
    pid_t pid = fork();
    char  byte;
    if (pid != 0)
        return pid;
    close(told[1]);
    while (read(told[0], &byte, 1) == 1) {
        kill(getppid(), SIGSTOP);
        mt_sleep_ms(STILL_MS);
        kill(getppid(), SIGCONT);
    }
    _exit(0);
}

static manta_client *client_open(const struct head *h)
{
    manta_client_opts opts = {.address = h->address, .token_file = h->token_file, .timeout_ms = PATIENCE_MS};
    manta_error       e;
    manta_client     *client = manta_client_open(&opts, &e);
    if (!client)
        fail_msg("%s", e.message);
    return client;
}

static void time_that_nobody_had_is_not_counted(void **state)
{
    struct head h;
    (void)state;
    head_start(&h, MT_OK, NULL);
    manta_client_close(client_open(&h));
    head_stop(&h);
    assert_int_equal(h.calls, 2);
}

static void nor_that_of_an_upload(void **state)
{
    struct head        h;
    struct ctl_client *c;
    struct ctl_files   files = {0};
    manta_error        e;
    (void)state;
    head_start(&h, WELL, NULL);
    const char   *names[] = {h.token_file, NULL};
    manta_client *client = client_open(&h);
    assert_int_equal(ctl_files_collect(names, &files, &e), MANTA_OK);
    assert_int_equal(ctl_enter(client, "a test", &c, &e), MANTA_OK);
    if (ctl_leave(client, ctl_upload(c, &files, &e)) != MANTA_OK)
        fail_msg("%s", e.message);
    ctl_files_fini(&files);
    manta_client_close(client);
    head_stop(&h);
    assert_int_equal(h.streams, 2);
}

static void nor_that_of_a_backup(void **state)
{
    struct head h;
    manta_error e;
    char        file[96];
    (void)state;
    head_start(&h, WELL, NULL);
    snprintf(file, sizeof file, "%s/backup", h.folder);
    manta_client *client = client_open(&h);
    if (manta_cluster_backup(client, file, &e) != MANTA_OK)
        fail_msg("%s", e.message);
    assert_int_equal(unlink(file), 0);
    manta_client_close(client);
    head_stop(&h);
    assert_int_equal(h.streams, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(time_that_nobody_had_is_not_counted),
                                       cmocka_unit_test(nor_that_of_an_upload), cmocka_unit_test(nor_that_of_a_backup),
                                       cmocka_unit_test(a_try_that_is_cut_short_hides_no_answer)};
    pid_t                   pid = pipe(told) == 0 ? stopper() : -1; /* before there are threads */
    if (pid < 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close(told[1]);
    waitpid(pid, NULL, 0);
    return failed;
}

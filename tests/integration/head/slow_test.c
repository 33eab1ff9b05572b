/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_test.c - what a head keeps in memory for a disk that is slow, and for a client that does not read: so much, and no more.
 *
 * Thread: the test's; a reader's callbacks run on gRPC's.
 */
#include "manta_client.h"
#include "core/base/limits/head.h"
#include "core/base/limits/net.h"
#include "core/sha/sha256.h"
#include "tests/integration/head/rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    STALLED_MS = 1000, /* who takes nothing for so long is taken to wait */
};

/* ---- a slow disk ---- */

/* A piece of log; false: there is no room for it on the way, now. */
static bool log_goes(struct fake_raylet *r, const char *id, uint64_t offset, const char *piece, size_t size)
{
    Manta__V1__LogChunk   c = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    mt_buf                bytes = {0};
    c.id = (char *)(uintptr_t)id;
    c.attempt = 1;
    c.offset = offset;
    c.text = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)piece};
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_LOG;
    m.log = &c;
    assert_int_equal(rpc_pack(&m.base, &bytes).code, MT_OK);
    mt_status st = rpc_stream_send(r->stream, mt_buf_view(&bytes));
    mt_buf_fini(&bytes);
    assert_true(st.code == MT_OK || st.code == MT_EAGAIN);
    return st.code == MT_OK;
}

/* From `offset` on, until `end` or until nothing is taken for so long; how far it came. */
static uint64_t log_until(struct fake_raylet *r, const char *id, uint64_t offset, uint64_t end, int stalled_ms)
{
    static char piece[MIB / 4];
    memset(piece, 'a', sizeof piece);
    for (int waited = 0; offset < end && waited < stalled_ms;) {
        if (log_goes(r, id, offset, piece, sizeof piece)) {
            offset += sizeof piece;
            waited = 0;
        } else {
            mt_sleep_ms(10);
            waited += 10;
        }
    }
    return offset;
}

/* The log's file is a pipe that nobody reads: who opens it waits. Meanwhile raylets are not read from; then they are again. */
static void a_raylet_waits_for_the_disk(void **unused)
{
    (void)unused;
    enum { ALL = 40 * MIB, ON_THE_WAY = 6 * MIB }; /* 4 to be sent, 1 that was received, and what is between */
    struct daemon      d;
    struct fake_raylet r;
    manta_error        e;
    manta_job_info     info;
    char               path[160];
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    manta_client *c = manta_client_open(&(manta_client_opts){.address = d.run, .timeout_ms = 15000}, &e);
    manta_job     job = {.id = "loud", .argv = (const char *const[]){"x", NULL}};
    assert_int_equal(manta_job_submit(c, &job, &e), MANTA_OK);
    raylet_open(&r, &d, 7);
    raylet_next(&r, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB);
    raylet_job_state(&r, "loud", 1, "RUNNING", 0, "");
    snprintf(path, sizeof path, "%s/logs/loud", d.state);
    assert_int_equal(mkfifo(path, 0600), 0);
    uint64_t sent = log_until(&r, "loud", 0, ALL, MT_NODE_SUSPECT_MS + 500); /* it is as silent as one that is not read */
    if (sent > MT_HEAD_LOG_AHEAD_BYTES + ON_THE_WAY)
        fail_msg("%llu bytes were taken", (unsigned long long)sent);
    manta_cluster_node *node = NULL;
    size_t              count = 0;
    assert_int_equal(manta_nodes_list(c, &node, &count, NULL, &e), MANTA_OK);
    assert_int_equal(count, 1);
    if (node->state != MANTA_NODE_ALIVE)
        fail_msg("the node is blamed: %s", node->reason);
    free(node);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* the piece that waits is lost: a pipe has no offsets */
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    while (sent < ALL)
        sent = log_until(&r, "loud", sent, ALL, STALLED_MS);
    while (raylet_next(&r, MANTA__V1__HEAD_TO_NODE__KIND_LOG_ACK)->log_ack->offset < ALL)
        ;
    close(fd);
    raylet_job_state(&r, "loud", 1, "SUCCEEDED", 0, "");
    assert_int_equal(manta_job_wait(c, "loud", RIG_PATIENCE_MS, &info, &e), MANTA_OK);
    manta_client_close(c);
    raylet_close(&r);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

/* ---- a client that does not read ---- */

struct reader {
    struct rpc_stream_handler handler;
    uint64_t                  bytes, old; /* so many came; of these as the file was at first */
    _Atomic bool              is_closed;
    mt_status                 status;
};

static void message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view bytes)
{
    struct reader        *r = mt_container_of(handler, struct reader, handler);
    ProtobufCMessage     *m = NULL;
    Manta__V1__BlobChunk *chunk;
    (void)stream;
    if (rpc_unpack(&manta__v1__blob_chunk__descriptor, bytes, MT_CONTROL_BYTES_MAX, &m).code)
        return;
    chunk = (Manta__V1__BlobChunk *)m;
    for (size_t i = 0; i < chunk->data.len; i++)
        r->old += chunk->data.data[i] == 'o';
    r->bytes += chunk->data.len;
    rpc_unpack_free(m);
}

static void closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct reader *r = mt_container_of(handler, struct reader, handler);
    (void)stream;
    r->status = result->status;
    atomic_store(&r->is_closed, true);
}

static void file_fill(const char *path, char byte, size_t size)
{
    char *bytes = malloc(size);
    int   fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(bytes && fd >= 0);
    memset(bytes, byte, size);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    close(fd);
    free(bytes);
}

/* The file changes while its reader reads nothing: what comes as it was had been read ahead. */
static void who_does_not_read_is_kept_little(void **unused)
{
    (void)unused;
    enum { SIZE = 16 * MIB, AHEAD = 3 * MIB }; /* four pieces in the head, and what is on the way and here */
    struct daemon             d;
    struct io_token           token;
    struct rpc               *rpc;
    struct rpc_channel       *channel;
    struct rpc_stream        *stream;
    struct reader             r = {.handler = {message, NULL, NULL, closed}};
    struct rpc_stream_config  config = {.method = "/manta.v1.Head/GetBlob", .flags = RPC_DIRECT | RPC_WAIT_READY};
    Manta__V1__GetBlobRequest request = MANTA__V1__GET_BLOB_REQUEST__INIT;
    uint8_t                   sum[32] = {1};
    char                      path[256], hex[MT_SHA256_HEX_SIZE];
    mt_buf                    bytes = {0};
    daemon_init(&d);
    assert_true(daemon_start(&d, NULL, NULL));
    snprintf(path, sizeof path, "%s/token", d.run);
    assert_int_equal(io_token_read(path, &token).code, MT_OK);
    snprintf(path, sizeof path, "%s/blobs/%s", d.state, mt_sha256_hex(sum, hex));
    file_fill(path, 'o', SIZE);
    request.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    assert_int_equal(rpc_pack(&request.base, &bytes).code, MT_OK);
    assert_int_equal(rpc_new(NULL, &rpc).code, MT_OK);
    assert_int_equal(rpc_channel_open(rpc, &(struct rpc_channel_config){.target = d.address, .token = &token}, &channel).code,
                     MT_OK);
    assert_int_equal(rpc_stream_open(channel, &config, &r.handler, &stream).code, MT_OK);
    rpc_stream_pause(stream);
    assert_int_equal(rpc_stream_send(stream, mt_buf_view(&bytes)).code, MT_OK);
    rpc_stream_end(stream);
    mt_sleep_ms(STALLED_MS);
    file_fill(path, 'n', SIZE);
    rpc_stream_resume(stream);
    for (int i = 0; i < RIG_PATIENCE_MS / 10 && !atomic_load(&r.is_closed); i++)
        mt_sleep_ms(10);
    assert_true(atomic_load(&r.is_closed));
    assert_int_equal(r.status.code, MT_OK);
    assert_int_equal(r.bytes, SIZE);
    assert_true(r.old < AHEAD);
    mt_buf_fini(&bytes);
    rpc_stream_free(stream);
    rpc_channel_close(channel);
    rpc_free(rpc);
    assert_int_equal(daemon_end(&d, SIGTERM), 0);
    daemon_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_raylet_waits_for_the_disk),
        cmocka_unit_test(who_does_not_read_is_kept_little),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

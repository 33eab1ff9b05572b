/* SPDX-License-Identifier: Apache-2.0
 *
 * answers_test.c - what libmanta_client makes of a head's answers, by a head that gives those which it is told to.
 *
 * Thread: the client on the test's, the head on its own.
 */
#include "clients/control/control.h"

#include "core/io/loop.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = MT_CTL_HELLO_MS /* of opening, whatever is asked for */ };

/* Answers the first call so, and all others never. */
struct head {
    struct rpc_service service;
    struct io_token    token;
    int32_t            code;
    const char        *detail;
    unsigned           calls;
    struct rpc_gone    gone;
    struct rpc_call   *held;
    struct io_loop    *loop;
    struct rpc        *rpc;
    struct rpc_server *server;
    pthread_t          thread;
    char               folder[64], address[32], token_file[80];
};

static void let_go(struct rpc_gone *gone)
{
    rpc_call_fail(mt_container_of(gone, struct head, gone)->held, mt_error(MT_ECANCELLED, 0, "nobody waits"), NULL);
}

static void has_blobs(struct rpc_service *service, struct rpc_call *call, mt_view request)
{
    struct head *h = mt_container_of(service, struct head, service);
    (void)request;
    if (h->calls++ == 0) {
        rpc_call_fail(call, mt_error(h->code, 0, "refused"), h->detail);
        return;
    }
    h->held = call;
    h->gone.run = let_go;
    rpc_call_on_gone(call, &h->gone);
}

static const struct rpc_method methods[] = {{"/manta.v1.Head/HasBlobs", 0, has_blobs, NULL, MT_MAY_NOTHING}};

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
    *h = (struct head){.service = {methods, 1}, .code = code, .detail = detail, .folder = "/tmp/manta-answers-XXXXXX"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_try_that_is_cut_short_hides_no_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

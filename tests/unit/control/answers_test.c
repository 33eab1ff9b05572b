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

enum { LIMIT_MS = MT_CTL_HELLO_MS /* of opening, whatever is asked for */ };

/* Answers the first call so, and all others never; with code 0 the first one never, and all others well. */
struct head {
    struct rpc_service service;
    struct io_token    token;
    int32_t            code;
    const char        *detail;
    unsigned           calls;
    int                told; /* a byte comes here with the first call, where that is never answered; else 0 */
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
    bool         is_first = h->calls++ == 0;
    (void)request;
    if (is_first && h->code) {
        rpc_call_fail(call, mt_error(h->code, 0, "refused"), h->detail);
        return;
    }
    if (!is_first && !h->code) {
        rpc_call_reply(call, mt_view_text("")); /* of a message whose fields are all unset */
        return;
    }
    if (is_first && h->told && write(h->told, "s", 1) != 1)
        abort();
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

static void head_start(struct head *h, int32_t code, const char *detail, int told)
{
    *h = (struct head){
        .service = {methods, 1}, .code = code, .detail = detail, .told = told, .folder = "/tmp/manta-answers-XXXXXX"};
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
    head_start(&h, code, detail, 0);
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

/* A process that stops its parent for so long when a byte comes through `told`. */
static pid_t stopper(int told, unsigned ms)
{
    pid_t pid = fork();
    char  byte;
    if (pid != 0)
        return pid;
    if (read(told, &byte, 1) == 1) {
        kill(getppid(), SIGSTOP);
        mt_sleep_ms((int)ms);
        kill(getppid(), SIGCONT);
    }
    _exit(0);
}

/* The whole machine stands still for longer than the client's limit while its first call is at the head. */
static void time_that_nobody_had_is_not_counted(void **state)
{
    struct head h;
    manta_error e;
    int         told[2], status;
    (void)state;
    assert_int_equal(pipe(told), 0);
    pid_t pid = stopper(told[0], LIMIT_MS + 500);
    assert_true(pid > 0);
    head_start(&h, 0, NULL, told[1]);
    manta_client_opts opts = {.address = h.address, .token_file = h.token_file, .timeout_ms = LIMIT_MS};
    manta_client     *client = manta_client_open(&opts, &e);
    if (!client)
        fail_msg("%s", e.message);
    manta_client_close(client);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    head_stop(&h);
    assert_int_equal(h.calls, 2);
    close(told[0]);
    close(told[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_that_nobody_had_is_not_counted), /* it forks: before there are threads */
        cmocka_unit_test(a_try_that_is_cut_short_hides_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

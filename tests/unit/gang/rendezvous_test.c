/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous_test.c - Horovod's rendezvous as its client sees it, and what is refused of anybody.
 */
#include "clients/gang/horovod/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct gng_rendezvous v;

static int begin(void **state)
{
    (void)state;
    gng_rendezvous_init(&v, 4, mt_view_text("5ec7e7"), 12000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gng_rendezvous_fini(&v);
    return v.count || v.bytes;
}

/* A request, which comes in parts of so many bytes, gets an answer that begins so and ends so. */
static void has_answer(const char *request, size_t part, const char *first, const char *last)
{
    struct gng_request r = {0};
    size_t             size = strlen(request);
    for (size_t at = 0; at < size; at += part) {
        assert_int_equal(gng_request_take(&v, &r, mt_view_of(request + at, size - at < part ? size - at : part)).code, 0);
        if (at + part < size && at + part < r.head)
            assert_false(r.is_done);
    }
    assert_true(r.is_done);
    assert_int_equal(mt_buf_terminate(&r.out).code, 0);
    const char *out = (const char *)r.out.data;
    if (strncmp(out, first, strlen(first)) != 0 || strlen(out) < strlen(last) ||
        strcmp(out + strlen(out) - strlen(last), last) != 0)
        fail_msg("\"%s\" gets \"%s\"", request, out);
    gng_request_fini(&r);
}

/* Of the client in Horovod's library: each has a Content-Length. */
static void asks(const char *method, const char *name, const char *body, const char *first, const char *last)
{
    char request[512];
    snprintf(request, sizeof request, "%s /5ec7e7:12000/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n%s", method,
             name, strlen(body), body);
    for (size_t part = 1; part < sizeof request; part *= 8)
        has_answer(request, part, first, last);
}

static void ranks_meet(void **state)
{
    (void)state;
    static const char *const names[] = {"global/3",
                                        "local_node-3/0",
                                        "cross_2/1",
                                        "global_process_set_hash_ab12/2",
                                        "global/rank_3",
                                        "local_node-0_process_set_hash_ffffffffffffffff/rank_1",
                                        "worker_addresses/node-1:3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        asks("GET", names[i], "", "HTTP/1.0 404 ", "\r\n\r\n");
        asks("PUT", names[i], "an address", "HTTP/1.0 200 ", "\r\n\r\n");
        asks("GET", names[i], "", "HTTP/1.0 200 ", "Content-Length: 10\r\nConnection: close\r\n\r\nan address");
        asks("PUT", names[i], "another", "HTTP/1.0 200 ", "\r\n\r\n");
        asks("GET", names[i], "", "HTTP/1.0 200 ", "\r\n\r\nanother");
    }
    assert_int_equal(v.count, 7);
    assert_int_equal(v.bytes, 7 * 7);
    asks("DELETE", "global/3", "", "HTTP/1.0 200 ", "\r\n\r\n"); /* and global/rank_3 */
    assert_int_equal(v.count, 5);
    asks("GET", "global/3", "", "HTTP/1.0 404 ", "\r\n\r\n");
    asks("DELETE", "global/3", "", "HTTP/1.0 200 ", "\r\n\r\n");
    asks("GET", "cross_2/1", "", "HTTP/1.0 200 ", "another");
}

static void strangers(void **state)
{
    (void)state;
    has_answer("GET /5ec7e6:12000/global/0 HTTP/1.1\r\n\r\n", 64, "HTTP/1.0 403 ", "\r\n\r\n");
    has_answer("GET /global/0 HTTP/1.1\r\n\r\n", 64, "HTTP/1.0 403 ", "\r\n\r\n");
    has_answer("PUT /global/0 HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 64, "HTTP/1.0 403 ", "\r\n\r\n"); /* before its body comes */
    has_answer("rubbish\r\n\r\n", 64, "HTTP/1.0 400 ", "\r\n\r\n");
    has_answer("GET / HTTP/2\r\n\r\n", 64, "HTTP/1.0 400 ", "\r\n\r\n");
    has_answer("\r\n\r\n", 64, "HTTP/1.0 400 ", "\r\n\r\n");
    has_answer("a\r\nGET /5ec7e7:12000/global/0 HTTP/1.1\r\n\r\n", 64, "HTTP/1.0 400 ", "\r\n\r\n");
    char *head = malloc(MT_GANG_HTTP_HEAD_BYTES + 8);
    memset(head, 'a', MT_GANG_HTTP_HEAD_BYTES + 7);
    head[MT_GANG_HTTP_HEAD_BYTES + 7] = 0;
    has_answer(head, 1000, "HTTP/1.0 431 ", "\r\n\r\n");
    free(head);
    assert_int_equal(v.count, 0);
}

static void no_rank_of_ours(void **state)
{
    (void)state;
    static const char *const names[] = {"",
                                        "global",
                                        "global/",
                                        "global/4",
                                        "global/-1",
                                        "global/01",
                                        "global/1/2",
                                        "global/rank_4",
                                        "local_host/0",
                                        "local_node-4/0",
                                        "cross_4/0",
                                        "cross_/0",
                                        "other/0",
                                        "rank_and_size/x",
                                        "global_process_set_hash_/0",
                                        "../global/0",
                                        "worker_addresses/node-1",
                                        "worker_addresses/node-1:4",
                                        "global_process_set_hash_xy/0",
                                        "global_process_set_hash_00000000000000000/0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        asks("PUT", names[i], "x", "HTTP/1.0 400 ", "\r\n\r\n");
    asks("POST", "global/0", "x", "HTTP/1.0 405 ", "\r\n\r\n");
    has_answer("PUT /5ec7e7:12000/global/0 HTTP/1.1\r\n\r\n", 64, "HTTP/1.0 411 ", "\r\n\r\n");
    has_answer("PUT /5ec7e7:12000/global/0 HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nx", 640, "HTTP/1.0 411 ",
               "\r\n\r\n");
    has_answer("PUT /5ec7e7:12000/global/0 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 64, "HTTP/1.0 411 ", "\r\n\r\n");
    has_answer("PUT /5ec7e7:12000/global/0 HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 640, "HTTP/1.0 411 ", "\r\n\r\n");
    has_answer("PUT /5ec7e7:12000/global/0 HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 640, "HTTP/1.0 413 ", "\r\n\r\n");
    has_answer("GET /5ec7e7:12000/global/0 HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 640, "HTTP/1.0 413 ", "\r\n\r\n");
    assert_int_equal(v.count, 0);
}

/* As many process sets as it takes. */
static void too_much(void **state)
{
    (void)state;
    char name[96];
    for (int i = 0; i < MT_GANG_HTTP_KEYS_MAX; i++) {
        struct gng_request r = {0};
        char               request[256];
        snprintf(request, sizeof request, "PUT /5ec7e7:12000/global_process_set_hash_%x/0 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
                 i);
        assert_int_equal(gng_request_take(&v, &r, mt_view_text(request)).code, 0);
        gng_request_fini(&r);
    }
    assert_int_equal(v.count, MT_GANG_HTTP_KEYS_MAX);
    asks("PUT", "global/0", "x", "HTTP/1.0 507 ", "\r\n\r\n");
    snprintf(name, sizeof name, "global_process_set_hash_%x/0", 7);
    asks("PUT", name, "y", "HTTP/1.0 200 ", "\r\n\r\n"); /* in the place of another */
    v.bytes += MT_GANG_HTTP_SPACE_BYTES;
    asks("PUT", name, "z", "HTTP/1.0 507 ", "\r\n\r\n");
    v.bytes -= MT_GANG_HTTP_SPACE_BYTES;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_meet, begin, end), cmocka_unit_test_setup_teardown(strangers, begin, end),
        cmocka_unit_test_setup_teardown(no_rank_of_ours, begin, end), cmocka_unit_test_setup_teardown(too_much, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

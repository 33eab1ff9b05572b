/* SPDX-License-Identifier: Apache-2.0
 *
 * pull_test.c - both ends of an object's way between nodes, without a network: any split of the bytes, any
 * garbage.
 */
#include "core/base/limits/object.h"
#include "core/base/rng.h"
#include "tests/unit/base/says.h"
#include "objectstore/server/pull.h"
#include "objectstore/layout/sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FROM = 4, TO = 7, EPOCH = 2 };

static struct io_token token_of(char c)
{
    struct io_token token = {{0}};
    memset(token.hex, c, IO_TOKEN_HEX);
    return token;
}

static struct os_wire_hello hello_of(const struct io_token *token, uint32_t to_epoch)
{
    struct os_wire_hello hello = {OS_WIRE_MAGIC, mt_release.wire.max, mt_release.wire.min, FROM, 1, TO, to_epoch, {0}};
    memcpy(hello.token, token->hex, sizeof hello.token);
    return hello;
}

static struct lane_ref ref_of(uint64_t size)
{
    return (struct lane_ref){.id = {1, 2}, .node = TO, .segment = 1, .size = size};
}

/* Gives the source bytes in random pieces. Stops at the first failure; *used says how many it took. */
static mt_status feed(struct os_serve *serve, const void *bytes, size_t size, mt_rng *rng, size_t *used)
{
    struct io_token token = token_of('a');
    *used = 0;
    while (*used < size) {
        void  *at;
        size_t room;
        os_serve_room(serve, &at, &room);
        if (room == 0)
            break;
        size_t left = size - *used;
        size_t n = 1 + mt_rng_below(rng, room < left ? room : left);
        memcpy(at, (const uint8_t *)bytes + *used, n);
        *used += n;
        mt_status st = os_serve_received(serve, n, &token, TO, EPOCH);
        if (st.code != MT_OK)
            return st;
    }
    return mt_ok();
}

/* Moves one random piece of the reply to the puller. */
static mt_status deliver(struct os_serve *serve, struct os_pull *pull, mt_rng *rng, bool *alive)
{
    struct iovec pieces[2];
    void        *at;
    size_t       room;
    assert_true(os_serve_out(serve, pieces) >= 1);
    os_pull_room(pull, &at, &room);
    assert_true(room > 0);
    size_t n = 1 + mt_rng_below(rng, room < pieces[0].iov_len ? room : pieces[0].iov_len);
    memcpy(at, pieces[0].iov_base, n);
    *alive = os_serve_sent(serve, n);
    return os_pull_received(pull, n, 5);
}

/* A whole pull between the two. */
static mt_status pull_through(uint64_t size, uint64_t seed, int32_t answer, uint32_t to_epoch)
{
    mt_rng                 rng = {seed};
    uint8_t               *from = malloc(size + 1), *to = calloc(1, size + 1);
    struct io_token        token = token_of('a');
    struct os_wire_hello   hello = hello_of(&token, to_epoch);
    struct lane_ref        ref = ref_of(size);
    struct os_serve        serve;
    struct os_pull         pull;
    struct os_wire_request requests[OS_PULL_AHEAD];
    size_t                 queued = 0, used;
    bool                   alive = true;
    assert_true(from && to);
    for (uint64_t i = 0; i < size; i++)
        from[i] = (uint8_t)mt_rng_next(&rng);
    os_serve_start(&serve);
    os_pull_start(&pull, &ref, to, 0);
    mt_status st = feed(&serve, &hello, sizeof hello, &rng, &used);
    while (st.code == MT_OK && !pull.done && alive) {
        while (queued < OS_PULL_AHEAD && os_pull_request(&pull, &requests[queued]))
            queued++;
        assert_true(serve.state == OS_SERVE_REPLY || queued > 0);
        if (serve.state == OS_SERVE_REQUEST) {
            st = feed(&serve, &requests[0], sizeof requests[0], &rng, &used);
            assert_int_equal(used, sizeof requests[0]);
            memmove(requests, requests + 1, --queued * sizeof requests[0]);
        }
        if (st.code == MT_OK && serve.state == OS_SERVE_ASKED)
            os_serve_answer(&serve, answer, from);
        if (st.code == MT_OK)
            st = deliver(&serve, &pull, &rng, &alive);
    }
    if (st.code == MT_OK) {
        assert_true(pull.done);
        assert_memory_equal(from, to, size);
    }
    free(from);
    free(to);
    return st;
}

static void every_size(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        0, 1, 1000, MT_OBJECT_CHUNK_BYTES - 1, MT_OBJECT_CHUNK_BYTES, MT_OBJECT_CHUNK_BYTES + 1, 7 * MT_OBJECT_CHUNK_BYTES + 123};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(pull_through(sizes[i], 10 + i, MT_OK, EPOCH).code, MT_OK);
    assert_int_equal(pull_through(100, 1, MT_OK, 0).code, MT_OK);
}

static void refusals(void **state)
{
    (void)state;
    assert_int_equal(pull_through(100, 1, MT_EOBJ_LOST, EPOCH).code, MT_EOBJ_LOST);
    assert_int_equal(pull_through(0, 1, MT_EWRONGJOB, EPOCH).code, MT_EWRONGJOB);
    assert_int_equal(pull_through(100, 1, MT_OK, EPOCH + 1).code, MT_EFENCED);
}

static void time_passes(void **state)
{
    (void)state;
    struct os_pull  pull;
    struct lane_ref ref = ref_of(10);
    uint8_t         data[10];
    os_pull_start(&pull, &ref, data, 1000);
    assert_int_equal(os_pull_check(&pull, 1000 + MT_OBJECT_FETCH_MS - 1).code, MT_OK);
    assert_int_equal(os_pull_check(&pull, 1000 + MT_OBJECT_FETCH_MS).code, MT_ETIMEDOUT);
}

/* One wrong bit anywhere in what must be right ends the connection, before any object is looked for. */
static void bad_greetings(void **state)
{
    (void)state;
    mt_rng               rng = {5};
    struct io_token      right = token_of('a'), wrong = token_of('b');
    struct os_wire_hello good = hello_of(&right, EPOCH), bad;
    struct os_serve      serve;
    size_t               used;
    enum { MAGIC_BITS = 32 };
    for (size_t bit = 0; bit < MAGIC_BITS + 64 * 8; bit++) {
        size_t at = bit < MAGIC_BITS ? bit / 8 : offsetof(struct os_wire_hello, token) + (bit - MAGIC_BITS) / 8;
        bad = good;
        ((uint8_t *)&bad)[at] ^= (uint8_t)(1u << bit % 8);
        os_serve_start(&serve);
        mt_status st = feed(&serve, &bad, sizeof bad, &rng, &used);
        assert_int_equal(st.code, bit >= MAGIC_BITS ? MT_EAUTH : MT_EPROTO);
    }
    const uint16_t strange[][2] = {{0, 0}, {0, mt_release.wire.min - 1}, {mt_release.wire.max + 1, UINT16_MAX}, {UINT16_MAX, 0}};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) { /* no version of ours is among them */
        bad = good;
        bad.version_min = strange[i][0], bad.version_max = strange[i][1];
        os_serve_start(&serve);
        assert_int_equal(feed(&serve, &bad, sizeof bad, &rng, &used).code, MT_EVERSION);
    }
    bad = hello_of(&wrong, EPOCH);
    os_serve_start(&serve);
    assert_int_equal(feed(&serve, &bad, sizeof bad, &rng, &used).code, MT_EAUTH);
    for (size_t i = 0; i < offsetof(struct os_serve, reply); i++) /* a good token does not stay in the struct */
        assert_int_not_equal(((uint8_t *)&serve)[i], 'a');
}

static void bad_requests(void **state)
{
    (void)state;
    struct os_wire_request good = {OS_WIRE_MAGIC, 0, ref_of(1000), 100, 900}, bad[6];
    for (int i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].magic ^= 1;
    bad[1].serial = 1;
    bad[2].size = 901;
    bad[3].offset = 1001;
    bad[4].offset = UINT64_MAX;
    bad[5].ref.size = UINT64_MAX;
    bad[5].size = (uint64_t)MT_OBJECT_CHUNK_BYTES_MAX + 1;
    for (int i = 0; i < 6; i++) {
        mt_rng               rng = {6};
        struct io_token      token = token_of('a');
        struct os_wire_hello hello = hello_of(&token, EPOCH);
        struct os_serve      serve;
        size_t               used;
        os_serve_start(&serve);
        assert_int_equal(feed(&serve, &hello, sizeof hello, &rng, &used).code, MT_OK);
        assert_int_equal(feed(&serve, &bad[i], sizeof bad[i], &rng, &used).code, MT_EPROTO);
    }
}

/* A source that sends nonsense: the puller fails or goes on, and never writes outside its value. */
static void hostile_source(void **state)
{
    (void)state;
    enum { SIZE = 3000, GUARD = 64 };
    mt_rng   rng = {8};
    uint8_t *memory = malloc(SIZE + 2 * GUARD);
    assert_non_null(memory);
    for (int round = 0; round < 20000; round++) {
        struct lane_ref        ref = ref_of(SIZE);
        struct os_pull         pull;
        struct os_wire_request request;
        memset(memory, 0xee, SIZE + 2 * GUARD);
        os_pull_start(&pull, &ref, memory + GUARD, 0);
        while (os_pull_request(&pull, &request))
            ;
        struct os_wire_reply reply = {OS_WIRE_MAGIC, 0, MT_OK, 0, 0, SIZE, 0, 0};
        ((uint8_t *)&reply)[mt_rng_below(&rng, sizeof reply)] ^= (uint8_t)mt_rng_next(&rng);
        mt_status st = mt_ok();
        size_t    sent = 0;
        while (st.code == MT_OK && !pull.done && sent < sizeof reply + 2 * SIZE) {
            void  *at;
            size_t room;
            os_pull_room(&pull, &at, &room);
            size_t n = 1 + mt_rng_below(&rng, room);
            for (size_t i = 0; i < n; i++, sent++)
                ((uint8_t *)at)[i] = sent < sizeof reply ? ((uint8_t *)&reply)[sent] : 0x11;
            st = os_pull_received(&pull, n, 0);
        }
        for (int i = 0; i < GUARD; i++)
            assert_true(memory[i] == 0xee && memory[GUARD + SIZE + i] == 0xee);
    }
    free(memory);
}

/* One bit of a chunk, or of its sum, is another when it comes. */
static void damage_on_the_way(void **state)
{
    (void)state;
    enum { SIZE = 3000 };
    static uint8_t from[SIZE], to[SIZE];
    mt_rng         rng = {9};
    for (int i = 0; i < SIZE; i++)
        from[i] = (uint8_t)mt_rng_next(&rng);
    for (int round = 0; round < 2000; round++) {
        struct lane_ref        ref = ref_of(SIZE);
        struct os_pull         pull;
        struct os_wire_request request;
        struct os_wire_reply   reply = {OS_WIRE_MAGIC, 0, MT_OK, 0, 0, SIZE, os_sum(from, SIZE), 0};
        void                  *at;
        size_t                 room;
        uint64_t               bit = mt_rng_below(&rng, 8 * (SIZE + sizeof reply.sum));
        bool                   is_whole = round == 0;
        os_pull_start(&pull, &ref, to, 0);
        assert_true(os_pull_request(&pull, &request));
        if (bit >= 8 * SIZE)
            reply.sum ^= is_whole ? 0 : UINT64_C(1) << (bit - 8 * SIZE);
        os_pull_room(&pull, &at, &room);
        memcpy(at, &reply, sizeof reply);
        assert_int_equal(os_pull_received(&pull, sizeof reply, 0).code, MT_OK);
        memcpy(to, from, SIZE);
        if (bit < 8 * SIZE && !is_whole)
            to[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(os_pull_received(&pull, SIZE, 0).code, is_whole ? MT_OK : MT_ECORRUPT);
        assert_int_equal(pull.done, is_whole);
    }
}

/* Each end asserts what its caller owes it: no more bytes than there is room for, and none while a request is answered. */
static void breaches_are_told(void **state)
{
    (void)state;
    struct lane_ref        ref = ref_of(2 * MT_OBJECT_CHUNK_BYTES);
    uint8_t               *to = calloc(1, ref.size);
    struct os_pull         pull;
    struct os_wire_request request;
    struct io_token        token = token_of('a');
    struct os_serve        serve;
    assert_non_null(to);
    os_pull_start(&pull, &ref, to, 0);
    assert_string_not_equal(SAYS((void)os_pull_received(&pull, sizeof pull.head + 1, 0).code), "");
    os_pull_start(&pull, &ref, to, 0);
    pull.in_body = true;
    pull.chunk_end = 100;
    assert_string_equal(SAYS((void)os_pull_received(&pull, 101, 0).code), "pull->received <= pull->chunk_end");
    os_pull_start(&pull, &ref, to, 0);
    pull.received = 1 + MT_OBJECT_CHUNK_BYTES; /* more has come than was asked for */
    assert_string_equal(SAYS(os_pull_request(&pull, &request)), "pull->received <= pull->asked && pull->asked <= pull->ref.size");
    os_pull_start(&pull, &ref, to, 0);
    assert_true(os_pull_request(&pull, &request));
    pull.serial_got = 2; /* more was answered than asked */
    pull.in_body = true;
    pull.head.sum = os_sum(to, 0);
    assert_string_not_equal(SAYS((void)os_pull_received(&pull, 0, 0).code), "");

    os_serve_start(&serve);
    assert_string_not_equal(SAYS((void)os_serve_received(&serve, sizeof serve.hello + 1, &token, TO, EPOCH).code), "");
    serve = (struct os_serve){.state = OS_SERVE_ASKED};
    assert_string_not_equal(SAYS((void)os_serve_received(&serve, 1, &token, TO, EPOCH).code), "");
    assert_string_equal(SAYS(os_serve_start(&serve)), "");
    assert_string_not_equal(SAYS(os_serve_answer(&serve, MT_OK, to)), ""); /* nobody has asked */
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),        cmocka_unit_test(refusals),          cmocka_unit_test(time_passes),
        cmocka_unit_test(bad_greetings),     cmocka_unit_test(bad_requests),      cmocka_unit_test(hostile_source),
        cmocka_unit_test(damage_on_the_way), cmocka_unit_test(breaches_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

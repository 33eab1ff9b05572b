/* SPDX-License-Identifier: Apache-2.0
 *
 * bound_test.c - who may open how many connections without the token: one address, many, known ones, networks of IPv6.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/listen/bound.h"

#include <arpa/inet.h>

static struct io_bound *bound;

static int setup(void **state)
{
    (void)state;
    assert_ok(io_bound_new(&bound));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_bound_free(bound);
    return 0;
}

static struct io_origin v4(uint32_t host)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(host)}};
    return io_origin_of((struct sockaddr *)&in);
}

static struct io_origin v6(const char *text)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
    return io_origin_of((struct sockaddr *)&in);
}

/* How many of `tries` get in at that time. */
static int take(struct io_origin from, int tries, bool has_spoken, uint64_t now_ms)
{
    int in = 0;
    for (int i = 0; i < tries; i++)
        in += io_bound_take(bound, &from, has_spoken, now_ms);
    return in;
}

static void a_bucket_is_emptied_and_refilled(void **state)
{
    (void)state;
    assert_int_equal(take(v4(1), 1000, false, 5000), MT_BOUND_BURST);
    assert_int_equal(take(v4(1), 1000, false, 5000), 0);
    assert_int_equal(take(v4(1), 1000, false, 6000), MT_BOUND_PER_S);
    assert_int_equal(take(v4(1), 1000, false, 6500), MT_BOUND_PER_S / 2);
    for (uint64_t now = 6501; now < 7500; now++) /* pieces of a connection add up */
        (void)take(v4(1), 1, false, now);
    assert_int_equal(take(v4(1), 1000, false, 7500), 1);
    assert_int_equal(take(v4(1), 1000, false, 1000000000000), MT_BOUND_BURST); /* and never more than that */
    assert_int_equal(take(v4(1), 1000, false, 4000), 0);                       /* a clock that goes back gives nothing */
    assert_int_equal(take(v4(1), 1000, false, 1000000000000), 0);
}

static void addresses_do_not_share(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 100; i++) {
        assert_int_equal(take(v4(i), 1000, false, 1), MT_BOUND_BURST);
        assert_int_equal(take(v4(i), 1000, false, 1), 0);
    }
}

static void known_ones_have_no_bound_for_a_while(void **state)
{
    struct io_origin from = v4(7);
    (void)state;
    assert_int_equal(take(from, 1000, false, 1000), MT_BOUND_BURST);
    io_bound_know(bound, &from, 1000);
    assert_true(io_bound_is_known(bound, &from, 1000));
    assert_int_equal(take(from, 1000, false, 1000), 1000);
    assert_int_equal(take(from, 1000, false, 999 + MT_BOUND_KNOWN_MS), 1000);
    io_bound_know(bound, &from, 5000); /* again: its time begins anew */
    assert_int_equal(take(from, 1000, false, 4999 + MT_BOUND_KNOWN_MS), 1000);
    assert_false(io_bound_is_known(bound, &from, 5000 + MT_BOUND_KNOWN_MS));
    assert_int_equal(take(from, 1000, false, 5000 + MT_BOUND_KNOWN_MS), MT_BOUND_BURST);
}

/* Behind an address that is past its bound, some of those with a greeting get in: as many as from one address, of all. */
static void greetings_have_a_bucket_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(take(v4(1), 1000, false, 1), MT_BOUND_BURST);
    assert_int_equal(take(v4(1), 1000, true, 1), MT_BOUND_BURST);
    assert_int_equal(take(v4(2), 1000, true, 1), MT_BOUND_BURST); /* its own only: the shared one is empty */
    assert_int_equal(take(v4(1), 1000, true, 1001), 2 * MT_BOUND_PER_S);
}

static void a_network_of_ipv6_is_one_and_known_hosts_are_single(void **state)
{
    struct io_origin node = v6("2001:db8::17");
    (void)state;
    assert_int_equal(take(v6("2001:db8::1"), 1000, false, 1), MT_BOUND_BURST);
    assert_int_equal(take(v6("2001:db8::2:3:4:5"), 1000, false, 1), 0);
    assert_int_equal(take(v6("2001:db8:0:1::1"), 1000, false, 1), MT_BOUND_BURST);
    io_bound_know(bound, &node, 1);
    assert_int_equal(take(node, 1000, false, 1), 1000);
    assert_int_equal(take(v6("2001:db8::18"), 1000, false, 1), 0);
    struct io_origin mapped = v6("::ffff:0.0.0.9"), plain = v4(9);
    assert_memory_equal(&mapped, &plain, sizeof mapped);
    assert_int_equal(take(v6("::ffff:0.0.0.9"), 1000, false, 1), MT_BOUND_BURST);
    assert_int_equal(take(v6("::ffff:0.0.0.10"), 1000, false, 1), MT_BOUND_BURST);
}

/* More addresses than places: those that have one keep it, and what they have used up; the rest shares one bucket. */
static void a_full_table_harms_nobody_in_it(void **state)
{
    enum { MANY = 8 * MT_BOUND_ADDRESSES, NODES = 1000, ALL = MT_BOUND_ADDRESSES - 1 - NODES + MT_BOUND_BURST };
    int known = 0, in = 0;
    (void)state;
    assert_int_equal(take(v4(1), 1000, false, 1), MT_BOUND_BURST);
    for (uint32_t i = 0; i < NODES; i++) {
        struct io_origin node = v4(0x0a000000 + i);
        io_bound_know(bound, &node, 1);
    }
    for (uint32_t i = 0; i < MANY; i++)
        in += take(v4(0x20000000 + i), 1, false, 1);
    assert_in_range(in, ALL, ALL + 8); /* + 8: nodes whose set is full of others */
    assert_int_equal(take(v4(1), 1000, false, 1), 0);
    assert_int_equal(take(v4(0x70000000), 1000, false, 1), 0);
    for (uint32_t i = 0; i < NODES; i++) {
        struct io_origin node = v4(0x0a000000 + i);
        known += io_bound_is_known(bound, &node, 1);
    }
    assert_in_range(known, NODES - 8, NODES);
    /* Nodes that come now find room, at a stranger's cost. */
    struct io_origin late = v4(0x0b000001);
    io_bound_know(bound, &late, 1);
    assert_int_equal(take(late, 1000, false, 1), 1000);
    /* When the strangers' buckets are full again, their places are free. */
    assert_int_equal(take(v4(0x70000001), 1000, false, 1000000), MT_BOUND_BURST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bucket_is_emptied_and_refilled, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_do_not_share, setup, teardown),
        cmocka_unit_test_setup_teardown(known_ones_have_no_bound_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(greetings_have_a_bucket_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_network_of_ipv6_is_one_and_known_hosts_are_single, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_table_harms_nobody_in_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

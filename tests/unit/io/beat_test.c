/* SPDX-License-Identifier: Apache-2.0
 *
 * beat_test.c - datagrams that say that a node lives: what was sealed comes through whole, and nothing else has an effect.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/beat.h"

#include <arpa/inet.h>
#include <sys/socket.h>

enum { MANY = 300, LIMIT_MS = 30000 };

static const uint8_t key[IO_BEAT_KEY_BYTES] = {1, 2, 3}, other_key[IO_BEAT_KEY_BYTES] = {1, 2, 4};

static struct io_loop   *loop;
static struct io_beats   head, node;
static struct io_timer   limit;
static struct io_beat    seen, answered;
static struct io_beat_in last;
static uint32_t          good, bad, answers, wanted;

static void limit_fired(struct io_timer *timer)
{
    (void)timer;
    io_loop_stop(loop);
}

static void head_came(struct io_beats *beats, const struct io_beat_in *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        last = list[i];
        if (!io_beat_check(beats, &list[i], key)) {
            bad++;
            continue;
        }
        good++;
        seen = list[i].beat;
        struct io_beat answer = {.is_answer = true, .is_heard = true, .session = seen.session, .counter = seen.counter, .echo = 77};
        io_beats_answer(beats, &answer, &list[i], key);
    }
    if (good + bad >= wanted)
        io_loop_stop(loop);
}

static void node_came(struct io_beats *beats, const struct io_beat_in *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (io_beat_check(beats, &list[i], key)) {
            answers++;
            answered = list[i].beat;
        }
    if (answers >= wanted)
        io_loop_stop(loop);
}

static void run_until(uint32_t count)
{
    wanted = count;
    io_timer_start(loop, &limit, LIMIT_MS);
    io_loop_run(loop);
    io_timer_stop(&limit);
}

static int setup(void **state)
{
    (void)state;
    good = bad = answers = 0;
    limit.fire = limit_fired;
    head.came = head_came;
    node.came = node_came;
    assert_ok(io_loop_new(&loop));
    assert_ok(io_beats_open(loop, &head, "127.0.0.1", 0));
    assert_ok(io_beats_dial(loop, &node, "127.0.0.1", head.port));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_beats_close(&head);
    io_beats_close(&node);
    io_loop_free(loop);
    return 0;
}

static void say(const uint8_t with[IO_BEAT_KEY_BYTES], uint64_t counter)
{
    struct io_beat beat = {.session = 5, .counter = counter, .echo = UINT64_MAX - 1, .report = 9};
    io_beats_say(&node, &beat, with);
    io_beats_flush(&node);
}

static void sealed_comes_whole_and_is_answered(void **state)
{
    (void)state;
    say(key, 6);
    run_until(1);
    assert_int_equal(good, 1);
    assert_true(!seen.is_answer && seen.session == 5 && seen.counter == 6 && seen.echo == UINT64_MAX - 1 && seen.report == 9);
    if (!answers)
        run_until(1);
    assert_true(answered.is_answer && answered.is_heard && answered.session == 5 && answered.counter == 6 && answered.echo == 77);
}

/* With another key, altered by any bit, too short or too long: as if it had not come. */
static void forged_has_no_effect(void **state)
{
    (void)state;
    say(key, 1);
    run_until(1);
    struct io_beat_in true_one = last, forged;
    assert_true(io_beat_check(&head, &true_one, key));
    assert_false(io_beat_check(&head, &true_one, other_key));
    for (uint32_t bit = 0; bit < 8 * IO_BEAT_BYTES; bit++) {
        forged = true_one;
        forged.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(io_beat_check(&head, &forged, key));
    }
    int                fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(head.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t            bytes[IO_BEAT_BYTES + 1] = {0};
    memcpy(bytes, true_one.bytes, IO_BEAT_BYTES);
    const size_t sizes[] = {0, 1, IO_BEAT_BYTES - 1, IO_BEAT_BYTES + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(sendto(fd, bytes, sizes[i], 0, (struct sockaddr *)&to, sizeof to), sizes[i]);
    bytes[0] ^= 1;
    assert_int_equal(sendto(fd, bytes, IO_BEAT_BYTES, 0, (struct sockaddr *)&to, sizeof to), IO_BEAT_BYTES);
    close(fd);
    say(other_key, 2);
    say(key, 3);
    run_until(3); /* loopback keeps their order: all of them were read */
    assert_int_equal(good, 2);
    assert_int_equal(bad, 1);
    assert_int_equal(seen.counter, 3);
}

/* More than a batch, and more than one turn of the loop reads. */
static void many_come_through(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        say(key, i + 1);
    run_until(MANY);
    assert_int_equal(good, MANY);
    if (answers < MANY)
        run_until(MANY);
    assert_int_equal(answers, MANY);
}

/* Nobody listens there: what the kernel says of it is no end. */
static void refused_goes_on(void **state)
{
    uint16_t port = head.port;
    (void)state;
    io_beats_close(&head);
    for (uint32_t i = 0; i < 10; i++) {
        say(key, i + 1);
        io_timer_start(loop, &limit, 10);
        io_loop_run(loop);
    }
    assert_ok(io_beats_open(loop, &head, "127.0.0.1", port));
    struct io_beats second = {.came = head_came};
    assert_code(io_beats_open(loop, &second, "127.0.0.1", port), MT_EEXIST);
    assert_code(io_beats_open(loop, &second, "no.number", 0), MT_EINVAL);
    for (uint32_t i = 0; i < 1000 && !answers; i++) { /* the first may be given up for the error before it */
        say(key, 20 + i);
        io_timer_start(loop, &limit, 30);
        wanted = 1;
        io_loop_run(loop);
    }
    assert_true(answers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sealed_comes_whole_and_is_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(forged_has_no_effect, setup, teardown),
        cmocka_unit_test_setup_teardown(many_come_through, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_goes_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

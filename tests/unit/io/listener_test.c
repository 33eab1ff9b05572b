/* SPDX-License-Identifier: Apache-2.0
 *
 * listener_test.c - who is let in, who is refused, and that accepting goes on when descriptors ran out.
 */
#include "tests/unit/base/says.h"
#include "tests/unit/io/io_test.h"

#include "core/base/clock.h"
#include "core/io/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct fixture {
    struct io_loop    *loop;
    struct io_listener listener;
    struct io_timer    guard;
    int                fds[64];
    int                count, wanted, over;
    struct io_peer     last;
};
static struct fixture f;

static void accepted(struct io_listener *listener, int fd, const struct io_peer *peer)
{
    assert_ptr_equal(listener, &f.listener);
    f.fds[f.count++] = fd;
    f.last = *peer;
    if (f.count == f.wanted)
        io_loop_stop(f.loop);
}

/* Where this process stood still until then, the loop has not looked at its sockets yet: it does so twice more. */
static void guard_fired(struct io_timer *timer)
{
    if (f.over++ < 2)
        io_timer_start(f.loop, timer, 1);
    else
        io_loop_stop(f.loop);
}

/* Runs until `wanted` connections were accepted in all, or the time is up; says how many there are. */
static int run_until(int wanted, uint64_t limit_ms)
{
    f.wanted = wanted;
    f.over = 0;
    io_timer_start(f.loop, &f.guard, limit_ms);
    if (f.count < wanted)
        io_loop_run(f.loop);
    io_timer_stop(&f.guard);
    return f.count;
}

static int setup(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    f.listener.accepted = accepted;
    f.guard.fire = guard_fired;
    uint32_t before, limit;
    assert_ok(io_raise_fd_limit(&before, &limit)); /* as the daemons do: a shell's soft limit may be 1,024 */
    assert_ok(io_loop_new(&f.loop));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_listener_close(&f.listener);
    for (int i = 0; i < f.count; i++)
        close(f.fds[i]);
    io_loop_free(f.loop);
    return 0;
}

/* From 127.0.0.`host`. */
static int dial_from(int host, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl((127u << 24) + (uint32_t)host)}};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const char *what)
{
    assert_int_equal(send(fd, what, strlen(what), MSG_NOSIGNAL), strlen(what));
}

/* From this node's own address, with a greeting. */
static int dial_tcp(uint16_t port)
{
    int fd = dial_from(1, port);
    say(fd, "hello");
    return fd;
}

/* The connection is gone: an end, or a reset. */
static bool is_gone(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

static int dial_unix(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void only_loopback_is_bound(void **state)
{
    (void)state;
    assert_code(io_listener_open_tcp(f.loop, &f.listener, "0.0.0.0", 0, 0), MT_EUNSUPPORTED);
    assert_code(io_listener_open_tcp(f.loop, &f.listener, "192.0.2.1", 0, 0), MT_EUNSUPPORTED);
    assert_code(io_listener_open_tcp(f.loop, &f.listener, "::", 0, 0), MT_EUNSUPPORTED);
    assert_code(io_listener_open_tcp(f.loop, &f.listener, "::ffff:127.0.0.1", 0, 0), MT_EUNSUPPORTED);
    assert_code(io_listener_open_tcp(f.loop, &f.listener, "example.com", 0, 0), MT_EINVAL);
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "localhost", 0, 0));
    assert_true(f.listener.port > 0);
    struct io_listener second = {.accepted = accepted};
    assert_code(io_listener_open_tcp(f.loop, &second, "127.0.0.1", f.listener.port, 0), MT_EEXIST);
}

static void the_cap_holds_until_a_connection_is_released(void **state)
{
    int clients[6];
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 4));
    for (int i = 0; i < 6; i++)
        clients[i] = dial_tcp(f.listener.port);
    assert_int_equal(run_until(6, 100), 4);
    assert_true(fcntl(f.fds[0], F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(f.fds[0], F_GETFL) & O_NONBLOCK);
    io_listener_release(&f.listener);
    assert_int_equal(run_until(6, 100), 5);
    io_listener_release(&f.listener);
    assert_int_equal(run_until(6, 5000), 6);
    for (int i = 0; i < 6; i++)
        close(clients[i]);
}

/* Lowers the descriptor limit so that `left` are free, and gives back the old one. */
static struct rlimit leave_descriptors(int left)
{
    struct rlimit old, low;
    int           next = open("/dev/null", O_RDONLY);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)(next + left);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    return old;
}

static void no_descriptor_left_refuses_and_recovers(void **state)
{
    int clients[20];
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < 20; i++)
        clients[i] = dial_tcp(f.listener.port);
    struct rlimit old = leave_descriptors(8);
    int           before = run_until(20, 200);
    assert_int_equal(before, 8);
    assert_true(f.listener.count.refused_fds > 0);
    assert_true(is_gone(clients[19])); /* the last ones were told at once */

    for (int i = 0; i < 20; i++)
        close(clients[i]);
    for (int i = 0; i < f.count; i++) {
        close(f.fds[i]);
        io_listener_release(&f.listener);
    }
    f.count = 0;
    int again = dial_tcp(f.listener.port);
    assert_int_equal(run_until(1, 5000), 1);
    close(again);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a_fifth_of_the_descriptors_is_kept_back(void **state)
{
    int clients[20];
    (void)state;
    struct rlimit old = leave_descriptors(40);
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < 20; i++)
        clients[i] = dial_tcp(f.listener.port);
    run_until(20, 200);
    assert_true(f.count < 20 && f.count > 0);
    assert_true(f.listener.count.refused_fds > 0);
    int mine = open("/dev/null", O_RDONLY); /* the process itself still can */
    assert_true(mine >= 0);
    close(mine);
    for (int i = 0; i < 20; i++)
        close(clients[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* ---- strangers ---- */

static int option(int fd, int level, int name)
{
    int       value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

static void who_says_nothing_is_not_heard_of(void **state)
{
    (void)state;
    f.listener.greeting_bytes = 5;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    int silent = dial_from(1, f.listener.port), short_one = dial_from(1, f.listener.port), gone = dial_from(1, f.listener.port);
    say(short_one, "hell");
    say(gone, "hel");
    int greeted = dial_tcp(f.listener.port);
    assert_int_equal(run_until(2, 200), 1);
    assert_int_equal(f.listener.silent.count, 3);
    say(short_one, "o");
    assert_int_equal(run_until(2, 5000), 2);
    say(silent, "hello, and more");
    close(gone);
    assert_int_equal(run_until(3, 5000), 3);
    assert_int_equal(run_until(4, 200), 3);
    assert_int_equal(f.listener.silent.count, 0);
    for (int i = 0; i < 3; i++) { /* and then it is a connection like any other */
        char          bytes[8];
        struct linger linger = {0};
        socklen_t     size = sizeof linger;
        assert_int_equal(getsockopt(f.fds[i], SOL_SOCKET, SO_LINGER, &linger, &size), 0);
        assert_int_equal(linger.l_onoff, 0);
        assert_int_equal(option(f.fds[i], SOL_SOCKET, SO_RCVLOWAT), 1);
        assert_int_equal(option(f.fds[i], IPPROTO_TCP, TCP_NODELAY), 1);
        assert_true(fcntl(f.fds[i], F_GETFL) & O_NONBLOCK);
        assert_int_equal(recv(f.fds[i], bytes, 5, 0), 5);
        assert_memory_equal(bytes, "hello", 5);
    }
    close(silent);
    close(short_one);
    close(greeted);
}

static void silent_ones_have_their_time(void **state)
{
    (void)state;
    f.listener.greeting_ms = 2000;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    int silent = dial_from(1, f.listener.port);
    assert_int_equal(run_until(1, 20), 0);
    assert_int_equal(f.listener.silent.count, 1);
    while (f.listener.silent.count)
        assert_int_equal(run_until(1, 50), 0);
    assert_true(is_gone(silent));
    assert_int_equal(f.listener.silent.dropped, 1);
    close(silent);
}

/* This loop stood still for longer than a silent one has, and it could as little speak: it goes on to have what was left. */
static void silent_ones_are_not_blamed_for_a_loop_that_stood_still(void **state)
{
    (void)state;
    f.listener.greeting_ms = 1000;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    int late = dial_from(1, f.listener.port);
    assert_int_equal(run_until(1, 20), 0);
    assert_int_equal(f.listener.silent.count, 1);
    mt_sleep_ms(2000);
    assert_int_equal(run_until(1, 20), 0);
    assert_int_equal(f.listener.silent.dropped, 0);
    say(late, "hello");
    assert_int_equal(run_until(1, 5000), 1);
    int silent = dial_from(1, f.listener.port); /* not for ever */
    assert_int_equal(run_until(2, 20), 1);
    mt_sleep_ms(2000);
    while (f.listener.silent.count)
        assert_int_equal(run_until(2, 50), 1);
    assert_true(is_gone(silent));
    close(late);
    close(silent);
}

/* Half of the places are taken: each has the short time, not that of an hour. */
static void silent_ones_have_less_where_places_are_short(void **state)
{
    enum { HALF = MT_SILENT_MAX / 2 };
    int fds[HALF];
    (void)state;
    f.listener.greeting_ms = 3600 * 1000;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < HALF - 1; i++)
        fds[i] = dial_from(1, f.listener.port);
    for (int i = 0; i < 400 && f.listener.silent.count < HALF - 1; i++)
        assert_int_equal(run_until(1, 50), 0);
    assert_int_equal(run_until(1, 100), 0);
    assert_int_equal(f.listener.silent.count, HALF - 1);
    fds[HALF - 1] = dial_from(1, f.listener.port);
    while (f.listener.silent.count >= HALF - 1)
        assert_int_equal(run_until(1, 50), 0);
    assert_true(is_gone(fds[0]));
    for (int i = 0; i < HALF; i++)
        close(fds[i]);
}

static void the_oldest_silent_one_makes_room(void **state)
{
    enum { MANY = MT_SILENT_MAX + 40 };
    int fds[MANY];
    (void)state;
    f.listener.greeting_ms = f.listener.greeting_short_ms = 3600 * 1000;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < MANY; i++)
        fds[i] = dial_from(1, f.listener.port);
    int greeted = dial_tcp(f.listener.port);
    assert_int_equal(run_until(1, 5000), 1); /* behind all of them */
    assert_int_equal(f.listener.silent.count, MT_SILENT_MAX);
    assert_int_equal(f.listener.silent.dropped, MANY - MT_SILENT_MAX);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(is_gone(fds[i]), i < MANY - MT_SILENT_MAX);
    say(fds[MANY - 1], "late");
    assert_int_equal(run_until(2, 5000), 2);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(greeted);
}

static void a_flood_of_one_address_keeps_no_other_out(void **state)
{
    enum { MANY = MT_BOUND_BURST + 50 };
    int fds[MANY];
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < MANY; i++)
        fds[i] = dial_from(2, f.listener.port);
    int own = dial_tcp(f.listener.port), other = dial_from(3, f.listener.port);
    say(other, "hello");
    assert_int_equal(run_until(2, 5000), 2);
    assert_true(f.listener.count.refused_bound > 0);
    assert_true(is_gone(fds[MANY - 1]));
    int greeted = dial_from(2, f.listener.port); /* behind that address, but it says something */
    say(greeted, "hello");
    assert_int_equal(run_until(3, 5000), 3);

    uint64_t refused = f.listener.count.refused_bound;
    io_listener_know(&f.listener, &f.last.from); /* it has shown the token */
    for (int i = 0; i < MANY; i++) {
        close(fds[i]);
        fds[i] = dial_from(2, f.listener.port);
    }
    assert_int_equal(run_until(4, 200), 3);
    assert_int_equal(f.listener.count.refused_bound, refused);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close(own);
    close(other);
    close(greeted);
}

/* While accept is held up nobody is handed over, and who has spoken is not dropped for it. */
static void who_has_spoken_waits_for_the_cap(void **state)
{
    (void)state;
    f.listener.greeting_ms = 2000; /* a busy machine may need a while until it speaks */
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 1));
    int late = dial_from(1, f.listener.port);
    assert_int_equal(run_until(1, 20), 0);
    assert_int_equal(f.listener.silent.count, 1);
    int first = dial_tcp(f.listener.port);
    assert_int_equal(run_until(1, 5000), 1);
    say(late, "hello");
    f.listener.silent.long_ms = 1; /* which are over */
    assert_int_equal(run_until(2, 700), 1);
    assert_int_equal(f.listener.silent.count, 1);
    io_listener_release(&f.listener);
    assert_int_equal(run_until(2, 5000), 2);
    close(late);
    close(first);
}

/* Whoever holds accept up lets it go on: neither the owner's wish nor the cap makes the other end. */
static void each_reason_to_rest_stands_alone(void **state)
{
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 1));
    int first = dial_tcp(f.listener.port);
    assert_int_equal(run_until(1, 5000), 1);
    io_listener_pause(&f.listener);
    io_listener_release(&f.listener);
    int second = dial_tcp(f.listener.port);
    assert_int_equal(run_until(2, 100), 1); /* the owner wants it to rest */
    io_listener_resume(&f.listener);
    assert_int_equal(run_until(2, 5000), 2);
    io_listener_resume(&f.listener);
    int third = dial_tcp(f.listener.port);
    assert_int_equal(run_until(3, 100), 2); /* all connections are there */
    io_listener_release(&f.listener);
    assert_int_equal(run_until(3, 5000), 3);
    assert_string_not_equal(SAYS(f.listener.watch.ready(&f.listener.watch, IO_READABLE)), ""); /* it rests, and accepts */
    close(first);
    close(second);
    close(third);
}

/* Places of those that say nothing: each list is broken once. */
static void broken_lists_are_told(void **state)
{
    struct io_silent *s = &f.listener.silent;
    struct io_peer    early = {.since_ms = 1};
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    int one = dial_from(1, f.listener.port), two = dial_from(1, f.listener.port), greeted = dial_tcp(f.listener.port);
    assert_int_equal(run_until(1, 5000), 1);
    assert_int_equal(s->count, 2);
    assert_string_not_equal(SAYS(io_silent_add(s, one, &early)), ""); /* older than the newest */
    uint16_t unused = s->unused, newest = s->newest;
    s->unused = s->oldest;
    assert_string_not_equal(SAYS(io_silent_add(s, one, &f.last)), ""); /* that place is taken */
    s->unused = unused;
    s->newest = s->oldest;
    assert_string_not_equal(SAYS(io_silent_close(s)), ""); /* nothing leads to the second any more */
    s->newest = newest;
    assert_string_equal(SAYS(io_silent_close(s)), "");
    close(one);
    close(two);
    close(greeted);
}

static void unix_socket_is_private_and_tells_the_peer(void **state)
{
    char        dir[80], path[128], text[300];
    struct stat st;
    (void)state;
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/raylet.sock", dir);
    assert_ok(io_listener_open_unix(f.loop, &f.listener, path, 0));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int client = dial_unix(path);
    assert_int_equal(run_until(1, 5000), 1);
    assert_int_equal(f.last.pid, getpid());
    assert_int_equal(f.last.uid, geteuid());
    struct io_listener second = {.accepted = accepted};
    assert_code(io_listener_open_unix(f.loop, &second, path, 0), MT_EEXIST);
    close(client);
    io_listener_close(&f.listener);
    assert_int_equal(access(path, F_OK), -1);

    snprintf(text, sizeof text, "%s/%0200d", dir, 1);
    assert_code(io_listener_open_unix(f.loop, &f.listener, text, 0), MT_EINVAL);
    chmod(dir, 0750);
    assert_code(io_listener_open_unix(f.loop, &f.listener, path, 0), MT_EAUTH);
    rmdir(dir);
}

static void stale_unix_socket_is_replaced(void **state)
{
    char               dir[80], path[128];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)state;
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/raylet.sock", dir);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/raylet.sock", dir);
    int dead = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&at, sizeof at), 0);
    close(dead); /* as a killed daemon leaves it */
    assert_ok(io_listener_open_unix(f.loop, &f.listener, path, 0));
    int client = dial_unix(path);
    assert_int_equal(run_until(1, 5000), 1);
    close(client);
    io_listener_close(&f.listener);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_loopback_is_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(the_cap_holds_until_a_connection_is_released, setup, teardown),
        cmocka_unit_test_setup_teardown(no_descriptor_left_refuses_and_recovers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fifth_of_the_descriptors_is_kept_back, setup, teardown),
        cmocka_unit_test_setup_teardown(who_says_nothing_is_not_heard_of, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_ones_have_their_time, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_ones_are_not_blamed_for_a_loop_that_stood_still, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_ones_have_less_where_places_are_short, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_silent_one_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_of_one_address_keeps_no_other_out, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_spoken_waits_for_the_cap, setup, teardown),
        cmocka_unit_test_setup_teardown(each_reason_to_rest_stands_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_lists_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(unix_socket_is_private_and_tells_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_unix_socket_is_replaced, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * listener_test.c - who is let in, who is refused, and that accepting goes on when descriptors ran out.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct fixture {
    struct io_loop *loop;
    struct io_listener listener;
    struct io_timer guard;
    int fds[64];
    int count, wanted;
    struct io_peer last;
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

static void guard_fired(struct io_timer *timer)
{
    (void)timer;
    io_loop_stop(f.loop);
}

/* Runs until `wanted` connections were accepted in all, or the time is up; says how many there are. */
static int run_until(int wanted, uint64_t limit_ms)
{
    f.wanted = wanted;
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

static int dial_tcp(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
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
    int next = open("/dev/null", O_RDONLY);
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
    char byte;
    (void)state;
    assert_ok(io_listener_open_tcp(f.loop, &f.listener, "127.0.0.1", 0, 0));
    for (int i = 0; i < 20; i++)
        clients[i] = dial_tcp(f.listener.port);
    struct rlimit old = leave_descriptors(8);
    int before = run_until(20, 200);
    assert_int_equal(before, 8);
    assert_true(f.listener.count.refused_fds > 0);
    assert_int_equal(read(clients[19], &byte, 1), 0); /* the last ones were told at once */

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

static void unix_socket_is_private_and_tells_the_peer(void **state)
{
    char dir[80], path[128], text[300];
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
    char dir[80], path[128];
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
        cmocka_unit_test_setup_teardown(unix_socket_is_private_and_tells_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_unix_socket_is_replaced, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

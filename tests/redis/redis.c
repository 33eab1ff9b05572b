/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h. The proxy has one thread, and serves one connection at a time, as a head has one.
 */
#include "tests/redis/redis.h"
#include "tests/port.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGS = 48, PATIENCE_MS = 60000, PIECE = 1 << 20 };

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static int dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int                fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- the server ---- */

int redis_port(void)
{
    int port = port_of(port_hold());
    assert_true(port > 0);
    return port;
}

static void child(const struct redis_server *r, const char *const *more)
{
    char        port[16];
    const char *argv[ARGS] = {"redis-server", "--port",        port,     "--bind",    "127.0.0.1", "--unixsocket",
                              r->socket,      "--dir",         r->dir,   "--save",    "",          "--appendonly",
                              "yes",          "--appendfsync", "always", "--logfile", "redis.log", "--unixsocketperm",
                              "700"};
    int         count = 19;
    snprintf(port, sizeof port, "%d", r->port);
    for (; more && *more && count < ARGS - 1; more++)
        argv[count++] = *more;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp("redis-server", (char *const *)(const void *)argv);
    fprintf(stderr, "redis-server is not installed: scripts/install_deps.sh\n");
    _exit(127);
}

void redis_server_start(struct redis_server *r, const char *const *more)
{
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0)
        child(r, more);
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        int fd = dial(r->socket);
        if (fd >= 0) {
            close(fd);
            return;
        }
        assert_int_equal(waitpid(r->pid, NULL, WNOHANG), 0);
        nap(10);
    }
    fail_msg("redis-server does not start in %s", r->dir);
}

/* A child that removes the folder once this process has closed its end of the pipe, or is dead: memory that a killed test left in
 * /dev/shm would stay until the machine's next start. */
static void keeper_start(struct redis_server *r)
{
    int end[2];
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    r->keeper = fork();
    assert_true(r->keeper >= 0);
    if (r->keeper == 0) {
        dup2(end[0], STDIN_FILENO);
        close_range(STDERR_FILENO + 1, ~0u, 0); /* what the test has open ends with it */
        setsid();                               /* a signal to the test's group is not for it */
        execl("/bin/sh", "sh", "-c", "trap '' HUP; read -r nothing; exec rm -rf \"$0\"", r->dir, (char *)NULL);
        _exit(127);
    }
    close(end[0]);
    r->keeper_fd = end[1];
}

void redis_server_new(struct redis_server *r, const char *const *more)
{
    struct redis_server wanted = {.port = r->port, .is_on_disk = r->is_on_disk};
    *r = wanted;
    snprintf(r->dir, sizeof r->dir, "%s/manta-redis-XXXXXX", !r->is_on_disk && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(r->dir));
    keeper_start(r);
    snprintf(r->socket, sizeof r->socket, "%s/redis.sock", r->dir);
    snprintf(r->url, sizeof r->url, "redis+unix://%s?cluster=test", r->socket);
    redis_server_start(r, more);
}

void redis_server_kill(struct redis_server *r, int number)
{
    if (r->pid <= 0)
        return;
    kill(r->pid, number);
    assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
    r->pid = 0;
    unlink(r->socket);
}

void redis_server_free(struct redis_server *r)
{
    redis_server_kill(r, SIGKILL);
    close(r->keeper_fd);
    waitpid(r->keeper, NULL, 0);
}

void redis_say(const struct redis_server *r, char *out, size_t size, const char *const *words)
{
    char   bytes[4096];
    int    n = 0, count = 0, fd = dial(r->socket);
    size_t got = 0;
    assert_true(fd >= 0);
    while (words[count])
        count++;
    n = snprintf(bytes, sizeof bytes, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        n += snprintf(bytes + n, sizeof bytes - (size_t)n, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    struct pollfd p = {fd, POLLIN, 0};
    while (got < size - 1 && poll(&p, 1, got ? 50 : PATIENCE_MS) > 0) {
        ssize_t more = read(fd, out + got, size - 1 - got);
        if (more <= 0)
            break;
        got += (size_t)more;
        if (strchr("+-:", out[0]) && out[got - 1] == '\n')
            break; /* a reply of one line is over; others are, when nothing more comes for a while */
    }
    out[got] = '\0';
    close(fd);
}

void redis_keys_copy(const struct redis_server *r, const char *from, const char *to)
{
    static const char *const names[] = {"head", "records", "past"};
    for (size_t i = 0; i < 3; i++) {
        char a[64], b[64];
        snprintf(a, sizeof a, "%s:%s", from, names[i]);
        snprintf(b, sizeof b, "%s:%s", to, names[i]);
        REDIS_DO(r, "DEL", b);
        REDIS_DO(r, "COPY", a, b);
    }
}

/* ---- the proxy ---- */

/* One piece from the client; false: the connection is to be closed. */
static bool take_request(struct redis_proxy *p, int client, int server, char *bytes, int *armed)
{
    ssize_t n = read(client, bytes, PIECE);
    if (n <= 0)
        return false;
    bool is_script = memmem(bytes, (size_t)n, "EVALSHA", 7) != NULL;
    *armed = REDIS_PASS;
    p->scripts += is_script;
    if (is_script && p->count > 0) {
        p->count--;
        *armed = p->fault;
    }
    if (*armed == REDIS_LOSE_CALL)
        return false;
    if (*armed == REDIS_SAY)
        return write(client, p->said, strlen(p->said)) > 0;
    return write(server, bytes, (size_t)n) == n;
}

static bool take_reply(int client, int server, char *bytes, int armed)
{
    ssize_t n = read(server, bytes, PIECE);
    if (n <= 0 || armed == REDIS_LOSE_REPLY)
        return false;
    if (armed == REDIS_STALL)
        return true;
    if (armed == REDIS_HALF_REPLY) {
        (void)!write(client, bytes, (size_t)n / 2);
        return false;
    }
    return write(client, bytes, (size_t)n) == n;
}

static void serve(struct redis_proxy *p, int client)
{
    static char bytes[PIECE];
    int         server = dial(p->server->socket), armed = REDIS_PASS;
    bool        goes_on = server >= 0;
    while (goes_on && !p->is_over) {
        struct pollfd fds[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        if (poll(fds, 2, 20) <= 0)
            continue;
        if (fds[0].revents)
            goes_on = take_request(p, client, server, bytes, &armed);
        else if (fds[1].revents)
            goes_on = take_reply(client, server, bytes, armed);
    }
    if (server >= 0)
        close(server);
    close(client);
}

static void *run(void *argument)
{
    struct redis_proxy *p = argument;
    while (!p->is_over) {
        struct pollfd wait = {p->fd, POLLIN, 0};
        int           client = poll(&wait, 1, 20) > 0 ? accept4(p->fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (client >= 0)
            serve(p, client);
    }
    return NULL;
}

void redis_proxy_new(struct redis_proxy *p, struct redis_server *server)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memset(p, 0, sizeof *p);
    signal(SIGPIPE, SIG_IGN);
    p->server = server;
    snprintf(p->socket, sizeof p->socket, "%s/proxy.sock", server->dir);
    snprintf(p->url, sizeof p->url, "redis+unix://%s?cluster=test", p->socket);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", p->socket);
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->fd, (const struct sockaddr *)(const void *)&a, sizeof a), 0);
    assert_int_equal(listen(p->fd, 8), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
}

void redis_proxy_fail(struct redis_proxy *p, enum redis_fault fault, int count, const char *said)
{
    p->said = said;
    p->fault = (int)fault;
    p->count = count;
}

void redis_proxy_free(struct redis_proxy *p)
{
    p->is_over = true;
    pthread_join(p->thread, NULL);
    close(p->fd);
    unlink(p->socket);
}

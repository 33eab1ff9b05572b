/* SPDX-License-Identifier: Apache-2.0
 *
 * tls_test.c - TLS between daemons: whose certificates are taken, which files are refused, and that a peer which misbehaves
 * costs its own connection only.
 */
#include "tests/unit/io/io_test.h"

#include "core/io/tls/gate.h"
#include "core/io/io.h"
#include "core/io/tls/join.h"
#include "core/io/private.h"
#include "core/io/tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WAIT_MS = 20000 };

static char           dir[80];
static struct io_tls *head, *node, *rogue, *other;

static const char *path_of(const char *cluster, const char *file)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s/%s", dir, cluster, file);
    return path;
}

/* The certificates of a cluster in a folder of its own. */
static void make(const char *folder, const char *cluster)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, folder);
    assert_ok(io_tls_make(path, cluster));
}

static int setup(void **state)
{
    (void)state;
    temp_dir(dir, sizeof dir);
    make("ours", "c1");
    make("rogue", "c1"); /* another authority that says the same names */
    make("other", "c2");
    assert_ok(io_tls_load(path_of("ours", "head.pem"), &head));
    assert_ok(io_tls_load(path_of("ours", "node.pem"), &node));
    assert_ok(io_tls_load(path_of("rogue", "node.pem"), &rogue));
    assert_ok(io_tls_load(path_of("other", "node.pem"), &other));
    return 0;
}

static int teardown(void **state)
{
    static const char *const folders[] = {"ours", "rogue", "other", "made"}, *const files[] = {"ca.pem", "head.pem", "node.pem"};
    (void)state;
    io_tls_free(head);
    io_tls_free(node);
    io_tls_free(rogue);
    io_tls_free(other);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++)
            unlink(path_of(folders[i], files[k]));
        rmdir(path_of(folders[i], ""));
    }
    return rmdir(dir);
}

/* ---- both ends in one thread ---- */

struct pair {
    int              fds[2];
    struct tls_conn *a, *b; /* a has accepted, b has dialled */
};

static void pair_open(struct pair *p, const struct io_tls *server, const struct io_tls *client, enum io_tls_role wanted)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_ok(io_tls_accept(server, p->fds[0], &p->a));
    assert_ok(io_tls_dial(client, p->fds[1], wanted, &p->b));
}

static void pair_close(struct pair *p)
{
    tls_end(p->b);
    tls_end(p->a);
    close(p->fds[0]);
    close(p->fds[1]);
}

/* Until both sides are up, or one has failed; what each one's last call said. */
static bool handshake(struct pair *p)
{
    char byte;
    for (int i = 0; i < 10; i++) {
        ssize_t b = tls_recv(p->b, &byte, 1);
        bool    b_failed = b < 0 && errno == EPROTO;
        ssize_t a = tls_recv(p->a, &byte, 1);
        bool    a_failed = a < 0 && errno == EPROTO;
        if (a_failed || b_failed) {
            assert_false(tls_is_up(a_failed ? p->a : p->b) && !a_failed);
            return false;
        }
    }
    return tls_is_up(p->a) && tls_is_up(p->b);
}

static bool is_taken(const struct io_tls *server, const struct io_tls *client, enum io_tls_role wanted)
{
    struct pair p;
    pair_open(&p, server, client, wanted);
    bool is_up = handshake(&p);
    pair_close(&p);
    return is_up;
}

static void only_the_right_peer_is_taken(void **state)
{
    (void)state;
    assert_true(is_taken(head, node, IO_TLS_HEAD));
    assert_true(is_taken(node, node, IO_TLS_NODE));
    assert_false(is_taken(node, node, IO_TLS_HEAD)); /* a node that says it is the head */
    assert_false(is_taken(head, node, IO_TLS_NODE));
    assert_false(is_taken(head, head, IO_TLS_HEAD)); /* only nodes dial */
    assert_false(is_taken(head, rogue, IO_TLS_HEAD));
    assert_false(is_taken(rogue, node, IO_TLS_NODE));
    assert_false(is_taken(head, other, IO_TLS_HEAD));
}

static void bytes_arrive_as_sent(void **state)
{
    enum { SIZE = 3 * 1024 * 1024 + 5 };
    struct pair p;
    uint8_t    *data = malloc(SIZE), *got = malloc(SIZE);
    size_t      sent = 0, received = 0;
    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    pair_open(&p, head, node, IO_TLS_HEAD);
    assert_true(handshake(&p));
    while (received < SIZE) {
        ssize_t n = sent < SIZE ? tls_send(p.b, data + sent, SIZE - sent) : 0;
        assert_true(n >= 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        n = tls_recv(p.a, got + received, SIZE - received);
        assert_true(n > 0 || errno == EAGAIN);
        received += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(data, got, SIZE);
    tls_end(p.b);
    p.b = NULL;
    assert_int_equal(tls_recv(p.a, got, 1), 0); /* its goodbye */
    pair_close(&p);
    free(data);
    free(got);
}

static void a_connection_that_is_cut_is_no_goodbye(void **state)
{
    struct pair p;
    char        byte;
    (void)state;
    pair_open(&p, head, node, IO_TLS_HEAD);
    assert_true(handshake(&p));
    shutdown(p.fds[1], SHUT_RDWR);
    assert_int_equal(tls_recv(p.a, &byte, 1), -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(tls_recv(p.a, &byte, 1), -1); /* and stays so */
    assert_int_equal(errno, EPROTO);
    pair_close(&p);
}

/* ---- files ---- */

static void files_that_others_can_read_are_refused(void **state)
{
    struct io_tls *tls = NULL;
    struct stat    st;
    (void)state;
    assert_int_equal(stat(path_of("ours", "ca.pem"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(path_of("ours", "node.pem"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    chmod(path_of("ours", "node.pem"), 0640);
    assert_code(io_tls_load(path_of("ours", "node.pem"), &tls), MT_EAUTH);
    chmod(path_of("ours", "node.pem"), 0600);
    assert_ok(io_tls_load(path_of("ours", "node.pem"), &tls));
    io_tls_free(tls);
    assert_code(io_tls_load(path_of("ours", "none.pem"), &tls), MT_ENOENT);
    chmod(path_of("ours", ""), 0755);
    char folder[160];
    snprintf(folder, sizeof folder, "%s/ours", dir);
    assert_code(io_tls_make(folder, "c1"), MT_EAUTH);
}

static void read_text(const char *path, mt_buf *out)
{
    assert_ok(io_private_read(path, MT_TLS_FILE_BYTES_MAX, out));
}

static void damaged_files_are_refused(void **state)
{
    static const int32_t codes[] = {MT_ECORRUPT, MT_EAUTH};
    struct io_tls       *tls = NULL;
    mt_buf               good = {0}, half = {0};
    char                 path[160];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("ours", "node.pem"));
    read_text(path, &good);
    for (size_t size = 0; size < good.size - 30; size += 61) { /* cut short anywhere */
        assert_ok(io_private_write(path, mt_view_of(good.data, size), true));
        mt_status st = io_tls_load(path, &tls);
        assert_true(st.code == codes[0] || st.code == codes[1]);
    }
    read_text(path_of("rogue", "ca.pem"), &half);
    const char *key = strstr((const char *)good.data, "-----BEGIN PRIVATE");
    assert_ok(mt_buf_append(&half, key, strlen(key))); /* the key of another certificate */
    assert_ok(io_private_write(path, mt_buf_view(&half), true));
    mt_status st = io_tls_load(path, &tls);
    assert_true(st.code == codes[0] || st.code == codes[1]);
    char *big = calloc(1, MT_TLS_FILE_BYTES_MAX + 1);
    assert_ok(io_private_write(path, mt_view_of(big, MT_TLS_FILE_BYTES_MAX + 1), true));
    assert_code(io_tls_load(path, &tls), MT_ECORRUPT);
    free(big);
    assert_ok(io_private_write(path, mt_buf_view(&good), true));
    io_private_wipe(&good);
    io_private_wipe(&half);
}

/* A certificate of the cluster's own authority that is over: made by the tool openssl where that is there. */
static void expired_certificates_are_refused(void **state)
{
    struct io_tls *tls = NULL;
    char           command[1024];
    const char    *argv[] = {"sh", "-c", command, NULL};
    (void)state;
    snprintf(command, sizeof command,
             "cd %s/ours && umask 077 && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -subj "
             "/CN=n -out r.pem 2>/dev/null && printf subjectAltName=DNS:node.c1.manta > e.txt && openssl x509 -req -in r.pem -CA "
             "ca.pem -CAkey ca.pem -CAcreateserial -extfile e.txt -days -1 -out c.pem 2>/dev/null && cat c.pem k.pem ca.pem > "
             "node.pem; r=$?; rm -f k.pem r.pem e.txt c.pem ca.srl; exit $r",
             dir);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        skip(); /* no tool */
    assert_code(io_tls_load(path_of("ours", "node.pem"), &tls), MT_EAUTH);
}

static void what_is_there_is_kept(void **state)
{
    char   folder[160];
    mt_buf before = {0}, after = {0};
    (void)state;
    snprintf(folder, sizeof folder, "%s/ours", dir);
    read_text(path_of("ours", "head.pem"), &before);
    unlink(path_of("ours", "node.pem"));
    assert_ok(io_tls_make(folder, "c1"));
    read_text(path_of("ours", "head.pem"), &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    io_private_wipe(&before);
    io_private_wipe(&after);
    struct io_tls *again = NULL;
    assert_ok(io_tls_load(path_of("ours", "node.pem"), &again));
    assert_true(is_taken(head, again, IO_TLS_HEAD));
    io_tls_free(again);
    unlink(path_of("ours", "node.pem"));
    unlink(path_of("ours", "ca.pem"));
    assert_code(io_tls_make(folder, "c1"), MT_ENOENT); /* another authority would not fit head.pem */
    assert_code(io_tls_make(folder, "a b"), MT_EINVAL);
    assert_code(io_tls_make(folder, ""), MT_EINVAL);
}

/* ---- the gate ---- */

struct gate_case {
    struct io_gate *gate;
    int             peer, plain; /* the peer's end; what gRPC would get */
};

static void gate_open(struct gate_case *g)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_ok(io_gate_new(head, &g->gate));
    assert_ok(io_gate_take(g->gate, fds[0], &g->plain, NULL));
    g->peer = fds[1];
}

static void gate_close(struct gate_case *g)
{
    io_gate_free(g->gate);
    close(g->peer);
    close(g->plain);
}

/* Waits until `fd` is in that state. */
static void await(int fd, short events)
{
    struct pollfd p = {fd, events, 0};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

/* The peer's side of a handshake, and `size` bytes to it. */
static struct tls_conn *gate_dial(struct gate_case *g, const void *hello, size_t size)
{
    struct tls_conn *conn;
    assert_ok(io_tls_dial(node, g->peer, IO_TLS_HEAD, &conn));
    while (tls_send(conn, hello, size) < 0) {
        assert_int_equal(errno, EAGAIN);
        await(g->peer, io_tls_wants(conn) == IO_WRITABLE ? POLLOUT : POLLIN);
    }
    return conn;
}

static void read_exactly(int fd, char *out, size_t size)
{
    for (size_t got = 0; got < size;) {
        await(fd, POLLIN);
        ssize_t n = read(fd, out + got, size - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
}

static void assert_ends(int fd)
{
    char    byte[256];
    ssize_t n;
    do {
        await(fd, POLLIN);
        n = read(fd, byte, sizeof byte);
    } while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
}

static void gate_passes_both_ways(void **state)
{
    struct gate_case g;
    char             text[8] = {0};
    ssize_t          n;
    (void)state;
    gate_open(&g);
    struct tls_conn *conn = gate_dial(&g, "ping", 4);
    read_exactly(g.plain, text, 4);
    assert_string_equal(text, "ping");
    assert_int_equal(write(g.plain, "pong", 4), 4);
    while ((n = tls_recv(conn, text, 4)) < 0) {
        assert_int_equal(errno, EAGAIN);
        await(g.peer, POLLIN);
    }
    assert_int_equal(n, 4);
    assert_string_equal(text, "pong");
    assert_int_equal(write(g.plain, "last", 4), 4);
    shutdown(g.plain, SHUT_RDWR); /* what was sent last still comes, then the end */
    while ((n = tls_recv(conn, text, 4)) < 0) {
        assert_int_equal(errno, EAGAIN);
        await(g.peer, POLLIN);
    }
    assert_int_equal(n, 4);
    while ((n = tls_recv(conn, text, 4)) < 0) {
        assert_int_equal(errno, EAGAIN);
        await(g.peer, POLLIN);
    }
    assert_int_equal(n, 0);
    assert_int_equal(io_gate_refused(g.gate), 0);
    tls_end(conn);
    gate_close(&g);
}

/* A server that ends says goodbye to its clients first. */
static void gate_sends_what_is_left(void **state)
{
    enum { SIZE = 100 * 1024 };
    struct gate_case g;
    char            *data = calloc(1, SIZE), text[8] = {0};
    size_t           got = 0;
    (void)state;
    gate_open(&g);
    struct tls_conn *conn = gate_dial(&g, "ping", 4);
    read_exactly(g.plain, text, 4);
    assert_int_equal(write(g.plain, data, SIZE), SIZE);
    io_gate_free(g.gate);
    for (ssize_t n; (n = tls_recv(conn, data, SIZE)) != 0;) {
        if (n > 0)
            got += (size_t)n;
        else
            await(g.peer, POLLIN);
    }
    assert_int_equal(got, SIZE);
    tls_end(conn);
    close(g.peer);
    close(g.plain);
    free(data);
}

/* What another machine joins with: as written, or refused with the line that is wrong. */
static void join_files(void **state)
{
    struct io_join           join = {.address = "10.0.0.1:6380", .certificates = mt_view_text("-----BEGIN X-----\n")}, again;
    static const char *const wrong[] = {"",
                                        "manta-join 1",
                                        "manta-join 1\n",
                                        "hello\n",
                                        "manta-join 1\naddress=\n",
                                        "manta-join 1\naddress=nowhere\n",
                                        "manta-join 1\naddress=a b:1\n",
                                        "manta-join 1\naddress=a:1\ntoken=12\n"};
    mt_buf                   text = {0};
    (void)state;
    memset(join.token.hex, 'a', IO_TOKEN_HEX);
    assert_ok(io_join_write(&join, &text));
    assert_ok(io_join_read(mt_buf_view(&text), &again));
    assert_string_equal(again.address, join.address);
    assert_true(io_token_equal(&again.token, join.token.hex, IO_TOKEN_HEX));
    assert_true(mt_view_equal(again.certificates, join.certificates));
    for (size_t size = 0; size + 10 < text.size; size++)
        assert_true(io_join_read(mt_view_of(text.data, size), &again).code != MT_OK || size > text.size - 8);
    text.data[11] = '3';
    assert_code(io_join_read(mt_buf_view(&text), &again), MT_EVERSION);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_code(io_join_read(mt_view_text(wrong[i]), &again), MT_EPROTO);
    mt_buf_fini(&text);
}

static void gate_ends_with_its_peer(void **state)
{
    struct gate_case g;
    char             text[8] = {0};
    (void)state;
    gate_open(&g);
    struct tls_conn *conn = gate_dial(&g, "ping", 4);
    read_exactly(g.plain, text, 4);
    tls_end(conn);
    shutdown(g.peer, SHUT_RDWR);
    assert_ends(g.plain);
    gate_close(&g);
}

static void gate_refuses_garbage(void **state)
{
    static const char *const openings[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff\x01",
                                           "\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        struct gate_case g;
        size_t           size = i == 2 ? 6 : i == 3 ? 10 : strlen(openings[i]);
        gate_open(&g);
        assert_int_equal(write(g.peer, openings[i], size), size);
        shutdown(g.peer, SHUT_WR);
        assert_ends(g.plain);
        assert_int_equal(io_gate_refused(g.gate), 1);
        gate_close(&g);
    }
}

/* A right handshake, cut after any number of its bytes. */
static void gate_survives_handshakes_cut_short(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 1200; cut += 83) {
        struct gate_case g;
        struct tls_conn *conn;
        int              wire[2];
        char             bytes[4096];
        gate_open(&g);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, wire), 0);
        assert_ok(io_tls_dial(node, wire[0], IO_TLS_HEAD, &conn));
        for (size_t passed = 0; passed < cut;) { /* a wire that we hold between both */
            if (tls_recv(conn, bytes, 1) < 0 && errno != EAGAIN)
                break;
            ssize_t n = read(wire[1], bytes, cut - passed < sizeof bytes ? cut - passed : sizeof bytes);
            if (n > 0) {
                assert_int_equal(write(g.peer, bytes, (size_t)n), n);
                passed += (size_t)n;
                continue;
            }
            if (tls_is_up(conn))
                break;
            await(g.peer, POLLIN);
            n = read(g.peer, bytes, sizeof bytes);
            assert_true(n > 0);
            assert_int_equal(write(wire[1], bytes, (size_t)n), n);
        }
        shutdown(g.peer, SHUT_RDWR);
        assert_ends(g.plain);
        tls_end(conn);
        close(wire[0]);
        close(wire[1]);
        gate_close(&g);
    }
}

/* A silent peer lives until its plain end is shut down: its owner's limits hold (core/rpc/conn.c). */
static void gate_lets_go_of_a_silent_peer(void **state)
{
    struct gate_case g;
    char             byte;
    (void)state;
    gate_open(&g);
    shutdown(g.plain, SHUT_RDWR);
    await(g.peer, POLLIN);
    assert_int_equal(read(g.peer, &byte, 1), 0);
    gate_close(&g);
}

/* One that reads nothing holds up its own connection, in bounded memory, and ends with it. */
static void gate_lets_go_of_a_peer_that_does_not_read(void **state)
{
    struct gate_case g;
    char             text[8] = {0}, *piece = calloc(1, 65536);
    size_t           sent = 0;
    ssize_t          n;
    (void)state;
    gate_open(&g);
    struct tls_conn *conn = gate_dial(&g, "ping", 4);
    read_exactly(g.plain, text, 4);
    struct pollfd p = {g.plain, POLLOUT, 0};
    while (poll(&p, 1, 300) == 1 && (n = write(g.plain, piece, 65536)) > 0)
        sent += (size_t)n;
    assert_true(sent > 0 && sent < 16 * 1024 * 1024); /* the kernel's buffers and one piece */
    shutdown(g.plain, SHUT_RDWR);
    while ((n = read(g.peer, piece, 65536)) > 0 || (n < 0 && errno == EAGAIN))
        await(g.peer, POLLIN);
    tls_end(conn);
    gate_close(&g);
    free(piece);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(only_the_right_peer_is_taken),
        CASE(bytes_arrive_as_sent),
        CASE(a_connection_that_is_cut_is_no_goodbye),
        CASE(files_that_others_can_read_are_refused),
        CASE(damaged_files_are_refused),
        CASE(expired_certificates_are_refused),
        CASE(what_is_there_is_kept),
        CASE(gate_passes_both_ways),
        CASE(gate_sends_what_is_left),
        CASE(join_files),
        CASE(gate_ends_with_its_peer),
        CASE(gate_refuses_garbage),
        CASE(gate_survives_handshakes_cut_short),
        CASE(gate_lets_go_of_a_silent_peer),
        CASE(gate_lets_go_of_a_peer_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

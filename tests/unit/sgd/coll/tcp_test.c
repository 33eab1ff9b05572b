/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_test.c - collective calls among real processes over TCP: every call, members that disagree, die or stop; strangers
 * at the door.
 */
#include "sgd/coll/tcp/tcp.h"
#include "tests/unit/base/says.h"
#include "tests/unit/sgd/coll/check.h"

#include "core/base/rng.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS_MAX = 16, JOIN_MS = 20000 };
static const unsigned char secret[COLL_SECRET_BYTES] = "a secret of thirty-two bytes....";

/* Where members tell each other their ports. */
struct meeting {
    struct coll_at at[MEMBERS_MAX];
    _Atomic int    there, joined, gone;
    uint32_t       members, wait_ms; /* the latter: of what they do when all have joined */
    pid_t          pids[MEMBERS_MAX];
};

static bool     has_tls;    /* of the tests that follow */
static uint32_t direct_max; /* 1: few connections, however many members */

typedef int (*life_fn)(struct meeting *meeting, struct coll_tcp *g, uint32_t rank);

static struct coll_tcp_config config_of(const struct meeting *meeting, uint32_t rank)
{
    return (struct coll_tcp_config){.group = 7,
                                    .generation = 3,
                                    .rank = rank,
                                    .members = meeting->members,
                                    .wait_limit_ms = JOIN_MS,
                                    .name = "test",
                                    .secret = secret,
                                    .direct_max = direct_max,
                                    .at.is_far = has_tls};
}

static void hire(struct meeting *meeting, uint32_t rank, life_fn life)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        meeting->pids[rank] = pid;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static struct coll_tcp g;
    struct coll_tcp_config config = config_of(meeting, rank);
    if (coll_tcp_open(&g, &config, &meeting->at[rank]).code)
        _exit(90);
    for (meeting->there++; meeting->there < (int)meeting->members;)
        pause_us(200);
    if (coll_tcp_join(&g, meeting->at).code) {
        fprintf(stderr, "%s\n", g.text);
        _exit(91);
    }
    for (meeting->joined++; meeting->wait_ms != JOIN_MS && meeting->joined < (int)meeting->members;)
        pause_us(200);
    g.config.wait_limit_ms = meeting->wait_ms;
    int result = life(meeting, &g, rank);
    coll_tcp_fini(&g);
    meeting->gone++;
    _exit(result);
}

static struct meeting *meeting_new(uint32_t members, uint32_t wait_ms)
{
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting != MAP_FAILED);
    meeting->members = members;
    meeting->wait_ms = wait_ms;
    return meeting;
}

static int end_of(struct meeting *meeting, uint32_t rank)
{
    int status;
    assert_int_equal(waitpid(meeting->pids[rank], &status, 0), meeting->pids[rank]);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void run_all(uint32_t members, life_fn life)
{
    struct meeting *meeting = meeting_new(members, JOIN_MS);
    for (uint32_t rank = 0; rank < members; rank++)
        hire(meeting, rank, life);
    for (uint32_t rank = 0; rank < members; rank++)
        assert_int_equal(end_of(meeting, rank), 0);
    munmap(meeting, sizeof *meeting);
}

static mt_status run_tcp(void *g, const struct coll_call *call)
{
    return coll_tcp_run(g, call);
}

static mt_status exchange_tcp(void *g, const struct coll_message *send, const struct coll_message *receive)
{
    return coll_tcp_exchange(g, send, receive);
}

static int life_every_call(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    struct coll_tested tested = {g, run_tcp, exchange_tcp, rank, meeting->members, g->text};
    /* In place, more than connections hold: what is written is what was to be sent. */
    for (uint32_t round = 0; round < 3; round++)
        if (coll_check_call(&tested, COLL_REDUCE_SCATTER, COLL_F32, COLL_SUM, 1000000, round, true))
            return 3;
    return coll_check_every_call(&tested);
}

static void every_call(void **state)
{
    (void)state;
    uint32_t most = has_tls ? 3 : 4; /* what is below the socket does not know how many there are */
    for (uint32_t members = has_tls ? most : 1; members <= most; members++)
        run_all(members, life_every_call);
}

static int life_messages(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    struct coll_tested tested = {g, run_tcp, exchange_tcp, rank, meeting->members, g->text};
    return coll_check_messages(&tested, 50, 3000000);
}

static void messages(void **state)
{
    (void)state;
    run_all(2, life_messages);
    run_all(3, life_messages);
}

static int life_disagree(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    static float     x[100000];
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .count = rank == 2 ? 100000 : 10, .in = x, .out = x};
    (void)meeting;
    if (coll_tcp_run(g, &call).code != MT_EINVAL)
        return 1;
    return strstr(g->text, "rank 0 called all_reduce(10 float32, sum), rank 2 called all_reduce(100000") ? 0 : 2;
}

static void disagreement(void **state)
{
    (void)state;
    run_all(3, life_disagree);
}

/* Rank 2 gives up, rank 1 hears of it and leaves as well; rank 0 calls when both are gone, and learns why rank 2 did. */
static int life_late(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    struct coll_call barrier = {.kind = COLL_BARRIER};
    while (meeting->joined < 3)
        pause_us(200);
    if (rank == 2) {
        coll_tcp_give_up(g, MT_ECANCELLED);
        return 0;
    }
    while (rank == 1 ? coll_tcp_look(g).code == MT_OK : meeting->gone < 2)
        pause_us(200);
    return coll_tcp_run(g, &barrier).code == MT_ECANCELLED ? 0 : 1;
}

static void hears_of_it_late(void **state)
{
    (void)state;
    run_all(3, life_late);
}

static int life_work(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    static char in[1 << 21], out[1 << 21]; /* a part for each of nine */
    mt_rng      rng = {11};
    (void)rank;
    for (;;) {
        struct coll_call call = {.kind = (enum coll_kind)(COLL_BARRIER + mt_rng_below(&rng, COLL_KINDS - COLL_BARRIER)),
                                 .count = mt_rng_below(&rng, 50000),
                                 .in = in,
                                 .out = out};
        mt_status        st = coll_tcp_run(g, &call);
        if (st.code == MT_EWORKER_DIED)
            return strstr(g->text, "rank 1 died") ? 0 : 3;
        if (st.code != MT_OK)
            return st.code == MT_ETIMEDOUT ? 5 : 6;
        if (meeting->members == 0)
            return 7;
    }
}

static void killed_anywhere(void **state)
{
    (void)state;
    mt_rng      rng = {5};
    const char *rounds = getenv("COLL_ROUNDS");
    for (int round = 0; round < (rounds ? (int)strtol(rounds, NULL, 10) : 40); round++) {
        struct meeting *meeting = meeting_new(3, JOIN_MS);
        for (uint32_t rank = 0; rank < 3; rank++)
            hire(meeting, rank, life_work);
        while (meeting->joined < 3)
            pause_us(200);
        pause_us(mt_rng_below(&rng, 8000));
        kill(meeting->pids[1], SIGKILL);
        assert_int_equal(end_of(meeting, 1), 1000 + SIGKILL);
        assert_int_equal(end_of(meeting, 0), 0);
        assert_int_equal(end_of(meeting, 2), 0);
        munmap(meeting, sizeof *meeting);
    }
}

static void stopped(void **state)
{
    (void)state;
    struct meeting *meeting = meeting_new(3, 400);
    for (uint32_t rank = 0; rank < 3; rank++)
        hire(meeting, rank, life_work);
    while (meeting->joined < 3)
        pause_us(200);
    kill(meeting->pids[1], SIGSTOP);
    assert_int_equal(end_of(meeting, 0), 5);
    assert_int_equal(end_of(meeting, 2), 5);
    kill(meeting->pids[1], SIGCONT);
    assert_true(end_of(meeting, 1) != 0);
    munmap(meeting, sizeof *meeting);
}

/* ---- strangers ---- */
static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int                fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* What the door makes of these bytes: it must say nothing, and close. */
static void refused(struct coll_door *door, const void *bytes, size_t size, bool shut)
{
    int                fd = dial((uint16_t)door->mine.reserved);
    struct coll_socket got;
    uint32_t           rank, channel;
    char               answer;
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    if (shut)
        shutdown(fd, SHUT_WR);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(coll_door_accept(door, 20, &got, &rank, &channel).code, MT_OK);
        assert_int_equal(got.fd, -1);
    }
    if (shut || size >= sizeof(struct coll_hello))
        assert_true(recv(fd, &answer, 1, MSG_DONTWAIT) <= 0); /* closed, not a byte */
    else
        assert_true(recv(fd, &answer, 1, MSG_DONTWAIT) < 0); /* still waiting for the rest, not a byte */
    close(fd);
}

static void sizes_of_groups(void **state)
{
    (void)state;
    static struct coll_tcp g;
    struct meeting         meeting = {.members = MT_GROUP_MEMBERS_MAX};
    struct coll_at         at;
    const struct {
        uint32_t     members, rank;
        enum mt_code code;
    } cases[] = {{MT_GROUP_MEMBERS_MAX, MT_GROUP_MEMBERS_MAX - 1, MT_OK},
                 {MT_GROUP_MEMBERS_MAX, MT_GROUP_MEMBERS_MAX, MT_EINVAL},
                 {MT_GROUP_MEMBERS_MAX + 1, 0, MT_EINVAL},
                 {0, 0, MT_EINVAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        meeting.members = cases[i].members;
        struct coll_tcp_config config = config_of(&meeting, cases[i].rank);
        assert_int_equal(coll_tcp_open(&g, &config, &at).code, cases[i].code);
        coll_tcp_fini(&g);
    }
}

/* Nothing waits, crashes or is said to anybody where nothing was joined; the end of a generation that never was is our own bug. */
static void who_has_not_joined(void **state)
{
    (void)state;
    static struct coll_tcp g;
    struct coll_call       call = {.kind = COLL_BARRIER};
    coll_tcp_fini(&g);
    assert_int_equal(coll_tcp_run(&g, &call).code, MT_EINVAL);
    assert_int_equal(coll_tcp_look(&g).code, MT_EINVAL);
    assert_string_equal(SAYS(coll_tcp_give_up(&g, MT_ECANCELLED)), "member over TCP: CLOSED -> OVER is no transition");
}

static void strangers(void **state)
{
    (void)state;
    struct coll_door   door;
    struct coll_hello  good = {.group = 7, .generation = 3, .rank = 2}, bad;
    char               garbage[4096];
    int                fd = -1;
    struct coll_at     at = {.port = 0};
    struct coll_socket mine = {.fd = -1};
    uint32_t           rank, channel;
    memcpy(good.secret, secret, sizeof secret);
    memset(garbage, 'G', sizeof garbage);
    assert_int_equal(coll_door_open(&door, &at).code, MT_OK);
    coll_door_await(&door, &good, 0);
    door.mine.reserved = at.port; /* for refused() */
    good.magic = door.mine.magic;
    refused(&door, garbage, sizeof garbage, false);
    refused(&door, "GET / HTTP/1.0\r\n\r\n", 18, true);
    refused(&door, &good, sizeof good - 1, true); /* cut short */
    refused(&door, &good, 10, false);
    for (int i = 0; i < COLL_SECRET_BYTES; i += 31) {
        bad = good;
        bad.secret[i] ^= 1;
        refused(&door, &bad, sizeof bad, false);
    }
    bad = good, bad.generation = 2;
    refused(&door, &bad, sizeof bad, false);
    bad = good, bad.rank = 3;
    refused(&door, &bad, sizeof bad, false);
    bad = good, bad.channel = COLL_CHANNELS;
    refused(&door, &bad, sizeof bad, false);
    int silent[MT_COLL_STRANGERS_MAX + 5]; /* more than there is room for */
    for (int i = 0; i < MT_COLL_STRANGERS_MAX + 5; i++) {
        silent[i] = dial(at.port);
        assert_int_equal(coll_door_accept(&door, 20, &mine, &rank, &channel).code, MT_OK);
    }
    fd = dial(at.port); /* and one who knows, in two pieces */
    assert_int_equal(write(fd, &good, 20), 20);
    for (int i = 0; i < 5 && mine.fd < 0; i++) {
        if (i == 2)
            assert_int_equal(write(fd, (char *)&good + 20, sizeof good - 20), (ssize_t)sizeof good - 20);
        assert_int_equal(coll_door_accept(&door, 20, &mine, &rank, &channel).code, MT_OK);
    }
    assert_true(mine.fd >= 0 && rank == 2 && channel == 0);
    close(fd), coll_socket_close(&mine);
    for (int i = 0; i < MT_COLL_STRANGERS_MAX + 5; i++)
        close(silent[i]);
    coll_door_close(&door);
}

/* ---- the same over TLS ---- */

struct keyed {
    struct coll_door  door;
    struct coll_at    at;
    struct coll_hello good;
};

static void keyed_open(struct keyed *k)
{
    *k = (struct keyed){.at.is_far = 1, .good = {.group = 7, .generation = 3, .rank = 2}};
    memcpy(k->good.secret, secret, sizeof secret);
    assert_int_equal(coll_door_open(&k->door, &k->at).code, MT_OK);
    coll_door_await(&k->door, &k->good, 0);
}

struct dialler {
    struct coll_at     at;
    struct coll_hello  hello;
    uint32_t           to;
    mt_status          st;
    struct coll_socket socket;
    _Atomic bool       is_done;
};

static void *dial_keyed(void *user)
{
    struct dialler      *d = user;
    struct coll_patience patience = {.wait_ms = 5000, .each_ms = 20};
    d->st = coll_socket_dial(&d->at, d->to, &d->hello, &patience, &d->socket);
    d->is_done = true;
    return NULL;
}

/* What a member that says this hello to rank `to` is told; whoever comes in is given out. */
static mt_status keyed_dial(struct keyed *k, const struct coll_hello *hello, uint32_t to, struct coll_socket *in,
                            struct coll_socket *out)
{
    pthread_t      thread;
    uint32_t       rank, channel;
    struct dialler d = {.at = k->at, .hello = *hello, .to = to, .socket.fd = -1};
    *in = (struct coll_socket){.fd = -1};
    assert_int_equal(pthread_create(&thread, NULL, dial_keyed, &d), 0);
    for (int after = 0; after < 2 && in->fd < 0; after += d.is_done) /* somebody looks after the door as long as it stands there */
        assert_int_equal(coll_door_accept(&k->door, 20, in, &rank, &channel).code, MT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(in->fd < 0 || (rank == hello->rank && channel == hello->channel));
    *out = d.socket;
    return d.st;
}

/* Who has another secret, is of another group or generation, or was led to another member's door, is told EAUTH. */
static void keyed_strangers(void **state)
{
    (void)state;
    struct keyed       k;
    struct coll_hello  bad;
    struct coll_socket in, out;
    keyed_open(&k);
    for (int i = 0; i < COLL_SECRET_BYTES; i += 31) {
        bad = k.good;
        bad.secret[i] ^= 1;
        assert_int_equal(keyed_dial(&k, &bad, 0, &in, &out).code, MT_EAUTH);
        assert_int_equal(in.fd, -1);
    }
    bad = k.good, bad.generation = 2;
    assert_int_equal(keyed_dial(&k, &bad, 0, &in, &out).code, MT_EAUTH);
    bad = k.good, bad.group = 8;
    assert_int_equal(keyed_dial(&k, &bad, 0, &in, &out).code, MT_EAUTH);
    assert_int_equal(keyed_dial(&k, &k.good, 1, &in, &out).code, MT_EAUTH); /* it wants rank 1, this is rank 0's */
    assert_int_equal(in.fd, -1);
    bad = k.good, bad.rank = 3; /* with the key, and a rank that there is not */
    assert_int_equal(keyed_dial(&k, &bad, 0, &in, &out).code, MT_ECONN);
    assert_int_equal(in.fd, -1);
    coll_door_close(&k.door);
}

struct late {
    struct coll_door   door;
    struct coll_socket in;
};

/* Looks when the other one has said all, and its time is over: this member stood still meanwhile. */
static mt_status look_late(void *user)
{
    struct late      *l = user;
    struct coll_hello said;
    uint32_t          rank, channel;
    int               fd = l->door.strangers[0].socket.fd;
    if (l->in.fd >= 0 || (fd > 0 && recv(fd, &said, sizeof said, MSG_PEEK | MSG_DONTWAIT) != sizeof said))
        return mt_ok();
    l->door.strangers[0].until_ns = 1;
    return coll_door_accept(&l->door, 0, &l->in, &rank, &channel);
}

static void who_has_spoken_is_not_late(void **state)
{
    (void)state;
    struct late          l = {.in = {.fd = -1}};
    struct coll_at       at = {.is_far = 0};
    struct coll_hello    hello = {.group = 7, .generation = 1, .rank = 1};
    struct coll_socket   out;
    struct coll_patience patience = {.wait_ms = JOIN_MS, .each_ms = 1, .look = look_late, .user = &l};
    assert_int_equal(coll_door_open(&l.door, &at).code, MT_OK);
    coll_door_await(&l.door, &hello, 0);
    assert_int_equal(coll_socket_dial(&at, 0, &hello, &patience, &out).code, MT_OK);
    assert_true(l.in.fd >= 0);
    coll_socket_close(&out);
    coll_socket_close(&l.in);
    coll_door_close(&l.door);
}

/* In clear, garbage, and a hello with the right secret: none gets a byte but an alert of TLS. */
static void keyed_hears_nothing_in_clear(void **state)
{
    (void)state;
    struct keyed k;
    char         garbage[4096], answer[64];
    keyed_open(&k);
    memset(garbage, 'G', sizeof garbage);
    struct coll_hello good = k.good;
    good.magic = k.door.mine.magic;
    const struct {
        const void *bytes;
        size_t      size;
    } cases[] = {{garbage, sizeof garbage}, {&good, sizeof good}, {"GET / HTTP/1.0\r\n\r\n", 18}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int                fd = dial(k.at.port);
        struct coll_socket got;
        uint32_t           rank, channel;
        assert_int_equal(write(fd, cases[i].bytes, cases[i].size), (ssize_t)cases[i].size);
        for (int turn = 0; turn < 5; turn++) {
            assert_int_equal(coll_door_accept(&k.door, 20, &got, &rank, &channel).code, MT_OK);
            assert_int_equal(got.fd, -1);
        }
        ssize_t n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
        assert_true(n <= 0 || (n == 7 && answer[0] == 21)); /* an alert */
        close(fd);
    }
    coll_door_close(&k.door);
}

/* What crosses the wire: neither the secret nor what is sent. */
static void keyed_says_nothing_in_clear(void **state)
{
    (void)state;
    struct keyed       k;
    struct coll_socket in, out;
    char               sent[200], got[200], seen[4096];
    size_t             moved = 0, done = 0;
    keyed_open(&k);
    assert_int_equal(keyed_dial(&k, &k.good, 0, &in, &out).code, MT_OK);
    memset(sent, 'M', sizeof sent);
    assert_int_equal(coll_socket_send(&out, sent, sizeof sent, &moved).code, MT_OK);
    assert_int_equal(moved, sizeof sent);
    ssize_t n = recv(in.fd, seen, sizeof seen, MSG_PEEK);
    assert_true(n > (ssize_t)sizeof sent);
    assert_null(memmem(seen, (size_t)n, "MMMM", 4));
    for (int i = 0; i < 100 && done < sizeof got; i++) {
        assert_int_equal(coll_socket_receive(&in, got + done, sizeof got - done, &moved).code, MT_OK);
        done += moved;
    }
    assert_memory_equal(sent, got, sizeof got);
    coll_socket_close(&in), coll_socket_close(&out);
    coll_door_close(&k.door);
}

static void addresses(void **state)
{
    (void)state;
    struct coll_at at;
    for (const char *const *host = (const char *const[]){"", "127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1", NULL}; *host;
         host++) {
        assert_int_equal(coll_at_read(*host, &at).code, MT_OK);
        assert_int_equal(at.is_far, 0);
    }
    for (const char *const *host = (const char *const[]){"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", NULL}; *host; host++) {
        assert_int_equal(coll_at_read(*host, &at).code, MT_OK);
        assert_int_equal(at.is_far, 1);
    }
    assert_int_equal(coll_at_read("a.name", &at).code, MT_EINVAL);
    assert_int_equal(coll_at_read("10.0.0.1:80", &at).code, MT_EINVAL);
}

static int tls_on(void **state)
{
    (void)state;
    has_tls = true;
    return 0;
}

static int tls_off(void **state)
{
    (void)state;
    has_tls = false;
    return 0;
}

/* ---- few connections ---- */

static int few_on(void **state)
{
    (void)state;
    direct_max = 1;
    return 0;
}

static int few_off(void **state)
{
    (void)state;
    direct_max = 0;
    has_tls = false;
    return 0;
}

static int few_tls_on(void **state)
{
    return few_on(state) + tls_on(state);
}

static int life_some_calls(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    struct coll_tested  tested = {g, run_tcp, exchange_tcp, rank, meeting->members, g->text};
    static const size_t counts[] = {0, 1, 700, 20011, 300007};
    size_t              rounds = sizeof counts / sizeof *counts - (meeting->members > 5); /* more bytes than a connection holds */
    for (uint32_t round = 0; round < rounds; round++)
        for (int kind = COLL_BARRIER; kind < COLL_KINDS; kind++)
            if (coll_check_call(&tested, (enum coll_kind)kind, COLL_I32, COLL_SUM, counts[round], round, round % 2))
                return 2;
    return 0;
}

/* Every call among members of which no two thirds are connected. */
static void few_every_call(void **state)
{
    (void)state;
    run_all(6, has_tls ? life_some_calls : life_every_call);
}

static void few_of_any_number(void **state)
{
    (void)state;
    static const uint32_t members[] = {2, 3, 5, 8, 13, 4, 6, 7, 9, 16};
    for (size_t i = 0; i < (has_tls ? 5 : sizeof members / sizeof *members); i++)
        run_all(members[i], life_some_calls);
}

/* Numbers whose sum has other bits in each order of additions. */
static void rough(float *to, size_t count, uint32_t rank)
{
    mt_rng rng = {rank + 1};
    for (size_t i = 0; i < count; i++)
        to[i] = ((float)mt_rng_below(&rng, 2000001) - 1e6f) * (mt_rng_below(&rng, 3) ? 1e-3f : 1e3f);
}

/* The tree over all inputs, which every member knows here, against what comes of the calls. */
static int bits_compare(struct meeting *meeting, struct coll_tcp *g, uint32_t rank, enum coll_type type, enum coll_op op)
{
    enum { COUNT = 40009 };
    uint32_t         p = meeting->members;
    size_t           size = coll_type_size(type), scattered = COUNT / p;
    char            *all[MEMBERS_MAX], *tree = malloc(COUNT * size), *got = malloc(COUNT * size);
    float           *room = malloc(COUNT * sizeof *room);
    int              bad = 0;
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .type = type, .op = op, .count = COUNT, .out = got};
    for (uint32_t m = 0; m < p; m++) {
        all[m] = malloc(COUNT * sizeof(float));
        rough(room, COUNT, m);
        if (type == COLL_F32)
            memcpy(all[m], room, COUNT * size);
        else
            coll_partial_end(g->loops, type, COLL_SUM, room, 1, COUNT, all[m]);
    }
    coll_reduce(g->loops, type, op, (const void *const *)all, p, COUNT, tree, false, NULL);
    call.in = all[rank];
    bad |= coll_tcp_run(g, &call).code || memcmp(got, tree, COUNT * size);
    call.count = 100;
    bad |= coll_tcp_run(g, &call).code || memcmp(got, tree, 100 * size);
    call.kind = COLL_REDUCE_SCATTER, call.count = scattered;
    bad |= coll_tcp_run(g, &call).code || memcmp(got, tree + rank * scattered * size, scattered * size);
    for (uint32_t m = 0; m < p; m++)
        free(all[m]);
    free(tree), free(got), free(room);
    return bad;
}

static int life_bits(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    return bits_compare(meeting, g, rank, COLL_F32, COLL_SUM) || bits_compare(meeting, g, rank, COLL_F32, COLL_MEAN) ||
                   bits_compare(meeting, g, rank, COLL_BF16, COLL_MEAN) || bits_compare(meeting, g, rank, COLL_F16, COLL_SUM)
               ? 2
               : 0;
}

static void few_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    for (uint32_t members = 2; members <= 9; members++)
        run_all(members, life_bits);
    run_all(11, life_bits);
    run_all(16, life_bits);
}

static void few_messages(void **state)
{
    (void)state;
    run_all(3, life_messages);
    run_all(6, life_messages);
}

/* Rank 4 knows of rank 3's connections nothing: what ends it goes from member to member. */
static void few_disagree(void **state)
{
    (void)state;
    run_all(6, life_disagree);
}

static int life_far_death(struct meeting *meeting, struct coll_tcp *g, uint32_t rank)
{
    struct coll_call barrier = {.kind = COLL_BARRIER};
    while (meeting->joined < (int)meeting->members)
        pause_us(200);
    if (rank == 1)
        _exit(7);
    mt_status st = coll_tcp_run(g, &barrier);
    return st.code == MT_EWORKER_DIED && g->dead == 2 && strstr(g->text, "rank 1 died") ? 0 : 1;
}

static void few_hear_of_a_death(void **state)
{
    (void)state;
    struct meeting *meeting = meeting_new(16, JOIN_MS);
    for (uint32_t rank = 0; rank < 16; rank++)
        hire(meeting, rank, life_far_death);
    for (uint32_t rank = 0; rank < 16; rank++)
        assert_int_equal(end_of(meeting, rank), rank == 1 ? 7 : 0);
    munmap(meeting, sizeof *meeting);
}

/* One that is killed anywhere; of more than three most are not connected with it. */
static void few_killed_anywhere(void **state)
{
    (void)state;
    mt_rng      rng = {6};
    const char *rounds = getenv("COLL_ROUNDS");
    for (int round = 0; round < (rounds ? (int)strtol(rounds, NULL, 10) : 30); round++) {
        uint32_t        members = 4 + (uint32_t)round % 6;
        struct meeting *meeting = meeting_new(members, JOIN_MS);
        for (uint32_t rank = 0; rank < members; rank++)
            hire(meeting, rank, life_work);
        while (meeting->joined < (int)members)
            pause_us(200);
        pause_us(mt_rng_below(&rng, 20000));
        kill(meeting->pids[1], SIGKILL);
        for (uint32_t rank = 0; rank < members; rank++)
            assert_int_equal(end_of(meeting, rank), rank == 1 ? 1000 + SIGKILL : 0);
        munmap(meeting, sizeof *meeting);
    }
}

static int listener_that_refuses(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    int                fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void nobody_answers(void **state)
{
    (void)state;
    struct coll_at       at = {.is_far = has_tls};
    int                  fd = listener_that_refuses(&at.port);
    struct coll_socket   mine;
    struct coll_hello    hello = {.group = 7};
    struct coll_patience patience = {.wait_ms = 100, .each_ms = 20};
    assert_int_equal(coll_socket_dial(&at, 0, &hello, &patience, &mine).code, MT_ETIMEDOUT);
    close(fd);
    assert_int_equal(coll_socket_dial(&at, 0, &hello, &patience, &mine).code, MT_ECONN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call),
        cmocka_unit_test(messages),
        cmocka_unit_test(disagreement),
        cmocka_unit_test(hears_of_it_late),
        cmocka_unit_test(killed_anywhere),
        cmocka_unit_test(stopped),
        cmocka_unit_test(sizes_of_groups),
        cmocka_unit_test(who_has_not_joined),
        cmocka_unit_test(strangers),
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(addresses),
        cmocka_unit_test(who_has_spoken_is_not_late),
        cmocka_unit_test(keyed_strangers),
        cmocka_unit_test(keyed_hears_nothing_in_clear),
        cmocka_unit_test(keyed_says_nothing_in_clear),
#define OVER_TLS(test) {"tls_" #test, test, tls_on, tls_off, NULL}
        OVER_TLS(every_call),
        OVER_TLS(messages),
        OVER_TLS(disagreement),
        OVER_TLS(hears_of_it_late),
        OVER_TLS(killed_anywhere),
        OVER_TLS(stopped),
        OVER_TLS(nobody_answers),
#define WITH_FEW(test) {#test, test, few_on, few_off, NULL}, {"tls_" #test, test, few_tls_on, few_off, NULL}
        WITH_FEW(few_every_call),
        WITH_FEW(few_of_any_number),
        WITH_FEW(few_have_the_bits_of_the_tree),
        WITH_FEW(few_messages),
        WITH_FEW(few_disagree),
        WITH_FEW(few_hear_of_a_death),
        WITH_FEW(few_killed_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

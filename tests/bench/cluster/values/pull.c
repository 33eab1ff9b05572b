/* SPDX-License-Identifier: Apache-2.0
 *
 * pull.c - see pull.h.
 *
 *   head <-- raylet 0 <-- this driver, which gets
 *        <-- raylet 1, where tasks make the values
 *
 * Over TLS, then in clear, each with a cluster of its own on this machine. A large value is got into memory that is there (the
 * first one, which makes it, does not count). The floors are one connection between two processes, a core each: TLS 1.3 with
 * AES-GCM, and TCP; from warm memory into warm memory; in turn with ours. The small values are made before they are asked for: with
 * one manta_get_many, with one manta_get after the other, and with manta_fetch and then one after the other.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/values/pull.h"

#include "core/tls/psk.h"
#include "tests/bench/cluster/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, SMALL = 10000, SMALL_BYTES = 8192, ALONE = 300, PIECE = 1 << 20, PINGS = 2000, LIMIT_MS = 60000 };
static const size_t LARGE = (size_t)1 << 30;

/* ---- floors: bytes of another process ---- */

struct floor {
    bool             is_tls;
    int              fds[2];
    pid_t            child;
    struct tls_conn *tls; /* NULL: in clear */
    char            *from, *to;
};

static ssize_t some_sent(const struct floor *f, int fd, const char *from, size_t size)
{
    size = size < PIECE ? size : PIECE;
    return f->tls ? tls_send(f->tls, from, size) : send(fd, from, size, MSG_NOSIGNAL);
}

static ssize_t some_taken(const struct floor *f, int fd, char *to, size_t size)
{
    size = size < PIECE ? size : PIECE;
    return f->tls ? tls_recv(f->tls, to, size) : recv(fd, to, size, 0);
}

static bool send_all(const struct floor *f, int fd, const char *from, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = some_sent(f, fd, from + at, size - at);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool take_all(const struct floor *f, int fd, char *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = some_taken(f, fd, to + at, size - at);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool tls_begin(struct floor *f, int fd, bool is_child)
{
    static const struct tls_psk psk = {.secret = "of this run alone", .name = "floor"};
    if (!f->is_tls)
        return true;
    return (is_child ? tls_psk_accept : tls_psk_dial)(&psk, fd, &f->tls).code == 0;
}

/* A request says how many bytes are wanted. */
static void floor_child(struct floor *f)
{
    uint64_t wanted;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_core_choose(0, true);
    close(f->fds[0]);
    if (!tls_begin(f, f->fds[1], true))
        _exit(1);
    while (take_all(f, f->fds[1], (char *)&wanted, sizeof wanted))
        if (wanted > LARGE || !send_all(f, f->fds[1], f->from, wanted))
            _exit(1);
    _exit(0);
}

static bool floor_open(struct floor *f, bool is_tls)
{
    memset(f, 0, sizeof *f);
    f->is_tls = is_tls;
    f->from = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    f->to = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (f->from == MAP_FAILED || f->to == MAP_FAILED || !bench_tcp_pair(f->fds))
        return false;
    if ((f->child = fork()) == 0)
        floor_child(f);
    close(f->fds[1]);
    return f->child > 0 && tls_begin(f, f->fds[0], false);
}

static void floor_close(struct floor *f)
{
    tls_end(f->tls);
    close(f->fds[0]);
    rig_end(&f->child, SIGKILL);
    munmap(f->from, LARGE);
    munmap(f->to, LARGE);
}

/* In ms, or -1. */
static double floor_take(const struct floor *f, uint64_t size)
{
    double begun = rig_now_ms();
    return send_all(f, f->fds[0], (const char *)&size, sizeof size) && take_all(f, f->fds[0], f->to, size) ? rig_now_ms() - begun
                                                                                                           : -1;
}

/* ---- values ---- */

/* (seed, bytes) */
static manta_status pull_make(manta_ctx *c, int argc, const manta_arg *argv)
{
    void        *data;
    manta_status code = manta_return_buffer(c, 0, (size_t)argv[1].l, &data);
    (void)argc;
    if (code == MANTA_OK)
        memset(data, (int)argv[0].l, (size_t)argv[1].l);
    return code;
}
MANTA_REGISTER(pull_make, "ll>y");

static bool is_right(const manta_view *view, size_t size, int seed)
{
    const char *bytes = view->data;
    bool        ok = view->size == size && bytes[0] == (char)seed && bytes[size / 2] == (char)seed && bytes[size - 1] == (char)seed;
    if (!ok)
        fprintf(stderr, "pull_tls: a wrong value\n");
    return ok;
}

static bool make(manta_ref **refs, int count, size_t size, int seed)
{
    manta_task_opts there = {.labels = "zone=z1", .max_retries = MANTA_NO_RETRY};
    manta_error     e;
    for (int i = 0; i < count; i++)
        refs[i] = manta_call("pull_make", &there, MANTA_ARGS(manta_i64(seed + i), manta_i64((int64_t)size)));
    int ready = manta_wait(refs, (size_t)count, (size_t)count, LIMIT_MS, NULL, &e);
    return ready == count || (ready < 0 && bench_say(&e, "the values")) || (fprintf(stderr, "the values were not made\n"), false);
}

/* One get; in ms, or -1. */
static double get(manta_ref *ref, size_t size, int seed)
{
    manta_error e;
    manta_view  view;
    double      begun = rig_now_ms();
    if (manta_get(ref, LIMIT_MS, &view, &e) != MANTA_OK)
        return bench_say(&e, "a value"), -1;
    double took = rig_now_ms() - begun;
    bool   ok = is_right(&view, size, seed);
    manta_release(&view);
    return ok ? took : -1;
}

static double get_in_turn(manta_ref **refs, int count)
{
    double begun = rig_now_ms();
    for (int i = 0; i < count; i++)
        if (get(refs[i], SMALL_BYTES, i) < 0)
            return -1;
    return rig_now_ms() - begun;
}

static double get_together(manta_ref **refs, int count)
{
    static manta_view views[SMALL];
    manta_error       e;
    double            begun = rig_now_ms();
    if (manta_get_many(refs, (size_t)count, LIMIT_MS, views, &e) != MANTA_OK)
        return bench_say(&e, "many values"), -1;
    double took = rig_now_ms() - begun;
    for (int i = 0; i < count; i++) {
        took = is_right(&views[i], SMALL_BYTES, i) ? took : -1;
        manta_release(&views[i]);
    }
    return took;
}

static double fetch_and_get(manta_ref **refs, int count)
{
    manta_error e;
    double      begun = rig_now_ms();
    if (manta_fetch(refs, (size_t)count, &e) != MANTA_OK)
        return bench_say(&e, "many values"), -1;
    return get_in_turn(refs, count) < 0 ? -1 : rig_now_ms() - begun;
}

/* Values a second: the median of three rounds after one that warms up; or -1. */
static double small_rate(double (*way)(manta_ref **refs, int count), int count)
{
    static manta_ref *refs[SMALL];
    double            best[3];
    for (int round = -1; round < 3; round++) {
        if (!make(refs, count, SMALL_BYTES, 0))
            return -1;
        double took = way(refs, count);
        for (int i = 0; i < count; i++)
            manta_free(refs[i]);
        if (took < 0)
            return -1;
        if (round >= 0)
            best[round] = count / took * 1e3;
    }
    double low = best[0] < best[1] ? best[0] : best[1], high = best[0] < best[1] ? best[1] : best[0];
    return best[2] < low ? low : best[2] > high ? high : best[2];
}

/* ---- a cluster, and its rows ---- */

struct pull {
    struct rig_folder folder;
    pid_t             head, raylets[2];
};

static bool start(struct pull *p, bool is_tls)
{
    char node[RIG_PATH], names[2][16], labels[2][16];
    bool ok = rig_folder_make(&p->folder);
    p->folder.is_tls = is_tls;
    ok = ok && (p->head = rig_head(&p->folder)) > 0;
    for (int i = 0; i < 2 && ok; i++) {
        snprintf(names[i], sizeof names[i], "node%d", i);
        snprintf(labels[i], sizeof labels[i], "zone=z%d", i);
        struct rig_raylet of = {.name = names[i], .labels = labels[i], .store = "2400000000"};
        ok = (p->raylets[i] = rig_raylet(&p->folder, &of, -1)) > 0;
    }
    int             argc = 1;
    char           *words[] = {"bench", NULL}, **argv = words;
    manta_error     e;
    manta_init_opts opts = {.address = node};
    snprintf(node, sizeof node, "%.63s/node0", p->folder.dir);
    return ok && (manta_init(&argc, &argv, &opts, &e) == MANTA_OK || bench_say(&e, "manta_init"));
}

static void stop(struct pull *p, bool ok)
{
    (void)manta_shutdown();
    rig_end(&p->raylets[0], SIGKILL);
    rig_end(&p->raylets[1], SIGKILL);
    rig_end(&p->head, SIGKILL);
    if (ok)
        rig_folder_remove(&p->folder);
}

struct pull_rows {
    const char *large, *rate, *small, *fetched, *alone, *ping;
};

static bool large(struct bench *b, const struct pull_rows *rows, bool is_tls)
{
    struct floor f;
    double       ours = 0, floor = 0;
    bool         ok = floor_open(&f, is_tls);
    for (int i = 0; i <= ROUNDS && ok; i++) { /* the first makes workers and memory */
        manta_ref *ref;
        ok = make(&ref, 1, LARGE, i);
        double got = ok ? get(ref, LARGE, i) : -1, took = ok ? floor_take(&f, LARGE) : -1;
        manta_free(ref);
        ok = got > 0 && took > 0;
        ours += i ? got : 0;
        floor += i ? took : 0;
    }
    double ping = rig_now_ms();
    for (int i = 0; i < PINGS && ok; i++)
        ok = floor_take(&f, SMALL_BYTES) >= 0;
    ping = (rig_now_ms() - ping) * 1e3 / PINGS;
    floor_close(&f);
    if (!ok)
        return false;
    struct bench_row rate = {.id = rows->rate, .unit = "GB/s", .value = ROUNDS * (double)LARGE / ours / 1e6, .n = ROUNDS};
    rate.floor = is_tls ? FLOOR_TLS : FLOOR_TCP;
    rate.floor_value = ROUNDS * (double)LARGE / floor / 1e6;
    bench_print_value(b, rows->large, "x", floor / ours, ROUNDS);
    bench_print_row(b, &rate);
    bench_print_value(b, rows->ping, "us", ping, PINGS);
    return true;
}

static bool small(struct bench *b, const struct pull_rows *rows)
{
    double together = small_rate(get_together, SMALL), fetched = small_rate(fetch_and_get, SMALL),
           alone = small_rate(get_in_turn, ALONE);
    if (together < 0 || fetched < 0 || alone < 0)
        return false;
    bench_print_value(b, rows->small, "1/s", together, SMALL);
    bench_print_value(b, rows->fetched, "1/s", fetched, SMALL);
    bench_print_value(b, rows->alone, "us", 1e6 / alone, ALONE);
    return true;
}

static bool cluster(struct bench *b, const struct pull_rows *rows, bool is_tls)
{
    struct pull p = {0};
    bool        ok = start(&p, is_tls) && large(b, rows, is_tls) && small(b, rows);
    stop(&p, ok);
    return ok;
}

bool bench_pull_tls(struct bench *b)
{
    static const struct pull_rows tls = {"pull_tls",         "pull_tls.rate", "pull_tls.c",
                                         "pull_tls.c.fetch", "pull_tls.e",    "pull_tls.e.ping"},
                                  clear = {"pull_tls.b",       "pull_tls.b.rate", "pull_tls.d",
                                           "pull_tls.d.fetch", "pull_tls.f",      "pull_tls.f.ping"};
    return cluster(b, &tls, true) && cluster(b, &clear, false);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.c - what the chaos load runs in workers: each writes to the ledger when it begins and when it ends.
 *
 * Owns: the ledger's descriptor of this process. Thread: any; a record is one write.
 */
#include "tests/chaos/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int ledger_fd = -1;

void chaos_ledger_open(const char *path)
{
    if (ledger_fd < 0)
        ledger_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (ledger_fd < 0)
        abort();
}

void chaos_ledger_write(const struct chaos_record *record)
{
    ssize_t size;
    do {
        size = write(ledger_fd, record, sizeof *record);
    } while (size < 0 && errno == EINTR);
    if (size != sizeof *record)
        abort();
}

void chaos_note(enum chaos_what what, uint64_t key, int attempt)
{
    struct chaos_record r = {
        .key = key, .time_ns = chaos_now_ns(), .what = what, .attempt = attempt, .pid = (int32_t)getpid(), .node = manta_node()};
    chaos_ledger_write(&r);
}

uint64_t chaos_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void chaos_sleep_us(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

void chaos_fill(uint8_t *bytes, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(key * 7 + i + (i >> 10));
}

bool chaos_is_filled(const uint8_t *bytes, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (uint8_t)(key * 7 + i + (i >> 10)))
            return false;
    }
    return true;
}

static manta_status done(manta_ctx *c, uint64_t key)
{
    chaos_note(CHAOS_END, key, manta_attempt(c));
    return manta_return_i64(c, chaos_value(key) | manta_attempt(c));
}

/* ---- tasks ---- */

/* work(ledger, key, us) */
static manta_status work(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    chaos_ledger_open(argv[0].y.data);
    chaos_note(CHAOS_BEGIN, argv[1].u, manta_attempt(c));
    chaos_sleep_us(argv[2].l);
    return done(c, argv[1].u);
}
MANTA_REGISTER(work, "sul>l");

/* parent(ledger, key, children): each of its attempts has children of its own. */
static manta_status parent(manta_ctx *c, int argc, const manta_arg *argv)
{
    enum { CHILDREN_MAX = 16 };
    manta_ref *refs[CHILDREN_MAX];
    uint64_t   first = (uint64_t)CHAOS_CHILD << 56 | (argv[1].u & 0xffffffffu) << 16 | (uint64_t)manta_attempt(c) << 8;
    (void)argc;
    chaos_ledger_open(argv[0].y.data);
    chaos_note(CHAOS_BEGIN, argv[1].u, manta_attempt(c));
    for (int64_t i = 0; i < argv[2].l; i++)
        refs[i] = manta_call("work", NULL, MANTA_ARGS(argv[0], manta_u64(first + (uint64_t)i), manta_i64(500 * i)));
    int failed = 0;
    for (int64_t i = 0; i < argv[2].l; i++) {
        manta_error e;
        int64_t     x = 0;
        if (manta_get_i64(refs[i], 60000, &x, &e) != MANTA_OK)
            failed = failed ? failed : e.code;
        else if ((x & ~(int64_t)0xff) != chaos_value(first + (uint64_t)i))
            chaos_note(CHAOS_WRONG, first + (uint64_t)i, manta_attempt(c));
        manta_free(refs[i]);
    }
    if (failed)
        return manta_fail(c, failed, "a child failed with %d", failed);
    return done(c, argv[1].u);
}
MANTA_REGISTER(parent, "sul>l");

/* fetch(ledger, key, value, key of the value, size of the result) */
static manta_status fetch(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t   size = (size_t)argv[4].l;
    uint8_t *bytes = malloc(size + 1);
    (void)argc;
    chaos_ledger_open(argv[0].y.data);
    chaos_note(CHAOS_BEGIN, argv[1].u, manta_attempt(c));
    if (!chaos_is_filled(argv[2].y.data, argv[2].y.size, argv[3].u))
        chaos_note(CHAOS_WRONG, argv[1].u, manta_attempt(c));
    if (!bytes)
        return manta_fail(c, 1, "no memory");
    chaos_fill(bytes, size, argv[1].u);
    manta_status code = manta_return_bytes(c, bytes, size);
    free(bytes);
    chaos_note(CHAOS_END, argv[1].u, manta_attempt(c));
    return code;
}
MANTA_REGISTER(fetch, "suyul>y");

/* ---- an actor that checks the order of its caller's calls ---- */
struct clerk {
    uint64_t last;
};

static manta_status clerk_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = calloc(1, sizeof(struct clerk));
    return *self ? MANTA_OK : MANTA_ENOMEM;
}

/* apply(ledger, key, us) */
static manta_status clerk_apply(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct clerk *clerk = self;
    (void)argc;
    chaos_ledger_open(argv[0].y.data);
    chaos_note(CHAOS_BEGIN, argv[1].u, manta_attempt(c));
    if (argv[1].u <= clerk->last)
        chaos_note(CHAOS_WRONG, argv[1].u, manta_attempt(c));
    clerk->last = argv[1].u;
    chaos_sleep_us(argv[2].l);
    return done(c, argv[1].u);
}
MANTA_ACTOR(clerk, "", clerk_new, free, {"apply", "sul>l", clerk_apply});

/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic_load.c - the driver on a cluster that grows and shrinks: sleeping tasks, or rounds after each of which all nodes go back.
 *
 *   elastic_load ADDRESS LEDGER naps SECONDS MS WIDTH [CPUS]   so many tasks of so long are under way, each for a CPU (or so many);
 *                                                              it ends sooner when there is a file LEDGER.stop
 *   elastic_load ADDRESS LEDGER idle ROUNDS MS WIDTH     in each round WIDTH values are made; when their nodes have gone,
 *                                                        or after MS, a task and the driver read each, and an actor is asked
 *
 * Ledger: load.h. Exit status 0 when everything has an outcome that is right. Thread: the main one.
 */
#include "tests/chaos/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 60 * 1000, RETRIES = 50, WIDTH_MAX = 256, VALUE_BYTES = 100000, NODES_MAX = 2048 };

static const char *ledger;
static int         failures;
static uint64_t    next_key;

static manta_task_opts with_cpu = {.num_cpus = 1, .max_retries = RETRIES};

static uint64_t submitted(void)
{
    struct chaos_record r = {.key = (uint64_t)CHAOS_TASK << 56 | ++next_key, .time_ns = chaos_now_ns(), .what = CHAOS_SUBMIT};
    r.pid = (int32_t)getpid();
    r.retries = RETRIES;
    chaos_ledger_write(&r);
    return r.key;
}

static void settled(uint64_t key, manta_status code, const manta_error *e, int attempt, bool is_right)
{
    struct chaos_record r = {.key = key, .time_ns = chaos_now_ns(), .what = CHAOS_OUTCOME, .pid = (int32_t)getpid(), .code = code};
    r.outcome = code ? e->outcome : 0;
    r.attempt = attempt;
    chaos_ledger_write(&r);
    if (code == MANTA_OK && !is_right)
        chaos_note(CHAOS_WRONG, key, 0);
    failures += code != MANTA_OK || !is_right;
    if (code)
        manta_perror(e);
}

static void settle(uint64_t key, manta_ref *take_ref)
{
    manta_error  e;
    int64_t      x = 0;
    manta_status code = manta_get_i64(take_ref, PATIENCE_MS, &x, &e);
    settled(key, code, &e, (int)(x & 0xff), (x & ~(int64_t)0xff) == chaos_value(key));
    manta_free(take_ref);
}

/* ---- naps ---- */

static void naps(uint64_t seconds, int64_t ms, size_t width)
{
    manta_ref    *refs[WIDTH_MAX];
    uint64_t      keys[WIDTH_MAX], end = chaos_now_ns() + seconds * 1000000000u;
    unsigned char ready[WIDTH_MAX];
    manta_error   e;
    size_t        count = 0;
    char          stop[4096];
    snprintf(stop, sizeof stop, "%s.stop", ledger);
    while (chaos_now_ns() < end && access(stop, F_OK) != 0) {
        for (; count < width; count++) {
            keys[count] = submitted();
            refs[count] = manta_call("work", &with_cpu,
                                     MANTA_ARGS(manta_str(ledger), manta_u64(keys[count]), manta_i64(ms * 1000)));
        }
        if (manta_wait(refs, count, 1, PATIENCE_MS, ready, &e) <= 0)
            memset(ready, 1, sizeof ready); /* the oldest tells why */
        for (size_t i = count; i-- > 0;)
            if (ready[i]) {
                settle(keys[i], refs[i]);
                refs[i] = refs[--count];
                keys[i] = keys[count];
            }
    }
    while (count-- > 0)
        settle(keys[count], refs[count]);
}

/* ---- rounds ---- */

static manta_ref *make(uint64_t key, manta_ref *of, uint64_t of_key)
{
    return manta_call("fetch", &with_cpu,
                      MANTA_ARGS(manta_str(ledger), manta_u64(key), of ? manta_ref_arg(of) : manta_bytes_of("", 0),
                                 manta_u64(of_key), manta_i64(VALUE_BYTES)));
}

static void read_value(uint64_t key, manta_ref *ref)
{
    manta_view   view = {0};
    manta_error  e;
    manta_status code = manta_get(ref, PATIENCE_MS, &view, &e);
    settled(key, code, &e, 0, code || (view.size == VALUE_BYTES && chaos_is_filled(view.data, view.size, key)));
    if (code == MANTA_OK)
        manta_release(&view);
}

/* Until the nodes of the values have gone: the driver's is left, where the actor is too. */
static void await_gone(int64_t ms)
{
    static manta_node_info nodes[NODES_MAX]; /* those that have gone lately are told, too */
    manta_error            e;
    uint64_t               end = chaos_now_ns() + (uint64_t)ms * 1000000;
    for (int alive = NODES_MAX; alive != 1 && chaos_now_ns() < end; chaos_sleep_us(50000)) {
        int count = manta_nodes(nodes, NODES_MAX, &e);
        alive = 0;
        for (int i = 0; i < count && i < NODES_MAX; i++)
            alive += nodes[i].alive;
    }
}

/* One round: values are made, their nodes go, they are read where they are now; and an actor without a CPU counts on. */
static void idle_round(manta_actor *actor, int64_t ms, size_t width)
{
    manta_ref *values[WIDTH_MAX], *again[WIDTH_MAX];
    uint64_t   keys[WIDTH_MAX], again_keys[WIDTH_MAX], call = submitted();
    for (size_t i = 0; i < width; i++)
        values[i] = make(keys[i] = submitted(), NULL, 0);
    manta_error e;
    (void)manta_wait(values, width, (int)width, PATIENCE_MS, NULL, &e);
    await_gone(ms);
    for (size_t i = 0; i < width; i++) {
        again_keys[i] = submitted();
        again[i] = make(again_keys[i], values[i], keys[i]);
    }
    for (size_t i = 0; i < width; i++) {
        read_value(keys[i], values[i]);
        read_value(again_keys[i], again[i]);
        manta_free(values[i]);
        manta_free(again[i]);
    }
    settle(call, manta_actor_call(actor, "apply", MANTA_ARGS(manta_str(ledger), manta_u64(call), manta_i64(0))));
}

static void idle(uint64_t rounds, int64_t ms, size_t width)
{
    manta_actor_opts opts = {.max_restarts = 0, .max_task_retries = 0};
    manta_actor     *actor = manta_actor_new("clerk", &opts, MANTA_NO_ARGS);
    for (uint64_t i = 0; i < rounds; i++)
        idle_round(actor, ms, width);
    manta_actor_free(actor);
}

int main(int argc, char **argv)
{
    manta_error     e;
    manta_init_opts opts = {.address = argc > 1 ? argv[1] : NULL, .job_name = "elastic"};
    if (manta_init(&argc, &argv, &opts, &e) != MANTA_OK)
        return manta_perror(&e), 2;
    size_t width = argc == 7 || argc == 8 ? (size_t)strtoull(argv[6], NULL, 10) : 0;
    if (argc == 8)
        with_cpu.num_cpus = strtod(argv[7], NULL);
    if (width < 1 || width > WIDTH_MAX)
        return fprintf(stderr, "usage: elastic_load ADDRESS LEDGER naps|idle SECONDS|ROUNDS MS WIDTH [CPUS]\n"), 2;
    ledger = argv[2];
    chaos_ledger_open(ledger);
    (strcmp(argv[3], "naps") == 0 ? naps : idle)(strtoull(argv[4], NULL, 10), strtoll(argv[5], NULL, 10), width);
    manta_shutdown();
    return failures ? 1 : 0;
}

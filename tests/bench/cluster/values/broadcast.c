/* SPDX-License-Identifier: Apache-2.0
 *
 * broadcast.c - see broadcast.h.
 *
 *   head <-- raylet 0 <-- this driver, which puts the value
 *        <-- raylets 1 to 3, where a task each reads it
 *
 * All on this machine: three transfers take the CPU of three, so the row says what that costs. With wires that are the bound:
 * tests/integration/machines/broadcast_test.py --long.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/values/broadcast.h"

#include "tests/bench/cluster/rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 4, BYTES = 256 << 20, ROUNDS = 3, LINE = 4096 };

/* Both ends of each page of it. */
static manta_status broadcast_look(manta_ctx *c, int argc, const manta_arg *argv)
{
    const char *bytes = argv[0].y.data;
    int64_t     right = 0;
    (void)argc;
    for (size_t i = 0; i < argv[0].y.size; i += LINE)
        right += bytes[i] == (char)argv[1].l && bytes[i + LINE - 1] == (char)argv[1].l;
    return manta_return_i64(c, right);
}
MANTA_REGISTER(broadcast_look, "yl>l");

/* A new value is read on so many nodes at a time; in ms, or -1. */
static double read_on(int count, size_t size, int seed)
{
    static const char *const zones[] = {"zone=z0", "zone=z1", "zone=z2", "zone=z3"};
    manta_buffer             buffer;
    manta_error              e;
    manta_ref               *refs[NODES];
    bool                     ok = true;
    if (manta_create(size, &buffer, &e) != MANTA_OK)
        return bench_say(&e, "manta_create"), -1;
    memset(buffer.data, seed, size);
    manta_ref *value = manta_seal(&buffer);
    double     begun = rig_now_ms();
    for (int i = 1; i <= count; i++)
        refs[i] = manta_call("broadcast_look", &(manta_task_opts){.labels = zones[i], .max_retries = MANTA_NO_RETRY},
                             MANTA_ARGS(manta_ref_arg(value), manta_i64(seed)));
    for (int i = 1; i <= count; i++) {
        int64_t right = 0;
        if (manta_get_i64(refs[i], RIG_PATIENCE_MS, &right, &e) != MANTA_OK)
            ok = bench_say(&e, "a value on another node");
        ok = ok && right == (int64_t)(size / LINE);
        manta_free(refs[i]);
    }
    double took = rig_now_ms() - begun;
    manta_free(value);
    return ok ? took : -1;
}

static bool measure(struct bench *b)
{
    double one = 0, all = 0;
    for (int i = 0; i <= ROUNDS; i++) { /* the first makes workers and memory */
        double o = read_on(1, BYTES, 2 * i + 1), a = read_on(NODES - 1, BYTES, 2 * i + 2);
        if (o < 0 || a < 0)
            return false;
        one += i ? o : 0;
        all += i ? a : 0;
    }
    bench_print_value(b, "broadcast", "x", all / one, ROUNDS);
    bench_print_value(b, "broadcast.one", "ms", one / ROUNDS, ROUNDS);
    return true;
}

bool bench_broadcast(struct bench *b)
{
    struct rig_folder folder;
    pid_t             head = 0, raylets[NODES] = {0};
    char              node[RIG_PATH], names[NODES][16], labels[NODES][16];
    char             *words[] = {"bench", NULL}, **argv = words;
    int               argc = 1;
    manta_error       e;
    bool              ok = rig_folder_make(&folder) && (head = rig_head(&folder)) > 0;
    for (int i = 0; i < NODES && ok; i++) {
        snprintf(names[i], sizeof names[i], "node%d", i);
        snprintf(labels[i], sizeof labels[i], "zone=z%d", i);
        raylets[i] = rig_raylet(&folder, &(struct rig_raylet){.name = names[i], .labels = labels[i], .store = "1073741824"}, -1);
        ok = raylets[i] > 0;
    }
    snprintf(node, sizeof node, "%.63s/node0", folder.dir);
    bool is_driver = ok &&
                     (manta_init(&argc, &argv, &(manta_init_opts){.address = node}, &e) == MANTA_OK || bench_say(&e, "manta_init"));
    ok = is_driver && measure(b);
    if (is_driver)
        (void)manta_shutdown();
    for (int i = 0; i < NODES; i++)
        rig_end(&raylets[i], SIGKILL);
    rig_end(&head, SIGKILL);
    if (ok)
        rig_folder_remove(&folder);
    return ok;
}

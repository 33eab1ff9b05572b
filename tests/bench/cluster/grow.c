/* SPDX-License-Identifier: Apache-2.0
 *
 * grow.c - see grow.h.
 *
 *   this driver --task that wants a crane--> raylet without one --> head --> provider "local" --> raylet with a crane --> worker
 *
 * Each round begins with no crane, and ends when the node that was started has been given back.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/grow.h"

#include "clients/control/manta_client.h"
#include "tests/bench/cluster/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 11 };

struct grow {
    struct rig_folder folder;
    char              node[RIG_PATH];
    pid_t             head, home;
    manta_client     *client;
};

static bool start(struct grow *g)
{
    if (!rig_folder_make(&g->folder))
        return false;
    snprintf(g->node, sizeof g->node, "%s/home", g->folder.dir);
    g->head = rig_head(&g->folder);
    g->home = g->head > 0 ? rig_raylet(&g->folder, &(struct rig_raylet){.name = "home", .cpus = "0"}, -1) : -1;
    return g->home > 0;
}

static bool may_grow(struct grow *g)
{
    static const manta_scale_resource resources[] = {{"CPU", 1}, {"crane", 1}};
    static const manta_scale_setting  settings[] = {{"store_memory", "67108864"}};
    manta_scale_type                  type = {.name = "crane", .resources = resources, .resource_count = 2, .max = 1};
    const manta_scale_cluster         cluster = {.provider = "local", .types = &type, .type_count = 1};
    manta_client_opts                 opts = {.address = g->folder.dir, .timeout_ms = RIG_PATIENCE_MS};
    manta_error                       e;
    type.settings = settings;
    type.setting_count = 1;
    g->client = manta_client_open(&opts, &e);
    return (g->client && manta_scale_up(g->client, &cluster, false, NULL, NULL, &e) == MANTA_OK) || bench_say(&e, "manta_scale_up");
}

static bool has_shrunk(struct grow *g)
{
    manta_error e;
    uint32_t    left = 1;
    for (double end = rig_now_ms() + RIG_PATIENCE_MS; left > 0 && rig_now_ms() < end; bench_sleep_us(20000))
        if (manta_scale_look(g->client, "status", NULL, NULL, &left, &e) != MANTA_OK)
            return bench_say(&e, "manta_scale_look");
    return left == 0 || (fprintf(stderr, "scale_local: the node is not given back\n"), false);
}

/* Milliseconds until a task has run on a node that was not there; < 0: it has not. */
static double grown(int64_t x)
{
    static const manta_resource crane = {"crane", 1};
    const manta_task_opts       opts = {.resources = &crane, .resource_count = 1};
    manta_error                 e;
    int64_t                     value = 0;
    double                      begun = rig_now_ms();
    manta_ref                  *ref = bench_task(&opts, x);
    bool                        ok = ref && manta_get_i64(ref, RIG_PATIENCE_MS, &value, &e) == MANTA_OK;
    double                      took = rig_now_ms() - begun;
    if (!ok)
        bench_say(&e, "a task for a crane");
    manta_free(ref);
    return ok && value == bench_mix(x) ? took : -1;
}

static double by_hand(struct grow *g, int i)
{
    char   name[32];
    double begun = rig_now_ms();
    snprintf(name, sizeof name, "hand%d", i);
    pid_t  pid = rig_raylet(&g->folder, &(struct rig_raylet){.name = name}, -1);
    double took = rig_now_ms() - begun;
    bool   ok = pid > 0;
    rig_end(&pid, SIGINT);
    return ok ? took : -1;
}

static bool measure(struct bench *b, struct grow *g)
{
    struct bench_samples grows, hands;
    struct bench_row     row = {.id = "scale_local", .unit = "ms"}, hand = {.id = "scale_local.b", .unit = "ms"};
    bool                 ok = bench_samples_init(&grows) && bench_samples_init(&hands);
    for (int i = 0; i < ROUNDS && ok; i++) {
        double one = grown(i), two = one >= 0 && has_shrunk(g) ? by_hand(g, i) : -1;
        ok = two >= 0;
        bench_samples_add(&grows, one);
        bench_samples_add(&hands, two);
    }
    if (!ok || !bench_samples_row(&grows, 0.5, &row) || !bench_samples_row(&hands, 0.5, &hand))
        return false;
    row.n = hand.n = ROUNDS;
    struct bench_row ratio = {.id = "scale_local.c", .unit = "x", .value = row.value / hand.value, .n = ROUNDS};
    bench_print_row(b, &row);
    bench_print_row(b, &hand);
    bench_print_row(b, &ratio);
    return true;
}

bool bench_scale_local(struct bench *b)
{
    static struct grow g;
    manta_error        e;
    int                argc = 1;
    char              *words[] = {"bench", NULL}, **argv = words;
    manta_init_opts    opts = {.address = g.node};
    bool               ok = start(&g) && may_grow(&g);
    bool               is_driver = ok && manta_init(&argc, &argv, &opts, &e) == MANTA_OK;
    if (ok && !is_driver)
        ok = bench_say(&e, "manta_init");
    ok = ok && measure(b, &g);
    if (is_driver)
        (void)manta_shutdown();
    if (g.client && manta_scale_down(g.client, &e) == MANTA_OK)
        ok = has_shrunk(&g) && ok;
    manta_client_close(g.client);
    rig_end(&g.home, SIGKILL);
    rig_end(&g.head, SIGTERM);
    if (ok)
        rig_folder_remove(&g.folder);
    return ok;
}

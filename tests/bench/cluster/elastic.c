/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic.c - see elastic.h.
 *
 *   this driver, and a training of 1 to 4 workers --wish--> head --> provider "local" --> a raylet with a CPU --> one worker more
 *   four work --> the maximum is 1 now, and three nodes are drained --> one works, to the end
 *
 * The pause of a change is the time between two steps of rank 0, by the run's timeline. Held against a run with one worker. Each
 * share of a batch takes NAP_US, as on a device of its worker's: that a worker more makes the run quicker must not depend on how
 * many cores this machine has, since a run that it makes no quicker asks for no more.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/elastic.h"

#include "clients/control/manta_client.h"

#include "tests/bench/cluster/rig.h"

#include <manta_sgd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 4, RECORDS = 1600, BATCH_SIZE = 64, EPOCHS = 60, STEPS_MAX = 65536, RANK_0 = 32 };
enum { INPUTS = 255, WEIGHTS = 262144, NAP_US = 4000 };

struct elastic {
    struct rig_folder folder;
    char              node[RIG_PATH], timeline[RIG_PATH], data[RIG_PATH];
    pid_t             head, home;
    manta_client     *client;
    bool              is_shrinking, has_failed;
    int               workers, grew, shrank;
    double            begin_ms[STEPS_MAX], end_ms[STEPS_MAX]; /* of each step from 1 on, as it was made last */
    int64_t           steps;
};

/* ---- the model: all weights see the same few inputs ---- */

struct model {
    float  *w, *g;
    int64_t nap_us;
};

static manta_status setup(manta_sgd *t, void **self)
{
    static const int64_t shape[] = {WEIGHTS};
    struct model        *m = *self = manta_sgd_alloc(t, sizeof *m);
    m->nap_us = manta_sgd_conf_i64(t, "nap_us", 0);
    manta_sgd_param(t, "w", MANTA_SGD_F32, 1, shape, &m->w, &m->g);
    return manta_sgd_data(t, manta_sgd_conf_str(t, "data", ""),
                          &(manta_sgd_data_opts){.record = sizeof(float) * (INPUTS + 1), .shuffle = true});
}

static manta_status batch(manta_sgd *t, void *self, const manta_sgd_batch *b)
{
    struct model *m = self;
    const float  *record = b->data;
    double        loss = 0;
    bench_sleep_us(m->nap_us);
    for (int64_t r = 0; r < b->count; r++, record += INPUTS + 1) {
        const float *w = m->w + r * INPUTS;
        float       *g = m->g + r * INPUTS, error = -record[INPUTS];
        for (int i = 0; i < INPUTS; i++)
            error += w[i] * record[i];
        for (int i = 0; i < INPUTS; i++)
            g[i] += error * record[i] / (float)b->count;
        loss += (double)(error * error);
    }
    return manta_sgd_metric(t, "loss", loss / (double)b->count);
}
MANTA_SGD_OPERATOR(bench_elastic, .setup = setup, .train_batch = batch);

static bool records_write(const char *path)
{
    static float record[INPUTS + 1];
    FILE        *file = fopen(path, "wbe");
    uint32_t     state = 1;
    bool         ok = file != NULL;
    for (int r = 0; r < RECORDS && ok; r++) {
        for (int i = 0; i <= INPUTS; i++) {
            state = state * 1664525u + 1013904223u;
            record[i] = (float)(state >> 16) / 65536 - 0.5f;
        }
        ok = fwrite(record, sizeof record, 1, file) == 1;
    }
    return (!file || fclose(file) == 0) && ok;
}

/* ---- the cluster ---- */

static bool start(struct elastic *x)
{
    if (!rig_folder_make(&x->folder))
        return false;
    snprintf(x->node, sizeof x->node, "%s/home", x->folder.dir);
    snprintf(x->timeline, sizeof x->timeline, "%s/timeline.json", x->folder.dir);
    snprintf(x->data, sizeof x->data, "%s/data", x->folder.dir);
    x->head = rig_head(&x->folder);
    x->home = x->head > 0 ? rig_raylet(&x->folder, &(struct rig_raylet){.name = "home", .cpus = "0"}, -1) : -1;
    return x->home > 0 && records_write(x->data);
}

static bool may_have(struct elastic *x, uint32_t most)
{
    static const manta_scale_resource resources[] = {{"CPU", 1}};
    static const manta_scale_setting  settings[] = {{"store_memory", "134217728"}};
    manta_scale_type          type = {.name = "small", .resources = resources, .resource_count = 1, .max = most, .idle_ms = 500};
    const manta_scale_cluster cluster = {.provider = "local", .types = &type, .type_count = 1};
    manta_client_opts         opts = {.address = x->folder.dir, .timeout_ms = RIG_PATIENCE_MS};
    manta_error               e;
    type.settings = settings;
    type.setting_count = 1;
    if (!x->client)
        x->client = manta_client_open(&opts, &e);
    return (x->client && manta_scale_up(x->client, &cluster, false, NULL, NULL, &e) == MANTA_OK) || bench_say(&e, "manta_scale_up");
}

static bool is_ours(const manta_cluster_node *node)
{
    return node->state == MANTA_NODE_ALIVE && strstr(node->labels, "manta.instance=");
}

/* All of its nodes are told to go but the oldest, where rank 0 is: what it did is in the timeline to the end. */
static bool shrink(struct elastic *x)
{
    manta_error         e;
    manta_cluster_node *nodes;
    size_t              count;
    uint32_t            kept = UINT32_MAX;
    if (!may_have(x, 1) ||
        (manta_nodes_list(x->client, &nodes, &count, NULL, &e) != MANTA_OK && !bench_say(&e, "manta_nodes_list")))
        return false;
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        kept = is_ours(&nodes[i]) && nodes[i].node < kept ? nodes[i].node : kept;
    for (size_t i = 0; i < count && ok; i++)
        if (is_ours(&nodes[i]) && nodes[i].node != kept)
            ok = manta_node_drain(x->client, nodes[i].node, 60000, "the bench takes it", &e) == MANTA_OK || bench_say(&e, "drain");
    free(nodes);
    return ok;
}

static bool has_gone(struct elastic *x)
{
    manta_error e;
    uint32_t    left = 1;
    for (double end = rig_now_ms() + RIG_PATIENCE_MS; left > 0 && rig_now_ms() < end; bench_sleep_us(20000))
        if (manta_scale_look(x->client, "status", NULL, NULL, &left, &e) != MANTA_OK)
            return bench_say(&e, "manta_scale_look");
    return left == 0 || (fprintf(stderr, "train_elastic: nodes are left\n"), false);
}

/* ---- the runs ---- */

static int on_event(void *user, const manta_sgd_event *event)
{
    struct elastic *x = user;
    if (event->kind == MANTA_SGD_LOST)
        fprintf(stderr, "train_elastic: %s\n", event->text);
    if (event->kind != MANTA_SGD_RESIZED)
        return 0;
    x->grew += event->workers > x->workers;
    x->shrank += event->workers < x->workers;
    x->workers = event->workers;
    if (x->workers == MOST && !x->is_shrinking) {
        x->is_shrinking = true;
        x->has_failed = !shrink(x);
    }
    return x->has_failed;
}

static bool train(struct elastic *x, const char *name, int most, manta_sgd_result *r)
{
    char           data[RIG_PATH + 8], nap[32];
    const char    *config[] = {data, nap, NULL};
    manta_error    e;
    manta_sgd_opts opts = {.scaling = {.min_workers = 1, .max_workers = most, .cpus = most > 1, .nodes = most},
                           .run = {.name = name,
                                   .epochs = EPOCHS,
                                   .batch = BATCH_SIZE,
                                   .shards = MOST,
                                   .log_steps = 1000,
                                   .timeline = most > 1 ? x->timeline : NULL},
                           .failure = {.max_failures = 0},
                           .config = config,
                           .on_event = on_event,
                           .user = x};
    snprintf(data, sizeof data, "data=%s", x->data);
    snprintf(nap, sizeof nap, "nap_us=%d", most > 1 ? NAP_US : 0); /* the weights are the same */
    x->workers = 1;
    return manta_sgd_fit("bench_elastic", &opts, r, &e) == MANTA_OK || bench_say(&e, name);
}

/* ---- its timeline ---- */

static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : -1;
}

static bool steps_read(struct elastic *x)
{
    static char line[4096];
    FILE       *file = fopen(x->timeline, "re");
    while (file && fgets(line, sizeof line, file)) {
        double step = number_of(line, "\"step\":"), begun = number_of(line, "\"ts\":"), took = number_of(line, "\"dur\":");
        if (!strstr(line, "\"name\":\"step\"") || (int)number_of(line, "\"tid\":") != RANK_0 || step < 0 || step >= STEPS_MAX)
            continue;
        x->begin_ms[(int)step] = begun / 1e3;
        x->end_ms[(int)step] = (begun + took) / 1e3;
        x->steps = (int64_t)step + 1 > x->steps ? (int64_t)step + 1 : x->steps;
    }
    if (file)
        fclose(file);
    return x->steps > 0 || (fprintf(stderr, "train_elastic: %s has no step\n", x->timeline), false);
}

static int downwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void say(struct bench *b, const char *id, const char *unit, double value, uint64_t n)
{
    bench_print_value(b, id, unit, value, n);
}

static bool rows(struct bench *b, struct elastic *x, const manta_sgd_result *is, const manta_sgd_result *want)
{
    static double gaps[STEPS_MAX];
    int           count = 0, changes = x->grew + x->shrank;
    double        sum = 0;
    for (int64_t step = 1; step < x->steps; step++)
        if (x->end_ms[step - 1] > 0 && x->begin_ms[step] >= x->end_ms[step - 1])
            gaps[count++] = x->begin_ms[step] - x->end_ms[step - 1];
    qsort(gaps, (size_t)count, sizeof *gaps, downwards);
    for (int i = 0; i < changes && i < count; i++)
        sum += gaps[i];
    if (count < (int)(x->steps - 2))
        return fprintf(stderr, "train_elastic: the timeline has %d of %lld times between two steps\n", count,
                       (long long)x->steps - 2),
               false;
    say(b, "train_elastic", "ms", gaps[0], (uint64_t)changes);
    say(b, "train_elastic.mean", "ms", sum / changes, (uint64_t)changes);
    say(b, "train_elastic.grew", "", x->grew, 1);
    say(b, "train_elastic.shrank", "", x->shrank, 1);
    say(b, "train_elastic.lost", "steps", (double)is->steps_lost, (uint64_t)is->steps);
    say(b, "train_elastic.other", "bits", is->weights == want->weights && is->steps == want->steps ? 0 : 64, 1);
    say(b, "train_elastic.floor", "ms", gaps[count / 2], (uint64_t)count);
    return is->weights == want->weights && is->steps_lost == 0;
}

/* It had four workers, and then one, before it ended. */
static bool has_changed(const struct elastic *x)
{
    if (x->is_shrinking && x->workers == 1)
        return true;
    fprintf(stderr,
            "train_elastic: it grew %d times and shrank %d times, to %d, before its steps were done: the machine is too "
            "busy\n",
            x->grew, x->shrank, x->workers);
    return false;
}

static bool measure(struct bench *b, struct elastic *x)
{
    manta_sgd_result is = {0}, want = {0};
    return may_have(x, MOST) && train(x, "elastic", MOST, &is) && has_changed(x) && steps_read(x) && may_have(x, 1) &&
           train(x, "alone", 1, &want) && rows(b, x, &is, &want);
}

bool bench_train_elastic(struct bench *b)
{
    static struct elastic x;
    manta_error           e;
    int                   argc = 1;
    char                 *words[] = {"bench", NULL}, **argv = words;
    bool                  ok = start(&x);
    manta_init_opts       opts = {.address = x.node};
    bool                  is_driver = ok && manta_init(&argc, &argv, &opts, &e) == MANTA_OK;
    if (ok && !is_driver)
        ok = bench_say(&e, "manta_init");
    ok = ok && measure(b, &x);
    if (is_driver)
        (void)manta_shutdown();
    if (x.client && manta_scale_down(x.client, &e) == MANTA_OK)
        ok = has_gone(&x) && ok;
    manta_client_close(x.client);
    rig_end(&x.home, SIGKILL);
    rig_end(&x.head, SIGTERM);
    if (ok)
        rig_folder_remove(&x.folder);
    return ok;
}

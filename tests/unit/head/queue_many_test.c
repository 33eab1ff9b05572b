/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_many_test.c - hundreds of jobs that queue, under kills of the head, deaths of nodes and drains: none is lost, none starts
 * before those that it waits for, none is run to its end twice.
 */
#include "core/base/rng.h"
#include "scheduler/policy/queue.h"
#include "tests/unit/head/queue_rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

enum { SEEDS = 20, JOBS = 250, STEPS_MAX = 5000, NODES = 3, WORLD_MAX = 4096 };

struct told {                              /* of a job that was accepted */
    char     id[40], after[40];            /* "": waits for nobody */
    uint32_t kind, attempt, on;            /* attempt that runs, and where; 0: none */
    bool     is_good, has_ended, is_array; /* how it will end, if it runs to its end; it has, once */
};
struct draw { /* a submission */
    char     id[32], after[40];
    uint32_t array, kind;
    int32_t  priority;
    bool     is_good, is_due; /* asked for, and not answered yet */
};
struct world {
    struct rig     *rig;
    mt_rng          rng;
    struct rig_node nodes[NODES];
    struct told     told[WORLD_MAX];
    struct draw     asked;
    size_t          count, seen; /* messages of the rig that were read */
    uint32_t        kills, deaths, drains;
};

static uint64_t below(struct world *w, uint64_t limit)
{
    return mt_rng_below(&w->rng, limit);
}

static struct told *find(struct world *w, const char *id)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->told[i].id, id) == 0)
            return &w->told[i];
    return NULL;
}

/* It never ran to an end of its own: it was to start when another succeeds, or its last node was lost. */
static bool was_given_up(struct world *w, const struct told *t)
{
    return !t->has_ended && strcmp(rig_job(w->rig, t->id, NULL), "FAILED") == 0;
}

/* Whether what `t` waits for holds, as the nodes have seen it. */
static bool may_start(struct world *w, const struct told *t)
{
    bool all = true, not_ok = false, any = false;
    for (size_t i = 0; t->after[0] && i < w->count; i++) {
        const struct told *o = &w->told[i];
        size_t             size = strlen(t->after);
        if (strncmp(o->id, t->after, size) != 0 || (o->id[size] && o->id[size] != '.'))
            continue;
        bool is_over = was_given_up(w, o);
        any = true;
        all &= o->has_ended || is_over;
        not_ok |= is_over || (o->has_ended && !o->is_good);
    }
    return !t->after[0] || (any && (t->kind == POLICY_AFTER_NOT_OK ? not_ok : all && (t->kind == POLICY_AFTER_ANY || !not_ok)));
}

static void draw(struct world *w, struct draw *d)
{
    *d = (struct draw){.kind = 1 + (uint32_t)below(w, 3), .priority = (int32_t)below(w, 5) - 2, .is_good = below(w, 4) != 0};
    d->array = below(w, 8) == 0 ? 1 + (uint32_t)below(w, 5) : 0;
    snprintf(d->id, sizeof d->id, "job%zu", w->count);
    if (w->count && below(w, 2)) {
        const struct told *o = &w->told[below(w, w->count)];
        snprintf(d->after, sizeof d->after, "%u%.30s", d->kind, o->id);
        if (o->is_array && below(w, 2))
            *strchr(d->after, '.') = '\0'; /* the whole array */
    }
}

/* Who got no answer, since the head died, asks for the same again. */
static void submit_some(struct world *w)
{
    struct draw *d = &w->asked;
    if (!d->is_due)
        draw(w, d);
    struct asked a = {.id = d->id, .array = d->array, .priority = d->priority, .retries = d->is_good && !d->array ? 2 : 0};
    a.after[0] = d->after[0] ? d->after : NULL;
    int code = queue_code(w->rig, queue_ask(w->rig, &a), NULL);
    d->is_due = code < 0;
    if (code != MT_OK) /* else what it waits for has gone */
        return;
    for (uint32_t i = 0; i < (d->array ? d->array : 1) && w->count < WORLD_MAX; i++) {
        struct told *t = &w->told[w->count++];
        *t = (struct told){.kind = d->kind, .is_good = d->array ? below(w, 4) != 0 : d->is_good, .is_array = d->array};
        snprintf(t->id, sizeof t->id, d->array ? "%s.%u" : "%s", d->id, i);
        snprintf(t->after, sizeof t->after, "%s", d->after[0] ? d->after + 1 : "");
    }
}

/* What the head has told the nodes since: drivers begin. */
static void nodes_hear(struct world *w)
{
    for (; w->seen < w->rig->sent_count; w->seen++) {
        const Manta__V1__HeadToNode *m = w->rig->sent[w->seen].message;
        struct told                 *t = m->kind_case == KIND(START_JOB) ? find(w, m->start_job->spec->id) : NULL;
        for (uint32_t n = 0; t && n < NODES; n++) {
            if (w->nodes[n].stream != w->rig->sent[w->seen].stream || m->start_job->attempt <= t->attempt)
                continue;
            if (!may_start(w, t))
                fail_msg("%s starts before %s", t->id, t->after);
            assert_false(t->has_ended);
            t->attempt = m->start_job->attempt;
            t->on = n + 1;
        }
    }
}

/* A driver ends; its node says so, again and again until a head takes note. */
static void some_end(struct world *w)
{
    for (size_t i = 0; i < w->count; i++) {
        struct told *t = &w->told[i];
        if (!t->on || below(w, 3) || !w->nodes[t->on - 1].stream)
            continue;
        rig_job_state(w->rig, &w->nodes[t->on - 1], t->id, t->attempt, "RUNNING", 0, "");
        if (!t->has_ended && w->rig->has_crashed)
            return;
        t->has_ended = true;
        rig_job_state(w->rig, &w->nodes[t->on - 1], t->id, t->attempt, t->is_good ? "SUCCEEDED" : "FAILED", !t->is_good, "");
        if (w->rig->has_crashed)
            return; /* it says it again */
        t->on = 0;
        nodes_hear(w);
    }
}

static void join(struct world *w, uint32_t n, bool is_new)
{
    if (is_new)
        w->nodes[n] = (struct rig_node){.boot = 100 + below(w, 1000000), .cpus = 8000};
    rig_register(w->rig, &w->nodes[n]);
    rig_report(w->rig, &w->nodes[n], 8000, NULL, 0);
}

static void head_comes_back(struct world *w)
{
    w->rig->crash = RIG_NO_CRASH;
    rig_restart(w->rig);
    w->kills++;
    for (uint32_t n = 0; n < NODES; n++)
        join(w, n, false);
}

/* A node goes for good, or politely; its drivers end as they are, and begin elsewhere by another attempt. */
static void node_goes(struct world *w)
{
    uint32_t n = (uint32_t)below(w, NODES);
    for (size_t i = 0; i < w->count; i++)
        if (w->told[i].on == n + 1 && w->told[i].has_ended)
            return; /* it has an end to tell first */
    if (below(w, 2)) {
        rig_drain(w->rig, &w->nodes[n]);
        w->drains++;
    }
    rig_close(w->rig, w->nodes[n].stream);
    for (size_t i = 0; i < w->count; i++)
        if (w->told[i].on == n + 1)
            w->told[i].on = 0;
    join(w, n, true); /* another process in its place */
    w->deaths++;
}

static void is_settled(struct world *w, const struct told *t)
{
    const char *state = rig_job(w->rig, t->id, NULL);
    if (t->has_ended && t->attempt && strcmp(state, t->is_good ? "SUCCEEDED" : "FAILED") != 0)
        fail_msg("%s ran to its end, and is %s", t->id, state);
    if (strcmp(state, "") == 0)
        fail_msg("%s is lost", t->id);
}

static void run_seed(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->rng.state = seed;
    w->rig = rig_new();
    for (uint32_t n = 0; n < NODES; n++)
        join(w, n, true);
    for (int step = 0; w->count < JOBS; step++) {
        assert_in_range(step, 0, STEPS_MAX);
        if (!w->rig->crash && below(w, 20) == 0) {
            w->rig->crash = below(w, 2) ? RIG_BEFORE_WRITE : RIG_AFTER_WRITE;
            w->rig->crash_at = w->rig->batches + 1 + below(w, 6);
        }
        submit_some(w);
        if (!w->rig->has_crashed)
            rig_pass(w->rig, below(w, 300));
        nodes_hear(w);
        if (!w->rig->has_crashed)
            some_end(w);
        if (!w->rig->has_crashed && below(w, 25) == 0)
            node_goes(w);
        for (uint32_t n = 0; n < NODES && !w->rig->has_crashed; n++)
            rig_report(w->rig, &w->nodes[n], 8000, NULL, 0);
        nodes_hear(w);
        rig_forget(w->rig);
        w->seen = 0;
        if (w->rig->has_crashed)
            head_comes_back(w);
    }
    w->rig->crash = RIG_NO_CRASH;
    assert_true(w->kills > 0 && w->deaths > 0 && w->drains > 0);
    for (size_t i = 0; i < w->count; i++) {
        is_settled(w, &w->told[i]);
        rig_forget(w->rig);
        w->seen = 0;
    }
    rig_free(w->rig);
    free(w);
}

static void none_is_lost_early_or_twice_under_kills(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(none_is_lost_early_or_twice_under_kills)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

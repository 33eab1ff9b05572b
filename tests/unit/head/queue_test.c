/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_test.c - jobs that queue, in the head's core: turns, jobs that wait for others, arrays, holds; and many of them under kills
 * of the head, deaths of nodes and drains: none is lost, none starts before those that it waits for, none is run to its end twice.
 */
#include "core/base/rng.h"
#include "scheduler/policy/queue.h"
#include "tests/unit/head/rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

struct asked { /* a submission; 0 and NULL: as of a plain job */
    const char *id, *after[3];
    int32_t     priority;
    uint32_t    array;
    bool        is_held;
    int64_t     cpus; /* thousandths; 0: 1000 */
    uint32_t    retries, node;
};

static uint64_t ask(struct rig *rig, const struct asked *a)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    Manta__V1__JobAfter      after[3], *list[3];
    char                    *argv[] = {"./x"};
    for (; spec.n_after < 3 && a->after[spec.n_after]; spec.n_after++) {
        const char *text = a->after[spec.n_after]; /* "1job": its kind, then the id */
        list[spec.n_after] = &after[spec.n_after];
        after[spec.n_after] = (Manta__V1__JobAfter)MANTA__V1__JOB_AFTER__INIT;
        after[spec.n_after].kind = (uint32_t)(text[0] - '0');
        after[spec.n_after].id = (char *)(uintptr_t)(text + 1);
    }
    cpu.name = "CPU";
    cpu.milli = a->cpus ? a->cpus : 1000;
    spec.id = (char *)(uintptr_t)a->id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = resources;
    spec.n_resources = 1;
    spec.after = list;
    spec.priority = a->priority;
    spec.array_count = a->array;
    spec.is_held = a->is_held;
    spec.retries = a->retries;
    spec.node = a->node;
    r.spec = &spec;
    return rig_call(rig, HEAD_SUBMIT, &r.base);
}

/* The code of the reply, -1: none; its text in `text` (256 bytes) where that is wanted. */
static int code_of(struct rig *rig, uint64_t call, char *text)
{
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    int                  code = reply ? reply->code : -1;
    if (reply && text)
        snprintf(text, 256, "%.255s", reply->text);
    if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}
#define SUBMIT(rig, ...) code_of(rig, ask(rig, &(struct asked){__VA_ARGS__}), NULL)

static int do_job(struct rig *rig, enum head_method method, const char *id)
{
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    return code_of(rig, rig_call(rig, method, &r.base), NULL);
}

static void is(struct rig *rig, const char *id, const char *state, const char *reason)
{
    Manta__V1__JobReply *reply;
    const char          *has = rig_job(rig, id, &reply);
    if (strcmp(has, state) != 0 || (reason && !strstr(reply->job->reason, reason)))
        fail_msg("%s is %s (%s)", id, has, reply && reply->job ? reply->job->reason : "");
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

/* The node that runs everything says how it ended. */
static void end(struct rig *rig, const struct rig_node *node, const char *id, bool is_good)
{
    rig_job_state(rig, node, id, 1, "RUNNING", 0, "");
    rig_job_state(rig, node, id, 1, is_good ? "SUCCEEDED" : "FAILED", !is_good, "said so");
}

static bool was_started(struct rig *rig, const struct rig_node *node, const char *id)
{
    for (size_t i = 0; i < rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (rig->sent[i].stream == node->stream && m->kind_case == KIND(START_JOB) && strcmp(m->start_job->spec->id, id) == 0)
            return true;
    }
    return false;
}

/* The node has so much free, until what starts now has taken it. */
static void pass(struct rig *rig, struct rig_node *node, int64_t free_milli)
{
    for (int i = 0; i < 6; i++) {
        rig_report(rig, node, i ? 0 : free_milli, NULL, 0);
        rig_pass(rig, 300);
    }
}

static struct rig *rig_with(struct rig_node *node, int64_t cpus)
{
    struct rig *rig = rig_new();
    *node = (struct rig_node){.boot = 11, .cpus = cpus};
    rig_register(rig, node);
    pass(rig, node, cpus);
    pass(rig, node, cpus); /* past the grace */
    rig_report(rig, node, cpus, NULL, 0);
    return rig;
}

/* ---- turns ---- */

static void the_higher_goes_first_then_the_older(void **unused)
{
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 1000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "now"), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "low", .priority = -1), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "a"), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "b"), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "high", .priority = 1), MT_OK);
    rig_restart(rig);
    rig_register(rig, &node);
    static const char *const order[] = {"now", "high", "a", "b", "low"};
    for (size_t i = 0; i < 5; i++) {
        pass(rig, &node, i ? 1000 : 0); /* the first runs already */
        for (size_t k = 0; k < 5; k++)
            assert_int_equal(was_started(rig, &node, order[k]), k <= i);
        if (i < 4)
            is(rig, order[i + 1], "PENDING", "wants 1, and node 1, which has most, has 0");
        end(rig, &node, order[i], true);
    }
    rig_free(rig);
}

static void a_held_one_waits_and_lets_others_pass(void **unused)
{
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "held", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "other"), MT_OK);
    pass(rig, &node, node.cpus);
    is(rig, "held", "PENDING", "is held: manta job release held");
    assert_true(was_started(rig, &node, "other"));
    assert_int_equal(do_job(rig, HEAD_HOLD_JOB, "other"), MT_EINVAL); /* it has started */
    rig_restart(rig);
    rig_register(rig, &node);
    pass(rig, &node, node.cpus);
    is(rig, "held", "PENDING", "is held");
    assert_int_equal(do_job(rig, HEAD_RELEASE_JOB, "held"), MT_OK);
    assert_int_equal(do_job(rig, HEAD_RELEASE_JOB, "nobody"), MT_ENOENT);
    rig_restart(rig);
    rig_register(rig, &node);
    pass(rig, &node, node.cpus);
    assert_true(was_started(rig, &node, "held"));
    rig_free(rig);
}

/* ---- after others ---- */

static void each_kind_after_each_end(void **unused)
{
    static const struct {
        const char *after;
        bool        is_good, starts;
    } cases[] = {{"1first", true, true},  {"1first", false, false}, {"2first", true, true},
                 {"2first", false, true}, {"3first", true, false},  {"3first", false, true}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_late = 0; is_late < 2; is_late++) { /* submitted when the first has ended already */
            struct rig_node node;
            struct rig     *rig = rig_with(&node, 4000);
            assert_int_equal(SUBMIT(rig, .id = "first"), MT_OK);
            if (!is_late)
                assert_int_equal(SUBMIT(rig, .id = "then", .after = {cases[i].after}), MT_OK);
            pass(rig, &node, node.cpus);
            assert_false(was_started(rig, &node, "then"));
            end(rig, &node, "first", cases[i].is_good);
            if (is_late)
                assert_int_equal(SUBMIT(rig, .id = "then", .after = {cases[i].after}), cases[i].starts ? MT_OK : MT_EINVAL);
            assert_int_equal(do_job(rig, HEAD_DELETE_JOB, "first"), MT_OK); /* how it ended is not asked again */
            rig_restart(rig);
            rig_register(rig, &node);
            pass(rig, &node, node.cpus);
            assert_int_equal(was_started(rig, &node, "then"), cases[i].starts);
            if (!cases[i].starts && !is_late)
                is(rig, "then", "FAILED", "it was to start when first");
            rig_free(rig);
        }
}

static void one_that_is_stopped_has_not_succeeded(void **unused)
{
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "first", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "ok", .after = {"1first"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "not", .after = {"3first"}), MT_OK);
    pass(rig, &node, node.cpus);
    is(rig, "ok", "PENDING", "waits until first succeeds");
    is(rig, "not", "PENDING", "waits until first fails");
    assert_int_equal(do_job(rig, HEAD_STOP_JOB, "first"), MT_OK);
    is(rig, "ok", "FAILED", "job first has not succeeded");
    pass(rig, &node, node.cpus);
    assert_true(was_started(rig, &node, "not"));
    rig_free(rig);
}

/* Nobody recurses once for each. */
static void a_long_chain_ends_as_one(void **unused)
{
    enum { LONG = 3000 };
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "j0", .is_held = true), MT_OK);
    for (int i = 1; i < LONG; i++) {
        char id[32], after[32];
        snprintf(id, sizeof id, "j%d", i);
        snprintf(after, sizeof after, "1j%d", i - 1);
        assert_int_equal(SUBMIT(rig, .id = id, .after = {after}), MT_OK);
        rig_forget(rig);
    }
    assert_int_equal(do_job(rig, HEAD_STOP_JOB, "j0"), MT_OK);
    is(rig, "j2999", "FAILED", "job j2998 has not succeeded");
    rig_free(rig);
}

/* ---- arrays ---- */

static void an_array_is_many_jobs(void **unused)
{
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 2000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 3), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 3), MT_OK); /* again */
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 4), MT_EEXIST);
    assert_int_equal(SUBMIT(rig, .id = "all", .after = {"1arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "any", .after = {"2arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "bad", .after = {"3arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "one", .after = {"1arr.0"}), MT_OK);
    pass(rig, &node, node.cpus);
    assert_int_equal(do_job(rig, HEAD_GET_JOB, "arr"), MT_ENOENT);
    const Manta__V1__JobSpec *spec = rig_last(rig, node.stream, KIND(START_JOB))->start_job->spec;
    assert_string_equal(spec->id, "arr.1");
    assert_int_equal(spec->n_env, 3);
    assert_string_equal(spec->env[0], "MANTA_ARRAY_ID=arr");
    assert_string_equal(spec->env[1], "MANTA_ARRAY_INDEX=1");
    assert_string_equal(spec->env[2], "MANTA_ARRAY_COUNT=3");
    end(rig, &node, "arr.0", true);
    assert_int_equal(do_job(rig, HEAD_DELETE_JOB, "arr.0"), MT_OK);
    pass(rig, &node, 1000);
    assert_true(was_started(rig, &node, "one") || was_started(rig, &node, "arr.2"));
    end(rig, &node, "arr.1", false);
    is(rig, "all", "FAILED", "job arr.1 has not succeeded");
    is(rig, "any", "PENDING", "waits until arr ends");
    assert_int_equal(do_job(rig, HEAD_STOP_JOB, "arr"), MT_OK);
    rig_job_state(rig, &node, "arr.2", 1, "STOPPED", 1, "stopped");
    for (int i = 0; i < 4; i++) {
        pass(rig, &node, 2000);
        for (const char *const *id = (const char *const[]){"any", "bad", "one", NULL}; *id; id++)
            if (was_started(rig, &node, *id))
                end(rig, &node, *id, true);
    }
    is(rig, "any", "SUCCEEDED", NULL);
    is(rig, "bad", "SUCCEEDED", NULL);
    is(rig, "one", "SUCCEEDED", NULL);
    rig_free(rig);
}

static void an_array_comes_whole_or_not_at_all(void **unused)
{
    (void)unused;
    for (int crash = RIG_BEFORE_WRITE; crash <= RIG_AFTER_WRITE; crash++) {
        struct rig_node node;
        struct rig     *rig = rig_with(&node, 1000);
        rig->crash = (enum rig_crash)crash;
        rig->crash_at = rig->batches + 1;
        assert_int_equal(SUBMIT(rig, .id = "arr", .array = 50), -1);
        rig->crash = RIG_NO_CRASH;
        rig_restart(rig);
        assert_string_equal(rig_job(rig, "arr.0", NULL), crash == RIG_AFTER_WRITE ? "PENDING" : "");
        assert_string_equal(rig_job(rig, "arr.49", NULL), crash == RIG_AFTER_WRITE ? "PENDING" : "");
        assert_int_equal(SUBMIT(rig, .id = "arr", .array = 50), MT_OK);
        assert_string_equal(rig_job(rig, "arr.49", NULL), "PENDING");
        assert_string_equal(rig_job(rig, "arr.50", NULL), "");
        rig_free(rig);
    }
}

/* ---- a node that is named ---- */

static int signal_job(struct rig *rig, const char *id, int32_t number)
{
    Manta__V1__SignalJobRequest r = MANTA__V1__SIGNAL_JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    r.signal = number;
    return code_of(rig, rig_call(rig, HEAD_SIGNAL_JOB, &r.base), NULL);
}

/* It is there that it starts, also through a new start of the head, and fails where the node can't take it any more. */
static void one_that_names_its_node_runs_there_or_nowhere(void **unused)
{
    (void)unused;
    struct rig_node a, b = {.boot = 12, .cpus = 1000};
    struct rig     *rig = rig_with(&a, 2000);
    rig_register(rig, &b);
    assert_int_equal(SUBMIT(rig, .id = "on", .node = b.node), MT_OK);
    assert_true(was_started(rig, &b, "on"));
    assert_int_equal(SUBMIT(rig, .id = "next", .node = b.node), MT_OK); /* its CPU is taken there, and one is free on a */
    rig_restart(rig);
    rig_register(rig, &a);
    rig_register(rig, &b);
    pass(rig, &b, 0);
    is(rig, "next", "PENDING", NULL);
    assert_false(was_started(rig, &a, "next"));
    assert_int_equal(signal_job(rig, "next", 2), MT_EINVAL); /* it does not run */
    rig_job_state(rig, &b, "on", 1, "RUNNING", 0, "");
    assert_int_equal(signal_job(rig, "on", 65), MT_EINVAL);
    assert_int_equal(signal_job(rig, "on", 2), MT_OK);
    assert_int_equal(rig_last(rig, b.stream, KIND(SIGNAL_JOB))->signal_job->signal, 2);
    is(rig, "on", "RUNNING", NULL);
    rig_drain(rig, &b);
    pass(rig, &a, 2000);
    is(rig, "next", "FAILED", "is being drained");
    rig_free(rig);
}

/* ---- what is refused ---- */

static void senseless_jobs_are_refused(void **unused)
{
    static const struct {
        struct asked asked;
        int          code;
        const char  *words;
    } cases[] = {
        {{.id = "x", .after = {"1gone"}}, MT_ENOENT, "there is no such job"},
        {{.id = "x", .after = {"1x"}}, MT_EINVAL, "can't wait for itself"},
        {{.id = "x", .after = {"0first"}}, MT_EINVAL, "afterok, afterany or afternotok"},
        {{.id = "x", .after = {"4first"}}, MT_EINVAL, "afterok, afterany or afternotok"},
        {{.id = "x", .array = 1000000}, MT_EINVAL, "at most 10000 jobs"},
        {{.id = "x", .array = 10000}, MT_EAGAIN, "a smaller array"},
        {{.id = "x", .node = 9}, MT_ENOENT, "there is no node 9"},
        {{.id = "x", .priority = 1001}, MT_EINVAL, "-1000 to 1000"},
        {{.id = "x", .priority = -1001}, MT_EINVAL, "-1000 to 1000"},
        {{.id = "a2345678901234567890123456789012345678901234567890123456789", .array = 2}, MT_EINVAL, "at most 56 bytes"},
        {{.id = "x", .array = 2, .after = {"1x"}}, MT_EINVAL, "can't wait for itself"},
    };
    struct rig_node node;
    struct rig     *rig = rig_with(&node, 1000);
    char            text[256];
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "first"), MT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(code_of(rig, ask(rig, &cases[i].asked), text), cases[i].code);
        if (!strstr(text, cases[i].words))
            fail_msg("\"%s\" lacks \"%s\"", text, cases[i].words);
    }
    assert_string_equal(rig_job(rig, "x", NULL), "");
    Manta__V1__CreateTokenRequest r = MANTA__V1__CREATE_TOKEN_REQUEST__INIT;
    uint8_t                       sum[HEAD_SHA_SIZE] = {9};
    r.name = (char *)(uintptr_t) "ann";
    r.right = MT_MAY_SUBMIT;
    r.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    (void)rig_call(rig, HEAD_CREATE_TOKEN, &r.base);
    rig->token = head_token_number(sum);
    assert_int_equal(SUBMIT(rig, .id = "y", .priority = 1), MT_EAUTH); /* not hers to give */
    assert_int_equal(SUBMIT(rig, .id = "y", .node = 1), MT_EAUTH);     /* nor where something runs */
    assert_int_equal(SUBMIT(rig, .id = "y", .priority = -1), MT_OK);
    assert_int_equal(do_job(rig, HEAD_HOLD_JOB, "first"), MT_EAUTH);
    rig->token = 0;
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 2), MT_OK);
    rig->token = head_token_number(sum);
    assert_int_equal(do_job(rig, HEAD_STOP_JOB, "arr"), MT_EAUTH);
    rig_free(rig);
}

/* ---- thousands of them, and everything dies ---- */

enum { SEEDS = 3, JOBS = 250, NODES = 3, WORLD_MAX = 4096 };

struct told {                              /* of a job that was accepted */
    char     id[40], after[40];            /* "": waits for nobody */
    uint32_t kind, attempt, on;            /* attempt that runs, and where; 0: none */
    bool     is_good, has_ended, is_array; /* how it will end, if it runs to its end; it has, once */
};
struct world {
    struct rig     *rig;
    mt_rng          rng;
    struct rig_node nodes[NODES];
    struct told     told[WORLD_MAX];
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

static void submit_some(struct world *w)
{
    char         id[32], after[40] = "";
    uint32_t     array = below(w, 8) == 0 ? 1 + (uint32_t)below(w, 5) : 0, kind = 1 + (uint32_t)below(w, 3);
    bool         is_good = below(w, 4) != 0;
    struct asked a = {.id = id, .array = array, .priority = (int32_t)below(w, 5) - 2, .retries = is_good && !array ? 2 : 0};
    snprintf(id, sizeof id, "job%zu", w->count);
    if (w->count && below(w, 2)) {
        const struct told *o = &w->told[below(w, w->count)];
        snprintf(after, sizeof after, "%u%.30s", kind, o->id);
        if (o->is_array && below(w, 2))
            *strchr(after, '.') = '\0'; /* the whole array */
        a.after[0] = after;
    }
    if (code_of(w->rig, ask(w->rig, &a), NULL) != MT_OK) /* the head died, or what it waits for has gone */
        return;
    for (uint32_t i = 0; i < (array ? array : 1) && w->count < WORLD_MAX; i++) {
        struct told *t = &w->told[w->count++];
        *t = (struct told){.kind = kind, .is_good = array ? below(w, 4) != 0 : is_good, .is_array = array};
        snprintf(t->id, sizeof t->id, array ? "%s.%u" : "%s", id, i);
        snprintf(t->after, sizeof t->after, "%s", after[0] ? after + 1 : "");
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
    for (int step = 0; step < 100000 && w->count < JOBS; step++) {
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
    assert_true(w->kills > 5 && w->deaths > 2 && w->drains > 0);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_goes_first_then_the_older),
        cmocka_unit_test(a_held_one_waits_and_lets_others_pass),
        cmocka_unit_test(each_kind_after_each_end),
        cmocka_unit_test(one_that_is_stopped_has_not_succeeded),
        cmocka_unit_test(a_long_chain_ends_as_one),
        cmocka_unit_test(an_array_is_many_jobs),
        cmocka_unit_test(an_array_comes_whole_or_not_at_all),
        cmocka_unit_test(one_that_names_its_node_runs_there_or_nowhere),
        cmocka_unit_test(senseless_jobs_are_refused),
        cmocka_unit_test(none_is_lost_early_or_twice_under_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_test.c - jobs that queue, in the head's core: turns, jobs that wait for others, arrays, holds, room that is reserved
 * or made. (queue_many_test.c: many of them, and everything dies.)
 */
#include "scheduler/policy/queue.h"
#include "tests/unit/head/queue_rig.h"

#include <stdio.h>

#ifdef MANTA_PLANTS
#include "core/base/plant.h"
int mt_plant;
#endif

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

/* ---- turns ---- */

static void the_higher_goes_first_then_the_older(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 1000);
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
        queue_pass(rig, &node, i ? 1000 : 0); /* the first runs already */
        for (size_t k = 0; k < 5; k++)
            assert_int_equal(queue_was_started(rig, &node, order[k]), k <= i);
        if (i < 4)
            queue_is(rig, order[i + 1], "PENDING", "reserved: starts when job ");
        if (i < 3)
            queue_is(rig, order[i + 2], "PENDING", "wants 1, and node 1, which has most, has 0");
        rig_job_state(rig, &node, order[i], 1, "RUNNING", 0, "");
        rig_pass(rig, 1000); /* so the next is not sent ahead */
        rig_job_state(rig, &node, order[i], 1, "SUCCEEDED", 0, "");
    }
    rig_free(rig);
}

static void a_held_one_waits_and_lets_others_pass(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "held", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "other"), MT_OK);
    queue_pass(rig, &node, node.cpus);
    queue_is(rig, "held", "PENDING", "is held: manta job release held");
    assert_true(queue_was_started(rig, &node, "other"));
    assert_int_equal(queue_do(rig, HEAD_HOLD_JOB, "other"), MT_EINVAL); /* it has started */
    rig_restart(rig);
    rig_register(rig, &node);
    queue_pass(rig, &node, node.cpus);
    queue_is(rig, "held", "PENDING", "is held");
    assert_int_equal(queue_do(rig, HEAD_RELEASE_JOB, "held"), MT_OK);
    assert_int_equal(queue_do(rig, HEAD_RELEASE_JOB, "nobody"), MT_ENOENT);
    rig_restart(rig);
    rig_register(rig, &node);
    queue_pass(rig, &node, node.cpus);
    assert_true(queue_was_started(rig, &node, "held"));
    rig_free(rig);
}

/* ---- room that is reserved ---- */

static void a_large_one_is_not_delayed_by_small_ones(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "runs", .cpus = 3000, .time_ms = 60000), MT_OK);
    queue_pass(rig, &node, 4000);
    rig_job_state(rig, &node, "runs", 1, "RUNNING", 0, "");
    queue_pass(rig, &node, 1000);
    assert_int_equal(SUBMIT(rig, .id = "large", .cpus = 4000), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "endless"), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "long", .time_ms = 70000), MT_OK);
    rig_report(rig, &node, 1000, NULL, 0);
    queue_is(rig, "large", "PENDING", "reserved: starts when job runs ends, at the latest at ");
    queue_is(rig, "endless", "PENDING",
             "would delay job large, for which room is reserved: with a short time limit (--time-s) it might");
    queue_is(rig, "long", "PENDING", "would delay job large");
    assert_int_equal(SUBMIT(rig, .id = "none", .cpus = 2000), MT_OK);
    queue_is(rig, "none", "PENDING", "wants 2, and node 1, which has most, has 1");
    rig_restart(rig); /* nothing of it is stored, and all of it is found again */
    rig_register(rig, &node);
    rig_report(rig, &node, 1000, NULL, 0);
    rig_pass(rig, 3000);
    rig_report(rig, &node, 1000, NULL, 0);
    assert_false(queue_was_started(rig, &node, "endless") || queue_was_started(rig, &node, "long"));
    assert_int_equal(SUBMIT(rig, .id = "short", .time_ms = 10000), MT_OK);
    assert_true(queue_was_started(rig, &node, "short"));
    queue_end(rig, &node, "runs", true);
    rig_pass(rig, 200);
    rig_report(rig, &node, 3000, NULL, 0);
    queue_is(rig, "large", "PENDING", "reserved: starts when job short ends, at the latest at ");
    assert_false(queue_was_started(rig, &node, "none")); /* its place is now in what the large one needs */
    queue_end(rig, &node, "short", true);
    queue_pass(rig, &node, 4000);
    assert_true(queue_was_started(rig, &node, "large"));
    assert_false(queue_was_started(rig, &node, "endless"));
    rig_free(rig);
}

/* What the large one does not need is free for all, and so is a node that it is not promised. */
static void what_is_not_reserved_is_free(void **unused)
{
    struct rig_node node, other = {.boot = 12, .cpus = 2000};
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "held-by", .cpus = 2000), MT_OK);
    queue_pass(rig, &node, 4000);
    assert_int_equal(SUBMIT(rig, .id = "large", .cpus = 3000), MT_OK);
    rig_report(rig, &node, 2000, NULL, 0);
    queue_is(rig, "large", "PENDING", "reserved: starts when job held-by ends; that has no time limit");
    assert_int_equal(SUBMIT(rig, .id = "beside"), MT_OK); /* 2 are free, and 4 when held-by has ended: one is left over */
    assert_true(queue_was_started(rig, &node, "beside"));
    rig_pass(rig, 2000);
    rig_report(rig, &node, 1000, NULL, 0);
    assert_int_equal(SUBMIT(rig, .id = "too-much"), MT_OK);
    queue_is(rig, "too-much", "PENDING", "would delay job large");
    rig_register(rig, &other);
    rig_report(rig, &other, 2000, NULL, 0);
    assert_true(queue_was_started(rig, &other, "too-much"));
    rig_free(rig);
}

/* ---- how many at a time, words that come together ---- */

/* Who wants nothing finds room wherever there is a node, but a node takes only so many: 64 and one for each CPU. */
static void a_node_is_not_sent_more_than_it_takes(void **unused)
{
    struct rig_node node, other = {.boot = 12, .cpus = 1000};
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 140, .cpus = -1), MT_OK);
    assert_int_equal(rig_count(rig, node.stream, KIND(START_JOB)), 68);
    queue_is(rig, "a.68", "PENDING", "reserved: starts when job a.");
    queue_is(rig, "a.69", "PENDING", "waits for the end of another job: on node 1 run as many as may");
    rig_forget(rig);
    queue_end(rig, &node, "a.3", true);
    assert_int_equal(rig_count(rig, node.stream, KIND(START_JOB)), 1);
    rig_job_state(rig, &node, "a.4", 1, "PENDING", 0, "no room");
    assert_true(queue_was_started(rig, &node, "a.69")); /* its place is free */
    rig_register(rig, &other);
    rig_report(rig, &other, 1000, NULL, 0);
    assert_int_equal(rig_count(rig, other.stream, KIND(START_JOB)), 65);
    rig_forget(rig);
    rig_restart(rig); /* which counts anew */
    rig_register(rig, &node);
    rig_register(rig, &other);
    queue_pass(rig, &node, 4000);
    queue_pass(rig, &other, 1000);
    queue_end(rig, &node, "a.5", true);
    assert_true(queue_was_started(rig, &node, "a.4") || queue_was_started(rig, &node, "a.135"));
    assert_false(queue_was_started(rig, &node, "a.137") || queue_was_started(rig, &other, "a.137"));
    rig_free(rig);
}

static Manta__V1__NodeToHead state_of(Manta__V1__JobState *s, const char *id, const char *word)
{
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    *s = (Manta__V1__JobState)MANTA__V1__JOB_STATE__INIT;
    s->id = (char *)(uintptr_t)id;
    s->attempt = 1;
    s->state = (char *)(uintptr_t)word;
    s->pid = 77;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
    m.job = s;
    return m;
}

/* The ends of an array that come in one step: what they mean together does not depend on which is looked at first. */
static void ends_of_an_array_in_one_step(void **unused)
{
    static const char *const said[][2] = {{"a.0", "SUCCEEDED"}, {"a.1", "FAILED"}, {"a.2", "SUCCEEDED"}};
    struct rig_node          node;
    (void)unused;
    for (int first = 0; first < 3; first++) {
        struct rig           *rig = queue_rig(&node, 3000);
        Manta__V1__JobState   states[3];
        Manta__V1__NodeToHead words[3];
        ProtobufCBinaryData   more[2];
        assert_int_equal(SUBMIT(rig, .id = "a", .array = 3), MT_OK);
        assert_int_equal(SUBMIT(rig, .id = "ok", .after = {"1a"}), MT_OK);
        assert_int_equal(SUBMIT(rig, .id = "not", .after = {"3a"}), MT_OK);
        assert_int_equal(SUBMIT(rig, .id = "any", .after = {"2a"}), MT_OK);
        for (int i = 0; i < 3; i++)
            words[i] = state_of(&states[i], said[(first + i) % 3][0], said[(first + i) % 3][1]);
        for (int i = 0; i < 2; i++) {
            more[i].data = malloc(256);
            more[i].len = protobuf_c_message_pack(&words[i + 1].base, more[i].data);
        }
        words[0].more = more;
        words[0].n_more = 2;
        rig_say(rig, node.stream, &words[0]);
        queue_is(rig, "ok", "FAILED", "it was to start when a succeeds: job a.1 has not succeeded");
        assert_true(queue_was_started(rig, &node, "not"));
        assert_true(queue_was_started(rig, &node, "any"));
        free(more[0].data);
        free(more[1].data);
        rig_free(rig);
    }
}

/* Words of a node that come as one message are all heard, in their order, and what follows from them is one batch. */
static void words_that_come_together_are_one_batch(void **unused)
{
    static const char *const said[][2] = {{"a.0", "RUNNING"}, {"a.1", "RUNNING"}, {"a.0", "SUCCEEDED"}, {"a.1", "FAILED"}};
    struct rig_node          node;
    struct rig              *rig = queue_rig(&node, 2000);
    Manta__V1__JobState      states[4];
    Manta__V1__NodeToHead    words[4];
    ProtobufCBinaryData      more[4] = {{0, NULL}};
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4), MT_OK);
    for (int i = 0; i < 4; i++) {
        words[i] = state_of(&states[i], said[i][0], said[i][1]);
        more[i].data = malloc(256);
        more[i].len = protobuf_c_message_pack(&words[i].base, more[i].data);
    }
    more[3].data[more[3].len++] = 0; /* and one that nobody can read */
    words[0].more = more + 1;
    words[0].n_more = 2;
    uint64_t before = rig->batches;
    rig_forget(rig);
    rig_say(rig, node.stream, &words[0]);
    assert_int_equal(rig->batches, before + 1);
    queue_is(rig, "a.0", "SUCCEEDED", "");
    queue_is(rig, "a.1", "RUNNING", "");
    assert_true(queue_was_started(rig, &node, "a.2"));
    assert_int_equal(rig_count(rig, node.stream, KIND(JOB_ACK)), 3);
    words[0].n_more = 3; /* said again, and with a new word behind that can't be read: what came before it counts */
    rig_say(rig, node.stream, &words[0]);
    queue_is(rig, "a.1", "RUNNING", "");
    assert_true(rig_was_closed(rig, node.stream));
    for (int i = 0; i < 4; i++)
        free(more[i].data);
    rig_free(rig);
}

/* ---- making room ---- */

/* The newest order to stop a job; 0: there was none since the last rig_forget. */
static uint32_t preempt_ms_of(struct rig *rig, const struct rig_node *node, const char *id)
{
    for (size_t i = rig->sent_count; i-- > 0;) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (rig->sent[i].stream == node->stream && m->kind_case == KIND(STOP_JOB) && strcmp(m->stop_job->id, id) == 0)
            return m->stop_job->preempt_ms;
    }
    return 0;
}

static void a_lower_one_makes_room_and_begins_again(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "firm", .cpus = 1000), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "old", .cpus = 1000, .is_preemptible = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "low", .cpus = 1000, .priority = -1), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "young", .cpus = 1000, .is_preemptible = true, .signal = 10, .notice_ms = 120000), MT_OK);
    queue_pass(rig, &node, 4000);
    for (const char *const *id = (const char *const[]){"firm", "old", "low", "young", NULL}; *id; id++) {
        rig_job_state(rig, &node, *id, 1, "RUNNING", 0, "");
        rig_pass(rig, 100);
    }
    assert_int_equal(SUBMIT(rig, .id = "equal", .cpus = 1000), MT_OK); /* of the same priority: it waits */
    rig_report(rig, &node, 0, NULL, 0);
    assert_int_equal(preempt_ms_of(rig, &node, "low"), 30000); /* ... but the one below 0 goes for it */
    rig_job_state(rig, &node, "low", 1, "PREEMPTED", 143, "it makes room");
    queue_pass(rig, &node, 1000);
    assert_true(queue_was_started(rig, &node, "equal"));
    rig_forget(rig);
    assert_int_equal(SUBMIT(rig, .id = "urgent", .cpus = 2000, .priority = 10), MT_OK);
    rig_report(rig, &node, 0, NULL, 0);
    queue_is(rig, "young", "RUNNING", "is being preempted: it makes room for job urgent of priority 10; it has 120 s for its end");
    queue_is(rig, "urgent", "PENDING", "reserved: starts when job ");
    assert_int_equal(preempt_ms_of(rig, &node, "young"), 120000); /* as it has asked for */
    assert_int_equal(preempt_ms_of(rig, &node, "old"), 30000);    /* one would not be enough */
    assert_int_equal(preempt_ms_of(rig, &node, "firm") + preempt_ms_of(rig, &node, "equal"), 0);
    rig_job_state(rig, &node, "young", 1, "PREEMPTED", 143, "it makes room");
    rig_report(rig, &node, 1000, NULL, 0);
    rig_pass(rig, 1000);
    assert_int_equal(rig_count(rig, node.stream, KIND(START_JOB)), 0); /* the room is kept for whom it was made */
    rig_job_state(rig, &node, "old", 1, "SUCCEEDED", 0, "");           /* it has ended in time: well */
    queue_pass(rig, &node, 2000);
    assert_true(queue_was_started(rig, &node, "urgent"));
    queue_end(rig, &node, "urgent", true);
    queue_pass(rig, &node, 2000);
    assert_true(queue_was_started(rig, &node, "young")); /* has no retries, and begins again */
    assert_true(queue_was_started(rig, &node, "low"));
    rig_free(rig);
}

/* ---- after a kill of the raylet ---- */

static Manta__V1__JobState end_of(const char *id, uint32_t attempt, const char *word, int32_t code)
{
    Manta__V1__JobState s = MANTA__V1__JOB_STATE__INIT;
    s.id = (char *)(uintptr_t)id;
    s.attempt = attempt;
    s.state = (char *)(uintptr_t)word;
    s.exit_code = code;
    s.reason = (char *)(uintptr_t) "so it was";
    return s;
}

/* Who follows a raylet in its folder tells what had ended there. All else that ran there begins again, without a wait. */
static void ends_outlive_a_raylet_that_is_killed(void **unused)
{
    Manta__V1__JobState good = end_of("good", 1, "SUCCEEDED", 0), fast = end_of("fast", 1, "SUCCEEDED", 0),
                        bad = end_of("bad", 1, "FAILED", 3), stale = end_of("on", 9, "SUCCEEDED", 0),
                        gone = end_of("gone", 1, "SUCCEEDED", 0), odd = end_of("on", 1, "RUNNING", 0);
    Manta__V1__JobState  *ends[] = {&good, &fast, &bad, &stale, &gone, &odd};
    Manta__V1__Forerunner told = MANTA__V1__FORERUNNER__INIT;
    struct rig_node       node, other = {.boot = 12, .cpus = 8000, .before = &told}, stranger = {.boot = 13, .cpus = 1000};
    struct rig           *rig = queue_rig(&node, 8000);
    (void)unused;
    for (const char *const *id = (const char *const[]){"good", "fast", "bad", "on", NULL}; *id; id++) {
        assert_int_equal(SUBMIT(rig, .id = *id, .retries = 1), MT_OK);
        if (strcmp(*id, "fast") != 0) /* of which its raylet has said nothing yet */
            rig_job_state(rig, &node, *id, 1, "RUNNING", 0, "");
    }
    told.ends = ends;
    told.n_ends = sizeof ends / sizeof *ends;
    told.boot = 99; /* nobody's */
    stranger.before = &told;
    rig_register(rig, &stranger);
    queue_is(rig, "good", "RUNNING", NULL);
    rig_restart(rig); /* the head was killed too */
    told.boot = 11;
    rig_register(rig, &other);
    queue_is(rig, "good", "SUCCEEDED", "so it was");
    queue_is(rig, "fast", "SUCCEEDED", "so it was");
    queue_is(rig, "bad", "PENDING", "so it was");
    queue_is(rig, "on", "PENDING", "its raylet was killed, and has begun again as another node");
    queue_pass(rig, &other, 8000);
    queue_pass(rig, &other, 8000); /* past the grace */
    assert_true(queue_was_started(rig, &other, "bad") && queue_was_started(rig, &other, "on"));
    assert_false(queue_was_started(rig, &other, "good") || queue_was_started(rig, &other, "fast"));
    rig_register(rig, &other); /* said again: its answer was lost */
    queue_is(rig, "on", "PENDING", "starting on node");
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
            struct rig     *rig = queue_rig(&node, 4000);
            assert_int_equal(SUBMIT(rig, .id = "first"), MT_OK);
            if (!is_late)
                assert_int_equal(SUBMIT(rig, .id = "then", .after = {cases[i].after}), MT_OK);
            queue_pass(rig, &node, node.cpus);
            assert_false(queue_was_started(rig, &node, "then"));
            queue_end(rig, &node, "first", cases[i].is_good);
            if (is_late)
                assert_int_equal(SUBMIT(rig, .id = "then", .after = {cases[i].after}), cases[i].starts ? MT_OK : MT_EINVAL);
            assert_int_equal(queue_do(rig, HEAD_DELETE_JOB, "first"), MT_OK); /* how it ended is not asked again */
            rig_restart(rig);
            rig_register(rig, &node);
            queue_pass(rig, &node, node.cpus);
            assert_int_equal(queue_was_started(rig, &node, "then"), cases[i].starts);
            if (!cases[i].starts && !is_late)
                queue_is(rig, "then", "FAILED", "it was to start when first");
            rig_free(rig);
        }
}

static void one_that_is_stopped_has_not_succeeded(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "first", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "ok", .after = {"1first"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "not", .after = {"3first"}), MT_OK);
    queue_pass(rig, &node, node.cpus);
    queue_is(rig, "ok", "PENDING", "waits until first succeeds");
    queue_is(rig, "not", "PENDING", "waits until first fails");
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "first"), MT_OK);
    queue_is(rig, "ok", "FAILED", "job first has not succeeded");
    queue_pass(rig, &node, node.cpus);
    assert_true(queue_was_started(rig, &node, "not"));
    rig_free(rig);
}

/* Nobody recurses once for each. */
static void a_long_chain_ends_as_one(void **unused)
{
    enum { LONG = 3000 };
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 4000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "j0", .is_held = true), MT_OK);
    for (int i = 1; i < LONG; i++) {
        char id[32], after[32];
        snprintf(id, sizeof id, "j%d", i);
        snprintf(after, sizeof after, "1j%d", i - 1);
        assert_int_equal(SUBMIT(rig, .id = id, .after = {after}), MT_OK);
        rig_forget(rig);
    }
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "j0"), MT_OK);
    queue_is(rig, "j2999", "FAILED", "job j2998 has not succeeded");
    rig_free(rig);
}

/* ---- arrays ---- */

static void an_array_is_many_jobs(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 2000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 3), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 3), MT_OK); /* again */
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 4), MT_EEXIST);
    assert_int_equal(SUBMIT(rig, .id = "all", .after = {"1arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "any", .after = {"2arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "bad", .after = {"3arr"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "one", .after = {"1arr.0"}), MT_OK);
    queue_pass(rig, &node, node.cpus);
    assert_int_equal(queue_do(rig, HEAD_GET_JOB, "arr"), MT_ENOENT);
    const Manta__V1__JobSpec *spec = rig_last(rig, node.stream, KIND(START_JOB))->start_job->spec;
    assert_string_equal(spec->id, "arr.1");
    assert_int_equal(spec->n_env, 3);
    assert_string_equal(spec->env[0], "MANTA_ARRAY_ID=arr");
    assert_string_equal(spec->env[1], "MANTA_ARRAY_INDEX=1");
    assert_string_equal(spec->env[2], "MANTA_ARRAY_COUNT=3");
    queue_end(rig, &node, "arr.0", true);
    assert_int_equal(queue_do(rig, HEAD_DELETE_JOB, "arr.0"), MT_OK);
    queue_pass(rig, &node, 1000);
    assert_true(queue_was_started(rig, &node, "one") || queue_was_started(rig, &node, "arr.2"));
    queue_end(rig, &node, "arr.1", false);
    queue_is(rig, "all", "FAILED", "job arr.1 has not succeeded");
    queue_is(rig, "any", "PENDING", "waits until arr ends");
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "arr"), MT_OK);
    rig_job_state(rig, &node, "arr.2", 1, "STOPPED", 1, "stopped");
    for (int i = 0; i < 4; i++) {
        queue_pass(rig, &node, 2000);
        for (const char *const *id = (const char *const[]){"any", "bad", "one", NULL}; *id; id++)
            if (queue_was_started(rig, &node, *id))
                queue_end(rig, &node, *id, true);
    }
    queue_is(rig, "any", "SUCCEEDED", NULL);
    queue_is(rig, "bad", "SUCCEEDED", NULL);
    queue_is(rig, "one", "SUCCEEDED", NULL);
    rig_free(rig);
}

/* "pending running succeeded failed stopped first_failed", as the reply to `call` says; "": there is none, and "no": no array. */
static const char *sum_of(struct rig *rig, uint64_t call)
{
    static char          text[64];
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    text[0] = '\0';
    if (reply && reply->array)
        snprintf(text, sizeof text, "%u %u %u %u %u %u", reply->array->pending, reply->array->running, reply->array->succeeded,
                 reply->array->failed, reply->array->stopped, reply->array->first_failed);
    else if (reply)
        snprintf(text, sizeof text, "no");
    if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return text;
}

static uint64_t ask_sum(struct rig *rig, const char *id)
{
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    r.is_array = true;
    return rig_call(rig, HEAD_GET_JOB, &r.base);
}

static uint64_t wait_all(struct rig *rig, const char *id, uint32_t ms)
{
    Manta__V1__WaitJobRequest r = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    r.wait_ms = ms;
    r.is_array = true;
    return rig_call(rig, HEAD_WAIT_JOB, &r.base);
}

static void an_array_is_summed_up_and_waited_for(void **unused)
{
    enum { LONG = MT_HEAD_JOBS_ENDED_MAX + 100 };
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 2000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 4), MT_OK);
    queue_pass(rig, &node, node.cpus);
    assert_string_equal(sum_of(rig, ask_sum(rig, "arr")), "4 0 0 0 0 0"); /* two of them are on their way */
    assert_string_equal(sum_of(rig, ask_sum(rig, "arr.0")), "no");
    uint64_t          all = wait_all(rig, "arr", 60000), gone = wait_all(rig, "arr", 60000), some = wait_all(rig, "arr", 100);
    struct head_event event = {.kind = HEAD_EV_CALL_GONE, .call_gone = {gone}};
    rig_event(rig, &event);
    queue_end(rig, &node, "arr.0", true);
    queue_end(rig, &node, "arr.1", false);
    rig_pass(rig, 200);
    assert_string_equal(sum_of(rig, some), "2 0 1 1 0 1"); /* its time has passed */
    assert_string_equal(sum_of(rig, all), "");
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "arr.2"), MT_OK);
    rig_job_state(rig, &node, "arr.2", 1, "STOPPED", 1, "stopped");
    rig_job_state(rig, &node, "arr.3", 1, "RUNNING", 0, "");
    assert_string_equal(sum_of(rig, ask_sum(rig, "arr")), "0 1 1 1 1 1");
    queue_end(rig, &node, "arr.3", true);
    assert_string_equal(sum_of(rig, all), "0 0 2 1 1 1");
    assert_string_equal(sum_of(rig, wait_all(rig, "arr", 60000)), "0 0 2 1 1 1"); /* at once */
    /* More than are kept of ended ones: all are, as long as the array has not ended. */
    assert_int_equal(SUBMIT(rig, .id = "long", .array = LONG, .is_held = true), MT_OK);
    for (int i = 0; i < LONG - 1; i++) {
        char id[32];
        snprintf(id, sizeof id, "long.%d", i);
        assert_int_equal(queue_do(rig, HEAD_STOP_JOB, id), MT_OK);
        rig_forget(rig);
    }
    char want[64];
    snprintf(want, sizeof want, "1 0 0 0 %d 0", LONG - 1);
    assert_string_equal(sum_of(rig, ask_sum(rig, "long")), want);
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "long"), MT_OK);
    assert_string_equal(rig_job(rig, "long.0", NULL), "");
    rig_free(rig);
}

static void an_array_comes_whole_or_not_at_all(void **unused)
{
    (void)unused;
    for (int crash = RIG_BEFORE_WRITE; crash <= RIG_AFTER_WRITE; crash++) {
        struct rig_node node;
        struct rig     *rig = queue_rig(&node, 1000);
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
    return queue_code(rig, rig_call(rig, HEAD_SIGNAL_JOB, &r.base), NULL);
}

/* It is there that it starts, also through a new start of the head, and fails where the node can't take it any more. */
static void one_that_names_its_node_runs_there_or_nowhere(void **unused)
{
    (void)unused;
    struct rig_node a, b = {.boot = 12, .cpus = 1000};
    struct rig     *rig = queue_rig(&a, 2000);
    rig_register(rig, &b);
    assert_int_equal(SUBMIT(rig, .id = "on", .node = b.node), MT_OK);
    assert_true(queue_was_started(rig, &b, "on"));
    assert_int_equal(SUBMIT(rig, .id = "next", .node = b.node), MT_OK); /* its CPU is taken there, and one is free on a */
    rig_restart(rig);
    rig_register(rig, &a);
    rig_register(rig, &b);
    queue_pass(rig, &b, 0);
    queue_is(rig, "next", "PENDING", NULL);
    assert_false(queue_was_started(rig, &a, "next"));
    assert_int_equal(signal_job(rig, "next", 2), MT_EINVAL); /* it does not run */
    rig_job_state(rig, &b, "on", 1, "RUNNING", 0, "");
    assert_int_equal(signal_job(rig, "on", 65), MT_EINVAL);
    assert_int_equal(signal_job(rig, "on", 2), MT_OK);
    assert_int_equal(rig_last(rig, b.stream, KIND(SIGNAL_JOB))->signal_job->signal, 2);
    queue_is(rig, "on", "RUNNING", NULL);
    rig_drain(rig, &b);
    queue_pass(rig, &a, 2000);
    queue_is(rig, "next", "FAILED", "is being drained");
    rig_free(rig);
}

/* ---- many ---- */

static void page_is(struct rig *rig, uint64_t skip, uint32_t limit, const char *ids, uint64_t total)
{
    Manta__V1__ListJobsRequest r = MANTA__V1__LIST_JOBS_REQUEST__INIT;
    char                       found[256] = "";
    r.queue = true;
    r.skip = skip;
    r.limit = limit;
    Manta__V1__ListJobsReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_LIST_JOBS, &r.base),
                                                   &manta__v1__list_jobs_reply__descriptor);
    for (size_t i = 0; i < reply->n_jobs; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? " " : "", reply->jobs[i]->id);
    assert_string_equal(found, ids);
    assert_int_equal(reply->total, total);
    manta__v1__list_jobs_reply__free_unpacked(reply, NULL);
}

/* Whoever runs, then whoever waits in its turn, whatever it waits for, and in pages. */
static void the_queue_is_told_in_its_turn(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 1000);
    (void)unused;
    page_is(rig, 0, 10, "", 0);
    assert_int_equal(SUBMIT(rig, .id = "runs"), MT_OK);
    queue_pass(rig, &node, 0);
    assert_int_equal(SUBMIT(rig, .id = "a", .cpus = 500), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "b", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "c"), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "d", .after = {"1a"}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "e", .priority = 3), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "f", .cpus = 500), MT_OK);
    page_is(rig, 0, 0, "runs e a b c d f", 7);
    page_is(rig, 0, 3, "runs e a", 7);
    page_is(rig, 2, 3, "a b c", 7);
    page_is(rig, 6, 3, "f", 7);
    page_is(rig, 7, 3, "", 7);
    queue_end(rig, &node, "runs", true);
    page_is(rig, 0, 2, "e a", 6);
    rig_free(rig);
}

/* Jobs that wait come back in their turn, from wherever they were, and each of many starts once. */
static void thousands_start_in_order(void **unused)
{
    enum { MANY = 3000 };
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 1000 * MANY);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "gate", .is_held = true), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = MANY, .after = {"2gate"}), MT_OK);
    page_is(rig, 2999, 2, "arr.2998 arr.2999", MANY + 1);
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "gate"), MT_OK);
    queue_pass(rig, &node, 1000 * MANY);
    size_t next = 0;
    for (size_t i = 0; i < rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        char                         id[32];
        if (m->kind_case != KIND(START_JOB))
            continue;
        snprintf(id, sizeof id, "arr.%zu", next++);
        assert_string_equal(m->start_job->spec->id, id);
    }
    assert_int_equal(next, MANY);
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
        {{.id = "x", .array = 10001}, MT_EINVAL, "at most 10000 jobs"},
        {{.id = "x", .array = 3000}, MT_EAGAIN, "has 1 jobs that have not ended, and takes 3000: a smaller array"},
        {{.id = "x", .priority = 1001}, MT_EINVAL, "-1000 to 1000"},
        {{.id = "x", .priority = -1001}, MT_EINVAL, "-1000 to 1000"},
        {{.id = "a2345678901234567890123456789012345678901234567890123456789", .array = 2}, MT_EINVAL, "at most 56 bytes"},
        {{.id = "x", .array = 2, .after = {"1x"}}, MT_EINVAL, "can't wait for itself"},
    };
    struct rig_node node;
    struct rig     *rig = rig_new();
    char            text[256];
    (void)unused;
    rig->config.jobs_max = 3000;
    rig_wipe(rig);
    node = (struct rig_node){.boot = 11, .cpus = 1000};
    rig_register(rig, &node);
    assert_int_equal(SUBMIT(rig, .id = "first"), MT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(queue_code(rig, queue_ask(rig, &cases[i].asked), text), cases[i].code);
        if (!strstr(text, cases[i].words))
            fail_msg("\"%s\" lacks \"%s\"", text, cases[i].words);
    }
    assert_string_equal(rig_job(rig, "x", NULL), "");
    uint64_t ann = rig_user(rig, "ann", 9);
    rig->token = ann;
    assert_int_equal(SUBMIT(rig, .id = "y", .priority = 1), MT_EAUTH); /* not hers to give */
    assert_int_equal(SUBMIT(rig, .id = "y", .node = 1), MT_EAUTH);     /* nor where something runs */
    assert_int_equal(SUBMIT(rig, .id = "y", .priority = -1), MT_OK);
    assert_int_equal(queue_do(rig, HEAD_HOLD_JOB, "first"), MT_EAUTH);
    rig->token = 0;
    assert_int_equal(SUBMIT(rig, .id = "arr", .array = 2), MT_OK);
    rig->token = ann;
    assert_int_equal(queue_do(rig, HEAD_STOP_JOB, "arr"), MT_EAUTH);
    rig_free(rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_goes_first_then_the_older),
        cmocka_unit_test(a_held_one_waits_and_lets_others_pass),
        cmocka_unit_test(a_large_one_is_not_delayed_by_small_ones),
        cmocka_unit_test(what_is_not_reserved_is_free),
        cmocka_unit_test(a_lower_one_makes_room_and_begins_again),
        cmocka_unit_test(ends_outlive_a_raylet_that_is_killed),
        cmocka_unit_test(each_kind_after_each_end),
        cmocka_unit_test(one_that_is_stopped_has_not_succeeded),
        cmocka_unit_test(a_long_chain_ends_as_one),
        cmocka_unit_test(an_array_is_many_jobs),
        cmocka_unit_test(an_array_is_summed_up_and_waited_for),
        cmocka_unit_test(an_array_comes_whole_or_not_at_all),
        cmocka_unit_test(one_that_names_its_node_runs_there_or_nowhere),
        cmocka_unit_test(a_node_is_not_sent_more_than_it_takes),
        cmocka_unit_test(words_that_come_together_are_one_batch),
        cmocka_unit_test(ends_of_an_array_in_one_step),
        cmocka_unit_test(the_queue_is_told_in_its_turn),
        cmocka_unit_test(thousands_start_in_order),
        cmocka_unit_test(senseless_jobs_are_refused),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

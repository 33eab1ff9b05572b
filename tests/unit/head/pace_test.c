/* SPDX-License-Identifier: Apache-2.0
 *
 * pace_test.c - jobs with a deadline at the head: which are refused, on which nodes they begin, and what of their work is kept
 *               when they go on elsewhere.
 */
#include "tests/unit/head/rig.h"

#include <stdio.h>

enum { HOUR_MS = 3600 * 1000 };

/* Nodes can be started that are taken away at any time, and others; nobody starts any here. */
static void up(struct rig *rig)
{
    Manta__V1__ScaleRequest r = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleConfig  config = MANTA__V1__SCALE_CONFIG__INIT;
    Manta__V1__ScaleType    spot = MANTA__V1__SCALE_TYPE__INIT, sure = MANTA__V1__SCALE_TYPE__INIT, *types[] = {&spot, &sure};
    Manta__V1__Resource     cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = 1000;
    spot.name = "spot";
    spot.is_spot = true;
    sure.name = "sure";
    spot.resources = sure.resources = has;
    spot.n_resources = sure.n_resources = 1;
    spot.max = sure.max = 4;
    spot.boot_ms = sure.boot_ms = 60000;
    config.provider = "local";
    config.types = types;
    config.n_types = 2;
    r.op = HEAD_SCALE_UP;
    r.config = &config;
    rig_call(rig, HEAD_SCALE, &r.base);
}

struct asked {
    int64_t  in_ms; /* until the deadline */
    uint64_t work_ms, resume_ms, time_ms;
    uint32_t array, node;
};

static int32_t submit(struct rig *rig, const char *id, struct asked a, const char *words)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    char                    *argv[] = {"x"};
    cpu.name = "CPU";
    cpu.milli = 1000;
    spec.id = (char *)(uintptr_t)id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = has;
    spec.n_resources = 1;
    spec.deadline_ms = a.in_ms ? (uint64_t)((int64_t)(1700000000000u + rig->wall_ahead_ms + rig->now_ms) + a.in_ms) : 0;
    spec.work_ms = a.work_ms;
    spec.resume_ms = a.resume_ms;
    spec.time_ms = a.time_ms;
    spec.array_count = a.array;
    spec.node = a.node;
    r.spec = &spec;
    Manta__V1__JobReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_SUBMIT, &r.base), &manta__v1__job_reply__descriptor);
    assert_non_null(reply);
    int32_t code = reply->code;
    if (words && !strstr(reply->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, reply->text);
    manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}

static void is(struct rig *rig, const char *id, const char *state, const char *words)
{
    Manta__V1__JobReply *reply;
    const char          *has = rig_job(rig, id, &reply);
    if (strcmp(has, state) != 0 || !strstr(reply->job->reason, words))
        fail_msg("%s is %s (%s)", id, has, reply && reply->job ? reply->job->reason : "");
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

static struct rig_node comes(struct rig *rig, uint64_t boot, const char *labels)
{
    struct rig_node node = {.boot = boot, .cpus = 1000, .labels = (char *)(uintptr_t)labels};
    rig_register(rig, &node);
    rig_report(rig, &node, 1000, NULL, 0);
    rig_pass(rig, 300);
    return node;
}

static bool was_started(struct rig *rig, const struct rig_node *node)
{
    return rig_last(rig, node->stream, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB) != NULL;
}

static struct rig *begin(void)
{
    struct rig *rig = rig_new();
    rig_pass(rig, 3000);
    up(rig);
    return rig;
}

#define SPOT "manta.type=spot,manta.spot=true,manta.instance=test-cluster-7"
#define SURE "manta.type=sure,manta.instance=test-cluster-8"

static void bad_ones_are_refused(void **state)
{
    (void)state;
    struct rig *rig = begin();
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = -5000, .work_ms = 1000}, "was 5 s ago"), MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = 60000}, "say how long the job runs"), MT_EINVAL);
    assert_int_equal(
        submit(rig, "a", (struct asked){.in_ms = 60000, .work_ms = 90000}, "is in 60 s, and the job's work takes 90 s"), MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.work_ms = 90000}, "it has none"), MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = HOUR_MS, .work_ms = 1000, .array = 3}, "an array has none"),
                     MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = HOUR_MS, .work_ms = 1000, .node = 3}, "can't name its node"),
                     MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = HOUR_MS, .work_ms = 2000, .time_ms = 1000}, "time limit"), MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = 11LL * 365 * 24 * HOUR_MS, .work_ms = 1000}, "10 years"), MT_EINVAL);
    assert_int_equal(submit(rig, "a", (struct asked){.in_ms = HOUR_MS, .time_ms = 1000}, NULL), MT_OK);
    rig_free(rig);
}

/* A free node that would cost money is not taken while there is time to wait for a cheaper one; then it is. */
static void with_time_it_waits_for_a_spot_node_and_then_takes_another(void **state)
{
    (void)state;
    struct rig *rig = begin();
    assert_int_equal(submit(rig, "job", (struct asked){.in_ms = 1200000, .work_ms = 600000, .resume_ms = 10000}, NULL), MT_OK);
    struct rig_node sure = comes(rig, 1, SURE);
    assert_false(was_started(rig, &sure));
    is(rig, "job", "PENDING", "has time to wait for a spot node");
    for (int s = 0; s < 410; s++) { /* 1200 s but for the work, and twice 10 s, 60 s for a boot and 30 s */
        rig_report(rig, &sure, 1000, NULL, 0);
        rig_pass(rig, 1000);
        if (s < 395)
            assert_false(was_started(rig, &sure));
    }
    assert_true(was_started(rig, &sure));
    rig_free(rig);
}

static void without_time_it_takes_no_spot_node(void **state)
{
    (void)state;
    struct rig *rig = begin();
    assert_int_equal(submit(rig, "job", (struct asked){.in_ms = 610000, .work_ms = 600000, .resume_ms = 10000}, NULL), MT_OK);
    struct rig_node spot = comes(rig, 1, SPOT);
    assert_false(was_started(rig, &spot));
    is(rig, "job", "PENDING", "needs a node that nobody takes away");
    struct rig_node sure = comes(rig, 2, SURE);
    assert_true(was_started(rig, &sure));
    rig_job_state(rig, &sure, "job", 1, "RUNNING", 0, "");
    is(rig, "job", "RUNNING", "600 s of work left");
    rig->wall_ahead_ms += 700000;
    rig_job_state(rig, &sure, "job", 1, "SUCCEEDED", 0, "");
    is(rig, "job", "SUCCEEDED", "after its deadline");
    rig_free(rig);
}

/* What a spot node takes with it costs no retry; what the job did there is kept where it goes on, by the next head too. */
static void its_work_is_kept_when_a_spot_node_goes(void **state)
{
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        struct rig *rig = begin();
        assert_int_equal(
            submit(rig, "job", (struct asked){.in_ms = 9 * HOUR_MS, .work_ms = 600000, .resume_ms = goes_on ? 1000 : 0}, NULL),
            MT_OK);
        struct rig_node spot = comes(rig, 1, SPOT);
        assert_true(was_started(rig, &spot));
        rig_job_state(rig, &spot, "job", 1, "RUNNING", 0, "");
        rig->wall_ahead_ms += 200000;
        rig_close(rig, spot.stream);
        rig_pass(rig, 60000);
        is(rig, "job", "PENDING", "");
        rig_restart(rig);
        rig_pass(rig, 5000);
        struct rig_node next = comes(rig, 2, "manta.type=spot,manta.spot=true,manta.instance=test-cluster-9");
        assert_true(was_started(rig, &next));
        rig_job_state(rig, &next, "job", 2, "RUNNING", 0, "");
        is(rig, "job", "RUNNING", goes_on ? " 3" : " 600 s of work left"); /* 200 s, and until the node was given up */
        rig_free(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(with_time_it_waits_for_a_spot_node_and_then_takes_another),
        cmocka_unit_test(without_time_it_takes_no_spot_node),
        cmocka_unit_test(its_work_is_kept_when_a_spot_node_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

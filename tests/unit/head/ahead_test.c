/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead_test.c - short jobs that the head sends to a node before there is room.
 */
#include "tests/unit/head/queue_rig.h"

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

/* How long it may wait on the node; -1: it was not sent there since the last rig_forget. */
static int64_t wait_ms_of(struct rig *rig, const struct rig_node *node, const char *id)
{
    for (size_t i = rig->sent_count; i-- > 0;) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (rig->sent[i].stream == node->stream && m->kind_case == KIND(START_JOB) && strcmp(m->start_job->spec->id, id) == 0)
            return m->start_job->wait_ms;
    }
    return -1;
}

static void short_jobs_wait_on_the_node_for_the_end_of_others(void **unused)
{
    struct rig_node node, other = {.boot = 12, .cpus = 1000};
    struct rig     *rig = queue_rig(&node, 1000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 40, .retries = 3), MT_OK);
    assert_int_equal(wait_ms_of(rig, &node, "a.0"), 0);
    assert_int_equal(wait_ms_of(rig, &node, "a.1"), -1); /* nobody knows that they are short */
    queue_end(rig, &node, "a.0", true);
    assert_int_equal(wait_ms_of(rig, &node, "a.1"), 0);
    assert_true(wait_ms_of(rig, &node, "a.2") > 0);
    assert_true(wait_ms_of(rig, &node, "a.17") > 0);
    assert_int_equal(wait_ms_of(rig, &node, "a.18"), -1); /* they are enough */
    queue_is(rig, "a.2", "PENDING", "waits on node 1");

    rig_forget(rig);
    queue_end(rig, &node, "a.1", true); /* its room is a.2's: nobody else is promised it */
    assert_int_equal(wait_ms_of(rig, &node, "a.2"), -1);
    assert_true(wait_ms_of(rig, &node, "a.18") > 0);
    assert_int_equal(rig_count(rig, node.stream, KIND(START_JOB)), 1);
    rig_register(rig, &other);
    rig_report(rig, &other, 1000, NULL, 0);
    assert_int_equal(wait_ms_of(rig, &other, "a.19"), 0); /* where there is room nobody waits */

    rig_forget(rig);
    rig_job_state(rig, &node, "a.3", 1, "PENDING", 0, "no room"); /* it has waited too long there */
    rig_pass(rig, 600);
    queue_end(rig, &other, "a.19", true);
    /* It was before the others, but for those that wait there; where it waits now is chosen anew. */
    assert_true(wait_ms_of(rig, &node, "a.3") > 0 || wait_ms_of(rig, &other, "a.3") > 0);

    rig_forget(rig);
    rig_job_state(rig, &node, "a.2", 1, "RUNNING", 0, "");
    rig_pass(rig, 300);
    rig_job_state(rig, &node, "a.2", 1, "SUCCEEDED", 0, ""); /* that one was not short */
    assert_int_equal(rig_count(rig, node.stream, KIND(START_JOB)), 0);
    rig_free(rig);
}

/* Also while nodes are still registering. */
static void a_head_that_has_just_begun_sends_ahead_too(void **unused)
{
    struct rig_node node = {.boot = 11, .cpus = 1000};
    struct rig     *rig = rig_new();
    (void)unused;
    rig_register(rig, &node);
    rig_report(rig, &node, 1000, NULL, 0);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 40), MT_OK);
    queue_end(rig, &node, "a.0", true);
    assert_int_equal(wait_ms_of(rig, &node, "a.1"), 0);
    assert_true(wait_ms_of(rig, &node, "a.2") > 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_jobs_wait_on_the_node_for_the_end_of_others),
        cmocka_unit_test(a_head_that_has_just_begun_sends_ahead_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

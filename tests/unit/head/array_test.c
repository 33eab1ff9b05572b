/* SPDX-License-Identifier: Apache-2.0
 *
 * array_test.c - arrays whose jobs have indices that were asked for, and of which so many run at a time.
 */
#include "tests/unit/head/queue_rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

static const char *array_env(struct rig *rig, const struct rig_node *node, size_t at)
{
    const Manta__V1__JobSpec *spec = rig_last(rig, node->stream, KIND(START_JOB))->start_job->spec;
    return at < spec->n_env ? spec->env[at] : "";
}

static void is_told(struct rig *rig, const char *id, const char *text)
{
    Manta__V1__JobReply *reply;
    (void)rig_job(rig, id, &reply);
    assert_int_equal(reply->code, MT_ENOENT);
    assert_string_equal(reply->text, text);
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

static void it_has_the_indices_that_were_asked_for(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 8000);
    char            text[256];
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4, .ranges = {{10, 14, 2}, {1, 1, 1}}), MT_OK);
    for (int i = 0; i < 20; i++) {
        char id[8];
        snprintf(id, sizeof id, "a.%d", i);
        assert_int_equal(queue_was_started(rig, &node, id), i == 1 || i == 10 || i == 12 || i == 14);
    }
    assert_string_equal(array_env(rig, &node, 1), "MANTA_ARRAY_INDEX=14"); /* in their order, whatever it was asked in */
    assert_string_equal(array_env(rig, &node, 2), "MANTA_ARRAY_COUNT=4");
    /* The same again is the same, other indices are another array. */
    queue_end(rig, &node, "a.1", true);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4, .ranges = {{1, 1, 1}, {10, 15, 2}}), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4), MT_EEXIST);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4, .ranges = {{20, 23, 1}}), MT_EEXIST);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4, .ranges = {{10, 14, 2}, {1, 1, 1}}, .most = 1), MT_EEXIST);
    rig_restart(rig);
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 4, .ranges = {{10, 14, 2}, {1, 1, 1}}), MT_OK);
    queue_is(rig, "a.1", "SUCCEEDED", NULL);
    /* Who asks for a job by the array's id is told of those that there are. */
    is_told(rig, "a", "a is an array: its jobs are a.1, a.10, a.12, ...");
    assert_int_equal(SUBMIT(rig, .id = "c", .array = 1, .ranges = {{7, 7, 1}}), MT_OK);
    is_told(rig, "c", "c is an array: its job is c.7");
    /* A job that is there is nobody else's, and none of the array comes. */
    assert_int_equal(SUBMIT(rig, .id = "b.3"), MT_OK);
    assert_int_equal(queue_code(rig, queue_ask(rig, &(struct asked){.id = "b", .array = 5}), text), MT_EEXIST);
    assert_non_null(strstr(text, "b.3"));
    assert_string_equal(rig_job(rig, "b.0", NULL), "");
    assert_int_equal(SUBMIT(rig, .id = "b", .array = 2), MT_OK);
    rig_free(rig);
}

static uint32_t placed(struct rig *rig, uint32_t count)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < count; i++) {
        char                 id[8];
        Manta__V1__JobReply *reply;
        snprintf(id, sizeof id, "a.%u", i);
        (void)rig_job(rig, id, &reply);
        running += reply->job->node != 0 && reply->job->ended_ms == 0;
        manta__v1__job_reply__free_unpacked(reply, NULL);
    }
    return running;
}

static void so_many_run_at_a_time(void **unused)
{
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 8000);
    (void)unused;
    assert_int_equal(SUBMIT(rig, .id = "a", .array = 9, .most = 2), MT_OK);
    assert_int_equal(SUBMIT(rig, .id = "other"), MT_OK);
    assert_true(queue_was_started(rig, &node, "a.1") && queue_was_started(rig, &node, "other")); /* nobody is kept back by it */
    assert_false(queue_was_started(rig, &node, "a.2"));
    queue_is(rig, "a.2", "PENDING", "waits for the end of another of its array, of which 2 run at a time");
    queue_end(rig, &node, "a.1", true); /* as short as they are, none is sent to wait on the node */
    assert_true(queue_was_started(rig, &node, "a.2"));
    assert_int_equal(placed(rig, 9), 2);
    queue_end(rig, &node, "a.0", false);
    assert_true(queue_was_started(rig, &node, "a.3"));
    assert_false(queue_was_started(rig, &node, "a.4"));
    rig_restart(rig); /* who leads next keeps to it */
    rig_register(rig, &node);
    queue_pass(rig, &node, 8000);
    assert_int_equal(placed(rig, 9), 2);
    for (int i = 2; i < 9; i++) {
        char id[8];
        snprintf(id, sizeof id, "a.%d", i);
        assert_true(placed(rig, 9) <= 2);
        queue_end(rig, &node, id, true);
        queue_pass(rig, &node, 8000);
        queue_is(rig, id, "SUCCEEDED", NULL);
    }
    rig_free(rig);
}

static void senseless_arrays_are_refused(void **unused)
{
    static const struct {
        struct asked asked;
        const char  *why;
    } cases[] = {
        {{.id = "x", .array = 2, .ranges = {{0, 0, 1}, {0, 3, 3}}}, "has as many indices as jobs"},
        {{.id = "x", .array = 3, .ranges = {{0, 3, 3}, {3, 3, 1}}}, "has index 3 twice"},
        {{.id = "x", .array = 4, .ranges = {{3, 0, 1}}}, "ranges of 0 to 999999"},
        {{.id = "x", .array = 4, .ranges = {{0, 3, 0}}}, "with a step of 1 at least"},
        {{.id = "x", .array = 1, .ranges = {{5, 10, UINT32_MAX}}}, "with a step of 1 at least"}, /* 5 + it is 4 */
        {{.id = "x", .array = 1, .ranges = {{1000000, 1000000, 1}}}, "ranges of 0 to 999999"},
        {{.id = "x", .array = 10001, .ranges = {{0, 10000, 1}}}, "at most 10000 jobs"},
        {{.id = "x", .ranges = {{0, 3, 1}}}, "has as many indices as jobs"},
        {{.id = "x", .most = 2}, "only of an array so many run at a time"},
    };
    struct rig_node node;
    struct rig     *rig = queue_rig(&node, 8000);
    char            text[256];
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(queue_code(rig, queue_ask(rig, &cases[i].asked), text), MT_EINVAL);
        if (!strstr(text, cases[i].why))
            fail_msg("case %zu: %s", i, text);
    }
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_the_indices_that_were_asked_for),
        cmocka_unit_test(so_many_run_at_a_time),
        cmocka_unit_test(senseless_arrays_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

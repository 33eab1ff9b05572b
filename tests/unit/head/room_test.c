/* SPDX-License-Identifier: Apache-2.0
 *
 * room_test.c - a store with little room, and with none: what is new is refused in words and at once, what is there goes on.
 */
#include "tests/unit/head/rig.h"

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

enum { PUT = 1 };

static void room(struct rig *rig, enum head_room is, uint64_t bytes)
{
    struct head_event event = {.kind = HEAD_EV_ROOM, .room = {is, bytes}};
    rig_event(rig, &event);
}

/* The code of a call's reply or refusal; -1: there is none yet. */
static int code_of(struct rig *rig, uint64_t call)
{
    for (size_t i = 0; i < rig->reply_count; i++)
        if (rig->replies[i].call == call && rig->replies[i].is_refused)
            return rig->replies[i].refused;
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    int                  code = reply ? reply->code : -1;
    if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}

static uint64_t list(struct rig *rig)
{
    Manta__V1__ListJobsRequest request = MANTA__V1__LIST_JOBS_REQUEST__INIT;
    return rig_call(rig, HEAD_LIST_JOBS, &request.base);
}

static void with_little_room_nothing_new_comes_in_and_the_rest_goes_on(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    const uint8_t   sha[HEAD_SHA_SIZE] = {1};
    rig_register(rig, &a);
    assert_int_equal(code_of(rig, rig_submit(rig, "old", 0, 1000)), MT_OK);
    room(rig, HEAD_ROOM_SHORT, 0);
    assert_int_equal(code_of(rig, rig_submit(rig, "new", 0, 1000)), MT_EDISK_FULL);
    assert_int_equal(code_of(rig, rig_submit(rig, "old", 0, 1000)), MT_OK); /* it is in */
    assert_int_equal(rig_name(rig, &a, 1, PUT, "bank", 60, 600, a.node, NULL), MT_EDISK_FULL);
    assert_int_equal(head_blob_admit(rig->head, sha, 1).code, MT_EDISK_FULL);
    assert_int_equal(head_counters(rig->head)->no_room, 2);
    rig_job_state(rig, &a, "old", 1, "RUNNING", 0, "");
    rig_job_state(rig, &a, "old", 1, "SUCCEEDED", 0, "exit 0");
    assert_string_equal(rig_job(rig, "old", NULL), "SUCCEEDED");
    rig_restart(rig);
    assert_string_equal(rig_job(rig, "old", NULL), "SUCCEEDED");
    assert_string_equal(rig_job(rig, "new", NULL), ""); /* who is told "full" may believe it */
    assert_int_equal(code_of(rig, rig_submit(rig, "new", 0, 1000)), MT_OK);
    rig_free(rig);
}

static void a_job_that_would_not_fit_is_refused(void **unused)
{
    (void)unused;
    struct rig *rig = rig_new();
    room(rig, HEAD_ROOM_ENOUGH, 4);
    assert_int_equal(code_of(rig, rig_submit(rig, "large", 0, 1000)), MT_EDISK_FULL);
    room(rig, HEAD_ROOM_ENOUGH, 4000);
    assert_int_equal(code_of(rig, rig_submit(rig, "large", 0, 1000)), MT_OK);
    rig_free(rig);
}

static void without_room_callers_hear_so_at_once_and_nothing_is_promised(void **unused)
{
    (void)unused;
    struct rig *rig = rig_new();
    rig->holds_store = true; /* the batches wait, as they do in a full store's shell */
    uint64_t stuck = rig_submit(rig, "stuck", 0, 1000);
    assert_int_equal(code_of(rig, stuck), -1);
    room(rig, HEAD_ROOM_NONE, 0);
    assert_int_equal(code_of(rig, list(rig)), MT_EDISK_FULL);
    assert_int_equal(code_of(rig, rig_submit(rig, "new", 0, 1000)), MT_EDISK_FULL);
    uint64_t again = rig_submit(rig, "stuck", 0, 1000); /* it may come in: neither yes nor no */
    assert_int_equal(code_of(rig, again), -1);
    while (rig->held_count > 0)
        rig_store(rig, mt_ok());
    room(rig, HEAD_ROOM_ENOUGH, UINT64_MAX);
    assert_int_equal(code_of(rig, stuck), MT_OK);
    assert_int_equal(code_of(rig, again), MT_OK);
    rig->holds_store = false;
    assert_string_equal(rig_job(rig, "stuck", NULL), "PENDING");
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_little_room_nothing_new_comes_in_and_the_rest_goes_on),
        cmocka_unit_test(a_job_that_would_not_fit_is_refused),
        cmocka_unit_test(without_room_callers_hear_so_at_once_and_nothing_is_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

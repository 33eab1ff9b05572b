/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs_test.c - submitted jobs: once by id, retries, stops, logs, waits, and restarts of the head at every store write.
 */
#include "core/base/limits/raylet.h"
#include "tests/unit/head/rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

static int submit_code(struct rig *rig, uint64_t call)
{
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    int                  code = reply ? reply->code : -1;
    if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}

static void a_job_from_submit_to_success(void **unused)
{
    (void)unused;
    struct rig          *rig = rig_new();
    struct rig_node      a = {.boot = 11, .cpus = 2000};
    Manta__V1__JobReply *reply;
    assert_int_equal(submit_code(rig, rig_submit(rig, "j1", 0, 1000)), MT_OK);
    assert_string_equal(rig_job(rig, "j1", &reply), "PENDING");
    assert_string_equal(reply->job->reason, "the cluster has no node that is alive");
    manta__v1__job_reply__free_unpacked(reply, NULL);
    rig_register(rig, &a);
    Manta__V1__StartJob *start = rig_last(rig, a.stream, KIND(START_JOB))->start_job;
    assert_string_equal(start->spec->id, "j1");
    assert_string_equal(start->spec->argv[2], "5");
    assert_int_equal(start->attempt, 1);
    rig_job_state(rig, &a, "j1", 1, "RUNNING", 0, "");
    assert_string_equal(rig_job(rig, "j1", NULL), "RUNNING");
    assert_string_equal(rig_last(rig, a.stream, KIND(JOB_ACK))->job_ack->state, "RUNNING");
    rig_log_chunk(rig, &a, "j1", 1, 0, "hello ");
    rig_log_chunk(rig, &a, "j1", 1, 0, "hello world\n"); /* a repeat, and more */
    assert_string_equal(rig_log(rig, "j1"), "hello world\n");
    rig_job_state(rig, &a, "j1", 1, "SUCCEEDED", 0, "exit 0");
    assert_string_equal(rig_job(rig, "j1", &reply), "SUCCEEDED");
    assert_int_equal(reply->job->log_size, 12);
    manta__v1__job_reply__free_unpacked(reply, NULL);
    assert_string_equal(rig->ended[0], "j1");
    rig_job_state(rig, &a, "j1", 1, "SUCCEEDED", 0, "exit 0"); /* repeated until it is acknowledged */
    assert_int_equal(rig->ended_count, 1);
    assert_int_equal(submit_code(rig, rig_submit(rig, "j1", 0, 1000)), MT_OK); /* the same again is the same job */
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 1);
    assert_int_equal(submit_code(rig, rig_submit(rig, "j1", 1, 1000)), MT_EEXIST);
    rig_free(rig);
}

static void bad_jobs_are_refused_with_a_reason(void **unused)
{
    (void)unused;
    struct rig              *rig = rig_new();
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__JobFile       file = MANTA__V1__JOB_FILE__INIT, *files[] = {&file};
    uint8_t                  sha[32] = {1};
    char                    *argv[] = {"x"};
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    r.spec = &spec;
    const char *const ids[] = {"",
                               "../x",
                               "-x",
                               ".x",
                               "a/b",
                               "a b",
                               "toolong-toolong-toolong-toolong-toolong-toolong-"
                               "toolong-toolong-"};
    spec.argv = argv;
    spec.n_argv = 1;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        spec.id = (char *)ids[i];
        assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    }
    spec.id = "ok";
    spec.n_argv = 0;
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    spec.n_argv = 1;
    spec.files = files;
    spec.n_files = 1;
    file.sha256.data = sha;
    file.sha256.len = 32;
    const char *const paths[] = {"", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", ".", "data/.", "./data/x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        file.path = (char *)paths[i];
        assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    }
    file.path = "d/train.bin"; /* a folder of one letter is one */
    file.mode = 0100644;
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    file.mode = 0644;
    char name[MT_NAME_BYTES_MAX + 1] = {0};
    spec.name = memset(name, 'n', MT_NAME_BYTES_MAX);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_EINVAL);
    name[MT_NAME_BYTES_MAX - 1] = '\0';                                                 /* the longest */
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_ENOENT); /* not uploaded */
    struct head_event blob = {.kind = HEAD_EV_BLOB_ADDED, .blob_added = {sha, 10}};
    rig_event(rig, &blob);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_OK);
    struct head_event garbage = {.kind = HEAD_EV_CALL,
                                 .call = {.number = 9999, .method = HEAD_SUBMIT, .bytes = (const uint8_t *)"\x0a\xff", .size = 2}};
    rig_event(rig, &garbage);
    assert_true(rig->replies[rig->reply_count - 1].is_refused);
    rig_free(rig);
}

/* A machine's crash may take a file that a job needs. */
static void a_file_that_was_lost_and_came_again_is_kept_for_its_job(void **unused)
{
    (void)unused;
    struct rig              *rig = rig_new();
    struct rig_node          a = {.boot = 11, .cpus = 2000};
    uint8_t                  sha[32] = {9};
    char                    *argv[] = {"prog"};
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__JobFile       file = MANTA__V1__JOB_FILE__INIT, *files[] = {&file};
    struct head_event        blob = {.kind = HEAD_EV_BLOB_ADDED, .blob_added = {sha, 10}};
    file.path = "data.bin";
    file.mode = 0644;
    file.sha256.data = sha;
    file.sha256.len = sizeof sha;
    spec.id = "j";
    spec.argv = argv;
    spec.n_argv = 1;
    spec.files = files;
    spec.n_files = 1;
    r.spec = &spec;
    rig_event(rig, &blob);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), MT_OK);
    rig_restart(rig); /* and no blob is found on the disk */
    rig_event(rig, &blob);
    rig_pass(rig, 2 * MT_HEAD_BLOB_KEEP_MS);
    assert_int_equal(head_counters(rig->head)->blob_dropped, 0);
    rig_register(rig, &a);
    rig_pass(rig, 500);
    rig_job_state(rig, &a, "j", 1, "SUCCEEDED", 0, "");
    assert_string_equal(rig_job(rig, "j", NULL), "SUCCEEDED");
    rig_free(rig);
}

/* A raylet gives a part of a device or whole ones: such a job would wait for ever. */
static void more_than_a_device_and_a_part_of_one_is_refused(void **unused)
{
    (void)unused;
    struct rig              *rig = rig_new();
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      gpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&gpu};
    char                    *argv[] = {"x"};
    const int64_t            amounts[] = {500, 1000, 1001, 1500, 2000};
    gpu.name = "GPU";
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = resources;
    spec.n_resources = 1;
    r.spec = &spec;
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        char id[16];
        snprintf(id, sizeof id, "job-%zu", i);
        spec.id = id;
        gpu.milli = amounts[i];
        assert_int_equal(submit_code(rig, rig_call(rig, HEAD_SUBMIT, &r.base)), i == 2 || i == 3 ? MT_EINVAL : MT_OK);
    }
    rig_free(rig);
}

static void what_no_node_can_hold_is_refused_at_submission(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    rig_register(rig, &a);
    assert_int_equal(submit_code(rig, rig_submit(rig, "early", 0, 64000)), MT_OK); /* nodes may still register */
    for (int i = 0; i < 5; i++) {
        rig_pass(rig, 500);
        rig_report(rig, &a, 2000, NULL, 0);
    }
    assert_string_equal(rig_job(rig, "early", NULL), "FAILED");
    uint64_t             call = rig_submit(rig, "late", 0, 64000);
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    assert_int_equal(reply->code, MT_EUNSCHEDULABLE);
    assert_string_equal(reply->text, "wants 64 CPU, the largest node (1) has 2");
    manta__v1__job_reply__free_unpacked(reply, NULL);
    assert_string_equal(rig_job(rig, "late", NULL), "");
    rig_free(rig);
}

/* The only node leaves, and takes nothing new: the job waits for the next one, as where there is none. */
static void while_all_nodes_leave_a_job_waits(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    rig_register(rig, &a);
    for (int i = 0; i < 5; i++) {
        rig_pass(rig, 500);
        rig_report(rig, &a, 2000, NULL, 0);
    }
    rig_drain(rig, &a);
    assert_int_equal(submit_code(rig, rig_submit(rig, "j", 0, 1000)), MT_OK);
    rig_pass(rig, 500);
    rig_report(rig, &a, 2000, NULL, 0);
    assert_string_equal(rig_job(rig, "j", NULL), "PENDING");
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 0);
    rig_register(rig, &b);
    assert_string_equal(rig_last(rig, b.stream, KIND(START_JOB))->start_job->spec->id, "j");
    rig_free(rig);
}

static void failures_are_retried_and_counted(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    rig_register(rig, &a);
    rig_submit(rig, "j", 1, 1000);
    rig_job_state(rig, &a, "j", 1, "RUNNING", 0, "");
    rig_log_chunk(rig, &a, "j", 1, 0, "first\n");
    rig_job_state(rig, &a, "j", 1, "FAILED", 139, "killed by SIGSEGV");
    assert_string_equal(rig_job(rig, "j", NULL), "PENDING");
    rig_pass(rig, MT_HEAD_JOB_RETRY_MS + 300);
    assert_int_equal(rig_last(rig, a.stream, KIND(START_JOB))->start_job->attempt, 2);
    rig_job_state(rig, &a, "j", 1, "RUNNING", 0, ""); /* an old word: fenced, and its driver stopped */
    assert_int_equal(rig_last(rig, a.stream, KIND(STOP_JOB))->stop_job->attempt, 1);
    assert_string_equal(rig_job(rig, "j", NULL), "PENDING");
    rig_job_state(rig, &a, "j", 2, "PENDING", 0, "no free CPU"); /* refused: costs no retry */
    rig_pass(rig, MT_HEAD_JOB_RETRY_MS + 300);
    assert_int_equal(rig_last(rig, a.stream, KIND(START_JOB))->start_job->attempt, 3);
    rig_job_state(rig, &a, "j", 3, "RUNNING", 0, "");
    rig_log_chunk(rig, &a, "j", 3, 0, "second\n");
    rig_log_chunk(rig, &a, "j", 1, 6, "stale\n");
    rig_log_chunk(rig, &a, "j", 3, 10, "tail\n"); /* three bytes never came */
    assert_string_equal(rig_log(rig, "j"), "first\nsecond\n\n[manta: 3 bytes of output were lost]\ntail\n");
    rig_job_state(rig, &a, "j", 3, "FAILED", 9, "exit 9");
    Manta__V1__JobReply *reply;
    assert_string_equal(rig_job(rig, "j", &reply), "FAILED");
    assert_int_equal(reply->job->exit_code, 9);
    assert_string_equal(reply->job->reason, "exit 9");
    manta__v1__job_reply__free_unpacked(reply, NULL);
    rig_free(rig);
}

static const char missing[] = "exited with status 127: error while loading shared libraries: libq.so: cannot open it";

static void says_unfit(struct rig *rig, const struct rig_node *node, const char *id, uint32_t attempt)
{
    Manta__V1__JobState   s = MANTA__V1__JOB_STATE__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    s.id = (char *)(uintptr_t)id;
    s.attempt = attempt;
    s.state = "FAILED";
    s.exit_code = 127;
    s.reason = (char *)(uintptr_t)missing;
    s.unfit = true;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
    m.job = &s;
    rig_say(rig, node->stream, &m);
}

static void has_failed(struct rig *rig, const char *id, uint32_t attempt)
{
    Manta__V1__JobReply *reply;
    assert_string_equal(rig_job(rig, id, &reply), "FAILED");
    assert_int_equal(reply->job->exit_code, 127);
    assert_int_equal(reply->job->attempt, attempt);
    assert_string_equal(reply->job->reason, missing);
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

/* The only node can't run its program: no retry would help. Another that is full just now is waited for. */
static void a_program_that_a_node_cannot_run_is_not_tried_there_again(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 1000};
    rig_register(rig, &a);
    rig_submit(rig, "alone", 5, 1000);
    rig_job_state(rig, &a, "alone", 1, "RUNNING", 0, "");
    says_unfit(rig, &a, "alone", 1);
    has_failed(rig, "alone", 1);

    rig_submit(rig, "twice", 5, 1000);
    rig_submit(rig, "beside", 0, 1000);
    rig_register(rig, &b);
    rig_submit(rig, "fills", 0, 1000);
    assert_string_equal(rig_last(rig, b.stream, KIND(START_JOB))->start_job->spec->id, "fills");
    rig_job_state(rig, &b, "fills", 1, "RUNNING", 0, "");
    says_unfit(rig, &a, "twice", 1);
    rig_pass(rig, 2 * MT_HEAD_JOB_RETRY_MS);
    assert_string_equal(rig_job(rig, "twice", NULL), "PENDING"); /* though the first node has room */
    rig_job_state(rig, &b, "fills", 1, "SUCCEEDED", 0, "");
    rig_pass(rig, 300);
    assert_string_equal(rig_last(rig, b.stream, KIND(START_JOB))->start_job->spec->id, "twice");
    assert_int_equal(rig_last(rig, b.stream, KIND(START_JOB))->start_job->attempt, 2);
    says_unfit(rig, &b, "twice", 2);
    has_failed(rig, "twice", 2);
    rig_free(rig);
}

/* Where so many nodes can't, it is the program. */
static void a_program_that_four_nodes_cannot_run_is_given_up(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node nodes[MT_RLT_SHUNNED_MAX + 1];
    bool            was_tried[MT_RLT_SHUNNED_MAX + 1] = {false};
    for (uint32_t i = 0; i <= MT_RLT_SHUNNED_MAX; i++) {
        nodes[i] = (struct rig_node){.boot = 11 + i, .cpus = 1000};
        rig_register(rig, &nodes[i]);
    }
    rig_submit(rig, "j", UINT32_MAX, 1000);
    for (uint32_t attempt = 1; attempt <= MT_RLT_SHUNNED_MAX; attempt++) {
        uint32_t at = 0;
        while (at <= MT_RLT_SHUNNED_MAX && (was_tried[at] || !rig_count(rig, nodes[at].stream, KIND(START_JOB))))
            at++;
        assert_true(at <= MT_RLT_SHUNNED_MAX);
        was_tried[at] = true;
        says_unfit(rig, &nodes[at], "j", attempt);
        for (uint32_t i = 0; i <= MT_RLT_SHUNNED_MAX; i++)
            rig_report(rig, &nodes[i], 1000, NULL, 0);
        rig_pass(rig, MT_HEAD_JOB_RETRY_MS + 300);
    }
    has_failed(rig, "j", MT_RLT_SHUNNED_MAX);
    rig_free(rig);
}

static void a_lost_node_costs_its_jobs_an_attempt(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    rig_register(rig, &a);
    rig_submit(rig, "j", 1, 1000);
    rig_submit(rig, "none", 0, 500);
    rig_job_state(rig, &a, "j", 1, "RUNNING", 0, "");
    rig_register(rig, &b);
    a.boot = 99; /* the raylet was restarted: a new epoch at once */
    rig_register(rig, &a);
    assert_string_equal(rig_job(rig, "j", NULL), "PENDING");
    assert_string_equal(rig_job(rig, "none", NULL), "FAILED");
    rig_pass(rig, MT_HEAD_JOB_RETRY_MS + 300);
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)) + rig_count(rig, b.stream, KIND(START_JOB)), 1);
    rig_free(rig);
}

/* Only an ended job may be deleted; then it is unknown, to every later head too, and its id may be used again. */
static void deletes(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    struct rig_node       a = {.boot = 11, .cpus = 1000};
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    rig_register(rig, &a);
    rig_submit(rig, "j", 0, 1000);
    rig_job_state(rig, &a, "j", 1, "RUNNING", 0, "");
    r.id = "j";
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_DELETE_JOB, &r.base)), MT_EINVAL);
    assert_string_equal(rig_job(rig, "j", NULL), "RUNNING");
    rig_job_state(rig, &a, "j", 1, "SUCCEEDED", 0, "");
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_DELETE_JOB, &r.base)), MT_OK);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_DELETE_JOB, &r.base)), MT_ENOENT);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_GET_JOB, &r.base)), MT_ENOENT);
    rig_job_state(rig, &a, "j", 1, "SUCCEEDED", 0, ""); /* a raylet that did not hear the acknowledgement */
    rig_restart(rig);
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_GET_JOB, &r.base)), MT_ENOENT);
    rig_submit(rig, "j", 0, 1000);
    assert_string_equal(rig_job(rig, "j", NULL), "PENDING");
    rig_free(rig);
}

static void stops(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    struct rig_node       a = {.boot = 11, .cpus = 1000};
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    rig_submit(rig, "early", 3, 1000);
    r.id = "early";
    rig_call(rig, HEAD_STOP_JOB, &r.base);
    assert_string_equal(rig_job(rig, "early", NULL), "STOPPED");
    rig_register(rig, &a);
    rig_submit(rig, "j", 3, 1000);
    rig_job_state(rig, &a, "j", 1, "RUNNING", 0, "");
    r.id = "j";
    rig_call(rig, HEAD_STOP_JOB, &r.base);
    rig_call(rig, HEAD_STOP_JOB, &r.base);
    assert_int_equal(rig_count(rig, a.stream, KIND(STOP_JOB)), 1);
    rig_close(rig, a.stream); /* the order may have been lost */
    rig_register(rig, &a);
    assert_int_equal(rig_count(rig, a.stream, KIND(STOP_JOB)), 1);
    rig_job_state(rig, &a, "j", 1, "FAILED", 143, "killed by SIGTERM"); /* no retry of what was stopped */
    assert_string_equal(rig_job(rig, "j", NULL), "STOPPED");
    r.id = "unknown";
    assert_int_equal(submit_code(rig, rig_call(rig, HEAD_STOP_JOB, &r.base)), MT_ENOENT);
    rig_free(rig);
}

static void waits_are_answered_by_the_end_or_the_limit(void **unused)
{
    (void)unused;
    struct rig               *rig = rig_new();
    struct rig_node           a = {.boot = 11, .cpus = 1000};
    Manta__V1__WaitJobRequest r = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    rig_register(rig, &a);
    rig_submit(rig, "j", 0, 1000);
    r.id = "j";
    r.wait_ms = 300;
    uint64_t first = rig_call(rig, HEAD_WAIT_JOB, &r.base);
    assert_int_equal(submit_code(rig, first), -1);
    rig_pass(rig, 301);
    assert_int_equal(submit_code(rig, first), MT_OK);
    r.wait_ms = 50000;
    uint64_t          second = rig_call(rig, HEAD_WAIT_JOB, &r.base), third = rig_call(rig, HEAD_WAIT_JOB, &r.base);
    struct head_event gone = {.kind = HEAD_EV_CALL_GONE, .call_gone = {third}};
    rig_event(rig, &gone);
    rig_job_state(rig, &a, "j", 1, "SUCCEEDED", 0, "");
    assert_int_equal(submit_code(rig, second), MT_OK);
    assert_int_equal(submit_code(rig, third), -1);
    rig_free(rig);
}

static void ended_jobs_and_unneeded_blobs_go(void **unused)
{
    (void)unused;
    struct rig       *rig = rig_new();
    uint8_t           sha[32] = {1};
    struct head_event blob = {.kind = HEAD_EV_BLOB_ADDED, .blob_added = {sha, 10}};
    rig_event(rig, &blob);
    assert_int_equal(head_blob_admit(rig->head, sha, 10).code, MT_EEXIST);
    for (int i = 0; i < 8 * 3600; i++) {
        rig->now_ms += 500;
        struct head_event tick = {.kind = HEAD_EV_TICK};
        rig_event(rig, &tick);
    }
    assert_int_equal(head_counters(rig->head)->blob_dropped, 1);
    assert_int_equal(head_blob_admit(rig->head, sha, 10).code, MT_OK);
    rig_free(rig);
}

static void blobs_are_bounded(void **unused)
{
    (void)unused;
    struct rig *rig = rig_new();
    uint8_t     sha[32] = {1};
    for (uint32_t i = 0; i < MT_HEAD_BLOBS_MAX; i++) {
        memcpy(sha + 1, &i, sizeof i);
        assert_int_equal(head_blob_admit(rig->head, sha, 1).code, MT_OK);
        assert_int_equal(head_load_blob(rig->head, sha, 1).code, MT_OK);
    }
    assert_int_equal(head_blob_admit(rig->head, sha, 1).code, MT_EEXIST);
    sha[0] = 2;
    assert_int_equal(head_blob_admit(rig->head, sha, 1).code, MT_EAGAIN);
    rig_free(rig);
}

/* ---- restarts ---- */

static void a_restarted_head_goes_on(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    uint64_t        epoch = head_epoch(rig->head);
    rig_register(rig, &a);
    rig_submit(rig, "runs", 0, 1000);
    rig_job_state(rig, &a, "runs", 1, "RUNNING", 0, "");
    rig_log_chunk(rig, &a, "runs", 1, 0, "one\n");
    rig_submit(rig, "starts", 0, 1000);
    rig_submit(rig, "waits", 0, 1000);
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 2);
    assert_int_equal(rig_name(rig, &a, 1, 1, "n", 5, 6, a.node, NULL), MT_OK);
    rig_restart(rig);
    assert_int_equal(head_epoch(rig->head), epoch + 1);
    assert_string_equal(rig_job(rig, "runs", NULL), "RUNNING");
    assert_string_equal(rig_job(rig, "starts", NULL), "PENDING");
    rig_forget(rig);
    rig_register(rig, &a);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 1); /* what it may not have heard is said again */
    assert_string_equal(rig_last(rig, a.stream, KIND(START_JOB))->start_job->spec->id, "starts");
    Manta__V1__LogAck *ack = NULL;
    for (size_t i = 0; i < rig->sent_count; i++)
        if (rig->sent[i].message->kind_case == KIND(LOG_ACK) && !strcmp(rig->sent[i].message->log_ack->id, "runs"))
            ack = rig->sent[i].message->log_ack;
    assert_non_null(ack);
    assert_int_equal(ack->offset, 4); /* the raylet goes on there */
    rig_log_chunk(rig, &a, "runs", 1, 4, "two\n");
    assert_string_equal(rig_log(rig, "runs"), "one\ntwo\n");
    assert_int_equal(rig_name(rig, &a, 2, 2, "n", 0, 0, 0, NULL), MT_OK);
    rig_register(rig, &b);
    assert_int_equal(b.node, 2);
    rig_job_state(rig, &a, "runs", 1, "SUCCEEDED", 0, "");
    assert_string_equal(rig_job(rig, "runs", NULL), "SUCCEEDED");
    rig_restart(rig); /* a does not come back this time: after ten seconds it is dead */
    rig_register(rig, &b);
    for (int i = 0; i < 21; i++) {
        rig_pass(rig, 500);
        rig_report(rig, &b, 2000, NULL, 0);
    }
    assert_string_equal(rig_job(rig, "starts", NULL), "FAILED");
    assert_int_equal(rig_name(rig, &b, 3, 2, "n", 0, 0, 0, NULL), MT_ENOENT);
    rig_free(rig);
}

/* A client and a raylet that repeat what was not answered, as the real ones do. Each says whether it is done. */
struct scene {
    struct rig     *rig;
    struct rig_node node;
    uint32_t        runs_attempt; /* the raylet's own truth: which attempt it has started */
    uint32_t        starts;
    bool            is_submitted, is_named, has_failed_once;
    const char     *state; /* what the raylet reports until it is acknowledged */
};

static void scene_raylet(struct scene *s)
{
    struct rig            *rig = s->rig;
    Manta__V1__HeadToNode *start = rig_last(rig, s->node.stream, KIND(START_JOB));
    if (start && start->start_job->attempt > s->runs_attempt) {
        s->runs_attempt = start->start_job->attempt;
        s->starts++;
        s->state = "RUNNING";
    }
    Manta__V1__HeadToNode *ack = rig_last(rig, s->node.stream, KIND(JOB_ACK));
    if (ack && s->state && ack->job_ack->attempt == s->runs_attempt && strcmp(ack->job_ack->state, s->state) == 0) {
        if (strcmp(s->state, "RUNNING") == 0) {
            s->state = s->has_failed_once ? "SUCCEEDED" : "FAILED";
            s->has_failed_once = true;
        } else {
            s->state = NULL;
        }
    }
    if (s->state)
        rig_job_state(rig, &s->node, "j", s->runs_attempt, s->state, strcmp(s->state, "FAILED") == 0, "");
}

/* One round of everybody's tries; true once all has been acknowledged. */
static bool scene_round(struct scene *s)
{
    struct rig *rig = s->rig;
    if (rig->has_crashed) {
        rig_restart(rig);
        rig_forget(rig);
        if (!rig->has_crashed)
            rig_register(rig, &s->node);
    }
    if (!rig->has_crashed && s->node.node == 0)
        rig_register(rig, &s->node);
    if (!rig->has_crashed && !s->is_submitted)
        s->is_submitted = submit_code(rig, rig_submit(rig, "j", 1, 1000)) == MT_OK;
    if (!rig->has_crashed && !s->is_named)
        s->is_named = rig_name(rig, &s->node, 1, 1, "n", 50, 60, s->node.node, NULL) == MT_OK;
    if (!rig->has_crashed)
        scene_raylet(s);
    rig_pass(rig, 100);
    if (!rig->has_crashed)
        rig_report(rig, &s->node, 1000, NULL, 0);
    if (rig->has_crashed)
        return false;
    if (s->is_submitted)
        assert_string_not_equal(rig_job(rig, "j", NULL), ""); /* what was acknowledged is there */
    if (s->is_named)
        assert_int_equal(rig_name(rig, &s->node, 1000 + rig->now_ms, 2, "n", 0, 0, 0, NULL), MT_OK);
    return s->is_submitted && s->is_named && strcmp(rig_job(rig, "j", NULL), "SUCCEEDED") == 0 && !s->state;
}

static uint64_t scene_run(uint64_t crash_at, enum rig_crash crash)
{
    struct scene s = {.rig = rig_new(), .node = {.boot = 11, .cpus = 1000}};
    uint64_t     first_epoch = head_epoch(s.rig->head);
    s.rig->crash_at = crash_at;
    s.rig->crash = crash;
    int rounds = 0;
    while (!scene_round(&s))
        assert_true(++rounds < 100);
    assert_int_equal(s.node.node, 1);
    assert_int_equal(s.starts, 2); /* the first attempt and its one retry: no crash makes a third */
    assert_int_equal(s.runs_attempt, 2);
    if (crash != RIG_NO_CRASH && crash_at <= s.rig->batches)
        assert_int_equal(head_epoch(s.rig->head), first_epoch + 1);
    uint64_t batches = s.rig->batches;
    rig_free(s.rig);
    return batches;
}

static void a_crash_at_each_store_write_loses_nothing(void **unused)
{
    (void)unused;
    uint64_t batches = scene_run(0, RIG_NO_CRASH);
    assert_true(batches >= 7); /* start, node, submit, start of the job, running, failed, ... */
    for (uint64_t at = 2; at <= batches; at++) {
        scene_run(at, RIG_BEFORE_WRITE);
        scene_run(at, RIG_AFTER_WRITE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_from_submit_to_success),
        cmocka_unit_test(bad_jobs_are_refused_with_a_reason),
        cmocka_unit_test(more_than_a_device_and_a_part_of_one_is_refused),
        cmocka_unit_test(what_no_node_can_hold_is_refused_at_submission),
        cmocka_unit_test(while_all_nodes_leave_a_job_waits),
        cmocka_unit_test(a_file_that_was_lost_and_came_again_is_kept_for_its_job),
        cmocka_unit_test(failures_are_retried_and_counted),
        cmocka_unit_test(a_program_that_a_node_cannot_run_is_not_tried_there_again),
        cmocka_unit_test(a_program_that_four_nodes_cannot_run_is_given_up),
        cmocka_unit_test(a_lost_node_costs_its_jobs_an_attempt),
        cmocka_unit_test(stops),
        cmocka_unit_test(deletes),
        cmocka_unit_test(waits_are_answered_by_the_end_or_the_limit),
        cmocka_unit_test(ended_jobs_and_unneeded_blobs_go),
        cmocka_unit_test(blobs_are_bounded),
        cmocka_unit_test(a_restarted_head_goes_on),
        cmocka_unit_test(a_crash_at_each_store_write_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * submit_test.c - submitted jobs that wait on a node for the end of others: when they go, when they go back. The node has 2 CPUs.
 */
#include "tests/unit/raylet/core_rig.h"

#include <signal.h>

static void order(Manta__V1__HeadToNode *m, int kind)
{
    m->kind_case = kind;
    head_says(m);
}

static void start_of(const char *id, uint32_t attempt, uint32_t wait_ms, int64_t cpus)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__StartJob   s = MANTA__V1__START_JOB__INIT;
    Manta__V1__JobSpec    spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = cpus;
    spec.id = (char *)(uintptr_t)id;
    spec.n_resources = 1;
    spec.resources = resources;
    s.spec = &spec;
    s.attempt = attempt;
    s.wait_ms = wait_ms;
    m.start_job = &s;
    order(&m, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB);
}

static void start(const char *id, uint32_t attempt, uint32_t wait_ms)
{
    start_of(id, attempt, wait_ms, 1000);
}

/* The last word on a job that goes to the head now; NULL: none. */
static const char *said(const char *id)
{
    const char              *word = NULL;
    const struct rlt_action *a;
    for (int i = 0; (a = action(RLT_A_HEAD_SEND, i)); i++) {
        const Manta__V1__NodeToHead *m = a->head_send.message;
        if (m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_JOB && strcmp(m->job->id, id) == 0)
            word = m->job->state;
    }
    return word;
}

static const char *gone(void)
{
    return action(RLT_A_JOB_GO, 0) ? action(RLT_A_JOB_GO, 0)->job_go.id : NULL;
}

static void started(const char *id, int32_t pid)
{
    step((struct rlt_event){.kind = RLT_EV_JOB_STARTED, .job_started = {.id = id, .pid = pid}});
    assert_string_equal(said(id), "RUNNING");
}

static void ends(const char *id)
{
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = id}});
    assert_string_equal(said(id), "SUCCEEDED");
}

/* Two run, `third` and `fourth` wait. */
static void two_run_and_two_wait(void)
{
    begin(true);
    registered(7, 1);
    start("first", 1, 2000); /* there is room: it begins at once */
    assert_false(action(RLT_A_JOB_START, 0)->job_start.waits);
    start("second", 1, 0);
    started("first", 101);
    started("second", 102);
    start("third", 1, 2000);
    assert_true(action(RLT_A_JOB_START, 0)->job_start.waits); /* its files come meanwhile */
    assert_null(said("third"));
    start("fourth", 1, 2000);
    start("fifth", 1, 0);
    assert_string_equal(said("fifth"), "PENDING");
    assert_null(action(RLT_A_JOB_START, 0));
}

static void the_next_goes_in_the_step_in_which_one_ends(void **state)
{
    (void)state;
    two_run_and_two_wait();
    ends("second");
    assert_string_equal(gone(), "third");
    assert_null(action(RLT_A_JOB_GO, 1)); /* there is room for one only */
    start("third", 1, 2000);              /* said again: it is known */
    assert_null(action(RLT_A_JOB_START, 0));
    started("third", 103);
    ends("first");
    assert_string_equal(gone(), "fourth");
    started("fourth", 104);
    ends("third");
    ends("fourth");
    assert_null(gone());
    start("sixth", 1, 2000);
    assert_false(action(RLT_A_JOB_START, 0)->job_start.waits);
}

/* Where many wait the node has enough to do, so words on jobs travel together: none is lost, and none comes before another on the
 * same job. */
static void many_words_travel_together(void **state)
{
    static const char *const ids[] = {"w0", "w1", "w2", "w3", "w4", "w5"};
    (void)state;
    two_run_and_two_wait();
    for (int i = 0; i < 6; i++)
        start(ids[i], 1, 2000);
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "first"}});
    assert_string_equal(gone(), "third"); /* for which nobody is waited */
    assert_null(said("first"));
    step((struct rlt_event){.kind = RLT_EV_JOB_STARTED, .job_started = {.id = "third", .pid = 103}});
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "third"}});
    assert_null(said("third"));
    now += (MT_RLT_WORDS_MS + 1) * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_string_equal(said("first"), "SUCCEEDED");
    assert_string_equal(said("third"), "SUCCEEDED");
    uint32_t running = 0;
    for (int i = 0; action(RLT_A_HEAD_SEND, i); i++) {
        const Manta__V1__NodeToHead *m = action(RLT_A_HEAD_SEND, i)->head_send.message;
        running += m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_JOB && strcmp(m->job->state, "RUNNING") == 0;
    }
    assert_int_equal(running, 1); /* of the third, before its end */
    ends("second");               /* fewer wait now */
    assert_string_equal(gone(), "w0");
    started("fourth", 104);
}

/* The signal that goes to a job's driver now; 0: none. */
static int signalled(void)
{
    return action(RLT_A_JOB_KILL, 0) ? action(RLT_A_JOB_KILL, 0)->job_kill.signal : 0;
}

static int signal_at(uint64_t ms)
{
    now += ms * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    return signalled();
}

static void with_notice(const char *id, uint64_t time_ms)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__StartJob   s = MANTA__V1__START_JOB__INIT;
    Manta__V1__JobSpec    spec = MANTA__V1__JOB_SPEC__INIT;
    spec.id = (char *)(uintptr_t)id;
    spec.time_ms = time_ms;
    spec.signal = SIGUSR1;
    spec.notice_ms = 2000;
    s.spec = &spec;
    s.attempt = 1;
    m.start_job = &s;
    order(&m, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB);
}

static void stop_it(const char *id, uint32_t preempt_ms)
{
    Manta__V1__HeadToNode   m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__StopJobOrder stop = MANTA__V1__STOP_JOB_ORDER__INIT;
    stop.id = (char *)(uintptr_t)id;
    stop.attempt = 1;
    stop.reason = "so it is";
    stop.preempt_ms = preempt_ms;
    m.stop_job = &stop;
    order(&m, MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB);
}

/* Its own notice, once, in time: before its time is up, before its node goes, and when it is to make room. */
static void a_notice_comes_before_the_end(void **state)
{
    (void)state;
    begin(true);
    registered(7, 1);
    with_notice("timed", 5000);
    assert_int_equal(signal_at(100), 0);
    started("timed", 101);
    assert_int_equal(signal_at(2800), 0);
    assert_int_equal(signal_at(150), SIGUSR1);
    assert_int_equal(signal_at(1800), 0);
    assert_int_equal(signal_at(200), SIGTERM);
    assert_int_equal(signal_at(5000), SIGKILL);
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "timed", .status = SIGKILL}});
    assert_string_equal(said("timed"), "FAILED");

    with_notice("sent", 0);
    started("sent", 102);
    stop_it("sent", 2000);
    assert_int_equal(signalled(), SIGUSR1);
    stop_it("sent", 2000); /* said again */
    assert_int_equal(signalled(), 0);
    assert_int_equal(signal_at(1900), 0);
    assert_int_equal(signal_at(200), SIGKILL);
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "sent", .status = SIGKILL}});
    assert_string_equal(said("sent"), "PREEMPTED");

    with_notice("stopped", 0);
    started("stopped", 103);
    stop_it("stopped", 0); /* for good, as any other */
    assert_int_equal(signalled(), SIGTERM);
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "stopped", .status = SIGTERM}});

    with_notice("leaves", 0);
    started("leaves", 104);
    step((struct rlt_event){.kind = RLT_EV_NOTICE, .notice = {.limit_ms = 10000, .why = "the machine goes"}});
    assert_int_equal(signal_at(7900), 0);
    assert_int_equal(signal_at(200), SIGUSR1);
    assert_int_equal(signal_at(1000), 0);
}

/* What was to come for a job that has ended does not: its end waits with others, for what they have cost is known with them. */
static void nothing_is_due_for_a_job_that_has_ended(void **state)
{
    (void)state;
    two_run_and_two_wait();
    for (int i = 0; i < 6; i++)
        start((const char *const[]){"w0", "w1", "w2", "w3", "w4", "w5"}[i], 1, 2000);
    stop_it("first", MT_RLT_WORDS_MS / 2); /* from then on it would be killed */
    step((struct rlt_event){.kind = RLT_EV_JOB_EXITED, .job_exited = {.id = "first"}});
    assert_string_equal(gone(), "third");
    assert_int_equal(signal_at(MT_RLT_WORDS_MS / 2 + 1), 0);
    assert_null(said("first"));
    assert_int_equal(signal_at(MT_RLT_WORDS_MS / 2), 0);
    assert_string_equal(said("first"), "SUCCEEDED"); /* it has used the time */
}

static void who_waits_too_long_goes_back(void **state)
{
    (void)state;
    two_run_and_two_wait();
    now += 2100 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_string_equal(said("third"), "PENDING");
    assert_string_equal(said("fourth"), "PENDING");
    assert_non_null(action(RLT_A_JOB_FORGET, 1));
    ends("first");
    assert_null(gone());
    start("third", 2, 0); /* the head tries again */
    assert_false(action(RLT_A_JOB_START, 0)->job_start.waits);
}

static void who_waits_can_be_stopped(void **state)
{
    Manta__V1__HeadToNode   m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__StopJobOrder stop = MANTA__V1__STOP_JOB_ORDER__INIT;
    (void)state;
    two_run_and_two_wait();
    stop.id = "third";
    stop.attempt = 1;
    stop.reason = "stopped on request";
    m.stop_job = &stop;
    order(&m, MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB);
    assert_int_equal(action(RLT_A_JOB_KILL, 0)->job_kill.signal, SIGTERM);
    ends("first");
    assert_string_equal(gone(), "fourth"); /* that one's turn is over */
    step((struct rlt_event){.kind = RLT_EV_JOB_FAILED, .job_failed = {.id = "third", .why = "stopped"}});
    assert_string_equal(said("third"), "STOPPED");
    started("fourth", 104);
    ends("second");
    ends("fourth");
    assert_null(gone());
}

static void a_node_that_leaves_begins_none_of_them(void **state)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__DrainOrder drain = MANTA__V1__DRAIN_ORDER__INIT;
    (void)state;
    two_run_and_two_wait();
    drain.epoch = 1;
    drain.limit_ms = 60000;
    m.drain = &drain;
    order(&m, MANTA__V1__HEAD_TO_NODE__KIND_DRAIN);
    ends("first");
    assert_null(gone());
    assert_string_equal(said("third"), "PENDING");
    assert_string_equal(said("fourth"), "PENDING");
}

/* The head takes a job that wants none of something, so it has its place here too. */
static void none_of_a_resource_is_nothing_to_ask_for(void **state)
{
    (void)state;
    begin(true);
    registered(7, 1);
    start_of("none", 1, 0, 0);
    assert_non_null(action(RLT_A_JOB_START, 0));
    assert_null(said("none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_next_goes_in_the_step_in_which_one_ends, end),
        cmocka_unit_test_teardown(many_words_travel_together, end),
        cmocka_unit_test_teardown(a_notice_comes_before_the_end, end),
        cmocka_unit_test_teardown(nothing_is_due_for_a_job_that_has_ended, end),
        cmocka_unit_test_teardown(who_waits_too_long_goes_back, end),
        cmocka_unit_test_teardown(who_waits_can_be_stopped, end),
        cmocka_unit_test_teardown(a_node_that_leaves_begins_none_of_them, end),
        cmocka_unit_test_teardown(none_of_a_resource_is_nothing_to_ask_for, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * core_test.c - the raylet's logic by itself: events in, actions looked at. (tests/sim drives it through faults.)
 */
#include "tests/unit/raylet/core_rig.h"
#include "core/base/limits/head.h"

#include <signal.h>

/* ---- greetings ---- */

static void a_greeting_that_is_wrong_is_refused(void **state)
{
    struct greeting bad[8];
    int             codes[8] = {MT_EVERSION, MT_EVERSION, MT_EPROTO, MT_EPROTO, MT_EPROTO, MT_EPROTO, MT_EPROTO, -1};
    (void)state;
    begin(false);
    for (int i = 0; i < 8; i++)
        bad[i] = greeting(CTL_DRIVER, 100);
    bad[0].hello.version_min = mt_release.wire.max + 1, bad[0].hello.version_max = 9;
    bad[1].hello.version_max = mt_release.wire.min - 1;
    bad[2].hello.process = 0;
    bad[3].hello.job = 0;
    bad[4].hello.strings_size = 10; /* one short */
    bad[5].hello.argc = 2;          /* one text too few */
    bad[6].hello.role = CTL_WORKER; /* nobody forked it */
    bad[6].hello.strings_size = 0;
    bad[7].hello.magic = 1;
    for (int i = 0; i < 8; i++) {
        step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = DRIVER, .pid = 9}});
        greet(DRIVER, &bad[i], PROGRAM_FD);
        assert_int_equal(welcome_code(), codes[i]);
        assert_non_null(action(RLT_A_CLOSE, 0));
        assert_non_null(action(RLT_A_CLOSE_FD, 0)); /* what it brought is not kept */
        assert_null(action(RLT_A_SPAWN_ZYGOTE, 0));
    }
    step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = DRIVER, .pid = 9}});
    now += 30 * 1000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(action(RLT_A_CLOSE, 0)); /* it, or we, had no CPU */
    now += 31 * 1000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_non_null(action(RLT_A_CLOSE, 0)); /* one that says nothing */
    driver_begins();
    struct greeting again = greeting(CTL_DRIVER, 101);
    step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = 2, .pid = 9}});
    greet(2, &again, PROGRAM_FD);
    assert_int_equal(welcome_code(), MT_EPROTO); /* the job's number is in use */
}

/* However the driver of a private raylet ends: without a word, by a broken ring, or as drivers do. */
static void a_private_raylet_ends_with_its_driver(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        begin_as((struct rlt_config){.is_private = true, .node = 1, .epoch = 1});
        if (way == 0)
            step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = DRIVER, .pid = 9}});
        else
            driver_begins();
        step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = 2, .pid = 8}}); /* a guest, who ends nothing */
        step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = 2}});
        assert_null(action(RLT_A_EXIT, 0));
        if (way == 0) {
            now += 61 * 1000 * MS;
            step((struct rlt_event){.kind = RLT_EV_TICK});
        } else {
            step(way == 1 ? (struct rlt_event){.kind = RLT_EV_UP_BROKEN, .up_broken = {.conn = DRIVER}}
                          : (struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = DRIVER}});
        }
        assert_non_null(action(RLT_A_EXIT, 0));
        end(state);
    }
}

static void a_zygote_that_dies_three_times_is_enough(void **state)
{
    (void)state;
    begin(false);
    driver_begins();
    define(1, 1000, 0);
    demand(1, 1);
    for (int i = 0; i < 3; i++) {
        step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = zygote, .has_status = true, .status = 7 << 8}});
        const struct rlt_action *again = action(RLT_A_SPAWN_ZYGOTE, 0);
        if (i < 2) {
            assert_non_null(again);
            zygote = again->spawn_zygote.conn;
            step((struct rlt_event){.kind = RLT_EV_SPAWNED, .spawned = {.conn = zygote, .pid = 11 + i}});
        } else {
            assert_null(again);
        }
    }
    const struct ctl_unschedulable *told = down(DRIVER, CTL_UNSCHEDULABLE);
    assert_non_null(told);
    assert_non_null(strstr(told->text, "status 7"));
    demand(1, 2);
    assert_non_null(down(DRIVER, CTL_UNSCHEDULABLE));
    assert_null(action(RLT_A_SPAWN_ZYGOTE, 0));
}

/* What a program does before manta_init may take its time. When it has taken a minute, who waits is told, and it is not tried
 * again. */
static void a_zygote_that_does_not_greet_is_told_of(void **state)
{
    (void)state;
    begin(false);
    driver_begins();
    define(1, 1000, 0);
    demand(1, 1);
    now += 59000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(action(RLT_A_KILL, 0));
    now += 2000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_int_equal(action(RLT_A_KILL, 0)->kill.conn, zygote);
    step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = zygote, .has_status = true, .status = SIGKILL}});
    const struct ctl_unschedulable *told = down(DRIVER, CTL_UNSCHEDULABLE);
    assert_non_null(told);
    assert_non_null(strstr(told->text, "has not called manta_init 60 s after its start"));
    assert_null(action(RLT_A_SPAWN_ZYGOTE, 0));
}

/* One kill is one failure, however many workers had been asked of the zygote just then. */
static void a_zygote_that_is_killed_while_it_forks_is_started_again(void **state)
{
    struct greeting g = greeting(CTL_ZYGOTE, 200);
    (void)state;
    begin(false);
    driver_begins();
    define(1, 400, 0);
    demand(1, 5);
    greet(zygote, &g, -1);
    uint64_t forks[5];
    for (int i = 0; i < 5; i++) {
        assert_non_null(action(RLT_A_FORK, i));
        forks[i] = action(RLT_A_FORK, i)->fork.worker;
    }
    for (int i = 0; i < 5; i++) /* it held their sockets */
        step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = forks[i]}});
    step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = zygote, .has_status = true, .status = 9}});
    step((struct rlt_event){.kind = RLT_EV_TICK}); /* at once: no status of the five will come any more */
    assert_null(down(DRIVER, CTL_UNSCHEDULABLE));
    assert_non_null(action(RLT_A_SPAWN_ZYGOTE, 0));
    zygote = action(RLT_A_SPAWN_ZYGOTE, 0)->spawn_zygote.conn;
    step((struct rlt_event){.kind = RLT_EV_SPAWNED, .spawned = {.conn = zygote, .pid = 11}});
    g = greeting(CTL_ZYGOTE, 201);
    greet(zygote, &g, -1);
    assert_non_null(action(RLT_A_FORK, 4)); /* as many as before, of the new one */
    assert_int_equal(action(RLT_A_FORK, 4)->fork.zygote, zygote);
}

/* Its socket is closed, and how it ended is not known yet. */
static void a_zygote_that_has_gone_is_asked_for_no_fork(void **state)
{
    struct greeting g = greeting(CTL_ZYGOTE, 200);
    (void)state;
    begin(false);
    driver_begins();
    define(1, 400, 0);
    greet(zygote, &g, -1);
    step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = zygote}});
    demand(1, 5);
    assert_null(action(RLT_A_FORK, 0));
    step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = zygote, .has_status = true, .status = 9}});
    assert_non_null(action(RLT_A_SPAWN_ZYGOTE, 0));
}

/* ---- leases ---- */

static void the_newest_level_wins(void **state)
{
    (void)state;
    begin(false);
    job_begins();
    define(1, 1000, 0);
    demand(1, 1);
    uint64_t          lease = granted_lease();
    struct ctl_demand old = {.class_id = 1, .wanted = 9, .version = 1}, unknown = {.class_id = 5, .wanted = 1, .version = 99};
    up(DRIVER, CTL_DEMAND, (mt_id){0, 0}, &old, sizeof old);
    assert_int_equal(out.count, 0);
    up(DRIVER, CTL_DEMAND, (mt_id){0, 0}, &unknown, sizeof unknown);
    assert_int_equal(out.count, 0);
    demand(1, 2);
    granted_lease();
    demand(1, 5); /* no more CPUs: it waits */
    assert_null(down(DRIVER, CTL_GRANT));
    demand(1, 1);
    assert_non_null(action(RLT_A_LANE_RECALL, 0));
    assert_int_not_equal(action(RLT_A_LANE_RECALL, 0)->lane_recall.lane, lease); /* the youngest goes */
    assert_non_null(down(DRIVER, CTL_RECALL));
    assert_non_null(down(workers[0], CTL_RECALL) ? down(workers[0], CTL_RECALL) : down(workers[1], CTL_RECALL));
}

/* Two CPUs. A task waits, another lease is granted in its place, and the first goes on: three run where two may. */
static void what_began_in_a_waiting_tasks_place_is_asked_back_when_it_goes_on(void **state)
{
    (void)state;
    begin(false);
    job_begins();
    define(1, 1000, 0);
    demand(1, 3);
    up(workers[0], CTL_BLOCKED, (mt_id){0, 0}, NULL, 0);
    const struct rlt_action *fork = action(RLT_A_FORK, 0);
    assert_non_null(fork);
    uint64_t        third = fork->fork.worker;
    struct greeting g = greeting(CTL_WORKER, 310);
    greet(third, &g, -1);
    forked(third, 30);
    up(workers[0], CTL_UNBLOCKED, (mt_id){0, 0}, NULL, 0);
    assert_null(action(RLT_A_LANE_RECALL, 0)); /* it has had no time to begin anything */
    now += MT_RLT_OVER_NS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    const struct rlt_action *recall = action(RLT_A_LANE_RECALL, 0);
    assert_non_null(recall);
    assert_null(action(RLT_A_LANE_RECALL, 1));
    assert_int_equal(recall->lane_recall.worker, third);
    uint64_t lease = recall->lane_recall.lane;
    up(third, CTL_DRAINED, (mt_id){0, 0}, &(struct ctl_lease){lease}, sizeof(struct ctl_lease));
    now += 10 * MT_RLT_OVER_NS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(action(RLT_A_LANE_RECALL, 0)); /* two run */
    assert_null(down(DRIVER, CTL_GRANT));
}

/* The lease that is asked back for another class may run something long; the other one may have nothing to do. */
static void a_recalled_lease_that_does_not_come_is_not_waited_for(void **state)
{
    (void)state;
    begin(false);
    job_begins();
    define(1, 1000, 0);
    demand(1, 1);
    uint64_t older = granted_lease();
    demand(1, 2);
    uint64_t younger = granted_lease();
    demand(1, 1);
    assert_int_equal(action(RLT_A_LANE_RECALL, 0)->lane_recall.lane, younger);
    define(2, 1000, 0);
    demand(2, 1);
    for (int i = 0; i < 3 && !action(RLT_A_LANE_RECALL, 0); i++) {
        now += MT_RLT_SLICE_MS * MS;
        step((struct rlt_event){.kind = RLT_EV_TICK});
    }
    assert_non_null(action(RLT_A_LANE_RECALL, 0));
    assert_int_equal(action(RLT_A_LANE_RECALL, 0)->lane_recall.lane, older);
}

/* An owner lives long, and makes actors without end. */
static void classes_of_actors_that_are_over_do_not_add_up(void **state)
{
    struct rlt_stats s;
    (void)state;
    begin(false);
    job_begins();
    for (uint32_t id = 1; id <= 3 * MT_RLT_CLASSES_MAX; id++) {
        define(id, 100000, CTL_CLASS_ACTOR); /* more than the node has: no lease comes in between */
        demand(id, 1);
        demand(id, 0);
    }
    rlt_stats(r, &s);
    assert_int_equal(s.jobs, 1); /* its driver is still there */
}

/* A driver with one lease of one CPU, and the worker that serves it, one of two. */
static uint64_t one_lease(struct ctl_lease *lease)
{
    begin(false);
    job_begins();
    define(1, 1000, 0);
    demand(1, 1);
    lease->lease = granted_lease();
    return down(workers[0], CTL_LANE) ? workers[0] : workers[1];
}

/* It could not be mapped, say: the owner still wants one. */
static void a_lease_that_its_owner_drops_is_granted_again(void **state)
{
    (void)state;
    struct ctl_lease lease;
    uint64_t         worker = one_lease(&lease);
    up(DRIVER, CTL_LANE_DROP, (mt_id){0, 0}, &lease, sizeof lease);
    assert_non_null(down(worker, CTL_RECALL));
    up(worker, CTL_DRAINED, (mt_id){0, 0}, &lease, sizeof lease);
    assert_non_null(down(DRIVER, CTL_ENDED));
    assert_non_null(down(DRIVER, CTL_GRANT));
}

static void can_not_serve(uint64_t conn, int32_t pid)
{
    struct ctl_reply      why = {.code = MT_ENOMEM, .text = "no memory"};
    struct ctl_child_exit gone = {.pid = pid, .status = 1 << 8};
    socket_in(conn, CTL_ZYGOTE_FAILED, &why, sizeof why, -1);
    step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = conn}});
    step((struct rlt_event){.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = conn}});
    socket_in(zygote, CTL_CHILD_EXIT, &gone, sizeof gone, -1);
}

/* They greet, and then find no memory for what they were given. */
static void workers_that_can_not_serve_are_not_replaced_for_ever(void **state)
{
    struct greeting g = greeting(CTL_WORKER, 310);
    (void)state;
    begin(false);
    job_begins();
    can_not_serve(workers[0], 20);
    can_not_serve(workers[1], 21);
    define(1, 1000, 0);
    demand(1, 1);
    assert_non_null(action(RLT_A_FORK, 0));
    uint64_t third = action(RLT_A_FORK, 0)->fork.worker;
    forked(third, 22);
    greet(third, &g, -1);
    can_not_serve(third, 22);
    const struct ctl_unschedulable *no = down(DRIVER, CTL_UNSCHEDULABLE);
    assert_non_null(no);
    assert_non_null(strstr(no->text, "no memory"));
}

static void only_the_ends_of_a_lease_may_speak_of_it(void **state)
{
    (void)state;
    struct ctl_lease lease;
    uint64_t         worker = one_lease(&lease);
    uint64_t         other = worker == workers[0] ? workers[1] : workers[0];
    up(other, CTL_DRAINED, (mt_id){0, 0}, &lease, sizeof lease);
    assert_int_equal(out.count, 0);
    up(other, CTL_KILL, (mt_id){0, 0}, &lease, sizeof lease);
    assert_int_equal(out.count, 0);
    up(DRIVER, CTL_KILL, (mt_id){0, 0}, &lease, sizeof lease);
    assert_int_equal(action(RLT_A_KILL, 0)->kill.conn, worker);
    up(worker, CTL_DRAINED, (mt_id){0, 0}, &lease, sizeof lease);
    assert_non_null(down(DRIVER, CTL_ENDED));
    assert_non_null(action(RLT_A_LANE_FREE, 0));
}

/* It had given its lease back when it was killed, and that comes before its end. */
static void who_was_killed_gets_no_other_lease(void **state)
{
    (void)state;
    struct ctl_lease lease;
    uint64_t         worker = one_lease(&lease);
    demand(1, 2);
    up(DRIVER, CTL_KILL, (mt_id){0, 0}, &lease, sizeof lease);
    assert_int_equal(action(RLT_A_KILL, 0)->kill.conn, worker);
    up(worker, CTL_DRAINED, (mt_id){0, 0}, &lease, sizeof lease);
    assert_non_null(down(DRIVER, CTL_ENDED));
    assert_null(down(worker, CTL_LANE));
    assert_non_null(action(RLT_A_FORK, 0)); /* the driver still wants two */
}

static void a_death_is_told_after_what_the_dead_had_said(void **state)
{
    (void)state;
    struct ctl_lease lease;
    uint64_t         worker = one_lease(&lease);
    step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = worker}});
    assert_int_equal(action(RLT_A_SW_PROC_DRAIN, 0)->sw_proc_drain.conn, worker);
    assert_null(down(DRIVER, CTL_ENDED));                         /* neither its rings nor its status are known */
    up(worker, CTL_DRAINED, (mt_id){0, 0}, &lease, sizeof lease); /* it had finished with it */
    assert_int_equal(((const struct ctl_ended *)down(DRIVER, CTL_ENDED))->code, MT_OK);
    step((struct rlt_event){.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = worker, .crash = "at f (prog)"}});
    assert_null(action(RLT_A_CLOSE, 0)); /* the zygote will say how it ended */
    struct ctl_child_exit gone = {.pid = worker == workers[0] ? 20 : 21, .status = SIGSEGV};
    socket_in(zygote, CTL_CHILD_EXIT, &gone, sizeof gone, -1);
    assert_int_equal(action(RLT_A_CLOSE, 0)->close.conn, worker);
}

/* What the system says of the worker's end is told, or, where that says nothing either, the end alone. */
static void a_zygote_that_stands_still_does_not_hide_how_its_worker_ended(void **state)
{
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        struct ctl_lease lease;
        uint64_t         worker = one_lease(&lease);
        step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = worker}});
        step((struct rlt_event){.kind = RLT_EV_PROC_DRAINED, .proc_drained = {.conn = worker}});
        now += MT_RLT_STATUS_MS * MS;
        step((struct rlt_event){.kind = RLT_EV_TICK});
        assert_int_equal(action(RLT_A_STATUS, 0)->status.conn, worker);
        assert_null(down(DRIVER, CTL_ENDED));
        if (is_known) {
            step((struct rlt_event){.kind = RLT_EV_EXITED, .exited = {.conn = worker, .has_status = true, .status = SIGKILL}});
        } else {
            now += MT_RLT_STATUS_ASKED_MS * MS;
            step((struct rlt_event){.kind = RLT_EV_TICK});
        }
        assert_int_equal(((const struct ctl_ended *)down(DRIVER, CTL_ENDED))->status, is_known ? SIGKILL : 0);
        assert_int_equal(action(RLT_A_CLOSE, 0)->close.conn, worker);
        end(state);
    }
}

static void short_records_end_only_who_sent_them(void **state)
{
    (void)state;
    enum ctl_kind kinds[] = {CTL_CLASS,   CTL_DEMAND,  CTL_DRAINED,     CTL_KILL,        CTL_LANE_WANT, CTL_MESSAGE,
                             CTL_MONITOR, CTL_REQUEST, CTL_REGION_WANT, CTL_OBJECT_DEAD, CTL_MOVED,     (enum ctl_kind)199};
    begin(false);
    job_begins();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct greeting g = greeting(CTL_DRIVER, 1000 + i);
        g.hello.job = 500 + i;
        step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = 10 + i, .pid = 9}});
        greet(10 + i, &g, PROGRAM_FD);
        assert_int_equal(welcome_code(), MT_OK);
        up(10 + i, kinds[i], (mt_id){1, 1}, "abc", 3);
        assert_int_equal(action(RLT_A_SW_PROC_DRAIN, 0)->sw_proc_drain.conn, 10 + i);
    }
    define(1, 1000, 0);
    demand(1, 1);
    granted_lease();
}

/* ---- the head ---- */

static const Manta__V1__Report *report(void)
{
    for (int i = 0; action(RLT_A_HEAD_SEND, i); i++)
        if (action(RLT_A_HEAD_SEND, i)->head_send.message->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_REPORT)
            return action(RLT_A_HEAD_SEND, i)->head_send.message->report;
    return NULL;
}

static void a_node_joins_before_anybody_is_welcome(void **state)
{
    struct greeting g = greeting(CTL_DRIVER, 100);
    (void)state;
    begin(true);
    step((struct rlt_event){.kind = RLT_EV_ACCEPTED, .accepted = {.conn = DRIVER, .pid = 9}});
    greet(DRIVER, &g, PROGRAM_FD);
    assert_int_equal(welcome_code(), MT_EAGAIN);
    registered(7, 3);
    assert_non_null(action(RLT_A_READY, 0));
    driver_begins();
    struct rlt_stats s;
    rlt_stats(r, &s);
    assert_int_equal(s.node, 7);
    assert_int_equal(s.epoch, 3);
}

static void what_waits_is_reported_and_only_the_right_answer_counts(void **state)
{
    (void)state;
    begin(true);
    registered(7, 3);
    job_begins();
    define(1, 2000, 0);
    demand(1, 3);
    granted_lease();
    now += 60 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_non_null(report());
    assert_int_equal(report()->n_wants, 1);
    assert_int_equal(report()->wants[0]->wanted, 2);
    assert_int_equal(report()->free[0]->milli, 0);
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(report()); /* nothing new, and too soon */

    Manta__V1__Unschedulable u = MANTA__V1__UNSCHEDULABLE__INIT;
    Manta__V1__HeadToNode    m = MANTA__V1__HEAD_TO_NODE__INIT;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_UNSCHEDULABLE;
    m.unschedulable = &u;
    u.owner = 100;
    u.class_id = 1;
    u.version = last_version - 1; /* to a level that is no more */
    u.text = "no node has so many";
    head_says(&m);
    assert_null(down(DRIVER, CTL_UNSCHEDULABLE));
    u.version = last_version;
    head_says(&m);
    assert_non_null(down(DRIVER, CTL_UNSCHEDULABLE));

    Manta__V1__Place place = MANTA__V1__PLACE__INIT;
    uint32_t         nodes[] = {99, 7};
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_PLACE;
    m.place = &place;
    place.owner = 100;
    place.class_id = 1;
    demand(1, 4);
    place.version = last_version;
    place.n_nodes = 2;
    place.nodes = nodes;
    head_says(&m); /* a node that it does not know, and itself, which is full: it goes on waiting */
    assert_null(action(RLT_A_PEER_DIAL, 0));
    now += 1100 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_int_equal(report()->wants[0]->wanted, 3);
}

/* The head keeps a promise until a report that is younger by some time; a lease that came and went sooner must not look
 * taken until the next sign of life. */
static void a_change_is_told_once_more_before_long(void **state)
{
    (void)state;
    begin(true);
    registered(7, 3);
    job_begins();
    define(1, 2000, 0);
    demand(1, 1);
    granted_lease();
    now += 60 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_non_null(report());
    now += MT_HEAD_PROMISE_MS * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(report()); /* too soon to be of use */
    now += 60 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_non_null(report());
    now += 300 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(report()); /* once: from here on it is a sign of life */
}

/* A node whose datagrams are heard reports what has changed only. A driver that goes gives nothing back, and yet it is here no
 * more: a node that nobody uses would never be given back. */
static void what_is_here_no_more_is_told_by_the_next_sign_of_life(void **state)
{
    Manta__V1__BeatTerms terms = MANTA__V1__BEAT_TERMS__INIT;
    uint32_t             here[2] = {9, 9}, last[2] = {0}; /* and when that was told */
    (void)state;
    begin(true);
    registered_as(0, 7, 3, &terms);
    driver_begins();
    for (int gone = 0; gone < 2; gone++) {
        if (gone)
            step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = DRIVER}});
        for (uint32_t i = 0; i < 80; i++) {
            now += 50 * MS;
            step((struct rlt_event){.kind = RLT_EV_TICK});
            if (report())
                here[gone] = report()->here, last[gone] = i;
            const struct rlt_action *beat = action(RLT_A_BEAT, 0);
            if (beat)
                step((struct rlt_event){.kind = RLT_EV_BEAT, .beat = {.counter = beat->beat.counter, .echo = 1, .is_heard = true}});
        }
        assert_true(last[gone] < 50); /* from then on datagrams are enough */
    }
    assert_int_equal(here[0], 1);
    assert_int_equal(here[1], 0);
}

static void a_node_that_was_given_up_ends_its_work_and_joins_anew(void **state)
{
    (void)state;
    begin(true);
    registered(7, 3);
    job_begins();
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    define(1, 1000, 0);
    demand(1, 1);
    granted_lease(); /* work goes on without the head */
    registered(7, 3);
    assert_null(action(RLT_A_KILL, 0));
    registered(7, 4);
    assert_non_null(action(RLT_A_KILL, 2)); /* the zygote and both workers */
    assert_int_equal(action(RLT_A_SW_PROC_DRAIN, 0)->sw_proc_drain.conn, DRIVER);
    struct rlt_stats s;
    rlt_stats(r, &s);
    assert_int_equal(s.epoch, 4);
    assert_int_equal(s.fenced, 1);
}

/* It was stopped while another took over, and has given this node up since: nobody here hears it. */
static void a_head_of_an_older_epoch_has_no_effect(void **state)
{
    Manta__V1__HeadShutdown down = MANTA__V1__HEAD_SHUTDOWN__INIT;
    Manta__V1__HeadToNode   m = MANTA__V1__HEAD_TO_NODE__INIT;
    struct rlt_stats        s;
    (void)state;
    begin(true);
    registered_by(5, 7, 3);
    job_begins();
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    define(1, 1000, 0);
    demand(1, 1);
    granted_lease();
    registered_by(4, 7, 4); /* of another node epoch: all that runs here would end */
    assert_null(action(RLT_A_KILL, 0));
    rlt_stats(r, &s);
    assert_int_equal(s.epoch, 3);
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN;
    m.shutdown = &down;
    down.reason = "an older head";
    head_says(&m);
    assert_null(action(RLT_A_KILL, 0));
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    registered_by(6, 7, 3);
    assert_null(action(RLT_A_KILL, 0));
    rlt_stats(r, &s);
    assert_int_equal(s.fenced, 0);
}

/* Whoever has started it may be gone for good; but what runs here may end. */
static void a_node_without_head_and_work_leaves(void **state)
{
    struct rlt_stats s;
    (void)state;
    begin_as((struct rlt_config){.has_head = true, .orphan_ms = 60000});
    registered(7, 3);
    driver_begins();
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    now += 61000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    rlt_stats(r, &s);
    assert_false(s.is_leaving);
    step((struct rlt_event){.kind = RLT_EV_CLOSED, .closed = {.conn = DRIVER}});
    for (int i = 0; i < 100 && !s.is_leaving; i++) {
        now += 100 * MS;
        step((struct rlt_event){.kind = RLT_EV_TICK});
        rlt_stats(r, &s);
    }
    assert_true(s.is_leaving);
}

/* A machine's daemons are stopped while one head hands over to the next. */
static void a_node_told_to_leave_between_two_heads_waits_for_the_next(void **state)
{
    struct rlt_stats s;
    struct rlt_event told = {.kind = RLT_EV_SHUTDOWN, .shutdown = {"terminated", 30000}};
    (void)state;
    for (int comes = 0; comes < 2; comes++) {
        begin(true);
        registered(7, 3);
        job_begins();
        now += 1000 * MS;
        step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
        now += 2000 * MS;
        step(told);
        assert_null(action(RLT_A_EXIT, 0));
        rlt_stats(r, &s);
        assert_true(s.is_leaving);
        if (comes)
            registered(7, 3);
        now += 5000 * MS;
        step((struct rlt_event){.kind = RLT_EV_TICK});
        assert_true((action(RLT_A_EXIT, 0) == NULL) == comes);
        end(state);
    }
    begin(true);
    registered(7, 3);
    job_begins();
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    now += 6000 * MS;
    step(told); /* nobody has replaced it */
    assert_non_null(action(RLT_A_EXIT, 0));
}

/* ... and a head that comes back in time finds it. */
static void a_node_whose_head_comes_back_stays(void **state)
{
    struct rlt_stats s;
    (void)state;
    begin_as((struct rlt_config){.has_head = true, .orphan_ms = 60000});
    registered(7, 3);
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    now += 50000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    registered(7, 3);
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    now += 50000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    rlt_stats(r, &s);
    assert_false(s.is_leaving);
}

static void a_name_is_asked_for_again_until_it_is_answered(void **state)
{
    struct {
        struct ctl_request q;
        struct ctl_name    n;
    } put = {{CTL_OP_NAME_PUT, 0}, {.space = "s", .name = "n", .owner = 100}};
    mt_id id = {100, 5};
    (void)state;
    begin(true);
    registered(7, 3);
    driver_begins();
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    up(DRIVER, CTL_REQUEST, id, &put, sizeof put);
    assert_null(action(RLT_A_HEAD_SEND, 0));
    registered(7, 3);
    const struct rlt_action *asked = action(RLT_A_HEAD_SEND, 0);
    assert_int_equal(asked->head_send.message->kind_case, MANTA__V1__NODE_TO_HEAD__KIND_NAME);
    assert_int_equal(asked->head_send.message->name->id_counter, 5);
    Manta__V1__NameReply  reply = MANTA__V1__NAME_REPLY__INIT;
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_NAME;
    m.name = &reply;
    reply.id_process = 100;
    reply.id_counter = 5;
    reply.code = MT_EEXIST;
    reply.text = "taken";
    head_says(&m);
    assert_int_equal(((const struct ctl_reply *)down(DRIVER, CTL_REPLY))->code, MT_EEXIST);
    head_says(&m);
    assert_null(down(DRIVER, CTL_REPLY)); /* said twice, answered once */
    id.counter_index = 6;
    up(DRIVER, CTL_REQUEST, id, &put, sizeof put);
    now += 31000 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_int_equal(((const struct ctl_reply *)down(DRIVER, CTL_REPLY))->code, MT_ETIMEDOUT);
}

static void what_waits_is_shown_with_what_it_wants(void **state)
{
    struct ctl_class      bare = {.class_id = 2};
    struct rlt_class_view view;
    (void)state;
    begin(false);
    job_begins();
    define(1, 1500, 0);
    demand(1, 2); /* more than two CPUs are */
    assert_true(rlt_class_look(r, 100, 1, &view));
    assert_int_equal(view.wanted, 2);
    assert_string_equal(view.resources, "CPU:1.5");
    up(DRIVER, CTL_CLASS, (mt_id){0, 0}, &bare, sizeof bare);
    assert_true(rlt_class_look(r, 100, 2, &view));
    assert_string_equal(view.resources, "nothing");
    assert_false(rlt_class_look(r, 100, 3, &view));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_greeting_that_is_wrong_is_refused, end),
        cmocka_unit_test_teardown(a_head_of_an_older_epoch_has_no_effect, end),
        cmocka_unit_test(a_private_raylet_ends_with_its_driver),
        cmocka_unit_test_teardown(a_zygote_that_dies_three_times_is_enough, end),
        cmocka_unit_test_teardown(a_zygote_that_has_gone_is_asked_for_no_fork, end),
        cmocka_unit_test_teardown(a_zygote_that_does_not_greet_is_told_of, end),
        cmocka_unit_test_teardown(a_zygote_that_is_killed_while_it_forks_is_started_again, end),
        cmocka_unit_test_teardown(the_newest_level_wins, end),
        cmocka_unit_test_teardown(what_began_in_a_waiting_tasks_place_is_asked_back_when_it_goes_on, end),
        cmocka_unit_test_teardown(a_recalled_lease_that_does_not_come_is_not_waited_for, end),
        cmocka_unit_test_teardown(classes_of_actors_that_are_over_do_not_add_up, end),
        cmocka_unit_test_teardown(a_lease_that_its_owner_drops_is_granted_again, end),
        cmocka_unit_test_teardown(workers_that_can_not_serve_are_not_replaced_for_ever, end),
        cmocka_unit_test_teardown(only_the_ends_of_a_lease_may_speak_of_it, end),
        cmocka_unit_test_teardown(who_was_killed_gets_no_other_lease, end),
        cmocka_unit_test_teardown(a_death_is_told_after_what_the_dead_had_said, end),
        cmocka_unit_test(a_zygote_that_stands_still_does_not_hide_how_its_worker_ended),
        cmocka_unit_test_teardown(short_records_end_only_who_sent_them, end),
        cmocka_unit_test_teardown(a_node_joins_before_anybody_is_welcome, end),
        cmocka_unit_test_teardown(what_waits_is_reported_and_only_the_right_answer_counts, end),
        cmocka_unit_test_teardown(a_change_is_told_once_more_before_long, end),
        cmocka_unit_test_teardown(what_is_here_no_more_is_told_by_the_next_sign_of_life, end),
        cmocka_unit_test_teardown(a_node_that_was_given_up_ends_its_work_and_joins_anew, end),
        cmocka_unit_test_teardown(a_node_without_head_and_work_leaves, end),
        cmocka_unit_test_teardown(a_node_whose_head_comes_back_stays, end),
        cmocka_unit_test_teardown(a_node_told_to_leave_between_two_heads_waits_for_the_next, end),
        cmocka_unit_test_teardown(a_name_is_asked_for_again_until_it_is_answered, end),
        cmocka_unit_test_teardown(what_waits_is_shown_with_what_it_wants, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

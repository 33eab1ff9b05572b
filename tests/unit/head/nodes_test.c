/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes_test.c - registration, epochs, suspicion and death, views, wants and places, names.
 */
#include "scheduler/policy/policy.h"
#include "tests/unit/head/rig.h"

enum { PUT = 1, GET = 2, DELETE = 3 };
#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

static uint32_t state_of(struct rig *rig, uint32_t number)
{
    Manta__V1__ListNodesRequest r = MANTA__V1__LIST_NODES_REQUEST__INIT;
    uint64_t                    call = rig_call(rig, HEAD_LIST_NODES, &r.base);
    Manta__V1__ListNodesReply  *reply = rig_reply_to(rig, call, &manta__v1__list_nodes_reply__descriptor);
    uint32_t                    state = 0;
    assert_non_null(reply);
    for (size_t i = 0; i < reply->n_nodes; i++)
        if (reply->nodes[i]->node == number)
            state = reply->nodes[i]->state;
    manta__v1__list_nodes_reply__free_unpacked(reply, NULL);
    return state;
}

static void numbers_are_new_and_a_reconnect_keeps_the_epoch(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000};
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(a.node, 1);
    assert_int_equal(b.node, 2);
    assert_int_equal(a.epoch, 1);
    rig_close(rig, a.stream);
    assert_int_equal(state_of(rig, 1), 2);
    rig_register(rig, &a); /* the same boot */
    assert_int_equal(a.node, 1);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(state_of(rig, 1), 1);
    a.node = a.epoch = 0; /* its answer was lost: it asks again as at first */
    rig_register(rig, &a);
    assert_int_equal(a.node, 1);
    assert_int_equal(a.epoch, 1);
    uint64_t old = a.stream;
    a.boot = 13; /* a new process on the same node: the old one's stream is cut */
    rig_register(rig, &a);
    assert_int_equal(a.node, 1);
    assert_int_equal(a.epoch, 2);
    assert_true(rig_was_closed(rig, old));
    rig_free(rig);
}

/* A head over an older copy of its store: the raylet has heard what that copy does not know. */
static void a_raylet_that_has_heard_a_newer_head_is_refused(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    Manta__V1__Register   g = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    struct rig_node       a = {.boot = 11, .cpus = 4000};
    g.version_min = g.version_max = mt_release.wire.max;
    g.boot = 12;
    g.head_epoch = head_epoch(rig->head) + 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    m.register_ = &g;
    uint64_t stream = rig_open(rig);
    rig_say(rig, stream, &m);
    assert_int_equal(rig_last(rig, stream, MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED)->registered->code, MT_EAGAIN);
    assert_true(rig_was_closed(rig, stream));
    rig_register(rig, &a);
    assert_int_equal(a.node, 1);
    rig_free(rig);
}

static void the_epoch_is_the_fence_of_the_store(void **unused)
{
    (void)unused;
    struct rig *rig = rig_new();
    assert_int_equal(head_epoch(rig->head), 1);
    rig->config.epoch_min = 7; /* leads were taken, and their heads died before they stored anything */
    rig_restart(rig);
    assert_int_equal(head_epoch(rig->head), 7);
    rig_restart(rig); /* a store that has no fence, or has forgotten it: never the same one twice */
    assert_int_equal(head_epoch(rig->head), 8);
    rig_free(rig);
}

static void the_nodes_are_told_which_heads_there_are(void **unused)
{
    (void)unused;
    struct rig       *rig = rig_new();
    struct rig_node   a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000};
    const char *const two[] = {"10.0.0.1:1", "10.0.0.2:1"};
    rig_register(rig, &a);
    struct head_event event = {.kind = HEAD_EV_HEADS, .heads = {two, 2}};
    rig_event(rig, &event);
    const Manta__V1__HeadsNews *news = rig_last(rig, a.stream, MANTA__V1__HEAD_TO_NODE__KIND_HEADS)->heads;
    assert_int_equal(news->n_heads, 2);
    assert_string_equal(news->heads[1], two[1]);
    rig_register(rig, &b);
    const Manta__V1__Registered *answer = rig_last(rig, b.stream, MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED)->registered;
    assert_int_equal(answer->n_heads, 2);
    assert_string_equal(answer->heads[0], two[0]);
    rig_free(rig);
}

static void silence_makes_suspect_then_dead_and_the_dead_get_a_new_epoch(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000};
    rig_register(rig, &a);
    rig_pass(rig, 1900);
    assert_int_equal(state_of(rig, 1), 1);
    rig_pass(rig, 200);
    assert_int_equal(state_of(rig, 1), 2);
    rig_report(rig, &a, 4000, NULL, 0);
    assert_int_equal(state_of(rig, 1), 1);
    rig_pass(rig, 9900);
    assert_int_equal(state_of(rig, 1), 2);
    rig_pass(rig, 200);
    assert_int_equal(state_of(rig, 1), 3);
    assert_true(rig_was_closed(rig, a.stream));
    rig_register(rig, &a);
    assert_int_equal(a.node, 1);
    assert_int_equal(a.epoch, 2);
    assert_int_equal(state_of(rig, 1), 1);
    rig_free(rig);
}

static void a_paused_head_blames_nobody(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000};
    rig_register(rig, &a);
    rig->now_ms += 30000;
    assert_int_equal(state_of(rig, 1), 1);
    assert_int_equal(head_counters(rig->head)->pause, 1);
    rig_free(rig);
}

/* A slow disk: the shell does not read what the raylet says. From then on, when it reads again, its silence counts. */
static void nobody_is_blamed_for_what_the_head_does_not_read(void **unused)
{
    (void)unused;
    struct rig       *rig = rig_new();
    struct rig_node   a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000};
    struct head_event unread = {.kind = HEAD_EV_STREAM_UNREAD, .stream.is_unread = true}, again = {.kind = HEAD_EV_STREAM_UNREAD};
    rig_register(rig, &a);
    rig_register(rig, &b);
    unread.stream.number = again.stream.number = a.stream;
    rig_event(rig, &unread);
    for (int i = 0; i < 30; i++)
        rig_pass(rig, 500);
    assert_int_equal(state_of(rig, 1), 1);
    assert_int_equal(state_of(rig, 2), 3);
    rig_event(rig, &again);
    rig_pass(rig, 1900);
    assert_int_equal(state_of(rig, 1), 1);
    rig_pass(rig, 200);
    assert_int_equal(state_of(rig, 1), 2);
    rig_pass(rig, 8000);
    assert_int_equal(state_of(rig, 1), 3);
    rig_event(rig, &unread); /* of a stream that is gone */
    rig_free(rig);
}

static void refusals(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    Manta__V1__Register   r = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    m.register_ = &r;
    r.version_min = r.version_max = mt_release.wire.max + 1U; /* a newer release, which does not speak ours any more */
    r.boot = 5;
    uint64_t s = rig_open(rig);
    rig_say(rig, s, &m);
    assert_int_equal(rig_last(rig, s, KIND(REGISTERED))->registered->code, MT_EVERSION);
    assert_true(rig_was_closed(rig, s));
    r.version_min = r.version_max = MT_WIRE_FIRST; /* 0.1.0 */
    s = rig_open(rig);
    rig_say(rig, s, &m);
    assert_int_equal(rig_last(rig, s, KIND(REGISTERED))->registered->code, MT_EVERSION);
    r.version_max = mt_release.wire.max + 1U;
    r.cluster = "another";
    s = rig_open(rig);
    rig_say(rig, s, &m);
    assert_int_equal(rig_last(rig, s, KIND(REGISTERED))->registered->code, MT_EFENCED);
    r.cluster = "";
    Manta__V1__Resource bad = MANTA__V1__RESOURCE__INIT, *total[] = {&bad};
    bad.name = "CPU";
    bad.milli = -1;
    r.total = total;
    r.n_total = 1;
    s = rig_open(rig);
    rig_say(rig, s, &m);
    assert_int_equal(rig_last(rig, s, KIND(REGISTERED))->registered->code, MT_EINVAL);
    /* garbage, and a word before the registration, end the stream and change nothing */
    uint64_t          before = head_hash(rig->head);
    struct head_event garbage = {.kind = HEAD_EV_STREAM_MESSAGE, .message = {rig_open(rig), (const uint8_t *)"\xff\xff\xff", 3}};
    rig_event(rig, &garbage);
    assert_true(rig_was_closed(rig, garbage.message.stream));
    struct rig_node nobody = {.stream = rig_open(rig)};
    rig_gone(rig, &nobody, 3);
    assert_true(rig_was_closed(rig, nobody.stream));
    assert_int_equal(head_hash(rig->head), before);
    rig_free(rig);
}

static void views_reach_every_node_with_growing_versions(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 2000};
    rig_register(rig, &a);
    rig_pass(rig, 100);
    uint64_t first = rig_last(rig, a.stream, KIND(VIEW))->view->version;
    rig_register(rig, &b);
    rig_pass(rig, 100);
    Manta__V1__View *view = rig_last(rig, a.stream, KIND(VIEW))->view; /* what is new, on top of what it knows */
    assert_true(view->version > first);
    assert_true(view->since == first && view->latest == view->version);
    assert_int_equal(view->n_nodes, 1);
    assert_int_equal(view->nodes[0]->total[0]->milli, 2000);
    assert_int_equal(view->nodes[0]->n_free, 0); /* all of it */
    uint64_t last = view->version;
    view = rig_last(rig, b.stream, KIND(VIEW))->view; /* who is new is told of all */
    assert_true(view->since == 0 && view->version == last && view->latest == last);
    assert_int_equal(view->n_nodes, 2);
    rig_forget(rig);
    for (int i = 0; i < 50; i++) { /* free resources change all the time: they are hints, and those stay few */
        rig_report(rig, &a, i * 10, NULL, 0);
        rig_report(rig, &b, 2000, NULL, 0);
        rig_pass(rig, 40);
    }
    assert_int_equal(rig_count(rig, a.stream, KIND(VIEW)), 0);
    assert_in_range(rig_count(rig, b.stream, KIND(FREE)), 1, 3);
    Manta__V1__Free *hint = rig_last(rig, b.stream, KIND(FREE))->free;
    assert_int_equal(hint->n_nodes, 1); /* b reports what it did before */
    assert_int_equal(hint->nodes[0]->node, a.node);
    assert_in_range(hint->nodes[0]->free[0]->milli, 10, 490);
    rig_restart(rig); /* versions go on above the old ones */
    rig_register(rig, &a);
    rig_pass(rig, 100);
    assert_true(rig_last(rig, a.stream, KIND(VIEW))->view->version > last);
    rig_free(rig);
}

enum { MANY = 1200 };

static void many_nodes_are_told_of_in_pages(void **unused)
{
    (void)unused;
    static struct rig_node nodes[MANY];
    static bool            is_known[MANY + 2];
    struct rig            *rig = rig_new();
    struct rig_node        late = {.boot = 5000, .cpus = 1000};
    uint64_t               version = 0;
    uint32_t               pages = 0, told = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        nodes[i] = (struct rig_node){.boot = i + 1, .cpus = 1000};
        rig_register(rig, &nodes[i]);
    }
    rig_pass(rig, 500);
    rig_forget(rig);
    rig_register(rig, &late);
    rig_pass(rig, 500);
    for (size_t i = 0; i < rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (m->kind_case != KIND(VIEW) || rig->sent[i].stream != late.stream)
            continue;
        assert_true(m->view->since == version); /* each on top of the one before */
        assert_true(m->view->version > version && m->view->version <= m->view->latest);
        assert_in_range(m->view->n_nodes, 1, MT_HEAD_VIEW_NODES);
        for (size_t k = 0; k < m->view->n_nodes; k++) {
            assert_false(is_known[m->view->nodes[k]->node]);
            is_known[m->view->nodes[k]->node] = true;
            told++;
        }
        version = m->view->version;
        pages++;
    }
    assert_int_equal(told, MANY + 1);
    assert_int_equal(pages, 1 + MANY / MT_HEAD_VIEW_NODES);
    assert_int_equal(rig_last(rig, nodes[0].stream, KIND(VIEW))->view->n_nodes, 1); /* the others hear of it alone */
    rig_free(rig);
}

static void a_forgotten_node_is_told(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node watcher = {.boot = 9999, .cpus = 1000}, first = {.boot = 1, .cpus = 1000};
    uint32_t        gone = 0;
    rig_register(rig, &watcher);
    rig_register(rig, &first);
    for (uint32_t i = 0; i < MT_HEAD_NODES_DEAD_MAX + 1; i++) { /* each comes and dies */
        struct rig_node n = {.boot = 100 + i, .cpus = 1000};
        rig_register(rig, &n);
        rig_close(rig, n.stream);
        for (int k = 0; k < 12; k++) {
            rig_report(rig, &watcher, 1000, NULL, 0);
            rig_pass(rig, 1000);
        }
    }
    for (size_t i = 0; i < rig->sent_count; i++)
        if (rig->sent[i].message->kind_case == KIND(VIEW) && rig->sent[i].stream == watcher.stream)
            for (size_t k = 0; k < rig->sent[i].message->view->n_gone; k++)
                gone++;
    assert_int_equal(gone, 2); /* the oldest two */
    rig_free(rig);
}

/* ---- wants ---- */

static Manta__V1__Want want_of(Manta__V1__Resource *cpu, Manta__V1__Resource **list, uint64_t version, uint32_t wanted,
                               int64_t milli)
{
    Manta__V1__Want w = MANTA__V1__WANT__INIT;
    *cpu = (Manta__V1__Resource)MANTA__V1__RESOURCE__INIT;
    cpu->name = "CPU";
    cpu->milli = milli;
    *list = cpu;
    w.owner = 900;
    w.class_id = 3;
    w.version = version;
    w.wanted = wanted;
    w.resources = list;
    w.n_resources = 1;
    return w;
}

/* A node without a place for a process gets nothing, whatever else is free; nobody is told so before all are stuck. */
static void full_nodes_get_nothing_and_stuck_ones_are_told_of(void **unused)
{
    (void)unused;
    struct rig         *rig = rig_new();
    struct rig_node     a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000};
    Manta__V1__Resource cpu, *list[1];
    Manta__V1__Want     w = want_of(&cpu, list, 1, 1, 0), *wants[] = {&w};
    rig_register(rig, &a);
    rig_register(rig, &b);
    rig_report_full(rig, &a, 4, true, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->nodes[0], b.node);
    rig_forget(rig);
    rig_report_full(rig, &b, 4, false, NULL, 0); /* full too, with work that ends */
    for (int i = 0; i < 15; i++) {
        rig_pass(rig, 1000);
        w.version = 2;
        rig_report_full(rig, &b, 4, false, NULL, 0);
        rig_report_full(rig, &a, 4, true, wants, 1);
    }
    assert_int_equal(rig_count(rig, a.stream, KIND(PLACE)) + rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 0);
    rig_report_full(rig, &b, 4, true, NULL, 0);
    rig_report_full(rig, &a, 4, true, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EAGAIN);
    rig_forget(rig);
    w.version = 3; /* asked again at once: an actor may have been killed, of which no report has told yet */
    rig_report_full(rig, &a, 4, true, wants, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 0);
    for (int i = 0; i < 11; i++) {
        rig_pass(rig, 1000);
        rig_report_full(rig, &b, 4, true, NULL, 0);
        rig_report_full(rig, &a, 4, true, wants, 1);
    }
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 1);
    rig_free(rig);
}

static void wants_are_placed_once_and_again_when_they_still_stand(void **unused)
{
    (void)unused;
    struct rig         *rig = rig_new();
    struct rig_node     a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 4000};
    Manta__V1__Resource cpu, *list[1];
    Manta__V1__Want     w = want_of(&cpu, list, 1, 3, 1000), *wants[] = {&w};
    rig_register(rig, &a);
    rig_register(rig, &b);
    rig_report(rig, &a, 0, wants, 1);
    Manta__V1__Place *place = rig_last(rig, a.stream, KIND(PLACE))->place;
    assert_int_equal(place->owner, 900);
    assert_int_equal(place->version, 1);
    assert_int_equal(place->n_nodes, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(place->nodes[i], b.node);
    rig_forget(rig);
    rig_report(rig, &a, 0, wants, 1); /* the same level at once: answered already */
    assert_int_equal(rig_count(rig, a.stream, KIND(PLACE)), 0);
    w.version = 2; /* two more are wanted: of b's four CPUs three are promised */
    w.wanted = 2;
    rig_report(rig, &a, 0, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->n_nodes, 1);
    rig_forget(rig);
    rig_pass(rig, 150);
    rig_report(rig, &b, 4000, NULL, 0); /* b gave nothing away after all, and says so */
    rig_report(rig, &a, 0, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->n_nodes, 1); /* the second of version 2 */
    rig_forget(rig);
    rig_pass(rig, 400);
    rig_report(rig, &b, 4000, NULL, 0);
    rig_report(rig, &a, 0, wants, 1); /* still wanted: what was placed was refused */
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->n_nodes, 2);
    rig_forget(rig);
    rig_report(rig, &a, 0, NULL, 0); /* wanted no more */
    rig_pass(rig, 1000);
    assert_int_equal(rig_count(rig, a.stream, KIND(PLACE)), 0);
    rig_free(rig);
}

static void what_no_node_can_hold_is_said_after_the_grace(void **unused)
{
    (void)unused;
    struct rig         *rig = rig_new();
    struct rig_node     a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 64000};
    Manta__V1__Resource cpu, *list[1];
    Manta__V1__Want     w = want_of(&cpu, list, 7, 1, 64000), *wants[] = {&w};
    rig_register(rig, &a);
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 0);
    for (int i = 0; i < 5; i++) {
        rig_pass(rig, 500);
        rig_report(rig, &a, 2000, wants, 1);
    }
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 1);
    Manta__V1__Unschedulable *no = rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable;
    assert_int_equal(no->code, MT_EUNSCHEDULABLE);
    assert_int_equal(no->version, 7);
    assert_string_equal(no->text, "wants 64 CPU, the largest node (1) has 2");
    rig_register(rig, &b); /* a node that can: the want still stands, and is answered */
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->nodes[0], b.node);
    cpu.milli = -5;
    w.version = 8;
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EINVAL);
    rig_free(rig);
}

/* A node that comes may hold it, as where there is none; only a node that goes is never there again. */
static void while_all_nodes_leave_wants_wait(void **unused)
{
    (void)unused;
    struct rig         *rig = rig_new();
    struct rig_node     a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    Manta__V1__Resource cpu, *list[1];
    Manta__V1__Want     w = want_of(&cpu, list, 1, 1, 1000), *wants[] = {&w};
    rig_register(rig, &a);
    for (int i = 0; i < 5; i++) {
        rig_pass(rig, 500);
        rig_report(rig, &a, 2000, NULL, 0);
    }
    rig_drain(rig, &a);
    rig_report(rig, &a, 2000, wants, 1);
    rig_pass(rig, 500);
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 0);
    rig_register(rig, &b);
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(PLACE))->place->nodes[0], b.node);
    rig_drain(rig, &b);
    w.version = 2;
    w.policy = POLICY_NODE;
    w.node = b.node;
    rig_report(rig, &a, 2000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EUNSCHEDULABLE);
    rig_free(rig);
}

/* ---- names ---- */

static void names_are_held_once_and_released(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 1000}, b = {.boot = 12, .cpus = 1000};
    uint64_t        actor = 0;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(rig_name(rig, &a, 1, PUT, "counter", 50, 500, a.node, NULL), MT_OK);
    assert_int_equal(rig_name(rig, &b, 2, GET, "counter", 0, 0, 0, &actor), MT_OK);
    assert_int_equal(actor, 50);
    assert_int_equal(rig_name(rig, &b, 3, PUT, "counter", 60, 600, b.node, &actor), MT_EEXIST);
    assert_int_equal(actor, 50);
    assert_int_equal(rig_name(rig, &a, 4, PUT, "counter", 50, 500, a.node, NULL), MT_OK); /* the same again */
    assert_int_equal(rig_name(rig, &a, 5, DELETE, "counter", 50, 0, 0, NULL), MT_OK);
    rig_forget(rig);
    assert_int_equal(rig_name(rig, &a, 5, DELETE, "counter", 50, 0, 0, NULL), MT_OK); /* a repeat has one effect */
    assert_int_equal(head_counters(rig->head)->outcome_hit, 1);
    assert_int_equal(rig_name(rig, &a, 6, GET, "counter", 0, 0, 0, NULL), MT_ENOENT);
    assert_int_equal(rig_name(rig, &b, 7, PUT, "counter", 60, 600, b.node, NULL), MT_OK);
    rig_gone(rig, &b, 600);
    assert_int_equal(rig_name(rig, &a, 8, GET, "counter", 0, 0, 0, NULL), MT_ENOENT);
    assert_int_equal(rig_name(rig, &a, 9, PUT, "late", 60, 600, b.node, NULL), MT_EACTOR_DIED);
    assert_int_equal(rig_name(rig, &a, 12, PUT, "of nobody", 60, 0, a.node, NULL), MT_EACTOR_DIED);
    assert_int_equal(rig_name(rig, &a, 10, PUT, "on b", 70, 700, b.node, NULL), MT_OK);
    rig_close(rig, b.stream);
    for (int i = 0; i < 22; i++) { /* b stays away until it is dead */
        rig_pass(rig, 500);
        rig_report(rig, &a, 1000, NULL, 0);
    }
    assert_int_equal(rig_name(rig, &a, 11, GET, "on b", 0, 0, 0, NULL), MT_ENOENT);
    assert_int_equal(rig_name(rig, &a, 12, PUT, "on b", 70, 700, b.node, NULL), MT_EACTOR_DIED);
    assert_int_equal(rig_name(rig, &a, 13, PUT, "", 1, 1, a.node, NULL), MT_EINVAL);
    assert_int_equal(rig_name(rig, &a, 14, PUT, "a\nb", 1, 1, a.node, NULL), MT_EINVAL);
    rig_free(rig);
}

static void nothing_leaves_before_the_store_has_it(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 1000};
    rig->holds_store = true;
    rig_register(rig, &a);
    assert_null(rig_last(rig, a.stream, KIND(REGISTERED)));
    rig_pass(rig, 100);
    assert_int_equal(rig->sent_count, 0); /* nor does a view overtake the answer */
    rig_store(rig, mt_ok());
    assert_true(rig->sent[0].message->kind_case == KIND(REGISTERED));
    a.node = rig_last(rig, a.stream, KIND(REGISTERED))->registered->node;
    assert_int_equal(rig_name(rig, &a, 1, PUT, "x", 50, 500, a.node, NULL), -1);
    assert_int_equal(rig_name(rig, &a, 2, GET, "x", 0, 0, 0, NULL), -1);
    rig_store(rig, mt_ok());
    assert_int_equal(rig_count(rig, a.stream, KIND(NAME)), 2);
    assert_int_equal(rig_name(rig, &a, 3, PUT, "y", 50, 500, a.node, NULL), -1);
    rig_store(rig, mt_error(MT_EDISK_FULL, 28, "commit")); /* the head goes, and has acknowledged nothing */
    assert_true(rig->has_exited);
    assert_int_equal(rig->exit_status.code, MT_EDISK_FULL);
    assert_int_equal(rig_count(rig, a.stream, KIND(NAME)), 2);
    rig_free(rig);
}

static void a_private_raylet_keeps_its_number(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node first = {.boot = 11, .cpus = 1000, .node = 1, .epoch = 1}, other = {.boot = 12, .cpus = 1000};
    rig->config.first_node = 2;
    rig_wipe(rig);
    rig_register(rig, &other);
    rig_register(rig, &first);
    assert_int_equal(first.node, 1);
    assert_int_equal(first.epoch, 1);
    assert_int_equal(other.node, 2);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_new_and_a_reconnect_keeps_the_epoch),
        cmocka_unit_test(a_raylet_that_has_heard_a_newer_head_is_refused),
        cmocka_unit_test(the_epoch_is_the_fence_of_the_store),
        cmocka_unit_test(the_nodes_are_told_which_heads_there_are),
        cmocka_unit_test(silence_makes_suspect_then_dead_and_the_dead_get_a_new_epoch),
        cmocka_unit_test(a_paused_head_blames_nobody),
        cmocka_unit_test(nobody_is_blamed_for_what_the_head_does_not_read),
        cmocka_unit_test(refusals),
        cmocka_unit_test(views_reach_every_node_with_growing_versions),
        cmocka_unit_test(many_nodes_are_told_of_in_pages),
        cmocka_unit_test(a_forgotten_node_is_told),
        cmocka_unit_test(wants_are_placed_once_and_again_when_they_still_stand),
        cmocka_unit_test(while_all_nodes_leave_wants_wait),
        cmocka_unit_test(what_no_node_can_hold_is_said_after_the_grace),
        cmocka_unit_test(full_nodes_get_nothing_and_stuck_ones_are_told_of),
        cmocka_unit_test(names_are_held_once_and_released),
        cmocka_unit_test(nothing_leaves_before_the_store_has_it),
        cmocka_unit_test(a_private_raylet_keeps_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd_test.c - many nodes at once: what each is told of the others, and who is looked at when there is room. With a number: that
 * bug is planted (core/base/plant.h).
 */
#include "tests/unit/head/rig.h"

#include "core/base/limits/head.h"
#include "core/base/limits/net.h"
#include "core/base/plant.h"
#include "scheduler/policy/policy.h"

#include <stdio.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

enum { NODES = 6, TURN_MS = 20, MANY = 1500 };
#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

struct crowd {
    struct rig     *rig;
    struct rig_node watcher, nodes[NODES]; /* of number i + 2 */
};

static struct crowd crowd_new(uint32_t states_each_round)
{
    struct crowd c = {.rig = rig_new(), .watcher = {.boot = 99, .cpus = 1000}};
    c.rig->config.states_each_round = states_each_round;
    rig_wipe(c.rig);
    rig_register(c.rig, &c.watcher);
    for (uint32_t i = 0; i < NODES; i++) {
        c.nodes[i] = (struct rig_node){.boot = i + 1, .cpus = 1000 + 1000 * (int64_t)i};
        rig_register(c.rig, &c.nodes[i]);
    }
    rig_pass(c.rig, 500);
    return c;
}

static void report_all(struct crowd *c)
{
    for (uint32_t i = 0; i < NODES; i++)
        rig_report(c->rig, &c->nodes[i], c->nodes[i].cpus, NULL, 0);
}

/* All but the watcher are silent until they are suspect. */
static void all_fall_silent(struct crowd *c)
{
    report_all(c);
    for (int i = 0; i < 4; i++) {
        rig_report(c->rig, &c->watcher, 1000, NULL, 0);
        rig_pass(c->rig, MT_NODE_SUSPECT_MS / 4 - (i == 3 ? 1 : 0));
    }
    rig_report(c->rig, &c->watcher, 1000, NULL, 0);
}

/* What the watcher was told last of a node. 0: nothing since rig_forget. */
static uint32_t told(const struct crowd *c, uint32_t node)
{
    uint32_t state = 0;
    for (size_t i = 0; i < c->rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = c->rig->sent[i].message;
        if (m->kind_case != KIND(VIEW) || c->rig->sent[i].stream != c->watcher.stream)
            continue;
        for (size_t k = 0; k < m->view->n_nodes; k++)
            state = m->view->nodes[k]->node == node ? m->view->nodes[k]->state : state;
    }
    return state;
}

static uint32_t told_as(const struct crowd *c, uint32_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++)
        count += told(c, c->nodes[i].node) == state;
    return count;
}

/* At most so many of them in one turn. */
static void all_are_told(const struct crowd *c, uint32_t state, uint32_t most)
{
    uint32_t was = told_as(c, state), is = was;
    for (int i = 0; i < 50 && is < NODES; i++, was = is) {
        rig_pass(c->rig, TURN_MS);
        is = told_as(c, state);
        assert_in_range(is - was, 0, most);
    }
    assert_int_equal(is, NODES);
}

static void is_known(void *user, const struct head_node_view *view)
{
    const struct crowd *c = user;
    if (told(c, view->node))
        assert_int_equal(told(c, view->node), view->state);
}

/* Some in each round, and all in the end; the same when they are back. */
static void who_is_suspect_is_told_in_turns(void **unused)
{
    (void)unused;
    struct crowd c = crowd_new(2);
    all_fall_silent(&c);
    rig_forget(c.rig);
    all_are_told(&c, POLICY_SUSPECT, 4);
    rig_forget(c.rig);
    report_all(&c);
    all_are_told(&c, POLICY_ALIVE, 2);
    (void)head_view_each(c.rig->head, is_known, &c);
    rig_free(c.rig);
}

/* Nor is he told of later than before when he is dead. */
static void who_is_heard_before_his_turn_was_never_away(void **unused)
{
    (void)unused;
    struct crowd c = crowd_new(1);
    all_fall_silent(&c);
    rig_forget(c.rig);
    for (int i = 0; i < 500 && told_as(&c, POLICY_SUSPECT) == 0; i++)
        rig_pass(c.rig, 1);
    uint32_t suspects = told_as(&c, POLICY_SUSPECT);
    assert_in_range(suspects, 1, 2);
    report_all(&c);
    rig_pass(c.rig, 2 * NODES * TURN_MS);
    assert_int_equal(told_as(&c, POLICY_SUSPECT), 0);
    assert_int_equal(told_as(&c, POLICY_ALIVE), suspects);
    for (int i = 0; i < 9; i++) {
        rig_report(c.rig, &c.watcher, 1000, NULL, 0);
        rig_pass(c.rig, 1000);
    }
    rig_forget(c.rig);
    rig_report(c.rig, &c.watcher, 1000, NULL, 0);
    rig_pass(c.rig, 1000);
    assert_int_equal(told_as(&c, POLICY_DEAD), NODES);
    rig_free(c.rig);
}

static void who_is_told_to_use_a_node_knows_that_it_is_there(void **unused)
{
    (void)unused;
    struct crowd        c = crowd_new(1);
    Manta__V1__Resource cpu = MANTA__V1__RESOURCE__INIT, *list[] = {&cpu};
    Manta__V1__Want     w = MANTA__V1__WANT__INIT, *wants[] = {&w};
    struct rig_node    *last = &c.nodes[NODES - 1];
    cpu.name = "CPU";
    cpu.milli = last->cpus; /* the others are too small */
    w.owner = 900;
    w.class_id = w.wanted = 1;
    w.version = w.n_resources = 1;
    w.resources = list;
    all_fall_silent(&c);
    rig_forget(c.rig);
    all_are_told(&c, POLICY_SUSPECT, 2);
    report_all(&c); /* it is the last of those who are back */
    assert_int_equal(told(&c, last->node), POLICY_SUSPECT);
    rig_report(c.rig, &c.watcher, 1000, wants, 1);
    assert_int_equal(rig_last(c.rig, c.watcher.stream, KIND(PLACE))->place->nodes[0], last->node);
    assert_int_equal(told(&c, last->node), POLICY_ALIVE);
    rig_free(c.rig);
}

/* All who join at once are told of all, in more than one step, and in the end each of the same. */
static void who_joins_in_a_crowd_is_told_of_all(void **unused)
{
    (void)unused;
    static struct rig_node nodes[MANY];
    struct rig            *rig = rig_new();
    uint32_t               steps = 0, known = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        nodes[i] = (struct rig_node){.boot = i + 1, .cpus = 1000};
        rig_register(rig, &nodes[i]);
    }
    for (uint32_t was = 0; steps < 200 && (steps < 2 || was != rig_count(rig, nodes[MANY - 1].stream, KIND(VIEW))); steps++) {
        was = (uint32_t)rig_count(rig, nodes[MANY - 1].stream, KIND(VIEW));
        rig_pass(rig, MT_HEAD_VIEW_MS_MAX);
    }
    for (size_t i = 0; i < rig->sent_count; i++)
        if (rig->sent[i].message->kind_case == KIND(VIEW) && rig->sent[i].stream == nodes[MANY - 1].stream)
            known += (uint32_t)rig->sent[i].message->view->n_nodes;
    assert_int_equal(known, MANY);
    rig_free(rig);
}

/* ---- who waits for room ---- */

static void more_room_is_seen_at_once(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 1, .cpus = 4000};
    rig_register(rig, &a);
    rig_pass(rig, MT_HEAD_GRACE_MS);
    rig_report(rig, &a, 1000, NULL, 0);
    rig_submit(rig, "one", 0, 2000);
    rig_pass(rig, 1500);
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 0);
    uint64_t looks = head_counters(rig->head)->looked;
    for (int i = 0; i < 100; i++) /* what says nothing new, or that there is less, moves nobody */
        rig_report(rig, &a, 1000 - 10 * (i % 2), NULL, 0);
    assert_in_range(head_counters(rig->head)->looked, looks, looks + 50); /* each second one has more than the one before */
    looks = head_counters(rig->head)->looked;
    for (int i = 0; i < 100; i++)
        rig_report(rig, &a, 1000, NULL, 0);
    assert_in_range(head_counters(rig->head)->looked, looks, looks + 1);
    rig_report(rig, &a, 2000, NULL, 0);
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 1);
    rig_free(rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_suspect_is_told_in_turns),
        cmocka_unit_test(who_is_heard_before_his_turn_was_never_away),
        cmocka_unit_test(who_is_told_to_use_a_node_knows_that_it_is_there),
        cmocka_unit_test(who_joins_in_a_crowd_is_told_of_all),
        cmocka_unit_test(more_room_is_seen_at_once),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

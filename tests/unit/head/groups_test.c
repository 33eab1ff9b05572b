/* SPDX-License-Identifier: Apache-2.0
 *
 * groups_test.c - placement groups at the head: two phases, refusals, what a node holds and the head does not know, ends; and
 * what a restarted head goes on with.
 */
#include "tests/unit/head/rig.h"

#include "scheduler/head/core/groups/internal.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name
enum { NEW = 1, WAIT = 2, FIND = 3, REMOVE = 4 }; /* groups */
enum { PREPARE = 1, COMMIT = 2, RETURN = 3 };     /* bundles */
enum { PACK = 0, SPREAD = 1, STRICT_PACK = 2, STRICT_SPREAD = 3 };
enum { JOB = 77 };

static uint64_t next_id = 1;

struct wish {
    uint32_t    verb, strategy, wait_ms;
    size_t      bundles;
    int64_t     cpus; /* thousandths, of each */
    const char *name;
    bool        detached;
    uint64_t    apart; /* job with a user of its own that asks; 0: JOB, which has none */
};

static void say(struct rig *rig, const struct rig_node *node, uint64_t number, const struct wish *w)
{
    Manta__V1__GroupRequest r = MANTA__V1__GROUP_REQUEST__INIT;
    Manta__V1__NodeToHead   message = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Resource     cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    Manta__V1__Bundle       bundles[4], *all[4];
    cpu.name = "CPU";
    cpu.milli = w->cpus;
    for (size_t i = 0; i < w->bundles; i++) {
        manta__v1__bundle__init(&bundles[i]);
        bundles[i].resources = resources;
        bundles[i].n_resources = w->cpus != 0;
        all[i] = &bundles[i];
    }
    r.id_process = 9;
    r.id_counter = next_id++;
    r.verb = w->verb;
    r.group_process = 5;
    r.group_counter = number;
    r.space = "space";
    r.name = (char *)(w->name ? w->name : "");
    r.strategy = w->strategy;
    r.detached = w->detached;
    r.job = w->apart ? w->apart : JOB;
    r.apart = w->apart != 0;
    r.job_node = node->node;
    r.job_epoch = node->epoch;
    r.wait_ms = w->wait_ms;
    r.bundles = all;
    r.n_bundles = w->bundles;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_GROUP;
    message.group = &r;
    rig_say(rig, node->stream, &message);
}

/* The newest answer's code; -1: none came since. */
static int asked(struct rig *rig, const struct rig_node *node, uint64_t number, struct wish w)
{
    size_t before = rig_count(rig, node->stream, KIND(GROUP));
    say(rig, node, number, &w);
    if (rig_count(rig, node->stream, KIND(GROUP)) == before)
        return -1;
    return rig_last(rig, node->stream, KIND(GROUP))->group->code;
}

static const Manta__V1__BundleOrder *order_of(struct rig *rig, const struct rig_node *node)
{
    Manta__V1__HeadToNode *m = rig_last(rig, node->stream, KIND(BUNDLE));
    return m ? m->bundle : NULL;
}

static uint32_t verb_of(struct rig *rig, const struct rig_node *node)
{
    const Manta__V1__BundleOrder *o = order_of(rig, node);
    return o ? o->verb : 0;
}

/* The node's answer to its newest order. */
static void answer(struct rig *rig, const struct rig_node *node, int32_t code)
{
    const Manta__V1__BundleOrder *o = order_of(rig, node);
    Manta__V1__BundleAnswer       a = MANTA__V1__BUNDLE_ANSWER__INIT;
    Manta__V1__NodeToHead         message = MANTA__V1__NODE_TO_HEAD__INIT;
    assert_non_null(o);
    a.group_process = o->group_process;
    a.group_counter = o->group_counter;
    a.verb = o->verb;
    a.epoch = o->epoch;
    a.code = code;
    a.bundles = o->bundles;
    a.n_bundles = o->n_bundles;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_BUNDLE;
    message.bundle = &a;
    rig_say(rig, node->stream, &message);
}

static void report_holds(struct rig *rig, struct rig_node *node, uint64_t number, uint32_t index, uint64_t version)
{
    Manta__V1__Report     r = MANTA__V1__REPORT__INIT;
    Manta__V1__BundleHeld held = MANTA__V1__BUNDLE_HELD__INIT, *all[] = {&held};
    Manta__V1__NodeToHead message = MANTA__V1__NODE_TO_HEAD__INIT;
    held.group_process = 5;
    held.group_counter = number;
    held.index = index;
    held.version = version;
    held.committed = true;
    r.version = ++node->version;
    r.bundles = all;
    r.n_bundles = 1;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    message.report = &r;
    rig_say(rig, node->stream, &message);
}

static const struct wish pair = {.verb = NEW, .strategy = STRICT_SPREAD, .bundles = 2, .cpus = 1000};
static const struct wish wait_now = {.verb = WAIT};

static void all_say_yes_then_it_stands(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    (void)unused;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(asked(rig, &a, 1, pair), MT_OK);
    assert_int_equal(asked(rig, &a, 1, pair), MT_OK); /* said twice */
    assert_int_equal(verb_of(rig, &a), PREPARE);
    assert_int_equal(verb_of(rig, &b), PREPARE);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = WAIT, .wait_ms = 5000}), -1);
    answer(rig, &a, MT_OK);
    assert_int_equal(verb_of(rig, &a), PREPARE);
    answer(rig, &b, MT_OK);
    assert_int_equal(verb_of(rig, &a), COMMIT);
    assert_int_equal(verb_of(rig, &b), COMMIT);
    assert_int_equal(rig_last(rig, a.stream, KIND(GROUP))->group->code, MT_OK); /* who waited was told */
    assert_int_equal(asked(rig, &b, 1, wait_now), MT_OK);
    answer(rig, &a, MT_OK);
    answer(rig, &b, MT_OK);
    rig_pass(rig, 2 * MT_HEAD_TICK_MS);
    assert_int_equal(rig->head->open_groups.count, 0); /* no round looks at it any more */
    assert_int_equal(asked(rig, &b, 1, (struct wish){.verb = FIND}), MT_OK);
    const Manta__V1__GroupReply *found = rig_last(rig, b.stream, KIND(GROUP))->group;
    assert_true(found->ready);
    assert_int_equal(found->bundles[0]->node + found->bundles[1]->node, a.node + b.node);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = REMOVE}), MT_OK);
    assert_int_equal(verb_of(rig, &b), RETURN);
    assert_true(order_of(rig, &b)->removed);
    assert_int_equal(asked(rig, &a, 1, wait_now), MT_EPG_REMOVED);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = REMOVE}), MT_OK);
    assert_int_equal(asked(rig, &a, 1, pair), MT_EPG_REMOVED); /* a request that comes late makes no second one */
    rig_free(rig);
}

static void one_refusal_returns_the_rest(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    (void)unused;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(asked(rig, &a, 1, pair), MT_OK);
    uint64_t version = order_of(rig, &a)->bundles[0]->version;
    answer(rig, &a, MT_OK);
    answer(rig, &b, MT_EAGAIN);
    assert_int_equal(verb_of(rig, &a), RETURN);
    assert_false(order_of(rig, &a)->removed);
    rig_pass(rig, 200);
    assert_int_equal(verb_of(rig, &a), PREPARE);
    assert_true(order_of(rig, &a)->bundles[0]->version > version);
    report_holds(rig, &a, 1, order_of(rig, &a)->bundles[0]->index, version);
    assert_int_equal(verb_of(rig, &a), RETURN); /* it had not heard of that */
    assert_int_equal(order_of(rig, &a)->bundles[0]->version, version);
    report_holds(rig, &b, 99, 0, 1);
    assert_int_equal(verb_of(rig, &b), RETURN); /* of a group that nobody knows */
    assert_true(order_of(rig, &b)->removed);
    rig_free(rig);
}

/* How long a node whose CPUs others have is to keep room. */
static uint32_t kept_ms(struct rig *rig, struct rig_node *node)
{
    size_t before = rig_count(rig, node->stream, KIND(PRESS));
    rig_report(rig, node, 0, NULL, 0);
    for (int i = 0; i < 100 && rig_count(rig, node->stream, KIND(PRESS)) == before; i++)
        rig_pass(rig, 50);
    return rig_last(rig, node->stream, KIND(PRESS))->press->keep_ms;
}

/* The node has made room, and was asked for it; by then it is there, or gone. */
static void comes_for_it(struct rig *rig, struct rig_node *node, int32_t code)
{
    rig_report(rig, node, 2000, NULL, 0);
    for (int i = 0; i < 100 && verb_of(rig, node) != PREPARE; i++)
        rig_pass(rig, 50);
    assert_int_equal(verb_of(rig, node), PREPARE);
    answer(rig, node, code);
}

static void who_is_refused_has_room_kept_longer(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    (void)unused;
    rig_register(rig, &a);
    rig_report(rig, &a, 0, NULL, 0);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 2000}), MT_OK);
    for (uint32_t ms = MT_RLT_PRESS_MS; ms < MT_RLT_PRESS_MAX_MS; ms *= 2) {
        assert_int_equal(kept_ms(rig, &a), ms);
        comes_for_it(rig, &a, MT_EAGAIN);
    }
    assert_int_equal(kept_ms(rig, &a), MT_RLT_PRESS_MAX_MS);
    comes_for_it(rig, &a, MT_EAGAIN);
    assert_int_equal(kept_ms(rig, &a), MT_RLT_PRESS_MAX_MS);
    comes_for_it(rig, &a, MT_OK);
    assert_int_equal(verb_of(rig, &a), COMMIT);
    rig_free(rig);
}

static void a_lost_node_is_replaced(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 1000}, b = {.boot = 12, .cpus = 1000}, c = {.boot = 13, .cpus = 1000};
    (void)unused;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(asked(rig, &a, 1, pair), MT_OK);
    answer(rig, &a, MT_OK);
    answer(rig, &b, MT_OK);
    assert_int_equal(asked(rig, &a, 1, wait_now), MT_OK);
    size_t told = rig_count(rig, a.stream, KIND(BUNDLE));
    rig_register(rig, &c);
    b.boot = 22; /* another raylet under that number: what it had is gone */
    b.cpus = 100;
    rig_register(rig, &b);
    assert_int_equal(verb_of(rig, &c), PREPARE);
    assert_int_equal(asked(rig, &a, 1, wait_now), MT_ETIMEDOUT);
    answer(rig, &c, MT_OK);
    assert_int_equal(asked(rig, &a, 1, wait_now), MT_OK);
    assert_int_equal(verb_of(rig, &a), COMMIT); /* its bundle stayed where it was */
    assert_true(rig_count(rig, a.stream, KIND(BUNDLE)) <= told + 1);
    a.boot = 21; /* the driver's own node: its job ends, and the group with it */
    rig_register(rig, &a);
    assert_int_equal(verb_of(rig, &c), RETURN);
    rig_free(rig);
}

static void a_restarted_head_goes_on(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    (void)unused;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(asked(rig, &a, 1, pair), MT_OK);
    uint64_t version = order_of(rig, &a)->bundles[0]->version;
    answer(rig, &a, MT_OK);
    rig_forget(rig);
    rig_restart(rig);
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(verb_of(rig, &a), PREPARE); /* half done: asked again, as before */
    assert_int_equal(order_of(rig, &a)->bundles[0]->version, version);
    answer(rig, &a, MT_OK);
    answer(rig, &b, MT_OK);
    assert_int_equal(verb_of(rig, &a), COMMIT);
    rig_forget(rig);
    rig_restart(rig);
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(verb_of(rig, &b), COMMIT); /* decided: said again */
    assert_int_equal(asked(rig, &b, 1, wait_now), MT_OK);
    rig_free(rig);
}

/* Jobs with users of their own have names and groups of their own, also after a restart. */
static void groups_of_users_are_apart(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 9000};
    struct wish     new_one = {.verb = NEW, .bundles = 1, .cpus = 500, .name = "mine", .apart = 21};
    struct wish     find = {.verb = FIND, .name = "mine", .apart = 22}, wait = {.verb = WAIT, .apart = 22};
    (void)unused;
    rig_register(rig, &a);
    assert_int_equal(asked(rig, &a, 1, new_one), MT_OK);
    for (int i = 0; i < 2; i++) {
        find.apart = wait.apart = 22;
        assert_int_equal(asked(rig, &a, 0, find), MT_ENOENT);
        assert_int_equal(asked(rig, &a, 1, wait), MT_EPG_REMOVED);
        find.apart = 0; /* a job of a node where all have one user */
        assert_int_equal(asked(rig, &a, 0, find), MT_ENOENT);
        assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = REMOVE, .apart = 22}), MT_OK);
        find.apart = 21;
        assert_int_equal(asked(rig, &a, 0, find), MT_OK);
        assert_string_equal(rig_last(rig, a.stream, KIND(GROUP))->group->name, "mine");
        assert_int_equal(asked(rig, &a, 3, new_one), MT_EEXIST);
        rig_forget(rig);
        rig_restart(rig);
        rig_register(rig, &a);
    }
    new_one.apart = 22;
    assert_int_equal(asked(rig, &a, 2, new_one), MT_OK);
    new_one.apart = 0;
    assert_int_equal(asked(rig, &a, 4, new_one), MT_OK);
    new_one = (struct wish){.verb = NEW, .bundles = 1, .cpus = 500, .detached = true, .apart = 23};
    assert_int_equal(asked(rig, &a, 5, new_one), MT_EUNSUPPORTED);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = REMOVE, .apart = 21}), MT_OK);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = WAIT, .apart = 21}), MT_EPG_REMOVED);
    rig_free(rig);
}

static void bad_wishes(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    struct wish     named = {.verb = NEW, .bundles = 1, .cpus = 500, .name = "mine", .detached = true};
    (void)unused;
    rig_register(rig, &a);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW}), MT_EINVAL);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1}), MT_EINVAL); /* an empty one */
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = -5}), MT_EINVAL);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 1, .strategy = 9}), MT_EINVAL);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 1, .name = "\n"}), MT_EINVAL);
    assert_int_equal(asked(rig, &a, 1, named), MT_OK);
    assert_int_equal(asked(rig, &a, 2, named), MT_EEXIST);
    assert_int_equal(asked(rig, &a, 0, (struct wish){.verb = FIND, .name = "mine"}), MT_OK);
    assert_int_equal(asked(rig, &a, 0, (struct wish){.verb = FIND, .name = "other"}), MT_ENOENT);
    rig_pass(rig, 3000); /* the grace in which nodes register is over */
    assert_int_equal(asked(rig, &a, 3, pair), MT_OK);
    assert_int_equal(asked(rig, &a, 3, wait_now), MT_EUNSCHEDULABLE);
    assert_non_null(strstr(rig_last(rig, a.stream, KIND(GROUP))->group->text, "STRICT_SPREAD"));
    rig_free(rig);
}

static void a_group_goes_with_its_job(void **unused)
{
    struct rig            *rig = rig_new();
    struct rig_node        a = {.boot = 11, .cpus = 4000};
    Manta__V1__ProcessGone gone = MANTA__V1__PROCESS_GONE__INIT;
    Manta__V1__NodeToHead  message = MANTA__V1__NODE_TO_HEAD__INIT;
    (void)unused;
    rig_register(rig, &a);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 500}), MT_OK);
    answer(rig, &a, MT_OK);
    struct wish stays = {.verb = NEW, .bundles = 1, .cpus = 500, .name = "x", .detached = true};
    assert_int_equal(asked(rig, &a, 2, stays), MT_OK);
    answer(rig, &a, MT_OK);
    gone.job = JOB;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_GONE;
    message.gone = &gone;
    rig_say(rig, a.stream, &message);
    assert_int_equal(asked(rig, &a, 1, wait_now), MT_EPG_REMOVED);
    assert_int_equal(asked(rig, &a, 2, wait_now), MT_OK);
    assert_int_equal(asked(rig, &a, 4, (struct wish){.verb = NEW, .bundles = 1, .cpus = 500}), MT_EPG_REMOVED); /* too late */
    rig_free(rig);
}

static void while_all_nodes_leave_a_group_waits(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000}, b = {.boot = 12, .cpus = 2000};
    (void)unused;
    rig_register(rig, &a);
    rig_pass(rig, 2500);
    rig_drain(rig, &a);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 1000}), MT_OK);
    say(rig, &a, 1, &(struct wish){.verb = WAIT, .wait_ms = 60 * 1000});
    size_t answers = rig_count(rig, a.stream, KIND(GROUP));
    rig_report(rig, &a, 2000, NULL, 0);
    rig_pass(rig, 500);
    assert_int_equal(rig_count(rig, a.stream, KIND(GROUP)), answers);
    rig_register(rig, &b);
    rig_pass(rig, 500);
    answer(rig, &b, MT_OK);
    assert_int_equal(rig_count(rig, a.stream, KIND(GROUP)), answers + 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(GROUP))->group->code, MT_OK);
    rig_free(rig);
}

/* Leases in a pool go where the bundle is; what can't be is said. */
static void wants_go_to_the_bundle(void **unused)
{
    struct rig         *rig = rig_new();
    struct rig_node     a = {.boot = 11, .cpus = 1000}, b = {.boot = 12, .cpus = 4000};
    Manta__V1__Want     want = MANTA__V1__WANT__INIT, *wants[] = {&want};
    Manta__V1__Resource cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    (void)unused;
    rig_register(rig, &a);
    rig_register(rig, &b);
    assert_int_equal(asked(rig, &a, 1, (struct wish){.verb = NEW, .bundles = 1, .cpus = 2000}), MT_OK);
    answer(rig, &b, MT_OK);
    cpu.name = "CPU";
    cpu.milli = 1000;
    want.owner = 500;
    want.class_id = 1;
    want.version = 1;
    want.wanted = 5;
    want.resources = resources;
    want.n_resources = 1;
    want.group_process = 5;
    want.group_counter = 1;
    want.bundle = 1;
    rig_report(rig, &a, 1000, wants, 1);
    const Manta__V1__Place *place = rig_last(rig, a.stream, KIND(PLACE))->place;
    assert_int_equal(place->n_nodes, 2); /* as many as the bundle has room for */
    assert_int_equal(place->nodes[0], b.node);
    want.class_id = 2;
    want.bundle = 2;
    rig_report(rig, &a, 1000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EINVAL);
    want.class_id = 3;
    want.bundle = 0;
    cpu.milli = 3000;
    rig_report(rig, &a, 1000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->class_id, 3);
    want.class_id = 4;
    want.group_counter = 2;
    rig_report(rig, &a, 1000, wants, 1);
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EPG_REMOVED);
    rig_report(rig, &a, 1000, wants, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 3); /* said once ... */
    rig_close(rig, a.stream);
    rig_register(rig, &a);
    rig_report(rig, &a, 1000, wants, 1);
    assert_int_equal(rig_count(rig, a.stream, KIND(UNSCHEDULABLE)), 1); /* ... a stream: it may have gone with the last one */
    assert_int_equal(rig_last(rig, a.stream, KIND(UNSCHEDULABLE))->unschedulable->code, MT_EPG_REMOVED);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_say_yes_then_it_stands),
        cmocka_unit_test(one_refusal_returns_the_rest),
        cmocka_unit_test(who_is_refused_has_room_kept_longer),
        cmocka_unit_test(a_lost_node_is_replaced),
        cmocka_unit_test(a_restarted_head_goes_on),
        cmocka_unit_test(groups_of_users_are_apart),
        cmocka_unit_test(bad_wishes),
        cmocka_unit_test(while_all_nodes_leave_a_group_waits),
        cmocka_unit_test(a_group_goes_with_its_job),
        cmocka_unit_test(wants_go_to_the_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

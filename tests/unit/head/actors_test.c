/* SPDX-License-Identifier: Apache-2.0
 *
 * actors_test.c - detached actors at the head: made once by name, their wardens come and go, restarts add up, an end frees
 * the name; and all of it through restarts of the head.
 */
#include "tests/unit/head/rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name
enum { PUT = 1, GET = 2, DELETE = 3 };               /* names */
enum { NEW = 1, WHERE = 2, END = 3, RESTARTED = 4 }; /* actors */

static uint64_t next_id = 1000;

/* The reply's code; *out (may be NULL) the reply, valid until rig_forget. */
static int ask(struct rig *rig, const struct rig_node *node, Manta__V1__ActorRequest *r, Manta__V1__NameReply **out)
{
    Manta__V1__NodeToHead message = MANTA__V1__NODE_TO_HEAD__INIT;
    size_t                before = rig_count(rig, node->stream, KIND(NAME));
    r->id_process = 9;
    r->id_counter = next_id++;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_ACTOR;
    message.actor = r;
    rig_say(rig, node->stream, &message);
    if (rig_count(rig, node->stream, KIND(NAME)) == before)
        return -1;
    Manta__V1__NameReply *reply = rig_last(rig, node->stream, KIND(NAME))->name;
    if (out)
        *out = reply;
    return reply->code;
}

static int make(struct rig *rig, const struct rig_node *node, uint64_t number, const char *name, uint32_t retries)
{
    Manta__V1__ActorRequest  r = MANTA__V1__ACTOR_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__DetachedActor actor = MANTA__V1__DETACHED_ACTOR__INIT;
    char                    *argv[] = {"./program"}, id[64];
    snprintf(id, sizeof id, "actor-%016llx-%llx", 5ull, (unsigned long long)number);
    spec.id = id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.retries = retries;
    spec.actor = &actor;
    actor.space = "space";
    actor.name = (char *)name;
    actor.type = "counter_type";
    actor.process = r.actor_process = 5;
    actor.counter = r.actor_counter = number;
    r.verb = NEW;
    r.spec = &spec;
    return ask(rig, node, &r, NULL);
}

static int say(struct rig *rig, const struct rig_node *node, uint64_t number, uint32_t verb, uint32_t restarts,
               Manta__V1__NameReply **out)
{
    Manta__V1__ActorRequest r = MANTA__V1__ACTOR_REQUEST__INIT;
    r.actor_process = 5;
    r.actor_counter = number;
    r.verb = verb;
    r.restarts = restarts;
    r.reason = "it was killed";
    return ask(rig, node, &r, out);
}

/* The warden of actor (5, number) is up, as process `owner`. */
static int warden_up(struct rig *rig, const struct rig_node *node, uint64_t number, const char *name, uint64_t owner)
{
    Manta__V1__NodeToHead  message = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__NameRequest r = MANTA__V1__NAME_REQUEST__INIT;
    r.id_process = 9;
    r.id_counter = next_id++;
    r.op = PUT;
    r.space = "space";
    r.name = (char *)name;
    r.type = "counter_type";
    r.actor_process = 5;
    r.actor_counter = number;
    r.owner = owner;
    r.owner_node = node->node;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_NAME;
    message.name = &r;
    rig_say(rig, node->stream, &message);
    return rig_last(rig, node->stream, KIND(NAME))->name->code;
}

static uint64_t owner_now(struct rig *rig, const struct rig_node *node, uint64_t number)
{
    Manta__V1__NameReply *reply;
    return say(rig, node, number, WHERE, 0, &reply) == MT_OK ? reply->owner : UINT64_MAX;
}

static void one_is_made_once_and_found(void **unused)
{
    (void)unused;
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 2000};
    uint64_t        actor = 0;
    rig_register(rig, &a);
    assert_int_equal(make(rig, &a, 1, "bank", 2), MT_OK);
    assert_int_equal(make(rig, &a, 1, "bank", 2), MT_OK); /* said twice */
    assert_int_equal(rig_count(rig, a.stream, KIND(START_JOB)), 1);
    assert_int_equal(make(rig, &a, 2, "bank", 0), MT_EEXIST);
    assert_int_equal(make(rig, &a, 3, "", 0), MT_EINVAL);
    assert_int_equal(rig_name(rig, &a, 1, GET, "bank", 0, 0, 0, &actor), MT_OK);
    assert_int_equal(owner_now(rig, &a, 1), 0); /* its warden is being started */
    assert_int_equal(warden_up(rig, &a, 1, "bank", 700), MT_OK);
    assert_int_equal(owner_now(rig, &a, 1), 700);
    assert_int_equal(rig_name(rig, &a, 2, PUT, "bank", 60, 600, a.node, NULL), MT_EEXIST);
    assert_int_equal(rig_name(rig, &a, 3, DELETE, "bank", 0, 0, 0, NULL), MT_ENOENT); /* it is not a process's to give up */
    rig_free(rig);
}

static void a_client_cannot_submit_one(void **unused)
{
    (void)unused;
    struct rig              *rig = rig_new();
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__DetachedActor actor = MANTA__V1__DETACHED_ACTOR__INIT;
    char                    *argv[] = {"x"};
    spec.id = "j";
    spec.argv = argv;
    spec.n_argv = 1;
    spec.actor = &actor;
    r.spec = &spec;
    Manta__V1__JobReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_SUBMIT, &r.base), &manta__v1__job_reply__descriptor);
    assert_int_equal(reply->code, MT_EINVAL);
    manta__v1__job_reply__free_unpacked(reply, NULL);
    rig_free(rig);
}

/* The warden dies, or its node: another is started, as long as there are restarts, those that wardens made included. */
static void wardens_are_replaced(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    struct rig_node       a = {.boot = 11, .cpus = 2000}, b = {.boot = 22, .cpus = 2000};
    Manta__V1__NameReply *reply;
    const char           *id = "actor-0000000000000005-1";
    rig_register(rig, &a);
    assert_int_equal(make(rig, &a, 1, "bank", 2), MT_OK);
    rig_job_state(rig, &a, id, 1, "RUNNING", 0, "");
    assert_int_equal(warden_up(rig, &a, 1, "bank", 700), MT_OK);
    assert_int_equal(say(rig, &a, 1, RESTARTED, 1, NULL), MT_OK);
    rig_gone(rig, &a, 700);
    rig_job_state(rig, &a, id, 1, "FAILED", 137, "killed by signal 9");
    assert_int_equal(owner_now(rig, &a, 1), 0);
    assert_int_equal(make(rig, &a, 2, "bank", 0), MT_EEXIST); /* the name is still its */
    rig_register(rig, &b);
    rig_close(rig, a.stream);
    for (int i = 0; i < 30; i++) { /* node a is dead after a while */
        rig_pass(rig, 500);
        rig_report(rig, &b, 2000, NULL, 0);
    }
    Manta__V1__StartJob *start = rig_last(rig, b.stream, KIND(START_JOB))->start_job;
    assert_int_equal(start->failures, 2); /* one by its warden, one by the head */
    rig_job_state(rig, &b, id, start->attempt, "RUNNING", 0, "");
    assert_int_equal(warden_up(rig, &b, 1, "bank", 800), MT_OK);
    assert_int_equal(owner_now(rig, &b, 1), 800);
    rig_gone(rig, &b, 800);
    rig_job_state(rig, &b, id, start->attempt, "FAILED", 137, "killed by signal 9");
    assert_int_equal(say(rig, &b, 1, WHERE, 0, &reply), MT_EACTOR_DIED);
    assert_string_equal(reply->text, "killed by signal 9");
    assert_int_equal(make(rig, &b, 2, "bank", 0), MT_OK);
    rig_free(rig);
}

static void an_end_frees_the_name_at_once(void **unused)
{
    (void)unused;
    struct rig           *rig = rig_new();
    struct rig_node       a = {.boot = 11, .cpus = 2000};
    Manta__V1__NameReply *reply;
    rig_register(rig, &a);
    assert_int_equal(make(rig, &a, 1, "bank", UINT32_MAX), MT_OK);
    rig_job_state(rig, &a, "actor-0000000000000005-1", 1, "RUNNING", 0, "");
    assert_int_equal(warden_up(rig, &a, 1, "bank", 700), MT_OK);
    assert_int_equal(say(rig, &a, 1, END, 0, NULL), MT_OK);
    assert_int_equal(rig_name(rig, &a, 1, GET, "bank", 0, 0, 0, NULL), MT_ENOENT);
    assert_string_equal(rig_last(rig, a.stream, KIND(STOP_JOB))->stop_job->id, "actor-0000000000000005-1");
    assert_int_equal(make(rig, &a, 2, "bank", 0), MT_OK);
    rig_job_state(rig, &a, "actor-0000000000000005-1", 1, "STOPPED", 143, "stopped");
    assert_int_equal(say(rig, &a, 1, WHERE, 0, &reply), MT_EACTOR_DIED);
    assert_string_equal(reply->text, "it was killed");
    assert_int_equal(owner_now(rig, &a, 2), 0); /* the next one of that name is untouched */
    assert_int_equal(say(rig, &a, 77, WHERE, 0, NULL), MT_EACTOR_DIED);
    assert_int_equal(say(rig, &a, 1, 99, 0, NULL), MT_EUNSUPPORTED);
    rig_free(rig);
}

/* Whatever was acknowledged is there after a restart of the head at any write; what was not may be, and then all of it. */
static void a_restarted_head_knows_it(void **unused)
{
    (void)unused;
    for (uint64_t at = 1; at < 8; at++) {
        for (int before = 0; before < 2; before++) {
            struct rig     *rig = rig_new();
            struct rig_node a = {.boot = 11, .cpus = 2000};
            rig->crash_at = at;
            rig->crash = before ? RIG_BEFORE_WRITE : RIG_AFTER_WRITE;
            rig_register(rig, &a);
            bool is_made = !rig->has_crashed && make(rig, &a, 1, "bank", 3) == MT_OK;
            bool is_up = is_made && !rig->has_crashed && warden_up(rig, &a, 1, "bank", 700) == MT_OK && !rig->has_crashed;
            bool is_over = is_up && say(rig, &a, 1, END, 0, NULL) == MT_OK;
            rig->crash = RIG_NO_CRASH;
            rig_restart(rig);
            rig_register(rig, &a);
            int code = rig_name(rig, &a, 1, GET, "bank", 0, 0, 0, NULL);
            if (is_made && !is_up && !rig->has_crashed)
                assert_int_equal(code, MT_OK);
            if (is_over)
                assert_int_equal(code, MT_ENOENT);
            int again = make(rig, &a, 2, "bank", 0);
            assert_int_equal(again, code == MT_OK ? MT_EEXIST : MT_OK);
            rig_free(rig);
        }
    }
}

/* ---- strict ones ---- */

/* Node `n` says that leases 100 and 101 of strict actors run there, whose owners are on `owner`; what it may go on with. */
static Manta__V1__Extend *strict_report(struct rig *rig, struct rig_node *n, const struct rig_node *owner)
{
    Manta__V1__NodeToHead  message = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Report      report = MANTA__V1__REPORT__INIT;
    Manta__V1__StrictLease a = MANTA__V1__STRICT_LEASE__INIT, b = MANTA__V1__STRICT_LEASE__INIT, *both[] = {&a, &b};
    a.lease = 100, a.owner = 700, a.owner_node = owner->node;
    b.lease = 101, b.owner = 701, b.owner_node = owner->node;
    report.version = ++n->version;
    report.strict = both;
    report.n_strict = 2;
    message.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    message.report = &report;
    rig_say(rig, n->stream, &message);
    Manta__V1__Extend *extend = rig_last(rig, n->stream, KIND(EXTEND))->extend;
    assert_int_equal(extend->version, report.version);
    return extend;
}

static int give_up(struct rig *rig, const struct rig_node *by, uint32_t node, uint64_t lease)
{
    Manta__V1__ActorRequest r = MANTA__V1__ACTOR_REQUEST__INIT;
    r.verb = 5; /* VOID */
    r.node = node;
    r.lease = lease;
    return ask(rig, by, &r, NULL);
}

static void a_strict_actor_runs_while_it_may(void **unused)
{
    (void)unused;
    struct rig        *rig = rig_new();
    struct rig_node    a = {.boot = 11, .cpus = 2000}, b = {.boot = 22, .cpus = 2000};
    Manta__V1__Extend *extend;
    rig_register(rig, &a);
    rig_register(rig, &b);
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_leases + extend->n_gone, 0); /* the owners' node has not said yet who has ended there */
    rig_report(rig, &a, 2000, NULL, 0);
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_leases, 2);
    rig_gone(rig, &a, 701);
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_leases, 1);
    assert_int_equal(extend->n_gone, 1);
    assert_int_equal(extend->gone[0], 101);
    rig->holds_store = true;
    assert_int_equal(give_up(rig, &a, b.node, 100), -1); /* not before it is stored */
    rig_store(rig, mt_ok());
    rig->holds_store = false;
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_leases, 0);
    rig_restart(rig);
    rig_register(rig, &a);
    rig_register(rig, &b);
    rig_report(rig, &a, 2000, NULL, 0);
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_leases, 1); /* 701: its node says again who has ended, in reality; 100 is void for ever */
    assert_int_equal(extend->leases[0], 101);
    assert_int_equal(extend->gone[0], 100);
    rig_close(rig, a.stream);
    for (int i = 0; i < 30; i++) { /* the owners' node is dead after a while */
        rig_pass(rig, 500);
        rig_report(rig, &b, 2000, NULL, 0);
    }
    extend = strict_report(rig, &b, &a);
    assert_int_equal(extend->n_gone, 2);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_made_once_and_found), cmocka_unit_test(a_client_cannot_submit_one),
        cmocka_unit_test(wardens_are_replaced),       cmocka_unit_test(an_end_frees_the_name_at_once),
        cmocka_unit_test(a_restarted_head_knows_it),  cmocka_unit_test(a_strict_actor_runs_while_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

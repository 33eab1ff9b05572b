/* SPDX-License-Identifier: Apache-2.0
 *
 * scale_test.c - the head starts nodes and gives them back: what waits is told to the scaler, an instance has its record before the
 *                provider is asked, and a head that is killed at any store write leaves neither a stranger nor a second one.
 */
#include "tests/unit/head/rig.h"

#include "scheduler/scaler/scaler.h"

#include <stdio.h>

enum { THINGS = 64 };

static struct {                                                       /* the provider */
    uint64_t runs[THINGS], started, listing, answers[THINGS], ticket; /* of the last launch */
    size_t   count, answer_count;
    bool     is_listing;
} provider;

static bool has_record(const struct rig *rig, uint64_t number)
{
    for (size_t i = 0; i < rig->record_count; i++)
        if (rig->records[i].table == HEAD_TABLE_SCALE && rig->records[i].key[0] == 'i' && rig->records[i].key[8] == number)
            return true;
    return false;
}

static size_t records(const struct rig *rig)
{
    size_t n = 0;
    for (size_t i = 0; i < rig->record_count; i++)
        n += rig->records[i].table == HEAD_TABLE_SCALE && rig->records[i].key[0] == 'i';
    return n;
}

static void provide(struct rig *rig, const struct head_action *action)
{
    uint64_t number = action->provide.number;
    switch (action->provide.op) {
    case HEAD_PROVIDE_LAUNCH:
        assert_true(has_record(rig, number));
        assert_true(provider.count < THINGS);
        for (size_t i = 0; i < provider.count; i++)
            assert_true(provider.runs[i] != number);
        provider.runs[provider.count++] = number;
        provider.answers[provider.answer_count++] = number;
        provider.started++;
        provider.ticket = action->provide.ticket.id;
        break;
    case HEAD_PROVIDE_TERMINATE:
        for (size_t i = 0; i < provider.count; i++)
            if (provider.runs[i] == number)
                provider.runs[i--] = provider.runs[--provider.count];
        break;
    case HEAD_PROVIDE_LIST:
        provider.listing = number;
        provider.is_listing = true;
        break;
    default: break;
    }
}

/* What the provider says by now. */
static void answer(struct rig *rig)
{
    static struct scl_listed list[THINGS];
    while (provider.answer_count > 0 && !rig->has_crashed) {
        struct head_event event = {.kind = HEAD_EV_PROVIDED};
        event.provided = (struct head_provided){.op = HEAD_PROVIDE_LAUNCH,
                                                .number = provider.answers[--provider.answer_count],
                                                .outcome = SCL_DONE,
                                                .handle = "h",
                                                .text = ""};
        rig_event(rig, &event);
    }
    if (!provider.is_listing || rig->has_crashed)
        return;
    struct head_event event = {.kind = HEAD_EV_PROVIDED};
    provider.is_listing = false;
    for (size_t i = 0; i < provider.count; i++) {
        list[i].instance = provider.runs[i];
        snprintf(list[i].handle, sizeof list[i].handle, "h");
    }
    event.provided = (struct head_provided){.op = HEAD_PROVIDE_LIST,
                                            .number = provider.listing,
                                            .outcome = SCL_DONE,
                                            .handle = "",
                                            .text = "",
                                            .listed = list,
                                            .count = provider.count};
    rig_event(rig, &event);
}

/* Time passes; a head that was killed comes back. */
static void pass(struct rig *rig, uint64_t ms)
{
    for (uint64_t at = 0; at < ms; at += 100) {
        rig_pass(rig, 100);
        answer(rig);
        if (rig->has_crashed) {
            memset(provider.answers, 0, sizeof provider.answers);
            provider.answer_count = 0;
            provider.is_listing = false;
            rig_restart(rig);
        }
    }
}

static uint64_t scale(struct rig *rig, uint32_t op, uint32_t max, bool is_dry)
{
    Manta__V1__ScaleRequest r = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleConfig  config = MANTA__V1__SCALE_CONFIG__INIT;
    Manta__V1__ScaleType    type = MANTA__V1__SCALE_TYPE__INIT, *types[] = {&type};
    Manta__V1__Resource     cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = 2000;
    type.name = "small";
    type.resources = has;
    type.n_resources = 1;
    type.max = max;
    type.idle_ms = 1000;
    type.boot_ms = 60000;
    config.provider = "local";
    config.types = types;
    config.n_types = 1;
    r.op = op;
    r.config = &config;
    r.is_dry = is_dry;
    return rig_call(rig, HEAD_SCALE, &r.base);
}

static int32_t code_of(struct rig *rig, uint64_t call)
{
    Manta__V1__ScaleReply *reply = rig_reply_to(rig, call, &manta__v1__scale_reply__descriptor);
    assert_non_null(reply);
    int32_t code = reply->code;
    manta__v1__scale_reply__free_unpacked(reply, NULL);
    return code;
}

static void submit(struct rig *rig, char *id)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu};
    char                    *argv[] = {"x"};
    cpu.name = "CPU";
    cpu.milli = 2000;
    spec.id = id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = has;
    spec.n_resources = 1;
    r.spec = &spec;
    rig_call(rig, HEAD_SUBMIT, &r.base);
}

static struct rig *begin(void)
{
    struct rig *rig = rig_new();
    memset(&provider, 0, sizeof provider);
    rig->provide = provide;
    return rig;
}

/* A job that fits nowhere: one node is started, the job runs there, and it is drained when it is idle. */
static void what_waits_gets_a_node(void **state)
{
    (void)state;
    struct rig *rig = begin();
    rig_pass(rig, 3000);
    assert_int_equal(code_of(rig, scale(rig, HEAD_SCALE_UP, 2, true)), MT_OK);
    assert_int_equal(records(rig), 0);
    assert_int_equal(code_of(rig, scale(rig, HEAD_SCALE_UP, 2, false)), MT_OK);
    submit(rig, "job");
    pass(rig, 2000);
    assert_int_equal(provider.started, 1);
    struct rig_node node = {.boot = 7, .cpus = 2000, .labels = "manta.type=small,manta.instance=test-cluster-1,manta.handle=h"};
    rig_register(rig, &node);
    pass(rig, 200);
    assert_int_equal(provider.started, 1);
    assert_non_null(rig_last(rig, node.stream, MANTA__V1__HEAD_TO_NODE__KIND_START_JOB));
    rig_job_state(rig, &node, "job", 1, "RUNNING", 0, "");
    rig_report(rig, &node, 0, NULL, 0);
    for (int i = 0; i < 40; i++) { /* in use: kept. `here` is not said, but the CPUs are; what holds none is told by `here` */
        pass(rig, 500);
        rig_report(rig, &node, 0, NULL, 0);
    }
    assert_int_equal(provider.started, 1);
    rig_free(rig);
}

static void bound(struct rig *rig, char *setting)
{
    Manta__V1__SetUserRequest r = MANTA__V1__SET_USER_REQUEST__INIT;
    r.name = "ann";
    r.settings = &setting;
    r.n_settings = 1;
    rig->token = 0;
    rig_call(rig, HEAD_SET_USER, &r.base);
}

/* More nodes would not help him. */
static void who_has_his_bound_gets_no_node(void **state)
{
    (void)state;
    struct rig *rig = begin();
    rig_pass(rig, 3000);
    assert_int_equal(code_of(rig, scale(rig, HEAD_SCALE_UP, 2, false)), MT_OK);
    uint64_t token = rig_user(rig, "ann", 1);
    bound(rig, "running=1");
    rig->token = token;
    submit(rig, "first");
    pass(rig, 2000);
    assert_int_equal(provider.started, 1);
    struct rig_node node = {.boot = 7, .cpus = 2000, .labels = "manta.type=small,manta.instance=test-cluster-1,manta.handle=h"};
    rig_register(rig, &node);
    pass(rig, 200);
    rig_job_state(rig, &node, "first", 1, "RUNNING", 0, "");
    rig_report(rig, &node, 0, NULL, 0);
    submit(rig, "second");
    pass(rig, 2000);
    assert_int_equal(provider.started, 1);
    bound(rig, "running=none");
    rig_report(rig, &node, 0, NULL, 0);
    pass(rig, 2000);
    assert_int_equal(provider.started, 2);
    rig_free(rig);
}

/* The head is killed before and after each of its store writes. */
static void a_killed_head_leaves_no_stranger(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 12; at++)
        for (int after = 0; after < 2; after++) {
            struct rig *rig = begin();
            rig_pass(rig, 3000);
            uint64_t before = rig->batches;
            rig->crash_at = before + at;
            rig->crash = after ? RIG_AFTER_WRITE : RIG_BEFORE_WRITE;
            scale(rig, HEAD_SCALE_UP, 2, false);
            if (rig->has_crashed) {
                rig_restart(rig);
                scale(rig, HEAD_SCALE_UP, 2, false);
            }
            submit(rig, "job");
            if (rig->has_crashed) {
                rig_restart(rig);
                submit(rig, "job");
            }
            pass(rig, 40000);
            assert_int_equal(provider.count, 1); /* it boots; the job waits for it */
            assert_int_equal(records(rig), 1);
            assert_true(has_record(rig, provider.runs[0]));
            rig->crash = RIG_NO_CRASH;
            scale(rig, HEAD_SCALE_DOWN, 0, false);
            pass(rig, 20000);
            assert_int_equal(provider.count, 0);
            assert_int_equal(records(rig), 0);
            rig_free(rig);
        }
}

static int use(struct rig *rig, uint64_t ticket, uint64_t asks)
{
    Manta__V1__CertifyRequest r = MANTA__V1__CERTIFY_REQUEST__INIT;
    r.name = "machine";
    rig->peer = (struct head_peer){.kind = HEAD_PEER_TICKET, .id = ticket};
    rig->asks = asks;
    uint64_t                 call = rig_call(rig, HEAD_CERTIFY, &r.base);
    Manta__V1__CertifyReply *reply = rig_reply_to(rig, call, &manta__v1__certify_reply__descriptor);
    int                      code = reply->code;
    rig->peer = (struct head_peer){0};
    rig->asks = 0;
    manta__v1__certify_reply__free_unpacked(reply, NULL);
    return code;
}

/* Each instance has a ticket for itself, good for one machine, as long as it is wanted; then who has used it is shut out. All that
 * holds for the next head too, which is started again between all steps. */
static void an_instance_joins_by_its_ticket(void **state)
{
    enum { OWN = 11, MACHINE = 1001, ANOTHER = 1003 };
    (void)state;
    struct rig *rig = begin();
    head_own_member(rig->head, OWN);
    rig_pass(rig, 3000);
    assert_int_equal(code_of(rig, scale(rig, HEAD_SCALE_UP, 2, false)), MT_OK);
    submit(rig, "job");
    pass(rig, 1000);
    uint64_t ticket = provider.ticket;
    assert_true(ticket != 0);
    rig_restart(rig);
    head_own_member(rig->head, OWN);
    assert_int_equal(use(rig, ticket, MACHINE), MT_OK);
    assert_int_equal(use(rig, ticket, MACHINE), MT_OK); /* its answer was lost */
    rig_restart(rig);
    head_own_member(rig->head, OWN);
    assert_int_equal(use(rig, ticket, ANOTHER), MT_EEXIST);
    assert_int_equal(use(rig, ticket ^ 2, ANOTHER), MT_ENOENT);
    struct rig_node node = {.boot = 7, .cpus = 2000, .labels = "manta.type=small,manta.instance=test-cluster-1,manta.handle=h"};
    rig->peer = (struct head_peer){HEAD_PEER_NODE, MACHINE, 1700000000000u + rig->now_ms + 1000000};
    rig_register(rig, &node);
    rig->peer = (struct head_peer){0};
    pass(rig, 3000);
    assert_int_equal(rig->revoked_count, 0);
    rig_close(rig, node.stream); /* it is dead after a while, and given back */
    provider.ticket = 0;
    pass(rig, 60000);
    assert_int_equal(rig->revoked_count, 1);
    assert_true(rig->revoked[0] == MACHINE);
    assert_int_equal(use(rig, ticket, ANOTHER), MT_ENOENT);
    submit(rig, "another");
    pass(rig, 2000);
    assert_true(provider.ticket != 0 && provider.ticket != ticket);
    rig->revoked_count = 0;
    rig_restart(rig);
    assert_int_equal(rig->revoked_count, 1);
    rig_free(rig);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    struct rig             *rig = begin();
    Manta__V1__ScaleRequest r = MANTA__V1__SCALE_REQUEST__INIT;
    Manta__V1__ScaleWant    want = MANTA__V1__SCALE_WANT__INIT;
    assert_int_equal(code_of(rig, rig_call(rig, HEAD_SCALE, &r.base)), MT_EVERSION);
    r.op = HEAD_SCALE_UP;
    assert_int_equal(code_of(rig, rig_call(rig, HEAD_SCALE, &r.base)), MT_EINVAL);
    r.op = HEAD_SCALE_WANT;
    r.want = &want;
    assert_int_equal(code_of(rig, rig_call(rig, HEAD_SCALE, &r.base)), MT_EINVAL); /* no name */
    want.name = "w";
    want.count = 1;
    assert_int_equal(code_of(rig, rig_call(rig, HEAD_SCALE, &r.base)), MT_ENOENT); /* no cluster file */
    assert_int_equal(code_of(rig, scale(rig, HEAD_SCALE_DOWN, 0, false)), MT_OK);
    struct head_event garbage = {.kind = HEAD_EV_CALL,
                                 .call = {.number = 9999, .method = HEAD_SCALE, .bytes = (const uint8_t *)"\x12\xff", .size = 2}};
    rig_event(rig, &garbage);
    assert_true(rig->replies[rig->reply_count - 1].is_refused);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_gets_a_node),
        cmocka_unit_test(who_has_his_bound_gets_no_node),
        cmocka_unit_test(a_killed_head_leaves_no_stranger),
        cmocka_unit_test(an_instance_joins_by_its_ticket),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

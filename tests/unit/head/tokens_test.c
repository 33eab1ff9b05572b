/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens_test.c - named tokens in the head's core: each right against each call, whose jobs are whose, names, ends and revocations
 * through kills and restarts. With a number: that bug is planted (core/base/plant.h).
 */
#include "core/base/limits/net.h"
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "tests/unit/head/rig.h"

#include <stdio.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

/* ---- what is asked ---- */

static void sum_of(uint64_t seed, uint8_t out[HEAD_SHA_SIZE])
{
    for (int i = 0; i < HEAD_SHA_SIZE; i++)
        out[i] = (uint8_t)(seed >> (i % 4 * 8) ^ (uint64_t)i * 37);
}

static uint64_t ask_create(struct rig *rig, const char *name, enum mt_right right, uint64_t seed, uint64_t valid_ms)
{
    Manta__V1__CreateTokenRequest r = MANTA__V1__CREATE_TOKEN_REQUEST__INIT;
    uint8_t                       sum[HEAD_SHA_SIZE];
    sum_of(seed, sum);
    r.name = (char *)(uintptr_t)name;
    r.right = right;
    r.valid_ms = valid_ms;
    r.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    return rig_call(rig, HEAD_CREATE_TOKEN, &r.base);
}

static int create(struct rig *rig, const char *name, enum mt_right right, uint64_t seed, uint64_t valid_ms)
{
    return rig_code_of(rig, ask_create(rig, name, right, seed, valid_ms), &manta__v1__create_token_reply__descriptor);
}

static uint64_t ask_revoke(struct rig *rig, const char *name)
{
    Manta__V1__RevokeTokenRequest r = MANTA__V1__REVOKE_TOKEN_REQUEST__INIT;
    r.name = (char *)(uintptr_t)name;
    return rig_call(rig, HEAD_REVOKE_TOKEN, &r.base);
}

static int revoke(struct rig *rig, const char *name)
{
    return rig_code_of(rig, ask_revoke(rig, name), &manta__v1__revoke_reply__descriptor);
}

static void be(struct rig *rig, uint64_t seed)
{
    uint8_t sum[HEAD_SHA_SIZE];
    sum_of(seed, sum);
    rig->token = seed ? head_token_number(sum) : 0;
}

/* What the door of the shell thinks of it; NOTHING: it is refused, or unknown. */
static enum mt_right at_door(const struct rig *rig, uint64_t seed)
{
    uint8_t sum[HEAD_SHA_SIZE];
    sum_of(seed, sum);
    for (size_t i = 0; i < rig->token_count; i++)
        if (memcmp(rig->tokens[i].sha256, sum, sizeof sum) == 0)
            return rig->tokens[i].right;
    return MT_MAY_NOTHING;
}

static int job_code(struct rig *rig, enum head_method method, const char *id)
{
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    return rig_code_of(rig, rig_call(rig, method, &r.base), &manta__v1__job_reply__descriptor);
}

static int submit_code(struct rig *rig, const char *id)
{
    return rig_code_of(rig, rig_submit(rig, id, 0, 1000), &manta__v1__job_reply__descriptor);
}

/* ---- rights ---- */

enum { READER = 1, SUBMITTER, ADMIN, NOBODY };

static bool was_refused(struct rig *rig, uint64_t call)
{
    for (size_t i = 0; i < rig->reply_count; i++)
        if (rig->replies[i].call == call)
            return rig->replies[i].is_refused && rig->replies[i].refused == MT_EAUTH;
    return false;
}

/* By an empty request: what it means is not the question. */
static void each_right_against_each_call(void **unused)
{
    static const struct {
        const char      *name;
        enum head_method method;
        enum mt_right    needs;
    } calls[] = {
#define X(name, method, right) {#name, HEAD_##method, right},
        HEAD_METHODS(X)
#undef X
    };
    Manta__V1__ListNodesRequest empty = MANTA__V1__LIST_NODES_REQUEST__INIT;
    (void)unused;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (uint64_t who = READER; who <= NOBODY; who++) {
            struct rig *rig = rig_new();
            for (uint64_t right = READER; right <= ADMIN; right++)
                assert_int_equal(create(rig, mt_right_text((enum mt_right)right), (enum mt_right)right, right, 0),
                                 right == ADMIN ? MT_EEXIST : MT_OK); /* that name is the cluster's own bearer's */
            assert_int_equal(create(rig, "root", MT_MAY_ADMIN, ADMIN, 0), MT_OK);
            be(rig, who);
            Manta__V1__ScaleRequest look = MANTA__V1__SCALE_REQUEST__INIT;
            look.op = HEAD_SCALE_STATUS;
            uint64_t call = rig_call(rig, calls[i].method, calls[i].method == HEAD_SCALE ? &look.base : &empty.base);
            if (was_refused(rig, call) != (who == NOBODY || who < calls[i].needs))
                fail_msg("%s by %s", calls[i].name, who == NOBODY ? "nobody" : mt_right_text((enum mt_right)who));
            rig_free(rig);
        }
}

static void who_looks_at_the_scaler_changes_nothing(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, "reader", MT_MAY_READ, READER, 0), MT_OK);
    assert_int_equal(create(rig, "submitter", MT_MAY_SUBMIT, SUBMITTER, 0), MT_OK);
    for (uint64_t who = READER; who <= SUBMITTER; who++)
        for (uint32_t op = 0; op <= HEAD_SCALE_WANT + 1; op++) {
            Manta__V1__ScaleRequest r = MANTA__V1__SCALE_REQUEST__INIT;
            bool                    is_look = op == HEAD_SCALE_STATUS || op == HEAD_SCALE_EXPLAIN || op == HEAD_SCALE_HISTORY;
            r.op = op;
            be(rig, who);
            assert_int_equal(was_refused(rig, rig_call(rig, HEAD_SCALE, &r.base)), !is_look);
        }
    rig_free(rig);
}

static void a_user_has_to_do_with_his_own_jobs(void **unused)
{
    struct rig          *rig = rig_new();
    Manta__V1__JobReply *reply;
    (void)unused;
    assert_int_equal(create(rig, "ann", MT_MAY_SUBMIT, 11, 0), MT_OK);
    assert_int_equal(create(rig, "bob", MT_MAY_SUBMIT, 12, 0), MT_OK);
    be(rig, 11);
    assert_int_equal(submit_code(rig, "job-a"), MT_OK);
    be(rig, 12);
    assert_int_equal(submit_code(rig, "job-a"), MT_EEXIST); /* of another user: not the same job */
    assert_int_equal(job_code(rig, HEAD_GET_JOB, "job-a"), MT_OK);
    assert_int_equal(job_code(rig, HEAD_STOP_JOB, "job-a"), MT_EAUTH);
    assert_int_equal(job_code(rig, HEAD_DELETE_JOB, "job-a"), MT_EAUTH);
    assert_string_equal(rig_job(rig, "job-a", &reply), "PENDING");
    assert_string_equal(reply->job->user, "ann");
    manta__v1__job_reply__free_unpacked(reply, NULL);
    be(rig, 0);
    assert_int_equal(submit_code(rig, "job-b"), MT_OK);
    rig_restart(rig);
    be(rig, 12);
    assert_int_equal(job_code(rig, HEAD_STOP_JOB, "job-a"), MT_EAUTH); /* the record says whose it is */
    assert_int_equal(job_code(rig, HEAD_STOP_JOB, "job-b"), MT_EAUTH);
    be(rig, 11);
    assert_int_equal(submit_code(rig, "job-a"), MT_OK); /* again */
    assert_int_equal(job_code(rig, HEAD_STOP_JOB, "job-a"), MT_OK);
    assert_int_equal(job_code(rig, HEAD_DELETE_JOB, "job-a"), MT_OK);
    be(rig, 0);
    assert_string_equal(rig_job(rig, "job-b", &reply), "PENDING");
    assert_string_equal(reply->job->user, "admin");
    manta__v1__job_reply__free_unpacked(reply, NULL);
    rig_free(rig);
}

/* ---- names ---- */

static void names_are_plain_and_one_is_one(void **unused)
{
    static const char *const odd[] = {"",
                                      " ",
                                      "a b",
                                      "a\nb",
                                      "-a",
                                      ".a",
                                      "a/b",
                                      "\xc3\xa9t\xc3\xa9",
                                      "a\x01",
                                      "a\"b",
                                      "@ann",
                                      "a=b",
                                      "a,b",
                                      "ADMIN\t",
                                      "0123456789abcdef", /* a ticket's id */
                                      "0123456789012345678901234567890123456789012345678901234567890123" /* 64 bytes */};
    struct rig              *rig = rig_new();
    (void)unused;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(create(rig, odd[i], MT_MAY_READ, 100 + i, 0), MT_EINVAL);
    assert_int_equal(create(rig, "admin", MT_MAY_READ, 1, 0), MT_EEXIST);
    assert_int_equal(create(rig, "ann@team-1.x_y", MT_MAY_READ, 1, 0), MT_OK);
    assert_int_equal(create(rig, "0123456789abcdeg", MT_MAY_READ, 2, 0), MT_OK);
    assert_int_equal(create(rig, "x", MT_MAY_NOTHING, 3, 0), MT_EINVAL);
    assert_int_equal(create(rig, "x", (enum mt_right)4, 3, 0), MT_EINVAL);
    assert_int_equal(create(rig, "x", MT_MAY_READ, 3, UINT64_MAX), MT_EINVAL);
    assert_int_equal(create(rig, "x", MT_MAY_READ, 1, 0), MT_EEXIST); /* another's text */
    assert_int_equal(create(rig, "x", MT_MAY_READ, 3, 0), MT_OK);
    assert_int_equal(create(rig, "x", MT_MAY_READ, 3, 0), MT_OK); /* the answer was lost */
    assert_int_equal(create(rig, "x", MT_MAY_SUBMIT, 3, 0), MT_EEXIST);
    assert_int_equal(create(rig, "x", MT_MAY_READ, 4, 0), MT_EEXIST); /* two of one name */
    assert_int_equal(revoke(rig, "x"), MT_OK);
    assert_int_equal(create(rig, "x", MT_MAY_READ, 3, 0), MT_EEXIST); /* a revoked text does not come back */
    assert_int_equal(create(rig, "x", MT_MAY_SUBMIT, 4, 0), MT_OK);
    assert_int_equal(at_door(rig, 3), MT_MAY_NOTHING);
    assert_int_equal(at_door(rig, 4), MT_MAY_SUBMIT);
    assert_int_equal(revoke(rig, "nobody"), MT_ENOENT);
    assert_int_equal(revoke(rig, "admin"), MT_EINVAL);
    rig_free(rig);
}

static void there_is_a_bound_and_old_ones_give_way(void **unused)
{
    struct rig *rig = rig_new();
    char        name[32];
    (void)unused;
    for (uint64_t i = 1; i <= MT_TOKENS_MAX; i++) {
        snprintf(name, sizeof name, "t%llu", (unsigned long long)i);
        assert_int_equal(create(rig, name, MT_MAY_READ, i, i == 5 ? 1000 : 0), MT_OK);
        rig_forget(rig);
    }
    assert_int_equal(create(rig, "more", MT_MAY_READ, 9999, 0), MT_EAGAIN);
    rig->wall_ahead_ms = 2000;
    assert_int_equal(create(rig, "more", MT_MAY_READ, 9999, 0), MT_OK); /* t5 has ended */
    assert_int_equal(revoke(rig, "t5"), MT_ENOENT);
    rig_free(rig);
}

/* ---- ends ---- */

static void ends_and_revocations_hold(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, "ann", MT_MAY_SUBMIT, 1, 60000), MT_OK);
    assert_int_equal(create(rig, "bob", MT_MAY_READ, 2, 0), MT_OK);
    assert_int_equal(at_door(rig, 1), MT_MAY_SUBMIT);
    rig->wall_ahead_ms = 60000;
    be(rig, 1);
    assert_int_equal(submit_code(rig, "job-late"), MT_EAUTH); /* before any tick has said so */
    be(rig, 0);
    rig_pass(rig, 500);
    assert_int_equal(at_door(rig, 1), MT_MAY_NOTHING);
    assert_int_equal(revoke(rig, "bob"), MT_OK);
    assert_int_equal(revoke(rig, "bob"), MT_OK);
    assert_int_equal(at_door(rig, 2), MT_MAY_NOTHING);
    rig->token_count = 0;
    rig_restart(rig);
    rig_pass(rig, 500);
    assert_int_equal(rig->token_count, 2); /* both are refused in words */
    assert_int_equal(at_door(rig, 1), MT_MAY_NOTHING);
    assert_int_equal(at_door(rig, 2), MT_MAY_NOTHING);
    be(rig, 2);
    assert_int_equal(job_code(rig, HEAD_GET_JOB, "x"), MT_EAUTH);
    rig_free(rig);
}

/* Nobody is let in, and nobody is answered, before the store has it; what was answered holds. */
static void they_hold_through_kills(void **unused)
{
    (void)unused;
    for (int crash = RIG_BEFORE_WRITE; crash <= RIG_AFTER_WRITE; crash++) {
        struct rig *rig = rig_new();
        rig->crash = (enum rig_crash)crash;
        rig->crash_at = rig->batches + 1;
        assert_int_equal(create(rig, "ann", MT_MAY_READ, 1, 0), -1);
        assert_int_equal(at_door(rig, 1), MT_MAY_NOTHING);
        rig->crash = RIG_NO_CRASH;
        rig_restart(rig);
        assert_int_equal(at_door(rig, 1), crash == RIG_AFTER_WRITE ? MT_MAY_READ : MT_MAY_NOTHING);
        assert_int_equal(create(rig, "ann", MT_MAY_READ, 1, 0), MT_OK); /* asked again, in either case */
        rig->crash = (enum rig_crash)crash;
        rig->crash_at = rig->batches + 1;
        assert_int_equal(revoke(rig, "ann"), -1);
        assert_int_equal(at_door(rig, 1), MT_MAY_READ);
        rig->crash = RIG_NO_CRASH;
        rig_restart(rig);
        assert_int_equal(at_door(rig, 1), crash == RIG_AFTER_WRITE ? MT_MAY_NOTHING : MT_MAY_READ);
        assert_int_equal(revoke(rig, "ann"), MT_OK);
        rig_restart(rig);
        assert_int_equal(at_door(rig, 1), MT_MAY_NOTHING);
        rig_free(rig);
    }
}

/* ---- many orders of all that, from a seed ---- */

enum { SEEDS = 200, STEPS = 80, NAMES = 4 };

struct world {
    struct rig *rig;
    mt_rng      rng;
    uint64_t    texts[NAMES], next_text; /* the newest that was answered for a name; 0: none */
    uint64_t    over[STEPS];             /* texts whose revocation was answered */
    size_t      over_count;
};

static uint64_t below(struct world *w, uint64_t limit)
{
    return mt_rng_below(&w->rng, limit);
}

static void maybe_crash(struct world *w)
{
    if (w->rig->has_crashed || below(w, 12) == 0) {
        w->rig->crash = RIG_NO_CRASH;
        w->rig->token_count = 0;
        rig_restart(w->rig);
    } else if (below(w, 8) == 0) {
        w->rig->crash = below(w, 2) ? RIG_BEFORE_WRITE : RIG_AFTER_WRITE;
        w->rig->crash_at = w->rig->batches + 1 + below(w, 3);
    }
}

static void one_step(struct world *w)
{
    static const char *const names[NAMES] = {"a", "b", "c", "d"};
    size_t                   i = below(w, NAMES);
    if (below(w, 2)) {
        uint64_t text = ++w->next_text;
        if (create(w->rig, names[i], MT_MAY_SUBMIT, text, 0) == MT_OK)
            w->texts[i] = text;
    } else if (revoke(w->rig, names[i]) == MT_OK && w->texts[i]) {
        w->over[w->over_count++] = w->texts[i];
        w->texts[i] = 0;
    }
}

static void promises_hold_in_many_orders(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->rig = rig_new();
        w->rng.state = seed;
        for (int step = 0; step < STEPS; step++) {
            maybe_crash(w);
            one_step(w);
            for (size_t k = 0; !w->rig->has_crashed && k < w->over_count; k++) {
                assert_int_equal(at_door(w->rig, w->over[k]), MT_MAY_NOTHING);
                be(w->rig, w->over[k]);
                assert_int_equal(job_code(w->rig, HEAD_GET_JOB, "x"), MT_EAUTH);
                be(w->rig, 0);
            }
            rig_forget(w->rig);
        }
        rig_free(w->rig);
        free(w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_right_against_each_call),
        cmocka_unit_test(who_looks_at_the_scaler_changes_nothing),
        cmocka_unit_test(a_user_has_to_do_with_his_own_jobs),
        cmocka_unit_test(names_are_plain_and_one_is_one),
        cmocka_unit_test(there_is_a_bound_and_old_ones_give_way),
        cmocka_unit_test(ends_and_revocations_hold),
        cmocka_unit_test(they_hold_through_kills),
        cmocka_unit_test(promises_hold_in_many_orders),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

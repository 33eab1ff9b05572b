/* SPDX-License-Identifier: Apache-2.0
 *
 * trust_test.c - tickets and revoked nodes: a ticket is used as often as it says whatever dies in between, every refusal says why,
 * and who was revoked stays out, for every node, across restarts. With a number: that bug is planted (core/base/plant.h).
 */
#include "core/base/limits/net.h"
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "tests/unit/head/rig.h"

enum { TICKET = 77, A = 1001, B = 1003, C = 1005 };
#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

#ifdef MANTA_PLANTS
int mt_plant;
#endif

/* ---- what is asked ---- */

static uint64_t ask_create(struct rig *rig, uint64_t id, uint32_t uses, uint64_t valid_ms)
{
    Manta__V1__CreateTicketRequest r = MANTA__V1__CREATE_TICKET_REQUEST__INIT;
    r.id = id;
    r.uses = uses;
    r.valid_ms = valid_ms;
    r.name = "t";
    rig->peer = (struct head_peer){0};
    return rig_call(rig, HEAD_CREATE_TICKET, &r.base);
}

static int create(struct rig *rig, uint64_t id, uint32_t uses, uint64_t valid_ms)
{
    return rig_code_of(rig, ask_create(rig, id, uses, valid_ms), &manta__v1__create_ticket_reply__descriptor);
}

static uint64_t ask_certify(struct rig *rig, int kind, uint64_t id, uint64_t asks)
{
    Manta__V1__CertifyRequest r = MANTA__V1__CERTIFY_REQUEST__INIT;
    r.name = "machine";
    rig->peer.kind = kind;
    rig->peer.id = id;
    rig->asks = asks;
    uint64_t call = rig_call(rig, HEAD_CERTIFY, &r.base);
    rig->peer = (struct head_peer){0};
    rig->asks = 0;
    return call;
}

static int certify_code(struct rig *rig, uint64_t call)
{
    return rig_code_of(rig, call, &manta__v1__certify_reply__descriptor);
}

static int use(struct rig *rig, uint64_t ticket, uint64_t asks)
{
    return certify_code(rig, ask_certify(rig, HEAD_PEER_TICKET, ticket, asks));
}

static int revoke_ticket(struct rig *rig, uint64_t id)
{
    Manta__V1__RevokeTicketRequest r = MANTA__V1__REVOKE_TICKET_REQUEST__INIT;
    r.id = id;
    return rig_code_of(rig, rig_call(rig, HEAD_REVOKE_TICKET, &r.base), &manta__v1__revoke_reply__descriptor);
}

static uint64_t ask_revoke_node(struct rig *rig, uint32_t node)
{
    Manta__V1__RevokeNodeRequest r = MANTA__V1__REVOKE_NODE_REQUEST__INIT;
    r.node = node;
    r.reason = "lost";
    return rig_call(rig, HEAD_REVOKE_NODE, &r.base);
}

static int revoke_node(struct rig *rig, uint32_t node)
{
    return rig_code_of(rig, ask_revoke_node(rig, node), &manta__v1__revoke_reply__descriptor);
}

static void join(struct rig *rig, struct rig_node *node, uint64_t member)
{
    rig->peer = (struct head_peer){HEAD_PEER_NODE, member, 1700000000000u + rig->wall_ahead_ms + rig->now_ms + 1000000};
    rig_register(rig, node);
    rig->peer = (struct head_peer){0};
}

static int registered_code(struct rig *rig, const struct rig_node *node)
{
    Manta__V1__HeadToNode *m = rig_last(rig, node->stream, KIND(REGISTERED));
    return m ? m->registered->code : -1;
}

/* Whether some View on the stream says that this one is refused. */
static bool was_told(struct rig *rig, uint64_t stream, uint64_t member)
{
    for (size_t i = 0; i < rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (rig->sent[i].stream != stream || m->kind_case != KIND(VIEW))
            continue;
        for (size_t k = 0; k < m->view->n_revoked; k++)
            if (m->view->revoked[k]->id == member)
                return true;
    }
    return false;
}

/* ---- tickets ---- */

static void a_ticket_is_used_once(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, TICKET, 1, 60000), MT_OK);
    assert_int_equal(create(rig, TICKET, 1, 60000), MT_OK); /* the same one */
    assert_int_equal(use(rig, TICKET, A), MT_OK);
    assert_int_equal(use(rig, TICKET, A), MT_OK); /* its answer was lost */
    assert_int_equal(use(rig, TICKET, B), MT_EEXIST);
    assert_int_equal(create(rig, TICKET, 1, 60000), MT_EEXIST);
    rig_restart(rig);
    assert_int_equal(use(rig, TICKET, B), MT_EEXIST);
    assert_int_equal(use(rig, TICKET, A), MT_OK);
    rig_free(rig);
}

static void it_ends_and_is_revoked(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, TICKET, 2, 60000), MT_OK);
    assert_int_equal(create(rig, TICKET + 2, 2, 120000), MT_OK);
    assert_int_equal(use(rig, TICKET, A), MT_OK);
    rig->wall_ahead_ms = 59000;
    assert_int_equal(use(rig, TICKET, B), MT_OK);
    assert_int_equal(use(rig, TICKET, C), MT_EEXIST);
    rig->wall_ahead_ms = 60000;
    assert_int_equal(use(rig, TICKET, A), MT_EAUTH); /* late, also for who was in time */
    assert_int_equal(revoke_ticket(rig, TICKET + 2), MT_OK);
    assert_int_equal(revoke_ticket(rig, TICKET + 2), MT_OK);
    assert_int_equal(use(rig, TICKET + 2, A), MT_EAUTH);
    rig_restart(rig);
    assert_int_equal(use(rig, TICKET + 2, A), MT_EAUTH);
    assert_int_equal(revoke_ticket(rig, 5), MT_ENOENT);
    assert_int_equal(use(rig, 5, A), MT_ENOENT);
    assert_int_equal(certify_code(rig, ask_certify(rig, HEAD_PEER_NOBODY, 0, A)), MT_EUNSUPPORTED);
    rig_free(rig);
}

static void senseless_tickets_are_refused(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, 0, 1, 60000), MT_EINVAL);
    assert_int_equal(create(rig, TICKET, 0, 60000), MT_EINVAL);
    assert_int_equal(create(rig, TICKET, MT_TICKET_USES_MAX + 1, 60000), MT_EINVAL);
    assert_int_equal(create(rig, TICKET, 1, 0), MT_EINVAL);
    assert_int_equal(create(rig, TICKET, 1, UINT64_MAX), MT_EINVAL);
    for (uint64_t i = 1; i <= MT_TICKETS_MAX; i++)
        assert_int_equal(create(rig, i, 1, 60000), MT_OK);
    assert_int_equal(create(rig, 1000, 1, 60000), MT_EAGAIN);
    assert_int_equal(revoke_ticket(rig, 3), MT_OK); /* the place of one that is of no use */
    assert_int_equal(create(rig, 1000, 1, 60000), MT_OK);
    assert_int_equal(use(rig, 3, A), MT_ENOENT);
    rig_free(rig);
}

/* Both are on their way before the store has anything. */
static void of_two_at_once_one_wins(void **unused)
{
    struct rig *rig = rig_new();
    (void)unused;
    assert_int_equal(create(rig, TICKET, 1, 60000), MT_OK);
    rig->holds_store = true;
    uint64_t a = ask_certify(rig, HEAD_PEER_TICKET, TICKET, A), b = ask_certify(rig, HEAD_PEER_TICKET, TICKET, B);
    assert_int_equal(certify_code(rig, a), -1); /* nothing is said before it is stored */
    assert_int_equal(certify_code(rig, b), -1);
    while (rig->held_count)
        rig_store(rig, mt_ok());
    assert_int_equal(certify_code(rig, a), MT_OK);
    assert_int_equal(certify_code(rig, b), MT_EEXIST);
    rig_free(rig);
}

/* The head dies before and after each write of a scene in which three want a ticket for two. */
static void uses_hold_through_kills(void **unused)
{
    (void)unused;
    for (int crash = RIG_BEFORE_WRITE; crash <= RIG_AFTER_WRITE; crash++)
        for (uint64_t at = 1; at <= 4; at++) {
            struct rig    *rig = rig_new();
            const uint64_t who[] = {A, B, C};
            bool           has[3] = {false};
            rig->crash = (enum rig_crash)crash;
            rig->crash_at = rig->batches + at;
            for (int round = 0; round < 6; round++) {
                (void)ask_create(rig, TICKET, 2, 600000);
                for (int i = 0; i < 3; i++)
                    has[i] |= use(rig, TICKET, who[(i + round) % 3]) == MT_OK && !(round % 3) ? true : has[i];
                for (int i = 0; i < 3; i++)
                    has[i] |= use(rig, TICKET, who[i]) == MT_OK;
                if (rig->has_crashed || round == 3)
                    rig_restart(rig);
            }
            int count = 0;
            for (int i = 0; i < 3; i++)
                count += has[i] && use(rig, TICKET, who[i]) == MT_OK; /* who has got in is still known */
            assert_int_equal(count, 2);
            assert_int_equal((use(rig, TICKET, A) == MT_OK) + (use(rig, TICKET, B) == MT_OK) + (use(rig, TICKET, C) == MT_OK), 2);
            rig_free(rig);
        }
}

/* ---- nodes ---- */

static void a_revoked_node_is_shut_out(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000}, c = {.boot = 13, .cpus = 4000};
    (void)unused;
    join(rig, &a, A);
    join(rig, &b, B);
    assert_int_equal(revoke_node(rig, 99), MT_ENOENT);
    assert_int_equal(revoke_node(rig, b.node), MT_OK);
    assert_int_equal(revoke_node(rig, b.node), MT_OK);
    assert_non_null(rig_last(rig, b.stream, KIND(SHUTDOWN)));
    assert_true(rig_was_closed(rig, b.stream));
    assert_int_equal(rig->revoked_count, 1);
    assert_int_equal(rig->revoked[0], B);
    rig_pass(rig, 1000);
    assert_true(was_told(rig, a.stream, B));
    join(rig, &b, B); /* by a connection that was there before its door was shut */
    assert_int_equal(registered_code(rig, &b), MT_EAUTH);
    assert_int_equal(certify_code(rig, ask_certify(rig, HEAD_PEER_NODE, B, 5)), MT_EAUTH);
    assert_int_equal(certify_code(rig, ask_certify(rig, HEAD_PEER_NODE, A, 5)), MT_OK);
    rig->revoked_count = 0;
    rig_restart(rig); /* it is durable, and told to who comes later */
    assert_int_equal(rig->revoked_count, 1);
    join(rig, &b, B);
    assert_int_equal(registered_code(rig, &b), MT_EAUTH);
    join(rig, &a, A);
    join(rig, &c, C);
    rig_pass(rig, 1000);
    assert_true(was_told(rig, a.stream, B) && was_told(rig, c.stream, B));
    rig->wall_ahead_ms = UINT64_C(1000) * (MT_TLS_VALID_S + 3 * MT_TLS_SLACK_S); /* its certificate has ended by itself */
    rig_pass(rig, 1000);
    rig->revoked_count = 0;
    rig_restart(rig);
    assert_int_equal(rig->revoked_count, 0);
    rig_free(rig);
}

static void what_has_no_certificate_is_not_revoked(void **unused)
{
    struct rig     *rig = rig_new();
    struct rig_node a = {.boot = 11, .cpus = 4000}, own = {.boot = 12, .cpus = 4000}, other = {.boot = 13, .cpus = 4000};
    (void)unused;
    rig_register(rig, &a); /* in clear */
    assert_int_equal(revoke_node(rig, a.node), MT_EUNSUPPORTED);
    head_own_member(rig->head, A);
    join(rig, &own, A);
    assert_int_equal(revoke_node(rig, own.node), MT_EINVAL);
    other.node = own.node; /* another certificate does not get a living node's number */
    join(rig, &other, B);
    assert_int_equal(registered_code(rig, &other), MT_EAUTH);
    rig_free(rig);
}

/* All that share a certificate go with it; and a revocation that was answered survives, wherever the head dies. */
static void a_revocation_holds_through_kills(void **unused)
{
    (void)unused;
    for (int crash = RIG_BEFORE_WRITE; crash <= RIG_AFTER_WRITE; crash++) {
        struct rig     *rig = rig_new();
        struct rig_node a = {.boot = 11, .cpus = 4000}, b = {.boot = 12, .cpus = 4000}, c = {.boot = 13, .cpus = 4000};
        join(rig, &a, A);
        join(rig, &b, B);
        join(rig, &c, B);
        rig->crash = (enum rig_crash)crash;
        rig->crash_at = rig->batches + 1;
        assert_int_equal(revoke_node(rig, b.node), -1);
        assert_int_equal(rig->revoked_count, 0); /* nobody was told either */
        rig_restart(rig);
        assert_int_equal(rig->revoked_count, crash == RIG_AFTER_WRITE);
        assert_int_equal(revoke_node(rig, b.node), MT_OK);
        join(rig, &c, B);
        assert_int_equal(registered_code(rig, &c), MT_EAUTH);
        rig_free(rig);
    }
}

/* ---- many orders of all that, from a seed ---- */

enum { SEEDS = 300, STEPS = 120, MEMBERS = 6, TICKETS = 4 };

/* What was promised, whatever dies. */
struct world {
    struct rig     *rig;
    mt_rng          rng;
    struct rig_node nodes[MEMBERS];
    uint64_t        tickets[TICKETS]; /* ids */
    uint32_t        uses[TICKETS];
    bool            has[TICKETS][MEMBERS], is_over[TICKETS]; /* somebody has it; it was revoked */
    bool            is_revoked[MEMBERS];                     /* that was answered */
    bool            knows[MEMBERS][MEMBERS];                 /* a node was told to refuse another, in this life of it */
};

static uint64_t below(struct world *w, uint64_t limit)
{
    return mt_rng_below(&w->rng, limit);
}

static uint64_t member_of(size_t i)
{
    return 1001 + 2 * i;
}

/* All Views on its stream, in order; a node that begins anew knows nothing. */
static void hear(struct world *w, size_t i)
{
    for (size_t k = 0; k < MEMBERS; k++)
        w->knows[i][k] |= w->nodes[i].stream && was_told(w->rig, w->nodes[i].stream, member_of(k));
}

/* Who is where the head is refuses all whom the head has answered for. */
static void look_at_views(struct world *w)
{
    uint64_t version = head_view_each(w->rig->head, NULL, NULL);
    for (size_t i = 0; i < MEMBERS; i++) {
        Manta__V1__HeadToNode *view = w->nodes[i].stream ? rig_last(w->rig, w->nodes[i].stream, KIND(VIEW)) : NULL;
        hear(w, i);
        for (size_t k = 0; view && view->view->version == version && k < MEMBERS; k++)
            assert_true(!w->is_revoked[k] || w->knows[i][k]);
    }
}

static void maybe_crash(struct world *w)
{
    if (w->rig->has_crashed || (!w->rig->holds_store && below(w, 12) == 0)) {
        w->rig->crash = RIG_NO_CRASH;
        rig_restart(w->rig);
        for (size_t i = 0; i < MEMBERS; i++) {
            hear(w, i);
            w->nodes[i].stream = 0;
        }
        return;
    }
    if (below(w, 10) == 0) {
        w->rig->crash = below(w, 2) ? RIG_BEFORE_WRITE : RIG_AFTER_WRITE;
        w->rig->crash_at = w->rig->batches + 1 + below(w, 4);
    }
}

static void try_ticket(struct world *w)
{
    size_t t = below(w, TICKETS), i = below(w, MEMBERS);
    if (!w->tickets[t]) {
        w->uses[t] = 1 + (uint32_t)below(w, 2);
        w->tickets[t] = 500 + t;
    }
    switch (below(w, 5)) {
    case 0: (void)create(w->rig, w->tickets[t], w->uses[t], 1000000); return; /* also again */
    case 1: w->is_over[t] |= revoke_ticket(w->rig, w->tickets[t]) == MT_OK; return;
    default: break;
    }
    if (use(w->rig, w->tickets[t], member_of(i)) != MT_OK)
        return;
    assert_false(w->is_over[t] || w->is_revoked[i]);
    w->has[t][i] = true;
    uint32_t count = 0;
    for (size_t k = 0; k < MEMBERS; k++)
        count += w->has[t][k];
    assert_true(count <= w->uses[t]);
}

static void try_node(struct world *w)
{
    size_t           i = below(w, MEMBERS);
    struct rig_node *n = &w->nodes[i];
    switch (below(w, 4)) {
    case 0:
        if (n->stream)
            rig_close(w->rig, n->stream);
        n->stream = 0;
        break;
    case 1:
        if (below(w, 3) == 0 && n->node && revoke_node(w->rig, n->node) == MT_OK)
            w->is_revoked[i] = true;
        break;
    case 2:
        if (certify_code(w->rig, ask_certify(w->rig, HEAD_PEER_NODE, member_of(i), below(w, 1000) + 1)) == MT_OK)
            assert_false(w->is_revoked[i]);
        break;
    default:
        n->boot = 11 + i;
        n->cpus = 1000;
        hear(w, i);
        join(w->rig, n, member_of(i));
        if (registered_code(w->rig, n) == MT_OK)
            assert_false(w->is_revoked[i]);
        else
            n->stream = 0;
        break;
    }
}

static void run_seed(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->rig = rig_new();
    w->rng.state = seed;
    for (int step = 0; step < STEPS; step++) {
        maybe_crash(w);
        (below(w, 2) ? try_ticket : try_node)(w);
        if (w->rig->has_crashed)
            continue;
        if (below(w, 3) == 0)
            rig_pass(w->rig, below(w, 700));
        look_at_views(w);
        for (size_t i = 0; i < MEMBERS; i++)
            if (rig_was_closed(w->rig, w->nodes[i].stream))
                w->nodes[i].stream = 0;
        w->rig->closed_count = w->rig->revoked_count = 0;
    }
    rig_free(w->rig);
    free(w);
}

static void promises_hold_in_many_orders(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_is_used_once),
        cmocka_unit_test(it_ends_and_is_revoked),
        cmocka_unit_test(senseless_tickets_are_refused),
        cmocka_unit_test(of_two_at_once_one_wins),
        cmocka_unit_test(uses_hold_through_kills),
        cmocka_unit_test(a_revoked_node_is_shut_out),
        cmocka_unit_test(what_has_no_certificate_is_not_revoked),
        cmocka_unit_test(a_revocation_holds_through_kills),
        cmocka_unit_test(promises_hold_in_many_orders),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0; /* none where it is no number */
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * issue_test.c - certificates that are asked for: signed for the key of who asks and for nothing else, renewed while connections go
 * on, refused when they are over, not begun, altered or revoked; tickets, and files with one.
 */
#include "core/io/private.h"
#include "core/io/tls/gate.h"
#include "core/io/tls/issue.h"
#include "core/io/tls/join.h"
#include "tests/unit/io/io_test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ID = 1234567, OTHER = 77, DAY_S = 24 * 60 * 60 };

static char                     dir[] = "/tmp/manta-issue-XXXXXX";
static struct io_tls_authority *authority;
static struct io_tls           *head;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/tls/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    char folder[128];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/tls", dir);
    assert_ok(io_tls_make(folder, "c1"));
    assert_ok(io_tls_authority_load(folder, "c1", &authority));
    assert_ok(io_tls_load(path_of("head.pem"), &head));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_tls_free(head);
    io_tls_authority_free(authority);
    unlink(path_of("ca.pem"));
    unlink(path_of("head.pem"));
    unlink(path_of("node.pem"));
    rmdir(path_of(""));
    return rmdir(dir);
}

static struct io_tls_grant grant_of(enum io_tls_role role, uint64_t id, int64_t from_s, int64_t until_s)
{
    int64_t now = (int64_t)time(NULL);
    return (struct io_tls_grant){.role = role, .id = id, .from_s = now + from_s, .until_s = now + until_s};
}

/* As a node gets it: asked for with a key of its own. */
static void ask(enum io_tls_role role, uint64_t id, int64_t from_s, int64_t until_s, mt_buf *out)
{
    struct io_tls_grant grant = grant_of(role, id, from_s, until_s);
    mt_buf              request = {0}, key = {0};
    assert_ok(io_tls_ask(&request, &key));
    assert_ok(io_tls_request_check(mt_buf_view(&request)));
    assert_ok(io_tls_sign(authority, &grant, mt_buf_view(&request), out));
    assert_ok(mt_buf_append(out, key.data, key.size));
    mt_buf_fini(&request);
    io_private_wipe(&key);
}

static struct io_tls *node_new(uint64_t id)
{
    struct io_tls *tls;
    mt_buf         text = {0};
    ask(IO_TLS_NODE, id, -60, DAY_S, &text);
    assert_ok(io_tls_parse(mt_buf_view(&text), &tls));
    io_private_wipe(&text);
    return tls;
}

struct pair {
    int              fds[2];
    struct tls_conn *a, *b; /* a has accepted, b has dialled */
};

/* Whether both have taken each other. */
static bool meet(struct pair *p, const struct io_tls *server, const struct io_tls *client, enum io_tls_role wanted)
{
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_ok(io_tls_accept(server, p->fds[0], &p->a));
    assert_ok(io_tls_dial(client, p->fds[1], wanted, &p->b));
    for (int i = 0; i < 10; i++)
        if ((tls_recv(p->b, &byte, 1) < 0 && errno == EPROTO) || (tls_recv(p->a, &byte, 1) < 0 && errno == EPROTO))
            return false;
    return tls_is_up(p->a) && tls_is_up(p->b);
}

static void part(struct pair *p)
{
    tls_end(p->b);
    tls_end(p->a);
    close(p->fds[0]);
    close(p->fds[1]);
}

static bool is_taken(const struct io_tls *server, const struct io_tls *client, enum io_tls_role wanted)
{
    struct pair p;
    bool        is_up = meet(&p, server, client, wanted);
    part(&p);
    return is_up;
}

/* ---- cases ---- */

static void who_asks_is_known_by_number(void **state)
{
    struct io_tls    *node = node_new(ID), *other = node_new(OTHER);
    struct pair       p;
    struct io_tls_who who;
    (void)state;
    assert_int_equal(io_tls_self(node).id, ID);
    assert_int_equal(io_tls_self(node).role, IO_TLS_NODE);
    assert_true(io_tls_self(node).ends_s > (int64_t)time(NULL));
    assert_true(meet(&p, head, node, IO_TLS_HEAD));
    assert_true(io_tls_peer(p.a, &who));
    assert_int_equal(who.id, ID);
    assert_int_equal(who.role, IO_TLS_NODE);
    assert_int_equal(who.ends_s, io_tls_self(node).ends_s);
    assert_true(io_tls_peer(p.b, &who));
    assert_int_equal(who.role, IO_TLS_HEAD);
    part(&p);
    assert_true(is_taken(node, other, IO_TLS_NODE));
    assert_true(is_taken(other, node, IO_TLS_NODE));
    io_tls_free(node);
    io_tls_free(other);
}

/* Only the head takes a ticket, and it is no node's certificate. */
static void a_ticket_opens_the_head_alone(void **state)
{
    struct io_tls    *node = node_new(ID), *ticket;
    struct pair       p;
    struct io_tls_who who;
    mt_buf            text = {0};
    (void)state;
    ask(IO_TLS_TICKET, 9, -60, DAY_S, &text);
    assert_ok(io_tls_parse(mt_buf_view(&text), &ticket));
    assert_true(meet(&p, head, ticket, IO_TLS_HEAD));
    assert_true(io_tls_peer(p.a, &who));
    assert_int_equal(who.role, IO_TLS_TICKET);
    assert_int_equal(who.id, 9);
    part(&p);
    assert_false(is_taken(node, ticket, IO_TLS_NODE));
    assert_false(is_taken(ticket, node, IO_TLS_NODE));
    assert_false(is_taken(ticket, node, IO_TLS_HEAD));
    io_private_wipe(&text);
    io_tls_free(ticket);
    io_tls_free(node);
}

static void requests_are_checked(void **state)
{
    struct io_tls_grant grant = grant_of(IO_TLS_NODE, ID, -60, DAY_S);
    mt_buf              request = {0}, key = {0}, out = {0};
    (void)state;
    assert_ok(io_tls_ask(&request, &key));
    for (size_t i = 0; i < request.size; i++) { /* one bit: its signature does not fit any more, or it can't be read */
        request.data[i] ^= 1;
        assert_code(io_tls_request_check(mt_buf_view(&request)), MT_EPROTO);
        assert_code(io_tls_sign(authority, &grant, mt_buf_view(&request), &out), MT_EPROTO);
        request.data[i] ^= 1;
    }
    for (size_t size = 0; size < request.size; size++)
        assert_code(io_tls_request_check(mt_view_of(request.data, size)), MT_EPROTO);
    assert_ok(mt_buf_append(&request, "", 1));
    assert_code(io_tls_request_check(mt_buf_view(&request)), MT_EPROTO); /* something behind it */
    assert_int_equal(out.size, 0);
    mt_buf_fini(&request);
    mt_buf_fini(&out);
    io_private_wipe(&key);
}

static void what_is_over_or_not_begun_is_refused(void **state)
{
    static const int64_t times[][2] = {{-2 * DAY_S, -60}, {60 * 60, DAY_S}};
    struct io_tls       *tls = NULL;
    (void)state;
    for (int i = 0; i < 2; i++) {
        mt_buf text = {0};
        ask(IO_TLS_NODE, ID, times[i][0], times[i][1], &text);
        mt_status st = io_tls_parse(mt_buf_view(&text), &tls);
        assert_code(st, MT_EAUTH);
        assert_non_null(strstr(st.what, "not valid at this time"));
        io_private_wipe(&text);
    }
}

/* Its end comes while it is held: then nobody takes it any more. */
static void it_ends_while_it_is_held(void **state)
{
    struct io_tls *tls = NULL;
    struct pair    p;
    char           byte;
    mt_buf         text = {0};
    bool           has_met = false;
    (void)state;
    for (int64_t s = 2; !has_met; s *= 2) { /* on a crowded machine two seconds may be over before they have met */
        int64_t ends_s = (int64_t)time(NULL) + s;
        io_private_wipe(&text);
        io_tls_free(tls);
        tls = NULL;
        ask(IO_TLS_NODE, ID, -60, s, &text);
        bool is_held = io_tls_parse(mt_buf_view(&text), &tls).code == MT_OK;
        has_met = is_held && meet(&p, head, tls, IO_TLS_HEAD);
        if (is_held && !has_met)
            part(&p);
        assert_true(has_met || (int64_t)time(NULL) >= ends_s);
    }
    while (is_taken(head, tls, IO_TLS_HEAD))
        usleep(50 * 1000);
    assert_int_equal(tls_send(p.b, "x", 1), 1); /* who is there goes on */
    assert_int_equal(tls_recv(p.a, &byte, 1), 1);
    part(&p);
    io_private_wipe(&text);
    io_tls_free(tls);
}

static void a_renewed_one_is_shown_by_new_connections(void **state)
{
    struct io_tls    *node = node_new(ID);
    struct io_tls_who who;
    struct pair       before, after;
    char              byte;
    mt_buf            text = {0}, wrong = {0};
    (void)state;
    assert_true(meet(&before, head, node, IO_TLS_HEAD));
    ask(IO_TLS_NODE, ID, -60, 5 * DAY_S, &text);
    assert_ok(io_tls_renew(node, mt_buf_view(&text)));
    assert_true(meet(&after, head, node, IO_TLS_HEAD));
    assert_true(io_tls_peer(after.a, &who));
    assert_int_equal(who.id, ID);
    assert_true(who.ends_s > (int64_t)time(NULL) + 4 * DAY_S);
    assert_int_equal(tls_send(before.b, "x", 1), 1);
    assert_int_equal(tls_recv(before.a, &byte, 1), 1);
    ask(IO_TLS_NODE, OTHER, -60, DAY_S, &wrong);
    assert_code(io_tls_renew(node, mt_buf_view(&wrong)), MT_EINVAL);
    assert_code(io_tls_renew(node, mt_view_text("hello")), MT_ECORRUPT);
    assert_true(is_taken(head, node, IO_TLS_HEAD)); /* what it had it keeps */
    part(&before);
    part(&after);
    io_private_wipe(&text);
    io_private_wipe(&wrong);
    io_tls_free(node);
}

static void who_is_revoked_is_refused_also_with_the_next_one(void **state)
{
    struct io_tls *node = node_new(ID), *bad = node_new(OTHER), *next = node_new(OTHER);
    struct pair    p, q;
    int64_t        later = (int64_t)time(NULL) + DAY_S;
    (void)state;
    assert_true(meet(&p, node, bad, IO_TLS_NODE));
    assert_true(meet(&q, bad, node, IO_TLS_NODE));
    assert_ok(io_tls_revoke(node, OTHER, later));
    assert_ok(io_tls_revoke(node, OTHER, later));
    assert_true(io_tls_is_revoked(node, p.a));
    assert_true(io_tls_is_revoked(node, q.b)); /* whoever has dialled */
    assert_false(is_taken(node, bad, IO_TLS_NODE));
    assert_false(is_taken(bad, node, IO_TLS_NODE));
    assert_false(is_taken(node, next, IO_TLS_NODE));
    mt_buf text = {0};
    ask(IO_TLS_NODE, ID, -60, DAY_S, &text);
    assert_ok(io_tls_renew(node, mt_buf_view(&text))); /* what is renewed still refuses */
    assert_false(is_taken(node, bad, IO_TLS_NODE));
    assert_true(is_taken(head, bad, IO_TLS_HEAD)); /* the head was not told */
    for (uint64_t i = 0; i < MT_REVOKED_MAX - 1; i++)
        assert_ok(io_tls_revoke(node, 1000 + i, later));
    assert_code(io_tls_revoke(node, 1, later), MT_EAGAIN);
    part(&p);
    part(&q);
    io_private_wipe(&text);
    io_tls_free(node);
    io_tls_free(bad);
    io_tls_free(next);
}

/* What the folder has for more than a day is made anew, and keeps its number. */
static void old_ones_are_made_anew(void **state)
{
    char                folder[128];
    struct io_tls_grant grant = grant_of(IO_TLS_NODE, ID, -60, MT_TLS_VALID_S - MT_TLS_RENEW_S - 60);
    struct io_tls      *tls;
    mt_buf              text = {0};
    (void)state;
    snprintf(folder, sizeof folder, "%s/tls", dir);
    assert_ok(io_tls_issue(authority, &grant, &text));
    assert_ok(io_private_write(path_of("node.pem"), mt_buf_view(&text), true));
    io_private_wipe(&text);
    assert_ok(io_tls_make(folder, "c1"));
    assert_ok(io_tls_load(path_of("node.pem"), &tls));
    assert_int_equal(io_tls_self(tls).id, ID);
    assert_true(io_tls_self(tls).ends_s > grant.until_s);
    io_tls_free(tls);
}

/* ---- the gate ---- */

/* Who is revoked while he is connected is cut off; others stay. */
static void the_gate_cuts_the_revoked_off(void **state)
{
    struct io_tls       *server, *nodes[2] = {node_new(ID), node_new(OTHER)};
    struct io_gate      *gate;
    struct io_gate_peer *peers[2];
    struct tls_conn     *conns[2];
    struct io_tls_who    who;
    int                  wires[2], plain[2];
    char                 byte;
    (void)state;
    assert_ok(io_tls_load(path_of("head.pem"), &server));
    assert_ok(io_gate_new(server, &gate));
    for (int i = 0; i < 2; i++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        assert_ok(io_gate_take(gate, fds[0], &plain[i], &peers[i]));
        wires[i] = fds[1];
        assert_ok(io_tls_dial(nodes[i], wires[i], IO_TLS_HEAD, &conns[i]));
        while (tls_send(conns[i], "x", 1) < 0)
            poll(&(struct pollfd){wires[i], POLLIN, 0}, 1, 10);
        while (recv(plain[i], &byte, 1, 0) < 0)
            poll(&(struct pollfd){plain[i], POLLIN, 0}, 1, 10);
        assert_true(io_gate_peer_who(peers[i], &who));
        assert_int_equal(who.id, i ? OTHER : ID);
    }
    assert_ok(io_tls_revoke(server, OTHER, (int64_t)time(NULL) + DAY_S));
    io_gate_drop_revoked(gate);
    assert_int_equal(poll(&(struct pollfd){plain[1], POLLIN, 0}, 1, 20000), 1);
    assert_int_equal(recv(plain[1], &byte, 1, 0), 0);
    assert_int_equal(send(plain[0], "y", 1, MSG_NOSIGNAL), 1);
    while (tls_recv(conns[0], &byte, 1) < 0)
        poll(&(struct pollfd){wires[0], POLLIN, 0}, 1, 10);
    assert_int_equal(byte, 'y');
    io_gate_free(gate);
    for (int i = 0; i < 2; i++) {
        tls_end(conns[i]);
        close(wires[i]);
        close(plain[i]);
        io_gate_peer_free(peers[i]); /* outlives all of it */
        io_tls_free(nodes[i]);
    }
    io_tls_free(server);
}

/* ---- files ---- */

/* One bit anywhere: it is refused, with what to do. */
static void an_altered_ticket_is_noticed(void **state)
{
    struct io_join      join = {.address = "10.0.0.1:6380", .is_ticket = true}, again;
    struct io_tls_grant grant = grant_of(IO_TLS_TICKET, 9, -60, DAY_S);
    mt_buf              certificates = {0}, text = {0};
    (void)state;
    assert_ok(io_tls_issue(authority, &grant, &certificates));
    join.certificates = mt_buf_view(&certificates);
    assert_ok(io_join_write(&join, &text));
    assert_ok(io_join_read(mt_buf_view(&text), &again));
    assert_true(again.is_ticket);
    assert_string_equal(again.address, join.address);
    assert_true(mt_view_equal(again.certificates, join.certificates));
    for (size_t bit = 0; bit < 8 * text.size; bit++) {
        text.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(io_join_read(mt_buf_view(&text), &again).code != MT_OK);
        text.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    text.data[text.size - 40] ^= 1;
    assert_code(io_join_read(mt_buf_view(&text), &again), MT_ECORRUPT);
    io_private_wipe(&certificates);
    io_private_wipe(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_is_known_by_number),
        cmocka_unit_test(a_ticket_opens_the_head_alone),
        cmocka_unit_test(requests_are_checked),
        cmocka_unit_test(what_is_over_or_not_begun_is_refused),
        cmocka_unit_test(it_ends_while_it_is_held),
        cmocka_unit_test(a_renewed_one_is_shown_by_new_connections),
        cmocka_unit_test(who_is_revoked_is_refused_also_with_the_next_one),
        cmocka_unit_test(old_ones_are_made_anew),
        cmocka_unit_test(the_gate_cuts_the_revoked_off),
        cmocka_unit_test(an_altered_ticket_is_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

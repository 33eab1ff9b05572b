/* SPDX-License-Identifier: Apache-2.0
 *
 * peers_test.c - what a raylet makes of other nodes' words: whose it listens to, and when all that was bound
 * to a node is over. (tests/sim drives it through faults.)
 */
#include "core/base/limits/net.h"
#include "core/base/limits/raylet.h"
#include "tests/unit/raylet/core_rig.h"

enum { IS_ALIVE = 1, IS_DEAD = 3 };

static void node_is_seen(uint32_t node, uint32_t epoch, uint32_t state)
{
    static uint64_t       version;
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__View       view = MANTA__V1__VIEW__INIT;
    Manta__V1__Node       seen = MANTA__V1__NODE__INIT, *nodes[] = {&seen};
    seen.node = node;
    seen.epoch = epoch;
    seen.state = state;
    seen.address = "10.0.0.3:7000";
    view.version = ++version;
    view.n_nodes = 1;
    view.nodes = nodes;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_VIEW;
    m.view = &view;
    head_says(&m);
}

static void is_placed_on(uint32_t class_id, uint32_t node)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__Place      place = MANTA__V1__PLACE__INIT;
    place.owner = 100;
    place.class_id = class_id;
    place.version = last_version;
    place.n_nodes = 1;
    place.nodes = &node;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_PLACE;
    m.place = &place;
    head_says(&m);
}

static void peer_says(uint64_t stream, uint32_t epoch, uint64_t link, uint64_t acknowledged)
{
    Manta__V1__Frame f = MANTA__V1__FRAME__INIT;
    f.from_node = 3;
    f.from_epoch = epoch;
    f.to_node = 6;
    f.link = link;
    f.acknowledged = acknowledged;
    f.credit = 1 << 20;
    step((struct rlt_event){.kind = RLT_EV_PEER_FRAME, .peer_frame = {.stream = stream, .frame = &f}});
}

/* The last frame with records that went out in this step; NULL: none did. */
static const Manta__V1__Frame *said_to_peer(void)
{
    const Manta__V1__Frame  *last = NULL;
    const struct rlt_action *a;
    for (int i = 0; (a = action(RLT_A_PEER_SEND, i)); i++)
        last = a->peer_send.frame->records.len ? a->peer_send.frame : last;
    return last;
}

static uint64_t dialled(void)
{
    const struct rlt_action *dial = action(RLT_A_PEER_DIAL, 0);
    assert_non_null(dial);
    uint64_t stream = dial->peer_dial.stream;
    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = stream}});
    return stream;
}

/* A demand that goes to node 3, on a stream that this one has dialled. */
static uint64_t asked_of_peer(uint64_t *out_link)
{
    begin(true);
    registered(6, 1);
    job_begins();
    node_is_seen(3, 1, IS_ALIVE);
    define(1, 3000, 0); /* more than this node has */
    demand(1, 1);
    is_placed_on(1, 3);
    uint64_t stream = dialled();
    assert_non_null(said_to_peer());
    *out_link = said_to_peer()->link;
    return stream;
}

/* The other end took the former requests in, under its new epoch, and this one gave the link up when it heard
 * of the epoch: what is said under the same number now would count as heard already, and the leases would
 * never come. */
static void a_link_that_was_given_up_is_not_gone_on_with(void **state)
{
    uint64_t link, stream = asked_of_peer(&link);
    (void)state;
    peer_says(stream, 2, link, 1);

    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = 1}}); /* the other end dials */
    peer_says(1, 2, link, 1);
    is_placed_on(1, 3);
    const struct rlt_action *dial = action(RLT_A_PEER_DIAL, 0);
    if (dial)
        step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = dial->peer_dial.stream}});
    const Manta__V1__Frame *f = said_to_peer();
    assert_non_null(f);
    assert_true(f->link > link); /* a number that tells the other end, too, that the former link is over */
    assert_int_equal(f->sequence, 1);
}

/* Five hundred nodes of one machine were sent all again each second, and by each new stream: they had no time to read it. */
static void a_node_that_is_slow_is_not_sent_the_same_twice(void **state)
{
    uint64_t link, stream = asked_of_peer(&link);
    (void)state;
    peer_says(stream, 1, link, 0); /* it lives, and has read nothing yet */
    for (uint64_t until = now + MT_NODE_SUSPECT_MS * MS - MS; now < until; now += 100 * MS) {
        step((struct rlt_event){.kind = RLT_EV_TICK});
        assert_null(said_to_peer());
    }
    for (int i = 0; i < 100 && !action(RLT_A_PEER_DIAL, 0); i++, now += 100 * MS)
        step((struct rlt_event){.kind = RLT_EV_TICK}); /* silent: suspect, and dialled */
    uint64_t second = dialled();
    assert_non_null(action(RLT_A_PEER_SEND, 0)); /* who we are, ... */
    assert_null(said_to_peer());                 /* ... and no more */
    now += MT_RLT_PEER_BEAT_MS * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_null(action(RLT_A_PEER_DIAL, 0)); /* one is open */
    peer_says(second, 1, link, 0);
    assert_non_null(said_to_peer()); /* the first one says nothing: this one carries on, with all of it */
    assert_int_equal(said_to_peer()->sequence, 1);
    peer_says(stream, 1, link, 0);
    assert_null(said_to_peer());
}

/* A stream that the other end has dialled. */
static void peer_dials(uint64_t stream, uint32_t epoch)
{
    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = stream}});
    peer_says(stream, epoch, 100 + stream, 0);
}

static bool is_heard(uint64_t stream)
{
    for (int i = 0; action(RLT_A_PEER_CLOSE, i); i++)
        if (action(RLT_A_PEER_CLOSE, i)->peer_close.stream == stream)
            return false;
    assert_non_null(action(RLT_A_PEER_SEND, 0)); /* who we are */
    return true;
}

static bool is_lost(uint32_t node)
{
    return action(RLT_A_OWNERS_GONE, 0) && action(RLT_A_OWNERS_GONE, 0)->owners_gone.node == node;
}

/* What a raylet said before it was restarted, or declared dead, may still be on its way: nobody listens to
 * it. */
static void an_older_epoch_is_not_listened_to(void **state)
{
    struct rlt_stats stats;
    (void)state;
    begin(true);
    registered(6, 1);
    peer_dials(1, 2); /* the head has not told of it yet: its own word counts */
    assert_true(is_heard(1));
    peer_dials(2, 1);
    assert_false(is_heard(2));
    assert_false(is_lost(3));
    node_is_seen(3, 5, IS_ALIVE);
    assert_true(is_lost(3)); /* the link was of epoch 2 */
    peer_dials(3, 4);
    assert_false(is_heard(3));
    peer_dials(4, 5);
    assert_true(is_heard(4));
    node_is_seen(3, 5, IS_DEAD);
    assert_true(is_lost(3));
    peer_dials(5, 5);
    assert_false(is_heard(5));
    rlt_stats(r, &stats);
    assert_int_equal(stats.fenced, 3);
    peer_dials(6, 6);
    assert_true(is_heard(6));
}

/* The link, and all that was bound to it, was the former raylet's. */
static void a_later_epoch_ends_what_was_the_former_ones(void **state)
{
    (void)state;
    begin(true);
    registered(6, 1);
    node_is_seen(3, 1, IS_ALIVE);
    peer_dials(1, 1);
    assert_true(is_heard(1));
    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = 2}});
    peer_says(2, 1, 101, 0); /* the same raylet by another stream: the same link */
    assert_false(is_lost(3));
    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = 3}});
    peer_says(3, 2, 101, 0);
    assert_true(is_lost(3));
    assert_true(is_heard(3));
    peer_says(3, 2, 101, 0);
    assert_false(is_lost(3)); /* once */
    node_is_seen(3, 2, IS_ALIVE);
    assert_false(is_lost(3)); /* it was heard of already */
    node_is_seen(3, 3, IS_ALIVE);
    assert_true(is_lost(3));
}

/* A head that is silent behind an open stream can't have told of a node that is new. */
static void a_head_is_heard_by_what_it_says(void **state)
{
    (void)state;
    begin(true);
    registered(6, 1);
    assert_true(rlt_head_is_heard(r, now / MS));
    now += 100 * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_false(rlt_head_is_heard(r, now / MS));
    assert_true(rlt_head_is_heard(r, now / MS - 100));
    node_is_seen(3, 1, IS_ALIVE); /* by a view */
    assert_true(rlt_head_is_heard(r, now / MS));
    step((struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
    assert_false(rlt_head_is_heard(r, now / MS));
}

/* No link, and a fetch that nobody answers: the node is looked for, given up without the head's word, and
 * looked for again. */
static void a_node_whose_data_socket_is_gone_is_looked_for(void **state)
{
    (void)state;
    begin(true);
    registered(6, 1);
    node_is_seen(3, 1, IS_ALIVE);
    step((struct rlt_event){.kind = RLT_EV_PEER_DOUBT, .peer_doubt = {.node = 3}});
    assert_non_null(action(RLT_A_PEER_DIAL, 0));
    uint64_t stream = action(RLT_A_PEER_DIAL, 0)->peer_dial.stream;
    step((struct rlt_event){.kind = RLT_EV_PEER_CLOSED, .peer_closed = {.stream = stream, .is_refused = true}});
    assert_true(is_lost(3)); /* what waits for it fails */
    now += MT_NODE_SUSPECT_MS * MS;
    step((struct rlt_event){.kind = RLT_EV_TICK});
    assert_non_null(action(RLT_A_PEER_DIAL, 0));
    stream = action(RLT_A_PEER_DIAL, 0)->peer_dial.stream;
    step((struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = stream}});
    assert_true(rlt_node_is_given_up(r, 3)); /* somebody listens; it may be another */
    peer_says(stream, 1, UINT64_C(1) << 40, 0);
    assert_false(rlt_node_is_given_up(r, 3));
}

/* The stream is closed for what came by it, and the link must not go on over a stream that is not there. */
static void a_link_whose_stream_was_closed_for_a_wrong_frame_is_dialled(void **state)
{
    (void)state;
    begin(true);
    registered(6, 1);
    node_is_seen(3, 1, IS_ALIVE);
    peer_dials(1, 1);
    assert_true(is_heard(1));
    peer_says(1, 0, 101, 0); /* of an epoch that is over */
    assert_false(is_heard(1));
    assert_null(action(RLT_A_PEER_SEND, 0));
    assert_non_null(action(RLT_A_PEER_DIAL, 0));
}

static void cluster_is_seen(uint64_t since, uint64_t version, uint64_t latest, uint32_t node, uint32_t gone)
{
    Manta__V1__HeadToNode m = MANTA__V1__HEAD_TO_NODE__INIT;
    Manta__V1__View       view = MANTA__V1__VIEW__INIT;
    Manta__V1__Node       seen = MANTA__V1__NODE__INIT, *nodes[] = {&seen};
    seen.node = node;
    seen.epoch = 1;
    seen.state = IS_ALIVE;
    seen.data_address = "10.0.0.3:7001";
    view.since = since;
    view.version = version;
    view.latest = latest;
    view.nodes = nodes;
    view.n_nodes = node != 0;
    view.gone = &gone;
    view.n_gone = gone != 0;
    m.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_VIEW;
    m.view = &view;
    head_says(&m);
}

static int32_t reach(uint32_t node)
{
    uint32_t epoch;
    char     address[RLT_ADDRESS_SIZE];
    return rlt_node_data_address(r, node, &epoch, address).code;
}

/* What the head tells is built on what it told before; who begins anew is told of all, and what is left out then is dead. */
static void what_the_head_leaves_out_or_forgets_is_dead(void **state)
{
    (void)state;
    uint32_t count;
    begin(true);
    registered(6, 1);
    cluster_is_seen(0, 10, 12, 3, 0);
    assert_true(rlt_view_version(r, &count) == 0); /* more is to come */
    cluster_is_seen(10, 12, 12, 4, 0);
    assert_true(rlt_view_version(r, &count) == 12 && count == 2);
    cluster_is_seen(11, 13, 13, 5, 0); /* on top of what it was not told: never happens, and changes nothing */
    assert_true(rlt_view_version(r, &count) == 12 && reach(5) == MT_ENOENT);
    cluster_is_seen(12, 13, 13, 0, 3);
    assert_int_equal(reach(3), MT_ENODE_DIED);
    assert_int_equal(reach(4), MT_OK);
    cluster_is_seen(0, 20, 21, 7, 0); /* another stream */
    assert_int_equal(reach(4), MT_OK);
    cluster_is_seen(20, 21, 21, 8, 0);
    assert_int_equal(reach(4), MT_ENODE_DIED);
    assert_int_equal(reach(7), MT_OK);
    assert_true(rlt_view_version(r, &count) == 21 && count == 2);
    cluster_is_seen(21, 22, 22, 4, 0); /* it is back */
    assert_int_equal(reach(4), MT_OK);
}

/* A driver asks for the nodes in pieces, each from where the last one ended. */
static void a_list_in_pieces_has_each_node_once(void **state)
{
    (void)state;
    enum { OTHERS = 50 };
    uint32_t           told = 0;
    struct ctl_request ask = {.op = CTL_OP_NODES};
    struct ctl_reply   head;
    begin(true);
    registered(6, 1);
    for (uint32_t i = 0; i < OTHERS; i++)
        cluster_is_seen(i, i + 1, OTHERS, 10 + i * 7 % OTHERS, 0); /* in no order */
    driver_begins();
    do {
        const struct ctl_node *node;
        up(DRIVER, CTL_REQUEST, (mt_id){9, 9}, &ask, sizeof ask);
        const uint8_t *reply = down(DRIVER, CTL_REPLY);
        assert_non_null(reply);
        memcpy(&head, reply, sizeof head);
        node = (const void *)(reply + sizeof head);
        for (size_t i = 0; i < head.size / sizeof *node; i++, told++, ask.after = node[i - 1].node)
            assert_int_equal(node[i].node, told == 0 ? 6 : 9 + told);
    } while (head.size);
    assert_int_equal(told, 1 + OTHERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_link_that_was_given_up_is_not_gone_on_with, end),
        cmocka_unit_test_teardown(a_node_that_is_slow_is_not_sent_the_same_twice, end),
        cmocka_unit_test_teardown(an_older_epoch_is_not_listened_to, end),
        cmocka_unit_test_teardown(a_later_epoch_ends_what_was_the_former_ones, end),
        cmocka_unit_test_teardown(a_head_is_heard_by_what_it_says, end),
        cmocka_unit_test_teardown(a_node_whose_data_socket_is_gone_is_looked_for, end),
        cmocka_unit_test_teardown(a_link_whose_stream_was_closed_for_a_wrong_frame_is_dialled, end),
        cmocka_unit_test_teardown(what_the_head_leaves_out_or_forgets_is_dead, end),
        cmocka_unit_test_teardown(a_list_in_pieces_has_each_node_once, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

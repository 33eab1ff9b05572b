/* SPDX-License-Identifier: Apache-2.0
 *
 * net.c - the network: dialling, messages in order, cuts, resets, ends that die.
 *
 * Owns: every struct sim_stream. Thread: one.
 * Always: a stream lives until both ends have been told of its end, or have died.
 */
#include "tests/sim/twins/net.h"

#include "tests/sim/load/job.h"

#include <stdlib.h>

void sim_net_new(struct sim *s)
{
    s->net = sim_alloc(sizeof *s->net);
}

void sim_net_free(struct sim *s)
{
    if (!s->net)
        return;
    MT_MAP_EACH(&s->net->streams, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->net->streams);
    free(s->net);
    s->net = NULL;
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static uint64_t serial_of(struct sim *s, int place)
{
    if (place == SIM_HEAD)
        return sim_head_is_up(s) ? sim_head_serial(s) : 0;
    return s->nodes[place] ? s->nodes[place]->serial : 0;
}

static struct sim_node *node_of_end(struct sim *s, const struct sim_end *end)
{
    return end->place == SIM_HEAD ? NULL : sim_node_of(s, end->serial);
}

static bool is_alive(struct sim *s, const struct sim_end *end)
{
    return serial_of(s, end->place) == end->serial;
}

static uint64_t delay_between(struct sim *s, int from, int to)
{
    uint64_t delay = sim_between(s, 50 * SIM_US, 600 * SIM_US);
    if (s->net->slow_until[from] > s->now || s->net->slow_until[to] > s->now)
        delay += sim_between(s, SIM_MS, 80 * SIM_MS);
    return delay;
}

uint64_t sim_net_delay(struct sim *s, int from, int to)
{
    return delay_between(s, from, to);
}

uint64_t sim_net_cut_until(const struct sim *s, int from, int to)
{
    return s->net->cut_until[from][to];
}

static bool is_cut(const struct sim *s, int from, int to)
{
    return s->net->cut_until[from][to] > s->now;
}

static struct sim_stream *stream_of(struct sim *s, uint64_t serial)
{
    return mt_map_ptr(&s->net->streams, mt_map_key(serial));
}

static void free_if_over(struct sim *s, struct sim_stream *st)
{
    for (int i = 0; i < 2; i++)
        if (st->ends[i].is_open && is_alive(s, &st->ends[i]))
            return;
    mt_map_remove(&s->net->streams, mt_map_key(st->serial));
    free(st);
}

/* ---- the end of a stream ----------------------------------------------------------------------------------------- */

static void tell_closed(struct sim *s, struct sim_stream *st, int which, bool refused)
{
    struct sim_end  *end = &st->ends[which];
    struct sim_node *n = node_of_end(s, end);
    bool             to_head = st->ends[1].place == SIM_HEAD;
    if (!end->is_open)
        return;
    end->is_open = false;
    if (end->place == SIM_HEAD)
        sim_head_stream_closed(s, end->number);
    else if (n)
        sim_node_step(s, n,
                      to_head ? &(struct rlt_event){.kind = RLT_EV_HEAD_DOWN}
                              : &(struct rlt_event){.kind = RLT_EV_PEER_CLOSED, .peer_closed = {end->number, refused}});
}

static void dial_again(struct sim *s, struct sim_event *e);

static void closed_arrives(struct sim *s, struct sim_event *e)
{
    struct sim_stream *st = stream_of(s, e->target);
    int                which = (int)e->arg;
    if (!st)
        return;
    struct sim_end *end = &st->ends[which], *other = &st->ends[!which];
    if (end->is_open && is_alive(s, end)) {
        if (is_cut(s, other->place, end->place) && !e->size) { /* the news is held back, but not for ever */
            uint64_t          until = s->net->cut_until[other->place][end->place] - s->now;
            bool              gives_up = until > SIM_GIVE_UP_MS * SIM_MS;
            uint64_t          wait = gives_up ? SIM_GIVE_UP_MS * SIM_MS : until;
            struct sim_event *again = sim_after(s, wait, "closed", closed_arrives, st->serial);
            again->arg = e->arg;
            again->size = gives_up;
            return;
        }
        bool     was_head = st->ends[1].place == SIM_HEAD && which == 0;
        uint64_t node = end->serial;
        tell_closed(s, st, which, !is_alive(s, other));
        if (was_head)
            sim_after(s, SIM_DIAL_MS * SIM_MS, "dial head", dial_again, node);
    }
    free_if_over(s, st);
}

/* Both ends hear of it, each in its own time; `by` (or -1) knows already. */
static void stream_end(struct sim *s, struct sim_stream *st, int by)
{
    if (by >= 0)
        st->ends[by].is_open = false;
    for (int i = 0; i < 2; i++)
        if (st->ends[i].is_open)
            sim_after(s, delay_between(s, st->ends[!i].place, st->ends[i].place), "closed", closed_arrives, st->serial)
                ->arg = (uint64_t)i;
    if (by >= 0)
        free_if_over(s, st);
}

void sim_net_end_died(struct sim *s, int place, uint64_t serial)
{
    MT_MAP_EACH(&s->net->streams, entry) {
        struct sim_stream *st = entry->value.ptr;
        for (int i = 0; i < 2; i++)
            if (st->ends[i].place == place && st->ends[i].serial == serial && st->ends[i].is_open) {
                stream_end(s, st, i);
                break;
            }
    }
}

bool sim_net_reset_one(struct sim *s)
{
    uint64_t pick = s->net->streams.count ? sim_random(s, s->net->streams.count) : 0;
    MT_MAP_EACH(&s->net->streams, entry) {
        struct sim_stream *st = entry->value.ptr;
        if (pick--)
            continue;
        st->is_reset = true;
        stream_end(s, st, -1);
        return true;
    }
    return false;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Each message is a step of its own there. */
static void head_says(struct sim *s, struct sim_node *n, const uint8_t *bytes, size_t size)
{
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, size, bytes);
    uint64_t               serial = n->serial;
    SIM_REQUIRE(s, m, "a raylet can not read what the head has said");
    sim_node_packed(s, n, &(struct rlt_event){.kind = RLT_EV_HEAD}, bytes, size);
    for (size_t i = 0; i < m->n_more && n->serial == serial; i++)
        sim_node_packed(s, n, &(struct rlt_event){.kind = RLT_EV_HEAD}, m->more[i].data, m->more[i].len);
    manta__v1__head_to_node__free_unpacked(m, NULL);
}

static void message_arrives(struct sim *s, struct sim_event *e)
{
    struct sim_stream *st = stream_of(s, e->target);
    int                to = (int)e->arg;
    if (!st || st->is_reset) {
        s->counters.message_lost++; /* the stream has ended with it under way */
        return;
    }
    struct sim_end *end = &st->ends[to];
    int             from = st->ends[!to].place;
    if (!end->is_open || !is_alive(s, end))
        return;
    if (is_cut(s, from, end->place)) {
        uint64_t          until = s->net->cut_until[from][end->place];
        struct sim_event *again = sim_after(s, until - s->now, e->name, message_arrives, st->serial);
        if (end->last_at < until)
            end->last_at = until; /* later ones do not overtake it */
        again->arg = e->arg;
        again->bytes = e->bytes;
        again->size = e->size;
        e->bytes = NULL;
        return;
    }
    struct sim_node *n = node_of_end(s, end);
    bool             to_head = st->ends[1].place == SIM_HEAD;
    if (end->place == SIM_HEAD)
        sim_head_message(s, end->number, e->bytes, e->size);
    else if (n && to_head)
        head_says(s, n, e->bytes, e->size);
    else if (n)
        sim_node_packed(s, n, &(struct rlt_event){.kind = RLT_EV_PEER_FRAME, .peer_frame = {.stream = end->number}}, e->bytes,
                        e->size);
}

/* What is said at one moment travels as one, as the shells of head and raylet do it: a length and so many bytes, as field 15. */
static bool is_joined(struct sim *s, struct sim_stream *st, int from, uint8_t *take_bytes, size_t size)
{
    struct sim_end *to = &st->ends[!from];
    if (!s->config.many_jobs || st->ends[1].place != SIM_HEAD || !to->last || to->last_sent != s->now)
        return false;
    struct sim_event *e = to->last;
    uint8_t          *all = sim_alloc(e->size + size + 16);
    memcpy(all, e->bytes, e->size);
    size_t at = e->size;
    all[at++] = 15 << 3 | 2;
    for (size_t left = size;; left >>= 7) {
        all[at++] = (uint8_t)(left & 0x7f) | (left > 0x7f ? 0x80 : 0);
        if (left <= 0x7f)
            break;
    }
    memcpy(all + at, take_bytes, size);
    free(e->bytes);
    free(take_bytes);
    e->bytes = all;
    e->size = at + size;
    s->joined++;
    return true;
}

static void send(struct sim *s, struct sim_stream *st, int from, uint8_t *take_bytes, size_t size)
{
    struct sim_end   *to = &st->ends[!from];
    uint64_t          at = s->now + delay_between(s, st->ends[from].place, to->place);
    struct sim_event *e;
    if (is_joined(s, st, from, take_bytes, size))
        return;
    if (at <= to->last_at)
        at = to->last_at + 1;
    to->last_at = at;
    e = sim_after(s, at - s->now, st->ends[1].place == SIM_HEAD ? "head stream" : "peer stream", message_arrives, st->serial);
    e->arg = (uint64_t)!from;
    e->bytes = take_bytes;
    e->size = size;
    to->last = e;
    to->last_sent = s->now;
}

/* The stream that an end calls `number`. */
static struct sim_stream *find(struct sim *s, uint64_t serial, uint64_t number, bool to_head, int *which)
{
    MT_MAP_EACH(&s->net->streams, entry) {
        struct sim_stream *st = entry->value.ptr;
        if ((st->ends[1].place == SIM_HEAD) != to_head)
            continue;
        for (*which = 0; *which < 2; ++*which)
            if (st->ends[*which].serial == serial && st->ends[*which].number == number && st->ends[*which].is_open)
                return st;
    }
    return NULL;
}

/* ---- to the head ------------------------------------------------------------------------------------------------- */

static void head_reached(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    if (!n)
        return;
    if (!sim_head_is_up(s) || is_cut(s, n->index, SIM_HEAD) || is_cut(s, SIM_HEAD, n->index)) {
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_HEAD_DOWN});
        sim_after(s, SIM_DIAL_MS * SIM_MS, "dial head", dial_again, n->serial);
        return;
    }
    struct sim_stream *st = sim_alloc(sizeof *st);
    st->serial = sim_serial(s);
    st->ends[0] = (struct sim_end){.place = n->index, .serial = n->serial, .number = st->serial, .is_open = true};
    st->ends[1] = (struct sim_end){.place = SIM_HEAD, .serial = sim_head_serial(s), .is_open = true};
    if (mt_map_put_ptr(&s->net->streams, mt_map_key(st->serial), st).code)
        abort();
    st->ends[1].number = sim_head_stream_opened(s);
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_HEAD_UP});
}

static void dial_again(struct sim *s, struct sim_event *e)
{
    if (sim_node_of(s, e->target))
        sim_after(s, sim_between(s, 100 * SIM_US, 2 * SIM_MS), "head reached", head_reached, e->target);
}

void sim_net_node_up(struct sim *s, struct sim_node *n)
{
    sim_after(s, sim_between(s, 100 * SIM_US, 5 * SIM_MS), "dial head", dial_again, n->serial);
}

void sim_net_node_down(struct sim *s, struct sim_node *n, uint64_t serial)
{
    sim_jobs_of_node_die(s, serial);
    sim_net_end_died(s, n->index, serial);
}

static void act_head_send(struct sim *s, struct sim_node *n, const Manta__V1__NodeToHead *m)
{
    int                which = 0;
    struct sim_stream *st = NULL;
    MT_MAP_EACH(&s->net->streams, entry) {
        struct sim_stream *each = entry->value.ptr;
        if (each->ends[1].place == SIM_HEAD && each->ends[0].serial == n->serial && each->ends[0].is_open)
            st = each;
    }
    if (!st)
        return; /* it ended, and the core has not heard of it yet */
    size_t   size = manta__v1__node_to_head__get_packed_size(m);
    uint8_t *bytes = sim_alloc(size + 8);
    manta__v1__node_to_head__pack(m, bytes);
    send(s, st, which, bytes, size);
}

void sim_net_head_send(struct sim *s, uint64_t number, const uint8_t *bytes, size_t size)
{
    int                which;
    struct sim_stream *st = find(s, sim_head_serial(s), number, true, &which);
    uint8_t           *copy;
    if (!st)
        return;
    copy = sim_alloc(size + 8);
    memcpy(copy, bytes, size);
    send(s, st, which, copy, size);
}

void sim_net_head_close(struct sim *s, uint64_t number)
{
    int                which;
    struct sim_stream *st = find(s, sim_head_serial(s), number, true, &which);
    if (st)
        stream_end(s, st, which);
}

uint64_t sim_net_head_peer(struct sim *s, uint64_t number)
{
    int                which;
    struct sim_stream *st = find(s, sim_head_serial(s), number, true, &which);
    return st ? st->ends[!which].serial : 0;
}

/* ---- between raylets --------------------------------------------------------------------------------------------- */

static void dial_failed(struct sim *s, struct sim_node *n, uint64_t number, bool refused)
{
    sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_PEER_CLOSED, .peer_closed = {.stream = number, .is_refused = refused}});
}

static void dial_arrives(struct sim *s, struct sim_event *e)
{
    struct sim_node *n = sim_node_of(s, e->target);
    struct sim_node *to = (size_t)e->fd < SIM_NODES_MAX ? s->nodes[e->fd] : NULL;
    if (!n)
        return;
    if (!to || is_cut(s, n->index, to->index) || is_cut(s, to->index, n->index)) {
        dial_failed(s, n, e->arg, false);
        return;
    }
    if (!to->serial) {
        dial_failed(s, n, e->arg, true);
        return;
    }
    struct sim_stream *st = sim_alloc(sizeof *st);
    st->serial = sim_serial(s);
    st->ends[0] = (struct sim_end){.place = n->index, .serial = n->serial, .number = e->arg, .is_open = true};
    st->ends[1] = (struct sim_end){.place = to->index, .serial = to->serial, .number = ++to->next_stream, .is_open = true};
    if (mt_map_put_ptr(&s->net->streams, mt_map_key(st->serial), st).code)
        abort();
    uint64_t theirs = st->ends[1].number;
    sim_node_step(s, to, &(struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = theirs}});
    if ((n = sim_node_of(s, e->target)))
        sim_node_step(s, n, &(struct rlt_event){.kind = RLT_EV_PEER_OPEN, .peer_open = {.stream = e->arg}});
}

static void act_peer_dial(struct sim *s, struct sim_node *n, const struct rlt_a_peer_dial *a)
{
    struct sim_event *e = sim_after(s, sim_between(s, 200 * SIM_US, 2 * SIM_MS), "dial peer", dial_arrives, n->serial);
    e->arg = a->stream;
    if (sscanf(a->address, "10.0.0.%d:", &e->fd) != 1)
        e->fd = SIM_NODES_MAX;
}

static void act_peer_send(struct sim *s, struct sim_node *n, const struct rlt_a_peer_send *a)
{
    int                which;
    struct sim_stream *st = find(s, n->serial, a->stream, false, &which);
    if (!st)
        return;
    size_t   size = manta__v1__frame__get_packed_size(a->frame);
    uint8_t *bytes = sim_alloc(size + 8);
    manta__v1__frame__pack(a->frame, bytes);
    send(s, st, which, bytes, size);
}

static void act_peer_close(struct sim *s, struct sim_node *n, uint64_t number)
{
    int                which;
    struct sim_stream *st = find(s, n->serial, number, false, &which);
    if (st)
        stream_end(s, st, which);
}

void sim_net_act(struct sim *s, struct sim_node *n, const struct rlt_action *a)
{
    if (a->kind == RLT_A_HEAD_SEND)
        act_head_send(s, n, a->head_send.message);
    else if (a->kind == RLT_A_PEER_DIAL)
        act_peer_dial(s, n, &a->peer_dial);
    else if (a->kind == RLT_A_PEER_SEND)
        act_peer_send(s, n, &a->peer_send);
    else
        act_peer_close(s, n, a->peer_close.stream);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void give_up(struct sim *s, struct sim_event *e)
{
    struct sim_stream *st = stream_of(s, e->target);
    if (!st)
        return;
    int a = st->ends[0].place, b = st->ends[1].place;
    if (!is_cut(s, a, b) && !is_cut(s, b, a))
        return;
    for (int i = 0; i < 2; i++)
        if (st->ends[i].is_open && is_alive(s, &st->ends[i])) {
            struct sim_event *now = sim_after(s, 1, "closed", closed_arrives, st->serial);
            now->arg = (uint64_t)i;
            now->size = 1;
        }
}

void sim_net_cut(struct sim *s, int from, int to, uint64_t for_ns)
{
    if (s->net->cut_until[from][to] < s->now + for_ns)
        s->net->cut_until[from][to] = s->now + for_ns;
    MT_MAP_EACH(&s->net->streams, entry) {
        struct sim_stream *st = entry->value.ptr;
        int                a = st->ends[0].place, b = st->ends[1].place;
        if ((a == from && b == to) || (a == to && b == from))
            sim_after(s, SIM_GIVE_UP_MS * SIM_MS, "gives up", give_up, st->serial);
    }
}

void sim_net_slow(struct sim *s, int place, uint64_t for_ns)
{
    s->net->slow_until[place] = s->now + for_ns;
}

void sim_net_heal(struct sim *s)
{
    for (int a = 0; a < SIM_ENDS; a++) {
        s->net->slow_until[a] = 0;
        for (int b = 0; b < SIM_ENDS; b++)
            if (s->net->cut_until[a][b] > s->now)
                s->net->cut_until[a][b] = s->now; /* what was held back arrives when it was due to */
    }
}

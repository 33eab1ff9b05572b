/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c - the twin of objectstore/transfer: data sockets between simulated raylets. Both ends run the machines of server/pull.h.
 *
 * A connection is two streams of bytes. What is sent arrives in pieces of any size, cut anywhere: in the middle of a greeting,
 * of a request, of a chunk. It may break off at any byte, stand still behind a cut path, or be left by an end that died.
 * A large value has one for itself; small ones share one to each node, a line (server/row.h): what is asked for in one turn leaves
 * together, and what comes is whoever's turn it is.
 *
 * Owns: every struct wire. Thread: one.
 * Always: a wire lives while one of its ends does; the source holds at most one pin, of the object of its last request.
 */
#include "tests/sim/twins/io.h"

#include "objectstore/transfer/transfer.h"
#include "raylet/store/store.h"
#include "tests/sim/load/object.h"
#include "tests/sim/twins/net.h"

enum { PIECE_MAX = 40000, PORT = 7001 };

struct wire_end {
    int      place; /* index of the node */
    uint64_t serial;
    bool     is_open;
    uint64_t last_at; /* arrival of the last bytes to this end */
};

struct wire {
    struct sim      *s;
    uint64_t         number;
    struct wire_end  ends[2];   /* 0 fetches, 1 serves */
    bool             is_broken; /* what is under way is lost */
    struct os_fetch *fetch;     /* NULL: it is a line */
    struct os_row    row;       /* ... with those; is_over: it takes no more */
    bool             is_line, is_over, is_dialed, is_asking;
    mt_buf           out; /* requests that leave with the end of this turn */
    uint32_t         to_node, to_epoch;
    struct io_timer  look;
    int64_t          progress_ms;
    struct os_serve  serve;
    struct io_timer  timer;
    struct lane_ref  pinned; /* of the source; zero id: nothing */
    struct os_pinned pin;    /* ... unless it is a part */
    struct os_part  *part;
    mt_buf           in; /* of the source: arrived, and not read while it answers */
    bool             is_sending;
    uint64_t         pace; /* ns at most between two pieces */
};

static void wire_free(struct wire *w)
{
    mt_map_remove(&w->s->wires, mt_map_key(w->number));
    while (w->is_line && os_row_pop(&w->row)) {
    }
    mt_buf_fini(&w->in);
    mt_buf_fini(&w->out);
    free(w);
}

void sim_wires_free(struct sim *s)
{
    MT_MAP_EACH(&s->wires, entry)
        wire_free(entry->value.ptr);
    mt_map_fini(&s->wires);
}

static struct wire *wire_of(struct sim *s, uint64_t number)
{
    return mt_map_ptr(&s->wires, mt_map_key(number));
}

static struct io_loop *loop_of(struct wire *w, int which)
{
    return w->ends[which].is_open ? sim_loop_of(w->s, w->ends[which].serial) : NULL;
}

/* ---- the ends of a wire ------------------------------------------------------------------------------------------ */

static void closed_arrives(struct sim *s, struct sim_event *e);

static uint64_t way(struct wire *w, int to)
{
    struct wire_end *end = &w->ends[to];
    uint64_t         at = w->s->now + sim_net_delay(w->s, w->ends[!to].place, end->place);
    if (at <= end->last_at)
        at = end->last_at + 1;
    end->last_at = at;
    return at - w->s->now;
}

static void unpin(struct wire *w, struct io_loop *loop)
{
    if (!mt_id_is_zero(w->pinned.id) && !w->part)
        loop->transfer->unpin(loop->transfer, &w->pin, w->serve.hello.from_node);
    w->pinned = (struct lane_ref){0};
    w->part = NULL;
}

/* This end closes; the other hears of it. */
static void end_close(struct wire *w, int which)
{
    struct io_loop *loop = loop_of(w, which);
    if (!w->ends[which].is_open)
        return;
    if (which == 1 && loop)
        unpin(w, loop);
    io_timer_stop(which == 1 ? &w->timer : &w->look);
    w->ends[which].is_open = false;
    if (w->ends[!which].is_open)
        sim_after(w->s, way(w, !which), "data closed", closed_arrives, w->number)->arg = (uint64_t)!which;
    else
        wire_free(w);
}

static void fetch_end(struct os_fetch *fetch, mt_status st)
{
    os_fetch_cancel(fetch);
    fetch->done(fetch, st); /* fetch may be gone after this line */
}

static mt_status line_fetch(struct os_transfer *transfer, struct os_fetch *fetch, int place, uint32_t to_node, uint32_t to_epoch,
                            const struct lane_ref *ref, void *data);

/* Those who wait begin anew on another line, or fail. */
static void line_end(struct wire *w, mt_status st)
{
    struct os_transfer *transfer = loop_of(w, 0)->transfer;
    struct os_row_item *item;
    bool                is_anew = os_row_begins_anew(&w->row, st);
    w->is_over = true;
    w->s->counters.line_broken += w->row.count > 0;
    while ((item = os_row_pop(&w->row))) {
        struct os_fetch *fetch = mt_container_of(item, struct os_fetch, item);
        struct lane_ref  ref = fetch->pull.ref;
        mt_status        why = st;
        fetch->transfer = NULL;
        if (is_anew)
            why = line_fetch(transfer, fetch, w->ends[1].place, w->to_node, w->to_epoch, &ref, fetch->pull.data);
        w->s->counters.line_anew += is_anew;
        if (why.code)
            fetch->done(fetch, why);
    }
    end_close(w, 0);
}

static bool holds_back(struct wire *w, struct sim_event *e, int to, void (*fire)(struct sim *, struct sim_event *))
{
    struct sim       *s = w->s;
    struct sim_node  *n = sim_node_of(s, w->ends[to].serial);
    uint64_t          until = sim_net_cut_until(s, w->ends[!to].place, w->ends[to].place);
    struct sim_event *again;
    if (n && n->paused_until > until)
        until = n->paused_until;
    if (until <= s->now)
        return false;
    again = sim_after(s, until - s->now, e->name, fire, w->number);
    if (w->ends[to].last_at < until)
        w->ends[to].last_at = until; /* later bytes do not overtake them */
    again->arg = e->arg;
    again->bytes = e->bytes;
    again->size = e->size;
    e->bytes = NULL;
    return true;
}

static void closed_arrives(struct sim *s, struct sim_event *e)
{
    struct wire    *w = wire_of(s, e->target);
    int             which = (int)e->arg;
    struct io_loop *loop = w ? loop_of(w, which) : NULL;
    if (!w || holds_back(w, e, which, closed_arrives))
        return;
    if (!loop) { /* it has died meanwhile */
        end_close(w, which);
        return;
    }
    s->counters.pull_broken += which == 0;
    sim_enter(loop);
    if (which == 0 && w->is_line)
        line_end(w, mt_error(MT_ECONN, 0, "fetch: the source closed the connection"));
    else if (which == 0)
        fetch_end(w->fetch, mt_error(MT_ECONN, 0, "fetch: the source closed the connection"));
    else
        end_close(w, 1);
    sim_leave(loop);
}

/* Somebody waits for what comes by it. */
static bool is_used(const struct wire *w)
{
    return !w->is_broken && w->ends[0].is_open && (w->is_line ? w->row.count > 0 : w->fetch != NULL);
}

bool sim_wire_break_one(struct sim *s)
{
    uint64_t used = 0;
    MT_MAP_EACH(&s->wires, entry)
        used += is_used(entry->value.ptr);
    uint64_t pick = used ? sim_random(s, used) : 0;
    MT_MAP_EACH(&s->wires, entry) {
        struct wire *w = entry->value.ptr;
        if (!is_used(w) || pick--)
            continue;
        w->is_broken = true;
        for (int i = 0; i < 2; i++)
            if (w->ends[i].is_open)
                sim_after(s, way(w, i), "data closed", closed_arrives, w->number)->arg = (uint64_t)i;
        return true;
    }
    return false;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void bytes_arrive(struct sim *s, struct sim_event *e);

/* Sends them in pieces, cut anywhere. */
static void send_bytes(struct wire *w, int to, const uint8_t *bytes, size_t size)
{
    while (size) {
        size_t            piece = sim_chance(w->s, 700000) ? size : (size_t)sim_between(w->s, 1, size);
        struct sim_event *e = sim_after(w->s, way(w, to), "data", bytes_arrive, w->number);
        w->s->counters.pull_cut += piece < size;
        e->arg = (uint64_t)to;
        e->bytes = sim_alloc(piece + 8);
        e->size = piece;
        memcpy(e->bytes, bytes, piece);
        bytes += piece;
        size -= piece;
    }
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

static void source_sends(struct sim *s, struct sim_event *e);

static mt_status source_pin(struct wire *w, struct os_transfer *transfer, const struct lane_ref *ref)
{
    unpin(w, transfer->loop);
    w->serve.elsewhere = 0;
    if (mt_id_is_zero(ref->id))
        return mt_error(MT_EOBJ_LOST, 0, "object socket: no id");
    w->part = os_part_find(transfer, ref);
    if (!w->part) {
        w->pin = (struct os_pinned){0};
        mt_status st = transfer->pin(transfer, ref, w->serve.hello.from_node, &w->pin);
        w->serve.elsewhere = w->pin.elsewhere;
        w->s->counters.pull_relayed += w->pin.elsewhere != 0;
        if (st.code)
            return st;
    }
    w->pinned = *ref;
    return mt_ok();
}

static void source_answer(struct wire *w, struct os_transfer *transfer)
{
    const struct lane_ref *ref = &w->serve.request.ref;
    mt_status              st = memcmp(&w->pinned, ref, sizeof *ref) != 0 ? source_pin(w, transfer, ref) : mt_ok();
    w->s->counters.pull_served += st.code == MT_OK;
    w->s->counters.pull_refused += st.code != MT_OK;
    if (st.code || !w->part)
        os_serve_answer(&w->serve, st.code, w->pin.data);
    else if (os_serve_answer_part(&w->serve, w->part->data, w->part->have))
        w->s->counters.pull_part++;
    else
        w->s->counters.pull_part_waits++;
}

static void sends_soon(struct wire *w)
{
    if (w->is_sending || w->serve.state != OS_SERVE_REPLY)
        return;
    w->is_sending = true;
    sim_after(w->s, sim_between(w->s, SIM_US, w->pace), "data sends", source_sends, w->number);
}

/* Reads what has come, up to the next request. False: the connection is over. */
static bool source_reads(struct wire *w, struct os_transfer *transfer)
{
    while (w->serve.state != OS_SERVE_REPLY && w->serve.state != OS_SERVE_ASKED) {
        void  *at;
        size_t room;
        os_serve_room(&w->serve, &at, &room);
        if (room > w->in.size)
            room = w->in.size;
        if (!room)
            return true;
        memcpy(at, w->in.data, room);
        memmove(w->in.data, w->in.data + room, w->in.size - room);
        w->in.size -= room;
        if (os_serve_received(&w->serve, room, &transfer->token, transfer->node, transfer->epoch).code)
            return false;
        if (w->serve.state == OS_SERVE_ASKED)
            source_answer(w, transfer);
        if (w->serve.state == OS_SERVE_REPLY || w->serve.state == OS_SERVE_ASKED)
            io_timer_start(transfer->loop, &w->timer, MT_OBJECT_FETCH_MS);
    }
    sends_soon(w);
    return true;
}

/* One piece leaves the segment; the rest is still to be read from it. */
static void source_sends(struct sim *s, struct sim_event *e)
{
    struct wire    *w = wire_of(s, e->target);
    struct io_loop *loop = w ? loop_of(w, 1) : NULL;
    struct iovec    pieces[2];
    if (!loop)
        return;
    if (loop->n->paused_until > s->now) {
        sim_after(s, loop->n->paused_until - s->now, e->name, source_sends, e->target);
        return;
    }
    w->is_sending = false;
    if (w->serve.state != OS_SERVE_REPLY)
        return;
    sim_enter(loop);
    int    count = os_serve_out(&w->serve, pieces);
    size_t size = count ? pieces[0].iov_len : 0;
    if (size > PIECE_MAX)
        size = (size_t)sim_between(s, 1, PIECE_MAX);
    if (size && !w->is_broken)
        send_bytes(w, 0, pieces[0].iov_base, size);
    bool goes_on = os_serve_sent(&w->serve, size);
    if (goes_on)
        goes_on = source_reads(w, loop->transfer);
    if (!goes_on)
        end_close(w, 1);
    sim_leave(loop);
}

static void source_timeout(struct io_timer *timer)
{
    end_close(mt_container_of(timer, struct wire, timer), 1);
}

/* ---- who fetches ------------------------------------------------------------------------------------------------- */

static void send_requests(struct wire *w)
{
    struct os_fetch       *fetch = w->fetch;
    struct os_wire_request request;
    while (os_pull_request(&fetch->pull, &request))
        send_bytes(w, 1, (const uint8_t *)&request, sizeof request);
}

static void fetch_bytes(struct wire *w, const uint8_t *bytes, size_t size)
{
    struct os_fetch *fetch = w->fetch;
    mt_status        st = mt_ok();
    while (size && !fetch->pull.done && st.code == MT_OK) {
        void  *at;
        size_t room;
        os_pull_room(&fetch->pull, &at, &room);
        if (room > size)
            room = size;
        memcpy(at, bytes, room);
        bytes += room;
        size -= room;
        st = os_pull_received(&fetch->pull, room, (int64_t)io_now_ms());
        if (st.code == MT_OK && fetch->grew)
            fetch->grew(fetch);
    }
    if (st.code == MT_OK && fetch->pull.done)
        sim_copy_made(w->s, loop_of(w, 0)->n, &fetch->pull.ref);
    if (st.code || fetch->pull.done)
        fetch_end(fetch, st);
    else
        send_requests(w);
}

/* The requests of one turn. */
static void line_asks(struct sim *s, struct sim_event *e)
{
    struct wire *w = wire_of(s, e->target);
    if (!w || !loop_of(w, 0))
        return;
    w->is_asking = false;
    send_bytes(w, 1, w->out.data, w->out.size);
    w->out.size = 0;
}

static void line_asks_soon(struct wire *w)
{
    if (!w->is_dialed || w->is_asking)
        return;
    w->is_asking = true;
    sim_after(w->s, sim_between(w->s, 0, 20 * SIM_US), "data asks", line_asks, w->number);
}

static void line_bytes(struct wire *w, const uint8_t *bytes, size_t size)
{
    w->progress_ms = (int64_t)io_now_ms();
    mt_status st = os_row_take(&w->row, bytes, size, w->progress_ms);
    if (st.code)
        line_end(w, st);
    else
        os_row_rests(&w->row);
}

static void line_look(struct io_timer *timer)
{
    struct wire *w = mt_container_of(timer, struct wire, look);
    int64_t      idle = (int64_t)io_now_ms() - w->progress_ms;
    if (w->row.count && idle >= MT_OBJECT_FETCH_MS)
        line_end(w, mt_error(MT_ETIMEDOUT, 0, "fetch: nothing came from the source for too long"));
    else if (!w->row.count && idle >= MT_OS_IDLE_MS)
        end_close(w, 0);
    else
        io_timer_start(loop_of(w, 0), timer, MT_OBJECT_FETCH_MS / 4);
}

static void line_answered(struct os_row_item *item, mt_status st)
{
    struct os_fetch *fetch = mt_container_of(item, struct os_fetch, item);
    struct io_loop  *loop = fetch->transfer->loop;
    fetch->transfer = NULL;
    if (st.code == MT_OK)
        sim_copy_made(loop->s, loop->n, &fetch->pull.ref);
    loop->s->counters.line_refused += st.code != MT_OK;
    fetch->done(fetch, st); /* fetch may be gone after this line */
}

static void fetch_tick(struct io_timer *timer)
{
    struct os_fetch *fetch = mt_container_of(timer, struct os_fetch, timer);
    mt_status        st = os_pull_check(&fetch->pull, (int64_t)io_now_ms());
    if (st.code != MT_OK)
        fetch_end(fetch, st);
    else
        io_timer_start(fetch->transfer->loop, timer, fetch->pull.patience_ms / 4);
}

static void bytes_arrive(struct sim *s, struct sim_event *e)
{
    struct wire    *w = wire_of(s, e->target);
    int             to = (int)e->arg;
    struct io_loop *loop = w && !w->is_broken ? loop_of(w, to) : NULL;
    if (!loop || holds_back(w, e, to, bytes_arrive))
        return;
    sim_enter(loop);
    if (to == 0 && w->is_line) {
        line_bytes(w, e->bytes, e->size);
    } else if (to == 0) {
        fetch_bytes(w, e->bytes, e->size);
    } else {
        if (mt_buf_append(&w->in, e->bytes, e->size).code)
            abort();
        if (!source_reads(w, loop->transfer))
            end_close(w, 1);
    }
    sim_leave(loop);
}

/* ---- dialling ---------------------------------------------------------------------------------------------------- */

static void dial_arrives(struct sim *s, struct sim_event *e)
{
    struct wire     *w = wire_of(s, e->target);
    struct io_loop  *loop = w ? loop_of(w, 0) : NULL;
    struct sim_node *to = w ? s->nodes[w->ends[1].place] : NULL;
    if (!loop)
        return;
    if (!to->serial || !to->loop->transfer) {
        sim_enter(loop);
        if (w->is_line)
            line_end(w, mt_error(MT_ECONN, 0, "fetch: connect"));
        else
            fetch_end(w->fetch, mt_error(MT_ECONN, 0, "fetch: connect"));
        sim_leave(loop);
        return;
    }
    if (holds_back(w, e, 1, dial_arrives))
        return;
    w->ends[1].serial = to->serial;
    w->ends[1].is_open = true;
    os_serve_start(&w->serve);
    w->timer.fire = source_timeout;
    sim_enter(to->loop);
    io_timer_start(to->loop, &w->timer, MT_HANDSHAKE_MS);
    sim_leave(to->loop);
    struct os_wire_hello hello = {.magic = OS_WIRE_MAGIC,
                                  .version_max = mt_release.wire.max,
                                  .version_min = mt_release.wire.min,
                                  .from_node = loop->transfer->node,
                                  .from_epoch = loop->transfer->epoch,
                                  .to_node = (uint32_t)e->arg,
                                  .to_epoch = (uint32_t)e->size};
    memcpy(hello.token, loop->transfer->token.hex, sizeof hello.token);
    send_bytes(w, 1, (const uint8_t *)&hello, sizeof hello);
    w->is_dialed = true;
    if (w->is_line)
        line_asks_soon(w);
    else
        send_requests(w);
}

mt_status os_transfer_open(struct os_transfer *transfer, struct io_loop *loop, const char *host, uint16_t port,
                           const struct io_token *token)
{
    (void)host;
    (void)port;
    transfer->loop = loop;
    transfer->token = *token;
    transfer->port = PORT;
    loop->transfer = transfer;
    return mt_ok();
}

void os_transfer_close(struct os_transfer *transfer)
{
    struct io_loop *loop = transfer->loop;
    MT_MAP_EACH(&loop->s->wires, entry) {
        struct wire *w = entry->value.ptr;
        bool         is_ours = w->is_line && w->ends[0].is_open && w->ends[0].serial == loop->serial;
        if (w->ends[1].serial == loop->serial)
            end_close(w, 1);
        if (is_ours) /* with ghosts, at most: all pulls were given up */
            end_close(w, 0);
    }
    loop->transfer = NULL;
}

/* There are no certificates here. */
void os_transfer_drop_revoked(struct os_transfer *t)
{
    (void)t;
}

void os_transfer_job_gone(struct os_transfer *transfer, uint32_t job)
{
    MT_MAP_EACH(&transfer->loop->s->wires, entry) {
        struct wire *w = entry->value.ptr;
        if (w->ends[1].serial == transfer->loop->serial && !mt_id_is_zero(w->pinned.id) && w->pinned.job == job)
            end_close(w, 1);
    }
}

/* I20: whoever fetches a value does not, over whatever nodes, fetch it from itself. */
static void require_no_circle(struct sim *s, const struct io_loop *loop, uint32_t from, const struct lane_ref *ref)
{
    for (int hops = 0; from && from != ref->node; hops++) {
        const struct sim_node *n = NULL;
        for (int i = 0; i < s->config.nodes; i++)
            if (s->nodes[i]->serial && s->nodes[i]->sh && s->nodes[i]->sh->node == from)
                n = s->nodes[i];
        SIM_REQUIRE(s, n != loop->n && hops < SIM_NODES_MAX, "I20: node %d waits for a value that it is itself to send on",
                    loop->n->index);
        from = n ? sh_pull_from(n->sh, ref) : 0;
    }
}

/* ---- values on their way here ------------------------------------------------------------------------------------- */

void os_part_open(struct os_transfer *transfer, struct os_part *part, const struct lane_ref *ref, const void *data)
{
    *part = (struct os_part){.transfer = transfer, .ref = *ref, .data = data, .next = transfer->parts, .link = &transfer->parts};
    if (part->next)
        part->next->link = &part->next;
    transfer->parts = part;
}

void os_part_grow(struct os_part *part, const struct os_pull *pull)
{
    struct sim *s = part->transfer->loop->s;
    if (pull->good <= part->have)
        return;
    part->have = pull->good;
    MT_MAP_EACH(&s->wires, entry) {
        struct wire *w = entry->value.ptr;
        if (w->part == part && w->serve.state == OS_SERVE_ASKED && os_serve_answer_part(&w->serve, part->data, part->have)) {
            s->counters.pull_part++;
            sends_soon(w);
        }
    }
}

void os_part_close(struct os_part *part, bool is_whole)
{
    struct os_transfer *transfer = part->transfer;
    MT_MAP_EACH(&transfer->loop->s->wires, entry) {
        struct wire *w = entry->value.ptr;
        if (w->part != part)
            continue;
        w->pin = (struct os_pinned){0};
        bool is_pinned = is_whole && transfer->pin(transfer, &w->pinned, w->serve.hello.from_node, &w->pin).code == MT_OK;
        if (!is_pinned || w->pin.data != part->data) {
            w->part = is_pinned ? NULL : part;
            end_close(w, 1);
            continue;
        }
        w->part = NULL;
        if (w->serve.state == OS_SERVE_ASKED)
            os_serve_answer(&w->serve, MT_OK, w->pin.data);
        sends_soon(w);
    }
    *part->link = part->next;
    if (part->next)
        part->next->link = part->link;
}

/* Dials; what is dialled for is the caller's. */
static struct wire *wire_new(struct os_transfer *transfer, int place, uint32_t to_node, uint32_t to_epoch)
{
    struct sim       *s = transfer->loop->s;
    struct wire      *w = sim_alloc(sizeof *w);
    struct sim_event *e;
    w->s = s;
    w->number = sim_serial(s);
    w->pace = sim_chance(s, 300000) ? 8 * SIM_MS : 50 * SIM_US; /* on a slow one others come while it lasts */
    w->to_node = to_node;
    w->to_epoch = to_epoch;
    w->ends[0] = (struct wire_end){.place = transfer->loop->n->index, .serial = transfer->loop->serial, .is_open = true};
    w->ends[1] = (struct wire_end){.place = place};
    if (mt_map_put_ptr(&s->wires, mt_map_key(w->number), w).code)
        abort();
    e = sim_after(s, way(w, 1), "data dial", dial_arrives, w->number);
    e->arg = to_node;
    e->size = to_epoch;
    return w;
}

static struct wire *line_find(struct os_transfer *transfer, int place, uint32_t to_node, uint32_t to_epoch)
{
    MT_MAP_EACH(&transfer->loop->s->wires, entry) {
        struct wire *w = entry->value.ptr;
        if (w->is_line && !w->is_over && w->ends[0].is_open && w->ends[0].serial == transfer->loop->serial &&
            w->ends[1].place == place && w->to_node == to_node && w->to_epoch == to_epoch)
            return w;
    }
    return NULL;
}

static mt_status line_fetch(struct os_transfer *transfer, struct os_fetch *fetch, int place, uint32_t to_node, uint32_t to_epoch,
                            const struct lane_ref *ref, void *data)
{
    struct sim            *s = transfer->loop->s;
    struct wire           *w = line_find(transfer, place, to_node, to_epoch);
    struct os_wire_request request;
    if (!w) {
        w = wire_new(transfer, place, to_node, to_epoch);
        w->is_line = true;
        os_row_init(&w->row);
        w->look = (struct io_timer){.fire = line_look};
        w->progress_ms = (int64_t)io_now_ms();
        io_timer_start(transfer->loop, &w->look, MT_OBJECT_FETCH_MS / 4);
    }
    if (w->row.count == OS_LINE_MAX)
        return mt_error(MT_EAGAIN, 0, "fetch: 256 small objects are on their way from that node already");
    if (!w->row.count)
        w->progress_ms = (int64_t)io_now_ms();
    fetch->transfer = transfer;
    fetch->fd = (int)w->number;
    os_fetch_begin(transfer, fetch, ref, data);
    fetch->item = (struct os_row_item){.done = line_answered, .pull = &fetch->pull};
    os_row_add(&w->row, &fetch->item, &request);
    if (mt_buf_append(&w->out, &request, sizeof request).code)
        abort();
    s->counters.line_shared += w->row.count > 1;
    s->counters.line_reused += w->row.count == 1 && w->row.was_idle;
    line_asks_soon(w);
    return mt_ok();
}

mt_status os_fetch_start(struct os_transfer *transfer, struct os_fetch *fetch, const char *host, uint16_t port, uint32_t to_node,
                         uint32_t to_epoch, const struct lane_ref *ref, void *data)
{
    struct sim  *s = transfer->loop->s;
    struct wire *w;
    int          place;
    bool         is_small = os_fetch_is_small(transfer, ref->size) && !fetch->have;
    if (!is_small && transfer->fetch_count == MT_OS_FETCHES_MAX)
        return mt_error(MT_EAGAIN, 0, "fetch: 256 objects are on their way already");
    if (sscanf(host, "10.0.0.%d", &place) != 1 || place >= s->config.nodes || port != PORT)
        return mt_error(MT_EINVAL, 0, "fetch: no such address");
    require_no_circle(s, transfer->loop, to_node, ref);
    s->counters.pull_begun++;
    if (is_small)
        return line_fetch(transfer, fetch, place, to_node, to_epoch, ref, data);
    w = wire_new(transfer, place, to_node, to_epoch);
    w->fetch = fetch;
    fetch->transfer = transfer;
    fetch->fd = (int)w->number;
    os_fetch_begin(transfer, fetch, ref, data);
    s->counters.pull_resumed += fetch->have > 0;
    fetch->timer = (struct io_timer){.fire = fetch_tick};
    io_timer_start(transfer->loop, &fetch->timer, fetch->pull.patience_ms / 4);
    transfer->fetch_count++;
    return mt_ok();
}

void os_fetch_cancel(struct os_fetch *fetch)
{
    struct os_transfer *transfer = fetch->transfer;
    struct wire        *w = transfer ? wire_of(transfer->loop->s, (uint64_t)fetch->fd) : NULL;
    fetch->transfer = NULL;
    if (fetch->item.row) {
        transfer->loop->s->counters.line_ghost++;
        if (!os_row_cancel(&fetch->item))
            abort();
        return;
    }
    if (!w || w->is_line)
        return;
    io_timer_stop(&fetch->timer);
    transfer->fetch_count--;
    w->fetch = NULL;
    end_close(w, 0);
}

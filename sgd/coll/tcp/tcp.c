/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.c - moving bytes over several at a time; how a generation ends.
 *
 * Owns: the listener while a generation is joined, the connections, the scratch.
 */
#include "sgd/coll/tcp/private.h"

#include "core/base/clock.h"
#include "core/base/machine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKS_MAX = 30, GRACE_MS = 1000 };

/* What goes over a control connection: once, and then it is closed. */
struct farewell {
    uint32_t reason, rank;
    char     text[COLL_TEXT_BYTES];
};

/* ---- states: the drawing stands in tcp.h ---- */

static const char *const names[] = {
    [COLL_TCP_CLOSED] = "CLOSED", [COLL_TCP_JOINING] = "JOINING", [COLL_TCP_JOINED] = "JOINED", [COLL_TCP_OVER] = "OVER"};
static const uint32_t next_of[] = {
    [COLL_TCP_CLOSED] = MT_STATE(COLL_TCP_JOINING),
    [COLL_TCP_JOINING] = MT_STATE(COLL_TCP_JOINED) | MT_STATE(COLL_TCP_OVER) | MT_STATE(COLL_TCP_CLOSED),
    [COLL_TCP_JOINED] = MT_STATE(COLL_TCP_OVER) | MT_STATE(COLL_TCP_CLOSED),
    [COLL_TCP_OVER] = MT_STATE(COLL_TCP_OVER) | MT_STATE(COLL_TCP_CLOSED),
};
static const struct mt_machine machine = MT_MACHINE("member over TCP", names, next_of);

void coll_tcp_set_state(struct coll_tcp *g, enum coll_tcp_state next)
{
    MT_TRANSITION(&machine, g->state, next);
    MT_ASSERT((next == COLL_TCP_CLOSED) == !g->scratch);
    g->state = next;
}

/* ---- the end of a generation ---- */

static mt_status over(struct coll_tcp *g, mt_status st)
{
    coll_tcp_set_state(g, COLL_TCP_OVER);
    g->over = st;
    return st;
}

static void farewell_send(struct coll_tcp *g, enum mt_code reason, uint32_t rank)
{
    struct farewell f = {.reason = (uint32_t)reason, .rank = rank};
    size_t          moved;
    memcpy(f.text, g->text, sizeof f.text);
    for (uint32_t r = 0; r < g->config.members; r++)
        if (g->peers[r].sockets[COLL_CONTROL].fd >= 0) /* a fresh buffer takes it whole; the dead don't need it */
            (void)coll_socket_send(&g->peers[r].sockets[COLL_CONTROL], &f, sizeof f, &moved).code;
}

mt_status coll_tcp_end(struct coll_tcp *g, enum mt_code reason, uint32_t rank)
{
    char who[32] = "a member";
    if (rank < g->config.members)
        snprintf(who, sizeof who, "rank %u", rank);
    mt_status st = over(g, coll_over(g->text, g->name, reason, who));
    farewell_send(g, reason, rank);
    return st;
}

void coll_tcp_give_up(struct coll_tcp *g, enum mt_code reason)
{
    (void)coll_tcp_end(g, reason, MT_GROUP_MEMBERS_MAX).code;
}

mt_status coll_tcp_end_with(struct coll_tcp *g, uint32_t rank)
{
    farewell_send(g, MT_EINVAL, rank);
    return over(g, mt_error(MT_EINVAL, 0, "members of the group disagree"));
}

/* A member's control connection has something to say: why it gave up, or, by its end, that it is dead. */
static mt_status control_read(struct coll_tcp *g, uint32_t rank)
{
    struct farewell f = {0};
    size_t          moved = 0;
    mt_status       st = coll_socket_receive(&g->peers[rank].sockets[COLL_CONTROL], &f, sizeof f, &moved);
    if (st.code == MT_OK && moved == 0)
        return mt_ok();
    if (moved != sizeof f) {
        g->dead |= 1ull << rank;
        return coll_tcp_end(g, MT_EWORKER_DIED, rank);
    }
    if (f.reason == MT_OK) { /* it has left; what it sent before may still be on its way */
        coll_socket_close(&g->peers[rank].sockets[COLL_CONTROL]);
        return mt_ok();
    }
    f.text[sizeof f.text - 1] = 0;
    if (f.reason == MT_EWORKER_DIED && f.rank < g->config.members)
        g->dead |= 1ull << f.rank;
    memcpy(g->text, f.text, sizeof f.text);
    farewell_send(g, (enum mt_code)f.reason, f.rank); /* whoever sees us leave, before it hears why, must not take us for dead */
    return over(g, mt_error((int32_t)f.reason, 0, "the group was aborted"));
}

/* No control connection leads there: who is near hears what has become of it. */
static mt_status lost_far(struct coll_tcp *g, uint32_t rank)
{
    for (int64_t until = mt_now_ms() + GRACE_MS; mt_now_ms() < until; mt_sleep_ms(1)) {
        MT_TRY(coll_tcp_outside_look(g));
        MT_TRY(coll_tcp_look(g));
    }
    g->dead |= 1ull << rank;
    return coll_tcp_end(g, MT_EWORKER_DIED, rank);
}

/* A data connection broke: its control connection says why, now or very soon. */
mt_status coll_tcp_lost(struct coll_tcp *g, uint32_t rank)
{
    struct pollfd p = {.fd = g->peers[rank].sockets[COLL_CONTROL].fd, .events = POLLIN};
    if (!coll_tcp_is_near(g, rank))
        return lost_far(g, rank);
    if (p.fd >= 0 && poll(&p, 1, GRACE_MS) == 1)
        MT_TRY(control_read(g, rank));
    if (g->peers[rank].sockets[COLL_CONTROL].fd < 0)
        return coll_tcp_end(g, MT_ECANCELLED, rank);
    g->dead |= 1ull << rank;
    return coll_tcp_end(g, MT_EWORKER_DIED, rank);
}

mt_status coll_tcp_alive(struct coll_tcp *g)
{
    if (g->state == COLL_TCP_OVER)
        return g->over;
    if (g->state == COLL_TCP_CLOSED)
        return mt_error(MT_EINVAL, 0, "the group was not joined");
    return atomic_load(&g->is_cancelled) ? coll_tcp_end(g, MT_ECANCELLED, g->config.rank) : mt_ok();
}

mt_status coll_tcp_look(struct coll_tcp *g)
{
    MT_TRY(coll_tcp_alive(g));
    for (uint32_t rank = 0; rank < g->config.members; rank++) {
        struct pollfd p = {.fd = rank == g->config.rank ? -1 : g->peers[rank].sockets[COLL_CONTROL].fd, .events = POLLIN};
        if (p.fd >= 0 && poll(&p, 1, 0) == 1)
            MT_TRY(control_read(g, rank));
    }
    return mt_ok();
}

/* OK as long as nobody outside has ended the generation. */
mt_status coll_tcp_outside_look(void *user)
{
    struct coll_tcp *g = user;
    enum mt_code     reason = MT_ECANCELLED;
    uint32_t         about = MT_GROUP_MEMBERS_MAX;
    if (g->config.is_aborted && g->config.is_aborted(g->config.user, &reason, &about))
        return coll_tcp_end(g, reason, about);
    return coll_tcp_alive(g);
}

/* ---- moving bytes ---- */

enum { PACED_BYTES = 256 * 1024, PACED_LATE_NS = 2000000 };

/* How much may be sent now. */
static size_t pace_allows(const struct coll_tcp *g, size_t size)
{
    if (MT_LIKELY(g->config.pace == 0))
        return size;
    if ((uint64_t)mt_now_ns() < g->paced_ns)
        return 0;
    return size < PACED_BYTES ? size : PACED_BYTES;
}

static void pace_count(struct coll_tcp *g, size_t sent)
{
    uint64_t now = (uint64_t)mt_now_ns();
    if (g->config.pace == 0 || sent == 0)
        return;
    uint64_t from = g->paced_ns + PACED_LATE_NS > now ? g->paced_ns : now; /* who slept too long may catch up */
    g->paced_ns = from + sent * UINT64_C(1000000000) / g->config.pace;
}

/* Where byte `at` of several places stands, and how many follow it there. */
static char *place_of(const struct iovec *places, size_t at, size_t *out_size)
{
    while (at >= places->iov_len)
        at -= places++->iov_len;
    *out_size = places->iov_len - at;
    return (char *)places->iov_base + at;
}

/* What a flow sends next. */
static const char *next_out(const struct coll_flow *f, size_t *out_size)
{
    int    piece = f->out_done >= f->out_size[0];
    size_t done = f->out_done - (piece ? f->out_size[0] : 0);
    if (piece && f->outs)
        return place_of(f->outs, done, out_size);
    *out_size = f->out_size[piece] - done;
    return (const char *)f->out[piece] + done;
}

static char *next_in(const struct coll_flow *f, size_t *out_size)
{
    if (f->ins)
        return place_of(f->ins, f->in_done, out_size);
    *out_size = f->in_size - f->in_done;
    return (char *)f->in + f->in_done;
}

static mt_status flow_step(struct coll_tcp *g, struct coll_flow *f, bool *moved_any, bool *is_sent, bool *is_received)
{
    struct coll_socket *socket = &g->peers[f->peer].sockets[f->channel];
    size_t              moved = 0, size, out_total = f->out_size[0] + f->out_size[1];
    if (f->out_done < out_total) {
        const char *from = next_out(f, &size);
        size = pace_allows(g, size);
        if (size && coll_socket_send(socket, from, size, &moved).code != MT_OK)
            return coll_tcp_lost(g, f->peer);
        pace_count(g, moved);
        f->out_done += moved;
        *moved_any = *moved_any || moved;
    }
    if (f->in_done < f->in_size && socket->fd >= 0) { /* messages: whoever sends them makes the connection */
        char *to = next_in(f, &size);
        if (coll_socket_receive(socket, to, size, &moved).code != MT_OK)
            return coll_tcp_lost(g, f->peer);
        f->in_done += moved;
        *moved_any = *moved_any || moved;
    }
    *is_sent = *is_sent && f->out_done == out_total;
    *is_received = *is_received && f->in_done == f->in_size;
    return mt_ok();
}

/* Until the next bytes may go. */
static void pause_paced(const struct coll_tcp *g)
{
    uint64_t        now = (uint64_t)mt_now_ns();
    struct timespec t = {0, g->paced_ns > now ? (long)(g->paced_ns - now) : 0};
    t.tv_nsec = t.tv_nsec > 1000000 ? 1000000 : t.tv_nsec;
    nanosleep(&t, NULL);
}

bool coll_tcp_admit(struct coll_tcp *g, struct coll_socket *socket, uint32_t rank, uint32_t channel)
{
    bool is_wanted = channel == COLL_MESSAGES ? !coll_tcp_is_near(g, rank) : rank > g->config.rank && coll_tcp_is_near(g, rank);
    if (!is_wanted || rank == g->config.rank || g->peers[rank].sockets[channel].fd >= 0) {
        coll_socket_close(socket);
        return false;
    }
    g->peers[rank].sockets[channel] = *socket;
    return true;
}

mt_status coll_tcp_strangers_take(struct coll_tcp *g)
{
    struct coll_socket socket;
    uint32_t           rank, channel;
    MT_TRY(coll_door_accept(coll_tcp_door(g), 0, &socket, &rank, &channel));
    if (socket.fd >= 0)
        (void)coll_tcp_admit(g, &socket, rank, channel);
    return mt_ok();
}

/* Sleeps until a connection can go on, or a control connection speaks. */
static mt_status flows_wait(struct coll_tcp *g, const struct coll_flow *flows, uint32_t count, uint64_t until_ns)
{
    struct pollfd p[3 * MT_GROUP_MEMBERS_MAX + COLL_DOOR_POLLS];
    nfds_t        n = 0;
    uint32_t      late = flows[0].peer;

    for (uint32_t r = 0; r < g->config.members; r++)
        p[n++] = (struct pollfd){.fd = g->peers[r].sockets[COLL_CONTROL].fd, .events = POLLIN};
    for (uint32_t i = 0; i < count; i++) {
        bool sends = flows[i].out_done < flows[i].out_size[0] + flows[i].out_size[1], takes = flows[i].in_done < flows[i].in_size;
        if (!sends && !takes)
            continue;
        late = flows[i].peer;
        const struct coll_socket *socket = &g->peers[late].sockets[flows[i].channel];
        p[n++] = (struct pollfd){.fd = socket->fd, .events = coll_socket_events(socket, sends, takes)};
    }
    nfds_t door = n;
    if (g->is_few)
        n += coll_door_polls(coll_tcp_door(g), p + n);
    bool is_paced = g->config.pace && g->paced_ns > (uint64_t)mt_now_ns();
    if (is_paced)
        pause_paced(g);
    if (poll(p, n, is_paced ? 0 : g->config.ask_ms) < 0 && errno != EINTR)
        return mt_error(MT_ESYS, errno, "group: wait for members");
    for (uint32_t r = 0; r < g->config.members; r++)
        if (p[r].revents)
            MT_TRY(control_read(g, r));
    for (nfds_t i = door; i < n; i++)
        if (p[i].revents)
            return coll_tcp_strangers_take(g);
    if ((uint64_t)mt_now_ns() >= until_ns)
        return coll_tcp_end(g, MT_ETIMEDOUT, late);
    return coll_tcp_outside_look(g);
}

static mt_status flows_run(struct coll_tcp *g, struct coll_flow *flows, uint32_t count, bool is_in_only)
{
    uint64_t until = 0;
    for (uint32_t looks = 0;; looks++) {
        bool moved = false, is_sent = true, is_received = true;
        for (uint32_t i = 0; i < count; i++)
            MT_TRY(flow_step(g, &flows[i], &moved, &is_sent, &is_received));
        if (is_received && (is_sent || is_in_only))
            return mt_ok();
        if (moved) {
            looks = 0;
            until = 0;
        } else if (looks < LOOKS_MAX && !g->config.is_crowded) {
            sched_yield();
        } else {
            until = until ? until : (uint64_t)mt_now_ns() + (uint64_t)g->config.wait_limit_ms * 1000000u;
            MT_TRY(flows_wait(g, flows, count, until));
        }
    }
}

mt_status coll_tcp_move(struct coll_tcp *g, struct coll_flow *flows, uint32_t count)
{
    return flows_run(g, flows, count, false);
}

mt_status coll_tcp_move_in(struct coll_tcp *g, struct coll_flow *flows, uint32_t count)
{
    return flows_run(g, flows, count, true);
}

void coll_tcp_fini(struct coll_tcp *g)
{
    if (g->state == COLL_TCP_CLOSED)
        return;
    coll_door_close(&g->door);
    if (g->state != COLL_TCP_OVER)
        farewell_send(g, MT_OK, g->config.rank);
    for (uint32_t r = 0; r < MT_GROUP_MEMBERS_MAX; r++)
        for (int channel = 0; channel < COLL_SOCKETS; channel++)
            coll_socket_close(&g->peers[r].sockets[channel]);
    free(g->scratch);
    g->scratch = NULL;
    coll_tcp_set_state(g, COLL_TCP_CLOSED);
}

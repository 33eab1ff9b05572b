/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c - see gate.h.
 *
 * Owns:    the thread, its loop, and both descriptors of every connection.
 * Thread:  the gate's, but for io_gate_new, io_gate_take and io_gate_free.
 * Always:  what one side has sent and the other does not take yet is at most MT_TLS_PIECE_BYTES a direction; then that side is not
 *          read. Idle connections hold no buffer.
 *
 *     HANDSHAKE --the peer has shown who it is--> OPEN --either side ends--> FLUSHING --all sent, failed, or late--> gone
 *         '--refused, or the plain side hangs up--> gone
 */
#include "core/io/tls/gate.h"

#include "core/base/log.h"
#include "core/base/machine.h"
#include "core/io/io.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that one side has given and the other has not taken. */
struct rest {
    uint8_t *data; /* NULL: none */
    size_t   from, to;
};

enum link_state { LINK_HANDSHAKE, LINK_OPEN, LINK_FLUSHING };
static const char *const link_names[] = {[LINK_HANDSHAKE] = "HANDSHAKE", [LINK_OPEN] = "OPEN", [LINK_FLUSHING] = "FLUSHING"};
static const uint32_t    link_next[] = {
       [LINK_HANDSHAKE] = MT_STATE(LINK_OPEN),
       [LINK_OPEN] = MT_STATE(LINK_FLUSHING),
       [LINK_FLUSHING] = 0,
};
static const struct mt_machine link_machine = MT_MACHINE("TLS gate's link", link_names, link_next);

/* The link's, and that of whoever has the plain end. */
struct io_gate_peer {
    atomic_uint       refs;
    atomic_bool       is_known; /* `who` is written before, and not again */
    struct io_tls_who who;
};

struct link {
    struct link         *next, *back;
    struct io_gate      *gate;
    struct io_msg        msg; /* brings it to the gate's thread */
    struct tls_conn     *tls;
    struct io_gate_peer *peer;
    struct io_watch      tls_watch, plain_watch;
    enum link_state      state;
    struct io_timer      flush;   /* runs while FLUSHING */
    struct rest          in, out; /* from TLS to plain, and back */
    int                  tls_fd, plain_fd;
    bool                 tls_ended, plain_ended; /* nothing more comes from there */
};

struct io_gate {
    const struct io_tls *tls;
    struct io_loop      *loop;
    pthread_t            thread;
    struct link         *links;
    struct io_msg        stop, drop;
    atomic_bool          is_stopping, is_drop_posted;
    atomic_ullong        refused;
    uint64_t             told_ms; /* when a refusal was logged last */
    uint8_t              piece[MT_TLS_PIECE_BYTES];
};

static void link_begin(struct io_msg *msg);
static void link_end(struct link *l);
static void link_send_last(struct link *l);
static void link_pump(struct link *l);
static void tls_ready(struct io_watch *watch, unsigned events);
static void plain_ready(struct io_watch *watch, unsigned events);
static void flush_over(struct io_timer *timer);
static void drop_revoked(struct io_msg *msg);

/* ---- life ---- */

static void *gate_main(void *arg)
{
    struct io_gate *gate = arg;
    io_loop_run(gate->loop);
    while (gate->links) {
        link_send_last(gate->links);
        link_end(gate->links);
    }
    return NULL;
}

static void gate_stop(struct io_msg *msg)
{
    io_loop_stop(mt_container_of(msg, struct io_gate, stop)->loop);
}

mt_status io_gate_new(const struct io_tls *tls, struct io_gate **out_gate)
{
    sigset_t        all, old;
    struct io_gate *gate = calloc(1, sizeof *gate);
    if (!gate)
        return mt_error(MT_ENOMEM, 0, "TLS gate");
    gate->tls = tls;
    gate->stop.run = gate_stop;
    gate->drop.run = drop_revoked;
    mt_status st = io_loop_new(&gate->loop);
    if (st.code) {
        free(gate);
        return st;
    }
    sigfillset(&all); /* signals are the main thread's business, and a write to a dead peer is an error, not a signal */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&gate->thread, NULL, gate_main, gate);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err) {
        io_loop_free(gate->loop);
        free(gate);
        return mt_error(MT_ESYS, err, "pthread_create for the TLS gate");
    }
    *out_gate = gate;
    return mt_ok();
}

void io_gate_free(struct io_gate *gate)
{
    if (!gate)
        return;
    atomic_store(&gate->is_stopping, true); /* what is still posted ends at once */
    io_loop_post(gate->loop, &gate->stop);
    pthread_join(gate->thread, NULL);
    io_loop_free(gate->loop);
    free(gate);
}

uint64_t io_gate_refused(const struct io_gate *gate)
{
    return atomic_load(&gate->refused);
}

bool io_gate_peer_who(const struct io_gate_peer *peer, struct io_tls_who *out)
{
    if (!peer || !atomic_load(&peer->is_known))
        return false;
    *out = peer->who;
    return true;
}

void io_gate_peer_free(struct io_gate_peer *peer)
{
    if (peer && atomic_fetch_sub(&peer->refs, 1) == 1)
        free(peer);
}

void io_gate_drop_revoked(struct io_gate *gate)
{
    if (!atomic_exchange(&gate->is_drop_posted, true))
        io_loop_post(gate->loop, &gate->drop);
}

mt_status io_gate_take(struct io_gate *gate, int take_fd, int *out_fd, struct io_gate_peer **out_peer)
{
    int                  ends[2];
    struct link         *l = calloc(1, sizeof *l);
    struct io_gate_peer *peer = calloc(1, sizeof *peer);
    if (!l || !peer || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        mt_status st = l && peer ? mt_error(MT_ESYS, errno, "TLS gate: socketpair") : mt_error(MT_ENOMEM, 0, "TLS gate");
        close(take_fd);
        free(peer);
        free(l);
        return st;
    }
    atomic_init(&peer->refs, out_peer ? 2 : 1);
    if (out_peer)
        *out_peer = peer;
    l->peer = peer;
    l->gate = gate;
    l->msg.run = link_begin;
    l->tls_fd = take_fd;
    l->plain_fd = ends[0];
    *out_fd = ends[1];
    io_loop_post(gate->loop, &l->msg);
    return mt_ok();
}

static void link_begin(struct io_msg *msg)
{
    struct link    *l = mt_container_of(msg, struct link, msg);
    struct io_gate *gate = l->gate;
    l->tls_watch.ready = tls_ready;
    l->plain_watch.ready = plain_ready;
    l->flush.fire = flush_over;
    l->next = gate->links;
    if (l->next)
        l->next->back = l;
    gate->links = l;
    if (atomic_load(&gate->is_stopping) || io_tls_accept(gate->tls, l->tls_fd, &l->tls).code ||
        io_watch_start(gate->loop, &l->tls_watch, l->tls_fd, IO_READABLE).code ||
        io_watch_start(gate->loop, &l->plain_watch, l->plain_fd, IO_HANGUP).code)
        link_end(l);
}

static void link_set_state(struct link *l, enum link_state next)
{
    MT_TRANSITION(&link_machine, l->state, next);
    MT_ASSERT(tls_is_up(l->tls) || next != LINK_OPEN); /* no byte is handed on before */
    if (next == LINK_OPEN && io_tls_peer(l->tls, &l->peer->who))
        atomic_store(&l->peer->is_known, true);
    if (next == LINK_FLUSHING)
        io_timer_start(l->gate->loop, &l->flush, MT_TLS_FLUSH_MS);
    l->state = next;
}

/* Once a second at most: strangers do not fill the log. */
static void refusal_note(struct link *l)
{
    struct io_gate *gate = l->gate;
    uint64_t        now = io_now_ms(), count = atomic_fetch_add(&gate->refused, 1) + 1;
    if (gate->told_ms && now - gate->told_ms < 1000)
        return;
    gate->told_ms = now;
    mt_log(MT_LOG_INFO, "tls_refused", "why=\"%s\" so_far=%llu", tls_why(l->tls), (unsigned long long)count);
}

static void link_end(struct link *l)
{
    if (l->tls && l->state == LINK_HANDSHAKE && !atomic_load(&l->gate->is_stopping))
        refusal_note(l);
    io_watch_stop(&l->tls_watch);
    io_watch_stop(&l->plain_watch);
    io_timer_stop(&l->flush);
    tls_end(l->tls);
    close(l->tls_fd);
    close(l->plain_fd);
    *(l->back ? &l->back->next : &l->gate->links) = l->next;
    if (l->next)
        l->next->back = l->back;
    free(l->in.data);
    free(l->out.data);
    io_gate_peer_free(l->peer);
    free(l);
}

static void drop_revoked(struct io_msg *msg)
{
    struct io_gate *gate = mt_container_of(msg, struct io_gate, drop);
    struct link    *next;
    atomic_store(&gate->is_drop_posted, false); /* before the look: who is revoked later posts again */
    for (struct link *l = gate->links; l; l = next) {
        next = l->next;
        if (io_tls_is_revoked(gate->tls, l->tls))
            link_end(l);
    }
}

/* ---- bytes ---- */

/* -1: that side has failed; else how many it has taken. */
static ssize_t give_plain(struct link *l, const uint8_t *data, size_t size)
{
    ssize_t n = send(l->plain_fd, data, size, MSG_NOSIGNAL);
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

static ssize_t give_tls(struct link *l, const uint8_t *data, size_t size)
{
    size_t given = 0;
    while (given < size) {
        ssize_t n = tls_send(l->tls, data + given, size - given);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0)
            return -1;
        given += (size_t)n;
    }
    return (ssize_t)given;
}

/* Gives what was left over, or else the `size` bytes in the gate's piece; keeps what is not taken. False: the link must end. */
static bool pass(struct link *l, struct rest *rest, size_t size, ssize_t (*give)(struct link *, const uint8_t *, size_t))
{
    const uint8_t *data = rest->data ? rest->data + rest->from : l->gate->piece;
    size_t         left = rest->data ? rest->to - rest->from : size;
    MT_ASSERT((!rest->data || !size) && left <= sizeof l->gate->piece); /* a side whose bytes wait is not read */
    ssize_t taken = left ? give(l, data, left) : 0;
    if (taken < 0)
        return false;
    left -= (size_t)taken;
    if (rest->data) {
        rest->from += (size_t)taken;
        if (!left) {
            free(rest->data);
            *rest = (struct rest){0};
        }
        return true;
    }
    if (!left)
        return true;
    rest->data = malloc(left);
    if (!rest->data)
        return false;
    memcpy(rest->data, data + taken, left);
    rest->to = left;
    return true;
}

/* One piece from TLS to plain. False: the link must end. */
static bool pump_in(struct link *l)
{
    size_t got = 0;
    if (!l->in.data) {
        while (got < sizeof l->gate->piece && !l->tls_ended) {
            ssize_t n = tls_recv(l->tls, l->gate->piece + got, sizeof l->gate->piece - got);
            if (n < 0 && errno == EAGAIN)
                break;
            if (n < 0 && l->state == LINK_HANDSHAKE && !tls_is_up(l->tls))
                return false;
            l->tls_ended = n <= 0; /* what came before still counts */
            got += n > 0 ? (size_t)n : 0;
        }
        if (l->state == LINK_HANDSHAKE && tls_is_up(l->tls))
            link_set_state(l, LINK_OPEN);
    }
    return pass(l, &l->in, got, give_plain);
}

/* One piece from plain to TLS; nothing before the peer has shown who it is. */
static bool pump_out(struct link *l)
{
    ssize_t got = 0;
    if (l->state == LINK_HANDSHAKE)
        return true;
    if (!l->out.data && !l->plain_ended) {
        got = recv(l->plain_fd, l->gate->piece, sizeof l->gate->piece, 0);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        l->plain_ended = l->plain_ended || got == 0;
    }
    return pass(l, &l->out, got > 0 ? (size_t)got : 0, give_tls);
}

/* At the gate's end: what its owner has sent still goes, as far as that does not wait. */
static void link_send_last(struct link *l)
{
    ssize_t got = 1;
    while (l->state != LINK_HANDSHAKE && got > 0) {
        if (l->out.data && (!pass(l, &l->out, 0, give_tls) || l->out.data))
            return;
        got = recv(l->plain_fd, l->gate->piece, sizeof l->gate->piece, 0);
        if (got > 0 && !pass(l, &l->out, (size_t)got, give_tls))
            return;
    }
}

static void watch_both(struct link *l)
{
    unsigned tls = l->in.data || l->tls_ended ? 0 : IO_READABLE;
    unsigned plain = l->in.data ? IO_WRITABLE : 0;
    if (l->out.data || io_tls_wants(l->tls) == IO_WRITABLE)
        tls |= IO_WRITABLE;
    if (l->state != LINK_HANDSHAKE && !l->out.data && !l->plain_ended)
        plain |= IO_READABLE;
    if (l->state != LINK_FLUSHING)
        plain |= IO_HANGUP;
    if (!l->in.data && tls_has_more(l->tls))
        tls |= IO_WRITABLE; /* no event tells of bytes that OpenSSL has read already: this one comes at once */
    io_watch_set(&l->tls_watch, tls);
    io_watch_set(&l->plain_watch, plain);
}

static void link_pump(struct link *l)
{
    bool goes_on = pump_in(l) && pump_out(l);
    if (goes_on && l->tls_ended)
        goes_on = l->in.data != NULL; /* what it sent last still goes on its way; answers would reach nobody */
    if (goes_on && l->plain_ended)
        goes_on = l->out.data != NULL;
    if (!goes_on) {
        link_end(l);
        return;
    }
    if ((l->tls_ended || l->plain_ended) && l->state != LINK_FLUSHING)
        link_set_state(l, LINK_FLUSHING);
    watch_both(l);
}

static void tls_ready(struct io_watch *watch, unsigned events)
{
    (void)events;
    link_pump(mt_container_of(watch, struct link, tls_watch));
}

/* A hang-up: its last bytes still go, for a while; and before the handshake there are none. */
static void plain_ready(struct io_watch *watch, unsigned events)
{
    struct link *l = mt_container_of(watch, struct link, plain_watch);
    if (events & IO_HANGUP && l->state == LINK_HANDSHAKE) {
        link_end(l);
        return;
    }
    if (events & IO_HANGUP && l->state != LINK_FLUSHING)
        link_set_state(l, LINK_FLUSHING);
    link_pump(l);
}

static void flush_over(struct io_timer *timer)
{
    link_end(mt_container_of(timer, struct link, flush));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * supervise.c - the actor that supervises one rank: what it is told, what it says, and its thread, which serves the rank.
 *
 * Owns: the rank, a port, and the news that the driver has not fetched. Thread: methods on libmanta's; the rank on a thread of its
 * own, which meets them at one mutex.
 */
#include "clients/gang/rank/supervise.h"

#include "clients/gang/rank/port.h"
#include "clients/gang/rank/rank.h"
#include "clients/gang/horovod/listen.h"
#include "clients/gang/pmi/server.h"
#include "core/base/cond.h"

#include <manta.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { OWN_FDS = 6 }; /* the thread's wake, a rank's four, and the rendezvous of Horovod */

struct supervisor {
    pthread_t         thread;
    pthread_mutex_t   mutex;
    pthread_cond_t    news_come;
    mt_buf            told, news; /* under the mutex */
    mt_buf            given;      /* likewise: news of which the driver has fetched the first given_size bytes */
    size_t            given_size;
    bool              is_leaving;
    int               wake; /* the thread: something was told, or fetched */
    struct gng_port   port; /* of the last `ready` */
    struct gng_rank   rank; /* these are the thread's own */
    struct gng_server server;
    struct gng_listen listen;
    struct pollfd     fds[MT_GANG_RANKS_MAX + OWN_FDS + 1];
};

static void wake(const struct supervisor *s)
{
    uint64_t one = 1;
    (void)!write(s->wake, &one, sizeof one);
}

/* ---- the thread ---- */

/* Rank 0's supervisor serves the rendezvous, those of the others wait for that. */
static mt_status horovod_start(struct supervisor *s, const struct gng_wire *m, const struct gng_start *start, mt_buf *news)
{
    char      variable[64] = "HOROVOD_GLOO_IFACE=", text[160];
    size_t    size = strlen(variable);
    mt_status st = start->rank == 0 ? gng_listen_begin(&s->listen, &start->horovod, (int)start->size) : mt_ok();
    if (st.code == MT_ESYS) {
        snprintf(text, sizeof text, "its rendezvous can't listen at %.*s port %u: %s", (int)start->horovod.host.size,
                 (const char *)start->horovod.host.data, (unsigned)start->horovod.port,
                 st.sys == EAFNOSUPPORT ? "Horovod's client knows IPv4 only" : strerror(st.sys));
        return gng_wire_put(
            news, &(struct gng_wire){
                      .kind = GNG_WIRE_ENDED, .attempt = m->attempt, .number = -(int64_t)st.sys, .bytes = mt_view_text(text)});
    }
    MT_TRY(st);
    if (start->rank != 0)
        gng_listen_wait(&start->horovod);
    gng_interface_of(start->horovod.own, variable + size, sizeof variable - size);
    return gng_rank_start(&s->rank, m->attempt, start, -1, variable[size] ? variable : "", news);
}

static mt_status start_take(struct supervisor *s, const struct gng_wire *m, mt_buf *news)
{
    struct gng_start start;
    int              pmi = -1;
    MT_TRY(gng_start_take(m->bytes, &start));
    if (start.pmi.size && start.rank == start.first)
        MT_TRY(gng_server_begin(&s->server, m->attempt, &start));
    if (start.pmi.size && (pmi = gng_server_connect(start.pmi, m->attempt, start.rank)) < 0)
        return gng_wire_put(news, &(struct gng_wire){.kind = GNG_WIRE_ENDED,
                                                     .attempt = m->attempt,
                                                     .number = pmi,
                                                     .bytes = mt_view_text("nobody serves PMI on its node")});
    if (start.horovod.secret.size)
        return horovod_start(s, m, &start, news);
    return gng_rank_start(&s->rank, m->attempt, &start, pmi, "", news);
}

static mt_status word_take(struct supervisor *s, const struct gng_wire *m, mt_buf *news)
{
    if (m->kind == GNG_WIRE_START && !gng_rank_runs(&s->rank))
        return start_take(s, m, news);
    if (m->kind == GNG_WIRE_FENCED && m->attempt == s->server.attempt)
        return gng_server_fenced(&s->server, m->bytes, news);
    if (m->kind == GNG_WIRE_HEARS && m->attempt == s->rank.attempt)
        gng_rank_hears(&s->rank, m->bytes);
    if (m->kind == GNG_WIRE_SIGNAL && m->attempt == s->rank.attempt)
        gng_rank_signal(&s->rank, (int)m->number);
    return mt_ok();
}

static mt_status told_take(struct supervisor *s, mt_buf *told, mt_buf *news)
{
    struct gng_wire m;
    size_t          at = 0;
    mt_status       st = mt_ok();
    while (st.code == 0 && gng_wire_next(told, &at, &m))
        st = word_take(s, &m, news);
    gng_wire_taken(told, at);
    return st;
}

/* Moves what was told to us, and what we have to say to the driver. *out_full: no more is to be read from the rank now. */
static bool exchange(struct supervisor *s, mt_buf *told, mt_buf *news, bool *out_full)
{
    pthread_mutex_lock(&s->mutex);
    bool was_empty = s->news.size == 0;
    bool ok = news->size == 0 || mt_buf_append(&s->news, news->data, news->size).code == 0;
    if (ok)
        news->size = 0;
    if (s->told.size && mt_buf_append(told, s->told.data, s->told.size).code == 0)
        s->told.size = 0;
    if (was_empty && s->news.size)
        pthread_cond_signal(&s->news_come);
    *out_full = s->news.size >= MT_GANG_NEWS_BYTES || !ok;
    bool is_leaving = s->is_leaving;
    pthread_mutex_unlock(&s->mutex);
    return !is_leaving;
}

/* Waits for something, and reads what there is. */
static mt_status wait_and_read(struct supervisor *s, bool is_full, mt_buf *news)
{
    struct gng_rank *r = &s->rank;
    struct pollfd   *fds = s->fds;
    uint64_t         count;
    fds[0] = (struct pollfd){s->wake, POLLIN, 0};
    fds[1] = (struct pollfd){r->control, POLLIN, 0};
    fds[2] = (struct pollfd){r->out, POLLIN, 0};
    fds[3] = (struct pollfd){r->err, POLLIN, 0};
    fds[4] = (struct pollfd){r->lines, POLLIN, 0};
    fds[5] = (struct pollfd){gng_listen_fd(&s->listen), POLLIN, 0};
    if (is_full) /* the rank waits until the driver has fetched what it printed */
        fds[1].fd = fds[2].fd = fds[3].fd = fds[4].fd = -1;
    int served = gng_server_fds(&s->server, fds + OWN_FDS);
    poll(fds, (nfds_t)(served + OWN_FDS), gng_rank_wait_ms(r));
    if (fds[0].revents)
        (void)!read(s->wake, &count, sizeof count);
    for (int i = 4; i > 0; i--) /* its end last */
        if (fds[i].revents)
            MT_TRY(gng_rank_read(r, fds[i].fd, news));
    if (fds[5].revents)
        MT_TRY(gng_listen_serve(&s->listen));
    MT_TRY(gng_server_serve(&s->server, fds + OWN_FDS, served, news));
    return gng_rank_look(r, is_full, news);
}

static void *serve(void *user)
{
    struct supervisor *s = user;
    mt_buf             told = {0}, news = {0};
    bool               is_full = false;
    while (exchange(s, &told, &news, &is_full)) {
        mt_status st = told_take(s, &told, &news);
        if (st.code == 0 && news.size == 0)
            st = wait_and_read(s, is_full, &news);
        if (st.code)
            abort(); /* no memory: the driver hears of it by this process's death */
    }
    mt_buf_fini(&told);
    mt_buf_fini(&news);
    return NULL;
}

/* ---- methods ---- */

static manta_status supervisor_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct supervisor *s = calloc(1, sizeof *s);
    (void)argc, (void)argv;
    if (!s)
        return manta_fail(c, MANTA_ENOMEM, "no memory for a rank");
    pthread_mutex_init(&s->mutex, NULL);
    mt_cond_init(&s->news_come);
    s->port = (struct gng_port){0, -1};
    gng_rank_init(&s->rank);
    gng_listen_init(&s->listen);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mt_status st = gng_server_open(&s->server);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* what a killed shepherd leaves is ours to end */
    if (s->wake < 0 || st.code || pthread_create(&s->thread, NULL, serve, s) != 0) {
        manta_status code = manta_fail(c, MANTA_ESYS, "no thread for a rank: %s", strerror(errno));
        if (s->wake >= 0)
            close(s->wake);
        gng_server_close(&s->server);
        free(s);
        return code;
    }
    *self = s;
    return MANTA_OK;
}

static void supervisor_free(void *self)
{
    struct supervisor *s = self;
    pthread_mutex_lock(&s->mutex);
    s->is_leaving = true;
    pthread_mutex_unlock(&s->mutex);
    wake(s);
    pthread_join(s->thread, NULL);
    gng_port_drop(&s->port);
    gng_server_close(&s->server);
    gng_listen_end(&s->listen);
    mt_buf_fini(&s->told);
    mt_buf_fini(&s->news);
    mt_buf_fini(&s->given);
    close(s->wake);
    if (s->rank.control >= 0)
        close(s->rank.control); /* with which the rank ends */
    free(s);
}

static manta_status supervisor_ready(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct supervisor *s = self;
    struct gng_seat    seat = {.node = manta_node()};
    const char        *devices = getenv("CUDA_VISIBLE_DEVICES");
    (void)argc;
    gng_port_drop(&s->port);
    if (argv[0].b) {
        mt_status st = gng_port_take(&s->port);
        if (st.code)
            return manta_fail(c, st.code, "no port between %d and those of the kernel is free on this node", MT_GANG_PORT_MIN);
    }
    seat.port = s->port.number;
    snprintf(seat.devices, sizeof seat.devices, "%s", devices ? devices : "");
    snprintf(seat.pmi, sizeof seat.pmi, "%s", s->server.name);
    return manta_return_bytes(c, &seat, sizeof seat);
}

static manta_status supervisor_tell(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct supervisor *s = self;
    (void)argc;
    pthread_mutex_lock(&s->mutex);
    mt_status st = mt_buf_append(&s->told, argv[0].y.data, argv[0].y.size);
    pthread_mutex_unlock(&s->mutex);
    wake(s);
    return st.code ? manta_fail(c, MANTA_ENOMEM, "no memory for what the driver says") : MANTA_OK;
}

/* What was fetched to its end is replaced by what has come since, if anything. Under the mutex. */
static void news_turn(struct supervisor *s)
{
    if (s->given_size < s->given.size)
        return;
    mt_buf_fini(&s->given);
    s->given = mt_buf_move(&s->news);
    s->given_size = 0;
    if (s->given.size >= MT_GANG_NEWS_BYTES)
        wake(s);
}

static manta_status supervisor_poll(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct supervisor *s = self;
    struct timespec    until = mt_cond_until(MT_GANG_POLL_MS);
    (void)argc, (void)argv;
    pthread_mutex_lock(&s->mutex);
    for (news_turn(s); s->given.size == 0 && pthread_cond_timedwait(&s->news_come, &s->mutex, &until) == 0;)
        news_turn(s);
    news_turn(s);
    size_t left = s->given.size - s->given_size, piece = left < MT_GANG_PIECE_BYTES ? left : MT_GANG_PIECE_BYTES;
    /* no more than fits into the answer, so it never waits for room */
    manta_status code = manta_return_bytes(c, piece ? (const void *)(s->given.data + s->given_size) : "", piece);
    s->given_size += piece;
    pthread_mutex_unlock(&s->mutex);
    return code;
}

MANTA_ACTOR_TYPE(manta_gang_supervisor, .signature = "", .create = supervisor_new, .destroy = supervisor_free,
                 .methods = {{"ready", "b>y@io", supervisor_ready},
                             {"tell", "y>v@io", supervisor_tell},
                             {"poll", ">y@news", supervisor_poll}},
                 .groups = {{"io", 1}, {"news", 1}});

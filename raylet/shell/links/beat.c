/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.c - datagrams to the head, by the terms of its last welcome. What they mean is the core's (core/head/beat.c).
 *
 * Owns: the socket and the key, from a welcome to the end of its stream. Thread: the loop's.
 * Always: an answer that was not sealed with that key has no effect. Where there is no socket, no answer comes, and the core
 * reports by the stream.
 */
#include "raylet/shell/links/beat.h"

#include "core/base/limits/net.h"
#include "core/base/limits/raylet.h"
#include "core/base/log.h"
#include "core/io/beat.h"
#include "core/rpc/peer.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct sh_beats {
    struct sh      *sh;
    struct io_beats datagrams;
    uint64_t        session, heard_ms;
    uint8_t         key[IO_BEAT_KEY_BYTES];
    uint64_t        sent, answered;            /* counters of the last ones */
    uint64_t        sent_ms[MT_RLT_BEATS_MAX]; /* of the last ones, by counter */
};

/* One that somebody repeats, or has held back, does not say that the head is there. */
static bool is_news(const struct sh_beats *b, uint64_t counter)
{
    return counter > b->answered && counter <= b->sent && b->sent - counter < MT_RLT_BEATS_MAX &&
           io_now_ms() - b->sent_ms[counter % MT_RLT_BEATS_MAX] < MT_NODE_SUSPECT_MS;
}

static void came(struct io_beats *datagrams, const struct io_beat_in *list, uint32_t count)
{
    struct sh_beats *b = mt_container_of(datagrams, struct sh_beats, datagrams);
    for (uint32_t i = 0; i < count; i++) {
        const struct io_beat *answer = &list[i].beat;
        struct rlt_event      e;
        if (!answer->is_answer || answer->session != b->session || !io_beat_check(datagrams, &list[i], b->key) ||
            !is_news(b, answer->counter))
            continue;
        b->answered = answer->counter;
        b->heard_ms = io_now_ms();
        sh_event(&e, RLT_EV_BEAT);
        e.beat.counter = answer->counter;
        e.beat.echo = answer->echo;
        e.beat.is_heard = answer->is_heard;
        sh_post(b->sh, &e);
    }
}

void sh_beats_begin(struct sh *sh, const Manta__V1__BeatTerms *terms, const struct rpc_stream *stream)
{
    char host[INET6_ADDRSTRLEN];
    sh_beats_end(sh);
    if (terms->key.len != IO_BEAT_KEY_BYTES || terms->port == 0 || terms->port > UINT16_MAX ||
        !rpc_stream_host(stream, host, sizeof host))
        return;
    struct sh_beats *b = calloc(1, sizeof *b);
    if (!b)
        return;
    *b = (struct sh_beats){.sh = sh, .datagrams.came = came, .session = terms->session};
    memcpy(b->key, terms->key.data, sizeof b->key);
    mt_status st = io_beats_dial(sh->loop, &b->datagrams, host, (uint16_t)terms->port);
    if (st.code) {
        mt_log_status(MT_LOG_WARN, "no_datagrams", st);
        free(b);
        return;
    }
    sh->beats = b;
}

void sh_beats_end(struct sh *sh)
{
    struct sh_beats *b = sh->beats;
    if (!b)
        return;
    sh->beats = NULL;
    io_beats_close(&b->datagrams);
    explicit_bzero(b, sizeof *b);
    free(b);
}

uint64_t sh_beats_heard_ms(const struct sh *sh)
{
    return sh->beats ? sh->beats->heard_ms : 0;
}

void sh_beat(struct sh *sh, uint64_t counter, uint64_t echo, uint64_t report)
{
    struct io_beat beat = {.counter = counter, .echo = echo, .report = report};
    if (!sh->beats)
        return;
    beat.session = sh->beats->session;
    sh->beats->sent = counter;
    sh->beats->sent_ms[counter % MT_RLT_BEATS_MAX] = io_now_ms();
    io_beats_say(&sh->beats->datagrams, &beat, sh->beats->key);
    io_beats_flush(&sh->beats->datagrams);
}

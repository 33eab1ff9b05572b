/* SPDX-License-Identifier: Apache-2.0
 *
 * beats.c - raylets say by datagrams that they live (core/io/beat.h): who sealed them is looked at here, the rest is the core's.
 *
 * Owns:    the socket. Thread: the loop's.
 * Always:  what was not sealed with the key of a stream that is open reaches nobody and is not answered; nothing is answered while
 *          another head may lead (shell.c, doubt_ms).
 */
#include "scheduler/head/shell/shell.h"

#include "core/base/log.h"
#include "core/base/rng.h"

static_assert((int)HEAD_BEAT_KEY_SIZE == (int)IO_BEAT_KEY_BYTES, "one key");

/* NULL: there is no such stream. */
static const uint8_t *key_of(const struct shell *sh, uint64_t stream)
{
    const struct attach *a = mt_map_ptr(&sh->attached, mt_map_key(stream));
    return a && !a->is_forgotten ? a->beat_key : NULL;
}

static void came(struct io_beats *beats, const struct io_beat_in *list, uint32_t count)
{
    struct shell            *sh = mt_container_of(beats, struct shell, beats);
    struct head_beat         items[IO_BEATS_BATCH];
    const struct io_beat_in *in[IO_BEATS_BATCH];
    const uint8_t           *keys[IO_BEATS_BATCH]; /* streams go at the end of the loop's round, not in between */
    size_t                   known = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct io_beat *b = &list[i].beat;
        const uint8_t        *key = key_of(sh, b->session);
        if (b->is_answer || !key || !io_beat_check(beats, &list[i], key))
            continue;
        in[known] = &list[i];
        keys[known] = key;
        items[known++] = (struct head_beat){.stream = b->session, .counter = b->counter, .echo = b->echo, .report = b->report};
    }
    struct head_event event = {.kind = HEAD_EV_BEATS, .beats = {items, known}};
    if (known)
        head_shell_step(sh, &event);
    for (size_t i = 0; i < known && !sh->doubt_ms && !sh->is_ending; i++) {
        struct io_beat answer = {.is_answer = true,
                                 .session = items[i].stream,
                                 .counter = items[i].counter,
                                 .echo = event.now_ms,
                                 .is_heard = items[i].is_heard};
        if (items[i].is_taken)
            io_beats_answer(beats, &answer, in[i], keys[i]);
    }
}

void head_shell_beats_open(struct shell *sh)
{
    uint16_t port = rpc_server_port(sh->server);
    sh->beats.came = came;
    mt_status st = io_beats_open(sh->loop, &sh->beats, sh->options.host, port);
    if (st.code == MT_EEXIST)
        st = io_beats_open(sh->loop, &sh->beats, sh->options.host, 0);
    if (st.code)
        mt_log_status(MT_LOG_WARN, "no_datagrams", st);
}

void head_shell_beats_terms(const struct shell *sh, struct head_beat_terms *out)
{
    *out = (struct head_beat_terms){0};
    if (sh->beats.impl && mt_random_bytes(out->key, sizeof out->key).code == 0)
        out->port = sh->beats.port;
}

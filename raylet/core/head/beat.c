/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.c - signs of life that cost the head little: datagrams that say that this node lives and that its last report stands.
 *
 * Owns: struct rlt_beats. Thread: the logic loop only.
 * Always: it says nothing by its stream only while the head says by each second's datagram that it has heard this node. Where that
 * fails, whatever the reason, a report is on its way MT_RLT_BEAT_TRIES * MT_RLT_BEAT_WAIT_MS later, before the node is suspect.
 *
 *   NONE --the head takes datagrams--> LOUD --one is answered--> QUIET
 *    ^                                  ^----this second's were not--'
 *    '--the stream has ended------------'-------------------------'
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"

#include "core/base/machine.h"
#include "core/base/log.h"
#include "core/base/plant.h"

static const char *const       names[] = {[BEATS_NONE] = "NONE", [BEATS_LOUD] = "LOUD", [BEATS_QUIET] = "QUIET"};
static const uint32_t          next[] = {[BEATS_NONE] = MT_STATE(BEATS_NONE) | MT_STATE(BEATS_LOUD),
                                         [BEATS_LOUD] = MT_STATE(BEATS_NONE) | MT_STATE(BEATS_QUIET),
                                         [BEATS_QUIET] = MT_STATE(BEATS_NONE) | MT_STATE(BEATS_LOUD)};
static const struct mt_machine machine = MT_MACHINE("beats", names, next);

static void beats_set_state(struct rlt_beats *b, enum rlt_beats_state to)
{
    MT_TRANSITION(&machine, b->state, to);
    b->state = to;
    b->is_waiting = false;
}

void rlt_beats_down(struct rlt *r)
{
    beats_set_state(&r->head.beats, BEATS_NONE);
}

void rlt_beats_registered(struct rlt *r, bool is_taken)
{
    rlt_beats_down(r);
    if (is_taken)
        beats_set_state(&r->head.beats, BEATS_LOUD);
}

/* With the echo of an answer that came lately. One that goes beside a report asks for such an answer, and says nothing itself. */
static void say(struct rlt *r)
{
    struct rlt_beats  *b = &r->head.beats;
    struct rlt_action *a = rlt_act(r->out, RLT_A_BEAT);
    a->beat.counter = ++b->counter;
    a->beat.echo = b->state == BEATS_QUIET ? b->echo : 0;
    a->beat.report = r->head.report_version;
    b->at = r->now;
}

static void begin(struct rlt *r)
{
    r->head.beats.first = r->head.beats.counter + 1;
    r->head.beats.began_at = r->now;
    say(r);
}

void rlt_beat_beside(struct rlt *r)
{
    struct rlt_beats *b = &r->head.beats;
    b->is_waiting = false;
    if (b->state == BEATS_LOUD && (!b->counter || r->now - b->at >= MT_RLT_BEAT_MS * RLT_MS))
        begin(r);
}

void rlt_beat_answered(struct rlt *r, uint64_t counter, uint64_t echo, bool is_heard)
{
    struct rlt_beats *b = &r->head.beats;
    bool              is_old = counter < b->first && !MT_PLANT(MT_PLANT_BEAT_ANY_ANSWER);
    if (b->state == BEATS_NONE || is_old || counter <= b->answered || counter > b->counter)
        return;
    b->answered = counter;
    b->echo = echo;
    if (b->state == BEATS_LOUD) {
        mt_log(MT_LOG_INFO, "datagrams_heard", "node=%u", r->node);
        beats_set_state(b, BEATS_QUIET);
    } else if (is_heard) {
        b->is_waiting = false;
    } else if (b->is_waiting && b->counter - b->first + 1 < MT_RLT_BEATS_MAX) {
        say(r); /* the echo was too old: after many reports there was none for a while */
    }
}

/* How much is here has changed since the last report, and nothing else has: a job is here until the head's store has its end, a
 * driver until it goes. It is looked at once a second only. */
static bool is_here_another(const struct rlt *r)
{
    uint32_t tasks;
    return rlt_drain_here(r, &tasks) != r->head.reported_here;
}

uint64_t rlt_beat_due(struct rlt *r)
{
    struct rlt_beats *b = &r->head.beats;
    uint64_t          said_at = r->head.reported_at > b->began_at ? r->head.reported_at : b->began_at;
    if (!b->is_waiting && r->now < said_at + MT_RLT_BEAT_MS * RLT_MS)
        return said_at + MT_RLT_BEAT_MS * RLT_MS;
    if (!b->is_waiting) {
        if (is_here_another(r))
            return r->now;
        b->is_waiting = true;
        begin(r);
    }
    uint64_t over_at = b->began_at + MT_RLT_BEAT_TRIES * MT_RLT_BEAT_WAIT_MS * RLT_MS;
    if (r->now >= over_at) {
        if (MT_PLANT(MT_PLANT_BEAT_UNANSWERED)) {
            b->is_waiting = false;
            return r->now + 1;
        }
        mt_log(MT_LOG_INFO, "datagrams_unheard", "node=%u: it reports by its stream", r->node);
        beats_set_state(b, BEATS_LOUD);
        return r->now;
    }
    if (r->now >= b->at + MT_RLT_BEAT_WAIT_MS * RLT_MS)
        say(r);
    uint64_t again_at = b->at + MT_RLT_BEAT_WAIT_MS * RLT_MS;
    return again_at < over_at ? again_at : over_at;
}

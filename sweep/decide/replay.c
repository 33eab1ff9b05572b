/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - the policy of one trial of a PBT sweep once more (Ray Tune's PopulationBasedTrainingReplay).
 *
 * Each trial pauses when it comes to the next turn, becomes a copy of itself with that turn's point, and goes on from its
 * checkpoint.
 *
 * Owns:    the turns.
 * Thread:  one at a time.
 */
#include "sweep/decide/private.h"

#include <math.h>

/* swp_member.rung: the next turn. */
static mt_status replay_init(struct swp_scheduler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    size_t size = (s->opts.turn_count + 1) * sizeof *s->opts.turns;
    s->model = malloc(size);
    if (!s->model)
        return mt_error(MT_ENOMEM, 0, "sweep: replay");
    if (s->opts.turn_count)
        memcpy(s->model, s->opts.turns, s->opts.turn_count * sizeof *s->opts.turns);
    s->opts.turns = s->model;
    return mt_ok();
}

static void replay_fini(struct swp_scheduler *s)
{
    free(s->model);
}

static double replay_next_t(const struct swp_scheduler *s, const struct swp_member *m)
{
    return m->rung < s->opts.turn_count ? fmin(s->opts.turns[m->rung].t, s->opts.max_t) : s->opts.max_t;
}

static mt_status replay_report(struct swp_scheduler *s, struct swp_member *m, struct swp_verdict *out_verdict)
{
    if (m->t >= s->opts.max_t)
        out_verdict->decision = SWP_STOP;
    else if (m->t >= replay_next_t(s, m))
        *out_verdict = (struct swp_verdict){.decision = SWP_PAUSE, .save = true};
    return mt_ok();
}

static struct swp_action replay_next(const struct swp_scheduler *s, bool has_place)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const struct swp_member *m = &s->members.data[i];
        if (m->state != SWP_MEMBER_PAUSED)
            continue;
        if (m->t >= replay_next_t(s, m))
            return (struct swp_action){
                .kind = SWP_CLONE, .trial = m->trial, .from = m->trial, .point = s->opts.turns[m->rung].point};
        if (has_place)
            return swp_action_of(SWP_RESUME, m->trial);
    }
    return swp_start_or_wait(s, has_place);
}

/* A turn that failed, since there was no checkpoint to go on from, is not tried again. */
static bool replay_cloned(struct swp_scheduler *s, struct swp_member *m, bool done)
{
    (void)done;
    if (m->state != SWP_MEMBER_PAUSED || m->rung >= s->opts.turn_count)
        return false;
    m->rung++;
    return true;
}

const struct swp_policy swp_replay_policy = {
    .needs_saves = true,
    .init = replay_init,
    .fini = replay_fini,
    .report = replay_report,
    .next_t = replay_next_t,
    .next = replay_next,
    .cloned = replay_cloned,
};

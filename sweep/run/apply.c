/* SPDX-License-Identifier: Apache-2.0
 *
 * apply.c - what lasts of a sweep changes here, record by record: when it is made, and when it is read back.
 *
 * Always: nothing here looks at slots, time or what is durable; the same records lead to the same trials, sampler and scheduler.
 */
#include "sweep/run/driver.h"

#include <math.h>
#include <stdio.h>

static mt_status corrupt(struct swp_driver *d, const struct swp_record *r, const char *why)
{
    snprintf(d->text, sizeof d->text, "the journal's record %llu, of trial %lld, does not fit: %.400s", (unsigned long long)r->seq,
             (long long)r->trial, why);
    return mt_error(MT_ECORRUPT, 0, "replay the journal");
}

uint64_t swp_driver_limit(const struct swp_driver *d)
{
    uint64_t limit = d->config.limit > UINT64_MAX - d->dropped ? UINT64_MAX : d->config.limit + d->dropped;
    return d->is_over ? d->trials.count : limit < d->config.points ? limit : d->config.points;
}

/* ---- which trial is best, and what the sampler is told ---- */

static void best_update(struct swp_driver *d, int64_t number)
{
    const struct swp_trial *t = &d->trials.data[number];
    bool                    is_better = d->config.maximize ? t->value > d->best : t->value < d->best;
    if (t->outcome >= SWP_FAILED || !t->has_value || (d->best_trial >= 0 && !is_better))
        return;
    d->best = t->value;
    d->best_trial = number;
    d->best_step = t->step;
}

static mt_status tell(struct swp_driver *d, uint64_t number)
{
    const struct swp_trial *t = &d->trials.data[number];
    bool                    is_worth = t->outcome < SWP_FAILED && t->has_value;
    struct swp_outcome      outcome = {is_worth ? (enum swp_outcome_kind)t->outcome : SWP_FAILED, t->value, (double)t->step};
    mt_status               st = d->config.source.tell(d->config.source.self, number, &outcome);
    return st.code == MT_ENOENT ? mt_ok() : st;
}

/* With is_ordered: what trial `number` was drawn by. EAGAIN: one of those has not ended. */
static mt_status tell_ordered(struct swp_driver *d, uint64_t number)
{
    for (; d->told + (uint64_t)d->config.window <= number; d->told++) {
        if (d->trials.data[d->told].state != SWP_TRIAL_ENDED)
            return mt_error(MT_EAGAIN, 0, "an earlier trial has not ended");
        MT_TRY(tell(d, d->told));
    }
    return mt_ok();
}

/* ---- records ---- */

static mt_status apply_suggest(struct swp_driver *d, const struct swp_record *r, const struct swp_point *point)
{
    struct swp_problem problem;
    struct swp_point   read;
    if (r->trial != (int64_t)d->trials.count || !r->text)
        return corrupt(d, r, "its number is not the next one");
    if (!point) {
        if (d->config.is_ordered)
            MT_TRY(tell_ordered(d, (uint64_t)r->trial));
        if (swp_point_from_json(d->config.space, mt_view_text(r->text), NULL, &read, &problem).code)
            return corrupt(d, r, problem.text);
        MT_TRY(d->config.source.restore(d->config.source.self, (uint64_t)r->trial, &read));
        point = &read;
    }
    struct swp_trial t = {.params = strdup(r->text), .state = SWP_TRIAL_WAITING, .slot = -1, .ready_seq = r->seq};
    if (!t.params)
        return mt_error(MT_ENOMEM, 0, "keep a trial");
    mt_status st = mt_vec_push(&d->trials, t);
    if (st.code) {
        free(t.params);
        return st;
    }
    MT_TRY(mt_vec_push(&d->ready, r->trial));
    MT_TRY(swp_scheduler_add(d->config.scheduler, (uint64_t)r->trial, point));
    swp_scheduler_supply(d->config.scheduler, d->trials.count < swp_driver_limit(d));
    return mt_ok();
}

static mt_status verdict_set(struct swp_driver *d, int64_t number, enum swp_decision verdict)
{
    struct swp_trial *t = &d->trials.data[number];
    if (t->verdict != SWP_STOP && verdict != SWP_CONTINUE) /* one that was told to pause may report on before it returns */
        t->verdict = (uint8_t)verdict;
    if (t->verdict != SWP_STOP || t->is_ending)
        return mt_ok();
    t->is_ending = true;
    return mt_vec_push(&d->ending, number);
}

static mt_status apply_report(struct swp_driver *d, const struct swp_record *r)
{
    struct swp_trial  *t = &d->trials.data[r->trial];
    struct swp_verdict verdict = {.decision = SWP_CONTINUE};
    enum swp_stop_what stop = SWP_STOP_NOTHING;
    d->reports++;
    t->others = r->text ? t->others + 1 : 0;
    if (r->text)
        return mt_ok();
    t->value = r->value;
    t->step = r->step;
    t->has_step = true;
    if (!isfinite(r->value)) {
        t->is_bad = true;
        return verdict_set(d, r->trial, SWP_STOP);
    }
    t->has_value = true;
    if (t->verdict == SWP_CONTINUE)
        MT_TRY(swp_scheduler_report(d->config.scheduler, (uint64_t)r->trial, (double)r->step, r->value, &verdict));
    t->is_full = t->is_full || verdict.is_full;
    if (d->config.stopper)
        MT_TRY(swp_stopper_report(d->config.stopper, (uint64_t)r->trial, (double)r->step, r->value, r->code / 1e3, r->at, &stop));
    d->wants_over = d->wants_over || stop == SWP_STOP_SWEEP;
    return verdict_set(d, r->trial, stop != SWP_STOP_NOTHING ? SWP_STOP : verdict.decision);
}

static mt_status apply_end(struct swp_driver *d, const struct swp_record *r)
{
    swp_trial_set_state(d, r->trial, SWP_TRIAL_ENDED);
    d->trials.data[r->trial].outcome = (uint8_t)r->code;
    if (r->code == SWP_FAILED && r->text && !d->first_failure[0])
        snprintf(d->first_failure, sizeof d->first_failure, "trial %lld: %.400s", (long long)r->trial, r->text);
    d->completed += r->code == SWP_COMPLETE;
    d->pruned += r->code == SWP_PRUNED;
    d->failed += r->code == SWP_FAILED;
    d->dropped += r->code == SWP_DROPPED;
    best_update(d, r->trial);
    if (d->config.stopper)
        swp_stopper_end(d->config.stopper, (uint64_t)r->trial);
    MT_TRY(swp_scheduler_end(d->config.scheduler, (uint64_t)r->trial, r->code >= SWP_FAILED));
    return d->config.is_ordered ? mt_ok() : tell(d, (uint64_t)r->trial);
}

static mt_status apply_clone(struct swp_driver *d, const struct swp_record *r)
{
    struct swp_trial *t = &d->trials.data[r->trial];
    MT_TRY(swp_scheduler_cloned(d->config.scheduler, (uint64_t)r->trial, r->code != 0));
    if (!r->code)
        return mt_ok();
    char *params = r->text ? strdup(r->text) : NULL;
    if (!params)
        return mt_error(MT_ENOMEM, 0, "clone a trial");
    free(t->params);
    t->params = params;
    t->has_step = false;   /* it goes on where the other is, which may be before */
    t->ready_seq = r->seq; /* notes of its attempts before are of another point */
    return mt_ok();
}

static mt_status apply_resume(struct swp_driver *d, const struct swp_record *r)
{
    struct swp_trial *t = &d->trials.data[r->trial];
    swp_trial_set_state(d, r->trial, SWP_TRIAL_WAITING);
    t->verdict = SWP_CONTINUE;
    t->ready_seq = r->seq;
    MT_TRY(swp_scheduler_resume(d->config.scheduler, (uint64_t)r->trial));
    return mt_vec_push(&d->ready, r->trial);
}

static mt_status apply_control(struct swp_driver *d, const struct swp_record *r)
{
    switch (r->code) {
    case SWP_CONTROL_STOP: return mt_ok();
    case SWP_CONTROL_PAUSE:
    case SWP_CONTROL_GO: d->is_paused = r->code == SWP_CONTROL_PAUSE; return mt_ok();
    case SWP_CONTROL_STOP_TRIAL:
        if (r->step >= 0 && r->step < (int64_t)d->trials.count && d->trials.data[r->step].state != SWP_TRIAL_ENDED)
            return verdict_set(d, r->step, SWP_STOP);
        return mt_ok();
    case SWP_CONTROL_TRIALS: d->config.limit = r->step > 0 ? (uint64_t)r->step : UINT64_MAX; break;
    case SWP_CONTROL_TIME:
        d->config.time_s = (double)r->step;
        d->is_over = d->wants_over = d->is_time_up = false;
        break;
    case SWP_CONTROL_OVER:
        d->is_over = true;
        d->is_time_up = r->step == 1;
        for (size_t i = 0; i < d->trials.count; i++) /* those that have no value yet wait for another day */
            if (d->trials.data[i].state != SWP_TRIAL_ENDED && d->trials.data[i].has_value)
                MT_TRY(verdict_set(d, (int64_t)i, SWP_STOP));
        break;
    case SWP_CONTROL_POINTS: d->config.points = (uint64_t)r->step; break;
    default: return corrupt(d, r, "it is of an unknown kind");
    }
    swp_scheduler_supply(d->config.scheduler, d->trials.count < swp_driver_limit(d));
    return mt_ok();
}

mt_status swp_driver_apply(struct swp_driver *d, const struct swp_record *r, const struct swp_point *point)
{
    bool is_of_trial = r->kind == SWP_REC_REPORT || r->kind == SWP_REC_FAIL || r->kind == SWP_REC_END ||
                       r->kind == SWP_REC_RESUME || r->kind == SWP_REC_CLONE;
    if (is_of_trial && (r->trial < 0 || r->trial >= (int64_t)d->trials.count))
        return corrupt(d, r, "there is no such trial");
    if (is_of_trial && d->trials.data[r->trial].state == SWP_TRIAL_ENDED)
        return corrupt(d, r, "the trial had ended");
    switch (r->kind) {
    case SWP_REC_OPEN: return mt_ok();
    case SWP_REC_SUGGEST: return apply_suggest(d, r, point);
    case SWP_REC_REPORT: return apply_report(d, r);
    case SWP_REC_FAIL:
        d->trials.data[r->trial].failures++;
        d->trials.data[r->trial].ready_seq = r->seq;
        d->retried++;
        return mt_ok();
    case SWP_REC_END: return apply_end(d, r);
    case SWP_REC_RESUME: return apply_resume(d, r);
    case SWP_REC_CLONE: return apply_clone(d, r);
    case SWP_REC_CONTROL: return apply_control(d, r);
    }
    return corrupt(d, r, "it is of an unknown kind");
}

mt_status swp_driver_tell_before(struct swp_driver *d, uint64_t number)
{
    return d->config.is_ordered ? tell_ordered(d, number) : mt_ok();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.c - what happens next in a sweep: events to records and orders. See driver.h.
 *
 * Owns: trials, queues, what is held until the disk has it. Thread: one at a time.
 */
#include "sweep/run/driver.h"

#include <math.h>
#include <stdio.h>

static double seconds(const struct swp_driver *d)
{
    return d->base_s + (d->state != SWP_DRIVER_REPLAYING ? (double)(d->now_ns - d->opened_ns) * 1e-9 : 0);
}

/* ---- orders ---- */

static mt_status order(struct swp_driver *d, const struct swp_order *o)
{
    return mt_vec_push(&d->orders, *o);
}

static mt_status order_when_durable(struct swp_driver *d, const struct swp_order *o)
{
    return mt_vec_push(&d->held, (struct swp_held){d->seq, *o});
}

/* Makes a record: it takes effect here at once, and goes to the journal. */
static mt_status record(struct swp_driver *d, struct swp_record r, const struct swp_point *point)
{
    r.seq = d->seq + 1;
    r.at = seconds(d);
    MT_TRY(swp_driver_apply(d, &r, point));
    d->seq = r.seq;
    if (r.text && !(r.text = strdup(r.text)))
        return mt_error(MT_ENOMEM, 0, "make a record");
    return order(d, &(struct swp_order){.kind = SWP_ORDER_RECORD, .trial = r.trial, .record = r});
}

static void give_up(struct swp_driver *d, mt_status why, const char *text)
{
    if (d->error.code)
        return;
    d->error = why;
    snprintf(d->text, sizeof d->text, "%s", text);
}

static void leave(struct swp_driver *d)
{
    if (d->state == SWP_DRIVER_OPEN)
        swp_driver_set_state(d, SWP_DRIVER_LEAVING);
}

/* ---- slots ---- */

static struct swp_trial *trial_at(struct swp_driver *d, int64_t number)
{
    return &d->trials.data[number];
}

/* Takes a trial out of its slot's queue, wherever it stands there. */
static void slot_drop(struct swp_driver *d, int64_t number)
{
    struct swp_trial *t = trial_at(d, number);
    struct swp_slot  *slot = &d->slots[t->slot];
    int               i = 0;
    while (i < slot->count && slot->queue[i] != number)
        i++;
    MT_ASSERT(i < slot->count);
    memmove(slot->queue + i, slot->queue + i + 1, (size_t)(slot->count - i - 1) * sizeof *slot->queue);
    slot->count--;
    if (i == 0)
        slot->began_ns = slot->heard_ns = d->now_ns;
    t->slot = -1; /* its state follows at once */
}

static mt_status wait_again(struct swp_driver *d, int64_t number)
{
    swp_trial_set_state(d, number, SWP_TRIAL_WAITING);
    return mt_vec_push(&d->ready, number);
}

/* ---- the end of an attempt ---- */

static mt_status end(struct swp_driver *d, int64_t number, int outcome, const char *why)
{
    struct swp_trial *t = trial_at(d, number);
    if (outcome == SWP_FAILED)
        snprintf(d->message, sizeof d->message, "trial %lld failed: %.400s", (long long)number, why ? why : "");
    return record(
        d,
        (struct swp_record){.kind = SWP_REC_END, .trial = number, .code = outcome, .step = t->step, .value = t->value, .text = why},
        NULL);
}

static mt_status fail(struct swp_driver *d, int64_t number, const char *why, bool is_final)
{
    const struct swp_trial *t = trial_at(d, number);
    swp_trial_set_state(d, number, SWP_TRIAL_WAITING);
    if (is_final || (int)t->failures >= d->config.retries)
        return end(d, number, SWP_FAILED, why);
    snprintf(d->message, sizeof d->message, "trial %lld is tried again: %.400s", (long long)number, why);
    MT_TRY(record(d, (struct swp_record){.kind = SWP_REC_FAIL, .trial = number, .code = (int32_t)t->failures, .text = why}, NULL));
    return mt_vec_push(&d->ready, number);
}

static mt_status bad_end(struct swp_driver *d, int64_t number)
{
    const struct swp_trial *t = trial_at(d, number);
    char                    text[MT_ERROR_BYTES_MAX];
    snprintf(text, sizeof text, "its metric became %g at step %lld", t->value, (long long)t->step);
    return end(d, number, SWP_FAILED, text);
}

/* Of an attempt that nobody stopped. */
static mt_status result_take(struct swp_driver *d, int64_t number, int32_t code, const char *why, bool is_final)
{
    if (code)
        return fail(d, number, why, is_final);
    if (!trial_at(d, number)->has_value)
        return fail(d, number, why, true);
    return end(d, number, SWP_COMPLETE, NULL);
}

/* The trial runs no more. */
static mt_status attempt_end(struct swp_driver *d, int64_t number, int32_t code, const char *why, bool is_final)
{
    struct swp_trial *t = trial_at(d, number);
    slot_drop(d, number);
    if (t->is_bad)
        return bad_end(d, number);
    if (t->verdict == SWP_STOP) {
        swp_trial_set_state(d, number, SWP_TRIAL_WAITING); /* until `ending` is looked through */
        return mt_ok();
    }
    if (t->verdict == SWP_PAUSE) {
        swp_trial_set_state(d, number, SWP_TRIAL_PAUSED);
        return mt_ok();
    }
    if (d->is_over) /* it was told to stop, or would be told just now */
        return t->has_value ? end(d, number, SWP_PRUNED, NULL) : wait_again(d, number);
    return result_take(d, number, code, why, is_final);
}

/* Those whose STOP was decided: END as soon as they run no more. */
static mt_status endings(struct swp_driver *d)
{
    for (size_t i = 0; i < d->ending.count;) {
        int64_t           number = d->ending.data[i];
        struct swp_trial *t = trial_at(d, number);
        if (t->state == SWP_TRIAL_RUNNING) {
            i++;
            continue;
        }
        mt_vec_remove(&d->ending, i);
        if (t->state == SWP_TRIAL_ENDED)
            continue;
        if (t->is_bad)
            MT_TRY(end(d, number, SWP_FAILED, "its metric was not a finite number"));
        else
            MT_TRY(end(d, number, t->is_full ? SWP_COMPLETE : t->has_value ? SWP_PRUNED : SWP_DROPPED, NULL));
    }
    return mt_ok();
}

/* ---- what comes in ---- */

static bool is_fresh(const struct swp_driver *d, const struct swp_event *ev)
{
    if (ev->trial < 0 || ev->trial >= (int64_t)d->trials.count)
        return false;
    const struct swp_trial *t = &d->trials.data[ev->trial];
    return t->state == SWP_TRIAL_RUNNING && t->run == ev->run && t->slot == ev->slot;
}

/* From which step on a report may be answered by something else than CONTINUE. */
static int64_t ask_from(const struct swp_driver *d, int64_t number)
{
    double t = d->config.has_limits ? 0 : ceil(swp_scheduler_next_t(d->config.scheduler, (uint64_t)number));
    return t < 0x1p62 ? (int64_t)t : INT64_MAX;
}

static mt_status answer(struct swp_driver *d, const struct swp_event *ev, enum swp_decision decision)
{
    struct swp_order o = {.kind = SWP_ORDER_ANSWER,
                          .slot = ev->slot,
                          .trial = ev->trial,
                          .run = ev->run,
                          .answer = {decision, ask_from(d, ev->trial)}};
    if (decision == SWP_CONTINUE)
        return ev->report.wants_answer ? order(d, &o) : mt_ok();
    return order_when_durable(d, &o);
}

static mt_status on_report(struct swp_driver *d, const struct swp_event *ev)
{
    struct swp_trial *t = trial_at(d, ev->trial);
    struct swp_slot  *slot = &d->slots[ev->slot];
    slot->heard_ns = d->now_ns;
    if (!ev->report.metric && t->has_step && ev->report.step <= t->step)
        return answer(d, ev, (enum swp_decision)t->verdict);
    MT_TRY(record(d,
                  (struct swp_record){.kind = SWP_REC_REPORT,
                                      .trial = ev->trial,
                                      .step = ev->report.step,
                                      .value = ev->report.value,
                                      .code = (int32_t)((d->now_ns - slot->began_ns) / 1000000),
                                      .text = ev->report.metric},
                  NULL));
    t = trial_at(d, ev->trial);
    if (t->has_saved && !ev->report.metric) {
        t->has_saved = false;
        MT_TRY(order(d, &(struct swp_order){.kind = SWP_ORDER_PUBLISH, .trial = ev->trial, .run = ev->run}));
    }
    return answer(d, ev, ev->report.metric ? SWP_CONTINUE : (enum swp_decision)t->verdict);
}

static mt_status on_finished(struct swp_driver *d, const struct swp_event *ev)
{
    const struct swp_slot *slot = &d->slots[ev->slot];
    double                 took = (double)(d->now_ns - slot->began_ns);
    /* With several in its queue, one message told of several ends: their time is shared by the average. */
    d->trial_ns = d->trial_ns > 0 ? d->trial_ns * 0.9 + took * 0.1 : took;
    return attempt_end(d, ev->trial, ev->finished.code, ev->finished.why ? ev->finished.why : "", ev->finished.is_final);
}

/* Nobody has decided on its end. */
static bool may_wait_again(const struct swp_driver *d, int64_t number)
{
    const struct swp_trial *t = &d->trials.data[number];
    return t->verdict == SWP_CONTINUE && !t->is_bad && !d->is_over;
}

static mt_status on_slot_down(struct swp_driver *d, const struct swp_event *ev)
{
    struct swp_slot *slot = &d->slots[ev->slot];
    const char      *why = slot->killed ? slot->killed : ev->down.text;
    bool             was_up = slot->state == SWP_SLOT_UP || slot->count > 0, is_ours = slot->killed != NULL;
    bool             is_preempted = ev->down.code == MT_EPREEMPTED && !is_ours;
    swp_slot_set_state(d, ev->slot, SWP_SLOT_NONE);
    slot->killed = NULL;
    d->leaving -= slot->is_leaving;
    slot->is_returning = slot->is_leaving = false;
    slot->bad_starts = was_up || is_preempted ? 0 : slot->bad_starts + 1;
    while (slot->count > 1) { /* had not begun */
        int64_t number = slot->queue[slot->count - 1];
        slot_drop(d, number);
        MT_TRY(wait_again(d, number));
    }
    if (slot->count == 1 && (d->state == SWP_DRIVER_LEAVING || (is_preempted && may_wait_again(d, slot->queue[0])))) {
        int64_t number = slot->queue[0];
        slot_drop(d, number);
        MT_TRY(wait_again(d, number));
    } else if (slot->count == 1) {
        MT_TRY(attempt_end(d, slot->queue[0], MT_EWORKER_DIED, why, false));
    }
    if (!is_ours && (ev->down.code == MT_EUNSCHEDULABLE || ev->down.code == MT_ENOFUNC || ev->down.code == MT_EENV ||
                     slot->bad_starts >= MT_SWEEP_STARTS_MAX)) {
        give_up(d, mt_error(ev->down.code, 0, "start a trial's process"), ev->down.text);
        leave(d);
    }
    return mt_ok();
}

/* ---- what dead processes left ---- */

static bool is_left_by(const struct swp_driver *d, const struct swp_left *left)
{
    const struct swp_trial *t = &d->trials.data[left->trial];
    if (t->ready_seq != left->ready_seq)
        return false;
    return left->slot < 0 ? t->state == SWP_TRIAL_WAITING
                          : t->state == SWP_TRIAL_RUNNING && t->slot == left->slot && t->run == left->run;
}

/* How many of its reports are in the journal: they got there in their order. */
static size_t reports_known(const struct swp_trial *t, const struct swp_left *left)
{
    size_t   known = 0;
    uint32_t others = t->others;
    for (size_t i = 0; t->has_step && i < left->report_count; i++)
        if (!left->reports[i].metric && left->reports[i].step <= t->step)
            known = i + 1;
    for (; others && known < left->report_count && left->reports[known].metric; others--)
        known++;
    return known;
}

mt_status swp_driver_fold(struct swp_driver *d, const struct swp_left *left)
{
    if (left->trial < 0 || left->trial >= (int64_t)d->trials.count || !is_left_by(d, left))
        return mt_ok();
    const struct swp_trial *t = trial_at(d, left->trial);
    for (size_t i = reports_known(t, left); i < left->report_count; i++)
        MT_TRY(record(d,
                      (struct swp_record){.kind = SWP_REC_REPORT,
                                          .trial = left->trial,
                                          .step = left->reports[i].step,
                                          .value = left->reports[i].value,
                                          .code = (int32_t)left->took_ms,
                                          .text = left->reports[i].metric},
                      NULL));
    if (left->slot >= 0)
        return attempt_end(d, left->trial, left->code, left->why, left->is_final);
    if (t->is_bad)
        return bad_end(d, left->trial);
    if (t->verdict != SWP_CONTINUE && left->is_stopped)
        return mt_ok(); /* it waits for its END, or is paused, when the sweep is opened */
    return result_take(d, left->trial, left->code, left->why, left->is_final);
}

static mt_status on_durable(struct swp_driver *d, uint64_t seq)
{
    d->durable = seq > d->durable ? seq : d->durable;
    while (d->held_head < d->held.count && d->held.data[d->held_head].seq <= d->durable)
        MT_TRY(order(d, &d->held.data[d->held_head++].order));
    if (d->held_head == d->held.count)
        d->held_head = d->held.count = 0;
    return mt_ok();
}

/* There are to be fewer trials than were drawn ahead: those that never began go, the last ones first. */
static mt_status surplus_drop(struct swp_driver *d)
{
    for (uint64_t i = d->trials.count; i-- > 0 && d->trials.count > swp_driver_limit(d);) {
        const struct swp_trial *t = &d->trials.data[i];
        if (t->state == SWP_TRIAL_WAITING && t->verdict == SWP_CONTINUE && !t->has_step && t->failures == 0)
            MT_TRY(end(d, (int64_t)i, SWP_DROPPED, NULL));
    }
    return mt_ok();
}

static mt_status on_control(struct swp_driver *d, int what, int64_t value)
{
    if (what == SWP_CONTROL_STOP) { /* noted for those who look at the sweep; a resumed one does not heed it */
        if (d->state != SWP_DRIVER_LEAVING)
            MT_TRY(record(d, (struct swp_record){.kind = SWP_REC_CONTROL, .trial = -1, .code = what}, NULL));
        leave(d);
        return mt_ok();
    }
    if (what < SWP_CONTROL_STOP || what > SWP_CONTROL_TIME)
        return mt_ok(); /* of a newer program */
    MT_TRY(record(d, (struct swp_record){.kind = SWP_REC_CONTROL, .trial = -1, .code = what, .step = value}, NULL));
    if (what == SWP_CONTROL_TRIALS)
        return surplus_drop(d);
    if (what != SWP_CONTROL_STOP_TRIAL || value < 0 || value >= (int64_t)d->trials.count)
        return mt_ok();
    struct swp_trial *t = trial_at(d, value);
    if (t->state != SWP_TRIAL_RUNNING)
        return mt_ok();
    return order_when_durable(
        d, &(struct swp_order){
               .kind = SWP_ORDER_ANSWER, .slot = t->slot, .trial = value, .run = t->run, .answer = {.decision = SWP_STOP}});
}

/* Rules about time, for trials that report nothing just now. */
static mt_status time_look(struct swp_driver *d, const struct swp_slot *slot)
{
    enum swp_stop_what what = swp_stopper_tick(d->config.stopper, (double)(d->now_ns - slot->began_ns) * 1e-9, seconds(d));
    d->wants_over = d->wants_over || what == SWP_STOP_SWEEP;
    if (what == SWP_STOP_NOTHING || trial_at(d, slot->queue[0])->verdict == SWP_STOP)
        return mt_ok();
    return on_control(d, SWP_CONTROL_STOP_TRIAL, slot->queue[0]);
}

/* While nothing is taken from trials their time stands still: who could not report is not silent. */
static void on_hold(struct swp_driver *d, bool begins)
{
    for (int i = 0; i < d->config.slots && d->is_held && !begins; i++) {
        d->slots[i].began_ns += d->now_ns - d->held_ns;
        d->slots[i].heard_ns += d->now_ns - d->held_ns;
    }
    d->is_held = begins;
    d->held_ns = d->now_ns;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A driver that stood still, without a CPU, has not read what trials have said meanwhile: they may have ended long ago. That
 * time is not theirs. */
static void stand_excuse(struct swp_driver *d)
{
    int64_t lost = d->ticked_ns ? d->now_ns - d->ticked_ns - MT_SWEEP_STILL_MS * 1000000ll : 0;
    d->ticked_ns = d->now_ns;
    for (int i = 0; i < d->config.slots && lost > 0 && !d->is_held; i++) {
        struct swp_slot *slot = &d->slots[i];
        if (slot->count == 0)
            continue;
        slot->began_ns = earlier(slot->began_ns + lost, d->now_ns);
        slot->heard_ns = earlier(slot->heard_ns + lost, d->now_ns);
    }
}

static mt_status on_tick(struct swp_driver *d)
{
    stand_excuse(d);
    if (d->is_held)
        return mt_ok();
    for (int i = 0; i < d->config.slots; i++) {
        const struct swp_slot *slot = &d->slots[i];
        if (slot->state != SWP_SLOT_UP || slot->count == 0)
            continue;
        if (d->config.trial_s > 0 && (double)(d->now_ns - slot->began_ns) > d->config.trial_s * 1e9)
            MT_TRY(swp_slot_kill(d, i, "it ran past its deadline (trial_timeout_s) and was killed"));
        else if (d->config.silent_s > 0 && (double)(d->now_ns - slot->heard_ns) > d->config.silent_s * 1e9)
            MT_TRY(swp_slot_kill(d, i, "it reported nothing for too long (silent_timeout_s) and was killed"));
        else if (d->config.stopper)
            MT_TRY(time_look(d, slot));
    }
    return mt_ok();
}

static mt_status on_cloned(struct swp_driver *d, const struct swp_event *ev)
{
    mt_buf    text = {0};
    mt_status st = swp_point_to_json(d->config.space, &d->clone, &text);
    if (st.code == 0)
        st = mt_buf_terminate(&text);
    d->is_cloning = false;
    if (st.code == 0)
        st = record(d,
                    (struct swp_record){.kind = SWP_REC_CLONE,
                                        .trial = ev->trial,
                                        .step = d->clone_from,
                                        .code = ev->cloned.is_done,
                                        .text = (const char *)text.data},
                    NULL);
    mt_buf_fini(&text);
    return st;
}

static mt_status on_event(struct swp_driver *d, const struct swp_event *ev)
{
    switch (ev->kind) {
    case SWP_EV_TICK: return on_tick(d);
    case SWP_EV_SLOT_UP:
        if (d->slots[ev->slot].state != SWP_SLOT_STARTING)
            return mt_ok();
        swp_slot_set_state(d, ev->slot, SWP_SLOT_UP);
        d->slots[ev->slot].bad_starts = 0;
        d->slots[ev->slot].began_ns = d->now_ns;
        return mt_ok();
    case SWP_EV_SLOT_DOWN: return d->slots[ev->slot].state == SWP_SLOT_NONE ? mt_ok() : on_slot_down(d, ev);
    case SWP_EV_REPORT: return is_fresh(d, ev) ? on_report(d, ev) : mt_ok();
    case SWP_EV_SAVED:
        if (is_fresh(d, ev))
            trial_at(d, ev->trial)->has_saved = true;
        return mt_ok();
    case SWP_EV_FINISHED: return is_fresh(d, ev) ? on_finished(d, ev) : mt_ok();
    case SWP_EV_RETURNED:
        if (ev->trial < 0) /* that was all */
            d->slots[ev->slot].is_returning = false;
        if (!is_fresh(d, ev))
            return mt_ok();
        slot_drop(d, ev->trial);
        return wait_again(d, ev->trial);
    case SWP_EV_DURABLE: return on_durable(d, ev->durable.seq);
    case SWP_EV_CLONED: return on_cloned(d, ev);
    case SWP_EV_CONTROL: return on_control(d, ev->control.what, ev->control.value);
    case SWP_EV_ROOM: d->is_full = !ev->room.is_there; return mt_ok();
    case SWP_EV_NODES: swp_slots_room(d, ev->nodes.room); return mt_ok();
    case SWP_EV_LEAVE: return swp_slot_leaves(d, ev->slot);
    case SWP_EV_HOLD: on_hold(d, ev->hold.begins); return mt_ok();
    case SWP_EV_BROKEN:
        give_up(d, mt_error(ev->broken.code, 0, "write the journal"), ev->broken.text);
        leave(d);
        return mt_ok();
    }
    return mt_error(MT_EINTERNAL, 0, "an event of no kind");
}

/* ---- what goes out ---- */

/* How many may be in flight: where a scheduler pauses and resumes, a place is a slot; else points are drawn ahead, so that no
 * trial waits for the disk. One at a time is what a user asks for whose every draw is to see all results. */
static int64_t capacity(const struct swp_driver *d)
{
    const struct swp_driver_config *c = &d->config;
    if (swp_scheduler_needs_saves(c->scheduler) || (c->is_adaptive && d->room == 1))
        return d->room;
    return d->room + (c->is_adaptive ? 1 + d->room / 4 : MT_SWEEP_STOCK);
}

static mt_status suggest(struct swp_driver *d, bool *out_done)
{
    struct swp_point point;
    mt_buf           text = {0};
    uint64_t         number = d->trials.count;
    *out_done = false;
    mt_status st = swp_driver_tell_before(d, number);
    if (st.code == MT_EAGAIN)
        return mt_ok();
    if (st.code == 0)
        st = d->config.source.suggest(d->config.source.self, number, &point);
    if (st.code == MT_EEND) /* for good: whoever resumes the sweep does not ask again */
        return record(
            d, (struct swp_record){.kind = SWP_REC_CONTROL, .trial = -1, .code = SWP_CONTROL_POINTS, .step = (int64_t)number},
            NULL);
    if (st.code == 0)
        st = swp_point_to_json(d->config.space, &point, &text);
    if (st.code == 0)
        st = mt_buf_terminate(&text);
    if (st.code == 0)
        st = record(d, (struct swp_record){.kind = SWP_REC_SUGGEST, .trial = (int64_t)number, .text = (const char *)text.data},
                    &point);
    mt_buf_fini(&text);
    *out_done = st.code == 0;
    return st;
}

/* One step of the scheduler. *out_more: there may be another. */
static mt_status schedule_one(struct swp_driver *d, bool *out_more)
{
    struct swp_action a = swp_scheduler_next(d->config.scheduler, swp_driver_in_flight(d) < capacity(d) && !d->is_paused);
    bool              is_ours = a.kind == SWP_RESUME || a.kind == SWP_DROP || a.kind == SWP_CLONE;
    *out_more = false;
    if (is_ours && (a.trial >= d->trials.count || trial_at(d, (int64_t)a.trial)->state != SWP_TRIAL_PAUSED))
        return mt_ok(); /* it has not come to rest yet */
    switch (a.kind) {
    case SWP_WAIT: return mt_ok();
    case SWP_START: return d->trials.count < swp_driver_limit(d) ? suggest(d, out_more) : mt_ok();
    case SWP_RESUME:
        *out_more = true;
        return record(d, (struct swp_record){.kind = SWP_REC_RESUME, .trial = (int64_t)a.trial}, NULL);
    case SWP_DROP:
        *out_more = true;
        return end(d, (int64_t)a.trial, trial_at(d, (int64_t)a.trial)->has_value ? SWP_PRUNED : SWP_DROPPED, NULL);
    case SWP_CLONE:
        if (d->is_cloning)
            return mt_ok();
        d->is_cloning = true;
        d->clone = a.point;
        d->clone_from = (int64_t)a.from;
        return order(d, &(struct swp_order){.kind = SWP_ORDER_CLONE, .trial = (int64_t)a.trial, .clone = {(int64_t)a.from}});
    }
    return mt_ok();
}

static int depth(const struct swp_driver *d)
{
    if (d->trial_ns <= 0 || d->trial_ns >= MT_SWEEP_NEXT_NS || swp_scheduler_needs_saves(d->config.scheduler))
        return 1;
    double fits = MT_SWEEP_AHEAD_NS / (d->trial_ns + 1);
    return fits > MT_SWEEP_AHEAD_MAX ? MT_SWEEP_AHEAD_MAX : fits < 2 ? 2 : (int)fits;
}

/* The next trial that may start; -1: none. */
static int64_t ready_take(struct swp_driver *d)
{
    while (d->ready_head < d->ready.count) {
        int64_t           number = d->ready.data[d->ready_head];
        struct swp_trial *t = trial_at(d, number);
        if (t->state == SWP_TRIAL_WAITING && t->verdict != SWP_STOP && t->ready_seq > d->durable)
            return -1;
        d->ready_head++;
        if (d->ready_head == d->ready.count)
            d->ready_head = d->ready.count = 0;
        if (t->state == SWP_TRIAL_WAITING && t->verdict != SWP_STOP)
            return number;
    }
    return -1;
}

static mt_status start(struct swp_driver *d, int index, int64_t number)
{
    struct swp_slot  *slot = &d->slots[index];
    struct swp_trial *t = trial_at(d, number);
    if (slot->count == 0)
        slot->began_ns = slot->heard_ns = d->now_ns;
    slot->queue[slot->count++] = number;
    t->slot = index;
    swp_trial_set_state(d, number, SWP_TRIAL_RUNNING);
    t->run = ++d->runs;
    t->has_saved = false;
    return order(
        d,
        &(struct swp_order){
            .kind = SWP_ORDER_START, .slot = index, .trial = number, .run = t->run, .start = {t->ready_seq, ask_from(d, number)}});
}

/* Fills the slots evenly: none gets a second trial before each has one. */
static mt_status dispatch(struct swp_driver *d)
{
    int deepest = depth(d);
    for (int i = 0; i < d->config.slots; i++)
        if (d->slots[i].is_returning)
            deepest = 1; /* what comes back is shared out when all of it is here */
    for (int level = 0; level < deepest; level++)
        for (int i = 0; i < d->config.slots; i++) {
            struct swp_slot *slot = &d->slots[i];
            if (slot->state != SWP_SLOT_UP || slot->count > level || slot->is_returning || slot->is_leaving)
                continue;
            int64_t number = ready_take(d);
            if (number < 0)
                return mt_ok();
            MT_TRY(start(d, i, number));
        }
    return mt_ok();
}

/* A slot has nothing, another one more than it runs: what waits there comes back. */
static mt_status balance(struct swp_driver *d)
{
    int idle = 0, fullest = -1;
    for (int i = 0; i < d->config.slots; i++) {
        const struct swp_slot *slot = &d->slots[i];
        if (slot->state != SWP_SLOT_UP || slot->is_returning || slot->is_leaving)
            continue;
        idle += slot->count == 0;
        if (slot->count > 1 && (fullest < 0 || slot->count > d->slots[fullest].count))
            fullest = i;
    }
    if (!idle || fullest < 0)
        return mt_ok();
    d->slots[fullest].is_returning = true;
    return order(d, &(struct swp_order){.kind = SWP_ORDER_RETURN, .slot = fullest});
}

static void failures_look(struct swp_driver *d)
{
    uint64_t ended = d->completed + d->pruned + d->failed;
    if (d->failed < MT_SWEEP_FAILURES_MAX || d->failed != ended || d->error.code)
        return;
    char text[MT_ERROR_BYTES_MAX];
    snprintf(text, sizeof text, "the first %d trials failed; %.400s", MT_SWEEP_FAILURES_MAX, d->first_failure);
    give_up(d, mt_error(MT_ETASK, 0, "trials fail"), text);
    leave(d);
}

static bool has_work(const struct swp_driver *d)
{
    if (d->is_over)
        return d->running > 0 || d->ending.count > 0 || d->is_cloning;
    return swp_driver_in_flight(d) > 0 || d->ending.count > 0 || d->is_cloning || d->trials.count < swp_driver_limit(d);
}

/* Nothing runs, nothing can be begun, and yet trials are paused: nothing will ever wake them. */
static mt_status drop_paused(struct swp_driver *d)
{
    for (size_t i = 0; i < d->trials.count && d->paused; i++)
        if (d->trials.data[i].state == SWP_TRIAL_PAUSED)
            MT_TRY(end(d, (int64_t)i, d->trials.data[i].has_value ? SWP_PRUNED : SWP_DROPPED, NULL));
    return mt_ok();
}

static mt_status go_on(struct swp_driver *d)
{
    bool more = true;
    if (!d->is_over && (d->wants_over || (d->config.time_s > 0 && seconds(d) >= d->config.time_s))) {
        MT_TRY(record(
            d, (struct swp_record){.kind = SWP_REC_CONTROL, .trial = -1, .code = SWP_CONTROL_OVER, .step = !d->wants_over}, NULL));
        for (int i = 0; i < d->config.slots; i++)
            for (int k = 0; k < d->slots[i].count; k++)
                MT_TRY(order_when_durable(d, &(struct swp_order){.kind = SWP_ORDER_ANSWER,
                                                                 .slot = i,
                                                                 .trial = d->slots[i].queue[k],
                                                                 .run = trial_at(d, d->slots[i].queue[k])->run,
                                                                 .answer = {.decision = SWP_STOP}}));
    }
    MT_TRY(endings(d));
    while (more)
        MT_TRY(schedule_one(d, &more));
    if (!d->is_over)
        MT_TRY(swp_slots_hire(d));
    if (!d->is_paused && !d->is_over && !d->is_full) { /* on a full disk a trial would most likely fail */
        MT_TRY(dispatch(d));
        if (d->ready_head == d->ready.count)
            MT_TRY(balance(d));
    }
    MT_TRY(swp_slots_let_go(d));
    if (!has_work(d) && d->paused && !d->is_paused)
        MT_TRY(drop_paused(d));
    failures_look(d);
    if (!has_work(d) && !d->paused)
        leave(d);
    return mt_ok();
}

static mt_status advance(struct swp_driver *d)
{
    if (d->state == SWP_DRIVER_OPEN)
        MT_TRY(go_on(d));
    if (d->state != SWP_DRIVER_LEAVING)
        return mt_ok();
    for (int i = 0; i < d->config.slots; i++)
        MT_TRY(swp_slot_kill(d, i, "the sweep ends"));
    if (d->live > 0 || (d->durable < d->seq && !d->error.code))
        return mt_ok();
    swp_driver_set_state(d, SWP_DRIVER_DONE);
    return order(d, &(struct swp_order){.kind = SWP_ORDER_DONE});
}

mt_status swp_driver_step(struct swp_driver *d, const struct swp_event *ev)
{
    if (d->state == SWP_DRIVER_DONE)
        return mt_ok();
    d->now_ns = ev->now_ns;
    MT_TRY(on_event(d, ev));
    return advance(d);
}

/* ---- beginning and end ---- */

static mt_status source_suggest(void *self, uint64_t trial, struct swp_point *out_point)
{
    return swp_sampler_suggest(self, trial, out_point);
}
static mt_status source_restore(void *self, uint64_t trial, const struct swp_point *point)
{
    return swp_sampler_restore(self, trial, point);
}
static mt_status source_tell(void *self, uint64_t trial, const struct swp_outcome *outcome)
{
    return swp_sampler_tell(self, trial, outcome);
}

struct swp_source swp_source_of(struct swp_sampler *sampler)
{
    return (struct swp_source){sampler, source_suggest, source_restore, source_tell};
}

mt_status swp_driver_init(struct swp_driver *d, const struct swp_driver_config *config)
{
    int most = config->slots_max > config->slots ? config->slots_max : config->slots;
    *d = (struct swp_driver){
        .config = *config, .asked_limit = config->limit, .asked_time_s = config->time_s, .best_trial = -1, .room = config->slots};
    d->slots = calloc((size_t)most, sizeof *d->slots);
    return d->slots ? mt_ok() : mt_error(MT_ENOMEM, 0, "make the slots");
}

void swp_driver_fini(struct swp_driver *d)
{
    for (size_t i = 0; i < d->trials.count; i++)
        free(d->trials.data[i].params);
    for (size_t i = 0; i < d->orders.count; i++)
        if (d->orders.data[i].kind == SWP_ORDER_RECORD)
            free((char *)d->orders.data[i].record.text);
    mt_vec_fini(&d->trials);
    mt_vec_fini(&d->ready);
    mt_vec_fini(&d->ending);
    mt_vec_fini(&d->held);
    mt_vec_fini(&d->orders);
    free(d->slots);
    d->slots = NULL;
}

mt_status swp_driver_replay(struct swp_driver *d, const struct swp_record *r)
{
    if (r->seq != d->seq + 1) {
        snprintf(d->text, sizeof d->text, "the journal has record %llu after %llu", (unsigned long long)r->seq,
                 (unsigned long long)d->seq);
        return mt_error(MT_ECORRUPT, 0, "replay the journal");
    }
    MT_TRY(swp_driver_apply(d, r, NULL));
    d->seq = d->durable = r->seq;
    d->base_s = r->at > d->base_s ? r->at : d->base_s;
    return mt_ok();
}

mt_status swp_driver_open(struct swp_driver *d, int64_t now_ns)
{
    d->opened_ns = d->now_ns = now_ns;
    swp_driver_set_state(d, SWP_DRIVER_OPEN);
    d->ready_head = d->ready.count = 0; /* in order of their numbers, however they came to wait */
    for (size_t i = 0; i < d->trials.count; i++) {
        const struct swp_trial *t = &d->trials.data[i];
        if (t->state == SWP_TRIAL_ENDED)
            continue;
        if (t->verdict == SWP_PAUSE)
            swp_trial_set_state(d, (int64_t)i, SWP_TRIAL_PAUSED);
        else
            MT_TRY(mt_vec_push(&d->ready, (int64_t)i));
    }
    if (d->asked_limit > d->config.limit) /* the user's newest word is more than what was asked for from outside before */
        d->config.limit = d->asked_limit;
    MT_TRY(record(d, (struct swp_record){.kind = SWP_REC_OPEN, .trial = -1}, NULL));
    if (!d->is_time_up || (d->asked_time_s > 0 && d->asked_time_s <= d->base_s))
        return mt_ok();
    return record(
        d,
        (struct swp_record){.kind = SWP_REC_CONTROL, .trial = -1, .code = SWP_CONTROL_TIME, .step = (int64_t)ceil(d->asked_time_s)},
        NULL);
}

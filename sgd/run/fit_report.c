/* SPDX-License-Identifier: Apache-2.0
 *
 * fit_report.c - events for the user, out of news of workers and notes on the board; and how long a recovery took.
 *
 * Owns: nothing. Thread: the one that trains.
 */
#include "sgd/run/fit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint64_t steps_in(const struct sgd_fit *fit, uint32_t epochs)
{
    const struct sgd_run *run = &fit->setup.run;
    uint64_t              size = (uint64_t)run->vranks * run->micro_batch, samples = fit->setup.op->sources[0].set.count * epochs;
    return (samples + size - 1) / size;
}

/* Of the whole run. */
static int64_t steps_of(const struct sgd_fit *fit)
{
    return (int64_t)steps_in(fit, fit->setup.run.epochs);
}

/* By which a step was made. */
static double rate_of(const struct sgd_fit *fit, uint64_t step)
{
    struct sgd_optimizer all = fit->setup.run.optimizer;
    if (step == 0 || sgd_optimizer_resolve(&all).code != 0)
        return 0;
    return (double)sgd_optimizer_rate(&all, step - 1, steps_in(fit, fit->setup.run.epochs), steps_in(fit, 1));
}

static void log_failed_tell(struct sgd_fit *fit, const char *what, const char *why);

static void emit(struct sgd_fit *fit, manta_sgd_event *event, const char *text)
{
    event->text = text;
    event->workers = fit->workers;
    event->steps = steps_of(fit);
    if (!sgd_track_event(&fit->files, event))
        log_failed_tell(fit, "tracking in run.tracking", strerror(errno));
    if (!sgd_track_event(&fit->hook, event))
        log_failed_tell(fit, "tracking", "the tracker has failed");
    if (fit->opts->on_event && fit->opts->on_event(fit->opts->user, event))
        sgd_board_stop(sgd_board_of(fit->setup.region.data), SGD_BOARD_STOPS);
}

static void log_failed_tell(struct sgd_fit *fit, const char *what, const char *why)
{
    char            text[SGD_TEXT_BYTES];
    manta_sgd_event event = {.kind = MANTA_SGD_LOG_FAILED, .rank = -1, .step = -1};
    snprintf(text, sizeof text, "the %s ends here: %s", what, why);
    emit(fit, &event, text);
}

void sgd_fit_tell_worker(struct sgd_fit *fit, struct sgd_hand *hand)
{
    char            text[SGD_TEXT_BYTES];
    bool            is_spare = hand->rank == SGD_NO_RANK;
    manta_sgd_event event = {
        .kind = is_spare ? MANTA_SGD_SPARE : MANTA_SGD_WORKER, .rank = hand->rank, .pid = hand->info.pid, .step = -1};
    if (is_spare)
        snprintf(text, sizeof text, "spare pid=%d", hand->info.pid);
    else
        snprintf(text, sizeof text, "worker rank=%d pid=%d", hand->rank, hand->info.pid);
    if (fit->places.max > 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), " node=%u", fit->places.of[hand->place].node);
    hand->told_rank = hand->rank;
    emit(fit, &event, text);
}

void sgd_fit_tell_node(struct sgd_fit *fit, uint32_t node, const char *why)
{
    char            text[SGD_PLACE_WHY_BYTES + 64];
    manta_sgd_event event = {.kind = MANTA_SGD_NODE_FAILED, .rank = -1, .step = -1};
    snprintf(text, sizeof text, "node %u has no workers of this run: %s", node, why);
    emit(fit, &event, text);
}

void sgd_fit_tell_node_failed(struct sgd_fit *fit, const struct sgd_place *place)
{
    if (fit->failed_node == place->node)
        return; /* it is tried again and again */
    fit->failed_node = place->node;
    sgd_fit_tell_node(fit, place->node, place->why);
}

void sgd_fit_tell_lost(struct sgd_fit *fit, const struct sgd_hand *hand)
{
    char            text[2 * SGD_TEXT_BYTES];
    const char     *last = fit->last_words;
    int             pid = hand->info.pid ? hand->info.pid : hand->death.pid;
    manta_sgd_event event = {.kind = MANTA_SGD_LOST, .rank = hand->rank, .pid = pid, .step = -1};
    snprintf(text, sizeof text, "lost pid=%d rank=%d: %.180s%s%s", pid, hand->rank, hand->death.message,
             last[0] ? "; it printed last: " : "", last);
    emit(fit, &event, text);
}

void sgd_fit_tell_waiting(struct sgd_fit *fit, const char *why)
{
    char            text[SGD_TEXT_BYTES];
    int             ready, count = sgd_crew_count(&fit->crew, &ready);
    manta_sgd_event event = {.kind = MANTA_SGD_WAITING, .rank = -1, .step = -1};
    char            nodes[48] = "";
    if (fit->min_nodes > 1)
        snprintf(nodes, sizeof nodes, ", on at least %d nodes", fit->min_nodes);
    snprintf(text, sizeof text,
             "waits for workers%s: %d of at least %d are ready, %d start or have no room yet (%g CPUs, %g GPUs each)%s", nodes,
             ready, fit->min, count - ready, fit->opts->scaling.cpus, fit->setup.gpus, why);
    emit(fit, &event, text);
}

void sgd_fit_tell_resized(struct sgd_fit *fit, bool was_ready)
{
    char            text[SGD_TEXT_BYTES];
    manta_sgd_event event = {.kind = MANTA_SGD_RESIZED, .rank = -1, .step = -1};
    snprintf(text, sizeof text, "workers=%d%s", fit->workers, was_ready ? " made ready beside the last ones" : "");
    emit(fit, &event, text);
}

void sgd_fit_tell_hung(struct sgd_fit *fit, const struct sgd_hand *hand, const char *why)
{
    char            text[SGD_TEXT_BYTES];
    manta_sgd_event event = {.kind = MANTA_SGD_HUNG, .rank = hand->rank, .pid = hand->info.pid, .step = -1};
    snprintf(text, sizeof text, "hung pid=%d rank=%d: %s", hand->info.pid, hand->rank, why + strlen("hung "));
    emit(fit, &event, text);
}

void sgd_fit_tell_straggler(struct sgd_fit *fit, const struct sgd_hand *hand)
{
    char            text[SGD_TEXT_BYTES];
    manta_sgd_event event = {.kind = MANTA_SGD_STRAGGLER, .rank = hand->rank, .pid = hand->info.pid, .step = -1};
    snprintf(text, sizeof text, "straggler pid=%d rank=%d: more than twice the others' time", hand->info.pid, hand->rank);
    emit(fit, &event, text);
}

/* ---- recovery ---- */

/* When the last of the replacements ran, and had loaded; 0, where they had been there before. False: not yet known. */
static bool replacement_times(const struct sgd_fit *fit, int64_t *began, int64_t *loaded)
{
    *began = *loaded = 0;
    for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++) {
        if (hand->rank == SGD_NO_RANK || hand->state == SGD_HAND_FREE || hand->hired_ns < fit->recovering.detected_ns)
            continue;
        if (hand->state == SGD_HAND_STARTING)
            return false;
        *began = hand->info.began_ns > *began ? hand->info.began_ns : *began;
        *loaded = hand->info.loaded_ns > *loaded ? hand->info.loaded_ns : *loaded;
    }
    return true;
}

/* Moves the mark to `to` and gives the seconds between; none where that is earlier. */
static double lap(int64_t *mark, int64_t to)
{
    double seconds = to > *mark ? (double)(to - *mark) * 1e-9 : 0;
    *mark = to > *mark ? to : *mark;
    return seconds;
}

/* Measures a recovery that has ended and says so; not yet, where a replacement has not said how it started. */
static void recovery_close(struct sgd_fit *fit)
{
    struct sgd_recovering *r = &fit->recovering;
    int64_t                began, loaded, mark = r->detected_ns;
    char                   text[SGD_TEXT_BYTES];

    if (!replacement_times(fit, &began, &loaded))
        return;
    manta_sgd_recovery out = {
        .detected_ns = r->detected_ns, .step = (int64_t)r->going_step, .lost = r->lost, .steps_lost = r->steps_lost};
    out.abort_s = lap(&mark, r->back_ns);
    out.start_s = lap(&mark, began);
    out.load_s = lap(&mark, loaded);
    out.place_s = lap(&mark, r->placed_ns);
    out.sync_s = lap(&mark, r->synced_ns);
    out.step_s = lap(&mark, r->going_ns);
    out.total_s = (double)(mark - r->detected_ns) * 1e-9;
    sgd_timeline_recovery(&fit->timeline, &out, r->sign_ns);
    *r = (struct sgd_recovering){.is_open = false};
    fit->result.last = out;
    if (out.total_s > fit->result.slowest_s)
        fit->result.slowest_s = out.total_s;
    snprintf(text, sizeof text,
             "recovered in %.1f ms at step=%lld (abort %.1f start %.1f load %.1f place %.1f sync %.1f step %.1f), steps lost=%lld",
             out.total_s * 1e3, (long long)out.step, out.abort_s * 1e3, out.start_s * 1e3, out.load_s * 1e3, out.place_s * 1e3,
             out.sync_s * 1e3, out.step_s * 1e3, (long long)out.steps_lost);
    manta_sgd_event event = {.kind = MANTA_SGD_RECOVERED, .rank = -1, .step = out.step, .recovery = &out};
    emit(fit, &event, text);
}

/* ---- notes ---- */

static void note_begun(struct sgd_fit *fit, const struct sgd_note *note, manta_sgd_event *event)
{
    char     text[SGD_TEXT_BYTES];
    uint64_t lost = fit->has_begun && fit->furthest > note->step ? fit->furthest - note->step : 0;
    event->kind = MANTA_SGD_BEGUN;
    if (!fit->has_begun)
        fit->result.first_step = (int64_t)note->step;
    fit->has_begun = true;
    fit->furthest = note->step; /* what was behind it is told as lost once */
    fit->recovering.steps_lost += (int64_t)lost;
    fit->result.steps_lost += (int64_t)lost;
    int n = snprintf(text, sizeof text, "%.*s at step=%llu", SGD_NOTE_TEXT, note->begun.how, (unsigned long long)note->step);
    if (lost && n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ", steps lost=%llu", (unsigned long long)lost);
    emit(fit, event, text);
}

/* Samples per second since the last report, where this is the next one. */
static double samples_rate(struct sgd_fit *fit, const struct sgd_note *note)
{
    double rate = 0, size = (double)fit->setup.run.vranks * fit->setup.run.micro_batch;
    if (fit->reported_ns && note->step > fit->reported_step && note->time_ns > fit->reported_ns)
        rate = (double)(note->step - fit->reported_step) * size / ((double)(note->time_ns - fit->reported_ns) * 1e-9);
    fit->reported_step = note->step;
    fit->reported_ns = note->time_ns;
    return rate;
}

static void note_metrics(struct sgd_fit *fit, const struct sgd_note *note, manta_sgd_event *event)
{
    const manta_sgd *op = fit->setup.op;
    const char      *names[SGD_VALUES];
    double           values[SGD_VALUES];
    char             text[1024];
    bool             is_step = note->kind == SGD_NOTE_PROGRESS;
    const float     *noted = is_step ? note->progress.values : note->closed.values;
    int n = snprintf(text, sizeof text, "%s=%llu", is_step ? "step" : "validated step", (unsigned long long)note->step);

    for (uint32_t i = 0; i < op->names_count; i++) {
        names[i] = op->names[i];
        values[i] = (double)noted[i];
        bool is_unused = i == 1 && values[1] == 0; /* nobody has to know of accuracies */
        if (!is_unused && n >= 0 && (size_t)n < sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, " %.40s=%.4f", names[i], values[i]);
    }
    event->kind = is_step ? MANTA_SGD_STEP : MANTA_SGD_VALIDATED;
    event->loss = values[0];
    event->accuracy = values[1];
    event->samples_per_s = is_step ? samples_rate(fit, note) : 0;
    event->data_wait = is_step ? (double)note->progress.data_wait : 0;
    event->lr = is_step ? rate_of(fit, note->step) : 0;
    event->names = names;
    event->values = values;
    event->metrics = (int)op->names_count;
    emit(fit, event, text);
}

static void note_tell(struct sgd_fit *fit, const struct sgd_note *note)
{
    char               text[2 * SGD_TEXT_BYTES];
    unsigned long long step = note->step;
    manta_sgd_event    event = {.rank = 0, .step = (int64_t)note->step};

    switch (note->kind) {
    case SGD_NOTE_BEGUN: note_begun(fit, note, &event); return;
    case SGD_NOTE_PROGRESS:
    case SGD_NOTE_CLOSED: note_metrics(fit, note, &event); return;
    case SGD_NOTE_SKIPPED:
        event.kind = MANTA_SGD_SKIPPED;
        snprintf(text, sizeof text, "skipped checkpoint %s", note->skipped.which);
        break;
    case SGD_NOTE_SAVED:
        fit->saved_generation = note->saved.generation > fit->saved_generation ? note->saved.generation : fit->saved_generation;
        event.kind = MANTA_SGD_SAVED;
        snprintf(text, sizeof text, "checkpoint saved at step=%llu", step);
        break;
    case SGD_NOTE_SAVE_FAILED:
        event.kind = MANTA_SGD_SAVE_FAILED;
        snprintf(text, sizeof text, "checkpoint failed at step=%llu: %s", step, note->save_failed.why);
        break;
    default: return;
    }
    emit(fit, &event, text);
}

/* A step was completed: this one tells it first, or another where that was overwritten. */
static void note_going(struct sgd_fit *fit, const struct sgd_note *note)
{
    fit->is_apart = fit->is_apart || (note->kind == SGD_NOTE_GOING && note->going.is_apart);
    if (fit->next.state == SGD_NEXT_ORDERED && note->generation == fit->next.generation)
        fit->has_next_stepped = true; /* not everybody's word that the one before is over has come yet */
    if (note->generation != fit->generation || sgd_generation_has_stepped(fit))
        return;
    sgd_generation_stepped(fit);
    if (!fit->recovering.is_open)
        return;
    fit->recovering.is_going = true;
    fit->recovering.going_step = note->step;
    fit->recovering.going_ns = note->time_ns;
    fit->recovering.synced_ns = note->kind == SGD_NOTE_GOING ? note->going.synced_ns : 0;
    recovery_close(fit);
}

void sgd_fit_take_note(struct sgd_fit *fit, struct sgd_note *note)
{
    if (note->kind == SGD_NOTE_GOING || note->kind == SGD_NOTE_PROGRESS)
        note_going(fit, note);
    note_tell(fit, note);
}

void sgd_fit_read_notes(struct sgd_fit *fit)
{
    struct sgd_note note;
    while (sgd_board_next(sgd_board_of(fit->setup.region.data), &fit->cursor, &note))
        sgd_fit_take_note(fit, &note);
    if (fit->recovering.is_going)
        recovery_close(fit);
}

/* ---- timeline and tracking ---- */

manta_status sgd_fit_logs_open(struct sgd_fit *fit, const char *op, manta_error *e)
{
    const char  *run = fit->opts->run.name ? fit->opts->run.name : "train";
    manta_status code = sgd_timeline_open(&fit->timeline, fit->opts->run.timeline, run, e);
    if (code == MANTA_OK && fit->opts->run.tracking)
        code = sgd_track_files_open(fit->opts->run.tracking, run, &fit->tracking, e);
    fit->hook = (struct sgd_track){.hook = fit->opts->tracker, .user = fit->opts->tracker_user, .op = op, .opts = fit->opts};
    fit->files = (struct sgd_track){
        .hook = fit->tracking ? &sgd_track_to_files : NULL, .user = fit->tracking, .op = op, .opts = fit->opts};
    return code;
}

static void far_spans_take(void *user, const struct sgd_post_spans *spans, int64_t shift_ns)
{
    struct sgd_fit *fit = user;
    for (uint64_t i = 0; i < spans->count; i++)
        if ((unsigned)spans->spans[i].track < SGD_TRACKS_MAX)
            sgd_timeline_span(&fit->timeline, &spans->spans[i].span, spans->spans[i].track, shift_ns, true);
}

void sgd_fit_logs_end(struct sgd_fit *fit, manta_status code, const manta_error *error)
{
    int64_t until = mt_now_ns() + MT_TRAIN_RETURN_MS * 1000000ll;
    for (int i = 1; fit->timeline.fd >= 0 && i < 2 * SGD_PLACES_MAX; i++) /* the rest: an answer, and one more */
        sgd_place_spans(&fit->places.of[i % SGD_PLACES_MAX], fit->setup.run.trace, sgd_left_ms(until), far_spans_take, fit);
    sgd_timeline_close(&fit->timeline);
    (void)sgd_track_end(&fit->files, code, fit->result.stopped, error);
    (void)sgd_track_end(&fit->hook, code, fit->result.stopped, error);
    sgd_track_files_close(fit->tracking);
}

static int64_t row_read(struct sgd_fit *fit, const struct sgd_hand *hand)
{
    uint32_t index = (uint32_t)(hand - fit->crew.hands);
    if (hand->place != 0)
        return 0;
    return sgd_timeline_row(&fit->timeline,
                            sgd_trace_row_of(fit->setup.region.data, fit->setup.region.size, fit->setup.run.trace, index),
                            fit->setup.run.trace.tracks, &fit->spans[index], hand->state == SGD_HAND_DEAD);
}

int64_t sgd_fit_read_spans(struct sgd_fit *fit, const struct sgd_hand *dead)
{
    int64_t sign = 0;
    if (fit->timeline.fd < 0)
        return 0;
    if (dead)
        sign = row_read(fit, dead);
    else
        for (const struct sgd_hand *hand = fit->crew.hands; hand < fit->crew.hands + SGD_HANDS_MAX; hand++)
            if (hand->state == SGD_HAND_READY)
                (void)row_read(fit, hand);
    for (int i = 1; !dead && i < SGD_PLACES_MAX; i++)
        sgd_place_spans(&fit->places.of[i], fit->setup.run.trace, 0, far_spans_take, fit);
    if (!sgd_timeline_flush(&fit->timeline))
        log_failed_tell(fit, "timeline", strerror(errno));
    return sign;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - manta_sweep_run: the shell around the state machine of driver.h. Journal and actors are its world.
 *
 *   crew, journal, clock --events--> swp_driver_step --orders--> crew, journal
 *
 * Thread: the caller's; the journal has its own.
 */
#include "core/base/clock.h"
#include "sweep/run/crew.h"
#include "sweep/trial/ends.h"
#include "sweep/run/plan.h"
#include "sweep/trial/state.h"
#include "sweep/run/warm.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const manta_sweep_opts *opts;
    struct swp_plan         plan;
    struct swp_journal     *journal;
    struct swp_driver       driver;
    struct swp_crew         crew;
    struct swp_news         news;
    bool                    has_states; /* some trial may have one on the disk */
    bool                    is_done, is_broken;
    int64_t                 began_ns, ticked_ns, shown_ns, nodes_ns;
    char                    wish[MT_SWEEP_NAME_BYTES_MAX]; /* the name of what it would use beyond the nodes that there are */
    int64_t                 stop_ns;                       /* when it was told to stop; 0: it was not */
    uint64_t                ended_before;
};

/* ---- orders ---- */

static mt_status start(struct run *r, const struct swp_order *o)
{
    const struct swp_trial *t = &r->driver.trials.data[o->trial];
    mt_buf                  state = {0};
    mt_rng                  rng = swp_rng_of(r->opts->seed, (uint64_t)o->trial, 2);
    struct swp_wire         m = {.kind = SWP_WIRE_START,
                                 .trial = o->trial,
                                 .run = o->run,
                                 .flags = t->failures,
                                 .ready_seq = o->start.ready_seq,
                                 .ask_from = o->start.ask_from,
                                 .number = mt_rng_next(&rng),
                                 .text = mt_view_text(t->params)};
    if (r->has_states && swp_state_read(r->plan.folder, o->trial, &m.step, &state).code == 0)
        m.bytes = mt_buf_view(&state);
    else
        m.step = 0;
    mt_status st = swp_crew_write(&r->crew, o->slot, &m);
    mt_buf_fini(&state);
    return st;
}

static mt_status record_do(struct run *r, const struct swp_order *o)
{
    bool is_end = o->record.kind == SWP_REC_END;
    MT_TRY(swp_journal_push(r->journal, &o->record));
    if (!is_end || !r->has_states || swp_scheduler_needs_saves(r->plan.scheduler)) /* whose trials may be copied after their end */
        return mt_ok();
    return swp_journal_drop(r->journal, o->trial, r->driver.trials.data[o->trial].run);
}

static mt_status order_do(struct run *r, struct swp_order *o)
{
    switch (o->kind) {
    case SWP_ORDER_HIRE: swp_crew_hire(&r->crew, o->slot); return mt_ok();
    case SWP_ORDER_KILL: swp_crew_kill(&r->crew, o->slot); return mt_ok();
    case SWP_ORDER_START: return start(r, o);
    case SWP_ORDER_ANSWER:
        return swp_crew_write(&r->crew, o->slot,
                              &(struct swp_wire){.kind = SWP_WIRE_ANSWER,
                                                 .trial = o->trial,
                                                 .run = o->run,
                                                 .flags = (uint32_t)o->answer.decision,
                                                 .ask_from = o->answer.ask_from});
    case SWP_ORDER_RETURN: return swp_crew_write(&r->crew, o->slot, &(struct swp_wire){.kind = SWP_WIRE_RETURN});
    case SWP_ORDER_RECORD: return record_do(r, o);
    case SWP_ORDER_PUBLISH: return swp_journal_publish(r->journal, o->trial, o->run);
    case SWP_ORDER_CLONE: return swp_journal_clone(r->journal, o->trial, o->clone.from);
    case SWP_ORDER_DONE: r->is_done = true; return mt_ok();
    }
    return mt_error(MT_EINTERNAL, 0, "an order of no kind");
}

static mt_status orders_do(struct run *r)
{
    mt_status st = mt_ok();
    size_t    i = 0;
    for (; i < r->driver.orders.count && st.code == 0; i++)
        st = order_do(r, &r->driver.orders.data[i]);
    for (; i < r->driver.orders.count; i++)
        if (r->driver.orders.data[i].kind == SWP_ORDER_RECORD)
            free((char *)r->driver.orders.data[i].record.text);
    r->driver.orders.count = 0;
    return st;
}

static mt_status step(struct run *r, const struct swp_event *ev)
{
    MT_TRY(swp_driver_step(&r->driver, ev));
    return orders_do(r);
}

/* ---- events ---- */

static mt_status on_left(void *user, const struct swp_left *left)
{
    struct run *r = user;
    MT_TRY(swp_driver_fold(&r->driver, left));
    return orders_do(r);
}

/* A slot has died: ends that it could note, but not tell any more; then its death, with what it printed last. */
static mt_status slot_left(struct run *r, struct swp_event *ev)
{
    char path[SWP_ENDS_PATH_SIZE], tail[MT_TAIL_BYTES], text[MT_ERROR_BYTES_MAX + MT_SWEEP_TAIL_BYTES];
    swp_crew_ends(&r->crew, ev->slot, path);
    MT_TRY(swp_ends_read(path, ev->slot, on_left, r));
    swp_ends_tail(path, tail, sizeof tail);
    snprintf(text, sizeof text, "%s%s%s", ev->down.text ? ev->down.text : "", tail[0] ? "; it printed last: " : "", tail);
    ev->down.text = text;
    return step(r, ev);
}

/* The same of a driver that has died. In the journal first, then removed: whatever dies meanwhile, they are in one of both. */
static mt_status driver_left(struct run *r)
{
    MT_TRY(swp_ends_read_all(r->plan.folder, on_left, r));
    if (swp_journal_flush(r->journal).code == 0) /* else news_look tells */
        swp_ends_clear(r->plan.folder);
    return mt_ok();
}

static mt_status on_news_of_crew(void *user, struct swp_event *ev, mt_view state)
{
    struct run *r = user;
    if (ev->kind == SWP_EV_SLOT_DOWN)
        return slot_left(r, ev);
    if (ev->kind == SWP_EV_SAVED) {
        mt_buf bytes = {0};
        MT_TRY(mt_buf_append(&bytes, state.data, state.size));
        r->has_states = true;
        MT_TRY(swp_journal_save(r->journal, ev->trial, ev->run, ev->saved.step, &bytes));
    }
    return step(r, ev);
}

static mt_status words_look(struct run *r)
{
    for (size_t i = 0; i < r->news.words.count; i++) {
        const struct swp_word *word = &r->news.words.data[i];
        if (word->what == SWP_CONTROL_STOP && !r->stop_ns)
            r->stop_ns = mt_now_ns();
        MT_TRY(step(r, &(struct swp_event){.kind = SWP_EV_CONTROL, .now_ns = mt_now_ns(), .control = {word->what, word->value}}));
        MT_TRY(swp_journal_heeded(r->journal, word->id));
    }
    return mt_ok();
}

/* A sweep waits for room as long as it may; who stops it does not want to wait for that. */
static mt_status room_look(struct run *r, int64_t now_ns)
{
    if (r->news.is_full && r->stop_ns && now_ns - r->stop_ns > MT_SWEEP_ROOM_LEAVE_MS * 1000000ll)
        swp_journal_give_up(r->journal);
    if (r->news.is_full == r->driver.is_full)
        return mt_ok();
    snprintf(r->driver.message, sizeof r->driver.message, "%.300s: %s", r->plan.folder,
             r->news.is_full ? "the disk is full: make room; until then nothing is begun, and what is reported waits"
                             : "there is room again, and all of it is written");
    return step(r, &(struct swp_event){.kind = SWP_EV_ROOM, .now_ns = now_ns, .trial = -1, .room = {!r->news.is_full}});
}

/* So much waits for the disk that trials are to wait with what they say. Not at the end, when they are killed. */
static mt_status hold_look(struct run *r, int64_t now_ns)
{
    bool holds = r->news.is_behind && r->driver.state == SWP_DRIVER_OPEN;
    if (holds == r->driver.is_held)
        return mt_ok();
    return step(r, &(struct swp_event){.kind = SWP_EV_HOLD, .now_ns = now_ns, .trial = -1, .hold = {holds}});
}

static mt_status news_look(struct run *r)
{
    struct swp_event ev = {.now_ns = mt_now_ns(), .trial = -1};
    swp_journal_news(r->journal, &r->news);
    if (r->news.durable > r->driver.durable) {
        ev.kind = SWP_EV_DURABLE;
        ev.durable.seq = r->news.durable;
        MT_TRY(step(r, &ev));
    }
    for (size_t i = 0; i < r->news.copies.count; i++) {
        ev.kind = SWP_EV_CLONED;
        ev.trial = r->news.copies.data[i].trial;
        ev.cloned.is_done = r->news.copies.data[i].is_done;
        MT_TRY(step(r, &ev));
    }
    MT_TRY(words_look(r));
    MT_TRY(room_look(r, ev.now_ns));
    MT_TRY(hold_look(r, ev.now_ns));
    if (r->news.failed.code == 0 || r->is_broken)
        return mt_ok();
    r->is_broken = true;
    ev.kind = SWP_EV_BROKEN;
    ev.broken.code = r->news.failed.code;
    ev.broken.text = swp_journal_text(r->journal);
    return step(r, &ev);
}

/* Where the user has named no number, there are as many slots as the nodes have room for, and for what waits beyond that the
 * cluster may grow. What is wished for goes down before a slot is hired on what has come. */
static mt_status nodes_look(struct run *r, int64_t now_ns)
{
    mt_status st;
    if (r->driver.state != SWP_DRIVER_OPEN || now_ns - r->nodes_ns < MT_SWEEP_NODES_MS * 1000000ll)
        return mt_ok();
    r->nodes_ns = now_ns;
    int room = swp_crew_nodes(&r->crew, r->opts, on_news_of_crew, r, &st);
    if (st.code || room < 0 || !r->plan.config.slots_max)
        return st;
    int waiting = swp_driver_waiting(&r->driver), live = r->driver.live - r->driver.leaving, more = room > live ? room - live : 0;
    swp_crew_wish(&r->crew, r->wish, waiting > more ? waiting - more : 0, room);
    if (room == r->driver.room && r->driver.leaving == 0)
        return mt_ok();
    st = step(r, &(struct swp_event){.kind = SWP_EV_NODES, .now_ns = now_ns, .trial = -1, .nodes = {room}});
    r->crew.count = r->driver.config.slots;
    return st;
}

/* ---- what is shown ---- */

/* The trials that run. Returns how many. */
static int rows_fill(const struct swp_driver *d, manta_sweep_row rows[MANTA_SWEEP_ROWS_MAX], int64_t now_ns)
{
    int count = 0;
    for (int i = 0; i < d->config.slots && count < MANTA_SWEEP_ROWS_MAX; i++) {
        const struct swp_slot *slot = &d->slots[i];
        if (slot->count == 0)
            continue;
        const struct swp_trial *t = &d->trials.data[slot->queue[0]];
        rows[count++] = (manta_sweep_row){.trial = slot->queue[0],
                                          .state = t->failures ? "retried" : "running",
                                          .params = t->params,
                                          .has_value = t->has_value,
                                          .value = t->value,
                                          .step = t->step,
                                          .seconds = (double)(now_ns - slot->began_ns) * 1e-9};
    }
    return count;
}

static void progress_show(struct run *r, int64_t now_ns, bool is_last)
{
    const struct swp_driver *d = &r->driver;
    manta_sweep_row          rows[MANTA_SWEEP_ROWS_MAX];
    if (!r->opts->progress || (!is_last && now_ns - r->shown_ns < MT_SWEEP_SHOW_MS * 1000000ll))
        return;
    uint64_t limit = swp_driver_limit(d);
    int      busy = 0;
    for (int i = 0; i < d->config.slots; i++)
        busy += d->slots[i].count > 0;
    manta_sweep_progress p = {.trials = limit == UINT64_MAX ? 0 : (int64_t)(limit - d->dropped),
                              .running = busy,
                              .waiting = (int64_t)(d->ready.count - d->ready_head) + (int64_t)d->running - busy,
                              .paused = (int64_t)d->paused,
                              .completed = (int64_t)d->completed,
                              .stopped = (int64_t)d->pruned,
                              .failed = (int64_t)d->failed,
                              .retried = (int64_t)d->retried,
                              .reports = (int64_t)d->reports,
                              .slots = d->up,
                              .seconds = (double)(now_ns - r->began_ns) * 1e-9,
                              .has_best = d->best_trial >= 0,
                              .best = d->best,
                              .best_trial = d->best_trial,
                              .message = d->message[0] ? d->message : NULL,
                              .rows = rows,
                              .row_count = rows_fill(d, rows, now_ns)};
    if (p.has_best)
        p.best_params = d->trials.data[d->best_trial].params;
    r->shown_ns = now_ns;
    bool stops = r->opts->progress(r->opts->user, &p);
    if (stops && !r->stop_ns)
        r->stop_ns = now_ns;
    if (stops && d->state == SWP_DRIVER_OPEN)
        (void)!step(r, &(struct swp_event){.kind = SWP_EV_CONTROL, .now_ns = now_ns, .control = {SWP_CONTROL_STOP, 0}}).code;
    r->driver.message[0] = 0;
}

static mt_status loop(struct run *r)
{
    mt_status st = mt_ok();
    while (st.code == 0 && !r->is_done) {
        bool waits = swp_driver_waits_for_disk(&r->driver);
        st = swp_crew_send(&r->crew, on_news_of_crew, r);
        if (r->driver.is_held)
            mt_sleep_ms(r->news.is_full ? MT_SWEEP_ROOM_MS : MT_SWEEP_DISK_LOOK_MS);
        else if (st.code == 0)
            st = swp_crew_look(&r->crew, waits ? MT_SWEEP_DISK_LOOK_MS : MT_SWEEP_TICK_MS, on_news_of_crew, r);
        int64_t now = mt_now_ns();
        if (st.code == 0)
            st = news_look(r);
        if (st.code == 0)
            st = nodes_look(r, now);
        if (st.code == 0 && now - r->ticked_ns > MT_SWEEP_TICK_MS * 1000000ll) {
            r->ticked_ns = now;
            st = step(r, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = now});
        }
        progress_show(r, now, false);
    }
    return st;
}

/* ---- beginning ---- */

static mt_status on_record(void *user, const struct swp_record *record)
{
    struct run *r = user;
    return swp_driver_replay(&r->driver, record);
}

static bool folder_has_states(const char *folder)
{
    char path[MT_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/state", folder);
    DIR           *dir = opendir(path);
    struct dirent *entry;
    bool           has = false;
    while (dir && !has && (entry = readdir(dir)))
        has = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return has;
}

static manta_status fail_status(struct run *r, mt_status st, manta_error *e)
{
    const char *texts[] = {r->driver.text, r->crew.text, r->journal ? swp_journal_text(r->journal) : "",
                           r->plan.ask ? swp_ask_text(r->plan.ask) : "", st.what ? st.what : mt_code_text(st.code)};
    int         i = 0;
    while (!texts[i][0] && i + 1 < (int)(sizeof texts / sizeof texts[0])) /* who knows more comes first */
        i++;
    return swp_fail(e, st.code, "%s", texts[i]);
}

static manta_status journal_take(struct run *r, manta_error *e)
{
    char      text[MT_ERROR_BYTES_MAX];
    mt_status st = swp_journal_open(r->plan.folder, true, false, &r->journal, text);
    if (st.code)
        return swp_fail(e, st.code, "%s", text);
    manta_status code = swp_plan_check(&r->plan, r->opts, r->journal, e);
    if (code != MANTA_OK)
        return code;
    snprintf(text, sizeof text, "%lld", (long long)r->opts->trials);
    st = swp_journal_set(r->journal, "trials", text);
    code = st.code ? fail_status(r, st, e) : swp_warm_start(&r->plan, r->opts, e);
    if (code != MANTA_OK)
        return code;
    st = swp_driver_init(&r->driver, &r->plan.config);
    if (st.code == 0)
        st = swp_journal_read(r->journal, on_record, r);
    r->ended_before = r->driver.completed + r->driver.pruned + r->driver.failed;
    r->has_states = folder_has_states(r->plan.folder);
    if (st.code == 0)
        st = swp_journal_start(r->journal);
    return st.code ? fail_status(r, st, e) : MANTA_OK;
}

/* Trials that have ended, or have begun and are open. */
static int64_t trials_begun(const struct swp_driver *d)
{
    int64_t begun = (int64_t)(d->completed + d->pruned + d->failed);
    for (size_t i = 0; i < d->trials.count; i++) {
        const struct swp_trial *t = &d->trials.data[i];
        begun += t->state != SWP_TRIAL_ENDED && (t->has_value || t->failures > 0);
    }
    return begun;
}

static void result_fill(const struct run *r, manta_sweep_result *out)
{
    const struct swp_driver *d = &r->driver;
    *out = (manta_sweep_result){.has_best = d->best_trial >= 0,
                                .best = d->best,
                                .best_trial = d->best_trial,
                                .best_step = d->best_step,
                                .trials = trials_begun(d),
                                .completed = (int64_t)d->completed,
                                .stopped = (int64_t)d->pruned,
                                .failed = (int64_t)d->failed,
                                .retried = (int64_t)d->retried,
                                .reports = (int64_t)d->reports,
                                .finished_before = (int64_t)r->ended_before,
                                .seconds = (double)(mt_now_ns() - r->began_ns) * 1e-9,
                                .is_stopped = d->completed + d->pruned + d->failed + d->dropped < swp_driver_limit(d)};
    if (out->has_best)
        snprintf(out->params_json, sizeof out->params_json, "%s", d->trials.data[d->best_trial].params);
}

static manta_status sweep(struct run *r, manta_sweep_result *out, manta_error *e)
{
    const struct swp_driver_config *c = &r->plan.config;
    const char                     *last = strrchr(r->plan.folder, '/');
    snprintf(r->wish, sizeof r->wish, "sweep %.50s", last ? last + 1 : r->plan.folder);
    mt_status st = swp_crew_init(&r->crew, c->slots, c->slots_max ? c->slots_max : c->slots, r->plan.trial, r->opts,
                                 r->plan.folder);
    if (st.code == 0)
        st = driver_left(r);
    if (st.code == 0)
        st = swp_driver_open(&r->driver, mt_now_ns());
    if (st.code == 0)
        st = news_look(r);
    if (st.code == 0)
        st = step(r, &(struct swp_event){.kind = SWP_EV_TICK, .now_ns = mt_now_ns(), .trial = -1});
    if (st.code == 0)
        st = loop(r);
    progress_show(r, mt_now_ns(), true);
    if (st.code == 0)
        st = r->driver.error;
    if (st.code == 0)
        swp_ends_clear(r->plan.folder);
    if (c->slots_max)
        swp_crew_wish(&r->crew, r->wish, 0, r->driver.room);
    result_fill(r, out);
    if (st.code == 0 && out->failed > 0 && out->completed + out->stopped == 0) {
        st = mt_error(MT_ETASK, 0, "all failed");
        snprintf(r->driver.text, sizeof r->driver.text, "no trial of %lld came to an end; %.400s", (long long)out->failed,
                 r->driver.first_failure);
    }
    return st.code ? fail_status(r, st, e) : MANTA_OK;
}

manta_status manta_sweep_run(const char *trial, const manta_sweep_opts *opts, manta_sweep_result *out, manta_error *e)
{
    static const manta_sweep_opts none;
    manta_sweep_result            unread;
    manta_error                   unread_error;
    struct run                   *r = calloc(1, sizeof *r);
    e = e ? e : &unread_error;
    out = out ? out : &unread;
    *out = (manta_sweep_result){.best_trial = -1};
    const char *inlined = getenv("MANTA_INLINE");
    if (inlined && strcmp(inlined, "1") == 0) {
        free(r);
        return swp_fail(e, MANTA_EUNSUPPORTED, "MANTA_INLINE=1: trials need processes of their own; unset it for a sweep");
    }
    if (!r)
        return swp_fail(e, MANTA_ENOMEM, "no memory for a sweep");
    r->opts = opts ? opts : &none;
    r->began_ns = mt_now_ns();
    manta_status code = swp_plan_make(&r->plan, trial, r->opts, e);
    if (code == MANTA_OK) { /* asked in any case: a libmanta that can't be used says so here, before there is a journal */
        int room = swp_crew_room(r->opts, e);
        r->plan.config.slots = r->opts->concurrency ? r->opts->concurrency : room;
        r->plan.config.slots_max = r->opts->concurrency ? 0 : MT_SWEEP_SLOTS_MAX;
        code = room < 0 ? -room : journal_take(r, e);
    }
    if (code == MANTA_OK)
        code = sweep(r, out, e);
    swp_crew_fini(&r->crew);
    swp_journal_close(r->journal);
    swp_driver_fini(&r->driver);
    swp_plan_fini(&r->plan);
    mt_vec_fini(&r->news.copies);
    mt_vec_fini(&r->news.words);
    free(r);
    return code;
}

manta_status manta_sweep_tell(const char *storage, const char *name, int what, int64_t value, manta_error *e)
{
    char        folder[MT_PATH_BYTES_MAX], text[MT_ERROR_BYTES_MAX];
    manta_error unread;
    e = e ? e : &unread;
    manta_status code = swp_folder_of(storage, name, folder, e);
    if (code != MANTA_OK)
        return code;
    if (what < MANTA_SWEEP_STOP || what > MANTA_SWEEP_TIME)
        return swp_fail(e, MANTA_EINVAL, "there is no word %d for a sweep", what);
    mt_status st = swp_journal_tell(folder, what, value, text);
    if (st.code == MT_ENOENT)
        return swp_fail(e, MANTA_ENOENT, "there is no sweep \"%.80s\" (%.300s)", name ? name : "sweep", folder);
    return st.code ? swp_fail(e, st.code, "%s", text) : MANTA_OK;
}

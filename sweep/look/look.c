/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - a sweep read from its journal, for who wants to see it: manta_sweep_look and what it is the ground of.
 *
 * Owns: the view and all it points to. Thread: any.
 */
#include "sweep/look/look.h"

#include "core/ds/living.h"
#include "sweep/journal/folder.h"
#include "sweep/journal/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static struct mt_living living = MT_LIVING_INIT;

manta_status swp_view_check(const manta_sweep_view *view, const char *call, manta_error *e)
{
    if (mt_living_has(&living, view))
        return MANTA_OK;
    return swp_fail(e, MANTA_EHANDLE, "%s: this view was freed before, or manta_sweep_look never gave it", call);
}

static mt_status text_keep(struct swp_look *look, const char *text, const char **out)
{
    char *copy = strdup(text);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "read a sweep");
    *out = copy;
    mt_status st = mt_vec_push(&look->texts, copy);
    if (st.code)
        free(copy);
    return st;
}

static mt_status on_suggest(struct swp_look *look, const struct swp_record *r)
{
    manta_sweep_trial t = {.number = r->trial, .state = "open", .drawn_s = r->at, .value = (double)NAN};
    MT_TRY(text_keep(look, r->text ? r->text : "{}", &t.params));
    return mt_vec_push(&look->trials, t);
}

static mt_status on_end(struct swp_look *look, const struct swp_record *r, manta_sweep_trial *t)
{
    static const char *const states[] = {
        [SWP_COMPLETE] = "completed", [SWP_PRUNED] = "stopped", [SWP_FAILED] = "failed", [SWP_DROPPED] = "dropped"};
    t->state = r->code >= 0 && r->code <= SWP_DROPPED ? states[r->code] : "failed";
    t->ended_s = r->at;
    look->view.completed += r->code == SWP_COMPLETE;
    look->view.stopped += r->code == SWP_PRUNED;
    look->view.failed += r->code == SWP_FAILED;
    bool counts = r->code <= SWP_PRUNED && t->has_value, is_max = strcmp(look->view.mode, "max") == 0;
    if (counts && (look->view.best < 0 || (is_max ? t->value > look->best : t->value < look->best))) {
        look->view.best = t->number;
        look->best = t->value;
    }
    return r->text ? text_keep(look, r->text, &t->why) : mt_ok();
}

/* PBT: the trial has become a copy of another. Where that stood shows when the copy goes on. */
static mt_status on_clone(struct swp_look *look, const struct swp_record *r, manta_sweep_trial *t)
{
    manta_sweep_copy copy = {
        .trial = r->trial, .from = r->step, .at_s = r->at, .step = t->step, .from_step = -1, .before = t->params};
    if (!r->code || !r->text)
        return mt_ok();
    MT_TRY(text_keep(look, r->text, &t->params));
    copy.after = t->params;
    return mt_vec_push(&look->copies, copy);
}

/* The newest step of a trial below `before`. */
static int64_t step_below(const struct swp_look *look, int64_t trial, int64_t before)
{
    for (size_t i = look->reports.count; i-- > 0;) {
        const manta_sweep_report *r = &look->reports.data[i];
        if (r->trial == trial && !r->metric && r->step < before)
            return r->step;
    }
    return 0;
}

static void copy_goes_on(struct swp_look *look, const struct swp_record *r)
{
    for (size_t i = look->copies.count; i-- > 0;) {
        manta_sweep_copy *copy = &look->copies.data[i];
        if (copy->trial != r->trial)
            continue;
        if (copy->from_step < 0)
            copy->from_step = step_below(look, copy->from, r->step);
        return;
    }
}

static mt_status on_report(struct swp_look *look, const struct swp_record *r, manta_sweep_trial *t)
{
    manta_sweep_report report = {.trial = r->trial, .step = r->step, .at_s = r->at, .value = r->value};
    if (r->text) {
        MT_TRY(text_keep(look, r->text, &report.metric));
    } else {
        copy_goes_on(look, r);
        t->has_value = true;
        t->value = r->value;
        t->step = r->step;
        t->reports++;
    }
    return mt_vec_push(&look->reports, report);
}

static mt_status on_record(void *user, const struct swp_record *r)
{
    struct swp_look *look = user;
    look->view.seconds = r->at > look->view.seconds ? r->at : look->view.seconds;
    look->view.drivers += r->kind == SWP_REC_OPEN;
    if (r->kind == SWP_REC_SUGGEST && r->trial == (int64_t)look->trials.count)
        return on_suggest(look, r);
    if (r->kind == SWP_REC_CONTROL && r->code == SWP_CONTROL_TRIALS)
        look->view.wanted = r->step;
    if (r->kind == SWP_REC_CONTROL && (r->code == SWP_CONTROL_OVER || r->code == SWP_CONTROL_TIME))
        look->is_over = r->code == SWP_CONTROL_OVER;
    if (r->kind == SWP_REC_OPEN || (r->kind == SWP_REC_CONTROL && r->code == SWP_CONTROL_STOP))
        look->is_stopped = r->kind == SWP_REC_CONTROL;
    if (r->trial < 0 || r->trial >= (int64_t)look->trials.count)
        return mt_ok();
    manta_sweep_trial *t = &look->trials.data[r->trial];
    switch (r->kind) {
    case SWP_REC_REPORT: return on_report(look, r, t);
    case SWP_REC_FAIL:
        t->retries++;
        look->view.retried++;
        return mt_ok();
    case SWP_REC_CLONE: return on_clone(look, r, t);
    case SWP_REC_END: return on_end(look, r, t);
    default: return mt_ok();
    }
}

static mt_status setting(struct swp_look *look, struct swp_journal *j, const char *key, const char **out)
{
    mt_buf    text = {0};
    mt_status st = swp_journal_get(j, key, &text);
    if (st.code == 0)
        st = text_keep(look, (const char *)text.data, out);
    mt_buf_fini(&text);
    return st;
}

static mt_status look_read(struct swp_look *look, struct swp_journal *j, const char *name)
{
    const char *wanted = "";
    look->view.best = -1;
    MT_TRY(text_keep(look, name, &look->view.name));
    MT_TRY(setting(look, j, "trials", &wanted));
    look->view.wanted = strtoll(wanted, NULL, 10);
    MT_TRY(setting(look, j, "metric", &look->view.metric));
    MT_TRY(setting(look, j, "mode", &look->view.mode));
    MT_TRY(setting(look, j, "sampler", &look->view.sampler));
    MT_TRY(setting(look, j, "scheduler", &look->view.scheduler));
    MT_TRY(setting(look, j, "seed", &look->view.seed));
    MT_TRY(setting(look, j, "trial", &look->view.trial));
    MT_TRY(setting(look, j, "space", &look->view.space));
    MT_TRY(setting(look, j, "importance", &look->view.importance));
    if (!look->view.importance[0])
        look->view.importance = "fanova";
    MT_TRY(swp_journal_read(j, on_record, look));
    look->view.trials = look->trials.data;
    look->view.count = (int64_t)look->trials.count;
    look->view.reports = look->reports.data;
    look->view.report_count = (int64_t)look->reports.count;
    look->view.copies = look->copies.data;
    look->view.copy_count = (int64_t)look->copies.count;
    for (size_t i = 0; i < look->copies.count; i++)
        if (look->copies.data[i].from_step < 0)
            look->copies.data[i].from_step = step_below(look, look->copies.data[i].from, INT64_MAX);
    return mt_ok();
}

static const char *state_of(const struct swp_look *look)
{
    int64_t open = 0;
    for (size_t i = 0; i < look->trials.count; i++)
        open += strcmp(look->trials.data[i].state, "open") == 0;
    bool is_done = !open && look->trials.count;
    if (look->view.is_running)
        return "running";
    return look->is_over || (look->is_stopped && !is_done) ? "stopped" : is_done ? "done" : "unfinished";
}

static bool is_locked(const char *folder)
{
    char path[MT_PATH_BYTES_MAX + 8];
    snprintf(path, sizeof path, "%s/lock", folder);
    int  fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    return is_held;
}

manta_sweep_view *manta_sweep_look(const char *storage, const char *name, manta_error *e)
{
    char                folder[MT_PATH_BYTES_MAX], text[MT_ERROR_BYTES_MAX];
    manta_error         unread;
    struct swp_journal *j = NULL;
    struct swp_look    *look = mt_living_new(&living, sizeof *look);
    e = e ? e : &unread;
    if (!look) {
        swp_fail(e, MANTA_ENOMEM, "no memory");
        return NULL;
    }
    if (swp_folder_of(storage, name, folder, e) != MANTA_OK) {
        manta_sweep_view_free(&look->view);
        return NULL;
    }
    mt_status st = swp_journal_open(folder, false, true, &j, text);
    if (st.code == 0) {
        st = look_read(look, j, name ? name : "sweep");
        snprintf(text, sizeof text, "%s", swp_journal_text(j)[0] ? swp_journal_text(j) : mt_code_text(st.code));
        look->view.is_running = is_locked(folder);
        look->view.state = state_of(look);
        swp_journal_close(j);
    }
    if (st.code == 0)
        return &look->view;
    if (st.code == MT_ENOENT)
        swp_fail(e, MANTA_ENOENT, "there is no sweep \"%.80s\" (%.300s)", name ? name : "sweep", folder);
    else
        swp_fail(e, st.code, "%s", text);
    manta_sweep_view_free(&look->view);
    return NULL;
}

void manta_sweep_view_free(manta_sweep_view *view)
{
    if (!mt_living_remove(&living, view))
        return;
    struct swp_look *look = mt_container_of(view, struct swp_look, view);
    for (size_t i = 0; i < look->texts.count; i++)
        free(look->texts.data[i]);
    mt_vec_fini(&look->texts);
    mt_vec_fini(&look->trials);
    mt_vec_fini(&look->reports);
    mt_vec_fini(&look->copies);
    mt_living_free(&living, look);
}

int manta_sweep_names(const char *storage, int (*fn)(void *user, const char *name), void *user)
{
    char            folder[MT_PATH_BYTES_MAX], path[MT_PATH_BYTES_MAX + 300];
    manta_error     e;
    struct dirent **entries = NULL;
    int             found = 0, is_over = 0;
    if (swp_folder_of(storage, "x", folder, &e) != MANTA_OK)
        return 0;
    folder[strlen(folder) - 2] = 0;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s/journal.db", folder, entries[i]->d_name);
        if (!is_over && entries[i]->d_name[0] != '.' && access(path, F_OK) == 0) {
            found++;
            is_over = fn(user, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return found;
}

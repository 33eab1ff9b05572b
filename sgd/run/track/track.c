/* SPDX-License-Identifier: Apache-2.0
 *
 * track.c - a run's events in the words of a tracking service. Owns: nothing. Thread: the one that trains.
 */
#include "sgd/run/track/track.h"

#include "core/base/buf.h"
#include "core/base/limits/text.h"
#include "sgd/run/detach.h"
#include "sgd/run/setup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The hook is not called again once it has failed. */
static bool judge(struct sgd_track *t, int failed)
{
    if (failed)
        t->hook = NULL;
    return !failed;
}

/* ---- parameters ---- */

struct list {
    mt_buf    text; /* name, value, name, ...; each with its end */
    size_t    count;
    mt_status st;
};

static void list_add(void *user, const char *name, const char *value)
{
    struct list *list = user;
    if (list->st.code == 0)
        list->st = mt_buf_append(&list->text, name, strlen(name) + 1);
    if (list->st.code == 0)
        list->st = mt_buf_append(&list->text, value, strlen(value) + 1);
    list->count++;
}

/* 0, or what the hook says. */
static int params_tell(struct sgd_track *t)
{
    struct list    list = {.count = 0};
    const char   **names = NULL;
    int            failed = 1;
    manta_sgd_opts all;
    sgd_opts_resolve(t->opts, &all);
    sgd_opts_each(t->op, &all, list_add, &list);
    if (list.st.code == 0 && (names = calloc(2 * list.count, sizeof *names))) {
        const char *at = (const char *)list.text.data;
        for (size_t i = 0; i < list.count; i++) {
            names[i] = at;
            at += strlen(at) + 1;
            names[list.count + i] = at;
            at += strlen(at) + 1;
        }
        failed = t->hook->params(t->user, (int)list.count, names, names + list.count);
    }
    free(names);
    mt_buf_fini(&list.text);
    return failed;
}

static int begin_tell(struct sgd_track *t, int64_t from)
{
    bool is_first = !t->has_begun;
    t->has_begun = true;
    int failed = t->hook->begin ? t->hook->begin(t->user, t->opts->run.name ? t->opts->run.name : "train", from) : 0;
    return failed || !is_first || !t->hook->params ? failed : params_tell(t);
}

/* ---- metrics and artifacts ---- */

static int metrics_tell(struct sgd_track *t, const manta_sgd_event *event)
{
    enum { MORE = 4 };
    char        names[MANTA_SGD_METRICS_MAX + MORE][MT_NAME_BYTES_MAX + 16];
    const char *pointers[MANTA_SGD_METRICS_MAX + MORE];
    double      values[MANTA_SGD_METRICS_MAX + MORE];
    int         count = 0;
    bool        is_step = event->kind == MANTA_SGD_STEP;
    for (int i = 0; i < event->metrics && i < MANTA_SGD_METRICS_MAX; i++, count++) {
        snprintf(names[count], sizeof *names, "%s/%s", is_step ? "train" : "validate", event->names[i]);
        values[count] = event->values[i];
    }
    if (is_step) {
        snprintf(names[count], sizeof *names, "train/lr");
        values[count++] = event->lr;
    }
    if (is_step && event->samples_per_s > 0) {
        snprintf(names[count], sizeof *names, "train/samples_per_s");
        values[count++] = event->samples_per_s;
        snprintf(names[count], sizeof *names, "train/data_wait");
        values[count++] = event->data_wait;
    }
    if (event->recovery) {
        snprintf(names[count], sizeof *names, "recovery/seconds");
        values[count++] = event->recovery->total_s;
    }
    for (int i = 0; i < count; i++)
        pointers[i] = names[i];
    return t->hook->metrics ? t->hook->metrics(t->user, event->step, count, pointers, values) : 0;
}

static int artifact_tell(struct sgd_track *t, const char *name, const char *path)
{
    char *whole = realpath(path, NULL);
    int   failed = whole && t->hook->artifact ? t->hook->artifact(t->user, name, whole) : 0;
    free(whole);
    return failed;
}

/* Its folder may be gone again by now: then it is not told. */
static int checkpoint_tell(struct sgd_track *t, int64_t step)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s/step-%020lld", t->opts->run.storage, t->opts->run.name ? t->opts->run.name : "train",
                     (long long)step);
    return n > 0 && (size_t)n < sizeof path ? artifact_tell(t, "checkpoint", path) : 0;
}

bool sgd_track_event(struct sgd_track *t, const manta_sgd_event *event)
{
    bool is_measured = event->kind == MANTA_SGD_STEP || event->kind == MANTA_SGD_VALIDATED || event->kind == MANTA_SGD_RECOVERED;
    int  failed = 0;
    if (!t->hook)
        return true;
    t->step = event->step >= 0 ? event->step : t->step;
    if (event->kind == MANTA_SGD_BEGUN)
        return judge(t, begin_tell(t, event->step));
    if (is_measured && !t->has_begun) /* who follows a detached run late has missed it */
        failed = begin_tell(t, event->step - 1);
    if (!failed && is_measured)
        failed = metrics_tell(t, event);
    if (!failed && event->kind == MANTA_SGD_SAVED && t->has_begun && t->opts->run.storage)
        failed = checkpoint_tell(t, event->step);
    return judge(t, failed);
}

bool sgd_track_end(struct sgd_track *t, manta_status code, bool is_stopped, const manta_error *error)
{
    int failed = 0;
    if (!t->hook || !t->has_begun)
        return true;
    if (t->opts->run.timeline)
        failed = artifact_tell(t, "timeline", t->opts->run.timeline);
    if (!failed && t->hook->end)
        failed = t->hook->end(t->user,
                              code != MANTA_OK ? "failed"
                              : is_stopped     ? "stopped"
                                               : "finished",
                              t->step, code != MANTA_OK ? error->message : NULL);
    return judge(t, failed);
}

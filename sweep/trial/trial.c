/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - what a trial function may ask and say: the manta_trial_ calls.
 *
 * Thread: that which runs the trial; manta_trial_report and _save any.
 */
#include "sweep/trial/trial.h"

#include "core/base/real.h"
#include "core/ds/living.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

static struct mt_living living = MT_LIVING_INIT;

manta_trial *swp_trial_new(void)
{
    return mt_living_new(&living, sizeof(manta_trial));
}

void swp_trial_free(manta_trial *t)
{
    mt_living_free(&living, t);
}

/* Where a public call enters. NULL, and what is no trial or is one no more, becomes a trial of nothing, without parameters or a
 * slot, which nothing is written to: it has failed. */
static const manta_trial *taken(const manta_trial *t)
{
    static const manta_trial nothing = {.params = "{}", .has_failed = true};
    return mt_living_has(&living, t) ? t : &nothing;
}

/* What a call that takes no such trial gives. */
static manta_status misuse_of(const manta_trial *t)
{
    return !t ? MANTA_EINVAL : taken(t) != t ? MANTA_EHANDLE : MANTA_OK;
}

void swp_trial_fault(manta_trial *t, bool is_final, const char *format, ...)
{
    va_list args;
    if (taken(t)->has_failed)
        return;
    t->has_failed = true;
    t->is_final = is_final;
    va_start(args, format);
    vsnprintf(t->why, sizeof t->why, format, args);
    va_end(args);
}

manta_status manta_trial_fail(manta_trial *t, const char *format, ...)
{
    char    text[MT_ERROR_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    swp_trial_fault(t, false, "%s", text);
    return misuse_of(t) ? misuse_of(t) : MANTA_ETASK;
}

/* ---- parameters ---- */

static const struct swp_value *value_find(const manta_trial *t, const char *name)
{
    for (size_t i = 0; i < taken(t)->values.count; i++)
        if (strcmp(t->values.data[i].name, name) == 0)
            return &t->values.data[i];
    return NULL;
}

static const struct swp_value *value_of(manta_trial *t, const char *name)
{
    const struct swp_value *v = value_find(t, name);
    if (!v)
        swp_trial_fault(t, true, "it asks for the parameter \"%.60s\", which this trial does not have: %.300s", name,
                        manta_trial_params(t));
    return v;
}

/* A number, or a text that reads as one. */
static bool number_of(const struct swp_value *v, double *out)
{
    char *end;
    switch (v->literal.kind) {
    case MT_LITERAL_INT:
    case MT_LITERAL_BOOL: *out = (double)v->literal.integer; return true;
    case MT_LITERAL_REAL: *out = v->literal.real; return true;
    case MT_LITERAL_TEXT: *out = mt_real_read(v->text, &end); return end != v->text && *end == 0;
    case MT_LITERAL_NULL: break;
    }
    return false;
}

double manta_trial_f64(manta_trial *t, const char *name)
{
    const struct swp_value *v = value_of(t, name);
    double                  number = 0;
    if (v && !number_of(v, &number))
        swp_trial_fault(t, true, "the parameter \"%.60s\" is \"%.100s\", which is no number", name, v->text);
    return number;
}

int64_t manta_trial_i64(manta_trial *t, const char *name)
{
    const struct swp_value *v = value_of(t, name);
    double                  number = 0;
    if (!v)
        return 0;
    if (v->literal.kind == MT_LITERAL_INT || v->literal.kind == MT_LITERAL_BOOL)
        return v->literal.integer;
    if (number_of(v, &number) && number == floor(number) && fabs(number) < 0x1p62)
        return (int64_t)number;
    swp_trial_fault(t, true, "the parameter \"%.60s\" is %.100s, which is no whole number", name, v->text);
    return 0;
}

const char *manta_trial_str(manta_trial *t, const char *name)
{
    const struct swp_value *v = value_of(t, name);
    return v ? v->text : "";
}

bool manta_trial_has(const manta_trial *t, const char *name)
{
    return value_find(t, name) != NULL;
}

const char *manta_trial_params(const manta_trial *t)
{
    return taken(t)->params;
}
int64_t manta_trial_number(const manta_trial *t)
{
    return taken(t)->number;
}
int manta_trial_attempt(const manta_trial *t)
{
    return taken(t)->attempt;
}
uint64_t manta_trial_seed(const manta_trial *t)
{
    return taken(t)->seed;
}

/* ---- reports ---- */

/* Waits for the driver's word on a report. It ends with this process's life where the driver's does. */
static void answer_wait(struct swp_slot_side *slot)
{
    pthread_mutex_lock(&slot->mutex);
    while (!slot->has_answer && !slot->is_stopped)
        pthread_cond_wait(&slot->answered, &slot->mutex);
    pthread_mutex_unlock(&slot->mutex);
}

int manta_trial_report(manta_trial *t, int64_t step, const char *metric, double value)
{
    if (misuse_of(t))
        return MANTA_TRIAL_STOP;
    struct swp_slot_side *slot = t->slot;
    bool                  is_it = metric && strcmp(metric, slot->setup.metric) == 0, is_asked = false;
    struct swp_wire       m = {.kind = SWP_WIRE_REPORT, .trial = t->number, .run = t->run, .step = step};
    memcpy(&m.number, &value, sizeof value);
    if (step < 0) {
        swp_trial_fault(t, true, "it reports step %" PRId64 ": steps begin at 0", step);
        return MANTA_TRIAL_STOP;
    }
    if (is_it)
        t->has_reported = true;
    else
        snprintf(t->other, sizeof t->other, "%s", metric ? metric : "");
    if (!is_it)
        m.text = mt_view_text(t->other);
    if (is_it) {
        pthread_mutex_lock(&slot->mutex);
        is_asked = step >= slot->ask_from;
        slot->has_answer = false;
        pthread_mutex_unlock(&slot->mutex);
    }
    m.flags = is_asked;
    swp_slot_say(slot, &m, is_asked);
    if (is_asked)
        answer_wait(slot);
    return swp_slot_is_stopped(slot) ? MANTA_TRIAL_STOP : MANTA_TRIAL_CONTINUE;
}

/* ---- state ---- */

manta_status manta_trial_save(manta_trial *t, int64_t step, const void *data, size_t size)
{
    if (misuse_of(t))
        return misuse_of(t);
    struct swp_wire m = {.kind = SWP_WIRE_SAVED, .trial = t->number, .run = t->run, .step = step};
    if (step < 0 || size > INT32_MAX || (size && !data))
        return MANTA_EINVAL;
    m.bytes = mt_view_of(data, size);
    swp_slot_say(t->slot, &m, false);
    return MANTA_OK;
}

const void *manta_trial_state(manta_trial *t, size_t *out_size, int64_t *out_step)
{
    const manta_trial *of = taken(t);
    *out_size = of->state.size;
    *out_step = of->state_step;
    return of->state_step > 0 ? of->state.data : NULL;
}

int64_t manta_trial_load(manta_trial *t, void *data, size_t size)
{
    if (taken(t)->state_step == 0)
        return 0;
    if (t->state.size != size) {
        swp_trial_fault(t, true, "its state has %zu bytes where %zu are asked for: another version of the program saved it",
                        t->state.size, size);
        return 0;
    }
    memcpy(data, t->state.data, size);
    return t->state_step;
}

/* ---- the rest ---- */

const void *manta_trial_data(manta_trial *t, size_t *out_size)
{
    struct swp_slot_side *slot = taken(t)->slot;
    manta_error           e;
    *out_size = 0;
    if (!slot || !slot->data)
        return NULL;
    if (!slot->data_view.hold && !slot->data_view.data && manta_get(slot->data, MANTA_FOREVER, &slot->data_view, &e) != MANTA_OK) {
        swp_trial_fault(t, false, "the sweep's data: %.300s", e.message);
        return NULL;
    }
    *out_size = slot->data_view.size;
    return slot->data_view.data;
}

const char *manta_trial_dir(manta_trial *t)
{
    char above[MT_PATH_BYTES_MAX];
    if (misuse_of(t))
        return NULL;
    if (t->dir[0])
        return t->dir;
    snprintf(above, sizeof above, "%.4000s/trials", t->slot->setup.folder);
    snprintf(t->dir, sizeof t->dir, "%.4040s/%" PRId64, above, t->number);
    if (mkdir(t->dir, 0755) == 0 || errno == EEXIST)
        return t->dir;
    bool is_above = (mkdir(t->slot->setup.folder, 0755) == 0 || errno == EEXIST) && (mkdir(above, 0755) == 0 || errno == EEXIST);
    if (is_above && (mkdir(t->dir, 0755) == 0 || errno == EEXIST))
        return t->dir;
    t->dir[0] = 0;
    return NULL;
}

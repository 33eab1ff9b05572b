/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - options and events of a run as bytes, for a driver and an actor that are processes of one executable.
 *
 *   options:  the fields of the table, one after the other | strings, by string_names | config...
 *             strings with their ends; one that is NULL is empty
 *   event:    struct head | values | recovery, if any | names | text, each with its end
 *
 * Owns: nothing. Thread: any.
 */
#include "sgd/run/detach.h"

#include "sgd/run/setup.h"

#include "core/base/real.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct field {
    const char *name;
    size_t      offset, size;
    char        type; /* int, double, bool, int64_t (long), uint64_t */
};

#define FIELD(f) \
    { \
#f, offsetof(manta_sgd_opts, f), sizeof(((manta_sgd_opts *)0)->f), \
            _Generic(((manta_sgd_opts *)0)->f, int \
                     : 'i', double \
                     : 'd', bool \
                     : 'b', int64_t \
                     : 'l', uint64_t \
                     : 'u') \
    }
static const struct field fields[] = {
    FIELD(scaling.min_workers),
    FIELD(scaling.max_workers),
    FIELD(scaling.spares),
    FIELD(scaling.cpus),
    FIELD(scaling.gpus),
    FIELD(scaling.nodes),
    FIELD(scaling.min_nodes),
    FIELD(scaling.wait_s),
    FIELD(run.epochs),
    FIELD(run.batch),
    FIELD(run.shards),
    FIELD(run.log_steps),
    FIELD(run.validate_epochs),
    FIELD(run.patience),
    FIELD(run.min_delta),
    FIELD(failure.max_failures),
    FIELD(failure.backoff_s),
    FIELD(failure.hang_after),
    FIELD(checkpoint.every_s),
    FIELD(checkpoint.every_steps),
    FIELD(checkpoint.keep),
    FIELD(checkpoint.keep_best),
    FIELD(checkpoint.score_max),
    FIELD(checkpoint.restart_damaged),
    FIELD(checkpoint.other_data),
    FIELD(optimizer.kind),
    FIELD(optimizer.lr),
    FIELD(optimizer.momentum),
    FIELD(optimizer.beta1),
    FIELD(optimizer.beta2),
    FIELD(optimizer.epsilon),
    FIELD(optimizer.weight_decay),
    FIELD(optimizer.schedule),
    FIELD(optimizer.step_gamma),
    FIELD(optimizer.step_epochs),
    FIELD(optimizer.warmup_steps),
    FIELD(optimizer.lr_batch),
    FIELD(optimizer.clip_norm),
    FIELD(optimizer.max_norm),
    FIELD(optimizer.zero),
    FIELD(optimizer.zero_backup),
    FIELD(config_strict),
    FIELD(seed),
};
#undef FIELD
enum { FIELDS = sizeof fields / sizeof *fields, STRINGS = 6 };
static const char *const string_names[STRINGS] = {"the operator",     "run.name",     "run.storage",
                                                  "checkpoint.score", "run.timeline", "run.tracking"};

/* ---- options ---- */

/* Beside the working folder of this process, which is not the actor's. */
static mt_status path_append(mt_buf *out, const char *path)
{
    char folder[MT_PATH_BYTES_MAX];
    if (path && path[0] != '/' && getcwd(folder, sizeof folder))
        MT_TRY(mt_buf_printf(out, "%s/", folder));
    return mt_buf_append(out, path ? path : "", path ? strlen(path) + 1 : 1);
}

static mt_status string_append(mt_buf *out, const char *string)
{
    return mt_buf_append(out, string ? string : "", string ? strlen(string) + 1 : 1);
}

static mt_status all_append(mt_buf *out, const char *op, const manta_sgd_opts *opts)
{
    for (int i = 0; i < FIELDS; i++)
        MT_TRY(mt_buf_append(out, (const char *)opts + fields[i].offset, fields[i].size));
    MT_TRY(string_append(out, op));
    MT_TRY(string_append(out, opts->run.name));
    MT_TRY(path_append(out, opts->run.storage));
    MT_TRY(string_append(out, opts->checkpoint.score));
    MT_TRY(path_append(out, opts->run.timeline));
    MT_TRY(path_append(out, opts->run.tracking));
    for (const char *const *pair = opts->config; pair && *pair; pair++)
        MT_TRY(string_append(out, *pair));
    return mt_ok();
}

manta_status sgd_opts_pack(const char *op, const manta_sgd_opts *opts, mt_buf *out, manta_error *e)
{
    int pairs = 0;
    while (opts->config && opts->config[pairs])
        pairs++;
    mt_status st = all_append(out, op, opts);
    if (st.code != 0)
        return sgd_fail(e, st.code, "the options of a detached run: %s", st.what ? st.what : "no memory");
    if (pairs > MT_TRAIN_CONFIG_MAX || out->size > MT_TRAIN_OPTIONS_BYTES)
        return sgd_fail(e, MANTA_EINVAL, "a detached run has at most %d pairs of config, and options of %d bytes in all",
                        MT_TRAIN_CONFIG_MAX, MT_TRAIN_OPTIONS_BYTES);
    return MANTA_OK;
}

/* The string at `*at`, which moves behind it; NULL: there is none. */
static const char *string_take(const char **at, const char *end)
{
    const char *string = *at, *last = string < end ? memchr(string, 0, (size_t)(end - string)) : NULL;
    if (last)
        *at = last + 1;
    return last ? string : NULL;
}

static size_t fields_size(void)
{
    size_t size = 0;
    for (int i = 0; i < FIELDS; i++)
        size += fields[i].size;
    return size;
}

bool sgd_opts_unpack(const char *bytes, size_t size, const char **out_op, manta_sgd_opts *out_opts, const char **config)
{
    const char *at = bytes, *end = bytes + size, *strings[STRINGS];
    int         pairs = 0;

    *out_opts = (manta_sgd_opts){.on_event = NULL};
    if (size < fields_size())
        return false;
    for (int i = 0; i < FIELDS; at += fields[i].size, i++)
        memcpy((char *)out_opts + fields[i].offset, at, fields[i].size);
    for (int i = 0; i < STRINGS; i++)
        if (!(strings[i] = string_take(&at, end)))
            return false;
    *out_op = strings[0];
    out_opts->run.name = strings[1][0] ? strings[1] : NULL;
    out_opts->run.storage = strings[2][0] ? strings[2] : NULL;
    out_opts->checkpoint.score = strings[3][0] ? strings[3] : NULL;
    out_opts->run.timeline = strings[4][0] ? strings[4] : NULL;
    out_opts->run.tracking = strings[5][0] ? strings[5] : NULL;
    while (at < end && pairs < MT_TRAIN_CONFIG_MAX)
        if (!(config[pairs++] = string_take(&at, end)))
            return false;
    config[pairs] = NULL;
    out_opts->config = config;
    return at == end;
}

const char *sgd_opts_differ(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const char *a_end = a + a_size, *b_end = b + b_size;
    if (a_size < fields_size() || b_size < fields_size())
        return "the build";
    for (int i = 0; i < FIELDS; a += fields[i].size, b += fields[i].size, i++)
        if (memcmp(a, b, fields[i].size) != 0)
            return fields[i].name;
    for (int i = 0; i < STRINGS; i++) {
        const char *x = string_take(&a, a_end), *y = string_take(&b, b_end);
        if (!x || !y || strcmp(x, y) != 0)
            return string_names[i];
    }
    return a_end - a != b_end - b || memcmp(a, b, (size_t)(a_end - a)) != 0 ? "config" : NULL;
}

static void value_print(const struct field *field, const void *at, char *out, size_t size)
{
    static const char *const kinds[] = {[MANTA_SGD_MOMENTUM] = "momentum", [MANTA_SGD_ADAMW] = "adamw"};
    static const char *const schedules[] = {
        [MANTA_SGD_LR_COSINE] = "cosine", [MANTA_SGD_LR_CONSTANT] = "constant", [MANTA_SGD_LR_STEP] = "step"};
    if (strcmp(field->name, "optimizer.kind") == 0)
        snprintf(out, size, "%s", kinds[*(const int *)at == MANTA_SGD_ADAMW]);
    else if (strcmp(field->name, "optimizer.schedule") == 0)
        snprintf(out, size, "%s", schedules[*(const unsigned *)at % 3]);
    else if (field->type == 'i')
        snprintf(out, size, "%d", *(const int *)at);
    else if (field->type == 'd')
        mt_real_print(*(const double *)at, out, size);
    else if (field->type == 'b')
        snprintf(out, size, "%s", *(const bool *)at ? "true" : "false");
    else if (field->type == 'l')
        snprintf(out, size, "%lld", (long long)*(const int64_t *)at);
    else
        snprintf(out, size, "%llu", (unsigned long long)*(const uint64_t *)at);
}

void sgd_opts_each(const char *op, const manta_sgd_opts *opts, void (*take)(void *user, const char *name, const char *value),
                   void *user)
{
    const char *strings[] = {op, opts->run.name, opts->run.storage, opts->checkpoint.score, opts->run.timeline, opts->run.tracking};
    char        text[MT_NAME_BYTES_MAX + 16];
    for (int i = 0; i < FIELDS; i++) {
        value_print(&fields[i], (const char *)opts + fields[i].offset, text, sizeof text);
        take(user, fields[i].name, text);
    }
    for (int i = 0; i < STRINGS; i++)
        if (strings[i])
            take(user, i == 0 ? "operator" : string_names[i], strings[i]);
    for (const char *const *pair = opts->config; pair && *pair; pair++) {
        const char *value = strchr(*pair, '=');
        snprintf(text, sizeof text, "config.%.*s", value ? (int)(value - *pair) : 0, *pair);
        take(user, text, value ? value + 1 : "");
    }
}

/* ---- events ---- */

struct head {
    int32_t  kind, rank, pid, workers, metrics, has_recovery;
    int64_t  step, steps;
    double   loss, accuracy, samples_per_s, wait_share, lr;
    uint32_t size; /* of all */
};

static bool put(char *out, size_t *used, const void *data, size_t size)
{
    if (size > MT_TRAIN_EVENT_BYTES - *used)
        return false;
    if (size > 0) /* NULL then: an event without metrics has no values */
        memcpy(out + *used, data, size);
    *used += size;
    return true;
}

size_t sgd_event_pack(const manta_sgd_event *event, char out[MT_TRAIN_EVENT_BYTES])
{
    static_assert(MT_TRAIN_EVENT_BYTES >= sizeof(struct head) + sizeof(manta_sgd_recovery) +
                                              MANTA_SGD_METRICS_MAX * (sizeof(double) + MT_NAME_BYTES_MAX) + 128,
                  "an event fits");
    struct head head = {.kind = event->kind,
                        .rank = event->rank,
                        .pid = event->pid,
                        .workers = event->workers,
                        .metrics = event->metrics,
                        .has_recovery = event->recovery != NULL,
                        .step = event->step,
                        .steps = event->steps,
                        .loss = event->loss,
                        .accuracy = event->accuracy,
                        .samples_per_s = event->samples_per_s,
                        .wait_share = event->data_wait,
                        .lr = event->lr};
    size_t      used = sizeof head, text = event->text ? strlen(event->text) : 0;

    put(out, &used, event->values, event->metrics ? sizeof *event->values * (size_t)event->metrics : 0);
    if (event->recovery)
        put(out, &used, event->recovery, sizeof *event->recovery);
    for (int i = 0; i < event->metrics; i++)
        put(out, &used, event->names[i], strlen(event->names[i]) + 1);
    text = text < MT_TRAIN_EVENT_BYTES - used - 1 ? text : MT_TRAIN_EVENT_BYTES - used - 1;
    put(out, &used, event->text, text);
    put(out, &used, "", 1);
    head.size = (uint32_t)used;
    memcpy(out, &head, sizeof head);
    return used;
}

/* What stands behind the head; false: it is cut short. */
static bool rest_take(const struct head *head, struct sgd_event_room *room, manta_sgd_event *event)
{
    const char *at = room->bytes + sizeof *head, *end = room->bytes + head->size;
    size_t      values = (size_t)head->metrics * sizeof(double), recovery = head->has_recovery ? sizeof room->recovery : 0;
    if ((size_t)(end - at) < values + recovery)
        return false;
    memcpy(room->values, at, values);
    memcpy(&room->recovery, at + values, recovery);
    at += values + recovery;
    for (int i = 0; i < head->metrics; i++)
        if (!(room->names[i] = string_take(&at, end)))
            return false;
    event->text = string_take(&at, end);
    return event->text != NULL;
}

size_t sgd_event_unpack(const char *bytes, size_t size, struct sgd_event_room *room, manta_sgd_event *out_event)
{
    struct head head;
    if (size < sizeof head)
        return 0;
    memcpy(&head, bytes, sizeof head);
    if (head.size > size || head.size > sizeof room->bytes || head.size < sizeof head || head.metrics < 0 ||
        head.metrics > MANTA_SGD_METRICS_MAX)
        return 0;
    memcpy(room->bytes, bytes, head.size);
    *out_event = (manta_sgd_event){.kind = head.kind,
                                   .rank = head.rank,
                                   .pid = head.pid,
                                   .workers = head.workers,
                                   .step = head.step,
                                   .steps = head.steps,
                                   .loss = head.loss,
                                   .accuracy = head.accuracy,
                                   .samples_per_s = head.samples_per_s,
                                   .data_wait = head.wait_share,
                                   .lr = head.lr,
                                   .names = room->names,
                                   .values = room->values,
                                   .metrics = head.metrics,
                                   .recovery = head.has_recovery ? &room->recovery : NULL};
    return rest_take(&head, room, out_event) ? head.size : 0;
}

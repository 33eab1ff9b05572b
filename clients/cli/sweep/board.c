/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - see board.h. Of the hparams plug-in's protobuf messages it writes two, which are all that its page needs:
 *
 *   _hparams_/session_start_info   HParamsPluginData {3: SessionStartInfo {1: map of name to Value, 5: start (double)}}
 *   _hparams_/session_end_info     HParamsPluginData {4: SessionEndInfo {1: status, 2: end (double)}}
 *
 * Thread: the main one.
 */
#include "clients/cli/sweep/board.h"

#include "clients/cli/events/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MESSAGE_MAX = 3 * MANTA_SWEEP_PARAMS_MAX, PATH_SIZE = 4096 };
enum { STATUS_SUCCESS = 1, STATUS_FAILURE = 2, STATUS_RUNNING = 3 };

/* ---- protobuf ---- */

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t        size;
    bool          is_full;
};

static void put(struct message *m, const void *data, size_t size)
{
    m->is_full = m->is_full || size > MESSAGE_MAX - m->size;
    if (m->is_full)
        return;
    memcpy(m->bytes + m->size, data, size);
    m->size += size;
}

static void put_varint(struct message *m, uint64_t value)
{
    unsigned char byte;
    for (; value > 127; value >>= 7) {
        byte = (unsigned char)(value | 128);
        put(m, &byte, 1);
    }
    byte = (unsigned char)value;
    put(m, &byte, 1);
}

static void put_double(struct message *m, unsigned field, double value)
{
    put_varint(m, field << 3 | 1);
    put(m, &value, sizeof value);
}

static void put_bytes(struct message *m, unsigned field, const void *data, size_t size)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, size);
    put(m, data, size);
}

/* ---- a trial ---- */

static int param_put(void *user, const manta_sweep_param *p)
{
    struct message *info = user, entry = {.size = 0}, value = {.size = 0};
    if (p->kind == MANTA_SWEEP_VALUE_NUMBER)
        put_double(&value, 2, p->number);
    else if (p->kind == MANTA_SWEEP_VALUE_BOOL)
        put_varint(&value, 4 << 3), put_varint(&value, p->number != 0);
    else
        put_bytes(&value, 3, p->text, strlen(p->text));
    put_bytes(&entry, 1, p->name, strlen(p->name));
    put_bytes(&entry, 2, value.bytes, value.size);
    put_bytes(info, 1, entry.bytes, entry.size);
    return info->is_full;
}

static int status_of(const char *state)
{
    return strcmp(state, "failed") == 0 ? STATUS_FAILURE : strcmp(state, "open") == 0 ? STATUS_RUNNING : STATUS_SUCCESS;
}

static bool hparams_put(FILE *file, double wall_s, const char *tag, unsigned field, const struct message *info)
{
    struct message data = {.size = 0};
    put_bytes(&data, field, info->bytes, info->size);
    errno = EMSGSIZE;
    return !info->is_full && !data.is_full && train_events_plugin(file, wall_s, tag, "hparams", data.bytes, data.size);
}

static bool start_write(FILE *file, const manta_sweep_trial *t, double begun_s)
{
    struct message info = {.size = 0};
    (void)manta_sweep_params(t->params, param_put, &info);
    put_double(&info, 5, begun_s + t->drawn_s);
    return hparams_put(file, begun_s + t->drawn_s, "_hparams_/session_start_info", 3, &info);
}

static bool end_write(FILE *file, const manta_sweep_trial *t, double begun_s)
{
    struct message info = {.size = 0};
    put_varint(&info, 1 << 3);
    put_varint(&info, (uint64_t)status_of(t->state));
    put_double(&info, 2, begun_s + t->ended_s);
    return hparams_put(file, begun_s + t->ended_s, "_hparams_/session_end_info", 4, &info);
}

static bool trial_write(const manta_sweep_view *v, const char *folder, int64_t number, const int64_t *first, const int64_t *next,
                        double begun_s)
{
    const manta_sweep_trial *t = &v->trials[number];
    char                     path[PATH_SIZE];
    snprintf(path, sizeof path, "%.3800s/trial-%" PRId64, folder, number);
    FILE *file = train_events_open(path);
    bool  ok = file && start_write(file, t, begun_s);
    for (int64_t i = first[number]; i >= 0 && ok; i = next[i]) {
        const manta_sweep_report *r = &v->reports[i];
        ok = train_events_scalar(file, begun_s + r->at_s, r->step, r->metric ? r->metric : v->metric, r->value);
    }
    if (ok && t->ended_s > 0)
        ok = end_write(file, t, begun_s);
    return file && fclose(file) == 0 && ok;
}

bool sweep_board_write(const manta_sweep_view *v, const char *folder)
{
    /* The journal's times count from the sweep's beginning; what is shown is how they stand to each other. */
    double   begun_s = (double)time(NULL) - v->seconds;
    int64_t *first = calloc((size_t)v->count + 1, sizeof *first), *next = calloc((size_t)v->report_count + 1, sizeof *next);
    bool     ok = first && next && (mkdir(folder, 0755) == 0 || errno == EEXIST);
    for (int64_t i = 0; ok && i < v->count; i++)
        first[i] = -1;
    for (int64_t i = v->report_count; ok && i-- > 0;) { /* from the last to the first: each list is in order */
        next[i] = first[v->reports[i].trial];
        first[v->reports[i].trial] = i;
    }
    for (int64_t i = 0; ok && i < v->count; i++)
        ok = trial_write(v, folder, i, first, next, begun_s);
    free(first);
    free(next);
    return ok;
}

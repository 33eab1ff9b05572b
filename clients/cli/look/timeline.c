/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - `manta timeline`: what the workers ran, as a Chrome trace that Perfetto and chrome://tracing open.
 *
 * Owns: nothing. Thread: main.
 *
 * A track for each process, grouped by node; a slice for each task on its worker's track, a short one on its submitter's where
 * it was submitted, and an arrow from the one to the other.
 */
#include "clients/cli/look/look.h"
#include "clients/cli/table/table.h"

#include "core/base/clock.h"
#include "core/text/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIMIT = 100000, SUBMIT_US = 1 };

struct trace {
    FILE             *out;
    const manta_rows *tasks, *workers;
    uint64_t          first_ns; /* the trace begins here */
    size_t            arrows;
    struct mt_trace   text;
    bool              is_bad;
};

static uint64_t number(const manta_rows *rows, size_t row, const char *column)
{
    return strtoull(cli_cell(rows, row, column), NULL, 10);
}

static double micros(const struct trace *t, uint64_t ns)
{
    return ns >= t->first_ns ? (double)(ns - t->first_ns) / 1000 : -(double)(t->first_ns - ns) / 1000;
}

/* What stands in the buffer goes out, so that it stays small. Without memory the file is cut short, and the user is told. */
static void flush(struct trace *t, mt_status st)
{
    t->is_bad = t->is_bad || st.code != 0 || fwrite(t->text.out.data, 1, t->text.out.size, t->out) != t->text.out.size;
    t->text.out.size = 0;
}

/* ---- tracks -------------------------------------------------------------------------------------------------------- */

static void name_tracks(struct trace *t)
{
    json_t *seen = json_object();
    for (size_t i = 0; i < t->workers->count; i++) {
        const char *node = cli_cell(t->workers, i, "node");
        long long   pid = (long long)number(t->workers, i, "pid"), of = strtoll(node, NULL, 10);
        char        text[160];
        snprintf(text, sizeof text, "%s %lld%s", cli_cell(t->workers, i, "role"), pid,
                 strcmp(cli_cell(t->workers, i, "state"), "ENDED") == 0 ? " (ended)" : "");
        flush(t, mt_trace_name_track(&t->text, of, pid, text));
        if (json_object_get(seen, node))
            continue;
        json_object_set_new(seen, node, json_true());
        snprintf(text, sizeof text, "node %s", node);
        flush(t, mt_trace_name_set(&t->text, of, text));
    }
    json_decref(seen);
}

/* The track of a process; false: it has ended, and its node does not know it any more. */
static bool track_of(const struct trace *t, const char *process, int64_t *node, int64_t *pid)
{
    for (size_t i = 0; i < t->workers->count; i++) {
        if (strcmp(cli_cell(t->workers, i, "process"), process) != 0)
            continue;
        *node = (int64_t)number(t->workers, i, "node");
        *pid = (int64_t)number(t->workers, i, "pid");
        return true;
    }
    return false;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------- */

/* From the moment of submission on the submitter's track to the slice. */
static void print_arrow(struct trace *t, size_t row, const struct mt_trace_slice *slice, double submitted)
{
    char                  id[96], text[160];
    struct mt_trace_slice from = {.category = "submit", .name = text, .begin_us = submitted, .length_us = SUBMIT_US};
    struct mt_trace_slice to = *slice;
    if (!track_of(t, cli_cell(t->tasks, row, "owner"), &from.set, &from.track))
        return;
    snprintf(id, sizeof id, "%s/%s", cli_cell(t->tasks, row, "task"), cli_cell(t->tasks, row, "attempt"));
    snprintf(text, sizeof text, "submit %s", slice->name);
    flush(t, mt_trace_slice(&t->text, &from));
    from.name = to.name = to.category = "submit";
    flush(t, mt_trace_arrow(&t->text, &from, id, false));
    flush(t, mt_trace_arrow(&t->text, &to, id, true));
    t->arrows++;
}

static void print_task(struct trace *t, size_t row, uint64_t now_ns)
{
    static const char *const columns[] = {"task", "state", "attempt", "error"};
    struct mt_trace_arg      args[sizeof columns / sizeof *columns];
    uint64_t                 started = number(t->tasks, row, "started"), ended = number(t->tasks, row, "ended");
    uint64_t submitted = number(t->tasks, row, "submitted"), until = !ended ? now_ns : ended > started ? ended : started;
    if (!started)
        return; /* it has not begun */
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        args[i] = (struct mt_trace_arg){columns[i], cli_cell(t->tasks, row, columns[i]), 0};
    struct mt_trace_slice slice = {.category = "task",
                                   .name = cli_cell(t->tasks, row, "name"),
                                   .begin_us = micros(t, started),
                                   .length_us = until > started ? (double)(until - started) / 1000 : 0,
                                   .set = (int64_t)number(t->tasks, row, "node"),
                                   .track = (int64_t)number(t->tasks, row, "pid"),
                                   .args = args,
                                   .args_count = (int)(sizeof columns / sizeof *columns)};
    flush(t, mt_trace_slice(&t->text, &slice));
    if (submitted)
        print_arrow(t, row, &slice, micros(t, submitted < started ? submitted : started));
}

static void print_trace(struct trace *t)
{
    uint64_t now_ns = mt_wall_ns();
    t->first_ns = UINT64_MAX;
    for (size_t i = 0; i < t->tasks->count; i++) {
        uint64_t started = number(t->tasks, i, "started"), submitted = number(t->tasks, i, "submitted");
        uint64_t least = submitted && submitted < started ? submitted : started;
        if (started && least < t->first_ns)
            t->first_ns = least;
    }
    flush(t, mt_trace_begin(&t->text, ""));
    name_tracks(t);
    for (size_t i = 0; i < t->tasks->count; i++)
        print_task(t, i, now_ns);
    flush(t, mt_buf_append(&t->text.out, MT_TRACE_END, strlen(MT_TRACE_END)));
    mt_buf_fini(&t->text.out);
}

static int write_trace(const char *path, const manta_rows *tasks, const manta_rows *workers)
{
    bool         is_stdout = strcmp(path, "-") == 0;
    struct trace t = {.out = is_stdout ? stdout : fopen(path, "w"), .tasks = tasks, .workers = workers};
    if (!t.out)
        return cli_fail("%s: %s", path, strerror(errno));
    print_trace(&t);
    bool is_bad = t.is_bad || ferror(t.out) != 0;
    if (!is_stdout && (fclose(t.out) != 0 || is_bad))
        return cli_fail("%s: %s", path, strerror(errno));
    if (!is_stdout)
        printf("%s: %zu tasks, %zu arrows; open it at https://ui.perfetto.dev or chrome://tracing\n", path, tasks->count, t.arrows);
    return CLI_OK;
}

static int timeline(const struct cli_args *args, manta_client *client)
{
    manta_look  look = {.kind = "workers", .limit = LIMIT};
    manta_rows *tasks = cli_rows(args, client, "tasks", LIMIT, NULL), *workers = NULL;
    manta_error e;
    char        path[64];
    int         status = CLI_FAILED;
    time_t      now = time(NULL);
    struct tm   tm;
    if (!tasks)
        return CLI_FAILED;
    strftime(path, sizeof path, "manta-timeline-%Y%m%d-%H%M%S.json", localtime_r(&now, &tm));
    if (manta_state_list(client, &look, &workers, &e) != MANTA_OK)
        cli_fail("%s", e.message);
    else
        status = write_trace(args->rest_count ? args->rest[0] : path, tasks, workers);
    cli_rows_notice(args, tasks);
    manta_rows_free(tasks);
    manta_rows_free(workers);
    return status;
}

int cli_timeline(const struct cli_args *args)
{
    return cli_with_client(args, timeline);
}

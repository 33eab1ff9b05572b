/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - `manta timeline`: what the workers ran, as a Chrome trace that Perfetto and chrome://tracing open.
 *
 * Owns: nothing. Thread: main.
 *
 * A track for each process, grouped by node; a slice for each task on its worker's track, a short one on its submitter's where
 * it was submitted, and an arrow from the one to the other.
 */
#include "clients/cli/cli.h"

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
    size_t            events, arrows;
};

static uint64_t number(const manta_rows *rows, size_t row, const char *column)
{
    return strtoull(cli_cell(rows, row, column), NULL, 10);
}

static double micros(const struct trace *t, uint64_t ns)
{
    return ns >= t->first_ns ? (double)(ns - t->first_ns) / 1000 : -(double)(t->first_ns - ns) / 1000;
}

static void print_event(struct trace *t, json_t *take_event)
{
    fputs(t->events++ ? ",\n" : "\n", t->out);
    json_dumpf(take_event, t->out, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(take_event);
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
        print_event(t, json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", "thread_name", "pid", (json_int_t)of, "tid",
                                 (json_int_t)pid, "args", "name", text));
        if (json_object_get(seen, node))
            continue;
        json_object_set_new(seen, node, json_true());
        snprintf(text, sizeof text, "node %s", node);
        print_event(t, json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", "process_name", "pid", (json_int_t)of,
                                 "tid", (json_int_t)0, "args", "name", text));
    }
    json_decref(seen);
}

/* The track of a process; false: it has ended, and its node does not know it any more. */
static bool track_of(const struct trace *t, const char *process, json_int_t *node, json_int_t *pid)
{
    for (size_t i = 0; i < t->workers->count; i++) {
        if (strcmp(cli_cell(t->workers, i, "process"), process) != 0)
            continue;
        *node = (json_int_t)number(t->workers, i, "node");
        *pid = (json_int_t)number(t->workers, i, "pid");
        return true;
    }
    return false;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------- */

static void print_arrow(struct trace *t, size_t row, double begin, double submitted, json_int_t node, json_int_t pid)
{
    const char *task = cli_cell(t->tasks, row, "task"), *name = cli_cell(t->tasks, row, "name");
    const char *attempt = cli_cell(t->tasks, row, "attempt");
    char        id[96], text[160];
    json_int_t  owner_node, owner_pid;
    if (!track_of(t, cli_cell(t->tasks, row, "owner"), &owner_node, &owner_pid))
        return;
    snprintf(id, sizeof id, "%s/%s", task, attempt);
    snprintf(text, sizeof text, "submit %s", name);
    print_event(t, json_pack("{s:s, s:s, s:s, s:f, s:i, s:I, s:I}", "ph", "X", "cat", "submit", "name", text, "ts", submitted,
                             "dur", SUBMIT_US, "pid", owner_node, "tid", owner_pid));
    print_event(t, json_pack("{s:s, s:s, s:s, s:s, s:f, s:I, s:I}", "ph", "s", "cat", "submit", "name", "submit", "id", id, "ts",
                             submitted, "pid", owner_node, "tid", owner_pid));
    print_event(t, json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:I}", "ph", "f", "bp", "e", "cat", "submit", "name", "submit",
                             "id", id, "ts", begin, "pid", node, "tid", pid));
    t->arrows++;
}

static void print_task(struct trace *t, size_t row, uint64_t now_ns)
{
    uint64_t   started = number(t->tasks, row, "started"), ended = number(t->tasks, row, "ended");
    uint64_t   submitted = number(t->tasks, row, "submitted");
    json_int_t node = (json_int_t)number(t->tasks, row, "node"), pid = (json_int_t)number(t->tasks, row, "pid");
    uint64_t   until = !ended ? now_ns : ended > started ? ended : started;
    double     begin = micros(t, started), length = until > started ? (double)(until - started) / 1000 : 0;
    if (!started)
        return; /* it has not begun */
    print_event(t, json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:I, s:{s:s, s:s, s:s, s:s}}", "ph", "X", "cat", "task", "name",
                             cli_cell(t->tasks, row, "name"), "ts", begin, "dur", length, "pid", node, "tid", pid, "args", "task",
                             cli_cell(t->tasks, row, "task"), "state", cli_cell(t->tasks, row, "state"), "attempt",
                             cli_cell(t->tasks, row, "attempt"), "error", cli_cell(t->tasks, row, "error")));
    if (submitted)
        print_arrow(t, row, begin, micros(t, submitted < started ? submitted : started), node, pid);
}

static void print_trace(struct trace *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->first_ns = UINT64_MAX;
    for (size_t i = 0; i < t->tasks->count; i++) {
        uint64_t started = number(t->tasks, i, "started"), submitted = number(t->tasks, i, "submitted");
        uint64_t least = submitted && submitted < started ? submitted : started;
        if (started && least < t->first_ns)
            t->first_ns = least;
    }
    fprintf(t->out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    name_tracks(t);
    for (size_t i = 0; i < t->tasks->count; i++)
        print_task(t, i, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    fprintf(t->out, "\n]}\n");
}

static int write_trace(const char *path, const manta_rows *tasks, const manta_rows *workers)
{
    bool         is_stdout = strcmp(path, "-") == 0;
    struct trace t = {.out = is_stdout ? stdout : fopen(path, "w"), .tasks = tasks, .workers = workers};
    if (!t.out)
        return cli_fail("%s: %s", path, strerror(errno));
    print_trace(&t);
    bool is_bad = ferror(t.out) != 0;
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

int cli_timeline(const struct cli_args *args) { return cli_with_client(args, timeline); }

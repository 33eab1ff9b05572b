/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - `manta list`, `manta get`, `manta summary`, `manta memory`: what the nodes tell, as tables or JSON.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/look/look.h"
#include "clients/cli/table/table.h"

#include <stdlib.h>
#include <string.h>

enum { ALL = 1000000 };

static const struct cli_column task_columns[] = {
    {"task", "TASK", false},      {"name", "NAME", false},  {"state", "STATE", false},     {"attempt", "ATTEMPT", true},
    {"node", "NODE", false},      {"pid", "PID", false},    {"seconds", "SECONDS", false}, {"submitted", "SUBMITTED", true},
    {"started", "STARTED", true}, {"ended", "ENDED", true}, {"owner", "OWNER", true},      {"error", "ERROR", false},
    {"why", "WHY", false},        {NULL, NULL, false},
};
static const struct cli_column actor_columns[] = {
    {"actor", "ACTOR", false},       {"type", "TYPE", false}, {"name", "NAME", false}, {"state", "STATE", false},
    {"restarts", "RESTARTS", false}, {"node", "NODE", false}, {"pid", "PID", false},   {"owner", "OWNER", true},
    {"why", "WHY", false},           {NULL, NULL, false},
};
static const struct cli_column worker_columns[] = {
    {"process", "PROCESS", true},    {"pid", "PID", false}, {"role", "ROLE", false},       {"state", "STATE", false},
    {"node", "NODE", false},         {"job", "JOB", true},  {"program", "PROGRAM", false}, {"running", "RUNNING", false},
    {"finished", "FINISHED", false}, {"rss", "RSS", false}, {NULL, NULL, false},
};
static const struct cli_column object_columns[] = {
    {"object", "OBJECT", false},
    {"size", "SIZE", false},
    {"node", "NODE", false},
    {"owner_pid", "OWNER PID", false},
    {"pins", "PINS", false},
    {"pinned_by", "PINNED BY", false},
    {"writer_pid", "WRITER PID", true},
    {"owner", "OWNER", true},
    {"kind", "KIND", false},
    {NULL, NULL, false},
};
static const struct cli_column group_columns[] = {
    {"group", "GROUP", false},
    {"name", "NAME", false},
    {"namespace", "NAMESPACE", true},
    {"strategy", "STRATEGY", false},
    {"state", "STATE", false},
    {"detached", "DETACHED", false},
    {"job", "JOB", true},
    {"bundles", "BUNDLES", false},
    {"reason", "REASON", false},
    {NULL, NULL, false},
};
static const struct cli_column summary_columns[] = {
    {"name", "NAME", false},       {"count", "COUNT", false}, {"states", "STATES", false},
    {"mean_ms", "MEAN MS", false}, {NULL, NULL, false},
};

static const struct kind {
    const char              *word, *one;
    const struct cli_column *columns;
} kinds[] = {
    {"tasks", "task", task_columns},       {"actors", "actor", actor_columns},           {"workers", "pid", worker_columns},
    {"objects", "object", object_columns}, {"placement-groups", "group", group_columns},
};

/* ---- list, get ----------------------------------------------------------------------------------------------------- */

/* What the options ask for. */
struct question {
    const char *filters[MT_CLI_LIST_MAX + 2];
    manta_look  look;
};

static bool question_read(const struct cli_args *args, const char *kind, double limit, const char *one_more_filter,
                          struct question *out)
{
    if (!cli_whole(args, CLI_OPT_LIMIT, 1, 1e15, &limit))
        return false;
    *out = (struct question){.look = {.kind = kind, .filters = out->filters, .limit = (size_t)limit}};
    for (size_t n = 0; n < args->filter_count; n++)
        out->filters[n] = args->filters[n];
    out->filters[args->filter_count] = one_more_filter;
    return true;
}

manta_rows *cli_rows(const struct cli_args *args, manta_client *client, const char *kind, double limit, const char *one_more_filter)
{
    struct question q;
    manta_rows     *rows = NULL;
    manta_error     e;
    if (question_read(args, kind, limit, one_more_filter, &q) && manta_state_list(client, &q.look, &rows, &e) != MANTA_OK)
        cli_fail("%s", e.message);
    return rows;
}

/* The word behind `manta list` and the like. */
static const struct kind *kind_of(const struct cli_args *args)
{
    const char *word = strchr(args->verb, ' ') + 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].word, word) == 0)
            return &kinds[i];
    return NULL;
}

static bool filters_on(const struct cli_args *args, const char *column)
{
    for (size_t i = 0; i < args->filter_count; i++)
        if (strncmp(args->filters[i], column, strlen(column)) == 0)
            return true;
    return false;
}

static int list(const struct cli_args *args, manta_client *client)
{
    const struct kind *kind = kind_of(args);
    bool               only_living = kind->columns == worker_columns && !filters_on(args, "state");
    struct question    q;
    manta_rows        *rows = NULL;
    manta_error        e;
    int                status = CLI_OK;
    if (!question_read(args, kind->word, 100, only_living ? "state!=ENDED" : NULL, &q))
        return CLI_FAILED;
    if (cli_output_is_json(args))
        rows = cli_rows_stream(client, &q.look, &e);
    else if (manta_state_list(client, &q.look, &rows, &e) == MANTA_OK)
        status = cli_rows_print(args, kind->columns, rows);
    if (!rows)
        return cli_fail("%s", e.message);
    cli_rows_notice(args, rows);
    manta_rows_free(rows);
    return status;
}

static void print_one(const struct kind *kind, const json_t *row)
{
    for (const struct cli_column *c = kind->columns; c->title; c++) {
        const json_t *value = json_object_get(row, c->key);
        char         *text = value && !json_is_null(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
        if (json_is_string(value))
            printf("%-12s %s\n", c->key, json_string_value(value));
        else
            printf("%-12s %s\n", c->key, text ? text : "-");
        free(text);
    }
}

static int get(const struct cli_args *args, manta_client *client)
{
    const struct kind *kind = kind_of(args);
    char               filter[128];
    snprintf(filter, sizeof filter, "%s=%.80s", kind->one, args->rest[0]);
    manta_rows *rows = cli_rows(args, client, kind->word, ALL, filter);
    if (!rows)
        return CLI_FAILED;
    cli_rows_notice(args, rows);
    json_t *all = cli_rows_json(rows);
    size_t  count = rows->count;
    manta_rows_free(rows);
    if (count == 0) {
        json_decref(all);
        return cli_fail("none of the %s that the nodes still know has the %s %s", kind->word, kind->one, args->rest[0]);
    }
    if (cli_output_is_json(args))
        return cli_print_json(all);
    for (size_t i = 0; i < count; i++) {
        if (i)
            putchar('\n');
        print_one(kind, json_array_get(all, i));
    }
    json_decref(all);
    return CLI_OK;
}

/* ---- summary ------------------------------------------------------------------------------------------------------- */

/* Adds one group of things to the row of its name. */
static void summary_add(json_t *by_name, const char *name, const char *state, uint64_t count, uint64_t total_ns)
{
    json_t *row = json_object_get(by_name, name);
    if (!row) {
        row = json_object();
        json_object_set_new(row, "name", json_string(name));
        json_object_set_new(row, "count", json_integer(0));
        json_object_set_new(row, "by_state", json_object());
        json_object_set_new(row, "ns", json_real(0));
        json_object_set_new(by_name, name, row);
    }
    json_t *states = json_object_get(row, "by_state"), *ns = json_object_get(row, "ns");
    json_object_set_new(row, "count", json_integer(json_integer_value(json_object_get(row, "count")) + (json_int_t)count));
    json_object_set_new(states, state, json_integer(json_integer_value(json_object_get(states, state)) + (json_int_t)count));
    json_real_set(ns, json_real_value(ns) + (double)total_ns);
}

/* The mean of those that have ended, and the states in one text. */
static json_t *summary_rows(json_t *take_by_name)
{
    json_t     *rows = json_array(), *row;
    const char *name;
    json_object_foreach(take_by_name, name, row)
    {
        char        text[400] = "";
        const char *state;
        json_t     *count, *states = json_object_get(row, "by_state");
        json_int_t  ended = json_integer_value(json_object_get(states, "FINISHED")) +
                           json_integer_value(json_object_get(states, "FAILED"));
        double ns = json_real_value(json_object_get(row, "ns"));
        json_object_foreach(states, state, count)
        {
            size_t at = strlen(text);
            snprintf(text + at, sizeof text - at, "%s%s: %lld", at ? ", " : "", state, (long long)json_integer_value(count));
        }
        json_object_set_new(row, "states", json_string(text));
        json_object_set_new(row, "mean_ms", ended ? json_real(ns / (double)ended / 1e6) : json_null());
        json_object_del(row, "ns");
        json_array_append(rows, row);
    }
    json_decref(take_by_name);
    return rows;
}

static int summary(const struct cli_args *args, manta_client *client)
{
    const struct kind *kind = kind_of(args);
    bool               is_tasks = kind->columns == task_columns, is_actors = kind->columns == actor_columns;
    manta_rows        *rows = cli_rows(args, client, is_tasks ? "task_summary" : kind->word, ALL, NULL);
    json_t            *by_name = json_object();
    if (!rows)
        return json_decref(by_name), CLI_FAILED;
    for (size_t i = 0; i < rows->count; i++) {
        const char *count = cli_cell(rows, i, "count");
        summary_add(by_name,
                    cli_cell(rows, i,
                             is_tasks    ? "name"
                             : is_actors ? "type"
                                         : "kind"),
                    is_tasks || is_actors ? cli_cell(rows, i, "state") : "SEALED", count[0] ? strtoull(count, NULL, 10) : 1,
                    strtoull(cli_cell(rows, i, "total_ns"), NULL, 10));
    }
    cli_rows_notice(args, rows);
    manta_rows_free(rows);
    return cli_print_rows(args, summary_columns, summary_rows(by_name));
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static void memory_totals(const manta_rows *rows, const manta_rows *nodes)
{
    uint64_t bytes = 0, pins = 0;
    for (size_t i = 0; i < rows->count; i++) {
        bytes += strtoull(cli_cell(rows, i, "size"), NULL, 10);
        pins += strtoull(cli_cell(rows, i, "pins"), NULL, 10);
    }
    printf("\n%zu objects%s, %llu bytes, %llu pins.", rows->count, rows->is_cut ? " (of more)" : "", (unsigned long long)bytes,
           (unsigned long long)pins);
    for (size_t i = 0; nodes && i < nodes->count; i++)
        printf(" Node %s: %.1f of %.1f MiB in %s segments.", cli_cell(nodes, i, "node"),
               strtod(cli_cell(nodes, i, "store_used"), NULL) / 1048576, strtod(cli_cell(nodes, i, "store_total"), NULL) / 1048576,
               cli_cell(nodes, i, "segments"));
    for (size_t i = 0; nodes && i < nodes->count; i++)
        if (strtod(cli_cell(nodes, i, "on_disk"), NULL) > 0)
            printf(" Node %s has %.1f MiB on disk.", cli_cell(nodes, i, "node"),
                   strtod(cli_cell(nodes, i, "on_disk"), NULL) / 1048576);
    for (size_t i = 0; nodes && i < nodes->count; i++)
        if (strtod(cli_cell(nodes, i, "job_quota"), NULL) > 0)
            printf(" Each job may have %.1f MiB of node %s.", strtod(cli_cell(nodes, i, "job_quota"), NULL) / 1048576,
                   cli_cell(nodes, i, "node"));
    printf("\nValues of up to a few KiB travel inside messages and are not listed.\n");
}

static int memory(const struct cli_args *args, manta_client *client)
{
    manta_look  look = {.kind = "node", .limit = ALL};
    manta_rows *rows = cli_rows(args, client, "objects", 1000, NULL), *nodes = NULL;
    manta_error e;
    if (!rows)
        return CLI_FAILED;
    int status = cli_rows_print(args, object_columns, rows);
    if (!cli_output_is_json(args)) {
        if (manta_state_list(client, &look, &nodes, &e) != MANTA_OK)
            cli_fail("%s", e.message);
        memory_totals(rows, nodes);
        manta_rows_free(nodes);
    }
    cli_rows_notice(args, rows);
    manta_rows_free(rows);
    return status;
}

/* ---- stack --------------------------------------------------------------------------------------------------------- */

static int stack(const struct cli_args *args, manta_client *client)
{
    char filter[64];
    bool has_pid = args->rest_count > 0;
    snprintf(filter, sizeof filter, "pid=%.40s", has_pid ? args->rest[0] : "");
    manta_rows *rows = cli_rows(args, client, "stacks", ALL, has_pid ? filter : NULL);
    if (!rows)
        return CLI_FAILED;
    size_t count = rows->count;
    if (cli_output_is_json(args))
        cli_rows_print(args, NULL, rows);
    for (size_t i = 0; i < count && !cli_output_is_json(args); i++) {
        const char *running = cli_cell(rows, i, "running"), *waits = cli_cell(rows, i, "waits_in");
        printf("%s pid %s on node %s (%s)%s%s%s%s\n%s\n\n", cli_cell(rows, i, "role"), cli_cell(rows, i, "pid"),
               cli_cell(rows, i, "node"), cli_cell(rows, i, "state"), running[0] ? " runs " : "", running,
               waits[0] ? ", waits in " : "", waits, cli_cell(rows, i, "stack"));
    }
    cli_rows_notice(args, rows);
    manta_rows_free(rows);
    return count || !has_pid ? CLI_OK : cli_fail("no node has a process %s of this cluster", args->rest[0]);
}

int cli_stack(const struct cli_args *args)
{
    return cli_with_client(args, stack);
}
int cli_list(const struct cli_args *args)
{
    return cli_with_client(args, list);
}
int cli_get(const struct cli_args *args)
{
    return cli_with_client(args, get);
}
int cli_summary(const struct cli_args *args)
{
    return cli_with_client(args, summary);
}
int cli_memory(const struct cli_args *args)
{
    return cli_with_client(args, memory);
}

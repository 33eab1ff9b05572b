/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - what the nodes tell, as JSON: printed row by row for programs, or as values for tables.
 *
 * A million rows are printed as they are read: a tree of JSON values of them would take gigabytes.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_SIZE = 72, OUT_SIZE = 1 << 16, TIME_SIZE = 40 };

/* ---- cells --------------------------------------------------------------------------------------------------------- */

enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_TIME };

static bool is_any(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list) != 0)
        list++;
    return *list != NULL;
}

static enum cell_kind kind_of_column(const char *column)
{
    static const char *const times[] = {"submitted", "started", "ended", NULL};
    static const char *const numbers[] = {"attempt", "node",        "pid",        "restarts",    "count",     "finished",
                                          "rss",     "wanted",      "held",       "size",        "owner_pid", "writer_pid",
                                          "pins",    "total_ns",    "store_used", "store_total", "segments",  "workers",
                                          "events",  "events_lost", NULL};
    return is_any(column, times) ? CELL_TIME : is_any(column, numbers) ? CELL_NUMBER : CELL_TEXT;
}

/* "2026-11-22T17:38:23.963293Z"; "": no time. Times come in order, so the date of the last one serves again. */
static void time_text(const char *ns_text, char out[TIME_SIZE])
{
    static time_t last = -1;
    static char   date[TIME_SIZE];
    static size_t size;
    uint64_t      ns = strtoull(ns_text, NULL, 10);
    time_t        s = (time_t)(ns / 1000000000u);
    struct tm     tm;
    out[0] = '\0';
    if (ns && s != last) {
        size = gmtime_r(&s, &tm) ? strftime(date, sizeof date - sizeof ".000000Z", "%Y-%m-%dT%H:%M:%S", &tm) : 0;
        last = s;
    }
    if (!ns || !size)
        return;
    memcpy(out, date, size);
    memcpy(out + size, ".000000Z", sizeof ".000000Z");
    for (uint64_t us = ns % 1000000000u / 1000, at = size + 6; us; us /= 10)
        out[at--] = (char)('0' + us % 10);
}

static json_t *cell_value(enum cell_kind kind, const char *text)
{
    char    time[TIME_SIZE];
    json_t *value;
    if (kind == CELL_TIME) {
        time_text(text, time);
        text = time;
    }
    if (!text[0])
        return json_null();
    if (kind == CELL_NUMBER)
        return json_integer(strtoll(text, NULL, 10));
    value = json_string(text);
    return value ? value : json_string("(no text)"); /* a name that is no UTF-8 */
}

/* column_count: there is none of that name. */
static size_t column_of(const manta_rows *rows, const char *name)
{
    size_t i = 0;
    while (i < rows->column_count && strcmp(rows->columns[i], name) != 0)
        i++;
    return i;
}

const char *cli_cell(const manta_rows *rows, size_t row, const char *column)
{
    size_t i = column_of(rows, column);
    return i < rows->column_count ? rows->cells[row * rows->column_count + i] : "";
}

/* How long a task ran, or runs, in ns. False: it has not begun, or clocks disagree. */
static bool ran_ns(const char *started_text, const char *ended_text, uint64_t *out)
{
    uint64_t        started = strtoull(started_text, NULL, 10), ended = strtoull(ended_text, NULL, 10);
    struct timespec now;
    if (!ended) {
        clock_gettime(CLOCK_REALTIME, &now);
        ended = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    *out = ended - started;
    return started && ended >= started;
}

json_t *cli_rows_json(const manta_rows *rows)
{
    json_t *all = json_array();
    for (size_t r = 0; r < rows->count; r++) {
        const char *started = cli_cell(rows, r, "started");
        json_t     *row = json_object();
        uint64_t    ns;
        for (size_t i = 0; i < rows->column_count; i++)
            json_object_set_new(row, rows->columns[i],
                                cell_value(kind_of_column(rows->columns[i]), rows->cells[r * rows->column_count + i]));
        if (started[0])
            json_object_set_new(row, "seconds",
                                ran_ns(started, cli_cell(rows, r, "ended"), &ns) ? json_real((double)ns / 1e9) : json_null());
        json_array_append_new(all, row);
    }
    return all;
}

/* ---- printed as they are ------------------------------------------------------------------------------------------- */

struct out {
    char   bytes[OUT_SIZE];
    size_t size;
};

struct column {
    char           key[KEY_SIZE]; /* with its quotes, the colon, and what stands before it */
    size_t         key_size;
    enum cell_kind kind;
};

static void out_flush(struct out *out)
{
    fwrite(out->bytes, 1, out->size, stdout);
    out->size = 0;
}

static void out_bytes(struct out *out, const char *bytes, size_t size)
{
    if (out->size + size > OUT_SIZE)
        out_flush(out);
    if (size > OUT_SIZE) {
        fwrite(bytes, 1, size, stdout);
        return;
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void out_text(struct out *out, const char *text)
{
    out_bytes(out, text, strlen(text));
}

/* Whether a text needs nothing but quotes around it to be JSON. */
static bool is_plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 0x7f || text[i] == '"' || text[i] == '\\')
            return false;
    return true;
}

static bool is_number(const char *text, size_t size)
{
    return size < 19 && strspn(text, "0123456789") == size && (text[0] != '0' || size == 1);
}

/* Most cells are copied; what needs more than quotes goes through the library. */
static void out_cell(struct out *out, enum cell_kind kind, const char *text)
{
    char   time[TIME_SIZE];
    size_t size;
    if (kind == CELL_TIME) {
        time_text(text, time);
        text = time;
    }
    size = strlen(text);
    if (!size) {
        out_text(out, "null");
    } else if (kind == CELL_NUMBER && is_number(text, size)) {
        out_bytes(out, text, size);
    } else if (kind != CELL_NUMBER && is_plain(text, size)) {
        out_bytes(out, "\"", 1);
        out_bytes(out, text, size);
        out_bytes(out, "\"", 1);
    } else {
        json_t *value = cell_value(kind == CELL_NUMBER ? kind : CELL_TEXT, text);
        char   *json = json_dumps(value, JSON_ENCODE_ANY);
        out_text(out, json ? json : "null");
        free(json);
        json_decref(value);
    }
}

static void out_seconds(struct out *out, const char *started, const char *ended)
{
    char     text[64] = "null";
    uint64_t ns;
    if (ran_ns(started, ended, &ns))
        snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1000000000u, ns % 1000000000u);
    out_text(out, ",\n    \"seconds\": ");
    out_text(out, text);
}

static void print_json(const manta_rows *rows)
{
    static struct out    out;
    static struct column columns[CTL_COLUMNS_MAX];
    size_t               count = rows->column_count, started = column_of(rows, "started"), ended = column_of(rows, "ended");
    for (size_t i = 0; i < count; i++) {
        struct column *c = &columns[i];
        c->key_size = (size_t)snprintf(c->key, KEY_SIZE, "%s\n    \"%.50s\": ", i ? "," : "", rows->columns[i]);
        c->kind = kind_of_column(rows->columns[i]);
    }
    out_text(&out, "[");
    for (size_t r = 0; r < rows->count; r++) {
        const char *const *cells = rows->cells + r * count;
        out_text(&out, r ? ",\n  {" : "\n  {");
        for (size_t i = 0; i < count; i++) {
            out_bytes(&out, columns[i].key, columns[i].key_size);
            out_cell(&out, columns[i].kind, cells[i]);
        }
        if (started < count && ended < count && cells[started][0])
            out_seconds(&out, cells[started], cells[ended]);
        out_text(&out, "\n  }");
    }
    out_text(&out, rows->count ? "\n]\n" : "]\n");
    out_flush(&out);
}

int cli_rows_print(const struct cli_args *args, const struct cli_column *columns, const manta_rows *rows)
{
    if (!cli_output_is_json(args))
        return cli_print_rows(args, columns, cli_rows_json(rows));
    print_json(rows);
    return CLI_OK;
}

void cli_rows_notice(const struct cli_args *args, const manta_rows *rows)
{
    if (rows->notice[0])
        fprintf(stderr, "manta: %s\n", rows->notice);
    if (rows->is_cut && !cli_output_is_json(args))
        fprintf(stderr, "manta: only the first %zu are shown; --limit shows more, --filter fewer\n", rows->count);
}

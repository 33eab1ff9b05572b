/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - what the nodes tell, as JSON: printed row by row for programs, or as values for tables.
 *
 * A million rows are printed as they are read: a tree of JSON values of them would take gigabytes.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/table/table.h"
#include "core/base/buf.h"
#include "core/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_SIZE = 72, OUT_SIZE = 1 << 16, TIME_SIZE = 40, COLUMNS_MAX = 64, SECOND = 1000000000 };

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

/* As strtoull, but for the sign and the overflow, which no time has. */
static uint64_t number_of(const char *text)
{
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    return number;
}

/* "2026-11-22T17:38:23.963293Z"; "": no time. Times come in order, so the date of the last one serves again. */
static void time_text(const char *ns_text, char out[TIME_SIZE])
{
    static time_t last = -1;
    static char   date[TIME_SIZE];
    static size_t size;
    uint64_t      ns = number_of(ns_text);
    time_t        s = (time_t)(ns / SECOND);
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
    for (uint32_t us = (uint32_t)(ns % SECOND) / 1000, at = (uint32_t)size + 6; us; us /= 10)
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
    uint64_t started = number_of(started_text), ended = number_of(ended_text);
    if (!ended)
        ended = mt_wall_ns();
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

struct column {
    mt_buf         text; /* key and value, with what stands before the key */
    size_t         key_size;
    enum cell_kind kind;
};

/* What is being printed: one list in a process. */
static struct printer {
    char          bytes[OUT_SIZE];
    size_t        size, rows;
    size_t        started, ended; /* columns; column_count: there is none */
    struct column columns[COLUMNS_MAX];
} printer;

static void out_flush(struct printer *p)
{
    fwrite(p->bytes, 1, p->size, stdout);
    p->size = 0;
}

static void out_bytes(struct printer *p, const void *bytes, size_t size)
{
    if (p->size + size > OUT_SIZE)
        out_flush(p);
    if (size > OUT_SIZE) {
        fwrite(bytes, 1, size, stdout);
        return;
    }
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

static void out_text(struct printer *p, const char *text)
{
    out_bytes(p, text, strlen(text));
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

static void append(mt_buf *out, const char *text, size_t size)
{
    if (mt_buf_append(out, text, size).code)
        abort(); /* half a value would be a lie */
}

/* Most cells are copied; what needs more than quotes goes through the library. */
static void append_cell(mt_buf *out, enum cell_kind kind, const char *text)
{
    char   time[TIME_SIZE];
    size_t size;
    if (kind == CELL_TIME) {
        time_text(text, time);
        text = time;
    }
    size = strlen(text);
    if (!size) {
        append(out, "null", 4);
    } else if (kind == CELL_NUMBER && is_number(text, size)) {
        append(out, text, size);
    } else if (kind == CELL_TIME || (kind == CELL_TEXT && is_plain(text, size))) {
        append(out, "\"", 1);
        append(out, text, size);
        append(out, "\"", 1);
    } else {
        json_t *value = cell_value(kind, text);
        char   *json = json_dumps(value, JSON_ENCODE_ANY);
        append(out, json ? json : "null", json ? strlen(json) : 4);
        free(json);
        json_decref(value);
    }
}

static void out_seconds(struct printer *p, const char *started, const char *ended)
{
    static const char key[] = ",\n    \"seconds\": ";
    char              text[64] = "null";
    uint64_t          ns;
    size_t            at = sizeof text - 1;
    out_bytes(p, key, sizeof key - 1);
    if (!ran_ns(started, ended, &ns)) {
        out_text(p, text);
        return;
    }
    uint32_t part = (uint32_t)(ns % SECOND);
    for (int i = 0; i < 9; i++, part /= 10)
        text[--at] = (char)('0' + part % 10);
    text[--at] = '.';
    ns /= SECOND;
    do
        text[--at] = (char)('0' + ns % 10);
    while (ns /= 10);
    out_bytes(p, text + at, sizeof text - 1 - at);
}

static void columns_prepare(struct printer *p, const manta_state_row *row)
{
    p->started = p->ended = row->column_count;
    for (size_t i = 0; i < row->column_count; i++) {
        struct column *c = &p->columns[i];
        char           key[KEY_SIZE];
        c->text.size = 0;
        c->key_size = (size_t)snprintf(key, sizeof key, "%s\n    \"%.50s\": ", i ? "," : "", row->columns[i]);
        append(&c->text, key, c->key_size);
        c->kind = kind_of_column(row->columns[i]);
        if (strcmp(row->columns[i], "started") == 0)
            p->started = i;
        if (strcmp(row->columns[i], "ended") == 0)
            p->ended = i;
    }
}

/* A cell that is as in the row before is printed as it was printed there. */
static bool print_row(void *user, const manta_state_row *row)
{
    struct printer *p = user;
    size_t          count = row->column_count < COLUMNS_MAX ? row->column_count : COLUMNS_MAX;
    if (!p->rows)
        columns_prepare(p, row);
    out_text(p, p->rows++ ? ",\n  {" : "[\n  {");
    for (size_t i = 0; i < count; i++) {
        struct column *c = &p->columns[i];
        if (row->changed >> i & 1) {
            c->text.size = c->key_size;
            append_cell(&c->text, c->kind, row->cells[i]);
        }
        out_bytes(p, c->text.data, c->text.size);
    }
    if (p->started < count && p->ended < count && row->cells[p->started][0])
        out_seconds(p, row->cells[p->started], row->cells[p->ended]);
    out_text(p, "\n  }");
    return !ferror(stdout);
}

static void print_begin(struct printer *p)
{
    p->rows = p->size = 0;
}

static void print_end(struct printer *p)
{
    out_text(p, p->rows ? "\n]\n" : "[]\n");
    out_flush(p);
}

static void print_json(const manta_rows *rows)
{
    print_begin(&printer);
    for (size_t r = 0; r < rows->count; r++)
        print_row(&printer,
                  &(manta_state_row){rows->column_count, rows->columns, rows->cells + r * rows->column_count, UINT64_MAX, {0}});
    print_end(&printer);
}

manta_rows *cli_rows_stream(manta_client *client, const manta_look *look, manta_error *e)
{
    manta_rows *end = NULL;
    print_begin(&printer);
    if (manta_state_each(client, look, print_row, &printer, &end, e) == MANTA_OK)
        print_end(&printer);
    else
        out_flush(&printer); /* without its end, so that nobody takes a part for the whole */
    return end;
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

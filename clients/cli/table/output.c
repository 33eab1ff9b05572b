/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - the same value as a table for people, or as JSON for programs.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/table/table.h"
#include "core/text/near.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELL_SIZE = 640, COLUMNS_MAX = 24 };

static const char *format_of(const struct cli_args *args)
{
    return args->values[CLI_OPT_OUTPUT] ? args->values[CLI_OPT_OUTPUT] : "table";
}

bool cli_output_check(const struct cli_args *args)
{
    const char *format = format_of(args);
    double      limit;
    if (!cli_whole(args, CLI_OPT_LIMIT, 1, 1e15, &limit))
        return false;
    if (strcmp(format, "table") == 0 || strcmp(format, "wide") == 0 || strcmp(format, "json") == 0)
        return true;
    cli_usage(args, "-o \"%s\": table, wide or json is wanted", format);
    return false;
}

bool cli_output_is_json(const struct cli_args *args)
{
    return strcmp(format_of(args), "json") == 0;
}

/* "key=text,key=text", as far as it fits. */
static void object_text(const json_t *object, char out[CELL_SIZE])
{
    const char *key;
    json_t     *value;
    size_t      at = 0;
    out[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *text = json_is_string(value) ? json_string_value(value) : "";
        int         n = snprintf(out + at, CELL_SIZE - at, "%s%s=%s", at ? "," : "", key, text);
        at = n < 0 || at + (size_t)n >= CELL_SIZE ? CELL_SIZE - 1 : at + (size_t)n;
    }
}

static void cell_text(const json_t *value, char out[CELL_SIZE])
{
    if (json_is_string(value))
        snprintf(out, CELL_SIZE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, CELL_SIZE, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, CELL_SIZE, "%g", json_real_value(value));
    else if (json_is_object(value))
        object_text(value, out);
    else
        snprintf(out, CELL_SIZE, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
    if (!out[0])
        snprintf(out, CELL_SIZE, "-");
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' '; /* a name must not move the cursor */
}

/* The colour of a state; NULL: none. */
static const char *colour_of(const char *text)
{
    static const char *const good[] = {"SUCCEEDED", "ALIVE", NULL}, *const bad[] = {"FAILED", "DEAD", NULL},
                             *const busy[] = {"RUNNING", "PENDING", "SUSPECT", NULL};
    const char                     *off = getenv("NO_COLOR");
    if (!isatty(STDOUT_FILENO) || (off && off[0]))
        return NULL;
    for (int i = 0; good[i]; i++)
        if (strcmp(text, good[i]) == 0)
            return "\033[32m";
    for (int i = 0; bad[i]; i++)
        if (strcmp(text, bad[i]) == 0)
            return "\033[31m";
    for (int i = 0; busy[i]; i++)
        if (strcmp(text, busy[i]) == 0)
            return "\033[33m";
    return NULL;
}

/* Letters, as a terminal shows them: a name may be in UTF-8, whose further bytes take no room. (Wide ones count as one.) */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_cell(const char *text, size_t width, bool is_last)
{
    const char *colour = colour_of(text);
    int         fill = is_last ? 0 : (int)(width - width_of(text)) + 2;
    printf("%s%s%s%*s", colour ? colour : "", text, colour ? "\033[0m" : "", fill, "");
    if (is_last)
        putchar('\n');
}

/* Whether the filters of the options let an object through. */
static bool passes(const struct cli_args *args, const json_t *row)
{
    for (size_t i = 0; i < args->filter_count; i++) {
        const char *words = args->filters[i], *equals = strchr(words, '=');
        bool        is_not = equals[-1] == '!';
        char        key[64], text[CELL_SIZE];
        snprintf(key, sizeof key, "%.*s", (int)(equals - words) - is_not, words);
        cell_text(json_object_get(row, key), text);
        if ((strcmp(text, equals[1] ? equals + 1 : "-") == 0) == is_not)
            return false;
    }
    return true;
}

/* False: it is printed what is wrong. */
static bool filter_check(const struct cli_args *args, const char *words, const json_t *key_row, const char *const *states)
{
    static const char *const yes_no[] = {"yes", "no", NULL};
    const char *const       *known = NULL;
    char                     key[64], text[200];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(words, "!="), words);
    const json_t *value = json_object_get(key_row, key);
    if (!value) {
        cli_usage(args, "--filter \"%s\": there is no such key; -o json shows which there are", words);
        return false;
    }
    if (strcmp(key, "state") == 0)
        known = states;
    else if (json_is_boolean(value))
        known = yes_no;
    if (!known || mt_word_is_of(strchr(words, '=') + 1, known, text, sizeof text))
        return true;
    cli_usage(args, "--filter \"%s\": no %s is so; %s", words, key, text);
    return false;
}

bool cli_filter_rows(const struct cli_args *args, json_t *take_key_row, const char *const *states, json_t *rows)
{
    double limit = 1e9;
    bool   is_good = cli_whole(args, CLI_OPT_LIMIT, 1, 1e15, &limit);
    for (size_t i = 0; i < args->filter_count && is_good; i++)
        is_good = filter_check(args, args->filters[i], take_key_row, states);
    json_decref(take_key_row);
    if (!is_good)
        return false;
    for (size_t i = 0; i < json_array_size(rows);)
        if (i >= (size_t)limit || !passes(args, json_array_get(rows, i)))
            json_array_remove(rows, i);
        else
            i++;
    return true;
}

int cli_print_rows(const struct cli_args *args, const struct cli_column *columns, json_t *take_rows)
{
    const struct cli_column *shown[COLUMNS_MAX];
    size_t                   widths[COLUMNS_MAX], count = 0, i;
    char                     text[CELL_SIZE];
    const json_t            *row;
    if (cli_output_is_json(args))
        return cli_print_json(take_rows);
    for (const struct cli_column *c = columns; c->title && count < COLUMNS_MAX; c++)
        if (!c->is_wide || strcmp(format_of(args), "wide") == 0)
            shown[count++] = c;
    for (size_t k = 0; k < count; k++) {
        widths[k] = strlen(shown[k]->title);
        json_array_foreach(take_rows, i, row)
        {
            cell_text(json_object_get(row, shown[k]->key), text);
            widths[k] = width_of(text) > widths[k] ? width_of(text) : widths[k];
        }
    }
    for (size_t k = 0; k < count; k++)
        print_cell(shown[k]->title, widths[k], k + 1 == count);
    json_array_foreach(take_rows, i, row)
    {
        for (size_t k = 0; k < count; k++) {
            cell_text(json_object_get(row, shown[k]->key), text);
            print_cell(text, widths[k], k + 1 == count);
        }
    }
    json_decref(take_rows);
    return CLI_OK;
}

int cli_print_json(json_t *take_value)
{
    json_dumpf(take_value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(take_value);
    return CLI_OK;
}

json_t *cli_time_json(uint64_t ms)
{
    char      text[32];
    time_t    s = (time_t)(ms / 1000);
    struct tm tm;
    if (!ms || !gmtime_r(&s, &tm))
        return json_null();
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(text);
}

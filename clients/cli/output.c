/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - the same value as a table for people, or as JSON for programs.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELL_SIZE = 640, COLUMNS_MAX = 16 };

static const char *format_of(const struct cli_args *args)
{
    return args->values[CLI_OPT_OUTPUT] ? args->values[CLI_OPT_OUTPUT] : "table";
}

bool cli_output_check(const struct cli_args *args)
{
    const char *format = format_of(args);
    if (strcmp(format, "table") == 0 || strcmp(format, "wide") == 0 || strcmp(format, "json") == 0)
        return true;
    cli_usage(args, "-o \"%s\": table, wide or json is wanted", format);
    return false;
}

bool cli_output_is_json(const struct cli_args *args)
{
    return strcmp(format_of(args), "json") == 0;
}

static void cell_text(const json_t *value, char out[CELL_SIZE])
{
    if (json_is_string(value))
        snprintf(out, CELL_SIZE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, CELL_SIZE, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, CELL_SIZE, "%g", json_real_value(value));
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
    const char *off = getenv("NO_COLOR");
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

static void print_cell(const char *text, size_t width, bool is_last)
{
    const char *colour = colour_of(text);
    int         fill = is_last ? 0 : (int)(width - strlen(text)) + 2;
    printf("%s%s%s%*s", colour ? colour : "", text, colour ? "\033[0m" : "", fill, "");
    if (is_last)
        putchar('\n');
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
        json_array_foreach(take_rows, i, row) {
            cell_text(json_object_get(row, shown[k]->key), text);
            widths[k] = strlen(text) > widths[k] ? strlen(text) : widths[k];
        }
    }
    for (size_t k = 0; k < count; k++)
        print_cell(shown[k]->title, widths[k], k + 1 == count);
    json_array_foreach(take_rows, i, row) {
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

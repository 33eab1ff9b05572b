/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - values printed as a table or as JSON. Thread: main.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "clients/cli/words/words.h"

#include <jansson.h>

/* ---- output.c: one value, printed as a table or as JSON ---- */

struct cli_column {
    const char *key;     /* in the JSON object */
    const char *title;   /* NULL ends the list */
    bool        is_wide; /* with -o wide only */
};
/* False: -o names no format, or --limit is no number, and that is printed. */
bool cli_output_check(const struct cli_args *args);
bool cli_output_is_json(const struct cli_args *args);
/* Prints `rows`, an array of objects, and drops the reference. Returns CLI_OK. */
int cli_print_rows(const struct cli_args *args, const struct cli_column *columns, json_t *take_rows);
/* Takes out of `rows` what --filter and --limit leave out: for what no node has filtered. `take_key_row`: one row, which has the
 * keys; its reference is dropped. `states`: the words of the key "state", the last one followed by NULL. False: a filter names a
 * key, or a state, that there is not, and that is printed. */
bool cli_filter_rows(const struct cli_args *args, json_t *take_key_row, const char *const *states, json_t *rows);
/* A moment of the wall clock, in ms since 1970, as text; 0: null. */
json_t *cli_time_json(uint64_t ms);
/* Prints as JSON and drops the reference. Returns CLI_OK. */
int cli_print_json(json_t *take_value);

/* ---- rows.c: what the nodes tell, as JSON ---- */

/* "" where the column does not exist. */
const char *cli_cell(const manta_rows *rows, size_t row, const char *column);
/* An array of objects. A million rows take gigabytes so: cli_rows_print does without. */
json_t *cli_rows_json(const manta_rows *rows);
/* Prints them as the options want: as JSON, or as a table of `columns`. Returns CLI_OK. */
int cli_rows_print(const struct cli_args *args, const struct cli_column *columns, const manta_rows *rows);
/* Prints what was asked for as JSON while it is told, in the same bytes. NULL: it failed, *e says why, and the end of the JSON is
 * missing. */
manta_rows *cli_rows_stream(manta_client *client, const manta_look *look, manta_error *e);
/* Prints to standard error what is missing in them. */
void cli_rows_notice(const struct cli_args *args, const manta_rows *rows);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - rows as a table for people, or as one JSON object per line.
 *
 * Thread: the main one.
 */
#include "tests/bench/bench.h"

#include <stdio.h>

static void number_print(double x, int width)
{
    char text[32];
    if (x == 0)
        snprintf(text, sizeof text, "%s", "0");
    else if (x >= 1000)
        snprintf(text, sizeof text, "%.0f", x);
    else
        snprintf(text, sizeof text, "%.4g", x);
    printf(" %*s", width, text);
}

void bench_print_head(const struct bench *b)
{
    if (b->options.output == BENCH_JSON)
        return;
    printf("%-34s %12s %-10s %10s %10s %-12s %12s", "CASE", "VALUE", "UNIT", "SD", "N", "FLOOR", "FLOOR_VALUE");
    printf(b->options.output == BENCH_WIDE ? " %8s %6s\n" : "\n", "X_FLOOR", "CORES");
    fflush(stdout);
}

static void row_print_json(const struct bench_row *row)
{
    printf("{\"case\": \"%s\", \"value\": %.9g, \"unit\": \"%s\", \"sd\": %.9g, \"n\": %llu, ", row->id, row->value, row->unit,
           row->sd, (unsigned long long)row->n);
    if (row->floor == FLOOR_NONE)
        printf("\"floor\": null, \"floor_value\": null}\n");
    else
        printf("\"floor\": \"%s\", \"floor_value\": %.9g}\n", bench_floor_texts[row->floor].id, row->floor_value);
}

void bench_print_row(const struct bench *b, const struct bench_row *row)
{
    if (b->options.output == BENCH_JSON) {
        row_print_json(row);
        fflush(stdout);
        return;
    }
    printf("%-34s", row->id);
    number_print(row->value, 12);
    printf(" %-10s", row->unit);
    number_print(row->sd, 10);
    printf(" %10llu %-12s", (unsigned long long)row->n, row->floor ? bench_floor_texts[row->floor].id : "-");
    if (row->floor)
        number_print(row->floor_value, 12);
    else
        printf(" %12s", "-");
    if (b->options.output == BENCH_WIDE) {
        number_print(row->floor && row->floor_value > 0 ? row->value / row->floor_value : 0, 8);
        number_print(row->cores, 6);
    }
    printf("\n");
    fflush(stdout);
}

void bench_print_value(const struct bench *b, const char *id, const char *unit, double value, uint64_t n)
{
    bench_print_row(b, &(struct bench_row){.id = id, .unit = unit, .value = value, .n = n});
}

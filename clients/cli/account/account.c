/* SPDX-License-Identifier: Apache-2.0
 *
 * account.c - `manta account`: what users have spent.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/account/account.h"
#include "clients/cli/table/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DAY_S = 24 * 3600 };

static json_t *row_json(const manta_account *a)
{
    char      day[16];
    time_t    s = (time_t)(a->day_ms / 1000);
    struct tm tm;
    json_t   *o = json_object();
    json_object_set_new(o, "user", json_string(a->user));
    if (a->day_ms && gmtime_r(&s, &tm) && strftime(day, sizeof day, "%Y-%m-%d", &tm))
        json_object_set_new(o, "day", json_string(day));
    else
        json_object_set_new(o, "day", json_null());
    json_object_set_new(o, "cpu_s", json_real(a->cpu_s));
    json_object_set_new(o, "gpu_s", json_real(a->gpu_s));
    json_object_set_new(o, "memory_gib_s", json_real(a->memory_gib_s));
    json_object_set_new(o, "cost", json_real(a->cost));
    return o;
}

/* "2026-11-28", or "7d": of today and the days before, so many in all. */
static bool since_of(const struct cli_args *args, uint64_t *out_ms)
{
    const char *text = args->values[CLI_OPT_SINCE], *end;
    char       *rest;
    struct tm   tm = {0};
    *out_ms = 0;
    if (!text)
        return true;
    long   days = strtol(text, &rest, 10);
    time_t now = time(NULL), day = 0;
    if (rest != text && strcmp(rest, "d") == 0 && days >= 1 && days <= 100000)
        day = now - now % DAY_S - (days - 1) * DAY_S;
    else if ((end = strptime(text, "%Y-%m-%d", &tm)) && !*end)
        day = timegm(&tm);
    else
        return cli_usage(args, "--since \"%s\": a day (2026-11-28), or a number of days (7d) is wanted", text), false;
    *out_ms = day > 0 ? (uint64_t)day * 1000 : 1;
    return true;
}

static int account(const struct cli_args *args, manta_client *client)
{
    static const struct cli_column columns[] = {
        {"user", "USER", false}, {"cpu_s", "CPU_S", false}, {"gpu_s", "GPU_S", false}, {"memory_gib_s", "MEMORY_GIB_S", false},
        {"cost", "COST", false}, {NULL, NULL, false},
    };
    static const struct cli_column by_day[] = {
        {"day", "DAY", false},
        {"user", "USER", false},
        {"cpu_s", "CPU_S", false},
        {"gpu_s", "GPU_S", false},
        {"memory_gib_s", "MEMORY_GIB_S", false},
        {"cost", "COST", false},
        {NULL, NULL, false},
    };
    const char        *by = args->values[CLI_OPT_BY];
    manta_account_opts opts = {.user = args->values[CLI_OPT_USER], .by_day = by != NULL};
    manta_account     *rows;
    manta_error        e;
    size_t             count;
    if (by && strcmp(by, "day") != 0)
        return cli_usage(args, "--by \"%s\": day is wanted", by);
    if (!since_of(args, &opts.since_ms))
        return CLI_USAGE;
    if (manta_account_list(client, &opts, &rows, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, row_json(&rows[i]));
    free(rows);
    return cli_print_rows(args, by ? by_day : columns, list);
}

int cli_account(const struct cli_args *args)
{
    return cli_with_client(args, account);
}

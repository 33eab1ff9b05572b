/* SPDX-License-Identifier: Apache-2.0
 *
 * when.c - times and durations as people write them.
 */
#include "clients/cli/words/words.h"
#include "core/base/clock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t DURATION_S_MAX = INT64_C(100) * 365 * 86400;

static int64_t unit_s(char letter)
{
    switch (letter) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3600;
    case 'd': return 86400;
    default: return 0;
    }
}

/* A part of it: digits alone, up to `stop`, at most `most`. -1: it is none. */
static int64_t part_read(const char **at, char stop, int64_t most)
{
    char   *end;
    int64_t n = isdigit((unsigned char)**at) ? strtoll(*at, &end, 10) : -1;
    if (n < 0 || n > most || *end != stop)
        return -1;
    *at = end;
    return n;
}

/* As users of Slurm write it: "10:00" are minutes and seconds, "0:10:00" begins with hours, "1-02", "1-02:00" and "1-02:00:00" with
 * days, behind which come hours. Only what stands first may be more than makes up the next larger unit. False: it is none. */
static bool clock_read(const char *text, int64_t *out_s)
{
    static const int64_t units[] = {86400, 3600, 60, 1}, most[] = {DURATION_S_MAX / 86400, 23, 59, 59};
    const bool           has_days = strchr(text, '-') != NULL;
    size_t               colons = 0, first, last;
    int64_t              sum = 0;
    for (const char *at = text; (at = strchr(at, ':')); at++)
        colons++;
    first = has_days ? 0 : 3 - colons;
    last = has_days ? 1 + colons : 3;
    if (colons > 2 || (!has_days && !colons))
        return false;
    for (size_t i = first; i <= last; i++) {
        int64_t n = part_read(&text, i == last ? '\0' : i == 0 ? '-' : ':', i == first ? DURATION_S_MAX / units[i] : most[i]);
        if (n < 0)
            return false;
        sum += n * units[i];
        text += i < last;
    }
    *out_s = sum;
    return sum > 0 && sum <= DURATION_S_MAX;
}

/* "90s", "2h30m", "1d". False: it is none. */
static bool units_read(const char *text, int64_t *out_s)
{
    int64_t sum = 0, before = INT64_MAX;
    if (!*text)
        return false;
    while (*text) {
        char   *end;
        int64_t n = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : -1;
        int64_t unit = n >= 0 ? unit_s(*end) : 0;
        if (unit == 0 || unit >= before || n > DURATION_S_MAX / unit)
            return false;
        sum += n * unit;
        before = unit;
        text = end + 1;
    }
    *out_s = sum;
    return sum > 0 && sum <= DURATION_S_MAX;
}

static bool duration_read(const char *text, int64_t *out_s)
{
    return units_read(text, out_s) || clock_read(text, out_s);
}

/* "2026-11-28 18:00", with seconds or without, with a T for the space, with a Z for UTC; else this machine's time zone. */
static bool time_read(const char *text, time_t *out)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct tm   tm = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &tm);
        if (!end || (*end && strcmp(end, "Z") != 0))
            continue;
        *out = *end ? timegm(&tm) : mktime(&tm);
        return *out > 0;
    }
    return false;
}

bool cli_duration(const struct cli_args *args, enum cli_option option, int64_t *out_s)
{
    const char *text = args->values[option];
    if (!text || duration_read(text, out_s))
        return true;
    cli_usage(args, "--%s \"%s\": a time such as 90s, 2h30m, 0:10:00 or 1-02:00:00 is wanted", cli_options[option].name, text);
    return false;
}

bool cli_time_limit(const struct cli_args *args, int64_t *out_s)
{
    double seconds = 0;
    if (args->values[CLI_OPT_TIME] && args->values[CLI_OPT_TIME_S])
        return cli_usage(args, "--time and --time-s say the same: one of them is enough"), false;
    if (!cli_duration(args, CLI_OPT_TIME, out_s) || !cli_number(args, CLI_OPT_TIME_S, 0, &seconds))
        return false;
    if (args->values[CLI_OPT_TIME_S])
        *out_s = (int64_t)seconds;
    return true;
}

bool cli_time_until(const struct cli_args *args, enum cli_option option, uint64_t *out_ms)
{
    const char *text = args->values[option];
    int64_t     seconds;
    time_t      at;
    if (!text)
        return true;
    if (duration_read(text, &seconds)) {
        *out_ms = mt_wall_ms() + (uint64_t)seconds * 1000;
        return true;
    }
    if (time_read(text, &at)) {
        *out_ms = (uint64_t)at * 1000;
        return true;
    }
    cli_usage(args, "--%s \"%s\": a time such as \"2026-11-28 18:00\", or one from now such as 2h30m, is wanted",
              cli_options[option].name, text);
    return false;
}

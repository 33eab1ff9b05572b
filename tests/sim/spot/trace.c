/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - days: drawn, or read from a file in the form of the public traces.
 */
#include "tests/sim/spot/day.h"

#include "core/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP_TICKS = 5, FILE_MAX = 4 * 1024 * 1024 };

static double share(mt_rng *rng)
{
    return (double)(mt_rng_next(rng) >> 11) * 0x1p-53;
}

static mt_rng rng_of(uint64_t seed)
{
    return (mt_rng){seed * 0xd1342543de82ef95u};
}

/* How long spells last, and which share of the time there are some, differs from zone to zone. */
static void zone_make(mt_rng *rng, bool *out)
{
    double there = 60 * (0.5 + 5 * share(rng)), part = 0.15 + 0.8 * share(rng), away = there * (1 - part) / part;
    bool   is = share(rng) < part;
    for (uint32_t at = 0; at < DAY_TICKS; is = !is) {
        double   length = -(is ? there : away) * log(1 - share(rng));
        uint32_t gaps = 1 + (uint32_t)(length / GAP_TICKS);
        for (uint32_t k = 0; k < gaps * GAP_TICKS && at < DAY_TICKS; k++)
            out[at++] = is;
    }
}

void day_make(uint64_t seed, struct day *out)
{
    mt_rng rng = rng_of(seed);
    for (int z = 0; z < ZONES; z++)
        zone_make(&rng, out->can_be_had[z]);
}

void day_job(uint64_t seed, struct day *out)
{
    mt_rng rng = rng_of(seed + (1u << 20));
    for (int z = 0; z < ZONES; z++)
        out->price[z] = 0.3;
    out->work_ticks = (uint32_t)(60 * (6 + 8 * share(&rng)));
    out->deadline_ticks = (uint32_t)(out->work_ticks * (1.2 + 1.3 * share(&rng)));
    if (out->deadline_ticks > DAY_TICKS)
        out->deadline_ticks = DAY_TICKS;
    out->change_ticks = 2 + (uint32_t)(4 * share(&rng));
    out->boot_s = 40 + (uint32_t)(80 * share(&rng));
}

/* ---- files ---- */

static bool wrong(char *text, size_t size, const char *file, const char *what)
{
    snprintf(text, size, "%s: %s", file, what);
    return false;
}

static char *file_text(const char *file)
{
    FILE  *f = fopen(file, "r");
    char  *text = f ? malloc(FILE_MAX + 1) : NULL;
    size_t size = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
    if (f)
        fclose(f);
    if (text && size > FILE_MAX) {
        free(text);
        return NULL;
    }
    if (text)
        text[size] = '\0';
    return text;
}

static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    at = at ? strchr(at, ':') : NULL;
    return at ? at + 1 + strspn(at + 1, " \t\r\n") : NULL;
}

/* The counts, and how many there are; 0: it is no list of counts. */
static size_t counts_read(const char *at, uint8_t *out, size_t most)
{
    size_t n = 0;
    if (!at || *at != '[')
        return 0;
    for (char *end; *at != ']'; at = end + strspn(end, " \t\r\n")) {
        long count = strtol(at + 1, &end, 10);
        if (end == at + 1 || count < 0 || n == most)
            return 0;
        out[n++] = count > 0;
        end += strspn(end, " \t\r\n");
        if (*end != ',' && *end != ']')
            return 0;
    }
    return n;
}

bool day_read(const char *file, uint64_t from_tick, bool *out_ticks, char *text, size_t size)
{
    char       *all = file_text(file);
    uint8_t    *counts = malloc(FILE_MAX);
    const char *gap = all ? value_of(all, "\"gap_seconds\"") : NULL;
    uint64_t    seconds = gap ? strtoull(gap, NULL, 10) : 0;
    size_t      n = all && counts ? counts_read(value_of(all, "\"data\""), counts, FILE_MAX) : 0;
    for (uint64_t t = 0; n > 0 && seconds > 0 && t < DAY_TICKS; t++)
        out_ticks[t] = counts[(from_tick + t) * TICK_S / seconds % n];
    bool is_read = all != NULL;
    free(all);
    free(counts);
    if (!is_read)
        return wrong(text, size, file, "can't be read, or is larger than 4 MiB");
    if (seconds == 0)
        return wrong(text, size, file, "metadata.gap_seconds is missing, or no number above 0");
    return n > 0 || wrong(text, size, file, "data is missing, or no list of counts");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * indices.c - the indices of an array, as users of Slurm write them: "0-9", "1,3,7", "0-99:10", "0-9%2".
 *
 * Owns: nothing. Thread: any.
 */
#include "clients/control/indices.h"

#include "core/base/limits/head.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    const char *at;
    const char *wrong; /* NULL: nothing so far */
};

static uint32_t number_read(struct reading *r, uint32_t least, uint32_t most, const char *wrong)
{
    char         *end = (char *)(uintptr_t)r->at;
    unsigned long n = isdigit((unsigned char)*r->at) ? strtoul(r->at, &end, 10) : 0;
    if (!r->wrong && (end == r->at || n < least || n > most))
        r->wrong = wrong;
    r->at = end;
    return r->wrong ? least : (uint32_t)n;
}

/* "3", "0-9", "0-9:2" */
static Manta__V1__IndexRange range_read(struct reading *r)
{
    static const char     wrong[] = "an index is a number of 0 to 999999";
    Manta__V1__IndexRange range = MANTA__V1__INDEX_RANGE__INIT;
    range.first = range.last = number_read(r, 0, MT_HEAD_ARRAY_INDEX_MAX, wrong);
    range.step = 1;
    if (*r->at != '-')
        return range;
    r->at++;
    range.last = number_read(r, 0, MT_HEAD_ARRAY_INDEX_MAX, wrong);
    if (!r->wrong && range.last < range.first)
        r->wrong = "the first index of a range is not above its last one";
    if (*r->at != ':')
        return range;
    r->at++;
    range.step = number_read(r, 1, MT_HEAD_ARRAY_INDEX_MAX, "a step is a number of 1 to 999999");
    return range;
}

static size_t ranges_in(const char *text)
{
    size_t count = 1;
    for (; *text; text++)
        count += *text == ',';
    return count;
}

const char *ctl_indices_read(const char *text, struct ctl_indices *out)
{
    struct reading r = {.at = text};
    size_t         most = ranges_in(text);
    uint64_t       count = 0;
    *out = (struct ctl_indices){.ranges = calloc(most, sizeof *out->ranges), .list = calloc(most, sizeof(Manta__V1__IndexRange *))};
    if (!out->ranges || !out->list)
        return "there is no memory for so many";
    do {
        r.at += out->size > 0;
        Manta__V1__IndexRange range = range_read(&r);
        count += (range.last - range.first) / range.step + 1;
        out->ranges[out->size] = range;
        out->list[out->size] = &out->ranges[out->size];
        out->size++;
    } while (!r.wrong && *r.at == ',');
    if (!r.wrong && *r.at == '%') {
        r.at++;
        out->most = number_read(&r, 1, UINT32_MAX, "behind % stands how many of them may run at a time");
    }
    if (!r.wrong && *r.at)
        r.wrong = "indices are as 0-9, 1,3,7 or 0-99:10, and %N behind them lets N run at a time";
    out->count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    return r.wrong;
}

void ctl_indices_fini(struct ctl_indices *indices)
{
    free(indices->ranges);
    free(indices->list);
    *indices = (struct ctl_indices){.size = 0};
}

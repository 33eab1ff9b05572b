/* SPDX-License-Identifier: Apache-2.0
 *
 * amounts.c - see amounts.h.
 */
#include "core/text/amounts.h"

#include "core/base/real.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *mt_amount_wrong(const char *name, double amount)
{
    if (strcmp(name, "memory") == 0) /* which is bytes */
        return amount == 0 || (amount >= 1 && amount <= 1e15) ? NULL : "an amount of memory is 0, or from 1 to 1e15 bytes";
    return amount == 0 || (amount >= 0.001 && amount <= 1e12) ? NULL : "an amount is 0, or from 0.001 to 1e12";
}

const char *mt_amount_wrong_of_node(const char *name, double amount)
{
    const char *why = mt_amount_wrong(name, amount);
    if (!why && strcmp(name, "GPU") == 0 && amount != (double)(int64_t)amount)
        return "a node has whole GPUs; tasks and jobs may ask for parts of one";
    return why;
}

static mt_status wrong(char *text, size_t size, const char *pair, const char *what)
{
    snprintf(text, size, "\"%.*s\": %s", (int)strcspn(pair, ","), pair, what);
    return mt_error(MT_EINVAL, 0, "resources");
}

mt_status mt_amounts_read(const char *amounts, struct mt_amounts *out, char *text, size_t text_size)
{
    out->count = 0;
    for (const char *pair = amounts; *pair;) {
        size_t name = strcspn(pair, "=,");
        char  *end;
        if (pair[name] != '=' || name == 0)
            return wrong(text, text_size, pair, "NAME=N is wanted, with commas between them");
        if (name >= MT_AMOUNT_NAME_SIZE)
            return wrong(text, text_size, pair, "a name has at most 23 bytes");
        for (uint32_t i = 0; i < out->count; i++)
            if (strncmp(out->list[i].name, pair, name) == 0 && !out->list[i].name[name])
                return wrong(text, text_size, pair, "this name stands there before");
        if (out->count == MT_RLT_RESOURCES_MAX)
            return wrong(text, text_size, pair, "these are too many");
        struct mt_amount *to = &out->list[out->count];
        memcpy(to->name, pair, name);
        to->name[name] = '\0';
        double value = mt_real_read(pair + name + 1, &end);
        if (end == pair + name + 1 || (*end && *end != ',') || value == 0 || mt_amount_wrong(to->name, value))
            return wrong(text, text_size, pair, "an amount is a number from 0.001 to 1e12");
        out->count++;
        to->milli = (int64_t)(value * 1000 + 0.5);
        pair = *end ? end + 1 : end;
    }
    return mt_ok();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * amounts.c - see amounts.h.
 */
#include "core/text/amounts.h"

#include "core/base/real.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
        bool   is_memory = strncmp(pair, "memory=", strlen("memory=")) == 0; /* which is bytes */
        if (pair[name] != '=' || name == 0)
            return wrong(text, text_size, pair, "NAME=N is wanted, with commas between them");
        if (name >= MT_AMOUNT_NAME_SIZE)
            return wrong(text, text_size, pair, "a name has at most 23 bytes");
        for (uint32_t i = 0; i < out->count; i++)
            if (strncmp(out->list[i].name, pair, name) == 0 && !out->list[i].name[name])
                return wrong(text, text_size, pair, "this name stands there before");
        double value = mt_real_read(pair + name + 1, &end);
        if (end == pair + name + 1 || (*end && *end != ',') || !(value >= 0.001) || value > (is_memory ? 1e15 : 1e12))
            return wrong(text, text_size, pair, "an amount is a number from 0.001 to 1e12");
        if (out->count == MT_RLT_RESOURCES_MAX)
            return wrong(text, text_size, pair, "these are too many");
        struct mt_amount *to = &out->list[out->count++];
        memcpy(to->name, pair, name);
        to->name[name] = '\0';
        to->milli = (int64_t)(value * 1000 + 0.5);
        pair = *end ? end + 1 : end;
    }
    return mt_ok();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * id.c - the text form of ids. Thread: any; owns nothing.
 */
#include "core/base/id.h"

#include <stdio.h>
#include <string.h>

char *mt_id_text(mt_id id, char *out)
{
    snprintf(out, MT_ID_TEXT_SIZE, "%016llx-%012llx-%04x", (unsigned long long)id.process,
             (unsigned long long)mt_id_counter(id), mt_id_index(id));
    return out;
}

static bool hex_read(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = text[i];
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

mt_status mt_id_parse(const char *text, mt_id *out)
{
    uint64_t process, counter, index;
    if (strlen(text) != 34 || text[16] != '-' || text[29] != '-' || !hex_read(text, 16, &process) ||
        !hex_read(text + 17, 12, &counter) || !hex_read(text + 30, 4, &index))
        return mt_error(MT_EINVAL, 0, "parse id: want 16-12-4 hexadecimal digits");
    *out = mt_id_make(process, counter, (uint16_t)index);
    return mt_ok();
}

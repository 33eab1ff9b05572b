/* SPDX-License-Identifier: Apache-2.0
 *
 * id.c - the text form of ids. Thread: any; owns nothing.
 */
#include "core/base/id.h"

#include <string.h>

char *mt_hex_text(uint64_t value, size_t digits, char *out)
{
    for (size_t i = digits; i-- > 0; value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
    out[digits] = '\0';
    return out;
}

/* By hand: a list of a million tasks has a million of them, and snprintf takes ten times as long. */
char *mt_id_text(mt_id id, char *out)
{
    mt_hex_text(id.process, 16, out);
    out[16] = '-';
    mt_hex_text(mt_id_counter(id), 12, out + 17);
    out[29] = '-';
    mt_hex_text(mt_id_index(id), 4, out + 30);
    return out;
}

static bool hex_read(const char *text, size_t digits, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        char     c = text[i];
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

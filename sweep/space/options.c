/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - reading "name,option=value,flag". Owns nothing. Thread: any.
 */
#include "sweep/space/options.h"

#include "core/text/json.h"
#include "sweep/space/layout.h"

#include <math.h>

/* The next piece up to a comma, without blanks around it; false: it is empty or too long. */
static bool take_piece(const char **text, char out[MT_NAME_BYTES_MAX])
{
    size_t      size = strcspn(*text, ","), start = strspn(*text, " \t");
    const char *from = *text + (start < size ? start : size);
    size_t      left = size - (size_t)(from - *text);
    while (left && (from[left - 1] == ' ' || from[left - 1] == '\t'))
        left--;
    *text += size + ((*text)[size] == ',');
    if (left == 0 || left >= MT_NAME_BYTES_MAX)
        return false;
    memcpy(out, from, left);
    out[left] = '\0';
    return true;
}

static mt_status set_option(const struct swp_option *option, const char *value, struct swp_problem *out)
{
    double         x = 1;
    struct mt_json json = mt_json_of(mt_view_text(value ? value : ""));
    if (option->kind == SWP_OPTION_FLAG && value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return swp_refuse(out, option->name, "option '%s' is true or false, not '%s'", option->name, value);
    if (option->kind == SWP_OPTION_FLAG)
        return *(bool *)option->target = !value || *value == 't', mt_ok();
    if (!value || mt_json_real(&json, &x).code != 0 || mt_json_end(&json).code != 0 || !isfinite(x))
        return swp_refuse(out, option->name, "option '%s' needs a number", option->name);
    if (option->kind == SWP_OPTION_REAL)
        return *(double *)option->target = x, mt_ok();
    if (x < 0 || x > UINT32_MAX || x != floor(x))
        return swp_refuse(out, option->name, "option '%s' needs a whole number, 0 or more", option->name);
    return *(uint32_t *)option->target = (uint32_t)x, mt_ok();
}

mt_status swp_options_parse(const char *text, const struct swp_option *options, char out_name[MT_NAME_BYTES_MAX],
                            struct swp_problem *out_problem)
{
    char        piece[MT_NAME_BYTES_MAX];
    const char *next = text;
    if (!take_piece(&next, out_name))
        return swp_refuse(out_problem, "", "'%.64s' begins with no name", text);
    while (*next) {
        if (!take_piece(&next, piece))
            return swp_refuse(out_problem, "", "'%.64s': an option between two commas is empty or too long", text);
        char *value = strchr(piece, '=');
        if (value)
            *value++ = '\0';
        const struct swp_option *option = options;
        while (option->name && strcmp(option->name, piece) != 0)
            option++;
        if (!option->name)
            return swp_refuse(out_problem, piece, "'%s' has no option '%s'", out_name, piece);
        MT_TRY(set_option(option, value, out_problem));
    }
    return mt_ok();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - reads settings by a table. Owns nothing; thread: the caller's.
 */
#include "core/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES_MAX = 64 };

struct unit {
    const char *suffix;
    int64_t     factor;
};
static const struct unit        units_none[] = {{"", 1}, {NULL, 0}};
static const struct unit        units_bytes[] = {{"", 1},        {"K", 1 << 10},          {"M", 1 << 20},
                                                 {"G", 1 << 30}, {"T", INT64_C(1) << 40}, {NULL, 0}};
static const struct unit        units_ms[] = {{"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"h", 3600 * 1000}, {NULL, 0}};
static const struct unit *const units_of[] = {
    [MT_OPTION_INT] = units_none, [MT_OPTION_BYTES] = units_bytes, [MT_OPTION_MS] = units_ms};

static const char *const wanted_text[] = {
#define X(name, type, wanted) [MT_OPTION_##name] = wanted,
    MT_OPTION_TYPES(X)
#undef X
};

static mt_status refuse(mt_config *config, const mt_option *option, const char *value, const char *reason)
{
    snprintf(config->error, sizeof config->error, "%s=%s: %s; want %s", option->key, value, reason, wanted_text[option->type]);
    return mt_error(MT_EINVAL, 0, "read option: value refused");
}

/* A number and its unit; the reason where it is none, else NULL. */
static const char *number_parse(const char *value, const struct unit *units, int64_t *out)
{
    char *end;
    if (isspace((unsigned char)*value))
        return "no number";
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value)
        return "no number";
    if (errno == ERANGE)
        return "too large";
    for (; units->suffix; units++)
        if (strcmp(end, units->suffix) == 0)
            return __builtin_mul_overflow((int64_t)number, units->factor, out) ? "too large" : NULL;
    return "unknown unit";
}

static mt_status set_number(mt_config *config, const mt_option *option, const char *value)
{
    int64_t     number;
    char        reason[96];
    const char *wrong = number_parse(value, units_of[option->type], &number);
    if (wrong)
        return refuse(config, option, value, wrong);
    if (number < option->min || number > option->max) {
        snprintf(reason, sizeof reason, "not between %lld and %lld", (long long)option->min, (long long)option->max);
        return refuse(config, option, value, reason);
    }
    memcpy((char *)config->target + option->offset, &number, sizeof number);
    return mt_ok();
}

static mt_status set_bool(mt_config *config, const mt_option *option, const char *value)
{
    bool *field = (bool *)((char *)config->target + option->offset);
    if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
        *field = true;
    else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
        *field = false;
    else
        return refuse(config, option, value, "neither");
    return mt_ok();
}

static mt_status set_text(mt_config *config, const mt_option *option, const char *value)
{
    size_t size = strlen(value) + 1;
    if (size > (size_t)option->max)
        return refuse(config, option, value, "too long");
    memcpy((char *)config->target + option->offset, value, size);
    return mt_ok();
}

static mt_status set_option(mt_config *config, const mt_option *option, const char *value)
{
    switch (option->type) {
    case MT_OPTION_BOOL: return set_bool(config, option, value);
    case MT_OPTION_TEXT: return set_text(config, option, value);
    case MT_OPTION_INT:
    case MT_OPTION_BYTES:
    case MT_OPTION_MS: break;
    }
    return set_number(config, option, value);
}

mt_status mt_config_set(mt_config *config, const char *key, const char *value)
{
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->options[i].key, key) == 0)
            return set_option(config, &config->options[i], value);
    snprintf(config->error, sizeof config->error, "%s: no such option", key);
    return mt_error(MT_ENOENT, 0, "read option: unknown key");
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1]))
        text[--size] = 0;
    return text;
}

static mt_status set_line(mt_config *config, char *line, unsigned number)
{
    char *start = trim(line);
    if (*start == 0 || *start == '#')
        return mt_ok();
    char *equals = strchr(start, '=');
    if (!equals) {
        snprintf(config->error, sizeof config->error, "line %u: want key=value", number);
        return mt_error(MT_EINVAL, 0, "read option: line without '='");
    }
    *equals = 0;
    mt_status st = mt_config_set(config, trim(start), trim(equals + 1));
    if (st.code != 0) {
        char message[MT_ERROR_BYTES_MAX];
        snprintf(message, sizeof message, "line %u: %.*s", number, MT_ERROR_BYTES_MAX - 32, config->error);
        memcpy(config->error, message, sizeof message);
    }
    return st;
}

mt_status mt_config_text(mt_config *config, mt_view text)
{
    if (text.size > MT_CONFIG_TEXT_BYTES_MAX || (text.size && memchr(text.data, 0, text.size))) {
        snprintf(config->error, sizeof config->error, "not a configuration: too long, or not text");
        return mt_error(MT_EINVAL, 0, "read options: not a configuration");
    }
    mt_buf    copy = {0};
    mt_status st = mt_buf_append(&copy, text.data, text.size);
    if (st.code == 0)
        st = mt_buf_terminate(&copy);
    char *line = (char *)copy.data;
    for (unsigned number = 1; st.code == 0 && line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        st = set_line(config, line, number);
        line = end;
    }
    mt_buf_fini(&copy);
    return st;
}

mt_status mt_config_environment(mt_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        char        name[KEY_BYTES_MAX + 8] = "MANTA_";
        const char *key = config->options[i].key;
        MT_ASSERT(strlen(key) < KEY_BYTES_MAX);
        for (size_t at = 0; key[at]; at++)
            name[6 + at] = (char)toupper((unsigned char)key[at]);
        const char *value = getenv(name);
        if (value && *value)
            MT_TRY(set_option(config, &config->options[i], value));
    }
    return mt_ok();
}

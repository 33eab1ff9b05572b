/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h - settings: a table of options, filled from MANTA_* variables and key=value text.
 *
 * Each program describes its struct of settings by one table; an entry says the key, the type, the place and the
 * bounds. The option `store_bytes` is `store_bytes=2G` in a file and MANTA_STORE_BYTES=2G in the environment. A
 * refused value leaves its setting alone, and the message names key, value and what is wanted. Not for use while
 * another thread changes the environment.
 */
#ifndef MT_BASE_CONFIG_H
#define MT_BASE_CONFIG_H

#include "core/base/buf.h"
#include "core/base/limits.h"
#include "core/base/status.h"

/* X(name, C type of the field, what a person is told to write) */
/* clang-format off */
#define MT_OPTION_TYPES(X)                                                              \
    X(INT, int64_t, "a whole number")                                                   \
    X(BYTES, int64_t, "a size such as 512, 64K, 16M or 2G")                             \
    X(MS, int64_t, "a duration such as 250ms, 10s, 5min or 1h")                         \
    X(BOOL, bool, "true or false")                                                      \
    X(TEXT, char[], "text")
/* clang-format on */

enum mt_option_type {
#define X(name, type, wanted) MT_OPTION_##name,
    MT_OPTION_TYPES(X)
#undef X
};

typedef struct mt_option {
    const char         *key; /* lower case with '_' */
    enum mt_option_type type;
    size_t              offset; /* of the field in the struct of settings */
    int64_t             min;    /* INT, BYTES, MS: bounds, both allowed */
    int64_t             max;    /* TEXT: size of the char array, its end included */
    const char         *help;   /* one line, for --help and the documentation */
} mt_option;

#define MT_OPTION(type_, struct_, field, min, max, help) \
    { \
#field, MT_OPTION_##type_, offsetof(struct_, field), (min), (max), (help) \
    }
#define MT_OPTION_TEXT_FIELD(struct_, field, help) \
    { \
#field, MT_OPTION_TEXT, offsetof(struct_, field), 0, sizeof(((struct_ *)0)->field), (help) \
    }

typedef struct mt_config {
    const mt_option *options;
    size_t           count;
    void            *target;                    /* the struct of settings, defaults already in it */
    char             error[MT_ERROR_BYTES_MAX]; /* after a failure: what is wrong with which key */
} mt_config;

/* Sets one option by its key. ENOENT: no such key; EINVAL: the value is refused. */
MT_MUST_USE mt_status mt_config_set(mt_config *config, const char *key, const char *value);
/* Lines of key=value; blank lines and lines that begin with '#' are skipped. Stops at the first error, which names the
 * line; what stood before it is set. EINVAL: a line without '=', or a text over MT_CONFIG_TEXT_BYTES_MAX. */
MT_MUST_USE mt_status mt_config_text(mt_config *config, mt_view text);
/* Every option whose variable MANTA_KEY is set and not empty. Other MANTA_ variables are not looked at. */
MT_MUST_USE mt_status mt_config_environment(mt_config *config);

#endif

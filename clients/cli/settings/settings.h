/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h - a file of settings in YAML: read once, walked key by key, each fault said with its place.
 *
 * The one reader of `manta train`, `manta sweep` and what comes. It knows nothing of what the keys mean: the caller walks the
 * mappings and is called for each pair. A key that stands there twice, a key that is no word, and a file that is no YAML are
 * refused here. Thread: the main one.
 */
#ifndef CLI_SETTINGS_SETTINGS_H
#define CLI_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SETTINGS_ERROR_SIZE = 512 };

struct settings {
    const char *file;                       /* its name, as the user wrote it */
    char        error[SETTINGS_ERROR_SIZE]; /* after a failure: "FILE:LINE: KEY: what is wrong" */
    void       *document;                   /* while settings_read runs */
    bool        keeps;                      /* set before: what is read is wanted */
    char       *text;                       /* it, as it was read; the caller's to free. NULL: it is not wanted, or no memory */
    size_t      size;
};

/* A value of the file: plain, a list, or a mapping. Lives while settings_read runs. */
typedef struct settings_value settings_value;

/* Where a value stands. */
struct settings_at {
    struct settings *settings;
    const char      *section, *name; /* "space.lr", "low"; section "" at the top */
    int              line;           /* 0: the command line */
};

/* One pair of a mapping. False, with settings_fail said, ends the walk. */
typedef bool settings_fn(const struct settings_at *at, const settings_value *value, void *user);

/* "FILE:LINE: KEY: ", or "--set KEY: "; returns how long it is. */
int settings_place(const struct settings_at *at, char out[SETTINGS_ERROR_SIZE]);
/* Writes `settings->error`; returns false, so that a reader can say `return settings_fail(...)`. */
bool settings_fail(const struct settings_at *at, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads `file` ("-": standard input) and calls `fn` once with its outermost value, named `name`; NULL where the file is empty.
 * False: settings->error says why. Blocks on the file. */
bool settings_read(struct settings *settings, const char *file, const char *name, settings_fn *fn, void *user);
/* Calls `fn` for each pair of a mapping, in the file's order; `section` is what the pairs' places say before the key.
 * What is no mapping "must have keys of its own". */
bool settings_walk(const struct settings_at *at, const settings_value *value, const char *section, settings_fn *fn, void *user);

/* NULL: it is not plain. The document's, until settings_read returns. */
const char *settings_text(const settings_value *value);
bool        settings_is_list(const settings_value *value);
bool        settings_is_mapping(const settings_value *value);
/* Of a list. */
size_t                settings_count(const settings_value *list);
const settings_value *settings_item(const struct settings_at *at, const settings_value *list, size_t index);

/* A text as a value of a type; false where it is none, and that is said. */
bool settings_number(const struct settings_at *at, const char *text, double *out); /* finite */
bool settings_whole(const struct settings_at *at, const char *text, int64_t *out);
bool settings_bool(const struct settings_at *at, const char *text, bool *out); /* true, false */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - the one door to libyaml. See settings.h. Owns: the document, while settings_read runs. Thread: the main one.
 */
#include "clients/cli/settings/settings.h"

#include <yaml.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const yaml_node_t *node_of(const settings_value *value)
{
    return (const yaml_node_t *)value;
}

static const yaml_node_t *node_at(const struct settings *settings, int index)
{
    return yaml_document_get_node(settings->document, index);
}

static int line_of(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

int settings_place(const struct settings_at *at, char out[SETTINGS_ERROR_SIZE])
{
    int n = at->line ? snprintf(out, SETTINGS_ERROR_SIZE, "%.200s:%d: ", at->settings->file, at->line)
                     : snprintf(out, SETTINGS_ERROR_SIZE, "--set ");
    return n +
           snprintf(out + n, SETTINGS_ERROR_SIZE - (size_t)n, "%.60s%s%.60s: ", at->section, at->section[0] ? "." : "", at->name);
}

bool settings_fail(const struct settings_at *at, const char *format, ...)
{
    char   *error = at->settings->error;
    int     n = settings_place(at, error);
    va_list args;
    va_start(args, format);
    vsnprintf(error + n, SETTINGS_ERROR_SIZE - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ---- the file ---- */

static bool document_read(struct settings *settings, yaml_parser_t *parser, const char *name, settings_fn *fn, void *user)
{
    yaml_document_t document;
    errno = 0;
    if (!yaml_parser_load(parser, &document)) {
        if (parser->error == YAML_READER_ERROR && errno) { /* of read(2): a folder, a broken disk */
            snprintf(settings->error, sizeof settings->error, "%.300s: %s", settings->file, strerror(errno));
            return false;
        }
        snprintf(settings->error, sizeof settings->error, "%.300s:%d: %s", settings->file, (int)parser->problem_mark.line + 1,
                 parser->problem ? parser->problem : "can't be read");
        return false;
    }
    settings->document = &document;
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    struct settings_at at = {settings, "", name, root ? line_of(root) : 1};
    bool               ok = fn(&at, (const settings_value *)root, user);
    settings->document = NULL;
    yaml_document_delete(&document);
    return ok;
}

struct input {
    struct settings *settings;
    FILE            *file;
};

static void keep(struct settings *s, const unsigned char *bytes, size_t size)
{
    char *more = realloc(s->text, s->size + size + 1);
    if (!more) { /* all or nothing */
        free(s->text);
        s->keeps = false;
    } else {
        memcpy(more + s->size, bytes, size);
        s->size += size;
    }
    s->text = more;
}

/* libyaml's reader. */
static int input_read(void *user, unsigned char *bytes, size_t size, size_t *out_size)
{
    struct input *in = user;
    *out_size = fread(bytes, 1, size, in->file);
    if (in->settings->keeps)
        keep(in->settings, bytes, *out_size);
    return !ferror(in->file);
}

bool settings_read(struct settings *settings, const char *file, const char *name, settings_fn *fn, void *user)
{
    yaml_parser_t parser;
    bool          ok = false;
    FILE         *f = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    settings->file = file;
    if (!f || !yaml_parser_initialize(&parser)) {
        snprintf(settings->error, sizeof settings->error, "%.300s: %s", file, strerror(errno));
    } else {
        yaml_parser_set_input(&parser, input_read, &(struct input){settings, f});
        ok = document_read(settings, &parser, name, fn, user);
        yaml_parser_delete(&parser);
    }
    if (f && f != stdin)
        fclose(f);
    return ok;
}

static bool is_there_before(const struct settings *settings, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
                            const char *name)
{
    for (const yaml_node_pair_t *before = mapping->data.mapping.pairs.start; before < pair; before++)
        if (strcmp((const char *)node_at(settings, before->key)->data.scalar.value, name) == 0)
            return true;
    return false;
}

bool settings_walk(const struct settings_at *of, const settings_value *value, const char *section, settings_fn *fn, void *user)
{
    const yaml_node_t *mapping = node_of(value);
    if (!settings_is_mapping(value))
        return settings_fail(of, "must have keys of its own");
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = node_at(of->settings, pair->key);
        struct settings_at at = {of->settings, section, "", line_of(key)};
        if (key->type != YAML_SCALAR_NODE)
            return settings_fail(&at, "a key must be a word");
        at.name = (const char *)key->data.scalar.value;
        if (is_there_before(of->settings, mapping, pair, at.name))
            return settings_fail(&at, "stands there twice");
        if (!fn(&at, (const settings_value *)node_at(of->settings, pair->value), user))
            return false;
    }
    return true;
}

/* ---- values ---- */

const char *settings_text(const settings_value *value)
{
    const yaml_node_t *node = node_of(value);
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

bool settings_is_list(const settings_value *value)
{
    return node_of(value)->type == YAML_SEQUENCE_NODE;
}

bool settings_is_mapping(const settings_value *value)
{
    return value && node_of(value)->type == YAML_MAPPING_NODE;
}

size_t settings_count(const settings_value *list)
{
    const yaml_node_t *node = node_of(list);
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

const settings_value *settings_item(const struct settings_at *at, const settings_value *list, size_t index)
{
    return (const settings_value *)node_at(at->settings, node_of(list)->data.sequence.items.start[index]);
}

bool settings_number(const struct settings_at *at, const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) ? true : settings_fail(at, "\"%.60s\" is not a number", text);
}

bool settings_whole(const struct settings_at *at, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno ? true : settings_fail(at, "\"%.60s\" is not a whole number", text);
}

bool settings_bool(const struct settings_at *at, const char *text, bool *out)
{
    *out = strcmp(text, "true") == 0;
    return *out || strcmp(text, "false") == 0 ? true : settings_fail(at, "is true or false, not \"%.60s\"", text);
}

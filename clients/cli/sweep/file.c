/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - reading a sweep's file, against tables of what it may say. See file.h.
 *
 * Owns: the file's strings. Thread: the main one.
 */
#include "clients/cli/sweep/file.h"

#include <yaml.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum type { INT, INT64, UINT64, REAL, BOOL, TEXT, MODE, LIST };

struct key {
    const char *name;
    enum type   type;
    size_t      offset; /* in manta_sweep_opts */
    const char *text;   /* what it says, for users */
};
#define KEY(name, type, text) \
    { \
#name, type, offsetof(manta_sweep_opts, name), text \
    }
static const struct key keys[] = {
    KEY(name, TEXT, "under which it is found again; \"sweep\""),
    KEY(storage, TEXT, "folder of the sweeps' folders; $MANTA_SWEEPS, else ~/.manta/sweeps"),
    KEY(metric, TEXT, "which of the trials' metrics counts"),
    KEY(mode, MODE, "min or max of it; min"),
    KEY(trials, INT64, "how many; until time_s, or the grid's end"),
    KEY(time_s, REAL, "seconds after which no trial is begun and those under way are stopped; none"),
    KEY(concurrency, INT, "trials at a time; as many as there is room for. 1: each draw has seen all results"),
    KEY(constraints, LIST, "each must hold: \"2*a + b <= 10\" (linear)"),
    KEY(sampler, TEXT, "random, grid, sobol, tpe, cmaes, gp, or exec:PROGRAM ARGS; random"),
    KEY(sampler_opts, TEXT, "\"startup=20,independent\""),
    KEY(scheduler, TEXT, "fifo, median, asha, asha_promote, hyperband, pbt; fifo"),
    KEY(scheduler_opts, TEXT, "\"max_t=27,eta=3\""),
    KEY(stop, TEXT, "rules with ; between them: \"steps,limit=100; trial_plateau,window=6\"; none"),
    KEY(points, LIST, "JSON objects that are tried first"),
    KEY(importance, TEXT, "how parameters are weighed: fanova, ped_anova; fanova"),
    KEY(replay, TEXT, "NAME or NAME:TRIAL of a PBT sweep: a trial that changes its parameters as that one did"),
    KEY(warm_start, LIST, "names of sweeps whose results the sampler is told first"),
    KEY(cpus, REAL, "of a trial; 1; -1: none"),
    KEY(gpus, REAL, "of a trial, a part of one or whole ones; 0"),
    KEY(memory, INT64, "of a trial, bytes; 0"),
    KEY(retries, INT, "of a trial that failed; 2; -1: none"),
    KEY(trial_timeout_s, REAL, "seconds of one attempt; none"),
    KEY(silent_timeout_s, REAL, "seconds without a report; none"),
    KEY(seed, UINT64, "of all draws; 0"),
    KEY(ordered, BOOL, "results reach the sampler in the order of trials; false")};
enum { KEYS = sizeof keys / sizeof *keys };

static const struct {
    const char *name;
    int         kind;
} kinds[] = {{"uniform", MANTA_SWEEP_AXIS_UNIFORM}, {"loguniform", MANTA_SWEEP_AXIS_LOG_UNIFORM},
             {"normal", MANTA_SWEEP_AXIS_NORMAL},   {"lognormal", MANTA_SWEEP_AXIS_LOG_NORMAL},
             {"int", MANTA_SWEEP_AXIS_INT},         {"logint", MANTA_SWEEP_AXIS_LOG_INT},
             {"choice", MANTA_SWEEP_AXIS_CHOICE},   {"ordinal", MANTA_SWEEP_AXIS_ORDINAL},
             {"grid", MANTA_SWEEP_AXIS_GRID}};

void sweep_keys_print(FILE *to)
{
    static const char *const types[] = {
        [INT] = "whole number", [INT64] = "whole number", [UINT64] = "whole number", [REAL] = "number",
        [BOOL] = "true, false", [TEXT] = "text",          [MODE] = "min, max",       [LIST] = "list"};
    static const char *const more[][3] = {
        {"trial.command", "list", "program and arguments; {NAME} is a parameter, {args} all as --NAME=VALUE"},
        {"trial.env", "mapping", "NAME: VALUE, of the program"},
        {"trial.metrics", "text", "a file with a line for each report, in place of what the program prints"},
        {"trial.code", "text", "a shared object, in place of a program"},
        {"trial.function", "text", "the trial function in it"},
        {"resources.NAME", "number", "of a trial, of nodes' own resources"},
        {"space.NAME", "mapping",
         "type and: low, high, step, or mean, deviation, or values; when: \"OTHER == VALUE\". A list is a "
         "choice, a plain value a constant"},
    };
    for (int k = 0; k < KEYS; k++)
        fprintf(to, "%-20s %-14s %s\n", keys[k].name, types[keys[k].type], keys[k].text);
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
        fprintf(to, "%-20s %-14s %s\n", more[k][0], more[k][1], more[k][2]);
    fprintf(to, "\nspace.NAME.type:");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        fprintf(to, " %s", kinds[k].name);
    fprintf(to, "\n");
}

struct at {
    struct sweep_file *f;
    yaml_document_t   *doc;
    const char        *of, *name; /* "space.lr", "low" */
    int                line;
};

static bool fail(const struct at *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(const struct at *at, const char *format, ...)
{
    va_list args;
    int     n = snprintf(at->f->error, FILE_ERROR_SIZE, "%.200s:%d: %.60s%s%.60s: ", at->f->file, at->line, at->of,
                     at->of[0] ? "." : "", at->name);
    va_start(args, format);
    vsnprintf(at->f->error + n, FILE_ERROR_SIZE - (size_t)n, format, args);
    va_end(args);
    return false;
}

static void *keep(const struct at *at, size_t size)
{
    if (at->f->strings_count == FILE_STRINGS_MAX) {
        fail(at, "the file is too long");
        return NULL;
    }
    void *memory = calloc(1, size);
    if (!memory)
        fail(at, "no memory");
    else
        at->f->strings[at->f->strings_count++] = memory;
    return memory;
}

/* ---- values ---- */

static bool scalar(const struct at *at, const yaml_node_t *node, const char **out)
{
    if (node->type != YAML_SCALAR_NODE)
        return fail(at, "must be a plain value");
    char *copy = keep(at, node->data.scalar.length + 1);
    if (!copy)
        return false;
    memcpy(copy, node->data.scalar.value, node->data.scalar.length);
    *out = copy;
    return true;
}

static bool list(const struct at *at, const yaml_node_t *node, const char *const **out)
{
    size_t count = 0;
    if (node->type != YAML_SEQUENCE_NODE)
        return fail(at, "must be a list: [a, b]");
    const yaml_node_item_t *first = node->data.sequence.items.start, *end = node->data.sequence.items.top;
    const char            **texts = keep(at, ((size_t)(end - first) + 1) * sizeof *texts);
    if (!texts)
        return false;
    for (; first < end; first++)
        if (!scalar(at, yaml_document_get_node(at->doc, *first), &texts[count++]))
            return false;
    *out = texts;
    return true;
}

static bool number(const struct at *at, const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) ? true : fail(at, "\"%.60s\" is not a number", text);
}

static bool whole(const struct at *at, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && !errno ? true : fail(at, "\"%.60s\" is not a whole number", text);
}

static bool key_set(const struct at *at, const struct key *key, const yaml_node_t *node)
{
    char       *to = (char *)&at->f->opts + key->offset;
    const char *text;
    int64_t     integer = 0;
    if (key->type == LIST)
        return list(at, node, (const char *const **)(void *)to);
    if (!scalar(at, node, &text))
        return false;
    bool is_true = strcmp(text, "true") == 0 || strcmp(text, "max") == 0;
    switch (key->type) {
    case TEXT: *(const char **)to = text; return true;
    case REAL: return number(at, text, (double *)to);
    case MODE:
        *(int *)to = is_true ? MANTA_SWEEP_MAX : MANTA_SWEEP_MIN;
        return is_true || strcmp(text, "min") == 0 ? true : fail(at, "is min or max, not \"%.60s\"", text);
    case BOOL:
        *(bool *)to = is_true;
        return is_true || strcmp(text, "false") == 0 ? true : fail(at, "is true or false, not \"%.60s\"", text);
    default: break;
    }
    if (!whole(at, text, &integer))
        return false;
    if (key->type == INT && integer != (int)integer)
        return fail(at, "%lld is too large", (long long)integer);
    if (key->type == INT)
        *(int *)to = (int)integer;
    else
        *(int64_t *)to = integer; /* UINT64 as well */
    return true;
}

/* ---- mappings ---- */

typedef bool pair_fn(const struct at *at, const yaml_node_t *value, void *user);

static bool mapping(const struct at *of, const yaml_node_t *node, const char *name, pair_fn *fn, void *user)
{
    if (node->type != YAML_MAPPING_NODE)
        return fail(of, "must have keys of its own");
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(of->doc, pair->key);
        struct at          at = {of->f, of->doc, name, "", (int)key->start_mark.line + 1};
        if (key->type != YAML_SCALAR_NODE)
            return fail(&at, "a key must be a word");
        at.name = (const char *)key->data.scalar.value;
        for (const yaml_node_pair_t *before = node->data.mapping.pairs.start; before < pair; before++)
            if (strcmp((const char *)yaml_document_get_node(of->doc, before->key)->data.scalar.value, at.name) == 0)
                return fail(&at, "stands there twice");
        if (!fn(&at, yaml_document_get_node(of->doc, pair->value), user))
            return false;
    }
    return true;
}

static bool param_key(const struct at *at, const yaml_node_t *value, void *user)
{
    manta_sweep_axis *p = user;
    const char       *text;
    if (strcmp(at->name, "values") == 0)
        return list(at, value, &p->values);
    if (!scalar(at, value, &text))
        return false;
    if (strcmp(at->name, "when") == 0) {
        p->when = text;
        return true;
    }
    if (strcmp(at->name, "low") == 0 || strcmp(at->name, "mean") == 0)
        return number(at, text, &p->low);
    if (strcmp(at->name, "high") == 0 || strcmp(at->name, "sd") == 0)
        return number(at, text, &p->high);
    if (strcmp(at->name, "step") == 0)
        return number(at, text, &p->step);
    if (strcmp(at->name, "type") != 0)
        return fail(at, "unknown key; a parameter has type, low, high, mean, sd, step, values, when");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, text) == 0)
            p->kind = kinds[i].kind;
    return p->kind ? true
                   : fail(at,
                          "there is no type \"%.40s\"; there are uniform, loguniform, normal, lognormal, int, logint, "
                          "choice, ordinal, grid",
                          text);
}

static bool param(const struct at *at, const yaml_node_t *value, void *user)
{
    struct sweep_file *f = at->f;
    manta_sweep_axis  *p = &f->params[f->count];
    char              *name = keep(at, strlen(at->name) + 1);
    (void)user;
    if (f->count == FILE_PARAMS_MAX)
        return fail(at, "more than %d parameters", FILE_PARAMS_MAX);
    if (!name)
        return false;
    memcpy(name, at->name, strlen(at->name));
    f->count++;
    p->name = name;
    if (value->type == YAML_SEQUENCE_NODE) {
        p->kind = MANTA_SWEEP_AXIS_CHOICE;
        return list(at, value, &p->values);
    }
    if (value->type == YAML_SCALAR_NODE) {
        const char **one = keep(at, 2 * sizeof *one);
        p->kind = MANTA_SWEEP_AXIS_CONST;
        p->values = one;
        return one && scalar(at, value, &one[0]);
    }
    char of[128];
    snprintf(of, sizeof of, "space.%.60s", name);
    if (!mapping(at, value, of, param_key, p))
        return false;
    return p->kind ? true : fail(at, "its type is missing");
}

static bool env_pair(const struct at *at, const yaml_node_t *value, void *user)
{
    const char **env = user, *text;
    while (*env)
        env++;
    if (!scalar(at, value, &text))
        return false;
    size_t size = strlen(at->name) + strlen(text) + 2;
    char  *pair = keep(at, size);
    if (!pair)
        return false;
    snprintf(pair, size, "%s=%s", at->name, text);
    *env = pair;
    return true;
}

static bool trial_key(const struct at *at, const yaml_node_t *value, void *user)
{
    struct sweep_file *f = at->f;
    (void)user;
    if (strcmp(at->name, "command") == 0)
        return list(at, value, &f->command.argv);
    if (strcmp(at->name, "metrics") == 0)
        return scalar(at, value, &f->command.metrics);
    if (strcmp(at->name, "code") == 0)
        return scalar(at, value, &f->code);
    if (strcmp(at->name, "function") == 0)
        return scalar(at, value, &f->function);
    if (strcmp(at->name, "env") != 0)
        return fail(at, "unknown key; trial has command, env, metrics, or code, function");
    const char **env = keep(at, (FILE_LIST_MAX + 1) * sizeof *env);
    f->command.env = env;
    return env && mapping(at, value, "trial.env", env_pair, env);
}

/* A resource of the user's own. */
static bool resource(const struct at *at, const yaml_node_t *value, void *user)
{
    struct sweep_file *f = at->f;
    const char        *text;
    manta_resource    *r = &f->resources[f->opts.resource_count];
    char              *name = keep(at, strlen(at->name) + 1);
    (void)user;
    if (f->opts.resource_count == FILE_RESOURCES_MAX)
        return fail(at, "more than %d resources", FILE_RESOURCES_MAX);
    if (!name || !scalar(at, value, &text) || !number(at, text, &r->amount))
        return false;
    if (r->amount <= 0)
        return fail(at, "must be above 0");
    memcpy(name, at->name, strlen(at->name));
    r->name = name;
    f->opts.resources = f->resources;
    f->opts.resource_count++;
    return true;
}

static bool top_key(const struct at *at, const yaml_node_t *value, void *user)
{
    (void)user;
    if (strcmp(at->name, "space") == 0)
        return mapping(at, value, "space", param, NULL);
    if (strcmp(at->name, "trial") == 0)
        return mapping(at, value, "trial", trial_key, NULL);
    if (strcmp(at->name, "resources") == 0)
        return mapping(at, value, "resources", resource, NULL);
    for (int k = 0; k < KEYS; k++)
        if (strcmp(keys[k].name, at->name) == 0)
            return key_set(at, &keys[k], value);
    char known[FILE_ERROR_SIZE / 2] = "";
    for (int k = 0; k < KEYS; k++)
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", keys[k].name);
    return fail(at, "unknown key; a sweep has trial space resources%s", known);
}

static bool document(struct sweep_file *f, yaml_document_t *doc)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    struct at          at = {f, doc, "", "sweep", root ? (int)root->start_mark.line + 1 : 1};
    if (!root)
        return fail(&at, "the file is empty");
    if (!mapping(&at, root, "", top_key, NULL))
        return false;
    at.name = "trial";
    if (!f->command.argv == !f->function)
        return fail(&at, "names either a command or a function (with code)");
    f->opts.space = f->params;
    f->opts.command = f->command.argv ? &f->command : NULL;
    return true;
}

bool sweep_file_read(struct sweep_file *f, const char *path)
{
    yaml_parser_t   parser;
    yaml_document_t doc;
    FILE           *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    f->file = path;
    if (!file || !yaml_parser_initialize(&parser)) {
        snprintf(f->error, sizeof f->error, "%.300s: %s", path, strerror(errno));
        return false;
    }
    yaml_parser_set_input_file(&parser, file);
    bool ok = yaml_parser_load(&parser, &doc);
    if (ok) {
        ok = document(f, &doc);
        yaml_document_delete(&doc);
    } else {
        snprintf(f->error, sizeof f->error, "%.300s:%d: %s", path, (int)parser.problem_mark.line + 1,
                 parser.problem ? parser.problem : "can't be read");
    }
    yaml_parser_delete(&parser);
    if (file != stdin)
        fclose(file);
    return ok;
}

void sweep_file_fini(struct sweep_file *f)
{
    for (int i = 0; i < f->strings_count; i++)
        free(f->strings[i]);
    f->strings_count = 0;
}

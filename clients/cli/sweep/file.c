/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - reading a sweep's file, against tables of what it may say. See file.h.
 *
 * Owns: the file's strings. Thread: the main one.
 */
#include "clients/cli/sweep/file.h"

#include "core/base/limits/gang.h"
#include "core/base/status.h"

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

static const char *kind_name(int kind)
{
    size_t i = 0;
    while (i + 1 < sizeof kinds / sizeof *kinds && (int)kinds[i].kind != kind)
        i++;
    return kinds[i].name;
}

void sweep_keys_print(FILE *to)
{
    static const char *const types[] = {
        [INT] = "whole number", [INT64] = "whole number", [UINT64] = "whole number", [REAL] = "number",
        [BOOL] = "true, false", [TEXT] = "text",          [MODE] = "min, max",       [LIST] = "list"};
    static const char *const more[][3] = {
        {"trial.command", "list", "program and arguments; {NAME} is a parameter, {args} all as --NAME=VALUE"},
        {"trial.env", "mapping", "NAME: VALUE, of the program"},
        {"trial.metrics", "text", "a file with a line for each report, in place of what the program prints"},
        {"trial.gang.n", "whole number", "ranks of the program, started together or not at all; cpus and gpus are each rank's"},
        {"trial.gang.nodes", "whole number", "on so many nodes"},
        {"trial.gang.per_node", "whole number", "so many on each of them"},
        {"trial.gang.as", "text", "how a rank is told who it is: torch, tf, horovod, pmi1, none; none"},
        {"trial.code", "text", "a shared object, in place of a program"},
        {"trial.function", "text", "the trial function in it"},
        {"resources.NAME", "number", "of a trial, of nodes' own resources"},
        {"space.NAME", "mapping",
         "type and: low, high, step, or mean, sd, or values; when: \"OTHER == VALUE\". A list is a "
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

static struct sweep_file *file_of(const struct settings_at *at)
{
    return mt_container_of(at->settings, struct sweep_file, settings);
}

static void *keep(const struct settings_at *at, size_t size)
{
    if (file_of(at)->strings_count == FILE_STRINGS_MAX) {
        settings_fail(at, "the file is too long");
        return NULL;
    }
    void *memory = calloc(1, size);
    if (!memory)
        settings_fail(at, "no memory");
    else
        file_of(at)->strings[file_of(at)->strings_count++] = memory;
    return memory;
}

/* ---- values ---- */

static bool scalar(const struct settings_at *at, const settings_value *value, const char **out)
{
    const char *text = settings_text(value);
    if (!text)
        return settings_fail(at, "must be a plain value");
    char *copy = keep(at, strlen(text) + 1);
    if (!copy)
        return false;
    memcpy(copy, text, strlen(text));
    *out = copy;
    return true;
}

static bool list(const struct settings_at *at, const settings_value *value, const char *const **out)
{
    if (!settings_is_list(value))
        return settings_fail(at, "must be a list: [a, b]");
    size_t       count = settings_count(value);
    const char **texts = keep(at, (count + 1) * sizeof *texts);
    for (size_t i = 0; texts && i < count; i++)
        if (!scalar(at, settings_item(at, value, i), &texts[i]))
            return false;
    *out = texts;
    return texts != NULL;
}

static bool key_set(const struct settings_at *at, const struct key *key, const settings_value *value)
{
    char       *to = (char *)&file_of(at)->opts + key->offset;
    const char *text;
    int64_t     integer = 0;
    if (key->type == LIST)
        return list(at, value, (const char *const **)(void *)to);
    if (!scalar(at, value, &text))
        return false;
    switch (key->type) {
    case TEXT: *(const char **)to = text; return true;
    case REAL: return settings_number(at, text, (double *)to);
    case MODE:
        *(int *)to = strcmp(text, "max") == 0 ? MANTA_SWEEP_MAX : MANTA_SWEEP_MIN;
        return *(int *)to == MANTA_SWEEP_MAX || strcmp(text, "min") == 0 ? true
                                                                         : settings_fail(at, "is min or max, not \"%.60s\"", text);
    case BOOL: return settings_bool(at, text, (bool *)to);
    default: break;
    }
    if (!settings_whole(at, text, &integer))
        return false;
    if (key->type == INT && integer != (int)integer)
        return settings_fail(at, "%lld is too large", (long long)integer);
    if (key->type == INT)
        *(int *)to = (int)integer;
    else
        *(int64_t *)to = integer; /* UINT64 as well */
    return true;
}

/* ---- mappings ---- */

/* The keys of a parameter; those before WHEN are of some types only. */
enum { LOW, HIGH, MEAN, SD, STEP, VALUES, WHEN, TYPE, PARAM_KEYS };
static const char *const param_keys[PARAM_KEYS] = {"low", "high", "mean", "sd", "step", "values", "when", "type"};

struct param_reading {
    manta_sweep_axis *axis;
    unsigned          has; /* bit k: param_keys[k] stands there */
};

/* A number that is missing would count as 0, and one that the type does not have for another of it. */
static bool param_check(const struct settings_at *at, const struct param_reading *r)
{
    int         kind = r->axis->kind;
    bool        is_normal = kind == MANTA_SWEEP_AXIS_NORMAL || kind == MANTA_SWEEP_AXIS_LOG_NORMAL;
    unsigned    needs = is_normal ? 1u << MEAN | 1u << SD : 1u << LOW | 1u << HIGH, may = 1u << STEP;
    const char *words = is_normal ? "mean: M, sd: S" : "low: A, high: B";
    if (kind == MANTA_SWEEP_AXIS_CHOICE || kind == MANTA_SWEEP_AXIS_ORDINAL || kind == MANTA_SWEEP_AXIS_GRID)
        needs = 1u << VALUES, may = 0, words = "values: [A, B]";
    for (int k = 0; k < WHEN; k++) {
        bool has = r->has & (1u << k);
        if (!has && (needs & (1u << k)))
            return settings_fail(at, "its %s is missing: {type: %s, %s}", param_keys[k], kind_name(kind), words);
        if (has && !((needs | may) & (1u << k)))
            return settings_fail(at, "type %s has no %s: {type: %s, %s}", kind_name(kind), param_keys[k], kind_name(kind), words);
    }
    return true;
}

static bool param_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct param_reading *r = user;
    manta_sweep_axis     *p = r->axis;
    const char           *text;
    int                   key = 0;
    while (key < PARAM_KEYS && strcmp(at->name, param_keys[key]) != 0)
        key++;
    if (key == PARAM_KEYS) /* whatever its value is */
        return settings_fail(at, "unknown key; a parameter has type, low, high, mean, sd, step, values, when");
    r->has |= 1u << key;
    if (strcmp(at->name, "values") == 0)
        return list(at, value, &p->values);
    if (!scalar(at, value, &text))
        return false;
    if (strcmp(at->name, "when") == 0) {
        p->when = text;
        return true;
    }
    if (strcmp(at->name, "low") == 0 || strcmp(at->name, "mean") == 0)
        return settings_number(at, text, &p->low);
    if (strcmp(at->name, "high") == 0 || strcmp(at->name, "sd") == 0)
        return settings_number(at, text, &p->high);
    if (strcmp(at->name, "step") == 0)
        return settings_number(at, text, &p->step);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, text) == 0)
            p->kind = kinds[i].kind;
    return p->kind ? true
                   : settings_fail(at,
                                   "there is no type \"%.40s\"; there are uniform, loguniform, normal, lognormal, int, logint, "
                                   "choice, ordinal, grid",
                                   text);
}

static bool param(const struct settings_at *at, const settings_value *value, void *user)
{
    struct sweep_file *f = file_of(at);
    manta_sweep_axis  *p = &f->params[f->count];
    char              *name = keep(at, strlen(at->name) + 1);
    (void)user;
    if (f->count == FILE_PARAMS_MAX)
        return settings_fail(at, "more than %d parameters", FILE_PARAMS_MAX);
    if (!name)
        return false;
    memcpy(name, at->name, strlen(at->name));
    f->count++;
    p->name = name;
    if (settings_is_list(value)) {
        p->kind = MANTA_SWEEP_AXIS_CHOICE;
        return list(at, value, &p->values);
    }
    if (settings_text(value)) {
        const char **one = keep(at, 2 * sizeof *one);
        p->kind = MANTA_SWEEP_AXIS_CONST;
        p->values = one;
        return one && scalar(at, value, &one[0]);
    }
    char                 of[128];
    struct param_reading r = {.axis = p};
    snprintf(of, sizeof of, "space.%.60s", name);
    if (!settings_walk(at, value, of, param_key, &r))
        return false;
    return p->kind ? param_check(at, &r) : settings_fail(at, "its type is missing");
}

static bool env_pair(const struct settings_at *at, const settings_value *value, void *user)
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

static bool gang_key(const struct settings_at *at, const settings_value *value, void *user)
{
    manta_sweep_gang *g = user;
    const char       *text;
    int64_t           number;
    int              *to = strcmp(at->name, "n") == 0          ? &g->ranks
                           : strcmp(at->name, "nodes") == 0    ? &g->nodes
                           : strcmp(at->name, "per_node") == 0 ? &g->per_node
                                                               : NULL;
    if (!scalar(at, value, &text))
        return false;
    if (strcmp(at->name, "as") == 0) {
        g->as = text;
        return true;
    }
    if (!to)
        return settings_fail(at, "unknown key; a gang has n, nodes, per_node, as");
    if (!settings_whole(at, text, &number))
        return false;
    if (number < 1 || number > MT_GANG_RANKS_MAX)
        return settings_fail(at, "must be 1 to %d", MT_GANG_RANKS_MAX);
    *to = (int)number;
    return true;
}

static bool trial_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct sweep_file *f = file_of(at);
    (void)user;
    if (strcmp(at->name, "command") == 0)
        return list(at, value, &f->command.argv);
    if (strcmp(at->name, "gang") == 0) {
        f->command.gang = &f->gang;
        return settings_walk(at, value, "trial.gang", gang_key, &f->gang);
    }
    if (strcmp(at->name, "metrics") == 0)
        return scalar(at, value, &f->command.metrics);
    if (strcmp(at->name, "code") == 0)
        return scalar(at, value, &f->code);
    if (strcmp(at->name, "function") == 0)
        return scalar(at, value, &f->function);
    if (strcmp(at->name, "env") != 0)
        return settings_fail(at, "unknown key; trial has command, env, metrics, gang, or code, function");
    const char **env = keep(at, (FILE_LIST_MAX + 1) * sizeof *env);
    f->command.env = env;
    return env && settings_walk(at, value, "trial.env", env_pair, env);
}

/* A resource of the user's own. */
static bool resource(const struct settings_at *at, const settings_value *value, void *user)
{
    struct sweep_file *f = file_of(at);
    const char        *text;
    manta_resource    *r = &f->resources[f->opts.resource_count];
    char              *name = keep(at, strlen(at->name) + 1);
    (void)user;
    if (f->opts.resource_count == FILE_RESOURCES_MAX)
        return settings_fail(at, "more than %d resources", FILE_RESOURCES_MAX);
    if (!name || !scalar(at, value, &text) || !settings_number(at, text, &r->amount))
        return false;
    if (r->amount <= 0)
        return settings_fail(at, "must be above 0");
    memcpy(name, at->name, strlen(at->name));
    r->name = name;
    f->opts.resources = f->resources;
    f->opts.resource_count++;
    return true;
}

static bool top_key(const struct settings_at *at, const settings_value *value, void *user)
{
    (void)user;
    if (strcmp(at->name, "space") == 0)
        return settings_walk(at, value, "space", param, NULL);
    if (strcmp(at->name, "trial") == 0)
        return settings_walk(at, value, "trial", trial_key, NULL);
    if (strcmp(at->name, "resources") == 0)
        return settings_walk(at, value, "resources", resource, NULL);
    for (int k = 0; k < KEYS; k++)
        if (strcmp(keys[k].name, at->name) == 0)
            return key_set(at, &keys[k], value);
    char known[SETTINGS_ERROR_SIZE / 2] = "";
    for (int k = 0; k < KEYS; k++)
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", keys[k].name);
    return settings_fail(at, "unknown key; a sweep has trial space resources%s", known);
}

static bool document(const struct settings_at *at, const settings_value *root, void *user)
{
    struct sweep_file *f = file_of(at);
    struct settings_at trial = {at->settings, "", "trial", at->line};
    (void)user;
    if (!root)
        return settings_fail(at, "the file is empty");
    if (!settings_walk(at, root, "", top_key, NULL))
        return false;
    if (!f->command.argv == !f->function)
        return settings_fail(&trial, "names either a command or a function (with code)");
    if (f->function && f->command.gang)
        return settings_fail(&trial, "gang is of a command, not of a function");
    f->opts.space = f->params;
    f->opts.command = f->command.argv ? &f->command : NULL;
    return true;
}

bool sweep_file_read(struct sweep_file *f, const char *path)
{
    f->settings.keeps = true;
    return settings_read(&f->settings, path, "sweep", document, NULL);
}

void sweep_file_fini(struct sweep_file *f)
{
    for (int i = 0; i < f->strings_count; i++)
        free(f->strings[i]);
    f->strings_count = 0;
    free(f->settings.text);
    f->settings.text = NULL;
}

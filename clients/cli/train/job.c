/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - reading a training job's file, against one table of what it may say.
 *
 * Owns: the job's strings. Thread: the main one.
 */
#include "clients/cli/train/job.h"

#include "core/base/status.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum type { INT, RANGE, INT64, REAL, BOOL, TEXT, WORD };

struct key {
    const char *section, *name;
    enum type   type;
    size_t      offset; /* in struct job */
    int64_t     min;
    const char *words; /* WORD: its values, with a blank after each */
    const char *text;  /* what it says, for users */
};

#define KEY(section, name, type, min, text) \
    { \
#section, #name, type, offsetof(struct job, opts.section.name), min, NULL, text \
    }
#define WORDS(section, name, words, text) \
    { \
#section, #name, WORD, offsetof(struct job, opts.section.name), 0, words, text \
    }
static const struct key keys[] = {
    {"", "seed", INT64, offsetof(struct job, opts.seed), 0, NULL, "of first parameters, order of records and dropout; 0"},
    {"model", "name", TEXT, offsetof(struct job, name), 0, NULL, "the operator: mlp, cnn, gpt2; its keys stand beside this one"},
    {"log", "csv", TEXT, offsetof(struct job, csv), 0, NULL, "a file with a line for each report"},
    {"log", "tensorboard", TEXT, offsetof(struct job, tensorboard), 0, NULL, "a folder for an event file"},
    KEY(scaling, min_workers, INT, 1, "with fewer the run waits; max_workers"),
    KEY(scaling, wait_s, REAL, 0, "so long it waits for them while nodes may come; 3600"),
    KEY(scaling, max_workers, INT, 1, "1; at most run.shards"),
    KEY(scaling, spares, INT, 0, "loaded processes that wait to replace one that dies; 0"),
    KEY(scaling, cpus, REAL, 0, "that each worker reserves, and computes with; 0: none are reserved, those of the node are shared"),
    KEY(scaling, gpus, REAL, -1, "that each worker reserves; 0: what the model wants (device: cuda wants one); -1: none"),
    KEY(scaling, nodes, RANGE, 1, "over which workers are spread; 2:4: with fewer than 2 the run waits; 4 is 1:4; 1: the driver's"),
    KEY(run, name, TEXT, 0, "under which it is found again; \"train\""),
    KEY(run, storage, TEXT, 0, "a folder for checkpoints, in storage/name; none. A run that has some there goes on"),
    KEY(run, epochs, INT, 1, "1"),
    KEY(run, batch, INT, 1, "samples of a step over all workers, a multiple of shards; 64"),
    KEY(run, shards, INT, 1, "parts of a step, whatever the number of workers; a power of two for all their CPUs, 2 at least"),
    KEY(run, log_steps, INT, 1, "from one report to the next; 50"),
    KEY(run, validate_epochs, INT, 1, "from one validation to the next; 1"),
    KEY(run, patience, INT, 0, "validations without a better score until it stops; 0: it does not"),
    KEY(run, min_delta, REAL, 0, "by how much a score must be better to count; 0"),
    KEY(run, detached, BOOL, 0, "it goes on when this process dies, and the same command finds it again; false"),
    KEY(run, timeline, TEXT, 0, "a file for Perfetto or chrome://tracing: what each rank did when"),
    KEY(run, tracking, TEXT, 0, "a folder: parameters, metrics, artifacts, status of the run"),
    KEY(failure, max_failures, INT, -1, "times that workers may die; 0; -1: without limit"),
    KEY(failure, backoff_s, REAL, 0, "to wait after a second failure in a row, doubled each time; 0.1"),
    KEY(failure, hang_after, REAL, -1, "seconds of nothing until a worker is replaced; 0: by its steps; -1: never"),
    KEY(checkpoint, every_s, REAL, 0, "30 where every_steps is not set; the end is saved in any case"),
    KEY(checkpoint, every_steps, INT64, 0, "none; each of these is saved, the training waits for a slow disk"),
    KEY(checkpoint, keep, INT, 1, "newest ones; 2"),
    KEY(checkpoint, keep_best, INT, 0, "and those with the best score; 0"),
    KEY(checkpoint, score, TEXT, 0, "the metric of the last validation that is compared; loss"),
    KEY(checkpoint, score_max, BOOL, 0, "more of it is better; false"),
    KEY(checkpoint, restart_damaged, BOOL, 0, "begin anew where no checkpoint is whole; false: that is an error"),
    KEY(checkpoint, other_data, BOOL, 0, "go on with other data than the checkpoint is of; false: that is an error"),
    WORDS(optimizer, kind, "momentum adamw ", "momentum"),
    WORDS(optimizer, schedule, "cosine constant step ", "of the rate; cosine"),
    KEY(optimizer, lr, REAL, 0, "the rate; 0.02, adamw 0.001"),
    KEY(optimizer, momentum, REAL, -1, "0.9; -1: none"),
    KEY(optimizer, beta1, REAL, 0, "0.9"),
    KEY(optimizer, beta2, REAL, 0, "0.999"),
    KEY(optimizer, epsilon, REAL, 0, "1e-8"),
    KEY(optimizer, weight_decay, REAL, -1, "none, adamw 0.01; -1: none"),
    KEY(optimizer, step_gamma, REAL, 0, "schedule step: the rate times this; 0.1"),
    KEY(optimizer, step_epochs, INT, 1, "every so many epochs; 1"),
    KEY(optimizer, warmup_steps, INT64, 0, "in which the rate grows to lr; 0"),
    KEY(optimizer, lr_batch, INT, 1, "the batch that lr is meant for: it is used times run.batch / lr_batch; as it is"),
    KEY(optimizer, clip_norm, REAL, 0, "a longer gradient is cut to this length; 0: none is"),
    KEY(optimizer, max_norm, REAL, 0, "a longer gradient ends the run; 0: one that is not finite does"),
    WORDS(optimizer, zero, "0 1 ", "1: each worker keeps a part of the optimizer's state; 0"),
    KEY(optimizer, zero_backup, BOOL, 0, "with zero: each part is kept twice; false"),
};
enum { KEYS = sizeof keys / sizeof *keys };
_Static_assert(KEYS <= sizeof((struct job *)0)->seen / sizeof(int), "each key has its mark");

/* What the built-in operators ask for (sgd/operator/builtin.c, builtin_data.c); one of a user's own has others. */
static const struct {
    const char *name, *of, *text;
} operator_keys[] = {
    {"model.hidden", "mlp", "widths of the hidden layers, as [256, 128]; 256"},
    {"model.dense", "cnn", "width of the layer behind the convolutions; 128"},
    {"model.dropout", "cnn", "share of its inputs that are left out in training; 0"},
    {"model.layers", "gpt2", "6"},
    {"model.width", "gpt2", "of each layer, a multiple of heads; 256"},
    {"model.heads", "gpt2", "8"},
    {"model.context", "gpt2", "tokens of a record; 256"},
    {"model.vocabulary", "gpt2", "tokens are less; 256 of a text, 50257 of a token file"},
    {"model.device", "mlp cnn gpt2", "cpu, cuda, cuda:NUMBER; cpu"},
    {"model.precision", "mlp cnn gpt2", "float32, tf32 (on a GPU), bfloat16; float32"},
    {"data.path", "mlp cnn gpt2", "MNIST's folder, a CSV file, an array of NumPy; gpt2: a text or a token file; Debian's data"},
    {"data.format", "mlp cnn", "idx, csv, npy; by the path"},
    {"data.label", "mlp cnn", "CSV: the label's column, its name or its number"},
    {"data.labels", "mlp cnn", "NumPy: the array of the labels"},
    {"data.classes", "mlp cnn", "labels are less; by the data"},
    {"data.mean", "mlp cnn", "taken off each number; 0"},
    {"data.deviation", "mlp cnn", "by which it is then divided; 1"},
    {"data.validate", "mlp cnn", "the data to validate with, as path; none"},
    {"data.validate_labels", "mlp cnn", "NumPy: its labels"},
};

void job_keys_print(FILE *to)
{
    static const char *const types[] = {[INT] = "whole number", [RANGE] = "whole number, M:N", [INT64] = "whole number",
                                        [REAL] = "number",      [BOOL] = "true, false",        [TEXT] = "text"};
    for (int k = 0; k < KEYS; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", keys[k].section, keys[k].section[0] ? "." : "", keys[k].name);
        fprintf(to, "%-26s %-21s %s\n", name, keys[k].type == WORD ? keys[k].words : types[keys[k].type], keys[k].text);
    }
    fprintf(to, "\nof the operators:\n");
    for (size_t k = 0; k < sizeof operator_keys / sizeof *operator_keys; k++)
        fprintf(to, "%-26s %-21s %s\n", operator_keys[k].name, operator_keys[k].of, operator_keys[k].text);
}

static struct job *job_of(const struct settings_at *at)
{
    return mt_container_of(at->settings, struct job, settings);
}

static bool unknown_key(const struct settings_at *at)
{
    char known[SETTINGS_ERROR_SIZE / 2] = "";
    for (int k = 0; k < KEYS; k++)
        if (strcmp(keys[k].section, at->section) == 0)
            snprintf(known + strlen(known), sizeof known - strlen(known), " %s", keys[k].name);
    if (at->section[0] && known[0])
        return settings_fail(at, "unknown key; %s has%s", at->section, known);
    return settings_fail(at, "unknown; a job has model, data, run, scaling, failure, checkpoint, optimizer, log, seed");
}

/* ---- values ---- */

static char *keep(struct job *job, const char *text)
{
    if (job->strings_count == JOB_CONFIG_MAX)
        return NULL;
    return job->strings[job->strings_count++] = strdup(text);
}

static bool integer_set(const struct settings_at *at, const struct key *key, const char *text)
{
    int64_t value;
    if (!settings_whole(at, text, &value))
        return false;
    if (key->type != INT64 && value != (int)value)
        return settings_fail(at, "\"%.60s\" is not a whole number", text);
    if (value < key->min)
        return settings_fail(at, "%lld: must be at least %lld", (long long)value, (long long)key->min);
    if (key->type != INT64)
        *(int *)((char *)job_of(at) + key->offset) = (int)value;
    else
        *(int64_t *)((char *)job_of(at) + key->offset) = value;
    return true;
}

/* "4", or "2:4": at least and at most. */
static bool range_set(const struct settings_at *at, const struct key *key, const char *text)
{
    char        least[24];
    const char *colon = strchr(text, ':');
    int64_t     min = 0;
    snprintf(least, sizeof least, "%.*s", colon ? (int)(colon - text) : 0, text);
    if (!integer_set(at, key, colon ? colon + 1 : text) || (colon && !settings_whole(at, least, &min)))
        return false;
    if (colon && (min < key->min || min > *(int *)((char *)job_of(at) + key->offset)))
        return settings_fail(at, "\"%.60s\" is no range: at least and at most, as 2:4", text);
    job_of(at)->opts.scaling.min_nodes = min;
    return true;
}

static bool real_set(const struct settings_at *at, const struct key *key, const char *text)
{
    double value;
    if (!settings_number(at, text, &value))
        return false;
    if (value < (double)key->min)
        return settings_fail(at, "%g: must be at least %lld", value, (long long)key->min);
    *(double *)((char *)job_of(at) + key->offset) = value;
    return true;
}

static bool word_set(const struct settings_at *at, const struct key *key, const char *text)
{
    size_t size = strlen(text);
    int    index = 0;
    for (const char *word = key->words; *word; word = strchr(word, ' ') + 1, index++)
        if (strncmp(word, text, size) == 0 && word[size] == ' ') {
            *(int *)((char *)job_of(at) + key->offset) = index;
            return true;
        }
    return settings_fail(at, "\"%.60s\" is none of: %s", text, key->words);
}

static bool bool_set(const struct settings_at *at, const struct key *key, const char *text)
{
    return settings_bool(at, text, (bool *)((char *)job_of(at) + key->offset));
}

static bool text_set(const struct settings_at *at, const struct key *key, const char *text)
{
    struct job *job = job_of(at);
    if (!text[0])
        return settings_fail(at, "is empty");
    const char *kept = keep(job, text);
    if (!kept)
        return settings_fail(at, "too many values");
    *(const char **)((char *)job + key->offset) = kept;
    if (key->offset == offsetof(struct job, name))
        job->name_line = at->line;
    return true;
}

/* What only the operator knows: it says so where it does not. */
static bool config_set(const struct settings_at *at, const char *text)
{
    struct job *job = job_of(at);
    bool        is_path = strcmp(at->section, "data") == 0 && strcmp(at->name, "path") == 0;
    const char *name = is_path ? "data" : at->name;
    size_t      size = strlen(name);
    int         i = 0;
    while (i < job->count && (strncmp(job->config[i].pair, name, size) != 0 || job->config[i].pair[size] != '='))
        i++;
    if (i < job->count && at->line)
        return settings_fail(at,
                             "is the operator's \"%s\", which stands in line %d already; the keys of model and data are one list",
                             name, job->config[i].line);
    if (i == JOB_CONFIG_MAX)
        return settings_fail(at, "too many values");
    char *pair = malloc(size + strlen(text) + 2);
    if (!pair)
        return settings_fail(at, "no memory");
    memcpy(pair, name, size);
    pair[size] = '=';
    memcpy(pair + size + 1, text, strlen(text) + 1);
    if (i < job->count)
        free(job->config[i].pair);
    job->config[i].pair = pair;
    job->config[i].section = strcmp(at->section, "data") == 0 ? "data" : "model";
    job->config[i].is_path = is_path;
    job->config[i].line = at->line;
    job->pairs[i] = pair;
    job->count += i == job->count;
    return true;
}

static bool value_set(const struct settings_at *at, const char *text)
{
    struct job *job = job_of(at);
    static bool (*const setters[])(const struct settings_at *, const struct key *, const char *) = {
        [INT] = integer_set, [RANGE] = range_set, [INT64] = integer_set, [REAL] = real_set,
        [BOOL] = bool_set,   [TEXT] = text_set,   [WORD] = word_set};
    for (int k = 0; k < KEYS; k++) {
        if (strcmp(keys[k].section, at->section) != 0 || strcmp(keys[k].name, at->name) != 0)
            continue;
        if (job->seen[k] && at->line)
            return settings_fail(at, "stands there twice");
        job->seen[k] = at->line ? at->line : -1;
        return setters[keys[k].type](at, &keys[k], text);
    }
    bool is_config = strcmp(at->section, "model") == 0 || (strcmp(at->section, "data") == 0);
    return is_config ? config_set(at, text) : unknown_key(at);
}

/* ---- the file ---- */

/* A plain value as it stands there, or a list of plain values with commas between them. */
static bool text_of(const struct settings_at *at, const settings_value *value, char out[JOB_VALUE_SIZE])
{
    int         n = 0;
    const char *text = settings_text(value);
    bool        is_list = !text && settings_is_list(value) && strcmp(at->section, "model") == 0;
    if (!text && !is_list)
        return settings_fail(at, "must be a plain value");
    out[0] = 0;
    if (text)
        n = snprintf(out, JOB_VALUE_SIZE, "%s", text);
    for (size_t i = 0; is_list && i < settings_count(value) && n < JOB_VALUE_SIZE; i++) {
        text = settings_text(settings_item(at, value, i));
        if (!text)
            return settings_fail(at, "must be a list of plain values");
        n += snprintf(out + n, JOB_VALUE_SIZE - (size_t)n, "%s%s", n ? "," : "", text);
    }
    return n < JOB_VALUE_SIZE ? true : settings_fail(at, "is too long");
}

static bool value_read(const struct settings_at *at, const settings_value *value, void *user)
{
    char text[JOB_VALUE_SIZE];
    (void)user;
    return text_of(at, value, text) && value_set(at, text);
}

static bool section_read(const struct settings_at *at, const settings_value *value, void *user)
{
    bool is_section = strcmp(at->name, "data") == 0, is_key = false;
    for (int k = 0; k < KEYS; k++) {
        is_section = is_section || strcmp(keys[k].section, at->name) == 0;
        is_key = is_key || (!keys[k].section[0] && strcmp(keys[k].name, at->name) == 0);
    }
    if (!is_section)
        return is_key ? value_read(at, value, user) : unknown_key(at);
    return settings_walk(at, value, at->name, value_read, user);
}

static bool document_read(const struct settings_at *at, const settings_value *root, void *user)
{
    if (!settings_is_mapping(root))
        return settings_fail(at, "the file has no sections");
    if (!settings_walk(at, root, "", section_read, user))
        return false;
    struct settings_at name = {at->settings, "model", "name", at->line};
    return job_of(at)->name ? true : settings_fail(&name, "is missing: which operator to train");
}

bool job_read(struct job *job, const char *file)
{
    job->opts.config = job->pairs;
    job->opts.config_strict = true;
    return settings_read(&job->settings, file, "job", document_read, NULL);
}

bool job_set(struct job *job, const char *assignment)
{
    char        section[128], *name;
    const char *value = strchr(assignment, '=');
    if (!value || (size_t)(value - assignment) >= sizeof section) {
        snprintf(job->settings.error, sizeof job->settings.error, "--set \"%.100s\" is not KEY=value", assignment);
        return false;
    }
    memcpy(section, assignment, (size_t)(value - assignment));
    section[value - assignment] = 0;
    name = strchr(section, '.');
    if (name)
        *name++ = 0;
    return value_set(&(struct settings_at){&job->settings, name ? section : "", name ? name : section, 0}, value + 1);
}

void job_fini(struct job *job)
{
    for (int i = 0; i < job->count; i++)
        free(job->config[i].pair);
    for (int i = 0; i < job->strings_count; i++)
        free(job->strings[i]);
    memset(job, 0, sizeof *job);
}

/* Of an entry of the operator's configuration, with which `text` begins. One that is missing has no line. */
static void config_place(struct job *job, const char *text, char out[JOB_ERROR_SIZE])
{
    size_t size = strcspn(text, " :");
    if (strncmp(text + size, " is missing", strlen(" is missing")) == 0)
        snprintf(out, JOB_ERROR_SIZE, "%.400s: data.%.*s: ", job->settings.file, (int)(size < 60 ? size : 60), text);
    for (int i = 0; i < job->count; i++) {
        const char *pair = job->config[i].pair;
        char        name[64];
        if (strcspn(pair, "=") != size || strncmp(text, pair, size) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), pair);
        settings_place(&(struct settings_at){&job->settings, job->config[i].section, job->config[i].is_path ? "path" : name,
                                             job->config[i].line},
                       out);
    }
}

const char *job_place(struct job *job, const manta_error *e, char out[JOB_ERROR_SIZE])
{
    out[0] = 0;
    if (strncmp(e->message, "no operator", strlen("no operator")) == 0)
        settings_place(&(struct settings_at){&job->settings, "model", "name", job->name_line}, out);
    for (int k = 0; k < KEYS; k++) { /* "SECTION.KEY is ..." */
        char   full[64];
        size_t size = (size_t)snprintf(full, sizeof full, "%s.%s", keys[k].section, keys[k].name);
        if (job->seen[k] && strncmp(e->message, full, size) == 0 && e->message[size] == ' ')
            settings_place(&(struct settings_at){&job->settings, "", full, job->seen[k] > 0 ? job->seen[k] : 0}, out);
    }
    if (strncmp(e->message, "config ", strlen("config ")) == 0)
        config_place(job, e->message + strlen("config "), out);
    return out;
}

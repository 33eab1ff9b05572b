/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.c - operators by name, their parameters, metrics and configuration, and the model made of them.
 *
 * Owns:   the list of registered operators (filled before main, read afterwards), and each opened one.
 * Thread: one at a time per operator.
 */
#include "sgd/operator/operator.h"

#include "core/base/real.h"
#include "core/base/reserved.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct sgd_chunk {
    struct sgd_chunk *next;
    _Alignas(64) unsigned char bytes[];
};

/* What is noted in the words of an operator that are the library's. */
struct noted {
    manta_sgd_operator *next;
};
_Static_assert(sizeof(struct noted) <= sizeof(((manta_sgd_operator *)0)->library), "the program's words are as many as they are");

static struct noted *noted_of(const manta_sgd_operator *op)
{
    return (struct noted *)(uintptr_t)op->library;
}

static manta_sgd_operator *registered; /* a constructor's work: nothing writes it once manta_init has run */

void manta_sgd_operator_register(manta_sgd_operator *op)
{
    noted_of(op)->next = registered;
    registered = op;
}

static const manta_sgd_operator *find(const char *name)
{
    for (const manta_sgd_operator *op = registered; op; op = noted_of(op)->next)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

/* "mlp, gpt2, cnn", as far as it fits. */
static void names_list(char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (const manta_sgd_operator *op = registered; op && at < size; op = noted_of(op)->next)
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", op->name);
}

/* ---- errors ---- */

/* What a function of the user's came to: its code, or that of the error which it did not pass on. */
static mt_status outcome(const manta_sgd *t, manta_status code)
{
    code = t->failed ? t->failed : code;
    return code == MANTA_OK ? mt_ok() : mt_error((enum mt_code)code, 0, t->failed ? t->text : "the operator failed");
}

/* ---- memory, configuration ---- */

void *manta_sgd_alloc(manta_sgd *t, size_t size)
{
    size_t whole;
    if (sgd_operator_of(t) != t || __builtin_add_overflow(size, sizeof(struct sgd_chunk) + 63, &whole))
        return NULL;
    struct sgd_chunk *chunk = aligned_alloc(64, whole / 64 * 64);
    if (!chunk)
        return NULL;
    memset(chunk, 0, whole / 64 * 64);
    chunk->next = t->chunks;
    t->chunks = chunk;
    return chunk->bytes;
}

static bool is_asked(const manta_sgd *t, const char *name, size_t size)
{
    for (const char *at = t->asked; (at = strstr(at, name)); at++)
        if (at > t->asked && at[-1] == ' ' && at[size] == ' ')
            return true;
    return false;
}

/* The first name of the configuration that setup did not ask for. */
static void unasked_find(manta_sgd *t)
{
    for (const char *pair = t->config; pair && *pair; pair += strlen(pair) + 1) {
        char   name[128];
        size_t size = strcspn(pair, "=");
        snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), pair);
        if (!is_asked(t, name, strlen(name)))
            manta_sgd_fail(t, MANTA_EINVAL, "config %.60s is unknown to the operator %.60s; it asks for:%.150s", name, t->op->name,
                           t->asked);
    }
}

const char *manta_sgd_conf_str(manta_sgd *t, const char *name, const char *otherwise)
{
    size_t size = strlen(name);
    if (sgd_operator_of(t)->is_in_setup && !is_asked(t, name, size))
        snprintf(t->asked + strlen(t->asked), sizeof t->asked - strlen(t->asked), " %.100s ", name);
    for (const char *pair = sgd_operator_of(t)->config; pair && *pair; pair += strlen(pair) + 1)
        if (strncmp(pair, name, size) == 0 && pair[size] == '=')
            return pair + size + 1;
    return otherwise;
}

int64_t manta_sgd_conf_i64(manta_sgd *t, const char *name, int64_t otherwise)
{
    const char *text = manta_sgd_conf_str(t, name, NULL);
    char       *end;
    if (!text)
        return otherwise;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        manta_sgd_fail(t, MANTA_EINVAL, "config %.60s is \"%.60s\": not a whole number", name, text);
    return value;
}

double manta_sgd_conf_f64(manta_sgd *t, const char *name, double otherwise)
{
    const char *text = manta_sgd_conf_str(t, name, NULL);
    char       *end;
    if (!text)
        return otherwise;
    double value = mt_real_read(text, &end);
    if (end == text || *end || !isfinite(value))
        manta_sgd_fail(t, MANTA_EINVAL, "config %.60s is \"%.60s\": not a number", name, text);
    return value;
}

void manta_sgd_devices_max(manta_sgd *t, int most)
{
    if (sgd_operator_of(t)->is_in_setup)
        t->devices_max = most < 1 ? 1 : (uint32_t)most;
}

void manta_sgd_gpus(manta_sgd *t, double each)
{
    if (sgd_operator_of(t)->is_in_setup)
        t->gpus = each > 0 ? each : 0;
}

void sgd_operator_shares(manta_sgd *t)
{
    t->shares_cpus = true;
}

int manta_sgd_device(const manta_sgd *t)
{
    return (int)sgd_operator_of(t)->device;
}

int manta_sgd_device_count(const manta_sgd *t)
{
    return (int)sgd_operator_of(t)->devices;
}

bool manta_sgd_is_driver(const manta_sgd *t)
{
    return sgd_operator_of(t)->is_driver;
}

uint64_t manta_sgd_seed(const manta_sgd *t)
{
    return sgd_operator_of(t)->seed;
}

int64_t manta_sgd_batch_max(const manta_sgd *t)
{
    return sgd_operator_of(t)->model.batch_max;
}

int64_t manta_sgd_step(const manta_sgd *t)
{
    const uint64_t *step = sgd_operator_of(t)->step;
    return step ? (int64_t)*step : 0;
}

/* ---- parameters ---- */

manta_status manta_sgd_param(manta_sgd *t, const char *name, int type, int ndim, const int64_t *shape, float **value,
                             float **gradient)
{
    uint64_t dims[MT_TENSOR_DIMS_MAX];
    size_t   offset, count = sgd_operator_of(t)->model.params.items_count;

    if (!sgd_operator_of(t)->is_in_setup || type != MANTA_SGD_F32 || !value || !gradient || ndim < 0 || ndim > MT_TENSOR_DIMS_MAX)
        return manta_sgd_fail(t, MANTA_EINVAL, "parameter %.100s: float32 of 0 to %d dimensions, named in setup", name,
                              MT_TENSOR_DIMS_MAX);
    for (int d = 0; d < ndim; d++) {
        if (shape[d] <= 0)
            return manta_sgd_fail(t, MANTA_EINVAL, "parameter %.100s: dimension %d is %lld", name, d, (long long)shape[d]);
        dims[d] = (uint64_t)shape[d];
    }
    struct sgd_binding *bindings = realloc(t->bindings, (count + 1) * sizeof *bindings);
    if (!bindings)
        return manta_sgd_fail(t, MANTA_ENOMEM, "parameter %.100s: no memory", name);
    t->bindings = bindings;
    mt_status st = sgd_params_add(&t->model.params, name, (uint32_t)ndim, dims, &offset);
    if (st.code != 0)
        return sgd_operator_fault(t, st, name);
    bindings[count] = (struct sgd_binding){value, gradient, offset, t->model.params.items[count].count};
    *value = *gradient = NULL;
    return MANTA_OK;
}

manta_status manta_sgd_ready(manta_sgd *t, float *const *gradient, int64_t first, int64_t count)
{
    for (size_t i = 0; i < sgd_operator_of(t)->model.params.items_count; i++) {
        const struct sgd_binding *b = &t->bindings[i];
        if ((float *const *)b->gradient != gradient)
            continue;
        if (first < 0 || count < 0 || (uint64_t)first > b->count || (uint64_t)count > b->count - (uint64_t)first)
            break;
        sgd_model_ready(&t->model, b->offset + (size_t)first, count ? (size_t)count : b->count - (size_t)first);
        return MANTA_OK;
    }
    return manta_sgd_fail(t, MANTA_EINVAL, "manta_sgd_ready: no such gradient, or elements %lld to %lld of it are not there",
                          (long long)first, (long long)(first + count));
}

void sgd_operator_device(manta_sgd *t, const struct k_ops *ops, int number)
{
    MT_ASSERT(t->is_in_setup && t->op->sets_gradients);
    t->model.device = ops;
    t->model.device_number = number;
}

uint64_t sgd_operator_version(const manta_sgd *t)
{
    return t->model.version;
}

/* ---- metrics ---- */

int sgd_operator_metric(const manta_sgd *t, const char *name)
{
    for (uint32_t i = 0; i < t->names_count; i++)
        if (strcmp(t->names[i], name) == 0)
            return (int)i;
    return -1;
}

static manta_status metric_add(manta_sgd *t, const char *name)
{
    if (!sgd_name_is_valid(name))
        return manta_sgd_fail(t, MANTA_EINVAL, "metric \"%.100s\": a name has A-Z a-z 0-9 . _ - /", name);
    if (t->names_count == SGD_METRIC_NAMES)
        return manta_sgd_fail(t, MANTA_EAGAIN, "metric %.100s: there are %d already", name, SGD_METRIC_NAMES);
    snprintf(t->names[t->names_count++], MT_NAME_BYTES_MAX, "%s", name);
    return MANTA_OK;
}

manta_status manta_sgd_metric(manta_sgd *t, const char *name, double value)
{
    int index = sgd_operator_metric(sgd_operator_of(t), name);
    if (sgd_operator_of(t)->is_in_setup)
        return index < 0 ? metric_add(t, name) : MANTA_OK;
    if (index < 0 || !sgd_operator_of(t)->metrics)
        return manta_sgd_fail(t, MANTA_EINVAL, "metric %.100s: make it known in setup, by this same call", name);
    int at = index < 2 ? index : index - 2 + SGD_METRICS;
    t->metrics[at] = (float)(value * t->batch_count);
    return MANTA_OK;
}

/* ---- the trainer's model ---- */

static manta_sgd *of_model(struct sgd_model *model)
{
    return mt_container_of(model, manta_sgd, model);
}

static void bind(manta_sgd *t, const float *params, float *grads)
{
    for (size_t i = 0; i < t->model.params.items_count; i++) {
        const struct sgd_binding *b = &t->bindings[i];
        *b->value = (float *)(uintptr_t)params + b->offset;
        *b->gradient = grads ? grads + b->offset : NULL;
    }
}

static void model_init(struct sgd_model *model, uint64_t seed, float *params)
{
    manta_sgd *t = of_model(model);
    (void)seed;
    bind(t, params, NULL);
    if (t->op->init && t->op->init(t, t->self) != MANTA_OK)
        manta_sgd_fail(t, MANTA_ETASK, "operator %.100s: init failed", t->op->name); /* comes out of the first step */
}

typedef manta_status batch_fn(manta_sgd *t, void *self, const manta_sgd_batch *b);

static mt_status batch_run(manta_sgd *t, batch_fn *fn, const struct sgd_batch *batch, float *metrics)
{
    manta_sgd_batch b = {.data = batch->records,
                         .labels = batch->labels,
                         .count = batch->count,
                         .record = batch->record_size,
                         .numbers = batch->indices,
                         .sample = batch->sample};
    memset(metrics, 0, (SGD_METRICS + t->model.extra_metrics) * sizeof *metrics);
    metrics[SGD_METRIC_SAMPLES] = (float)batch->count;
    t->metrics = metrics;
    t->batch_count = batch->count;
    manta_status code = fn(t, t->self, &b);
    t->metrics = NULL;
    return outcome(t, code);
}

/* The mean over the batch is what an operator's gradient is of, so `scale` is 1 / count. */
static mt_status model_gradient(struct sgd_model *model, const float *params, const struct sgd_batch *batch, float scale,
                                float *grads, float metrics[SGD_METRICS])
{
    manta_sgd *t = of_model(model);
    (void)scale;
    bind(t, params, grads);
    if (!t->op->sets_gradients)
        memset(grads, 0, model->params.floats * sizeof *grads);
    return batch_run(t, t->op->train_batch, batch, metrics);
}

static mt_status model_evaluate(struct sgd_model *model, const float *params, const struct sgd_batch *batch,
                                float metrics[SGD_METRICS])
{
    manta_sgd *t = of_model(model);
    bind(t, params, NULL);
    return batch_run(t, t->op->validate_batch, batch, metrics);
}

static void model_free(struct sgd_model *model)
{
    (void)model; /* sgd_operator_close */
}

static const struct sgd_model_ops model_ops = {
    .init = model_init, .gradient = model_gradient, .evaluate = model_evaluate, .free = model_free};

/* ---- begin and end ---- */

/* A later device's setup has named what that of device 0 did: by the table of parameters the trainer's buffers are shared. */
static void like_first(manta_sgd *t)
{
    bool is_like = sgd_params_equal(&t->model.params, &t->first->model.params) && t->names_count == t->first->names_count;
    for (uint32_t i = 0; is_like && i < t->names_count; i++)
        is_like = strcmp(t->names[i], t->first->names[i]) == 0;
    for (int i = 0; i < 2; i++)
        is_like = is_like && t->sources[i].is_there == t->first->sources[i].is_there;
    if (!is_like)
        manta_sgd_fail(t, MANTA_EINVAL,
                       "operator %.100s: the setup of device %u named other parameters, metrics or data than that "
                       "of device 0",
                       t->op->name, t->device);
}

static mt_status what_was_named(manta_sgd *t)
{
    const struct sgd_source *train = &t->sources[0], *validate = &t->sources[1];
    const char              *name = t->op->name;
    if (t->model.params.items_count == 0)
        manta_sgd_fail(t, MANTA_EINVAL, "operator %.100s: setup named no parameter (manta_sgd_param)", name);
    else if (!train->is_there)
        manta_sgd_fail(t, MANTA_EINVAL, "operator %.100s: setup named no data to train with (manta_sgd_data)", name);
    else if (validate->is_there && !t->op->validate_batch)
        manta_sgd_fail(t, MANTA_EINVAL, "operator %.100s: data to validate with, but no validate_batch", name);
    else if (validate->is_there && validate->set.record_size != train->set.record_size)
        manta_sgd_fail(t, MANTA_EINVAL, "operator %.100s: records of %u bytes to train with, of %u to validate with", name,
                       train->set.record_size, validate->set.record_size);
    t->model.record_size = train->set.record_size;
    t->model.extra_metrics = t->names_count - 2;
    if (t->first)
        like_first(t);
    return outcome(t, MANTA_OK);
}

static mt_status setup_run(manta_sgd *t)
{
    uint32_t validate = t->op->validate_batch_max > 0 ? (uint32_t)t->op->validate_batch_max : 0;
    t->model = (struct sgd_model){.ops = &model_ops, .batch_max = validate > t->micro_batch ? validate : t->micro_batch};
    t->is_in_setup = true;
    (void)metric_add(t, "loss");
    (void)metric_add(t, "accuracy");
    mt_status st = outcome(t, t->op->setup(t, &t->self));
    if (t->is_strict && st.code == 0) {
        unasked_find(t);
        st = outcome(t, MANTA_OK);
    }
    t->is_in_setup = false;
    return st.code ? st : what_was_named(t);
}

mt_status sgd_operator_open(const struct sgd_operator_opts *opts, char text[SGD_OPERATOR_TEXT], manta_sgd **out)
{
    const manta_sgd_operator *op = find(opts->name);
    if (op && MT_RESERVED_IS_USED(op)) {
        snprintf(text, SGD_OPERATOR_TEXT, MT_RESERVED_TEXT, op->name);
        return mt_error(MT_EINVAL, 0, "open operator");
    }
    if (!op || !op->setup || !op->train_batch) {
        char known[SGD_OPERATOR_TEXT / 2];
        names_list(known, sizeof known);
        snprintf(text, SGD_OPERATOR_TEXT,
                 op ? "no operator \"%.100s\" with setup and train_batch"
                    : "no operator \"%.100s\": this program has %s. One of its own needs its MANTA_SGD_OPERATOR linked",
                 opts->name, known);
        return mt_error(MT_EINVAL, 0, "open operator");
    }
    manta_sgd *t = sgd_operator_new();
    if (!t) {
        snprintf(text, SGD_OPERATOR_TEXT, "no memory for an operator");
        return mt_error(MT_ENOMEM, 0, "open operator");
    }
    t->op = op;
    t->config = opts->config;
    t->seed = opts->seed;
    t->micro_batch = opts->micro_batch;
    t->is_driver = opts->is_driver;
    t->is_spread = opts->is_spread;
    t->is_strict = opts->is_strict;
    t->lent = opts->lent;
    t->lent_size = opts->lent_size;
    t->moved = opts->moved;
    t->device = opts->device;
    t->devices = opts->devices ? opts->devices : 1;
    t->first = opts->first;
    mt_status st = setup_run(t);
    if (st.code == 0) {
        *out = t;
        return st;
    }
    snprintf(text, SGD_OPERATOR_TEXT, "%s", t->failed ? t->text : "the operator's setup failed");
    sgd_operator_close(t);
    return mt_error(st.code, 0, "open operator");
}

void sgd_operator_close(manta_sgd *t)
{
    if (!t)
        return;
    if (t->op->teardown)
        t->op->teardown(t, t->self);
    sgd_operator_data_drop(t);
    sgd_params_fini(&t->model.params);
    free(t->bindings);
    for (uint32_t i = 0; i < t->mapped_count; i++)
        free(t->mapped[i]);
    for (struct sgd_chunk *chunk = t->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    sgd_operator_free(t);
}

mt_status sgd_operators_open(struct sgd_operator_opts *opts, char text[SGD_OPERATOR_TEXT], manta_sgd ***out,
                             struct sgd_model ***out_models)
{
    *out = calloc(opts->devices, sizeof **out);
    *out_models = calloc(opts->devices, sizeof **out_models);
    mt_status st = *out && *out_models ? sgd_operator_open(opts, text, &(*out)[0]) : mt_error(MT_ENOMEM, 0, "worker");
    for (uint32_t d = 1; d < opts->devices && st.code == 0; d++) {
        opts->first = (*out)[0];
        opts->device = d;
        st = sgd_operator_open(opts, text, &(*out)[d]);
        (*out_models)[d - 1] = st.code ? NULL : &(*out)[d]->model;
    }
    return st;
}

void sgd_operators_close(manta_sgd **of, struct sgd_model **models, uint32_t devices)
{
    for (uint32_t d = devices; of && d-- > 0;) /* the others borrow from the first */
        sgd_operator_close(of[d]);
    free(of);
    free(models);
}

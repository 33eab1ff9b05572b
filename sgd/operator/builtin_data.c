/* SPDX-License-Identifier: Apache-2.0
 *
 * builtin_data.c - the data of the built-in classifiers: IDX, CSV or npy, by the configuration.
 *
 * Each error names the entry of the configuration that it is about. Thread: the operator's.
 */
#include "sgd/operator/builtin.h"

#include <string.h>
#include <sys/stat.h>

/* What the configuration says; NULL: nothing. */
struct asked {
    const char *data, *format, *label, *labels, *validate, *validate_labels;
    int         classes;
};

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size > tail && strcmp(text + size - tail, end) == 0;
}

static manta_status format_find(manta_sgd *t, const struct asked *a, int *out)
{
    static const struct {
        const char *name, *end;
        int         format;
    } known[] = {{"idx", NULL, MANTA_SGD_IDX}, {"csv", ".csv", MANTA_SGD_CSV}, {"npy", ".npy", MANTA_SGD_NPY}};
    struct stat info;

    *out = MANTA_SGD_IDX;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (a->format ? strcmp(a->format, known[i].name) == 0 : a->data && known[i].end && ends_with(a->data, known[i].end))
            return *out = known[i].format, MANTA_OK;
    if (a->format)
        return manta_sgd_fail(t, MANTA_EINVAL, "config format is \"%.60s\": idx, csv or npy", a->format);
    if (a->data && stat(a->data, &info) == 0 && !S_ISDIR(info.st_mode))
        return manta_sgd_fail(t, MANTA_EINVAL,
                              "config data is \"%.200s\": neither a folder (IDX) nor a name that ends with "
                              ".csv or .npy: say which by config format",
                              a->data);
    return MANTA_OK;
}

/* What one format needs, and another does not know. */
static manta_status asked_check(manta_sgd *t, const struct asked *a, int format)
{
    const struct {
        const char *name, *value, *what;
        bool        is_fit, is_needed;
    } entries[] = {
        {"data", a->data, "the path of the file", true, format != MANTA_SGD_IDX},
        {"label", a->label, "the column with the label, by its name or its number", format == MANTA_SGD_CSV,
         format == MANTA_SGD_CSV},
        {"labels", a->labels, "the path of the array with the labels", format == MANTA_SGD_NPY, format == MANTA_SGD_NPY},
        {"validate", a->validate, "", format != MANTA_SGD_IDX, false},
        {"validate_labels", a->validate_labels, "the path of the array with the labels to validate with",
         format == MANTA_SGD_NPY && a->validate, format == MANTA_SGD_NPY && a->validate},
    };
    static const char *const names[] = {[MANTA_SGD_IDX] = "IDX", [MANTA_SGD_CSV] = "CSV", [MANTA_SGD_NPY] = "npy"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (entries[i].value && !entries[i].is_fit)
            return manta_sgd_fail(t, MANTA_EINVAL, "config %s is \"%.60s\": %s data%s has none", entries[i].name, entries[i].value,
                                  names[format], format == MANTA_SGD_NPY && !a->validate ? " without config validate" : "");
        if (!entries[i].value && entries[i].is_needed)
            return manta_sgd_fail(t, MANTA_EINVAL, "config %s is missing: for %s data it is %s", entries[i].name, names[format],
                                  entries[i].what);
    }
    return MANTA_OK;
}

/* Training data is shuffled; what is to be validated with stands as it is. */
static manta_status data_name(manta_sgd *t, const struct asked *a, int format)
{
    manta_sgd_data_opts opts = {
        .format = format, .shuffle = true, .label_name = a->label, .labels = a->labels, .classes = a->classes};
    manta_status code = manta_sgd_data(t, a->data, &opts);
    const char  *validate = format == MANTA_SGD_IDX ? a->data : a->validate;
    opts.shuffle = false;
    opts.validate = true;
    opts.labels = a->validate_labels;
    return code == MANTA_OK && (validate || format == MANTA_SGD_IDX) ? manta_sgd_data(t, validate, &opts) : code;
}

static manta_status sets_check(manta_sgd *t, const struct asked *a, manta_sgd_data_shape *info)
{
    manta_sgd_data_shape validate;
    (void)manta_sgd_data_info(t, false, info);
    if (!sgd_cast_is_known((struct sgd_element){info->kind, (uint32_t)info->width}))
        return manta_sgd_fail(t, MANTA_EUNSUPPORTED,
                              "config data: numbers of NumPy's type %c%d: known are u and i of 1, 2, 4 "
                              "and 8 bytes, f4, f8 and b1",
                              info->kind, info->width);
    if (a->classes && info->classes > a->classes)
        return manta_sgd_fail(t, MANTA_ECORRUPT, "config classes is %d: label %d is out of range", a->classes, info->classes - 1);
    info->classes = a->classes ? a->classes : info->classes;
    if (!manta_sgd_data_info(t, true, &validate))
        return MANTA_OK;
    if (validate.record != info->record || validate.classes > info->classes || validate.kind != info->kind ||
        validate.width != info->width)
        return manta_sgd_fail(t, MANTA_ECORRUPT,
                              "%stest and training data don't belong together: records of %lld and %lld bytes, "
                              "%d and %d classes",
                              a->validate ? "config validate: " : "", (long long)validate.record, (long long)info->record,
                              validate.classes, info->classes);
    return MANTA_OK;
}

/* Of bytes of a file whose format does not say what they are: these of pictures. */
static manta_status cast_make(manta_sgd *t, struct sgd_inputs *out)
{
    const char *deviation = manta_sgd_conf_str(t, "deviation", NULL), *mean = manta_sgd_conf_str(t, "mean", NULL);
    out->cast = (struct sgd_cast){.element = {out->info.kind, (uint32_t)out->info.width},
                                  .mean = manta_sgd_conf_f64(t, "mean", 0),
                                  .deviation = manta_sgd_conf_f64(t, "deviation", deviation || mean ? 1 : 0)};
    out->count = (uint32_t)(out->info.record / sgd_element_size(out->cast.element));
    if (deviation && !(out->cast.deviation > 0))
        return manta_sgd_fail(t, MANTA_EINVAL, "config deviation is \"%.60s\": more than 0", deviation);
    return MANTA_OK;
}

manta_status sgd_builtin_classes(manta_sgd *t, struct sgd_inputs *out)
{
    struct asked a = {.data = manta_sgd_conf_str(t, "data", NULL),
                      .format = manta_sgd_conf_str(t, "format", NULL),
                      .label = manta_sgd_conf_str(t, "label", NULL),
                      .labels = manta_sgd_conf_str(t, "labels", NULL),
                      .validate = manta_sgd_conf_str(t, "validate", NULL),
                      .validate_labels = manta_sgd_conf_str(t, "validate_labels", NULL)};
    int64_t      classes = manta_sgd_conf_i64(t, "classes", 0);
    int          format;
    if (classes < 0 || classes > 256)
        return manta_sgd_fail(t, MANTA_EINVAL, "config classes is %lld: 1 to 256", (long long)classes);
    a.classes = (int)classes;
    manta_status code = format_find(t, &a, &format);
    if (code == MANTA_OK)
        code = asked_check(t, &a, format);
    if (code == MANTA_OK)
        code = data_name(t, &a, format);
    if (code == MANTA_OK)
        code = sets_check(t, &a, &out->info);
    return code == MANTA_OK ? cast_make(t, out) : code;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - the data that an operator names: mapped files, and what the driver unpacks and lends.
 *
 * Owns: the operator's sources. Thread: the operator's.
 */
#include "sgd/operator/operator.h"
#include "sgd/data/table.h"
#include "sgd/data/tokens.h"

#include "core/base/reserved.h"

#include <stdio.h>
#include <string.h>

/* Where a source's records begin in lent data, and whether all of it is there. */
static mt_status lent_find(const manta_sgd *t, int which, const uint8_t **records, const uint8_t **labels, struct sgd_lent *head)
{
    size_t at = sizeof *head;
    if (t->lent_size < sizeof *head)
        return mt_error(MT_ECORRUPT, 0, "data: what the driver lends is too short");
    memcpy(head, t->lent, sizeof *head);
    for (int i = 0; i <= which; i++) {
        uint64_t bytes = head->count[i] * head->record_size[i], tags = head->has_labels[i] ? head->count[i] : 0;
        *records = (const uint8_t *)t->lent + at;
        *labels = tags ? *records + bytes : NULL;
        at += bytes + tags;
        if (at > t->lent_size)
            return mt_error(MT_ECORRUPT, 0, "data: what the driver lends is too short");
    }
    return head->count[which] ? mt_ok() : mt_error(MT_EINVAL, 0, "data: it differs from the driver's");
}

static mt_status lent_take(manta_sgd *t, int which, struct sgd_source *source)
{
    const uint8_t  *records, *labels;
    struct sgd_lent head;
    MT_TRY(lent_find(t, which, &records, &labels, &head));
    return sgd_dataset_borrow(records, labels, head.count[which], head.record_size[which], &source->set);
}

static mt_status idx_load(manta_sgd *t, const char *folder, int which, struct sgd_source *source)
{
    source->is_lent = true;
    return t->lent ? lent_take(t, which, source) : sgd_dataset_load_fashion(folder, which == 0, &source->set);
}

static mt_status tokens_load(manta_sgd *t, const char *path, int which, uint32_t context, struct sgd_source *source)
{
    struct sgd_tokens tokens;
    source->is_lent = true;
    if (t->lent)
        return lent_take(t, which, source);
    MT_TRY(sgd_tokens_load(path, &tokens));
    mt_status st = sgd_dataset_windows(&tokens, context, which == 0, &source->set);
    sgd_tokens_fini(&tokens);
    return st;
}

static mt_status csv_load(manta_sgd *t, const char **of, int which, const manta_sgd_data_opts *opts, char *where,
                          struct sgd_source *source)
{
    struct sgd_csv csv = {.path = *of,
                          .label = opts->label,
                          .label_name = opts->label_name,
                          .classes = opts->classes > 0 ? (uint32_t)opts->classes : 0};
    source->is_lent = true;
    if (!t->lent)
        return sgd_csv_load(&csv, of, where, &source->set);
    MT_TRY(lent_take(t, which, source));
    source->set.element = (struct sgd_element){'f', sizeof(float)};
    return mt_ok();
}

/* Where a mapped file is on this node. */
static const char *path_here(const manta_sgd *t, const char *path)
{
    for (uint32_t i = 0; path && t->moved && i < t->moved->count; i++)
        if (strcmp(t->moved->from[i], path) == 0)
            return t->moved->to[i];
    return path;
}

/* So that nodes which lack it can get it. One whose name is too long stays the driver's alone. */
static void mapped_note(manta_sgd *t, const char *path)
{
    if (!t->is_driver || !t->is_spread || !path || strlen(path) >= SGD_MAPPED_BYTES || t->mapped_count == SGD_MAPPED_MAX)
        return;
    t->mapped[t->mapped_count] = strdup(path);
    t->mapped_count += t->mapped[t->mapped_count] != NULL;
}

/* The data of one format, from the path *of. An error says which of the texts that were given it is about (*of), and in `where`
 * at which place of the file, if it knows. */
static mt_status source_load(manta_sgd *t, const char **of, const manta_sgd_data_opts *opts, char where[SGD_WHERE_BYTES],
                             struct sgd_source *source)
{
    const char *path = *of;
    int         which = opts->validate ? 1 : 0;
    switch (opts->format) {
    case MANTA_SGD_RECORDS: return sgd_dataset_map(path_here(t, path), (uint64_t)opts->record, (uint64_t)opts->skip, &source->set);
    case MANTA_SGD_IDX: return idx_load(t, path, which, source);
    case MANTA_SGD_TOKENS: return tokens_load(t, path, which, (uint32_t)opts->record, source);
    case MANTA_SGD_CSV: return csv_load(t, of, which, opts, where, source);
    case MANTA_SGD_NPY:
        return sgd_npy_map(path_here(t, path), path_here(t, opts->labels), opts->classes > 0 ? (uint32_t)opts->classes : 0, of,
                           where, &source->set);
    default: return mt_error(MT_EINVAL, 0, "data: unknown format");
    }
}

static const char *default_path(int format)
{
    return format == MANTA_SGD_IDX ? SGD_FASHION_MNIST_DIR : SGD_BIBLE_PATH;
}

/* "config NAME: " where this text is a value of the configuration, so that its writer finds it. */
static void config_of(const manta_sgd *t, const char *text, char out[MT_NAME_BYTES_MAX])
{
    out[0] = 0;
    for (const char *pair = t->config; text && pair && *pair; pair += strlen(pair) + 1) {
        size_t size = strcspn(pair, "=");
        if (pair + size + 1 == text)
            snprintf(out, MT_NAME_BYTES_MAX, "config %.*s: ", (int)(size < 64 ? size : 64), pair);
    }
}

static manta_status data_refuse(manta_sgd *t, mt_status st, const char *of, int format, const char *where)
{
    char config[MT_NAME_BYTES_MAX], text[SGD_OPERATOR_TEXT];
    config_of(t, of, config);
    snprintf(text, sizeof text, "%s%.220s%s%s", config, of ? of : default_path(format), where[0] ? ", " : "", where);
    return sgd_operator_fault(t, st, text);
}

manta_status manta_sgd_data(manta_sgd *t, const char *path, const manta_sgd_data_opts *opts)
{
    if (!opts || !sgd_operator_of(t)->is_in_setup)
        return manta_sgd_fail(t, MANTA_EINVAL, "data %.200s: name it in setup, with its opts", path ? path : "");
    int                which = opts->validate ? 1 : 0;
    struct sgd_source *source = &t->sources[which], loaded = {.is_there = true, .in_order = !opts->shuffle};
    char               where[SGD_WHERE_BYTES] = "";

    if (MT_RESERVED_IS_USED(opts))
        return manta_sgd_fail(t, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_sgd_data");
    if (source->is_there)
        return manta_sgd_fail(t, MANTA_EINVAL, "data %.200s: name it once", path ? path : "");
    if (!path && opts->format != MANTA_SGD_IDX && opts->format != MANTA_SGD_TOKENS)
        return manta_sgd_fail(t, MANTA_EINVAL, "data: no path");
    bool has_size = opts->format == MANTA_SGD_RECORDS || opts->format == MANTA_SGD_TOKENS;
    if (has_size && (opts->record <= 0 || opts->record > UINT32_MAX || opts->skip < 0))
        return manta_sgd_fail(t, MANTA_EINVAL, "data %.200s: records of %lld after %lld others", path ? path : "",
                              (long long)opts->record, (long long)opts->skip);
    if (t->first && t->first->sources[which].is_there) { /* what device 0 has loaded is there for all */
        *source = t->first->sources[which];
        source->set.owned_records = source->set.owned_labels = source->set.mapped = NULL;
        return MANTA_OK;
    }
    const char *of = path;
    mt_status   st = source_load(t, &of, opts, where, &loaded);
    if (st.code != 0)
        return data_refuse(t, st, of, opts->format, where);
    *source = loaded;
    if (opts->format == MANTA_SGD_RECORDS || opts->format == MANTA_SGD_NPY)
        mapped_note(t, path);
    if (opts->format == MANTA_SGD_NPY)
        mapped_note(t, opts->labels);
    return MANTA_OK;
}

bool manta_sgd_data_info(const manta_sgd *t, bool validate, manta_sgd_data_shape *out)
{
    const struct sgd_source *source = &sgd_operator_of(t)->sources[validate];
    if (!source->is_there)
        return false;
    *out = (manta_sgd_data_shape){.count = (int64_t)source->set.count,
                                  .record = source->set.record_size,
                                  .classes = (int)source->set.classes,
                                  .kind = source->set.element.kind,
                                  .width = (int)source->set.element.width};
    return true;
}

void sgd_operator_data_drop(manta_sgd *t)
{
    for (int i = 0; i < 2; i++) {
        struct sgd_dataset *set = &t->sources[i].set;
        uint64_t            count = set->count;
        uint32_t            record_size = set->record_size, classes = set->classes;
        struct sgd_element  element = set->element;
        sgd_dataset_fini(set);
        *set = (struct sgd_dataset){.count = count, .record_size = record_size, .classes = classes, .element = element};
    }
}

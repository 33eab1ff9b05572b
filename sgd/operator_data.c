/* SPDX-License-Identifier: Apache-2.0
 *
 * operator_data.c - the data that an operator names: mapped files, and what the driver unpacks and lends.
 *
 * Owns: the operator's sources. Thread: the operator's.
 */
#include "sgd/operator.h"
#include "sgd/table.h"
#include "sgd/tokens.h"

#include <stdio.h>
#include <string.h>

/* Where a source's records begin in lent data, and whether all of it is there. */
static mt_status lent_find(const manta_sgd *t, int which, const uint8_t **records, const uint8_t **labels,
                           struct sgd_lent *head)
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

static mt_status csv_load(manta_sgd *t, const char *path, int which, const manta_data_opts *opts, char *where,
                          struct sgd_source *source)
{
    source->is_lent = true;
    return t->lent ? lent_take(t, which, source)
                   : sgd_csv_load(path, opts->label, opts->classes > 0 ? (uint32_t)opts->classes : 0, where, &source->set);
}

/* The data of one format; an error says which file it is in (*path_of), and in `where` at which
 * place of it, if it knows. */
static mt_status source_load(manta_sgd *t, const char **path_of, const manta_data_opts *opts, char where[SGD_WHERE_BYTES],
                             struct sgd_source *source)
{
    const char *path = *path_of;
    int which = opts->validate ? 1 : 0;
    switch (opts->format) {
    case MANTA_RECORDS:
        return sgd_dataset_map(path, (uint64_t)opts->record, (uint64_t)opts->skip, &source->set);
    case MANTA_IDX:
        return idx_load(t, path, which, source);
    case MANTA_TOKENS:
        return tokens_load(t, path, which, (uint32_t)opts->record, source);
    case MANTA_CSV:
        return csv_load(t, path, which, opts, where, source);
    case MANTA_NPY:
        return sgd_npy_map(path, opts->labels, opts->classes > 0 ? (uint32_t)opts->classes : 0, path_of, where,
                           &source->set);
    default:
        return mt_error(MT_EINVAL, 0, "data: unknown format");
    }
}

static const char *default_path(int format)
{
    return format == MANTA_IDX ? SGD_FASHION_MNIST_DIR : SGD_BIBLE_PATH;
}

manta_status manta_sgd_data(manta_sgd *t, const char *path, const manta_data_opts *opts)
{
    int                which = opts->validate ? 1 : 0;
    struct sgd_source *source = &t->sources[which], loaded = {.is_there = true, .in_order = !opts->shuffle};
    char               where[SGD_WHERE_BYTES] = "", of[MT_PATH_BYTES_MAX + SGD_WHERE_BYTES];

    if (!t->is_in_setup || source->is_there)
        return manta_sgd_fail(t, MANTA_EINVAL, "data %.200s: name it in setup, and once", path ? path : "");
    if (!path && opts->format != MANTA_IDX && opts->format != MANTA_TOKENS)
        return manta_sgd_fail(t, MANTA_EINVAL, "data: no path");
    bool has_size = opts->format == MANTA_RECORDS || opts->format == MANTA_TOKENS;
    if (has_size && (opts->record <= 0 || opts->record > UINT32_MAX || opts->skip < 0))
        return manta_sgd_fail(t, MANTA_EINVAL, "data %.200s: records of %lld after %lld others", path ? path : "",
                              (long long)opts->record, (long long)opts->skip);
    if (t->first && t->first->sources[which].is_there) { /* what device 0 has loaded is there for all */
        *source = t->first->sources[which];
        source->set.owned_records = source->set.owned_labels = source->set.mapped = NULL;
        return MANTA_OK;
    }
    mt_status st = source_load(t, &path, opts, where, &loaded);
    snprintf(of, sizeof of, "%s%s%s", path ? path : default_path(opts->format), where[0] ? ", " : "", where);
    if (st.code != 0)
        return sgd_operator_fault(t, st, of);
    *source = loaded;
    return MANTA_OK;
}

bool manta_sgd_data_info(const manta_sgd *t, bool validate, manta_data_info *out)
{
    const struct sgd_source *source = &t->sources[validate];
    if (!source->is_there)
        return false;
    *out = (manta_data_info){.count = (int64_t)source->set.count, .record = source->set.record_size,
                             .classes = (int)source->set.classes};
    return true;
}

void sgd_operator_data_drop(manta_sgd *t)
{
    for (int i = 0; i < 2; i++) {
        struct sgd_dataset *set = &t->sources[i].set;
        uint64_t count = set->count;
        uint32_t record_size = set->record_size, classes = set->classes;
        sgd_dataset_fini(set);
        set->count = count;
        set->record_size = record_size;
        set->classes = classes;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - the table of named parameters. Owns: the table, until sgd_params_fini. Thread: one at a time.
 */
#include "sgd/model/model.h"

#include <stdlib.h>
#include <string.h>

bool sgd_name_is_valid(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n >= MT_NAME_BYTES_MAX || strncmp(name, "__", 2) == 0)
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") == n;
}

static mt_status shape_count(uint32_t ndim, const uint64_t *shape, size_t *out_count)
{
    size_t count = 1;
    if (ndim > MT_TENSOR_DIMS_MAX)
        return mt_error(MT_EINVAL, 0, "add parameter: too many dimensions");
    for (uint32_t d = 0; d < ndim; d++)
        if (shape[d] == 0 || __builtin_mul_overflow(count, shape[d], &count))
            return mt_error(MT_EINVAL, 0, "add parameter: shape");
    *out_count = count;
    return mt_ok();
}

mt_status sgd_params_add(struct sgd_params *params, const char *name, uint32_t ndim, const uint64_t *shape, size_t *out_offset)
{
    struct sgd_param item = {.ndim = ndim, .offset = params->floats};
    size_t           floats, bytes;

    if (!sgd_name_is_valid(name))
        return mt_error(MT_EINVAL, 0, "add parameter: name");
    for (size_t i = 0; i < params->items_count; i++)
        if (strcmp(params->items[i].name, name) == 0)
            return mt_error(MT_EEXIST, 0, "add parameter: name is taken");
    if (params->items_count == MT_TENSORS_MAX)
        return mt_error(MT_EAGAIN, 0, "add parameter: too many");
    MT_TRY(shape_count(ndim, shape, &item.count));
    if (__builtin_add_overflow(params->floats, item.count, &floats) || __builtin_mul_overflow(floats, 4 * sizeof(float), &bytes))
        return mt_error(MT_EINVAL, 0, "add parameter: too large");
    memcpy(item.name, name, strlen(name) + 1);
    for (uint32_t d = 0; d < ndim; d++)
        item.shape[d] = shape[d];

    struct sgd_param *items = realloc(params->items, (params->items_count + 1) * sizeof *items);
    if (!items)
        return mt_error(MT_ENOMEM, 0, "add parameter");
    items[params->items_count++] = item;
    params->items = items;
    params->floats = floats;
    *out_offset = item.offset;
    return mt_ok();
}

void sgd_params_fini(struct sgd_params *params)
{
    free(params->items);
    memset(params, 0, sizeof *params);
}

static bool param_equal(const struct sgd_param *a, const struct sgd_param *b)
{
    return strcmp(a->name, b->name) == 0 && a->offset == b->offset && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

bool sgd_params_equal(const struct sgd_params *a, const struct sgd_params *b)
{
    bool is_equal = a->items_count == b->items_count && a->floats == b->floats;
    for (size_t i = 0; is_equal && i < a->items_count; i++)
        is_equal = param_equal(&a->items[i], &b->items[i]);
    return is_equal;
}

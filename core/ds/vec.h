/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.h - a growing array of any type: `MT_VEC(struct lease) leases = {0};`
 *
 * A zeroed one is empty and valid. Elements move when it grows: keep an index, not a pointer. One thread at a time.
 */
#ifndef MT_BASE_VEC_H
#define MT_BASE_VEC_H

#include "core/base/status.h"

#include <stdlib.h>
#include <string.h>

#define MT_VEC(type) \
    struct { \
        type  *data; \
        size_t count; \
        size_t capacity; \
    }

/* Makes room for `extra` more elements. ENOMEM leaves the array as it was. */
#define mt_vec_reserve(vec, extra) mt_vec_reserve_((vec), (extra), sizeof *(vec)->data)

/* Appends a value. ENOMEM leaves the array as it was. */
#define mt_vec_push(vec, ...) \
    (((vec)->count < (vec)->capacity || mt_vec_reserve((vec), 1).code == 0) \
         ? ((void)((vec)->data[(vec)->count++] = (__VA_ARGS__)), mt_ok()) \
         : mt_vec_full_())

/* The last element, taken off; the array may not be empty. */
#define mt_vec_pop(vec) ((vec)->data[--(vec)->count])

/* Takes element `index` out; the last one takes its place. */
#define mt_vec_remove_swap(vec, index) ((void)((vec)->data[(index)] = (vec)->data[--(vec)->count]))

/* Takes element `index` out; those behind it move up, so their order stays. */
#define mt_vec_remove(vec, index) mt_vec_remove_((vec), (index), sizeof *(vec)->data)

/* Frees the elements' memory; the array is empty and may be used again. */
#define mt_vec_fini(vec) ((void)(free((vec)->data), (vec)->data = NULL, (vec)->count = 0, (vec)->capacity = 0))

/* What every MT_VEC looks like from inside the two functions below. */
struct mt_vec_any {
    void  *data;
    size_t count;
    size_t capacity;
};
MT_MUST_USE mt_status               mt_vec_reserve_(void *vec, size_t extra, size_t item_size);
void                                mt_vec_remove_(void *vec, size_t index, size_t item_size);
MT_MUST_USE static inline mt_status mt_vec_full_(void)
{
    return mt_error(MT_ENOMEM, 0, "grow array");
}

#endif

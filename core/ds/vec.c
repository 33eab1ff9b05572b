/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.c - how a growing array grows. Owns nothing itself; thread: the caller's.
 */
#include "core/ds/vec.h"

enum { VEC_CAPACITY_MIN = 8 };

mt_status mt_vec_reserve_(void *vec, size_t extra, size_t item_size)
{
    struct mt_vec_any *any = vec;
    size_t             need, bytes;
    if (__builtin_add_overflow(any->count, extra, &need))
        return mt_vec_full_();
    if (need <= any->capacity)
        return mt_ok();
    size_t capacity = any->capacity ? any->capacity : VEC_CAPACITY_MIN;
    while (capacity < need) {
        if (__builtin_mul_overflow(capacity, 2, &capacity))
            capacity = need;
    }
    if (__builtin_mul_overflow(capacity, item_size, &bytes))
        return mt_vec_full_();
    void *data = realloc(any->data, bytes);
    if (!data)
        return mt_vec_full_();
    any->data = data;
    any->capacity = capacity;
    return mt_ok();
}

void mt_vec_remove_(void *vec, size_t index, size_t item_size)
{
    struct mt_vec_any *any = vec;
    MT_ASSERT(index < any->count);
    char *at = (char *)any->data + index * item_size;
    any->count--;
    memmove(at, at + item_size, (any->count - index) * item_size);
}

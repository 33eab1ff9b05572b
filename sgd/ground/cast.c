/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.c - elements to float32. Owns: nothing. Thread: any.
 *
 * The mean is subtracted in double, so that large numbers which lie close together (times, say) keep what tells them apart.
 */
#include "sgd/ground/cast.h"

#include "core/base/status.h"

#include <string.h>

/* Of Fashion-MNIST, rounded as float32 has them. */
#define BYTE_DEVIATION ((double)(255.0f * 0.3530f))
#define BYTE_MEAN      ((double)(0.2860f / 0.3530f) * BYTE_DEVIATION)

/* X(kind, width, type): a bool of NumPy is a byte that is 0 or 1. */
/* clang-format off */
#define ELEMENTS(X)                                                                                                 \
    X('u', 1, uint8_t) X('u', 2, uint16_t) X('u', 4, uint32_t) X('u', 8, uint64_t) X('i', 1, int8_t)                \
    X('i', 2, int16_t) X('i', 4, int32_t) X('i', 8, int64_t) X('f', 4, float) X('f', 8, double) X('b', 1, uint8_t)
/* clang-format on */

static uint32_t key_of(char kind, uint32_t width)
{
    return (uint32_t)(unsigned char)kind << 8 | (width & 255);
}

bool sgd_cast_is_known(struct sgd_element element)
{
#define KNOWN(letter, bytes, type) || key_of(element.kind, element.width) == key_of(letter, bytes)
    return sgd_element_is_byte(element) ELEMENTS(KNOWN);
#undef KNOWN
}

struct sgd_cast sgd_cast_resolve(const struct sgd_cast *cast)
{
    struct sgd_cast c = *cast;
    bool            is_byte = sgd_element_is_byte(c.element);
    if (is_byte)
        c.element = (struct sgd_element){'u', 1};
    if (is_byte && c.mean == 0.0 && c.deviation == 0.0)
        c.mean = BYTE_MEAN, c.deviation = BYTE_DEVIATION;
    if (c.deviation == 0.0)
        c.deviation = 1;
    return c;
}

void sgd_cast_run(const struct sgd_cast *cast, const uint8_t *in, size_t count, float *out)
{
    double mean = cast->mean, scale = 1 / cast->deviation;
    switch (key_of(cast->element.kind, cast->element.width)) {
#define CASE(letter, bytes, type) \
    case (unsigned)(letter) << 8 | (bytes): \
        for (size_t i = 0; i < count; i++) { \
            type value; \
            memcpy(&value, in + i * (bytes), (bytes)); \
            out[i] = (float)(((double)value - mean) * scale); \
        } \
        break;
        ELEMENTS(CASE)
#undef CASE
    default: MT_ASSERT(!"an element that is known");
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.h - elements of records as they stand in a file, to a network's inputs: (element - mean) / deviation, in float32.
 */
#ifndef SGD_CAST_H
#define SGD_CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements by kind and width, as NumPy calls them: 'u' and 1, 'f' and 4. All zero: a byte of a picture. */
struct sgd_element {
    char     kind;  /* 'u', 'i', 'f', 'b' */
    uint32_t width; /* bytes */
};

struct sgd_cast {
    struct sgd_element element;
    double             mean, deviation; /* both 0: of bytes those of Fashion-MNIST, of others 0 and 1; deviation 0 else: 1 */
};

static inline bool sgd_element_is_byte(struct sgd_element element)
{
    return element.kind == 0 || (element.kind == 'u' && element.width == 1);
}

static inline uint32_t sgd_element_size(struct sgd_element element)
{
    return element.kind ? element.width : 1;
}

/* False: of these there is no cast (float16, say). */
bool sgd_cast_is_known(struct sgd_element element);

/* The cast with what 0 stands for put in. */
struct sgd_cast sgd_cast_resolve(const struct sgd_cast *cast);

/* A resolved cast of `count` elements, which may stand at any address. The element must be known. */
void sgd_cast_run(const struct sgd_cast *cast, const uint8_t *in, size_t count, float *out);

#endif

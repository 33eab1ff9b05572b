/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - how far a word is from another. Thread: any; owns nothing.
 */
#ifndef MT_BASE_NEAR_H
#define MT_BASE_NEAR_H

#include <stddef.h>

enum { MT_NEAR_BYTES_MAX = 64 };

/* How many letters must be changed, added, left out, or swapped with the next one to make one word of the other: optimal string
 * alignment (Wagner and Fischer 1974, with transpositions of neighbours). Of longer words the first MT_NEAR_BYTES_MAX bytes. */
size_t mt_letters_apart(const char *a, const char *b);

#endif

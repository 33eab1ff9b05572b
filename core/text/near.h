/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h - how far a word is from another, and which of several may have been meant. Thread: any; owns nothing.
 */
#ifndef MT_BASE_NEAR_H
#define MT_BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

enum { MT_NEAR_BYTES_MAX = 64 };

/* How many letters must be changed, added, left out, or swapped with the next one to make one word of the other: optimal string
 * alignment (Wagner and Fischer 1974, with transpositions of neighbours). Of longer words the first MT_NEAR_BYTES_MAX bytes. */
size_t mt_letters_apart(const char *a, const char *b);

/* Which of several words may have been meant by one: the nearest, or one that begins so; in capitals or not. */
struct mt_near {
    const char *word, *best; /* best: NULL while none is near */
    size_t      apart;       /* of `best` */
};
void mt_near_look(struct mt_near *near, const char *candidate);

/* Whether a word is one of those; the list ends with NULL. False: `text` says which may have been meant, and which there are. */
bool mt_word_is_of(const char *word, const char *const *words, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * reserved.h - the words `reserved` of public structs, into which later releases grow (docs/design/abi.md).
 *
 * A word that is not 0 is an option of a later release, or memory that nobody has zeroed. Either way the call is refused: an
 * option that is silently ignored would do harm later. Thread: any.
 */
#ifndef MT_BASE_RESERVED_H
#define MT_BASE_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What to say; %s is the call, or what has the struct. */
#define MT_RESERVED_TEXT "%s: a word of `reserved` is not 0: it is an option that this release does not have, or was never zeroed"

static inline bool mt_words_are_used(const uint64_t *words, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= words[i];
    return all != 0;
}

/* Of a public struct, by a pointer to it. */
#define MT_RESERVED_IS_USED(o) mt_words_are_used((o)->reserved, sizeof(o)->reserved / sizeof(o)->reserved[0])

#endif

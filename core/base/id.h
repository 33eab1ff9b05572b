/* SPDX-License-Identifier: Apache-2.0
 *
 * id.h - ids: made by the process that causes something, never by the one that is asked. Frozen.
 *
 *   0               8                        14      16
 *   +---------------+------------------------+-------+
 *   | process (u64) | counter (u48)          | index |     index 0: the task, call or actor itself
 *   +---------------+------------------------+-------+     index 1..65535: its n-th return value, or a put
 *
 * `process` is a random number, drawn once by each process (never 0), so ids of two processes never meet and none
 * is ever reused. In memory the last eight bytes are one integer: counter << 16 | index.
 */
#ifndef MT_BASE_ID_H
#define MT_BASE_ID_H

#include "core/base/status.h"

#include <stdbool.h>

typedef struct mt_id {
    uint64_t process;
    uint64_t counter_index;
} mt_id;
static_assert(sizeof(mt_id) == 16, "frozen: 16 bytes on the wire");

enum { MT_ID_TEXT_SIZE = 40 }; /* "0123456789abcdef-0123456789ab-0001" and its end */

static inline mt_id mt_id_make(uint64_t process, uint64_t counter, uint16_t index)
{
    mt_id id = {process, counter << 16 | index};
    return id;
}
static inline uint64_t mt_id_counter(mt_id id)
{
    return id.counter_index >> 16;
}
static inline uint16_t mt_id_index(mt_id id)
{
    return (uint16_t)id.counter_index;
}
static inline mt_id mt_id_with_index(mt_id id, uint16_t index)
{
    return mt_id_make(id.process, mt_id_counter(id), index);
}
static inline bool mt_id_equal(mt_id a, mt_id b)
{
    return a.process == b.process && a.counter_index == b.counter_index;
}
static inline bool mt_id_is_zero(mt_id id)
{
    return id.process == 0;
}
static inline uint64_t mt_id_hash(mt_id id)
{
    uint64_t h = id.process ^ id.counter_index * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Writes the last `digits` hexadecimal digits of a number, leading zeros too, and an end mark into `out`, and returns it. */
char *mt_hex_text(uint64_t value, size_t digits, char *out);
/* Writes the hexadecimal form into `out` (MT_ID_TEXT_SIZE bytes) and returns it. */
char *mt_id_text(mt_id id, char *out);
/* Reads it back. EINVAL where the text is anything else; *out is written only on success. */
MT_MUST_USE mt_status mt_id_parse(const char *text, mt_id *out);

#endif

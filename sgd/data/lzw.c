/* SPDX-License-Identifier: Apache-2.0
 *
 * lzw.c - LZW as compress(1) packs it. Owns nothing between calls. Thread: any.
 *
 * An entry is not stored as a string: it is where in the output it stands, one byte longer than the entry that it
 * extends. Codes come in groups of eight; where their width changes, the rest of a group is padding.
 */
#include "sgd/data/lzw.h"

#include <stdbool.h>
#include <stdlib.h>

enum { BITS_MIN = 9, BITS_MAX = 16, CLEAR = 256, FIRST = 257, ENTRIES = 1 << BITS_MAX };

struct entry {
    uint32_t at, size; /* in the output */
};

struct unpacker {
    const uint8_t *in;
    size_t         bits_end, bit, group; /* in bits: end of the input; where we are; where this width began */
    unsigned       bits;                 /* of a code now */
    uint32_t       free;                 /* the next entry */
    struct entry   last;                 /* of the code before; size 0: there is none */
    struct entry  *table;
};

static uint32_t code_next(struct unpacker *u)
{
    uint32_t code = 0;
    for (unsigned i = 0; i < u->bits; i++, u->bit++)
        code |= (uint32_t)(u->in[u->bit / 8] >> u->bit % 8 & 1) << i;
    return code;
}

static void width_set(struct unpacker *u, unsigned bits)
{
    size_t group = 8 * (size_t)u->bits;
    u->bit = u->group += (u->bit - u->group + group - 1) / group * group;
    u->bits = bits;
}

/* Where a code's bytes stand; those of a single byte are `byte`. False for a code that can't be. */
static bool code_find(const struct unpacker *u, uint32_t code, const uint8_t *out, const uint8_t **out_bytes, uint32_t *out_size,
                      uint8_t *byte)
{
    if (code < CLEAR) {
        *byte = (uint8_t)code;
        *out_bytes = byte;
        *out_size = 1;
        return true;
    }
    if (code > u->free || (code == u->free && u->last.size == 0))
        return false;
    /* The entry being made: the one before, and its own first byte again, which is written just in time. */
    const struct entry *entry = &u->table[code];
    *out_bytes = out + (code == u->free ? u->last.at : entry->at);
    *out_size = code == u->free ? u->last.size + 1 : entry->size;
    return true;
}

static mt_status unpack(struct unpacker *u, uint8_t *out, size_t out_max, size_t *out_size)
{
    size_t n = 0;

    while (u->bit + u->bits <= u->bits_end && n < out_max) {
        const uint8_t *bytes;
        uint32_t       code = code_next(u), size;
        uint8_t        byte;
        if (code == CLEAR) {
            width_set(u, BITS_MIN);
            u->free = FIRST;
            u->last.size = 0;
            continue;
        }
        if (!code_find(u, code, out, &bytes, &size, &byte))
            return mt_error(MT_ECORRUPT, 0, "text: a code that can't be");
        struct entry now = {(uint32_t)n, size};
        for (uint32_t i = 0; i < size && n < out_max; i++)
            out[n++] = bytes[i]; /* one by one: they may overlap */
        if (u->last.size && u->free < ENTRIES)
            u->table[u->free++] = (struct entry){u->last.at, u->last.size + 1};
        if (u->free >= UINT32_C(1) << u->bits && u->bits < BITS_MAX)
            width_set(u, u->bits + 1);
        u->last = now;
    }
    *out_size = n;
    return mt_ok();
}

mt_status sgd_lzw_unpack(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_max, size_t *out_size)
{
    struct unpacker u = {.in = in, .bits_end = in_size * 8, .bits = BITS_MIN, .free = FIRST};
    u.table = malloc(ENTRIES * sizeof *u.table);
    if (!u.table)
        return mt_error(MT_ENOMEM, 0, "text");
    mt_status st = unpack(&u, out, out_max, out_size);
    free(u.table);
    return st;
}

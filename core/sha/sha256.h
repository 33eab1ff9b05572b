/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.h - SHA-256 (FIPS 180-4): the name of uploaded files and of programs. Any thread; allocates nothing, cannot fail.
 */
#ifndef MT_SHA_SHA256_H
#define MT_SHA_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { MT_SHA256_SIZE = 32, MT_SHA256_HEX_SIZE = 65 /* with its end */ };

typedef struct mt_sha256 {
    uint64_t words[14]; /* whose they are the linked half knows */
} mt_sha256;

void mt_sha256_init(mt_sha256 *sha);
void mt_sha256_add(mt_sha256 *sha, const void *data, size_t size);
/* Ends it; init it before it is used again. One that is given up needs no end. */
void mt_sha256_end(mt_sha256 *sha, uint8_t out[MT_SHA256_SIZE]);
/* Lower-case hexadecimal; returns `out`. */
char *mt_sha256_hex(const uint8_t sum[MT_SHA256_SIZE], char out[MT_SHA256_HEX_SIZE]);

#endif

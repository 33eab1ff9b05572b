/* SPDX-License-Identifier: Apache-2.0
 *
 * hex.c - a sum in letters. Any thread; owns nothing.
 */
#include "core/sha/sha256.h"

char *mt_sha256_hex(const uint8_t sum[MT_SHA256_SIZE], char out[MT_SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < MT_SHA256_SIZE; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[2 * MT_SHA256_SIZE] = '\0';
    return out;
}

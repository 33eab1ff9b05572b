/* SPDX-License-Identifier: Apache-2.0
 *
 * plain.c - SHA-256 as FIPS 180-4 writes it down, for what links libc only (libmanta). Any thread; owns nothing.
 */
#include "core/base/status.h"
#include "core/sha/sha256.h"

#include <string.h>

struct plain {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    uint8_t  block[64];
};
static_assert(sizeof(struct plain) <= sizeof(mt_sha256), "it fits into what callers set aside");

static struct plain *plain_of(mt_sha256 *sha)
{
    return (struct plain *)(void *)sha;
}

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
}

static void add_block(struct plain *sha, const uint8_t *block)
{
    uint32_t w[64], *s = sha->state;
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    schedule(block, w);
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
}

void mt_sha256_init(mt_sha256 *sha)
{
    struct plain         *p = plain_of(sha);
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(p->state, start, sizeof start);
    p->size = 0;
}

void mt_sha256_add(mt_sha256 *sha, const void *data, size_t size)
{
    struct plain  *p = plain_of(sha);
    const uint8_t *at = data;
    while (size > 0) {
        size_t have = p->size % 64, take = 64 - have < size ? 64 - have : size;
        p->size += take;
        if (have == 0 && take == 64) {
            add_block(p, at);
        } else {
            memcpy(p->block + have, at, take);
            if (have + take == 64)
                add_block(p, p->block);
        }
        at += take;
        size -= take;
    }
}

void mt_sha256_end(mt_sha256 *sha, uint8_t out[MT_SHA256_SIZE])
{
    static const uint8_t padding[64] = {0x80};
    struct plain        *p = plain_of(sha);
    uint64_t             bits = p->size * 8;
    uint8_t              tail[8];
    for (int i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    mt_sha256_add(sha, padding, 1 + (119 - p->size % 64) % 64);
    mt_sha256_add(sha, tail, sizeof tail);
    for (int i = 0; i < MT_SHA256_SIZE; i++)
        out[i] = (uint8_t)(p->state[i / 4] >> (24 - 8 * (i % 4)));
}

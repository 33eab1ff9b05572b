/* SPDX-License-Identifier: Apache-2.0
 *
 * openssl.c - SHA-256 by OpenSSL, which uses the CPU's own instructions for it. Any thread; owns nothing.
 *
 * By the calls on a struct of the caller's, which OpenSSL 3 calls old: the new ones (EVP_MD_CTX) allocate, so that beginning a
 * sum could fail, and each file that is given up half-way would have a sum to free.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "core/base/status.h"
#include "core/sha/sha256.h"

#include <openssl/sha.h>

static_assert(sizeof(SHA256_CTX) <= sizeof(mt_sha256), "it fits into what callers set aside");
static_assert(SHA256_DIGEST_LENGTH == MT_SHA256_SIZE, "the same sum");

void mt_sha256_init(mt_sha256 *sha)
{
    SHA256_Init((SHA256_CTX *)(void *)sha);
}

void mt_sha256_add(mt_sha256 *sha, const void *data, size_t size)
{
    SHA256_Update((SHA256_CTX *)(void *)sha, data, size);
}

void mt_sha256_end(mt_sha256 *sha, uint8_t out[MT_SHA256_SIZE])
{
    SHA256_Final(out, (SHA256_CTX *)(void *)sha);
}

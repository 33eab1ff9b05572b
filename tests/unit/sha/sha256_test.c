/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256_test.c - the standard's vectors, every length around a block, and any cutting into pieces.
 */
#include "tests/unit/base/test.h"

#include "core/base/rng.h"
#include "core/sha/sha256.h"

#include <string.h>

static void check(const char *text, size_t repeat, const char *expected)
{
    mt_sha256 sha;
    uint8_t   sum[MT_SHA256_SIZE];
    char      hex[MT_SHA256_HEX_SIZE];
    mt_sha256_init(&sha);
    for (size_t i = 0; i < repeat; i++)
        mt_sha256_add(&sha, text, strlen(text));
    mt_sha256_end(&sha, sum);
    assert_string_equal(mt_sha256_hex(sum, hex), expected);
}

static void vectors_of_the_standard(void **state)
{
    (void)state;
    check("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_make_no_difference(void **state)
{
    (void)state;
    uint8_t data[300], whole[MT_SHA256_SIZE], parts[MT_SHA256_SIZE];
    mt_rng  rng = {3};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)mt_rng_next(&rng);
    for (size_t size = 0; size < sizeof data; size++) {
        mt_sha256 sha;
        mt_sha256_init(&sha);
        mt_sha256_add(&sha, data, size);
        mt_sha256_end(&sha, whole);
        mt_sha256_init(&sha);
        for (size_t at = 0, take; at < size; at += take) {
            take = 1 + mt_rng_below(&rng, size - at);
            mt_sha256_add(&sha, data + at, take);
        }
        mt_sha256_end(&sha, parts);
        assert_memory_equal(whole, parts, sizeof whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_the_standard),
        cmocka_unit_test(pieces_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_test.c - protobuf messages to bytes and back, and what is refused.
 */
#include "tests/unit/rpc/echo.h"

#include "core/base/rng.h"
#include "core/rpc/codec.h"

#include "codec_test.pb-c.h"

static void packed_and_unpacked(void **state)
{
    Test__Sample      sample = TEST__SAMPLE__INIT;
    ProtobufCMessage *back;
    mt_buf            buf;
    (void)state;
    sample.name = "manta";
    sample.number = 42;
    assert_ok(rpc_pack(&sample.base, &buf));
    assert_ok(rpc_unpack(&test__sample__descriptor, mt_buf_view(&buf), MT_CONTROL_BYTES_MAX, &back));
    assert_string_equal(((Test__Sample *)back)->name, "manta");
    assert_int_equal(((Test__Sample *)back)->number, 42);
    rpc_unpack_free(back);
    assert_code(rpc_unpack(&test__sample__descriptor, mt_buf_view(&buf), buf.size - 1, &back), MT_EPROTO);
    for (size_t size = 1; size < buf.size; size++) { /* cut anywhere: refused, or what is whole of it */
        mt_status st = rpc_unpack(&test__sample__descriptor, mt_view_of(buf.data, size), 100, &back);
        assert_true(st.code == MT_OK || st.code == MT_EPROTO);
        if (!st.code)
            rpc_unpack_free(back);
    }
    mt_buf_fini(&buf);
}

static void empty_and_too_large(void **state)
{
    Test__Sample      sample = TEST__SAMPLE__INIT;
    ProtobufCMessage *back;
    mt_buf            buf;
    (void)state;
    assert_ok(rpc_pack(&sample.base, &buf));
    assert_int_equal(buf.size, 0);
    assert_ok(rpc_unpack(&test__sample__descriptor, mt_buf_view(&buf), 100, &back));
    rpc_unpack_free(back);
    rpc_unpack_free(NULL);
    mt_buf_fini(&buf);
    sample.name = malloc(MT_CONTROL_BYTES_MAX + 1);
    memset(sample.name, 'x', MT_CONTROL_BYTES_MAX);
    sample.name[MT_CONTROL_BYTES_MAX] = '\0';
    assert_code(rpc_pack(&sample.base, &buf), MT_EINVAL);
    free(sample.name);
}

static void garbage_is_refused_or_harmless(void **state)
{
    mt_rng            rng = {99};
    unsigned char     bytes[64];
    ProtobufCMessage *back;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t size = mt_rng_below(&rng, sizeof bytes);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (unsigned char)mt_rng_next(&rng);
        if (rpc_unpack(&test__sample__descriptor, mt_view_of(bytes, size), 64, &back).code == MT_OK)
            rpc_unpack_free(back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_and_unpacked),
        cmocka_unit_test(empty_and_too_large),
        cmocka_unit_test(garbage_is_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

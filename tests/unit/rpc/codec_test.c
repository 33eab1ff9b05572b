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

/* As one: the first is what it was, the others stand behind it as they are, in order, however long. */
static void several_as_one(void **state)
{
    static const size_t sizes[] = {5, 0x7f, 0x80, 20000};
    Test__Sample        sample = TEST__SAMPLE__INIT;
    mt_buf              one, all = {0};
    char               *name = calloc(1, 30000);
    ProtobufCMessage   *back, *inner;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        memset(name, 'x', sizes[i]);
        sample.name = name;
        sample.number = (uint32_t)i + 1;
        assert_ok(rpc_pack(&sample.base, &one));
        assert_ok(rpc_bundle_add(&all, mt_buf_view(&one)));
        mt_buf_fini(&one);
    }
    assert_ok(rpc_unpack(&test__sample__descriptor, mt_buf_view(&all), MT_CONTROL_BYTES_MAX, &back));
    const Test__Sample *first = (const Test__Sample *)back;
    assert_int_equal(first->number, 1);
    assert_int_equal(strlen(first->name), 5);
    assert_int_equal(first->n_more, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(rpc_unpack(&test__sample__descriptor, mt_view_of(first->more[i].data, first->more[i].len), MT_CONTROL_BYTES_MAX,
                             &inner));
        assert_int_equal(((Test__Sample *)inner)->number, i + 2);
        assert_int_equal(strlen(((Test__Sample *)inner)->name), sizes[i + 1]);
        assert_int_equal(((Test__Sample *)inner)->n_more, 0);
        rpc_unpack_free(inner);
    }
    rpc_unpack_free(back);
    mt_buf_fini(&all);
    free(name);
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
        cmocka_unit_test(several_as_one),
        cmocka_unit_test(garbage_is_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * buf_test.c - growing bytes, and readers and writers that never pass their bounds.
 */
#include "tests/unit/base/test.h"

#include "core/base/buf.h"

#include <stdint.h>

static void a_buffer_grows_and_moves(void **state)
{
    (void)state;
    mt_buf buf = {0};
    for (int i = 0; i < 1000; i++)
        assert_ok(mt_buf_append(&buf, "abcde", 5));
    assert_int_equal(buf.size, 5000);
    assert_memory_equal(buf.data + 4995, "abcde", 5);
    mt_buf moved = mt_buf_move(&buf);
    assert_int_equal(buf.size, 0);
    assert_null(buf.data);
    mt_buf_fini(&moved);
    mt_buf_fini(&buf);
}

static void a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    mt_buf buf = {0};
    assert_ok(mt_buf_append(&buf, "x", 1));
    assert_code(mt_buf_reserve(&buf, SIZE_MAX), MT_ENOMEM);
    assert_int_equal(buf.size, 1);
    assert_memory_equal(buf.data, "x", 1);
    mt_buf_fini(&buf);
}

static void formatted_text_is_appended(void **state)
{
    (void)state;
    mt_buf buf = {0};
    for (int i = 0; i < 100; i++)
        assert_ok(mt_buf_printf(&buf, "%d,", i));
    assert_ok(mt_buf_terminate(&buf));
    assert_int_equal(buf.size, 290);
    assert_memory_equal(buf.data, "0,1,2,3,", 8);
    assert_string_equal((char *)buf.data + 284, "98,99,");
    mt_buf_fini(&buf);
}

static void write_all_kinds(mt_writer *writer)
{
    mt_writer_u8(writer, 0x11);
    mt_writer_u32(writer, 0x44556677);
    mt_writer_u64(writer, 0x8899aabbccddeeffu);
    mt_writer_blob(writer, mt_view_text("hello"));
}

static void read_all_kinds(mt_view view)
{
    mt_reader reader = mt_reader_of(view);
    assert_int_equal(mt_reader_u8(&reader), 0x11);
    assert_int_equal(mt_reader_u32(&reader), 0x44556677);
    assert_true(mt_reader_u64(&reader) == 0x8899aabbccddeeffu);
    assert_true(mt_view_equal(mt_reader_blob(&reader, 16), mt_view_text("hello")));
    assert_ok(mt_reader_end(&reader));
}

static void fields_survive_the_round_trip(void **state)
{
    (void)state;
    mt_buf    buf = {0};
    mt_writer writer = mt_writer_to_buf(&buf, 1000);
    write_all_kinds(&writer);
    assert_ok(writer.status);
    assert_int_equal(mt_writer_size(&writer), 1 + 4 + 8 + 4 + 5);
    assert_memory_equal(buf.data, "\x11\x77\x66\x55\x44", 5);
    read_all_kinds(mt_buf_view(&buf));
    mt_buf_fini(&buf);
}

static void every_truncation_is_noticed(void **state)
{
    (void)state;
    mt_buf    buf = {0};
    mt_writer writer = mt_writer_to_buf(&buf, 1000);
    write_all_kinds(&writer);
    for (size_t size = 0; size < buf.size; size++) {
        mt_reader reader = mt_reader_of(mt_view_of(buf.data, size));
        mt_reader_bytes(&reader, 5);
        mt_reader_u64(&reader);
        mt_reader_blob(&reader, 16);
        assert_code(mt_reader_status(&reader), MT_EPROTO);
        assert_int_equal(mt_reader_u64(&reader), 0);
    }
    mt_buf_fini(&buf);
}

static void a_reader_refuses_long_blobs_and_left_overs(void **state)
{
    (void)state;
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 1};
    mt_reader            reader = mt_reader_of(mt_view_of(huge, sizeof huge));
    assert_null(mt_reader_blob(&reader, SIZE_MAX).data);
    assert_code(mt_reader_status(&reader), MT_EPROTO);

    static const uint8_t five[] = {5, 0, 0, 0, 1, 2, 3, 4, 5};
    reader = mt_reader_of(mt_view_of(five, sizeof five));
    mt_reader_blob(&reader, 4);
    assert_code(mt_reader_status(&reader), MT_EPROTO);
    reader = mt_reader_of(mt_view_of(five, sizeof five));
    mt_reader_u32(&reader);
    assert_ok(mt_reader_status(&reader));
    assert_code(mt_reader_end(&reader), MT_EPROTO);
}

static void a_writer_stops_at_its_limit(void **state)
{
    (void)state;
    mt_buf    buf = {0};
    mt_writer writer = mt_writer_to_buf(&buf, 6);
    mt_writer_u32(&writer, 1);
    mt_writer_u32(&writer, 2);
    assert_code(writer.status, MT_EINVAL);
    mt_writer_u8(&writer, 3);
    assert_int_equal(mt_writer_size(&writer), 4);
    assert_memory_equal(buf.data, "\1\0\0\0", 4);

    buf.size = 0;
    assert_ok(mt_buf_append(&buf, "abc", 3));
    writer = mt_writer_to_buf(&buf, 4);
    mt_writer_u8(&writer, 1);
    assert_ok(writer.status);
    mt_writer_u8(&writer, 1);
    assert_code(writer.status, MT_EINVAL);
    assert_int_equal(buf.size, 4);
    mt_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_grows_and_moves),    cmocka_unit_test(a_size_that_overflows_is_refused),
        cmocka_unit_test(formatted_text_is_appended),  cmocka_unit_test(fields_survive_the_round_trip),
        cmocka_unit_test(every_truncation_is_noticed), cmocka_unit_test(a_reader_refuses_long_blobs_and_left_overs),
        cmocka_unit_test(a_writer_stops_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

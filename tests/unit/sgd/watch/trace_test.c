/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_test.c - spans come in order, with those that a death leaves open; and the text of a trace is JSON whatever is in it.
 */
#include "core/text/json.h"
#include "core/text/trace.h"
#include "sgd/ground/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3, DEVICES = 3, TRACKS = SGD_TRACK_DEVICE + DEVICES - 1 };

static struct sgd_trace_row *rows_new(void **memory)
{
    const struct sgd_trace_plan plan = {ROWS, TRACKS};
    size_t                      size = 4096 + sgd_trace_size(plan);
    *memory = aligned_alloc(64, size);
    assert_non_null(*memory);
    memset(*memory, 0, size);
    assert_null(sgd_trace_row_of(*memory, size, plan, ROWS));
    assert_null(sgd_trace_row_of(*memory, size, (struct sgd_trace_plan){0, TRACKS}, 0));
    return sgd_trace_row_of(*memory, size, plan, 1);
}

static void spans_come_in_order(void **state)
{
    void                   *memory;
    struct sgd_trace_row   *row = rows_new(&memory);
    struct sgd_trace_cursor cursor = {.pid = 0};
    struct sgd_span         span;
    enum sgd_trace_track    track;
    (void)state;
    assert_false(sgd_trace_next(row, TRACKS, &cursor, &span, &track)); /* nobody is there */
    sgd_trace_attach(row, TRACKS, 7);
    sgd_trace_rank(row, 2);
    sgd_trace_open(row, SGD_TRACK_MAIN, SGD_SPAN_STEP, 41);
    sgd_trace_open(row, SGD_TRACK_MAIN, SGD_SPAN_COMPUTE, 3);
    sgd_trace_close(row, SGD_TRACK_MAIN);
    sgd_trace_open(row, SGD_TRACK_SUMS, SGD_SPAN_BUCKET, 100);
    assert_true(sgd_trace_next(row, TRACKS, &cursor, &span, &track));
    assert_true(track == SGD_TRACK_MAIN && span.kind == SGD_SPAN_COMPUTE && span.rank == 2 && span.number == 3);
    assert_true(span.begin_ns > 0 && span.end_ns >= span.begin_ns);
    assert_false(sgd_trace_next(row, TRACKS, &cursor, &span, &track));
    assert_true(sgd_trace_left_open(row, SGD_TRACK_MAIN, 0, &span));
    assert_true(span.kind == SGD_SPAN_STEP && span.number == 41);
    assert_false(sgd_trace_left_open(row, SGD_TRACK_MAIN, 1, &span));
    assert_true(sgd_trace_left_open(row, SGD_TRACK_SUMS, 0, &span));
    sgd_trace_unwind(row, SGD_TRACK_MAIN);
    assert_true(sgd_trace_next(row, TRACKS, &cursor, &span, &track) && span.kind == SGD_SPAN_STEP);
    sgd_trace_attach(row, TRACKS, 8); /* another process takes the place */
    assert_false(sgd_trace_next(row, TRACKS, &cursor, &span, &track));
    assert_false(sgd_trace_left_open(row, SGD_TRACK_SUMS, 0, &span));
    sgd_trace_put_whole(row, SGD_TRACK_SAVER, SGD_SPAN_SAVE, 5);
    assert_true(sgd_trace_next(row, TRACKS, &cursor, &span, &track) && track == SGD_TRACK_SAVER && span.begin_ns == 5);
    assert_true(sgd_trace_device(row, 0, &track) && track == SGD_TRACK_MAIN);
    assert_false(sgd_trace_device(row, DEVICES, &track) || sgd_trace_device(NULL, 0, &track));
    assert_true(sgd_trace_device(row, DEVICES - 1, &track) && track == TRACKS - 1);
    sgd_trace_put_whole(row, track, SGD_SPAN_COMPUTE, 6);
    assert_true(sgd_trace_next(row, TRACKS, &cursor, &span, &track) && track == TRACKS - 1 && span.begin_ns == 6);
    free(memory);
}

static void late_reader_gets_the_newest(void **state)
{
    void                   *memory;
    struct sgd_trace_row   *row = rows_new(&memory);
    struct sgd_trace_cursor cursor = {.pid = 0};
    struct sgd_span         span;
    enum sgd_trace_track    track;
    uint64_t                count = 0, last = 0;
    (void)state;
    sgd_trace_attach(row, TRACKS, 7);
    for (uint64_t i = 1; i <= 5 * SGD_TRACE_SPANS; i++) {
        sgd_trace_open(row, SGD_TRACK_MAIN, SGD_SPAN_STEP, i);
        sgd_trace_close(row, SGD_TRACK_MAIN);
    }
    for (; sgd_trace_next(row, TRACKS, &cursor, &span, &track); count++, last = span.number)
        assert_true(last == 0 || span.number == last + 1);
    assert_int_equal(last, 5 * SGD_TRACE_SPANS);
    assert_int_equal(count + cursor.lost, 5 * SGD_TRACE_SPANS);
    assert_true(count >= SGD_TRACE_SPANS / 2);
    sgd_trace_open(NULL, SGD_TRACK_MAIN, SGD_SPAN_STEP, 1); /* off */
    sgd_trace_close(NULL, SGD_TRACK_MAIN);
    sgd_trace_unwind(NULL, SGD_TRACK_MAIN);
    free(memory);
}

static void text_is_json(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"tab\tline\n\x01", "\"tab\\u0009line\\u000a\\u0001\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff \xc3", "\"? ?\""},
        {"\xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80", "\"?? ??? ????\""}, /* too long, a surrogate, too large */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_buf out = {0};
        assert_int_equal(mt_json_put_text(&out, cases[i].text).code, MT_OK);
        assert_int_equal(mt_buf_terminate(&out).code, MT_OK);
        assert_string_equal((const char *)out.data, cases[i].wanted);
        mt_buf_fini(&out);
    }
}

static void trace_has_commas_between(void **state)
{
    struct mt_trace       t = {.has_events = false};
    struct mt_trace_arg   args[] = {{"why", "so", 0}, {"n", NULL, -3}};
    struct mt_trace_slice slice = {
        .category = "c", .name = "n", .begin_us = 1.5, .length_us = 0.25, .set = 1, .track = 2, .args = args, .args_count = 2};
    (void)state;
    assert_int_equal(mt_trace_begin(&t, "\"x\": 1, ").code, MT_OK);
    assert_int_equal(mt_trace_name_track(&t, 1, 2, "row").code, MT_OK);
    assert_int_equal(mt_trace_slice(&t, &slice).code, MT_OK);
    assert_int_equal(mt_buf_append(&t.out, MT_TRACE_END, sizeof MT_TRACE_END).code, MT_OK);
    assert_string_equal((const char *)t.out.data,
                        "{\"displayTimeUnit\": \"ns\", \"x\": 1, \"traceEvents\": [\n"
                        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"row\"}},\n"
                        "{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"n\",\"ts\":1.500,\"dur\":0.250,\"pid\":1,\"tid\":2,"
                        "\"args\":{\"why\":\"so\",\"n\":-3}}\n]}\n");
    mt_buf_fini(&t.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_come_in_order),
        cmocka_unit_test(late_reader_gets_the_newest),
        cmocka_unit_test(text_is_json),
        cmocka_unit_test(trace_has_commas_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

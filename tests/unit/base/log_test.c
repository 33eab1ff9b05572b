/* SPDX-License-Identifier: Apache-2.0
 *
 * log_test.c - log lines and metrics: what is written, what is not, what a hostile text can do.
 */
#include "tests/unit/base/test.h"

#include "core/base/limits/text.h"
#include "core/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char last_line[MT_LOG_LINE_BYTES];
static int  lines;

static void keep_line(enum mt_log_level level, const char *line, size_t size)
{
    (void)level;
    assert_int_equal(strlen(line), size);
    memcpy(last_line, line, size + 1);
    lines++;
}

static int log_start(void **state)
{
    (void)state;
    lines = 0;
    mt_log_set_level(MT_LOG_INFO);
    mt_log_set_sink(keep_line);
    return 0;
}

static int log_stop(void **state)
{
    (void)state;
    mt_log_set_sink(NULL);
    return 0;
}

static void a_line_has_level_event_and_pairs(void **state)
{
    (void)state;
    mt_log(MT_LOG_WARN, "worker_died", "pid=%d signal=%d", 12, 9);
    assert_string_equal(last_line, "warn worker_died pid=12 signal=9");
    mt_log(MT_LOG_INFO, "started", "");
    assert_string_equal(last_line, "info started");
    mt_log_status(MT_LOG_ERROR, "store_open", mt_error(MT_ESYS, 2, "open file"));
    assert_string_equal(last_line, "error store_open code=ESYS sys=2 what=\"open file\"");
}

static void lines_above_the_level_are_dropped(void **state)
{
    (void)state;
    mt_log(MT_LOG_DEBUG, "detail", "");
    assert_int_equal(lines, 0);
    assert_false(mt_log_wants(MT_LOG_DEBUG));
    mt_log_set_level(MT_LOG_DEBUG);
    mt_log(MT_LOG_DEBUG, "detail", "");
    assert_int_equal(lines, 1);
}

static void without_a_sink_nothing_is_wanted(void **state)
{
    (void)state;
    mt_log_set_sink(NULL);
    assert_false(mt_log_wants(MT_LOG_ERROR));
    mt_log(MT_LOG_ERROR, "unheard", "");
    assert_int_equal(lines, 0);
}

static void a_hostile_text_stays_in_its_line(void **state)
{
    (void)state;
    mt_log(MT_LOG_INFO, "greeting", "name=%s", "a\nerror forged\x1b[2J\x7f");
    assert_string_equal(last_line, "info greeting name=a?error forged?[2J?");
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    char longer[3 * MT_LOG_LINE_BYTES];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    mt_log(MT_LOG_INFO, "long", "text=%s", longer);
    assert_int_equal(strlen(last_line), MT_LOG_LINE_BYTES - 1);
    assert_string_equal(last_line + MT_LOG_LINE_BYTES - 5, "x...");
    mt_log(MT_LOG_INFO, longer, "");
    assert_int_equal(strlen(last_line), MT_LOG_LINE_BYTES - 1);
}

static void the_stderr_sink_writes_one_stamped_line(void **state)
{
    (void)state;
    int  ends[2], saved = dup(STDERR_FILENO);
    char text[128] = {0};
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    mt_log_to_stderr(MT_LOG_INFO, "info hello", 10);
    dup2(saved, STDERR_FILENO);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    close(ends[0]), close(ends[1]), close(saved);
    assert_int_equal(size, strlen("2025-01-01T00:00:00.000Z info hello\n"));
    assert_string_equal(text + 23, "Z info hello\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_has_level_event_and_pairs, log_start, log_stop),
        cmocka_unit_test_setup_teardown(lines_above_the_level_are_dropped, log_start, log_stop),
        cmocka_unit_test_setup_teardown(without_a_sink_nothing_is_wanted, log_start, log_stop),
        cmocka_unit_test_setup_teardown(a_hostile_text_stays_in_its_line, log_start, log_stop),
        cmocka_unit_test_setup_teardown(a_long_line_is_cut, log_start, log_stop),
        cmocka_unit_test(the_stderr_sink_writes_one_stamped_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

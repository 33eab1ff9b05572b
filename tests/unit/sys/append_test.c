/* SPDX-License-Identifier: Apache-2.0
 *
 * append_test.c - a log waits for room in order, takes back what is torn, and has a bound.
 */
#include "core/sys/append.h"
#include "core/sys/file.h"
#include "core/base/limits/lib.h"
#include "tests/unit/base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void what_finds_no_room_is_written_later_in_order(void **state)
{
    char             path[] = "/tmp/manta-append-XXXXXX", text[64];
    int              file = mkstemp(path), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct mt_append a = {.fd = file};
    (void)state;
    assert_int_equal(mt_append(&a, "one\n", 4), 0);
    a.fd = full;
    assert_int_equal(mt_append(&a, "two\n", 4), EAGAIN);
    assert_int_equal(mt_append(&a, "three\n", 6), EAGAIN);
    assert_int_equal(a.waiting.size, 10);
    a.fd = file;
    assert_int_equal(mt_append(&a, NULL, 0), 0);
    assert_int_equal(mt_append(&a, "four\n", 5), 0);
    assert_int_equal(a.end, 19);
    assert_int_equal(mt_file_read(path, text, sizeof text), 19);
    assert_string_equal(text, "one\ntwo\nthree\nfour\n");
    mt_buf_fini(&a.waiting);
    close(full);
    close(file);
    unlink(path);
}

static void what_waits_has_a_bound(void **state)
{
    static uint8_t   piece[MT_APPEND_WAIT_BYTES / 2];
    struct mt_append a = {.fd = open("/dev/full", O_WRONLY | O_CLOEXEC)};
    (void)state;
    assert_int_equal(mt_append(&a, piece, sizeof piece), EAGAIN);
    assert_int_equal(mt_append(&a, piece, sizeof piece), EAGAIN);
    assert_int_equal(mt_append(&a, piece, 1), ENOSPC);
    mt_buf_fini(&a.waiting);
    close(a.fd);
}

static void another_failure_is_told(void **state)
{
    struct mt_append a = {.fd = open("/dev/null", O_RDONLY | O_CLOEXEC)};
    (void)state;
    assert_int_equal(mt_append(&a, "x", 1), EBADF);
    mt_buf_fini(&a.waiting);
    close(a.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_finds_no_room_is_written_later_in_order),
        cmocka_unit_test(what_waits_has_a_bound),
        cmocka_unit_test(another_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * ends_test.c - what slots note of ends: it comes back whole, and of a file that is cut off or damaged what stands before that.
 */
#include "sweep/trial/ends.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ATTEMPTS = 3, REPORTS = 1200 };

static char folder[64], path[96];

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/manta-ends-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/ends", folder);
    if (mkdir(path, 0755) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/ends/one", folder);
    return 0;
}

static int folder_remove(void **state)
{
    char ends[96];
    (void)state;
    snprintf(ends, sizeof ends, "%s/ends", folder);
    unlink(path);
    return rmdir(ends) + rmdir(folder);
}

/* The first attempt has many reports, two of a kind; the second one fails; the third was told to stop. */
static void notes_write(void)
{
    struct swp_ends ends;
    swp_ends_make(path);
    swp_ends_open(&ends, path);
    assert_true(ends.fd >= 0 && ends.tail);
    for (uint32_t k = 0; k < ATTEMPTS; k++) {
        for (int i = 0; i < (k ? 2 : REPORTS); i++) {
            double          value = i + 0.5;
            struct swp_wire m = {.kind = SWP_WIRE_REPORT, .trial = 7 + k, .run = k + 1, .step = i / 2};
            memcpy(&m.number, &value, sizeof value);
            m.text = mt_view_text(i % 2 ? "accuracy" : "");
            swp_ends_note(&ends, &m);
        }
        struct swp_wire end = {.kind = SWP_WIRE_FINISHED,
                               .trial = 7 + k,
                               .run = k + 1,
                               .ready_seq = 100 + k,
                               .step = 12,
                               .number = k == 1 ? MT_ETASK : 0,
                               .flags = k == 2 ? SWP_FINISHED_STOPPED : 0,
                               .text = mt_view_text(k == 1 ? "no luck" : "")};
        swp_ends_note(&ends, &end);
    }
    swp_ends_close(&ends);
}

static mt_status take(void *user, const struct swp_left *left)
{
    int *count = user, k = *count;
    assert_int_equal(left->trial, 7 + k);
    assert_int_equal(left->run, k + 1);
    assert_int_equal(left->ready_seq, 100 + k);
    assert_int_equal(left->took_ms, 12);
    assert_int_equal(left->code, k == 1 ? MT_ETASK : 0);
    assert_int_equal(left->is_stopped, k == 2);
    assert_string_equal(left->why, k == 1 ? "no luck" : "");
    assert_int_equal(left->report_count, k ? 2 : REPORTS);
    for (size_t i = 0; i < left->report_count; i++) {
        assert_true(left->reports[i].step == (int64_t)i / 2 && left->reports[i].value == (double)i + 0.5);
        assert_true(i % 2 ? strcmp(left->reports[i].metric, "accuracy") == 0 : left->reports[i].metric == NULL);
    }
    ++*count;
    return mt_ok();
}

static int notes_read(void)
{
    int one = 0, all = 0;
    assert_int_equal(swp_ends_read(path, -1, take, &one).code, 0);
    assert_int_equal(swp_ends_read_all(folder, take, &all).code, 0);
    assert_int_equal(one, all);
    return one;
}

static void comes_back(void **state)
{
    char tail[64];
    (void)state;
    notes_write();
    assert_int_equal(notes_read(), ATTEMPTS);
    swp_ends_tail(path, tail, sizeof tail);
    assert_string_equal(tail, "");
    swp_ends_clear(folder);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(notes_read(), 0);
}

static void cut_off(void **state)
{
    struct stat info;
    int         before = ATTEMPTS;
    (void)state;
    notes_write();
    assert_int_equal(stat(path, &info), 0);
    for (off_t size = info.st_size - 1; size >= 0; size -= size > info.st_size - 700 ? 1 : 1999) {
        assert_int_equal(truncate(path, size), 0);
        int count = notes_read();
        assert_true(count <= before && count < ATTEMPTS);
        before = count;
    }
    assert_int_equal(before, 0);
}

static void damaged(void **state)
{
    struct stat info;
    (void)state;
    notes_write();
    assert_int_equal(stat(path, &info), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (off_t at = (off_t)sizeof(struct mt_tail); at < info.st_size; at += at < info.st_size - 700 ? 997 : 1) {
        uint8_t byte, wrong;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        wrong = byte ^ 0x41;
        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        assert_true(notes_read() < ATTEMPTS);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    assert_int_equal(notes_read(), ATTEMPTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(cut_off, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(damaged, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * board_test.c - notes come in order, whole, and a late reader gets the newest ones.
 */
#include "sgd/watch/board.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int board_new(void **state)
{
    *state = mmap(NULL, SGD_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *state == MAP_FAILED ? -1 : 0;
}

static int board_end(void **state)
{
    return munmap(*state, SGD_BOARD_SIZE);
}

static void post(struct sgd_board *board, uint64_t step)
{
    struct sgd_note note = {.kind = SGD_NOTE_SKIPPED, .step = step};
    memset(note.skipped.which, 'a' + (int)(step % 26), sizeof note.skipped.which); /* without an end: the reader's business */
    sgd_board_post(board, &note);
}

static void expect_whole(const struct sgd_note *note)
{
    assert_int_equal(note->kind, SGD_NOTE_SKIPPED);
    assert_int_equal(strlen(note->skipped.which), SGD_NOTE_TEXT - 1);
    for (size_t i = 0; i < SGD_NOTE_TEXT - 1; i++)
        assert_int_equal(note->skipped.which[i], 'a' + (int)(note->step % 26));
}

static void notes_come_in_order(void **state)
{
    struct sgd_board *board = sgd_board_of(*state);
    struct sgd_note   note;
    uint64_t          cursor = 0;
    assert_false(sgd_board_next(board, &cursor, &note));
    for (uint64_t step = 1; step <= 500; step++) {
        post(board, step);
        post(board, step + 1000);
        assert_true(sgd_board_next(board, &cursor, &note));
        assert_int_equal(note.step, step);
        expect_whole(&note);
        assert_true(note.time_ns > 0 && note.time_ns <= mt_now_ns());
        assert_true(sgd_board_next(board, &cursor, &note));
        assert_int_equal(note.step, step + 1000);
        assert_false(sgd_board_next(board, &cursor, &note));
    }
}

static void a_late_reader_gets_the_newest(void **state)
{
    struct sgd_board *board = sgd_board_of(*state);
    struct sgd_note   note;
    uint64_t          cursor = 0, count = 0, last = 0;
    for (uint64_t step = 1; step <= 10000; step++)
        post(board, step);
    while (sgd_board_next(board, &cursor, &note)) {
        assert_true(last == 0 || note.step == last + 1);
        last = note.step;
        expect_whole(&note);
        count++;
    }
    assert_int_equal(last, 10000);
    assert_true(count >= 100);
}

/* The writer never waits for the reader, nor the reader for the writer. */
static void notes_are_whole_while_another_process_writes(void **state)
{
    enum { STEPS = 200000 };
    struct sgd_board *board = sgd_board_of(*state);
    struct sgd_note   note;
    uint64_t          cursor = 0, last = 0;
    pid_t             child = fork();
    if (child == 0) {
        for (uint64_t step = 1; step <= STEPS; step++)
            post(board, step);
        _exit(0);
    }
    assert_true(child > 0);
    while (last < STEPS) {
        if (!sgd_board_next(board, &cursor, &note))
            continue;
        assert_true(note.step > last);
        last = note.step;
        expect_whole(&note);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_worker_says_who_it_is_and_whether_it_fetches(void **state)
{
    struct sgd_board *board = sgd_board_of(*state);
    bool              fetches = true;
    assert_int_equal(sgd_board_started(board, 3, &fetches), 0);
    assert_false(fetches);
    sgd_board_start(board, 3, 77, true);
    assert_int_equal(sgd_board_started(board, 3, &fetches), 77);
    assert_true(fetches);
    sgd_board_start(board, 3, 77, false);
    assert_int_equal(sgd_board_started(board, 3, &fetches), 77);
    assert_false(fetches);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, board_new, board_end)
    const struct CMUnitTest tests[] = {
        TEST(notes_come_in_order),
        TEST(a_worker_says_who_it_is_and_whether_it_fetches),
        TEST(a_late_reader_gets_the_newest),
        TEST(notes_are_whole_while_another_process_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

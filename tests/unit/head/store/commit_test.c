/* SPDX-License-Identifier: Apache-2.0
 *
 * commit_test.c - one commit is under way at a time: each breach of that is named before anything follows from it.
 *
 * store.c is included: a copy of it whose commits can be made by hand.
 */
#include "scheduler/head/shell/store.c"

#include "tests/unit/base/says.h"

#include <stdarg.h>
#include <cmocka.h>

static void one_commit_is_under_way(void **state)
{
    static const char done[] = "sh->commit == c && !c->is_waiting";
    struct shell     *sh = calloc(1, sizeof *sh);
    struct commit     mine = {.sh = sh}, other = {.sh = sh};
    (void)state;
    assert_string_equal(SAYS(commit_done(&mine.job)), done); /* none was begun */
    sh->commit = &other;
    assert_string_equal(SAYS(commit_done(&mine.job)), done); /* two were */
    sh->commit = &mine;
    mine.is_waiting = true;
    assert_string_equal(SAYS(commit_done(&mine.job)), done); /* it was to be tried again later */
    mine.is_waiting = false;
    assert_string_equal(SAYS(commit_submit(sh)), "sh->commit->is_waiting"); /* it is under way already */
    sh->commit = NULL;
    free(sh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_commit_is_under_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * commit_test.c - one commit is under way at a time: each breach of that is named before anything follows from it. One look, too:
 * a disk that answers late is not asked again meanwhile.
 *
 * store.c is included: a copy of it whose commits can be made by hand.
 */
#include "scheduler/head/shell/store.c"

#include "tests/unit/base/says.h"
#include "tests/unit/raylet/folder.h"

#include <semaphore.h>
#include <stdarg.h>
#include <unistd.h>
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

static const struct head_store_ops *real;
static sem_t                        may_look;
static int                          looks;

static mt_status slow_look(struct head_store *store, struct head_store_room *out)
{
    if (looks++ > 0) /* the commit's own look is the first */
        sem_wait(&may_look);
    return real->look(store, out);
}

/* The store's thread gets no CPU: its look is not done when the next one is due, which a commit's end has made so. */
static void one_look_is_under_way(void **state)
{
    char                  dir[] = "/tmp/commit_test.XXXXXX", text[HEAD_STORE_TEXT_SIZE];
    struct shell         *sh = calloc(1, sizeof *sh);
    struct head_action    batch = {0};
    struct head_store_ops ops;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(io_loop_new(&sh->loop).code, 0);
    assert_int_equal(io_worker_new(sh->loop, MT_HEAD_COMMITS_MAX, &sh->store_worker).code, 0);
    assert_int_equal(head_store_sqlite_open(dir, "test", false, false, text, &sh->store).code, 0);
    assert_int_equal(sem_init(&may_look, 0, 0), 0);
    real = sh->store->ops;
    ops = *real;
    ops.look = slow_look;
    sh->store->ops = &ops;
    sh->room_timer.fire = room_due;

    head_shell_store_batch(sh, &batch);
    room_due(&sh->room_timer); /* behind the commit */
    while (sh->commit) {
        io_loop_drain(sh->loop);
        usleep(1000);
    }
    assert_true(sh->is_looking);
    assert_true(io_timer_is_started(&sh->room_timer));
    room_due(&sh->room_timer);
    assert_true(sh->is_looking);
    assert_int_equal(sem_post(&may_look), 0);
    head_shell_store_finish(sh); /* takes the look's end in */
    assert_false(sh->is_looking);
    assert_int_equal(looks, 2);

    head_shell_store_close(sh);
    io_timer_stop(&sh->room_timer);
    io_loop_free(sh->loop);
    free(sh);
    assert_true(folder_remove(dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_commit_is_under_way), cmocka_unit_test(one_look_is_under_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

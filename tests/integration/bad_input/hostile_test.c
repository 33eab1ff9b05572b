/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile_test.c - tasks that harm their own process: the driver gets a typed error or a value, never a hang, and the rest
 * goes on. What they leave running goes with them.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const manta_task_opts once = {.max_retries = MANTA_NO_RETRY};

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

/* The engine still works, on both CPUs. */
static void still_fine(void)
{
    for (int i = 0; i < 50; i++)
        CHECK_I64(add_remote(NULL, i, 1), i + 1);
}

/* A value, or the typed error of a worker that died; which of the two is the race's. */
static int value_or_death(manta_ref *ref, manta_error *e)
{
    int64_t      x;
    manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &x, e);
    if (code != MANTA_OK && code != MANTA_EWORKER_DIED)
        test_fail(__FILE__, __LINE__, "code %d: %s", code, e->message);
    manta_free(ref);
    return code;
}

/* ---- fork bomb: a tree of processes that never end ---- */
enum { BOMB_DEEP = 6 };

static void bomb(struct test_board *board, int deep)
{
    for (int i = 0; i < 2 && deep; i++) {
        if (fork() == 0) {
            atomic_fetch_add(&board->words[0], 1);
            bomb(board, deep - 1);
            for (;;)
                pause();
        }
    }
}
MANTA_TASK(int64_t, fork_bomb, (uint64_t, number), (int64_t, how))
{
    struct test_board *board = test_board_map(number);
    bomb(board, BOMB_DEEP);
    test_board_wait(&board->words[0], (2 << BOMB_DEEP) - 2);
    atomic_store(&board->words[1], getpid());
    if (how == 1)
        raise(SIGKILL);
    if (how == 2 && fork() == 0) { /* and one that has left the group */
        setsid();
        for (;;)
            pause();
    }
    return getpid();
}

/* Waits until no process of that group lives. */
static void group_gone(int pid)
{
    CHECK_SOON(kill(-pid, 0) != 0);
}

static void fork_bombs(void)
{
    manta_error        e;
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    CHECK_FAILS(fork_bomb_remote(&once, number, 1), MANTA_EWORKER_DIED, &e);
    group_gone((int)board->words[1]); /* all 126 of them */
    still_fine();
    board->words[0] = 0;
    CHECK_EQ(value_or_death(fork_bomb_remote(&once, number, 2), &e), MANTA_OK);
    still_fine(); /* that worker lives, and so do its children; the harness sees whether any outlives the cluster */
}

/* ---- descriptors ---- */
MANTA_TASK(int64_t, close_all, (int64_t, from))
{
    for (int fd = (int)from; fd < 1024; fd++)
        close(fd);
    return from;
}

static void closed_descriptors(void)
{
    manta_error e;
    for (int i = 0; i < 10; i++) {
        value_or_death(close_all_remote(&once, i % 2 ? 3 : 0), &e);
        still_fine();
    }
    value_or_death(close_all_remote(NULL, 3), &e); /* a race with its death, in each attempt */
    still_fine();
}

/* ---- ends ---- */
static void at_exit_loops(void)
{
    for (;;)
        pause();
}
MANTA_TASK(int64_t, leave, (int64_t, how))
{
    if (how == 1)
        exit(7);
    if (how == 2)
        _exit(0);
    if (how == 3)
        abort();
    if (how == 4)
        kill(getppid(), SIGKILL); /* its zygote: every worker of the job */
    if (how == 5) {
        atexit(at_exit_loops);
        alarm(1); /* else nobody could tell it from a long task */
        exit(0);
    }
    for (;;)
        pause();
}

static void ends(void)
{
    static const int what[] = {1, 2, 3, 5};
    manta_error      e;
    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
        CHECK_FAILS(leave_remote(&once, what[i]), MANTA_EWORKER_DIED, &e);
        CHECK_STR(e.function, "leave");
        CHECK(e.pid > 0);
        if (what[i] == 1)
            CHECK_SAYS(e.message, "exited with status 7");
        if (what[i] == 3)
            CHECK_EQ(e.signal_number, SIGABRT);
        still_fine();
    }
    CHECK_FAILS(leave_remote(&once, 4), MANTA_EWORKER_DIED, &e);
    still_fine();
}

/* ---- signals ---- */
static void nothing(int number)
{
    (void)number;
}
MANTA_TASK(int64_t, mask_all, (int64_t, how))
{
    sigset_t all;
    sigfillset(&all);
    if (how == 0)
        sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 1; how > 0 && i < 32; i++)
        signal(i, how == 1 ? SIG_IGN : nothing);
    return how;
}
static manta_status stubborn_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status stubborn_mask(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, mask_all(argv[0].l));
}
static manta_status stubborn_write(manta_ctx *c, void *self, int argc, const manta_arg *argv);
MANTA_ACTOR(stubborn, "", stubborn_new, NULL, {"mask", "l>l", stubborn_mask}, {"write", "l>l", stubborn_write});

static void signal_masks(void)
{
    manta_error e;
    for (int how = 0; how < 3; how++) {
        CHECK_I64(mask_all_remote(NULL, how), how);
        still_fine();
        manta_actor *a = manta_actor_new("stubborn", NULL, MANTA_NO_ARGS);
        CHECK_I64(manta_actor_call(a, "mask", MANTA_ARGS(manta_i64(how))), how);
        manta_actor_kill(a, false); /* SIGKILL is not theirs to block */
        for (int64_t limit = test_now_ms() + TEST_WAIT_MS, code = 0; code != MANTA_EACTOR_DIED;) {
            int64_t    x;
            manta_ref *ref = manta_actor_call(a, "mask", MANTA_ARGS(manta_i64(how)));
            code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
            manta_free(ref);
            CHECK((code == MANTA_OK || code == MANTA_EACTOR_DIED) && test_now_ms() < limit);
        }
        manta_actor_free(a);
    }
}

/* ---- shared memory: garbage into all that the task's process shares with others ---- */
static void scribble(uint8_t *at, size_t size, uint64_t how, uint64_t *seed)
{
    for (size_t i = 0; i < size; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        if (how % 4 == 3 && *seed >> 58) /* here and there only: what is left looks right */
            continue;
        at[i] = how % 4 == 0 ? 0xff : how % 4 == 1 ? 0 : (uint8_t)(*seed >> 33);
    }
}
/* The mappings that the process shares with others and may write, of those whose name has `named` in it. */
static int shared_mappings(const char *named, uint8_t **from, size_t *sizes, int max)
{
    char          line[512], perms[8], name[256];
    FILE         *maps = fopen("/proc/self/maps", "re");
    int           count = 0;
    unsigned long begin, end;
    while (maps && count < max && fgets(line, sizeof line, maps)) {
        name[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &begin, &end, perms, name) < 4 || perms[1] != 'w' || perms[3] != 's' ||
            !strstr(name, "memfd") || !strstr(name, named))
            continue;
        from[count] = (uint8_t *)begin;
        sizes[count++] = end - begin;
    }
    if (maps)
        fclose(maps);
    return count;
}
MANTA_TASK(int64_t, write_over, (int64_t, how), (int64_t, part))
{
    uint8_t *from[256];
    size_t   sizes[256];
    uint64_t seed = (uint64_t)how * 2654435761u + 1;
    int      count = shared_mappings("memfd", from, sizes, 256);
    for (int i = 0; i < count; i++)
        if (part < 0 || part == i)
            scribble(from[i], sizes[i], (uint64_t)how, &seed);
    return count;
}

/* Whatever it writes, a driver gets what it waits for, or a typed error, within the limit. */
static void overwritten(int how, int part)
{
    manta_error  e;
    int64_t      x;
    manta_ref   *beside = add_remote(NULL, how, 1);
    manta_ref   *ref = write_over_remote(&once, how, part);
    manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
    if (code == MANTA_ETIMEDOUT || code == MANTA_EINTERNAL)
        test_fail(__FILE__, __LINE__, "how %d, part %d: code %d: %s", how, part, code, e.message);
    if (code == MANTA_EWORKER_DIED)
        CHECK_SAYS(e.message, "worker"); /* and not an empty reason */
    manta_free(ref);
    code = manta_get_i64(beside, TEST_WAIT_MS, &x, &e);
    if (code != MANTA_OK && code != MANTA_EWORKER_DIED && code != MANTA_EPROTO)
        test_fail(__FILE__, __LINE__, "how %d, part %d: beside: code %d: %s", how, part, code, e.message);
    manta_free(beside);
    still_fine();
}

static void written_over(void)
{
    for (int how = 0; how < 12; how++)
        overwritten(how, -1);
}

/* One mapping at a time: the others still say that all is well. */
static void written_over_in_part(void)
{
    for (int part = 0; part < 8; part++)
        for (int how = 0; how < 4; how++)
            overwritten(how, part);
}

/* A value, or the typed error of what its worker did; never a wait to the limit. */
static void settled(manta_ref *take_ref, int how, int part)
{
    manta_error  e;
    int64_t      x;
    manta_status code = manta_get_i64(take_ref, TEST_WAIT_MS, &x, &e);
    if (code == MANTA_ETIMEDOUT || code == MANTA_EINTERNAL)
        test_fail(__FILE__, __LINE__, "how %d, part %d: code %d: %s", how, part, code, e.message);
    manta_free(take_ref);
}

/* Into the claims of the lane only, or into what its ring carries, where other tasks stand behind it: the worker lives on, and
 * none of them waits for ever. */
MANTA_TASK(int64_t, write_into_lane, (int64_t, how), (int64_t, at), (int64_t, size))
{
    uint8_t *from[64];
    size_t   sizes[64];
    uint64_t seed = (uint64_t)how * 2654435761u + 1;
    int      count = size ? shared_mappings("manta-lane", from, sizes, 64) : 0;
    test_sleep_ms(size ? 20 : 0); /* what stands behind has been sent */
    for (int i = 0; i < count; i++)
        scribble(from[i] + at, (size_t)size, (uint64_t)how, &seed);
    return count;
}
/* Only the letters that say what the arguments are of the tasks behind it. */
static const int64_t MARK = 0x5a17ed0fca11ab1e;
MANTA_TASK(int64_t, change_letters, (int64_t, to), (uint64_t, number))
{
    struct test_board *board = test_board_map(number);
    uint8_t           *from[64];
    size_t             sizes[64];
    int64_t            changed = 0, mark = MARK;
    int                count = shared_mappings("manta-lane", from, sizes, 64);
    atomic_store(&board->words[0], 1); /* it runs, so what is called now stands behind it at once */
    if (!test_board_wait(&board->words[1], 1))
        return -1;
    for (int i = 0; i < count; i++)
        for (size_t at = 8; at + 8 <= sizes[i]; at += 8)
            if (memcmp(from[i] + at, &mark, 8) == 0 && from[i][at - 8] == 'l') {
                from[i][at - 8] = (uint8_t)to;
                changed++;
            }
    return changed;
}
/* A letter that there is makes an argument of another type; one that there is not was written over, and its task says that. */
static void letters_changed(void)
{
    enum { BEHIND = 10 };
    static const char to[] = {'?', 0, 'd'};
    for (size_t i = 0; i < sizeof to; i++) {
        uint64_t           number;
        struct test_board *board = test_board_new(&number);
        manta_ref         *refs[BEHIND], *first = change_letters_remote(&once, to[i], number);
        int64_t            changed, failed = 0, x;
        manta_error        e;
        manta_status       want = to[i] == 'd' ? MANTA_ETYPE : MANTA_EPROTO;
        CHECK(test_board_wait(&board->words[0], 1));
        for (int k = 0; k < BEHIND; k++)
            refs[k] = add_remote(NULL, MARK, k);
        manta_progress();
        atomic_store(&board->words[1], 1);
        CHECK_EQ(manta_get_i64(first, TEST_WAIT_MS, &changed, &e), MANTA_OK);
        manta_free(first);
        for (int k = 0; k < BEHIND; k++) {
            manta_status code = manta_get_i64(refs[k], TEST_WAIT_MS, &x, &e);
            if (code != MANTA_OK && code != want)
                test_fail(__FILE__, __LINE__, "letter %d: code %d: %s", to[i], code, e.message);
            CHECK(code || x == MARK + k);
            failed += code == want;
            manta_free(refs[k]);
        }
        CHECK(changed > 0 && failed == changed);
    }
    still_fine();
}
static void queued_behind(void)
{
    enum { BEHIND = 30, CLAIMS_AT = 4096, RING_AT = 12288, PAGE = 4096 };
    for (int how = 0; how < 4; how++)
        for (int at = CLAIMS_AT; at <= RING_AT; at += RING_AT - CLAIMS_AT) {
            manta_ref *refs[1 + BEHIND];
            for (int i = 0; i <= BEHIND; i++)
                refs[i] = write_into_lane_remote(&once, how, at, i ? 0 : PAGE);
            for (int i = 0; i <= BEHIND; i++)
                settled(refs[i], how, at);
        }
    still_fine();
}

/* That their worker waits inside a task, for ever, on both CPUs: nothing would be sent there, and nothing else granted. */
static void blocked_for_ever(void)
{
    enum { BLOCKED_AT = 4, WORD = 4 };
    for (int round = 0; round < 3; round++) {
        manta_ref *refs[8];
        for (int i = 0; i < 8; i++)
            refs[i] = write_into_lane_remote(&once, 0, BLOCKED_AT, WORD);
        for (int i = 0; i < 8; i++)
            settled(refs[i], 0, BLOCKED_AT);
        still_fine();
    }
}

/* For a while, again and again, into the pages in which processes sleep and count what came by their sockets. */
MANTA_TASK(int64_t, hold_parks, (uint64_t, number), (int64_t, ms))
{
    struct test_board *board = test_board_map(number);
    uint8_t           *from[64];
    size_t             sizes[64];
    int64_t            end = test_now_ms() + ms;
    int                count = shared_mappings("manta-park", from, sizes, 64);
    atomic_store(&board->words[0], 1);
    while (test_now_ms() < end)
        for (int i = 0; i < count; i++)
            memset(from[i], 0xff, sizes[i]);
    return count;
}
static void parks_held(void)
{
    uint64_t           number;
    struct test_board *board = test_board_new(&number);
    manta_ref         *held = hold_parks_remote(&once, number, 300);
    CHECK(test_board_wait(&board->words[0], 1));
    for (int i = 1; i <= 20; i++) { /* each a class of its own, whose lease comes by the socket */
        manta_task_opts opts = {.num_cpus = 1.0 / (1 + i)};
        CHECK_I64(add_remote(&opts, i, 1), i + 1);
    }
    settled(held, 0, 0);
    still_fine();
}

/* An actor that harms itself under the calls of a borrower, who has a lane of its own to it. */
static manta_status stubborn_write(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc;
    return manta_return_i64(c, write_over(argv[0].l, -1));
}
static manta_status borrow(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_error e;
    int64_t     x, times = 0;
    (void)argc;
    for (int i = 0; i < 3; i++) {
        manta_ref   *ref = manta_actor_call(argv[0].A, i ? "mask" : "write", MANTA_ARGS(manta_i64(i ? 3 : argv[1].l)));
        manta_status code = manta_get_i64(ref, TEST_WAIT_MS, &x, &e);
        manta_free(ref);
        if (code == MANTA_ETIMEDOUT || code == MANTA_EINTERNAL)
            return manta_fail(c, 0, "call %d: %s", i, e.message), code;
        times += code == MANTA_OK;
    }
    return manta_return_i64(c, times);
}
MANTA_REGISTER(borrow, "Al>l");

static void borrowers_actor(void)
{
    manta_error e;
    int64_t     x;
    for (int how = 0; how < 12; how++) {
        manta_actor *a = manta_actor_new("stubborn", &(manta_actor_opts){.max_restarts = 1}, MANTA_NO_ARGS);
        manta_ref   *ref = manta_call("borrow", NULL, MANTA_ARGS(manta_actor_arg(a), manta_i64(how)));
        if (manta_get_i64(ref, 4 * TEST_WAIT_MS, &x, &e))
            test_fail(__FILE__, __LINE__, "how %d: %s", how, e.message);
        manta_free(ref);
        manta_actor_free(a);
    }
    still_fine();
}

#define TWO_CPUS {.num_cpus = 2}, false, 0
int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"fork_bombs", fork_bombs, TWO_CPUS},
        {"closed_descriptors", closed_descriptors, TWO_CPUS},
        {"ends", ends, TWO_CPUS},
        {"signal_masks", signal_masks, TWO_CPUS},
        {"written_over", written_over, TWO_CPUS},
        {"written_over_in_part", written_over_in_part, TWO_CPUS},
        {"letters_changed", letters_changed, {.num_cpus = 1}, false, 0},
        {"queued_behind", queued_behind, TWO_CPUS},
        {"blocked_for_ever", blocked_for_ever, TWO_CPUS},
        {"parks_held", parks_held, TWO_CPUS},
        {"borrowers_actor", borrowers_actor, TWO_CPUS},
        {0},
    };
    return test_main(argc, argv, cases);
}

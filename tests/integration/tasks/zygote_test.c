/* SPDX-License-Identifier: Apache-2.0
 *
 * zygote_test.c - a worker's death is told with its signal, though its zygote can't say it in time.
 *
 * Thread: the driver's main one.
 */
#include "tests/integration/harness.h"
#include "tests/integration/tasks/victim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *slow_path(pid_t zygote, char out[256])
{
    snprintf(out, 256, "%s/slow.%d", getenv("XDG_RUNTIME_DIR"), (int)zygote);
    return out;
}

/* For libmanta's calls too: a zygote that is to be slow gets no CPU for a while once it has reaped somebody. */
__attribute__((visibility("default"))) pid_t waitpid(pid_t pid, int *status, int options)
{
    char  path[256];
    pid_t reaped = wait4(pid, status, options, NULL);
    if (reaped > 0 && access(slow_path(getpid(), path), F_OK) == 0)
        test_sleep_ms(1500);
    return reaped;
}

MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

static manta_ref *victim_begun(struct test_board **out_board)
{
    manta_ref *ref = victim_call(out_board);
    CHECK(test_board_wait(&(*out_board)->words[0], 2));
    test_sleep_ms(300); /* the raylet's look at all processes, soon after its start, would mostly come first */
    return ref;
}

static void is_told(manta_ref *ref, const struct test_board *board)
{
    manta_error e;
    CHECK_FAILS(ref, MANTA_EWORKER_DIED, &e);
    CHECK_EQ(e.signal_number, SIGKILL);
    CHECK_SAYS(e.message, "SIGKILL");
    CHECK_EQ(e.pid, board->words[0]);
}

/* It can't say how its worker has ended. */
static void zygote_stands_still(void)
{
    struct test_board *board;
    manta_ref         *ref = victim_begun(&board);
    CHECK_EQ(kill((pid_t)board->words[2], SIGSTOP), 0);
    CHECK_EQ(kill((pid_t)board->words[0], SIGKILL), 0);
    is_told(ref, board);
    CHECK_EQ(kill((pid_t)board->words[2], SIGCONT), 0);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

/* Nobody else could say it, once it has reaped its worker. */
static void zygote_is_slow(void)
{
    struct test_board *board;
    manta_ref         *ref = victim_begun(&board);
    char               path[256];
    FILE              *slow = fopen(slow_path((pid_t)board->words[2], path), "we");
    CHECK(slow && fclose(slow) == 0);
    CHECK_EQ(kill((pid_t)board->words[0], SIGKILL), 0);
    is_told(ref, board);
    CHECK_EQ(unlink(path), 0);
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

static const struct test_case cases[] = {
    {"zygote_stands_still", zygote_stands_still, {.num_cpus = 2}, false, 0},
    {"zygote_is_slow", zygote_is_slow, {.num_cpus = 2}, false, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.c - the smallest whole program: a function that runs in other processes, on every core.
 *
 *   ./hello                              a private cluster, gone when the program ends
 *   MANTA_ADDRESS=FOLDER ./hello         in a cluster that `manta start --head` has started
 *   manta submit --file hello --follow -- ./hello
 */
#include <manta.h>

#include <unistd.h>

enum { TASKS = 8 };

MANTA_TASK(int64_t, square, (int64_t, x))
{
    return x * x;
}

MANTA_TASK(int64_t, where, (int64_t, x))
{
    (void)x;
    return getpid();
}

int main(int argc, char **argv)
{
    manta_error e;
    manta_ref  *squares[TASKS];
    int64_t     sum = 0, x, pid;
    if (manta_init(&argc, &argv, NULL, &e))
        return manta_perror(&e);
    for (int64_t i = 0; i < TASKS; i++)
        squares[i] = square_remote(NULL, i); /* returns at once; runs elsewhere */
    for (int i = 0; i < TASKS; i++) {
        if (manta_get_i64(squares[i], MANTA_FOREVER, &x, &e))
            return manta_perror(&e);
        manta_free(squares[i]);
        sum += x;
    }
    manta_ref *ref = where_remote(NULL, 0);
    if (manta_get_i64(ref, MANTA_FOREVER, &pid, &e))
        return manta_perror(&e);
    manta_free(ref);
    printf("hello from process %d, and from worker %lld: the squares below %d add up to %lld\n", getpid(), (long long)pid, TASKS,
           (long long)sum);
    return manta_shutdown();
}

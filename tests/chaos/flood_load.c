/* SPDX-License-Identifier: Apache-2.0
 *
 * flood_load.c - a driver of tasks on another node, each with a value that is fetched from there.
 *
 * flood_load ADDRESS SECONDS ROUNDS: after every round it prints "tasks N seconds S", and begins the next one when a
 * line comes on its standard input.
 *
 * Thread: one.
 */
#include <manta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUE_BYTES = 8192, UNDER_WAY = 16, WAIT_MS = 60 * 1000, WARM_TASKS = 500 };

static manta_status filled(manta_ctx *c, int argc, const manta_arg *argv)
{
    static char data[VALUE_BYTES];
    (void)argc;
    memset(data, (int)argv[0].l, sizeof data);
    return manta_return_bytes(c, data, sizeof data);
}
MANTA_REGISTER(filled, "l>y");

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static manta_ref *begin(int64_t number)
{
    manta_resource  there = {.name = "at1", .amount = 0.001};
    manta_task_opts opts = {.resources = &there, .resource_count = 1};
    return manta_call("filled", &opts, MANTA_ARGS(manta_i64(number & 127)));
}

static void finish(manta_ref *take_ref, int64_t number)
{
    manta_view  view;
    manta_error e;
    if (manta_get(take_ref, WAIT_MS, &view, &e))
        exit((manta_perror(&e), 1));
    const char *bytes = view.data;
    if (view.size != VALUE_BYTES || bytes[0] != (number & 127) || bytes[VALUE_BYTES - 1] != (number & 127))
        exit(2);
    manta_release(&view);
    manta_free(take_ref);
}

/* How many were done; at least `least`, for at least so many seconds. */
static int64_t work(double seconds, int64_t least)
{
    manta_ref *refs[UNDER_WAY];
    int64_t    begun = 0, done = 0;
    double     until = now_s() + seconds;
    for (; begun < UNDER_WAY; begun++)
        refs[begun] = begin(begun);
    for (; done < begun; done++) {
        finish(refs[done % UNDER_WAY], done);
        if (begun < least || now_s() < until) {
            refs[done % UNDER_WAY] = begin(begun);
            begun++;
        }
    }
    return done;
}

int main(int argc, char **argv)
{
    manta_init_opts opts = {.address = argc > 1 ? argv[1] : NULL, .job_name = "flood"};
    manta_error     e;
    char            line[16];
    if (manta_init(&argc, &argv, &opts, &e))
        return manta_perror(&e);
    double seconds = argc == 4 ? strtod(argv[2], NULL) : 0;
    long   rounds = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    if (seconds <= 0 || rounds <= 0)
        return 2;
    work(0, WARM_TASKS);
    for (long round = 0; round < rounds; round++) {
        double  since = now_s();
        int64_t done = work(seconds, 0);
        printf("tasks %lld seconds %.2f\n", (long long)done, now_s() - since);
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            break;
    }
    return manta_shutdown();
}

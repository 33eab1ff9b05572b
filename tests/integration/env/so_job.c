/* SPDX-License-Identifier: Apache-2.0
 *
 * so_job.c - a job that is a shared object: functions that its constructors register, and what runs first.
 */
#include <manta.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

MANTA_TASK(int64_t, so_add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

static manta_status so_where(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    (void)argv;
    return manta_return_i64(c, getpid());
}
MANTA_REGISTER(so_where, ">l");

static manta_status tally_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    static int64_t sum;
    (void)c;
    (void)argc;
    sum = argv[0].l;
    *self = &sum;
    return MANTA_OK;
}
static manta_status tally_add(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return manta_return_i64(c, *(int64_t *)self += argv[0].l);
}
MANTA_ACTOR(so_tally, "l", tally_new, NULL, {"add", "l>l", tally_add});

MANTA_API int manta_main(int argc, char **argv);

int manta_main(int argc, char **argv)
{
    manta_error e;
    int64_t     sum, pid;
    manta_ref  *a = so_add_remote(NULL, argc, 40), *where = manta_call("so_where", NULL, MANTA_NO_ARGS);
    if (manta_get_i64(a, MANTA_FOREVER, &sum, &e) || manta_get_i64(where, MANTA_FOREVER, &pid, &e))
        return manta_perror(&e);
    manta_free(a);
    manta_free(where);
    printf("%s: %d and 40 are %lld, %s\n", argv[argc - 1], argc, (long long)sum, pid == getpid() ? "here" : "elsewhere");
    if (argc > 1 && strcmp(argv[1], "unknown") == 0) {
        a = manta_call("so_ad", NULL, MANTA_ARGS(manta_i64(1), manta_i64(2)));
        return manta_get_i64(a, MANTA_FOREVER, &sum, &e) ? manta_perror(&e) : 0;
    }
    return 0;
}

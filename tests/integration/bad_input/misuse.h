/* SPDX-License-Identifier: Apache-2.0
 *
 * misuse.h - what the lists of misuses share. Two files of a program include it, and both register what it defines, as users'
 * headers do.
 */
#ifndef MISUSE_H
#define MISUSE_H

#include "tests/integration/harness.h"

MANTA_TASK(int64_t, misuse_shared, (int64_t, x))
{
    return x + 1;
}
MANTA_TASK(int64_t, add, (int64_t, a), (int64_t, b))
{
    return a + b;
}

static manta_status thing_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    (void)c, (void)argc, (void)argv;
    *self = NULL;
    return MANTA_OK;
}
static manta_status thing_wrong(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_str(c, "a string");
}
static manta_status thing_silent(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)c, (void)self, (void)argc, (void)argv;
    return MANTA_OK;
}
static manta_status thing_one(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_i64(c, 1);
}
MANTA_ACTOR(thing, "", thing_new, NULL, {"wrong", ">l", thing_wrong}, {"silent", ">l", thing_silent}, {"one", ">l", thing_one});

static manta_status counts(manta_ctx *c, int argc, const manta_arg *argv)
{
    (void)argc;
    manta_status code = MANTA_OK;
    for (int64_t i = 0; i < argv[0].l && code == MANTA_OK; i++)
        code = manta_yield(c, manta_i64(i));
    return code == MANTA_ECANCELLED ? MANTA_OK : code;
}
MANTA_REGISTER(counts, "l>l");

/* Whatever was done wrong, the next call is served. */
static inline void goes_on(void)
{
    CHECK_I64(add_remote(NULL, 1, 2), 3);
}

/* 3, and there. */
static inline manta_ref *ready_ref(void)
{
    manta_ref    *ref = add_remote(NULL, 1, 2);
    manta_error   e;
    unsigned char ready;
    CHECK_EQ(manta_wait(&ref, 1, 1, TEST_WAIT_MS, &ready, &e), 1);
    return ref;
}
static inline void nothing(void *user, manta_ref *ref)
{
    (void)user, (void)ref;
}

#define CASE(fn, ...) \
    { \
        .name = #fn, .run = fn, __VA_ARGS__ \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * quota_test.c - what one job may have of a node's object store: it waits for its own values to go, then is told.
 *
 * Thread: the driver's main one, and one that frees values meanwhile.
 */
#include "tests/integration/harness.h"

#include <pthread.h>
#include <stdlib.h>

static const size_t MIB = 1024 * 1024;
enum { MOST = 64 };

static manta_status make(manta_ctx *c, int argc, const manta_arg *argv)
{
    size_t size = (size_t)argv[0].l;
    char  *data = calloc(1, size);
    (void)argc;
    manta_status code = manta_return_bytes(c, data, size);
    free(data);
    return code;
}
MANTA_REGISTER(make, "l>y");

static manta_ref *put(size_t size, manta_status *out_code, manta_error *e)
{
    char      *data = calloc(1, size);
    manta_ref *ref = manta_put(data, size);
    manta_view view;
    *out_code = manta_get(ref, TEST_WAIT_MS, &view, e);
    if (*out_code == MANTA_OK)
        manta_release(&view);
    free(data);
    return ref;
}

/* Puts of 2 MiB until one fails; how many were kept. */
static int fill(manta_ref **kept, manta_error *e)
{
    manta_status code;
    for (int i = 0; i < MOST; i++) {
        kept[i] = put(2 * MIB, &code, e);
        if (code == MANTA_OK)
            continue;
        CHECK_EQ(code, MANTA_ESTORE_FULL);
        manta_free(kept[i]);
        return i;
    }
    return MOST;
}

static void quota_is_told(void)
{
    manta_ref   *kept[MOST];
    manta_error  e;
    manta_status code;
    int64_t      from = test_now_ms();
    manta_ref   *large = put(64 * MIB, &code, &e); /* can never fit: said at once */
    CHECK_EQ(code, MANTA_ESTORE_FULL);
    CHECK(test_now_ms() - from < 10000); /* who waits for room is told after so long */
    CHECK_SAYS(e.message, "quota of 16 MiB");
    manta_free(large);
    int count = fill(kept, &e);
    CHECK(count >= 5 && count <= 8); /* 16 MiB, and what segments take for themselves */
    CHECK_SAYS(e.message, "job \"");
    CHECK_SAYS(e.message, "quota of 16 MiB");
    manta_error made;
    manta_ref  *ref = manta_call("make", NULL, MANTA_ARGS(manta_i64((int64_t)(8 * MIB)))); /* its workers are of the job */
    CHECK_FAILS(ref, MANTA_ESTORE_FULL, &made);
    for (int i = 0; i < count; i++)
        manta_free(kept[i]);
    manta_ref *after = put(2 * MIB, &code, &e);
    CHECK_EQ(code, MANTA_OK);
    manta_free(after);
}

static void *free_some(void *arg)
{
    manta_ref **kept = arg;
    test_sleep_ms(1000);
    for (int i = 0; i < 5; i++)
        manta_free(kept[i]);
    return NULL;
}
static void quota_waits(void)
{
    manta_ref   *kept[MOST];
    manta_error  e;
    manta_status code = MANTA_OK;
    pthread_t    thread;
    int          count = 0;
    while (count < 5) {
        kept[count++] = put(2 * MIB, &code, &e);
        CHECK_CODE(code, MANTA_OK, &e);
    }
    CHECK_EQ(pthread_create(&thread, NULL, free_some, kept), 0);
    manta_view view; /* made by a worker, in a segment of its own, which it gets when the driver's are given back */
    manta_ref *ref = manta_call("make", NULL, MANTA_ARGS(manta_i64((int64_t)(12 * MIB))));
    CHECK_CODE(manta_get(ref, TEST_WAIT_MS, &view, &e), MANTA_OK, &e);
    CHECK(view.size == 12 * MIB);
    manta_release(&view);
    manta_free(ref);
    pthread_join(thread, NULL);
}
static void quota_wrong(void)
{
    manta_error e;
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.job_memory = 1000}, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.job_memory = -1}, &e), MANTA_EINVAL, &e);
    CHECK_CODE(manta_init(&test_argc, &test_argv, &(manta_init_opts){.store_memory = 1000}, &e), MANTA_EINVAL, &e);
}

#define SMALL \
    { \
        .num_cpus = 2, .store_memory = 256 << 20, .job_memory = 16 << 20 \
    }
static const struct test_case cases[] = {
    {"quota_is_told", quota_is_told, SMALL, false, 0},
    {"quota_waits", quota_waits, SMALL, false, 0},
    {"quota_wrong", quota_wrong, {0}, true, 0},
    {NULL, NULL, {0}, false, 0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, cases);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.c - see handle.h.
 *
 * Owns: the table, for as long as the process lives.
 */
#include "sgd/coll/api/handle.h"

#include "sgd/ground/fail.h"

#include <pthread.h>

static struct mt_handles handles = MT_HANDLES_INIT;
static pthread_once_t    is_begun = PTHREAD_ONCE_INIT;
static bool              is_forked; /* from a process that has made handles: their memory is shared with it */

/* The argument's name in the public header, and how its life ends. */
static const struct {
    const char *argument, *over;
} kinds[] = {[MT_HANDLE_GROUP] = {"group", "was freed before"},
             [MT_HANDLE_MEMBER] = {"coll", "has left before"},
             [MT_HANDLE_REQUEST] = {"request", "was waited for before, or went as its member left"},
             [MT_HANDLE_GPU] = {"gpu", "has left before"}};

manta_status coll_null(manta_error *e, const char *call, const char *argument)
{
    return sgd_fail(e, MANTA_EINVAL, "manta_coll_%s: %s is NULL", call, argument);
}

static manta_status forked(manta_error *e)
{
    return sgd_fail(e, MANTA_EFORKED, "this process was forked from one that has made groups, whose memory it shares: exec first");
}

static void on_fork(void)
{
    is_forked = true;
}

static void begin(void)
{
    (void)pthread_atfork(NULL, NULL, on_fork);
}

void *coll_handle_new(enum mt_handle_kind kind, void *object, manta_error *e)
{
    void *handle = NULL;
    pthread_once(&is_begun, begin);
    mt_status st = mt_handle_new(&handles, kind, object, &handle);
    if (st.code == MT_EFORKED)
        (void)forked(e);
    else if (st.code)
        sgd_fail(e, st.code, "no memory for a %s", kinds[kind].argument);
    return handle;
}

/* Why it names nothing. */
static manta_status misuse(enum mt_handle_kind kind, const void *handle, const char *call, manta_error *e)
{
    if (!handle)
        return coll_null(e, call, kinds[kind].argument);
    if (is_forked)
        return forked(e);
    return sgd_fail(e, MANTA_EHANDLE, "manta_coll_%s: %s %s, or never was one", call, kinds[kind].argument, kinds[kind].over);
}

void *coll_handle_of(enum mt_handle_kind kind, const void *handle, const char *call, manta_status *out_code, manta_error *e)
{
    void        *object = coll_handle_look(kind, handle);
    manta_status code = object ? MANTA_OK : misuse(kind, handle, call, e);
    if (out_code)
        *out_code = code;
    return object;
}

void *coll_handle_look(enum mt_handle_kind kind, const void *handle)
{
    return is_forked ? NULL : mt_handle_look(&handles, kind, handle);
}

void *coll_handle_close(enum mt_handle_kind kind, const void *handle)
{
    return mt_handle_close(&handles, kind, handle);
}

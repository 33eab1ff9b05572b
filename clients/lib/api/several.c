/* SPDX-License-Identifier: Apache-2.0
 *
 * several.c - calling for several values at once.
 *
 * Owns:   nothing. Thread: any.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"

static manta_status call_check(manta_ref **out, int n, struct own_failure *f)
{
    if (out && n >= 1 && n <= MANTA_RETURNS_MAX)
        return MANTA_OK;
    own_failure_set(f, MT_EINVAL, "%d results at %s: 1 to %d are possible", n, out ? "an address" : "NULL", MANTA_RETURNS_MAX);
    return MANTA_EINVAL;
}

/* Every handle there is room for fails with the same error. */
static manta_status all_failed(manta_ref **out, int n, const struct own_failure *f)
{
    manta_status code = lib_enter(NULL);
    for (int i = 0; out && i < n; i++)
        out[i] = code ? lib_handle_error(code) : lib_failed_ref(f);
    if (code)
        return code;
    lib_unlock();
    return f->code;
}

manta_status manta_call_n(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, manta_ref **out, int n)
{
    struct own_failure f;
    struct own_call    call = {.count = (uint32_t)n, .more = (struct own_ref **)(void *)(out + 1)};
    if (call_check(out, n, &f))
        return all_failed(out, n > MANTA_RETURNS_MAX ? 0 : n, &f);
    out[0] = lib_call_name(name, opts, argc, argv, &call);
    return MANTA_OK;
}

manta_status manta_actor_call_n(manta_actor *actor, const char *method, int argc, const manta_arg *argv, manta_ref **out, int n)
{
    struct own_failure f;
    struct own_call    call = {.count = (uint32_t)n, .more = (struct own_ref **)(void *)(out + 1)};
    if (call_check(out, n, &f))
        return all_failed(out, n > MANTA_RETURNS_MAX ? 0 : n, &f);
    out[0] = lib_call_method(actor, method, argc, argv, &call);
    return MANTA_OK;
}

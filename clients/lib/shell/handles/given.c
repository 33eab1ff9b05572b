/* SPDX-License-Identifier: Apache-2.0
 *
 * given.c - what a call gives back to the user: handles of what was submitted, or of why it was not.
 *
 * Owns:   nothing. Thread: any; under the owner lock but for lib_refused_call.
 */
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"

#include "core/base/reserved.h"

manta_ref *lib_failed_ref(const struct own_failure *f)
{
    struct own_ref *ref = own_ref_failed(&lib.own, f);
    return ref ? lib_handle_ref(&lib.own, ref) : lib_handle_error(MANTA_ENOMEM);
}

manta_ref *lib_reserved_ref(const char *call)
{
    struct own_failure f;
    manta_ref         *handle;
    manta_status       code = lib_enter(NULL);
    if (code)
        return lib_handle_error(code);
    own_failure_set(&f, MT_EINVAL, MT_RESERVED_TEXT, call);
    handle = lib_failed_ref(&f);
    lib_unlock();
    return handle;
}

manta_ref *lib_refused_call(const struct own_call *call, manta_status code)
{
    if (code == MANTA_ECONN)
        lib_refused_pause();
    for (uint32_t i = 0; i + 1 < call->count; i++)
        ((manta_ref **)call->more)[i] = lib_handle_error(code);
    return lib_handle_error(code);
}

manta_ref *lib_called(const struct own_call *call, struct own_ref *ref, const struct own_failure *f)
{
    manta_ref **more = (manta_ref **)call->more;
    if (call->stream) {
        if (!ref)
            call->stream->end = own_ref_failed(&lib.own, f);
        else if (ref->holds > 1)
            own_ref_drop(&lib.own, ref); /* it is the stream's end, which has a hold of its own */
        return NULL;
    }
    for (uint32_t i = 0; i + 1 < call->count; i++)
        more[i] = ref ? lib_handle_ref(&lib.own, call->more[i]) : lib_failed_ref(f);
    return ref ? lib_handle_ref(&lib.own, ref) : lib_failed_ref(f);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - requests to the raylet: sent, and forgotten.
 *
 * Owns:   lib.requests; each stands on its caller's stack or heap. Thread: any, under the lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

manta_status lib_call_begin(struct lib_request *request, manta_error *e)
{
    if (lib_thread.in_callback)
        return lib_error(e, MANTA_EDEADLK, "this call waits for the raylet, which a callback may not do");
    if (lib.inlined)
        return lib_error(e, MANTA_EUNSUPPORTED, "MANTA_INLINE=1: there is no raylet to make a runtime environment");
    request->id = own_id_next(&lib.own);
    request->is_done = false;
    request->fd_count = 0;
    if (mt_vec_push(&lib.requests, request).code)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request to the raylet");
    return MANTA_OK;
}

void lib_call_forget(const struct lib_request *request)
{
    for (size_t i = 0; i < lib.requests.count; i++)
        if (lib.requests.data[i] == request)
            mt_vec_remove_swap(&lib.requests, i);
}

manta_status lib_call_send(struct lib_request *request, uint16_t kind, const void *payload, size_t size, manta_error *e)
{
    manta_status code = lib_call_begin(request, e);
    if (code == MANTA_OK)
        own_send(&lib.own, kind, request->id, payload, size);
    return code;
}

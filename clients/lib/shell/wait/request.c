/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c - waiting for what the raylet was asked (ask.c).
 *
 * Owns:   lib.requests; each stands on its caller's stack or heap. Thread: any, under the lock.
 */
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/inline/inline.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>
#include <sys/socket.h>

static bool request_is_done(void *arg)
{
    return ((struct lib_request *)arg)->is_done;
}

manta_status lib_call_await(struct lib_request *request, int64_t timeout_ms, manta_error *e)
{
    struct ctl_reply reply;
    lib_wait(request_is_done, request, lib_deadline(timeout_ms));
    lib_call_forget(request);
    if (lib.broken && !request->is_done)
        return lib_error_broken(e);
    if (!request->is_done)
        return lib_error(e, MANTA_ETIMEDOUT, "no answer from the raylet within %lld ms", (long long)timeout_ms);
    if (request->kind != CTL_REPLY)
        return MANTA_OK;
    if (request->size < sizeof reply)
        return lib_error(e, MANTA_EPROTO, "an answer of the raylet is too short");
    memcpy(&reply, request->payload, sizeof reply);
    if (reply.code == MT_OK)
        return MANTA_OK;
    return lib_error(e, reply.code, "%.*s", CTL_TEXT_SIZE - 1, reply.text[0] ? reply.text : mt_code_text(reply.code));
}

/* An actor that waits for its raylet lends no CPUs: another actor that took them would hold them for its life, and both would
 * run as soon as the answer is there. Room in the store may need others' work, so that is waited for as a value is. */
manta_ctx *lib_asks_begin(bool is_for_room)
{
    manta_ctx *running = lib_running;
    if (lib.is_actors_lease && !is_for_room)
        lib_running = NULL;
    if (lib_running)
        lib_running->is_asking = true;
    return running;
}

void lib_asks_end(manta_ctx *running)
{
    if (lib_running)
        lib_running->is_asking = false;
    lib_running = running;
}

manta_status lib_call(struct lib_request *request, uint16_t kind, const void *payload, size_t size, int64_t timeout_ms,
                      manta_error *e)
{
    if (lib.inlined)
        return lib_inline_call(request, kind, payload, size, e);
    manta_status code = lib_call_send(request, kind, payload, size, e);
    if (code)
        return code;
    manta_ctx *running = lib_asks_begin(kind == CTL_SEGMENT_WANT);
    code = lib_call_await(request, timeout_ms, e);
    lib_asks_end(running);
    return code;
}

manta_status lib_ask(uint16_t kind, const void *payload, size_t size, struct lib_request **out, manta_error *e)
{
    *out = NULL;
    struct lib_request *request = malloc(sizeof *request);
    if (!request)
        return lib_error(e, MANTA_ENOMEM, "no memory for a request");
    manta_status code = lib_enter(e);
    if (code == MANTA_OK) {
        code = lib_check(e);
        if (code == MANTA_OK)
            code = lib_call(request, kind, payload, size, MT_LIB_REQUEST_MS, e);
        lib_unlock();
    }
    if (code == MANTA_OK)
        *out = request;
    else
        free(request);
    return code;
}

manta_status lib_call_socket(struct lib_request *request, uint16_t kind, const void *payload, size_t size, const void *more,
                             size_t more_size, int fd, int64_t timeout_ms, manta_error *e)
{
    manta_status code = lib_call_begin(request, e);
    if (code)
        return code;
    if (lib_socket_send(lib.socket, kind, request->id, payload, size, more, more_size, fd).code)
        lib_break(MT_ECONN, "the raylet of this node is gone");
    return lib_call_await(request, timeout_ms, e);
}

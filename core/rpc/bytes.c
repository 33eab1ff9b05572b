/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.c - between gRPC's buffers and statuses and ours. Owns nothing; any thread.
 */
#include "core/rpc/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(ours, gRPC's). What is not listed travels as UNKNOWN with its number beside it. In both directions the first line
 * that fits counts. */
/* clang-format off */
#define STATUS_PAIRS(X)                  \
    X(OK, OK)                            \
    X(ECANCELLED, CANCELLED)             \
    X(EINVAL, INVALID_ARGUMENT)          \
    X(ETYPE, INVALID_ARGUMENT)           \
    X(EPROTO, INVALID_ARGUMENT)          \
    X(ETIMEDOUT, DEADLINE_EXCEEDED)      \
    X(ENOENT, NOT_FOUND)                 \
    X(ENOFUNC, NOT_FOUND)                \
    X(EEXIST, ALREADY_EXISTS)            \
    X(EAUTH, UNAUTHENTICATED)            \
    X(EAUTH, PERMISSION_DENIED)          \
    X(EWRONGJOB, PERMISSION_DENIED)      \
    X(EAGAIN, RESOURCE_EXHAUSTED)        \
    X(ENOMEM, RESOURCE_EXHAUSTED)        \
    X(EOOM, RESOURCE_EXHAUSTED)          \
    X(ESTORE_FULL, RESOURCE_EXHAUSTED)   \
    X(EDISK_FULL, RESOURCE_EXHAUSTED)    \
    X(EVERSION, FAILED_PRECONDITION)     \
    X(EUNSCHEDULABLE, FAILED_PRECONDITION) \
    X(EFENCED, ABORTED)                  \
    X(EINVAL, OUT_OF_RANGE)              \
    X(EHANDLE, FAILED_PRECONDITION)      \
    X(EFORKED, FAILED_PRECONDITION)      \
    X(EUNSUPPORTED, UNIMPLEMENTED)       \
    X(EINTERNAL, INTERNAL)               \
    X(ECONN, UNAVAILABLE)                \
    X(ENOTLEADER, FAILED_PRECONDITION)   \
    X(ECORRUPT, DATA_LOSS)               \
    X(ECONN, UNKNOWN) /* without our header: gRPC itself, say of a channel that was closed */
/* clang-format on */

grpc_byte_buffer *rpc_bytes_copy(mt_view view)
{
    grpc_slice        slice = grpc_slice_from_copied_buffer((const char *)view.data, view.size);
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

grpc_byte_buffer *rpc_bytes_borrow(mt_view view, void (*release)(void *owner), void *owner)
{
    grpc_slice        slice = grpc_slice_new_with_user_data((void *)(uintptr_t)view.data, view.size, release, owner);
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

void rpc_message_open(struct rpc_message *message, grpc_byte_buffer *take_bytes)
{
    memset(message, 0, sizeof *message);
    message->bytes = take_bytes;
    if (!take_bytes)
        return;
    grpc_slice_buffer *slices = &take_bytes->data.raw.slice_buffer;
    if (take_bytes->data.raw.compression != GRPC_COMPRESS_NONE) {
        message->is_compressed = true;
    } else if (slices->count == 1) {
        message->view = mt_view_of(GRPC_SLICE_START_PTR(slices->slices[0]), slices->length);
    } else if (slices->count > 1) {
        grpc_byte_buffer_reader reader;
        int                     ok = grpc_byte_buffer_reader_init(&reader, take_bytes);
        MT_ASSERT(ok);
        message->flat = grpc_byte_buffer_reader_readall(&reader);
        message->is_flat = true;
        grpc_byte_buffer_reader_destroy(&reader);
        message->view = mt_view_of(GRPC_SLICE_START_PTR(message->flat), GRPC_SLICE_LENGTH(message->flat));
    }
}

void rpc_message_close(struct rpc_message *message)
{
    if (message->is_flat)
        grpc_slice_unref(message->flat);
    if (message->bytes)
        grpc_byte_buffer_destroy(message->bytes);
    memset(message, 0, sizeof *message);
}

grpc_status_code rpc_status_to_grpc(int32_t code)
{
#define X(ours, theirs) \
    if (code == MT_##ours) \
        return GRPC_STATUS_##theirs;
    STATUS_PAIRS(X)
#undef X
    return GRPC_STATUS_UNKNOWN;
}

grpc_metadata rpc_code_header(int32_t code)
{
    char          text[16];
    grpc_metadata header = {0};
    snprintf(text, sizeof text, "%d", code);
    header.key = grpc_slice_from_static_string(RPC_CODE_HEADER);
    header.value = grpc_slice_from_copied_string(text); /* short: inlined, no memory of its own */
    return header;
}

grpc_metadata rpc_wire_header(void)
{
    char          text[16];
    grpc_metadata header = {0};
    snprintf(text, sizeof text, "%u-%u", mt_release.wire.min, mt_release.wire.max);
    header.key = grpc_slice_from_static_string(RPC_WIRE_HEADER);
    header.value = grpc_slice_from_copied_string(text); /* short: inlined */
    return header;
}

/* The text of a header of that name, of at most 15 bytes; false: it is another one, or longer. */
static bool short_header(const grpc_metadata *header, const char *name, char text[16])
{
    size_t size = GRPC_SLICE_LENGTH(header->value);
    if (grpc_slice_str_cmp(header->key, name) || size > 15)
        return false;
    memcpy(text, GRPC_SLICE_START_PTR(header->value), size);
    text[size] = '\0';
    return true;
}

struct mt_versions rpc_wire_of(const grpc_metadata_array *headers)
{
    struct mt_versions wire = {MT_WIRE_FIRST, MT_WIRE_FIRST};
    char               text[16];
    for (size_t i = 0; i < headers->count; i++)
        if (short_header(&headers->metadata[i], RPC_WIRE_HEADER, text) && sscanf(text, "%5hu-%5hu", &wire.min, &wire.max) != 2)
            wire = (struct mt_versions){0, 0};
    return wire;
}

mt_status rpc_status_from_grpc(grpc_status_code code, const grpc_metadata_array *trailing)
{
    static const char *const what = "rpc";
    char                     text[16];
    if (code == GRPC_STATUS_OK)
        return mt_ok();
    for (size_t i = 0; i < trailing->count; i++) {
        long number = short_header(&trailing->metadata[i], RPC_CODE_HEADER, text) ? strtol(text, NULL, 10) : 0;
        if (number > 0 && number < INT32_MAX)
            return mt_error((int32_t)number, (int)code, what);
    }
#define X(ours, theirs) \
    if (code == GRPC_STATUS_##theirs) \
        return mt_error(MT_##ours, (int)code, what);
    STATUS_PAIRS(X)
#undef X
    return mt_error(MT_EINTERNAL, (int)code, what);
}

void rpc_detail_copy(char *out, const void *text, size_t size)
{
    const unsigned char *in = text;
    size_t               n = size < MT_ERROR_BYTES_MAX - 1 ? size : MT_ERROR_BYTES_MAX - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(in[i] < 32 || in[i] == 127 ? '?' : in[i]);
    out[n] = '\0';
}

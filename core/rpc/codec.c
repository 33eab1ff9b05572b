/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c - see codec.h. Owns nothing; any thread.
 */
#include "core/rpc/codec.h"

mt_status rpc_pack(const ProtobufCMessage *message, mt_buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size > MT_CONTROL_BYTES_MAX)
        return mt_error(MT_EINVAL, 0, "message larger than MT_CONTROL_BYTES_MAX");
    mt_buf buf = {0};
    MT_TRY(mt_buf_reserve(&buf, size));
    buf.size = protobuf_c_message_pack(message, buf.data);
    *out = buf;
    return mt_ok();
}

mt_status rpc_unpack(const ProtobufCMessageDescriptor *type, mt_view bytes, size_t size_max, ProtobufCMessage **out_message)
{
    if (bytes.size > size_max)
        return mt_error(MT_EPROTO, 0, "message longer than its limit");
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, bytes.size, bytes.data);
    if (!message)
        return mt_error(MT_EPROTO, 0, "not a message of the expected type");
    *out_message = message;
    return mt_ok();
}

void rpc_unpack_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

mt_status rpc_bundle_add(mt_buf *bundle, mt_view message)
{
    enum { MORE = 15 << 3 | 2 }; /* the field's number, and that a length and so many bytes follow */
    uint8_t before[1 + (sizeof(size_t) * 8 + 6) / 7] = {MORE};
    size_t  n = bundle->size ? 1 : 0, left = message.size;
    for (; n && left > 0x7f; left >>= 7)
        before[n++] = (uint8_t)(left | 0x80);
    if (n)
        before[n++] = (uint8_t)left;
    MT_TRY(mt_buf_reserve(bundle, n + message.size));
    MT_TRY(mt_buf_append(bundle, before, n));
    return mt_buf_append(bundle, message.data, message.size);
}

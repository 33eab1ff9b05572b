/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h - protobuf messages to bytes and back.
 */
#ifndef MT_RPC_CODEC_H
#define MT_RPC_CODEC_H

#include "core/rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>

/* Packs into new memory; rpc_buf_free it. EINVAL above RPC_MESSAGE_MAX, ENOMEM. */
MT_MUST_USE mt_status rpc_pack(const ProtobufCMessage *message, struct rpc_buf *out);
/* Unpacks at most size_max bytes of a message of the given type; free it with rpc_unpack_free. EPROTO: too long, or
 * not such a message (protobuf-c does not tell this from a lack of memory). */
MT_MUST_USE mt_status rpc_unpack(const ProtobufCMessageDescriptor *type, struct rpc_view bytes, size_t size_max,
                                 ProtobufCMessage **out_message);
void rpc_unpack_free(ProtobufCMessage *message);
static inline struct rpc_view rpc_buf_view(const struct rpc_buf *buf)
{
    struct rpc_view view = {buf->data, buf->size};
    return view;
}

#endif

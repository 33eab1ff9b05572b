/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h - protobuf messages to bytes and back.
 */
#ifndef MT_RPC_CODEC_H
#define MT_RPC_CODEC_H

#include "core/rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>

/* Packs into new memory; the caller frees it (mt_buf_fini). EINVAL above MT_CONTROL_BYTES_MAX, ENOMEM. */
MT_MUST_USE mt_status rpc_pack(const ProtobufCMessage *message, mt_buf *out);
/* Unpacks at most size_max bytes of a message of the given type; free it with rpc_unpack_free. EPROTO: too long, or
 * not such a message (protobuf-c does not tell this from a lack of memory). */
MT_MUST_USE mt_status rpc_unpack(const ProtobufCMessageDescriptor *type, mt_view bytes, size_t size_max,
                                 ProtobufCMessage **out_message);
void                  rpc_unpack_free(ProtobufCMessage *message);

/* Several messages as one: the first as it is, each other one behind it as an element of its field `repeated bytes more = 15`.
 * Adds one to `bundle`, which is empty at first. ENOMEM leaves it as it was. */
MT_MUST_USE mt_status rpc_bundle_add(mt_buf *bundle, mt_view message);

#endif

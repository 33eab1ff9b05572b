/* SPDX-License-Identifier: Apache-2.0
 *
 * lzw.h - unpacking what compress(1) packs: LZW with codes of 9 to 16 bits, without the file's head of three bytes.
 */
#ifndef SGD_LZW_H
#define SGD_LZW_H

#include "core/base/status.h"

/* Unpacks until the input or the room for output ends, and says how much was written. ECORRUPT for a code that can't
 * be; ENOMEM. Thread: any. */
MT_MUST_USE mt_status sgd_lzw_unpack(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_max, size_t *out_size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * reference.h - the entries as their definitions have them; those of bfloat16 are k_half_reference of ../half.h.
 */
#ifndef K_REFERENCE_H
#define K_REFERENCE_H

#include "kernels/kernels.h"

k_gemm_entry k_gemm_reference;

mt_status k_attention_forward_reference(struct k_stream *stream, const struct k_attention *attention);
mt_status k_attention_backward_reference(struct k_stream *stream, const struct k_attention *attention);
mt_status k_conv_forward_reference(struct k_stream *stream, const struct k_conv *conv);
mt_status k_conv_backward_reference(struct k_stream *stream, const struct k_conv *conv);

#endif

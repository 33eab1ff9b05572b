/* SPDX-License-Identifier: Apache-2.0
 *
 * door.h - the table of an NVIDIA GPU, out of the plugin.
 */
#ifndef K_CUDA_DOOR_H
#define K_CUDA_DOOR_H

#include "kernels/kernels.h"

/* k_ops_choose for K_CUDA: opens the plugin once per process. Errors as there. */
MT_MUST_USE mt_status k_cuda_choose(const struct k_config *config, const struct k_ops **out_ops);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - what libmanta_cuda.so shows to door.c: one symbol, k_cuda_plugin.
 *
 * The plugin is the only part that links CUDA. It is opened when a GPU is asked for, and never closed.
 */
#ifndef K_CUDA_PLUGIN_H
#define K_CUDA_PLUGIN_H

#include "kernels/half.h"

#define K_CUDA_SYMBOL "k_cuda_plugin"

enum { K_CUDA_ABI = 2, K_CUDA_TEXT = 384 };

struct k_cuda_plugin {
    uint32_t abi;      /* K_CUDA_ABI, and */
    uint32_t ops_size; /* sizeof(struct k_ops): library and plugin are of one build */
    /* Takes the device for this process and gives its table. `text`: one line about what was found, or why not. */
    mt_status (*open)(int device, bool tf32, const struct k_ops **out_ops, char text[K_CUDA_TEXT]);
};

#endif

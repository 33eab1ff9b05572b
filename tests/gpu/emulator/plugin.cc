/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.cc - the emulated table as a plugin, with the one symbol of libmanta_cuda.so: where MANTA_CUDA_PLUGIN names this file, a
 * worker that asks for a GPU trains on the emulator. Owns nothing. Thread: one.
 */
extern "C" {
#include "kernels/cuda_plugin.h"
#include "tests/gpu/table.h"
}

#include <stdio.h>

static mt_status plugin_open(int device, bool tf32, const struct k_ops **out_ops, char text[K_CUDA_TEXT])
{
    const char *why;
    (void)tf32;
    if (device > 0)
        return mt_error(MT_EUNSUPPORTED, 0, "there is one emulated device");
    *out_ops = test_table(&why);
    snprintf(text, K_CUDA_TEXT, "device 0: emulated");
    return mt_ok();
}

extern "C" __attribute__((visibility("default"))) const struct k_cuda_plugin k_cuda_plugin = {
    K_CUDA_ABI, sizeof(struct k_ops), plugin_open};

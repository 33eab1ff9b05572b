/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c - a table of tests/gpu/table.h as a plugin, with the one symbol of libmanta_cuda.so: where MANTA_CUDA_PLUGIN names this
 * file, a worker that asks for a GPU trains on that. Owns: the table. Thread: one.
 */
#include "kernels/cuda/plugin.h"
#include "tests/gpu/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct k_ops        ops;
static const struct k_ops *table;

/* Where the file that EMULATOR_FAILS names is there, the device fails, and the file is gone: once, for whoever comes first. */
static mt_status failing_wait(struct k_stream *stream)
{
    static bool has_failed;
    const char *file = getenv("EMULATOR_FAILS");
    has_failed = has_failed || (file && unlink(file) == 0);
    return has_failed ? mt_error(MT_EDEVICE, 700, "wait for the emulated GPU") : table->wait(stream);
}

static mt_status plugin_open(int device, bool tf32, const struct k_ops **out_ops, char text[K_CUDA_TEXT])
{
    const char *why;
    (void)tf32;
    if (device > 0)
        return mt_error(MT_EUNSUPPORTED, 0, "there is one emulated device");
    table = test_table(&why);
    ops = *table;
    ops.wait = failing_wait;
    *out_ops = &ops;
    snprintf(text, K_CUDA_TEXT, "device 0: emulated");
    return mt_ok();
}

__attribute__((visibility("default"))) const struct k_cuda_plugin k_cuda_plugin = {K_CUDA_ABI, sizeof(struct k_ops), plugin_open};

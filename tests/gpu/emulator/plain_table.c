/* SPDX-License-Identifier: Apache-2.0
 *
 * plain_table.c - the CPU's kernels as those of a device, where the emulator's fibres can't run: under sanitizers. Owns: the table.
 */
#include "tests/gpu/table.h"

#include <stdlib.h>

const struct k_ops *test_table(const char **out_why)
{
    static struct k_ops ops;
    const struct k_ops *cpu;
    if (k_ops_choose(&(struct k_config){.kind = K_CPU}, &cpu).code != 0)
        abort();
    ops = *cpu;
    ops.name = "emulated";
    ops.is_device = true;
    *out_why = "";
    return &ops;
}

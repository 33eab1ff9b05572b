/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - which table a test of tests/gpu looks at: the GPU's (cuda_table.c) or the emulated one (emulator/emulated.cc).
 */
#ifndef TESTS_GPU_TABLE_H
#define TESTS_GPU_TABLE_H

#include "kernels/kernels.h"

/* NULL: there is none, and why. */
const struct k_ops *test_table(const char **out_why);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_table.c - the table under test is the GPU's. Owns nothing. Thread: one.
 */
#include "tests/gpu/table.h"

const struct k_ops *test_table(const char **out_why)
{
    const struct k_ops *ops = NULL;
    mt_status           st = k_ops_choose(&(struct k_config){.kind = K_CUDA}, &ops);
    *out_why = k_cuda_text();
    return st.code == MT_OK ? ops : NULL;
}

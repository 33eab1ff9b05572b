/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.h - all tables of this processor, for tests. Others call k_ops_choose of kernels.h.
 */
#ifndef K_CHOOSE_H
#define K_CHOOSE_H

#include "kernels/kernels.h"

enum { K_TABLES_MAX = 5 };
/* All tables that run on this CPU; the first is the reference. Returns how many. */
size_t k_ops_all(const struct k_ops *out[K_TABLES_MAX]);

#endif

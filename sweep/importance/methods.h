/* SPDX-License-Identifier: Apache-2.0
 *
 * methods.h - the methods of this room: each fills in its part of a list that has a weight for each column, and then for each pair.
 */
#ifndef SWP_IMPORTANCE_METHODS_H
#define SWP_IMPORTANCE_METHODS_H

#include "sweep/importance/table.h"

/* `variance` and `spread` of single parameters and, where `pairs`, of pairs in the order of swp_marginals_pair. ENOMEM. */
MT_MUST_USE mt_status swp_fanova(const struct swp_table *table, uint64_t seed, bool pairs, struct swp_weight *out);
/* `share`, not scaled. ENOMEM. */
MT_MUST_USE mt_status swp_ped_anova(const struct swp_table *table, bool maximize, struct swp_weight *out);

#endif

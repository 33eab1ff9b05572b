/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - points and results as the methods of this room see them: a column for each parameter that has more than one value.
 *
 * A number lies in [0, 1], at the probability that its parameter's own distribution gives to less; so equal lengths are equally
 * probable. A category is its index.
 */
#ifndef SWP_IMPORTANCE_TABLE_H
#define SWP_IMPORTANCE_TABLE_H

#include "sweep/importance/importance.h"

struct swp_column {
    uint32_t param;
    bool     is_category, is_conditional;
    uint32_t choices;     /* of a category */
    double   first, last; /* where the least and the greatest value of a number lie */
    double  *at;          /* by row; NaN where the parameter is not active */
};

struct swp_table {
    const struct swp_space *space;
    struct swp_column      *columns;
    uint32_t                dims, rows;
    double                 *results; /* around 0, the greatest deviation 1 */
    double                 *memory;
};

/* EINVAL with *out_problem: the results are equal, or no parameter varies. ENOMEM. Freed by swp_table_fini in any case. */
MT_MUST_USE mt_status swp_table_make(struct swp_table *table, const struct swp_importance_ask *ask,
                                     struct swp_problem *out_problem);
void                  swp_table_fini(struct swp_table *table);

#endif

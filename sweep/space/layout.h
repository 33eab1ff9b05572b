/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h - door: how a space stands in memory; for samplers and schedulers, which look at each parameter.
 */
#ifndef SWP_SPACE_LAYOUT_H
#define SWP_SPACE_LAYOUT_H

#include "core/ds/vec.h"
#include "sweep/space/space.h"

struct swp_condition {
    int      parent; /* index; -1: none */
    double  *when;   /* the parent's values, as they stand in a point */
    uint32_t when_count;
};

struct swp_linear { /* a constraint whose names are found */
    uint32_t *params;
    double   *factors;
    uint32_t  count;
    double    bound;
};

struct swp_space {
    struct swp_param      *params;
    struct swp_condition  *conditions;
    uint32_t              *order; /* indices, each parent before its children */
    uint32_t               count;
    struct swp_linear     *linear;
    struct swp_constraint *constraints; /* as they were defined */
    uint32_t               linear_count;
    bool (*allows)(void *user, const struct swp_space *space, const struct swp_point *point);
    void    *user;
    uint64_t grid_size;
    MT_VEC(void *) owned; /* every allocation of the space */
};

/* Zeroed memory that lives as long as the space; NULL: out of memory. */
void *swp_space_alloc(struct swp_space *space, size_t count, size_t size);
char *swp_space_text(struct swp_space *space, const char *text);

/* Fills *out_problem with the parameter and the sentence, and returns EINVAL. */
mt_status swp_refuse(struct swp_problem *out_problem, const char *param, const char *format, ...) MT_PRINTF(3, 4);

/* check.c: one parameter by itself, as the user wrote it; high and step are put in order. */
mt_status swp_param_check(struct swp_param *param, struct swp_problem *out_problem);
/* Conditions and constraints, once the parameters stand. */
mt_status swp_space_link(struct swp_space *space, struct swp_problem *out_problem);

static inline bool swp_kind_has_choices(enum swp_kind kind)
{
    return kind >= SWP_CATEGORICAL && kind <= SWP_CONSTANT;
}
static inline bool swp_kind_is_int(enum swp_kind kind)
{
    return kind == SWP_INT || kind == SWP_LOG_INT;
}
/* The value in a point that the literal stands for: index of the choice, or the number. False: the parameter never has it. */
bool swp_param_value_of(const struct swp_param *param, const struct mt_literal *literal, double *out);
/* Whether the values so far make the parameter active; its parent must have been seen to. */
bool swp_condition_holds(const struct swp_space *space, uint32_t index, const struct swp_point *point);

#endif

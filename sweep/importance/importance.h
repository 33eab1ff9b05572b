/* SPDX-License-Identifier: Apache-2.0
 *
 * importance.h - how much each parameter of a space matters for the results that were found: the door of this room.
 *
 *   FANOVA     a forest of regression trees predicts the results; of each parameter the part of the prediction's variance, over
 *              the whole space, that it explains by itself (Hutter, Hoos, Leyton-Brown, ICML 2014)
 *   PED_ANOVA  how far the distribution of a parameter among the best tenth lies from that among all (Watanabe, Bansal, Hutter,
 *              IJCAI 2023; conditional parameters: Kai et al., KDD 2026): what matters for good results, not for bad ones
 *
 * The space is measured by its own distributions: half of a log-uniform parameter is half of its logarithm, every value of a
 * discrete one and every choice is as large as the others. A parameter that does not exist in a point has no effect there; so for
 * FANOVA it is drawn at random where it is missing, anew for each tree.
 *
 * Pure: the same question has the same answer, bit for bit. Owns: nothing beyond a call. Thread: any.
 */
#ifndef SWP_IMPORTANCE_H
#define SWP_IMPORTANCE_H

#include "core/ds/vec.h"
#include "sweep/space/space.h"

enum swp_importance_kind { SWP_FANOVA, SWP_PED_ANOVA };
/* False where no kind is called so ("fanova", "ped_anova"). */
bool swp_importance_parse(const char *text, enum swp_importance_kind *out);

struct swp_importance_ask {
    enum swp_importance_kind kind;
    const struct swp_space  *space;
    const double            *points;   /* swp_space_count() a row, as in a swp_point */
    const double            *results;  /* one a row, finite */
    uint32_t                 rows;     /* at most MT_SWEEP_WEIGHED_MAX */
    bool                     maximize; /* PED_ANOVA: the best are the greatest */
    bool                     pairs;    /* FANOVA: pairs of parameters too */
    uint64_t                 seed;
};

struct swp_weight {
    uint32_t param;
    int32_t  other;    /* the second parameter of a pair; -1: it is a single one */
    double   share;    /* of single ones: they sum to 1. 0 of pairs */
    double   variance; /* FANOVA: its part of the variance by itself; of a pair: beyond that of the two. 0 of PED_ANOVA */
    double   spread;   /* FANOVA: standard deviation of `variance` from tree to tree */
};
struct swp_weights {
    MT_VEC(struct swp_weight) list; /* single ones by their shares, then pairs by their variance, the greatest first */
};

/* Replaces *out, whose list the caller frees. Parameters with one value are left out. EINVAL with *out_problem: too few rows, equal
 * results, no parameter that varies. ENOMEM.
 * 10,000 rows of 30 parameters: about 2 s and 10 MB (FANOVA; time and memory are proportional to rows times parameters). */
MT_MUST_USE mt_status swp_importance(const struct swp_importance_ask *ask, struct swp_weights *out,
                                     struct swp_problem *out_problem);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.c - the size of a gang, by what was said of it. See plan.h.
 */
#include "clients/gang/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const as_words[] = {
    [GNG_AS_NONE] = "none", [GNG_AS_TORCH] = "torch", [GNG_AS_TF] = "tf", [GNG_AS_PMI1] = "pmi1", [GNG_AS_HOROVOD] = "horovod"};

bool gng_as_of(const char *word, enum gng_as *out)
{
    for (size_t i = 0; i < sizeof as_words / sizeof *as_words; i++)
        if (strcmp(word, as_words[i]) == 0) {
            *out = (enum gng_as)i;
            return true;
        }
    return false;
}

const char *gng_as_words(void)
{
    return "torch, tf, horovod, pmi1 or none is wanted";
}

/* "1" behind "ps:"; *at moves behind it. */
static bool role_take(const char **at, const char *name, int most, int *out)
{
    size_t size = strlen(name);
    char  *end;
    if (strncmp(*at, name, size) != 0 || (*at)[size] != ':' || *out)
        return false;
    long count = strtol(*at + size + 1, &end, 10);
    if (end == *at + size + 1 || count < 1 || count > most)
        return false;
    *out = (int)count;
    *at = end;
    return true;
}

bool gng_roles_of(const char *text, struct gng_plan *p)
{
    for (;; text++) {
        if (!role_take(&text, "chief", 1, &p->chiefs) && !role_take(&text, "ps", MT_GANG_RANKS_MAX, &p->servers) &&
            !role_take(&text, "evaluator", 1, &p->evaluators))
            return false;
        if (*text != ',')
            return *text == 0;
    }
}

static bool roles_fit(const struct gng_plan *p, char *why, size_t size)
{
    int named = p->chiefs + p->servers + p->evaluators, least = p->nodes_max ? p->nodes_min * p->per_node : p->ranks;
    if (named && p->as != GNG_AS_TF) {
        snprintf(why, size, "--roles are those of TF_CONFIG: say --as tf");
        return false;
    }
    if (named && named + (p->chiefs == 0) > least) {
        snprintf(why, size, "of %d rank%s --roles leave no %s", least, least == 1 ? "" : "s", p->chiefs ? "chief" : "worker");
        return false;
    }
    return true;
}

static bool nodes_fit(struct gng_plan *p, char *why, size_t size)
{
    if (!p->per_node && p->ranks && p->ranks % p->nodes_max != 0) {
        snprintf(why, size, "%d ranks can't be divided among %d nodes: say --per-node", p->ranks, p->nodes_max);
        return false;
    }
    if (!p->per_node)
        p->per_node = p->ranks ? p->ranks / p->nodes_max : 1;
    if (p->ranks && p->ranks != p->nodes_max * p->per_node) {
        snprintf(why, size, "-n %d is not --nodes %d times --per-node %d: leave -n out", p->ranks, p->nodes_max, p->per_node);
        return false;
    }
    p->ranks = p->nodes_max * p->per_node;
    return true;
}

bool gng_plan_check(struct gng_plan *p, char *why, size_t size)
{
    if (p->per_node && !p->nodes_max && p->ranks % p->per_node != 0) {
        snprintf(why, size, "-n %d is no multiple of --per-node %d", p->ranks, p->per_node);
        return false;
    }
    if (p->per_node && !p->nodes_max)
        p->nodes_min = p->nodes_max = p->ranks ? p->ranks / p->per_node : 1;
    if (p->nodes_max && !nodes_fit(p, why, size))
        return false;
    p->ranks = p->ranks ? p->ranks : 1;
    if (p->ranks > MT_GANG_RANKS_MAX) {
        snprintf(why, size, "%d ranks are more than %d", p->ranks, MT_GANG_RANKS_MAX);
        return false;
    }
    if (gng_plan_reserves(p) && (p->nodes_max ? p->nodes_max : p->ranks) > MT_GANG_BUNDLES_MAX) {
        snprintf(why, size, "%d %s can't be reserved together, at most %d: say --nodes and --per-node, or --cpus 0",
                 p->nodes_max ? p->nodes_max : p->ranks, p->nodes_max ? "nodes" : "ranks", MT_GANG_BUNDLES_MAX);
        return false;
    }
    if (p->renews && (p->as == GNG_AS_PMI1 || p->as == GNG_AS_HOROVOD)) {
        snprintf(why, size, "programs of %s can't take a rank that is started again alone: leave --restart-rank out",
                 p->as == GNG_AS_PMI1 ? "MPI" : "Horovod");
        return false;
    }
    if (p->renews && !p->says_restarts)
        p->max_restarts = MT_GANG_RESTARTS;
    if (!roles_fit(p, why, size))
        return false;
    if (p->bare >= p->ranks || (p->bare >= 0 && p->output_dir)) {
        snprintf(why, size,
                 p->output_dir ? "--stdout-of and --output-dir exclude each other" : "--stdout-of %d: there are ranks 0 to %d",
                 p->bare, p->ranks - 1);
        return false;
    }
    if (p->as == GNG_AS_PMI1 && p->nodes_min != p->nodes_max) {
        snprintf(why, size, "programs of MPI have a fixed number of ranks: --nodes %d:%d is for another --as", p->nodes_min,
                 p->nodes_max);
        return false;
    }
    return true;
}

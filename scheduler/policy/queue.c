/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - see queue.h.
 */
#include "scheduler/policy/queue.h"

int policy_turn_compare(const struct policy_turn *a, const struct policy_turn *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->share < b->share || a->share > b->share)
        return a->share < b->share ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

enum policy_answer policy_after_judge(enum policy_after kind, bool has_succeeded, bool have_all_ended)
{
    if (kind == POLICY_AFTER_OK && !has_succeeded)
        return POLICY_NEVER;
    if (kind == POLICY_AFTER_NOT_OK && !has_succeeded)
        return POLICY_MET;
    if (!have_all_ended)
        return POLICY_NOT_YET;
    return kind == POLICY_AFTER_NOT_OK ? POLICY_NEVER : POLICY_MET;
}

const char *policy_after_text(enum policy_after kind)
{
    return kind == POLICY_AFTER_OK ? "succeeds" : kind == POLICY_AFTER_ANY ? "ends" : "fails";
}

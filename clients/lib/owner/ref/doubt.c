/* SPDX-License-Identifier: Apache-2.0
 *
 * doubt.c - the questions of readers who have missed a value: on their stacks, or left for who reads it next.
 *
 * Owns:   own_extra.left. Thread: the caller's, under the owner lock.
 * Always: each stands in own->doubts until it is ended, or its ref is; of those that are left, one at a ref.
 */
#include "clients/lib/owner/ref/doubt.h"

#include <stdlib.h>

void own_doubt_end(struct own *own, const struct own_doubt *doubt)
{
    struct own_doubt **at = &own->doubts;
    while (*at != doubt)
        at = &(*at)->next;
    *at = doubt->next;
}

/* Where it can't be left, or another reader has left one, the next reader asks anew, or takes that one. */
void own_doubt_leave(struct own *own, const struct own_doubt *doubt, struct own_ref *ref)
{
    struct own_extra *extra = own_extra_get(own, ref);
    own_doubt_end(own, doubt);
    if (!extra || extra->left || !(extra->left = malloc(sizeof *extra->left)))
        return;
    *extra->left = *doubt;
    extra->left->next = own->doubts;
    own->doubts = extra->left;
}

bool own_doubt_is_left(struct own *own, const struct own_ref *ref)
{
    const struct own_extra *extra = own_extra_of(own, ref);
    return extra && extra->left;
}

bool own_doubt_resume(struct own *own, struct own_doubt *doubt, const struct own_ref *ref)
{
    struct own_extra *extra = own_extra_of(own, ref);
    if (!extra || !extra->left)
        return false;
    *doubt = *extra->left;
    own_doubt_forget(own, extra);
    doubt->next = own->doubts;
    own->doubts = doubt;
    return true;
}

void own_doubt_forget(struct own *own, struct own_extra *extra)
{
    if (!extra->left)
        return;
    own_doubt_end(own, extra->left);
    free(extra->left);
    extra->left = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h - a ring of embedded links: in order of insertion, an entry goes out in one step. Private to raylet/.
 */
#ifndef RLT_LIST_H
#define RLT_LIST_H

#include "core/base/status.h"

#include <stdbool.h>

/* A list's head or an entry's link; an entry that is in no list points to itself. */
struct rlt_list {
    struct rlt_list *next, *prev;
};

static inline void rlt_list_init(struct rlt_list *l)
{
    l->next = l->prev = l;
}
static inline bool rlt_list_is_empty(const struct rlt_list *l)
{
    return l->next == l;
}
/* Takes an entry out of its list; nothing happens to one that is in none. */
static inline void rlt_list_out(struct rlt_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    rlt_list_init(link);
}
/* Puts an entry that is in no list, or is to change lists, at the end. */
static inline void rlt_list_append(struct rlt_list *l, struct rlt_list *link)
{
    rlt_list_out(link);
    link->prev = l->prev;
    link->next = l;
    l->prev->next = link;
    l->prev = link;
}
static inline void rlt_list_prepend(struct rlt_list *l, struct rlt_list *link)
{
    rlt_list_out(link); /* it may be the first already */
    rlt_list_append(l->next, link);
}

/* Walks from first to last; the present entry may go out during its turn. */
#define RLT_LIST_EACH(list, link) \
    for (struct rlt_list *link = (list)->next, *link##_next = link->next; link != (list); \
         link = link##_next, link##_next = link->next)

#define rlt_list_first(list, type, member) (rlt_list_is_empty(list) ? NULL : mt_container_of((list)->next, type, member))

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * amounts.h - which amounts of resources there are; "gold=2,silver=0.5": resources of a user's own, and how much of each. The
 * command line, the head and the raylet read the same.
 *
 * Pure functions; nothing is allocated or kept.
 */
#ifndef MT_BASE_AMOUNTS_H
#define MT_BASE_AMOUNTS_H

#include "core/base/limits/raylet.h"
#include "core/base/status.h"

#include <stddef.h>

enum { MT_AMOUNT_NAME_SIZE = 24 };

struct mt_amount {
    char    name[MT_AMOUNT_NAME_SIZE];
    int64_t milli; /* thousandths, at least 1 */
};
struct mt_amounts {
    uint32_t         count;
    struct mt_amount list[MT_RLT_RESOURCES_MAX];
};

/* What is wrong with so much of a resource; NULL: nothing. 0 is none of it; less than the smallest part would be rounded. */
const char *mt_amount_wrong(const char *name, double amount);
/* ... as all that a node has of it: its GPUs are devices. */
const char *mt_amount_wrong_of_node(const char *name, double amount);

/* EINVAL: `text` says what is wrong. */
MT_MUST_USE mt_status mt_amounts_read(const char *amounts, struct mt_amounts *out, char *text, size_t text_size);

#endif

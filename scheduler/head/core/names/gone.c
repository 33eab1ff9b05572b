/* SPDX-License-Identifier: Apache-2.0
 *
 * gone.c - which processes and jobs have ended lately: what comes late in their name is refused.
 */

#include "scheduler/head/core/names/names.h"

bool head_names_is_gone(const struct head *h, uint64_t process)
{
    return mt_recent_find(&h->gone, mt_map_key(process)) != NULL;
}

void head_names_remember_gone(struct head *h, uint64_t process)
{
    if (process != 0 && !head_names_is_gone(h, process))
        mt_recent_put(&h->gone, mt_map_key(process), 0);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * indices.h - the indices of an array, read from text. Any thread.
 */
#ifndef CTL_INDICES_H
#define CTL_INDICES_H

#include "core/proto/manta.pb-c.h"

#include <stddef.h>
#include <stdint.h>

struct ctl_indices {
    Manta__V1__IndexRange *ranges, **list;
    size_t                 size;
    uint32_t               count, most; /* of all ranges; how many may run at a time, 0: all */
};

/* NULL, or what is wrong with the text; ctl_indices_fini follows all the same. */
const char *ctl_indices_read(const char *text, struct ctl_indices *out);
void        ctl_indices_fini(struct ctl_indices *indices);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - segments, regions, and places in them that are free again.
 */
#ifndef CTL_MEMORY_H
#define CTL_MEMORY_H

#include "core/wire/ctl/kind.h"

struct ctl_segment {
    uint32_t segment; /* number on this node */
    uint32_t flags;
    uint64_t size;
};
struct ctl_space {
    uint32_t segment;
    uint32_t generation; /* of the next object at that place */
    uint64_t offset;
};

#endif

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
/* Of CTL_REGION_WANT. */
struct ctl_region_want {
    struct ctl_segment segment;
    uint64_t           owner; /* with LANE_BOARD_FAR in `segment`: the process whose cells it is to hold; else not looked at */
};
/* A value's place has changed: the node of the first one is to go, or is gone, the copy at the second one has become the value. */
struct ctl_moved {
    struct lane_ref from, to; /* `from` as that node knows it: `attempt` (0) and `flags` are the owner's to say */
    int32_t         code;     /* of an answer. EAGAIN: the owner does not know (yet) that the value is at `from` */
    uint32_t        reserved;
};
struct ctl_space {
    uint32_t segment;
    uint32_t generation; /* of the next object at that place */
    uint64_t offset;
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h - placement groups, as they are asked for and told of.
 */
#ifndef CTL_GROUP_H
#define CTL_GROUP_H

#include "core/wire/ctl/kind.h"

/* Placement groups. Each bundle is a ctl_bundle and its resources behind it. */
enum ctl_group_verb {
    CTL_GROUP_NEW = 1,    /* EEXIST: the name is another's. OK: it will be placed; said twice, it is the same one */
    CTL_GROUP_WAIT = 2,   /* OK: it stands; ETIMEDOUT, EUNSCHEDULABLE, EPG_REMOVED */
    CTL_GROUP_FIND = 3,   /* by name, or without one by its id; ENOENT, EPG_REMOVED */
    CTL_GROUP_REMOVE = 4, /* OK also where it is gone already */
};
enum ctl_strategy { CTL_PACK = 0, CTL_SPREAD_OUT = 1, CTL_STRICT_PACK = 2, CTL_STRICT_SPREAD = 3 };
enum { CTL_GROUP_DETACHED = 1, CTL_GROUP_READY = 2 /* in answers */ };
struct ctl_group {
    mt_id    id;
    uint32_t verb;     /* enum ctl_group_verb */
    uint32_t strategy; /* enum ctl_strategy */
    uint32_t flags;    /* CTL_GROUP_... */
    uint32_t bundle_count;
    uint32_t wait_ms; /* WAIT */
    uint32_t reserved;
    char     space[CTL_NAME_SIZE];
    char     name[CTL_NAME_SIZE]; /* "": none */
};
struct ctl_bundle {
    uint32_t node; /* in answers: where it stands; 0: nowhere */
    uint32_t resource_count;
};

#endif

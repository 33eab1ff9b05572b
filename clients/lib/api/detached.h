/* SPDX-License-Identifier: Apache-2.0
 *
 * detached.h - what the creator of a detached actor writes down for its warden, both by the same program.
 */
#ifndef LIB_DETACHED_H
#define LIB_DETACHED_H

#include "core/wire/ctl.h"

enum { DETACHED_VERSION = 3, DETACHED_HERE_MAX = 12 * 1024 /* bytes of values that go with the request itself */ };

/* What the head keeps. Then argc values, unless they are apart, and the ctl_env and strings of its runtime environment,
 * if it has one. A value is as in a record: lane_value, bytes, padding to 8; of an 'r' the bytes are those of the value that
 * the warden is to own, and the flags the letter of its type. */
struct detached {
    uint32_t            version;
    uint32_t            flags, policy, node; /* of the class */
    uint32_t            resource_count;
    uint32_t            is_apart; /* the values stand in the file CTL_VALUES_FILE */
    struct ctl_resource resources[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX];
    uint32_t            create_options;
    int32_t             restarts;
    uint32_t            argc;
    uint32_t            bundle; /* of the placement group, from 1; 0: any */
    mt_id               pg;     /* placement group; zero: none */
    struct ctl_name     name;   /* its actor is the id */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what the files of this room call of one another: file.c < verbs.c.
 */
#ifndef CLI_SCALE_PRIVATE_H
#define CLI_SCALE_PRIVATE_H

#include "clients/cli/scale/scale.h"
#include "core/base/limits/scaler.h"

enum { SCALE_TYPES_MAX = 64, SCALE_PAIRS_MAX = 32, SCALE_TEXT_SIZE = 1024 };

struct scale_pairs { /* settings, or resources */
    size_t               count;
    char                 names[SCALE_PAIRS_MAX][64], values[SCALE_PAIRS_MAX][SCALE_TEXT_SIZE];
    manta_scale_setting  settings[SCALE_PAIRS_MAX];
    manta_scale_resource resources[SCALE_PAIRS_MAX];
};
struct scale_type {
    char               name[64], labels[256];
    struct scale_pairs resources, settings;
    double             idle_s, boot_s; /* < 0: not said */
    bool               learns;         /* what one has is learnt from the first */
    char               zones[MT_SCL_ZONES_MAX][64];
    const char        *zone_list[MT_SCL_ZONES_MAX]; /* of zones[] */
};
struct scale_file {
    manta_scale_cluster cluster;
    char                provider[SCALE_TEXT_SIZE], head_cpus[32]; /* "": not said */
    struct scale_pairs  settings;
    double              idle_s, boot_s; /* of types that say nothing */
    double              consolidate_s;
    int                 floor_line; /* of on_demand_min */
    manta_scale_type    types[SCALE_TYPES_MAX];
    struct scale_type   texts[SCALE_TYPES_MAX]; /* of types[] */
};
/* False: what is wrong, and where, is printed. `out` is large, and zeroed by the caller. */
bool scale_file_read(const char *file, struct scale_file *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - how a raylet tells a driver what its workers print: a CTL_MESSAGE of this subject, from the worker.
 */
#ifndef LANE_OUTPUT_H
#define LANE_OUTPUT_H

#include "core/wire/ctl.h"

enum { LANE_OUTPUT_SUBJECT = 23 }; /* among the subjects of clients/lib/owner/state/message.h */

/* Whole lines follow. */
struct lane_output {
    int32_t  pid;
    uint32_t node;
    char     name[56]; /* of what the worker runs, or ran last */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - metrics in a line of text that another program has printed.
 *
 *   epoch=3 loss=0.25, accuracy=0.9          NAME=NUMBER and nothing else, with blanks, commas or semicolons between
 *   {"step": 3, "loss": 0.25}                one JSON object; what is not a number is left out
 *
 * "step", "epoch", "iteration" or "training_iteration" is the step. Any other line is no metrics. Thread: any.
 */
#ifndef SWP_METRICS_H
#define SWP_METRICS_H

#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SWP_METRICS_MAX = 64 };

struct swp_metric {
    char   name[MT_NAME_BYTES_MAX];
    double value;
};
struct swp_metrics {
    struct swp_metric items[SWP_METRICS_MAX];
    int               count;
    bool              has_step;
    int64_t           step;
};

/* False: the line holds none. */
bool swp_metrics_read(const char *line, size_t size, struct swp_metrics *out);

#endif

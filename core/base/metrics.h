/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - counters and gauges of one process, named by a table, in Prometheus's text form.
 *
 * A program lists its metrics once, numbers them by an enum and keeps the values in an array of u64. Adding is one
 * relaxed atomic operation, from any thread.
 */
#ifndef MT_BASE_METRICS_H
#define MT_BASE_METRICS_H

#include "core/base/buf.h"
#include "core/base/status.h"

enum mt_metric_kind { MT_METRIC_COUNTER, MT_METRIC_GAUGE };

typedef struct mt_metric {
    const char         *name; /* manta_<part>_<what>_<unit>; a counter ends in _total */
    enum mt_metric_kind kind;
    const char         *help; /* one line without '\\' */
} mt_metric;

typedef struct mt_metrics {
    const mt_metric *table;
    uint64_t        *values; /* as many; zeroed by the owner */
    size_t           count;
} mt_metrics;

static inline void mt_metrics_add(mt_metrics *metrics, size_t metric, uint64_t n)
{
    __atomic_fetch_add(&metrics->values[metric], n, __ATOMIC_RELAXED);
}
/* For gauges: what goes up and down. */
static inline void mt_metrics_set(mt_metrics *metrics, size_t metric, uint64_t value)
{
    __atomic_store_n(&metrics->values[metric], value, __ATOMIC_RELAXED);
}
static inline uint64_t mt_metrics_value(const mt_metrics *metrics, size_t metric)
{
    return __atomic_load_n(&metrics->values[metric], __ATOMIC_RELAXED);
}

/* Appends every metric in the text exposition format 0.0.4. `labels` stands between the braces (node="3") and may be
 * "". ENOMEM: a part may have been written. */
MT_MUST_USE mt_status mt_metrics_write(const mt_metrics *metrics, const char *labels, mt_buf *out);

#endif

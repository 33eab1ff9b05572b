/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - writes the text form of a process's metrics. Owns nothing; thread: any.
 */
#include "core/base/metrics.h"

mt_status mt_metrics_write(const mt_metrics *metrics, const char *labels, mt_buf *out)
{
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    for (size_t i = 0; i < metrics->count; i++) {
        const mt_metric *metric = &metrics->table[i];
        MT_TRY(mt_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s%s%s%s %llu\n", metric->name, metric->help, metric->name,
                             metric->kind == MT_METRIC_COUNTER ? "counter" : "gauge", metric->name, open, labels, close,
                             (unsigned long long)mt_metrics_value(metrics, i)));
    }
    return mt_ok();
}

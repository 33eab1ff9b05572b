/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.c - a trial as JSON. See export.h.
 */
#include "sweep/look/export.h"

#include "core/text/json.h"

#include <inttypes.h>
#include <math.h>

mt_status swp_export_real(mt_buf *out, double value)
{
    return isfinite(value) ? mt_json_put_real(out, value) : mt_buf_append(out, "null", 4);
}

mt_status swp_export_head(const manta_sweep_trial *t, mt_buf *out)
{
    MT_TRY(mt_buf_printf(out, "{\"trial\":%" PRId64 ",\"state\":\"%s\",\"value\":", t->number, t->state));
    MT_TRY(swp_export_real(out, t->has_value ? t->value : (double)NAN));
    MT_TRY(mt_buf_printf(out, ",\"step\":%" PRId64 ",\"retries\":%" PRId64 ",\"drawn_s\":%.3f,\"ended_s\":%.3f,\"params\":%s",
                         t->step, t->retries, t->drawn_s, t->ended_s, t->params));
    if (!t->why)
        return mt_ok();
    MT_TRY(mt_buf_printf(out, ",\"why\":"));
    return mt_json_put_text(out, t->why);
}

mt_status swp_export_trial(const manta_sweep_trial *t, mt_buf *out)
{
    MT_TRY(swp_export_head(t, out));
    return mt_buf_append(out, "}", 1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - parts of what manta_sweep_export writes.
 */
#ifndef SWP_EXPORT_H
#define SWP_EXPORT_H

#include "core/base/buf.h"
#include "core/ds/vec.h"
#include "sweep/manta_sweep.h"

/* Appends a number, null where it is not finite. ENOMEM. */
MT_MUST_USE mt_status swp_export_real(mt_buf *out, double value);
/* Appends a trial as the beginning of a JSON object, which the caller closes. ENOMEM. */
MT_MUST_USE mt_status swp_export_head(const manta_sweep_trial *t, mt_buf *out);
/* Appends a trial, without its reports, as a JSON object. ENOMEM. */
MT_MUST_USE mt_status swp_export_trial(const manta_sweep_trial *t, mt_buf *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - parts of what manta_sweep_export writes.
 */
#ifndef SWP_EXPORT_H
#define SWP_EXPORT_H

#include "core/base/buf.h"
#include "core/ds/vec.h"
#include "sweep/manta_sweep.h"

/* Appends a trial, without its reports, as a JSON object. ENOMEM. */
MT_MUST_USE mt_status swp_export_trial(const manta_sweep_trial *t, mt_buf *out);

#endif

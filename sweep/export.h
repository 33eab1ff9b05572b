/* SPDX-License-Identifier: Apache-2.0
 *
 * export.h - parts of what manta_sweep_export writes.
 */
#ifndef SWP_EXPORT_H
#define SWP_EXPORT_H

#include "core/base/buf.h"
#include "core/base/vec.h"
#include "sweep/manta_sweep.h"

/* Appends all trials as a JSON array. ENOMEM. */
MT_MUST_USE mt_status swp_export_trials(const manta_sweep_view *view, mt_buf *out);
/* page.c: the report, one self-contained HTML file. ENOMEM. */
MT_MUST_USE mt_status swp_export_page(const manta_sweep_view *view, FILE *to);

#endif

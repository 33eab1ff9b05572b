/* SPDX-License-Identifier: Apache-2.0
 *
 * page.h - the report of a sweep, one self-contained HTML file: the door of this room. Thread: any.
 */
#ifndef SWP_PAGE_H
#define SWP_PAGE_H

#include "core/base/status.h"
#include "sweep/manta_sweep.h"

#include <stdio.h>

/* ENOMEM; whether the file took it, its stream knows. */
MT_MUST_USE mt_status swp_page_write(const manta_sweep_view *view, FILE *to);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.h - where a sweep lies, and failures as the user reads them. Thread: any.
 */
#ifndef SWP_FOLDER_H
#define SWP_FOLDER_H

#include "core/base/limits/text.h"
#include "core/base/status.h"
#include "sweep/manta_sweep.h"

/* FOLDER of a sweep; nothing is made. `storage` and `name` NULL: the defaults. EINVAL: the name, or the path is too long; ESYS. */
manta_status swp_folder_of(const char *storage, const char *name, char out[MT_PATH_BYTES_MAX], manta_error *e);
/* Fills *e, and returns the code. */
manta_status swp_fail(manta_error *e, manta_status code, const char *format, ...) MT_PRINTF(3, 4);

#endif

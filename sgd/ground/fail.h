/* SPDX-License-Identifier: Apache-2.0
 *
 * fail.h - failures as the user reads them. Thread: any.
 */
#ifndef SGD_FAIL_H
#define SGD_FAIL_H

#include "core/base/status.h"

#include <manta_error.h>

/* Fills *e (which may be NULL), and returns the code. */
manta_status sgd_fail(manta_error *e, manta_status code, const char *format, ...) MT_PRINTF(3, 4);

#endif

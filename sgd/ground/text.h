/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - a status as people read it.
 */
#ifndef SGD_TEXT_H
#define SGD_TEXT_H

#include "core/base/status.h"

enum { SGD_TEXT_BYTES = 384 };

/* What failed, and the system's word for why. Returns `out`. */
const char *sgd_status_text(mt_status st, char out[SGD_TEXT_BYTES]);

#endif

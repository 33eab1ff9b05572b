/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.h - whether this release may use a store (core/base/release.h; docs/design/upgrade.md).
 */
#ifndef HEAD_SCHEMA_H
#define HEAD_SCHEMA_H

#include "core/base/status.h"

enum { HEAD_RELEASE_SIZE = 32 };

/* `needs`: the schema that a reader of the store must know; `release`: who wrote it last, "": 0.1.0, which did not say.
 * EVERSION, with `text`: where, what, and what to do. */
MT_MUST_USE mt_status head_schema_check(const char *where, uint32_t needs, const char *release, char *text, size_t size);
/* What a store needs after this release has written to it: no less than before, since what stood there may stand there still. */
uint32_t head_schema_after(uint32_t needs);

#endif

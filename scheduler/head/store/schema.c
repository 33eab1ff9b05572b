/* SPDX-License-Identifier: Apache-2.0
 *
 * schema.c - see schema.h.
 */
#include "scheduler/head/store/schema.h"

#include "core/base/release.h"

#include <stdio.h>

mt_status head_schema_check(const char *where, uint32_t needs, const char *release, char *text, size_t size)
{
    struct mt_versions known = mt_release.schema;
    if (needs >= known.min && needs <= known.max)
        return mt_ok();
    snprintf(text, size, "%.250s was written by release %.31s and has schema %u; this head (release %s) knows %u to %u: %s", where,
             release[0] ? release : "0.1.0", needs, mt_release.name, known.min, known.max,
             needs > known.max ? "use the release that wrote it or a later one, or restore a backup from before it"
                               : "start a release between the two first, which brings it forward");
    return mt_error(MT_EVERSION, 0, "use the head's store");
}

uint32_t head_schema_after(uint32_t needs)
{
    return needs > mt_release.schema_needs ? needs : mt_release.schema_needs;
}

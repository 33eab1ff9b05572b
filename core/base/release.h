/* SPDX-License-Identifier: Apache-2.0
 *
 * release.h - which release this is, and which others it gets on with (docs/design/upgrade.md).
 *
 * Two numbers, each counted up by whoever changes what it stands for:
 *   wire    what the processes of a cluster say to each other. Each says in its hello the range that it speaks. Both then speak the
 *           highest that both know. Where there is none, that is EVERSION.
 *   schema  what the head's store holds. A store says which schema its reader must know at least.
 */
#ifndef MT_RELEASE_H
#define MT_RELEASE_H

#include <stdint.h>

/* Release 0.1.0 spoke this one. Where it says no version at all, this is meant. */
enum { MT_WIRE_FIRST = 1 };

struct mt_versions {
    uint16_t min, max;
};

struct mt_release {
    const char        *name;         /* for people */
    struct mt_versions wire;         /* spoken, at least what the release before has as its highest */
    struct mt_versions schema;       /* of stores that it can read */
    uint32_t           schema_needs; /* who is to read what it has written must know this schema */
};

/* Of this process. A test links another one before it, and is another release. */
extern const struct mt_release mt_release;

/* The highest that both have; 0: none. */
static inline uint32_t mt_versions_common(struct mt_versions a, struct mt_versions b)
{
    uint32_t max = a.max < b.max ? a.max : b.max;
    return a.min <= max && b.min <= max ? max : 0;
}

#endif

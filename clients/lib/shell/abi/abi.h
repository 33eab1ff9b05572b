/* SPDX-License-Identifier: Apache-2.0
 *
 * abi.h - what the library keeps in the words `library` of a registered manta_entry or manta_actor_type, and options that it
 * does not know.
 *
 * The user's program holds these structs, so their size is that of the first release for ever (docs/design/abi.md). What the
 * library notes in them may change with each release. It is zero until the registration. Thread: any, under the owner lock once
 * main has begun.
 */
#ifndef LIB_ABI_H
#define LIB_ABI_H

#include "clients/lib/manta.h"

struct own_class;

/* Of a manta_entry. `hash` 0: it was never registered. */
struct lib_entry {
    manta_entry      *next;
    uint64_t          hash;
    struct own_class *cache; /* of calls without options */
};

/* Of a manta_actor_type. */
struct lib_type {
    manta_actor_type *next;
    uint64_t          hash;
};

_Static_assert(sizeof(struct lib_entry) <= sizeof(((manta_entry *)0)->library), "the program's words are as many as they are");
_Static_assert(sizeof(struct lib_type) <= sizeof(((manta_actor_type *)0)->library), "likewise");

static inline struct lib_entry *lib_of_entry(const manta_entry *entry)
{
    return (struct lib_entry *)(uintptr_t)entry->library;
}

static inline struct lib_type *lib_of_type(const manta_actor_type *type)
{
    return (struct lib_type *)(uintptr_t)type->library;
}

#endif

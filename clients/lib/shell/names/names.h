/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - remote functions and actor types of this executable, found by name and by hash; and what signatures say.
 *
 * Owns: the two lists, built by constructors before main and constant afterwards. Thread: any.
 */
#ifndef LIB_NAMES_H
#define LIB_NAMES_H

#include "clients/lib/shell/state/state.h"

/* Methods that every actor has. */
#define LIB_END   "manta_actor_end"
#define LIB_QUIET "manta_group_quiet" /* what it has under way */
struct lib_quiet {
    uint64_t begun, submitted; /* methods that it has begun, tasks and calls that it has submitted, ever */
    uint64_t open;             /* what runs or waits in it, beside the question; what it waits for */
};

uint64_t lib_hash(const char *name);
/* Before anything is called: names that two registrations have, and signatures that can't be. EINVAL: *e has the place. */
manta_status      lib_registry_check(manta_error *e);
manta_entry      *lib_entry_find(const char *name);
void              lib_entries_forget_classes(void); /* what calls without options need has changed */
manta_entry      *lib_entry_of_hash(uint64_t hash);
manta_actor_type *lib_actor_type_find(const char *name);
manta_actor_type *lib_actor_type_of_hash(uint64_t hash);
/* By its name, whose hash that is; NULL: the type has none. */
const manta_method *lib_method_find(const manta_actor_type *type, const char *name, uint64_t hash);
const manta_method *lib_method_of_hash(const manta_actor_type *type, uint64_t hash);
/* The one behind `m` in the type's list, the first for NULL; NULL behind the last. */
const manta_method *lib_method_next(const manta_actor_type *type, const manta_method *m);
/* ENOFUNC with the near names. */
void lib_unknown_function(struct own_failure *f, const char *kind, const char *name);
void lib_unknown_method(struct own_failure *f, const char *actor, const manta_actor_type *type, const char *name);

/* ---- signatures: letters of arguments, '>', letters of results, '@' and a concurrency group ---- */
uint32_t lib_result_count(const char *signature);
/* The letter of a value; '*' where the signature does not say. */
char lib_result_letter(const char *signature, uint32_t index);
/* The same of the only one, as manta_ctx.wanted has it. */
char lib_result_wanted(const char *signature);

#endif

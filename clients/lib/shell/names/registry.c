/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c - remote functions and actor types of this executable, found by name and by hash.
 *
 * Owns:   the two lists, built by constructors before main and constant afterwards. Thread: any.
 */
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"

#include "core/base/hash.h"
#include "core/base/reserved.h"
#include "core/text/near.h"

enum { NEAR_MAX = 5, BUCKETS = 1024 };

static manta_entry      *entries;
static manta_actor_type *actor_types;
static manta_entry      *by_hash[BUCKETS]; /* open addressing; what does not fit is found in the list */
static struct known_method {
    uint64_t                hash;
    const manta_actor_type *type; /* NULL: free */
    const manta_method     *method;
} methods[BUCKETS]; /* likewise: each call looks for its method, at both ends */

uint64_t lib_hash(const char *name)
{
    uint64_t h = mt_hash_text(MT_HASH_START, name);
    return h ? h : 1;
}

void manta_register(manta_entry *entry)
{
    size_t at;
    if (!entry || !entry->name)
        return; /* nobody could ever call it */
    lib_of_entry(entry)->hash = lib_hash(entry->name);
    lib_of_entry(entry)->next = entries;
    entries = entry;
    at = lib_of_entry(entry)->hash % BUCKETS;
    for (size_t i = 0; i < BUCKETS; i++, at = (at + 1) % BUCKETS) {
        if (!by_hash[at]) {
            by_hash[at] = entry;
            return;
        }
    }
}

const manta_method *lib_method_next(const manta_actor_type *type, const manta_method *m)
{
    const manta_method *end = type->methods + sizeof type->methods / sizeof type->methods[0];
    m = m ? m + 1 : type->methods;
    return m < end && m->name ? m : NULL;
}

static void method_add(const manta_actor_type *type, const manta_method *method)
{
    uint64_t hash = lib_hash(method->name);
    size_t   at = hash % BUCKETS;
    for (size_t i = 0; i < BUCKETS; i++, at = (at + 1) % BUCKETS) {
        if (methods[at].type)
            continue;
        methods[at] = (struct known_method){hash, type, method};
        return;
    }
}

void manta_register_actor(manta_actor_type *type)
{
    if (!type || !type->name)
        return;
    lib_of_type(type)->hash = lib_hash(type->name);
    lib_of_type(type)->next = actor_types;
    actor_types = type;
    for (const manta_method *m = NULL; (m = lib_method_next(type, m));)
        method_add(type, m);
}

/* ---- what is registered wrong: told by manta_init, since nobody listens before main ---- */

static const char *text_of(const char *text)
{
    return text ? text : "(null)";
}

/* The first letter that a signature may not have there, its end where they are too many; NULL: it is fine. Those of a method may
 * end with a concurrency group. */
static const char *wrong_letter(const char *signature, bool is_method)
{
    const char *letters = "ludbsyrA*";
    bool        is_result = false;
    if (strcspn(signature, "*>@") > MANTA_ARGS_MAX)
        return signature + strlen(signature);
    for (const char *at = signature; *at; at++) {
        bool is_last = !at[1] || at[1] == '>' || (at[1] == '@' && is_method);
        if (*at == '@' && is_method)
            return NULL;
        if (*at == '>' && !is_result) {
            is_result = true;
            letters = "ludbsyv*";
        } else if (!strchr(letters, *at) || (*at == '*' && !is_last)) {
            return at;
        }
    }
    return NULL;
}

static manta_status check_signature(const char *what, const char *name, const char *signature, bool is_method, const char *file,
                                    int line, manta_error *e)
{
    const char *wrong = signature ? wrong_letter(signature, is_method) : "";
    if (!wrong)
        return MANTA_OK;
    if (!signature)
        return lib_error(e, MANTA_EINVAL, "%s %s, defined at %s:%d, has no signature", what, text_of(name), text_of(file), line);
    if (!*wrong)
        return lib_error(e, MANTA_EINVAL, "%s %s, defined at %s:%d, takes %zu arguments, and %d is the most", what, name,
                         text_of(file), line, strcspn(signature, "*>@"), MANTA_ARGS_MAX);
    return lib_error(e, MANTA_EINVAL,
                     "%s %s, defined at %s:%d, has the signature \"%s\", in which '%c' can't stand at place %d: "
                     "arguments are of ludbsyrA, then may come '>' and results of ludbsy, and the last of each may be '*'",
                     what, name, text_of(file), line, signature, *wrong, (int)(wrong - signature) + 1);
}

/* Of one definition that two files have included, as of one that has been registered twice, either will do. */
static bool is_same_place(const char *file, int line, const char *other_file, int other_line)
{
    return file && other_file && line == other_line && strcmp(file, other_file) == 0;
}

static manta_status named_twice(const char *what, const char *name, const char *other_name, const char *file, int line,
                                const char *other_file, int other_line, manta_error *e)
{
    if (strcmp(name, other_name) != 0)
        return lib_error(e, MANTA_EINVAL, "%ss %s (%s:%d) and %s (%s:%d) have one hash: rename one of them", what, name,
                         text_of(file), line, other_name, text_of(other_file), other_line);
    return lib_error(e, MANTA_EINVAL,
                     "two %ss are named %s: %s:%d and %s:%d. A name is the whole program's, static or not: rename "
                     "one of them",
                     what, name, text_of(other_file), other_line, text_of(file), line);
}

static manta_status check_entry(const manta_entry *entry, manta_error *e)
{
    const manta_entry *other = lib_entry_of_hash(lib_of_entry(entry)->hash);
    manta_status       code;
    if (MT_RESERVED_IS_USED(entry))
        return lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, entry->name);
    code = check_signature("remote function", entry->name, entry->signature, false, entry->file, entry->line, e);
    if (code || other == entry)
        return code;
    bool is_one_body = other->run == entry->run || is_same_place(entry->file, entry->line, other->file, other->line);
    if (is_one_body && strcmp(entry->name, other->name) == 0 && other->signature && strcmp(entry->signature, other->signature) == 0)
        return MANTA_OK;
    return named_twice("remote function", entry->name, other->name, entry->file, entry->line, other->file, other->line, e);
}

static manta_status check_methods(const manta_actor_type *type, manta_error *e)
{
    manta_status code = MANTA_OK;
    for (const manta_method *m = NULL; code == MANTA_OK && (m = lib_method_next(type, m));) {
        code = check_signature("method", m->name, m->signature, true, type->file, type->line, e);
        if (code == MANTA_OK && !m->run)
            code = lib_error(e, MANTA_EINVAL, "method %s of actor type %s, defined at %s:%d, has no function", m->name, type->name,
                             text_of(type->file), type->line);
        if (code == MANTA_OK && lib_method_of_hash(type, lib_hash(m->name)) != m)
            code = lib_error(e, MANTA_EINVAL, "actor type %s, defined at %s:%d, has two methods %s", type->name,
                             text_of(type->file), type->line, m->name);
    }
    return code;
}

static manta_status check_actor_type(const manta_actor_type *type, manta_error *e)
{
    const manta_actor_type *other = lib_actor_type_of_hash(lib_of_type(type)->hash);
    manta_status            code = check_signature("actor type", type->name, type->signature, false, type->file, type->line, e);
    if (code == MANTA_OK && MT_RESERVED_IS_USED(type))
        code = lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, type->name);
    if (code == MANTA_OK && !type->create)
        code = lib_error(e, MANTA_EINVAL, "actor type %s, defined at %s:%d, has no create", type->name, text_of(type->file),
                         type->line);
    if (code == MANTA_OK)
        code = check_methods(type, e);
    if (code || other == type || (other->create == type->create && strcmp(other->name, type->name) == 0) ||
        (strcmp(other->name, type->name) == 0 && is_same_place(type->file, type->line, other->file, other->line)))
        return code;
    return named_twice("actor type", type->name, other->name, type->file, type->line, other->file, other->line, e);
}

manta_status lib_registry_check(manta_error *e)
{
    manta_status code = MANTA_OK;
    for (const manta_entry *entry = entries; entry && code == MANTA_OK; entry = lib_of_entry(entry)->next)
        code = entry->run ? check_entry(entry, e)
                          : lib_error(e, MANTA_EINVAL, "remote function %s, defined at %s:%d, has no body", entry->name,
                                      text_of(entry->file), entry->line);
    for (const manta_actor_type *type = actor_types; type && code == MANTA_OK; type = lib_of_type(type)->next)
        code = check_actor_type(type, e);
    return code;
}

void lib_entries_forget_classes(void)
{
    for (manta_entry *entry = entries; entry; entry = lib_of_entry(entry)->next)
        lib_of_entry(entry)->cache = NULL;
}

manta_entry *lib_entry_of_hash(uint64_t hash)
{
    size_t at = hash % BUCKETS;
    for (size_t i = 0; i < BUCKETS && by_hash[at]; i++, at = (at + 1) % BUCKETS)
        if (lib_of_entry(by_hash[at])->hash == hash)
            return by_hash[at];
    for (manta_entry *entry = entries; entry; entry = lib_of_entry(entry)->next)
        if (lib_of_entry(entry)->hash == hash)
            return entry;
    return NULL;
}

manta_entry *lib_entry_find(const char *name)
{
    manta_entry *entry = lib_entry_of_hash(lib_hash(name));
    return entry && strcmp(entry->name, name) == 0 ? entry : NULL;
}

manta_actor_type *lib_actor_type_of_hash(uint64_t hash)
{
    for (manta_actor_type *type = actor_types; type; type = lib_of_type(type)->next)
        if (lib_of_type(type)->hash == hash)
            return type;
    return NULL;
}

manta_actor_type *lib_actor_type_find(const char *name)
{
    return lib_actor_type_of_hash(lib_hash(name));
}

const manta_method *lib_method_find(const manta_actor_type *type, const char *name, uint64_t hash)
{
    const manta_method *method = lib_method_of_hash(type, hash);
    return method && strcmp(method->name, name) == 0 ? method : NULL;
}

const manta_method *lib_method_of_hash(const manta_actor_type *type, uint64_t hash)
{
    size_t at = hash % BUCKETS;
    for (size_t i = 0; i < BUCKETS && methods[at].type; i++, at = (at + 1) % BUCKETS)
        if (methods[at].hash == hash && methods[at].type == type)
            return methods[at].method;
    for (const manta_method *m = NULL; (m = lib_method_next(type, m));)
        if (lib_hash(m->name) == hash)
            return m;
    return NULL;
}

/* ---- near names ---- */

/* The library's own, which nobody calls by name. */
static bool is_ours(const char *name)
{
    return strncmp(name, "manta.", strlen("manta.")) == 0;
}

static void add_near(const char *names[NEAR_MAX], size_t far[NEAR_MAX], const char *wanted, const char *name)
{
    size_t d = mt_letters_apart(wanted, name);
    if (is_ours(name))
        return;
    for (int i = 0; i < NEAR_MAX; i++) {
        if (names[i] && far[i] <= d)
            continue;
        for (int j = NEAR_MAX - 1; j > i; j--) {
            names[j] = names[j - 1];
            far[j] = far[j - 1];
        }
        names[i] = name;
        far[i] = d;
        return;
    }
}

static void say_near(struct own_failure *f, const char *const names[NEAR_MAX], const char *name)
{
    size_t at = strlen(f->message);
    at += (size_t)snprintf(f->message + at, sizeof f->message - at, names[0] ? "nearest:" : "none is registered");
    for (int i = 0; i < NEAR_MAX && names[i] && at < sizeof f->message; i++)
        at += (size_t)snprintf(f->message + at, sizeof f->message - at, " %.60s", names[i]);
    snprintf(f->function, sizeof f->function, "%s", name);
}

void lib_unknown_function(struct own_failure *f, const char *kind, const char *name)
{
    const char *names[NEAR_MAX] = {NULL};
    size_t      far[NEAR_MAX] = {0};
    if (strcmp(kind, "actor type") == 0)
        for (manta_actor_type *type = actor_types; type; type = lib_of_type(type)->next)
            add_near(names, far, name, type->name);
    else
        for (manta_entry *entry = entries; entry; entry = lib_of_entry(entry)->next)
            add_near(names, far, name, entry->name);
    own_failure_set(f, MT_ENOFUNC, "no %s '%.60s' in this executable; ", kind, name);
    say_near(f, names, name);
}

void lib_unknown_method(struct own_failure *f, const char *actor, const manta_actor_type *type, const char *name)
{
    const char *names[NEAR_MAX] = {NULL};
    size_t      far[NEAR_MAX] = {0};
    for (const manta_method *m = NULL; type && (m = lib_method_next(type, m));)
        add_near(names, far, name, m->name);
    own_failure_set(f, MT_ENOFUNC, "actor %.60s has no method '%.60s'; ", actor, name);
    say_near(f, names, name);
}

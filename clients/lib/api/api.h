/* SPDX-License-Identifier: Apache-2.0
 *
 * api.h - what the families of public calls share: arguments, options, calling, putting.
 *
 * Thread: any; under the owner lock unless a line says otherwise.
 */
#ifndef LIB_API_H
#define LIB_API_H

#include "clients/lib/shell/state/state.h"
#include "core/base/limits/head.h"

#include <stdlib.h>

/* ---- actor.c ---- */
/* Calls a method that every actor has (shell/names/names.h). */
manta_ref *lib_call_own(manta_actor *handle, const char *method, int32_t retries);

/* ---- get.c ---- */
/* Waits for the value. Fills *e with its failure. */
manta_status lib_await(struct own_ref *ref, int64_t deadline_ns, int64_t timeout_ms, manta_error *e);

/* ---- args.c ---- */
/* Arguments as the owner half takes them: a few stand here, more in a block of their own. */
enum { LIB_FEW_ARGS = 16 };
struct lib_args {
    struct own_arg       *args;
    void                 *block; /* NULL: `few` is enough */
    struct own_arg        few[LIB_FEW_ARGS];
    struct own_actor_wire few_wires[LIB_FEW_ARGS];
};
/* Checks arguments against a signature (up to '>') and turns them into own_args. ETYPE, EINVAL, ENOMEM into *f. What it has filled
 * goes with lib_args_drop, which may be called in any case where `block` was NULL before. */
bool lib_args(const char *name, const char *signature, int argc, const manta_arg *argv, struct lib_args *out, struct own_failure *f,
              const char *file, int line);
static inline void lib_args_drop(struct lib_args *args)
{
    if (MT_UNLIKELY(args->block != NULL))
        free(args->block);
}
/* Values among the arguments that are too large for a record go through the store, as references. Outside the lock.
 * Returns the arguments to use: argv itself where all are small. */
struct lib_spilled {
    manta_arg  *args; /* NULL: all are small */
    manta_ref **puts;
    int         count;
};
/* How many bytes of values may stand in the record of a call with so many arguments: each that is a reference has room there. */
size_t           lib_inline_total(int argc);
bool             lib_may_spill(int argc, const manta_arg *argv); /* whatever the signature says */
const manta_arg *lib_spill(struct lib_spilled *s, const char *signature, int argc, const manta_arg *argv);
void             lib_spilled_drop(struct lib_spilled *s);
/* How many values the caller wants against how many the signature gives; ETYPE into *f. */
bool lib_results_fit(const char *name, const char *signature, const struct own_call *call, const char *file, int line,
                     struct own_failure *f);

/* ---- options.c: EINVAL, EHANDLE into *f ---- */
struct manta_env { /* what manta_env_new gives */
    uint64_t key;
};
struct manta_pg {
    mt_id                 id;
    bool                  is_removed; /* by this handle */
    struct lib_pg_asking *early;      /* the first wait has been asked for already; NULL: it was answered, or there is none */
    int                   bundle_count;
    uint32_t              at[MT_GROUP_BUNDLES_MAX + 1]; /* of each bundle in `resources`, and where the last one ends */
    struct ctl_resource   resources[MT_GROUP_RESOURCES_MAX];
};
/* Resources of options into a class. */
bool lib_class_spec(struct own_class_spec *spec, double cpus, double gpus, int64_t memory, const manta_resource *resources,
                    int count, struct own_failure *f);
/* Where: node, spread, labels. */
bool lib_class_place(struct own_class_spec *spec, uint32_t node, bool node_soft, bool spread, const char *labels,
                     struct own_failure *f);
/* Its placement group, that of the options or the running task's; after all others of these. */
bool lib_class_group(struct own_class_spec *spec, const manta_pg *pg, int bundle, bool captures, struct own_failure *f);
/* Its environment: the one given, or the job's. */
bool lib_env_key(struct own_class_spec *spec, const manta_env *env, struct own_failure *f);
/* It is bound to CPUs of its own. */
bool lib_class_pin(struct own_class_spec *spec, double cpus, struct own_failure *f);

/* ---- task.c, actor.c: all that comes back may have failed. Take the lock ---- */
/* Submits a task or a method; `call` says how many values are wanted (count, more), or brings the stream. */
manta_ref *lib_call_name(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call);
manta_ref *lib_call_method(manta_actor *actor, const char *method, int argc, const manta_arg *argv, struct own_call *call);
/* Under the lock: submits, once there is room, and wakes whom it must. NULL, and *f, only without memory. */
struct own_ref *lib_submit(const struct own_call *call, struct own_failure *f);

/* ---- object.c ---- */
/* manta_put of a value of another type; of an 's' its NUL belongs to it. Takes the lock. */
manta_ref *lib_put(const void *data, size_t size, char type);

/* ---- detached.c ---- */
/* The lock is released meanwhile: hands the actor over to the head. NULL, and *f. */
struct own_actor *lib_detach(const manta_actor_type *type, const struct own_class_spec *spec, const manta_actor_opts *o,
                             const struct own_call *call, const manta_view *views, struct own_failure *f);
/* Outside the lock; blocks until the references among the arguments have their values: `args` has those in their place where
 * the signature wants a value, and `views` has all of them. NULL: *e. lib_carried_drop either way. */
struct lib_carried {
    manta_arg  args[MANTA_ARGS_MAX];
    manta_view views[MANTA_ARGS_MAX];
    int        count;
};
const manta_arg *lib_carry(struct lib_carried *c, const char *signature, int argc, const manta_arg *argv, manta_error *e);
void             lib_carried_drop(struct lib_carried *c);

#endif

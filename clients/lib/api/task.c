/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c - calling remote functions.
 *
 * Owns:   nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"

#include "core/base/reserved.h"

static bool refs_are_there(const struct own_arg *args, int argc, const char *name, struct own_failure *f)
{
    for (int i = 0; i < argc; i++) {
        if (args[i].ref && args[i].ref->flags & OWN_REF_FREED) {
            own_failure_set(f, MT_EOBJ_LOST, "%s: argument %d was freed by manta_free_now", name, i + 1);
            return false;
        }
    }
    return true;
}

static bool task_spec(struct own_class_spec *spec, const char *name, const manta_task_opts *o, struct own_failure *f)
{
    memset(spec, 0, sizeof *spec);
    spec->name = name;
    if (!lib_env_key(spec, o ? o->env : NULL, f))
        return false;
    if (!o)
        return lib_class_spec(spec, 1, 0, 0, NULL, 0, f) && lib_class_group(spec, NULL, 0, false, f);
    if (!lib_class_place(spec, o->node, o->node_soft, o->spread, o->labels, f))
        return false;
    if (o->no_cpu && o->num_cpus != 0) {
        own_failure_set(f, MT_EINVAL, "%s: no_cpu and num_cpus contradict each other", name);
        return false;
    }
    if (o->pin && !lib_class_pin(spec, o->no_cpu ? 0 : o->num_cpus != 0 ? o->num_cpus : 1, f))
        return false;
    return lib_class_spec(spec,
                          o->no_cpu          ? 0
                          : o->num_cpus != 0 ? o->num_cpus
                                             : 1,
                          o->num_gpus, o->memory, o->resources, o->resource_count, f) &&
           lib_class_group(spec, o->pg, o->bundle, o->pg_capture, f);
}

/* How the task is run, rather than where. */
static bool call_options(struct own_call *call, const manta_task_opts *o, struct own_failure *f)
{
    call->retries = lib_tries(o->max_retries, 3);
    call->retry_on_error = o->retry_on_error;
    call->priority = (int8_t)o->priority;
    call->limits = (struct lane_limits){(uint32_t)o->timeout_ms, (uint32_t)o->max_calls};
    if (MT_RESERVED_IS_USED(o))
        own_failure_set(f, MT_EINVAL, MT_RESERVED_TEXT, call->name);
    else if (o->max_retries < MANTA_NO_RETRY)
        own_failure_set(f, MT_EINVAL, "%s: max_retries %d: it is 0 (3 of them) or more, MANTA_WITHOUT_LIMIT or MANTA_NO_RETRY",
                        call->name, o->max_retries);
    else if (o->priority < -OWN_PRIORITY_MAX || o->priority > OWN_PRIORITY_MAX)
        own_failure_set(f, MT_EINVAL, "%s: priority %d is not within -%d and %d", call->name, o->priority, OWN_PRIORITY_MAX,
                        OWN_PRIORITY_MAX);
    else if (o->timeout_ms < 0 || o->timeout_ms > UINT32_MAX)
        own_failure_set(f, MT_EINVAL, "%s: a timeout_ms of %lld: it is 0 (none) to %u", call->name, (long long)o->timeout_ms,
                        UINT32_MAX);
    else if (o->max_calls < 0)
        own_failure_set(f, MT_EINVAL, "%s: max_calls %d: it is 0 (without limit) or more", call->name, o->max_calls);
    else
        return true;
    return false;
}

/* Submitted work is bounded: more waits here until some is done, except where waiting would be for ourselves. */
static bool has_room(void *arg)
{
    (void)arg;
    return lib.own.queued_bytes < MT_LIB_QUEUED_BYTES_MAX;
}

/* Nothing that makes it another class than without options. */
static bool is_plain(const manta_task_opts *o)
{
    return !o || (o->num_cpus == 0 && o->num_gpus == 0 && !o->memory && !o->resources && !o->resource_count && !o->no_cpu &&
                  !o->pin && !o->node && !o->spread && !o->labels && !o->pg && !o->bundle && !o->pg_capture && !o->env);
}

static struct own_class *class_of(manta_entry *entry, const manta_task_opts *opts, struct own_failure *f)
{
    struct own_class_spec spec;
    struct own_class     *cls;
    bool                  is_usual = is_plain(opts) && !lib.captured.process; /* a group may go */
    if (is_usual && lib_of_entry(entry)->cache)
        return lib_of_entry(entry)->cache;
    if (!task_spec(&spec, entry->name, opts, f))
        return NULL;
    spec.group = 0; /* any function of the executable: what one lease serves differs only by what it needs */
    cls = own_class_get(&lib.own, &spec, (mt_id){0, 0});
    if (!cls)
        own_failure_set(f, MT_ENOMEM, "no memory for a scheduling class");
    if (is_usual)
        lib_of_entry(entry)->cache = cls;
    return cls;
}

struct own_ref *lib_submit(const struct own_call *call, struct own_failure *f)
{
    struct own_ref *ref;
    if (MT_UNLIKELY(lib.own.queued_bytes >= MT_LIB_QUEUED_BYTES_MAX))
        lib_wait_here(has_room, NULL, INT64_MAX);
    /* Tells the event of a task when it was submitted: the helper's tick sets the clock each millisecond while there is
     * work, so it is looked at here for the first task and for each sixteenth. */
    if ((lib.calls++ & 15) == 0 || lib.own.outstanding == 0)
        lib.own.now_ns = lib.own.wall_ns ? lib_now_ns() : lib.own.now_ns;
    if (MT_UNLIKELY(!lib.has_helper))
        lib_helper_start();
    ref = own_submit(&lib.own, call);
    if (MT_UNLIKELY(lib.inlined != NULL))
        lib_inline_run();
    if (lib.own.out.wake_count || lib.own.out.up.size)
        lib_act();
    if (!ref)
        own_failure_set(f, MT_ENOMEM, "no memory for a call of %s", call->name);
    return ref;
}

static manta_ref *call_entry(manta_entry *entry, const manta_task_opts *opts, int argc, const manta_arg *argv,
                             struct own_call *call)
{
    struct lib_args    args;
    struct own_failure f;
    struct own_ref    *ref = NULL;
    manta_ref         *handle;
    struct lib_spilled spilled;
    manta_status       code;
    args.block = NULL;
    argv = lib_spill(&spilled, entry->signature, argc, argv);
    call->function = lib_of_entry(entry)->hash;
    call->name = entry->name;
    call->argc = argc;
    call->kind = LANE_TASK;
    call->retries = 3;
    if (MT_UNLIKELY((code = lib_enter(NULL)) != MANTA_OK)) {
        lib_spilled_drop(&spilled);
        return lib_refused_call(call, code);
    }
    if (lib.broken) {
        manta_error e;
        own_failure_set(&f, lib_check(&e), "%s", e.message);
    } else if ((!opts || call_options(call, opts, &f)) &&
               lib_args(entry->name, entry->signature, argc, argv, &args, &f, entry->file, entry->line) &&
               refs_are_there(call->args = args.args, argc, entry->name, &f) &&
               lib_results_fit(entry->name, entry->signature, call, entry->file, entry->line, &f) &&
               (call->cls = class_of(entry, opts, &f))) {
        ref = lib_submit(call, &f);
    }
    handle = lib_called(call, ref, &f);
    lib_unlock();
    lib_args_drop(&args);
    lib_spilled_drop(&spilled);
    if (!ref)
        lib_refused_pause();
    return handle;
}

manta_ref *manta_call_entry(manta_entry *entry, const manta_task_opts *opts, int argc, const manta_arg *argv)
{
    struct own_call call = {.count = 1};
    if (MT_UNLIKELY(!entry || !lib_of_entry(entry)->hash)) /* not registered */
        return lib_call_name(entry ? entry->name : NULL, opts, argc, argv, &call);
    return call_entry(entry, opts, argc, argv, &call);
}

manta_ref *lib_call_name(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call)
{
    manta_entry       *entry = name ? lib_entry_find(name) : NULL;
    struct own_failure f;
    manta_ref         *handle;
    manta_status       code;
    if (entry)
        return call_entry(entry, opts, argc, argv, call);
    if ((code = lib_enter(NULL)) != MANTA_OK)
        return lib_refused_call(call, code);
    lib_unknown_function(&f, "remote function", name ? name : "(null)");
    handle = lib_called(call, NULL, &f);
    lib_unlock();
    return handle;
}

manta_ref *manta_call(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv)
{
    struct own_call call = {.count = 1};
    return lib_call_name(name, opts, argc, argv, &call);
}

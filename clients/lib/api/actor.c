/* SPDX-License-Identifier: Apache-2.0
 *
 * actor.c - actors and watches for the user.
 *
 * Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/api/detached.h"
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/helper/helper.h"
#include "clients/lib/shell/here/here.h"
#include "clients/lib/shell/inline/inline.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include "core/base/reserved.h"

#include <stdlib.h>

/* Under the lock: a handle with the caller's hold of the actor. Without memory one that stands for the error. */
static manta_actor *handle_of(struct own_actor *actor)
{
    manta_actor *handle = actor ? lib_handle_new(LIB_OF_ACTOR, actor) : NULL;
    if (actor && !handle)
        own_actor_drop(&lib.own, actor);
    return handle ? handle : lib_handle_error(MANTA_ENOMEM);
}

/* A handle that is dead from the start, so that its calls tell the error. */
static manta_actor *dead_actor(const char *name, const struct own_failure *why)
{
    struct own_actor_wire wire = {.id = own_id_next(&lib.own), .owner = lib.own.process, .owner_node = lib.own.node};
    struct own_actor     *actor;
    snprintf(wire.name, sizeof wire.name, "%s", name);
    actor = own_actor_borrow(&lib.own, &wire);
    if (actor && actor->failure) {
        own_failure_free(&lib.own, actor->failure);
        actor->failure = own_failure_new(&lib.own, why);
    }
    return handle_of(actor);
}

static bool actor_spec(struct own_class_spec *spec, const char *name, const manta_actor_opts *o, struct own_failure *f)
{
    memset(spec, 0, sizeof *spec);
    spec->name = name;
    spec->flags = CTL_CLASS_ACTOR | (o && o->strict ? CTL_CLASS_STRICT : 0) | (o && o->for_all_jobs ? CTL_CLASS_FOR_ALL : 0);
    if (!lib_env_key(spec, o ? o->env : NULL, f))
        return false;
    if (!o)
        return lib_class_group(spec, NULL, 0, false, f);
    if (!lib_class_place(spec, o->node, o->node_soft, o->spread, o->labels, f))
        return false;
    if (o->pin && !lib_class_pin(spec, o->num_cpus, f))
        return false;
    if (o->name && (!o->name[0] || strlen(o->name) >= CTL_NAME_SIZE)) {
        own_failure_set(f, MT_EINVAL, "an actor's name has 1 to %d letters", CTL_NAME_SIZE - 1);
        return false;
    }
    return lib_class_spec(spec, o->num_cpus, o->num_gpus, o->memory, o->resources, o->resource_count, f) &&
           lib_class_group(spec, o->pg, o->bundle, o->pg_capture, f);
}

/* Number of a concurrency group, from 1; 0: the default one; < 0: there is none of that name. `name` ends with NUL. */
static int group_of(const manta_actor_type *type, const char *name)
{
    if (!name || !name[0])
        return 0;
    for (int i = 0; i < MT_ACTOR_GROUPS_MAX && type->groups[i].name; i++)
        if (strcmp(type->groups[i].name, name) == 0)
            return i + 1;
    return -1;
}

/* The group behind a signature: "l>l@io". */
static const char *group_name(const manta_method *m)
{
    const char *at = m->signature ? strchr(m->signature, '@') : NULL;
    return at ? at + 1 : NULL;
}

static bool check_concurrency(const manta_actor_type *type, const manta_actor_opts *o, struct own_failure *f)
{
    if (o && (o->max_concurrency < 0 || o->max_concurrency > MT_LIB_CONCURRENCY_MAX || o->max_pending_calls < 0)) {
        own_failure_set(f, MT_EINVAL, "actor %s: max_concurrency %d (want 0 to %d), max_pending_calls %d (want >= 0)", type->name,
                        o->max_concurrency, MT_LIB_CONCURRENCY_MAX, o->max_pending_calls);
        return false;
    }
    for (int i = 0; i < MT_ACTOR_GROUPS_MAX && type->groups[i].name; i++) {
        if (type->groups[i].limit >= 1 && type->groups[i].limit <= MT_LIB_CONCURRENCY_MAX)
            continue;
        own_failure_set(f, MT_EINVAL, "actor %s: concurrency group %s has the limit %d (want 1 to %d)", type->name,
                        type->groups[i].name, type->groups[i].limit, MT_LIB_CONCURRENCY_MAX);
        return false;
    }
    for (const manta_method *m = NULL; (m = lib_method_next(type, m));) {
        if (group_of(type, group_name(m)) >= 0)
            continue;
        own_failure_set(f, MT_EINVAL, "actor %s: method %s is in the concurrency group '%s', which the type has not", type->name,
                        m->name, group_name(m));
        return false;
    }
    return true;
}

static bool check_lifetime(const manta_actor_type *type, const manta_actor_opts *o, struct own_failure *f)
{
    if (!o)
        return true;
    if (MT_RESERVED_IS_USED(o)) {
        own_failure_set(f, MT_EINVAL, MT_RESERVED_TEXT, type->name);
        return false;
    }
    if (o->name_space && (!o->name_space[0] || strlen(o->name_space) >= CTL_NAME_SIZE)) {
        own_failure_set(f, MT_EINVAL, "a name space has 1 to %d letters", CTL_NAME_SIZE - 1);
        return false;
    }
    if (o->detached && !o->name) {
        own_failure_set(f, MT_EINVAL, "actor %s: detached without a name: nobody could ever find it", type->name);
        return false;
    }
    if (o->get_if_exists && !o->name) {
        own_failure_set(f, MT_EINVAL, "actor %s: get_if_exists without a name", type->name);
        return false;
    }
    if (o->save_every < 0 || o->save_every > OWN_CREATE_SAVE_MAX || (o->save_every && (!type->save || !type->load))) {
        own_failure_set(f, MT_EINVAL, "actor %s: save_every %d (want 0 to %d, and a type with save and load)", type->name,
                        o->save_every, OWN_CREATE_SAVE_MAX);
        return false;
    }
    if (o->max_restarts < MANTA_NO_RETRY || o->max_task_retries < MANTA_NO_RETRY || o->max_task_retries > OWN_CALL_RETRIES_MAX) {
        own_failure_set(f, MT_EINVAL,
                        "actor %s: max_restarts %d, max_task_retries %d: they are 0 (none) or more (calls: up to "
                        "%d), MANTA_WITHOUT_LIMIT or MANTA_NO_RETRY",
                        type->name, o->max_restarts, o->max_task_retries, OWN_CALL_RETRIES_MAX);
        return false;
    }
    return true;
}

static bool name_is_settled(void *arg)
{
    const struct own_actor *actor = arg;
    return actor->is_named || actor->state == OWN_ACTOR_DEAD;
}

static manta_actor *actor_new(const char *name, const manta_actor_opts *opts, int argc, const manta_arg *argv,
                              const manta_view *views);

/* Finds the name or makes the actor, until one of them holds: another process may do the same. */
static manta_actor *get_or_make(const char *name, const manta_actor_opts *opts, int argc, const manta_arg *argv,
                                const manta_view *views)
{
    int64_t deadline = lib_deadline(MT_LIB_REQUEST_MS);
    for (;;) {
        manta_error       e;
        struct own_actor *actor;
        manta_actor      *made, *found = manta_actor_find_in(opts->name_space, opts->name, MT_LIB_REQUEST_MS, &e);
        if (found)
            return found;
        made = actor_new(name, opts, argc, argv, views);
        actor = lib_handle_of(made, LIB_OF_ACTOR);
        if (!actor || e.code != MANTA_ENOENT || lib_enter(NULL))
            return made;
        lib_wait_here(name_is_settled, actor, deadline);
        bool is_late = actor->failure && actor->failure->code == MT_EEXIST && (int64_t)lib_now_ns() < deadline;
        lib_unlock();
        if (!is_late)
            return made;
        (void)manta_actor_free(made);
    }
}

static manta_actor *new_or_found(const char *name, const manta_actor_opts *opts, int argc, const manta_arg *argv,
                                 const manta_view *views)
{
    if (opts && opts->get_if_exists && opts->name && lib.role != LIB_NONE && lib_actor_type_find(name))
        return get_or_make(name, opts, argc, argv, views);
    return actor_new(name, opts, argc, argv, views);
}

/* Its references go along as values: they and what this process has in the store die with it. */
static manta_actor *detached_new(const manta_actor_type *type, const manta_actor_opts *opts, int argc, const manta_arg *argv)
{
    struct lib_carried carried;
    struct own_failure f;
    manta_actor       *actor;
    manta_error        e;
    const manta_arg   *args = lib_carry(&carried, type->signature, argc, argv, &e);
    if (args || !argc) {
        actor = new_or_found(type->name, opts, argc, args, carried.views);
    } else {
        manta_status code = lib_enter(NULL);
        own_failure_set(&f, e.code, "actor %s: %s", type->name, e.message);
        actor = code ? lib_handle_error(code) : dead_actor(type->name, &f);
        if (code == MANTA_OK)
            lib_unlock();
    }
    lib_carried_drop(&carried);
    return actor;
}

manta_actor *manta_actor_new(const char *name, const manta_actor_opts *opts, int argc, const manta_arg *argv)
{
    manta_actor_type  *type = name ? lib_actor_type_find(name) : NULL;
    struct lib_spilled spilled = {.args = NULL};
    manta_actor       *actor;
    bool               is_usable = type && lib.role != LIB_NONE;
    if (is_usable && opts && opts->detached && !lib.inlined)
        return detached_new(type, opts, argc, argv);
    if (is_usable)
        argv = lib_spill(&spilled, type->signature, argc, argv);
    actor = new_or_found(name, opts, argc, argv, NULL);
    lib_spilled_drop(&spilled);
    return actor;
}

/* `views`: values of the references, for a detached one. */
static manta_actor *actor_new(const char *name, const manta_actor_opts *opts, int argc, const manta_arg *argv,
                              const manta_view *views)
{
    manta_actor_type     *type = name ? lib_actor_type_find(name) : NULL;
    struct own_class_spec spec;
    struct lib_args       args = {.block = NULL};
    struct own_failure    f;
    struct own_call       call = {.argc = argc};
    struct own_actor     *actor = NULL;
    manta_actor          *handle;
    manta_error           e;
    manta_status          code = lib_enter(NULL);

    if (code)
        return lib_handle_error(code);
    if (lib_check(&e)) {
        own_failure_set(&f, e.code, "%s", e.message);
    } else if (!type) {
        lib_unknown_function(&f, "actor type", name ? name : "(null)");
    } else if (lib.own.class_list.count >= MT_RLT_CLASSES_MAX) {
        own_failure_set(&f, MT_EAGAIN, "this process has %d actors and kinds of task at a time, as many as it may: free some",
                        MT_RLT_CLASSES_MAX);
    } else if (lib_args(type->name, type->signature, argc, argv, &args, &f, type->file, type->line) &&
               actor_spec(&spec, type->name, opts, &f) && check_concurrency(type, opts, &f) && check_lifetime(type, opts, &f) &&
               (!lib.inlined || lib_inline_may_name(opts ? opts->name : NULL, &f))) {
        spec.group = lib_of_type(type)->hash;
        call.function = lib_of_type(type)->hash;
        call.name = type->name;
        call.args = args.args;
        call.create_options = opts && opts->max_concurrency ? (uint32_t)opts->max_concurrency : 1;
        call.create_options |= opts ? (uint32_t)opts->save_every << OWN_CREATE_SAVE_SHIFT : 0;
        lib.calls++;
        lib_helper_start();
        bool is_detached = opts && opts->detached && !lib.inlined;
        if (is_detached)
            actor = lib_detach(type, &spec, opts, &call, views, &f);
        else
            actor = own_actor_new(&lib.own, &spec, opts && opts->name_space ? opts->name_space : lib.name_space,
                                  opts ? opts->name : NULL, opts ? lib_tries(opts->max_restarts, 0) : 0,
                                  opts ? lib_tries(opts->max_task_retries, 0) : 0, &call);
        if (!actor && !is_detached)
            own_failure_set(&f, MT_ENOMEM, "no memory for an actor");
        if (actor && opts) {
            actor->any_order = opts->allow_out_of_order;
            actor->max_pending = (uint32_t)opts->max_pending_calls;
        }
        if (lib.inlined && actor)
            actor->holds += opts && opts->detached; /* it lives as long as its cluster, which is this process */
        if (lib.inlined)
            lib_inline_run();
        lib_act();
    }
    handle = actor ? handle_of(actor) : dead_actor(name ? name : "(null)", &f);
    bool is_refused = lib.broken;
    lib_unlock();
    lib_args_drop(&args);
    if (is_refused)
        lib_refused_pause();
    return handle;
}

/* The call's group, and whether it may be made now; EINVAL, EAGAIN into *f. */
static bool may_call(const struct own_actor *actor, const manta_actor_type *type, const manta_method *m, struct own_call *call,
                     struct own_failure *f)
{
    if (call->retries < MANTA_NO_RETRY) {
        own_failure_set(f, MT_EINVAL,
                        "actor %s: max_retries %d of a call: it is 0 (the actor's max_task_retries) or more, "
                        "MANTA_WITHOUT_LIMIT or MANTA_NO_RETRY",
                        actor->name, call->retries);
        return false;
    }
    if (!type && call->group_name) {
        own_failure_set(f, MT_EINVAL,
                        "actor %s: its class is not in this executable, so neither are its concurrency groups: call "
                        "%s without one",
                        actor->name, m->name);
        return false;
    }
    if (type && (type->groups[0].name || call->group_name)) {
        const char *name = call->group_name ? call->group_name : group_name(m);
        int         group = group_of(type, name);
        if (group < 0) {
            own_failure_set(f, MT_EINVAL, "actor %s has no concurrency group '%.60s'", type->name, name);
            return false;
        }
        call->group = (uint8_t)group;
    }
    if (actor->max_pending) {
        bool is_starting = actor->is_mine && !actor->create; /* its create counts as pending, but is no call */
        if (own_actor_pending(actor) >= actor->max_pending + is_starting) {
            own_failure_set(f, MT_EAGAIN,
                            "actor %s: %u calls of this process are not finished, as many as its "
                            "max_pending_calls allows: wait for some, then call %s again",
                            actor->name, actor->max_pending, m->name);
            return false;
        }
    }
    return true;
}

/* ---- classes of other programs ---- */

static const char any_signature[] = "*>*"; /* arguments as they are given; the actor's own program checks them */

/* What stands for a method of a class that this executable has not: its name. It stays until the process ends, since tasks and
 * events point to it; there are at most MT_LIB_FOREIGN_METHODS_MAX. NULL: *f says why. Under the lock. */
static const manta_method *foreign_method(const char *name, struct own_failure *f)
{
    static struct foreign {
        struct foreign *next;
        manta_method    method;
        char            name[];
    } * known;
    static uint32_t count;
    for (struct foreign *one = known; one; one = one->next)
        if (strcmp(one->name, name) == 0)
            return &one->method;
    size_t          size = strlen(name) + 1;
    struct foreign *one = count < MT_LIB_FOREIGN_METHODS_MAX ? malloc(sizeof *one + size) : NULL;
    if (!one) {
        own_failure_set(f, MT_ENOMEM, "no memory for the method '%.60s' of a class that this executable has not (at most %d names)",
                        name, MT_LIB_FOREIGN_METHODS_MAX);
        return NULL;
    }
    memcpy(one->name, name, size);
    one->method = (manta_method){.name = one->name, .signature = any_signature};
    one->next = known;
    known = one;
    count++;
    return &one->method;
}

/* Under the lock: why nothing can be called on this handle. */
static void no_actor(const manta_actor *handle, struct own_failure *f)
{
    manta_error e;
    lib_handle_wrong(handle, LIB_OF_ACTOR, "a call of an actor", &e);
    own_failure_set(f, e.code, "%s", e.message);
}

/* The signature of that method, as far as it is known here; NULL: there is no such method, or no such actor. */
static const char *signature_of(const manta_actor *handle, const char *method)
{
    const struct own_actor *actor;
    const manta_method     *m = NULL;
    const manta_actor_type *type;
    if (lib_enter(NULL))
        return NULL;
    actor = lib_handle_of(handle, LIB_OF_ACTOR);
    type = actor ? lib_actor_type_of_hash(actor->type) : NULL;
    if (type && method)
        m = lib_method_find(type, method, lib_hash(method));
    lib_unlock();
    return m ? m->signature : actor && !type ? any_signature : NULL;
}

manta_ref *lib_call_method(manta_actor *handle, const char *method, int argc, const manta_arg *argv, struct own_call *call)
{
    struct own_actor       *actor;
    struct lib_args         args;
    struct own_failure      f;
    const manta_actor_type *type;
    const manta_method     *m;
    struct own_ref         *ref = NULL;
    manta_ref              *result;
    struct lib_spilled      spilled = {.args = NULL};
    manta_error             e;
    manta_status            code;

    call->argc = argc;
    call->kind = LANE_CALL;
    args.block = NULL;
    if (MT_UNLIKELY(lib_may_spill(argc, argv))) {
        const char *signature = signature_of(handle, method);
        argv = signature ? lib_spill(&spilled, signature, argc, argv) : argv;
    }
    if (MT_UNLIKELY((code = lib_enter(NULL)) != MANTA_OK)) {
        lib_spilled_drop(&spilled);
        return lib_refused_call(call, code);
    }
    call->actor = actor = lib_handle_of(handle, LIB_OF_ACTOR);
    type = actor ? lib_actor_type_of_hash(actor->type) : NULL;
    call->function = method ? lib_hash(method) : 0;
    m = type && method ? lib_method_find(type, method, call->function) : NULL;
    if (lib_check(&e)) {
        own_failure_set(&f, e.code, "%s", e.message);
    } else if (!actor) {
        no_actor(handle, &f);
    } else if (actor->state == OWN_ACTOR_DEAD && actor->failure) {
        own_actor_failure(actor, method, &f);
    } else if (!method) {
        own_failure_set(&f, MT_EINVAL, "a call of actor %s without the name of a method", actor->name);
    } else if (!m && type) {
        lib_unknown_method(&f, actor->name, type, method);
    } else if ((m || (m = foreign_method(method, &f))) && may_call(actor, type, m, call, &f) &&
               lib_args(m->name, m->signature, argc, argv, &args, &f, type ? type->file : "?", type ? type->line : 0) &&
               lib_results_fit(m->name, m->signature, call, type ? type->file : "?", type ? type->line : 0, &f)) {
        call->name = m->name;
        call->args = args.args;
        call->retries = lib_tries(call->retries, actor->call_retries);
        ref = lib_submit(call, &f);
    }
    result = lib_called(call, ref, &f);
    lib_unlock();
    lib_args_drop(&args);
    lib_spilled_drop(&spilled);
    if (!ref)
        lib_refused_pause();
    return result;
}

manta_ref *manta_actor_call(manta_actor *actor, const char *method, int argc, const manta_arg *argv)
{
    struct own_call call = {.count = 1};
    return lib_call_method(actor, method, argc, argv, &call);
}

manta_ref *manta_actor_call_with(manta_actor *actor, const char *method, const manta_actor_call_opts *opts, int argc,
                                 const manta_arg *argv)
{
    struct own_call call = {.count = 1};
    if (opts && MT_RESERVED_IS_USED(opts))
        return lib_reserved_ref("manta_actor_call_with");
    if (opts) {
        call.group_name = opts->group;
        call.retries = opts->max_retries;
        call.retry_on_error = opts->retry_on_error;
    }
    return lib_call_method(actor, method, argc, argv, &call);
}

manta_ref *lib_call_own(manta_actor *handle, const char *method, int32_t retries)
{
    struct own_actor  *actor;
    struct own_failure f;
    struct own_call    call = {.kind = LANE_CALL, .count = 1, .name = method, .function = lib_hash(method), .retries = retries};
    struct own_ref    *ref = NULL;
    manta_ref         *result;
    manta_error        e;
    manta_status       code = lib_enter(NULL);
    if (code)
        return lib_handle_error(code);
    call.actor = actor = lib_handle_of(handle, LIB_OF_ACTOR);
    if (lib_check(&e))
        own_failure_set(&f, e.code, "%s", e.message);
    else if (!actor)
        no_actor(handle, &f);
    else if (actor->state == OWN_ACTOR_DEAD && actor->failure)
        f = *actor->failure;
    else
        ref = lib_submit(&call, &f);
    result = lib_called(&call, ref, &f);
    ref = lib_ref_in(&lib.own, result);
    if (ref)
        ref->is_heard = 1; /* who lets it go wants the actor to be over or quiet, and so it is if it has failed */
    lib_unlock();
    return result;
}

manta_ref *manta_actor_end(manta_actor *handle)
{
    return lib_call_own(handle, LIB_END, 0);
}

manta_actor *manta_actor_find(const char *name, int64_t timeout_ms, manta_error *e)
{
    return manta_actor_find_in(NULL, name, timeout_ms, e);
}

manta_actor *manta_actor_find_in(const char *name_space, const char *name, int64_t timeout_ms, manta_error *e)
{
    uint8_t               bytes[sizeof(struct ctl_request) + sizeof(struct ctl_name)];
    struct ctl_request    ask = {.op = CTL_OP_NAME_GET};
    struct ctl_name       found = {.name = {0}};
    struct own_actor_wire wire;
    struct lib_request   *request = malloc(sizeof *request);
    struct own_actor     *actor = NULL;
    manta_actor          *handle = NULL;
    manta_status          code;

    if (!request || !name || strlen(name) >= sizeof found.name || (name_space && strlen(name_space) >= sizeof found.space)) {
        free(request);
        lib_error(e, request ? MANTA_EINVAL : MANTA_ENOMEM, "a name of 1 to %d letters is needed", CTL_NAME_SIZE - 1);
        return NULL;
    }
    if (lib_enter(e)) {
        free(request);
        return NULL;
    }
    snprintf(found.space, sizeof found.space, "%s", name_space ? name_space : lib.name_space);
    snprintf(found.name, sizeof found.name, "%s", name);
    memcpy(bytes, &ask, sizeof ask);
    memcpy(bytes + sizeof ask, &found, sizeof found);
    code = lib_check(e);
    if (code == MANTA_OK)
        code = lib_call(request, CTL_REQUEST, bytes, sizeof bytes, timeout_ms, e);
    if (code == MANTA_ENOENT)
        lib_error(e, code, "no actor is named '%s' in the name space '%s'", name, found.space);
    if (code == MANTA_OK && request->size < sizeof(struct ctl_reply) + sizeof found)
        code = lib_error(e, MANTA_EPROTO, "the head's answer brings no actor");
    if (code == MANTA_OK) {
        memcpy(&found, request->payload + sizeof(struct ctl_reply), sizeof found);
        memset(&wire, 0, sizeof wire);
        wire.id = found.actor;
        wire.owner = found.owner;
        wire.owner_node = found.owner_node;
        wire.options = found.flags & CTL_NAME_DETACHED ? OWN_ACTOR_DETACHED : 0;
        memcpy(wire.name, found.type, sizeof wire.name);
        wire.type = lib_hash(wire.name);
        lib_helper_start();
        actor = own_actor_borrow(&lib.own, &wire);
        handle = actor ? lib_handle_new(LIB_OF_ACTOR, actor) : NULL;
        if (!handle)
            lib_error(e, MANTA_ENOMEM, "no memory for an actor handle");
        if (actor && !handle)
            own_actor_drop(&lib.own, actor);
        lib_act();
    }
    lib_unlock();
    free(request);
    return handle;
}

manta_status manta_actor_kill(manta_actor *handle, bool restart)
{
    struct own_actor *actor;
    manta_status      code = handle ? lib_enter(NULL) : MANTA_OK;
    if (!handle || code)
        return code;
    actor = lib_handle_of(handle, LIB_OF_ACTOR);
    if (actor && lib.inlined)
        lib_inline_kill(actor, restart);
    else if (actor)
        own_actor_kill(&lib.own, actor, restart);
    else
        code = lib_handle_wrong(handle, LIB_OF_ACTOR, "manta_actor_kill", NULL);
    lib_act();
    lib_unlock();
    return code;
}

manta_actor *manta_actor_dup(manta_actor *handle)
{
    struct own_actor *actor;
    manta_status      code;
    if (!handle || lib_handle_code(handle))
        return handle;
    if ((code = lib_enter_held(NULL)) != MANTA_OK)
        return lib_handle_error(code);
    actor = lib_handle_of(handle, LIB_OF_ACTOR);
    if (actor)
        actor->holds++;
    handle = actor ? handle_of(actor) : lib_handle_error(MANTA_EHANDLE);
    lib_unlock();
    return handle;
}

manta_status manta_actor_free(manta_actor *handle)
{
    struct own_actor *actor;
    manta_status      code;
    if (!handle || lib_handle_code(handle))
        return MANTA_OK;
    if ((code = lib_enter_held(NULL)) != MANTA_OK)
        return code;
    actor = lib_handle_end(handle, LIB_OF_ACTOR);
    if (actor) {
        own_actor_drop(&lib.own, actor);
        own_actor_tick(&lib.own);
    }
    if (actor && lib_door_is_open()) {
        if (lib.inlined)
            lib_inline_run();
        lib_act();
    }
    lib_unlock();
    return actor ? MANTA_OK : MANTA_EHANDLE;
}

/* ---- watches ---- */

static manta_status watch_add(mt_id subject, struct own_actor *actor, manta_death_fn fn, void *user, uint64_t *out, manta_error *e)
{
    struct lib_watch watch = {.number = ++lib.watch_number, .subject = subject, .actor = actor, .fn = fn, .user = user};
    if (lib.watches.count >= MT_LIB_WATCHES_MAX)
        return lib_error(e, MANTA_EAGAIN, "%d watches are open already", MT_LIB_WATCHES_MAX);
    if (mt_vec_push(&lib.watches, watch).code)
        return lib_error(e, MANTA_ENOMEM, "no memory for a watch");
    if (out)
        *out = watch.number;
    return MANTA_OK;
}

/* It is dead already: that is news for the new watch. */
static void tell_at_once(struct own_actor *actor)
{
    struct own_death news = {.subject = actor->id, .is_actor = true, .incarnation = actor->incarnation};
    news.death.code = MT_EACTOR_DIED;
    if (actor->failure) {
        news.death.pid = actor->failure->pid;
        news.death.node = actor->failure->node;
        news.death.status = actor->failure->signal_number;
        snprintf(news.death.text, sizeof news.death.text, "%s", actor->failure->message);
    }
    lib_news(&news);
}

manta_status manta_actor_watch(manta_actor *handle, manta_death_fn fn, void *user, uint64_t *out_watch, manta_error *e)
{
    struct own_actor *actor;
    manta_status      code;
    if (!handle || !fn)
        return lib_error(e, MANTA_EINVAL, "a watch needs an actor and a function");
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    actor = lib_handle_of(handle, LIB_OF_ACTOR);
    if (code == MANTA_OK && !actor)
        code = lib_handle_wrong(handle, LIB_OF_ACTOR, "manta_actor_watch", e);
    if (code == MANTA_OK)
        code = watch_add(actor->id, actor, fn, user, out_watch, e);
    if (code == MANTA_OK) {
        actor->holds++;
        lib_helper_start();
        own_actor_watch(&lib.own, actor, true);
        if (actor->state == OWN_ACTOR_DEAD)
            tell_at_once(actor);
        lib.calls++;
        lib_act();
    }
    lib_unlock();
    return code;
}

manta_status manta_node_watch(uint32_t node, manta_death_fn fn, void *user, uint64_t *out_watch, manta_error *e)
{
    mt_id        monitor;
    manta_status code;
    if (!node || !fn)
        return lib_error(e, MANTA_EINVAL, "a watch needs a node and a function");
    if ((code = lib_enter(e)) != MANTA_OK)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK) {
        lib_helper_start();
        monitor = own_monitor_node(&lib.own, node);
        code = mt_id_is_zero(monitor) ? lib_error(e, MANTA_ENOMEM, "no memory for a watch")
                                      : watch_add(monitor, NULL, fn, user, out_watch, e);
        lib_act();
    }
    lib_unlock();
    return code;
}

void manta_unwatch(uint64_t number)
{
    if (lib_enter(NULL))
        return;
    for (size_t i = 0; i < lib.watches.count; i++) {
        struct lib_watch watch = lib.watches.data[i];
        if (watch.number != number)
            continue;
        mt_vec_remove(&lib.watches, i);
        if (watch.actor) {
            own_actor_watch(&lib.own, watch.actor, false);
            own_actor_drop(&lib.own, watch.actor);
        } else {
            own_monitor_end(&lib.own, watch.subject);
        }
        lib_act();
        break;
    }
    lib_wait_told(number);
    lib_unlock();
}

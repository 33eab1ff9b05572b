/* SPDX-License-Identifier: Apache-2.0
 *
 * task.c - calling remote functions: arguments against signature, options into classes, results out.
 *
 * Thread: any; takes the owner lock.
 */
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/lib.h"

#include "core/base/reserved.h"
#include "core/text/labels.h"

#include <math.h>
#include <stdlib.h>

/* ---- arguments ---- */

static bool argument(const manta_arg *from, char wanted, struct own_arg *to, struct own_actor_wire *wire)
{
    to->type = wanted;
    to->ref = NULL;
    if (from->type == 'r') {
        to->ref = lib_ref_in(&lib.own, from->r); /* arg_handle has looked */
        return from->r != NULL;
    }
    if (from->type != wanted)
        return false;
    switch (wanted) {
    case 'l':
    case 'u':
    case 'd':
        to->data = &from->l;
        to->size = 8;
        return true;
    case 'b':
        to->data = &from->b;
        to->size = 1;
        return true;
    case 's':
        to->data = from->y.data;
        to->size = from->y.size + 1; /* with its NUL */
        return from->y.data != NULL;
    case 'y':
        to->data = from->y.data;
        to->size = from->y.size;
        return from->y.data != NULL || from->y.size == 0;
    case 'A':
        if (!from->A)
            return false;
        own_actor_wire(lib_handle_of(from->A, LIB_OF_ACTOR), wire);
        to->data = wire;
        to->size = sizeof *wire;
        return true;
    default: return false;
    }
}

/* A reference or an actor among the arguments is one that the user holds; NULL is refused later on. */
static bool arg_handle(const char *name, int number, const manta_arg *from, struct own_failure *f)
{
    bool         is_ref = from->type == 'r', is_there;
    const void  *handle = is_ref ? (const void *)from->r : (const void *)from->A;
    manta_status code;
    if ((!is_ref && from->type != 'A') || !handle)
        return true;
    is_there = is_ref ? lib_ref_in(&lib.own, handle) != NULL : lib_handle_of(handle, LIB_OF_ACTOR) != NULL;
    if (is_there)
        return true;
    code = lib_handle_code(handle);
    if (code)
        own_failure_set(f, code, "%s: argument %d holds an error: %s", name, number, lib_handle_text(code));
    else
        own_failure_set(f, MT_EHANDLE, "%s: argument %d is %s that was freed before, or none", name, number,
                        is_ref ? "a reference" : "an actor");
    snprintf(f->function, sizeof f->function, "%s", name);
    return false;
}

bool lib_args(const char *name, const char *signature, int argc, const manta_arg *argv, struct own_arg *out,
              struct own_actor_wire *wires, struct own_failure *f, const char *file, int line)
{
    const char *end = strpbrk(signature, ">@");
    int         fixed = (int)(end ? (size_t)(end - signature) : strlen(signature));
    bool        more = fixed && signature[fixed - 1] == '*';

    fixed -= more;
    if (argc < 0 || (argc > 0 && !argv)) {
        own_failure_set(f, MT_EINVAL, "%s: %d arguments at %s", name, argc, argv ? "an address" : "NULL");
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    if (argc > MANTA_ARGS_MAX || argc < fixed || (argc > fixed && !more)) {
        own_failure_set(f, MT_ETYPE, "%s takes %s%d arguments (\"%s\"), not %d; defined at %s:%d", name, more ? "at least " : "",
                        fixed, signature, argc, file, line);
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    for (int i = 0; i < argc; i++) {
        char wanted = i < fixed ? signature[i] : argv[i].type == 'r' ? '*' : argv[i].type; /* a reference: as its value */
        if (!arg_handle(name, i + 1, &argv[i], f))
            return false;
        if (argument(&argv[i], wanted, &out[i], &wires[i]))
            continue;
        own_failure_set(f, MT_ETYPE, "%s: argument %d is '%c'%s, want '%c' (\"%s\"); defined at %s:%d", name, i + 1, argv[i].type,
                        argv[i].type == wanted ? " without a value" : "", wanted, signature, file, line);
        snprintf(f->function, sizeof f->function, "%s", name);
        return false;
    }
    return true;
}

/* ---- arguments too large for a record ---- */

enum { SPILL_TOTAL = 12 * 1024 }; /* of values inline in one record */

/* Which of the first `argc` values go through the store; how many. */
static int choose_large(const char *signature, int argc, const manta_arg *argv, bool *is_large)
{
    size_t total = 0;
    int    count = 0;
    for (int i = 0; i < argc; i++) {
        char type = argv[i].type, wanted = *signature;
        is_large[i] = false;
        signature += wanted && wanted != '>' && wanted != '*';
        if ((type != 's' && type != 'y') || (wanted != type && wanted != '*') || !argv[i].y.data)
            continue;
        is_large[i] = argv[i].y.size >= MANTA_INLINE_MAX || total + argv[i].y.size > SPILL_TOTAL;
        total += is_large[i] ? 0 : argv[i].y.size;
        count += is_large[i];
    }
    return count;
}

bool lib_may_spill(int argc, const manta_arg *argv)
{
    bool is_large[MANTA_ARGS_MAX];
    return argv && argc > 0 && argc <= MANTA_ARGS_MAX && choose_large("*", argc, argv, is_large) > 0;
}

const manta_arg *lib_spill(struct lib_spilled *s, const char *signature, int argc, const manta_arg *argv)
{
    bool is_large[MANTA_ARGS_MAX];
    s->count = 0;
    if (!argv || argc < 0 || argc > MANTA_ARGS_MAX || choose_large(signature, argc, argv, is_large) == 0)
        return argv;
    for (int i = 0; i < argc; i++) {
        s->args[i] = argv[i];
        if (!is_large[i])
            continue;
        s->puts[s->count] = lib_put(argv[i].y.data, argv[i].y.size + (argv[i].type == 's'), argv[i].type);
        s->args[i] = manta_ref_arg(s->puts[s->count++]);
    }
    return s->args;
}

void lib_spilled_drop(struct lib_spilled *s)
{
    for (int i = 0; i < s->count; i++)
        manta_free(s->puts[i]);
}

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

/* ---- options ---- */

static bool add_resource(struct own_class_spec *spec, const char *name, double amount, double unit, struct own_failure *f)
{
    struct ctl_resource *to = &spec->resources[spec->resource_count];
    if (!name || !name[0] || strlen(name) >= sizeof to->name) {
        own_failure_set(f, MT_EINVAL, "a resource's name has 1 to %d letters", (int)sizeof to->name - 1);
        return false;
    }
    if (!(amount > 0) || !isfinite(amount) || amount * unit > 9e15 || amount * unit < 1) {
        own_failure_set(f, MT_EINVAL, "resource %s: %g is not an amount: it must be positive (at least %g)", name, amount,
                        1 / unit);
        return false;
    }
    if (spec->resource_count == CTL_RESOURCES) {
        own_failure_set(f, MT_EINVAL, "a task needs at most %d kinds of resource", CTL_RESOURCES);
        return false;
    }
    snprintf(to->name, sizeof to->name, "%s", name);
    to->milli = (int64_t)(amount * unit + 0.5);
    spec->resource_count++;
    return true;
}

bool lib_class_spec(struct own_class_spec *spec, double cpus, double gpus, int64_t memory, const manta_resource *resources,
                    int count, struct own_failure *f)
{
    if (cpus != 0 && !add_resource(spec, "CPU", cpus, 1000, f))
        return false;
    if (gpus != 0 && !add_resource(spec, "GPU", gpus, 1000, f))
        return false;
    if (memory != 0 && !add_resource(spec, "memory", (double)memory, 1, f))
        return false;
    if (count < 0 || (count && !resources)) {
        own_failure_set(f, MT_EINVAL, "%d resources at %s", count, resources ? "an address" : "NULL");
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!add_resource(spec, resources[i].name, resources[i].amount,
                          resources[i].name && strcmp(resources[i].name, "memory") == 0 ? 1 : 1000, f))
            return false;
    return true;
}

/* Whole CPUs can be had for oneself. */
bool lib_class_pin(struct own_class_spec *spec, double cpus, struct own_failure *f)
{
    spec->flags |= CTL_CLASS_PIN;
    if (cpus >= 1 && cpus <= MT_CPUS_MAX && cpus == (int)cpus)
        return true;
    own_failure_set(f, MT_EINVAL, "%s: pin binds to whole CPUs, and num_cpus is %g", spec->name, cpus);
    return false;
}

bool lib_class_place(struct own_class_spec *spec, uint32_t node, bool node_soft, bool spread, const char *labels,
                     struct own_failure *f)
{
    char text[2 * MT_LABELS_BYTES_MAX];
    spec->policy = node ? (node_soft ? CTL_NODE_SOFT : CTL_NODE) : spread ? CTL_SPREAD : CTL_HYBRID;
    spec->node = node;
    spec->labels = labels;
    if (!labels || mt_selector_check(labels, text, sizeof text).code == 0)
        return true;
    own_failure_set(f, MT_EINVAL, "%s: %s", spec->name, text);
    return false;
}

bool lib_class_group(struct own_class_spec *spec, const manta_pg *handle, int bundle, bool captures, struct own_failure *f)
{
    char                   text[256];
    const struct manta_pg *pg = lib_handle_of(handle, LIB_OF_PG);
    bool                   is_placed = spec->policy != CTL_HYBRID || (spec->labels && spec->labels[0]);
    if (handle && !pg) {
        own_failure_set(f, MT_EHANDLE, "%s: its placement group's handle was freed before, or is none", spec->name);
        return false;
    }
    if (!pg && (bundle || captures)) {
        own_failure_set(f, MT_EINVAL, "%s: %s without a placement group", spec->name, bundle ? "a bundle" : "pg_capture");
        return false;
    }
    if (!pg && (is_placed || !lib.captured.process))
        return true;
    if (!pg) { /* the running task's */
        spec->pg = lib.captured;
        spec->flags |= CTL_CLASS_CAPTURE;
        return true;
    }
    if (is_placed) {
        own_failure_set(f, MT_EINVAL, "%s: a placement group says where it runs: node, spread and labels can't be given as well",
                        spec->name);
        return false;
    }
    if (pg->is_removed) {
        own_failure_set(f, MT_EPG_REMOVED, "%s: its placement group was removed before", spec->name);
        return false;
    }
    spec->pg = pg->id;
    spec->bundle = (uint32_t)bundle;
    spec->flags |= captures ? CTL_CLASS_CAPTURE : 0;
    if (lib_pg_could_hold(pg, bundle, spec, text, sizeof text))
        return true;
    own_failure_set(f, MT_EINVAL, "%s: %s", spec->name, text);
    return false;
}

static bool task_spec(struct own_class_spec *spec, const char *name, const manta_task_opts *o, struct own_failure *f)
{
    memset(spec, 0, sizeof *spec);
    spec->name = name;
    if (!lib_env_key(spec, o ? o->env : NULL, f))
        return false;
    if (!o)
        return add_resource(spec, "CPU", 1, 1000, f) && lib_class_group(spec, NULL, 0, false, f);
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

/* ---- calling ---- */

manta_ref *lib_failed_ref(const struct own_failure *f)
{
    struct own_ref *ref = own_ref_failed(&lib.own, f);
    return ref ? lib_handle_ref(&lib.own, ref) : lib_handle_error(MANTA_ENOMEM);
}

manta_ref *lib_reserved_ref(const char *call)
{
    struct own_failure f;
    manta_ref         *handle;
    manta_status       code = lib_enter(NULL);
    if (code)
        return lib_handle_error(code);
    own_failure_set(&f, MT_EINVAL, MT_RESERVED_TEXT, call);
    handle = lib_failed_ref(&f);
    lib_unlock();
    return handle;
}

manta_ref *lib_refused_call(const struct own_call *call, manta_status code)
{
    if (code == MANTA_ECONN)
        lib_refused_pause();
    for (uint32_t i = 0; i + 1 < call->count; i++)
        ((manta_ref **)call->more)[i] = lib_handle_error(code);
    return lib_handle_error(code);
}

manta_ref *lib_called(const struct own_call *call, struct own_ref *ref, const struct own_failure *f)
{
    manta_ref **more = (manta_ref **)call->more;
    if (call->stream) {
        if (!ref)
            call->stream->end = own_ref_failed(&lib.own, f);
        else if (ref->holds > 1)
            own_ref_drop(&lib.own, ref); /* it is the stream's end, which has a hold of its own */
        return NULL;
    }
    for (uint32_t i = 0; i + 1 < call->count; i++)
        more[i] = ref ? lib_handle_ref(&lib.own, call->more[i]) : lib_failed_ref(f);
    return ref ? lib_handle_ref(&lib.own, ref) : lib_failed_ref(f);
}

/* Submitted work is bounded: more waits here until some is done, except where waiting would be for ourselves. */
static bool has_room(void *arg)
{
    (void)arg;
    return lib.own.queued_bytes < MT_LIB_QUEUED_BYTES_MAX;
}

static struct own_class *class_of(manta_entry *entry, const manta_task_opts *opts, struct own_failure *f)
{
    struct own_class_spec spec;
    struct own_class     *cls;
    if (!opts && lib_of_entry(entry)->cache)
        return lib_of_entry(entry)->cache;
    if (!task_spec(&spec, entry->name, opts, f))
        return NULL;
    spec.group = 0; /* any function of the executable: what one lease serves differs only by what it needs */
    cls = own_class_get(&lib.own, &spec, (mt_id){0, 0});
    if (!cls)
        own_failure_set(f, MT_ENOMEM, "no memory for a scheduling class");
    if (!opts && !spec.pg.process) /* of a group it may go */
        lib_of_entry(entry)->cache = cls;
    return cls;
}

struct own_ref *lib_submit(const struct own_call *call, struct own_failure *f)
{
    struct own_ref *ref;
    if (MT_UNLIKELY(lib.own.queued_bytes >= MT_LIB_QUEUED_BYTES_MAX))
        lib_wait(has_room, NULL, INT64_MAX);
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

bool lib_results_fit(const char *name, const char *signature, const struct own_call *call, const char *file, int line,
                     struct own_failure *f)
{
    const char *letters = strchr(signature, '>');
    uint32_t    gives, wants = call->count ? call->count : 1;
    bool        any;
    if (MT_LIKELY(wants == 1 && !call->stream && (!letters || !letters[1] || !letters[2])))
        return true;
    any = strchr(letters ? letters : "", '*') != NULL;
    gives = lib_result_count(signature);
    if (call->stream && gives > 1 && !any)
        own_failure_set(f, MT_ETYPE, "%s returns %u values (\"%s\"): items of a generator have one type; defined at %s:%d", name,
                        gives, signature, file, line);
    else if (!call->stream && wants != (gives ? gives : 1) && !any)
        own_failure_set(f, MT_ETYPE, "%s returns %u value%s (\"%s\"), not %u: use manta_call_n; defined at %s:%d", name, gives,
                        gives == 1 ? "" : "s", signature, wants, file, line);
    else
        return true;
    snprintf(f->function, sizeof f->function, "%s", name);
    return false;
}

manta_ref *lib_call_task(manta_entry *entry, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call)
{
    struct own_arg        args[MANTA_ARGS_MAX];
    struct own_actor_wire wires[MANTA_ARGS_MAX];
    struct own_failure    f;
    struct own_ref       *ref = NULL;
    manta_ref            *handle;
    struct lib_spilled    spilled;
    manta_status          code;
    argv = lib_spill(&spilled, entry->signature, argc, argv);
    call->function = lib_of_entry(entry)->hash;
    call->name = entry->name;
    call->argc = argc;
    call->args = args;
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
               lib_args(entry->name, entry->signature, argc, argv, args, wires, &f, entry->file, entry->line) &&
               refs_are_there(args, argc, entry->name, &f) &&
               lib_results_fit(entry->name, entry->signature, call, entry->file, entry->line, &f) &&
               (call->cls = class_of(entry, opts, &f))) {
        ref = lib_submit(call, &f);
    }
    handle = lib_called(call, ref, &f);
    lib_unlock();
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
    return lib_call_task(entry, opts, argc, argv, &call);
}

manta_ref *lib_call_name(const char *name, const manta_task_opts *opts, int argc, const manta_arg *argv, struct own_call *call)
{
    manta_entry       *entry = name ? lib_entry_find(name) : NULL;
    struct own_failure f;
    manta_ref         *handle;
    manta_status       code;
    if (entry)
        return lib_call_task(entry, opts, argc, argv, call);
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

/* ---- results ---- */

/* Takes the lock, where there is such a reference; after manta_shutdown too. */
static manta_status enter_with(manta_ref *handle, const char *call, struct own_ref **out, manta_error *e)
{
    manta_status code = lib_enter_held(e);
    if (MT_UNLIKELY(code != MANTA_OK))
        return code;
    *out = lib_ref_in(&lib.own, handle);
    if (MT_LIKELY(*out != NULL))
        return MANTA_OK;
    code = lib_handle_wrong(handle, LIB_OF_REF, call, e);
    lib_unlock();
    return code;
}

static bool ref_is_ready(void *arg)
{
    return own_ref_is_ready(arg) || lib_run_is_over();
}

static bool wait_is_over(void *arg)
{
    const struct own_wait *wait = arg;
    return own_ref_is_ready(wait->ref) || wait->is_deadlocked || lib_run_is_over();
}

static bool wait_is_over_or_ours(void *arg)
{
    const struct own_wait *wait = arg;
    return wait_is_over(arg) || lib_here_may_run(wait->ref);
}

/* A worker's one thread that runs tasks is watched for waiting in a circle; other threads have others beside them. */
static bool wait_for_ref(struct own_ref *ref, int64_t deadline_ns, manta_status *code, manta_error *e)
{
    struct own_wait wait;
    bool            is_over, is_ours, may_run = deadline_ns == INT64_MAX; /* what we run ourselves might take longer than that */
    if (!lib_running || lib.wrk.group_count)
        return lib_wait(ref_is_ready, ref, deadline_ns) && own_ref_is_ready(ref);
    own_wait_begin(&lib.own, &wait, ref, lib_running->name);
    do {
        is_over = lib_wait(may_run ? wait_is_over_or_ours : wait_is_over, &wait, deadline_ns);
        is_ours = is_over && !wait_is_over(&wait);
        may_run = is_ours && lib_here_run(ref);
    } while (is_ours);
    own_wait_end(&lib.own, &wait);
    if (is_over && !own_ref_is_ready(ref) && wait.is_deadlocked)
        *code = lib_error_failure(e, &wait.failure, ref->id);
    return own_ref_is_ready(ref) || wait.is_deadlocked;
}

manta_status lib_error_outcome_lost(const struct own_ref *ref, manta_error *e)
{
    const struct own_task *task = ref->task;
    struct own_failure     f = {.code = lib.broken, .outcome = MANTA_UNKNOWN, .node = lib.own.node};
    if (task) {
        f.outcome = own_task_withdraw(task) ? MANTA_NOT_DONE : MANTA_UNKNOWN;
        f.attempt = task->attempt;
        own_task_name(task, f.function, sizeof f.function);
    }
    snprintf(f.message, sizeof f.message, "%s %s: %s", task ? f.function : "what makes this value",
             f.outcome ? "may have run, and its outcome is lost" : "did not begin, and will not", lib.broken_text);
    return lib_error_failure(e, &f, ref->id);
}

/* Inside the lock: waits for the value. Fills *e with its failure. */
static manta_status await(struct own_ref *ref, int64_t deadline_ns, int64_t timeout_ms, manta_error *e)
{
    if (!own_ref_is_ready(ref)) {
        own_ref_ask(&lib.own, ref);
        if (!lib_may_wait())
            return lib_error(e, MANTA_EDEADLK, "the value is not there, and a callback may not wait for it");
        manta_status code = MANTA_OK;
        if (!wait_for_ref(ref, lib_deadline_of_run(deadline_ns), &code, e)) {
            if (lib.broken)
                return lib_error_outcome_lost(ref, e);
            if (lib_run_is_over())
                return lib_error_run_over(e);
            if (lib.inlined)
                return lib_error(e, MANTA_EDEADLK, "MANTA_INLINE=1: what would make this value waits for the caller itself");
            code = lib_error(e, MANTA_ETIMEDOUT, "the value was not there within %lld ms%s%s", (long long)timeout_ms,
                             ref->task ? ": waiting for " : "", ref->task ? ref->task->name : "");
            if (e)
                e->outcome = MANTA_UNKNOWN; /* it goes on */
            return code;
        }
        if (code)
            return code;
    }
    if (ref->state == OWN_REF_FAILED)
        return lib_error_failure(e, ref->value.failure, ref->id);
    if (ref->flags & OWN_REF_FREED) {
        struct own_failure freed;
        own_failure_freed(&freed);
        return lib_error_failure(e, &freed, ref->id);
    }
    return MANTA_OK;
}

manta_status manta_get(manta_ref *handle, int64_t timeout_ms, manta_view *out, manta_error *e)
{
    struct own_ref *ref;
    int64_t         deadline = lib_deadline(timeout_ms);
    manta_status    code;

    if (!handle || !out)
        return lib_error(e, MANTA_EINVAL, "manta_get of NULL, or without a place for the value");
    memset(out, 0, sizeof *out);
    if ((code = enter_with(handle, "manta_get", &ref, e)) != MANTA_OK)
        return code;
    ref->holds++; /* another thread may free the handle while we wait */
    code = await(ref, deadline, timeout_ms, e);
    if (code == MANTA_OK)
        code = lib_view(ref, out, deadline, e);
    if (MT_UNLIKELY(--ref->holds == 0))
        own_ref_unheld(&lib.own, ref);
    lib_unlock();
    return code;
}

static manta_status get_scalar(manta_ref *handle, char type, size_t size, int64_t timeout_ms, void *out, manta_error *e)
{
    struct own_ref *ref;
    manta_status    code;
    if (!handle || !out)
        return lib_error(e, MANTA_EINVAL, "manta_get of NULL, or without a place for the value");
    if ((code = enter_with(handle, "manta_get", &ref, e)) != MANTA_OK)
        return code;
    if (MT_LIKELY(ref->state == OWN_REF_INLINE && ref->type == type && ref->size == size && !(ref->flags & OWN_REF_FREED))) {
        memcpy(out, own_ref_bytes(ref), size); /* it is there */
        lib_unlock();
        return MANTA_OK;
    }
    ref->holds++; /* another thread may free the handle while we wait */
    code = await(ref, lib_deadline(timeout_ms), timeout_ms, e);
    if (code == MANTA_OK) {
        if (ref->type == type && ref->state == OWN_REF_INLINE && ref->size == size)
            memcpy(out, own_ref_bytes(ref), size);
        else
            code = lib_error(e, MANTA_ETYPE, "the value is '%c', not '%c'", ref->type, type);
    }
    if (MT_UNLIKELY(--ref->holds == 0))
        own_ref_unheld(&lib.own, ref);
    lib_unlock();
    return code;
}

manta_status manta_get_i64(manta_ref *ref, int64_t timeout_ms, int64_t *out, manta_error *e)
{
    return get_scalar(ref, 'l', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_u64(manta_ref *ref, int64_t timeout_ms, uint64_t *out, manta_error *e)
{
    return get_scalar(ref, 'u', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_f64(manta_ref *ref, int64_t timeout_ms, double *out, manta_error *e)
{
    return get_scalar(ref, 'd', sizeof *out, timeout_ms, out, e);
}
manta_status manta_get_bool(manta_ref *ref, int64_t timeout_ms, bool *out, manta_error *e)
{
    return get_scalar(ref, 'b', sizeof *out, timeout_ms, out, e);
}

struct wait_many {
    struct own_ref **refs; /* NULL: a handle that stands for an error, which is ready */
    size_t           count, want, first_pending;
};

/* Slabs stay, so one that another thread has freed meanwhile may be read; who does that gets no promise. */
static inline bool is_ready_or_error(const struct own_ref *ref)
{
    return !ref || own_ref_is_ready(ref);
}

static bool enough_ready(void *arg)
{
    struct wait_many *w = arg;
    size_t            ready = w->first_pending;
    for (size_t i = w->first_pending; i < w->count && ready < w->want; i++)
        ready += is_ready_or_error(w->refs[i]);
    while (w->first_pending < w->count && is_ready_or_error(w->refs[w->first_pending]))
        w->first_pending++; /* a prefix that is ready stays ready: it is counted once */
    return ready >= w->want || lib_run_is_over();
}

/* Under the lock: what the handles name. */
static manta_status wait_for_these(manta_ref *const *handles, struct wait_many *w, manta_error *e)
{
    char call[48];
    for (size_t i = 0; i < w->count; i++) {
        struct own_ref *ref = w->refs[i] = lib_ref_in(&lib.own, handles[i]);
        if (MT_UNLIKELY(!ref && !lib_handle_code(handles[i]))) {
            snprintf(call, sizeof call, "manta_wait, reference %zu", i);
            return lib_handle_wrong(handles[i], LIB_OF_REF, call, e);
        }
        if (MT_UNLIKELY(ref && ref->flags & OWN_REF_BORROWED))
            own_ref_ask(&lib.own, ref);
    }
    return lib_check(e);
}

/* Under the lock. How many are ready, or -code. */
static int wait_many(struct wait_many *w, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    int n = 0;
    lib_wait(enough_ready, w, lib_deadline_of_run(lib_deadline(timeout_ms)));
    for (size_t i = 0; i < w->count; i++) {
        bool is_ready = is_ready_or_error(w->refs[i]);
        if (ready)
            ready[i] = is_ready;
        n += is_ready;
    }
    return lib.broken ? -lib_error_broken(e) : n;
}

int manta_wait(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, unsigned char *ready, manta_error *e)
{
    struct own_ref  *few[64];
    struct wait_many w = {few, count, want, 0};
    manta_status     code;
    int              n;
    if (count && !refs)
        return -lib_error(e, MANTA_EINVAL, "manta_wait for %zu references at NULL", count);
    if (want > count)
        return -lib_error(e, MANTA_EINVAL, "manta_wait for %zu of %zu references", want, count);
    if (count > sizeof few / sizeof few[0] && !(w.refs = count < SIZE_MAX / sizeof few[0] ? malloc(count * sizeof few[0]) : NULL))
        return -lib_error(e, MANTA_ENOMEM, "no memory to wait for %zu references", count);
    code = lib_enter(e);
    n = -code;
    if (code == MANTA_OK) {
        code = wait_for_these(refs, &w, e);
        n = code ? -code : wait_many(&w, timeout_ms, ready, e);
        lib_unlock();
    }
    if (w.refs != few)
        free(w.refs);
    return n;
}

manta_ref *manta_dup(manta_ref *handle)
{
    struct own_ref *ref;
    manta_status    code;
    if (!handle || lib_handle_code(handle))
        return handle;
    if ((code = lib_enter_held(NULL)) != MANTA_OK)
        return lib_handle_error(code);
    ref = lib_ref_in(&lib.own, handle);
    if (ref) {
        own_ref_hold(ref);
        handle = lib_handle_ref(&lib.own, ref);
    } else {
        handle = lib_handle_error(MANTA_EHANDLE);
    }
    lib_unlock();
    return handle;
}

manta_status manta_free(manta_ref *handle)
{
    manta_status code;
    if (!handle || lib_handle_code(handle))
        return MANTA_OK;
    code = lib_enter_held(NULL);
    if (MT_UNLIKELY(code != MANTA_OK))
        return code;
    code = lib_ref_end(&lib.own, handle) ? MANTA_OK : MANTA_EHANDLE;
    if (lib.own.out.up.size && lib_door_is_open())
        lib_act();
    lib_unlock();
    return code;
}

void manta_progress(void)
{
    if (lib_enter(NULL))
        return;
    lib.calls++;
    lib_pump();
    lib_run_news();
    lib_run_callbacks();
    lib_events_seen();
    lib_unlock();
}

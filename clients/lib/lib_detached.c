/* SPDX-License-Identifier: Apache-2.0
 *
 * lib_detached.c - detached actors: handing one over to the head, and the warden that the head starts for it.
 *
 * Owns:   nothing outside of its calls. Thread: any under the owner lock; a warden's main one.
 *
 * The creator writes down what own_actor_new would need, values and all. The head keeps that, starts this very program
 * again on some node, and there manta_init finds it in the environment, makes the actor, and waits for its end.
 */
#include "clients/lib/lib.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { DETACHED_VERSION = 1, DETACHED_VALUES_MAX = 12 * 1024 };

/* What the head keeps for the warden; then argc values as in a record: lane_value, bytes, padding to 8. */
struct detached {
    uint32_t            version;
    uint32_t            flags, policy, node; /* of the class */
    uint32_t            resource_count;
    struct ctl_resource resources[CTL_RESOURCES];
    uint32_t            create_options;
    int32_t             restarts;
    uint32_t            argc;
    struct ctl_name     name; /* its actor is the id */
};

/* ---- the creator ---- */

static bool values_put(mt_buf *out, const struct own_call *call, struct own_failure *f)
{
    static const uint8_t zeros[8];
    size_t               from = out->size;
    mt_status            st = mt_ok();
    for (int i = 0; i < call->argc && st.code == 0; i++) {
        const struct own_arg       *arg = &call->args[i];
        const struct own_actor_wire *handle = arg->data;
        struct lane_value           value = {.type = (uint8_t)arg->type, .size = (uint32_t)arg->size};
        if (arg->ref || arg->type == 'r' || (arg->type == 'A' && !(handle->options & OWN_ACTOR_DETACHED))) {
            own_failure_set(f, MT_EINVAL, "actor %s: argument %d belongs to this process, and a detached actor outlives it: "
                            "pass a value (or a detached actor)", call->name, i + 1);
            return false;
        }
        if (arg->size > DETACHED_VALUES_MAX || out->size - from > DETACHED_VALUES_MAX - arg->size) {
            own_failure_set(f, MT_EINVAL, "actor %s: the arguments of a detached actor have at most %d bytes in all", call->name,
                            DETACHED_VALUES_MAX);
            return false;
        }
        st = mt_buf_append(out, &value, sizeof value);
        if (st.code == 0)
            st = mt_buf_append(out, arg->data ? arg->data : zeros, arg->size);
        if (st.code == 0)
            st = mt_buf_append(out, zeros, -arg->size & 7);
    }
    if (st.code)
        own_failure_set(f, MT_ENOMEM, "no memory for an actor");
    return st.code == 0;
}

/* ctl_request, ctl_detached, struct detached, values. */
static bool request_make(mt_buf *out, const struct own_class_spec *spec, const manta_actor_opts *o, const struct own_call *call,
                         struct own_failure *f)
{
    struct ctl_request  request = {.op = CTL_OP_ACTOR_NEW};
    struct ctl_detached wire = {.restarts = lib_tries(o->max_restarts, 0), .is_strict = o->strict};
    struct detached     d = {.version = DETACHED_VERSION, .flags = spec->flags, .policy = spec->policy, .node = spec->node,
                             .resource_count = spec->resource_count, .create_options = call->create_options,
                             .restarts = lib_tries(o->max_restarts, 0), .argc = (uint32_t)call->argc};
    memcpy(d.resources, spec->resources, sizeof d.resources);
    d.name.actor = own_id_next(&lib.own);
    snprintf(d.name.space, sizeof d.name.space, "%s", o->name_space ? o->name_space : lib.name_space);
    snprintf(d.name.name, sizeof d.name.name, "%s", o->name);
    snprintf(d.name.type, sizeof d.name.type, "%s", spec->name);
    wire.name = d.name;
    if (mt_buf_append(out, &request, sizeof request).code || mt_buf_append(out, &wire, sizeof wire).code ||
        mt_buf_append(out, &d, sizeof d).code) {
        own_failure_set(f, MT_ENOMEM, "no memory for an actor");
        return false;
    }
    if (!values_put(out, call, f))
        return false;
    wire.size = (uint32_t)(out->size - sizeof request - sizeof wire);
    memcpy(out->data + sizeof request, &wire, sizeof wire);
    return true;
}

static struct own_actor *handle_new(const mt_buf *sent, const manta_actor_type *type, const manta_actor_opts *o)
{
    struct ctl_detached   d;
    struct own_actor_wire wire = {.type = type->hash,
                                  .options = (uint32_t)lib_tries(o->max_task_retries, 0) << 8 | OWN_ACTOR_DETACHED |
                                             (o->allow_out_of_order ? OWN_ACTOR_ANY_ORDER : 0)};
    memcpy(&d, sent->data + sizeof(struct ctl_request), sizeof d);
    wire.id = d.name.actor;
    memcpy(wire.name, d.name.type, sizeof wire.name);
    struct own_actor *actor = own_actor_borrow(&lib.own, &wire);
    if (actor)
        actor->is_named = true;
    return actor;
}

struct own_actor *lib_detach(const manta_actor_type *type, const struct own_class_spec *spec, const manta_actor_opts *o,
                             const struct own_call *call, struct own_failure *f)
{
    mt_buf              sent = {0};
    struct lib_request *request = malloc(sizeof *request);
    struct own_actor   *actor = NULL;
    manta_error         e;
    if (!request) {
        own_failure_set(f, MT_ENOMEM, "no memory for an actor");
    } else if (spec->env) {
        own_failure_set(f, MT_EUNSUPPORTED, "actor %s: a detached actor has no runtime environment", call->name);
    } else if (request_make(&sent, spec, o, call, f)) {
        if (lib_call(request, CTL_REQUEST, sent.data, sent.size, MT_LIB_DETACH_MS, &e))
            own_failure_set(f, e.code, "%s", e.message);
        else if (!(actor = handle_new(&sent, type, o)))
            own_failure_set(f, MT_ENOMEM, "no memory for an actor handle");
    }
    mt_buf_fini(&sent);
    free(request);
    return actor;
}

/* ---- the warden ---- */

bool lib_is_warden(void)
{
    return lib.is_warden;
}

char *lib_warden_text(void)
{
    const char *text = getenv(LIB_WARDEN);
    char       *copy = text ? strdup(text) : NULL;
    lib.is_warden = copy != NULL;
    unsetenv(LIB_WARDEN);
    if (copy)
        unsetenv("MANTA_ROLE");
    return copy;
}

static bool bytes_of_hex(const char *hex, mt_buf *out)
{
    size_t size = strlen(hex);
    if (size % 2 || mt_buf_reserve(out, size / 2 + 8).code)
        return false;
    for (; *hex; hex += 2) {
        char     pair[3] = {hex[0], hex[1], 0}, *end;
        uint8_t  byte = (uint8_t)strtoul(pair, &end, 16);
        if (*end || mt_buf_append(out, &byte, 1).code)
            return false;
    }
    return true;
}

static bool values_get(mt_reader *in, uint32_t argc, struct own_arg *args)
{
    for (uint32_t i = 0; i < argc; i++) {
        struct lane_value value;
        mt_view           head = mt_reader_bytes(in, sizeof value), bytes;
        if (!head.data)
            return false;
        memcpy(&value, head.data, sizeof value);
        bytes = mt_reader_bytes(in, value.size);
        (void)mt_reader_bytes(in, -(size_t)value.size & 7);
        args[i] = (struct own_arg){.type = (char)value.type, .data = bytes.data, .size = value.size};
    }
    return !in->failed;
}

/* Makes the actor. NULL: what stands in the environment is not of this version of the library. */
static struct own_actor *warden_make(const struct detached *d, uint32_t restarts, mt_reader *in)
{
    struct own_arg        args[MANTA_ARGS_MAX];
    struct own_class_spec spec = {.name = d->name.type, .group = lib_hash(d->name.type), .flags = d->flags, .policy = d->policy,
                                  .node = d->node, .resource_count = d->resource_count};
    struct own_warden     warden = {.actor = d->name.actor, .restarts = restarts};
    manta_actor_type     *type = lib_actor_type_find(d->name.type);
    struct own_call       call = {.argc = (int)d->argc, .args = args, .function = spec.group, .name = type ? type->name : "?",
                                  .create_options = d->create_options, .warden = &warden};
    int32_t               left = d->restarts < 0 ? -1 : restarts < (uint32_t)d->restarts ? d->restarts - (int32_t)restarts : 0;
    memcpy(spec.resources, d->resources, sizeof spec.resources);
    if (!values_get(in, d->argc, args))
        return NULL;
    return own_actor_new(&lib.own, &spec, d->name.space, d->name.name, left, 0, &call);
}

static struct own_actor *warden_read(const char *text, mt_buf *bytes)
{
    struct detached d;
    char           *hex;
    uint32_t        restarts = (uint32_t)strtoul(text, &hex, 10);
    if (*hex != ' ' || !bytes_of_hex(hex + 1, bytes) || bytes->size < sizeof d)
        return NULL;
    memcpy(&d, bytes->data, sizeof d);
    if (d.version != DETACHED_VERSION || d.argc > MANTA_ARGS_MAX || d.resource_count > CTL_RESOURCES)
        return NULL;
    d.name.space[CTL_NAME_SIZE - 1] = d.name.name[CTL_NAME_SIZE - 1] = d.name.type[CTL_NAME_SIZE - 1] = 0;
    mt_reader in = mt_reader_of(mt_view_of(bytes->data + sizeof d, bytes->size - sizeof d));
    return warden_make(&d, restarts, &in);
}

static bool is_over(void *arg)
{
    const struct own_actor *actor = arg;
    return actor->state == OWN_ACTOR_DEAD || lib.broken;
}

void lib_warden_serve(char *take_text)
{
    mt_buf            bytes = {0};
    struct own_actor *actor;
    signal(SIGTERM, SIG_DFL); /* the program's own handler is for its drivers: a warden has nothing to put in order */
    lib_lock();
    actor = warden_read(take_text, &bytes);
    free(take_text);
    if (actor) {
        lib_helper_start();
        lib_act();
        lib_wait(is_over, actor, INT64_MAX); /* until it is dead for good, and the head has been told why */
        lib_act();
    }
    lib_unlock();
    mt_buf_fini(&bytes);
    manta_shutdown();
    _exit(actor ? 0 : 1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * detached.c - detached actors: handing one over to the head.
 *
 * Owns:   nothing outside of its calls. Thread: any under the owner lock.
 *
 * The creator writes down what own_actor_new would need, values and all, those of its references too. The head keeps that and
 * starts this very program again on some node, where warden.c makes the actor. What is more than a record holds goes
 * as a file, as the program itself does.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/api/detached.h"
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/values/values.h"
#include "clients/lib/shell/wait/wait.h"

#include "core/sha/sha256.h"
#include "core/base/limits/env.h"
#include "core/sys/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A reference among the arguments: its value goes along, since it dies with its owner. */
static manta_status carry(manta_ref *handle, manta_view *out, int number, manta_error *e)
{
    struct own_ref         *ref;
    const struct own_extra *extra;
    struct lane_ref         place = {.flags = 0};
    manta_status            code = manta_get(handle, MT_LIB_DETACH_MS, out, e);
    if (code)
        return code;
    lib_lock();
    (void)lib_view_ref(out, &place);
    ref = lib_ref_in(&lib.own, handle);
    extra = ref ? own_extra_of(&lib.own, ref) : NULL;
    if (place.flags & LANE_REF_DECLARES || (extra && extra->declared_count))
        code = lib_error(e, MANTA_EINVAL,
                         "argument %d declares references, which die with their owners, and a detached actor "
                         "outlives them",
                         number);
    lib_unlock();
    return code;
}

/* An argument of the value itself. */
static manta_arg arg_of(const manta_view *view)
{
    manta_arg arg = {.type = view->type};
    if (arg.type == 's' || arg.type == 'y')
        arg.y = (manta_bytes){view->data, view->size};
    else if (arg.type == 'b')
        memcpy(&arg.b, view->data, sizeof arg.b);
    else if (view->size == sizeof arg.l)
        memcpy(&arg.l, view->data, sizeof arg.l);
    return arg;
}

const manta_arg *lib_carry(struct lib_carried *c, const char *signature, int argc, const manta_arg *argv, manta_error *e)
{
    c->count = 0;
    if (!argv || argc < 0 || argc > MANTA_ARGS_MAX)
        return argv; /* refused further on */
    for (int i = 0; i < argc; i++) {
        char wanted = *signature;
        bool is_any = !wanted || wanted == '>' || wanted == '@' || wanted == '*';
        signature += !is_any;
        c->args[i] = argv[i];
        c->views[c->count++] = (manta_view){.hold = NULL};
        if (argv[i].type != 'r' || !argv[i].r)
            continue;
        if (carry(argv[i].r, &c->views[i], i + 1, e))
            return NULL;
        if (wanted != 'r') /* behind '*' too */
            c->args[i] = arg_of(&c->views[i]);
    }
    return c->args;
}

void lib_carried_drop(struct lib_carried *c)
{
    for (int i = 0; i < c->count; i++)
        manta_release(&c->views[i]);
}

static mt_status value_put(mt_buf *out, const struct lane_value *head, const void *bytes)
{
    static const uint8_t zeros[8];
    MT_TRY(mt_buf_append(out, head, sizeof *head));
    MT_TRY(mt_buf_append(out, bytes ? bytes : zeros, head->size));
    return mt_buf_append(out, zeros, -(size_t)head->size & 7);
}

static bool values_put(mt_buf *out, const struct own_call *call, const manta_view *views, struct own_failure *f)
{
    const size_t max = (size_t)MT_ENV_MIB_MAX << 20;
    for (int i = 0; i < call->argc; i++) {
        const struct own_arg        *arg = &call->args[i];
        const struct own_actor_wire *handle = arg->data;
        struct lane_value            value = {.type = (uint8_t)arg->type, .size = (uint32_t)arg->size};
        const void                  *bytes = arg->data;
        size_t                       size = arg->size;
        if (arg->type == 'A' && !(handle->options & OWN_ACTOR_DETACHED)) {
            own_failure_set(f, MT_EINVAL,
                            "actor %s: the actor of argument %d ends with its creator, which a detached actor "
                            "outlives: pass a detached one",
                            call->name, i + 1);
            return false;
        }
        if (arg->type == 'r') {
            bytes = views[i].data;
            size = views[i].size + (views[i].type == 's');
            value.flags = (uint8_t)views[i].type;
            value.size = (uint32_t)size;
        }
        if (size > max || out->size > max - size) {
            own_failure_set(f, MT_EINVAL, "actor %s: the arguments of a detached actor have at most %d MiB in all", call->name,
                            MT_ENV_MIB_MAX);
            return false;
        }
        if (value_put(out, &value, bytes).code) {
            own_failure_set(f, MT_ENOMEM, "no memory for an actor");
            return false;
        }
    }
    return true;
}

/* Its descriptor, or -1 with errno set. */
static int file_of(const mt_buf *bytes)
{
    int fd = memfd_create("manta-values", MFD_CLOEXEC);
    int err = fd < 0 ? errno : mt_write_all(fd, bytes->data, bytes->size);
    if (err && fd >= 0)
        close(fd);
    errno = err;
    return err ? -1 : fd;
}

static void describe(struct detached *d, const struct own_class_spec *spec, const manta_actor_opts *o, const struct own_call *call)
{
    *d = (struct detached){.version = DETACHED_VERSION,
                           .flags = spec->flags,
                           .policy = spec->policy,
                           .node = spec->node,
                           .resource_count = spec->resource_count,
                           .create_options = call->create_options,
                           .restarts = lib_tries(o->max_restarts, 0),
                           .argc = (uint32_t)call->argc};
    memcpy(d->resources, spec->resources, sizeof d->resources);
    d->pg = spec->pg;
    d->bundle = spec->bundle;
    snprintf(d->labels, sizeof d->labels, "%s", spec->labels ? spec->labels : "");
    d->name.actor = own_id_next(&lib.own);
    snprintf(d->name.space, sizeof d->name.space, "%s", o->name_space ? o->name_space : lib.name_space);
    snprintf(d->name.name, sizeof d->name.name, "%s", o->name);
    d->name.flags = o->for_all_jobs ? CTL_NAME_FOR_ALL : 0;
    snprintf(d->name.type, sizeof d->name.type, "%s", spec->name);
}

/* What is sent, and the file that goes along; -1: none. */
struct handover {
    struct detached d;
    mt_buf          head; /* ctl_request, ctl_detached, struct detached, and the values that are not apart */
    int             fd;
};

static bool handover_make(struct handover *h, const struct own_class_spec *spec, const manta_actor_opts *o,
                          const struct own_call *call, const manta_view *views, struct own_failure *f)
{
    struct ctl_request  request = {.op = CTL_OP_ACTOR_NEW};
    struct ctl_detached wire = {.restarts = lib_tries(o->max_restarts, 0), .is_strict = o->strict, .env = spec->env};
    mt_buf              values = {0};
    mt_sha256           sha;
    bool                is_made = values_put(&values, call, views, f);
    describe(&h->d, spec, o, call);
    h->d.is_apart = values.size > DETACHED_HERE_MAX;
    wire.name = h->d.name;
    if (is_made && h->d.is_apart) {
        wire.values_size = values.size;
        mt_sha256_init(&sha);
        mt_sha256_add(&sha, values.data, values.size);
        mt_sha256_end(&sha, wire.values_sha256);
        is_made = (h->fd = file_of(&values)) >= 0;
        values.size = 0;
        if (!is_made)
            own_failure_set(f, MT_ENOMEM, "no memory for the arguments of an actor: %s", strerrordesc_np(errno));
    }
    wire.size = (uint32_t)(sizeof h->d + values.size);
    if (is_made && (mt_buf_append(&h->head, &request, sizeof request).code || mt_buf_append(&h->head, &wire, sizeof wire).code ||
                    mt_buf_append(&h->head, &h->d, sizeof h->d).code || mt_buf_append(&h->head, values.data, values.size).code)) {
        own_failure_set(f, MT_ENOMEM, "no memory for an actor");
        is_made = false;
    }
    mt_buf_fini(&values);
    return is_made;
}

static struct own_actor *handle_new(const struct detached *d, const manta_actor_type *type, const manta_actor_opts *o)
{
    struct own_actor_wire wire = {.id = d->name.actor,
                                  .type = lib_of_type(type)->hash,
                                  .options = (uint32_t)lib_tries(o->max_task_retries, 0) << 8 | OWN_ACTOR_DETACHED |
                                             (o->allow_out_of_order ? OWN_ACTOR_ANY_ORDER : 0)};
    memcpy(wire.name, d->name.type, sizeof wire.name);
    struct own_actor *actor = own_actor_borrow(&lib.own, &wire);
    if (actor)
        actor->is_named = true;
    return actor;
}

static manta_status handover_send(struct handover *h, struct lib_request *request, manta_error *e)
{
    if (h->fd < 0)
        return lib_call(request, CTL_REQUEST, h->head.data, h->head.size, MT_LIB_DETACH_MS, e);
    return lib_call_socket(request, CTL_DETACH, h->head.data, h->head.size, NULL, 0, h->fd, MT_LIB_DETACH_MS, e);
}

struct own_actor *lib_detach(const manta_actor_type *type, const struct own_class_spec *spec, const manta_actor_opts *o,
                             const struct own_call *call, const manta_view *views, struct own_failure *f)
{
    struct handover     h = {.fd = -1};
    struct lib_request *request = malloc(sizeof *request);
    struct own_actor   *actor = NULL;
    manta_error         e;
    if (!request) {
        own_failure_set(f, MT_ENOMEM, "no memory for an actor");
    } else if (handover_make(&h, spec, o, call, views, f)) {
        if (handover_send(&h, request, &e))
            own_failure_set(f, e.code, "%s", e.message);
        else if (!(actor = handle_new(&h.d, type, o)))
            own_failure_set(f, MT_ENOMEM, "no memory for an actor handle");
    }
    if (h.fd >= 0)
        close(h.fd);
    mt_buf_fini(&h.head);
    free(request);
    return actor;
}

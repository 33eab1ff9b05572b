/* SPDX-License-Identifier: Apache-2.0
 *
 * pg.c - placement groups for the user: made, waited for, found, looked at and removed.
 *
 * Owns:   struct manta_pg, a handle: what the bundles have, so that options are checked here. Thread: any; takes the owner lock.
 *
 * The group itself is the head's. With MANTA_INLINE=1 there is none, and nothing is reserved: a group stands at once.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/api/detached.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include "core/base/clock.h"
#include "core/base/reserved.h"

#include <stdlib.h>

enum {
    SLACK_MS = 1000, /* for an answer to come back */
    EARLY_MAX = 128, /* waits asked for that nobody has begun yet */
};

struct lib_pg_asking { /* one request and its answer */
    struct lib_request request;
    struct {
        struct ctl_request head;
        struct ctl_group   group;
        uint8_t bundles[MT_GROUP_BUNDLES_MAX * sizeof(struct ctl_bundle) + MT_GROUP_RESOURCES_MAX * sizeof(struct ctl_resource)];
    } ask;
    size_t size; /* of `ask` */
};

static struct lib_pg_asking *asking_new(enum ctl_group_verb verb, mt_id id, manta_error *e)
{
    struct lib_pg_asking *a = calloc(1, sizeof *a);
    if (!a) {
        lib_error(e, MANTA_ENOMEM, "no memory for a request");
        return NULL;
    }
    a->ask.head.op = CTL_OP_GROUP;
    a->ask.group.verb = verb;
    a->ask.group.id = id;
    a->size = sizeof a->ask.head + sizeof a->ask.group;
    return a;
}

static bool name_is_fine(const char *name, const char *name_space, manta_error *e)
{
    if ((!name || (name[0] && strlen(name) < CTL_NAME_SIZE)) &&
        (!name_space || (name_space[0] && strlen(name_space) < CTL_NAME_SIZE)))
        return true;
    lib_error(e, MANTA_EINVAL, "a placement group's name, and a name space, have 1 to %d letters", CTL_NAME_SIZE - 1);
    return false;
}

/* Takes the lock. */
static manta_status ask(struct lib_pg_asking *a, int64_t timeout_ms, manta_error *e)
{
    manta_status code = lib_enter(e);
    if (code)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK && lib.inlined)
        code = a->ask.group.verb == CTL_GROUP_FIND ? lib_error(e, MANTA_ENOENT, "no placement group has that name") : MANTA_OK;
    else if (code == MANTA_OK)
        code = lib_call(&a->request, CTL_REQUEST, &a->ask, a->size, timeout_ms, e);
    lib_unlock();
    return code;
}

/* The same, and nobody waits for the answer: the raylet keeps the request until the head has it, in order with later ones. */
static manta_status tell(struct lib_pg_asking *a, manta_error *e)
{
    manta_status code = lib_enter(e);
    if (code)
        return code;
    code = lib_check(e);
    if (code == MANTA_OK && !lib.inlined) {
        own_send(&lib.own, CTL_REQUEST, own_id_next(&lib.own), &a->ask, a->size);
        if (a->ask.group.verb == CTL_GROUP_REMOVE)
            own_group_over(&lib.own, a->ask.group.id);
        lib_act();
    }
    lib_unlock();
    return code;
}

static manta_status removed(manta_error *e)
{
    return lib_error(e, MANTA_EPG_REMOVED, "the placement group was removed by this process");
}

/* ---- making ---- */

static bool amounts_are_fine(const struct own_class_spec *spec, int number, manta_error *e)
{
    for (uint32_t i = 0; i < spec->resource_count; i++) {
        const struct ctl_resource *r = &spec->resources[i];
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(spec->resources[k].name, r->name) == 0) {
                lib_error(e, MANTA_EINVAL, "bundle %d: resource \"%s\" is named twice", number, r->name);
                return false;
            }
        }
        if (strcmp(r->name, "GPU") == 0 && r->milli > 1000 && r->milli % 1000) {
            lib_error(e, MANTA_EINVAL, "bundle %d: %g GPUs: above one device, only whole ones", number, (double)r->milli / 1000);
            return false;
        }
    }
    return true;
}

static bool bundle_add(struct manta_pg *pg, const manta_bundle *b, manta_error *e)
{
    struct own_class_spec spec = {.name = "bundle"};
    struct own_failure    f;
    uint32_t              at = pg->at[pg->bundle_count];
    int                   number = pg->bundle_count + 1;
    if (MT_RESERVED_IS_USED(b)) {
        lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_bundle");
        return false;
    }
    if (!lib_class_spec(&spec, b->num_cpus, b->num_gpus, b->memory, b->resources, b->resource_count, &f)) {
        lib_error(e, f.code, "bundle %d: %s", number, f.message);
        return false;
    }
    if (spec.resource_count == 0) {
        lib_error(e, MANTA_EINVAL, "bundle %d is empty: give it at least one amount above 0", number);
        return false;
    }
    if (!amounts_are_fine(&spec, number, e))
        return false;
    if (at + spec.resource_count > MT_GROUP_RESOURCES_MAX) {
        lib_error(e, MANTA_EINVAL, "the bundles name more than %d amounts in all, with bundle %d", MT_GROUP_RESOURCES_MAX, number);
        return false;
    }
    memcpy(&pg->resources[at], spec.resources, spec.resource_count * sizeof *spec.resources);
    pg->at[++pg->bundle_count] = at + spec.resource_count;
    return true;
}

static bool options_are_fine(const manta_bundle *bundles, int count, const manta_pg_opts *o, manta_error *e)
{
    if (count < 1 || count > MT_GROUP_BUNDLES_MAX || !bundles)
        lib_error(e, MANTA_EINVAL, "a placement group has 1 to %d bundles, not %d%s", MT_GROUP_BUNDLES_MAX, count,
                  bundles ? "" : " at NULL");
    else if (MT_RESERVED_IS_USED(o))
        lib_error(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_pg_new");
    else if (o->strategy < MANTA_PG_PACK || o->strategy > MANTA_PG_STRICT_SPREAD)
        lib_error(e, MANTA_EINVAL,
                  "strategy %d is none: MANTA_PG_PACK, MANTA_PG_SPREAD, MANTA_PG_STRICT_PACK, MANTA_PG_STRICT_SPREAD", o->strategy);
    else if (o->detached && !o->name)
        lib_error(e, MANTA_EINVAL, "a detached placement group without a name: nobody could ever find it");
    else
        return name_is_fine(o->name, o->name_space, e);
    return false;
}

static void bundles_write(struct lib_pg_asking *a, const struct manta_pg *pg)
{
    size_t at = 0;
    for (int i = 0; i < pg->bundle_count; i++) {
        struct ctl_bundle head = {.resource_count = pg->at[i + 1] - pg->at[i]};
        memcpy(a->ask.bundles + at, &head, sizeof head);
        at += sizeof head;
        memcpy(a->ask.bundles + at, &pg->resources[pg->at[i]], head.resource_count * sizeof *pg->resources);
        at += head.resource_count * sizeof *pg->resources;
    }
    a->size += at;
}

/* Who makes many groups waits for them all afterwards: the first wait is under way by then. */
static void wait_early(struct manta_pg *pg)
{
    struct lib_pg_asking *a = asking_new(CTL_GROUP_WAIT, pg->id, NULL);
    if (!a)
        return;
    a->ask.group.wait_ms = MT_LIB_GROUP_ASK_MS;
    if (lib_enter(NULL)) {
        free(a);
        return;
    }
    if (!lib.inlined && lib.requests.count < EARLY_MAX &&
        lib_call_send(&a->request, CTL_REQUEST, &a->ask, a->size, NULL) == MANTA_OK) {
        lib_act();
        pg->early = a;
    }
    lib_unlock();
    if (!pg->early)
        free(a);
}

/* Under no lock. */
static bool pg_send(struct manta_pg *pg, const manta_pg_opts *o, manta_error *e)
{
    struct lib_pg_asking *a = asking_new(CTL_GROUP_NEW, pg->id, e);
    if (!a)
        return false;
    a->ask.group.strategy = (uint32_t)o->strategy;
    a->ask.group.flags = o->detached ? CTL_GROUP_DETACHED : 0;
    a->ask.group.bundle_count = (uint32_t)pg->bundle_count;
    snprintf(a->ask.group.space, sizeof a->ask.group.space, "%s", o->name_space ? o->name_space : lib.name_space);
    snprintf(a->ask.group.name, sizeof a->ask.group.name, "%s", o->name ? o->name : "");
    bundles_write(a, pg);
    manta_status code = o->name ? ask(a, MT_LIB_REQUEST_MS, e) : tell(a, e); /* a name may be another's */
    free(a);
    if (code == MANTA_OK && !o->name)
        wait_early(pg);
    return code == MANTA_OK;
}

static void pg_free(struct manta_pg *pg)
{
    if (pg->early) {
        lib_lock();
        lib_call_forget(&pg->early->request);
        lib_unlock();
        free(pg->early);
    }
    free(pg);
}

static manta_pg *handle_of(struct manta_pg *pg, manta_error *e)
{
    manta_pg *handle = NULL;
    if (lib_enter(e) == MANTA_OK) {
        handle = lib_handle_new(LIB_OF_PG, pg);
        lib_unlock();
        if (!handle)
            lib_error(e, MANTA_ENOMEM, "no memory for a placement group");
    }
    if (!handle)
        pg_free(pg);
    return handle;
}

/* NULL: *e says why. */
static struct manta_pg *pg_of(const manta_pg *handle, const char *call, manta_error *e)
{
    struct manta_pg *pg = lib_handle_of(handle, LIB_OF_PG);
    if (!pg)
        lib_handle_wrong(handle, LIB_OF_PG, call, e);
    return pg;
}

manta_pg *manta_pg_new(const manta_bundle *bundles, int count, const manta_pg_opts *opts, manta_error *e)
{
    static const manta_pg_opts defaults;
    const manta_pg_opts       *o = opts ? opts : &defaults;
    struct manta_pg           *pg;
    bool                       is_fine = options_are_fine(bundles, count, o, e);
    if (!is_fine)
        return NULL;
    if (!(pg = calloc(1, sizeof *pg))) {
        lib_error(e, MANTA_ENOMEM, "no memory for a placement group");
        return NULL;
    }
    for (int i = 0; i < count && is_fine; i++)
        is_fine = bundle_add(pg, &bundles[i], e);
    if (is_fine && (is_fine = lib_enter(e) == MANTA_OK)) {
        is_fine = lib_check(e) == MANTA_OK;
        if (is_fine)
            pg->id = own_id_next(&lib.own);
        lib_unlock();
    }
    if (is_fine && pg_send(pg, o, e))
        return handle_of(pg, e);
    free(pg);
    return NULL;
}

manta_status manta_pg_free(manta_pg *handle)
{
    manta_status     code = handle ? lib_enter_held(NULL) : MANTA_OK;
    struct manta_pg *pg;
    if (!handle || code)
        return code;
    pg = lib_handle_end(handle, LIB_OF_PG);
    lib_unlock();
    if (!pg)
        return MANTA_EHANDLE;
    pg_free(pg);
    return MANTA_OK;
}

int manta_pg_count(const manta_pg *handle)
{
    const struct manta_pg *pg = pg_of(handle, "manta_pg_count", NULL);
    return pg ? pg->bundle_count : 0;
}

/* ---- finding, looking ---- */

/* What the head has answered to FIND; `nodes` (may be NULL) becomes where the bundles stand. */
static bool pg_read(const struct lib_pg_asking *a, struct manta_pg *pg, uint32_t *nodes)
{
    struct ctl_group g;
    size_t           at = sizeof(struct ctl_reply);
    if (a->request.size < at + sizeof g)
        return false;
    memcpy(&g, a->request.payload + at, sizeof g);
    at += sizeof g;
    memset(pg, 0, sizeof *pg);
    pg->id = g.id;
    for (uint32_t i = 0; i < g.bundle_count && i < MT_GROUP_BUNDLES_MAX; i++) {
        struct ctl_bundle head;
        uint32_t          first = pg->at[i];
        if (a->request.size < at + sizeof head)
            return false;
        memcpy(&head, a->request.payload + at, sizeof head);
        at += sizeof head;
        if (head.resource_count > MT_GROUP_RESOURCES_MAX - first ||
            a->request.size < at + head.resource_count * sizeof *pg->resources)
            return false;
        memcpy(&pg->resources[first], a->request.payload + at, head.resource_count * sizeof *pg->resources);
        at += head.resource_count * sizeof *pg->resources;
        if (nodes)
            nodes[i] = head.node;
        pg->at[i + 1] = first + head.resource_count;
        pg->bundle_count++;
    }
    return true;
}

/* Asks for one, by name or id, into *out_pg. */
static manta_status look(struct lib_pg_asking *a, struct manta_pg *out_pg, uint32_t *nodes, manta_error *e)
{
    manta_status code = ask(a, MT_LIB_REQUEST_MS, e);
    if (code == MANTA_OK && !pg_read(a, out_pg, nodes))
        code = lib_error(e, MANTA_EPROTO, "the answer about a placement group can't be read");
    return code;
}

static manta_pg *found(struct lib_pg_asking *a, manta_error *e)
{
    struct manta_pg *pg = calloc(1, sizeof *pg);
    if (!pg) {
        lib_error(e, MANTA_ENOMEM, "no memory for a placement group");
    } else if (look(a, pg, NULL, e)) {
        free(pg);
        pg = NULL;
    }
    free(a);
    return pg ? handle_of(pg, e) : NULL;
}

manta_pg *manta_pg_find(const char *name_space, const char *name, manta_error *e)
{
    struct lib_pg_asking *a;
    if (!name) {
        lib_error(e, MANTA_EINVAL, "a placement group is found by its name, not by NULL");
        return NULL;
    }
    if (!name_is_fine(name, name_space, e) || !(a = asking_new(CTL_GROUP_FIND, (mt_id){0, 0}, e)))
        return NULL;
    snprintf(a->ask.group.space, sizeof a->ask.group.space, "%s", name_space ? name_space : lib.name_space);
    snprintf(a->ask.group.name, sizeof a->ask.group.name, "%s", name);
    return found(a, e);
}

manta_pg *manta_pg_current(manta_error *e)
{
    struct lib_pg_asking *a;
    if (!lib.group.process) {
        lib_error(e, MANTA_ENOENT, "nothing that runs here is in a placement group");
        return NULL;
    }
    return (a = asking_new(CTL_GROUP_FIND, lib.group, e)) ? found(a, e) : NULL;
}

int manta_pg_nodes(const manta_pg *handle, uint32_t *out, int max, manta_error *e)
{
    const struct manta_pg *pg;
    uint32_t               nodes[MT_GROUP_BUNDLES_MAX] = {0};
    struct manta_pg       *now;
    struct lib_pg_asking  *a;
    manta_status           code = MANTA_OK;
    if (!handle || max < 0 || (max && !out))
        return -lib_error(e, MANTA_EINVAL, "manta_pg_nodes without a group, or without a place for %d nodes", max);
    if (!(pg = pg_of(handle, "manta_pg_nodes", e)))
        return -MANTA_EHANDLE;
    if (pg->is_removed)
        return -removed(e);
    for (int i = 0; i < pg->bundle_count && lib.inlined; i++)
        nodes[i] = lib.own.node;
    if (!lib.inlined) {
        now = malloc(sizeof *now);
        a = asking_new(CTL_GROUP_FIND, pg->id, e);
        code = !now || !a ? lib_error(e, MANTA_ENOMEM, "no memory for a request") : look(a, now, nodes, e);
        free(now);
        free(a);
    }
    if (code)
        return -code;
    for (int i = 0; i < max && i < pg->bundle_count; i++)
        out[i] = nodes[i];
    return pg->bundle_count;
}

/* ---- waiting, removing ---- */

/* Not 0: the running task is asked to stop. A head that has too many who wait is left alone for a while. */
static manta_status again(manta_status code, manta_error *e)
{
    manta_status entered = lib_enter(e);
    if (entered)
        return entered;
    manta_status over = lib_run_is_over() ? lib_error_run_over(e) : MANTA_OK;
    lib_unlock();
    if (over == MANTA_OK && code == MANTA_EAGAIN)
        mt_sleep_ms(50);
    return over;
}

/* The answer to the wait that was asked for when the group was made. Not 0: another one is to be asked for. */
static manta_status take_early(struct manta_pg *pg, int64_t limit_ms, manta_error *e)
{
    manta_status code = lib_enter(e);
    if (code)
        return code;
    struct lib_pg_asking *a = pg->early;
    code = lib_check(e);
    pg->early = NULL;
    if (a && code == MANTA_OK)
        code = lib_call_await(&a->request, limit_ms, e);
    else if (a)
        lib_call_forget(&a->request);
    lib_unlock();
    free(a);
    return a || code ? code : MANTA_ETIMEDOUT;
}

manta_status manta_pg_wait(manta_pg *handle, int64_t timeout_ms, manta_error *e)
{
    struct manta_pg      *pg;
    int64_t               deadline = lib_deadline(timeout_ms);
    struct lib_pg_asking *a;
    manta_status          code;
    bool                  is_late = false;
    if (!handle || timeout_ms < MANTA_FOREVER)
        return lib_error(e, MANTA_EINVAL, "manta_pg_wait without a group, or with a timeout_ms of %lld", (long long)timeout_ms);
    if (!(pg = pg_of(handle, "manta_pg_wait", e)))
        return MANTA_EHANDLE;
    if (pg->is_removed)
        return removed(e);
    if (pg->early && timeout_ms && take_early(pg, lib_left_ms(deadline), e) == MANTA_OK)
        return MANTA_OK; /* anything else may be an old story */
    if (!(a = asking_new(CTL_GROUP_WAIT, pg->id, e)))
        return MANTA_ENOMEM;
    for (;;) {
        int64_t left = lib_left_ms(deadline), part = left < MT_LIB_GROUP_ASK_MS ? left : MT_LIB_GROUP_ASK_MS;
        a->ask.group.wait_ms = (uint32_t)part;
        code = ask(a, part + SLACK_MS, e);
        if (code != MANTA_ETIMEDOUT && code != MANTA_EAGAIN)
            break;
        manta_status over = again(code, e);
        if (over != MANTA_OK || lib_left_ms(deadline) == 0) {
            code = over ? over : MANTA_ETIMEDOUT;
            is_late = over == MANTA_OK;
            break;
        }
    }
    free(a);
    if (is_late)
        return lib_error(e, code,
                         "the placement group was not placed within %lld ms: its bundles wait for room, see `manta list "
                         "placement-groups`",
                         (long long)timeout_ms);
    return code;
}

manta_status manta_pg_remove(manta_pg *handle, manta_error *e)
{
    struct lib_pg_asking *a;
    struct manta_pg      *pg = pg_of(handle, "manta_pg_remove", e);
    if (!pg)
        return handle ? MANTA_EHANDLE : MANTA_EINVAL;
    if (!(a = asking_new(CTL_GROUP_REMOVE, pg->id, e)))
        return MANTA_ENOMEM;
    manta_status code = tell(a, e);
    pg->is_removed |= code == MANTA_OK;
    free(a);
    return code;
}

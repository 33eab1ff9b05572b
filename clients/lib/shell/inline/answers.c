/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.c - MANTA_INLINE=1: what a raylet would do, done in the driver: segments, regions, names, nodes.
 *
 * Owns:   the memory that a raylet would give (lib.inlined). Thread: any, under the owner lock.
 */
#include "clients/lib/shell/due/due.h"
#include "clients/lib/shell/inline/inline.h"
#include "clients/lib/shell/state/state.h"

#include <sys/mman.h>
#include <unistd.h>

void lib_inline_act(struct own_out *out)
{
    for (size_t at = 0; at < out->up.size;) {
        struct lane_record record;
        struct lane_ref    dead;
        memcpy(&record, out->up.data + at, sizeof record);
        if (record.kind == CTL_OBJECT_DEAD) {
            memcpy(&dead, out->up.data + at + sizeof record, sizeof dead);
            (void)os_client_space_back(&lib.store, dead.segment, dead.offset).code;
        }
        at += lane_record_padded(record.length);
    }
    out->up.size = 0;
    out->wake_count = 0;
    out->unmap.count = 0;
    for (size_t i = 0; i < out->deaths.count; i++)
        lib_news(&out->deaths.data[i]);
    out->deaths.count = 0;
}

static int memory_fd(size_t size)
{
    int fd = memfd_create("manta-inline", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        return -1;
    }
    return fd;
}

static manta_status give_segment(struct lib_request *r, const struct ctl_segment *ask)
{
    struct ctl_segment got = {.segment = ++lib.inlined->segments, .size = ask->size};
    r->fds[0] = memory_fd(got.size);
    r->fds[1] = memory_fd(os_generations_bytes(got.size));
    if (r->fds[0] < 0 || r->fds[1] < 0)
        return MANTA_ENOMEM;
    r->fd_count = 2;
    r->kind = CTL_SEGMENT;
    r->size = sizeof got;
    memcpy(r->payload, &got, sizeof got);
    return MANTA_OK;
}

static manta_status give_region(struct lib_request *r, const struct ctl_segment *ask)
{
    struct lib_inline   *in = lib.inlined;
    struct inline_region fresh = {-1, ask->size};
    struct ctl_segment   got = {.segment = ask->segment};
    if (!ask->segment) {
        fresh.fd = memory_fd(fresh.size);
        if (fresh.fd < 0 || mt_vec_push(&in->regions, fresh).code)
            return MANTA_ENOMEM;
        got.segment = (uint32_t)in->regions.count;
    }
    if (got.segment > in->regions.count)
        return MANTA_ENOENT;
    got.size = in->regions.data[got.segment - 1].size;
    r->fds[0] = dup(in->regions.data[got.segment - 1].fd);
    r->fd_count = r->fds[0] >= 0;
    r->kind = CTL_REGION;
    r->size = sizeof got;
    memcpy(r->payload, &got, sizeof got);
    return MANTA_OK;
}

/* The actor of that name; a dead one has none any more. */
static const struct own_actor *actor_named(const char *space, const char *name)
{
    MT_MAP_EACH(&lib.own.actors, entry) {
        const struct own_actor *actor = entry->value.ptr;
        if (actor->state != OWN_ACTOR_DEAD && strcmp(actor->public_name, name) == 0 && strcmp(actor->space, space) == 0)
            return actor;
    }
    return NULL;
}

bool lib_inline_may_name(const char *name, struct own_failure *f)
{
    if (!name || !actor_named(lib.name_space, name))
        return true;
    own_failure_set(f, MT_EEXIST, "an actor is named '%s' already in the name space '%s'", name, lib.name_space);
    return false;
}

static manta_status answer_request(struct lib_request *r, const uint8_t *payload)
{
    struct ctl_request      ask;
    struct ctl_name         name;
    struct ctl_node         node = {.node = 1, .epoch = 1, .state = 1, .name = "inline"};
    const struct own_actor *actor;
    memcpy(&ask, payload, sizeof ask);
    r->size = sizeof(struct ctl_reply);
    if (ask.op == CTL_OP_NODES) {
        memcpy(r->payload + r->size, &node, sizeof node);
        r->size += sizeof node;
        return MANTA_OK;
    }
    if (ask.op == CTL_OP_WISH || ask.op == CTL_OP_WISH_LOOK)
        return MANTA_OK;
    if (ask.op != CTL_OP_NAME_GET)
        return MANTA_EUNSUPPORTED;
    memcpy(&name, payload + sizeof ask, sizeof name);
    actor = actor_named(name.space, name.name);
    if (!actor)
        return MANTA_ENOENT;
    name.actor = actor->id;
    name.owner_node = 1;
    memcpy(name.type, actor->name, sizeof name.type);
    memcpy(r->payload + r->size, &name, sizeof name);
    r->size += sizeof name;
    return MANTA_OK;
}

manta_status lib_inline_call(struct lib_request *r, uint16_t kind, const void *payload, size_t size, manta_error *e)
{
    struct ctl_segment segment;
    manta_status       code = MANTA_EUNSUPPORTED;
    memset(r->payload, 0, sizeof(struct ctl_reply));
    r->fd_count = 0;
    r->kind = CTL_REPLY;
    if (size >= sizeof segment)
        memcpy(&segment, payload, sizeof segment);
    if (kind == CTL_SEGMENT_WANT)
        code = give_segment(r, &segment);
    else if (kind == CTL_REGION_WANT)
        code = give_region(r, &segment);
    else if (kind == CTL_REQUEST)
        code = answer_request(r, payload);
    if (code == MANTA_OK)
        return MANTA_OK;
    return lib_error(e, code, "%s (MANTA_INLINE=1: there is no raylet)", mt_code_text(code));
}

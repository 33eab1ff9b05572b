/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_member.c - one member's end of a group: joining, leaving, and the public collective calls.
 *
 * Owns:   the link. Thread: one at a time per manta_coll, but for manta_coll_abort.
 */
#include "sgd/coll_link.h"

#include <stdlib.h>
#include <string.h>

struct manta_coll {
    struct coll_link link;
};

/* ---- membership ---- */

static manta_status join(manta_coll *coll, const manta_coll_id *bytes, int rank, manta_error *e)
{
    struct coll_id id;
    manta_status   code = coll_id_read(bytes, &id, e);
    if (code != MANTA_OK)
        return code;
    if (rank < 0 || (uint32_t)rank >= id.members)
        return coll_fail(e, MANTA_EINVAL, "rank %d: generation %u of group \"%s\" has %u members", rank, id.generation,
                         id.name, id.members);
    return coll_link_fail(&coll->link, coll_link_open(&coll->link, &id, (uint32_t)rank), e);
}

manta_coll *manta_coll_join(const manta_coll_id *id, int rank, manta_error *e)
{
    manta_coll *coll = calloc(1, sizeof *coll);
    if (!coll) {
        coll_fail(e, MANTA_ENOMEM, "no memory for a member of a group");
        return NULL;
    }
    if (join(coll, id, rank, e) != MANTA_OK) {
        manta_coll_leave(coll);
        return NULL;
    }
    return coll;
}

void manta_coll_leave(manta_coll *coll)
{
    if (!coll)
        return;
    coll_link_close(&coll->link);
    free(coll);
}

int manta_coll_rank(const manta_coll *coll)
{
    return (int)coll->link.rank;
}

int manta_coll_size(const manta_coll *coll)
{
    return (int)coll->link.id.members;
}

int manta_coll_generation(const manta_coll *coll)
{
    return (int)coll->link.id.generation;
}

void manta_coll_abort(manta_coll *coll)
{
    coll_link_abort(&coll->link);
}

/* ---- generations ---- */

manta_status manta_coll_agree(manta_coll *coll, uint64_t *flags, uint64_t *out_alive, manta_error *e)
{
    struct coll_decision d;
    manta_status         code = coll_link_decide(&coll->link, *flags, &d);
    if (code == MANTA_OK) {
        *flags = d.flags;
        if (out_alive)
            *out_alive = d.alive;
    }
    return coll_link_fail(&coll->link, code, e);
}

manta_status manta_coll_shrink(manta_coll *coll, manta_error *e)
{
    struct coll_link    *link = &coll->link;
    struct coll_decision d;
    int8_t               from[MT_GROUP_MEMBERS_MAX];
    uint32_t             members = 0, rank = 0;
    manta_status         code = coll_link_decide(link, 0, &d);

    for (uint32_t r = 0; code == MANTA_OK && r < link->id.members; r++) {
        if (!(d.alive >> r & 1))
            continue;
        rank = r == link->rank ? members : rank;
        from[members++] = (int8_t)r;
    }
    if (code == MANTA_OK)
        code = coll_link_move(link, link->id.generation + 1, rank, members, from);
    return coll_link_fail(link, code, e);
}

manta_status manta_coll_regroup(manta_coll *coll, const manta_coll_id *bytes, int rank, manta_error *e)
{
    struct coll_link *link = &coll->link;
    struct coll_id    id;
    manta_status      code = coll_id_read(bytes, &id, e);
    if (code != MANTA_OK)
        return code;
    if (id.group != link->id.group)
        return coll_fail(e, MANTA_EINVAL, "this is an id of group \"%s\", not of group \"%s\"", id.name, link->id.name);
    return coll_link_fail(link, coll_link_move(link, id.generation, (uint32_t)rank, id.members, NULL), e);
}

void *manta_coll_alloc(manta_coll *coll, size_t size, manta_error *e)
{
    const struct coll_id *id = &coll->link.id;
    void                 *memory = id->is_tcp ? NULL : coll_shm_alloc(&coll->link.shm, size);
    if (!memory)
        coll_fail(e, MANTA_ENOMEM, "group \"%s\" has a heap of %llu bytes for %u members: no room for %zu more", id->name,
                  (unsigned long long)id->plan.heap_size, id->members, size);
    return memory;
}

/* ---- calls ---- */

static manta_status run(manta_coll *coll, const struct coll_call *call, bool needs_out, manta_error *e)
{
    const char *name = coll_kind_name(call->kind);
    if ((unsigned)call->type >= COLL_TYPES || (unsigned)call->op >= COLL_OPS)
        return coll_fail(e, MANTA_EINVAL, "%s: type %d or operation %d is none of ours", name, call->type, call->op);
    if (call->count > SIZE_MAX / 8 / MT_GROUP_MEMBERS_MAX)
        return coll_fail(e, MANTA_EINVAL, "%s: %zu elements", name, call->count);
    if (call->root >= coll->link.id.members)
        return coll_fail(e, MANTA_EINVAL, "%s: root %d, and group \"%s\" has %u members", name, (int)call->root,
                         coll->link.id.name, coll->link.id.members);
    if (call->count && ((!call->in && call->kind != COLL_BROADCAST) || (needs_out && !call->out)))
        return coll_fail(e, MANTA_EINVAL, "%s: no buffer", name);
    return coll_link_fail(&coll->link, coll_link_run(&coll->link, call), e);
}

manta_status manta_coll_all_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                   manta_coll_op op, manta_error *e)
{
    struct coll_call call = {.kind = COLL_ALL_REDUCE, .type = (enum coll_type)type, .op = (enum coll_op)op, .count = count,
                             .in = in, .out = out};
    return run(coll, &call, true, e);
}

manta_status manta_coll_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                               manta_coll_op op, int root, manta_error *e)
{
    struct coll_call call = {.kind = COLL_REDUCE, .type = (enum coll_type)type, .op = (enum coll_op)op,
                             .root = (uint32_t)root, .count = count, .in = in, .out = out};
    return run(coll, &call, call.root == coll->link.rank, e);
}

manta_status manta_coll_reduce_scatter(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                       manta_coll_op op, manta_error *e)
{
    struct coll_call call = {.kind = COLL_REDUCE_SCATTER, .type = (enum coll_type)type, .op = (enum coll_op)op,
                             .count = count, .in = in, .out = out};
    return run(coll, &call, true, e);
}

manta_status manta_coll_all_gather(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                   manta_error *e)
{
    struct coll_call call = {.kind = COLL_ALL_GATHER, .type = (enum coll_type)type, .count = count, .in = in, .out = out};
    return run(coll, &call, true, e);
}

manta_status manta_coll_broadcast(manta_coll *coll, void *data, size_t count, manta_coll_type type, int root,
                                  manta_error *e)
{
    struct coll_call call = {.kind = COLL_BROADCAST, .type = (enum coll_type)type, .root = (uint32_t)root, .count = count,
                             .in = data, .out = data};
    return run(coll, &call, true, e);
}

manta_status manta_coll_all_to_all(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                   manta_error *e)
{
    struct coll_call call = {.kind = COLL_ALL_TO_ALL, .type = (enum coll_type)type, .count = count, .in = in, .out = out};
    return run(coll, &call, true, e);
}

manta_status manta_coll_barrier(manta_coll *coll, manta_error *e)
{
    struct coll_call call = {.kind = COLL_BARRIER};
    return run(coll, &call, false, e);
}

/* ---- messages ---- */

static manta_status exchange(manta_coll *coll, const struct coll_message *out, const struct coll_message *in, manta_error *e)
{
    const struct coll_message *both[2] = {out, in};
    for (int i = 0; i < 2; i++) {
        const struct coll_message *m = both[i];
        if (!m->data && !m->count && m->peer == MT_GROUP_MEMBERS_MAX)
            continue;
        if ((unsigned)m->type >= COLL_TYPES || m->count > SIZE_MAX / 8 || (m->count && !m->data))
            return coll_fail(e, MANTA_EINVAL, "a message of %zu of type %d, or no buffer", m->count, (int)m->type);
        if (m->peer >= coll->link.id.members || m->peer == coll->link.rank)
            return coll_fail(e, MANTA_EINVAL, "a message between rank %u and rank %d of group \"%s\", which has %u members",
                             coll->link.rank, (int)m->peer, coll->link.id.name, coll->link.id.members);
    }
    return coll_link_fail(&coll->link, coll_link_exchange(&coll->link, out, in), e);
}

static const struct coll_message nothing = {.peer = MT_GROUP_MEMBERS_MAX};

manta_status manta_coll_send(manta_coll *coll, const void *data, size_t count, manta_coll_type type, int to, manta_error *e)
{
    struct coll_message m = {(uint32_t)to, (enum coll_type)type, count, (void *)(uintptr_t)data};
    return exchange(coll, &m, &nothing, e);
}

manta_status manta_coll_receive(manta_coll *coll, void *data, size_t count, manta_coll_type type, int from, manta_error *e)
{
    struct coll_message m = {(uint32_t)from, (enum coll_type)type, count, data};
    return exchange(coll, &nothing, &m, e);
}

manta_status manta_coll_send_receive(manta_coll *coll, const void *out, size_t out_count, int to, void *in, size_t in_count,
                                     int from, manta_coll_type type, manta_error *e)
{
    struct coll_message there = {(uint32_t)to, (enum coll_type)type, out_count, (void *)(uintptr_t)out};
    struct coll_message here = {(uint32_t)from, (enum coll_type)type, in_count, in};
    return exchange(coll, &there, &here, e);
}

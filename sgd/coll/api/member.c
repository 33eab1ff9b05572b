/* SPDX-License-Identifier: Apache-2.0
 *
 * member.c - one member's end of a group: joining, leaving, and the public collective calls.
 *
 * Owns:   the link. Thread: one at a time per manta_coll, but for manta_coll_abort.
 */
#include "sgd/coll/api/async.h"
#include "sgd/coll/api/handle.h"

#include "core/base/reserved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member {
    struct coll_link  link;
    struct coll_jobs *jobs;   /* NULL: no call was ever started */
    void             *bucket; /* for calls that are made here */
};

static struct member *look(const manta_coll *handle)
{
    return coll_handle_look(MT_HANDLE_MEMBER, handle);
}

/* The link is this thread's again: what was started is done. */
static struct coll_link *link_take(struct member *m)
{
    if (m->jobs)
        coll_jobs_drain(m->jobs);
    return &m->link;
}

/* The same where manta_coll_CALL enters. NULL: there is no such member, and *out_code and *e say so. */
static struct coll_link *enter(const manta_coll *handle, const char *call, manta_status *out_code, manta_error *e)
{
    struct member *m = coll_handle_of(MT_HANDLE_MEMBER, handle, call, out_code, e);
    return m ? link_take(m) : NULL;
}

struct coll_link *coll_member_link(const manta_coll *handle)
{
    struct member *m = look(handle);
    return m ? link_take(m) : NULL;
}

/* ---- membership ---- */

static manta_status join(struct member *m, const manta_coll_id *bytes, int rank, manta_error *e)
{
    struct coll_id id;
    manta_status   code = coll_id_read(bytes, &id, e);
    if (code != MANTA_OK)
        return code;
    if (rank < 0 || (uint32_t)rank >= id.members)
        return sgd_fail(e, MANTA_EINVAL, "rank %d: generation %u of group \"%s\" has %u members", rank, id.generation, id.name,
                        id.members);
    return coll_link_fail(&m->link, coll_link_open(&m->link, &id, (uint32_t)rank), e);
}

static void member_free(struct member *m)
{
    if (!m)
        return;
    coll_jobs_free(m->jobs);
    coll_link_close(&m->link);
    free(m->bucket);
    free(m);
}

manta_coll *manta_coll_join(const manta_coll_id *id, int rank, manta_error *e)
{
    struct member *m = calloc(1, sizeof *m);
    manta_coll    *handle = NULL;
    if (!m) {
        sgd_fail(e, MANTA_ENOMEM, "no memory for a member of a group");
        return NULL;
    }
    if (join(m, id, rank, e) == MANTA_OK)
        handle = coll_handle_new(MT_HANDLE_MEMBER, m, e);
    if (!handle)
        member_free(m);
    return handle;
}

/* ---- members that meet by themselves ---- */

static_assert((int)MANTA_COLL_SECRET_BYTES == (int)COLL_SECRET_BYTES, "one secret");
static_assert(sizeof(struct coll_at) <= sizeof(manta_coll_address), "travels as plain bytes");

manta_coll *manta_coll_listen(const char *host, manta_coll_address *out, manta_error *e)
{
    struct member *m = NULL;
    manta_coll    *handle = NULL;
    if (!host || !out) {
        coll_null(e, "listen", host ? "out" : "host");
        return NULL;
    }
    m = calloc(1, sizeof *m);
    if (!m) {
        sgd_fail(e, MANTA_ENOMEM, "no memory for a member of a group");
        return NULL;
    }
    if (coll_link_fail(&m->link, coll_link_listen(&m->link, host), e) == MANTA_OK)
        handle = coll_handle_new(MT_HANDLE_MEMBER, m, e);
    if (!handle) {
        member_free(m);
        return NULL;
    }
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &m->link.at, sizeof m->link.at);
    return handle;
}

static manta_status peers_check(const struct coll_link *link, const manta_coll_peers *p, manta_error *e)
{
    if (!p)
        return coll_null(e, "meet", "peers");
    if (!p->addresses || !p->secret)
        return coll_null(e, "meet", p->secret ? "peers->addresses" : "peers->secret");
    if (MT_RESERVED_IS_USED(p))
        return sgd_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_coll_meet");
    if (!link->is_by_itself)
        return sgd_fail(e, MANTA_EINVAL, "manta_coll_meet: this member has joined by a manta_coll_id; manta_coll_listen makes one");
    if (p->size < 1 || p->size > MANTA_COLL_MEMBERS_MAX || p->rank < 0 || p->rank >= p->size)
        return sgd_fail(e, MANTA_EINVAL, "rank %d of %d members: a group has 1 to %d, and ranks are from 0", p->rank, p->size,
                        MANTA_COLL_MEMBERS_MAX);
    if (p->generation < 1 || (uint32_t)p->generation <= link->id.generation)
        return sgd_fail(e, MANTA_EINVAL, "generation %d: the last one was %u", p->generation, link->id.generation);
    if ((p->name && strlen(p->name) >= COLL_NAME_BYTES) || p->timeout_ms < 0 || p->timeout_ms > INT32_MAX)
        return sgd_fail(e, MANTA_EINVAL, "name has more than %d bytes, or timeout_ms is out of range", COLL_NAME_BYTES - 1);
    if (memcmp(p->addresses[p->rank].bytes, &link->at, sizeof link->at) != 0)
        return sgd_fail(e, MANTA_EINVAL, "addresses[%d], of this rank, is not what manta_coll_listen gave", p->rank);
    return MANTA_OK;
}

manta_status manta_coll_meet(manta_coll *coll, const manta_coll_peers *peers, manta_error *e)
{
    struct coll_at    at[MT_GROUP_MEMBERS_MAX];
    manta_status      code;
    struct coll_link *link = enter(coll, "meet", &code, e);
    code = link ? peers_check(link, peers, e) : code;
    if (code != MANTA_OK)
        return code;
    struct coll_id id = {.magic = COLL_ID_MAGIC,
                         .group = peers->group,
                         .plan = {.members_max = (uint32_t)peers->size},
                         .generation = (uint32_t)peers->generation,
                         .members = (uint32_t)peers->size,
                         .wait_limit_ms = (uint32_t)peers->timeout_ms,
                         .is_tcp = 1};
    snprintf(id.name, sizeof id.name, "%s", peers->name ? peers->name : "group");
    memcpy(id.secret, peers->secret, sizeof id.secret);
    for (int r = 0; r < peers->size; r++)
        memcpy(&at[r], peers->addresses[r].bytes, sizeof at[r]);
    code = coll_link_fail(link, coll_link_meet(link, &id, (uint32_t)peers->rank, at), e);
    explicit_bzero(&id, sizeof id);
    return code;
}

void manta_coll_leave(manta_coll *handle)
{
    member_free(coll_handle_close(MT_HANDLE_MEMBER, handle));
}

int manta_coll_rank(const manta_coll *handle)
{
    const struct member *m = look(handle);
    return m && m->link.rank < MT_GROUP_MEMBERS_MAX ? (int)m->link.rank : -1;
}

int manta_coll_size(const manta_coll *handle)
{
    const struct member *m = look(handle);
    return m ? (int)m->link.id.members : 0;
}

int manta_coll_generation(const manta_coll *handle)
{
    const struct member *m = look(handle);
    return m ? (int)m->link.id.generation : 0;
}

void manta_coll_abort(manta_coll *handle)
{
    struct member *m = look(handle);
    if (m)
        coll_link_abort(&m->link);
}

/* ---- generations ---- */

manta_status manta_coll_agree(manta_coll *coll, uint64_t *flags, uint64_t *out_alive, manta_error *e)
{
    manta_status         code;
    struct coll_link    *link = enter(coll, "agree", &code, e);
    struct coll_decision d;
    if (!link)
        return code;
    if (!flags)
        return coll_null(e, "agree", "flags");
    code = coll_link_decide(link, *flags, &d);
    if (code == MANTA_OK) {
        *flags = d.flags;
        if (out_alive)
            *out_alive = d.alive;
    }
    return coll_link_fail(link, code, e);
}

manta_status manta_coll_shrink(manta_coll *coll, manta_error *e)
{
    manta_status         code;
    struct coll_link    *link = enter(coll, "shrink", &code, e);
    struct coll_decision d;
    int8_t               from[MT_GROUP_MEMBERS_MAX];
    uint32_t             members = 0, rank = 0;
    if (!link)
        return code;
    code = coll_link_decide(link, 0, &d);

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
    manta_status      code;
    struct coll_link *link = enter(coll, "regroup", &code, e);
    struct coll_id    id;
    if (link)
        code = coll_id_read(bytes, &id, e);
    if (code != MANTA_OK)
        return code;
    if (id.group != link->id.group)
        return sgd_fail(e, MANTA_EINVAL, "this is an id of group \"%s\", not of group \"%s\"", id.name, link->id.name);
    return coll_link_fail(link, coll_link_move(link, id.generation, (uint32_t)rank, id.members, NULL), e);
}

void *manta_coll_alloc(manta_coll *coll, size_t size, manta_error *e)
{
    struct member *m = coll_handle_of(MT_HANDLE_MEMBER, coll, "alloc", NULL, e);
    if (!m)
        return NULL;
    const struct coll_id *id = &m->link.id;
    void                 *memory = id->is_tcp ? NULL : coll_shm_alloc(&m->link.shm, size);
    if (!memory)
        sgd_fail(e, MANTA_ENOMEM, "group \"%s\" has a heap of %llu bytes for %u members: no room for %zu more", id->name,
                 (unsigned long long)id->plan.heap_size, id->members, size);
    return memory;
}

manta_status manta_coll_register(manta_coll *coll, void *data, size_t size, manta_error *e)
{
    manta_status      code;
    struct coll_link *link = enter(coll, "register", &code, e);
    return link ? coll_link_fail(link, coll_link_register(link, data, size), e) : code;
}

manta_status manta_coll_unregister(manta_coll *coll, void *data, manta_error *e)
{
    manta_status      code;
    struct coll_link *link = enter(coll, "unregister", &code, e);
    return link ? coll_link_fail(link, coll_link_unregister(link, data), e) : code;
}

/* ---- calls ---- */

static manta_status job_check(const struct member *m, const struct coll_job *job, manta_error *e)
{
    const struct coll_call *call = &job->call;
    const char             *name = coll_kind_name(call->kind);
    bool                    needs_out = call->kind != COLL_REDUCE || call->root == m->link.rank;
    if ((unsigned)call->type >= COLL_TYPES || (unsigned)call->op >= COLL_OPS)
        return sgd_fail(e, MANTA_EINVAL, "%s: type %d or operation %d is none of ours", name, (int)call->type, (int)call->op);
    if (call->root >= m->link.id.members)
        return sgd_fail(e, MANTA_EINVAL, "%s: root %d, and group \"%s\" has %u members", name, (int)call->root, m->link.id.name,
                        m->link.id.members);
    if (job->tensor_count > MT_TENSORS_MAX || (job->tensor_count && !job->tensors))
        return sgd_fail(e, MANTA_EINVAL, "%s: %zu tensors, or no list of them", name, job->tensor_count);
    for (size_t i = 0; i < (job->tensors ? job->tensor_count : 1); i++) {
        manta_coll_tensor t = job->tensors ? job->tensors[i] : (manta_coll_tensor){call->in, call->out, call->count};
        if (t.count > SIZE_MAX / 8 / MT_GROUP_MEMBERS_MAX || (t.count && (!t.in || (needs_out && !t.out))))
            return sgd_fail(e, MANTA_EINVAL, "%s: %zu elements, or no buffer", name, t.count);
    }
    return MANTA_OK;
}

static manta_coll_request *start(const manta_coll *coll, const struct coll_job *job, manta_error *e)
{
    struct member *m = coll_handle_of(MT_HANDLE_MEMBER, coll, coll_kind_name(job->call.kind), NULL, e);
    if (!m || job_check(m, job, e) != MANTA_OK)
        return NULL;
    if (!m->jobs)
        m->jobs = coll_jobs_new(&m->link);
    manta_coll_request *request = m->jobs ? coll_jobs_add(m->jobs, job) : NULL;
    if (!request)
        sgd_fail(e, m->jobs ? MANTA_EAGAIN : MANTA_ENOMEM, "%d calls are started and not done, or no memory", MT_COLL_QUEUE_MAX);
    return request;
}

static manta_status run(const manta_coll *coll, const struct coll_job *job, manta_error *e)
{
    manta_status   code;
    struct member *m = coll_handle_of(MT_HANDLE_MEMBER, coll, coll_kind_name(job->call.kind), &code, e);
    if (m)
        code = job_check(m, job, e);
    if (code != MANTA_OK)
        return code;
    return coll_link_fail(&m->link, coll_job_run(link_take(m), job, &m->bucket), e);
}

static struct coll_job reduction(enum coll_kind kind, const void *in, void *out, size_t count, manta_coll_type type,
                                 manta_coll_op op)
{
    return (struct coll_job){
        .call = {.kind = kind, .type = (enum coll_type)type, .op = (enum coll_op)op, .count = count, .in = in, .out = out}};
}

static struct coll_job copying(enum coll_kind kind, const void *in, void *out, size_t count, manta_coll_type type, int root)
{
    return (struct coll_job){
        .call = {.kind = kind, .type = (enum coll_type)type, .root = (uint32_t)root, .count = count, .in = in, .out = out}};
}

static struct coll_job many(const manta_coll_tensor *tensors, size_t count, manta_coll_type type, manta_coll_op op)
{
    static const manta_coll_tensor none[1];
    struct coll_job                job = reduction(COLL_ALL_REDUCE, NULL, NULL, 0, type, op);
    job.tensors = count ? tensors : none;
    job.tensor_count = count;
    return job;
}

manta_status manta_coll_all_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                   manta_coll_op op, manta_error *e)
{
    struct coll_job job = reduction(COLL_ALL_REDUCE, in, out, count, type, op);
    return run(coll, &job, e);
}

manta_status manta_coll_all_reduce_many(manta_coll *coll, const manta_coll_tensor *tensors, size_t tensor_count,
                                        manta_coll_type type, manta_coll_op op, manta_error *e)
{
    struct coll_job job = many(tensors, tensor_count, type, op);
    return run(coll, &job, e);
}

manta_status manta_coll_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type, manta_coll_op op,
                               int root, manta_error *e)
{
    struct coll_job job = reduction(COLL_REDUCE, in, out, count, type, op);
    job.call.root = (uint32_t)root;
    return run(coll, &job, e);
}

manta_status manta_coll_reduce_scatter(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                       manta_coll_op op, manta_error *e)
{
    struct coll_job job = reduction(COLL_REDUCE_SCATTER, in, out, count, type, op);
    return run(coll, &job, e);
}

manta_status manta_coll_all_gather(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type, manta_error *e)
{
    struct coll_job job = copying(COLL_ALL_GATHER, in, out, count, type, 0);
    return run(coll, &job, e);
}

manta_status manta_coll_broadcast(manta_coll *coll, void *data, size_t count, manta_coll_type type, int root, manta_error *e)
{
    struct coll_job job = copying(COLL_BROADCAST, data, data, count, type, root);
    return run(coll, &job, e);
}

manta_status manta_coll_all_to_all(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type, manta_error *e)
{
    struct coll_job job = copying(COLL_ALL_TO_ALL, in, out, count, type, 0);
    return run(coll, &job, e);
}

manta_status manta_coll_barrier(manta_coll *coll, manta_error *e)
{
    struct coll_job job = copying(COLL_BARRIER, NULL, NULL, 0, MANTA_COLL_F32, 0);
    return run(coll, &job, e);
}

/* ---- started ---- */

manta_coll_request *manta_coll_all_reduce_start(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                                manta_coll_op op, manta_error *e)
{
    struct coll_job job = reduction(COLL_ALL_REDUCE, in, out, count, type, op);
    return start(coll, &job, e);
}

manta_coll_request *manta_coll_all_reduce_many_start(manta_coll *coll, const manta_coll_tensor *tensors, size_t tensor_count,
                                                     manta_coll_type type, manta_coll_op op, manta_error *e)
{
    struct coll_job job = many(tensors, tensor_count, type, op);
    return start(coll, &job, e);
}

manta_coll_request *manta_coll_reduce_scatter_start(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                                    manta_coll_op op, manta_error *e)
{
    struct coll_job job = reduction(COLL_REDUCE_SCATTER, in, out, count, type, op);
    return start(coll, &job, e);
}

manta_coll_request *manta_coll_all_gather_start(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                                manta_error *e)
{
    struct coll_job job = copying(COLL_ALL_GATHER, in, out, count, type, 0);
    return start(coll, &job, e);
}

manta_coll_request *manta_coll_broadcast_start(manta_coll *coll, void *data, size_t count, manta_coll_type type, int root,
                                               manta_error *e)
{
    struct coll_job job = copying(COLL_BROADCAST, data, data, count, type, root);
    return start(coll, &job, e);
}

/* ---- messages ---- */

static manta_status exchange(manta_coll *coll, const char *name, const struct coll_message *out, const struct coll_message *in,
                             manta_error *e)
{
    const struct coll_message *both[2] = {out, in};
    manta_status               code;
    struct member             *member = coll_handle_of(MT_HANDLE_MEMBER, coll, name, &code, e);
    if (!member)
        return code;
    struct coll_link *link = &member->link;
    for (int i = 0; i < 2; i++) {
        const struct coll_message *m = both[i];
        if (!m->data && !m->count && m->peer == MT_GROUP_MEMBERS_MAX)
            continue;
        if ((unsigned)m->type >= COLL_TYPES || m->count > SIZE_MAX / 8 || (m->count && !m->data))
            return sgd_fail(e, MANTA_EINVAL, "a message of %zu of type %d, or no buffer", m->count, (int)m->type);
        if (m->peer >= link->id.members || m->peer == link->rank)
            return sgd_fail(e, MANTA_EINVAL, "a message between rank %u and rank %d of group \"%s\", which has %u members",
                            link->rank, (int)m->peer, link->id.name, link->id.members);
    }
    return coll_link_fail(link, coll_link_exchange(link_take(member), out, in), e);
}

static const struct coll_message nothing = {.peer = MT_GROUP_MEMBERS_MAX};

manta_status manta_coll_send(manta_coll *coll, const void *data, size_t count, manta_coll_type type, int to, manta_error *e)
{
    struct coll_message m = {(uint32_t)to, (enum coll_type)type, count, (void *)(uintptr_t)data};
    return exchange(coll, "send", &m, &nothing, e);
}

manta_status manta_coll_receive(manta_coll *coll, void *data, size_t count, manta_coll_type type, int from, manta_error *e)
{
    struct coll_message m = {(uint32_t)from, (enum coll_type)type, count, data};
    return exchange(coll, "receive", &nothing, &m, e);
}

manta_status manta_coll_send_receive(manta_coll *coll, const void *out, size_t out_count, int to, void *in, size_t in_count,
                                     int from, manta_coll_type type, manta_error *e)
{
    struct coll_message there = {(uint32_t)to, (enum coll_type)type, out_count, (void *)(uintptr_t)out};
    struct coll_message here = {(uint32_t)from, (enum coll_type)type, in_count, in};
    return exchange(coll, "send_receive", &there, &here, e);
}

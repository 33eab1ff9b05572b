/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.c - public collective calls on GPUs: the group says who is there and what they are about to do, NCCL moves the data.
 *
 * Owns:   the communicator; borrows the member. Thread: the member's.
 *
 *   OUT --join--> IN --leave, an error of joining or shrinking--> OUT
 *                  '--leave, and NCCL does not end it--> STUCK
 */
#include "sgd/coll/api/handle.h"
#include "sgd/coll/api/link.h"
#include "sgd/coll/gpu/nccl.h"

#include "core/base/clock.h"
#include "core/base/machine.h"
#include "core/base/reserved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum gpu_state { GPU_OUT, GPU_IN, GPU_STUCK };

struct gpu {
    manta_coll                   *coll; /* a handle: it may have left */
    const struct sgd_nccl_plugin *nccl;
    enum gpu_state                state;
    struct sgd_nccl              *comm; /* IN */
    manta_coll_gpu_opts           opts;
    uint32_t                      before[2]; /* rank and size in the generation that comm is of */
    char                          text[SGD_NCCL_TEXT];
};

static const char *const names[] = {[GPU_OUT] = "OUT", [GPU_IN] = "IN", [GPU_STUCK] = "STUCK"};
static const uint32_t    next_of[] = {
       [GPU_OUT] = MT_STATE(GPU_IN), [GPU_IN] = MT_STATE(GPU_OUT) | MT_STATE(GPU_STUCK), [GPU_STUCK] = 0};
static const struct mt_machine machine = MT_MACHINE("member's GPU", names, next_of);

static void gpu_set_state(struct gpu *gpu, enum gpu_state next)
{
    MT_TRANSITION(&machine, gpu->state, next);
    MT_ASSERT((next == GPU_IN) == (gpu->comm != NULL));
    gpu->state = next;
}

/* What this member is about to do, as the others see it. `code` is not OK where it can't. */
struct intent {
    struct coll_head head;
    int32_t          code, reserved;
};

static mt_status look(void *of)
{
    struct gpu       *gpu = of;
    struct coll_link *link = coll_member_link(gpu->coll);
    manta_status      code = link ? coll_link_look(link) : MANTA_EHANDLE;
    return code == MANTA_OK ? mt_ok() : mt_error((int32_t)code, 0, "the group is over");
}

/* A failure of NCCL's: the group's reason if the group is over (NCCL may feel a death before the news of it comes), else the
 * device's. Then the group ends with it: all members have agreed to be in this call, and would wait. */
static manta_status fail(struct gpu *gpu, mt_status st, manta_error *e)
{
    struct coll_link *link = coll_member_link(gpu->coll);
    manta_status      code = coll_link_look(link);
    for (int64_t until = mt_now_ms() + MT_NCCL_NEWS_MS; code == MANTA_OK && st.code == MT_EDEVICE && mt_now_ms() < until;) {
        mt_sleep_ms(1);
        code = coll_link_look(link);
    }
    if (code != MANTA_OK)
        return coll_link_fail(link, code, e);
    coll_link_abort(link);
    return sgd_fail(e, (manta_status)st.code, "%s", gpu->text[0] ? gpu->text : st.what);
}

/* Tells all members `own`, and compares theirs with rank 0's. */
static manta_status compare(struct gpu *gpu, const struct intent *own, manta_error *e)
{
    struct coll_link *link = coll_member_link(gpu->coll);
    struct intent     all[MT_GROUP_MEMBERS_MAX];
    struct coll_call  call = {.kind = COLL_ALL_GATHER, .type = COLL_U8, .count = sizeof *own, .in = own, .out = all};
    manta_status      code = coll_link_run(link, &call);
    char              text[COLL_TEXT_BYTES];

    if (code != MANTA_OK)
        return coll_link_fail(link, code, e);
    for (uint32_t r = 0; r < link->id.members; r++) {
        if (all[r].code != 0 && r != link->rank && own->code == 0)
            return sgd_fail(e, (manta_status)all[r].code, "rank %u of group \"%s\" has no GPU or no NCCL", r, link->id.name);
        if (all[r].code != 0 || coll_head_equals(&all[0].head, &all[r].head))
            continue;
        coll_head_explain(text, link->id.name, 0, &all[0].head, r, &all[r].head);
        return sgd_fail(e, MANTA_EINVAL, "%s", text);
    }
    return own->code ? sgd_fail(e, (manta_status)own->code, "%s", gpu->text) : MANTA_OK;
}

/* ---- membership ---- */

static struct sgd_nccl_config config_of(struct gpu *gpu)
{
    return (struct sgd_nccl_config){.rank = manta_coll_rank(gpu->coll),
                                    .size = manta_coll_size(gpu->coll),
                                    .device = gpu->opts.device,
                                    .look = look,
                                    .user = gpu,
                                    .text = gpu->text,
                                    .wait_ms = gpu->opts.timeout_ms ? (uint32_t)gpu->opts.timeout_ms : MT_COLL_WAIT_MS};
}

static void communicator_leave(struct gpu *gpu)
{
    struct sgd_nccl *comm = gpu->comm;
    if (gpu->state != GPU_IN)
        return;
    gpu->comm = NULL;
    gpu_set_state(gpu, gpu->nccl->leave(comm) ? GPU_OUT : GPU_STUCK);
}

/* What joining came to here, then whether all others have come as far: NCCL tells some of them that they are in a communicator
 * that it has refused to others. */
static manta_status joined(struct gpu *gpu, mt_status st, manta_error *e)
{
    struct coll_link *link = coll_member_link(gpu->coll);
    struct coll_call  call = {.kind = COLL_BARRIER};
    manta_status      code;
    if (st.code != 0) {
        communicator_leave(gpu);
        return fail(gpu, st, e);
    }
    gpu->before[0] = (uint32_t)manta_coll_rank(gpu->coll);
    gpu->before[1] = (uint32_t)manta_coll_size(gpu->coll);
    code = coll_link_run(link, &call);
    return code == MANTA_OK ? code : coll_link_fail(link, code, e);
}

/* Rank 0's id of NCCL goes to all, and all join by it. Whether each is able to is compared first, so that no one is left
 * waiting inside NCCL. */
static manta_status communicator_make(struct gpu *gpu, manta_error *e)
{
    struct coll_link      *link = coll_member_link(gpu->coll);
    struct sgd_nccl_config config = config_of(gpu);
    struct intent          own = {.head = {.kind = COLL_JOIN, .count = gpu->opts.nccl_comm ? 1 : 0}};
    unsigned char          id[SGD_NCCL_ID] = {0};
    struct coll_call       call = {.kind = COLL_BROADCAST, .type = COLL_U8, .count = sizeof id, .in = id, .out = id};
    mt_status              st = sgd_nccl_open(&gpu->nccl, gpu->text);

    if (st.code == 0 && config.rank == 0 && !gpu->opts.nccl_comm)
        st = gpu->nccl->id(id, gpu->text);
    own.code = st.code;
    manta_status code = compare(gpu, &own, e);
    if (code != MANTA_OK)
        return code;
    code = coll_link_run(link, &call);
    if (code != MANTA_OK)
        return coll_link_fail(link, code, e);
    st = gpu->nccl->join(&config, id, gpu->opts.nccl_comm, &gpu->comm);
    if (gpu->comm) /* also where it failed: there is something to leave */
        gpu_set_state(gpu, GPU_IN);
    return joined(gpu, st, e);
}

static void gpu_free(struct gpu *gpu)
{
    if (!gpu)
        return;
    communicator_leave(gpu);
    free(gpu);
}

manta_coll_gpu *manta_coll_gpu_join(manta_coll *coll, const manta_coll_gpu_opts *opts, manta_error *e)
{
    manta_coll_gpu *handle = NULL;
    if (!coll_handle_of(MT_HANDLE_MEMBER, coll, "gpu_join", NULL, e))
        return NULL;
    if (opts && MT_RESERVED_IS_USED(opts)) {
        sgd_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, "manta_coll_gpu_join");
        return NULL;
    }
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) {
        sgd_fail(e, MANTA_ENOMEM, "no memory for a communicator");
        return NULL;
    }
    gpu->coll = coll;
    if (opts)
        gpu->opts = *opts;
    if (communicator_make(gpu, e) == MANTA_OK)
        handle = coll_handle_new(MT_HANDLE_GPU, gpu, e);
    if (!handle)
        gpu_free(gpu);
    return handle;
}

void manta_coll_gpu_leave(manta_coll_gpu *handle)
{
    gpu_free(coll_handle_close(MT_HANDLE_GPU, handle));
}

/* Where manta_coll_gpu_CALL enters. NULL: there is no such communicator, or its member has left. */
static struct gpu *enter(const manta_coll_gpu *handle, const char *call, manta_status *out_code, manta_error *e)
{
    char        name[32];
    struct gpu *gpu;
    snprintf(name, sizeof name, "gpu_%s", call);
    gpu = coll_handle_of(MT_HANDLE_GPU, handle, name, out_code, e);
    return gpu && coll_handle_of(MT_HANDLE_MEMBER, gpu->coll, name, out_code, e) ? gpu : NULL;
}

/* The ranks of before that are not among `alive`. */
static int dead_list(const struct gpu *gpu, uint64_t alive, int dead[MT_GROUP_MEMBERS_MAX])
{
    int count = 0;
    for (uint32_t r = 0; r < gpu->before[1]; r++)
        if (!(alive >> r & 1))
            dead[count++] = (int)r;
    return count;
}

/* Whether every member says so: they must take the same way. */
static manta_status everyone(struct gpu *gpu, bool own, bool *out_all, manta_error *e)
{
    struct coll_link *link = coll_member_link(gpu->coll);
    uint8_t           word = own;
    struct coll_call  call = {.kind = COLL_ALL_REDUCE, .type = COLL_U8, .op = COLL_MIN, .count = 1, .in = &word, .out = &word};
    manta_status      code = coll_link_run(link, &call);
    *out_all = word != 0;
    return code == MANTA_OK ? code : coll_link_fail(link, code, e);
}

/* Out of the former communicator, where each survivor's is whole: by a wait that a death has ended it no longer is. A shrink
 * that fails ends the generation, for others may be in the middle of theirs. */
static manta_status shrink(struct gpu *gpu, uint64_t alive, bool *out_done, manta_error *e)
{
    int          dead[MT_GROUP_MEMBERS_MAX], count = dead_list(gpu, alive, dead);
    int          rank = manta_coll_rank(gpu->coll), size = manta_coll_size(gpu->coll);
    bool         can = gpu->state == GPU_IN && gpu->nccl->is_whole(gpu->comm) && count > 0 && count + size == (int)gpu->before[1];
    bool         all = false;
    manta_status code = everyone(gpu, can, &all, e);
    if (code != MANTA_OK || !all)
        return code;
    *out_done = true;
    return joined(gpu, gpu->nccl->shrink(gpu->comm, dead, count, rank, size), e);
}

manta_status manta_coll_gpu_renew(manta_coll_gpu *handle, uint64_t alive, manta_error *e)
{
    bool         is_done = false;
    manta_status code;
    struct gpu  *gpu = enter(handle, "renew", &code, e);
    if (!gpu)
        return code;
    code = alive ? shrink(gpu, alive, &is_done, e) : MANTA_OK;
    if (is_done || code != MANTA_OK)
        return code;
    communicator_leave(gpu);
    gpu->opts.nccl_comm = NULL; /* it was of other members */
    if (gpu->state == GPU_STUCK) {
        coll_link_abort(coll_member_link(gpu->coll));
        return sgd_fail(e, MANTA_EDEVICE, "NCCL did not end the former communicator within %d ms: this process has to end",
                        MT_NCCL_ABORT_MS);
    }
    return communicator_make(gpu, e);
}

/* ---- calls ---- */

static const enum sgd_nccl_kind kinds[COLL_KINDS] = {
    [COLL_ALL_REDUCE] = SGD_NCCL_ALL_REDUCE, [COLL_REDUCE_SCATTER] = SGD_NCCL_REDUCE_SCATTER,
    [COLL_ALL_GATHER] = SGD_NCCL_ALL_GATHER, [COLL_BROADCAST] = SGD_NCCL_BROADCAST,
    [COLL_REDUCE] = SGD_NCCL_REDUCE,         [COLL_ALL_TO_ALL] = SGD_NCCL_ALL_TO_ALL};

static manta_status run(const manta_coll_gpu *handle, const struct coll_call *call, void *stream, manta_error *e)
{
    manta_status code;
    struct gpu  *gpu = enter(handle, coll_kind_name(call->kind), &code, e);
    if (!gpu)
        return code;
    struct intent        own = {.head = coll_head_of(call)};
    struct sgd_nccl_call order = {.kind = kinds[call->kind],
                                  .type = call->type,
                                  .op = call->op,
                                  .root = (int)call->root,
                                  .count = call->count,
                                  .in = call->in,
                                  .out = call->out,
                                  .stream = stream};
    if (gpu->state != GPU_IN)
        return sgd_fail(e, MANTA_EINVAL, "the last error has ended this communicator; see manta_coll_gpu_renew");
    if ((unsigned)call->type >= COLL_TYPES || (unsigned)call->op >= COLL_OPS ||
        call->root >= (uint32_t)manta_coll_size(gpu->coll) || (call->count && (!call->in || !call->out)))
        return sgd_fail(e, MANTA_EINVAL, "%s on a GPU: type, operation, root or buffer", coll_kind_name(call->kind));
    code = compare(gpu, &own, e);
    if (code != MANTA_OK)
        return code;
    gpu->text[0] = 0;
    mt_status st = gpu->nccl->start(gpu->comm, &order);
    return st.code == 0 ? MANTA_OK : fail(gpu, st, e);
}

static struct coll_call call_of(enum coll_kind kind, const void *in, void *out, size_t count, manta_coll_type type,
                                manta_coll_op op, int root)
{
    return (struct coll_call){.kind = kind,
                              .type = (enum coll_type)type,
                              .op = (enum coll_op)op,
                              .root = (uint32_t)root,
                              .count = count,
                              .in = in,
                              .out = out};
}

manta_status manta_coll_gpu_all_reduce(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                       manta_coll_op op, void *stream, manta_error *e)
{
    struct coll_call call = call_of(COLL_ALL_REDUCE, in, out, count, type, op, 0);
    return run(gpu, &call, stream, e);
}

manta_status manta_coll_gpu_reduce_scatter(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                           manta_coll_op op, void *stream, manta_error *e)
{
    struct coll_call call = call_of(COLL_REDUCE_SCATTER, in, out, count, type, op, 0);
    return run(gpu, &call, stream, e);
}

manta_status manta_coll_gpu_all_gather(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                       void *stream, manta_error *e)
{
    struct coll_call call = call_of(COLL_ALL_GATHER, in, out, count, type, MANTA_COLL_SUM, 0);
    return run(gpu, &call, stream, e);
}

manta_status manta_coll_gpu_broadcast(manta_coll_gpu *gpu, void *data, size_t count, manta_coll_type type, int root, void *stream,
                                      manta_error *e)
{
    struct coll_call call = call_of(COLL_BROADCAST, data, data, count, type, MANTA_COLL_SUM, root);
    return run(gpu, &call, stream, e);
}

manta_status manta_coll_gpu_all_to_all(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                       void *stream, manta_error *e)
{
    struct coll_call call = call_of(COLL_ALL_TO_ALL, in, out, count, type, MANTA_COLL_SUM, 0);
    return run(gpu, &call, stream, e);
}

manta_status manta_coll_gpu_wait(manta_coll_gpu *handle, void *stream, manta_error *e)
{
    manta_status code;
    struct gpu  *gpu = enter(handle, "wait", &code, e);
    if (!gpu)
        return code;
    if (gpu->state != GPU_IN)
        return sgd_fail(e, MANTA_EINVAL, "the last error has ended this communicator; see manta_coll_gpu_renew");
    gpu->text[0] = 0;
    mt_status st = gpu->nccl->wait(gpu->comm, stream);
    return st.code == 0 ? MANTA_OK : fail(gpu, st, e);
}

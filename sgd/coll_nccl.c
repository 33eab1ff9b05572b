/* SPDX-License-Identifier: Apache-2.0
 *
 * coll_nccl.c - the NCCL plugin: communicators whose waits end when the group does. The one file that includes nccl.h.
 *
 * Owns:   a communicator (but one that was adopted), and a stream of its own. Thread: one at a time per communicator; an
 *         abort runs on a thread of its own, since it may hang.
 */
#include "sgd/nccl.h"

#include "core/base/clock.h"
#include "core/base/limits.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sgd_nccl {
    struct sgd_nccl_config config;
    ncclComm_t             comm; /* NULL: there is none any more */
    cudaStream_t           stream;
    bool                   is_adopted;
};

static mt_status failed(char *text, const char *what, ncclResult_t result)
{
    snprintf(text, SGD_NCCL_TEXT, "%s: %s", what, ncclGetErrorString(result));
    return mt_error(result == ncclInvalidArgument ? MT_EINVAL : MT_EDEVICE, (int)result, what);
}

static mt_status device_failed(char *text, const char *what, cudaError_t error)
{
    (void)cudaGetLastError();
    snprintf(text, SGD_NCCL_TEXT, "%s: %s", what, cudaGetErrorString(error));
    return mt_error(MT_EDEVICE, (int)error, what);
}

/* ---- ending a communicator ---- */

struct ending {
    ncclComm_t      comm;
    _Atomic int     users; /* who frees it is the last of the two */
    _Atomic bool    is_done;
};

static void ending_let_go(struct ending *e)
{
    if (atomic_fetch_sub(&e->users, 1) == 1)
        free(e);
}

static void *ending_run(void *of)
{
    struct ending *e = of;
    ncclCommAbort(e->comm);
    atomic_store(&e->is_done, true);
    ending_let_go(e);
    return NULL;
}

static bool comm_abort(struct sgd_nccl *n)
{
    struct ending *e = calloc(1, sizeof *e);
    pthread_t      thread;
    ncclComm_t     comm = n->comm;
    n->comm = NULL;
    if (!comm || !e) {
        free(e);
        return !comm;
    }
    e->comm = comm;
    atomic_store(&e->users, 2);
    if (pthread_create(&thread, NULL, ending_run, e) != 0) {
        free(e);
        return false;
    }
    pthread_detach(thread);
    int64_t deadline = mt_now_ms() + MT_NCCL_ABORT_MS;
    while (!atomic_load(&e->is_done) && mt_now_ms() < deadline)
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    bool is_done = atomic_load(&e->is_done);
    ending_let_go(e);
    return is_done;
}

/* ---- waiting ---- */

/* A wait's limit, and how often it looks at what costs a system call. */
struct wait {
    int64_t  deadline;
    uint32_t looks;
};

static struct wait wait_begin(const struct sgd_nccl *n)
{
    return (struct wait){.deadline = mt_now_ms() + n->config.wait_ms};
}

/* One look while something is under way: OK to go on waiting. Any error ends the communicator. */
static mt_status wait_look(struct sgd_nccl *n, struct wait *w, const char *what)
{
    ncclResult_t result = ncclSuccess;
    mt_status    st = mt_ok();
    ncclResult_t asked = ncclCommGetAsyncError(n->comm, &result);
    if (asked != ncclSuccess)
        result = asked;
    if (result != ncclSuccess && result != ncclInProgress)
        st = failed(n->config.text, what, result);
    else if (++w->looks % 16 == 0 && n->config.look)
        st = n->config.look(n->config.user);
    if (st.code == 0 && mt_now_ms() > w->deadline) {
        snprintf(n->config.text, SGD_NCCL_TEXT, "%s: not done after %u ms", what, n->config.wait_ms);
        st = mt_error(MT_ETIMEDOUT, 0, what);
    }
    if (st.code != 0)
        (void)comm_abort(n);
    else
        sched_yield();
    return st;
}

/* Until NCCL itself is done with the last call to it. */
static mt_status settle(struct sgd_nccl *n, ncclResult_t result, const char *what)
{
    struct wait w = wait_begin(n);
    if (result != ncclSuccess && result != ncclInProgress) {
        mt_status st = failed(n->config.text, what, result);
        if (result != ncclInvalidArgument)
            (void)comm_abort(n);
        return st;
    }
    while (result == ncclInProgress) {
        MT_TRY(wait_look(n, &w, what));
        if (ncclCommGetAsyncError(n->comm, &result) != ncclSuccess)
            result = ncclInProgress; /* the next look says so */
    }
    return mt_ok();
}

static cudaStream_t stream_of(const struct sgd_nccl *n, void *stream)
{
    return stream ? (cudaStream_t)stream : n->stream;
}

static mt_status plugin_wait(struct sgd_nccl *n, void *stream)
{
    struct wait w = wait_begin(n);
    if (!n->comm)
        return mt_error(MT_ECANCELLED, 0, "wait for NCCL: the communicator was aborted");
    for (;;) {
        cudaError_t e = cudaStreamQuery(stream_of(n, stream));
        if (e != cudaSuccess && e != cudaErrorNotReady) {
            (void)comm_abort(n);
            return device_failed(n->config.text, "wait for NCCL", e);
        }
        if (e == cudaSuccess) { /* an abort from outside ends kernels too */
            ncclResult_t result = ncclSuccess;
            if (ncclCommGetAsyncError(n->comm, &result) == ncclSuccess && result == ncclSuccess)
                return mt_ok();
        }
        MT_TRY(wait_look(n, &w, "wait for NCCL"));
    }
}

/* ---- joining ---- */

static mt_status plugin_id(unsigned char id[SGD_NCCL_ID], char text[SGD_NCCL_TEXT])
{
    ncclUniqueId unique;
    ncclResult_t result = ncclGetUniqueId(&unique);
    static_assert(sizeof unique == SGD_NCCL_ID, "as NCCL has it");
    if (result != ncclSuccess)
        return failed(text, "make an id of NCCL", result);
    memcpy(id, &unique, sizeof unique);
    return mt_ok();
}

static mt_status comm_adopt(struct sgd_nccl *n, void *comm)
{
    int rank = -1, size = -1;
    n->comm = comm;
    n->is_adopted = true;
    ncclResult_t result = ncclCommUserRank(n->comm, &rank);
    if (result == ncclSuccess)
        result = ncclCommCount(n->comm, &size);
    if (result != ncclSuccess)
        return failed(n->config.text, "adopt a communicator", result);
    if (rank == n->config.rank && size == n->config.size)
        return mt_ok();
    snprintf(n->config.text, SGD_NCCL_TEXT, "the communicator is of rank %d among %d, the group's member is rank %d among %d",
             rank, size, n->config.rank, n->config.size);
    return mt_error(MT_EINVAL, 0, "adopt a communicator");
}

static mt_status comm_make(struct sgd_nccl *n, const unsigned char id[SGD_NCCL_ID])
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(&n->comm, n->config.size, unique, n->config.rank, &config);
    return settle(n, result, "join NCCL");
}

static void plugin_leave(struct sgd_nccl *n)
{
    if (!n->is_adopted)
        (void)comm_abort(n);
    if (n->stream)
        cudaStreamDestroy(n->stream);
    free(n);
}

static mt_status plugin_join(const struct sgd_nccl_config *config, const unsigned char id[SGD_NCCL_ID], void *comm,
                             struct sgd_nccl **out)
{
    struct sgd_nccl *n = calloc(1, sizeof *n);
    if (!n)
        return mt_error(MT_ENOMEM, 0, "join NCCL");
    n->config = *config;
    cudaError_t e = cudaSetDevice(config->device);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&n->stream, cudaStreamNonBlocking);
    mt_status st = e == cudaSuccess ? mt_ok() : device_failed(config->text, "take the device", e);
    if (st.code == 0)
        st = comm ? comm_adopt(n, comm) : comm_make(n, id);
    if (st.code != 0) {
        plugin_leave(n);
        return st;
    }
    *out = n;
    return mt_ok();
}

static bool plugin_is_whole(const struct sgd_nccl *n)
{
    return n->comm != NULL;
}

/* Survivors' ranks are new, their order is kept. The parent is given up, also where it was adopted. */
static mt_status plugin_shrink(struct sgd_nccl *n, const int *dead, int dead_count, int rank, int size)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t   parent = n->comm, child = NULL;
    int          excluded[MT_GROUP_MEMBERS_MAX];
    if (!parent || dead_count < 1 || dead_count > MT_GROUP_MEMBERS_MAX)
        return mt_error(MT_EINVAL, 0, "shrink NCCL: the communicator was aborted, or nobody is dead");
    memcpy(excluded, dead, (size_t)dead_count * sizeof *dead);
    config.blocking = 0;
    ncclResult_t result = ncclCommShrink(parent, excluded, dead_count, &child, &config, NCCL_SHRINK_ABORT);
    mt_status    st = settle(n, result, "shrink NCCL"); /* the parent tells of the call, */
    if (st.code != 0)
        return st;
    struct sgd_nccl before = *n;
    if (!n->is_adopted)
        (void)comm_abort(&before);
    n->comm = child;
    n->is_adopted = false;
    n->config.rank = rank;
    n->config.size = size;
    return settle(n, ncclInProgress, "shrink NCCL"); /* the child of its own begin */
}

/* ---- calls ---- */

static ncclDataType_t type_of(enum coll_type type)
{
    static const ncclDataType_t types[COLL_TYPES] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16,
                                                     ncclInt32,   ncclInt64,   ncclUint8};
    return types[type];
}

static ncclRedOp_t op_of(enum coll_op op)
{
    static const ncclRedOp_t ops[COLL_OPS] = {ncclSum, ncclAvg, ncclMax, ncclMin};
    return ops[op];
}

static ncclResult_t all_to_all(struct sgd_nccl *n, const struct sgd_nccl_call *c, cudaStream_t stream)
{
    static const size_t sizes[COLL_TYPES] = {4, 8, 2, 2, 4, 8, 1};
    size_t              part = c->count * sizes[c->type];
    ncclResult_t        result = ncclGroupStart();
    for (int r = 0; r < n->config.size && result == ncclSuccess; r++) {
        result = ncclSend((const char *)c->in + (size_t)r * part, c->count, type_of(c->type), r, n->comm, stream);
        if (result == ncclSuccess || result == ncclInProgress)
            result = ncclRecv((char *)c->out + (size_t)r * part, c->count, type_of(c->type), r, n->comm, stream);
        result = result == ncclInProgress ? ncclSuccess : result;
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static ncclResult_t call_start(struct sgd_nccl *n, const struct sgd_nccl_call *c)
{
    cudaStream_t   stream = stream_of(n, c->stream);
    ncclDataType_t type = type_of(c->type);
    switch (c->kind) {
    case SGD_NCCL_ALL_REDUCE:
        return ncclAllReduce(c->in, c->out, c->count, type, op_of(c->op), n->comm, stream);
    case SGD_NCCL_REDUCE:
        return ncclReduce(c->in, c->out, c->count, type, op_of(c->op), c->root, n->comm, stream);
    case SGD_NCCL_REDUCE_SCATTER:
        return ncclReduceScatter(c->in, c->out, c->count, type, op_of(c->op), n->comm, stream);
    case SGD_NCCL_ALL_GATHER:
        return ncclAllGather(c->in, c->out, c->count, type, n->comm, stream);
    case SGD_NCCL_BROADCAST:
        return ncclBroadcast(c->in, c->out, c->count, type, c->root, n->comm, stream);
    case SGD_NCCL_ALL_TO_ALL:
        return all_to_all(n, c, stream);
    }
    return ncclInvalidArgument;
}

static mt_status plugin_start(struct sgd_nccl *n, const struct sgd_nccl_call *c)
{
    if (!n->comm)
        return mt_error(MT_ECANCELLED, 0, "NCCL: the communicator was aborted");
    return settle(n, call_start(n, c), "a call of NCCL");
}

__attribute__((visibility("default"))) const struct sgd_nccl_plugin sgd_nccl_plugin = {
    .abi = SGD_NCCL_ABI, .id = plugin_id, .join = plugin_join, .start = plugin_start, .wait = plugin_wait,
    .abort = comm_abort, .is_whole = plugin_is_whole, .shrink = plugin_shrink, .leave = plugin_leave};

/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.c - the NCCL plugin: communicators whose waits end when the group does. The one file that includes nccl.h.
 *
 * Owns:   a communicator (but one that was adopted), and a stream of its own. Thread: one at a time per communicator; an
 *         abort runs on a thread of its own, since it may hang.
 *
 *   NONE --made--> OWN --shrink--> OWN
 *     '--the user's--> ADOPTED --shrink--> OWN
 *   OWN, ADOPTED --an error, an abort--> ENDED
 *        '--ending it hangs--> STUCK: what NCCL may still write to is left alone for good, the struct too
 */
#include "sgd/coll/gpu/nccl.h"

#include "core/base/hash.h"
#include "core/base/clock.h"
#include "core/base/limits/train.h"
#include "core/base/machine.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7), "ncclCommRevoke came with NCCL 2.28.7, ncclCommShrink with 2.27.3");

enum member_state { MEMBER_NONE, MEMBER_OWN, MEMBER_ADOPTED, MEMBER_ENDED, MEMBER_STUCK };

struct sgd_nccl {
    struct sgd_nccl_config config;
    enum member_state      state;
    ncclComm_t             comm;  /* while it is OWN or ADOPTED */
    ncclComm_t             child; /* of a shrink: NCCL's own thread writes it, as long as the parent is not done */
    cudaStream_t           stream;
};

#define MEMBER_OVER (MT_STATE(MEMBER_ENDED) | MT_STATE(MEMBER_STUCK))
static const char *const member_names[] = {
    [MEMBER_NONE] = "NONE", [MEMBER_OWN] = "OWN", [MEMBER_ADOPTED] = "ADOPTED", [MEMBER_ENDED] = "ENDED", [MEMBER_STUCK] = "STUCK"};
static const uint32_t          member_next[] = {[MEMBER_NONE] = MT_STATE(MEMBER_OWN) | MT_STATE(MEMBER_ADOPTED),
                                                [MEMBER_OWN] = MT_STATE(MEMBER_OWN) | MEMBER_OVER,
                                                [MEMBER_ADOPTED] = MT_STATE(MEMBER_OWN) | MEMBER_OVER,
                                                [MEMBER_ENDED] = 0,
                                                [MEMBER_STUCK] = MT_STATE(MEMBER_STUCK)};
static const struct mt_machine member_machine = MT_MACHINE("NCCL member", member_names, member_next);

static void member_set_state(struct sgd_nccl *n, enum member_state next)
{
    MT_TRANSITION(&member_machine, n->state, next);
    n->state = next;
}

static bool plugin_is_whole(const struct sgd_nccl *n)
{
    return n->state == MEMBER_OWN || n->state == MEMBER_ADOPTED;
}

static mt_status failed(char *text, const char *what, ncclComm_t comm, ncclResult_t result)
{
    const char *more = ncclGetLastError(comm);
    const char *between = more && more[0] ? ": " : "";
    snprintf(text, SGD_NCCL_TEXT, "%s: %s%s%.120s", what, ncclGetErrorString(result), between, more ? more : "");
    return mt_error(result == ncclInvalidArgument ? MT_EINVAL : MT_EDEVICE, (int)result, what);
}

static mt_status device_failed(char *text, const char *what, cudaError_t error)
{
    (void)cudaGetLastError();
    snprintf(text, SGD_NCCL_TEXT, "%s: %s", what, cudaGetErrorString(error));
    return mt_error(MT_EDEVICE, (int)error, what);
}

/* Of the calls to it as a whole: also where the last one returned ncclSuccess, it may not be done. */
static ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t state = ncclSuccess, asked = ncclCommGetAsyncError(comm, &state);
    return asked == ncclSuccess ? state : asked;
}

/* ---- ending a communicator ---- */

struct ending {
    ncclComm_t   comm;
    bool         is_adopted;
    _Atomic int  users; /* who frees it is the last of the two */
    _Atomic bool is_done;
};

static void ending_let_go(struct ending *e)
{
    if (atomic_fetch_sub(&e->users, 1) == 1)
        free(e);
}

static void *ending_run(void *of)
{
    struct ending *e = of;
    if (!e->is_adopted)
        ncclCommAbort(e->comm);
    else if (ncclCommRevoke(e->comm, NCCL_REVOKE_DEFAULT) == ncclInProgress)
        while (state_of(e->comm) == ncclInProgress)
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    atomic_store(&e->is_done, true);
    ending_let_go(e);
    return NULL;
}

/* False: it hangs. No other thread calls anything of the communicator meanwhile. */
static bool ending_wait(const struct sgd_nccl_config *config, ncclComm_t comm, bool is_adopted)
{
    struct ending *e = calloc(1, sizeof *e);
    pthread_t      thread;
    if (!e)
        return false;
    e->comm = comm;
    e->is_adopted = is_adopted;
    atomic_store(&e->users, 2);
    if (pthread_create(&thread, NULL, ending_run, e) != 0) {
        free(e);
        return false;
    }
    pthread_detach(thread);
    int64_t deadline = mt_now_ms() + MT_NCCL_ABORT_MS;
    while (!atomic_load(&e->is_done) && mt_now_ms() < deadline) {
        if (config->beat)
            config->beat(config->user);
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    }
    bool is_done = atomic_load(&e->is_done);
    ending_let_go(e);
    return is_done;
}

static void comm_end(struct sgd_nccl *n, ncclComm_t *which, bool is_adopted)
{
    ncclComm_t comm = *which;
    *which = NULL;
    if (comm && !ending_wait(&n->config, comm, is_adopted))
        member_set_state(n, MEMBER_STUCK);
}

static bool comm_abort(struct sgd_nccl *n)
{
    comm_end(n, &n->comm, n->state == MEMBER_ADOPTED);
    if (n->state != MEMBER_STUCK) /* NCCL's thread has ended with the parent */
        comm_end(n, &n->child, false);
    if (plugin_is_whole(n))
        member_set_state(n, MEMBER_ENDED);
    return n->state != MEMBER_STUCK;
}

/* After any error of NCCL's the communicator takes no more calls, also where an argument was to blame. */
static mt_status comm_failed(struct sgd_nccl *n, const char *what, ncclResult_t result)
{
    mt_status st = failed(n->config.text, what, n->comm, result);
    (void)comm_abort(n);
    return st;
}

/* ---- waiting ---- */

struct wait {
    int64_t  begun, deadline;
    uint32_t looks;
};

static struct wait wait_begin(const struct sgd_nccl *n)
{
    int64_t now = mt_now_ms();
    return (struct wait){.begun = now, .deadline = now + n->config.wait_ms};
}

/* Between two looks at what is under way: OK to go on waiting. Any error ends the communicator. The group is asked each time
 * while others sleep as well, and now and then where that would be most of the work. */
static mt_status wait_more(struct sgd_nccl *n, struct wait *w, const char *what)
{
    int64_t   now = mt_now_ms();
    bool      is_long = now > w->begun + MT_NCCL_YIELD_MS;
    bool      is_turn = w->looks++ % 16 == 0 || is_long;
    mt_status st = mt_ok();
    if (n->config.beat && is_turn)
        n->config.beat(n->config.user);
    if (n->config.look && is_turn)
        st = n->config.look(n->config.user);
    if (st.code == 0 && now > w->deadline) {
        snprintf(n->config.text, SGD_NCCL_TEXT, "%s: not done after %u ms", what, n->config.wait_ms);
        st = mt_error(MT_ETIMEDOUT, 0, what);
    }
    if (st.code != 0)
        (void)comm_abort(n);
    else if (is_long)
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000}, NULL);
    else
        sched_yield();
    return st;
}

/* Until NCCL itself is done with the last call to it. */
static mt_status settle(struct sgd_nccl *n, ncclResult_t result, const char *what)
{
    struct wait w = wait_begin(n);
    if (result == ncclSuccess || result == ncclInProgress)
        result = state_of(n->comm);
    while (result == ncclInProgress) {
        MT_TRY(wait_more(n, &w, what));
        result = state_of(n->comm);
    }
    return result == ncclSuccess ? mt_ok() : comm_failed(n, what, result);
}

static cudaStream_t stream_of(const struct sgd_nccl *n, void *stream)
{
    return stream ? (cudaStream_t)stream : n->stream;
}

static mt_status plugin_wait(struct sgd_nccl *n, void *stream)
{
    struct wait w = wait_begin(n);
    if (!plugin_is_whole(n))
        return mt_error(MT_ECANCELLED, 0, "wait for NCCL: the communicator was aborted");
    for (;;) {
        cudaError_t  e = cudaStreamQuery(stream_of(n, stream));
        ncclResult_t result = state_of(n->comm); /* asked after it: an abort from outside ends kernels too */
        if (result != ncclSuccess && result != ncclInProgress)
            return comm_failed(n, "wait for NCCL", result);
        if (e == cudaSuccess && result == ncclSuccess)
            return mt_ok();
        if (e != cudaSuccess && e != cudaErrorNotReady) {
            (void)comm_abort(n);
            return device_failed(n->config.text, "wait for NCCL", e);
        }
        MT_TRY(wait_more(n, &w, "wait for NCCL"));
    }
}

/* ---- joining ---- */

static mt_status plugin_identify(int device, uint64_t *out_which, char text[SGD_NCCL_TEXT])
{
    char        place[32];
    cudaError_t e = cudaDeviceGetPCIBusId(place, sizeof place, device);
    if (e != cudaSuccess)
        return device_failed(text, "find the GPU's place", e);
    *out_which = mt_hash_text(mt_hash_text(MT_HASH_START, place), getenv("NCCL_HOSTID"));
    return mt_ok();
}

static mt_status plugin_id(unsigned char id[SGD_NCCL_ID], char text[SGD_NCCL_TEXT])
{
    ncclUniqueId unique;
    ncclResult_t result = ncclGetUniqueId(&unique);
    static_assert(sizeof unique == SGD_NCCL_ID, "as NCCL has it");
    if (result != ncclSuccess)
        return failed(text, "make an id of NCCL", NULL, result);
    memcpy(id, &unique, sizeof unique);
    return mt_ok();
}

static mt_status comm_adopt(struct sgd_nccl *n, void *comm)
{
    int rank = -1, size = -1;
    n->comm = comm;
    member_set_state(n, MEMBER_ADOPTED);
    MT_TRY(settle(n, ncclInProgress, "adopt a communicator")); /* its maker need not have waited */
    ncclResult_t result = ncclCommUserRank(n->comm, &rank);
    if (result == ncclSuccess)
        result = ncclCommCount(n->comm, &size);
    if (result != ncclSuccess)
        return comm_failed(n, "adopt a communicator", result);
    if (rank == n->config.rank && size == n->config.size)
        return mt_ok();
    n->comm = NULL; /* nothing was asked of it, so nothing is to be ended */
    member_set_state(n, MEMBER_ENDED);
    snprintf(n->config.text, SGD_NCCL_TEXT, "the communicator is of rank %d among %d, the group's member is rank %d among %d", rank,
             size, n->config.rank, n->config.size);
    return mt_error(MT_EINVAL, 0, "adopt a communicator");
}

static mt_status comm_make(struct sgd_nccl *n, const unsigned char id[SGD_NCCL_ID])
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    config.blocking = 0;
    member_set_state(n, MEMBER_OWN);
    ncclResult_t result = ncclCommInitRankConfig(&n->comm, n->config.size, unique, n->config.rank, &config);
    return settle(n, result, "join NCCL");
}

/* What an abort left behind may still use stays. */
static bool plugin_leave(struct sgd_nccl *n)
{
    if (n->state != MEMBER_ADOPTED)
        (void)comm_abort(n);
    if (n->state == MEMBER_STUCK)
        return false;
    if (n->stream)
        cudaStreamDestroy(n->stream);
    free(n);
    return true;
}

static mt_status plugin_join(const struct sgd_nccl_config *config, const unsigned char id[SGD_NCCL_ID], void *comm,
                             struct sgd_nccl **out)
{
    struct sgd_nccl *n = *out = calloc(1, sizeof *n);
    if (!n)
        return mt_error(MT_ENOMEM, 0, "join NCCL");
    n->config = *config;
    cudaError_t e = cudaSetDevice(config->device);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&n->stream, cudaStreamNonBlocking);
    if (e != cudaSuccess)
        return device_failed(config->text, "take the device", e);
    return comm ? comm_adopt(n, comm) : comm_make(n, id);
}

/* Survivors' ranks are new, their order is kept. The parent is given up, also where it was adopted: it is its maker's then. */
static mt_status plugin_shrink(struct sgd_nccl *n, const int *dead, int dead_count, int rank, int size)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int          excluded[MT_GROUP_MEMBERS_MAX];
    if (!plugin_is_whole(n) || dead_count < 1 || dead_count > MT_GROUP_MEMBERS_MAX)
        return mt_error(MT_EINVAL, 0, "shrink NCCL: the communicator was aborted, or nobody is dead");
    memcpy(excluded, dead, (size_t)dead_count * sizeof *dead);
    config.blocking = 0;
    ncclResult_t result = ncclCommShrink(n->comm, excluded, dead_count, &n->child, &config, NCCL_SHRINK_ABORT);
    MT_TRY(settle(n, result, "shrink NCCL")); /* the parent tells when the child is there: not before may it be ended */
    if (n->state == MEMBER_OWN)
        comm_end(n, &n->comm, false);
    n->comm = n->child;
    n->child = NULL;
    n->config.rank = rank;
    n->config.size = size;
    if (n->state != MEMBER_STUCK)
        member_set_state(n, MEMBER_OWN);
    if (n->state == MEMBER_STUCK || !n->comm) {
        snprintf(n->config.text, SGD_NCCL_TEXT, "shrink NCCL: %s",
                 n->comm ? "the former communicator's end hangs" : "none came of it");
        (void)comm_abort(n);
        return mt_error(MT_EDEVICE, 0, "shrink NCCL");
    }
    return settle(n, ncclInProgress, "shrink NCCL"); /* the child of its own begin */
}

/* ---- calls ---- */

static const size_t coll_bytes[COLL_TYPES] = {4, 8, 2, 2, 4, 8, 1};

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

/* Every group that was begun is ended, which does nothing where one of its calls has failed. */
static ncclResult_t group_end(ncclResult_t result)
{
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

static ncclResult_t part_start(struct sgd_nccl *n, const struct sgd_nccl_part *p, ncclDataType_t type, size_t count,
                               cudaStream_t stream)
{
    ncclResult_t result = p->is_sent ? ncclSend(p->data, count, type, p->peer, n->comm, stream)
                                     : ncclRecv(p->data, count, type, p->peer, n->comm, stream);
    return result == ncclInProgress ? ncclSuccess : result;
}

static ncclResult_t all_to_all(struct sgd_nccl *n, const struct sgd_nccl_call *c, cudaStream_t stream)
{
    size_t       part = c->count * coll_bytes[c->type];
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess)
        return result;
    for (int r = 0; r < n->config.size && result == ncclSuccess; r++) {
        struct sgd_nccl_part out = {.peer = r, .is_sent = true, .data = (char *)(uintptr_t)c->in + (size_t)r * part};
        struct sgd_nccl_part in = {.peer = r, .data = (char *)c->out + (size_t)r * part};
        result = part_start(n, &out, type_of(c->type), c->count, stream);
        if (result == ncclSuccess)
            result = part_start(n, &in, type_of(c->type), c->count, stream);
    }
    return group_end(result);
}

static mt_status plugin_exchange(struct sgd_nccl *n, const struct sgd_nccl_part *parts, uint32_t count, void *stream)
{
    if (!plugin_is_whole(n))
        return mt_error(MT_ECANCELLED, 0, "NCCL: the communicator was aborted");
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess)
        return comm_failed(n, "begin an exchange of NCCL", result);
    for (uint32_t i = 0; i < count && result == ncclSuccess; i++)
        result = part_start(n, &parts[i], ncclFloat32, parts[i].floats, stream_of(n, stream));
    return settle(n, group_end(result), "an exchange of NCCL");
}

static ncclResult_t call_start(struct sgd_nccl *n, const struct sgd_nccl_call *c)
{
    cudaStream_t   stream = stream_of(n, c->stream);
    ncclDataType_t type = type_of(c->type);
    switch (c->kind) {
    case SGD_NCCL_ALL_REDUCE: return ncclAllReduce(c->in, c->out, c->count, type, op_of(c->op), n->comm, stream);
    case SGD_NCCL_REDUCE: return ncclReduce(c->in, c->out, c->count, type, op_of(c->op), c->root, n->comm, stream);
    case SGD_NCCL_REDUCE_SCATTER: return ncclReduceScatter(c->in, c->out, c->count, type, op_of(c->op), n->comm, stream);
    case SGD_NCCL_ALL_GATHER: return ncclAllGather(c->in, c->out, c->count, type, n->comm, stream);
    case SGD_NCCL_BROADCAST: return ncclBroadcast(c->in, c->out, c->count, type, c->root, n->comm, stream);
    case SGD_NCCL_ALL_TO_ALL: return all_to_all(n, c, stream);
    }
    return ncclInvalidArgument;
}

static mt_status plugin_start(struct sgd_nccl *n, const struct sgd_nccl_call *c)
{
    if (!plugin_is_whole(n))
        return mt_error(MT_ECANCELLED, 0, "NCCL: the communicator was aborted");
    return settle(n, call_start(n, c), "a call of NCCL");
}

__attribute__((visibility("default"))) const struct sgd_nccl_plugin sgd_nccl_plugin = {.abi = SGD_NCCL_ABI,
                                                                                       .identify = plugin_identify,
                                                                                       .id = plugin_id,
                                                                                       .join = plugin_join,
                                                                                       .start = plugin_start,
                                                                                       .exchange = plugin_exchange,
                                                                                       .wait = plugin_wait,
                                                                                       .abort = comm_abort,
                                                                                       .is_whole = plugin_is_whole,
                                                                                       .shrink = plugin_shrink,
                                                                                       .leave = plugin_leave};

/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_emulated.c - NCCL and CUDA's streams as gpu/nccl.c calls them, over host memory and between processes: with gpu/nccl.c
 * a plugin that libmanta_sgd opens like the real one, where there is no GPU.
 *
 * What it has of NCCL's nature, read in the source of 2.28.9:
 * - Communicators do not block: calls return before they are done, ncclCommShrink even with ncclSuccess; a call to one that is
 *   not done is ncclInvalidArgument; the child of a shrink is written by another thread; the first call connects, with all.
 * - Nobody notices that a peer died: whoever waits for it waits until the communicator is aborted.
 * - After an error every call fails with it. What buffers hold after an abort is undefined.
 * - Sums are in an order of its own (from the last rank to the first).
 *
 * The environment's NCCL_EMULATED names what goes wrong, read at each call: "id-fails", "init-fails", "init-dies" (SIGKILL before
 * the others can see this rank), "call-fails" (after it has begun), "connect-dies", "data-dies", "data-stops" (SIGKILL, SIGSTOP
 * in the middle of a call), "shrink-fails", "abort-hangs", "late-joins", "late-kernels" (a communicator, work of a stream is late),
 * "one-gpu" (which all who are told this share).
 *
 * Owns: a communicator's thread, its queue, and the memory that its ranks share, which the process that made the id keeps open.
 * Thread: as NCCL: calls to one communicator come one at a time; its thread does what they ask.
 */
#include <nccl.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

enum { RANKS = 8, PIPE = 64 * 1024, FLOWS = 256 };

/* Bytes on their way from one rank to another. */
struct pipe_pair {
    _Atomic uint64_t sent, taken;
    unsigned char    bytes[PIPE];
};

/* What the ranks of a communicator share. */
struct world {
    _Atomic uint32_t joined, connected; /* a bit for each rank */
    _Atomic uint64_t child;             /* where the world of a shrink is: process and descriptor */
    struct pipe_pair pipes[RANKS][RANKS];
};

struct CUstream_st {
    _Atomic int pending;
};

struct flow {
    int            peer;
    bool           is_sent;
    unsigned char *data;
    size_t         size, done;
};

/* What a call asks of the thread. */
struct work {
    struct work *next;
    struct flow  flows[FLOWS];
    int          count;
    cudaStream_t stream;
    /* of a reduction: parts of all ranks, combined into `out` */
    unsigned char *parts;
    void          *out;
    size_t         elements;
    ncclDataType_t type;
    ncclRedOp_t    op;
    /* of a shrink */
    ncclComm_t *child;
    uint32_t    kept; /* ranks */
    bool        is_failing, is_late;
    int         signal; /* that ends the process in the middle; 0: none */
};

struct ncclComm {
    struct world    *world;
    int              rank, size;
    uint64_t         place;   /* of the world */
    int              kept_fd; /* of the world, where this process made the id; else -1 */
    _Atomic int      state;   /* ncclResult_t */
    _Atomic bool     stop, is_revoked;
    bool             is_connected;
    bool             init_fails, init_dies, init_late, connect_dies;
    pthread_t        thread;
    pthread_mutex_t  lock;
    struct work     *queue;      /* under lock */
    struct ncclComm *ended_next; /* that it is freed is remembered, so that who uses it then is told */
    bool             is_ended;
};

static pthread_mutex_t  ended_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *ended; /* under it; all of this process */

static bool is_told(const char *what)
{
    const char *told = getenv("NCCL_EMULATED");
    return told && strstr(told, what);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000}, NULL);
}

static void die(void)
{
    raise(SIGKILL);
}

/* ---- CUDA ---- */

SHOWN cudaError_t cudaSetDevice(int device)
{
    return device < RANKS ? cudaSuccess : cudaErrorInvalidDevice;
}

/* Everyone has a GPU of its own, unless "one-gpu" is told. */
SHOWN cudaError_t cudaDeviceGetPCIBusId(char *place, int size, int device)
{
    static _Atomic int count;
    bool               is_one = is_told("one-gpu");
    snprintf(place, (size_t)size, "%d:%d:%d", is_one ? 0 : (int)getpid(), is_one ? 0 : atomic_fetch_add(&count, 1), device);
    return cudaSuccess;
}

SHOWN cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return *stream ? cudaSuccess : cudaErrorInvalidDevice;
}

SHOWN cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return atomic_load(&stream->pending) ? cudaErrorNotReady : cudaSuccess;
}

SHOWN cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

SHOWN cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

SHOWN const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInvalidDevice ? "invalid device ordinal" : "an error of the emulated device";
}

/* ---- the thread ---- */

static uint32_t everyone(const struct ncclComm *c)
{
    return (1u << c->size) - 1;
}

/* True: all are there. False: the communicator was aborted. */
static bool all_there(struct ncclComm *c, _Atomic uint32_t *bits)
{
    atomic_fetch_or(bits, 1u << c->rank);
    while (!atomic_load(&c->stop)) {
        if (atomic_load(bits) == everyone(c))
            return true;
        nap();
    }
    return false;
}

static void state_set(struct ncclComm *c, ncclResult_t state)
{
    atomic_store(&c->state, (int)state);
}

static bool flow_move(struct ncclComm *c, struct flow *f)
{
    struct pipe_pair *p = f->is_sent ? &c->world->pipes[c->rank][f->peer] : &c->world->pipes[f->peer][c->rank];
    uint64_t          sent = atomic_load(&p->sent), taken = atomic_load(&p->taken), at = f->is_sent ? sent : taken;
    size_t            room = (size_t)(f->is_sent ? PIPE - (sent - taken) : sent - taken);
    size_t            size = f->size - f->done < room ? f->size - f->done : room;
    size = size < PIPE - at % PIPE ? size : PIPE - at % PIPE;
    if (size == 0)
        return false;
    if (f->is_sent) {
        memcpy(p->bytes + at % PIPE, f->data + f->done, size);
        atomic_store(&p->sent, sent + size);
    } else {
        memcpy(f->data + f->done, p->bytes + at % PIPE, size);
        atomic_store(&p->taken, taken + size);
    }
    f->done += size;
    return true;
}

/* The first flow between two ranks, in each direction, that is not done: the others wait their turn. */
static bool is_in_turn(const struct work *w, int index)
{
    const struct flow *f = &w->flows[index];
    for (int i = 0; i < index; i++)
        if (w->flows[i].peer == f->peer && w->flows[i].is_sent == f->is_sent && w->flows[i].done < w->flows[i].size)
            return false;
    return f->done < f->size;
}

/* A call that came while the thread is at another's work has begun, too. */
static void calls_accept(struct ncclComm *c)
{
    int busy = ncclInProgress;
    pthread_mutex_lock(&c->lock);
    if (!c->queue || !c->queue->child)
        atomic_compare_exchange_strong(&c->state, &busy, ncclSuccess);
    pthread_mutex_unlock(&c->lock);
}

static bool flows_run(struct ncclComm *c, struct work *w)
{
    for (;;) {
        bool is_done = true, has_moved = false;
        if (atomic_load(&c->stop))
            return false;
        calls_accept(c);
        for (int i = 0; i < w->count; i++) {
            if (is_in_turn(w, i))
                has_moved |= flow_move(c, &w->flows[i]);
            is_done &= w->flows[i].done == w->flows[i].size;
        }
        if (is_done)
            return true;
        if (has_moved && w->signal)
            raise(w->signal);
        if (!has_moved)
            sched_yield();
    }
}

#define COMBINE(type) \
    for (size_t i = 0; i < w->elements; i++) { \
        type x = ((type *)w->parts)[(size_t)(size - 1) * w->elements + i]; \
        for (int r = size - 2; r >= 0; r--) { \
            type y = ((type *)w->parts)[(size_t)r * w->elements + i]; \
            x = (type)(w->op == ncclMax ? (x > y ? x : y) : w->op == ncclMin ? (x < y ? x : y) : (type)(x + y)); \
        } \
        ((type *)w->out)[i] = w->op == ncclAvg ? (type)(x / (type)size) : x; \
    }

static void parts_combine(const struct work *w, int size)
{
    if (w->type == ncclFloat32)
        COMBINE(float)
    else if (w->type == ncclFloat64)
        COMBINE(double)
    else if (w->type == ncclInt32)
        COMBINE(int32_t)
    else if (w->type == ncclInt64)
        COMBINE(int64_t)
    else
        COMBINE(uint8_t)
}

static void work_free(struct work *w)
{
    if (w->stream)
        atomic_fetch_sub(&w->stream->pending, 1);
    free(w->parts);
    free(w);
}

static struct ncclComm *comm_new(uint64_t place, int rank, int size);
static uint64_t         world_new(void);
static void            *comm_run(void *of);
static void             comm_free(struct ncclComm *c);

/* Survivors meet in a new world, which the first of them makes. */
static void shrink_run(struct ncclComm *c, struct work *w)
{
    uint64_t nowhere = 0;
    int      rank = __builtin_popcount(w->kept & ((1u << c->rank) - 1));
    if (w->is_failing) {
        state_set(c, ncclSystemError);
        return;
    }
    if (rank == 0)
        atomic_compare_exchange_strong(&c->world->child, &nowhere, world_new());
    while (atomic_load(&c->world->child) == 0 && !atomic_load(&c->stop))
        nap();
    if (atomic_load(&c->stop))
        return;
    struct ncclComm *child = comm_new(atomic_load(&c->world->child), rank, __builtin_popcount(w->kept));
    if (pthread_create(&child->thread, NULL, comm_run, child) != 0)
        abort();
    while (atomic_load(&child->state) == ncclInProgress && !atomic_load(&c->stop))
        nap();
    *w->child = child;
    state_set(c, (ncclResult_t)atomic_load(&child->state) == ncclInProgress ? ncclInternalError : ncclSuccess);
}

static void work_run(struct ncclComm *c, struct work *w)
{
    if (w->child) {
        shrink_run(c, w);
        return;
    }
    if (!c->is_connected) {
        if (c->connect_dies)
            die();
        if (!all_there(c, &c->world->connected))
            return;
        c->is_connected = true;
    }
    if (w->is_failing) {
        state_set(c, ncclRemoteError);
        return;
    }
    calls_accept(c);
    if (w->is_late)
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    if (flows_run(c, w) && w->parts)
        parts_combine(w, c->size);
}

static struct work *work_take(struct ncclComm *c)
{
    pthread_mutex_lock(&c->lock);
    struct work *w = c->queue;
    if (w)
        c->queue = w->next;
    pthread_mutex_unlock(&c->lock);
    return w;
}

static bool world_map(struct ncclComm *c)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned)(c->place >> 32), (unsigned)(uint32_t)c->place);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    c->world = mmap(NULL, sizeof *c->world, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->world == MAP_FAILED)
        c->world = NULL;
    return c->world != NULL;
}

static void *comm_run(void *of)
{
    struct ncclComm *c = of;
    struct work     *w;
    if (c->init_dies)
        die();
    for (int i = 0; c->init_late && i < 2000 && !atomic_load(&c->stop); i++)
        nap();
    while (!atomic_load(&c->stop) && !world_map(c)) /* its maker is dead: nobody tells */
        nap();
    if (c->world && all_there(c, &c->world->joined))
        state_set(c, c->init_fails ? ncclSystemError : ncclSuccess);
    while (!atomic_load(&c->stop)) {
        w = work_take(c);
        if (!w) {
            nap();
            continue;
        }
        work_run(c, w);
        work_free(w);
    }
    if (atomic_load(&c->is_revoked))
        state_set(c, ncclSuccess); /* it is quiet */
    return NULL;
}

/* ---- communicators ---- */

/* A world's descriptor stays open in this process until its communicator of rank 0 is gone. */
static uint64_t world_new(void)
{
    int fd = memfd_create("nccl_emulated", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct world)) != 0)
        return 0;
    return (uint64_t)getpid() << 32 | (uint32_t)fd;
}

static struct ncclComm *comm_new(uint64_t place, int rank, int size)
{
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->place = place, c->rank = rank, c->size = size;
    c->kept_fd = rank == 0 && place >> 32 == (uint64_t)getpid() ? (int)(uint32_t)place : -1;
    pthread_mutex_init(&c->lock, NULL);
    state_set(c, ncclInProgress);
    return c;
}

static void comm_free(struct ncclComm *c)
{
    struct work *w;
    while ((w = work_take(c)))
        work_free(w);
    if (c->world)
        munmap(c->world, sizeof *c->world);
    if (c->kept_fd >= 0)
        close(c->kept_fd);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_lock(&ended_lock);
    c->is_ended = true;
    c->ended_next = ended;
    ended = c;
    pthread_mutex_unlock(&ended_lock);
}

SHOWN ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    uint64_t place = is_told("id-fails") ? 0 : world_new();
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &place, sizeof place);
    return place ? ncclSuccess : ncclSystemError;
}

SHOWN ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    uint64_t place;
    *comm = NULL;
    if (size < 1 || size > RANKS || rank < 0 || rank >= size)
        return ncclInvalidArgument;
    memcpy(&place, id.internal, sizeof place);
    struct ncclComm *c = comm_new(place, rank, size);
    c->init_fails = is_told("init-fails") && size > 1; /* one that is alone is for warming up */
    c->init_dies = is_told("init-dies") && size > 1;
    c->init_late = is_told("late-joins");
    c->connect_dies = is_told("connect-dies");
    if (pthread_create(&c->thread, NULL, comm_run, c) != 0) {
        comm_free(c);
        return ncclSystemError;
    }
    *comm = c;
    while (config->blocking && atomic_load(&c->state) == ncclInProgress)
        nap();
    return (ncclResult_t)atomic_load(&c->state);
}

SHOWN ncclResult_t ncclCommAbort(ncclComm_t c)
{
    if (c->is_ended)
        return ncclInvalidArgument;
    while (is_told("abort-hangs") && c->size > 1)
        nap();
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
    comm_free(c);
    return ncclSuccess;
}

/* Ends what is under way and takes no more; the memory stays until the maker of the communicator aborts it. */
SHOWN ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    struct work *w;
    if (flags != NCCL_REVOKE_DEFAULT || atomic_load(&c->stop))
        return ncclInvalidArgument;
    while ((w = work_take(c)))
        work_free(w);
    state_set(c, ncclInProgress);
    atomic_store(&c->is_revoked, true);
    atomic_store(&c->stop, true);
    return ncclInProgress;
}

SHOWN ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    if (!c || c->is_ended)
        return ncclInvalidArgument;
    *state = (ncclResult_t)atomic_load(&c->state);
    return ncclSuccess;
}

/* NCCL's ncclCommEnsureReady. */
static ncclResult_t ready(ncclComm_t c)
{
    ncclResult_t state = c ? (ncclResult_t)atomic_load(&c->state) : ncclInvalidArgument;
    if (c && atomic_load(&c->stop))
        return ncclInvalidUsage;
    return state == ncclInProgress ? ncclInvalidArgument : state;
}

SHOWN ncclResult_t ncclCommUserRank(ncclComm_t c, int *rank)
{
    ncclResult_t result = ready(c);
    if (result == ncclSuccess)
        *rank = c->rank;
    return result;
}

SHOWN ncclResult_t ncclCommCount(ncclComm_t c, int *size)
{
    ncclResult_t result = ready(c);
    if (result == ncclSuccess)
        *size = c->size;
    return result;
}

SHOWN const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return texts[result];
}

SHOWN const char *ncclGetLastError(ncclComm_t c)
{
    (void)c;
    return "";
}

/* ---- calls ---- */

static void work_put(struct ncclComm *c, struct work *w)
{
    struct work **at = &c->queue;
    if (w->stream)
        atomic_fetch_add(&w->stream->pending, 1);
    pthread_mutex_lock(&c->lock);
    state_set(c, ncclInProgress);
    while (*at)
        at = &(*at)->next;
    *at = w;
    pthread_mutex_unlock(&c->lock);
}

SHOWN ncclResult_t ncclCommShrink(ncclComm_t c, int *excluded, int count, ncclComm_t *child, ncclConfig_t *config, int flags)
{
    ncclResult_t result = ready(c);
    (void)config, (void)flags;
    if (result != ncclSuccess)
        return result;
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        return ncclSystemError;
    w->child = child;
    w->kept = everyone(c);
    w->is_failing = is_told("shrink-fails");
    for (int i = 0; i < count; i++)
        w->kept &= ~(1u << excluded[i]);
    *child = NULL;
    work_put(c, w);
    return ncclSuccess; /* although it is not done */
}

static size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
    }
    return 0;
}

static struct work *work_new(cudaStream_t stream)
{
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->stream = stream;
    w->is_failing = is_told("call-fails");
    w->signal = is_told("data-dies") ? SIGKILL : is_told("data-stops") ? SIGSTOP : 0;
    w->is_late = is_told("late-kernels");
    return w;
}

static void flow_add(struct work *w, int peer, bool is_sent, const void *data, size_t size)
{
    if (w->count == FLOWS)
        abort();
    w->flows[w->count++] = (struct flow){.peer = peer, .is_sent = is_sent, .data = (unsigned char *)(uintptr_t)data, .size = size};
}

static ncclResult_t work_start(struct ncclComm *c, struct work *w, ncclResult_t result)
{
    if (result != ncclSuccess) {
        free(w->parts);
        free(w);
        if (c && result != ncclInvalidUsage)
            state_set(c, result);
        return result;
    }
    work_put(c, w);
    return ncclInProgress;
}

/* One group at a time in a thread, of one communicator. */
static _Thread_local struct {
    struct work     *work;
    struct ncclComm *comm;
    ncclResult_t     result;
    bool             is_open;
} group;

SHOWN ncclResult_t ncclGroupStart(void)
{
    group.work = work_new(NULL);
    group.comm = NULL;
    group.result = ncclSuccess;
    group.is_open = true;
    return ncclSuccess;
}

SHOWN ncclResult_t ncclGroupEnd(void)
{
    if (!group.is_open)
        return ncclInvalidUsage;
    group.is_open = false;
    if (!group.comm && group.result == ncclSuccess) {
        free(group.work);
        return ncclSuccess;
    }
    return work_start(group.comm, group.work, group.result);
}

static ncclResult_t message(int peer, bool is_sent, const void *data, size_t size, ncclComm_t c, cudaStream_t stream)
{
    ncclResult_t result = ready(c);
    if (result == ncclSuccess && (!group.is_open || peer < 0 || peer >= c->size || !data))
        result = ncclInvalidArgument;
    if (result != ncclSuccess) {
        group.result = result;
        group.comm = c;
        return result;
    }
    group.comm = c;
    group.work->stream = stream;
    flow_add(group.work, peer, is_sent, data, size);
    return ncclSuccess;
}

SHOWN ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return message(peer, true, data, count * bytes_of(type), comm, stream);
}

SHOWN ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return message(peer, false, data, count * bytes_of(type), comm, stream);
}

SHOWN ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream)
{
    struct work *w = work_new(stream);
    size_t       part = count * bytes_of(type);
    ncclResult_t result = ready(c);
    for (int r = 0; result == ncclSuccess && r < c->size; r++) {
        flow_add(w, r, true, in, part);
        flow_add(w, r, false, (char *)out + (size_t)r * part, part);
    }
    return work_start(c, w, result);
}

SHOWN ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                                 cudaStream_t stream)
{
    struct work *w = work_new(stream);
    ncclResult_t result = ready(c);
    for (int r = 0; result == ncclSuccess && c->rank == root && r < c->size; r++)
        if (r != root || in != out)
            flow_add(w, r, true, in, count * bytes_of(type));
    if (result == ncclSuccess && (c->rank != root || in != out))
        flow_add(w, root, false, out, count * bytes_of(type));
    return work_start(c, w, result);
}

/* Each rank in `to` gets the part of `in` that is its own (0: the same) from all, and combines them. */
static ncclResult_t reduction(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, uint32_t to,
                              bool is_cut, ncclComm_t c, cudaStream_t stream)
{
    struct work *w = work_new(stream);
    size_t       part = count * bytes_of(type);
    ncclResult_t result = ready(c);
    if (result == ncclSuccess && (type == ncclFloat16 || type == ncclBfloat16))
        result = ncclInvalidArgument; /* not emulated */
    for (int r = 0; result == ncclSuccess && r < c->size; r++)
        if (to >> r & 1)
            flow_add(w, r, true, (const char *)in + (is_cut ? (size_t)r * part : 0), part);
    if (result == ncclSuccess && to >> c->rank & 1) {
        w->parts = malloc(part * (size_t)c->size + 1);
        if (!w->parts)
            abort();
        w->out = out, w->elements = count, w->type = type, w->op = op;
        for (int r = 0; r < c->size; r++)
            flow_add(w, r, false, w->parts + (size_t)r * part, part);
    }
    return work_start(c, w, result);
}

SHOWN ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream)
{
    return reduction(in, out, count, type, op, (1u << RANKS) - 1, false, comm, stream);
}

SHOWN ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                              ncclComm_t comm, cudaStream_t stream)
{
    return reduction(in, out, count, type, op, 1u << root, false, comm, stream);
}

SHOWN ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream)
{
    return reduction(in, out, count, type, op, (1u << RANKS) - 1, true, comm, stream);
}

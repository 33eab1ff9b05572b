/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_collective.h - collective calls among actors (or the driver) on the caller's own buffers.
 *
 *     driver    group = manta_coll_group_new(&(manta_coll_opts){.size = 4}, &e);
 *               manta_coll_group_id(group, &id);
 *               for each rank: actor[r] = manta_actor_new("worker", ..., MANTA_ARGS(manta_bytes_of(&id, sizeof id), manta_u64(r)));
 *                              manta_coll_group_watch(group, r, actor[r], &e);
 *     worker    coll = manta_coll_join(&id, rank, &e);
 *               manta_coll_all_reduce(coll, gradient, gradient, n, MANTA_COLL_F32, MANTA_COLL_MEAN, &e);
 *
 * A group has members 0 .. size - 1. All of them make the same collective calls in the same order. Before each call they
 * tell each other what they are about to do: where two disagree, all get EINVAL, which names both and what differs.
 *
 * Generations. A group lives in generations, numbered from 1, each with members of its own. A generation ends with the
 * first error of a call: when a member dies, when two disagree, when one does not come within the group's limit, or when
 * somebody aborts it. All members that wait are released at once, later calls fail at once, and the error says why, naming
 * the rank (EWORKER_DIED, EINVAL, ETIMEDOUT, ECANCELLED). Buffers that results go to may then hold parts of them. The
 * survivors go on in a next generation: one that they form by themselves (manta_coll_shrink), or one that the group's
 * creator names (manta_coll_group_next) and tells them and new members of (manta_coll_regroup, manta_coll_join). A next
 * generation is formed only when each member of the last is dead or back from its call.
 *
 * Results do not depend on time: sums, means, maxima and minima are computed over the ranks in one fixed binary tree,
 * ((0+1)+(2+3))+..., so that all members get the same bits, and each time the same. bf16 and fp16 are added in float32
 * and rounded once.
 *
 * Buffers may lie anywhere and have any alignment. Input and output may be the same; else they must not overlap. What
 * manta_coll_alloc gives is shared by the members of one node: sums over it need no copy. manta_coll_register makes a buffer
 * of the caller's so.
 *
 * A manta_coll belongs to one thread at a time. Every call blocks unless it says otherwise, and no longer than the limit
 * after the last member came. The calls return the codes of manta_error.h; *e (which may be NULL) says more, and names the call.
 * Of a group, member, request or communicator: NULL is EINVAL. One that was freed, has left, was waited for before, or never was
 * one is EHANDLE, also where others have its memory by now. One that a forked child has of its parent is EFORKED. A call that
 * returns no code does nothing then. It gives NULL, 0, rank -1, an id of no group, or says that a request is done. Freeing one
 * while another thread is inside a call with it is not detected.
 */
#ifndef MANTA_COLLECTIVE_H
#define MANTA_COLLECTIVE_H

#include <manta.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MANTA_COLL_MEMBERS_MAX = 64 };

typedef enum manta_coll_type {
    MANTA_COLL_F32,
    MANTA_COLL_F64,
    MANTA_COLL_BF16,
    MANTA_COLL_F16,
    MANTA_COLL_I32,
    MANTA_COLL_I64,
    MANTA_COLL_U8 /* also for bytes of any kind */
} manta_coll_type;

typedef enum manta_coll_op {
    MANTA_COLL_SUM,  /* integers wrap */
    MANTA_COLL_MEAN, /* integers are cut towards zero */
    MANTA_COLL_MAX,  /* what is not a number in any member's input stays so */
    MANTA_COLL_MIN
} manta_coll_op;

/* ---- the creator's side ---------------------------------------------------------------------------------------- */

typedef enum manta_coll_transport {
    MANTA_COLL_SHM,  /* members on the creator's node, over shared memory */
    MANTA_COLL_TCP,  /* members on any node: in clear on loopback, between machines TLS with the secret of the group */
    MANTA_COLL_LOCAL /* members on the creator's machine, processes of its user, over shared memory: without a cluster and without
                      * manta_init; manta_coll_group_watch alone needs those */
} manta_coll_transport;

typedef struct manta_coll_opts {
    int         size;       /* members of the first generation, 1 to MANTA_COLL_MEMBERS_MAX */
    int         size_max;   /* of any generation; 0: size */
    const char *name;       /* for error texts, at most 31 bytes; NULL: "group" */
    int64_t     timeout_ms; /* longest wait for a member, in the joining and in any call; 0: 60 s */
    int64_t     heap_bytes; /* for manta_coll_alloc and manta_coll_register, of all members together; 0: none (over TCP always) */
    manta_coll_transport transport;
    uint64_t             reserved[8];
} manta_coll_opts;

/* What a member needs to join: plain bytes, to be passed as an argument or in a struct of one's own,
 * within the job. It holds a secret: do not print it. (That of a group with MANTA_COLL_LOCAL may go to any process of this user
 * on this machine, while its creator lives. It need not be hidden: it's the kernel that keeps other users out.) */
typedef struct manta_coll_id {
    unsigned char bytes[256];
} manta_coll_id;

/* A group, as its creator has it. */
typedef struct manta_coll_group manta_coll_group;

/* Makes a group. NULL: *e says why (EINVAL, ENOMEM, ECONN, ESYS). Blocks for one round trip to the raylet (not with
 * MANTA_COLL_LOCAL). Freed with manta_coll_group_free. */
MANTA_API manta_coll_group *manta_coll_group_new(const manta_coll_opts *opts, manta_error *e);
/* The present generation. Over TCP it asks, up to 10 s. */
MANTA_API void manta_coll_group_id(manta_coll_group *group, manta_coll_id *out);
/* Names the generation after the latest, with `size` members. EINVAL: more than size_max. Over TCP the former one
 * ends with that (EFENCED), and it asks, up to 10 s. */
MANTA_API manta_status manta_coll_group_next(manta_coll_group *group, int size, manta_coll_id *out, manta_error *e);
/* When this actor dies, the present generation is aborted at once with EWORKER_DIED for its rank (`rank` is the one it is
 * about to join by). Until manta_coll_group_free. As manta_actor_watch. EINVAL, EAGAIN (4 * size_max are watched), ENOMEM. */
MANTA_API manta_status manta_coll_group_watch(manta_coll_group *group, int rank, manta_actor *actor, manta_error *e);
/* The same told by a creator that has learned of a death itself, as a parent does: the process is dead. `rank` is
 * the one by which it was about to join the latest generation that this group has named; a member is known by its process.
 * EINVAL. Does not block. */
MANTA_API manta_status manta_coll_group_died(manta_coll_group *group, int rank, int pid, manta_error *e);
/* Ends the present generation for everybody: ECANCELLED. Does not block. */
MANTA_API void manta_coll_group_abort(manta_coll_group *group);
/* Aborts, and lets go. The members keep what they have until they leave. NULL is allowed. */
MANTA_API void manta_coll_group_free(manta_coll_group *group);

/* ---- membership ------------------------------------------------------------------------------------------------ */

/* One member's end of a group. */
typedef struct manta_coll manta_coll;

/* Joins the generation of `id` as `rank`, and waits until all its members have. NULL: *e says why (EINVAL, ETIMEDOUT,
 * EWORKER_DIED, EFENCED: a later generation exists or the rank is taken, ENOMEM, ECONN. With MANTA_COLL_LOCAL: EAUTH, it is not
 * this user's; EFENCED, its creator has gone, or goes before all have joined). */
MANTA_API manta_coll *manta_coll_join(const manta_coll_id *id, int rank, manta_error *e);
/* Leaves the group. Does not wait for the others. A call of another member that needs this one waits until its limit: abort first,
 * if such a call may be under way. NULL is allowed. */
MANTA_API void manta_coll_leave(manta_coll *coll);
/* Does not block. */
MANTA_API int manta_coll_rank(const manta_coll *coll);
MANTA_API int manta_coll_size(const manta_coll *coll);
MANTA_API int manta_coll_generation(const manta_coll *coll);
/* Lets the survivors of a generation agree, whether it was aborted or not. Waits until each member has called it or is dead. All
 * get the same answer: *flags becomes the AND of their flags; *out_alive (may be NULL) has bit r set for each rank r that came.
 * The generation's state is not changed. ETIMEDOUT: a member neither came nor is dead. EFENCED: the others have gone on without
 * this member. */
MANTA_API manta_status manta_coll_agree(manta_coll *coll, uint64_t *flags, uint64_t *out_alive, manta_error *e);
/* The survivors form the next generation: those whose agreement it is, in the order of their ranks. Each of them calls it;
 * rank and size are new afterwards. After an error (somebody died meanwhile) it may be called again. */
MANTA_API manta_status manta_coll_shrink(manta_coll *coll, manta_error *e);
/* Moves this member to a later generation of the same group, as `rank` of it, and waits until all its members have joined. The
 * creator of the generation chooses the ranks; new members call manta_coll_join. Errors as of manta_coll_join. */
MANTA_API manta_status manta_coll_regroup(manta_coll *coll, const manta_coll_id *id, int rank, manta_error *e);
/* ---- members that meet by themselves ---- */

/* Members without a creator, a cluster or manta_init, on any machines: each listens, and says by some means of its own where; all
 * know a secret that nobody else does. They talk over TCP: in clear on loopback, else TLS 1.3 keyed by the secret, so who hears or
 * changes the wire learns nothing and changes nothing, and who has no secret is no member (EAUTH at whoever dials it; others wait
 * until their limit). Deaths are seen by the members. manta_coll_agree, _shrink and _regroup are EUNSUPPORTED: generations are
 * named by whoever tells the members of each other. */
enum { MANTA_COLL_SECRET_BYTES = 32 };

/* Where a member listens: no secret. The same in every release of the library that has this call. */
typedef struct manta_coll_address {
    unsigned char bytes[32];
} manta_coll_address;

typedef struct manta_coll_peers {
    const char               *name;       /* for error texts, at most 31 bytes; NULL: "group" */
    uint64_t                  group;      /* the same in all members, another one for each group */
    int                       generation; /* from 1; larger than any before of this group */
    int                       size, rank; /* 1 to MANTA_COLL_MEMBERS_MAX; 0 to size - 1 */
    const manta_coll_address *addresses;  /* of all members, in the order of ranks */
    const unsigned char      *secret;     /* MANTA_COLL_SECRET_BYTES. A new one keeps out who was a member before */
    int64_t                   timeout_ms; /* longest wait for a member, in the joining and in any call; 0: 60 s */
    uint64_t                  reserved[8];
} manta_coll_peers;

/* A member that listens and is in no generation yet (rank -1, size 0). `host`: by which address the others reach this
 * machine, as 10.0.0.1 or fd00::1; "" and any of loopback: loopback. Does not block. NULL: EINVAL (no address), ESYS (not this
 * machine's), ENOMEM. Left by manta_coll_leave. */
MANTA_API manta_coll *manta_coll_listen(const char *host, manta_coll_address *out, manta_error *e);
/* Joins a generation with the others, and waits until all have; from an earlier one, whether that has ended or not. Everything is
 * copied. EINVAL, EAUTH (another member has another secret), EWORKER_DIED (one is not there any more), ETIMEDOUT. After an
 * error it may be called again, with a later generation. */
MANTA_API manta_status manta_coll_meet(manta_coll *coll, const manta_coll_peers *peers, manta_error *e);

/* Ends the generation for everybody: ECANCELLED, naming this rank. From any thread; does not block. */
MANTA_API void manta_coll_abort(manta_coll *coll);

/* Memory that is shared with the other members, aligned to 64 bytes; it lasts until this generation ends (for this member:
 * with manta_coll_leave, manta_coll_shrink or manta_coll_regroup). Each member has heap_bytes / size of it. NULL: ENOMEM.
 * Does not block. */
MANTA_API void *manta_coll_alloc(manta_coll *coll, size_t size, manta_error *e);

/* Makes a buffer of the caller's own shared, as if manta_coll_alloc had given it: it keeps its address and its content, takes
 * `size` bytes of the member's part of the heap, and gives back the memory that it had. For buffers that are used again and
 * again, and worth it where all members do it for both input and output. `data` and `size` are multiples of 4096, of memory
 * that is this process's alone (malloc, anonymous mmap; no file, stack or pinned memory); nobody else writes to it during
 * the call. The buffer lasts as what manta_coll_alloc gives, but then becomes ordinary memory again, with its content; until then
 * a child of fork shares it, and after an error others may still write results into it. Take it back before it is freed. Over
 * TCP nothing happens. EINVAL (the text says why), ENOMEM: the heap has no room, or 64 are registered. Blocks for a copy of it. */
MANTA_API manta_status manta_coll_register(manta_coll *coll, void *data, size_t size, manta_error *e);
/* Makes it ordinary memory again, with its content. EINVAL: none is registered that begins there. ENOMEM. Blocks for a copy. */
MANTA_API manta_status manta_coll_unregister(manta_coll *coll, void *data, manta_error *e);

/* ---- collective calls ------------------------------------------------------------------------------------------ */

/* out[i] = op over all members of in[i], for everyone; `count` elements each. */
MANTA_API manta_status manta_coll_all_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                             manta_coll_op op, manta_error *e);
/* The same for `root` alone; the others' `out` may be NULL. */
MANTA_API manta_status manta_coll_reduce(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                         manta_coll_op op, int root, manta_error *e);
/* `in` has a part of `count` elements for each member; rank r gets the reduction of all members' parts r. */
MANTA_API manta_status manta_coll_reduce_scatter(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                                 manta_coll_op op, manta_error *e);
/* `out` gets a part of `count` elements from each member, in the order of ranks. `in` may be this member's own part of it. */
MANTA_API manta_status manta_coll_all_gather(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                             manta_error *e);
/* `data` of `root` to everyone's. */
MANTA_API manta_status manta_coll_broadcast(manta_coll *coll, void *data, size_t count, manta_coll_type type, int root,
                                            manta_error *e);
/* `in` has a part for each member, `out` gets one from each. */
MANTA_API manta_status manta_coll_all_to_all(manta_coll *coll, const void *in, void *out, size_t count, manta_coll_type type,
                                             manta_error *e);
/* Returns when all have called it. */
MANTA_API manta_status manta_coll_barrier(manta_coll *coll, manta_error *e);

/* ---- several at once, and while the caller goes on ---------------------------------------------------------------- */

typedef struct manta_coll_tensor {
    const void *in;
    void       *out; /* may be `in` */
    size_t      count;
} manta_coll_tensor;

/* All-reduces of several tensors. Small ones travel together, up to 4 MiB at a time, so that many cost little more than one.
 * The number of tensors and each one's size are compared as well. */
MANTA_API manta_status manta_coll_all_reduce_many(manta_coll *coll, const manta_coll_tensor *tensors, size_t tensor_count,
                                                  manta_coll_type type, manta_coll_op op, manta_error *e);

/* A call that was started. The buffers belong to it until it is done; the list of tensors is copied. */
typedef struct manta_coll_request manta_coll_request;

/* Start a call and return at once. Calls are made in the order in which they were started, by a thread that this member has
 * from its first one on; later calls that wait take their turn behind them. NULL: *e says why: EINVAL, EAGAIN (1024 are not
 * done), ENOMEM. What goes wrong later comes out of manta_coll_wait. */
MANTA_API manta_coll_request *manta_coll_all_reduce_start(manta_coll *coll, const void *in, void *out, size_t count,
                                                          manta_coll_type type, manta_coll_op op, manta_error *e);
MANTA_API manta_coll_request *manta_coll_all_reduce_many_start(manta_coll *coll, const manta_coll_tensor *tensors,
                                                               size_t tensor_count, manta_coll_type type, manta_coll_op op,
                                                               manta_error *e);
MANTA_API manta_coll_request *manta_coll_reduce_scatter_start(manta_coll *coll, const void *in, void *out, size_t count,
                                                              manta_coll_type type, manta_coll_op op, manta_error *e);
MANTA_API manta_coll_request *manta_coll_all_gather_start(manta_coll *coll, const void *in, void *out, size_t count,
                                                          manta_coll_type type, manta_error *e);
MANTA_API manta_coll_request *manta_coll_broadcast_start(manta_coll *coll, void *data, size_t count, manta_coll_type type, int root,
                                                         manta_error *e);
/* Whether it is done. Does not block. */
MANTA_API bool manta_coll_test(manta_coll_request *request);
/* Waits until it is done, at most timeout_ms (MANTA_FOREVER: as long as its own limits let it), gives its result and frees
 * the request. ETIMEDOUT with a timeout of one's own: it is not done, the request stays; ask manta_coll_test. Requests that
 * nobody waited for go with manta_coll_leave. */
MANTA_API manta_status manta_coll_wait(manta_coll_request *request, int64_t timeout_ms, manta_error *e);

/* ---- messages between two ---------------------------------------------------------------------------------------- */

/* To another member, in order. The receiver expects the same type and count: else all members get EINVAL. Up to 64 KiB may be
 * on the way to a member that does not receive yet; more waits for it. In a group of more than 8 members over TCP the first message
 * from one member to another waits until the other is in a call of the group. */
MANTA_API manta_status manta_coll_send(manta_coll *coll, const void *data, size_t count, manta_coll_type type, int to,
                                       manta_error *e);
MANTA_API manta_status manta_coll_receive(manta_coll *coll, void *data, size_t count, manta_coll_type type, int from,
                                          manta_error *e);
/* Both at once: for members that exchange messages with each other, of any size. */
MANTA_API manta_status manta_coll_send_receive(manta_coll *coll, const void *out, size_t out_count, int to, void *in,
                                               size_t in_count, int from, manta_coll_type type, manta_error *e);

/* ---- on GPUs ------------------------------------------------------------------------------------------------------- */

/* A member's communicator of NCCL, beside its manta_coll, which stays the group: by it members meet, compare what they are
 * about to do, learn of deaths and aborts, and agree. Every member has one GPU, or shares one (then each process needs
 * NCCL_HOSTID set to a value of its own). NCCL is a plugin (libmanta_nccl.so) that is opened by the first join. Results have
 * the same bits each time for the same number of members; they are not those of the CPU's tree. */
typedef struct manta_coll_gpu manta_coll_gpu;

typedef struct manta_coll_gpu_opts {
    int   device;    /* of those that CUDA_VISIBLE_DEVICES leaves */
    void *nccl_comm; /* an ncclComm_t of the caller's for the very same members, used instead of a new one and not freed. It should
                      * be one that does not block, and need not be ready yet. An error revokes it (ncclCommRevoke): then the caller
                      * aborts it, when manta_coll_gpu_leave or _renew has returned */
    int64_t  timeout_ms; /* longest wait; 0: 60 s */
    uint64_t reserved[8];
} manta_coll_gpu_opts;

/* All members of the generation call it, with options that are zero or NULL for the defaults. NULL: *e says why
 * (EUNSUPPORTED: no plugin, no NCCL or no GPU here, and the text what is missing; EINVAL: nccl_comm is of another rank or
 * size; EDEVICE; as manta_coll_barrier). A member that fails ends the generation for all, and none has joined. */
MANTA_API manta_coll_gpu *manta_coll_gpu_join(manta_coll *coll, const manta_coll_gpu_opts *opts, manta_error *e);
/* Ends what is under way, of other members too: where all was well, call it behind a manta_coll_barrier. Does not touch the group,
 * and goes before manta_coll_leave. Blocks up to 5 s, where NCCL does not end. NULL is allowed. */
MANTA_API void manta_coll_gpu_leave(manta_coll_gpu *gpu);
/* After manta_coll_shrink or manta_coll_regroup: a communicator for the generation that the group is in now. `alive` is what
 * manta_coll_agree gave for the former generation, where this one has its survivors in their order; else 0, and NCCL begins
 * anew. As manta_coll_gpu_join; after an error there is none until the next call of this, in a later generation. EDEVICE "this
 * process has to end": NCCL did not end the former one, and may still write into the buffers of its last calls. */
MANTA_API manta_status manta_coll_gpu_renew(manta_coll_gpu *gpu, uint64_t alive, manta_error *e);

/* Calls on buffers in the GPU's memory, as their namesakes above. `stream` is a cudaStream_t; NULL: one of the communicator's
 * own, which waits for no other, so that what makes the buffers is to be done before. They compare the call with the other
 * members' (EINVAL, in all, names two and what differs), put it on the stream and return; buffers belong to it until
 * manta_coll_gpu_wait, or whatever else waits for the stream. */
MANTA_API manta_status manta_coll_gpu_all_reduce(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                                 manta_coll_op op, void *stream, manta_error *e);
MANTA_API manta_status manta_coll_gpu_reduce_scatter(manta_coll_gpu *gpu, const void *in, void *out, size_t count,
                                                     manta_coll_type type, manta_coll_op op, void *stream, manta_error *e);
MANTA_API manta_status manta_coll_gpu_all_gather(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                                 void *stream, manta_error *e);
MANTA_API manta_status manta_coll_gpu_broadcast(manta_coll_gpu *gpu, void *data, size_t count, manta_coll_type type, int root,
                                                void *stream, manta_error *e);
MANTA_API manta_status manta_coll_gpu_all_to_all(manta_coll_gpu *gpu, const void *in, void *out, size_t count, manta_coll_type type,
                                                 void *stream, manta_error *e);
/* Waits until all that was put on the stream is done. A death, an abort or the limit ends the wait, the communicator and what
 * is under way at once: the error says who and why, and buffers that results go to hold anything. Keep what a step began
 * with until this has returned. An error of NCCL's own (EDEVICE) is told after up to 2 s, in which the news of a death that it
 * comes from may arrive. */
MANTA_API manta_status manta_coll_gpu_wait(manta_coll_gpu *gpu, void *stream, manta_error *e);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.h - NCCL as a plugin shows it (nccl.c in libmanta_nccl.so), without a type of NCCL's or CUDA's.
 *
 * A communicator is made without blocking and every wait looks at three things in turn: the device, NCCL's asynchronous error
 * and the caller's `look`, which knows of deaths and aborts before NCCL does. So no member waits for one that is dead: NCCL
 * has no limits of its own, and over NVLink and shared memory it never notices.
 *
 *   id (one member) -> join (all) -> start ... wait -> ... -> leave
 *   any error: the communicator is aborted, what buffers hold is undefined; then shrink by the survivors, or leave and join
 *
 * Whoever frees buffers that a call was given first waits, aborts or leaves: until then the device may write to them. Where an
 * abort hangs they are lost, and with them the process.
 *
 * Thread: one at a time per communicator.
 */
#ifndef SGD_NCCL_H
#define SGD_NCCL_H

#include "sgd/coll/math/math.h"

#include <stdbool.h>

enum { SGD_NCCL_ID = 128, SGD_NCCL_TEXT = 256, SGD_NCCL_ABI = 2 };
#define SGD_NCCL_SYMBOL "sgd_nccl_plugin"

struct sgd_nccl;

struct sgd_nccl_config {
    int      rank, size;
    int      device;               /* of those that CUDA_VISIBLE_DEVICES leaves */
    uint32_t wait_ms;              /* longest wait */
    mt_status (*look)(void *user); /* not OK: the group is over, and why; called every now and then while waiting */
    void (*beat)(void *user);      /* NULL, or called while waiting, for an end of the communicator too: not to be taken for dead */
    void *user;
    char *text; /* SGD_NCCL_TEXT bytes: of the last error */
};

enum sgd_nccl_kind {
    SGD_NCCL_ALL_REDUCE,
    SGD_NCCL_REDUCE,
    SGD_NCCL_REDUCE_SCATTER,
    SGD_NCCL_ALL_GATHER,
    SGD_NCCL_BROADCAST,
    SGD_NCCL_ALL_TO_ALL
};

/* Buffers are the device's, and ready: a stream of the communicator's own waits for no other stream. Counts as in
 * manta_collective.h. */
struct sgd_nccl_call {
    enum sgd_nccl_kind kind;
    enum coll_type     type;
    enum coll_op       op;
    int                root;
    size_t             count;
    const void        *in;
    void              *out;
    void              *stream; /* a cudaStream_t; NULL: the communicator's own */
};

/* A message of an exchange. Messages between two members are received in the order in which they are sent. */
struct sgd_nccl_part {
    int    peer;
    bool   is_sent;
    void  *data;   /* what is sent is not written */
    size_t floats; /* > 0 */
};

struct sgd_nccl_plugin {
    uint32_t abi;
    /* Two processes on one node with the same *out_which share a GPU, which NCCL refuses: a hash of the GPU's place and of
     * NCCL_HOSTID, as NCCL looks at them. EDEVICE. */
    mt_status (*identify)(int device, uint64_t *out_which, char text[SGD_NCCL_TEXT]);
    /* EDEVICE: `text` says why. */
    mt_status (*id)(unsigned char id[SGD_NCCL_ID], char text[SGD_NCCL_TEXT]);
    /* `comm`: a communicator of the caller's (ncclComm_t), used and not freed; then id is not read. EINVAL: it has another
     * rank or size; EDEVICE, ETIMEDOUT, or what `look` gave. After an error *out is what is to be left (ENOMEM: NULL). */
    mt_status (*join)(const struct sgd_nccl_config *config, const unsigned char id[SGD_NCCL_ID], void *comm, struct sgd_nccl **out);
    /* Puts the call on the stream and does not wait for the device. */
    mt_status (*start)(struct sgd_nccl *n, const struct sgd_nccl_call *call);
    /* The same for messages between any members: sent and received at the same time, so that no order can stop them. */
    mt_status (*exchange)(struct sgd_nccl *n, const struct sgd_nccl_part *parts, uint32_t count, void *stream);
    /* Until all that was started on the stream is done. */
    mt_status (*wait)(struct sgd_nccl *n, void *stream);
    /* Ends what is under way; a communicator of the caller's is revoked and stays the caller's to destroy. Does not block
     * longer than MT_NCCL_ABORT_MS; false: it hangs, and the process should end. */
    bool (*abort)(struct sgd_nccl *n);
    /* False: an error or an abort has ended it; only leave is left. */
    bool (*is_whole)(const struct sgd_nccl *n);
    /* The survivors, with their new rank and size, in the order that they had; `dead` are ranks of before. */
    mt_status (*shrink)(struct sgd_nccl *n, const int *dead, int dead_count, int rank, int size);
    /* Aborts what is not done. False: some abort of this communicator hangs, as above. */
    bool (*leave)(struct sgd_nccl *n);
};

/* door.c: opens the plugin. EUNSUPPORTED: `text` says what is missing. */
MT_MUST_USE mt_status sgd_nccl_open(const struct sgd_nccl_plugin **out, char text[SGD_NCCL_TEXT]);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - members of a collective group that talk over TCP: the same calls as shm/shm.h, for members on any nodes.
 *
 * Up to MT_COLL_DIRECT_MAX members have two connections with each other: data, and control, on which nothing comes but news that
 * the generation is over. A member that dies closes both, so all others know at once; one that gives up for another reason tells
 * it first. Of more members each has these with few others (halving.h), and news goes on from member to member.
 *
 * Each call begins with the heads of all (and, of a small sum, the data behind them), sent to everyone at once. A large sum is
 * a reduce-scatter and an all-gather, each of them directly between every two members: that moves as few bytes as a ring,
 * in two steps, and member r reduces slice r of all members' input in the same tree as over shared memory. So the bits are
 * the same over both, and for all members. With few connections (few.h) both take log2 p steps, with the same bytes and bits;
 * messages and an all-to-all then make a connection from sender to receiver at their first use, which stays.
 *
 *   CLOSED --open--> JOINING --all are connected--> JOINED --dead, aborted, late, disagree--> OVER
 *      ^                '---------------------------------------------------------------------^
 *      '--fini-- JOINING, JOINED, OVER
 *
 * Errors, threads and blocking: as in shm/shm.h.
 */
#ifndef SGD_COLL_TCP_H
#define SGD_COLL_TCP_H

#include "sgd/coll/coll.h"
#include "sgd/coll/tcp/socket.h"

struct coll_tcp_config {
    uint64_t             group;
    uint32_t             generation, rank, members;
    uint32_t             wait_limit_ms; /* 0: MT_COLL_WAIT_MS */
    const char          *name;          /* for error texts; copied */
    const unsigned char *secret;        /* COLL_SECRET_BYTES */
    struct coll_door    *door;          /* open, and kept open; NULL: one is opened for this generation, at `at` */
    struct coll_at       at;            /* of this member; its port is not looked at */
    uint32_t             direct_max;    /* so many members are connected each with each; 0: MT_COLL_DIRECT_MAX */
    uint64_t             pace;          /* bytes a second that are sent at most; 0: any number */
    bool                 is_crowded;    /* other threads of the members need the cores: waits sleep at once */
    int                  ask_ms;        /* how often `is_aborted` is asked; 0: MT_COLL_ASK_MS */
    /* Asked now and then while a call waits: true, the generation was aborted by somebody outside. NULL: nobody is asked. */
    bool (*is_aborted)(void *user, enum mt_code *reason, uint32_t *rank);
    void *user;
};

enum coll_tcp_state { COLL_TCP_CLOSED, COLL_TCP_JOINING, COLL_TCP_JOINED, COLL_TCP_OVER };

/* By channel: COLL_MESSAGES from this peer, and from here to it. */
enum { COLL_MESSAGES_OUT = COLL_CHANNELS, COLL_SOCKETS };
struct coll_peer {
    struct coll_socket sockets[COLL_SOCKETS];
};

struct coll_tcp {
    struct coll_tcp_config   config;
    const struct coll_loops *loops;
    struct coll_door         door; /* where the configuration brings none */
    struct coll_peer         peers[MT_GROUP_MEMBERS_MAX];
    struct coll_at           at[MT_GROUP_MEMBERS_MAX];   /* of all members */
    uint64_t                 near[MT_GROUP_MEMBERS_MAX]; /* bit m: this one has data and control connections with member m */
    bool                     is_few;                     /* not each with each */
    enum coll_tcp_state      state;
    uint64_t                 dead;         /* bit r: rank r has closed its connections without a word */
    _Atomic bool             is_cancelled; /* by this process, from any thread */
    mt_status                over;         /* OVER: why */
    uint64_t                 paced_ns;     /* nothing is sent before */
    char                    *scratch;      /* a chunk of every member */
    char                     name[COLL_NAME_BYTES];
    char                     text[COLL_TEXT_BYTES]; /* of the last error */
};

/* Opens this member's listener; the others are to be told where it is. Where it fails, coll_tcp_fini still follows. */
MT_MUST_USE mt_status coll_tcp_open(struct coll_tcp *g, const struct coll_tcp_config *config, struct coll_at *out_at);
/* Connects with all others, where their listeners are (in the order of ranks), and waits for them. */
MT_MUST_USE mt_status coll_tcp_join(struct coll_tcp *g, const struct coll_at *at);
/* Ends the generation, and tells the others why. */
void coll_tcp_give_up(struct coll_tcp *g, enum mt_code reason);
/* Says goodbye, unless the generation is over. Zeroed, or closed already: nothing. */
void coll_tcp_fini(struct coll_tcp *g);

/* For a member that waits for something else: reads what others say of the end of the generation. Does not block. */
MT_MUST_USE mt_status coll_tcp_look(struct coll_tcp *g);
MT_MUST_USE mt_status coll_tcp_run(struct coll_tcp *g, const struct coll_call *call);
MT_MUST_USE mt_status coll_tcp_exchange(struct coll_tcp *g, const struct coll_message *send, const struct coll_message *receive);

#endif

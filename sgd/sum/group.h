/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h - workers that compute together: over a region of shared memory on each node, and TCP between the
 * nodes.
 *
 * Generations, aborts, deaths and waiting are those of shm/shm.h, whose region this is; the group only says
 * what lies in its heap:
 *
 *   0          4096
 *   +----------+-------+--------------------------------+---------------------------------------------+----------------+
 *   | votes    | sum   | slots: the stacks of all lanes | partial sums, of a group over several nodes |
 * fresh, squares |
 *   +----------+-------+--------------------------------+---------------------------------------------+----------------+
 *
 * A member computes its virtual ranks in lanes, one for each of its devices (tree/tree.h): what a lane has
 * computed is summed up on a stack of its own while it goes on, so that a lane of s virtual ranks has log2(s)
 * + 1 slots.
 *
 * The last two only where the state of the optimizer is sharded (shard.h): new parameters on their way to the
 * others, and the sums of squares of blocks of the gradient.
 *
 * Members are numbered node by node. The first of each node, its leader, is also a member of a group over TCP
 * (tcp/tcp.h) of which each node is one; the others wait for it in the region. What ends a generation on one
 * node, it tells there, and what it hears there it tells its region.
 *
 * Two rules for whoever forms generations: numbers only grow, and a new generation is formed only once each
 * member of the last one is dead or has come back from its aborted call. (A straggler that is still inside a
 * call is fenced when it arrives at a barrier, but could until then write into its slots.)
 *
 * All members make the same sequence of collective calls. Each waits at most wait_limit_ms; a member whose
 * limit passes aborts the generation, so that nobody waits longer than the first.
 *
 * Errors of every collective: the reason of the abort (MT_EWORKER_DIED, ...) as soon as anybody has aborted
 * the generation; EFENCED where a later generation exists; ETIMEDOUT. After any of them the generation is
 * over. Thread: one at a time per struct sgd_group.
 */
#ifndef SGD_GROUP_H
#define SGD_GROUP_H

#include "sgd/coll/shm/shm.h"
#include "sgd/coll/tcp/tcp.h"
#include "sgd/ground/team.h"
#include "sgd/tree/tree.h"

/* What all members must agree on. */
struct sgd_group_plan {
    uint32_t vranks;      /* virtual ranks: gradients are summed over these, whatever the number of members */
    uint32_t members_max; /* of any generation; 0: as many as there are virtual ranks */
    uint32_t lanes;       /* of each member, fewer where it has fewer virtual ranks; 0: one */
    size_t   slot_floats; /* what one virtual rank contributes */
    size_t   mean_floats; /* of these, so many from the first are averaged, the others added */
    uint64_t fingerprint; /* of everything else that must be equal (seed, schedule, ...): compared at join */
    bool     is_wide;     /* the region has room for the sums of a group over several nodes */
    bool     is_sharded;  /* each member wants the sum of its own shard (shard.h) of the first mean_floats only */
    bool     is_mirrored; /* and of another member's, which may be on another node: then every node gets all of it */
};

/* The nodes of a group that has several. */
struct sgd_group_net {
    uint32_t       nodes, node;                     /* how many; which of them is this member's */
    uint8_t        first[MT_GROUP_MEMBERS_MAX + 1]; /* rank of each node's first member, its leader; then the number of members */
    struct coll_at at[MT_GROUP_MEMBERS_MAX];        /* of each leader's door */
    uint64_t       group;
    unsigned char  secret[COLL_SECRET_BYTES];
};

/* What a leader needs, made before its generation begins. */
struct sgd_group_made {
    struct coll_tcp tcp; /* CLOSED: none is needed */
    float          *scratch;
    size_t          scratch_floats;
};

struct sgd_group_config {
    void                       *region; /* kept as long as the group is used; 64-byte aligned; zeroed when new */
    size_t                      region_size;
    struct sgd_group_plan       plan;
    uint32_t                    generation;    /* > 0 */
    uint32_t                    rank, members; /* rank < members <= min(MT_GROUP_MEMBERS_MAX, vranks) */
    uint32_t                    wait_limit_ms; /* 0: MT_GROUP_WAIT_MS */
    const struct sgd_group_net *net;           /* NULL: all are on this node. Else the region is that of this node's members */
    struct coll_door           *door;          /* of this member, open; with `net` */
    struct sgd_group_made      *made;          /* for this generation, ahead of it; NULL: nothing. Taken over */
    uint64_t                    pace;          /* bytes a second that a leader sends at most; 0: as many as it can */
};

/* Where a lane of a member of this node has its stack. */
struct sgd_group_lane {
    struct sgd_lane lane;
    uint32_t        slot; /* the bottom */
};

/* One process's view. */
struct sgd_group {
    struct coll_shm        shm; /* its members: those of this node */
    struct coll_tcp        tcp; /* a leader's, of several nodes */
    struct sgd_group_net   net;
    float                 *sum, *slots, *partials, *fresh;
    double                *squares;
    uint64_t              *votes;
    struct sgd_group_plan  plan;
    size_t                 stride; /* floats from slot to slot: whole cache lines */
    uint32_t               slots_count;
    struct sgd_group_lane *lanes;            /* of all members of this node, in the order of their virtual ranks */
    uint32_t               lanes_count, own; /* this member's are from `own` on */
    struct sgd_addend     *addends;          /* room for what a sum adds */
    uint32_t               generation, rank, members;
    float                 *scratch; /* a leader's: what the others send it */
    size_t                 scratch_floats;
    bool                   is_wide, is_leader; /* of several nodes */
    struct sgd_team       *team;               /* threads that this member's part of a sum is cut among; NULL: it is not */
};

/* Bytes of a region for a plan. EINVAL for a plan without or with too many virtual ranks, or too large. */
MT_MUST_USE mt_status sgd_group_region_size(const struct sgd_group_plan *plan, size_t *out_size);

/* Joins a generation and waits until all its members have. EINVAL where the arguments are out of range, the
 * region is too small or laid out for another plan, or members disagree on plan or size (then all of them get
 * it). Also after an error the struct is given back with sgd_group_leave. */
MT_MUST_USE mt_status sgd_group_join(struct sgd_group *group, const struct sgd_group_config *config);
/* How its leader is connected, but for who is asked whether it was aborted. */
struct coll_tcp_config sgd_group_tcp_config(const struct sgd_group_config *config);
/* Touches the pages that this member would touch for the first time in that generation; their content stays, so others may use
 * them now. A leader's scratch is made, and the caller owns it. */
MT_MUST_USE mt_status sgd_group_touch(const struct sgd_group_config *config, bool is_leader, struct sgd_group_made *made);
/* Does not wait. Where the generation was aborted on this node, the others learn it. */
void sgd_group_leave(struct sgd_group *group);

/* Ends a generation for everybody on this node (and, by their leader, on the others): members in a collective return at once
 * with `reason`, later ones when they call. The first abort of a generation stands; one for an earlier generation does
 * nothing. Callable by any process that maps the region, member or not, also before anyone has joined. Never blocks. */
static inline void sgd_group_abort(void *region, uint32_t generation, enum mt_code reason, uint32_t rank)
{
    coll_shm_abort(region, generation, reason, rank);
}

/* Returns when all members have called it. */
MT_MUST_USE mt_status sgd_group_barrier(struct sgd_group *group);
/* The same for the members of this node. */
MT_MUST_USE mt_status sgd_group_meet(struct sgd_group *group);
/* What the leader's part came to: where that is an error, the generation ends here as well. */
mt_status sgd_group_led(struct sgd_group *group, mt_status st);

/* The virtual ranks of a member: first <= vrank < last. */
void sgd_group_vranks(const struct sgd_group *group, uint32_t *out_first, uint32_t *out_last);

/* A lane of this member's, of plan.lanes or of as many as it has virtual ranks. */
const struct sgd_lane *sgd_group_lane(const struct sgd_group *group, uint32_t lane);

/* Where a lane's next contribution goes: slot_floats, of the virtual rank that comes after `done` others, all
 * of them before sgd_group_reduce. First what the lane has by now is summed up, of the floats in `range`:
 * contributions are these, or a part of them. One thread for each lane. Errors of the kernels. */
MT_MUST_USE mt_status sgd_group_room(struct sgd_group *group, const struct k_ops *ops, uint32_t lane, uint32_t done,
                                     struct sgd_range range, float **out_room);
/* The lowest slot of this member's. */
float *sgd_group_bottom(const struct sgd_group *group);

#endif

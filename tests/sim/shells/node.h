/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - one node: its raylet's core and switch, and the shell's tables. One struct for all incarnations.
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "raylet/core/core.h"
#include "raylet/switch/switch.h"
#include "tests/sim/sim.h"

/* One unix socket, seen from the raylet. */
struct sim_conn {
    uint64_t        conn;
    uint64_t        proc; /* serial of the process at the other end; 0: not forked yet */
    struct sim_mem *lane; /* control lane; NULL before the welcome, and for a zygote */
    struct sim_mem *park;
    struct sim_mem *pins;
    uint64_t        up_at, down_at; /* when the last message of each direction arrives: their order is kept */
    bool            is_watched, is_open;
};

enum { SIM_PROGRAM_BYTES = 50000 };

/* The executable of a job on its way to another node. */
struct sim_program {
    size_t have;
};

struct sim_pending { /* an event that waits for its step */
    struct rlt_event e;
    void            *copies[2]; /* of what it points to */
    size_t           packed;    /* a HEAD or PEER_FRAME is still packed: the bytes of copies[0] */
};

/* What a raylet has kept in its folder (raylet/shell/jobs/ends.c). */
enum { SIM_DISK_ENDS = 80 };
struct sim_disk {
    uint64_t              boot; /* of who has written it; 0: nobody yet */
    uint32_t              count;
    struct rlt_before_end ends[SIM_DISK_ENDS];
};

struct sim_node {
    struct sim        *s;
    int                index;
    uint64_t           serial; /* of this incarnation; 0: down */
    uint32_t           starts;
    uint64_t           boot;
    struct sim_disk    disk;
    struct rlt_before  before; /* what it has found there at its start */
    struct sim_disk    found;
    uint64_t           spared_until; /* not to be killed: it is needed for something longer */
    bool               is_restarting;
    bool               is_ready; /* it has its number: drivers may come */
    uint64_t           paused_until;
    uint32_t           crash_in; /* actions until it crashes in the middle of a step; 0: not planned */
    struct rlt        *core;
    struct sw         *sw;
    struct sw_out      sw_out;
    struct rlt_actions actions;
    struct sim_mem    *switch_park;
    bool               switch_is_due;
    bool               is_stepping;
    uint64_t           tick_at;
    uint64_t           next_conn, next_stream;
    mt_map             conns;    /* conn -> sim_conn */
    mt_map             lanes;    /* lane -> sim_mem */
    mt_map             regions;  /* number -> 1 */
    mt_map             programs; /* job -> sim_program: being fetched from its driver's node */
    mt_map             pidfds;   /* descriptor -> serial of the process */
    MT_VEC(struct sim_pending) pending;
    size_t           pending_done;
    struct io_loop  *loop; /* of the object store's part of the shell ... */
    struct sh       *sh;   /* ... which is this */
    uint64_t         lost; /* a bit for each node number (modulo 64) that this raylet has taken for dead */
    uint64_t         memory_bytes, back_total, taken_total; /* of the store, at the last look */
    struct rlt_stats stats;                                 /* after the last step: what changed is counted */
    uint64_t         kept_since;                            /* room from somebody, and nobody was granted any */
    bool             is_kept_long;
};

struct sim_conn *sim_conn_of(const struct sim_node *n, uint64_t conn);

/* act.c: one action of the core. */
void sim_node_act(struct sim *s, struct sim_node *n, const struct rlt_action *a);
/* twins/net.c: the actions that leave the node. */
void sim_net_act(struct sim *s, struct sim_node *n, const struct rlt_action *a);
void sim_net_node_up(struct sim *s, struct sim_node *n);
void sim_net_node_down(struct sim *s, struct sim_node *n, uint64_t serial);

#endif

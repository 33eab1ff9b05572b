/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - the other nodes, the links to them, and the streams that carry those.
 */
#ifndef RLT_STATE_NODE_H
#define RLT_STATE_NODE_H

#include "core/base/limits/text.h"
#include "core/wire/ctl.h"
#include "raylet/core/kit/link.h"
#include "raylet/core/state/timer.h"

/* Another node, and the link to it. Begun by the first word in either direction. */
struct rlt_peer {
    uint32_t         node, epoch;
    bool             has_link;
    struct rlt_link  link;
    uint64_t         last_number; /* of the links that are over: none is begun or taken up under it again */
    bool             is_given_up; /* the last link was, and nothing has been heard of this epoch or a later one since */
    uint64_t         stream;      /* carries the link; 0: none does */
    uint64_t         dialing;     /* 0: no dial is under way */
    uint64_t         dialed_at, heard_at, said_at;
    bool             is_paused;  /* its lanes are: too much waits for it */
    bool             has_spares; /* streams of ours may be open beside the one that carries the link */
    struct rlt_timer timer;
};

/* A stream between raylets, ours or accepted. */
struct rlt_stream {
    uint64_t         stream;
    struct rlt_peer *peer; /* NULL: accepted, and has not said who it is */
    bool             is_ours, is_open;
    uint64_t         opened_at; /* ours: since when it is open */
    uint64_t         heard_at;  /* when a frame last came by it */
    struct rlt_timer timer;     /* accepted: until its first frame */
};

/* As the View counts them. */
enum rlt_node_state { NODE_ALIVE = 1, NODE_SUSPECT, NODE_DEAD, NODE_DRAINING };

/* A node of the cluster, as the head's View says. */
struct rlt_node {
    uint32_t            node, epoch;
    enum rlt_node_state state;
    bool                is_drained; /* it is DRAINING, or was when it went */
    bool                is_told;    /* since the head began to tell of all nodes anew */
    char                name[CTL_NAME_SIZE], address[CTL_NAME_SIZE], data_address[CTL_NAME_SIZE];
    char                labels[MT_LABELS_BYTES_MAX];
    uint32_t            total_count, free_count;
    struct ctl_resource total[CTL_RESOURCES], free[CTL_RESOURCES];
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h - what a raylet is told at its start, and the counters that it tells.
 */
#ifndef RLT_CONFIG_H
#define RLT_CONFIG_H

#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "core/wire/ctl.h"
#include "raylet/core/kit/pins.h"

#include <stdbool.h>

enum {
    RLT_ADDRESS_SIZE = CTL_NAME_SIZE,
};

/* What a raylet that was killed in the same folder has left there: ends of jobs that no head may have heard of. */
struct rlt_before_end {
    char     id[CTL_NAME_SIZE];
    uint32_t attempt;
    int32_t  exit_code;
    char     word[16]; /* of JobState */
    char     reason[256];
    uint64_t log_offset; /* of the last of its output */
    uint8_t *log;        /* NULL: none */
    size_t   log_size;
};
struct rlt_before {
    uint64_t               boot;
    uint32_t               count;
    struct rlt_before_end *ends;
};

struct rlt_config {
    char                     node_name[CTL_NAME_SIZE];
    char                     address[RLT_ADDRESS_SIZE];      /* where Peer is served */
    char                     data_address[RLT_ADDRESS_SIZE]; /* of the data socket */
    char                     head_address[RLT_ADDRESS_SIZE]; /* for CTL_WELCOME */
    char                     labels[MT_LABELS_BYTES_MAX];
    const struct rlt_before *before;      /* the caller's, until RLT_A_READY; NULL, or boot 0: none was killed here */
    uint64_t                 boot;        /* random; the driver of the state machine draws it */
    uint32_t                 node, epoch; /* of a private cluster: 1, 1 from the start; else 0 until the head has answered */
    bool                     has_head;    /* a head exists or will: wants, names and nodes go to it */
    bool                     is_private;  /* one driver owns this raylet: when its connection ends, so does the raylet */
    bool                     jobs_apart;  /* each job has a user of its own: what it makes at the head is its own */
    uint32_t                 resource_count;
    struct ctl_resource      total[MT_RLT_RESOURCES_MAX]; /* CPU, GPU (whole devices), memory, custom */
    struct rlt_pins          cpus;                        /* of the machine; none: nobody is bound to any */
    uint64_t                 orphan_ms;                   /* without a head and without work, it leaves after that; 0: never */
    uint32_t                 workers_max;                 /* processes forked on this node at a time; 0: the default */
    uint32_t blocked_max;      /* workers that have lent their CPUs at a time; more run tasks of their own. 0: the default */
    uint32_t idle_workers_max; /* per job, kept warm; 0: CPUs + 2 */
};

struct rlt_stats {
    uint32_t node, epoch;
    uint32_t processes, workers, idle_workers, starting_workers, jobs;
    uint32_t leases, lanes, monitors, regions;
    uint32_t leases_here; /* whose workers are of this node */
    bool     is_leaving, is_limit_over;
    bool     is_leave_over; /* what it waits for after the limit has had its time too */
    bool     is_told;       /* to leave, by a signal; the next one ends it at once */
    uint64_t unheard_ms;    /* since its head has said something; UINT64_MAX: it never has */
    uint32_t values_stuck;  /* that only this node has, which leaves, and that no other can take */
    uint32_t ends_unheard;  /* nodes that have not acknowledged the end of a lease */
    uint32_t peers;
    uint64_t turns; /* leases that were given room of the node itself, not of a placement group's */
    uint64_t grants, recalls, ended, worker_deaths, memory_stops, bounced, refused_grants, granted_alone, replayed_frames, fenced;
    int64_t  total[MT_RLT_RESOURCES_MAX], free[MT_RLT_RESOURCES_MAX], leased[MT_RLT_RESOURCES_MAX];
    uint32_t resource_count;
};

#endif

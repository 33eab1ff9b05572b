/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - what an owner asks for and gets: classes, demands, leases, and their ends.
 */
#ifndef CTL_LEASE_H
#define CTL_LEASE_H

#include "core/base/limits/raylet.h"
#include "core/base/limits/text.h"
#include "core/wire/ctl/kind.h"

struct ctl_resource {
    char    name[24]; /* "CPU", "GPU", "memory" (bytes), or the user's */
    int64_t milli;    /* thousandths; of "memory": bytes */
};

enum {
    CTL_CLASS_ACTOR = 1,       /* one actor: the lease is not recalled, and ends with the actor */
    CTL_CLASS_STRICT = 2,      /* ... that never runs twice at a time: its worker runs while its park page says so */
    CTL_CLASS_RESTARTS = 0x10, /* ... that may begin again: a node that is to leave asks for its lease back */
    CTL_CLASS_FOR_ALL = 0x20,  /* ... whose name all jobs may find: between an owner's parts only */
    CTL_CLASS_CAPTURE = 0x80,  /* what its tasks submit belongs to its placement group as well */
    CTL_CLASS_PIN = 0x40,      /* its threads are bound to CPUs of its own; it wants whole ones */
};
enum ctl_policy { CTL_HYBRID = 0, CTL_SPREAD = 1, CTL_NODE = 2 /* `node`, hard */, CTL_NODE_SOFT = 3 };

struct ctl_class {
    uint32_t            class_id; /* the owner's number */
    uint32_t            flags;
    uint32_t            resource_count;
    uint32_t            policy; /* enum ctl_policy */
    uint32_t            node;
    uint32_t            reserved;
    uint64_t            env;                 /* key of a runtime environment (CTL_ENV); 0: that of the owner itself */
    char                name[CTL_NAME_SIZE]; /* function or actor, for people */
    struct ctl_resource resources[CTL_RESOURCES];
    char                labels[MT_LABELS_BYTES_MAX]; /* selector (core/text/labels.h); "": any node */
    mt_id               group;                       /* placement group in whose pool its leases are; zero: none */
    uint32_t            bundle;                      /* of it, from 1; 0: any */
    uint32_t            reserved2;
};
static inline bool ctl_class_is_grouped(const struct ctl_class *c)
{
    return c->group.process != 0;
}

struct ctl_demand {
    uint32_t class_id;
    uint32_t wanted; /* leases, those held included */
    uint64_t version;
};
#define CTL_DEMAND_LAST UINT64_MAX /* version: nothing of this class will ever be wanted again */

struct ctl_grant {
    uint64_t lease;
    uint32_t class_id;  /* the owner's; 0 for a lane of CTL_LANE_WANT */
    uint32_t flags;     /* CTL_CLASS_ACTOR, CTL_CLASS_STRICT; CTL_GRANT_REMOTE */
    uint64_t peer;      /* process at the other end: the owner's is the worker (0 while remote), and the reverse */
    uint32_t peer_node; /* where it is */
    int32_t  peer_pid;
    uint32_t incarnation;
    uint32_t gpu_count; /* devices of the lease, for CUDA_VISIBLE_DEVICES */
    uint16_t gpus[16];
    int64_t  cpu_milli;              /* of the lease */
    uint64_t cpus[MT_CPUS_MAX / 64]; /* that its threads are to be bound to, a bit each; none: wherever they like */
    mt_id    group;                  /* placement group that the lease is in; zero: none. CTL_CLASS_CAPTURE stands in `flags` */
};
enum { CTL_GRANT_REMOTE = 0x100 }; /* the claims are taken by the switch: revoke by LANE_REVOKE */

struct ctl_lease {
    uint64_t lease;
};

struct ctl_ended {
    uint64_t lease;
    int32_t  code;   /* MT_OK: drained; MT_EWORKER_DIED; MT_ENODE_DIED */
    int32_t  status; /* as waitpid gives it, when the worker died */
    int32_t  pid;
    uint32_t node;
    char     text[CTL_TEXT_SIZE * 4]; /* what happened, and the backtrace the worker left */
};

struct ctl_unschedulable {
    uint32_t class_id;
    int32_t  code;
    char     text[CTL_TEXT_SIZE]; /* which resource, how much, what the largest node has */
};

struct ctl_lane_want {
    uint64_t process; /* of the worker */
    uint32_t node;
    uint32_t incarnation;
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * want.h - what is wanted of the cluster, by the word of the nodes whose processes want it.
 */
#ifndef HEAD_KIT_WANT_H
#define HEAD_KIT_WANT_H

#include "core/base/id.h"
#include "core/base/limits/scaler.h"
#include "scheduler/policy/policy.h"

struct want {
    uint64_t              owner, version;
    uint32_t              class_id;
    uint32_t              wanted;
    uint32_t              placed;     /* of them answered ... */
    uint64_t              placed_ms;  /* ... then */
    uint32_t              held;       /* leases of the class, by its node's word */
    uint64_t              since_ms;   /* it was first seen, or last answered: who has waited longest is served first */
    uint64_t              pressed_ms; /* a busy node was last asked to make room for it */
    bool                  is_refused; /* the owner was told that no node can ever hold it */
    mt_id                 group;      /* its leases are in the pool of this placement group; zero: of none */
    uint32_t              bundle;     /* from 1; 0: any */
    struct policy_request request;
};

struct node_wish { /* what a process there would use beyond what it has */
    uint64_t              owner;
    uint32_t              count, worth; /* worth: in thousandths of what it does */
    char                  name[MT_SCL_NAME_SIZE];
    uint64_t              told; /* its raylet was told so of it; 0: nothing yet */
    struct policy_request request;
};

#endif

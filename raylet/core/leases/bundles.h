/* SPDX-License-Identifier: Apache-2.0
 *
 * bundles.h - door: what placement groups have reserved here, and what a lease takes from there or from the node. Private to
 * raylet/core/.
 */
#ifndef RLT_BUNDLES_H
#define RLT_BUNDLES_H

#include "raylet/core/leases/leases.h"

static inline struct rlt_bundle *rlt_bundle_of(struct rlt_list *link)
{
    return mt_container_of(link, struct rlt_bundle, in_all);
}
struct rlt_bundle *rlt_bundle_find(struct rlt *r, mt_id group, uint32_t index); /* not one that was given back */
void               rlt_bundle_set_state(struct rlt_bundle *b, enum rlt_bundle_state next);
void               rlt_bundle_free(struct rlt *r, struct rlt_bundle *b);
bool               rlt_bundle_is_for(const struct rlt_bundle *b, const struct ctl_class *def);
struct rlt_ledger *rlt_lease_ledger(struct rlt *r, const struct rlt_lease *l);
/* Takes what one lease of the class needs, from the node or from a pool; false: there is no room. The end of the lease gives it
 * back. */
bool        rlt_lease_take(struct rlt *r, const struct ctl_class *def, struct rlt_lease *l);
bool        rlt_class_could_now(const struct rlt *r, const struct ctl_class *def);
void        rlt_bundles_report(struct rlt *r, Manta__V1__Report *report);
const char *rlt_bundles_check(const struct rlt *r, int64_t *reserved); /* adds to it what they reserve */
void        rlt_bundles_fini(struct rlt *r);

#endif

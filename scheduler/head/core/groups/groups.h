/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.h - door: placement groups. What processes ask, where bundles go (in two phases), and leases in their pools.
 */
#ifndef HEAD_GROUPS_H
#define HEAD_GROUPS_H

#include "scheduler/head/core/kit/kit.h"

/* ---- what processes and people ask --------------------------------------------------------------------------------- */

void head_groups_request(struct head *h, struct stream *s, const Manta__V1__GroupRequest *request);
void head_groups_list(struct head *h, uint64_t call, const Manta__V1__QueryRequest *request);

/* ---- what nodes say ------------------------------------------------------------------------------------------------ */

void head_groups_job_gone(struct head *h, uint64_t job);
void head_groups_node_lost(struct head *h, uint32_t node); /* its jobs have ended, its bundles stand nowhere */
void head_bundles_answer(struct head *h, struct node *n, const Manta__V1__BundleAnswer *answer);
void head_bundles_report(struct head *h, const struct node *n, const Manta__V1__Report *report);
/* The node is to leave: what is not decided about it is given up. Of what is, head_bundles_drained sees in its reports when the
 * node has given it back, and then it is placed anew. */
void head_bundles_drain(struct head *h, uint32_t node);
void head_bundles_drained(struct head *h, const struct node *n, const Manta__V1__Report *report);
void head_bundles_node_registered(struct head *h, const struct node *n);

/* ---- placing ------------------------------------------------------------------------------------------------------- */

void head_bundles_round(struct head *h);
/* Nodes for up to `wanted` leases in the pool that `w` names; 0 and *out_code not 0: never, and `text` says why. */
uint32_t head_bundles_place(struct head *h, const struct want *w, uint32_t wanted, uint32_t *out_nodes, int32_t *out_code,
                            char *text, size_t text_size);
/* What committed bundles reserve on the node, by its resources. */
void head_bundles_reserved(const struct head *h, const struct node *n, int64_t out[POLICY_RESOURCES_MAX]);

/* ---- life ---------------------------------------------------------------------------------------------------------- */

MT_MUST_USE mt_status head_groups_load(struct head *h, const Manta__Store__GroupRecord *record);
void                  head_groups_fini(struct head *h);
const char           *head_groups_check(const struct head *h); /* what must hold; NULL: it does */
uint64_t              head_groups_hash(const struct head *h, uint64_t hash);

#endif

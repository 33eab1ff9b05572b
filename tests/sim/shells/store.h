/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - the object store of a simulated node.
 */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "raylet/store/store.h"
#include "tests/sim/twins/io.h"

enum { SIM_STORE_BYTES = 256 << 20, SIM_STORE_SHORT = 5 << 20, SIM_CHUNK = 1024 };

void sim_store_start(struct sim *s, struct sim_node *n);
void sim_store_stop(struct sim_node *n);
void sim_store_welcome(struct sim_node *n, const struct sim_conn *conn, uint64_t process, const struct ctl_welcome *w);
void sim_store_goodbye(struct sim_node *n, uint64_t conn); /* the process is reaped; nothing, where it was never welcomed */
bool sim_store_record(struct sim_node *n, const struct rlt_event *e); /* false: it is for the core */
void sim_store_told(struct sim_node *n, const struct rlt_action *a);
void sim_store_registered(struct sim_node *n);
bool sim_store_holds(const struct sim_node *n, const struct lane_ref *place); /* in memory or on disk */
/* Living values of that job in memory; one of them in *out_first. */
uint32_t sim_store_living(const struct sim_node *n, uint32_t job, mt_id *out_first);
/* After all work: nothing is left but what the raylet keeps warm for itself. Returns how many descriptors that has. */
uint32_t sim_store_check_empty(struct sim *s, const struct sim_node *n);

/* act.c: a message on the socket of a process; borrows mem. */
void sim_node_send(struct sim *s, struct sim_node *n, uint64_t conn, const struct lane_record *record, const void *payload,
                   struct sim_mem *const mem[2]);

#endif

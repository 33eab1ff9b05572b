/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - a simulated head's store on a server: its leader, and a network and a server that fail.
 *
 * I17: what the head was told is stored is what the next head finds, and nothing else but the commit that was under way.
 */
#ifndef SIM_REDIS_H
#define SIM_REDIS_H

#include "tests/sim/sim.h"

#include "scheduler/head/core/core.h"

/* A head starts: takes the lead, and gives it every record. */
void sim_redis_lead(struct sim *s, uint64_t head_serial,
                    void (*record)(struct sim *s, enum head_table table, mt_view key, mt_view value));
/* Takes the records. sim_head_stored (shells/head.c) follows, in order. */
void sim_head_stored(struct sim *s, uint64_t token);
void sim_redis_store(struct sim *s, uint64_t token, struct head_record *take_records, size_t count);
/* The head is gone; what it has sent may still arrive. */
void sim_redis_head_died(struct sim *s);
void sim_redis_free(struct sim *s);

#endif

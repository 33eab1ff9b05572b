/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.h - a trial whose command is a gang: the words of `manta run` that stand before it, and where that program is.
 *
 *   slot --command.c--> manta-run, a driver of its own --> its ranks, on reservations of its own
 *
 * The slot itself reserves nothing then. Thread: any.
 */
#ifndef SWP_GANG_H
#define SWP_GANG_H

#include "core/base/buf.h"
#include "sweep/manta_sweep.h"

static inline int swp_gang_per_node(const manta_sweep_gang *g)
{
    return g->per_node ? g->per_node : g->ranks && g->nodes ? g->ranks / g->nodes : 1;
}

static inline int swp_gang_ranks(const manta_sweep_gang *g)
{
    return g->ranks ? g->ranks : g->nodes * swp_gang_per_node(g);
}

/* What one trial reserves: so often the sweep's cpus and gpus. 1 where a trial is no gang. */
static inline int swp_gang_parts(const manta_sweep_opts *o)
{
    return o->command && o->command->gang ? swp_gang_ranks(o->command->gang) : 1;
}

/* Of a trial, or of each of its ranks. */
static inline double swp_cpus(const manta_sweep_opts *o)
{
    return o->cpus < 0 ? 0 : o->cpus > 0 ? o->cpus : 1;
}

/* The options of `manta run`, each with its end; *out_count: how many. None where the command is no gang. ENOMEM. */
MT_MUST_USE mt_status swp_gang_words(const manta_sweep_opts *o, mt_buf *out, uint32_t *out_count);

/* The program manta-run of this node: beside its raylet, else in MANTA_HOME/bin, else by PATH. */
void swp_gang_program(char *out, size_t size);

#endif

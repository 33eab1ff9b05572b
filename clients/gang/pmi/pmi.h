/* SPDX-License-Identifier: Apache-2.0
 *
 * pmi.h - PMI-1, by which the ranks of an MPICH program find each other, as a state machine: lines in, lines out.
 *
 * One server a node, for the ranks of that node. What they put is known to all after the next barrier:
 *
 *   put, put, barrier_in  ...of all ranks here--> FENCE: the puts since the last one go to the driver
 *   barrier_out to all here  <--gng_pmi_fenced--  the puts of all other nodes, when every node has said FENCE
 *
 *   of a rank:  STRANGE --init--> INSIDE --finalize--> OUTSIDE --its end--> GONE;  from each of them: its end, or what is no PMI
 *
 * Key and value are of bounded length, no key is put twice, lines are bounded. What is no PMI-1, an abort, and an end while others
 * wait are faults of that rank: the caller ends the gang. Pure; one thread at a time.
 */
#ifndef GNG_PMI_H
#define GNG_PMI_H

#include "core/base/buf.h"
#include "core/base/limits/gang.h"
#include "core/ds/vec.h"

#include <stdbool.h>

enum gng_pmi_rank_state { GNG_PMI_STRANGE, GNG_PMI_INSIDE, GNG_PMI_OUTSIDE, GNG_PMI_GONE };

struct gng_pmi_rank {
    enum gng_pmi_rank_state state;
    bool                    waits;       /* in a barrier */
    bool                    is_spawning; /* the many lines of MPI_Comm_spawn, up to endcmd: it is refused then */
    size_t                  line_size;
    char                    line[MT_GANG_PMI_LINE_BYTES]; /* that has begun */
    mt_buf                  out;                          /* to be written to it */
};

struct gng_pmi_pair {
    char    *key, *value; /* one memory */
    uint32_t next;        /* of its bucket, + 1 */
};

enum { GNG_PMI_BUCKETS = 4096 };

struct gng_pmi {
    int                  first, local, size; /* ranks first .. first + local - 1 are here, of so many */
    struct gng_pmi_rank *ranks;
    MT_VEC(struct gng_pmi_pair) pairs;
    uint32_t buckets[GNG_PMI_BUCKETS];
    size_t   told;     /* pairs that other nodes have */
    bool     is_alone; /* all ranks are here: a barrier needs nobody else */
    char     mapping[512], space[96];
    /* What has come of it, for the caller, who clears it. */
    bool   wants_fence;
    mt_buf fence;      /* with wants_fence: "key\0value\0", ... */
    int    fault_rank; /* -1: none */
    int    fault_code; /* the exit status that it asks for; -1: none */
    bool   is_end;     /* the fault is that it has ended: how it did is for its supervisor to say */
    char   fault[256];
};

/* `mapping`: PMI_process_mapping, which ranks share a node. `space`: the name of the key-value space, the same on all nodes, and in
   no other run: programs name shared memory after it. ENOMEM. */
MT_MUST_USE mt_status gng_pmi_init(struct gng_pmi *p, int first, int local, int size, const char *mapping, const char *space);
void                  gng_pmi_fini(struct gng_pmi *p);
/* Bytes of a rank; answers are put into its `out`. ENOMEM; what is wrong with them is a fault. */
MT_MUST_USE mt_status gng_pmi_take(struct gng_pmi *p, int rank, mt_view bytes);
/* Its connection has ended. */
MT_MUST_USE mt_status gng_pmi_end(struct gng_pmi *p, int rank);
/* The puts of the other nodes, as in `fence`: all who wait go on. ENOMEM; EPROTO. */
MT_MUST_USE mt_status gng_pmi_fenced(struct gng_pmi *p, mt_view puts);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * wrk.h - the worker half of a process: claims what its lanes bring, one at a time, and sends the outcome back.
 *
 * A pure state machine, as own.h is: it says what to run (wrk_next), the shell runs it, wrk_done takes the outcome.
 * What must be done outside stands in wrk->out. Thread: the one that runs tasks.
 *
 *   lane:  OPEN --recall--> returns what it has not begun, writes LANE_END, CTL_DRAINED --> gone
 *   actor whose node leaves:  STAYS --recall, the creator's calls have ended--> SAVES: no call begins any more, nor ever will
 *                             SAVES --no call runs, wrk_save_begin--> SAVING --wrk_saved--> SAVED --> LANE_END
 */
#ifndef WRK_WRK_H
#define WRK_WRK_H

#include "clients/lib/owner/own.h"

enum { WRK_GROUPS = 9 }; /* the default one first */

struct wrk_lane {
    uint64_t             lease;
    uint64_t             owner;
    uint32_t             owner_node;
    bool                 is_creator; /* of the actor: its end is the actor's */
    bool                 is_recalled;
    bool                 is_gone; /* its owner is dead: outcomes are for nobody */
    void                *memory;
    struct lane_park    *peer;
    shm_u64             *claims;
    struct lane_consumer forward;
    struct lane_producer back;
    uint32_t             untold, unreleased;
    uint32_t             inflight;    /* calls of a concurrent actor that are queued or run */
    uint64_t             oldest_ns;   /* when the first untold outcome was written */
    uint32_t             board;       /* number of the memory where its owner's cells are; 0: none was named yet */
    uint32_t             board_asked; /* one that was named and is not mapped; 0: none */
    uint32_t             region;      /* of this node, that the board is in */
    uint32_t             cell_count;
    struct lane_cell    *cells; /* NULL: it can't be mapped */
    struct wrk_given   **given; /* by slot: arguments that came behind their task; NULL: none did */
    struct lane_consumer scan;  /* how far the ring was looked through for them */
};

/* One claimed task. The payload lies in the ring and stays until wrk_done. */
struct wrk_run {
    struct wrk_lane   *lane;
    struct lane_record record;
    const uint8_t     *payload;
    size_t             size;
    struct lane_cell  *cell; /* that takes its result; NULL: none, or it is not mapped */
    uint64_t           generation;
};
/* The memory of cells, mapped. */
struct wrk_board {
    uint32_t region;
    uint32_t count; /* of its cells */
    void    *memory;
};

/* One call of a concurrent actor: a copy of its record, so that the ring goes on while it waits and runs. */
struct wrk_call {
    struct wrk_call *next;
    struct wrk_run   run;
    uint32_t         group;
    size_t           room; /* of bytes */
    uint8_t          bytes[];
};

/* A concurrency group: at most `limit` of its calls run at a time, begun in the order in which they came. */
struct wrk_group {
    uint32_t         limit, running;
    struct wrk_call *first, *last;
};

enum wrk_leave { WRK_STAYS, WRK_SAVES, WRK_SAVING, WRK_SAVED };

struct wrk {
    uint32_t       epoch;
    struct own_out out;
    MT_VEC(struct wrk_lane *) lanes;
    struct wrk_lane *spare;   /* for the next one */
    size_t           turn;    /* lane to look at first */
    struct wrk_lane *running; /* lane of the task that runs; NULL between tasks */
    struct wrk_run   run;
    enum wrk_leave   leave;
    uint64_t         quick; /* the function that ran last, where it was done at once; else 0 */
    struct wrk_group groups[WRK_GROUPS];
    uint32_t         group_count; /* 0: one call at a time, from the ring itself */
    uint32_t         calls_queued, calls_running;
    bool             is_exiting; /* the actor ends of its own will: no call begins any more */
    struct wrk_call *free_calls;
    bool             asks_board;          /* a lane has board_asked */
    MT_VEC(struct wrk_board) boards_gone; /* that nobody here uses any more: the shell unmaps them */
    bool is_blocked;
    bool is_over; /* the actor's creator has given it up: leave */
};

void wrk_init(struct wrk *wrk, uint32_t epoch);
/* Sets memory aside for the next lane, and for what is said of it: before each control record. ENOMEM: as far as it went. */
mt_status wrk_prepare(struct wrk *wrk);
void      wrk_fini(struct wrk *wrk);

/* CTL_LANE (with its mapped memory) and CTL_RECALL; other kinds are ignored. EPROTO, ENOMEM. */
MT_MUST_USE mt_status wrk_control(struct wrk *wrk, const struct lane_record *record, const uint8_t *payload, void *memory,
                                  struct lane_park *park);

/* The next task that this worker has claimed: run it, then call wrk_done. False: nothing to run. Do what `out` asks for
 * before running it: unless it is more of the same quick function, the outcomes so far were shown to their owners. */
bool wrk_next(struct wrk *wrk, struct wrk_run *out);

/* The outcome: `flags` of LANE_DONE, code and user code, the bytes behind the header. False: the completion ring is full;
 * try again when its owner has read. `now_ns` and `took_ns` pace the publication. */
bool wrk_done(struct wrk *wrk, uint16_t flags, int32_t code, int32_t user_code, const void *payload, size_t size, uint64_t now_ns,
              uint64_t took_ns);

/* A record about the task that runs, shown to its owner at once: `head`, then `data`. False: the ring is full. */
bool wrk_report(struct wrk *wrk, const struct wrk_run *run, uint16_t kind, uint64_t aux, const void *head, size_t head_size,
                const void *data, size_t size);
/* The owner of that lane is dead: what is said there is dropped. */
void wrk_owner_gone(struct wrk *wrk, const struct wrk_run *run);
/* The owner half of the same process can ask from now on which calls wait in these lanes. Both live as long as each other. */
void wrk_tie(struct wrk *wrk, struct own *own);
/* How many items of the generator that runs its consumer has used; LANE_GONE: it wants no more. */
uint64_t wrk_used(const struct wrk_run *run);

/* The task that runs is about to wait, or goes on: unclaimed tasks go back to their owners, the raylet is told. */
void wrk_block(struct wrk *wrk);
void wrk_unblock(struct wrk *wrk);

/* Shows owners every outcome; recalled lanes end here. Call it before sleeping. */
void wrk_flush(struct wrk *wrk);
/* Every lane is given back, as if it were recalled: in the next rounds of wrk_next. */
void wrk_retire(struct wrk *wrk);
/* Where those owners of our lanes are who are awake, seen from this cpu (+ 1), as own_where_served says it; 0: there are none. */
unsigned wrk_where_fed(const struct wrk *wrk, uint32_t cpu);
/* Whether an actor on this cpu (+ 1) that has more to do than it can would be better off on another one of `cpus`: it, and those
 * who call it and are awake, are two more here than elsewhere on average. Its creator does not count, who parts its own actors. */
bool wrk_is_crowded(const struct wrk *wrk, uint32_t cpu, uint32_t cpus);
/* Whether wrk_next or wrk_call_next has something to do: a record, or a lane that can end. */
bool wrk_has_work(struct wrk *wrk);

/* ---- values that come by cells: ahead.c ---- */
/* A lane whose next task waits for a value of another one: it begins when its cell is filled. */
bool wrk_waits_ahead(struct wrk *wrk);
/* The worker is about to sleep: it is woken when such a value comes. */
void wrk_watch_ahead(struct wrk *wrk);
/* A lane whose records have named a board (board_asked) that is to be mapped; NULL: none. */
const struct wrk_lane *wrk_board_asked(const struct wrk *wrk);
/* It is mapped for the lane of that lease. Memory NULL: it can't be had. */
void wrk_board_open(struct wrk *wrk, uint64_t lease, const struct wrk_board *board);
/* The value of an argument with LANE_VALUE_EDGE, whose bytes are `edge`, while the task runs. False: there is none. */
bool wrk_edge_value(const struct wrk_run *run, const uint8_t *edge, struct lane_value *out, const uint8_t **bytes);

/* News for the actor's creator: LANE_EXIT, or LANE_SAVED with its value. Shown at once. False: its ring is full; true also
 * where the creator is gone. */
bool wrk_tell_creator(struct wrk *wrk, uint16_t kind, const void *payload, size_t size);

/* True once: the actor's node leaves, and nothing of it runs any more. Its state is to go to its creator now (LANE_SAVED), then
 * wrk_saved is called. What a call did after that would be lost with this process. */
bool wrk_save_begin(struct wrk *wrk);
void wrk_saved(struct wrk *wrk);

/* ---- concurrent actors: calls.c ---- */
/* From now on calls are taken by wrk_call_next, wrk_next brings none. `limits`: of the default concurrency group, then of those
 * with a name. */
void wrk_calls_start(struct wrk *wrk, const uint32_t *limits, uint32_t count);
/* A call that may begin now, claimed; NULL: none. It is given back by wrk_call_done. */
struct wrk_call *wrk_call_next(struct wrk *wrk);
/* Whether calls stand in the queues of named concurrency groups. */
bool wrk_other_groups_wait(const struct wrk *wrk);
/* Whether a call that was taken out of its ring may begin now. */
bool wrk_call_waits(const struct wrk *wrk);
/* As wrk_done, for a call of wrk_call_next, in any order. False: the ring is full. */
bool wrk_call_done(struct wrk *wrk, struct wrk_call *call, uint16_t flags, int32_t code, int32_t user_code, const void *payload,
                   size_t size, uint64_t now_ns, uint64_t took_ns);

/* Whether the owner of this run wants it to stop. From any thread, while it runs. */
static inline bool wrk_is_cancelled(const struct wrk_run *run)
{
    return lane_cancel_is_set(lane_header_of(run->lane->memory), run->record.slot);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * own.h - the owner half of a process: the tasks it submitted, the values it waits for, the actors it made.
 *
 * A pure state machine: no system call, thread or clock inside. Control records come in through own_control, time
 * through own_tick, completions through own_poll; what must be done outside stands in own->out afterwards: records for
 * the up ring and processes to wake. The lanes' memory is handed in with the lease and used directly.
 *
 * Thread: any one at a time; libmanta holds its owner lock.
 *
 * This is the door: it brings the doors of the rooms below with it (README.md says what is where).
 */
#ifndef OWN_OWN_H
#define OWN_OWN_H

#include "clients/lib/owner/talk/talk.h"

/* Sets memory aside for what may not fail: before each control record and at each tick. ENOMEM: as far as it went. */
mt_status own_prepare(struct own *own);
void      own_init(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job);
/* The job is over: refs that the user holds are left with their inline values or failures, handles of actors and generators as dead
 * ones; all else is freed. What has not come fails with `code` and `text` (0: nobody will ask; the lanes may be unmapped). */
void own_close(struct own *own, int32_t code, const char *text);
/* own_init after own_close, or of zeroed memory: what was left is this process's own, under new ids. */
void own_reopen(struct own *own, uint64_t process, uint32_t node, uint32_t epoch, uint32_t job);
/* Frees everything; handles of the user must not be used afterwards. */
void own_fini(struct own *own);

/* ---- events: own.c ---- */
/* A control record from the raylet. For CTL_GRANT the shell has mapped lane and park page (both NULL otherwise).
 * EPROTO: the raylet broke the protocol. Kinds that are not the owner's are ignored. */
MT_MUST_USE mt_status own_control(struct own *own, const struct lane_record *record, const uint8_t *payload, void *lane,
                                  struct lane_park *park);
/* Serves the completion rings of all lanes. Returns whether anything was there. */
bool own_poll(struct own *own);
/* Where the workers are for whose outcomes we wait, seen from this cpu (+ 1); 0: nothing is under way. */
enum own_where { OWN_HERE = 1, OWN_ELSEWHERE = 2 };
unsigned own_where_served(const struct own *own, uint32_t cpu);
/* At each tick: asks a worker to move (lane_park.leave) that has shared a cpu with another for some ticks, while there is
 * a cpu without any. */
void own_spread(struct own *own);
/* Looks at everything that is known: NULL, or what does not hold of it (a literal). As long as there are tasks and refs. */
const char *own_check(const struct own *own);
/* Shows every worker what was submitted. */
void own_flush(struct own *own);
/* About once a millisecond while there is work, else each time the process wakes. Sooner than 20 ms while own->is_lacking, until
 * own->lacking_ticks is OWN_LACKING_TICKS. */
void own_tick(struct own *own, uint64_t now_ns);

/* ---- for who holds the lock: each with what it has posted ---- */
/* Gives a hold back. */
static inline void own_ref_drop(struct own *own, struct own_ref *ref)
{
    own_ref_unhold(own, ref);
    own_settle_posted(own);
}
/* Submits; the ref comes with one hold. NULL only without memory. */
static inline struct own_ref *own_submit(struct own *own, const struct own_call *call)
{
    struct own_ref *ref = own_task_submit(own, call);
    own_settle_posted(own);
    return ref;
}

/* ---- what this process runs ---- */
/* This process begins a task, and ends it. */
static inline void own_run_begin(struct own *own, mt_id id)
{
    own->run.id = id;
    own->run.number = ++own->run_count;
    own->run.items = 0;
    own->run_submits = false;
}
static inline void own_run_end(struct own *own)
{
    if (own->run_submits)
        own->past_runs[own->run.number % OWN_PAST_RUNS] = own->run;
    own->run.id = (mt_id){0, 0};
}
/* The same for a task that is run while another one waits. */
static inline void own_run_begin_inside(struct own *own, mt_id id, struct own_outer_run *outer)
{
    *outer = (struct own_outer_run){own->outer_runs, own->run, own->run_submits};
    own->outer_runs = outer;
    own_run_begin(own, id);
}
static inline void own_run_end_inside(struct own *own)
{
    const struct own_outer_run *outer = own->outer_runs;
    own_run_end(own);
    own->run = outer->run;
    own->run_submits = outer->submits;
    own->outer_runs = outer->outer;
}

#endif

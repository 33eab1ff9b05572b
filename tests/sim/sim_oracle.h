/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_oracle.h - what was accepted, what ran, what was answered; and whether the invariants hold.
 *
 *   I1  each accepted task ends exactly once, or its owner died     I6  nothing is left when all have gone
 *   I2  an answer, once given, stays                                I7  free + leased = total (rlt_check, every step)
 *   I3  it ran at most 1 + retries times, at least once if done     I8  what the head acknowledged survives
 *   I4  calls of one caller run in order, one incarnation counts    I9  a stale epoch changes nothing
 *   I5  a value is the function of its arguments, everywhere        I10 after the last fault all work ends
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "tests/sim/sim.h"

enum sim_kind { SIM_TASK = 1, SIM_CREATE = 2, SIM_CALL = 3 };

/* One accepted task, call or creation. */
struct sim_task {
    mt_id         id;
    enum sim_kind kind;
    uint64_t      owner;      /* serial of the owner process */
    mt_id         actor;      /* of a call */
    uint64_t      order;      /* of a call: number among the owner's calls of that actor */
    int32_t       retries;    /* < 0: without limit */
    uint32_t      executions;
    bool          is_ended;
    int32_t       code;       /* how it ended */
    bool          has_value;  /* `value` is what a run of it returned */
    int64_t       value;
    bool          fails;      /* the function itself reports an error */
};

struct sim_actor {
    mt_id    id;
    uint64_t running_incarnations; /* CREATE runs so far */
    uint32_t newest;               /* incarnation that was created last */
    bool     has_run;
};

void sim_oracle_new(struct sim *s);
void sim_oracle_free(struct sim *s);

/* The owner has submitted it. */
struct sim_task *sim_oracle_accepted(struct sim *s, enum sim_kind kind, mt_id id, uint64_t owner, int32_t retries);
struct sim_task *sim_oracle_task(struct sim *s, mt_id id); /* NULL: not known */
/* A worker begins to run it. */
void sim_oracle_runs(struct sim *s, mt_id id, uint32_t attempt, uint64_t worker);
/* A call runs in an incarnation of its actor. */
void sim_oracle_call_runs(struct sim *s, struct sim_task *t, uint64_t worker);
/* ... and returns this. */
void sim_oracle_returns(struct sim *s, mt_id id, int64_t value);
/* Its owner sees the outcome. */
void sim_oracle_ended(struct sim *s, struct sim_task *t, int32_t code, bool has_value, int64_t value, int32_t outcome);
/* A process has died: what it owned ends with it. */
void sim_oracle_owner_died(struct sim *s, uint64_t serial);

/* After every event. */
void sim_oracle_check(struct sim *s);
/* What still waits, for people. */
const char *sim_oracle_pending(struct sim *s);
/* At the end: everything is answered, nothing is left. */
void sim_oracle_finish(struct sim *s);

/* sim_work.c, sim_fault.c */
void sim_work_start(struct sim *s);
void sim_fault_start(struct sim *s);

#endif

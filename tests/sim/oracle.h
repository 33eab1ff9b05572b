/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.h - what was accepted, what ran, what was answered; and whether the invariants hold.
 *
 *   I1  each accepted task ends exactly once, or its owner died     I6  nothing is left when all have gone
 *   I2  an answer, once given, stays                                I7  free + leased = total (rlt_check, every step)
 *   I3  it ran at most 1 + retries times, at least once if done     I8  what the head acknowledged survives
 *   I4  calls of one caller run in order, one incarnation counts    I9  a stale epoch changes nothing
 *   I5  a value is the function of its arguments, everywhere        I10 after the last fault all work ends
 *   I13 what is in a placement group runs there alone; no bundle stands on two living nodes
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "tests/sim/sim.h"

enum sim_kind { SIM_TASK = 1, SIM_CREATE = 2, SIM_CALL = 3 };

enum { SIM_ANSWERS_MAX = 4 };
struct sim_answer { /* what a run of it returned */
    int64_t  value;
    uint32_t incarnation;
};

/* One accepted task, call or creation. */
struct sim_task {
    mt_id             id;
    enum sim_kind     kind;
    uint64_t          owner;   /* serial of the owner process */
    mt_id             actor;   /* of a call or creation */
    uint64_t          order;   /* of a call: number among the owner's calls of that actor */
    int32_t           retries; /* < 0: without limit */
    uint32_t          executions;
    uint64_t          worker;                   /* that ran it last */
    struct sim_answer answers[SIM_ANSWERS_MAX]; /* of the last runs */
    int               answer_count;
    bool              has_failed;          /* a run of it has reported a failure */
    bool              has_expected, fails; /* its value is known beforehand; the function reports an error */
    int64_t           expected;
    mt_id             pg;       /* placement group that it must run in; zero: none */
    mt_id             argument; /* of a ref that it takes; zero: none, or of no matter */
    uint64_t          env;      /* key of the environment that it must run in; 0: none */
    bool              is_ended;
    bool              is_cancelled; /* its owner has taken it back: it ends so, ... */
    bool              must_not_run; /* ... and was told that it has not run */
    int32_t           code;         /* how it ended */
    int64_t           value;
};

struct sim_actor;

void sim_oracle_new(struct sim *s);
void sim_oracle_free(struct sim *s);

/* The owner has submitted it. */
struct sim_task *sim_oracle_accepted(struct sim *s, enum sim_kind kind, mt_id id, uint64_t owner, int32_t retries);
struct sim_task *sim_oracle_task(struct sim *s, mt_id id); /* NULL: not known */
/* A worker begins to run it. */
void sim_oracle_runs(struct sim *s, struct sim_task *t, uint32_t attempt, uint64_t worker);
/* ... and will return this, in that incarnation of an actor. */
void sim_oracle_returns(struct sim *s, struct sim_task *t, int64_t value, uint32_t incarnation);
void sim_oracle_actor_new(struct sim *s, mt_id id, bool is_strict);
/* I12: the process of a strict actor's incarnation is let run on: no later one has begun. */
void              sim_oracle_may_run(struct sim *s, const struct sim_actor *a, uint32_t incarnation);
struct sim_actor *sim_oracle_actor(struct sim *s, mt_id id);
/* The number of the next call of `owner`. */
uint64_t sim_oracle_next_order(struct sim *s, mt_id actor, uint64_t owner);
/* A worker runs a creation; it runs a call in its actor. */
void sim_oracle_creates(struct sim *s, struct sim_task *t, uint32_t incarnation, uint64_t worker);
/* It tells its creator a snapshot; an incarnation begins with one. */
struct sim_snapshot {
    int64_t  state;
    uint64_t calls;
};
/* Its process has told the last one: no call of it may begin there any more. */
void sim_oracle_left(struct sim_actor *a, uint64_t proc);
void sim_oracle_saves(struct sim *s, struct sim_actor *a, const struct sim_snapshot *snapshot);
void sim_oracle_loads(struct sim *s, struct sim_actor *a, const struct sim_snapshot *snapshot);
void sim_oracle_call_runs(struct sim *s, struct sim_task *t, struct sim_actor *a, uint64_t worker, uint32_t incarnation);
/* Its owner sees the outcome. */
void sim_oracle_ended(struct sim *s, struct sim_task *t, int32_t code, bool has_value, int64_t value, int32_t outcome);
/* Names: an actor's owner asks for one, hears the answer, gives it up; somebody finds it, or does not. */
void sim_oracle_name_wanted(struct sim *s, mt_id actor, const char *name, uint64_t owner, uint32_t node, uint32_t epoch);
void sim_oracle_name_answered(struct sim *s, mt_id actor, int32_t code);
void sim_oracle_name_ends(struct sim *s, mt_id actor);
void sim_oracle_name_found(struct sim *s, const char *name, uint64_t asked_at, int32_t code, mt_id actor);
/* The head has said that this incarnation of a node is dead. */
void sim_oracle_node_dead(struct sim *s, uint32_t node, uint32_t epoch);
/* The head has told a raylet its number and epoch: never the same pair to two incarnations. */
void sim_oracle_epoch_given(struct sim *s, uint32_t node, uint32_t epoch, uint64_t incarnation);
/* That epoch of the node: dead by the head's word, or a later one was given out. */
bool sim_oracle_is_over(struct sim *s, uint32_t node, uint32_t epoch);
/* A process has died: what it owned ends with it. */
void sim_oracle_owner_died(struct sim *s, uint64_t serial);

/* After every event. */
void sim_oracle_check(struct sim *s);
/* What still waits, for people. */
const char *sim_oracle_pending(struct sim *s);
/* At the end: everything is answered, nothing is left. */
void sim_oracle_finish(struct sim *s);

/* load/work.c, fault.c */
void sim_work_start(struct sim *s);
void sim_fault_start(struct sim *s);
void sim_fault_sought(struct sim *s, uint32_t node); /* that node is asked for a copy */

#endif

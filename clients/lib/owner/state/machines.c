/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.c - which state of a reference, task, lane or actor may follow which: drawings and tables.
 *
 * The setters stand beside the structs, inline. Thread: any.
 */
#include "clients/lib/owner/state/state.h"

#define BIT(state) MT_STATE(OWN_##state)

/*
 *   PENDING --its value--> INLINE, PLACE
 *      |                      |
 *      '-----------.----------'--its job is over: what it was is lost
 *                  v
 *               FAILED                                any --nobody has it: its struct serves the next one--> PENDING
 */
static const char *const ref_names[] = {
    [OWN_REF_PENDING] = "PENDING", [OWN_REF_INLINE] = "INLINE", [OWN_REF_PLACE] = "PLACE", [OWN_REF_FAILED] = "FAILED"};
static const uint32_t ref_next[] = {
    [OWN_REF_PENDING] = BIT(REF_PENDING) | BIT(REF_INLINE) | BIT(REF_PLACE) | BIT(REF_FAILED),
    [OWN_REF_INLINE] = BIT(REF_PENDING) | BIT(REF_FAILED),
    [OWN_REF_PLACE] = BIT(REF_PENDING) | BIT(REF_FAILED),
    [OWN_REF_FAILED] = BIT(REF_PENDING),
};
const struct mt_machine own_ref_machine = MT_MACHINE("ref", ref_names, ref_next);

/*
 *   NOT --lost--> RUNS --the run brought it--> MOVED --lost--> RUNS
 *    |              '----the run failed------> LOST
 *    '--let go; can be made again--> GONE --needed after all--> RUNS        MOVED --let go--> GONE
 *
 *   NOT, MOVED --lost, others may have copies--> SOUGHT --one has: it is the value now--> MOVED
 *                                                  '--none has--> RUNS; without a task what it was, and who waits is told
 *
 *   any --another ref, or another job--> NOT            NOT, MOVED --another process has made it again--> MOVED
 */
static const char *const again_names[] = {[OWN_AGAIN_NOT] = "NOT",   [OWN_AGAIN_RUNS] = "RUNS", [OWN_AGAIN_MOVED] = "MOVED",
                                          [OWN_AGAIN_LOST] = "LOST", [OWN_AGAIN_GONE] = "GONE", [OWN_AGAIN_SOUGHT] = "SOUGHT"};
static const uint32_t    again_next[] = {
       [OWN_AGAIN_NOT] = BIT(AGAIN_NOT) | BIT(AGAIN_RUNS) | BIT(AGAIN_MOVED) | BIT(AGAIN_GONE) | BIT(AGAIN_SOUGHT),
       [OWN_AGAIN_RUNS] = BIT(AGAIN_NOT) | BIT(AGAIN_MOVED) | BIT(AGAIN_LOST) | BIT(AGAIN_GONE),
       [OWN_AGAIN_MOVED] = BIT(AGAIN_NOT) | BIT(AGAIN_RUNS) | BIT(AGAIN_MOVED) | BIT(AGAIN_GONE) | BIT(AGAIN_SOUGHT),
       [OWN_AGAIN_LOST] = BIT(AGAIN_NOT),
       [OWN_AGAIN_GONE] = BIT(AGAIN_NOT) | BIT(AGAIN_RUNS),
       [OWN_AGAIN_SOUGHT] = BIT(AGAIN_NOT) | BIT(AGAIN_MOVED) | BIT(AGAIN_RUNS),
};
const struct mt_machine own_again_machine = MT_MACHINE("ref made again", again_names, again_next);

/*
 *   NO_TASK --submit--> WAITING --args ready--> QUEUED --lane has room--> SENT --DONE--> NO_TASK; its ref is ready
 *                        |   ^                   |  ^                      |
 *         last arg ready |   | own_settle        |  '--returned, revoked,--'
 *                        v   |                   |     its worker died: again
 *                        WOKEN                   '--a call's argument is lost--> WAITING
 *
 *   SENT --its values stand on another node--> KEPT --one is lost--> RERUN --own_settle--> WAITING
 *                                               '--nobody needs it--> GIVEN_UP --own_settle--> NO_TASK
 *   SENT, or failed before that, of an actor's creation --> CREATED --the actor restarts--> QUEUED
 *   WAITING, WOKEN, QUEUED --failed or cancelled--> NO_TASK        QUEUED --a call found the lane full--> QUEUED
 */
static const char *const task_names[] = {[OWN_NO_TASK] = "NO_TASK", [OWN_WAITING] = "WAITING",   [OWN_QUEUED] = "QUEUED",
                                         [OWN_SENT] = "SENT",       [OWN_KEPT] = "KEPT",         [OWN_WOKEN] = "WOKEN",
                                         [OWN_RERUN] = "RERUN",     [OWN_GIVEN_UP] = "GIVEN_UP", [OWN_CREATED] = "CREATED"};
static const uint32_t    task_next[] = {
       [OWN_NO_TASK] = BIT(WAITING),
       [OWN_WAITING] = BIT(QUEUED) | BIT(WOKEN) | BIT(CREATED) | BIT(NO_TASK),
       [OWN_QUEUED] = BIT(QUEUED) | BIT(WAITING) | BIT(SENT) | BIT(CREATED) | BIT(NO_TASK),
       [OWN_SENT] = BIT(QUEUED) | BIT(KEPT) | BIT(CREATED) | BIT(NO_TASK),
       [OWN_KEPT] = BIT(RERUN) | BIT(GIVEN_UP),
       [OWN_WOKEN] = BIT(WAITING) | BIT(NO_TASK),
       [OWN_RERUN] = BIT(WAITING),
       [OWN_GIVEN_UP] = BIT(NO_TASK),
       [OWN_CREATED] = BIT(CREATED) | BIT(QUEUED) | BIT(NO_TASK),
};
const struct mt_machine own_task_machine = MT_MACHINE("task", task_names, task_next);

/*
 *   OPEN --RECALL--> RECALLED --.
 *     |------its worker writes what no protocol allows--> BROKEN
 *     '------------------------.----------------------------'--CTL_ENDED--> ENDING
 */
static const char *const lane_names[] = {
    [OWN_LANE_OPEN] = "OPEN", [OWN_LANE_RECALLED] = "RECALLED", [OWN_LANE_BROKEN] = "BROKEN", [OWN_LANE_ENDING] = "ENDING"};
static const uint32_t lane_next[] = {
    [OWN_LANE_OPEN] = BIT(LANE_RECALLED) | BIT(LANE_BROKEN) | BIT(LANE_ENDING),
    [OWN_LANE_RECALLED] = BIT(LANE_BROKEN) | BIT(LANE_ENDING),
    [OWN_LANE_BROKEN] = BIT(LANE_ENDING),
    [OWN_LANE_ENDING] = 0,
};
const struct mt_machine own_lane_machine = MT_MACHINE("lane", lane_names, lane_next);

/*
 *   NEW --made, or named--> STARTING
 *   creator:  STARTING --lease, CREATE done--> ALIVE --worker died, restarts left--> RESTARTING --CREATE done--> ALIVE
 *                 STARTING, RESTARTING --worker died in CREATE--> RESTARTING
 *                 any --killed for good, no restarts left, CREATE failed--> DEAD
 *   caller:   STARTING --AT, lane--> ALIVE --lane ended--> STARTING;   AT says dead, or the creator died --> DEAD
 */
static const char *const actor_names[] = {[OWN_ACTOR_NEW] = "NEW",
                                          [OWN_ACTOR_STARTING] = "STARTING",
                                          [OWN_ACTOR_ALIVE] = "ALIVE",
                                          [OWN_ACTOR_RESTARTING] = "RESTARTING",
                                          [OWN_ACTOR_DEAD] = "DEAD"};
static const uint32_t    actor_next[] = {
       [OWN_ACTOR_NEW] = BIT(ACTOR_STARTING),
       [OWN_ACTOR_STARTING] = BIT(ACTOR_STARTING) | BIT(ACTOR_ALIVE) | BIT(ACTOR_RESTARTING) | BIT(ACTOR_DEAD),
       [OWN_ACTOR_ALIVE] = BIT(ACTOR_STARTING) | BIT(ACTOR_RESTARTING) | BIT(ACTOR_DEAD),
       [OWN_ACTOR_RESTARTING] = BIT(ACTOR_RESTARTING) | BIT(ACTOR_ALIVE) | BIT(ACTOR_DEAD),
       [OWN_ACTOR_DEAD] = 0,
};
const struct mt_machine own_actor_machine = MT_MACHINE("actor", actor_names, actor_next);

/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.h - a sweep as a state machine: events in, orders out; no I/O, clock or thread.
 *
 *   swp_driver_init -> swp_driver_replay (each record of the journal, in order) -> swp_driver_open -> swp_driver_step ...
 *
 * What lasts (trials, sampler, scheduler, stoppers) changes only when a record is applied, and a record is applied in the same
 * way when it is made and when it is read back: so a replay leads to the same state. Slots (the actors that serve trials) do
 * not last: a trial that was under way when everything died waits again.
 *
 *             SUGGEST            START order                 END
 *   (none) -----------> WAITING ------------> RUNNING -----------------> ENDED
 *                         ^  ^--- FAIL, slot down ---'  '--- PAUSE ---> PAUSED
 *                         '------------------ RESUME ---------------------'
 *
 * A slot, and the driver itself (states.c has the tables, and is the only file that sets a state):
 *
 *   NONE --HIRE--> STARTING --SLOT_UP--> UP --KILL--> DYING          REPLAYING --open--> OPEN --is over, or STOP--> LEAVING
 *     ^                '--KILL--> DYING     '            |                                  DONE <--no slot is left----'
 *     '------------------- SLOT_DOWN --------------------'
 *
 * Before an effect, the record: a trial starts when its SUGGEST (RESUME, FAIL) is durable, a STOP or PAUSE is told when the
 * report that caused it is. CONTINUE is told at once: whatever dies, it changes nothing. A state that a trial saves is published
 * (becomes what a later run of this trial loads) behind the report that follows it, so that a trial which goes on from it has
 * all reports up to there in the journal; those that it repeats are dropped.
 *
 * Slots follow the work and the nodes (slots.c). One that has had nothing for a while, and is not needed, is let go, so that its
 * node may be given back; one whose node leaves ends what it runs, and another one is hired elsewhere. A trial that was ended since
 * its node left waits again: that is no failure of it.
 *
 * A process may die between the return of a trial's function and the news of it. What it has noted of that (ends.h) is folded in:
 * from a slot that died before its SLOT_DOWN, from a driver that died between the replay and swp_driver_open.
 *
 * Thread: one at a time. Nothing blocks, but for a sampler that is another program.
 */
#ifndef SWP_DRIVER_H
#define SWP_DRIVER_H

#include "core/ds/vec.h"
#include "sweep/journal/record.h"
#include "sweep/sample/sampler.h"
#include "sweep/trial/left.h"
#include "sweep/decide/scheduler.h"
#include "sweep/decide/stopper.h"

enum swp_event_kind {
    SWP_EV_TICK,
    SWP_EV_SLOT_UP,
    SWP_EV_SLOT_DOWN, /* down */
    SWP_EV_REPORT,    /* report */
    SWP_EV_SAVED,     /* saved: a state has come, and is kept aside until PUBLISH */
    SWP_EV_FINISHED,  /* finished */
    SWP_EV_RETURNED,  /* the trial had not begun; -1: all have come back */
    SWP_EV_DURABLE,   /* durable */
    SWP_EV_CLONED,    /* cloned */
    SWP_EV_CONTROL,   /* control */
    SWP_EV_ROOM,      /* room */
    SWP_EV_HOLD,      /* hold */
    SWP_EV_NODES,     /* nodes: how many slots the cluster has room for; only where the sweep follows that */
    SWP_EV_LEAVE,     /* the slot's node is to leave: what it runs may end, and nothing else begins there */
    SWP_EV_BROKEN,    /* broken: the journal takes nothing any more */
};
struct swp_event {
    enum swp_event_kind kind;
    int64_t             now_ns;
    int                 slot;  /* that speaks, of SLOT_UP to RETURNED */
    int64_t             trial; /* of REPORT to RETURNED, and CLONED */
    uint32_t            run;   /* of REPORT to RETURNED: that of the START; others are stale and ignored */
    union {                    /* texts are borrowed */
        struct {
            int32_t     code; /* EUNSCHEDULABLE ends the sweep */
            const char *text; /* why */
        } down;
        struct {
            int64_t     step;
            double      value;
            const char *metric; /* NULL: the sweep's */
            bool        wants_answer;
        } report;
        struct {
            int64_t step;
        } saved;
        struct {
            int32_t     code;     /* the function's status */
            const char *why;      /* it failed, with the end of its log; may be NULL */
            bool        is_final; /* no retry helps */
        } finished;
        struct {
            uint64_t seq; /* all records up to it */
        } durable;
        struct {
            bool is_done; /* whether the state could be copied */
        } cloned;
        struct {
            int     what; /* enum swp_control, or what a newer program means by it */
            int64_t value;
        } control;
        struct {
            bool is_there; /* else the journal's disk is full, and no trial is begun */
        } room;
        struct {
            bool begins; /* so much waits for the disk that nothing is taken from trials; their time stands still until it ends */
        } hold;
        struct {
            int room;
        } nodes;
        struct {
            int32_t     code;
            const char *text;
        } broken;
    };
};

enum swp_order_kind {
    SWP_ORDER_HIRE,
    SWP_ORDER_KILL,    /* SLOT_DOWN follows */
    SWP_ORDER_START,   /* start */
    SWP_ORDER_ANSWER,  /* answer */
    SWP_ORDER_RETURN,  /* what the slot has not begun comes back */
    SWP_ORDER_RECORD,  /* record */
    SWP_ORDER_PUBLISH, /* what the trial saved last is its state, once all records before are durable */
    SWP_ORDER_CLONE,   /* clone: copy the state; CLONED follows */
    SWP_ORDER_DONE,    /* the last one */
};
struct swp_order {
    enum swp_order_kind kind;
    int                 slot;  /* of HIRE to RETURN */
    int64_t             trial; /* of START, ANSWER, RECORD, PUBLISH, CLONE */
    uint32_t            run;   /* of START, ANSWER, PUBLISH */
    union {
        struct {
            uint64_t ready_seq;
            int64_t  ask_from; /* reports from this step on wait for an answer */
        } start;
        struct {
            enum swp_decision decision;
            int64_t           ask_from;
        } answer;
        struct swp_record record;
        struct {
            int64_t from; /* the other trial */
        } clone;
    };
};

/* Drawn above. */
enum swp_trial_state { SWP_TRIAL_WAITING, SWP_TRIAL_RUNNING, SWP_TRIAL_PAUSED, SWP_TRIAL_ENDED };
struct swp_trial {
    char    *params;           /* JSON */
    double   value;            /* the metric's newest */
    int64_t  step;             /* of it */
    uint64_t ready_seq;        /* WAITING: may start when this is durable. Names the attempt in all drivers */
    uint32_t run;              /* of the newest START */
    int32_t  slot;             /* RUNNING */
    uint32_t failures, others; /* others: reports of other metrics behind the newest of the sweep's */
    uint8_t  state, verdict, outcome;
    bool     has_step; /* steps up to `step` are known; what is reported again is dropped */
    bool     has_value, is_bad, has_saved, is_ending;
    bool     is_full; /* it has come to the scheduler's max_t: stopped, and complete */
};

enum swp_slot_state { SWP_SLOT_NONE, SWP_SLOT_STARTING, SWP_SLOT_UP, SWP_SLOT_DYING };
struct swp_slot {
    enum swp_slot_state state;
    int64_t             queue[MT_SWEEP_AHEAD_MAX]; /* the first one runs */
    int                 count;
    bool                is_returning, is_leaving;
    int                 bad_starts;         /* deaths in a row before it was up */
    int64_t             began_ns, heard_ns; /* of the trial that runs; without one: since when there has been none */
    const char         *killed;             /* why we kill it; NULL: we don't */
};

enum swp_driver_state { SWP_DRIVER_REPLAYING, SWP_DRIVER_OPEN, SWP_DRIVER_LEAVING, SWP_DRIVER_DONE };

/* Where points come from: a sampler of ours, or another program. */
struct swp_source {
    void *self;
    mt_status (*suggest)(void *self, uint64_t trial, struct swp_point *out_point);
    mt_status (*restore)(void *self, uint64_t trial, const struct swp_point *point);
    mt_status (*tell)(void *self, uint64_t trial, const struct swp_outcome *outcome);
};
struct swp_source swp_source_of(struct swp_sampler *sampler);

struct swp_driver_config {
    const struct swp_space *space;
    struct swp_source       source;
    struct swp_scheduler   *scheduler;                         /* borrowed, as all here */
    struct swp_stopper     *stopper;                           /* NULL: none */
    bool                    maximize, is_adaptive, is_ordered; /* is_adaptive: points depend on results */
    bool                    has_limits;                        /* trial or sweep stoppers, so that reports matter */
    uint64_t                limit;                             /* trials, not counting dropped ones; UINT64_MAX: none */
    uint64_t                points;                            /* that the source has */
    int                     slots, slots_max;                  /* slots_max: what `slots` may grow to; 0: it does not */
    int                     window; /* window: with is_ordered, trial k is drawn when those before k - window have ended */
    int                     retries;
    double                  time_s, trial_s, silent_s; /* 0: none */
};

struct swp_held {
    uint64_t         seq;
    struct swp_order order;
};

struct swp_driver {
    struct swp_driver_config config;
    MT_VEC(struct swp_trial) trials;
    MT_VEC(int64_t) ready, ending; /* WAITING ones in the order they shall start; whose END is due */
    size_t ready_head;
    MT_VEC(struct swp_held) held;
    size_t held_head;
    MT_VEC(struct swp_order) orders; /* for the shell, which takes them and empties it */
    struct swp_slot      *slots;
    uint64_t              seq, durable, told, asked_limit;
    uint32_t              runs;
    double                base_s; /* of former drivers */
    int64_t               opened_ns, now_ns;
    double                trial_ns;   /* a trial's usual time; 0: not known */
    bool                  is_cloning; /* a CLONE is under way */
    struct swp_point      clone;      /* its new point */
    int64_t               clone_from;
    uint64_t              running, paused, completed, pruned, failed, dropped, retried, reports;
    int64_t               best_trial, best_step; /* -1: none */
    double                best;
    enum swp_driver_state state;
    bool                  is_paused, is_full, is_held, wants_over, is_over, is_time_up;
    int64_t               held_ns;      /* is_held: since when */
    int64_t               ticked_ns;    /* the last tick; 0: there was none */
    double                asked_time_s; /* by this driver; 0: no limit */
    int                   room;         /* slots that may be live, beside those whose node leaves */
    int                   leaving;      /* so many are those */
    int                   live, up;     /* slots that are not NONE; that are UP */
    mt_status             error;        /* why it ends before it is done */
    char                  text[MT_ERROR_BYTES_MAX], message[MT_ERROR_BYTES_MAX], first_failure[MT_ERROR_BYTES_MAX];
};

MT_MUST_USE mt_status swp_driver_init(struct swp_driver *d, const struct swp_driver_config *config);
void                  swp_driver_fini(struct swp_driver *d);

/* A record of the journal. ECORRUPT, with d->text: it does not fit to those before. ENOMEM. */
MT_MUST_USE mt_status swp_driver_replay(struct swp_driver *d, const struct swp_record *record);
/* All was replayed: the sweep goes on, with the next event. ENOMEM. */
MT_MUST_USE mt_status swp_driver_open(struct swp_driver *d, int64_t now_ns);
/* What a dead process left: what is missing of it in the journal is recorded, what is known or of another attempt is ignored. For
 * slot -1 between swp_driver_replay and _open. ENOMEM. */
MT_MUST_USE mt_status swp_driver_fold(struct swp_driver *d, const struct swp_left *left);
/* One event; then what it leads to is in d->orders. A failure ends the sweep: ENOMEM, EINTERNAL. */
MT_MUST_USE mt_status swp_driver_step(struct swp_driver *d, const struct swp_event *event);

/* Trials that have no slot, and would begin if there were more of them; as far as that is known, INT_MAX at most. */
int swp_driver_waiting(const struct swp_driver *d);
/* How many trials there are in all, as far as is known, those that were dropped among them; UINT64_MAX: no limit. */
uint64_t swp_driver_limit(const struct swp_driver *d);
/* Records that were made and are not durable yet. */
static inline bool swp_driver_waits_for_disk(const struct swp_driver *d)
{
    return d->durable < d->seq;
}

/* states.c: the only places where these states change; each change must be in its table, and the counts follow it. */
void swp_trial_set_state(struct swp_driver *d, int64_t number, enum swp_trial_state next);
void swp_slot_set_state(struct swp_driver *d, int index, enum swp_slot_state next);
void swp_driver_set_state(struct swp_driver *d, enum swp_driver_state next);

/* slots.c: kills one; one's node leaves; so many may be live from now on; hires and lets go, as there is work. */
MT_MUST_USE mt_status swp_slot_kill(struct swp_driver *d, int index, const char *why);
MT_MUST_USE mt_status swp_slot_leaves(struct swp_driver *d, int index);
void                  swp_slots_room(struct swp_driver *d, int room);
MT_MUST_USE mt_status swp_slots_hire(struct swp_driver *d);
MT_MUST_USE mt_status swp_slots_let_go(struct swp_driver *d);
int64_t               swp_driver_in_flight(const struct swp_driver *d); /* trials that wait or run */

/* apply.c: changes what lasts, as the record says. `point`: of SUGGEST and CLONE; NULL: read it from the text. */
MT_MUST_USE mt_status swp_driver_apply(struct swp_driver *d, const struct swp_record *record, const struct swp_point *point);
/* Before trial `number` is drawn: with is_ordered, tells the source of those trials that it is drawn by. EAGAIN: one of them has
 * not ended. */
MT_MUST_USE mt_status swp_driver_tell_before(struct swp_driver *d, uint64_t number);

#endif

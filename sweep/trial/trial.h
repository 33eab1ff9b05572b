/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - a trial inside its process, and the slot (an actor) that runs one after the other.
 *
 *      driver --tell--> slot.todo --run (the actor's thread)--> trial function --> slot.news --poll--> driver
 *
 * `run` is one call that lasts as long as the actor; tell and poll come in beside it, on threads of their own. What a trial says
 * is kept in `news` until the driver fetches it; the fetch waits while there is nothing, and for a few milliseconds more where
 * nobody waits for the answer, so that much travels together.
 *
 * Thread: all fields of struct swp_slot_side are under its mutex, but those that are set once; a trial belongs to `run`.
 */
#ifndef SWP_TRIAL_H
#define SWP_TRIAL_H

#include "core/ds/vec.h"
#include "sweep/trial/ends.h"
#include "core/text/json.h"
#include "sweep/manta_sweep.h"
#include "sweep/trial/wire.h"

#include <pthread.h>

/* What every slot of a sweep is made with. */
struct swp_setup {
    const char *metric, *folder; /* folder: of the sweep, for manta_trial_dir */
    const char *metrics_file;    /* of a command; "": its standard output */
    char      **argv, **env;     /* of a command; argv NULL: a function */
    char      **gang;            /* the words of `manta run` before it (gang.h); NULL: it is none */
    bool        has_data;
};
MT_MUST_USE mt_status swp_setup_put(mt_buf *out, const manta_sweep_opts *opts, const char *folder);

struct swp_said {
    struct swp_wire head; /* its text and bytes are in `memory` */
    void           *memory;
};

struct swp_slot_side {
    pthread_mutex_t mutex;
    pthread_cond_t  work, news_come, room, answered;
    MT_VEC(struct swp_wire) todo; /* STARTs; each owns one block, which text and bytes lie in */
    size_t todo_head, todo_peak;
    MT_VEC(struct swp_said) news;
    struct swp_ends          ends;
    bool                     is_urgent;
    int64_t                  trial; /* that runs; -1 */
    uint32_t                 run;
    bool                     has_answer, is_stopped;
    int64_t                  ask_from; /* reports of this step and later ones wait for an answer */
    struct swp_setup         setup;
    char                    *setup_text;
    manta_ref               *data;
    manta_view               data_view;
    const manta_trial_entry *entry;
};

struct swp_value {
    char             *name;
    struct mt_literal literal;
    char             *text; /* as it stands in JSON, a string without its quotes */
};

struct manta_trial {
    struct swp_slot_side *slot;
    int64_t               number;
    uint32_t              run;
    int                   attempt;
    uint64_t              seed, ready_seq;
    int64_t               began_ns;
    char                 *params;
    MT_VEC(struct swp_value) values;
    mt_view state;
    int64_t state_step;
    char    dir[MT_PATH_BYTES_MAX];
    bool    has_reported, is_final;   /* is_final: trying again would not help */
    char    other[MT_NAME_BYTES_MAX]; /* a metric that it reported instead of the sweep's */
    bool    has_failed;
    char    why[MT_ERROR_BYTES_MAX + MT_SWEEP_TAIL_BYTES];
};

/* Zeroed; its function may name it until it is freed. NULL: no memory. */
manta_trial *swp_trial_new(void);
void         swp_trial_free(manta_trial *t);
/* Its lock and conditions; all else is zero. */
void swp_slot_init(struct swp_slot_side *slot);
/* What the trial says; waits where much of it was not fetched. Takes no ownership. */
void swp_slot_say(struct swp_slot_side *slot, const struct swp_wire *m, bool is_urgent);
/* Appends all that was said; waits while there is nothing, MT_SWEEP_POLL_MS at most. ENOMEM. */
MT_MUST_USE mt_status swp_slot_fetch(struct swp_slot_side *slot, mt_buf *out);
/* What the driver tells. False: no memory, or it is cut off. */
bool swp_slot_take(struct swp_slot_side *slot, mt_view words);
/* Whether the driver wants the trial that runs to stop. */
bool swp_slot_is_stopped(struct swp_slot_side *slot);
/* Notes why the trial fails; the first reason counts. */
void swp_trial_fault(manta_trial *t, bool is_final, const char *format, ...) MT_PRINTF(3, 4);

/* command.c: runs the setup's command as this trial. */
manta_status swp_command_run(manta_trial *t);
/* When the trial's end is noted: removes what says so as well, and its folder where that is empty. */
void swp_command_tidy(manta_trial *t);

#define SWP_SLOT_TYPE "manta_sweep_slot"

#endif

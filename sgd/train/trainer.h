/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h - one worker's part of a data-parallel run: the loop body that everything above calls.
 *
 * A trainer holds a full copy of the state (parameters, the optimizer's moments, progress) and nothing of how workers come
 * and go. Of a model that works in a device's memory the floats of that state are there, and here their mirror (resident.h):
 *
 *   sgd_trainer_init
 *   for each generation of the group:
 *       sgd_group_join       with the plan of sgd_trainer_plan
 *       sgd_trainer_sync     the state of who is furthest; ENOENT: nobody has one; then rank 0 calls
 *                            sgd_trainer_resume or sgd_trainer_begin, and all sync again
 *       sgd_trainer_close    where sgd_trainer_is_open: validates at the end of an epoch
 *       sgd_train_step       until sgd_trainer_is_done, or an error: then this generation is over
 *       sgd_trainer_leave    before sgd_group_leave
 *   sgd_trainer_fini
 *
 * Which samples a step uses, how they are cut into virtual ranks, and the order in which gradients are added
 * depend on the configuration only. So the state after step k has the same bits for any number of workers,
 * and after any death.
 *
 * Thread: one per trainer, and with several devices a thread for each of the others, which work only while a call of the
 * trainer's does. Models, data set and kernels are borrowed until sgd_trainer_fini.
 */
#ifndef SGD_TRAINER_LOCAL_H
#define SGD_TRAINER_LOCAL_H

#include "sgd/save/checkpoint.h"
#include "sgd/sum/collective.h"
#include "sgd/data/feed.h"
#include "sgd/model/model.h"
#include "sgd/model/optimizer.h"
#include "sgd/sum/overlap.h"
#include "sgd/train/resident.h"
#include "sgd/data/sampler.h"
#include "sgd/ground/team.h"
#include "sgd/ground/trace.h"
#include "sgd/train/pulse.h"
#include "sgd/train/zero.h"

/* Zero means the default. The same in all workers: the group compares a fingerprint. */
struct sgd_trainer_config {
    const struct k_ops       *ops;
    struct sgd_model         *model;
    uint32_t                  devices; /* 1; virtual ranks that are computed at the same time. Changes no bit */
    struct sgd_model *const  *others;  /* their models after the first, each like `model`; the caller's */
    const struct sgd_dataset *train;
    const struct sgd_dataset *validate; /* NULL: none; then epochs are scored by their training samples */
    uint64_t                  seed;
    uint32_t                  vranks;          /* 8; the most workers that can share a step */
    uint32_t                  micro_batch;     /* 12 samples of each virtual rank per step */
    uint32_t                  epochs;          /* 1 */
    uint32_t                  validate_epochs; /* from one close to the next; 1 */
    bool                      in_order;        /* the records are not shuffled */
    bool                      other_data;      /* a checkpoint may be of another set than `train` */
    struct sgd_optimizer      optimizer;
    uint32_t                  score;     /* index of the metric that counts */
    bool                      score_max; /* more of it is better */
    uint32_t                  patience;  /* closes without a better score before the run stops; 0: it does not */
    double                    min_delta;
    uint32_t                  workers_max; /* that may train together, this one included; 0: as many as virtual ranks. With one
                             no sums between devices are made ready */
    bool                      zero;        /* each member keeps the optimizer's state of its shard only (zero.h) */
    bool                      zero_backup; /* and of another's */
};

enum { SGD_FAULT_BYTES = 256, SGD_METRICS_ALL = 17, SGD_VALUES = SGD_METRICS_ALL - 1 };

enum sgd_stop { SGD_GOES_ON, SGD_STOPPING /* after this step; not closed yet */, SGD_STOPPED };

/* What training is about, beside the weights; goes into a checkpoint as it is. */
struct sgd_progress {
    uint32_t epochs_closed;      /* that were validated, and counted for patience */
    uint32_t stop;               /* enum sgd_stop */
    uint32_t bad;                /* closes since the best one */
    uint32_t steps;              /* in `sums` */
    double   best, score;        /* of the best close, of the last; not set before the first */
    double   sums[SGD_VALUES];   /* of the metrics' means of the steps since the last close */
    float    values[SGD_VALUES]; /* metrics of the last close */
};

/* Everything that a step changes, in one block, so that one broadcast carries it. */
struct sgd_state {
    uint64_t            step;    /* completed */
    uint64_t            samples; /* consumed */
    struct sgd_progress progress;
    double              norm;     /* sharded: the gradient's length in the last step */
    uint64_t            reserved; /* so that the floats begin on a cache line */
    float               floats[]; /* params, then the optimizer's moments unless they are sharded, each in whole cache lines */
};

/* Metrics of the steps since the last close; where there are none, of that close. */
static inline void sgd_progress_values(const struct sgd_progress *p, float values[SGD_VALUES])
{
    for (int i = 0; i < SGD_VALUES; i++)
        values[i] = p->steps ? (float)(p->sums[i] / p->steps) : p->values[i];
}

/* One of those that compute virtual ranks at the same time: a thread, with its own model (activations, workspace) and records.
 * The parameters are the trainer's. */
struct sgd_device {
    struct sgd_model   *model;
    struct sgd_feed     feed;
    struct sgd_lane     lane;   /* its virtual ranks */
    uint32_t            failed; /* the lowest of them that did; UINT32_MAX: none */
    mt_status           st;     /* its error */
    uint32_t            index;
    struct sgd_overlap *overlap; /* to which it says what is ready */
};

struct sgd_trainer {
    struct sgd_trainer_config config;
    struct sgd_sampler        sampler;
    struct sgd_state         *state;
    bool                      has_state; /* false: no values yet, or torn by a broadcast that was aborted */
    float                    *params, *moments[SGD_MOMENTS_MAX];
    struct sgd_resident      *resident; /* the state on the model's device; NULL: it works in the host's memory */
    float                    *cut;      /* a gradient that was shortened; NULL where none is */
    double                   *squares;  /* of its blocks; NULL where the state is sharded, or on a device */
    uint64_t                  steps_total, epoch_steps;
    size_t                    metrics;     /* of the model, all */
    bool                      wants_stop;  /* this worker asks all to stop after the next step */
    bool                      wants_save;  /* and this to save after it */
    bool                      wants_pause; /* and to leave then, for another run of this to go on */
    bool                      wants_leave; /* and to leave then, for the next generation */
    bool                      lacks_save;  /* the last checkpoint that was asked for is not kept where it should be */
    bool                      is_save_asked, is_pause_asked; /* somebody did, in the last step */
    bool                      is_leave_asked, is_save_lacking;
    struct sgd_zero           zero;
    char                      fault[SGD_FAULT_BYTES]; /* of the last ETASK or EINVAL: what, in which step and virtual rank */
    bool                      is_culprit;             /* it came from this worker's own virtual ranks */
    bool                      gave_up;                /* its own failure has ended the generation */
    struct sgd_overlap       *overlap;                /* sums between nodes while gradients are computed; NULL: not yet */
    bool                      is_lockstep;            /* sums only when all gradients are there, also between nodes */
    uint64_t                  work_ns;                /* spent on gradients, in all */
    struct sgd_pulse         *pulse;                  /* where it shows its life, the caller's; NULL: nobody looks */
    /* Called before parameters begin to end change, and what the moments have of them: whoever copies them does so now, and says up
     * to where. Any device's, each of its own whole blocks (SGD_SHARD_BLOCK). NULL: nobody copies. */
    size_t (*settle)(void *user, size_t begin, size_t end);
    void                       *settle_user;
    struct sgd_trace_row       *trace;     /* where it is noted what goes on; NULL: nowhere */
    const struct sgd_elsewhere *elsewhere; /* what checkpoints other machines have, for sgd_trainer_resume; NULL: none */
    size_t                      state_size;
    struct sgd_device          *devices;                 /* config.devices of them */
    struct sgd_team            *team;                    /* their threads */
    uint32_t                    share_first, share_last; /* virtual ranks of this worker */
};

/* What a step or an evaluation did, over all workers. */
struct sgd_result {
    float    loss, accuracy; /* means over its samples: values[0] and values[1] */
    uint64_t samples;
    float    values[SGD_VALUES]; /* loss, accuracy, then the model's extra metrics */
};

/* EINVAL: configuration out of range or not fitting model and data; ENOMEM. */
MT_MUST_USE mt_status sgd_trainer_init(struct sgd_trainer *trainer, const struct sgd_trainer_config *config);
void                  sgd_trainer_fini(struct sgd_trainer *trainer);

/* Floats of a virtual rank's slot: gradient, metrics, whether to stop, to save, to pause, to leave; whether a save is lacking. */
enum { SGD_FLAG_STOP, SGD_FLAG_SAVE, SGD_FLAG_PAUSE, SGD_FLAG_LEAVE, SGD_FLAG_LACK, SGD_FLAGS };
static inline size_t sgd_trainer_slot(const struct sgd_model *model)
{
    return model->params.floats + SGD_METRICS + model->extra_metrics + SGD_FLAGS;
}

/* ---- signs of life, by any of its threads ---- */

static inline void sgd_trainer_beat(const struct sgd_trainer *trainer)
{
    sgd_pulse_beat(trainer->pulse);
}

/* What it begins to do. */
static inline void sgd_trainer_does(const struct sgd_trainer *trainer, enum sgd_doing what)
{
    if (trainer->pulse)
        atomic_store_explicit(&trainer->pulse->doing, (uint32_t)what, memory_order_relaxed);
}

/* Around a call of the user's. Who is in one may take its time, as long as it works. */
static inline void sgd_trainer_call(const struct sgd_trainer *trainer, enum sgd_doing what)
{
    sgd_trainer_does(trainer, what);
    if (trainer->pulse)
        atomic_fetch_add_explicit(&trainer->pulse->calls, 1, memory_order_relaxed);
}

static inline void sgd_trainer_called(const struct sgd_trainer *trainer)
{
    if (trainer->pulse)
        atomic_fetch_sub_explicit(&trainer->pulse->calls, 1, memory_order_relaxed);
}

/* How long its devices have waited for records in all, in the mean of those that were in use last. */
uint64_t sgd_trainer_waited_ns(const struct sgd_trainer *trainer);

static inline size_t sgd_trainer_settle_some(const struct sgd_trainer *trainer, size_t begin, size_t end)
{
    return trainer->settle ? trainer->settle(trainer->settle_user, begin, end) : end;
}

static inline void sgd_trainer_settle(const struct sgd_trainer *trainer)
{
    for (size_t at = 0, end = trainer->config.model->params.floats; at < end;)
        at = sgd_trainer_settle_some(trainer, at, end);
}

/* Memory for a state, in huge pages where it is large and there are any; free() it. NULL: there is none. */
struct sgd_state *sgd_state_allocate(size_t size);

/* Points the trainer to a state (of state_size bytes) of the caller's. */
void sgd_trainer_attach(struct sgd_trainer *trainer, struct sgd_state *state);

/* Which kernels make the bits of the state; for logs and checkpoint manifests. */
const char *sgd_trainer_kernels(const struct sgd_trainer *trainer);

/* The plan with which the trainer's groups are joined. */
struct sgd_group_plan sgd_trainer_plan(const struct sgd_trainer *trainer);

/* Initial parameters from the seed; step 0. ENOMEM, where the state is sharded. */
mt_status sgd_trainer_begin(struct sgd_trainer *trainer);

/* The state of the newest valid checkpoint in `folder`. ENOENT: none; EINVAL: it belongs to another model,
 * data, data position or seed, and trainer->fault says what differs. The state is unchanged by an error; `report` says what was
 * passed over. */
MT_MUST_USE mt_status sgd_trainer_resume(struct sgd_trainer *trainer, const char *folder, struct sgd_checkpoint_report *report);

/* Saves the state; errors of sgd_checkpoint_save. */
MT_MUST_USE mt_status sgd_trainer_save(const struct sgd_trainer *trainer, const char *folder, const struct sgd_keep *keep,
                                       uint64_t generation);

/* Collective. Gives every member the state of the furthest (see sgd_group_agree), or its shard of it. ENOENT, in all: nobody
 * has one, or not all of it is left. */
MT_MUST_USE mt_status sgd_trainer_sync(struct sgd_trainer *trainer, struct sgd_group *group);

/* The generation is over for this member; also after an error. */
void sgd_trainer_leave(struct sgd_trainer *trainer);

/* Collective: the gradient of this member's virtual ranks, the sum over all, the update. ETASK, in all and
 * before the update: loss or gradient is not finite, or the gradient is too long; trainer->fault says more. After any error
 * the state is that of the last completed step; or, of a device that has failed (EDEVICE), there is none any more. */
MT_MUST_USE mt_status sgd_train_step(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result);

/* The parts of sgd_train_step, for callers with a reduction of their own: the gradients of virtual ranks
 * first <= v < last, all that are this worker's, into slots[v - first] (plan.slot_floats each), and the update by a sum over all
 * of them. */
MT_MUST_USE mt_status sgd_train_compute(struct sgd_trainer *trainer, uint32_t first, uint32_t last, float *const *slots);
MT_MUST_USE mt_status sgd_train_apply(struct sgd_trainer *trainer, const float *sum, struct sgd_result *out_result);

/* Loss and accuracy of the present parameters over a data set. */
MT_MUST_USE mt_status sgd_trainer_evaluate(struct sgd_trainer *trainer, const struct sgd_dataset *set,
                                           struct sgd_result *out_result);

/* All steps are done, or it was stopped. */
bool sgd_trainer_is_done(const struct sgd_trainer *trainer);

/* An epoch has ended, or the run, and sgd_trainer_close was not called for it yet. */
bool sgd_trainer_is_open(const struct sgd_trainer *trainer);

/* Of two states of one run, the further has the larger number; a close counts as half a step. */
uint64_t sgd_trainer_how_far(const struct sgd_trainer *trainer);

/* Collective. Validates with the members' shares of the data, notes the score, and decides whether to stop. Must follow as
 * soon as sgd_trainer_is_open says so; the vote of sgd_trainer_sync counts it as a half step. */
MT_MUST_USE mt_status sgd_trainer_close(struct sgd_trainer *trainer, struct sgd_group *group, struct sgd_result *out_result);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.c - the actor that trains: loads data and model once, then serves one generation after another.
 *
 * Owns:   its mapping of the region, its view of lent data, an operator for each device, the trainer and the saver.
 * Thread: one of its own, to which the actor's bring what is to be done: an operator belongs to the thread that opened it, and
 *         the actor's may be any. Connections for the next generation are made on one of these beside it; the saver has its
 *         own, and the trainer one for each device after the first.
 */
#include "core/base/clock.h"
#include "sgd/watch/board.h"
#include "sgd/ground/checksum.h"
#include "sgd/ground/own.h"
#include "sgd/model/device.h"
#include "sgd/operator/operator.h"
#include "sgd/operator/files.h"
#include "sgd/apart/apart.h"
#include "sgd/run/run.h"
#include "sgd/sum/ahead.h"
#include "sgd/train/saver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The data that the driver unpacked, in the object store, held as long as the worker lives. */
struct lent_data {
    manta_ref *ref;
    manta_view view;
};

struct worker {
    struct sgd_run        run;
    char                 *config;
    struct lent_data      lent;
    struct sgd_moved      moved;
    manta_region          region;
    struct sgd_board     *board;
    struct coll_door      door; /* where workers may be on several nodes */
    struct sgd_own        own;  /* the thread */
    struct sgd_ahead      ahead;
    bool                  has_ahead;
    const struct k_ops   *ops;
    manta_sgd           **ops_of;     /* of each device */
    manta_sgd            *op;         /* device 0's */
    struct sgd_model    **models;     /* of the devices after it, as the trainer has them */
    struct sgd_model     *lent_model; /* device 0's, on a GPU, for a state that is kept in the host's memory; NULL: it is not */
    struct sgd_trainer    trainer;
    struct sgd_saver      saver; /* without a folder: not begun */
    struct sgd_ready      ready;
    struct sgd_trace_row *trace;       /* NULL: none */
    uint64_t              saved_step;  /* of the newest checkpoint that this worker wrote or loaded */
    int64_t               saved_ns;    /* when that was, or the training began */
    int64_t               reported_ns; /* when the last report of progress was, and how long records had been waited for */
    uint64_t              reported_wait_ns;
    bool                  is_save_due;      /* one was, and the last still ran */
    bool                  is_keeper;        /* this worker saved in the last generation */
    bool                  has_missed;       /* it could not begin to save when it was to */
    uint64_t              offered_step;     /* of a state in shards: whose part this worker writes, or wrote last */
    double                sums[SGD_VALUES]; /* of the metrics since the last line of progress */
    uint32_t              steps;
    char                  text[SGD_OPERATOR_TEXT]; /* why the operator could not be opened */
};

/* One call of `train`. */
struct task {
    struct worker     *w;
    struct sgd_group   group;
    struct sgd_order   order;
    uint32_t           generation, rank;
    struct sgd_pulse  *pulse;
    bool               loads, saves; /* checkpoints; of a state in shards rank 0 does, and the others their parts */
    struct sgd_outcome out;
};

/* ---- loading ---- */

static manta_status fail(manta_ctx *c, mt_status st)
{
    char text[SGD_TEXT_BYTES];
    return manta_fail(c, st.code, "%s", sgd_status_text(st, text));
}

static mt_status lent_take(struct worker *w, manta_ref *ref, manta_error *e)
{
    w->lent.ref = manta_dup(ref);
    return manta_get(w->lent.ref, MT_TRAIN_DATA_MS, &w->lent.view, e) ? mt_error(e->code, 0, e->message) : mt_ok();
}

static mt_status config_take(struct worker *w, const manta_arg *bytes)
{
    w->config = calloc(1, bytes->y.size + 1);
    if (!w->config)
        return mt_error(MT_ENOMEM, 0, "worker");
    memcpy(w->config, bytes->y.data, bytes->y.size);
    return mt_ok();
}

/* An instance for each device. */
static mt_status operators_open(struct worker *w, const char *name)
{
    const struct sgd_run    *run = &w->run;
    struct sgd_operator_opts opts = {.name = name,
                                     .config = w->config,
                                     .seed = run->seed,
                                     .micro_batch = run->micro_batch,
                                     .lent = w->lent.view.data,
                                     .lent_size = w->lent.view.size,
                                     .moved = &w->moved,
                                     .devices = run->devices};
    mt_status                st = sgd_operators_open(&opts, w->text, &w->ops_of, &w->models);
    w->op = w->ops_of ? w->ops_of[0] : NULL;
    return st.code && w->text[0] ? mt_error(st.code, 0, w->text) : st;
}

/* A state in shards is kept in the host's memory, whatever the model works in. */
static mt_status model_find(struct worker *w, struct sgd_model **out_model)
{
    *out_model = &w->op->model;
    if (!w->run.zero || !w->op->model.device)
        return mt_ok();
    MT_TRY(sgd_device_new(&w->op->model, &w->lent_model));
    *out_model = w->lent_model;
    return mt_ok();
}

static mt_status operator_load(struct worker *w, const char *name)
{
    const struct sgd_run *run = &w->run;
    struct sgd_model     *model;
    MT_TRY(operators_open(w, name));
    MT_TRY(model_find(w, &model));
    const struct sgd_source  *train = &w->op->sources[0], *validate = &w->op->sources[1];
    struct sgd_trainer_config config = {.ops = w->ops,
                                        .model = model,
                                        .devices = run->devices,
                                        .others = w->models,
                                        .train = &train->set,
                                        .validate = validate->is_there ? &validate->set : NULL,
                                        .seed = run->seed,
                                        .vranks = run->vranks,
                                        .micro_batch = run->micro_batch,
                                        .epochs = run->epochs,
                                        .validate_epochs = run->validate_epochs,
                                        .in_order = train->in_order,
                                        .other_data = run->other_data,
                                        .optimizer = run->optimizer,
                                        .score = run->score,
                                        .score_max = run->score_max,
                                        .patience = run->patience,
                                        .min_delta = run->min_delta,
                                        .workers_max = run->workers_max,
                                        .zero = run->zero,
                                        .zero_backup = run->zero_backup};
    MT_TRY(sgd_trainer_init(&w->trainer, &config));
    w->op->step = &w->trainer.state->step;
    for (uint32_t d = 1; d < run->devices; d++)
        w->ops_of[d]->step = w->op->step;
    w->trainer.trace = w->trace;
    if (!w->op->model.device)
        snprintf(w->ready.cpu, sizeof w->ready.cpu, "%s %s", w->ops->name, k_blas_core());
    return run->folder[0] ? sgd_saver_init(&w->saver, &w->trainer, run->folder, &run->keep) : mt_ok();
}

/* Other nodes' workers come through it: on loopback in clear, at its node's address with TLS. In between it answers nobody. */
static mt_status door_open(struct worker *w, const char *host)
{
    w->door.listener = -1;
    if (!w->run.is_wide)
        return mt_ok();
    MT_TRY(coll_at_read(host, &w->ready.at));
    return coll_door_open(&w->door, &w->ready.at);
}

/* Before it waits for anything: the driver sees who is there, and that it fetches. */
static mt_status board_open(struct worker *w, uint64_t region, uint32_t hand, manta_error *e)
{
    if (manta_region_open(0, region, &w->region, e) != MANTA_OK)
        return mt_error(e->code, 0, e->message);
    w->board = sgd_board_of(w->region.data);
    sgd_board_start(w->board, hand, (int32_t)getpid(), true);
    mt_tail_attach(sgd_board_tail(w->board, hand));
    return mt_ok();
}

static mt_status load(struct worker *w, const manta_arg *argv, manta_error *e)
{
    uint32_t hand = (uint32_t)argv[5].u;
    if (argv[0].y.size != sizeof w->run || argv[5].u >= SGD_HANDS_MAX)
        return mt_error(MT_EVERSION, 0, "worker: the run's description is of another build");
    memcpy(&w->run, argv[0].y.data, sizeof w->run);
    MT_TRY(k_ops_choose(&(struct k_config){.kind = K_CPU}, &w->ops));
    MT_TRY(sgd_ahead_init(&w->ahead));
    w->has_ahead = true;
    MT_TRY(door_open(w, argv[6].y.data));
    MT_TRY(config_take(w, &argv[2]));
    MT_TRY(board_open(w, argv[4].u, hand, e));
    MT_TRY(lent_take(w, argv[3].r, e));
    if (w->run.has_files)
        MT_TRY(sgd_files_take(w->run.group, &w->moved, w->text));
    sgd_board_start(w->board, hand, (int32_t)getpid(), false);
    w->trace = sgd_trace_row_of(w->region.data, w->region.size, w->run.trace, hand);
    sgd_trace_attach(w->trace, w->run.trace.tracks, (int32_t)getpid());
    return operator_load(w, argv[1].y.data);
}

static void unload(void *self)
{
    struct worker *w = self;
    sgd_saver_fini(&w->saver);
    if (w->has_ahead)
        sgd_ahead_fini(&w->ahead);
    if (w->ready.at.port)
        coll_door_close(&w->door);
    sgd_trainer_fini(&w->trainer);
    if (w->lent_model)
        w->lent_model->ops->free(w->lent_model);
    sgd_operators_close(w->ops_of, w->models, w->run.devices);
    manta_region_close(&w->region);
    manta_release(&w->lent.view);
    manta_free(w->lent.ref);
    free(w->config);
}

static void worker_free(void *self)
{
    struct worker *w = self;
    if (w->own.is_begun)
        sgd_own_call(&w->own, unload, w);
    sgd_own_end(&w->own);
    free(w);
}

struct loading {
    struct worker   *w;
    const manta_arg *argv;
    manta_error      e;
    mt_status        st;
};

static void load_call(void *user)
{
    struct loading *l = user;
    l->st = load(l->w, l->argv, &l->e);
}

static manta_status worker_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct worker *w = calloc(1, sizeof *w);
    struct loading l = {.w = w, .argv = argv};
    (void)argc;
    if (!w)
        return fail(c, mt_error(MT_ENOMEM, 0, "worker"));
    w->ready = (struct sgd_ready){.pid = (int32_t)getpid(), .began_ns = mt_now_ns()};
    l.st = sgd_own_start(&w->own);
    if (l.st.code == 0)
        sgd_own_call(&w->own, load_call, &l);
    if (l.st.code != 0) {
        (void)fail(c, l.st);
        worker_free(w);
        return MANTA_ETASK;
    }
    w->ready.loaded_ns = mt_now_ns();
    *self = w;
    return MANTA_OK;
}

static manta_status worker_ready(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct worker *w = self;
    (void)argc, (void)argv;
    return manta_return_bytes(c, &w->ready, sizeof w->ready);
}

/* ---- notes ---- */

static void post(struct task *t, struct sgd_note *note)
{
    note->generation = t->generation;
    note->step = note->step ? note->step : t->w->trainer.state->step;
    sgd_board_post(t->w->board, note);
}

static void post_skipped(struct task *t, const struct sgd_checkpoint_report *report)
{
    for (uint32_t i = 0; i < report->skipped_count && i < MT_CHECKPOINTS_NAMED_MAX; i++) {
        struct sgd_note note = {.kind = SGD_NOTE_SKIPPED};
        const char     *tensor = report->skipped[i].tensor;
        char            why[SGD_TEXT_BYTES];
        snprintf(note.skipped.which, sizeof note.skipped.which, "%s: %.70s%s%.90s", report->skipped[i].name,
                 sgd_status_text(report->skipped[i].why, why), tensor[0] ? ", in " : "", tensor);
        post(t, &note);
    }
    struct sgd_note silent = {.kind = SGD_NOTE_SKIPPED};
    snprintf(silent.skipped.which, sizeof silent.skipped.which, "those of other machines: %s", report->silent);
    if (report->silent[0])
        post(t, &silent);
}

/* ---- the state ---- */

/* To begin anew would give up what somebody may still be able to mend, or has a copy of. */
static mt_status all_damaged(struct task *t, const struct sgd_checkpoint_report *report)
{
    struct sgd_trainer *trainer = &t->w->trainer;
    char                why[SGD_TEXT_BYTES];
    snprintf(trainer->fault, sizeof trainer->fault,
             "none of %u checkpoints is whole, the newest is %s: %.60s%s%.50s; checkpoint.restart_damaged: true begins anew",
             report->skipped_count, report->skipped[0].name, sgd_status_text(report->skipped[0].why, why),
             report->skipped[0].tensor[0] ? ", " : "", report->skipped[0].tensor);
    trainer->is_culprit = true;
    return mt_error(MT_ECORRUPT, 0, "no checkpoint is whole");
}

/* Who keeps checkpoints. Who comes to that anew saves at once; so is a sharded state saved, wherever its machines have changed. */
static mt_status keepers_choose(struct task *t)
{
    struct worker              *w = t->w;
    struct sgd_checkpoint_apart was = w->trainer.zero.apart;
    struct sgd_keepers          keepers = {.loads = t->rank == 0, .saves = t->rank == 0};
    if (w->run.folder[0] && t->group.is_wide)
        MT_TRY(sgd_keepers_agree(&t->group, w->run.folder, w->run.zero, manta_node(), &keepers));
    t->loads = keepers.loads;
    t->saves = keepers.saves;
    keepers.apart.bring = sgd_apart_bring;
    keepers.apart.user = w->run.folder;
    w->trainer.zero.apart = keepers.apart;
    bool is_moved = sgd_checkpoint_is_apart(&was) || sgd_checkpoint_is_apart(&keepers.apart);
    bool is_new = w->run.zero ? t->rank == 0 && is_moved : t->group.is_wide && t->saves && !w->is_keeper;
    w->is_save_due = w->is_save_due || (is_new && t->generation > 1);
    w->is_keeper = t->saves;
    return mt_ok();
}

enum { FOUND_NOTHING, FOUND_STATE, FOUND_DAMAGED };

/* Another machine's checkpoints are of no use for this run: that is told, and is no reason not to begin. */
static void post_unfit(struct task *t, mt_status why)
{
    struct sgd_note note = {.kind = SGD_NOTE_SKIPPED};
    char            text[SGD_TEXT_BYTES], *fault = t->w->trainer.fault;
    snprintf(note.skipped.which, sizeof note.skipped.which, "those of node %u: %.180s", manta_node(),
             fault[0] ? fault : sgd_status_text(why, text));
    fault[0] = 0;
    post(t, &note);
}

/* The newest valid checkpoint of this member's folder. */
static mt_status state_load(struct task *t, struct sgd_checkpoint_report *report, uint64_t *out_found)
{
    struct worker *w = t->w;
    *out_found = FOUND_NOTHING;
    if (!w->run.folder[0] || !t->loads)
        return mt_ok();
    sgd_trainer_does(&w->trainer, SGD_DOES_LOAD);
    mt_status st = sgd_apart_resume(&w->trainer, w->run.folder, w->run.zero && w->run.is_wide, report);
    post_skipped(t, report);
    if (st.code == MT_OK)
        w->saved_step = w->trainer.state->step;
    else if (st.code != MT_ENOENT && t->rank == 0)
        return st;
    else if (st.code != MT_ENOENT)
        post_unfit(t, st);
    if (st.code == MT_OK)
        *out_found = FOUND_STATE;
    else if (st.code == MT_ENOENT && report->skipped_count && !w->run.restart_damaged)
        *out_found = FOUND_DAMAGED;
    return mt_ok();
}

static void post_begun(struct task *t, bool is_found)
{
    struct worker  *w = t->w;
    struct sgd_note note = {.kind = SGD_NOTE_BEGUN};
    const char     *why = sgd_resident_why_by_slots(w->trainer.resident);
    if (!is_found)
        snprintf(note.begun.how, sizeof note.begun.how, "begun from seed %llu", (unsigned long long)w->run.seed);
    else
        snprintf(note.begun.how, sizeof note.begun.how, "resumed from a checkpoint%s",
                 w->saved_step == w->trainer.state->step ? "" : " of another machine");
    size_t used = strlen(note.begun.how);
    if (why)
        snprintf(note.begun.how + used, sizeof note.begun.how - used, "; gradients of several GPUs go through the host: %.120s",
                 why);
    post(t, &note);
}

/* When no member has a state: the newest valid checkpoint of all folders, else the beginning. */
static mt_status state_make(struct task *t)
{
    struct sgd_checkpoint_report report = {0};
    uint64_t                     found[MT_GROUP_MEMBERS_MAX], mine;
    bool                         is_found = false, is_damaged = false;
    t->w->saved_step = UINT64_MAX;
    MT_TRY(state_load(t, &report, &mine));
    MT_TRY(sgd_group_exchange(&t->group, mine, found));
    for (uint32_t r = 0; r < t->order.members; r++) {
        is_found = is_found || found[r] == FOUND_STATE;
        is_damaged = is_damaged || found[r] == FOUND_DAMAGED;
    }
    if (!is_found && mine == FOUND_DAMAGED)
        return all_damaged(t, &report);
    if (!is_found && !is_damaged && t->rank == 0)
        MT_TRY(sgd_trainer_begin(&t->w->trainer));
    MT_TRY(sgd_trainer_sync(&t->w->trainer, &t->group)); /* whose checkpoints are damaged ends the generation meanwhile */
    if (t->rank == 0)
        post_begun(t, is_found);
    return mt_ok();
}

static mt_status state_get(struct task *t)
{
    mt_status st = sgd_trainer_sync(&t->w->trainer, &t->group);
    return st.code == MT_ENOENT ? state_make(t) : st;
}

/* ---- steps ---- */

/* Of a checkpoint, whoever wrote parts of it, rank 0 tells what came of it; of its double on another machine, whoever keeps that
 * tells what failed. */
static void saved_note(struct task *t, uint64_t step, mt_status result)
{
    struct sgd_note note = {.kind = result.code ? SGD_NOTE_SAVE_FAILED : SGD_NOTE_SAVED, .step = step};
    char            text[SGD_TEXT_BYTES], where[48] = "";
    if (!t->saves)
        return;
    if (t->rank != 0)
        snprintf(where, sizeof where, "on node %u: ", manta_node());
    if (result.code) {
        snprintf(note.save_failed.why, sizeof note.save_failed.why, "%s%.160s", where, sgd_status_text(result, text));
    } else {
        note.saved.generation = step == t->w->offered_step ? t->generation : 0;
        t->w->saved_step = step;
    }
    if (result.code || t->rank == 0)
        post(t, &note);
}

static uint64_t save_generation(const struct task *t)
{
    return t->w->run.number << 32 | t->generation;
}

static bool is_time_to_save(const struct worker *w)
{
    return w->run.every_s > 0 && (double)(mt_now_ns() - w->saved_ns) >= w->run.every_s * 1e9;
}

/* Waits for the saver, and shows meanwhile that this process lives. False: there was nothing to wait for. */
static bool saver_wait(struct task *t, mt_status *out_result)
{
    struct sgd_saver *saver = &t->w->saver;
    sgd_trainer_does(&t->w->trainer, SGD_DOES_SAVE);
    uint64_t step;
    for (int64_t limit = mt_now_ns() + MT_TRAIN_SILENT_MS * 1000000ll; sgd_saver_is_busy(saver) && mt_now_ns() < limit;) {
        sgd_pulse_beat(t->pulse);
        if (coll_shm_why((char *)t->w->region.data + SGD_BOARD_SIZE).generation >= t->generation)
            sgd_saver_give_up(saver); /* of a state in shards: some part will not come */
        mt_sleep_ms(1);
    }
    if (!sgd_saver_take(saver, true, &step, out_result))
        return false;
    saved_note(t, step, *out_result);
    return true;
}

/* Of a state in shards each member writes its part, so all of them save at the same steps: those of the options, and those that
 * rank 0 has asked for. Who is not done with the last one waits, or the parts would not be of one step. */
static void shard_save_maybe(struct task *t, bool best)
{
    struct worker *w = t->w;
    uint64_t       step = w->trainer.state->step, saved;
    mt_status      result;

    if (sgd_saver_take(&w->saver, false, &saved, &result))
        saved_note(t, saved, result);
    w->trainer.wants_save = t->rank == 0 && (w->is_save_due || is_time_to_save(w));
    if (!best && !w->trainer.is_save_asked && !(w->run.every_steps && step % w->run.every_steps == 0))
        return;
    w->trainer.is_save_asked = w->trainer.wants_save = w->is_save_due = false;
    w->saved_ns = mt_now_ns();
    if (w->offered_step != UINT64_MAX && !w->trainer.is_save_lacking)
        w->trainer.zero.apart.settled = w->offered_step;
    (void)saver_wait(t, &result);
    if (sgd_saver_offer(&w->saver, save_generation(t)))
        w->offered_step = step;
    w->has_missed = w->offered_step != step;
}

/* Offers the state to the saver where that is due. Waits for a save that runs where this very step was asked for: by its number,
 * or with `best` by its score. One that is due by the clock comes when there is room. */
static void checkpoint_maybe(struct task *t, bool best)
{
    struct worker        *w = t->w;
    const struct sgd_run *run = &w->run;
    uint64_t              step = w->trainer.state->step, saved;
    bool                  is_asked = best || (run->every_steps && step % run->every_steps == 0);
    mt_status             result;

    if (is_asked)
        (void)saver_wait(t, &result);
    else if (sgd_saver_take(&w->saver, false, &saved, &result))
        saved_note(t, saved, result);
    if (!is_asked && !w->is_save_due && !is_time_to_save(w))
        return;
    sgd_trace_open(w->trace, SGD_TRACK_MAIN, SGD_SPAN_SAVE_COPY, step);
    w->is_save_due = sgd_saver_is_busy(&w->saver) || !sgd_saver_offer(&w->saver, save_generation(t));
    sgd_trace_close(w->trace, SGD_TRACK_MAIN);
    w->saved_ns = w->is_save_due ? w->saved_ns : mt_now_ns();
}

static void save_maybe(struct task *t, bool best)
{
    const struct worker *w = t->w;
    if (w->run.folder[0] && w->run.zero)
        shard_save_maybe(t, best);
    else if (w->run.folder[0] && t->saves)
        checkpoint_maybe(t, best);
}

/* Of the time since the last report, or since the training began here. */
static float wait_share(struct worker *w)
{
    int64_t  now = mt_now_ns(), spent = now - w->reported_ns;
    uint64_t all = sgd_trainer_waited_ns(&w->trainer), waited = all > w->reported_wait_ns ? all - w->reported_wait_ns : 0;
    w->reported_ns = now;
    w->reported_wait_ns = all;
    return spent > 0 ? (float)((double)waited / (double)spent) : 0;
}

static void progress(struct task *t, const struct sgd_result *result)
{
    struct worker *w = t->w;
    for (int i = 0; i < SGD_VALUES; i++)
        w->sums[i] += (double)result->values[i];
    w->steps++;
    if (w->trainer.state->step % w->run.log_steps == 0) {
        struct sgd_note note = {.kind = SGD_NOTE_PROGRESS, .progress.data_wait = wait_share(w)};
        for (int i = 0; i < SGD_VALUES; i++)
            note.progress.values[i] = (float)(w->sums[i] / w->steps);
        post(t, &note);
        memset(w->sums, 0, sizeof w->sums);
        w->steps = 0;
    }
}

/* An epoch has ended: all validate, and rank 0 tells it. What is to be saved of its last step is saved now: who goes on from there
 * need not validate it again. */
static mt_status epoch_close(struct task *t)
{
    struct worker    *w = t->w;
    struct sgd_note   note = {.kind = SGD_NOTE_CLOSED};
    struct sgd_result result;
    sgd_trace_open(w->trace, SGD_TRACK_MAIN, SGD_SPAN_VALIDATE, 0);
    MT_TRY(sgd_trainer_close(&w->trainer, &t->group, &result));
    sgd_trace_close(w->trace, SGD_TRACK_MAIN);
    memcpy(note.closed.values, result.values, sizeof note.closed.values);
    if (t->rank == 0)
        post(t, &note);
    save_maybe(t, w->run.keep.best > 0);
    return mt_ok();
}

static void step_show(struct task *t, int64_t *mark)
{
    int64_t now = mt_now_ns();
    atomic_store_explicit(&t->pulse->step_ns, (uint64_t)(now - *mark), memory_order_relaxed);
    atomic_store_explicit(&t->pulse->work_ns, t->w->trainer.work_ns, memory_order_relaxed);
    atomic_store_explicit(&t->pulse->steps, t->w->trainer.state->step, memory_order_release);
    *mark = now;
}

/* The generation is over after this step, and the run is not. */
static bool is_leaving(const struct worker *w)
{
    return w->trainer.is_leave_asked && !w->trainer.is_pause_asked && w->trainer.state->step < w->trainer.steps_total;
}

static mt_status steps(struct task *t)
{
    int64_t         mark = mt_now_ns();
    struct worker  *w = t->w;
    struct sgd_note going = {.kind = SGD_NOTE_GOING, .going = {mt_now_ns(), sgd_checkpoint_is_apart(&w->trainer.zero.apart)}};
    bool            is_first = true;

    w->saved_ns = w->saved_ns ? w->saved_ns : mt_now_ns();
    (void)wait_share(w);
    if (atomic_load(&t->pulse->steps) > w->trainer.state->step) /* steps were lost */
        atomic_store(&t->pulse->steps, w->trainer.state->step);
    if (t->saves && w->run.folder[0])
        sgd_saver_start(&w->saver);
    for (;;) {
        struct sgd_result result;
        if (sgd_trainer_is_open(&w->trainer))
            MT_TRY(epoch_close(t));
        if (sgd_trainer_is_done(&w->trainer))
            break;
        enum sgd_board_stop stop = t->rank == 0 ? sgd_board_stopped(w->board) : SGD_BOARD_GOES_ON;
        w->trainer.wants_stop = stop == SGD_BOARD_STOPS;
        w->trainer.wants_pause = stop == SGD_BOARD_PAUSES;
        w->trainer.wants_leave = t->rank == 0 && sgd_board_leaves(w->board) == t->generation;
        w->trainer.lacks_save = t->saves && (w->has_missed || w->saved_step != w->offered_step);
        sgd_trace_open(w->trace, SGD_TRACK_MAIN, SGD_SPAN_STEP, w->trainer.state->step + 1);
        MT_TRY(sgd_train_step(&w->trainer, &t->group, &result));
        sgd_trace_close(w->trace, SGD_TRACK_MAIN);
        step_show(t, &mark);
        if (is_first && t->rank == 0)
            post(t, &going);
        is_first = false;
        if (t->rank == 0)
            progress(t, &result);
        if (!sgd_trainer_is_open(&w->trainer))
            save_maybe(t, false);
        if ((w->trainer.is_pause_asked && w->trainer.state->step < w->trainer.steps_total) || is_leaving(w))
            break;
    }
    if (is_first && t->rank == 0)
        post(t, &going);
    return mt_ok();
}

/* ---- the end ---- */

static mt_status last_save(struct task *t)
{
    struct worker *w = t->w;
    mt_status      result;
    if (!w->run.folder[0])
        return mt_ok();
    result = mt_ok();
    sgd_saver_start(&w->saver);
    bool was_offered = saver_wait(t, &result);
    if (w->run.zero && was_offered && w->offered_step == w->trainer.state->step)
        return result; /* all members know that its parts are of the last step */
    if (!w->run.zero && w->saved_step == w->trainer.state->step)
        return mt_ok();
    if (sgd_saver_offer(&w->saver, save_generation(t)) && saver_wait(t, &result))
        return result;
    result = sgd_trainer_save(&w->trainer, w->run.folder, &w->run.keep, save_generation(t)); /* without a thread */
    saved_note(t, w->trainer.state->step, result);
    return result;
}

static mt_status finish(struct task *t, struct sgd_outcome *out)
{
    const struct sgd_trainer  *trainer = &t->w->trainer;
    const struct sgd_progress *progress = &trainer->state->progress;
    float                      values[SGD_VALUES];
    mt_status                  saved = t->saves || t->w->run.zero ? last_save(t) : mt_ok();

    out->optimizer_bytes = sgd_zero_bytes(trainer);
    if (t->rank != 0)
        return mt_ok();
    if (saved.code == MT_ECANCELLED)
        return mt_error(MT_EWORKER_DIED, 0, "a worker died before its part of the last checkpoint was written");
    MT_TRY(sgd_resident_pull(trainer));
    out->is_finisher = 1;
    out->stopped = trainer->state->step >= trainer->steps_total ? 0 : trainer->is_pause_asked ? MANTA_SGD_PAUSED : 1;
    memcpy(values, progress->values, sizeof values); /* of the last epoch that was closed */
    if (progress->epochs_closed == 0)
        sgd_progress_values(progress, values);
    out->loss = values[0];
    out->accuracy = values[1];
    out->weights = sgd_checksum(trainer->params, t->w->op->model.params.floats * sizeof(float));
    out->save_code = saved.code;
    if (saved.code)
        (void)sgd_status_text(saved, out->text);
    return mt_ok();
}

/* ---- a generation ---- */

static struct sgd_group_config group_config(struct worker *w, const struct sgd_order *order)
{
    struct sgd_group_config config = {.region = (char *)w->region.data + SGD_BOARD_SIZE,
                                      .region_size = w->region.size - SGD_BOARD_SIZE - sgd_trace_size(w->run.trace),
                                      .plan = sgd_trainer_plan(&w->trainer),
                                      .generation = order->generation,
                                      .rank = order->rank,
                                      .members = order->members,
                                      .net = order->is_wide ? &order->net : NULL,
                                      .door = &w->door};
    config.plan.is_wide = w->run.is_wide;
    return config;
}

static mt_status generation_run(struct task *t, struct sgd_outcome *out)
{
    struct worker          *w = t->w;
    struct sgd_group_config config = group_config(w, &t->order);
    struct sgd_group_made   made;
    config.made = sgd_ahead_take(&w->ahead, t->generation, &made) ? &made : NULL;
    w->has_missed = false;
    w->offered_step = UINT64_MAX; /* what was offered in another generation is of no use to the others of this one */
    sgd_trainer_does(&w->trainer, SGD_DOES_JOIN);
    MT_TRY(sgd_group_join(&t->group, &config));
    sgd_trainer_does(&w->trainer, SGD_DOES_STATE);
    sgd_trace_open(w->trace, SGD_TRACK_MAIN, SGD_SPAN_STATE, 0);
    MT_TRY(keepers_choose(t));
    MT_TRY(state_get(t));
    sgd_trace_close(w->trace, SGD_TRACK_MAIN);
    MT_TRY(steps(t));
    if (!is_leaving(w))
        return finish(t, out);
    if (w->run.zero)
        MT_TRY(sgd_zero_hand_over(&w->trainer, &t->group, sgd_board_leavers(w->board)));
    sgd_saver_give_up(&w->saver); /* of a state in shards: who has another part may be about to end */
    out->has_left = 1;
    return mt_ok();
}

/* It has this rank from now on. */
static mt_status rank_take(struct task *t)
{
    struct worker *w = t->w;
    t->generation = t->order.generation;
    t->rank = t->order.rank < MT_GROUP_MEMBERS_MAX ? t->order.rank : 0;
    t->pulse = sgd_board_pulse(w->board, t->rank);
    w->trainer.pulse = t->pulse;
    w->trainer.fault[0] = 0;
    w->trainer.is_culprit = w->trainer.gave_up = false;
    w->trainer.is_pause_asked = w->trainer.is_leave_asked = false;
    MT_TRY(sgd_board_out_await(w->board, t->order.after, t->order.after_first, t->order.after_last, t->generation, t->pulse));
    atomic_store(&t->pulse->calls, 0); /* what the last one of this rank left */
    sgd_trace_rank(w->trace, t->rank);
    return mt_ok();
}

/* One call of `train`, on the thread that the operator belongs to. */
static void train_call(void *user)
{
    struct task       *t = user;
    struct sgd_outcome out = {0};
    char               text[SGD_TEXT_BYTES];
    mt_status          st = rank_take(t);
    if (st.code == MT_OK)
        st = generation_run(t, &out);
    sgd_trace_unwind(t->w->trace, SGD_TRACK_MAIN);
    if (st.code != 0) {
        void *group = (char *)t->w->region.data + SGD_BOARD_SIZE;
        st = sgd_resident_failed(t->w->trainer.resident, group, t->generation, t->rank, st);
        sgd_saver_give_up(&t->w->saver);
        bool has_fault = t->w->trainer.fault[0] != 0;
        bool was_first = t->w->trainer.gave_up || coll_shm_why(group).generation < t->generation;
        out.is_culprit = has_fault ? t->w->trainer.is_culprit : was_first;
        /* Where the reason is this worker's own, the others must not wait for it. */
        sgd_group_abort(group, t->generation, (enum mt_code)st.code, t->rank);
        out.code = st.code;
        out.sys = st.sys;
        snprintf(out.text, sizeof out.text, "%s", has_fault ? t->w->trainer.fault : sgd_status_text(st, text));
    }
    sgd_trainer_leave(&t->w->trainer);
    if (st.code != 0) /* leaving may have shown it */
        (void)sgd_resident_failed(t->w->trainer.resident, (char *)t->w->region.data + SGD_BOARD_SIZE, t->generation, t->rank, st);
    sgd_group_leave(&t->group);
    out.step = t->w->trainer.has_state ? t->w->trainer.state->step : 0;
    if (st.code == MT_OK && out.has_left)
        atomic_store(&t->pulse->out, t->generation);
    t->out = out;
}

static manta_status worker_train(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct task t = {.w = self};
    (void)argc;
    if (argv[0].y.size != sizeof t.order)
        return manta_fail(c, MANTA_EPROTO, "worker: orders of another build");
    memcpy(&t.order, argv[0].y.data, sizeof t.order);
    sgd_own_call(&t.w->own, train_call, &t);
    return manta_return_bytes(c, &t.out, sizeof t.out);
}

/* On a thread of its own, beside a generation that computes. */
static manta_status worker_connect(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct worker   *w = self;
    struct sgd_order order;
    (void)argc;
    if (argv[0].y.size != sizeof order)
        return manta_fail(c, MANTA_EPROTO, "worker: orders of another build");
    memcpy(&order, argv[0].y.data, sizeof order);
    struct sgd_group_config config = group_config(w, &order);
    config.wait_limit_ms = MT_TRAIN_CONNECT_MS;
    int64_t code = sgd_ahead_make(&w->ahead, &config, order.after).code;
    return manta_return_bytes(c, &code, sizeof code);
}

MANTA_ACTOR_TYPE(manta_sgd_worker, .signature = "ysyruus", .create = worker_new, .destroy = worker_free,
                 .methods = {{"ready", ">y", worker_ready},
                             {"train", "y>y", worker_train},
                             {"connect", "y>y@ahead", worker_connect}},
                 .groups = {{"ahead", 1}});

/* What a BLAS library reads when it is loaded, which is before this: it counts for the processes that the driver has
 * started. A zygote with threads could not fork, and a worker with more than one computes other bits. */
MANTA_REGISTER_BEFORE_MAIN(blas_threads)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

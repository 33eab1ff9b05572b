/* SPDX-License-Identifier: Apache-2.0
 *
 * resident.c - the state on the device and its mirror, sums of gradients there, and the update.
 *
 * Owns: the device's buffers; the exchange with other workers' devices. The mirror is the trainer's.
 */
#include "sgd/train/resident.h"

#include "sgd/ground/text.h"
#include "sgd/sum/device_sum.h"
#include "sgd/sum/device_tree.h"
#include "sgd/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct sgd_resident {
    const struct k_ops *ops;
    float              *floats; /* as state->floats: parameters, then each moment */
    void               *mirror; /* the trainer's state */
    enum { HOST, BOTH, DEVICE } newest;
    uint64_t               version; /* of the parameters: one more whenever they change on the device */
    struct sgd_device_tree tree;
    float                 *gradient; /* the mean over all virtual ranks, in a buffer of the tree's; NULL: not there yet */
    enum { BY_SLOTS, ALONE, BY_DEVICES } sums;
    struct sgd_device_sum *exchange;   /* with the other workers' devices; NULL: there is none */
    bool                   is_awaited; /* it is being made; sums go by slots until all members have theirs */
    uint32_t               generation; /* that was joined; 0: none */
    bool                   is_broken;
    char                   why[256]; /* there is no exchange */
};

static size_t floats_of(const struct sgd_trainer *trainer)
{
    return trainer->config.model->params.floats;
}

static size_t mirror_size(const struct sgd_trainer *trainer)
{
    return trainer->state_size - sizeof(struct sgd_state);
}

/* Without one, sums go through the host's slots. */
static mt_status exchange_open(struct sgd_resident *r, int device)
{
    mt_status st = sgd_device_sum_new(r->ops, device, &r->exchange, r->why);
    return st.code == MT_EUNSUPPORTED ? mt_ok() : st;
}

mt_status sgd_resident_new(struct sgd_trainer *trainer)
{
    const struct sgd_model *model = trainer->config.model;
    struct sgd_resident    *r = calloc(1, sizeof *r);
    if (!r)
        return mt_error(MT_ENOMEM, 0, "trainer");
    r->ops = model->device;
    r->mirror = trainer->state;
    sgd_device_tree_init(&r->tree, r->ops, floats_of(trainer));
    trainer->resident = r;                             /* whoever fails from here on gives it back with the trainer */
    (void)r->ops->pin(r->mirror, trainer->state_size); /* or checkpoints are copied more slowly */
    MT_TRY(r->ops->alloc(mirror_size(trainer), (void **)&r->floats));
    return trainer->config.workers_max != 1 ? exchange_open(r, model->device_number) : mt_ok();
}

void sgd_resident_free(struct sgd_resident *r)
{
    if (!r)
        return;
    if (r->exchange)
        sgd_device_sum_free(r->exchange);
    sgd_device_tree_fini(&r->tree);
    r->ops->unpin(r->mirror);
    if (r->floats)
        r->ops->release(r->floats);
    free(r);
}

mt_status sgd_resident_note(const struct sgd_trainer *trainer, mt_status st)
{
    if (st.code == MT_EDEVICE && trainer->resident)
        trainer->resident->is_broken = true;
    return st;
}

bool sgd_resident_is_broken(const struct sgd_resident *r)
{
    return r && (r->is_broken || sgd_device_sum_is_stuck(r->exchange));
}

/* ---- the mirror ---- */

/* Blocks until it is done. */
static mt_status copy(const struct sgd_trainer *trainer, float *to, const float *from, size_t size)
{
    const struct k_ops *ops = trainer->resident->ops;
    mt_status           st = ops->copy(NULL, to, from, size);
    return sgd_resident_note(trainer, st.code == MT_OK ? ops->wait(NULL) : st);
}

mt_status sgd_resident_pull(const struct sgd_trainer *trainer)
{
    struct sgd_resident *r = trainer->resident;
    if (!r || r->newest != DEVICE)
        return mt_ok();
    sgd_trainer_settle(trainer);
    MT_TRY(copy(trainer, trainer->state->floats, r->floats, mirror_size(trainer)));
    r->newest = BOTH;
    return mt_ok();
}

void sgd_resident_changed(struct sgd_trainer *trainer)
{
    if (trainer->resident)
        trainer->resident->newest = HOST;
}

static mt_status push(struct sgd_trainer *trainer)
{
    struct sgd_resident *r = trainer->resident;
    MT_TRY(copy(trainer, r->floats, trainer->state->floats, mirror_size(trainer)));
    r->newest = BOTH;
    r->version++;
    return mt_ok();
}

mt_status sgd_resident_params(struct sgd_trainer *trainer, const float **out_params)
{
    struct sgd_resident *r = trainer->resident;
    *out_params = trainer->params;
    if (!r)
        return mt_ok();
    if (r->newest == HOST)
        MT_TRY(push(trainer));
    trainer->config.model->version = r->version;
    *out_params = r->floats;
    return mt_ok();
}

/* ---- a generation ---- */

/* The one place where it is chosen. */
static mt_status sums_choose(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_resident *r = trainer->resident;
    r->sums = group->members == 1 ? ALONE : BY_SLOTS;
    if (group->members == 1)
        return mt_ok();
    if (r->exchange)
        sgd_device_sum_beats(r->exchange, sgd_pulse_beat, trainer->pulse);
    mt_status st = sgd_device_sum_begin(r->exchange, group);
    r->is_awaited = st.code == MT_OK;
    return st.code == MT_EUNSUPPORTED ? mt_ok() : st;
}

mt_status sgd_resident_join(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_resident *r = trainer->resident;
    if (!r || r->generation == group->generation)
        return mt_ok();
    sgd_resident_leave(trainer);
    r->generation = group->generation;
    return sums_choose(trainer, group);
}

mt_status sgd_resident_ready(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_resident *r = trainer->resident;
    bool                 is_ready = false;
    if (!r || !r->is_awaited)
        return mt_ok();
    mt_status st = sgd_device_sum_ready(r->exchange, group, &is_ready);
    r->is_awaited = st.code == MT_OK && !is_ready;
    r->sums = is_ready ? BY_DEVICES : BY_SLOTS;
    return st.code == MT_EUNSUPPORTED ? mt_ok() : st;
}

void sgd_resident_leave(struct sgd_trainer *trainer)
{
    struct sgd_resident *r = trainer->resident;
    if (!r)
        return;
    if (r->generation && r->exchange)
        sgd_device_sum_leave(r->exchange);
    r->sums = BY_SLOTS;
    r->is_awaited = false;
    r->generation = 0;
}

const char *sgd_resident_why_by_slots(const struct sgd_resident *r)
{
    return r && !r->exchange && r->why[0] ? r->why : NULL;
}

/* ---- gradients ---- */

bool sgd_resident_sums(const struct sgd_resident *r)
{
    return r && r->sums != BY_SLOTS;
}

void sgd_resident_begin(struct sgd_trainer *trainer)
{
    sgd_device_tree_clear(&trainer->resident->tree);
    trainer->resident->gradient = NULL;
}

mt_status sgd_resident_room(struct sgd_trainer *trainer, float **out_gradient)
{
    return sgd_resident_note(trainer, sgd_device_tree_room(&trainer->resident->tree, out_gradient));
}

mt_status sgd_resident_take(struct sgd_trainer *trainer, uint32_t vrank, float *slot)
{
    struct sgd_resident *r = trainer->resident;
    float               *room;
    if (r->sums != BY_SLOTS)
        return sgd_resident_note(trainer, sgd_device_tree_add(&r->tree, vrank));
    MT_TRY(sgd_resident_room(trainer, &room));
    return copy(trainer, slot, room, floats_of(trainer) * sizeof *slot);
}

mt_status sgd_resident_squares(struct sgd_trainer *trainer, double *out_squares)
{
    float *room;
    MT_TRY(sgd_resident_room(trainer, &room));
    return sgd_resident_note(trainer, trainer->resident->ops->sum_squares(NULL, room, floats_of(trainer), out_squares));
}

static mt_status pieces_sum(struct sgd_trainer *trainer, struct sgd_group *group, float **out_sum)
{
    struct sgd_resident *r = trainer->resident;
    const float         *pieces[SGD_TREE_BUFFERS];
    if (r->sums == ALONE)
        return sgd_resident_note(trainer, sgd_device_tree_end(&r->tree, out_sum));
    sgd_device_tree_rising(&r->tree, pieces);
    MT_TRY(sgd_resident_room(trainer, out_sum));
    return sgd_device_sum_run(r->exchange, group, pieces, r->tree.pieces, floats_of(trainer), *out_sum);
}

mt_status sgd_resident_reduce(struct sgd_trainer *trainer, struct sgd_group *group)
{
    struct sgd_resident *r = trainer->resident;
    struct sgd_range     behind = {floats_of(trainer), group->plan.slot_floats};
    const float         *sum;
    float               *mean;

    if (r->sums == BY_SLOTS)
        return sgd_group_reduce(group, trainer->config.ops, &sum);
    MT_TRY(pieces_sum(trainer, group, &mean));
    if (trainer->config.vranks > 1)
        MT_TRY(sgd_resident_note(trainer, r->ops->scale(NULL, 1.0f / (float)trainer->config.vranks, mean, floats_of(trainer))));
    MT_TRY(sgd_group_reduce_ranges(group, trainer->config.ops, &behind, 1));
    r->gradient = mean;
    return mt_ok();
}

/* ---- the update ---- */

static mt_status gradient_push(struct sgd_trainer *trainer, const float *sum)
{
    float *room;
    MT_TRY(sgd_resident_room(trainer, &room));
    MT_TRY(copy(trainer, room, sum, floats_of(trainer) * sizeof *sum));
    trainer->resident->gradient = room;
    return mt_ok();
}

mt_status sgd_resident_norm(struct sgd_trainer *trainer, const float *sum, double *out_norm)
{
    struct sgd_resident *r = trainer->resident;
    double               squares;
    if (!r->gradient)
        MT_TRY(gradient_push(trainer, sum));
    MT_TRY(sgd_resident_note(trainer, r->ops->sum_squares(NULL, r->gradient, floats_of(trainer), &squares)));
    *out_norm = sqrt(squares);
    return mt_ok();
}

mt_status sgd_resident_update(struct sgd_trainer *trainer, float rate, float part)
{
    struct sgd_resident *r = trainer->resident;
    size_t               floats = floats_of(trainer), stride = (size_t)(trainer->moments[0] - trainer->params);
    float               *moments[SGD_MOMENTS_MAX], *gradient = r->gradient;
    mt_status            st = mt_ok();

    for (uint32_t m = 0; m < SGD_MOMENTS_MAX; m++)
        moments[m] = r->floats + (m + 1) * stride;
    r->gradient = NULL; /* it may be cut now, and serves once */
    r->newest = DEVICE;
    r->version++;
    if (part != 1.0f)
        st = r->ops->scale(NULL, part, gradient, floats);
    if (st.code == MT_OK)
        st = sgd_optimizer_update(&trainer->config.optimizer, r->ops, rate, trainer->state->step, gradient, floats, r->floats,
                                  moments);
    return sgd_resident_note(trainer, st);
}

/* Whether another member's device has ended the generation. */
static bool is_of_another(const void *group, uint32_t generation, uint32_t rank)
{
    struct coll_abort why = coll_shm_why(group);
    return why.generation >= generation && why.reason == MT_EDEVICE && why.rank != rank;
}

mt_status sgd_resident_failed(const struct sgd_resident *resident, const void *group, uint32_t generation, uint32_t rank,
                              mt_status st)
{
    char text[SGD_TEXT_BYTES];
    bool is_broken = sgd_resident_is_broken(resident);
    if (!resident || (st.code != MT_EDEVICE && !is_broken))
        return st;
    if (!is_broken && is_of_another(group, generation, rank))
        return mt_error(MT_EWORKER_DIED, 0, "another worker's GPU has failed");
    fprintf(stderr, "worker of rank %u: its GPU has failed: %s\n", rank, sgd_status_text(st, text));
    _exit(1);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c - from a user's options to everything that workers are started with.
 *
 * Owns:   the run's lock, the opened operator, lent data and the region, until sgd_setup_fini.
 */
#include "sgd/run/setup.h"

#include "core/base/reserved.h"
#include "core/base/rng.h"
#include "core/sys/cpus.h"
#include "sgd/watch/board.h"
#include "sgd/ground/file.h"
#include "sgd/sum/group.h"
#include "sgd/ground/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The defaults reach 0.885 on Fashion-MNIST in 5 epochs. */
enum { SHARDS_LEAST = 2, BATCH_DEFAULT = 64, KEEP_DEFAULT = 2 };
enum { EPOCHS_MAX = 1000000, HANG_AFTER_MAX_S = 30 * 24 * 3600, BATCH_MAX = 1 << 20 };
#define RATE_DEFAULT 0.02

static manta_status fail_status(manta_error *e, mt_status st, const char *of)
{
    char text[SGD_TEXT_BYTES];
    return sgd_fail(e, st.code, "%s%s%s", of, of[0] ? ": " : "", sgd_status_text(st, text));
}

/* ---- options ---- */

static int or_default(int value, int otherwise)
{
    return value ? value : otherwise;
}

int sgd_setup_nodes(const manta_sgd_opts *o)
{
    return or_default(o->scaling.nodes, 1);
}

int sgd_setup_nodes_min(const manta_sgd_opts *o)
{
    return o->scaling.min_nodes ? (int)o->scaling.min_nodes : 1;
}

/* How many workers there are at least and at most. */
void sgd_setup_workers(const manta_sgd_opts *o, int *out_min, int *out_max)
{
    *out_max = o->scaling.max_workers ? o->scaling.max_workers : or_default(o->scaling.min_workers, 1);
    *out_min = or_default(o->scaling.min_workers, *out_max);
}

/* How many devices a worker with so many CPUs has: no more than the virtual ranks of one in the smallest group. */
static uint32_t devices_of(const manta_sgd_opts *o, uint32_t shards, uint32_t cpus)
{
    int min, max;
    sgd_setup_workers(o, &min, &max);
    uint32_t most = (shards + (uint32_t)min - 1) / (uint32_t)min;
    most = most < MT_TRAIN_DEVICES_MAX ? most : MT_TRAIN_DEVICES_MAX;
    return cpus < 1 ? 1 : cpus < most ? cpus : most;
}

/* What this node has for each of the workers, if they share it: all of them are here. */
static uint32_t cpus_shared(const manta_sgd_opts *o)
{
    int min, max;
    sgd_setup_workers(o, &min, &max);
    return (uint32_t)(mt_cpus_allowed() / max);
}

/* As few parts as all CPUs of all workers can share: small ones cost time. Two at least, so that a second worker changes no bit. */
static int shards_default(const manta_sgd_opts *o)
{
    int    shards = 1, min, max;
    double cpus = o->scaling.cpus >= 1 ? floor(o->scaling.cpus) : 1;
    sgd_setup_workers(o, &min, &max);
    while ((shards < SHARDS_LEAST || shards < max * cpus) && 2 * shards <= MT_VRANKS_MAX && o->run.batch % (2 * shards) == 0)
        shards *= 2;
    return shards;
}

static double real_or(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

void sgd_opts_resolve(const manta_sgd_opts *opts, manta_sgd_opts *out)
{
    manta_sgd_opts *o = out;
    *o = *opts;
    sgd_setup_workers(opts, &o->scaling.min_workers, &o->scaling.max_workers);
    o->scaling.nodes = sgd_setup_nodes(opts);
    o->scaling.min_nodes = sgd_setup_nodes_min(opts);
    o->scaling.wait_s = real_or(o->scaling.wait_s, MT_TRAIN_WAIT_S);
    o->run.name = o->run.name ? o->run.name : "train";
    o->run.epochs = or_default(o->run.epochs, 1);
    o->run.batch = or_default(o->run.batch, BATCH_DEFAULT);
    o->run.shards = or_default(o->run.shards, shards_default(o));
    o->run.log_steps = or_default(o->run.log_steps, MT_TRAIN_LOG_STEPS);
    o->run.validate_epochs = or_default(o->run.validate_epochs, 1);
    o->failure.backoff_s = real_or(o->failure.backoff_s, MT_TRAIN_BACKOFF_MS * 1e-3);
    if (o->checkpoint.every_steps == 0)
        o->checkpoint.every_s = real_or(o->checkpoint.every_s, MT_TRAIN_CHECKPOINT_S);
    o->checkpoint.keep = or_default(o->checkpoint.keep, KEEP_DEFAULT);
    o->checkpoint.score = o->checkpoint.score ? o->checkpoint.score : "loss";
    o->optimizer.lr = real_or(o->optimizer.lr, o->optimizer.kind == MANTA_SGD_ADAMW ? 1e-3 : RATE_DEFAULT);
    o->optimizer.momentum = real_or(o->optimizer.momentum, 0.9);
    o->optimizer.beta1 = real_or(o->optimizer.beta1, 0.9);
    o->optimizer.beta2 = real_or(o->optimizer.beta2, 0.999);
    o->optimizer.epsilon = real_or(o->optimizer.epsilon, 1e-8);
    o->optimizer.weight_decay = real_or(o->optimizer.weight_decay, o->optimizer.kind == MANTA_SGD_ADAMW ? 0.01 : 0);
    o->optimizer.step_gamma = real_or(o->optimizer.step_gamma, 0.1);
    o->optimizer.step_epochs = or_default(o->optimizer.step_epochs, 1);
}

static manta_status scaling_check(const manta_sgd_opts *o, manta_error *e)
{
    int shards = o->run.shards, batch = o->run.batch, min, max;
    sgd_setup_workers(o, &min, &max);
    if (shards < 1 || shards > MT_VRANKS_MAX || batch < shards || batch > BATCH_MAX || batch % shards)
        return sgd_fail(e, MANTA_EINVAL, "run.batch (%d) must be a multiple of run.shards (%d), which is 1 to %d", batch, shards,
                        MT_VRANKS_MAX);
    if (min < 1 || max < min || max > shards || max > MT_GROUP_MEMBERS_MAX)
        return sgd_fail(e, MANTA_EINVAL,
                        "scaling.min_workers is %d and max_workers %d: 1 to run.shards (%d) workers can share a "
                        "step, and %d in all",
                        min, max, shards, MT_GROUP_MEMBERS_MAX);
    if (o->scaling.nodes < 0 || o->scaling.nodes > MT_GROUP_MEMBERS_MAX)
        return sgd_fail(e, MANTA_EINVAL, "scaling.nodes is %d: 1 to %d", o->scaling.nodes, MT_GROUP_MEMBERS_MAX);
    int most = o->scaling.nodes < max ? o->scaling.nodes : max;
    if (o->scaling.min_nodes < 0 || o->scaling.min_nodes > most)
        return sgd_fail(e, MANTA_EINVAL, "scaling.min_nodes is %lld: 1 to scaling.nodes (%d), each with one of max_workers (%d)",
                        (long long)o->scaling.min_nodes, o->scaling.nodes, max);
    if (!(o->scaling.wait_s >= 0))
        return sgd_fail(e, MANTA_EINVAL, "scaling.wait_s is %g: seconds to wait for the fewest workers, 0: %d", o->scaling.wait_s,
                        MT_TRAIN_WAIT_S);
    if (o->scaling.spares < 0 || o->scaling.spares > MT_TRAIN_SPARES_MAX)
        return sgd_fail(e, MANTA_EINVAL, "scaling.spares is %d: 0 to %d", o->scaling.spares, MT_TRAIN_SPARES_MAX);
    if (!(o->scaling.cpus >= 0 && o->scaling.cpus <= MT_CPUS_MAX))
        return sgd_fail(e, MANTA_EINVAL, "scaling.cpus is %g: CPUs of each worker, 0 (none are reserved) to %d", o->scaling.cpus,
                        MT_CPUS_MAX);
    if (!(o->scaling.gpus <= MT_RLT_GPUS_MAX) || (o->scaling.gpus > 1 && o->scaling.gpus != floor(o->scaling.gpus)))
        return sgd_fail(e, MANTA_EINVAL,
                        "scaling.gpus is %g: GPUs of each worker, a part of one or whole ones, %d at most; 0: "
                        "what the operator wants; negative: none are reserved",
                        o->scaling.gpus, MT_RLT_GPUS_MAX);
    return MANTA_OK;
}

/* Options of a later release. */
static bool is_of_later(const manta_sgd_opts *o)
{
    return MT_RESERVED_IS_USED(o) || MT_RESERVED_IS_USED(&o->scaling) || MT_RESERVED_IS_USED(&o->run) ||
           MT_RESERVED_IS_USED(&o->failure) || MT_RESERVED_IS_USED(&o->checkpoint) || MT_RESERVED_IS_USED(&o->optimizer) ||
           (o->tracker && MT_RESERVED_IS_USED(o->tracker));
}

manta_status sgd_opts_known(const manta_sgd_opts *o, const char *call, manta_error *e)
{
    return o && is_of_later(o) ? sgd_fail(e, MANTA_EINVAL, MT_RESERVED_TEXT, call) : MANTA_OK;
}

static manta_status numbers_check(const manta_sgd_opts *o, manta_error *e)
{
    if (o->run.epochs < 0 || o->run.epochs > EPOCHS_MAX || o->run.log_steps < 0 || o->run.validate_epochs < 0 ||
        o->run.patience < 0 || !(o->run.min_delta >= 0))
        return sgd_fail(e, MANTA_EINVAL, "run.epochs, log_steps, validate_epochs, patience or min_delta is out of range");
    if (o->failure.max_failures < -1 || !(o->failure.backoff_s >= 0))
        return sgd_fail(e, MANTA_EINVAL, "failure.max_failures is -1 or more, failure.backoff_s not negative");
    if (!(fabs(o->failure.hang_after) <= HANG_AFTER_MAX_S))
        return sgd_fail(e, MANTA_EINVAL,
                        "failure.hang_after is %g: seconds, %d at most; 0: by the run's own steps; negative: "
                        "never",
                        o->failure.hang_after, HANG_AFTER_MAX_S);
    if (!(o->checkpoint.every_s >= 0) || o->checkpoint.every_steps < 0 || o->checkpoint.keep < 0 || o->checkpoint.keep_best < 0)
        return sgd_fail(e, MANTA_EINVAL, "checkpoint.every_s, every_steps, keep and keep_best can't be negative");
    if (o->optimizer.zero < 0 || o->optimizer.zero > 1)
        return sgd_fail(e, MANTA_EINVAL,
                        "optimizer.zero is %d: 0, each worker has the optimizer's whole state, or 1, a shard of "
                        "it",
                        o->optimizer.zero);
    if (o->optimizer.zero_backup && !o->optimizer.zero)
        return sgd_fail(e, MANTA_EINVAL, "optimizer.zero_backup is a second copy of each shard: that needs optimizer.zero 1");
    return scaling_check(o, e);
}

static struct sgd_optimizer optimizer_of(const manta_sgd_opts *o, uint32_t batch)
{
    double lr = o->optimizer.lr_batch > 0 ? o->optimizer.lr * batch / o->optimizer.lr_batch : o->optimizer.lr;
    return (struct sgd_optimizer){.kind = (uint32_t)o->optimizer.kind,
                                  .schedule = (uint32_t)o->optimizer.schedule,
                                  .rate = (float)lr,
                                  .momentum = (float)o->optimizer.momentum,
                                  .beta1 = (float)o->optimizer.beta1,
                                  .beta2 = (float)o->optimizer.beta2,
                                  .epsilon = (float)o->optimizer.epsilon,
                                  .decay = (float)o->optimizer.weight_decay,
                                  .step_gamma = (float)o->optimizer.step_gamma,
                                  .step_epochs = (uint32_t)o->optimizer.step_epochs,
                                  .warmup = (uint64_t)o->optimizer.warmup_steps,
                                  .clip_norm = (float)o->optimizer.clip_norm,
                                  .max_norm = (float)o->optimizer.max_norm};
}

static manta_status numbers_take(struct sgd_run *run, const manta_sgd_opts *o, manta_error *e)
{
    uint32_t shards = (uint32_t)o->run.shards, batch = (uint32_t)o->run.batch;
    *run = (struct sgd_run){.seed = o->seed,
                            .every_steps = (uint64_t)o->checkpoint.every_steps,
                            .every_s = o->checkpoint.every_s,
                            .keep = {(uint32_t)o->checkpoint.keep, (uint32_t)o->checkpoint.keep_best, o->checkpoint.score_max},
                            .optimizer = optimizer_of(o, batch),
                            .vranks = shards,
                            .devices = devices_of(o, shards, (uint32_t)o->scaling.cpus),
                            .micro_batch = batch / shards,
                            .epochs = (uint32_t)o->run.epochs,
                            .log_steps = (uint32_t)o->run.log_steps,
                            .validate_epochs = (uint32_t)o->run.validate_epochs,
                            .patience = (uint32_t)o->run.patience,
                            .min_delta = o->run.min_delta,
                            .score_max = o->checkpoint.score_max,
                            .restart_damaged = o->checkpoint.restart_damaged,
                            .other_data = o->checkpoint.other_data,
                            .zero = o->optimizer.zero == 1,
                            .zero_backup = o->optimizer.zero_backup};
    run->is_wide = sgd_setup_nodes(o) > 1;
    int min, max;
    sgd_setup_workers(o, &min, &max);
    run->workers_max = (uint32_t)max;
    run->trace.rows = o->run.timeline ? (uint32_t)(max + o->scaling.spares) : 0;
    struct sgd_optimizer copy = run->optimizer;
    mt_status            st = sgd_optimizer_resolve(&copy);
    if (o->optimizer.warmup_steps < 0 || o->optimizer.step_epochs < 0 || o->optimizer.lr_batch < 0)
        st = mt_error(MT_EINVAL, 0, "optimizer: warmup_steps, step_epochs and lr_batch can't be negative");
    if (st.code == MT_OK && run->is_wide)
        st = mt_random_bytes(&run->group, sizeof run->group);
    return st.code ? fail_status(e, st, "") : MANTA_OK;
}

/* Joins the configuration's pairs as workers get them. */
static manta_status config_take(struct sgd_setup *setup, const manta_sgd_opts *o, manta_error *e)
{
    mt_status st = mt_ok();
    for (const char *const *pair = o->config; pair && *pair && st.code == 0; pair++) {
        if (!strchr(*pair, '=') || **pair == '=')
            return sgd_fail(e, MANTA_EINVAL, "config \"%.100s\" is not NAME=value", *pair);
        st = mt_buf_append(&setup->config, *pair, strlen(*pair) + 1);
    }
    if (st.code == 0)
        st = mt_buf_append(&setup->config, "", 1);
    return st.code ? fail_status(e, st, "config") : MANTA_OK;
}

/* ---- the folder ---- */

static bool name_is_valid(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size < MT_NAME_BYTES_MAX && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
}

static manta_status name_refuse(manta_error *e)
{
    return sgd_fail(e, MANTA_EINVAL, "run.name has 1 to %d of A-Z a-z 0-9 . _ -, and begins with no dot", MT_NAME_BYTES_MAX - 1);
}

static manta_status folder_make(const char *path, manta_error *e)
{
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return MANTA_OK;
    int sys = errno;
    return sgd_fail(e, sys == ENOENT ? MANTA_ENOENT : sgd_file_error(sys, "").code,
                    "the folder %.300s for checkpoints can't be made: %s", path, strerror(sys));
}

/* How many drivers had this run before: a number in the lock file. Where that is lost, the clock is larger. */
static mt_status number_next(int fd, uint64_t *out)
{
    char     text[32] = "";
    ssize_t  size = pread(fd, text, sizeof text - 1, 0);
    uint64_t last = size > 0 ? strtoull(text, NULL, 10) : 0;
    *out = (last > 0 && last < UINT32_MAX ? last + 1 : (uint64_t)time(NULL)) & UINT32_MAX;
    int n = snprintf(text, sizeof text, "%llu\n", (unsigned long long)*out);
    if (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) != 0)
        return sgd_file_error(errno, "write the run's number");
    return sgd_file_sync(fd);
}

static manta_status folder_lock(struct sgd_setup *setup, const char *name, manta_error *e)
{
    char path[SGD_FOLDER_BYTES_MAX + 8];
    snprintf(path, sizeof path, "%s/lock", setup->run.folder);
    setup->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (setup->lock_fd < 0)
        return fail_status(e, sgd_file_error(errno, "open the lock of the run's folder"), path);
    if (flock(setup->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return sgd_fail(e, MANTA_EEXIST, "another driver is training the run \"%s\" in %.300s", name, setup->run.folder);
    mt_status st = number_next(setup->lock_fd, &setup->run.number);
    return st.code ? fail_status(e, st, path) : MANTA_OK;
}

static manta_status folder_take(struct sgd_setup *setup, const manta_sgd_opts *o, manta_error *e)
{
    const char *name = o->run.name;
    char        path[SGD_FOLDER_BYTES_MAX], *whole;

    if (!name_is_valid(name))
        return name_refuse(e);
    if (!o->run.storage)
        return MANTA_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", o->run.storage, name) >= sizeof path)
        return sgd_fail(e, MANTA_EINVAL, "run.storage is too long");
    manta_status code = folder_make(o->run.storage, e);
    if (code == MANTA_OK)
        code = folder_make(path, e);
    if (code != MANTA_OK)
        return code;
    whole = realpath(path, NULL); /* workers may have another working directory */
    if (!whole || strlen(whole) >= sizeof setup->run.folder) {
        free(whole);
        return sgd_fail(e, MANTA_EINVAL, "run.storage is too long");
    }
    memcpy(setup->run.folder, whole, strlen(whole) + 1);
    free(whole);
    return folder_lock(setup, name, e);
}

/* ---- the operator, its data, the region ---- */

/* Everything that was unpacked, as one object; an empty one where nothing was. */
static manta_status data_lend(struct sgd_setup *setup, manta_error *e)
{
    struct sgd_lent head = {{0}, {0}, {0}};
    size_t          size = sizeof head;
    manta_buffer    buffer;
    for (int i = 0; i < 2; i++) {
        const struct sgd_source *source = &setup->op->sources[i];
        if (!source->is_there || !source->is_lent)
            continue;
        head.count[i] = source->set.count;
        head.record_size[i] = source->set.record_size;
        head.has_labels[i] = source->set.labels != NULL;
        size += source->set.count * (source->set.record_size + (head.has_labels[i] ? 1u : 0u));
    }
    manta_status code = manta_create(size, &buffer, e);
    if (code != MANTA_OK)
        return code;
    char *to = mempcpy(buffer.data, &head, sizeof head);
    for (int i = 0; i < 2; i++) {
        const struct sgd_dataset *set = &setup->op->sources[i].set;
        if (head.count[i])
            to = mempcpy(to, set->records, set->count * set->record_size);
        if (head.has_labels[i])
            to = mempcpy(to, set->labels, set->count);
    }
    setup->lent = manta_seal(&buffer);
    return MANTA_OK;
}

static manta_status operator_learn(struct sgd_setup *setup, const char *name, const manta_sgd_opts *o, manta_error *e)
{
    char                     text[SGD_OPERATOR_TEXT] = "";
    struct sgd_operator_opts opts = {.name = name,
                                     .config = (const char *)setup->config.data,
                                     .seed = setup->run.seed,
                                     .micro_batch = setup->run.micro_batch,
                                     .is_driver = true,
                                     .is_spread = setup->run.is_wide,
                                     .devices = setup->run.devices,
                                     .is_strict = o->config_strict};
    mt_status                st = sgd_operator_open(&opts, text, &setup->op);
    if (st.code != 0)
        return sgd_fail(e, st.code, "%s", text);
    if (setup->op->shares_cpus && o->scaling.cpus == 0 && !setup->run.is_wide)
        setup->run.devices = devices_of(o, setup->run.vranks, cpus_shared(o));
    if (setup->op->devices_max && setup->op->devices_max < setup->run.devices)
        setup->run.devices = setup->op->devices_max;
    setup->gpus = o->scaling.gpus > 0 ? o->scaling.gpus : o->scaling.gpus < 0 ? 0 : setup->op->gpus;
    uint32_t tracks = SGD_TRACK_DEVICE + setup->run.devices - 1;
    setup->run.trace.tracks = tracks < SGD_TRACKS_MAX ? tracks : SGD_TRACKS_MAX;
    int score = sgd_operator_metric(setup->op, o->checkpoint.score);
    if (score < 0)
        return sgd_fail(e, MANTA_EINVAL, "checkpoint.score: the operator has no metric \"%.100s\"", o->checkpoint.score);
    setup->run.score = (uint32_t)score;
    return MANTA_OK;
}

static manta_status region_make(struct sgd_setup *setup, manta_error *e)
{
    struct sgd_group_plan plan = {.vranks = setup->run.vranks,
                                  .members_max = setup->run.workers_max,
                                  .lanes = setup->run.devices,
                                  .slot_floats = sgd_trainer_slot(&setup->op->model),
                                  .mean_floats = setup->op->model.params.floats,
                                  .is_wide = setup->run.is_wide,
                                  .is_sharded = setup->run.zero,
                                  .is_mirrored = setup->run.zero_backup};
    size_t                size;
    mt_status             st = sgd_group_region_size(&plan, &size);
    return st.code ? fail_status(e, st, "")
                   : manta_region_open(SGD_BOARD_SIZE + size + sgd_trace_size(setup->run.trace), 0, &setup->region, e);
}

/* ---- all of it ---- */

/* What can be said of a run before it has a folder, or a cluster. */
static manta_status options_take(struct sgd_setup *setup, const manta_sgd_opts *o, manta_error *e)
{
    manta_status code = numbers_check(o, e);
    if (code == MANTA_OK)
        code = numbers_take(&setup->run, o, e);
    return code == MANTA_OK ? config_take(setup, o, e) : code;
}

manta_status sgd_setup_init(struct sgd_setup *setup, const char *name, const manta_sgd_opts *opts, manta_error *e)
{
    manta_sgd_opts o;
    *setup = (struct sgd_setup){.lock_fd = -1};
    sgd_opts_resolve(opts, &o);
    manta_status code = options_take(setup, &o, e);
    if (code == MANTA_OK)
        code = folder_take(setup, &o, e);
    if (code == MANTA_OK)
        code = operator_learn(setup, name, &o, e);
    if (code == MANTA_OK)
        code = data_lend(setup, e);
    if (code == MANTA_OK)
        code = region_make(setup, e);
    if (code == MANTA_OK)
        sgd_operator_data_drop(setup->op);
    else
        sgd_setup_fini(setup);
    return code;
}

manta_status manta_sgd_check(const char *operator_name, const manta_sgd_opts *opts, manta_error *e)
{
    static const manta_sgd_opts defaults;
    if (!operator_name)
        return sgd_fail(e, MANTA_EINVAL, "manta_sgd_check: operator_name is NULL");
    struct sgd_setup setup = {.lock_fd = -1};
    manta_sgd_opts   o;
    manta_status     code = sgd_opts_known(opts, "manta_sgd_check", e);
    sgd_opts_resolve(opts ? opts : &defaults, &o);
    if (code == MANTA_OK)
        code = options_take(&setup, &o, e);
    if (code == MANTA_OK && !name_is_valid(o.run.name))
        code = name_refuse(e);
    if (code == MANTA_OK)
        code = operator_learn(&setup, operator_name, &o, e);
    sgd_operator_close(setup.op);
    mt_buf_fini(&setup.config);
    return code;
}

void sgd_setup_fini(struct sgd_setup *setup)
{
    manta_region_close(&setup->region);
    manta_free(setup->lent);
    sgd_operator_close(setup->op);
    mt_buf_fini(&setup->config);
    if (setup->lock_fd >= 0)
        close(setup->lock_fd);
    *setup = (struct sgd_setup){.lock_fd = -1};
}

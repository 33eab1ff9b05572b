/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c - from a user's options to everything that workers are started with.
 *
 * Owns:   the run's lock, the two objects of data, the region, until sgd_setup_fini.
 */
#include "sgd/setup.h"

#include "sgd/board.h"
#include "sgd/data.h"
#include "sgd/file.h"
#include "sgd/group.h"
#include "sgd/mlp.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The defaults reach 0.885 on Fashion-MNIST in 5 epochs. */
enum { SHARDS_DEFAULT = 8, BATCH_DEFAULT = 64, HIDDEN_DEFAULT = 256, EPOCHS_MAX = 1000000, BATCH_MAX = 1 << 20 };
#define RATE_DEFAULT 0.02

manta_status sgd_fail(manta_error *e, manta_status code, const char *format, ...)
{
    va_list args;
    *e = (manta_error){.code = code};
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    return code;
}

static manta_status fail_status(manta_error *e, mt_status st, const char *of)
{
    char text[SGD_TEXT_BYTES];
    return sgd_fail(e, st.code, "%s%s%s", of, of[0] ? ": " : "", sgd_status_text(st, text));
}

/* ---- options ---- */

static manta_status numbers_check(const manta_sgd_opts *o, manta_error *e)
{
    int shards = o->run.shards ? o->run.shards : SHARDS_DEFAULT, batch = o->run.batch ? o->run.batch : BATCH_DEFAULT;
    if (shards < 1 || shards > MT_VRANKS_MAX || batch < shards || batch > BATCH_MAX || batch % shards)
        return sgd_fail(e, MANTA_EINVAL, "run.batch (%d) must be a multiple of run.shards (%d), which is 1 to %d", batch,
                        shards, MT_VRANKS_MAX);
    if (o->scaling.workers < 0 || o->scaling.workers > shards || o->scaling.workers > MT_GROUP_MEMBERS_MAX)
        return sgd_fail(e, MANTA_EINVAL, "scaling.workers is %d: at most run.shards (%d) can share a step, and %d in all",
                        o->scaling.workers, shards, MT_GROUP_MEMBERS_MAX);
    if (o->scaling.spares < 0 || o->scaling.spares > MT_TRAIN_SPARES_MAX || !(o->scaling.cpus >= 0))
        return sgd_fail(e, MANTA_EINVAL, "scaling.spares is 0 to %d, scaling.cpus not negative", MT_TRAIN_SPARES_MAX);
    if (o->run.epochs < 0 || o->run.epochs > EPOCHS_MAX || o->run.log_steps < 0 || o->failure.max_failures < -1)
        return sgd_fail(e, MANTA_EINVAL, "run.epochs, run.log_steps or failure.max_failures is out of range");
    if (!(o->checkpoint.every_s >= 0) || o->checkpoint.every_steps < 0 || o->checkpoint.keep < 0)
        return sgd_fail(e, MANTA_EINVAL, "checkpoint.every_s, every_steps and keep can't be negative");
    if (!(o->optimizer.lr >= 0) || !isfinite(o->optimizer.lr) || !(o->optimizer.momentum < 1))
        return sgd_fail(e, MANTA_EINVAL, "optimizer.lr must be positive, optimizer.momentum below 1");
    for (int i = 0; i < MANTA_SGD_LAYERS_MAX && o->model.hidden[i]; i++)
        if (o->model.hidden[i] < 0)
            return sgd_fail(e, MANTA_EINVAL, "model.hidden: a layer of %d", o->model.hidden[i]);
    return MANTA_OK;
}

static void numbers_take(struct sgd_run *run, const manta_sgd_opts *o)
{
    uint32_t shards = o->run.shards ? (uint32_t)o->run.shards : SHARDS_DEFAULT;
    *run = (struct sgd_run){.seed = o->seed,
                            .every_steps = (uint64_t)o->checkpoint.every_steps,
                            .every_s = o->checkpoint.every_s,
                            .keep = (uint32_t)o->checkpoint.keep,
                            .vranks = shards,
                            .micro_batch = (o->run.batch ? (uint32_t)o->run.batch : BATCH_DEFAULT) / shards,
                            .epochs = o->run.epochs ? (uint32_t)o->run.epochs : 1,
                            .log_steps = o->run.log_steps ? (uint32_t)o->run.log_steps : MT_TRAIN_LOG_STEPS,
                            .rate = (float)(o->optimizer.lr > 0 ? o->optimizer.lr : RATE_DEFAULT),
                            .momentum = (float)o->optimizer.momentum};
    if (run->every_s == 0 && run->every_steps == 0)
        run->every_s = MT_TRAIN_CHECKPOINT_S;
    for (int i = 0; i < MANTA_SGD_LAYERS_MAX && i < MT_LAYERS_MAX - 1; i++)
        run->hidden[i] = (uint32_t)o->model.hidden[i];
    if (!run->hidden[0])
        run->hidden[0] = HIDDEN_DEFAULT;
}

/* ---- the folder ---- */

static bool name_is_valid(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size < MT_NAME_BYTES_MAX && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
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
    char    text[32] = "";
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
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
    const char *name = o->run.name ? o->run.name : "train";
    char        path[SGD_FOLDER_BYTES_MAX], *whole;

    if (!name_is_valid(name))
        return sgd_fail(e, MANTA_EINVAL, "run.name has 1 to %d of A-Z a-z 0-9 . _ -, and begins with no dot",
                        MT_NAME_BYTES_MAX - 1);
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

/* ---- data ---- */

static manta_status set_put(const struct sgd_dataset *set, manta_ref **out, manta_error *e)
{
    manta_buffer buffer;
    size_t       records = set->count * set->record_size;
    manta_status code = manta_create(records + set->count, &buffer, e);
    if (code != MANTA_OK)
        return code;
    memcpy(buffer.data, set->records, records);
    memcpy((char *)buffer.data + records, set->labels, set->count);
    *out = manta_seal(&buffer);
    return MANTA_OK;
}

static manta_status set_load(const char *folder, bool is_train, struct sgd_run *run, manta_ref **out, manta_error *e)
{
    struct sgd_dataset set;
    mt_status          st = sgd_dataset_load_fashion(folder, is_train, &set);
    if (st.code != 0)
        return fail_status(e, st, st.code == MT_ENOENT ? "" : folder ? folder : SGD_FASHION_MNIST_DIR);
    manta_status code = MANTA_OK;
    if (is_train)
        run->record_size = set.record_size, run->outputs = set.classes;
    else if (set.record_size != run->record_size || set.classes > run->outputs)
        code = sgd_fail(e, MANTA_ECORRUPT, "data set: test and training data don't belong together");
    if (code == MANTA_OK)
        code = set_put(&set, out, e);
    sgd_dataset_fini(&set);
    return code;
}

/* ---- region ---- */

static manta_status region_make(struct sgd_setup *setup, manta_error *e)
{
    const struct sgd_run *run = &setup->run;
    struct sgd_mlp_config mlp = {.inputs = run->record_size, .outputs = run->outputs, .batch_max = run->micro_batch};
    struct sgd_model     *model;
    size_t                size;

    memcpy(mlp.hidden, run->hidden, sizeof mlp.hidden);
    mt_status st = sgd_mlp_new(&mlp, &model); /* only to learn how many parameters it has: it computes nothing here */
    if (st.code != 0)
        return fail_status(e, st, "");
    struct sgd_group_plan plan = {.vranks = run->vranks, .slot_floats = model->params.floats + SGD_METRICS};
    model->ops->free(model);
    st = sgd_group_region_size(&plan, &size);
    return st.code ? fail_status(e, st, "") : manta_region_open(SGD_BOARD_SIZE + size, 0, &setup->region, e);
}

/* ---- all of it ---- */

manta_status sgd_setup_init(struct sgd_setup *setup, const manta_sgd_opts *opts, manta_error *e)
{
    *setup = (struct sgd_setup){.lock_fd = -1};
    manta_status code = numbers_check(opts, e);
    if (code != MANTA_OK)
        return code;
    numbers_take(&setup->run, opts);
    code = folder_take(setup, opts, e);
    if (code == MANTA_OK)
        code = set_load(opts->data.path, true, &setup->run, &setup->train_set, e);
    if (code == MANTA_OK)
        code = set_load(opts->data.path, false, &setup->run, &setup->test_set, e);
    if (code == MANTA_OK)
        code = region_make(setup, e);
    if (code != MANTA_OK)
        sgd_setup_fini(setup);
    return code;
}

void sgd_setup_fini(struct sgd_setup *setup)
{
    manta_region_close(&setup->region);
    manta_free(setup->test_set);
    manta_free(setup->train_set);
    if (setup->lock_fd >= 0)
        close(setup->lock_fd);
    *setup = (struct sgd_setup){.lock_fd = -1};
}

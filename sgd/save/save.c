/* SPDX-License-Identifier: Apache-2.0
 *
 * save.c - writing a checkpoint so that it appears whole or not at all.
 *
 * Owns:    the temporary folder of a save, from its mkdir to its rename or removal. Thread: one saver per
 * folder. Always:  a name "step-..." appears by one rename, after everything under it has reached the disk.
 */
#include "sgd/save/private.h"

#include "core/base/rng.h"
#include "sgd/ground/file.h"
#include "sgd/save/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- removing: cleanup never fails a save ---- */

static void parts_remove(int fd)
{
    int                  copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR                 *entries = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)))
        if (strncmp(entry->d_name, SGD_PART_PREFIX, sizeof SGD_PART_PREFIX - 1) == 0)
            unlinkat(fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
    else if (copy >= 0)
        close(copy);
}

/* Removes a folder that this module made. What anybody else has put there stays, and so does the folder. */
static void folder_remove(int dir, const char *name)
{
    int fd;
    if (sgd_file_open_dir(dir, name, &fd).code != 0)
        return;
    unlinkat(fd, SGD_MANIFEST_FILE, 0);
    unlinkat(fd, SGD_MODEL_FILE, 0);
    if (unlinkat(dir, name, AT_REMOVEDIR) != 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
        parts_remove(fd);
        unlinkat(dir, name, AT_REMOVEDIR);
    }
    close(fd);
}

/* Takes a checkpoint out of sight by one rename before its files go, so that no half-removed one is ever
 * visible. */
static void checkpoint_remove(int dir, uint64_t step, uint64_t generation)
{
    char name[SGD_CHECKPOINT_NAME_SIZE], hidden[SGD_TEMP_NAME_SIZE];
    sgd_checkpoint_name(step, name);
    snprintf(hidden, sizeof hidden, ".tmp-%llu-%s-old", (unsigned long long)generation, name);
    if (renameat(dir, name, dir, hidden) == 0)
        folder_remove(dir, hidden);
}

/* What dead savers left: of this generation or an earlier one, since only one saver at a time is alive. */
static void leftovers_remove(int dir, uint64_t generation)
{
    int                  fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR                 *entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (!entries) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(entries)))
        if (strncmp(entry->d_name, ".tmp-", 5) == 0 && strtoull(entry->d_name + 5, NULL, 10) <= generation)
            folder_remove(dir, entry->d_name);
    closedir(entries);
}

static bool meta_read(int dir, const char *name, struct sgd_checkpoint_meta *meta)
{
    char  *text;
    size_t size;
    int    fd;

    if (sgd_file_open_dir(dir, name, &fd).code != 0)
        return false;
    mt_status st = sgd_manifest_open(fd, SGD_MANIFEST_FILE, &text, &size);
    close(fd);
    if (st.code != 0)
        return false;
    st = sgd_manifest_read_meta(text, size, meta);
    free(text);
    return st.code == 0;
}

/* How many of the checkpoints up to `newest` have a better score than the one of `step`; of equal ones the later counts as
 * better. UINT32_MAX where that has none. */
static uint32_t score_place(int dir, const uint64_t *steps, size_t count, uint64_t step, uint64_t newest, bool score_max)
{
    struct sgd_checkpoint_meta mine, other;
    char                       name[SGD_CHECKPOINT_NAME_SIZE];
    uint32_t                   place = 0;

    sgd_checkpoint_name(step, name);
    if (!meta_read(dir, name, &mine) || !mine.has_score)
        return UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        sgd_checkpoint_name(steps[i], name);
        if (steps[i] > newest || steps[i] == step || !meta_read(dir, name, &other) || !other.has_score)
            continue;
        double better = score_max ? other.score - mine.score : mine.score - other.score;
        place += better > 0 || (better == 0 && steps[i] > step);
    }
    return place;
}

/* Only what is not newer than `newest` is counted and removed: a later checkpoint was passed over by the
 * load, and must not push out the ones that are good. */
static void old_remove(int dir, uint64_t newest, uint64_t generation, const struct sgd_keep *keep)
{
    uint64_t *steps;
    size_t    count;
    uint32_t  kept = 0, keep_newest = keep->newest ? keep->newest : MT_CHECKPOINTS_KEPT;

    if (sgd_checkpoint_list(dir, &steps, &count).code != 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (steps[i] > newest || kept++ < keep_newest || (keep->hold_from && steps[i] >= keep->hold_from))
            continue;
        if (keep->best && score_place(dir, steps, count, steps[i], newest, keep->score_max) < keep->best)
            continue;
        checkpoint_remove(dir, steps[i], generation);
    }
    free(steps);
}

/* ---- writing ---- */

static mt_status temp_fill(int dir, const char *temp, const struct sgd_checkpoint_meta *meta,
                           const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count)
{
    uint64_t  header_checksum = 0;
    mt_status st;
    int       fd;

    MT_TRY(sgd_file_open_dir(dir, temp, &fd));
    MT_TRY_GOTO(st, sgd_checkpoint_file_write(fd, SGD_MODEL_FILE, tensors, count, &header_checksum), done);
    if (part)
        MT_TRY_GOTO(st, sgd_checkpoint_parts_wait(fd, meta, part), done);
    MT_TRY_GOTO(st, sgd_checkpoint_manifest_write(fd, SGD_MANIFEST_FILE, meta, header_checksum, tensors, count), done);
    st = sgd_file_sync(fd);
done:
    close(fd);
    return st;
}

/* ---- publishing ---- */

/* A checkpoint of this step that a later generation wrote is not ours to replace. */
static mt_status existing_check(int dir, const char *name, uint64_t generation)
{
    struct sgd_checkpoint_meta meta; /* what can't be read is replaced */
    if (meta_read(dir, name, &meta) && meta.generation > generation)
        return mt_error(MT_EFENCED, 0, "save checkpoint: a later generation has saved this step");
    return mt_ok();
}

/* Puts `temp` in the place of `name`; afterwards `temp` is what stood there. File systems that can't swap two
 * names get two renames: for a moment this step is not there, the earlier ones are. */
static mt_status swap(int dir, const char *temp, const char *name)
{
    char hidden[SGD_TEMP_NAME_SIZE + 8];
    if (renameat2(dir, temp, dir, name, RENAME_EXCHANGE) == 0)
        return mt_ok();
    if (errno != EINVAL && errno != ENOSYS)
        return sgd_file_error(errno, "publish checkpoint");
    snprintf(hidden, sizeof hidden, "%s-old", temp);
    if (renameat(dir, name, dir, hidden) != 0 || renameat(dir, temp, dir, name) != 0)
        return sgd_file_error(errno, "publish checkpoint");
    folder_remove(dir, hidden);
    return mt_ok();
}

static mt_status publish(int dir, const char *temp, const struct sgd_checkpoint_meta *meta)
{
    char name[SGD_CHECKPOINT_NAME_SIZE];

    sgd_checkpoint_name(meta->step, name);
    if (renameat(dir, temp, dir, name) == 0)
        return mt_ok();
    if (errno != EEXIST && errno != ENOTEMPTY)
        return sgd_file_error(errno, "publish checkpoint");
    MT_TRY(existing_check(dir, name, meta->generation));
    return swap(dir, temp, name);
}

static mt_status temp_make(int dir, const struct sgd_checkpoint_meta *meta, const struct sgd_checkpoint_part *part,
                           char out_temp[SGD_TEMP_NAME_SIZE])
{
    uint64_t random;
    if (part) { /* it is there: this member has written its own part */
        sgd_checkpoint_temp_name(meta->generation, part, out_temp);
        return mt_ok();
    }
    MT_TRY(mt_random_bytes(&random, sizeof random));
    snprintf(out_temp, SGD_TEMP_NAME_SIZE, ".tmp-%llu-%llu-%016llx", (unsigned long long)meta->generation,
             (unsigned long long)meta->step, (unsigned long long)random);
    if (mkdirat(dir, out_temp, 0755) != 0)
        return sgd_file_error(errno, "make checkpoint folder");
    return mt_ok();
}

static mt_status save_into(int dir, const struct sgd_keep *keep, const struct sgd_checkpoint_meta *meta,
                           const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count)
{
    char temp[SGD_TEMP_NAME_SIZE];

    leftovers_remove(dir, part ? meta->generation - 1 : meta->generation); /* others may be at their parts of the next one */
    MT_TRY(temp_make(dir, meta, part, temp));
    mt_status st = temp_fill(dir, temp, meta, part, tensors, count);
    if (st.code == 0)
        st = publish(dir, temp, meta);
    folder_remove(dir, temp); /* ours after a failure, or what it replaced; else it is gone already */
    MT_TRY(st);
    MT_TRY(sgd_file_sync(dir));
    old_remove(dir, meta->step, meta->generation, keep);
    return mt_ok();
}

static mt_status save(const char *folder, const struct sgd_keep *keep, const struct sgd_checkpoint_meta *meta,
                      const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count)
{
    int dir;
    if (memchr(meta->kernels, '\0', sizeof meta->kernels) == NULL || strpbrk(meta->kernels, "\"\\\n"))
        return mt_error(MT_EINVAL, 0, "save checkpoint: name of the kernels");
    MT_TRY(sgd_checkpoint_folder_open(folder, &dir));
    mt_status st = save_into(dir, keep, meta, part, tensors, count);
    close(dir);
    return st;
}

mt_status sgd_checkpoint_save(const char *folder, const struct sgd_keep *keep, const struct sgd_checkpoint_meta *meta,
                              struct sgd_tensor *tensors, size_t count)
{
    return save(folder, keep, meta, NULL, tensors, count);
}

mt_status sgd_checkpoint_save_with_parts(const char *folder, const struct sgd_keep *keep, const struct sgd_checkpoint_meta *meta,
                                         const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count)
{
    struct sgd_checkpoint_meta whole = *meta;
    whole.parts = part->parts;
    return save(folder, keep, &whole, part, tensors, count);
}

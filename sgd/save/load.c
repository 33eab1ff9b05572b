/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - finding the newest checkpoint that is whole, here or with what other machines have of it.
 *
 * Owns: nothing. Thread: any, one at a time per checkpoint.
 */
#include "sgd/save/private.h"

#include "sgd/ground/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mt_status files_read(const struct sgd_checkpoint_source *from, struct sgd_checkpoint *out_checkpoint, char *out_damaged)
{
    MT_TRY(sgd_checkpoint_file_get(from, SGD_MODEL_FILE, SGD_MANIFEST_FILE, out_checkpoint, out_damaged));
    return out_checkpoint->meta.parts ? sgd_checkpoint_parts_read(from, out_checkpoint, out_damaged) : mt_ok();
}

/* Its folder here. Where it stands elsewhere only, it is brought into a temporary one, which gets its name when it was read. */
static mt_status folder_open(int dir, const struct sgd_checkpoint_source *from, char temp[SGD_TEMP_NAME_SIZE], int *out_fd)
{
    mt_status st = sgd_file_open_dir(dir, from->name, out_fd);
    temp[0] = 0;
    if (st.code != MT_ENOENT || !from->elsewhere)
        return st;
    snprintf(temp, SGD_TEMP_NAME_SIZE, ".tmp-0-%s-brought", from->name);
    if (mkdirat(dir, temp, 0755) != 0 && errno != EEXIST)
        return sgd_file_error(errno, "make checkpoint folder");
    return sgd_file_open_dir(dir, temp, out_fd);
}

static mt_status checkpoint_read(int dir, uint64_t step, const struct sgd_elsewhere *elsewhere,
                                 struct sgd_checkpoint *out_checkpoint, char *out_damaged, const struct sgd_beat *life)
{
    struct sgd_checkpoint        checkpoint = {0};
    struct sgd_checkpoint_source from = {.name = checkpoint.name, .elsewhere = elsewhere, .life = life};
    char                         temp[SGD_TEMP_NAME_SIZE];

    sgd_checkpoint_name(step, checkpoint.name);
    MT_TRY(folder_open(dir, &from, temp, &from.dir));
    mt_status st = files_read(&from, &checkpoint, out_damaged);
    if (st.code == MT_OK && checkpoint.meta.step != step)
        st = mt_error(MT_ECORRUPT, 0, "checkpoint: its manifest names another step");
    if (st.code == MT_OK && temp[0])
        (void)renameat(dir, temp, dir, checkpoint.name); /* it was read; that it stays is a convenience */
    close(from.dir);
    if (st.code == MT_OK)
        *out_checkpoint = checkpoint;
    else
        sgd_checkpoint_fini(&checkpoint);
    return st;
}

static void report_add(struct sgd_checkpoint_report *report, uint64_t step, mt_status why, const char *tensor)
{
    uint32_t i = report->skipped_count++;
    if (i >= MT_CHECKPOINTS_NAMED_MAX)
        return;
    sgd_checkpoint_name(step, report->skipped[i].name);
    report->skipped[i].why = why;
    memcpy(report->skipped[i].tensor, tensor, MT_NAME_BYTES_MAX);
}

mt_status sgd_checkpoint_load(const char *folder, struct sgd_checkpoint *out_checkpoint, struct sgd_checkpoint_report *report)
{
    return sgd_checkpoint_load_with(folder, out_checkpoint, report, &(struct sgd_beat){.beat = NULL}, NULL);
}

/* Adds the steps that stand elsewhere, each once. */
static mt_status steps_join(uint64_t **steps, size_t *count, const struct sgd_elsewhere *elsewhere)
{
    size_t    all = *count + elsewhere->steps_count, kept = 0;
    uint64_t *more = realloc(*steps, (all + 1) * sizeof *more);
    if (!more)
        return mt_error(MT_ENOMEM, 0, "list checkpoints");
    *steps = more;
    for (size_t i = 0; i < elsewhere->steps_count; i++)
        more[*count + i] = elsewhere->steps[i];
    sgd_steps_sort(more, all);
    for (size_t i = 0; i < all; i++)
        if (!kept || more[kept - 1] != more[i])
            more[kept++] = more[i];
    *count = kept;
    return mt_ok();
}

mt_status sgd_checkpoint_load_with(const char *folder, struct sgd_checkpoint *out_checkpoint, struct sgd_checkpoint_report *report,
                                   const struct sgd_beat *life, const struct sgd_elsewhere *elsewhere)
{
    uint64_t *steps = NULL;
    size_t    count = 0;
    int       dir;
    mt_status st;

    memset(report, 0, sizeof *report);
    MT_TRY(sgd_file_open_dir(AT_FDCWD, folder, &dir));
    MT_TRY_GOTO(st, sgd_checkpoint_list(dir, &steps, &count), done);
    if (elsewhere)
        MT_TRY_GOTO(st, steps_join(&steps, &count, elsewhere), done);
    st = mt_error(MT_ENOENT, 0, "load checkpoint: there is none that is valid");
    for (size_t i = 0; i < count; i++) {
        char      damaged[MT_NAME_BYTES_MAX] = "";
        mt_status why = checkpoint_read(dir, steps[i], elsewhere, out_checkpoint, damaged, life);
        if (why.code == 0 || why.code == MT_ENOMEM) {
            st = why;
            break;
        }
        report_add(report, steps[i], why, damaged);
    }
done:
    free(steps);
    close(dir);
    return st;
}

size_t sgd_checkpoint_steps(const char *folder, uint64_t *out_steps, size_t max)
{
    uint64_t *steps = NULL;
    size_t    count = 0;
    int       dir;
    if (sgd_file_open_dir(AT_FDCWD, folder, &dir).code != MT_OK)
        return 0;
    if (sgd_checkpoint_list(dir, &steps, &count).code != MT_OK)
        count = 0;
    count = count < max ? count : max;
    for (size_t i = 0; i < count; i++)
        out_steps[i] = steps[i];
    free(steps);
    close(dir);
    return count;
}

const struct sgd_tensor *sgd_checkpoint_find(const struct sgd_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        if (strcmp(checkpoint->tensors[i].name, name) == 0)
            return &checkpoint->tensors[i];
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - finding the newest checkpoint that is whole.
 *
 * Owns: nothing. Thread: any, one at a time per checkpoint.
 */
#include "sgd/save/private.h"

#include "sgd/ground/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mt_status checkpoint_read(int dir, uint64_t step, struct sgd_checkpoint *out_checkpoint, char *out_damaged,
                                 const struct sgd_beat *life)
{
    struct sgd_checkpoint checkpoint = {0};
    int                   fd;

    sgd_checkpoint_name(step, checkpoint.name);
    MT_TRY(sgd_file_open_dir(dir, checkpoint.name, &fd));
    mt_status st = sgd_checkpoint_file_read(fd, SGD_MODEL_FILE, SGD_MANIFEST_FILE, &checkpoint, out_damaged, life);
    if (st.code == 0 && checkpoint.meta.parts)
        st = sgd_checkpoint_parts_read(fd, &checkpoint, out_damaged, life);
    close(fd);
    if (st.code != 0)
        sgd_checkpoint_fini(&checkpoint);
    if (st.code == 0 && checkpoint.meta.step != step) {
        sgd_checkpoint_fini(&checkpoint);
        st = mt_error(MT_ECORRUPT, 0, "checkpoint: its manifest names another step");
    }
    if (st.code == 0)
        *out_checkpoint = checkpoint;
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
    return sgd_checkpoint_load_with(folder, out_checkpoint, report, &(struct sgd_beat){.beat = NULL});
}

mt_status sgd_checkpoint_load_with(const char *folder, struct sgd_checkpoint *out_checkpoint, struct sgd_checkpoint_report *report,
                                   const struct sgd_beat *life)
{
    uint64_t *steps = NULL;
    size_t    count = 0;
    int       dir;
    mt_status st;

    memset(report, 0, sizeof *report);
    MT_TRY(sgd_file_open_dir(AT_FDCWD, folder, &dir));
    MT_TRY_GOTO(st, sgd_checkpoint_list(dir, &steps, &count), done);
    st = mt_error(MT_ENOENT, 0, "load checkpoint: there is none that is valid");
    for (size_t i = 0; i < count; i++) {
        char      damaged[MT_NAME_BYTES_MAX] = "";
        mt_status why = checkpoint_read(dir, steps[i], out_checkpoint, damaged, life);
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

const struct sgd_tensor *sgd_checkpoint_find(const struct sgd_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        if (strcmp(checkpoint->tensors[i].name, name) == 0)
            return &checkpoint->tensors[i];
    return NULL;
}

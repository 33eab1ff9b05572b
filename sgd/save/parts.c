/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.c - checkpoints that several members write: each its part, one of them the rest; and reading them as one.
 *
 * A part is two files, and its manifest gets its name by a rename when both are on the disk: so who sees that name has the part.
 * The folder is the temporary one of the save, until the member with the rest renames it as any other checkpoint.
 *
 * Owns: nothing. Thread: one save at a time per member.
 */
#include "sgd/save/private.h"

#include "core/base/clock.h"
#include "sgd/ground/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 2 };

void sgd_checkpoint_temp_name(uint64_t generation, const struct sgd_checkpoint_part *part, char out[SGD_TEMP_NAME_SIZE])
{
    snprintf(out, SGD_TEMP_NAME_SIZE, ".tmp-%llu-%llu-of-%u-parts", (unsigned long long)generation, (unsigned long long)part->mark,
             part->parts);
}

static void part_name(uint32_t index, uint32_t parts, const char *end, char out[SGD_PART_NAME_SIZE])
{
    snprintf(out, SGD_PART_NAME_SIZE, SGD_PART_PREFIX "%u-of-%u.%s", index, parts, end);
}

mt_status sgd_checkpoint_piece(const char *name, uint64_t first, char out[MT_NAME_BYTES_MAX])
{
    int n = snprintf(out, MT_NAME_BYTES_MAX, "%s/%llu", name, (unsigned long long)first);
    return n >= 0 && n < MT_NAME_BYTES_MAX ? mt_ok() : mt_error(MT_EINVAL, 0, "save checkpoint: a parameter's name is too long");
}

/* ---- writing ---- */

static mt_status part_fill(int dir, const struct sgd_checkpoint_meta *meta, const struct sgd_checkpoint_part *part,
                           struct sgd_tensor *tensors, size_t count)
{
    char     file[SGD_PART_NAME_SIZE], manifest[SGD_PART_NAME_SIZE], temp[SGD_PART_NAME_SIZE];
    uint64_t checksum = 0;
    part_name(part->index, part->parts, "safetensors", file);
    part_name(part->index, part->parts, "json", manifest);
    part_name(part->index, part->parts, "tmp", temp);
    MT_TRY(sgd_checkpoint_file_write(dir, file, tensors, count, &checksum));
    MT_TRY(sgd_checkpoint_manifest_write(dir, temp, meta, checksum, tensors, count));
    return renameat(dir, temp, dir, manifest) == 0 ? mt_ok() : sgd_file_error(errno, "publish a part of a checkpoint");
}

/* So that nobody waits for it. Where not even this can be written, they wait for their limit. */
static void failure_tell(int dir, const struct sgd_checkpoint_part *part, mt_status st)
{
    char name[SGD_PART_NAME_SIZE];
    int  fd;
    part_name(part->index, part->parts, st.code == MT_EDISK_FULL ? "full" : "failed", name);
    if (sgd_file_create(dir, name, &fd).code == MT_OK)
        close(fd);
}

mt_status sgd_checkpoint_save_part(const char *folder, const struct sgd_checkpoint_meta *meta,
                                   const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count)
{
    char      name[SGD_TEMP_NAME_SIZE];
    int       dir, temp;
    mt_status st = mt_ok();
    MT_TRY(sgd_checkpoint_folder_open(folder, &dir));
    sgd_checkpoint_temp_name(meta->generation, part, name);
    if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST)
        st = sgd_file_error(errno, "make checkpoint folder");
    if (st.code == MT_OK)
        st = sgd_file_open_dir(dir, name, &temp);
    close(dir);
    MT_TRY(st);
    st = part_fill(temp, meta, part, tensors, count);
    if (st.code != MT_OK)
        failure_tell(temp, part, st);
    close(temp);
    return st;
}

/* ---- waiting ---- */

static bool is_there(int dir, uint32_t index, uint32_t parts, const char *end)
{
    char name[SGD_PART_NAME_SIZE];
    part_name(index, parts, end, name);
    return faccessat(dir, name, F_OK, 0) == 0;
}

/* Whether somebody has said that a part will not come, or it is too late for it. */
static mt_status wait_check(const struct sgd_checkpoint_part *part, int64_t limit)
{
    if (part->given_up && atomic_load(part->given_up))
        return mt_error(MT_ECANCELLED, 0, "save checkpoint: the group changed before all parts were written");
    if (mt_now_ns() > limit)
        return mt_error(MT_ETIMEDOUT, 0, "save checkpoint: a worker has not written its part in time");
    mt_sleep_ms(LOOK_MS);
    return mt_ok();
}

static mt_status part_wait(int dir, const struct sgd_checkpoint_part *part, uint32_t i, int64_t limit)
{
    while (!is_there(dir, i, part->parts, "json")) {
        if (is_there(dir, i, part->parts, "full"))
            return mt_error(MT_EDISK_FULL, ENOSPC, "save checkpoint: a worker could not write its part");
        if (is_there(dir, i, part->parts, "failed"))
            return mt_error(MT_ESYS, 0, "save checkpoint: a worker could not write its part");
        MT_TRY(wait_check(part, limit));
    }
    return mt_ok();
}

/* From the folder before: from where it is being written, or has its name already. The manifest says that the part is whole. */
static mt_status double_bring(int dir, const struct sgd_checkpoint_meta *meta, const struct sgd_checkpoint_part *part, uint32_t i,
                              int64_t limit)
{
    char temp[SGD_TEMP_NAME_SIZE], name[SGD_CHECKPOINT_NAME_SIZE], file[SGD_PART_NAME_SIZE], full[SGD_PART_NAME_SIZE],
        failed[SGD_PART_NAME_SIZE];
    sgd_checkpoint_temp_name(meta->generation, part, temp);
    sgd_checkpoint_name(meta->step, name);
    part_name(i, part->parts, "json", file);
    part_name(i, part->parts, "full", full);
    part_name(i, part->parts, "failed", failed);
    struct sgd_bring what = {.node = part->apart->doubles_node,
                             .names = {temp, name},
                             .file = file,
                             .dir = dir,
                             .refusals = {full, failed},
                             .given_up = part->given_up};
    mt_status        st;
    while ((st = part->apart->bring(part->apart->user, &what)).code == MT_ENOENT)
        MT_TRY(wait_check(part, limit));
    MT_TRY(st);
    part_name(i, part->parts, "safetensors", file);
    return part->apart->bring(part->apart->user, &what);
}

mt_status sgd_checkpoint_parts_wait(int dir, const struct sgd_checkpoint_meta *meta, const struct sgd_checkpoint_part *part)
{
    int64_t limit = mt_now_ns() + MT_CHECKPOINT_PARTS_MS * 1000000ll;
    if (part->apart && part->apart->lacks_node)
        return mt_error(MT_ENOENT, 0, "save checkpoint: a machine of this run has no such folder, and none can be made there");
    for (uint32_t i = 0; i < part->parts; i++)
        if (!part->apart || part->apart->here >> i & 1)
            MT_TRY(part_wait(dir, part, i, limit));
    for (uint32_t i = 0; i < part->parts && part->apart; i++)
        if (part->apart->doubles >> i & 1)
            MT_TRY(double_bring(dir, meta, part, i, limit));
    return mt_ok();
}

/* ---- reading ---- */

/* Tensors under way: each in a place of its own in `joined`, as long as the parameter that it belongs to. */
struct join {
    struct sgd_checkpoint *whole;
    size_t                 params;     /* tensors of the model's file */
    uint64_t               used, room; /* bytes of `joined` */
    uint64_t               filled;     /* bytes of the last tensor of `whole` */
};

static mt_status damaged(const struct sgd_tensor *tensor, char *out_damaged)
{
    memcpy(out_damaged, tensor->name, sizeof tensor->name);
    return mt_error(MT_ECORRUPT, 0, "checkpoint: parts of a tensor do not go together");
}

/* "optimizer.KIND.PARAMETER": the parameter. */
static const struct sgd_tensor *param_of(const struct join *j, const char *name)
{
    const char *dot = strncmp(name, "optimizer.", 10) == 0 ? strchr(name + 10, '.') : NULL;
    for (size_t i = 0; dot && i < j->params; i++)
        if (strcmp(j->whole->tensors[i].name, dot + 1) == 0)
            return &j->whole->tensors[i];
    return NULL;
}

static bool is_complete(const struct join *j)
{
    const struct sgd_tensor *last = &j->whole->tensors[j->whole->count - 1];
    return j->whole->count == j->params || j->filled == last->end - last->begin;
}

/* A tensor begins with this piece. */
static mt_status tensor_open(struct join *j, const struct sgd_tensor *piece, const char *name, char *out_damaged)
{
    const struct sgd_tensor *param = param_of(j, name);
    if (!param || !is_complete(j) || j->used + (param->end - param->begin) > j->room)
        return damaged(piece, out_damaged);
    size_t             index = (size_t)(param - j->whole->tensors);
    struct sgd_tensor *more = realloc(j->whole->tensors, (j->whole->count + 1) * sizeof *more);
    if (!more)
        return mt_error(MT_ENOMEM, 0, "load checkpoint");
    param = &more[index];
    j->whole->tensors = more;
    struct sgd_tensor *tensor = &more[j->whole->count++];
    *tensor = *param;
    memcpy(tensor->name, name, strlen(name) + 1);
    tensor->data = (char *)j->whole->joined + j->used;
    j->used += param->end - param->begin;
    j->filled = 0;
    return mt_ok();
}

static mt_status piece_add(struct join *j, const struct sgd_tensor *piece, char *out_damaged)
{
    char name[MT_NAME_BYTES_MAX], *slash, *end;
    memcpy(name, piece->name, sizeof name);
    slash = strrchr(name, '/');
    if (!slash || piece->ndim != 1)
        return damaged(piece, out_damaged);
    *slash = 0;
    uint64_t first = strtoull(slash + 1, &end, 10), size = piece->end - piece->begin;
    if (end == slash + 1 || *end || size == 0)
        return damaged(piece, out_damaged);
    if (first == 0)
        MT_TRY(tensor_open(j, piece, name, out_damaged));
    struct sgd_tensor *tensor = &j->whole->tensors[j->whole->count - 1];
    if (j->whole->count == j->params || strcmp(tensor->name, name) != 0 || tensor->dtype != piece->dtype ||
        first * sizeof(float) != j->filled || size > tensor->end - tensor->begin - j->filled)
        return damaged(piece, out_damaged);
    memcpy((char *)(uintptr_t)tensor->data + j->filled, piece->data, size);
    j->filled += size;
    return mt_ok();
}

/* Pieces of one kind at a time, part after part: that is the order in which they go together. */
static mt_status kinds_join(struct join *j, const struct sgd_checkpoint *parts, size_t count, char *out_damaged)
{
    size_t at[MT_GROUP_MEMBERS_MAX] = {0}, left = 0;
    for (size_t p = 0; p < count; p++)
        left += parts[p].count;
    while (left > 0) {
        char   kind[MT_NAME_BYTES_MAX] = "";
        size_t before = left;
        for (size_t p = 0; p < count; p++)
            for (; at[p] < parts[p].count; at[p]++, left--) {
                const struct sgd_tensor *piece = &parts[p].tensors[at[p]];
                const char              *dot = strncmp(piece->name, "optimizer.", 10) == 0 ? strchr(piece->name + 10, '.') : NULL;
                if (!dot)
                    return damaged(piece, out_damaged);
                size_t size = (size_t)(dot - piece->name) + 1;
                if (!kind[0])
                    memcpy(kind, piece->name, size);
                if (strncmp(kind, piece->name, size) != 0 || kind[size])
                    break;
                MT_TRY(piece_add(j, piece, out_damaged));
            }
        if (left == before)
            return mt_error(MT_ECORRUPT, 0, "checkpoint: parts of a tensor do not go together");
    }
    return is_complete(j) ? mt_ok() : mt_error(MT_ECORRUPT, 0, "checkpoint: a part of a tensor is not there");
}

static mt_status parts_join(struct sgd_checkpoint *checkpoint, const struct sgd_checkpoint *parts, size_t count, char *out_damaged)
{
    struct join j = {.whole = checkpoint, .params = checkpoint->count};
    for (size_t p = 0; p < count; p++)
        for (size_t i = 0; i < parts[p].count; i++)
            j.room += parts[p].tensors[i].end - parts[p].tensors[i].begin;
    checkpoint->joined = malloc(j.room + 1);
    return checkpoint->joined ? kinds_join(&j, parts, count, out_damaged) : mt_error(MT_ENOMEM, 0, "load checkpoint");
}

static mt_status part_read(const struct sgd_checkpoint_source *from, const struct sgd_checkpoint_meta *meta, uint32_t p,
                           struct sgd_checkpoint *out, char *out_damaged)
{
    char file[SGD_PART_NAME_SIZE], manifest[SGD_PART_NAME_SIZE];
    part_name(p, (uint32_t)meta->parts, "safetensors", file);
    part_name(p, (uint32_t)meta->parts, "json", manifest);
    mt_status st = sgd_checkpoint_file_get(from, file, manifest, out, out_damaged);
    if (st.code == MT_OK && out->meta.step != meta->step)
        st = mt_error(MT_ENOENT, 0, "");
    if ((st.code == MT_ENOENT || st.code == MT_ECORRUPT) && !out_damaged[0])
        snprintf(out_damaged, MT_NAME_BYTES_MAX, "part %u of %u%s%s", p, (uint32_t)meta->parts,
                 from->elsewhere && from->elsewhere->said[0] ? "; " : "", from->elsewhere ? from->elsewhere->said : "");
    return st.code == MT_ENOENT ? mt_error(MT_ECORRUPT, 0, "checkpoint: a part of it is not there, or of another step") : st;
}

mt_status sgd_checkpoint_parts_read(const struct sgd_checkpoint_source *from, struct sgd_checkpoint *checkpoint, char *out_damaged)
{
    size_t                 count = (size_t)checkpoint->meta.parts;
    struct sgd_checkpoint *parts = calloc(count, sizeof *parts);
    mt_status              st = parts ? mt_ok() : mt_error(MT_ENOMEM, 0, "load checkpoint");
    for (size_t p = 0; p < count && st.code == MT_OK; p++)
        st = part_read(from, &checkpoint->meta, (uint32_t)p, &parts[p], out_damaged);
    if (st.code == MT_OK)
        st = parts_join(checkpoint, parts, count, out_damaged);
    for (size_t p = 0; parts && p < count; p++)
        sgd_checkpoint_fini(&parts[p]);
    free(parts);
    return st;
}

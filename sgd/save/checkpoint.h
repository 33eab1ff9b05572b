/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - the state of a run on disk: whole or absent, whatever fails while it is written.
 *
 *   <folder>/step-00000000000000000640/    a checkpoint: visible only when whole
 *       model.safetensors                  parameters and optimizer state, by name
 *       manifest.json                      written last: progress, and a checksum of every part
 *       optimizer-2-of-4.safetensors       where the optimizer's state was sharded: one for each member, with runs of elements
 *       optimizer-2-of-4.json              of its tensors ("NAME/FIRST ELEMENT"); and its own checksums
 *   <folder>/.tmp-<generation>-.../        being written or removed: never read; a later save clears it away
 *
 * What is loaded does not depend on how many workers there were. Saving: files and folder are synced under the
 * temporary name, renamed, and the parent is synced. Loading: the newest checkpoint of which every checksum
 * holds; the ones that were passed over are reported with the reason. One saver per folder at a time. Every
 * call blocks on the disk.
 *
 * Where the members of a sharded state do not see one folder (apart), each folder has the model and the manifest, the parts of
 * those who see it, and a double of those of the folder before it. So each part stands in two, and two folders are both whole. A
 * load brings what is missing or damaged here from elsewhere.
 */
#ifndef SGD_CHECKPOINT_H
#define SGD_CHECKPOINT_H

#include "sgd/save/safetensors.h"

#include <stdbool.h>

enum { SGD_CHECKPOINT_NAME_SIZE = 32, SGD_KERNELS_NAME_SIZE = 64, SGD_PROGRESS_BYTES = 256 };

struct sgd_checkpoint_meta {
    uint64_t step;                           /* completed */
    uint64_t epoch;                          /* in which the next sample lies */
    uint64_t samples;                        /* consumed: the sampler's whole state */
    uint64_t seed;                           /* the sampler's */
    uint64_t data;                           /* mark of the data's (data.h); 0: not known */
    uint64_t generation;                     /* of the group that saved */
    char     kernels[SGD_KERNELS_NAME_SIZE]; /* what computed it: another may differ in the last bits */
    bool     has_score;
    double   score;                        /* of the last validation */
    uint64_t parts;                        /* beside the model's file; 0: none */
    size_t   progress_size;                /* at most SGD_PROGRESS_BYTES */
    uint8_t  progress[SGD_PROGRESS_BYTES]; /* the trainer's; opaque here */
};

/* Which checkpoints a save leaves there: the newest up to its own step, and those with the best scores. */
struct sgd_keep {
    uint32_t newest; /* 0: MT_CHECKPOINTS_KEPT */
    uint32_t best;   /* 0: none for their score */
    bool     score_max;
    uint64_t hold_from; /* those of this step and later ones stay; 0: no further ones */
};

struct sgd_checkpoint {
    char                       name[SGD_CHECKPOINT_NAME_SIZE];
    struct sgd_checkpoint_meta meta;
    struct sgd_tensor         *tensors; /* data points into `bytes` */
    size_t                     count;
    void                      *bytes, *joined; /* `joined`: tensors that came in parts */
};

/* Which checkpoints a load passed over, and why. */
struct sgd_checkpoint_report {
    uint32_t skipped_count; /* may exceed what is listed */
    struct {
        char      name[SGD_CHECKPOINT_NAME_SIZE];
        mt_status why;
        char      tensor[MT_NAME_BYTES_MAX]; /* the damaged one, or which part is missing and where it was sought; "": neither */
    } skipped[MT_CHECKPOINTS_NAMED_MAX];
    char silent[64]; /* machines that were asked for theirs and did not answer; "": all did */
};

/* A number that says which folder this is: the same on all machines that see it, another for each folder, and for a copy of one.
 * Makes the folder, and its parent, where they are missing. Never 0. EDISK_FULL, ESYS, ENOENT: no parent of the parent. */
MT_MUST_USE mt_status sgd_checkpoint_folder_mark(const char *folder, uint64_t *out_mark);

/* Saves into `folder` (made if its parent exists), then removes those of the checkpoints up to this step that `keep`
 * does not name. Tensors' offsets are set. Replaces a checkpoint of the same step, unless a later generation wrote that:
 * EFENCED. EDISK_FULL, ESYS: nothing is visible that was not there before; except when only the last sync of the parent
 * failed: then the new checkpoint is there, whole, but may not survive a power cut. */
MT_MUST_USE mt_status sgd_checkpoint_save(const char *folder, const struct sgd_keep *keep, const struct sgd_checkpoint_meta *meta,
                                          struct sgd_tensor *tensors, size_t count);

/* A file of a checkpoint that is to come from another machine's folder of the same name. */
struct sgd_bring {
    uint32_t            node;     /* of the cluster */
    const char         *names[2]; /* folders below that folder in which it may stand, in the order in which they are looked at */
    const char         *file;     /* it comes whole or not at all, into this open folder: */
    int                 dir;
    const char         *refusals[2]; /* files beside it that say that it will never come: EDISK_FULL, ESYS. NULL: there are none */
    const _Atomic bool *given_up;    /* it becomes true: ECANCELLED. NULL: it does not */
};
/* ENOENT: it is not there (yet); what the way there or the disk says. */
typedef mt_status sgd_bring_file(void *user, const struct sgd_bring *what);

/* Where the members of a sharded state see several folders: what one member's has. */
struct sgd_checkpoint_apart {
    uint32_t        folders;    /* 0, 1: all see one */
    uint32_t        lacks_node; /* a machine that can keep none, so no checkpoint is whole; 0: none */
    bool            keeps;      /* this member writes the rest into its folder; one of those who see it does */
    uint64_t        here;       /* bit r: rank r's part is written into this folder */
    uint64_t        doubles;    /* is brought here from the folder before, which this machine sees: */
    uint32_t        doubles_node;
    uint64_t        settled; /* the newest step of which all these folders are known to have what they are to have; 0: none. It and
                                later ones stay: a folder may be further than another */
    sgd_bring_file *bring;
    void           *user;
};

static inline bool sgd_checkpoint_is_apart(const struct sgd_checkpoint_apart *apart)
{
    return apart->folders > 1 || apart->lacks_node;
}

/* Who keeps what, by the mark of each member's folder (0: it can keep none) and its machine; the same in all members. `bring` is
 * the caller's. */
void sgd_checkpoint_apart_choose(const uint64_t *marks, const uint32_t *nodes, uint32_t members, uint32_t rank,
                                 struct sgd_checkpoint_apart *out);

/* One of several that save together. */
struct sgd_checkpoint_part {
    uint32_t                           index, parts;
    uint64_t                           mark;     /* the same in all, another for each save of a generation */
    const _Atomic bool                *given_up; /* it becomes true: the others' parts will not come. NULL: they will */
    const struct sgd_checkpoint_apart *apart;    /* NULL: all see one folder */
};

/* Writes a member's part: tensors of which each is a run of elements, named sgd_checkpoint_piece. Errors of sgd_checkpoint_save;
 * the others of this save are told. */
MT_MUST_USE mt_status sgd_checkpoint_save_part(const char *folder, const struct sgd_checkpoint_meta *meta,
                                               const struct sgd_checkpoint_part *part, struct sgd_tensor *tensors, size_t count);
/* As sgd_checkpoint_save, with the parts of all (apart: with those that this folder has): waits until each is there. ECANCELLED:
 * given up; ETIMEDOUT: after MT_CHECKPOINT_PARTS_MS; EDISK_FULL, ESYS: another could not write its part; ENOENT: a machine can keep
 * no checkpoints; what the way to another machine says. */
MT_MUST_USE mt_status sgd_checkpoint_save_with_parts(const char *folder, const struct sgd_keep *keep,
                                                     const struct sgd_checkpoint_meta *meta, const struct sgd_checkpoint_part *part,
                                                     struct sgd_tensor *tensors, size_t count);
/* "NAME/FIRST". EINVAL: too long. */
MT_MUST_USE mt_status sgd_checkpoint_piece(const char *name, uint64_t first, char out[MT_NAME_BYTES_MAX]);

/* Loads the newest valid checkpoint; end with sgd_checkpoint_fini. ENOENT where there is none; ENOMEM.
 * `report` is set in any case. */
MT_MUST_USE mt_status sgd_checkpoint_load(const char *folder, struct sgd_checkpoint *out_checkpoint,
                                          struct sgd_checkpoint_report *report);

/* The same, with a sign of life after each piece that was read (MT_CHECKPOINT_PIECE_BYTES of a file, or a tensor compared). */
struct sgd_beat {
    void (*beat)(void *user); /* NULL: nobody looks */
    void *user;
};
/* Other machines' folders of the same name, for what is missing or damaged here: it is brought, and stays. */
struct sgd_elsewhere {
    const uint64_t *steps; /* of the checkpoints in these folders, whole or not, in any order */
    size_t          steps_count;
    const uint32_t *nodes; /* that have any */
    uint32_t        nodes_count;
    const char     *said; /* who was asked and did not answer; "": all did */
    sgd_bring_file *bring;
    void           *user;
};
/* `elsewhere` NULL: this folder is all there is. */
MT_MUST_USE mt_status sgd_checkpoint_load_with(const char *folder, struct sgd_checkpoint *out_checkpoint,
                                               struct sgd_checkpoint_report *report, const struct sgd_beat *life,
                                               const struct sgd_elsewhere *elsewhere);
/* The steps of a folder that have one, whole or not, newest first: up to `max`; returns how many. */
size_t sgd_checkpoint_steps(const char *folder, uint64_t *out_steps, size_t max);

/* The tensor of that name, or NULL. */
const struct sgd_tensor *sgd_checkpoint_find(const struct sgd_checkpoint *checkpoint, const char *name);

void sgd_checkpoint_fini(struct sgd_checkpoint *checkpoint);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * apart.h - checkpoints where the machines of a run do not see one folder.
 *
 *   task "manta_sgd_apart_steps" (folder)                            -> the steps of which a machine has something
 *   task "manta_sgd_apart_piece" (folder, two names, a file, at)     -> sgd_apart_piece, and up to MT_TRAIN_PIECE_BYTES of it
 *
 * Both run on the machine that is asked, in a process of the run's program, and read only what its user may read. They reserve
 * nothing, so they run also where the workers have all CPUs. A node that is being drained runs neither.
 *
 * Thread: any; calls block as said.
 */
#ifndef SGD_APART_H
#define SGD_APART_H

#include "sgd/save/checkpoint.h"
#include "sgd/sum/group.h"
#include "sgd/train/trainer.h"

/* What one member does about checkpoints in one generation. */
struct sgd_keepers {
    bool                        loads, saves; /* of a sharded state rank 0 loads, and all write their parts */
    struct sgd_checkpoint_apart apart;        /* of a sharded state, without `bring` */
};

/* Collective, of a group over several nodes; blocks as sgd_group_exchange. All members tell which folder their machine sees, and
 * make it where it is missing. Of a whole state the first member of a second machine saves as rank 0 does, and of all who see one
 * folder the lowest rank loads. */
MT_MUST_USE mt_status sgd_keepers_agree(struct sgd_group *group, const char *folder, bool is_sharded, uint32_t node,
                                        struct sgd_keepers *out);

/* sgd_trainer_resume; with `asks_others`, by what all other machines of the cluster have of it. These are asked first, which blocks
 * up to MT_TRAIN_APART_MS; who does not answer is named where something is missing. */
MT_MUST_USE mt_status sgd_apart_resume(struct sgd_trainer *trainer, const char *folder, bool asks_others,
                                       struct sgd_checkpoint_report *report);

/* sgd_bring_file; `user` is the folder's name. Blocks up to MT_TRAIN_APART_MS for each piece. ENOENT, ECANCELLED, EDISK_FULL, ESYS,
 * ETIMEDOUT, and what the call's way to that machine says. */
mt_status sgd_apart_bring(void *user, const struct sgd_bring *what);

#endif

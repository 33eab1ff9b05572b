/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.h - every bound of the training layer, by name.
 */
#ifndef SGD_LIMITS_H
#define SGD_LIMITS_H

#include "kernels/kernels.h"

enum {
    /* groups */
    SGD_MEMBERS_MAX = 64,
    SGD_VRANKS_MAX = K_TREE_INPUTS_MAX,
    SGD_WAIT_MS_DEFAULT = 60 * 1000, /* the backstop of a collective; a death is told by an abort, at once */
    SGD_SLEEP_SLICE_MS = 50,         /* a sleeper looks again this often, should a waker have died before its wake */
    SGD_SPIN_NS_MIN = 5 * 1000,      /* bounds of the adaptive poll before a sleep */
    SGD_SPIN_NS_MAX = 100 * 1000,

    /* models, tensors, files */
    SGD_NAME_SIZE = 128, /* a tensor's name and its end */
    SGD_DIMS_MAX = 8,
    SGD_TENSORS_MAX = 16384,
    SGD_LAYERS_MAX = 16,
    SGD_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, /* the format's own limit */
    SGD_MANIFEST_SIZE_MAX = 8 * 1024 * 1024,
    SGD_IO_CHUNK = 1024 * 1024,
    SGD_PATH_SIZE = 4096,

    /* checkpoints */
    SGD_CHECKPOINT_KEEP_DEFAULT = 2,
    SGD_CHECKPOINTS_MAX = 4096, /* in one folder */
    SGD_SKIPPED_MAX = 16,       /* named in a report; more are counted */
};

#define SGD_DATA_BYTES_MAX (UINT64_C(8) << 30) /* of one data file, unpacked */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - the mapped files of a run's data, for nodes that lack them.
 *
 *   actor "manta_sgd_files" (paths), on the driver's node, named after the run's group
 *       names ()           -> bytes   what the operator calls them, each with its end
 *       sum   (which)      -> sgd_file_sum   of the whole file, made at the first question
 *       piece (which, at)  -> bytes   of it, up to MT_TRAIN_PIECE_BYTES
 *
 * A worker asks before its operator opens. What is there under its own name is taken as it is; what is not comes by its SHA-256
 * into the node's folder of such files (../data/kept.h), once for all workers and runs.
 */
#ifndef SGD_FILES_H
#define SGD_FILES_H

#include "core/base/status.h"
#include "sgd/data/kept.h"
#include "sgd/operator/operator.h"

#include <manta.h>

#define SGD_FILES_TYPE "manta_sgd_files"

/* The driver's: of what its operator has mapped. NULL: there is nothing, or no memory. */
manta_actor *sgd_files_offer(uint64_t group, const manta_sgd *op);

/* A worker's. Blocks up to MT_TRAIN_DATA_MS for each file. An error is told with the file's name in `text`. */
MT_MUST_USE mt_status sgd_files_take(uint64_t group, struct sgd_moved *out, char text[SGD_OPERATOR_TEXT]);

#endif

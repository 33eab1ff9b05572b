/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.h - the text that makes a checkpoint valid. Private to checkpoints.
 *
 *   {"format":"manta-checkpoint-4","parts":0,"data":"<mark>","step":640,...,"header":"<xxh3>","tensors":{"<name>":"<xxh3>",...}}
 *   xxh3 <of the line above, with its end>
 */
#ifndef SGD_MANIFEST_H
#define SGD_MANIFEST_H

#include "core/base/buf.h"
#include "sgd/save/checkpoint.h"

/* What the manifest says beside the meta data; sums has `count` elements, in order of the tensors' bytes. */
struct sgd_manifest {
    struct sgd_checkpoint_meta meta;
    uint64_t                   header_checksum;
    uint64_t                  *sums;
};

/* Appends the manifest's text. ENOMEM. */
MT_MUST_USE mt_status sgd_manifest_write(mt_buf *text, const struct sgd_checkpoint_meta *meta, uint64_t header_checksum,
                                         const struct sgd_tensor *tensors, size_t count);

/* Reads `text`; the tensors' names must be those of the file, in its order, and the checksums go to
 * sums[count] (allocated by the caller). ECORRUPT. */
MT_MUST_USE mt_status sgd_manifest_read(const char *text, size_t size, const struct sgd_tensor *tensors, size_t count,
                                        struct sgd_manifest *manifest);

/* Only the meta data, of a manifest whose own checksum holds. ECORRUPT. */
MT_MUST_USE mt_status sgd_manifest_read_meta(const char *text, size_t size, struct sgd_checkpoint_meta *out_meta);

#endif

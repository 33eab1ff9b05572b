/* SPDX-License-Identifier: Apache-2.0
 *
 * data.h - a data set in memory: records of one fixed size, each with a label.
 *
 * The memory is either the set's own (loaded from files) or borrowed (a view of an object that another
 * process put), so that a replacement worker need not unpack the files again.
 */
#ifndef SGD_DATA_H
#define SGD_DATA_H

#include "core/base/limits/text.h"
#include "core/base/limits/train.h"
#include "core/base/status.h"
#include "sgd/ground/cast.h"

#include <stdbool.h>

#define SGD_FASHION_MNIST_DIR "/usr/share/datasets/fashion-mnist"

struct sgd_dataset {
    const uint8_t     *records; /* count x record_size */
    const uint8_t     *labels;  /* count; NULL: there are none */
    uint64_t           count;
    uint32_t           record_size;
    uint32_t           classes;                      /* one more than the largest label; 0: no labels */
    struct sgd_element element;                      /* what a record consists of; all 0: bytes, or nobody says */
    void              *owned_records, *owned_labels; /* NULL where borrowed */
    void              *mapped;                       /* the file, where records are in one */
    size_t             mapped_size;
};

/* Records picked from a set: what a model sees. Borrowed for the call. */
struct sgd_batch {
    const uint8_t  *records; /* count x record_size */
    const uint8_t  *labels;  /* count; NULL: there are none */
    uint32_t        count;
    uint32_t        record_size;
    const uint64_t *indices; /* of the records in their set; NULL: not told */
    uint64_t        sample;  /* position of the first in the run */
    uint64_t        key;     /* record i's random numbers (dropout) come from key + i; 0: an evaluation, which draws none */
};

/* Loads Fashion-MNIST (or any set in the same four files) from `folder`; NULL: where Debian's package
 * dataset-fashion-mnist puts it. Blocks (0.3 s). ENOENT, naming the package, where a file is missing;
 * ECORRUPT where one is truncated, damaged, or images and labels do not belong together. The caller ends it
 * with sgd_dataset_fini. */
MT_MUST_USE mt_status sgd_dataset_load_fashion(const char *folder, bool is_train, struct sgd_dataset *out_set);

/* Maps a file of records of one size, without labels, after `skip` bytes. It may be larger than memory. ENOENT; ECORRUPT
 * where it does not hold whole records, at least one; EINVAL: record_size or skip; ESYS. */
MT_MUST_USE mt_status sgd_dataset_map(const char *path, uint64_t record_size, uint64_t skip, struct sgd_dataset *out_set);

/* A set over memory that the caller keeps until sgd_dataset_fini; labels may be NULL. EINVAL where it is empty. */
MT_MUST_USE mt_status sgd_dataset_borrow(const uint8_t *records, const uint8_t *labels, uint64_t count, uint32_t record_size,
                                         struct sgd_dataset *out_set);

/* Tells one set from another: by its size, and by the bytes of 64 records of it, spread over all. Reads these from the disk. */
uint64_t sgd_dataset_mark(const struct sgd_dataset *set);

void sgd_dataset_fini(struct sgd_dataset *set);

/* Copies the records at `indices` (each below count) into the caller's buffers; `labels` is not touched
 * where there are none. */
void sgd_dataset_gather(const struct sgd_dataset *set, const uint64_t *indices, uint32_t count, uint8_t *records, uint8_t *labels);

#endif

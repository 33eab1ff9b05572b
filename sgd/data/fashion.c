/* SPDX-License-Identifier: Apache-2.0
 *
 * fashion.c - Fashion-MNIST as Debian has it, as a data set. Owns: what it loads, until sgd_dataset_fini. Thread: any.
 */
#include "sgd/data/data.h"

#include "sgd/data/idx.h"

#include <stdio.h>
#include <stdlib.h>

static mt_status idx_read(const char *folder, const char *name, struct sgd_idx *out_idx)
{
    char path[MT_PATH_BYTES_MAX];
    int  n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return mt_error(MT_EINVAL, 0, "data set: path too long");
    mt_status st = sgd_idx_read(path, out_idx);
    if (st.code == MT_ENOENT)
        return mt_error(MT_ENOENT, st.sys,
                        "Fashion-MNIST not found: install the Debian package dataset-fashion-mnist or name its folder");
    return st;
}

static mt_status fashion_join(struct sgd_idx *images, struct sgd_idx *labels, struct sgd_dataset *out_set)
{
    if (images->ndim != 3 || labels->ndim != 1 || images->dims[0] != labels->dims[0])
        return mt_error(MT_ECORRUPT, 0, "data set: images and labels do not belong together");
    MT_TRY(sgd_dataset_borrow(images->data, labels->data, images->dims[0], images->dims[1] * images->dims[2], out_set));
    out_set->owned_records = images->data;
    out_set->owned_labels = labels->data;
    return mt_ok();
}

mt_status sgd_dataset_load_fashion(const char *folder, bool is_train, struct sgd_dataset *out_set)
{
    const char    *images_name = is_train ? "train-images-idx3-ubyte.gz" : "t10k-images-idx3-ubyte.gz";
    const char    *labels_name = is_train ? "train-labels-idx1-ubyte.gz" : "t10k-labels-idx1-ubyte.gz";
    struct sgd_idx images = {0}, labels = {0};
    mt_status      st;

    if (!folder)
        folder = SGD_FASHION_MNIST_DIR;
    MT_TRY_GOTO(st, idx_read(folder, images_name, &images), err);
    MT_TRY_GOTO(st, idx_read(folder, labels_name, &labels), err);
    MT_TRY_GOTO(st, fashion_join(&images, &labels, out_set), err);
    return mt_ok();

err:
    free(images.data);
    free(labels.data);
    return st;
}

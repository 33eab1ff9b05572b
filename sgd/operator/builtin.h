/* SPDX-License-Identifier: Apache-2.0
 *
 * builtin.h - what the operators of builtin.c that classify records ask their data for. Thread: the operator's.
 */
#ifndef SGD_BUILTIN_H
#define SGD_BUILTIN_H

#include "sgd/ground/cast.h"
#include "sgd/manta_sgd.h"

/* Data, as a model needs to know it. */
struct sgd_inputs {
    manta_sgd_data_shape info;  /* of the data to train with */
    uint32_t             count; /* elements of a record */
    struct sgd_cast      cast;  /* of each to what the network sees */
};

/* Names the data that the configuration describes: records of numbers with labels (manta_sgd.h, manta_sgd_fit). */
manta_status sgd_builtin_classes(manta_sgd *t, struct sgd_inputs *out);

#endif

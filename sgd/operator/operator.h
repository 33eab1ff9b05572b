/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.h - a user's operator in one process: what it named, and the model that the trainer sees in it.
 *
 *   sgd_operator_open --setup--> parameters, data, metrics are known
 *       '--> ->model (model.h): gradient and evaluate call train_batch and validate_batch
 *
 * The driver opens it to learn the names, a worker to train. Data that must be unpacked is loaded once, by the driver, and
 * lent to the workers as one object (struct sgd_lent); files of records each process maps by itself.
 *
 * Of a worker with several devices each has an operator; parameters are the trainer's, data is device 0's.
 * Thread: one at a time per operator.
 */
#ifndef SGD_OPERATOR_H
#define SGD_OPERATOR_H

#include "sgd/manta_sgd.h"
#include "sgd/model/model.h"
#include "sgd/train/trainer.h"

enum { SGD_OPERATOR_TEXT = 384, SGD_METRIC_NAMES = SGD_VALUES, SGD_MAPPED_MAX = 4, SGD_MAPPED_BYTES = 1024 };

/* Mapped files that are not on this node under their own names, and where they are. */
struct sgd_moved {
    uint32_t count;
    char     from[SGD_MAPPED_MAX][SGD_MAPPED_BYTES], to[SGD_MAPPED_MAX][SGD_MAPPED_BYTES];
};

/* A pair of the user's pointers, and where in the flat buffer they lead. */
struct sgd_binding {
    float **value, **gradient;
    size_t  offset, count;
};

struct sgd_source {
    bool               is_there, in_order;
    struct sgd_dataset set;
    bool               is_lent; /* it was unpacked, and is lent to the workers */
};

/* The object of lent data: this, then for each source its records and labels. */
struct sgd_lent {
    uint64_t count[2]; /* 0: this source is not lent */
    uint32_t record_size[2];
    uint32_t has_labels[2];
};

struct manta_sgd {
    const manta_sgd_operator *op;
    void                     *self;
    struct sgd_model          model;
    struct sgd_binding       *bindings;                 /* as many as model.params.items */
    struct sgd_source         sources[2];               /* to train with, to validate with */
    char                      asked[SGD_OPERATOR_TEXT]; /* names that were asked for, with a blank before and after each */
    bool                      is_strict;
    const char               *config; /* "NAME=value" with their ends, then an empty one; borrowed */
    const void               *lent;   /* a worker's view of lent data, borrowed; NULL: this is the driver */
    size_t                    lent_size;
    const struct sgd_moved   *moved;                  /* borrowed; NULL: none is */
    char                     *mapped[SGD_MAPPED_MAX]; /* a driver's, of a run over several nodes: files that it has mapped */
    uint32_t                  mapped_count;
    bool                      shares_cpus;                       /* sgd_operator_shares */
    bool                      is_in_setup, is_driver, is_spread; /* is_spread: workers may be on other nodes than the driver */
    uint32_t                  device, devices, devices_max;      /* which of how many; what setup allows, 0: any */
    double                    gpus;                              /* that each worker reserves by default */
    manta_sgd                *first; /* device 0's, which owns the data that all use; NULL: this is it */
    uint64_t                  seed;
    uint32_t                  micro_batch;
    const uint64_t           *step; /* the trainer's; NULL: none yet */
    char                      names[SGD_METRIC_NAMES][MT_NAME_BYTES_MAX];
    uint32_t                  names_count;
    float                    *metrics; /* of the batch under way */
    uint32_t                  batch_count;
    struct sgd_chunk         *chunks; /* of manta_sgd_alloc */
    manta_status              failed; /* the first error that was told, and its text */
    char                      text[SGD_OPERATOR_TEXT];
};

struct sgd_operator_opts {
    const char             *name, *config;
    uint64_t                seed;
    uint32_t                micro_batch;
    bool                    is_driver, is_spread, is_strict; /* is_spread: a driver's, workers may be on other nodes */
    const void             *lent;
    size_t                  lent_size;
    const struct sgd_moved *moved;           /* as in struct manta_sgd */
    uint32_t                device, devices; /* 0 devices: 1 */
    manta_sgd              *first;           /* of a device after the first: device 0's operator, which is closed after this one */
};

/* Makes the operator and runs its setup. On failure `text` says why: EINVAL (there is none of that name, or what it named
 * does not go together, or that device 0's setup named something else), or what setup gave. */
MT_MUST_USE mt_status sgd_operator_open(const struct sgd_operator_opts *opts, char text[SGD_OPERATOR_TEXT], manta_sgd **out);
void                  sgd_operator_close(manta_sgd *t);
/* An instance for each device of opts->devices, and the models of all but the first. Also after an error they are given back. */
MT_MUST_USE mt_status sgd_operators_open(struct sgd_operator_opts *opts, char text[SGD_OPERATOR_TEXT], manta_sgd ***out,
                                         struct sgd_model ***out_models);
void                  sgd_operators_close(manta_sgd **of, struct sgd_model **models, uint32_t devices);

/* Index of a metric among values (0: loss, 1: accuracy, then the operator's own); -1: none of that name. */
int sgd_operator_metric(const manta_sgd *t, const char *name);

/* Zeroed; its functions may name it until it is freed. NULL: no memory. */
manta_sgd *sgd_operator_new(void);
void       sgd_operator_free(manta_sgd *t);
/* Where a public call enters. NULL becomes an operator of nothing, outside of setup, which nothing is written to: its first error,
 * EINVAL, is there. So does one that is over, or never was one: EHANDLE. */
const manta_sgd *sgd_operator_of(const manta_sgd *t);

/* Notes an error with a text, and gives it. */
manta_status sgd_operator_fault(manta_sgd *t, mt_status st, const char *of);

/* For models of ours, in setup: parameters and gradients are in this device's memory, and so are the pointers that
 * train_batch and validate_batch find; init's are the host's. */
void sgd_operator_device(manta_sgd *t, const struct k_ops *ops, int number);
/* For models of ours, in setup: nothing of the process but what hangs on `self` is touched, so that a worker which has reserved no
 * CPUs may compute with a thread for each that the node has for it. */
void sgd_operator_shares(manta_sgd *t);
/* The version of the parameters (model.h). */
uint64_t sgd_operator_version(const manta_sgd *t);

/* data.c: gives back the memory of data that others train with; counts and sizes stay known. */
void sgd_operator_data_drop(manta_sgd *t);

#endif

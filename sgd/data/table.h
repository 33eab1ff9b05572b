/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - tables of numbers as data sets: CSV files, and arrays of NumPy (npy).
 *
 *   CSV   a line a record: numbers with commas between them, as float32; one column may be the label, a whole number that is
 *         read as such. A first line that does not begin with a number is a head, with a name for each column. All of it is
 *         read into memory.
 *   npy   an array of shape (records, ...), C order, little-endian: mapped, so it may be larger than memory. Labels come from
 *         a second array (records) of whole numbers.
 *
 * Files are not trusted. An error says in `where` at which line and column, or at which record and byte; and in *out_of which
 * of the texts that the caller gave it is about.
 */
#ifndef SGD_TABLE_H
#define SGD_TABLE_H

#include "sgd/data/data.h"

enum { SGD_WHERE_BYTES = 128 };

struct sgd_csv {
    const char *path;
    int64_t     label;      /* the column of the label, counted from 1; 0: there is none; -1: the last one */
    const char *label_name; /* in place of `label`: its name in the head, else its number as text; NULL */
    uint32_t    classes;    /* labels must be less; 0: less than 256 */
};

/* ENOENT; ECORRUPT: a line with another number of columns, what is no finite number, a label that is none; EINVAL: no such
 * column for the label, or nothing beside it; ENOMEM; ESYS. */
MT_MUST_USE mt_status sgd_csv_load(const struct sgd_csv *csv, const char **out_of, char where[SGD_WHERE_BYTES],
                                   struct sgd_dataset *out_set);

/* `labels`: path of their array, or NULL. ENOENT; ECORRUPT: no such array, cut short, another number of labels than of records,
 * or one that is out of range; EUNSUPPORTED: elements that are no plain numbers, or Fortran order; ENOMEM; ESYS. */
MT_MUST_USE mt_status sgd_npy_map(const char *path, const char *labels, uint32_t classes, const char **out_of,
                                  char where[SGD_WHERE_BYTES], struct sgd_dataset *out_set);

#endif

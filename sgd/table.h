/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - tables of numbers as data sets: CSV files, and arrays of NumPy (npy).
 *
 *   CSV   a line a record: numbers with commas between them, as float32; one column may be the label. A first line that does
 *         not begin with a number is a head. All of it is read into memory.
 *   npy   an array of shape (records, ...), C order, little-endian: mapped, so it may be larger than memory. Labels come from
 *         a second array (records) of whole numbers.
 *
 * Files are not trusted. An error says in `where` at which line, or at which byte.
 */
#ifndef SGD_TABLE_H
#define SGD_TABLE_H

#include "sgd/data.h"

enum { SGD_WHERE_BYTES = 48 };

/* `label`: the column of the label, counted from 1; 0: there is none; -1: the last one. `classes`: labels must be less; 0: less
 * than 256. ENOENT; ECORRUPT: a line with another number of columns, what is no number, a label that is none; EINVAL: `label`;
 * ENOMEM; ESYS. */
MT_MUST_USE mt_status sgd_csv_load(const char *path, int64_t label, uint32_t classes, char where[SGD_WHERE_BYTES],
                                   struct sgd_dataset *out_set);

/* `labels`: path of their array, or NULL. *out_file: which of the two an error is in. ENOENT; ECORRUPT: no such array, cut short,
 * another number of labels than of records, or one that is out of range; EUNSUPPORTED: elements that are no plain numbers, or
 * Fortran order; ENOMEM; ESYS. */
MT_MUST_USE mt_status sgd_npy_map(const char *path, const char *labels, uint32_t classes, const char **out_file,
                                  char where[SGD_WHERE_BYTES], struct sgd_dataset *out_set);

#endif

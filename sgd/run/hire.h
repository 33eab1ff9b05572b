/* SPDX-License-Identifier: Apache-2.0
 *
 * hire.h - on which of a run's nodes a worker is hired: where the fewest are, of those that have room; and who waits elsewhere is
 * hired there.
 *
 * Thread: the one that trains. Nothing blocks.
 */
#ifndef SGD_HIRE_H
#define SGD_HIRE_H

#include "sgd/run/fit.h"

/* The open place that is crowded least, and its index; NULL: one is being opened, and may be the better one. */
struct sgd_place *sgd_hire_place(struct sgd_fit *fit, int *out_index);
/* Notes who has a process on which place; before the nodes are looked at. */
void sgd_hire_count(struct sgd_fit *fit);
/* Dismisses who has waited for CPUs on one place while another, or a node that is none of the run's, has room: whoever is hired
 * next goes there. */
void sgd_hire_move(struct sgd_fit *fit);

#endif

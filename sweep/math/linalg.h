/* SPDX-License-Identifier: Apache-2.0
 *
 * linalg.h - small dense matrices, row after row: what CMA-ES needs. Pure functions; any thread.
 *
 * Plain loops in a fixed order, so that a sweep's draws do not depend on a BLAS and its threads.
 */
#ifndef SWP_LINALG_H
#define SWP_LINALG_H

#include <stdbool.h>
#include <stddef.h>

/* a = b diag(values) b^T of a symmetric n x n matrix, by Jacobi's rotations; destroys a. Column k of b belongs to values[k]. */
void swp_eigen(double *a, size_t n, double *b, double *values);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * linalg.c - Jacobi's eigenvalues and Cholesky's factors. Owns nothing. Thread: any.
 */
#include "sweep/math/linalg.h"

#include <math.h>
#include <string.h>

enum { SWEEPS_MAX = 64 };

/* Makes a[p][q] zero by a rotation of rows and columns p and q. */
static void rotate(double *a, size_t n, double *b, size_t p, size_t q)
{
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (size_t k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
    }
    for (size_t k = 0; k < n; k++) {
        double x = b[k * n + p], y = b[k * n + q];
        b[k * n + p] = c * x - s * y;
        b[k * n + q] = s * x + c * y;
    }
}

void swp_eigen(double *a, size_t n, double *b, double *values)
{
    memset(b, 0, n * n * sizeof *b);
    for (size_t i = 0; i < n; i++)
        b[i * n + i] = 1;
    for (int sweep = 0; sweep < SWEEPS_MAX; sweep++) {
        double off = 0, diagonal = 0;
        for (size_t p = 0; p < n; p++) {
            diagonal += a[p * n + p] * a[p * n + p];
            for (size_t q = p + 1; q < n; q++)
                off += a[p * n + q] * a[p * n + q];
        }
        if (!(off > 1e-30 * diagonal))
            break;
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (a[p * n + q] != 0)
                    rotate(a, n, b, p, q);
    }
    for (size_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * byhand.h - the same training as a program of one's own would have it: two forked processes, one shared buffer.
 */
#ifndef BENCH_TRAIN_BYHAND_H
#define BENCH_TRAIN_BYHAND_H

/* Samples per second of the perceptron (784-256-10, steps of `batch` in 8 shares) over Fashion-MNIST with `workers` processes
 * and a hand-written loop: the same kernels, barriers of pthreads, no faults, no checkpoints. 0: it could not be measured. */
double train_byhand(int workers, int batch, int epochs);

#endif

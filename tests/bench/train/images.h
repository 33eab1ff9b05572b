/* SPDX-License-Identifier: Apache-2.0
 *
 * images.h - a data set of made-up images, in the form of Fashion-MNIST.
 */
#ifndef BENCH_TRAIN_IMAGES_H
#define BENCH_TRAIN_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_IMAGE_SIDE = 28 };

/* Into a folder that it makes; the same bytes each time. */
bool bench_images_write(const char *folder, uint32_t records, uint32_t tests);

#endif

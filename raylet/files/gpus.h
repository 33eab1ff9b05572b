/* SPDX-License-Identifier: Apache-2.0
 *
 * gpus.h - how many GPUs this machine has, as far as its files tell. Thread: any; nothing is kept.
 */
#ifndef RLT_GPUS_H
#define RLT_GPUS_H

#include <stdint.h>

/* How many NVIDIA GPUs have a device file (nvidia0, ...) in `folder`; of those, as many as `visible` (CUDA_VISIBLE_DEVICES; NULL:
 * all) names; MT_RLT_GPUS_MAX at most. No driver is asked: that takes up to a second, and a library that daemons don't load. */
uint32_t rlt_gpus_found(const char *folder, const char *visible);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.h - 64-bit XXH3 of bytes: finds accidents, not forgeries.
 */
#ifndef SGD_CHECKSUM_H
#define SGD_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t sgd_checksum(const void *data, size_t size);

#endif

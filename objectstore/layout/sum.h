/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.h - 64-bit XXH3 of bytes: finds accidents, not forgeries. What guards values on the wire, on disk and in memory.
 */
#ifndef OS_SUM_H
#define OS_SUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t os_sum(const void *data, size_t size);

#endif

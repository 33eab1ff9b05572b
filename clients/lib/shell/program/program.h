/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h - the files of this very program, told to the raylet. Thread: the one that calls manta_init.
 */
#ifndef LIB_PROGRAM_H
#define LIB_PROGRAM_H

#include "core/base/status.h"

/* Before CTL_HELLO of a driver. Blocks as long as the raylet's socket is full. ECONN, ENOMEM, ESYS. */
MT_MUST_USE mt_status lib_program_tell(int socket);

#endif

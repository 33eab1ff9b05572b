/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - what a lease brings to its worker's process. Thread: any, under the owner lock.
 */
#ifndef LIB_LEASE_H
#define LIB_LEASE_H

#include "clients/lib/shell/state/state.h"

/* A lease has come to this worker: what the process shows of it. */
void lib_lease_begin(const struct ctl_grant *grant);
/* This process is a strict actor's from now on. Blocks until the head says that it may begin; ends the process where it
 * can't be stopped. Under the lock all the while: nothing else is to run. */
void lib_strict_begin(void);

#endif

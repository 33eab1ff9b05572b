/* SPDX-License-Identifier: Apache-2.0
 *
 * victim.h - a task that is to be killed. Thread: the driver's main one.
 */
#ifndef TESTS_VICTIM_H
#define TESTS_VICTIM_H

#include "tests/integration/harness.h"

/* It tells its zygote's pid in word 2 of a new board, then its own in word 0, and waits. It is not tried again. */
manta_ref *victim_call(struct test_board **out_board);

#endif

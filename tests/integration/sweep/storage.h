/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.h - the folder of a test's sweeps: one for each process, made at the begin of a case and removed at its end. A static
 * part of the one file of a program that includes it. Thread: the driver's main one.
 */
#ifndef TESTS_SWEEP_STORAGE_H
#define TESTS_SWEEP_STORAGE_H

#include "tests/integration/harness.h"

#include <stdio.h>
#include <stdlib.h>

static char storage[64];

static const char *storage_make(void)
{
    snprintf(storage, sizeof storage, "/tmp/manta-sweep-XXXXXX");
    CHECK(mkdtemp(storage));
    return storage;
}

static void storage_clear(void)
{
    char output[256];
    CHECK_EQ(test_program((char *[]){"rm", "-rf", storage, NULL}, output, sizeof output), 0);
}

#endif

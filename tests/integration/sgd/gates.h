/* SPDX-License-Identifier: Apache-2.0
 *
 * gates.h - workers that go on when the driver says so, in order, and each once: a file counts how many may, and how many have.
 */
#ifndef TESTS_INTEGRATION_SGD_GATES_H
#define TESTS_INTEGRATION_SGD_GATES_H

/* Opens so many more. The file is there from then on. */
void gates_open(const char *path, int count);
/* Waits until one is open that nobody has gone through; which one, from 0. */
int gates_pass(const char *path);

#endif

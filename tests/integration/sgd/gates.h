/* SPDX-License-Identifier: Apache-2.0
 *
 * gates.h - workers that go on when the driver says so, in order, and each once: a file counts how many may, and how many have.
 */
#ifndef TESTS_INTEGRATION_SGD_GATES_H
#define TESTS_INTEGRATION_SGD_GATES_H

#include <manta_sgd.h>

#include <stddef.h>
#include <stdint.h>

/* Opens so many more. The file is there from then on. */
void gates_open(const char *path, int count);
/* Waits until one is open that nobody has gone through; which one, from 0. */
int gates_pass(const char *path);

/* ---- blows in the middle of a run, which may be over before a driver that gets no CPU deals them ---- */

/* One of an operator's config: so many blows in so many steps; the driver opens a gate for each. */
void gates_blows(char *out, size_t size, const char *path, int blows, int64_t steps);
/* For each batch: waits until as many blows have fallen as there should have by this step, the last one before the run's last part.
 * Nothing where the config has none. With "lingers=1", for a blow that waits for workers who join between two steps, no step stands
 * still, and each takes long. */
void gates_hold(manta_sgd *t);

#endif

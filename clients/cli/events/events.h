/* SPDX-License-Identifier: Apache-2.0
 *
 * events.h - files that TensorBoard reads, for trainings and sweeps.
 *
 * Owns: nothing; the file is the caller's. Thread: any.
 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A new file in the folder, that readers read after those which are there. NULL: errno says why. */
FILE *train_events_open(const char *folder);
/* What any file of the folder says of this step and later ones counts no more. False: it could not be written. */
bool train_events_from(FILE *file, int64_t step);
/* One scalar. False: it could not be written. */
bool train_events_scalar(FILE *file, double wall_s, int64_t step, const char *tag, double value);
/* Bytes for one of TensorBoard's plug-ins. False: they could not be written, or are more than it takes (errno EMSGSIZE). */
bool train_events_plugin(FILE *file, double wall_s, const char *tag, const char *plugin, const void *content, size_t size);

#endif

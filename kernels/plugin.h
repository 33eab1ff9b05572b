/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - finding and opening the parts that link what not every machine has: CUDA (cuda/door.c), NCCL (sgd's door).
 */
#ifndef K_PLUGIN_H
#define K_PLUGIN_H

#include "core/base/status.h"

#include <limits.h>

enum { K_PLUGIN_TEXT = 256 };

/* The file that the environment's `variable` names, else `name` beside the library or program that this code is in, else in
 * the lib folder next to it. EUNSUPPORTED: `text` says where it was looked for. */
MT_MUST_USE mt_status k_plugin_find(const char *name, const char *variable, char path[PATH_MAX], char text[K_PLUGIN_TEXT]);
/* Loads it for good, and gives the address of its one symbol. EUNSUPPORTED: `text` says why not. */
MT_MUST_USE mt_status k_plugin_open(const char *path, const char *symbol, const void **out, char text[K_PLUGIN_TEXT]);

#endif

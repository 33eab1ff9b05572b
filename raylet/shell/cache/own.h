/* SPDX-License-Identifier: Apache-2.0
 *
 * own.h - files of a program that this node's own installation has, by name and size, where only root and the raylet's user can
 * write them. Private to cache/.
 */
#ifndef RLT_CACHE_OWN_H
#define RLT_CACHE_OWN_H

#include "raylet/core/core.h"

/* The folder of the installation in which all files of the list stand at their places, the program beside this raylet. */
bool sh_own_tree(const struct peer_program_file *files, uint32_t count, char *out, size_t size);

/* Makes, at the library's place in `folder`, a link to that of this installation. False: it has none. */
bool sh_own_link(const char *folder, const struct peer_program_file *file);

#endif

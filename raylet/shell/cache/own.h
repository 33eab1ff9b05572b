/* SPDX-License-Identifier: Apache-2.0
 *
 * own.h - libraries of a program that this node's own installation has. Private to cache/.
 */
#ifndef RLT_CACHE_OWN_H
#define RLT_CACHE_OWN_H

#include "raylet/core/core.h"

/* Makes, at the file's place in `folder`, a link to the same file of this installation. False: it has none with these bytes, or
 * others may write it. Reads the file to sum it up, where one of that name and size is there. */
bool sh_own_link(const char *folder, const struct peer_program_file *file);

#endif

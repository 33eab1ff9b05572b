/* SPDX-License-Identifier: Apache-2.0
 *
 * shell.h - the real world around the core: connections, memory, processes, threads.
 *
 * One loop thread runs the core and all rooms; the switch thread (conn/switcher.c) runs the switch. What happens becomes an
 * event in the queue (ground/ground.h), what the core says is an action that one of the rooms carries out.
 */
#ifndef RLT_SHELL_H
#define RLT_SHELL_H

#include "raylet/shell/ground/options.h"

/* Runs the raylet until it is told to leave; cleans up. `fds_before`: the limit of descriptors that its children get. Once a
 * process, main thread. */
MT_MUST_USE mt_status sh_run(const struct rlt_options *options, uint32_t fds_before);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * backup.h - the head's state to a client, while the head goes on.
 */
#ifndef HEAD_SHELL_BACKUP_H
#define HEAD_SHELL_BACKUP_H

#include "scheduler/head/shell/shell.h"

struct rpc_stream_handler *head_shell_backup(struct rpc_service *service, struct rpc_stream *stream);

#endif

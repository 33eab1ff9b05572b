/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h - messages on the unix socket to the raylet, and memory that their descriptors bring.
 *
 * Owns: nothing. Thread: any.
 */
#ifndef LIB_SOCKET_H
#define LIB_SOCKET_H

#include "core/base/id.h"
#include "core/base/status.h"
#include "core/wire/ctl.h"

mt_status lib_socket_open(const char *path, int *out_fd);
/* MT_EAGAIN where there is none. */
mt_status lib_socket_receive(int fd, void *bytes, size_t room, size_t *out_size, int *fds, int *out_fd_count);
/* `fd_to_pass`: -1: none; it stays the caller's. */
mt_status lib_socket_send(int fd, uint16_t kind, mt_id id, const void *payload, size_t size, const void *more, size_t more_size,
                          int fd_to_pass);
/* Why this process of a job, which has run nothing yet, leaves: some in a row, and the raylet starts no more. */
void  lib_socket_give_up(int fd, int32_t code, const char *text);
void *lib_map(int fd, uint64_t at_byte, size_t size, bool writable); /* closes fd; NULL on failure */

#endif

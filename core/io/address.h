/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - numeric addresses, for the sockets of this folder.
 */
#ifndef MT_IO_ADDRESS_H
#define MT_IO_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* A numeric IPv4 (which is then what stands in `out`) or IPv6 address, or "localhost", which is 127.0.0.1. False: none of them. */
bool io_address_read(const char *host, uint16_t port, struct sockaddr_in6 *out, socklen_t *out_size);

#endif

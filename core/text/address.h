/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - addresses of the network as text: "10.0.0.1:6380", "[fd00::1]:6380". Thread: any; nothing is kept.
 */
#ifndef MT_BASE_ADDRESS_H
#define MT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Cuts at the last colon: the host without brackets goes to `out_host`, *out_port points at what stands behind the colon. False:
 * there is no colon, or no host, or it does not fit. */
bool mt_address_split(const char *address, char *out_host, size_t size, const char **out_port);

/* All addresses of a machine at once ("0.0.0.0", "::"): good to bind, but nobody can be told to dial it. */
bool mt_address_is_any(const char *host);

#endif

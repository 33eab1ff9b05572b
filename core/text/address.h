/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - addresses of the network as text: "10.0.0.1:6380", "[fd00::1]:6380". Thread: any; nothing is kept.
 */
#ifndef MT_BASE_ADDRESS_H
#define MT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cuts at the last colon: the host without brackets goes to `out_host`, *out_port points at what stands behind the colon. False:
 * there is no colon, or no host, or it does not fit. */
bool mt_address_split(const char *address, char *out_host, size_t size, const char **out_port);

/* All addresses of a machine at once ("0.0.0.0", "::"): good to bind, but nobody can be told to dial it. */
bool mt_address_is_any(const char *host);

/* Of "HOST:PORT,HOST:PORT,...": how many there are, and number `index` of them, from 0. False: there is none of that number, or it
 * does not fit. */
size_t mt_address_count(const char *list);
bool   mt_address_at(const char *list, size_t index, char *out, size_t size);
/* The number of that address in the list, or SIZE_MAX. */
size_t mt_address_find(const char *list, const char *address);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * lookup.h - the addresses of a name, within a limit: the system's resolver has none that a caller could set.
 *
 * Thread: any. A lookup that was given up goes on in a thread of its own until the resolver lets go of it; there are at most
 * RDS_LOOKUPS_MAX of those in a process.
 */
#ifndef REDIS_LOOKUP_H
#define REDIS_LOOKUP_H

#include "core/base/status.h"

#include <netdb.h>

enum { RDS_LOOKUPS_MAX = 8 };

/* For a stream to host:port; *out by freeaddrinfo. A number is no name, and takes no time. ENOENT: the name leads nowhere;
 * ETIMEDOUT: nobody said so in time, or too many lookups have not ended yet; ENOMEM, ESYS. Blocks at most `limit_ms`. */
MT_MUST_USE mt_status rds_lookup(const char *host, const char *port, int limit_ms, struct addrinfo **out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * private.h - what tls.c and issue.c share.
 */
#ifndef MT_IO_TLS_PRIVATE_H
#define MT_IO_TLS_PRIVATE_H

#include "core/io/tls/tls.h"

enum { IO_TLS_CLUSTER_SIZE = 64 }; /* a label of a DNS name, its end included */

/* "head.CLUSTER.manta" */
void io_tls_name(const char *cluster, enum io_tls_role role, char out[IO_TLS_NAME_SIZE]);

#endif

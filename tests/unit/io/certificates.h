/* SPDX-License-Identifier: Apache-2.0
 *
 * certificates.h - a node's certificate of a cluster, and one of another authority's that says the same: for tests that speak TLS.
 */
#ifndef TEST_IO_CERTIFICATES_H
#define TEST_IO_CERTIFICATES_H

#include "core/io/tls/tls.h"

extern struct io_tls *node_tls, *rogue_tls; /* NULL outside of a group with this setup and teardown: tests speak in clear */

/* Setup and teardown of a group of cmocka: made in a private folder, which is gone afterwards. */
int certificates_begin(void **state);
int certificates_end(void **state);

#endif

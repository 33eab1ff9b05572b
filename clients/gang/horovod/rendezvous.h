/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.h - the key-value space by which ranks of Horovod find each other, and the HTTP by which they ask for it: bytes in,
 * an answer out. As horovodrun's own server (horovod/runner/http/http_server.py) has it for the client in Horovod's library
 * (horovod/common/gloo/http_store.cc):
 *
 *   PUT    /SECRET:PORT/SCOPE/KEY   200: the value is kept, in the place of an earlier one
 *   GET    likewise                 200 and the value; 404: not there yet, and the rank asks again
 *   DELETE likewise                 200: the rank has met the others of that scope, and its keys go
 *
 *   SCOPE: global, local_HOST, cross_N; each also with _process_set_hash_X behind.  KEY: a rank of that scope, or rank_N
 *   SCOPE: worker_addresses         KEY: HOST:N
 *
 * Horovod's client sends no word of its own that could prove who it is. But it puts the server's address into the URL as it was
 * told it; so what it is told is "ADDRESS:PORT/SECRET", and each path begins with the secret.
 *
 * Refused: another secret (403), what no rank of this gang would ask for (400, 405, 411), what is too much (413, 431, 507).
 * Pure; one thread at a time.
 */
#ifndef GNG_RENDEZVOUS_H
#define GNG_RENDEZVOUS_H

#include "core/base/buf.h"
#include "core/base/limits/gang.h"

#include <stdbool.h>

struct gng_value {
    struct gng_value *next; /* of its bucket */
    mt_buf            bytes;
    char              name[]; /* "SCOPE/KEY" */
};

enum { GNG_RENDEZVOUS_BUCKETS = 4096 };

struct gng_rendezvous {
    int               size;       /* ranks of the gang */
    char              prefix[64]; /* of each path: "/SECRET:PORT/" */
    struct gng_value *buckets[GNG_RENDEZVOUS_BUCKETS];
    size_t            count, bytes; /* values, and what they take together */
};

/* One request, on a connection of its own. A zeroed one is new. */
struct gng_request {
    mt_buf in, out;
    size_t head;     /* bytes of `in` up to the body; 0: not all of them have come */
    size_t body;     /* bytes that follow them */
    bool   is_known; /* it has shown the secret */
    bool   is_done;  /* `out` is the whole answer, and nothing more is read */
};

void gng_rendezvous_init(struct gng_rendezvous *v, int size, mt_view secret, int port);
void gng_rendezvous_fini(struct gng_rendezvous *v);
/* Bytes of a request. ENOMEM; what is wrong with them is an answer. */
MT_MUST_USE mt_status gng_request_take(struct gng_rendezvous *v, struct gng_request *r, mt_view bytes);
void                  gng_request_fini(struct gng_request *r);

#endif

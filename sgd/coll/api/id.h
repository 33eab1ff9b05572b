/* SPDX-License-Identifier: Apache-2.0
 *
 * id.h - what stands in a manta_coll_id. It travels between processes that have one release of the library.
 */
#ifndef SGD_COLL_ID_H
#define SGD_COLL_ID_H

#include "sgd/coll/shm/local.h"
#include "sgd/coll/shm/shm.h"
#include "sgd/coll/tcp/socket.h"
#include "sgd/ground/fail.h"
#include "sgd/manta_collective.h"

enum { COLL_ID_MAGIC = 0x326c6f63 };

struct coll_id {
    uint32_t             magic, node; /* of the creator */
    uint64_t             group;       /* random: no two are alike */
    uint64_t             region;      /* number of the shared memory */
    struct coll_place    place;       /* is_local: where it is instead */
    struct coll_shm_plan plan;
    uint32_t             generation, members, wait_limit_ms, is_tcp, is_local;
    char                 name[COLL_NAME_BYTES];
    unsigned char        secret[COLL_SECRET_BYTES]; /* of the group, for connections between its members */
};
static_assert(sizeof(struct coll_id) <= sizeof(manta_coll_id), "travels as plain bytes");

/* EINVAL: these bytes are no group's. */
manta_status coll_id_read(const manta_coll_id *bytes, struct coll_id *out, manta_error *e);

#endif

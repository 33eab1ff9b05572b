/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - memory for a group of one user's processes on one machine, which need no cluster and have no job in common.
 *
 * It is a memfd. Whoever wants it opens the creator's descriptor below /proc, which the kernel allows to processes that could
 * trace the creator: those of its own user. So what says where it is need not be secret, and nothing is left over in a folder.
 * Whoever changes that word on its way leads to another group of the same user at most: the name has the group's number.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef SGD_COLL_LOCAL_H
#define SGD_COLL_LOCAL_H

#include "sgd/coll/coll.h"

struct coll_place {
    uint64_t machine; /* this boot of it, and the numbering of its processes */
    uint32_t pid, fd;
};

struct coll_local {
    void  *data; /* NULL: none */
    size_t size;
    int    fd;
};

/* Zeroed memory. ENOMEM, ESYS. Given back with coll_local_close. */
MT_MUST_USE mt_status coll_local_new(uint64_t group, size_t size, struct coll_local *out, struct coll_place *out_place);
/* The same memory in another process, once it is known to be that group's and this user's. EINVAL (another machine), EAUTH (another
 * user's, or no memory of that group), EFENCED (the creator has gone), ENOMEM, ESYS; `text` says more. */
MT_MUST_USE mt_status coll_local_open(const struct coll_place *place, uint64_t group, size_t size, struct coll_local *out,
                                      char text[COLL_TEXT_BYTES]);
/* Zeroed, or closed before: nothing. */
void coll_local_close(struct coll_local *local);

#endif

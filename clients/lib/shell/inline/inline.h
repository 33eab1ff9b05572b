/* SPDX-License-Identifier: Apache-2.0
 *
 * inline.h - MANTA_INLINE=1: what a raylet would answer, answered in the driver. What runs the tasks is here/.
 *
 * Thread: any, under the owner lock.
 */
#ifndef LIB_INLINE_H
#define LIB_INLINE_H

#include "clients/lib/shell/state/state.h"

#include <pthread.h>

struct inline_actor;
struct inline_region {
    int    fd;
    size_t size;
};

struct lib_inline {
    pthread_mutex_t turn;  /* recursive: a task may call tasks. Taken without the owner lock */
    uint32_t        depth; /* functions that run, one inside the other */
    uint32_t        segments;
    MT_VEC(struct inline_actor *) actors; /* here/'s */
    MT_VEC(struct inline_region) regions; /* number - 1 */
};

/* What the halves want done, as far as it means something without a raylet. */
void lib_inline_act(struct own_out *out);
/* A request, answered at once. */
manta_status lib_inline_call(struct lib_request *r, uint16_t kind, const void *payload, size_t size, manta_error *e);
bool         lib_inline_may_name(const char *name, struct own_failure *f); /* EEXIST */

#endif

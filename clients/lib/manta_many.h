/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_many.h - many values at a time: got together, brought to this node before they are read; and news of nodes, which are
 * waited for among them. Part of manta.h.
 *
 * One manta_get after the other waits for a round trip each where the values are on other nodes. Those of these calls come
 * together: as many as there are in one message, and many messages on their way.
 */
#ifndef MANTA_MANY_H
#define MANTA_MANY_H

#include "manta.h" /* IWYU pragma: keep */

#ifdef __cplusplus
extern "C" {
#endif

/* manta_get of many: out[i] becomes the view of refs[i], each to be released with manta_release. All or none: with the first error,
 * in their order, all of out is zero. Blocks as manta_get does, timeout_ms for all together; any thread. The refs stay the
 * caller's. EINVAL, EHANDLE, ENOMEM, and what manta_get tells. */
MANTA_API manta_status manta_get_many(manta_ref *const *refs, size_t count, int64_t timeout_ms, manta_view *out, manta_error *e);

/* Begins to bring values of other nodes to this one, and does not block; any thread. One that is not ready comes when it is. A
 * manta_get of it soon after finds it here, or waits for what is on its way; a failure is told there. What nobody gets goes
 * again, as other copies do, and so does what the store has no room for. Of a process 65,536 values at a time; what is more comes
 * when it is read. The refs stay the caller's, and may be freed at once. EINVAL, EHANDLE, ENOMEM. */
MANTA_API manta_status manta_fetch(manta_ref *const *refs, size_t count, manta_error *e);

typedef struct manta_wait_opts {
    bool     fetch; /* ready is what is on this node, or failed: values of others are brought here, as by manta_fetch */
    uint64_t reserved[4];
} manta_wait_opts;
/* manta_wait with options; opts may be NULL. */
MANTA_API int manta_wait_with(manta_ref *const *refs, size_t count, size_t want, int64_t timeout_ms, const manta_wait_opts *opts,
                              unsigned char *ready, manta_error *e);

enum {
    MANTA_NEWS_NODES = 0, /* who there is: a node comes, goes, is silent, is to leave, or has other resources or labels */
    MANTA_NEWS_FREE = 1   /* that, or what is free on one of them */
};
/* A reference that is ready once manta_nodes, called after this, would answer otherwise; so there is nothing to poll for. Wait for
 * it among others (manta_wait), then free it and begin again: this call first, then manta_nodes. Whatever changes is in that list,
 * or makes the reference ready. It may be ready for what changed just before this call, too. Its value is empty; of a raylet of an
 * older release it fails at once. MANTA_NEWS_FREE comes with each lease of this node: who acts on it bounds how often. The caller
 * frees it; freed early, nothing is left over. Does not block; any thread. NULL: *e says why: EINVAL (what), ENOMEM, and as
 * manta_nodes. With MANTA_INLINE=1 it is never ready. */
MANTA_API manta_ref *manta_nodes_news(int what, manta_error *e);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * segments.h - the segments that this process has mapped: taken over, given back, their free memory returned.
 *
 * Owns: the mappings. Thread: any, under the owner lock, but for lib_store_warm. Nothing here waits.
 */
#ifndef LIB_SEGMENTS_H
#define LIB_SEGMENTS_H

#include "clients/lib/shell/state/state.h"

/* The mappings of one segment. What this process writes is mapped twice, and views point into the read-only one. The second
 * costs one mmap per segment, address space, and page tables for what is read through it. */
struct lib_segment_memory {
    void       *data;
    const void *view; /* data itself where another process writes */
    const void *generations;
};

/* Takes both descriptors. False: nothing is mapped. */
bool lib_segment_map_both(const int fds[2], uint64_t size, bool is_own, struct lib_segment_memory *out);
void lib_segment_unmap(const struct lib_segment_memory *m, uint64_t size);
/* It could not be taken over: one that was granted goes back to the raylet. */
void lib_segment_refuse(const struct ctl_segment *segment, bool is_own);
void lib_segment_asked(uint32_t segment); /* CTL_SEGMENT_ASK */
/* What a sealed buffer's pointer would still write is mapped read-only as far as that costs little: 64 KiB are 3 us, a GiB is
 * 20 ms, twice. */
void lib_store_freeze(struct os_place place, void *data, size_t size);
/* Makes the pages of a fresh place in one go. Without the lock: it takes 0.3 s for a GiB. */
void lib_store_warm(const struct os_place *place, void *data);
/* Gives memory back that has been free for a while, a piece at a time. */
void lib_store_trim(uint64_t now_ns);
void lib_store_unpin(const struct lane_ref *ref);
/* The last ref of a value of ours went. Only the one who wrote it may reuse the place by itself, and only if nobody
 * else ever heard of it. */
void lib_free_place(struct own *own, const struct lane_ref *place, bool escaped);
void lib_space_back(const struct ctl_space *space);

#endif

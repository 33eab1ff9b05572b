/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - the store's tables: what the files of the server half share.
 */
#ifndef OS_TABLE_H
#define OS_TABLE_H

#include "core/ds/map.h"
#include "objectstore/server/store.h"

enum {
    STORE_BUCKETS = 1024,
    STORE_SEGMENT_STEP = 1024 * 1024, /* segments are a multiple of this many bytes */
};

/* One process that may pin and write. */
struct os_process {
    struct os_process *next;
    uint64_t           process;
    uint32_t           job;
    uint32_t           segments; /* granted to it and not given back: the next one is larger */
    struct os_pins    *pins;
};

struct os_segment {
    struct os_segment *next_in_bucket;
    struct os_segment *next; /* in order of number */
    uint32_t           number;
    uint32_t           job;
    uint64_t           writer; /* 0: orphan or warm */
    uint64_t           size;
    uint32_t           objects;       /* of an orphan: published and not dead */
    uint32_t           dead;          /* places on the dead lists */
    int64_t            idle_since_ms; /* of a warm one */
    uint64_t           withheld;      /* bytes of taken places whose pages are gone */
    bool               is_shared;     /* a process of another job may read it */
    bool               is_over;       /* its job has ended: closed when nothing lives in it, and nobody reads */
    bool               is_thinned;    /* something was taken from it since its writer was last asked for it */
    bool               is_spent;      /* not to be granted again (os_store_segment_back) */
    struct os_backing  backing;
};

/* A dead object whose place has not been handed back. */
struct os_dead {
    uint64_t place; /* os_place_word */
    bool     pinned;
    bool     is_taken; /* its value is on disk */
};
struct os_dead_list {
    struct os_dead *data;
    size_t          count, capacity;
};

struct os_copy {
    struct os_copy *next;
    struct lane_ref ref;
    bool            is_kept; /* no copy any more: the value, whose former place goes */
};

struct os_store {
    struct os_store_config config;
    struct os_process     *processes;
    struct os_segment     *bucket[STORE_BUCKETS];
    struct os_segment     *first, *last;
    struct os_copy        *copies[STORE_BUCKETS];
    uint32_t               next_number;
    uint32_t               segment_count, copy_count, process_count;
    uint64_t               bytes_reserved;
    int64_t                now_ms;                        /* of the last tick */
    struct os_dead_list    fresh;                         /* dead since the last sweep */
    struct os_dead_list    pinned;                        /* were pinned at the last look */
    bool                   look_again;                    /* a process went: the next sweep looks at `pinned` too */
    struct os_dead_list    withheld;                      /* taken, not pinned, pages gone: not yet handed back */
    uint64_t               bytes_withheld, bytes_allowed; /* allowed: as the last want saw it */
    mt_map                 victims;                       /* mt_map_key(place word) -> 1: on their way to disk */
    uint32_t               hand;                          /* segment where the search for victims goes on */
    uint64_t               dead_total, back_total, full_total, taken_total;
};

struct os_process *os_store_find_process(const struct os_store *store, uint64_t process);
struct os_segment *os_store_find_segment(const struct os_store *store, uint32_t number);
static inline bool os_segment_is_warm(const struct os_segment *segment)
{
    return segment->writer == 0 && segment->objects == 0 && segment->dead == 0;
}
/* Starts the time of a segment that may just have become warm. */
static inline void os_segment_check_warm(const struct os_store *store, struct os_segment *segment)
{
    if (os_segment_is_warm(segment))
        segment->idle_since_ms = store->now_ms;
}
/* Forgets the segment and says OS_CLOSE. */
mt_status os_store_close(struct os_store *store, struct os_segment *segment, struct os_actions *actions);
/* Which place of a segment's the generation of `offset` covers. */
static inline shm_u32 *os_generation_at(const struct os_segment *segment, uint64_t offset)
{
    return (shm_u32 *)segment->backing.generations + offset / OS_UNIT;
}
/* The word of the first chunk of a slab or run, if it says something that is possible. Returns its chunks, else 0. */
uint32_t os_chunk_says(const struct os_segment *segment, uint32_t chunk, uint32_t *size_class);
/* Copies the header at `offset` if a whole, living object is there. The writer may be changing it, or be hostile. */
bool os_object_read(const struct os_segment *segment, uint64_t offset, struct os_object *out);
/* The object at `offset` is dead, or on disk. Nothing has changed on failure. */
mt_status os_object_kill(struct os_store *store, struct os_segment *segment, uint64_t offset, bool is_taken);
/* Bytes of the run that begins at `offset`; 0: a place in a slab, or nonsense. */
uint64_t os_run_bytes(const struct os_segment *segment, uint64_t offset);
/* Puts what nobody pins of the taken places aside, its pages gone. The lists have room. */
void os_store_withhold(struct os_store *store, struct os_segment *segment, uint64_t offset, uint64_t bytes,
                       struct os_actions *actions);
/* Hands withheld places back while there is room. */
mt_status os_store_unwithhold(struct os_store *store, struct os_actions *actions);
mt_status os_dead_reserve(struct os_dead_list *list, size_t extra);
/* Room for `extra` actions more, so that what follows can't fail. */
mt_status os_actions_reserve(struct os_actions *actions, size_t extra);

/* What a walk over a segment looks for. */
struct os_walk {
    uint64_t owner;      /* not 0: its objects die */
    uint32_t owner_node; /* not 0: the objects of all owners there die */
    uint32_t found;      /* objects that stay */
    uint32_t runs;       /* places of large values, whatever stands there */
    bool     is_over;    /* the segment's job has ended: what does not outlive it dies ... */
    bool     is_look;    /* ... or is only told from what does, by `found` */
    uint32_t node;       /* of this store, with is_over */
};
/* Reads every object header of a segment whose writer may be dead, alive or hostile. ENOMEM: call again. */
mt_status os_segment_walk(struct os_store *store, struct os_segment *segment, struct os_walk *walk);

/* Closes what its job has left, where nothing lives or is read any more. */
mt_status os_store_close_over(struct os_store *store, struct os_actions *actions);
/* Whether the place holds a copy of a value of another node, or of the disk. */
bool os_store_is_copy(const struct os_store *store, mt_id id, uint64_t place);

void os_copy_remove(struct os_store *store, mt_id id);
/* What stood there is dead, or on disk. */
void os_copy_place_gone(struct os_store *store, mt_id id, uint64_t place);
/* Copies of dead owners are forgotten; their places are found by the walk. */
void os_store_copies_forget(struct os_store *store, uint64_t owner, uint32_t owner_node, uint32_t job);

#endif

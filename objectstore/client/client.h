/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h - a process's side of the object store: allocate, publish, pin. Memory operations only.
 *
 * No call here blocks, makes a system call (thaw aside) or sends a message; the caller maps segments and talks to the raylet:
 *
 *   alloc says EAGAIN        -> ask CTL_SEGMENT_WANT with the size it names, map the answer, add_own, alloc again
 *   pin says ENOENT          -> ask CTL_SEGMENT_MAP, map the answer read-only, add_reader, pin again
 *   CTL_SPACE_BACK came      -> space_back
 *   an object's last ref went: free where no ref ever left this process, else CTL_OBJECT_DEAD to the raylet
 *   every OS_TRIM_ROUND_MS   -> trim until it finds nothing, then trim_round
 *
 * Thread: the calls on one client are not made at the same time (libmanta: under the owner lock). Writing a value into
 * its place, os_client_publish, and reading a pinned value need no lock.
 */
#ifndef OS_CLIENT_H
#define OS_CLIENT_H

#include "core/base/limits/object.h"
#include "core/lane/record.h"
#include "objectstore/layout/layout.h"

enum {
    OS_BUCKETS = 256,                      /* of the hash table of segments */
    OS_TRIM_ROUND_MS = MT_SEGMENT_WARM_MS, /* free pages are given back after one to two rounds */
};

/* Where an object is, or is being written. */
struct os_place {
    uint32_t segment;
    uint32_t generation; /* goes into the ref */
    uint64_t offset;     /* of the header; the value follows at + OS_HEADER_SIZE */
    uint64_t cold;       /* bytes from the value's start that may have no pages yet; 0: all is warm */
    uint64_t sum;        /* of the value, where that is known: of a copy by its source */
    bool     is_summed;  /* it is published with that sum; alloc leaves both 0 */
};

struct os_own;    /* a segment this process writes */
struct os_mapped; /* a segment this process reads */
struct os_slab;

/* Embedded by the owner half; private fields. */
struct os_client {
    uint64_t          process;
    uint32_t          node, job;
    struct os_pins   *pins;
    struct os_mapped *mapped[OS_BUCKETS];      /* by segment number; own ones too */
    struct os_own    *own_newest;              /* chain of own segments, newest first */
    struct os_slab   *partial[OS_CLASSES + 1]; /* slabs with a free place, the one in use first */
    struct os_slab   *spare_slabs;
    struct os_held   *held;          /* one per pin slot: private counts */
    uint32_t          held_capacity; /* slots that have a struct os_held */
    uint32_t          held_free;     /* chain of free slots, + 1; 0: none */
    uint32_t         *held_bucket;   /* hash of places to slots, + 1 */
    uint32_t          held_buckets;
    uint32_t          pinned;     /* slots in use */
    uint64_t          used_bytes; /* of own segments, in places given out and slabs */
    uint64_t          own_bytes;  /* size of own segments */
    uint8_t           class_of[OS_CLASS_MAX / OS_UNIT + 1];
    uint32_t          frozen;   /* places: os_client_frozen */
    bool (*thaw)(void *header); /* set by whoever freezes; false: it can't be done now */
    bool is_summing;            /* set by the caller: values are published with their sum (objectstore/layout/sum.h) */
};

/* `pins` is OS_PINS_BYTES of zeroed memory that the raylet reads (CTL_WELCOME's third descriptor). ENOMEM. */
MT_MUST_USE mt_status os_client_init(struct os_client *client, uint64_t process, uint32_t node, uint32_t job, void *pins);
/* What must hold and does not; NULL: all does. Slow: for tests and the simulation. */
const char *os_client_check(const struct os_client *client);
/* Frees private memory only: mappings are the caller's, pins stay set until the raylet sees the process go. */
void os_client_fini(struct os_client *client);

/* --- writing ------------------------------------------------------------------------------------------------ */

/* A segment granted to this process, mapped writable, and a second time read-only: pins point into `view`, so whoever was given
 * a value can't write it, its writer included (`view` is `data` itself where that is nobody's worry). Generations are
 * read-only. All stay mapped until drop. The segment may have been another process's: what it held is forgotten. Where it is
 * mapped here for reading already, this mapping takes the other's place (drop it first to unmap it). EINVAL: size or number
 * impossible, or already own; EAGAIN: something in it is pinned here; ENOMEM. */
MT_MUST_USE mt_status os_client_add_own(struct os_client *client, uint32_t segment, uint64_t size, void *data, const void *view,
                                        const void *generations);

/* A place for a value of `size` bytes, 64-aligned, in state WRITING. Where much of it is cold, one
 * madvise(MADV_POPULATE_WRITE) of its pages before writing is three times as fast as faulting in the copy. EAGAIN: no
 * room; *out_want is the segment size to ask for. EINVAL: no segment is so large. ENOMEM. */
MT_MUST_USE mt_status os_client_alloc(struct os_client *client, uint64_t size, struct os_place *out_place, void **out_data,
                                      uint64_t *out_want);

/* Completes the object (the value is written) and fills the ref that names it. `size` may be less than allocated. From
 * here on the value does not change. The place came from alloc and was not published before. */
void os_client_publish(const struct os_client *client, struct os_place place, void *data, mt_id id, uint32_t owner_node,
                       uint64_t size, uint8_t type, struct lane_ref *out_ref);

/* The caller has mapped the first pages of a published value that takes chunks of its own (more than OS_CLASS_MAX), header
 * included, read-only where it had written it. client->thaw is called before this process writes the header again; where that
 * fails, the place is lost until its segment goes. */
void os_client_frozen(struct os_client *client, struct os_place place);

/* Whether a pinned value has a sum: its header, which the pin has just read, says so. */
static inline bool os_client_is_summed(const void *data)
{
    return ((const struct os_object *)data - 1)->flags & OS_OBJECT_SUMMED;
}
/* A pinned value of `size` bytes is what was published, as far as its sum can tell: ECORRUPT else; always true without one.
 * Reads all of it; any thread. */
MT_MUST_USE mt_status os_client_verify(const void *data, uint64_t size);

/* The place is free again: allocated but not published; or published with an id of this process, and no ref of it ever
 * left. If this process itself still pins it, when that pin goes. (An object that was published for another owner is
 * the raylet's to free: when that owner has died, its writer sends CTL_OBJECT_DEAD.) EINVAL: no such place. EAGAIN: the
 * raylet has taken the place (the value is on disk): send CTL_OBJECT_DEAD, and the place comes back by CTL_SPACE_BACK,
 * or has come back already and holds another object, which stays: `generation` is that of the value to be freed. */
MT_MUST_USE mt_status os_client_free(struct os_client *client, uint32_t segment, uint64_t offset, uint32_t generation);

/* The raylet handed a place back (CTL_SPACE_BACK). ENOENT: we do not write that segment; one that was surrendered while this was
 * on its way here, and nothing is to be done. EPROTO: no such place, pinned here, or free already. */
MT_MUST_USE mt_status os_client_space_back(struct os_client *client, uint32_t segment, uint64_t offset);

/* --- reading ------------------------------------------------------------------------------------------------ */

/* A segment of another process, mapped read-only. EINVAL: size or number impossible; EEXIST; ENOMEM. */
MT_MUST_USE mt_status os_client_add_reader(struct os_client *client, uint32_t segment, uint64_t size, const void *data,
                                           const void *generations);

/* The value of an object on this node, valid and unchanging until as many unpins. ENOENT: the segment is not mapped
 * here. EOBJ_LOST: the place holds another object by now, or its header is not that of the ref. EWRONGJOB. EINVAL: the
 * ref is of another node. EAGAIN: every pin slot is in use. ENOMEM. */
MT_MUST_USE mt_status os_client_pin(struct os_client *client, const struct lane_ref *ref, const void **out_data);
/* Takes one pin back. EINVAL: not pinned. EAGAIN: done, and a free that waited for it was EAGAIN: as os_client_free. */
MT_MUST_USE mt_status os_client_unpin(struct os_client *client, const struct lane_ref *ref);

/* --- giving memory back ------------------------------------------------------------------------------------- */

enum os_trim_kind {
    OS_TRIM_NOTHING = 0,
    OS_TRIM_PAGES = 1,   /* madvise(data, size, MADV_REMOVE) */
    OS_TRIM_SEGMENT = 2, /* unmap data, view and generations, send CTL_SEGMENT_BACK: the client has forgotten the segment */
};
struct os_trim {
    enum os_trim_kind kind;
    uint32_t          segment;
    uint64_t          size;
    void             *data;
    const void       *view; /* of a segment, as generations */
    const void       *generations;
};
/* The next memory that has been free for a whole round, beyond `keep_bytes` of warm free memory; a segment that is
 * larger than that goes as a whole. Call until NOTHING, then os_client_trim_round. */
void os_client_trim(struct os_client *client, uint64_t keep_bytes, struct os_trim *out);
void os_client_trim_round(struct os_client *client);

/* The raylet has asked for a segment (CTL_SEGMENT_ASK): where all that stands in it has been taken, forgets it; the caller
 * unmaps it and sends CTL_SEGMENT_BACK, as after OS_TRIM_SEGMENT. EAGAIN: it is in use. ENOENT. */
MT_MUST_USE mt_status os_client_surrender(struct os_client *client, uint32_t segment, struct os_trim *out);

/* Forgets a segment; the caller unmaps it. EAGAIN: something in it is pinned here. ENOENT. */
MT_MUST_USE mt_status os_client_drop(struct os_client *client, uint32_t segment);

/* --- copying ------------------------------------------------------------------------------------------------ */

/* memcpy for values: past the size where the caches do not help, with stores that go around them. */
void os_copy(void *to, const void *from, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - the raylet's side of the object store: who has which segment, and when a place may be written again.
 *
 * A state machine: no system call, clock or message inside. Segments come from the shell (system/memory.h) with
 * descriptors that are opaque numbers here, and with writable mappings; of the data only state words are changed. What is to be
 * done comes out as a list of actions. The store keeps no table of objects: segments describe themselves.
 *
 *   CTL_SEGMENT_WANT -> os_store_want -> a warm segment, or a size to make: os_store_add_segment -> CTL_SEGMENT
 *   CTL_SEGMENT_MAP  -> os_store_segment -> CTL_SEGMENT
 *   CTL_OBJECT_DEAD  -> os_store_dead ...; once per batch: os_store_sweep -> CTL_SPACE_BACK
 *   a process ends   -> os_store_process_gone; sweep
 *   an owner on another node is dead -> os_store_owner_gone; sweep
 *   a job ends       -> os_store_job_gone -> OS_CLOSE
 *   MT_OS_TICK_MS       -> os_store_tick
 *
 * Life of a segment:
 *
 *   granted --writer gone, CTL_SEGMENT_BACK--> orphan --last object and pin gone--> warm --want--> granted
 *   warm --cold, or room needed--> closed                               any --job gone--> closed
 *
 * Thread: the raylet's logic thread.
 */
#ifndef OS_STORE_H
#define OS_STORE_H

#include "core/base/limits/object.h"
#include "core/lane/record.h"
#include "objectstore/layout/layout.h"
#include "objectstore/system/backing.h"

enum {
    OS_TEXT_SIZE = 256, /* of the reason of ESTORE_FULL */
};
#define OS_JOB_NODE UINT32_MAX /* the raylet itself: what it keeps for jobs that have no process here */

struct os_store;

struct os_store_config {
    uint64_t bytes_max;     /* sum of segment sizes */
    uint64_t job_bytes_max; /* the same of one job; 0: no limit of its own */
    uint64_t segment_first; /* 0: 1 MiB; each further segment of a process is twice as large ... */
    uint64_t segment_max;   /* 0: 256 MiB; ... up to here, or what one object needs */
    uint32_t node;
    bool     jobs_apart; /* no process of one job gets a segment of another: they have different users */
};

enum os_action_kind {
    OS_SPACE_BACK = 1, /* send CTL_SPACE_BACK {segment, generation, offset} to `process` */
    OS_CLOSE = 2,      /* punch out all pages, unmap, close the descriptors: the store has forgotten the segment */
    OS_PUNCH = 3,      /* give the pages of [offset, offset + size) back: nobody reads or writes there */
    OS_ASK_BACK = 4,   /* send CTL_SEGMENT_ASK {segment} to `process` */
};
struct os_action {
    enum os_action_kind kind;
    uint32_t            segment;
    uint32_t            generation;
    uint64_t            process;
    uint64_t            offset;
    uint64_t            size; /* of the segment; OS_PUNCH: of the range */
    struct os_backing   backing;
};
/* Filled by the calls below, emptied by the shell (count = 0); zeroed at first; data is freed by os_actions_fini. */
struct os_actions {
    struct os_action *data;
    size_t            count, capacity;
};
void os_actions_fini(struct os_actions *actions);

struct os_segment_view {
    uint32_t          segment;
    uint32_t          job;
    uint64_t          writer; /* 0: orphan */
    uint64_t          size;
    struct os_backing backing;
};

struct os_stats {
    uint64_t bytes_max, bytes_reserved; /* sum of segment sizes */
    uint64_t bytes_warm;                /* of segments that nobody has */
    uint32_t segments, orphans, warm, processes, copies;
    uint32_t dead_pinned; /* dead objects that somebody still reads */
    uint64_t dead_total, back_total, full_total;
    uint64_t bytes_allowed;  /* by bytes_max and the cgroup, at the last want */
    uint64_t bytes_withheld; /* of bytes_reserved: taken places whose pages were given back */
};

MT_MUST_USE mt_status os_store_new(const struct os_store_config *config, struct os_store **out_store);
/* Frees the tables. The shell closes what os_store_close_all returned before. */
void os_store_free(struct os_store *store);
/* OS_CLOSE for every segment: the raylet ends. */
MT_MUST_USE mt_status os_store_close_all(struct os_store *store, struct os_actions *actions);

/* --- processes ---------------------------------------------------------------------------------------------- */

/* A process of `job` with its pin table, mapped by the shell until os_store_process_gone. EEXIST, ENOMEM. */
MT_MUST_USE mt_status os_store_add_process(struct os_store *store, uint64_t process, uint32_t job, void *pins);

/* The process is dead, and reaped: it will not write any more. Its pins are gone, its segments are orphans, what it
 * owned is dead; what it wrote for other owners stays. Call os_store_sweep after. Reads every object header of its job.
 * ENOENT; ENOMEM: call again. */
MT_MUST_USE mt_status os_store_process_gone(struct os_store *store, uint64_t process);

/* An owner somewhere else is dead: what it owned here is dead. Call os_store_sweep after. ENOMEM: call again. */
MT_MUST_USE mt_status os_store_owner_gone(struct os_store *store, uint64_t owner);
/* The same for every owner on a node. */
MT_MUST_USE mt_status os_store_node_gone(struct os_store *store, uint32_t owner_node);

/* Every process of the job has gone: its segments are closed, but for those in which a process of another job owns a value
 * or reads one: these when that is over. `node` is this one. ENOMEM: call again. */
MT_MUST_USE mt_status os_store_job_gone(struct os_store *store, uint32_t job, uint32_t node, struct os_actions *actions);
/* Whether a value in memory of `job` is still somebody's when that job has ended on this node: its owner lives here in another
 * job, or on another node, which will say when it has gone. */
bool os_store_outlives(const struct os_store *store, mt_id id, uint32_t owner_node, uint32_t job, uint32_t node);

/* --- segments ----------------------------------------------------------------------------------------------- */

struct os_grant {
    uint32_t segment;     /* not 0: a warm segment, `process` is its writer now */
    uint64_t create_size; /* else: the size to make */
};
/* Asks the writers of a job's segments (0: of all) for those in which nothing stands (OS_ASK_BACK). */
MT_MUST_USE mt_status os_store_job_ask_back(const struct os_store *store, uint32_t job, struct os_actions *actions);
/* Process `process` asks for a segment of at least `size` bytes (0: its next). May close warm ones to make room.
 * ESTORE_FULL: over the store's or the cgroup's limit, or (sys EDQUOT) over its job's; `text` (OS_TEXT_SIZE) says the
 * figures. ENOENT: no process. */
MT_MUST_USE mt_status os_store_want(struct os_store *store, uint64_t process, uint64_t size, const struct os_headroom *room,
                                    struct os_grant *out, char *text, struct os_actions *actions);
/* The shell made it, of the size that os_store_want said. ENOENT: the process is gone. ENOMEM, EAGAIN: no number left.
 * On failure the backing stays the shell's. */
MT_MUST_USE mt_status os_store_add_segment(struct os_store *store, uint64_t process, uint64_t size,
                                           const struct os_backing *backing, uint32_t *out_segment);
/* Process `process`, of whatever job unless jobs are apart, wants to read `segment`. ENOENT; EWRONGJOB. */
MT_MUST_USE mt_status os_store_segment(const struct os_store *store, uint64_t process, uint32_t segment,
                                       struct os_segment_view *out);
/* Walks all segments: the one after `after` (0: the first) in the store's order. False at the end. */
bool os_store_next(const struct os_store *store, uint32_t after, struct os_segment_view *out);
/* The writer has nothing in it any more and has unmapped it (CTL_SEGMENT_BACK). EPROTO: it is not the writer's. */
MT_MUST_USE mt_status os_store_segment_back(struct os_store *store, uint64_t process, uint32_t segment);

/* --- objects ------------------------------------------------------------------------------------------------ */

/* `from` says: nobody will name this object again. Allowed to its owner, and to its segment's writer when the owner is
 * dead; from == 0: another raylet or the raylet itself says so. Repeated or late is success and changes nothing.
 * EINVAL: no such object. EWRONGJOB. EPROTO: not `from`'s to say. ENOMEM. The place comes back by os_store_sweep. */
MT_MUST_USE mt_status os_store_dead(struct os_store *store, uint64_t from, const struct lane_ref *ref);

/* Hands back every newly dead place that no live process pins. Once per batch of os_store_dead. ENOMEM: call again. */
MT_MUST_USE mt_status os_store_sweep(struct os_store *store, struct os_actions *actions);
/* The same for places that were pinned before; closes what has been warm too long. */
MT_MUST_USE mt_status os_store_tick(struct os_store *store, int64_t now_ms, struct os_actions *actions);

/* --- copies of objects of other nodes ----------------------------------------------------------------------- */

/* Remembers that this node has a copy of object `ref->id`, at `ref`. EEXIST; ENOMEM. */
MT_MUST_USE mt_status os_store_copy_add(struct os_store *store, const struct lane_ref *ref);
/* The copy's ref. ENOENT. */
MT_MUST_USE mt_status os_store_copy_find(const struct os_store *store, mt_id id, struct lane_ref *out);
/* The copy becomes the value, whose owner is to know it by its place: it is not given up, may go to disk, and dies by its place
 * alone. It is found by its id until then, by those who know the former place. Or it becomes a copy again. ENOENT. */
MT_MUST_USE mt_status os_store_copy_keep(struct os_store *store, mt_id id, bool is_kept);
bool                  os_store_copy_is_kept(const struct os_store *store, mt_id id);
/* The object is dead: forgets the copy and its place. ENOENT: there is none, or it is kept. */
MT_MUST_USE mt_status os_store_copy_dead(struct os_store *store, mt_id id);

/* --- for people who look ------------------------------------------------------------------------------------ */

struct os_seen {
    mt_id    id;
    uint64_t size, offset;
    uint64_t writer; /* process; 0: it has ended */
    uint32_t segment, job, owner_node, generation;
    uint8_t  type;
    bool     is_copy; /* of a value of another node, or of the disk */
    uint32_t pins;    /* for the caller's use */
    char     pinned_by[104];
};
/* Some of the living objects, at most `room`, from (*segment, *offset) on; returns how many. Looks at a bounded number of
 * places, so none may be found and there be more: *segment is 0 at the end. */
uint32_t os_store_look(const struct os_store *store, uint32_t *segment, uint64_t *offset, struct os_seen *out, uint32_t room);
/* Sorts the list by place, and tells of each pin on one of them. */
void os_store_pins_of(const struct os_store *store, struct os_seen *listed, uint32_t count,
                      void (*fn)(void *user, struct os_seen *object, uint64_t process), void *user);

/* What must hold and does not; NULL: all does. Slow: for tests and the simulation. */
const char *os_store_check(const struct os_store *store);
void        os_store_stats(const struct os_store *store, struct os_stats *out);

#endif

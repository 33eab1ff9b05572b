/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - the raylet as a process of its own store: reads objects to send them, writes copies of others' objects.
 *
 * One per job, for a client has one job. Makes segments itself (system calls), unlike client/client.h. Fetching an object:
 *
 *   os_local_alloc -> os_fetch_start ... done -> os_client_publish (id and owner of the source's ref) ->
 *   os_store_copy_add -> CTL_HERE with the new ref; on failure os_client_free
 *
 * Thread: the store's.
 */
#ifndef OS_LOCAL_H
#define OS_LOCAL_H

#include "objectstore/client/client.h"
#include "objectstore/server/store.h"

struct os_local {
    struct os_client     client; /* publish, free and space_back go straight to it */
    struct os_store     *store;
    struct os_pins      *pins;
    struct os_local_map *maps; /* own segments, mapped writable */
};

/* Makes the raylet process number `process` (random, like any other's) of `job`. ENOMEM, EEXIST. */
MT_MUST_USE mt_status os_local_open(struct os_local *local, struct os_store *store, uint64_t process, uint32_t node, uint32_t job);
/* Before the job's segments are closed. What it wrote stays until its owners say. ENOMEM: call again. */
MT_MUST_USE mt_status os_local_close(struct os_local *local);

/* The value of an object on this node, until unpin. Errors as os_client_pin. */
MT_MUST_USE mt_status os_local_pin(struct os_local *local, const struct lane_ref *ref, const void **out_data);
void                  os_local_unpin(struct os_local *local, const struct lane_ref *ref);

/* A place for a value of `size` bytes. Errors as os_store_want, with its `text`; ESYS. */
MT_MUST_USE mt_status os_local_alloc(struct os_local *local, uint64_t size, const struct os_headroom *room,
                                     struct os_place *out_place, void **out_data, char *text, struct os_actions *actions);

/* Gives back what has been free for a round of OS_TRIM_ROUND_MS, or (`now`) everything that is free. */
void os_local_trim(struct os_local *local, bool now);

/* One of its segments, where nothing stands in it any more (OS_ASK_BACK). */
void os_local_surrender(struct os_local *local, uint32_t segment);

/* Before os_backing_close of any segment of the job (OS_CLOSE). */
void os_local_forget(struct os_local *local, uint32_t segment);

#endif

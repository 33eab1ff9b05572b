/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - where the head keeps what it has acknowledged. One kind of store: sqlite.c; tests have their own.
 *
 * Thread: one at a time. `apply` and `close` block on the disk, so the daemon calls `apply` on its disk thread.
 */
#ifndef HEAD_STORE_H
#define HEAD_STORE_H

#include "scheduler/head/core/core.h"

enum { HEAD_STORE_TEXT_SIZE = 512 };

struct head_store_batch {
    struct head_record *records;
    size_t              count;
};

struct head_store {
    const struct head_store_ops *ops;
    char                         cluster[HEAD_CLUSTER_SIZE]; /* whose state this is */
    char                         text[HEAD_STORE_TEXT_SIZE]; /* after a failure: what, where, and what to do */
};

/* Gets one record; what it returns ends the load where it is not success. */
struct head_store_reader {
    mt_status (*record)(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                        const uint8_t *value, size_t value_size);
};

struct head_store_ops {
    /* Gives every record once. ECORRUPT where one has changed since it was written. */
    mt_status (*load)(struct head_store *store, struct head_store_reader *reader);
    /* Makes all batches durable, in order, in one commit: all or nothing. EDISK_FULL: nothing; the same may be tried again later.
     * After any other failure (ESYS, ECORRUPT) every later call fails too, since nobody knows what the disk has kept: the
     * head must end. */
    mt_status (*apply)(struct head_store *store, const struct head_store_batch *batches, size_t count);
    /* Sets space aside for changes of what is there, so that they can be applied when others have filled the disk. True: all of
     * it is there; *out_bytes: what there is room for besides. */
    bool (*reserve)(struct head_store *store, uint64_t *out_bytes);
    /* Frees it. */
    void (*close)(struct head_store *store);
};

/* Opens or makes <dir>/state.db (mode 0600; `dir` is the user's own, mode 0700). `cluster` is the id of a new store; with
 * `must_match` an existing store of another cluster is refused. What is not `is_durable` survives the death of the head,
 * but not that of the machine: for a private cluster, which ends with its driver anyway. On failure `text`
 * (HEAD_STORE_TEXT_SIZE bytes) says what is wrong and what to do: EFENCED (another cluster's), EEXIST (another head uses
 * it), EVERSION, ECORRUPT, EAUTH, EDISK_FULL, ESYS, ENOMEM. */
MT_MUST_USE mt_status head_store_sqlite_open(const char *dir, const char *cluster, bool must_match, bool is_durable, char *text,
                                             struct head_store **out_store);

#endif

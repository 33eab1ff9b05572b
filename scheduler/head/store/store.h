/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - where the head keeps what it has acknowledged. Two kinds of store: sqlite.c, redis.c.
 *
 * Thread: one at a time. All calls block, on the disk or on a server, so the daemon calls `apply` and `look` on its store's thread.
 */
#ifndef HEAD_STORE_H
#define HEAD_STORE_H

#include "scheduler/head/core/core.h"
#include "scheduler/head/store/ask.h"

enum { HEAD_STORE_TEXT_SIZE = 768, HEAD_STORE_PATH_SIZE = 4096 };
#define HEAD_STORE_FILE "state.db" /* in the state folder: SQLite's */
#define HEAD_STORE_MARK "store"    /* ... or the mark of another store; an empty one counts for nothing */

struct head_store_batch {
    struct head_record *records;
    size_t              count;
};

struct head_store {
    const struct head_store_ops *ops;
    char                         cluster[HEAD_CLUSTER_SIZE]; /* whose state this is */
    uint64_t                     run;                        /* drawn for this lead */
    uint64_t                     fence;                  /* of this lead: the head's epoch is at least that; 0: no other can lead */
    char                         place[HEAD_PLACE_SIZE]; /* where this head is spoken to: set by the caller, for those that look */
    char                         text[HEAD_STORE_TEXT_SIZE]; /* after a failure: what, where, and what to do */
};

/* Gets one record, borrowed; what it returns ends the load where it is not success. */
struct head_store_reader {
    mt_status (*record)(struct head_store_reader *reader, enum head_table table, const uint8_t *key, size_t key_size,
                        const uint8_t *value, size_t value_size);
};

struct head_store_room {
    bool     has_reserve; /* changes of what is there can be applied even when others fill what is left */
    uint64_t bytes;       /* of one change that there is room for besides */
};

struct head_store_ops {
    /* Gives every record once. ECORRUPT where one has changed since it was written. */
    mt_status (*load)(struct head_store *store, struct head_store_reader *reader);
    /* Gives every record as of the last commit, by table and key, while the store is in use. Failures of `load`, and of `look`. */
    mt_status (*each)(struct head_store *store, struct head_store_reader *reader);
    /* Makes all batches durable, in order, in one commit: all or nothing.
     * EDISK_FULL: nothing was done. EAGAIN: the store can't be reached, or is not ours to write now; nobody knows whether
     * it has the commit. After either the same batches are to be given again, until it succeeds, and no others before.
     * After any other failure (ESYS, ECORRUPT; EFENCED: another head leads) every later call fails too: the head must end. */
    mt_status (*apply)(struct head_store *store, const struct head_store_batch *batches, size_t count);
    /* What there is room for, and whether the store is there at all. It also keeps what the store needs: space set aside, a
     * lock. Failures as of `apply`. */
    mt_status (*look)(struct head_store *store, struct head_store_room *out);
    /* Lets the lead go, so that another head need not wait for its end: nothing is applied any more. NULL: nobody waits. */
    void (*leave)(struct head_store *store);
    /* Frees it. */
    void (*close)(struct head_store *store);
    uint32_t look_ms; /* `look` is due so often */
};

/* Opens or makes <dir>/state.db (mode 0600; `dir` is the user's own, mode 0700). `cluster` is the id of a new store; with
 * `must_match` an existing store of another cluster is refused. What is not `is_durable` survives the death of the head,
 * but not that of the machine: for a private cluster, which ends with its driver anyway. On failure `text`
 * (HEAD_STORE_TEXT_SIZE bytes) says what is wrong and what to do: EFENCED (another cluster's), EEXIST (another head uses
 * it), EVERSION, ECORRUPT, EAUTH, EDISK_FULL, ESYS, ENOMEM. */
MT_MUST_USE mt_status head_store_sqlite_open(const char *dir, const char *cluster, bool must_match, bool is_durable, char *text,
                                             struct head_store **out_store);

struct head_store_redis {
    const char *url;       /* core/redis/place.h */
    const char *auth_file; /* with the password, mode 0600; NULL: none. Borrowed, and read at each dial */
    const char *dir;       /* the state folder, as above: it remembers what was led from here */
    const char *cluster;   /* id of a new store */
    bool        must_match;
    bool        may_lose;    /* take a server that may lose what it acknowledges */
    const char *place;       /* of this head, as in struct head_store; NULL: not known yet */
    bool        is_follower; /* the store is there already, and never made; `seen` was found by looking */
    uint64_t    seen;        /* the highest fence there */
    uint64_t    dead_run;    /* its lock is no reason to wait; 0: none */
};
/* Takes the lead of a store in Redis; makes one where nothing is, unless this folder's cluster was there. Waits up to 10 s
 * for a server that reads its file. Failures as above, and EINVAL (the address), ECONN, EAGAIN, EDEVICE (it may lose what it
 * acknowledges). */
MT_MUST_USE mt_status head_store_redis_open(const struct head_store_redis *options, char *text, struct head_store **out_store);

/* ---- watch.c: a store that another head leads ---- */

struct head_watch;
/* Connects at the first look. EINVAL (the address), ENOMEM; `text` as above. Of the options: url, auth_file, may_lose. */
MT_MUST_USE mt_status head_watch_open(const struct head_store_redis *options, char *text, struct head_watch **out_watch);
/* How it stands; nothing changes there. Failures of head_link_ask, `text` says why. Blocks as long as that. */
MT_MUST_USE mt_status head_watch_look(struct head_watch *watch, struct head_said *out, char *text);
void                  head_watch_close(struct head_watch *watch);

/* ---- whole.c: a store as a whole, which no head of this process leads ---- */

/* Here and below: the store in Redis of `url`, or where that is NULL, SQLite's in `dir`. `text` as above. */
/* Fills `cluster` in, then gives all records by table and key, as of one commit; nothing changes there. SQLite's must be in use
 * by nobody, one in Redis may be. ENOENT: there is no store; else failures of opening one. Of the options: url, auth_file, dir,
 * may_lose. */
MT_MUST_USE mt_status head_store_read(const struct head_store_redis *options, char cluster[HEAD_CLUSTER_SIZE],
                                      struct head_store_reader *reader, char *text);
/* Makes a store of these records, by one commit: all of it, or nothing that a head takes for a store. `epoch`: the one that they
 * have. EEXIST: something is there. Of the options: those, and cluster. */
MT_MUST_USE mt_status head_store_fill(const struct head_store_redis *options, uint64_t epoch,
                                      const struct head_store_batch *records, char *text);

#endif

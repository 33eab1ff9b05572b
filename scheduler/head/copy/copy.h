/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.h - the state of a cluster as one file, and what a user does with such files while no head runs.
 *
 *     "manta head copy\n"   u32 format   u32 length, the cluster's id
 *     a record each:        u8 table     u32 length, key     u32 length, value        by table and key, each once
 *     the end:              u8 0         u64 count of records     the digest: SHA-256 of the cluster's id and all records
 *
 * Numbers are little-endian. Thread: the caller's.
 */
#ifndef HEAD_COPY_H
#define HEAD_COPY_H

#include "core/base/buf.h"
#include "core/sha/sha256.h"
#include "scheduler/head/store/store.h"

/* ---- file.c ---- */

struct head_copy {                   /* a file that is being made */
    struct head_store_reader reader; /* gives it a record */
    mt_buf                   bytes;
    mt_sha256                sha;
    uint64_t                 count;
};
struct head_copy_info {
    char     cluster[HEAD_CLUSTER_SIZE];
    uint64_t count; /* of records */
    uint8_t  digest[MT_SHA256_SIZE];
};

/* Begin, give records to `reader` in order, end: then `bytes` is the file. ENOMEM; EINVAL: a record that no file takes. */
MT_MUST_USE mt_status head_copy_begin(struct head_copy *copy, const char *cluster);
MT_MUST_USE mt_status head_copy_end(struct head_copy *copy, struct head_copy_info *out);
void                  head_copy_fini(struct head_copy *copy);

/* Checks the file whole, then gives its records, borrowed, to `reader` (NULL: to nobody). ECORRUPT: it is torn, changed, or no such
 * file; EVERSION: a newer head has written it. The status says which in words. */
MT_MUST_USE mt_status head_copy_read(mt_view file, struct head_copy_info *out, struct head_store_reader *reader);

/* ---- verbs.c ---- */

enum head_copy_verb { HEAD_COPY_NONE, HEAD_COPY_BACKUP, HEAD_COPY_RESTORE, HEAD_COPY_CHECK };

struct head_copy_order {
    enum head_copy_verb     verb;
    const char             *file;
    struct head_store_redis store; /* url, auth_file, may_lose; cluster: the one that it must be, or NULL; dir: the state folder;
                                            CHECK: NULL of neither url nor dir is compared */
    bool                    may_replace; /* RESTORE: what the state folder has is kept beside, as *.old */
};
/* Does it, and prints what was found, or what is wrong. The exit status. Blocks. */
int head_copy_run(const struct head_copy_order *order);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h - the head's logic: one state machine, fed with events, answering with actions. No system call, no thread,
 * no clock, no global. The daemon's shell and the cluster simulation drive the same object files.
 *
 * Life of a head:
 *   head_new -> head_load for each stored record, head_load_log, head_load_blob -> head_start -> head_step ... -> head_free
 *
 * Output commit: nothing that depends on a change leaves the head before the store has said that the change is durable.
 * Such actions wait inside the core, behind the batch; HEAD_EV_STORED releases them, in order. So a shell carries out
 * every action at once, and a crash between any two actions is safe.
 *
 * Thread: one; every function here is called from one thread and never blocks.
 */
#ifndef HEAD_CORE_H
#define HEAD_CORE_H

#include "scheduler/head/core/kit/step.h"

/* ---- the machine ----------------------------------------------------------------------------------------------- */
/* ENOMEM. */
MT_MUST_USE mt_status head_new(const struct head_config *config, struct head **out_head);
void                  head_free(struct head *head);

/* One stored record. ECORRUPT where the value can't be read; EVERSION where a newer head has written it. */
MT_MUST_USE mt_status head_load(struct head *head, enum head_table table, const uint8_t *key, size_t key_size, const uint8_t *value,
                                size_t value_size);
/* Size of a log file found on disk; a job that is not known: *out_keep = false, the file is nobody's. */
MT_MUST_USE mt_status head_load_log(struct head *head, const char *job, uint64_t size, bool *out_keep);
/* A blob found on disk. */
MT_MUST_USE mt_status head_load_blob(struct head *head, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size);

/* For whom the certificate beside the head was made: that one can't be revoked. Before head_start. */
void head_own_member(struct head *head, uint64_t member);

/* After all loads, once: takes the next head epoch, which is stored before anything else leaves the head. */
MT_MUST_USE mt_status head_start(struct head *head, uint64_t now_ms, struct head_actions *out);

/* Takes one event in and appends the actions that follow to `out`. A malformed message closes its stream or refuses its
 * call and changes nothing else. Not OK only where the head itself can't go on (ENOMEM): end the process; its store is
 * whole. */
MT_MUST_USE mt_status head_step(struct head *head, const struct head_event *event, struct head_actions *out);

/* ---- questions of the shell and of tests; nothing changes ------------------------------------------------------ */
struct head_job_view {
    bool     is_ended;
    uint32_t attempt;
    uint64_t log_size; /* counts every append that was ever asked for */
};
/* ENOENT. */
MT_MUST_USE mt_status head_job_look(const struct head *head, const char *id, struct head_job_view *out);
/* Whether a blob of that size may be added: EEXIST (it is here), EDISK_FULL (the bound, or no room), EAGAIN (too many). */
MT_MUST_USE mt_status head_blob_admit(const struct head *head, const uint8_t sha256[HEAD_SHA_SIZE], uint64_t size);
uint64_t              head_epoch(const struct head *head);
const char           *head_cluster(const struct head *head);

/* What has happened so far. */
const struct head_counters *head_counters(const struct head *head);

/* What the nodes are told of each other: a node that knows this version has the same. Texts are borrowed for the call. */
struct head_node_view {
    uint32_t    node, epoch, state; /* as in Node of manta.proto */
    const char *name, *address, *data_address, *labels;
};
uint64_t head_view_each(const struct head *head, void (*fn)(void *user, const struct head_node_view *view), void *user);
/* A hash of the whole logical state: two heads that were fed the same events have the same one. */
uint64_t head_hash(const struct head *head);
/* Checks what must always hold; the text of the first breach, or NULL. */
const char *head_check(const struct head *head);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_rig.h - submissions, and what becomes of them, for tests of jobs that queue.
 */
#ifndef TESTS_UNIT_HEAD_QUEUE_RIG_H
#define TESTS_UNIT_HEAD_QUEUE_RIG_H

#include "tests/unit/head/rig.h"

struct asked { /* a submission; 0 and NULL: as of a plain job */
    const char *id, *after[3];
    int32_t     priority;
    uint32_t    array, most;
    uint32_t    ranges[2][3]; /* of its indices: first, last, step; all 0: no such range */
    bool        is_held, is_preemptible;
    int64_t     cpus; /* thousandths; 0: 1000; below: it wants none */
    uint64_t    time_ms;
    uint32_t    retries, node, signal;
    uint64_t    notice_ms;
};

/* Returns the call's number. */
uint64_t queue_ask(struct rig *rig, const struct asked *a);
/* The code of the reply, -1: none; its text in `text` (256 bytes) where that is wanted. */
int queue_code(struct rig *rig, uint64_t call, char *text);
#define SUBMIT(rig, ...) queue_code(rig, queue_ask(rig, &(struct asked){__VA_ARGS__}), NULL)
int queue_do(struct rig *rig, enum head_method method, const char *id);
/* Fails where the job is in another state, or its reason lacks that text (NULL: any). */
void queue_is(struct rig *rig, const char *id, const char *state, const char *reason);
/* The node that runs everything says how it ended. */
void queue_end(struct rig *rig, const struct rig_node *node, const char *id, bool is_good);
bool queue_was_started(struct rig *rig, const struct rig_node *node, const char *id);
/* The node has so much free, until what starts now has taken it. */
void        queue_pass(struct rig *rig, struct rig_node *node, int64_t free_milli);
struct rig *queue_rig(struct rig_node *node, int64_t cpus); /* with that node, past the grace */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * trusted.h - rows of the tables by which somebody may join the cluster, or may not any more.
 */
#ifndef HEAD_TRUSTED_H
#define HEAD_TRUSTED_H

#include <stdbool.h>

#include "core/ds/vec.h"
#include "scheduler/head/core/kit/index.h"
#include "scheduler/head/core/kit/asked.h"

struct ticket_use {
    uint64_t member, at_ms;
    char     name[HEAD_NAME_SIZE];
};
struct ticket {
    uint64_t id, made_ms, ends_ms; /* wall clock */
    uint64_t instance;             /* that joins with it (scheduler/scaler); 0: whoever has it */
    uint32_t uses;
    bool     is_revoked;
    char     name[HEAD_NAME_SIZE];
    MT_VEC(struct ticket_use) used;
};
struct revoked {
    uint64_t id, until_ms; /* wall clock: then no certificate of his is valid any more */
    uint64_t view_version; /* told to the nodes as the change of that version */
    uint32_t node;
    char     reason[128];
};

struct token { /* a named one beside the cluster's own */
    struct head_index_node at;
    uint64_t               number;
    enum mt_right          right; /* as it was made */
    bool                   is_revoked;
    bool                   is_over;          /* its end has come, and the door was told */
    uint64_t               made_ms, ends_ms; /* wall clock; ends_ms 0: it has no end */
    char                   name[HEAD_NAME_SIZE];
    uint8_t                sha256[HEAD_SHA_SIZE];
};

#endif

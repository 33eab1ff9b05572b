/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.h - what the public collectives share below the public header: a call, how it is told to other members, and how
 * two of them are compared.
 */
#ifndef SGD_COLL_H
#define SGD_COLL_H

#include "core/base/limits/lib.h"
#include "core/base/limits/net.h"
#include "core/base/limits/train.h"
#include "sgd/coll/math/math.h"

enum coll_kind {
    COLL_JOIN, /* the first call of each generation */
    COLL_BARRIER,
    COLL_ALL_REDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALL_GATHER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALL_TO_ALL,
    COLL_KINDS
};

/* One collective call as every transport gets it, checked. */
struct coll_call {
    enum coll_kind kind;
    enum coll_type type;
    enum coll_op   op;
    uint32_t       root;
    uint64_t       shape; /* fingerprint of what else must be equal */
    size_t         count; /* elements; of one part where there is a part for each member */
    const void    *in;
    void          *out;
};

/* A message to or from another member. */
struct coll_message {
    uint32_t       peer; /* MT_GROUP_MEMBERS_MAX: there is no message */
    enum coll_type type;
    size_t         count;
    void          *data; /* of the message that is sent: not written */
};

/* What members tell each other of a call before they begin. */
struct coll_head {
    uint8_t  kind, type, op, reserved;
    uint32_t root;
    uint64_t count, shape;
};
static_assert(sizeof(struct coll_head) == 24, "the same in every process");

enum { COLL_TEXT_BYTES = 384, COLL_NAME_BYTES = 32 };

struct coll_head   coll_head_of(const struct coll_call *call);
static inline bool coll_head_equals(const struct coll_head *a, const struct coll_head *b)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root && a->count == b->count &&
           a->shape == b->shape;
}
/* Why a generation ended because of `who` ("rank 3", "a member"), as text and status. */
mt_status coll_over(char text[COLL_TEXT_BYTES], const char *group, enum mt_code reason, const char *who);
/* Says who called what and in which respect that differs, into `text`. */
void        coll_head_explain(char text[COLL_TEXT_BYTES], const char *group, uint32_t a, const struct coll_head *head_a, uint32_t b,
                              const struct coll_head *head_b);
const char *coll_kind_name(enum coll_kind kind);

/* Bytes of one part. */
static inline size_t coll_part_bytes(const struct coll_call *call)
{
    return call->count * coll_type_size(call->type);
}

#endif

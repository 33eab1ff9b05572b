/* SPDX-License-Identifier: Apache-2.0
 *
 * coll.c - names of collective calls, and in words how two of them differ. Owns: nothing. Thread: any.
 */
#include "sgd/coll/coll.h"

#include <stdio.h>

static const char *const kind_names[COLL_KINDS] = {"join",       "barrier",   "all_reduce", "reduce_scatter",
                                                   "all_gather", "broadcast", "reduce",     "all_to_all"};

const char *coll_kind_name(enum coll_kind kind)
{
    return kind < COLL_KINDS ? kind_names[kind] : "an unknown call";
}

struct coll_head coll_head_of(const struct coll_call *call)
{
    return (struct coll_head){.kind = (uint8_t)call->kind,
                              .type = (uint8_t)call->type,
                              .op = (uint8_t)call->op,
                              .root = call->root,
                              .count = call->count,
                              .shape = call->shape};
}

static bool reduces(uint8_t kind)
{
    return kind == COLL_ALL_REDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
}

static void head_print(char *text, size_t size, const struct coll_head *h)
{
    char root[24] = "";
    if (h->kind == COLL_JOIN) {
        snprintf(text, size, "join as one of %llu", (unsigned long long)h->count);
        return;
    }
    if (h->kind == COLL_BROADCAST || h->kind == COLL_REDUCE)
        snprintf(root, sizeof root, ", root %u", h->root);
    if (h->kind == COLL_BARRIER || h->type >= COLL_TYPES || h->op >= COLL_OPS)
        snprintf(text, size, "%s", coll_kind_name(h->kind));
    else
        snprintf(text, size, "%s(%llu %s%s%s%s)", coll_kind_name(h->kind), (unsigned long long)h->count, coll_type_name(h->type),
                 reduces(h->kind) ? ", " : "", reduces(h->kind) ? coll_op_name(h->op) : "", root);
}

static const char *difference(const struct coll_head *a, const struct coll_head *b)
{
    return a->kind != b->kind     ? "the order of calls"
           : a->type != b->type   ? "the type"
           : a->op != b->op       ? "the operation"
           : a->root != b->root   ? "the root"
           : a->kind == COLL_JOIN ? "the number of members"
           : a->count != b->count ? "the number of elements"
                                  : "the sizes of the tensors";
}

void coll_head_explain(char text[COLL_TEXT_BYTES], const char *group, uint32_t a, const struct coll_head *head_a, uint32_t b,
                       const struct coll_head *head_b)
{
    char text_a[96], text_b[96];
    head_print(text_a, sizeof text_a, head_a);
    head_print(text_b, sizeof text_b, head_b);
    snprintf(text, COLL_TEXT_BYTES, "group \"%s\": members disagree on %s: rank %u called %s, rank %u called %s", group,
             difference(head_a, head_b), a, text_a, b, text_b);
}

mt_status coll_over(char text[COLL_TEXT_BYTES], const char *group, enum mt_code reason, const char *who)
{
    switch (reason) {
    case MT_EWORKER_DIED:
        snprintf(text, COLL_TEXT_BYTES, "group \"%s\": %s died", group, who);
        return mt_error(MT_EWORKER_DIED, 0, "a member of the group died");
    case MT_ETIMEDOUT:
        snprintf(text, COLL_TEXT_BYTES, "group \"%s\": %s did not come to a call within the limit", group, who);
        return mt_error(MT_ETIMEDOUT, 0, "a member of the group did not come");
    default:
        snprintf(text, COLL_TEXT_BYTES, "group \"%s\": aborted by %s (%s)", group, who, mt_code_name((int32_t)reason));
        return mt_error((int32_t)reason, 0, "the group was aborted");
    }
}

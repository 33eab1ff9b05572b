/* SPDX-License-Identifier: Apache-2.0
 *
 * resources.c - names of resources to the small numbers that policy works with, and checks on what others send.
 */
#include "scheduler/head/core/kit/kit.h"

#include <inttypes.h>

enum { RESOURCE_NAME_SIZE = 24 /* as in the local protocol, its end included */ };
static const int64_t AMOUNT_MAX = (int64_t)1 << 56;

uint32_t head_resources_kind(struct head *h, const char *name)
{
    for (size_t i = 0; i < h->kinds.count; i++)
        if (strcmp(h->kinds.data[i], name) == 0)
            return (uint32_t)i;
    if (h->kinds.count >= MT_HEAD_KINDS_MAX)
        return UINT32_MAX;
    char *copy = head_strdup(h, name);
    if (!copy || mt_vec_push(&h->kinds, copy).code != 0) {
        free(copy);
        head_broken(h, mt_error(MT_ENOMEM, 0, "remember a resource"));
        return UINT32_MAX;
    }
    return (uint32_t)h->kinds.count - 1;
}

/* Says what is wrong with one resource, or NULL and its kind. */
static const char *check(struct head *h, const resource *r, uint32_t *out_kind)
{
    if (r->name[0] == '\0')
        return "a resource has no name";
    if (strlen(r->name) >= RESOURCE_NAME_SIZE)
        return "a resource's name is longer than 23 bytes";
    for (const char *c = r->name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return "a resource's name has control characters";
    if (r->milli < 0)
        return "an amount is negative";
    if (r->milli > AMOUNT_MAX)
        return "an amount is absurdly large";
    *out_kind = head_resources_kind(h, r->name);
    return *out_kind == UINT32_MAX ? "the cluster knows too many kinds of resources" : NULL;
}

mt_status head_resources_to_request(struct head *h, resource *const *from, size_t count, struct policy_request *out, char *text,
                                    size_t text_size)
{
    const char *wrong = count > POLICY_RESOURCES_MAX ? "more than 16 resources" : NULL;
    out->amount_count = 0;
    for (size_t i = 0; i < count && !wrong; i++) {
        uint32_t kind = 0;
        wrong = check(h, from[i], &kind);
        for (uint32_t j = 0; j < out->amount_count && !wrong; j++)
            if (out->amounts[j].kind == kind)
                wrong = "a resource is named twice";
        if (!wrong && from[i]->milli > 0)
            out->amounts[out->amount_count++] = (struct policy_amount){kind, from[i]->milli};
    }
    if (!wrong)
        return mt_ok();
    snprintf(text, text_size, "resources: %s", wrong);
    return mt_error(MT_EINVAL, 0, "read resources");
}

mt_status head_resources_to_node(struct head *h, resource *const *from, size_t count, struct node *node, char *text,
                                 size_t text_size)
{
    struct policy_request request;
    MT_TRY(head_resources_to_request(h, from, count, &request, text, text_size));
    memset(node->place.resources, 0, sizeof node->place.resources);
    memset(node->reported, 0, sizeof node->reported);
    node->place.resource_count = request.amount_count;
    for (uint32_t i = 0; i < request.amount_count; i++) {
        node->place.resources[i].kind = request.amounts[i].kind;
        node->place.resources[i].total = request.amounts[i].amount;
    }
    node->drivers_max = MT_RLT_SUBMITTED_MAX + policy_total(&node->place, head_resources_kind(h, "CPU")) / 1000;
    return mt_ok();
}

void head_resource_fill(resource *out, const char *name, int64_t milli)
{
    *out = (resource)MANTA__V1__RESOURCE__INIT;
    out->name = (char *)name;
    out->milli = milli;
}

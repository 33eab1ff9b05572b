/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c - why no node can ever hold a request, or none can now, in one sentence for people.
 */
#include "scheduler/policy/policy.h"

#include "core/text/labels.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { AMOUNT_TEXT_SIZE = 32, LABELED_MAX = 4 /* nodes whose labels are told */ };

struct text {
    char  *out;
    size_t size;
    size_t used;
};

MT_PRINTF(2, 3) static void add(struct text *t, const char *format, ...)
{
    if (t->used >= t->size)
        return;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->out + t->used, t->size - t->used, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n;
}

/* "4", "0.5"; memory in bytes, with the binary unit that divides it. */
static const char *amount_text(const char *name, int64_t amount, char *out)
{
    if (strcmp(name, "memory") == 0) {
        if (amount >= 1 << 30 && amount % (1 << 30) == 0)
            snprintf(out, AMOUNT_TEXT_SIZE, "%" PRId64 " GiB", amount >> 30);
        else if (amount >= 1 << 20 && amount % (1 << 20) == 0)
            snprintf(out, AMOUNT_TEXT_SIZE, "%" PRId64 " MiB", amount >> 20);
        else
            snprintf(out, AMOUNT_TEXT_SIZE, "%" PRId64 " bytes", amount);
    } else if (amount % 1000 == 0) {
        snprintf(out, AMOUNT_TEXT_SIZE, "%" PRId64, amount / 1000);
    } else {
        snprintf(out, AMOUNT_TEXT_SIZE, "%" PRId64 ".%03" PRId64, amount / 1000, amount % 1000);
        for (size_t end = strlen(out); out[end - 1] == '0'; end--)
            out[end - 1] = '\0';
    }
    return out;
}

static bool is_asked(const struct policy_node *node, const struct policy_request *request)
{
    return policy_may_come(node->state) && (request->policy != POLICY_NODE || node->id == request->node);
}

static bool counts(const struct policy_node *node, const struct policy_request *request)
{
    return is_asked(node, request) && (!request->labels[0] || mt_selector_match(request->labels, node->labels));
}

/* Says of the first nodes what labels they have instead. */
static void explain_labels(struct text *t, const struct policy_node *const *nodes, uint32_t node_count,
                           const struct policy_request *request)
{
    uint32_t said = 0;
    add(t, "wants a node with the labels \"%s\"; ", request->labels);
    for (uint32_t i = 0; i < node_count && said < LABELED_MAX; i++)
        if (is_asked(nodes[i], request))
            add(t, "%snode %u has \"%s\"", said++ ? ", " : "", nodes[i]->id, nodes[i]->labels);
}

/* Says of each resource that exceeds every node what the largest has. Returns how many there are. */
static uint32_t explain_amounts(struct text *t, const struct policy_node *const *nodes, uint32_t node_count,
                                const struct policy_request *request, const char *const *names)
{
    uint32_t short_of = 0;
    for (uint32_t i = 0; i < request->amount_count; i++) {
        const struct policy_amount *a = &request->amounts[i];
        int64_t                     largest = 0;
        uint32_t                    where = 0;
        for (uint32_t j = 0; j < node_count; j++)
            if (counts(nodes[j], request) && policy_total(nodes[j], a->kind) > largest) {
                largest = policy_total(nodes[j], a->kind);
                where = nodes[j]->id;
            }
        if (a->amount <= largest)
            continue;
        char wants[AMOUNT_TEXT_SIZE], has[AMOUNT_TEXT_SIZE];
        add(t, "%swants %s %s, ", short_of++ ? "; " : "", amount_text(names[a->kind], a->amount, wants), names[a->kind]);
        if (where != 0)
            add(t, "the largest node (%u) has %s", where, amount_text(names[a->kind], largest, has));
        else
            add(t, "no node has any");
    }
    return short_of;
}

/* A node that is to leave could have held it: people look for it among the nodes. */
static void explain_draining(struct text *t, const struct policy_node *const *nodes, uint32_t node_count,
                             const struct policy_request *request)
{
    for (uint32_t i = 0; i < node_count; i++)
        if (nodes[i]->state == POLICY_DRAINING && policy_fits_total(nodes[i], request) &&
            (request->policy != POLICY_NODE || nodes[i]->id == request->node)) {
            add(t, "; node %u could hold it, but is being drained and takes nothing new", nodes[i]->id);
            return;
        }
}

static void explain_others(struct text *t, const struct policy_node *const *nodes, uint32_t node_count,
                           const struct policy_request *request, const char *const *names)
{
    uint32_t usable = 0, asked = 0;
    for (uint32_t i = 0; i < node_count; i++) {
        usable += counts(nodes[i], request);
        asked += is_asked(nodes[i], request);
    }
    if (usable == 0 && asked > 0) {
        explain_labels(t, nodes, node_count, request);
        return;
    }
    if (usable == 0 && request->policy == POLICY_NODE) {
        add(t, "asks for node %u, which is not in the cluster or is dead", request->node);
        return;
    }
    if (usable == 0) {
        add(t, "the cluster has no node that is alive");
        return;
    }
    if (explain_amounts(t, nodes, node_count, request, names) > 0)
        return;
    add(t, "no single node has all of");
    for (uint32_t i = 0; i < request->amount_count; i++) {
        char wants[AMOUNT_TEXT_SIZE];
        add(t, "%s %s %s", i ? "," : "", amount_text(names[request->amounts[i].kind], request->amounts[i].amount, wants),
            names[request->amounts[i].kind]);
    }
    add(t, ", though each fits on some node");
}

/* How much is free of it on an alive node that could hold the request. */
static int64_t free_of(const struct policy_node *node, uint32_t kind, const struct policy_request *request)
{
    if (node->state != POLICY_ALIVE || !counts(node, request) || !policy_fits_total(node, request))
        return -1;
    for (uint32_t i = 0; i < node->resource_count; i++)
        if (node->resources[i].kind == kind)
            return node->resources[i].free > 0 ? node->resources[i].free : 0;
    return 0;
}

void policy_lacks(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                  const char *const *names, char *out_text, size_t size)
{
    struct text t = {out_text, size, 0};
    out_text[0] = '\0';
    for (uint32_t i = 0; i < request->amount_count; i++) {
        const struct policy_amount *a = &request->amounts[i];
        int64_t                     most = -1;
        uint32_t                    where = 0;
        for (uint32_t j = 0; j < node_count; j++)
            if (free_of(nodes[j], a->kind, request) > most) {
                most = free_of(nodes[j], a->kind, request);
                where = nodes[j]->id;
            }
        if (where == 0 || a->amount <= most)
            continue;
        char wants[AMOUNT_TEXT_SIZE], has[AMOUNT_TEXT_SIZE];
        add(&t, "waits for free %s: wants %s, and node %u, which has most, has %s", names[a->kind],
            amount_text(names[a->kind], a->amount, wants), where, amount_text(names[a->kind], most, has));
        return;
    }
    for (uint32_t j = 0; j < node_count; j++)
        if (request->is_driver && policy_may_come(nodes[j]->state) && nodes[j]->drivers <= 0) {
            add(&t, "waits for the end of another job: on node %u run as many as may", nodes[j]->id);
            return;
        }
    add(&t, "waits for free resources: no single node has all of it free");
}

void policy_explain(const struct policy_node *const *nodes, uint32_t node_count, const struct policy_request *request,
                    const char *const *names, char *out_text, size_t size)
{
    struct text t = {out_text, size, 0};
    out_text[0] = '\0';
    explain_others(&t, nodes, node_count, request, names);
    explain_draining(&t, nodes, node_count, request);
}

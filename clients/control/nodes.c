/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the cluster's nodes, and its end.
 */
#include "clients/control/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double amount(const Manta__V1__Resource *r)
{
    return strcmp(r->name, "memory") == 0 ? (double)r->milli : (double)r->milli / 1000;
}

static void node_copy(const Manta__V1__Node *from, manta_cluster_node *out)
{
    out->node = from->node;
    out->epoch = from->epoch;
    out->state = (int)from->state;
    out->has_left = from->has_left;
    out->drain_left_ms = from->left_ms;
    out->certificate_ms = from->certificate_ms;
    snprintf(out->waits, sizeof out->waits, "%s", from->waits);
    snprintf(out->name, sizeof out->name, "%s", from->name);
    snprintf(out->address, sizeof out->address, "%s", from->address);
    snprintf(out->reason, sizeof out->reason, "%s", from->reason);
    snprintf(out->labels, sizeof out->labels, "%s", from->labels);
    for (size_t i = 0; i < from->n_total && i < MANTA_NODE_RESOURCES; i++) {
        manta_node_resource *r = &out->resources[out->resource_count++];
        snprintf(r->name, sizeof r->name, "%s", from->total[i]->name);
        r->total = amount(from->total[i]);
        for (size_t j = 0; j < from->n_free; j++)
            if (strcmp(from->free[j]->name, from->total[i]->name) == 0)
                r->free = amount(from->free[j]);
        for (size_t j = 0; j < from->n_reserved; j++)
            if (strcmp(from->reserved[j]->name, from->total[i]->name) == 0)
                r->held = amount(from->reserved[j]);
    }
}

static void standbys_copy(const Manta__V1__ListNodesReply *reply, manta_cluster_info *out)
{
    size_t at = 0, size = sizeof out->standbys;
    out->standby_count = reply->n_heads > 1 ? reply->n_heads - 1 : 0;
    for (size_t i = 1; i < reply->n_heads && at + strlen(reply->heads[i]) + 1 < size; i++)
        at += (size_t)snprintf(out->standbys + at, size - at, "%s%s", at ? "," : "", reply->heads[i]);
}

manta_status ctl_nodes_list(struct ctl_client *c, manta_cluster_node **out_nodes, size_t *out_count,
                            manta_cluster_info *out_cluster, manta_error *e)
{
    Manta__V1__ListNodesRequest request = MANTA__V1__LIST_NODES_REQUEST__INIT;
    ProtobufCMessage           *message;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListNodes", &request.base, &manta__v1__list_nodes_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListNodesReply *reply = (const Manta__V1__ListNodesReply *)message;
    manta_cluster_node              *nodes = calloc(reply->n_nodes + 1, sizeof *nodes);
    if (nodes) {
        for (size_t i = 0; i < reply->n_nodes; i++)
            node_copy(reply->nodes[i], &nodes[i]);
        *out_nodes = nodes;
        *out_count = reply->n_nodes;
    }
    if (nodes && out_cluster) {
        memset(out_cluster, 0, sizeof *out_cluster);
        snprintf(out_cluster->cluster, sizeof out_cluster->cluster, "%s", reply->cluster);
        memcpy(out_cluster->address, c->place.address, sizeof out_cluster->address);
        out_cluster->head_epoch = reply->head_epoch;
        out_cluster->runs_as_root = reply->runs_as_root;
        out_cluster->is_insecure = reply->is_insecure;
        out_cluster->has_tls = c->tls != NULL;
        standbys_copy(reply, out_cluster);
    }
    rpc_unpack_free(message);
    return nodes ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of nodes");
}

manta_status manta_nodes_list(manta_client *client, manta_cluster_node **out_nodes, size_t *out_count,
                              manta_cluster_info *out_cluster, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_nodes_list", out_nodes && out_count, "out_nodes and out_count", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, ctl_nodes_list(c, out_nodes, out_count, out_cluster, e));
}

static manta_status node_drain(struct ctl_client *c, uint32_t node, int64_t limit_ms, const char *reason, manta_error *e)
{
    Manta__V1__DrainRequest request = MANTA__V1__DRAIN_REQUEST__INIT;
    ProtobufCMessage       *message;
    request.node = node;
    request.limit_ms = limit_ms < 0 ? MT_DRAIN_MS : (uint64_t)limit_ms;
    request.reason = (char *)(reason ? reason : "");
    manta_status st = ctl_call(c, "/manta.v1.Head/DrainNode", &request.base, &manta__v1__drain_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__DrainReply *reply = (const Manta__V1__DrainReply *)message;
    if (reply->code)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    rpc_unpack_free(message);
    return st;
}

manta_status manta_node_drain(manta_client *client, uint32_t node, int64_t limit_ms, const char *reason, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_node_drain", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, node_drain(c, node, limit_ms, reason, e));
}

static manta_status cluster_stop(struct ctl_client *c, const char *reason, manta_error *e)
{
    Manta__V1__ShutdownRequest request = MANTA__V1__SHUTDOWN_REQUEST__INIT;
    ProtobufCMessage          *message;
    request.reason = (char *)(reason ? reason : "");
    manta_status st = ctl_call(c, "/manta.v1.Head/Shutdown", &request.base, &manta__v1__shutdown_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st == MANTA_OK)
        rpc_unpack_free(message);
    return st;
}

manta_status manta_cluster_stop(manta_client *client, const char *reason, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_cluster_stop", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, cluster_stop(c, reason, e));
}

/* Tried again after a lost answer it finds the next head, which is not meant. */
static manta_status step_down(struct ctl_client *c, const char *reason, manta_error *e)
{
    manta_cluster_info  info;
    manta_cluster_node *nodes;
    size_t              count;
    manta_status        found = ctl_nodes_list(c, &nodes, &count, &info, e);
    if (found != MANTA_OK)
        return found;
    free(nodes);
    Manta__V1__StepDownRequest request = MANTA__V1__STEP_DOWN_REQUEST__INIT;
    ProtobufCMessage          *message;
    request.reason = (char *)(reason ? reason : "");
    request.head_epoch = info.head_epoch;
    manta_status st = ctl_call(c, "/manta.v1.Head/StepDown", &request.base, &manta__v1__step_down_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__StepDownReply *reply = (const Manta__V1__StepDownReply *)message;
    if (reply->code && reply->code != MT_EFENCED)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    rpc_unpack_free(message);
    return st;
}

manta_status manta_cluster_step_down(manta_client *client, const char *reason, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_cluster_step_down", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, step_down(c, reason, e));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the cluster's nodes for the user, and that they are others.
 *
 * Owns: nothing. Thread: any; takes the owner lock.
 */
#include "clients/lib/api/api.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/wait/wait.h"

#include <stdlib.h>

static double amount(const struct ctl_resource *r, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count && i < CTL_RESOURCES; i++)
        if (strncmp(r[i].name, name, sizeof r[i].name) == 0)
            return (double)r[i].milli / 1000;
    return 0;
}

/* "10.0.0.1" of "10.0.0.1:6380", "fd00::1" of "[fd00::1]:6380". */
static void host_of(const char *address, char *out, size_t size)
{
    const char *colon = strrchr(address, ':');
    size_t      length = colon ? (size_t)(colon - address) : 0;
    if (length >= 2 && address[0] == '[' && colon[-1] == ']')
        address++, length -= 2;
    snprintf(out, size, "%.*s", (int)length, address);
}

static void node_info(const struct ctl_node *from, manta_node_info *to)
{
    memset(to, 0, sizeof *to);
    to->node = from->node;
    to->alive = from->state == 1;
    to->draining = from->state == 4;
    host_of(from->address, to->address, sizeof to->address);
    to->cpus = amount(from->total, from->resource_count, "CPU");
    to->gpus = amount(from->total, from->resource_count, "GPU");
    to->cpus_free = amount(from->free, from->resource_count, "CPU");
    to->gpus_free = amount(from->free, from->resource_count, "GPU");
    snprintf(to->name, sizeof to->name, "%.*s", (int)sizeof to->name - 1, from->name);
    snprintf(to->labels, sizeof to->labels, "%.*s", (int)sizeof to->labels - 1, from->labels);
}

/* "10.0.0.1:6380" and "10.0.0.1:6381" are on one machine; a node that nobody reaches ("") is this one. */
static bool is_remote(const char *address, const char *own)
{
    const char *colon = strrchr(address, ':'), *own_colon = strrchr(own, ':');
    return colon && own_colon && (colon - address != own_colon - own || memcmp(address, own, (size_t)(colon - address)) != 0);
}

int manta_nodes(manta_node_info *out, int max, manta_error *e)
{
    char                own[sizeof((struct ctl_node *)0)->address] = "";
    struct ctl_request  ask = {.op = CTL_OP_NODES};
    struct lib_request *request = malloc(sizeof *request);
    manta_status        code;
    int                 n = 0;
    if (max < 0 || (max && !out)) {
        free(request);
        return -lib_error(e, MANTA_EINVAL, "manta_nodes without a place for %d nodes", max);
    }
    if (!request)
        return -lib_error(e, MANTA_ENOMEM, "no memory for a request");
    if ((code = lib_enter(e)) != MANTA_OK) {
        free(request);
        return -code;
    }
    code = lib_check(e);
    for (int before = -MT_RLT_NODES_REPLY_MAX; code == MANTA_OK && n - before >= MT_RLT_NODES_REPLY_MAX;) {
        before = n;
        code = lib_call(request, CTL_REQUEST, &ask, sizeof ask, MT_LIB_REQUEST_MS, e);
        for (size_t at = sizeof(struct ctl_reply); code == MANTA_OK && at + sizeof(struct ctl_node) <= request->size;
             at += sizeof(struct ctl_node), n++) {
            struct ctl_node node;
            memcpy(&node, request->payload + at, sizeof node);
            node.address[sizeof node.address - 1] = '\0';
            ask.after = node.node;
            if (n == 0) /* our own node comes first */
                memcpy(own, node.address, sizeof own);
            if (n >= max)
                continue;
            node_info(&node, &out[n]);
            out[n].remote = is_remote(node.address, own);
        }
    }
    lib_unlock();
    free(request);
    return code ? -code : n;
}

manta_ref *manta_nodes_news(int what, manta_error *e)
{
    struct own_ref *ref = NULL;
    manta_ref      *handle = NULL;
    if (what != MANTA_NEWS_NODES && what != MANTA_NEWS_FREE) {
        (void)lib_error(e, MANTA_EINVAL, "manta_nodes_news: there is no news of kind %d", what);
        return NULL;
    }
    if (lib_enter(e) != MANTA_OK)
        return NULL;
    if (lib_check(e) == MANTA_OK) {
        ref = own_news_of_nodes(&lib.own, (enum ctl_news)what);
        if (ref)
            handle = lib_handle_ref(&lib.own, ref);
        else
            (void)lib_error(e, MANTA_ENOMEM, "no memory for a reference");
        lib.calls++;
        lib_act();
    }
    lib_unlock();
    return handle;
}

uint32_t manta_node(void)
{
    return lib_is_forked() ? 0 : lib.own.node;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * messages.c - connections of messages, where members have few others: made by who sends, at the first use.
 *
 * Owns: nothing. Thread: one at a time per struct coll_tcp.
 */
#include "sgd/coll/tcp/private.h"

#include <string.h>

struct coll_hello coll_tcp_hello(const struct coll_tcp *g, uint32_t rank, uint32_t channel)
{
    struct coll_hello hello = {.channel = channel, .group = g->config.group, .generation = g->config.generation, .rank = rank};
    memcpy(hello.secret, g->config.secret, sizeof hello.secret);
    return hello;
}

/* While it dials, a member lets others in: they may dial each other in a circle. */
static mt_status dial_look(void *user)
{
    struct coll_tcp *g = user;
    MT_TRY(coll_tcp_outside_look(g));
    MT_TRY(coll_tcp_look(g));
    return coll_tcp_strangers_take(g);
}

mt_status coll_tcp_way_to(struct coll_tcp *g, uint32_t peer, uint32_t *out_channel)
{
    struct coll_patience patience = {(int)g->config.wait_limit_ms, MT_COLL_DIAL_MS, dial_look, g};
    struct coll_hello    hello = coll_tcp_hello(g, g->config.rank, COLL_MESSAGES);
    struct coll_socket  *socket = &g->peers[peer].sockets[COLL_MESSAGES_OUT];
    *out_channel = coll_tcp_is_near(g, peer) ? COLL_DATA : COLL_MESSAGES_OUT;
    if (*out_channel == COLL_DATA || socket->fd >= 0)
        return mt_ok();
    mt_status st = coll_socket_dial(&g->at[peer], peer, &hello, &patience, socket);
    if (st.code == MT_OK || g->state == COLL_TCP_OVER)
        return st;
    return st.code == MT_ETIMEDOUT ? coll_tcp_end(g, MT_ETIMEDOUT, peer) : coll_tcp_lost(g, peer);
}

uint32_t coll_tcp_way_from(const struct coll_tcp *g, uint32_t peer)
{
    return coll_tcp_is_near(g, peer) ? COLL_DATA : COLL_MESSAGES;
}

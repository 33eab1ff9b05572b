/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - making the connections of a generation. See tcp.h.
 *
 * Owns: the door, until all are connected; with few connections for the generation. Thread: one at a time per struct coll_tcp.
 */
#include "sgd/coll/tcp/private.h"

#include "core/base/clock.h"
#include "sgd/coll/tcp/halving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mt_status coll_tcp_open(struct coll_tcp *g, const struct coll_tcp_config *config, struct coll_at *out_at)
{
    *g = (struct coll_tcp){.config = *config, .loops = coll_loops_choose(NULL)};
    g->door.listener = -1;
    for (uint32_t r = 0; r < MT_GROUP_MEMBERS_MAX; r++)
        for (int channel = 0; channel < COLL_SOCKETS; channel++)
            g->peers[r].sockets[channel].fd = -1;
    snprintf(g->name, sizeof g->name, "%s", config->name ? config->name : "");
    g->config.wait_limit_ms = config->wait_limit_ms ? config->wait_limit_ms : MT_COLL_WAIT_MS;
    g->config.ask_ms = config->ask_ms ? config->ask_ms : MT_COLL_ASK_MS;
    if (config->members == 0 || config->members > MT_GROUP_MEMBERS_MAX || config->rank >= config->members)
        return mt_error(MT_EINVAL, 0, "group: rank or number of members out of range");
    g->is_few = config->members > (config->direct_max ? config->direct_max : MT_COLL_DIRECT_MAX);
    uint64_t all = config->members == 64 ? UINT64_MAX : (1ull << config->members) - 1;
    for (uint32_t r = 0; r < config->members; r++)
        g->near[r] = g->is_few ? coll_halving_peers(config->members, r) : all & ~(1ull << r);
    g->scratch = aligned_alloc(64, (size_t)config->members * MT_COLL_CHUNK_BYTES);
    if (!g->scratch)
        return mt_error(MT_ENOMEM, 0, "group: no memory for chunks");
    coll_tcp_set_state(g, COLL_TCP_JOINING);
    struct coll_hello mine = coll_tcp_hello(g, config->members - 1, 0);
    *out_at = config->at;
    if (!config->door)
        MT_TRY(coll_door_open(&g->door, out_at));
    coll_door_await(config->door ? config->door : &g->door, &mine, config->rank);
    return mt_ok();
}

static mt_status dial_all(struct coll_tcp *g)
{
    struct coll_patience patience = {(int)g->config.wait_limit_ms, g->config.ask_ms, coll_tcp_outside_look, g};
    for (uint32_t r = 0; r < g->config.rank; r++)
        for (uint32_t channel = 0; channel < COLL_MESSAGES && coll_tcp_is_near(g, r); channel++) {
            struct coll_hello hello = coll_tcp_hello(g, g->config.rank, channel);
            MT_TRY(coll_socket_dial(&g->at[r], r, &hello, &patience, &g->peers[r].sockets[channel]));
        }
    return mt_ok();
}

static uint32_t first_missing(const struct coll_tcp *g, uint64_t others)
{
    uint32_t rank = 0;
    for (; others; others &= others - 1) {
        rank = (uint32_t)__builtin_ctzll(others);
        if (g->peers[rank].sockets[COLL_DATA].fd < 0 || g->peers[rank].sockets[COLL_CONTROL].fd < 0)
            break;
    }
    return rank;
}

static mt_status accept_all(struct coll_tcp *g)
{
    uint64_t others = g->near[g->config.rank] & ~((2ull << g->config.rank) - 1); /* of higher ranks: they dial */
    uint32_t missing = COLL_MESSAGES * (uint32_t)__builtin_popcountll(others);
    uint64_t until = mt_now_ns() + (uint64_t)g->config.wait_limit_ms * 1000000u;
    while (missing > 0) {
        struct coll_socket socket;
        uint32_t           rank, channel;
        MT_TRY(coll_door_accept(coll_tcp_door(g), g->config.ask_ms, &socket, &rank, &channel));
        if (socket.fd >= 0) {
            missing -= coll_tcp_admit(g, &socket, rank, channel) && channel != COLL_MESSAGES;
        } else if ((uint64_t)mt_now_ns() >= until) {
            return coll_tcp_end(g, MT_ETIMEDOUT, first_missing(g, others));
        } else {
            MT_TRY(coll_tcp_outside_look(g));
        }
    }
    return mt_ok();
}

mt_status coll_tcp_join(struct coll_tcp *g, const struct coll_at *at)
{
    struct coll_call call = {.kind = COLL_JOIN, .count = g->config.members};
    memcpy(g->at, at, g->config.members * sizeof *at);
    mt_status st = dial_all(g);
    if (st.code == MT_OK)
        st = accept_all(g);
    if (!g->is_few)
        coll_door_close(&g->door);
    if (st.code == MT_OK)
        st = coll_tcp_run(g, &call);
    if (st.code == MT_OK)
        coll_tcp_set_state(g, COLL_TCP_JOINED);
    if (st.code != MT_OK && !g->text[0])
        snprintf(g->text, sizeof g->text, "group \"%s\": %s", g->name, st.what);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tickets.c - see tickets.h.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/tickets.h"
#include "tests/bench/cluster/rig.h"

#include "clients/control/manta_client.h"
#include "core/io/dial.h"
#include "core/io/private.h"
#include "core/io/tls/issue.h"
#include "core/io/tls/join.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/text/address.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 2, ROUNDS = 10, SHUT_OUT = 5, LISTEN_MS = 50 };

struct rig {
    struct rig_folder folder;
    char              address[HEADS][64];
    pid_t             head[HEADS], stays, leaves;
    manta_client     *client[HEADS]; /* the second head is another cluster's */
    struct rpc       *rpc;
    double            exchange_ms;
    int               exchanged, tried, accepted;
};

static const char *path_of(const struct rig *r, const char *name, char out[RIG_PATH])
{
    snprintf(out, RIG_PATH, "%s/%s", r->folder.dir, name);
    return out;
}

/* ---- children ---- */

static bool start_head(struct rig *r, int i)
{
    char              program[RIG_PATH + 32], dir[RIG_PATH], tls[RIG_PATH], log[32], token[RIG_PATH + 16], pem[RIG_PATH + 16];
    char             *argv[] = {program, "--dir", dir, "--tls-dir", tls, "--ready-fd", "3", NULL};
    manta_client_opts opts = {.address = r->address[i], .token_file = token, .tls_file = pem, .timeout_ms = RIG_PATIENCE_MS};
    manta_error       e;
    snprintf(program, sizeof program, "%s/manta-head", r->folder.bin);
    snprintf(dir, sizeof dir, "%s/head%d", r->folder.dir, i);
    snprintf(tls, sizeof tls, "%s/tls%d", r->folder.dir, i);
    snprintf(log, sizeof log, "head%d.log", i);
    snprintf(token, sizeof token, "%s/token", dir);
    snprintf(pem, sizeof pem, "%s/node.pem", tls);
    r->head[i] = rig_spawn_ready(&r->folder, log, argv, r->address[i], sizeof r->address[i]);
    r->client[i] = r->head[i] > 0 ? manta_client_open(&opts, &e) : NULL;
    return r->client[i] || (r->head[i] > 0 && bench_say(&e, "the head"));
}

static pid_t start_node(const struct rig *r, const char *name, const char *pem)
{
    char  program[RIG_PATH + 32], dir[RIG_PATH], log[64], token[RIG_PATH], line[128];
    char *argv[] = {
        program,        "--dir", dir,          "--ready-fd",           "3",          "--head", (char *)(uintptr_t)r->address[0],
        "--token-file", token,   "--tls-file", (char *)(uintptr_t)pem, "--num-cpus", "1",      "--store-memory",
        "67108864",     NULL};
    snprintf(program, sizeof program, "%s/manta-raylet", r->folder.bin);
    snprintf(log, sizeof log, "%s.log", name);
    return rig_spawn_ready(&r->folder, log, (path_of(r, name, dir), path_of(r, "head0/token", token), argv), line, sizeof line);
}

/* ---- tickets ---- */

static char *ticket(struct rig *r, int head, uint64_t valid_ms, manta_ticket *out)
{
    manta_ticket_opts opts = {.valid_ms = valid_ms};
    manta_error       e;
    char             *join = NULL;
    if (manta_ticket_create(r->client[head], &opts, &join, out, &e) != MANTA_OK)
        (void)bench_say(&e, "a ticket");
    return join;
}

static mt_status ask(const struct rpc_channel *channel, mt_view request, mt_view key, const char *pem)
{
    Manta__V1__CertifyRequest message = MANTA__V1__CERTIFY_REQUEST__INIT;
    ProtobufCMessage         *unpacked;
    mt_buf                    bytes = {0}, reply = {0}, text = {0};
    message.request.data = (uint8_t *)(uintptr_t)request.data;
    message.request.len = request.size;
    message.name = (char *)(uintptr_t) "bench";
    mt_status st = rpc_pack(&message.base, &bytes);
    if (!st.code)
        st = rpc_call_blocking((struct rpc_channel *)(uintptr_t)channel, "/manta.v1.Head/Certify", mt_buf_view(&bytes),
                               RIG_PATIENCE_MS, 0, &reply, NULL);
    if (!st.code)
        st = rpc_unpack(&manta__v1__certify_reply__descriptor, mt_buf_view(&reply), MT_CONTROL_BYTES_MAX, &unpacked);
    mt_buf_fini(&bytes);
    mt_buf_fini(&reply);
    if (st.code)
        return st;
    const Manta__V1__CertifyReply *r = (const Manta__V1__CertifyReply *)unpacked;
    st = r->code ? mt_error(r->code, 0, "refused") : mt_buf_append(&text, r->certificate.data, r->certificate.len);
    if (!st.code)
        st = mt_buf_append(&text, key.data, key.size);
    if (!st.code)
        st = io_private_write(pem, mt_buf_view(&text), true);
    rpc_unpack_free(unpacked);
    io_private_wipe(&text);
    return st;
}

/* What `manta start --join` does with it: a key is made, and a certificate asked for at the first head. */
static mt_status exchange(struct rig *r, const char *text, const char *name)
{
    char                pem[RIG_PATH];
    struct io_join      join;
    struct io_tls      *tls = NULL;
    struct rpc_channel *channel = NULL;
    mt_buf              request = {0}, key = {0};
    mt_status           st = io_join_read(mt_view_text(text), &join);
    double              begun = rig_now_ms();
    if (!st.code)
        st = io_tls_parse(join.certificates, &tls);
    struct rpc_channel_config config = {.target = r->address[0], .tls = tls, .peer = IO_TLS_HEAD};
    if (!st.code)
        st = io_tls_ask(&request, &key);
    if (!st.code)
        st = rpc_channel_open(r->rpc, &config, &channel);
    if (!st.code)
        st = ask(channel, mt_buf_view(&request), mt_buf_view(&key), path_of(r, name, pem));
    if (channel)
        rpc_channel_close(channel);
    if (!st.code) {
        r->exchange_ms += rig_now_ms() - begun;
        r->exchanged++;
    }
    io_tls_free(tls);
    mt_buf_fini(&request);
    io_private_wipe(&key);
    return st;
}

static void must_fail(struct rig *r, const char *what, const char *text)
{
    r->tried++;
    if (exchange(r, text, "refused.pem").code)
        return;
    r->accepted++;
    fprintf(stderr, "%s was accepted\n", what);
}

/* Used before, late, revoked, another cluster's. */
static bool bad_tickets(struct rig *r)
{
    manta_ticket made;
    manta_error  e;
    bool         ok = true;
    for (int i = 0; i < ROUNDS && ok; i++) {
        char *used = ticket(r, 0, 0, NULL), *late = ticket(r, 0, 1, NULL), *gone = ticket(r, 0, 0, &made),
             *other = ticket(r, 1, 0, NULL);
        ok = used && late && gone && other && !exchange(r, used, "used.pem").code &&
             manta_ticket_revoke(r->client[0], made.id, &e) == MANTA_OK;
        if (ok) {
            must_fail(r, "a ticket that was used", used);
            must_fail(r, "a late ticket", late);
            must_fail(r, "a revoked ticket", gone);
            must_fail(r, "another cluster's ticket", other);
        }
        free(used), free(late), free(gone), free(other);
    }
    return ok;
}

/* ---- revoked ---- */

/* Whether somebody takes a connection with that certificate there: he says something, or stays silent for a while. */
static bool is_taken(const char *address, const struct io_tls *tls, enum io_tls_role role)
{
    char             host[64], byte;
    const char      *port;
    int              fd = -1;
    struct tls_conn *conn = NULL;
    bool             is_open = mt_address_split(address, host, sizeof host, &port) &&
                   !io_dial(host, (uint16_t)strtoul(port, NULL, 10), &fd).code && !io_tls_dial(tls, fd, role, &conn).code;
    for (double end = rig_now_ms() + LISTEN_MS; is_open && rig_now_ms() < end;) {
        ssize_t       n = tls_recv(conn, &byte, 1);
        struct pollfd wait = {fd, tls_wants_write(conn) ? POLLOUT : POLLIN, 0};
        if (n > 0)
            break;
        is_open = n < 0 && (errno == EAGAIN || errno == ENOTCONN);
        if (is_open)
            (void)poll(&wait, 1, LISTEN_MS);
    }
    tls_end(conn);
    if (fd >= 0)
        close(fd);
    return is_open;
}

/* The newest node that lives, and its address; waits for `count` of them. */
static uint32_t newest(const struct rig *r, size_t wanted, char address[128])
{
    manta_cluster_node *nodes;
    size_t              count, alive = 0;
    manta_error         e;
    uint32_t            number = 0;
    for (double end = rig_now_ms() + RIG_PATIENCE_MS; alive < wanted && rig_now_ms() < end; bench_sleep_us(5000)) {
        if (manta_nodes_list(r->client[0], &nodes, &count, NULL, &e) != MANTA_OK)
            return 0;
        alive = 0;
        for (size_t i = 0; i < count; i++) {
            if (nodes[i].state != MANTA_NODE_ALIVE)
                continue;
            alive++;
            if (nodes[i].node >= number) {
                number = nodes[i].node;
                snprintf(address, 128, "%s", nodes[i].address);
            }
        }
        free(nodes);
    }
    return alive >= wanted ? number : 0;
}

/* From the word until neither the head nor another node takes it. */
static bool shut_out(struct rig *r, const char *other, double *out_ms)
{
    char           pem[RIG_PATH], address[128];
    struct io_tls *tls = NULL;
    manta_error    e;
    char          *text = ticket(r, 0, 0, NULL);
    bool           ok = text && !exchange(r, text, "leaves.pem").code;
    free(text);
    r->leaves = ok ? start_node(r, "leaves", path_of(r, "leaves.pem", pem)) : 0;
    uint32_t node = r->leaves > 0 ? newest(r, 2, address) : 0;
    ok = node && !io_tls_load(pem, &tls).code && is_taken(r->address[0], tls, IO_TLS_HEAD) && is_taken(other, tls, IO_TLS_NODE);
    double begun = rig_now_ms();
    if (ok && manta_node_revoke(r->client[0], node, "bench", &e) != MANTA_OK)
        ok = bench_say(&e, "revoke a node");
    while (ok && (is_taken(r->address[0], tls, IO_TLS_HEAD) || is_taken(other, tls, IO_TLS_NODE)))
        ok = rig_now_ms() - begun < RIG_PATIENCE_MS;
    *out_ms = rig_now_ms() - begun;
    io_tls_free(tls);
    rig_end(&r->leaves, SIGKILL);
    if (!ok)
        fprintf(stderr, "a node is not shut out: see %s\n", r->folder.dir);
    return ok;
}

static bool revoke_nodes(struct rig *r, double *out_longest)
{
    char   pem[RIG_PATH], other[128] = "";
    double took = 0;
    char  *text = ticket(r, 0, 0, NULL);
    bool   ok = text && !exchange(r, text, "stays.pem").code;
    free(text);
    r->stays = ok ? start_node(r, "stays", path_of(r, "stays.pem", pem)) : 0;
    ok = r->stays > 0 && newest(r, 1, other);
    for (int i = 0; i < SHUT_OUT && ok; i++) {
        ok = shut_out(r, other, &took);
        *out_longest = took > *out_longest ? took : *out_longest;
    }
    return ok;
}

/* ---- the rows ---- */

bool bench_tickets(struct bench *b)
{
    struct rig r = {0};
    double     longest = 0;
    bool       ok = rig_folder_make(&r.folder) && !rpc_new(NULL, &r.rpc).code && start_head(&r, 0) && start_head(&r, 1) &&
              bad_tickets(&r) && revoke_nodes(&r, &longest);
    if (ok) {
        bench_print_value(b, "tickets", "", r.accepted, r.tried);
        bench_print_value(b, "tickets.b", "ms", longest, SHUT_OUT);
        bench_print_value(b, "tickets.exchange", "ms", r.exchange_ms / r.exchanged, r.exchanged);
    }
    rig_end(&r.stays, SIGKILL);
    for (int i = 0; i < HEADS; i++) {
        manta_client_close(r.client[i]);
        rig_end(&r.head[i], SIGKILL);
    }
    if (r.rpc)
        rpc_free(r.rpc);
    ok = ok && r.accepted == 0;
    if (ok)
        rig_folder_remove(&r.folder);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - `manta start --join FILE`: the ticket in the file is exchanged for a certificate of this machine's own key, which is
 * made here and never leaves it. The runtime folder gets what a head leaves in its own (head.addr, token, certificate), so that
 * raylet and clients here find the cluster as they would there.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"

#include "core/text/address.h"
#include "core/io/tls/issue.h"
#include "core/io/tls/join.h"
#include "core/io/listener.h"
#include "core/io/private.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static mt_status write_file(const struct cli_folder *f, const char *name, mt_view content)
{
    char path[CLI_PATH_SIZE];
    cli_folder_file(f, name, path);
    return io_private_write(path, content, true);
}

static mt_status write_files(const struct cli_folder *f, const char *heads, const char *token_hex, mt_view certificates)
{
    char token[IO_TOKEN_HEX + 2], first[CTL_ADDRESS_SIZE] = "", address[3 * CLI_PATH_SIZE];
    snprintf(token, sizeof token, "%s\n", token_hex);
    mt_status st = write_file(f, "token", mt_view_text(token));
    explicit_bzero(token, sizeof token);
    if (st.code == 0)
        st = write_file(f, "tls.pem", certificates);
    (void)mt_address_at(heads, 0, first, sizeof first);
    snprintf(address, sizeof address, "%s\ntoken_file=%s/token\ntls_file=%s/tls.pem\nheads=%s\n", first, f->path, f->path, heads);
    return st.code == 0 ? write_file(f, "head.addr", mt_view_text(address)) : st;
}

/* ---- a ticket ---- */

/* What it is exchanged with: one request, however often it is sent. */
struct exchange {
    const struct io_join *join;
    struct ctl_place      place; /* the heads that it names, and the one that is asked */
    struct io_tls        *ticket;
    struct rpc           *rpc;
    struct rpc_channel   *channel;
    mt_buf                request, key;
    char                  detail[MT_ERROR_BYTES_MAX];
};

static mt_status dial(struct exchange *x)
{
    struct rpc_channel_config config = {.target = x->place.address, .tls = x->ticket, .peer = IO_TLS_HEAD};
    if (x->channel)
        rpc_channel_close(x->channel);
    x->channel = NULL;
    return rpc_channel_open(x->rpc, &config, &x->channel);
}

static mt_status exchange_open(struct exchange *x)
{
    MT_TRY(io_tls_parse(x->join->certificates, &x->ticket));
    if (io_tls_role_of(x->ticket) != IO_TLS_TICKET)
        return mt_error(MT_EAUTH, 0, "what is in it is no ticket");
    snprintf(x->place.heads, sizeof x->place.heads, "%s", x->join->address);
    if (!mt_address_at(x->place.heads, 0, x->place.address, sizeof x->place.address))
        return mt_error(MT_EPROTO, 0, "the head's address in it is too long");
    MT_TRY(rpc_new(NULL, &x->rpc));
    MT_TRY(dial(x));
    Manta__V1__CertifyRequest message = MANTA__V1__CERTIFY_REQUEST__INIT;
    char                      name[65] = "";
    mt_buf                    request = {0};
    MT_TRY(io_tls_ask(&request, &x->key));
    gethostname(name, sizeof name - 1);
    message.request.data = request.data;
    message.request.len = request.size;
    message.name = name;
    mt_status st = rpc_pack(&message.base, &x->request);
    mt_buf_fini(&request);
    return st;
}

static void exchange_close(struct exchange *x)
{
    if (x->channel)
        rpc_channel_close(x->channel);
    if (x->rpc)
        rpc_free(x->rpc);
    io_tls_free(x->ticket);
    mt_buf_fini(&x->request);
    io_private_wipe(&x->key);
}

/* The head may be just starting, may have died with our answer, or another may lead: the same request again is the same use of the
 * ticket. Of several one may stand still with its port open, so the first tries are short. */
static mt_status exchange_ask(struct exchange *x, ProtobufCMessage **out_reply)
{
    mt_buf              reply = {0};
    struct ctl_patience patience = ctl_patience_of(MT_CALL_MS);
    uint32_t            limit = mt_address_count(x->place.heads) > 1 ? MT_CTL_TRY_MS : ctl_half_of(MT_CALL_MS);
    mt_status           st;
    for (;;) {
        st = rpc_call_blocking(x->channel, "/manta.v1.Head/Certify", mt_buf_view(&x->request), ctl_try_begin(&patience, limit), 0,
                               &reply, x->detail);
        if (!ctl_try_end(&patience) || !ctl_may_retry(st) || (st.code && ctl_is_foreign_certificate(x->detail)))
            break;
        if (st.code == MT_ETIMEDOUT && limit < MT_CALL_MS)
            limit *= 2;
        if (!ctl_place_turn(&x->place, st.code, x->detail))
            rpc_channel_kick(x->channel);
        else if ((st = dial(x)).code)
            return st;
        if (!ctl_try_pause(&patience))
            break;
    }
    if (st.code == 0)
        st = rpc_unpack(&manta__v1__certify_reply__descriptor, mt_buf_view(&reply), MT_CONTROL_BYTES_MAX, out_reply);
    io_private_wipe(&reply);
    return st;
}

static bool exchange_failed(const struct exchange *x, mt_status st)
{
    if (ctl_is_foreign_certificate(x->detail))
        return cli_fail("the head at %s is another cluster's than this ticket: copy that cluster's", x->join->address), false;
    if (ctl_may_retry(st))
        return cli_fail("the head at %s does not answer, or does not take this ticket (%s): is it running, and the ticket its own?",
                        x->join->address, x->detail[0] ? x->detail : mt_code_text(st.code)),
               false;
    return cli_fail("--join: %s%s%s", x->detail[0] ? x->detail : st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : ""),
           false;
}

/* The certificate and its key, as a raylet reads them. */
static mt_status keep(const struct cli_folder *f, const struct exchange *x, const Manta__V1__CertifyReply *reply)
{
    mt_buf    text = {0};
    mt_status st = mt_buf_append(&text, reply->certificate.data, reply->certificate.len);
    if (st.code == 0)
        st = mt_buf_append(&text, x->key.data, x->key.size);
    if (st.code == 0)
        st = write_files(f, x->join->address, reply->token, mt_buf_view(&text));
    io_private_wipe(&text);
    return st;
}

static bool exchange(const struct cli_folder *f, const struct io_join *join)
{
    struct exchange   x = {.join = join};
    ProtobufCMessage *message = NULL;
    mt_status         st = exchange_open(&x);
    if (st.code == 0)
        st = exchange_ask(&x, &message);
    bool is_fine = st.code == 0 || exchange_failed(&x, st);
    if (is_fine) {
        Manta__V1__CertifyReply *reply = (Manta__V1__CertifyReply *)message;
        st = reply->code ? mt_ok() : keep(f, &x, reply);
        is_fine = !reply->code && st.code == 0;
        if (!is_fine)
            cli_fail("%s%s%s", reply->code ? reply->text : st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
        explicit_bzero(reply->token, strlen(reply->token));
        rpc_unpack_free(message);
    }
    exchange_close(&x);
    return is_fine;
}

/* ---- the file ---- */

/* "-": standard input, so that a ticket need not lie in a file. */
static mt_status read_join(const char *file, mt_buf *out)
{
    char    piece[4096];
    ssize_t n = 1;
    if (strcmp(file, "-") != 0)
        return io_private_read(file, MT_TLS_FILE_BYTES_MAX, out);
    while (n > 0 && out->size <= MT_TLS_FILE_BYTES_MAX) {
        n = read(STDIN_FILENO, piece, sizeof piece);
        if (n > 0)
            MT_TRY(mt_buf_append(out, piece, (size_t)n));
    }
    explicit_bzero(piece, sizeof piece);
    if (n < 0)
        return mt_error(MT_ESYS, errno, "read it");
    return n == 0 ? mt_ok() : mt_error(MT_ECORRUPT, 0, "it is longer than any ticket");
}

bool cli_join_prepare(const char *file, const struct cli_folder *f)
{
    struct io_join join;
    mt_buf         text = {0};
    mt_status      st = read_join(file, &text);
    if (st.code == 0)
        st = io_join_read(mt_buf_view(&text), &join);
    if (st.code != 0) {
        cli_fail("--join %s: %s%s%s", file, st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
        io_private_wipe(&text);
        return false;
    }
    bool is_fine = join.is_ticket && exchange(f, &join);
    if (!join.is_ticket) {
        st = write_files(f, join.address, join.token.hex, join.certificates);
        is_fine = st.code == 0 ||
                  (cli_fail("%s: %s%s%s", f->path, st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : ""), false);
    }
    io_token_wipe(&join.token);
    io_private_wipe(&text);
    return is_fine;
}

/* Asks the kernel from where it would speak to them; nothing is sent. */
static bool source_address(const struct addrinfo *to, char *out, size_t size)
{
    struct sockaddr_storage from;
    socklen_t               from_size = sizeof from;
    int                     fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool                    is_found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                    getsockname(fd, (struct sockaddr *)&from, &from_size) == 0 &&
                    getnameinfo((struct sockaddr *)&from, from_size, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    return is_found;
}

bool cli_address_towards(const char *address, char out[CTL_ADDRESS_SIZE])
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    char            host[CTL_ADDRESS_SIZE];
    const char     *port;
    out[0] = '\0';
    if (!mt_address_split(address, host, sizeof host, &port) || getaddrinfo(host, port, &hints, &found) != 0)
        return cli_fail("the head's address %s can't be found: say by --bind how other machines reach this one", address), false;
    bool is_found = source_address(found, out, CTL_ADDRESS_SIZE);
    freeaddrinfo(found);
    if (is_found && io_is_loopback(out))
        out[0] = '\0';
    return is_found || (cli_fail("there is no way to the head at %s: %s", address, strerror(errno)), false);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - `manta start --join FILE`: the runtime folder of a node gets what the file says, in the form in which a head
 * leaves it in its own (head.addr, token, certificate), so that raylet and clients here find the cluster as they would there.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"

#include "core/text/address.h"
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

static mt_status write_files(const struct cli_folder *f, const struct io_join *join)
{
    char token[IO_TOKEN_HEX + 2], first[CTL_ADDRESS_SIZE] = "", address[3 * CLI_PATH_SIZE];
    snprintf(token, sizeof token, "%s\n", join->token.hex);
    mt_status st = write_file(f, "token", mt_view_text(token));
    explicit_bzero(token, sizeof token);
    if (st.code == 0)
        st = write_file(f, "tls.pem", join->certificates);
    (void)mt_address_at(join->address, 0, first, sizeof first);
    snprintf(address, sizeof address, "%s\ntoken_file=%s/token\ntls_file=%s/tls.pem\nheads=%s\n", first, f->path, f->path,
             join->address);
    return st.code == 0 ? write_file(f, "head.addr", mt_view_text(address)) : st;
}

bool cli_join_prepare(const char *file, const struct cli_folder *f)
{
    struct io_join join;
    mt_buf         text = {0};
    mt_status      st = io_private_read(file, MT_TLS_FILE_BYTES_MAX, &text);
    if (st.code == 0)
        st = io_join_read(mt_buf_view(&text), &join);
    if (st.code != 0) {
        cli_fail("--join %s: %s%s%s", file, st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
        io_private_wipe(&text);
        return false;
    }
    st = write_files(f, &join);
    io_token_wipe(&join.token);
    io_private_wipe(&text);
    if (st.code != 0)
        cli_fail("%s: %s%s%s", f->path, st.what, st.sys ? ": " : "", st.sys ? strerror(st.sys) : "");
    return st.code == 0;
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

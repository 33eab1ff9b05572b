/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - when the head speaks TLS: its certificates, and the file that other machines join with.
 *
 * On loopback there is none. Beyond it there is, unless the user has spelled --insecure out. A private cluster has none.
 *
 * Owns:    the files in the certificates' folder (or the user does), and <dir>/join. Thread: the main loop's, before it serves.
 */
#include "core/text/address.h"
#include "core/io/tls/join.h"
#include "core/io/listener.h"
#include "core/io/private.h"
#include "core/io/tls/tls.h"
#include "scheduler/head/shell/heads.h"

#include <stdio.h>
#include <string.h>

static bool wants_tls(const struct shell *sh)
{
    const struct head_options *o = &sh->options;
    return !sh->is_private && !o->is_insecure && (o->tls_dir || !io_is_loopback(o->host));
}

mt_status head_shell_tls_open(struct shell *sh)
{
    char path[SHELL_PATH_SIZE + 16];
    if (mt_address_is_any(sh->options.host))
        return head_shell_complain(mt_error(MT_EINVAL, 0, "name the one address that other machines reach this one by"), "--listen",
                                   sh->options.host);
    if (!wants_tls(sh))
        return mt_ok();
    mt_status st = sh->standby ? mt_ok() : io_tls_make(sh->tls_dir, sh->cluster); /* who stands by was given the cluster's */
    if (st.code)
        return head_shell_complain(st, "certificates in", sh->tls_dir);
    snprintf(path, sizeof path, "%s/head.pem", sh->tls_dir);
    st = io_tls_load(path, &sh->tls);
    if (!st.code && io_tls_role_of(sh->tls) != IO_TLS_HEAD)
        st = mt_error(MT_EAUTH, 0, "its certificate is not for head.CLUSTER.manta");
    return st.code ? head_shell_complain(st, "certificate", path) : st;
}

void head_shell_tls_line(const struct shell *sh, char *out, size_t size)
{
    if (sh->tls)
        snprintf(out, size, "tls_file=%s/node.pem\n", sh->tls_dir);
    else
        snprintf(out, size, "%s", io_is_loopback(sh->options.host) ? "" : "insecure=1\n");
}

mt_status head_shell_tls_announce(struct shell *sh)
{
    char           path[SHELL_PATH_SIZE + 16];
    struct io_join join = {.token = sh->token};
    mt_buf         certificates = {0}, text = {0};
    if (!sh->tls)
        return mt_ok();
    snprintf(path, sizeof path, "%s/node.pem", sh->tls_dir);
    head_shell_heads_line(sh, join.address, sizeof join.address);
    mt_status st = io_private_read(path, MT_TLS_FILE_BYTES_MAX, &certificates);
    join.certificates = mt_buf_view(&certificates);
    if (!st.code)
        st = io_join_write(&join, &text);
    if (!st.code)
        st = io_private_write(sh->join_file, mt_buf_view(&text), true);
    io_private_wipe(&certificates);
    io_private_wipe(&text);
    io_token_wipe(&join.token);
    return st;
}

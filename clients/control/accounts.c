/* SPDX-License-Identifier: Apache-2.0
 *
 * accounts.c - what users and jobs have spent.
 */
#include "clients/control/control.h"
#include "clients/control/spent.h"

#include "core/base/reserved.h"

#include <stdlib.h>
#include <string.h>

static void row_copy(const Manta__V1__AccountRow *from, manta_account *out)
{
    *out = (manta_account){.day_ms = from->day_ms};
    snprintf(out->user, sizeof out->user, "%s", from->user);
    ctl_spent_copy(from->spent, &out->cpu_s, &out->gpu_s, &out->memory_gib_s, &out->cost);
}

static manta_status list(struct ctl_client *c, const manta_account_opts *opts, manta_account **out_rows, size_t *out_count,
                         manta_error *e)
{
    Manta__V1__AccountRequest request = MANTA__V1__ACCOUNT_REQUEST__INIT;
    ProtobufCMessage         *message;
    if (!out_rows || !out_count)
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_account_list: out_rows and out_count are wanted");
    if (opts && MT_RESERVED_IS_USED(opts))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_account_list");
    if (opts && opts->user)
        request.user = (char *)(uintptr_t)opts->user;
    request.since_ms = opts ? opts->since_ms : 0;
    request.by_day = opts && opts->by_day;
    manta_status st = ctl_call(c, "/manta.v1.Head/Account", &request.base, &manta__v1__account_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__AccountReply *reply = (const Manta__V1__AccountReply *)message;
    manta_account                 *rows = calloc(reply->n_rows + 1, sizeof *rows);
    for (size_t i = 0; rows && i < reply->n_rows; i++)
        row_copy(reply->rows[i], &rows[i]);
    if (rows) {
        *out_rows = rows;
        *out_count = reply->n_rows;
    }
    rpc_unpack_free(message);
    return rows ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for accounts");
}

manta_status manta_account_list(manta_client *client, const manta_account_opts *opts, manta_account **out_rows, size_t *out_count,
                                manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_account_list", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, list(c, opts, out_rows, out_count, e));
}

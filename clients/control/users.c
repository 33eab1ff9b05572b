/* SPDX-License-Identifier: Apache-2.0
 *
 * users.c - weights and bounds of users.
 */
#include "clients/control/control.h"

#include <stdlib.h>
#include <string.h>

/* On the wire one more than it is; 0: there is none. */
static double bound(uint64_t said, double unit)
{
    return said ? (double)(said - 1) / unit : -1;
}

static void user_copy(const Manta__V1__User *from, manta_user *out)
{
    *out = (manta_user){.weight = (double)from->weight_milli / 1000,
                        .cpus_max = bound(from->cpu_milli, 1000),
                        .gpus_max = bound(from->gpu_milli, 1000),
                        .memory_max = bound(from->memory, 1),
                        .running_max = (int64_t)bound(from->running, 1),
                        .waiting_max = (int64_t)bound(from->waiting, 1),
                        .cpus = (double)from->cpu_milli_now / 1000,
                        .gpus = (double)from->gpu_milli_now / 1000,
                        .memory = (double)from->memory_now,
                        .running = (int64_t)from->running_now,
                        .waiting = (int64_t)from->waiting_now,
                        .usage = from->usage,
                        .share = from->share};
    snprintf(out->name, sizeof out->name, "%s", from->name);
}

static manta_status user_set(struct ctl_client *c, const char *name, const char *const *settings, manta_user *out, manta_error *e)
{
    Manta__V1__SetUserRequest request = MANTA__V1__SET_USER_REQUEST__INIT;
    ProtobufCMessage         *message;
    if (!name || !settings || !settings[0])
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_user_set: a name and at least one setting are wanted: \"weight=2\"");
    request.name = (char *)(uintptr_t)name;
    request.settings = (char **)(uintptr_t)settings;
    while (settings[request.n_settings])
        request.n_settings++;
    manta_status st = ctl_call(c, "/manta.v1.Head/SetUser", &request.base, &manta__v1__set_user_reply__descriptor, c->timeout_ms,
                               MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__SetUserReply *reply = (const Manta__V1__SetUserReply *)message;
    if (reply->code)
        st = ctl_fail(e, reply->code, MANTA_NOT_DONE, "%s", reply->text);
    else if (reply->user && out)
        user_copy(reply->user, out);
    rpc_unpack_free(message);
    return st;
}

manta_status manta_user_set(manta_client *client, const char *name, const char *const *settings, manta_user *out_user,
                            manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter(client, "manta_user_set", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, user_set(c, name, settings, out_user, e));
}

static manta_status users_list(struct ctl_client *c, manta_user **out_users, size_t *out_count, manta_error *e)
{
    Manta__V1__ListUsersRequest request = MANTA__V1__LIST_USERS_REQUEST__INIT;
    ProtobufCMessage           *message;
    manta_status st = ctl_call(c, "/manta.v1.Head/ListUsers", &request.base, &manta__v1__list_users_reply__descriptor,
                               c->timeout_ms, MT_CALL_MS, &message, e);
    if (st != MANTA_OK)
        return st;
    const Manta__V1__ListUsersReply *reply = (const Manta__V1__ListUsersReply *)message;
    manta_user                      *users = calloc(reply->n_users + 1, sizeof *users);
    for (size_t i = 0; users && i < reply->n_users; i++)
        user_copy(reply->users[i], &users[i]);
    if (users) {
        *out_users = users;
        *out_count = reply->n_users;
    }
    rpc_unpack_free(message);
    return users ? MANTA_OK : ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for the list of users");
}

manta_status manta_users_list(manta_client *client, manta_user **out_users, size_t *out_count, manta_error *e)
{
    struct ctl_client *c;
    manta_status       st = ctl_enter_given(client, "manta_users_list", out_users && out_count, "out_users and out_count", &c, e);
    return st != MANTA_OK ? st : ctl_leave(client, users_list(c, out_users, out_count, e));
}

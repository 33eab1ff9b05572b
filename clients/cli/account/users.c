/* SPDX-License-Identifier: Apache-2.0
 *
 * users.c - `manta user set` and `manta user list`.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/account/account.h"
#include "clients/cli/table/table.h"

#include <stdlib.h>
#include <string.h>

static void put_bound(json_t *o, const char *key, double most)
{
    json_object_set_new(o, key, most < 0 ? json_null() : json_real(most));
}

static json_t *user_json(const manta_user *u)
{
    json_t *o = json_object();
    json_object_set_new(o, "user", json_string(u->name));
    json_object_set_new(o, "weight", json_real(u->weight));
    json_object_set_new(o, "usage", json_real(u->usage));
    json_object_set_new(o, "share", json_real(u->share));
    json_object_set_new(o, "running", json_integer(u->running));
    put_bound(o, "running_max", (double)u->running_max);
    json_object_set_new(o, "waiting", json_integer(u->waiting));
    put_bound(o, "waiting_max", (double)u->waiting_max);
    json_object_set_new(o, "cpus", json_real(u->cpus));
    put_bound(o, "cpus_max", u->cpus_max);
    json_object_set_new(o, "gpus", json_real(u->gpus));
    put_bound(o, "gpus_max", u->gpus_max);
    json_object_set_new(o, "memory", json_real(u->memory));
    put_bound(o, "memory_max", u->memory_max);
    return o;
}

static int set(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    if (args->rest_count < 2)
        return cli_usage(args, "NAME and at least one KEY=VALUE are wanted: manta user set ann weight=2 cpus=16");
    if (manta_user_set(client, args->rest[0], (const char *const *)args->rest + 1, NULL, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return CLI_OK;
}

static int list(const struct cli_args *args, manta_client *client)
{
    static const struct cli_column columns[] = {
        {"user", "USER", false},       {"weight", "WEIGHT", false},
        {"usage", "USAGE", false},     {"share", "SHARE", false},
        {"running", "RUNNING", false}, {"running_max", "MAX", false},
        {"waiting", "WAITING", false}, {"waiting_max", "MAX", false},
        {"cpus", "CPUS", false},       {"cpus_max", "MAX", false},
        {"gpus", "GPUS", false},       {"gpus_max", "MAX", false},
        {"memory", "MEMORY", true},    {"memory_max", "MEMORY_MAX", true},
        {NULL, NULL, false},
    };
    manta_user *users;
    manta_error e;
    size_t      count;
    if (manta_users_list(client, &users, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, user_json(&users[i]));
    free(users);
    return cli_print_rows(args, columns, rows);
}

int cli_user_set(const struct cli_args *args)
{
    return cli_with_client(args, set);
}

int cli_user_list(const struct cli_args *args)
{
    return cli_with_client(args, list);
}

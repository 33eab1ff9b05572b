/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c - `manta up`, `down`, and `scale status|explain|history|request`.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/scale/private.h"

#include "clients/cli/daemons/daemons.h"
#include "clients/cli/table/table.h"
#include "core/text/amounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOWN_S = 120 };

static struct scale_file file; /* large */

/* ---- up ---- */

/* No cluster of this user's runs here: its head is started. */
static int head_start(const struct cli_args *args)
{
    static struct cli_folder folder;
    static struct cli_args   start;
    if (args->values[CLI_OPT_ADDRESS])
        return CLI_OK;
    if (!cli_folder_open(args, false, &folder))
        return CLI_FAILED;
    if (folder.exists && cli_daemon_is_there(&folder.daemons[CLI_DAEMON_HEAD]))
        return CLI_OK;
    if (args->values[CLI_OPT_DRY_RUN])
        return cli_fail("no cluster runs in %s: `manta up` without --dry-run would start its head", folder.path);
    start = *args;
    start.values[CLI_OPT_HEAD] = "";
    if (file.head_cpus[0])
        start.values[CLI_OPT_NUM_CPUS] = file.head_cpus;
    return cli_start(&start);
}

static int up(const struct cli_args *args, manta_client *client)
{
    manta_error      e;
    manta_scale_row *rows;
    size_t           count;
    bool             is_dry = args->values[CLI_OPT_DRY_RUN];
    if (manta_scale_up(client, &file.cluster, is_dry, &rows, &count, &e) != MANTA_OK)
        return cli_fail("%s: %s", args->rest[0], e.message);
    for (size_t i = 0; i < count; i++)
        printf("%s%-16s %s\n", is_dry ? "would: " : "", rows[i].what, rows[i].text);
    if (count == 0)
        printf("nothing %s\n", is_dry ? "would change" : "has changed");
    else if (!is_dry)
        printf("nodes are started when something waits for them; `manta scale status` shows them\n");
    free(rows);
    return CLI_OK;
}

int cli_up(const struct cli_args *args)
{
    if (args->rest_count != 1)
        return cli_usage(args, "wants one cluster file");
    if (!scale_file_read(args->rest[0], &file))
        return CLI_FAILED;
    int st = head_start(args);
    return st == CLI_OK ? cli_with_client(args, up) : st;
}

/* ---- down ---- */

static int down(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    double      seconds = DOWN_S;
    if (!cli_number(args, CLI_OPT_TIMEOUT_S, 0, &seconds))
        return CLI_USAGE;
    if (!cli_nodes_end(client, (uint64_t)(seconds * 1000), &e))
        return e.code == MANTA_ETIMEDOUT ? cli_fail("%s; the head goes on to end them (manta scale status)", e.message)
                                         : cli_fail("%s", e.message);
    printf("no node is left that the cluster has started; `manta stop` ends the head\n");
    return CLI_OK;
}

int cli_down(const struct cli_args *args)
{
    return cli_with_client(args, down);
}

/* ---- scale ---- */

/* Where a view has no rows. */
static const char *nothing_of(const char *view)
{
    return strcmp(view, "status") == 0    ? "no node may be started; `manta up FILE` says which ones may"
           : strcmp(view, "history") == 0 ? "nothing was started or ended yet"
                                          : "nothing waits for a node, and none is kept";
}

static int look(const struct cli_args *args, manta_client *client)
{
    const char      *view = strchr(args->verb, ' ') + 1;
    manta_error      e;
    manta_scale_row *rows;
    size_t           count;
    if (manta_scale_look(client, view, &rows, &count, NULL, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *list = cli_output_is_json(args) ? json_array() : NULL;
    for (size_t i = 0; i < count; i++) {
        if (list)
            json_array_append_new(list, json_pack("{s:s,s:s}", "what", rows[i].what, "text", rows[i].text));
        else
            printf("%-24s %s\n", rows[i].what, rows[i].text);
    }
    if (count == 0 && !list)
        printf("%s\n", nothing_of(view));
    free(rows);
    return list ? cli_print_json(list) : CLI_OK;
}

int cli_scale_look(const struct cli_args *args)
{
    return cli_with_client(args, look);
}

/* What is wanted, -1: what is wrong was printed. The names are those of `own`. */
static int resources_read(const struct cli_args *args, struct mt_amounts *own, manta_scale_resource *out)
{
    const char *text = args->values[CLI_OPT_RESOURCES];
    int         n = 0;
    double      cpus = 0, gpus = 0;
    char        why[128];
    if (!cli_number(args, CLI_OPT_NUM_CPUS, 0, &cpus) || !cli_number(args, CLI_OPT_NUM_GPUS, 0, &gpus))
        return -1;
    if (mt_amounts_read(text ? text : "", own, why, sizeof why).code)
        return cli_usage(args, "--resources: %s", why), -1;
    if (args->values[CLI_OPT_NUM_CPUS])
        out[n++] = (manta_scale_resource){"CPU", cpus};
    if (args->values[CLI_OPT_NUM_GPUS])
        out[n++] = (manta_scale_resource){"GPU", gpus};
    for (uint32_t i = 0; i < own->count; i++)
        out[n++] = (manta_scale_resource){own->list[i].name, (double)own->list[i].milli / 1000};
    return n;
}

static int request(const struct cli_args *args, manta_client *client)
{
    struct mt_amounts    own;
    manta_scale_resource list[MT_RLT_RESOURCES_MAX + 2];
    manta_error          e;
    double               count = 1;
    int                  n = resources_read(args, &own, list);
    if (n < 0 || !cli_whole(args, CLI_OPT_COUNT, 0, UINT32_MAX, &count))
        return CLI_USAGE;
    if (manta_scale_request(client, args->rest[0], list, (size_t)n, args->values[CLI_OPT_LABELS], (uint32_t)count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return CLI_OK;
}

int cli_scale_request(const struct cli_args *args)
{
    if (args->rest_count != 1)
        return cli_usage(args, "wants one name for the request");
    return cli_with_client(args, request);
}

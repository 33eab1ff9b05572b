/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c - `manta drain`: lets a node leave. Returns when the head has taken it; `manta status` shows how far it is.
 * `manta head step-down`: another head is to lead; returns when one does. And the end of all nodes that the cluster has started.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"
#include "core/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 100, SAY_MS = 5000, SAID_SIZE = 4096 };

uint32_t cli_node_of(manta_client *client, const char *word)
{
    char               *end;
    manta_error         e;
    manta_cluster_node *nodes;
    size_t              count, found = 0;
    uint32_t            number = 0;
    errno = 0;
    unsigned long long given = strtoull(word, &end, 10);
    if (*word >= '0' && *word <= '9' && !*end && !errno && given > 0 && given <= UINT32_MAX)
        return (uint32_t)given; /* the head knows whether there is one */
    if (manta_nodes_list(client, &nodes, &count, NULL, &e) != MANTA_OK) {
        cli_fail("%s", e.message);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (nodes[i].state != MANTA_NODE_DEAD && strcmp(nodes[i].name, word) == 0) {
            number = nodes[i].node;
            found++;
        }
    free(nodes);
    if (found == 1)
        return number;
    cli_fail(found ? "%s: more than one node has this name; give its number (manta list nodes)"
                   : "%s: no node has this number or name (manta list nodes)",
             word);
    return 0;
}

static int drain(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    double      seconds = -1;
    if (args->rest_count != 1)
        return cli_usage(args, "wants one node: its number or its name");
    if (!cli_number(args, CLI_OPT_DEADLINE, 0, &seconds))
        return CLI_USAGE;
    uint32_t node = cli_node_of(client, args->rest[0]);
    if (!node)
        return CLI_FAILED;
    if (manta_node_drain(client, node, seconds < 0 ? -1 : (int64_t)(seconds * 1000), args->values[CLI_OPT_REASON], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("node %u is being drained; `manta status` shows what it still waits for\n", node);
    return CLI_OK;
}

int cli_drain(const struct cli_args *args)
{
    return cli_with_client(args, drain);
}

/* ---- all that were started by themselves ---- */

/* What is not gone yet, and why nobody can know: "instance 3 (small STOPPING, handle 17, for 12 s: ...), ...; provider ...". */
static void left_say(const manta_scale_row *rows, size_t count, char *out, size_t size)
{
    size_t      used = 0;
    const char *provider = NULL;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        if (strcmp(rows[i].what, "provider") == 0)
            provider = rows[i].text;
        else if (strncmp(rows[i].what, "instance ", strlen("instance ")) == 0)
            used += (size_t)snprintf(out + used, size - used, "%s%s (%s)", used ? ", " : "", rows[i].what, rows[i].text);
    }
    if (provider && used < size)
        snprintf(out + used, size - used, "; the provider %s", provider);
}

/* How they stand. `text`: of those that are left. */
static bool left_look(manta_client *client, uint32_t *out_left, char *text, size_t size, manta_error *e)
{
    manta_scale_row *rows = NULL;
    size_t           count = 0;
    if (manta_scale_look(client, "status", &rows, &count, out_left, e) != MANTA_OK)
        return false;
    left_say(rows, count, text, size);
    free(rows);
    return true;
}

bool cli_nodes_end(manta_client *client, uint64_t limit_ms, manta_error *e)
{
    static char text[SAID_SIZE];
    uint64_t    begun = ctl_now_ms(), said = begun;
    uint32_t    left = 0;
    if (manta_scale_down(client, e) != MANTA_OK)
        return false;
    struct ctl_patience patience = ctl_patience_of((int64_t)limit_ms);
    do {
        (void)ctl_try_begin(&patience, MT_CTL_TRY_MS);
        if (!left_look(client, &left, text, sizeof text, e))
            return false;
        if (left == 0)
            return true;
        if (ctl_now_ms() - said >= SAY_MS) {
            fprintf(stderr, "manta: waits for the end of %s\n", text);
            said = ctl_now_ms();
        }
        mt_sleep_ms(LOOK_MS);
    } while (ctl_try_end(&patience));
    e->code = MANTA_ETIMEDOUT;
    snprintf(e->message, sizeof e->message, "%u of the nodes that the cluster has started may still be there after %d s", left,
             (int)((ctl_now_ms() - begun) / 1000));
    fprintf(stderr, "manta: may be left at the provider: %s\n", text);
    return false;
}

static int step_down(const struct cli_args *args, manta_client *client)
{
    manta_error         e;
    manta_cluster_info  before, after;
    manta_cluster_node *nodes;
    size_t              count;
    (void)args;
    if (manta_nodes_list(client, &nodes, &count, &before, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    free(nodes);
    uint64_t            begun = ctl_now_ms();
    struct ctl_patience patience = ctl_patience_of(MT_CTL_PATIENCE_MS);
    if (manta_cluster_step_down(client, "manta head step-down", &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    do {
        (void)ctl_try_begin(&patience, MT_CTL_TRY_MS);
        if (manta_nodes_list(client, &nodes, &count, &after, &e) != MANTA_OK)
            return cli_fail("%s has stepped down, and no other head answers: %s", before.address, e.message);
        free(nodes);
    } while (after.head_epoch == before.head_epoch && ctl_try_end(&patience));
    if (after.head_epoch == before.head_epoch)
        return cli_fail("%s still leads", before.address);
    printf("%s leads now (epoch %llu), after %llu ms; %s stands by\n", after.address, (unsigned long long)after.head_epoch,
           (unsigned long long)(ctl_now_ms() - begun), before.address);
    return CLI_OK;
}

int cli_step_down(const struct cli_args *args)
{
    return cli_with_client(args, step_down);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - `manta token create|list|revoke`: the tickets that other machines join with (named.c: tokens). `manta node revoke`: a
 * node that may not belong to the cluster any more.
 *
 * A ticket is a secret: it goes to standard output, where a pipe takes it to the other machine, and never into argv.
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/tokens/tokens.h"

#include "clients/cli/daemons/daemons.h"
#include "clients/cli/tokens/private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int create(const struct cli_args *args, manta_client *client)
{
    manta_error       e;
    manta_ticket      ticket;
    manta_ticket_opts opts = {.name = args->values[CLI_OPT_NAME]};
    double            uses = 1, valid_s = MT_TICKET_MS / 1000.0;
    char             *join = NULL;
    if (args->rest_count > 0)
        return cli_named_create(args, client);
    if (args->values[CLI_OPT_RIGHTS])
        return cli_usage(args, "--rights is of a token with a name: manta token create NAME --rights ...");
    if (!cli_whole(args, CLI_OPT_USES, 1, UINT32_MAX, &uses) || !cli_number(args, CLI_OPT_VALID_S, 1, &valid_s))
        return CLI_USAGE;
    opts.uses = (uint32_t)uses;
    opts.valid_ms = (uint64_t)(valid_s * 1000);
    if (manta_ticket_create(client, &opts, &join, &ticket, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    bool is_written = fputs(join, stdout) >= 0 && fflush(stdout) == 0;
    explicit_bzero(join, strlen(join));
    free(join);
    if (!is_written)
        return cli_fail("the ticket can't be written");
    fprintf(stderr, "ticket %s: good for %u %s, %.0f s long. There: manta start --join FILE (mode 0600; \"-\": standard input)\n",
            ticket.id, ticket.uses, ticket.uses == 1 ? "machine" : "machines", valid_s);
    return CLI_OK;
}

int cli_token_create(const struct cli_args *args)
{
    return cli_with_client(args, create);
}

/* ---- the list ---- */

static const struct cli_column columns[] = {
    {"kind", "KIND", false},     {"id", "ID", false},     {"name", "NAME", false}, {"state", "STATE", false},
    {"rights", "RIGHTS", false}, {"uses", "USED", false}, {"ends", "ENDS", false}, {"made", "MADE", true},
    {"last", "LAST BY", true},   {NULL, NULL, false},
};

static const char *state_of(const manta_ticket *t)
{
    if (t->is_revoked)
        return "REVOKED";
    if (t->used >= t->uses)
        return "USED";
    return t->ends_ms <= (uint64_t)time(NULL) * 1000 ? "ENDED" : "GOOD";
}

static json_t *ticket_json(const manta_ticket *t)
{
    char uses[32];
    snprintf(uses, sizeof uses, "%u/%u", t->used, t->uses);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "kind", "ticket", "id", t->id, "name", t->name, "state",
                     state_of(t), "uses", uses, "ends", cli_time_json(t->ends_ms), "made", cli_time_json(t->made_ms), "last",
                     t->last);
}

static int list(const struct cli_args *args, manta_client *client)
{
    manta_error   e;
    manta_ticket *tickets;
    size_t        count;
    if (manta_tickets_list(client, &tickets, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, ticket_json(&tickets[i]));
    free(tickets);
    if (!cli_named_rows(client, rows, &e)) {
        json_decref(rows);
        return cli_fail("%s", e.message);
    }
    return cli_print_rows(args, columns, rows);
}

int cli_token_list(const struct cli_args *args)
{
    return cli_with_client(args, list);
}

/* ---- revoked ---- */

/* No token has such a name. */
static bool is_ticket(const char *word)
{
    return strlen(word) == 16 && strspn(word, "0123456789abcdefABCDEF") == 16;
}

static int token_revoke(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    if (args->rest_count != 1)
        return cli_usage(args, "wants one token: its name; or a ticket: its id (manta token list)");
    if (!is_ticket(args->rest[0])) {
        if (manta_token_revoke(client, args->rest[0], &e) != MANTA_OK)
            return cli_fail("%s", e.message);
        printf("nobody is let in with token %s any more\n", args->rest[0]);
        return CLI_OK;
    }
    if (manta_ticket_revoke(client, args->rest[0], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("nobody joins with ticket %s any more\n", args->rest[0]);
    return CLI_OK;
}

int cli_token_revoke(const struct cli_args *args)
{
    return cli_with_client(args, token_revoke);
}

static int node_revoke(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    if (args->rest_count != 1)
        return cli_usage(args, "wants one node: its number or its name");
    uint32_t node = cli_node_of(client, args->rest[0]);
    if (!node)
        return CLI_FAILED;
    if (manta_node_revoke(client, node, args->values[CLI_OPT_REASON], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("node %u is revoked: its certificate is refused from now on. Tickets that it may still have: manta token list\n", node);
    return CLI_OK;
}

int cli_node_revoke(const struct cli_args *args)
{
    return cli_with_client(args, node_revoke);
}

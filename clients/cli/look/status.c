/* SPDX-License-Identifier: Apache-2.0
 *
 * status.c - `manta status`, `manta list nodes`, `manta healthcheck`.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"
#include "clients/cli/look/look.h"
#include "clients/cli/table/table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KINDS_MAX = 64 };
#define RULE "---------------------------------------------------------------\n"

struct overview {
    manta_cluster_node *nodes;
    size_t              node_count;
    manta_cluster_info  cluster;
    manta_job_info     *jobs;
    size_t              job_count;
    manta_rows         *waiting, *stores; /* told by the nodes; NULL: none could */
};

static manta_rows *ask_nodes(manta_client *client, const char *kind)
{
    manta_look  look = {.kind = kind, .limit = 10000};
    manta_rows *rows = NULL;
    manta_error e;
    (void)manta_state_list(client, &look, &rows, &e); /* a part of the picture: without it there is still the rest */
    return rows;
}

static void overview_free(struct overview *o)
{
    free(o->nodes);
    free(o->jobs);
    manta_rows_free(o->waiting);
    manta_rows_free(o->stores);
}

static bool overview_read(struct overview *o, manta_client *client)
{
    manta_error e;
    memset(o, 0, sizeof *o);
    if (manta_nodes_list(client, &o->nodes, &o->node_count, &o->cluster, &e) == MANTA_OK &&
        manta_job_list(client, &o->jobs, &o->job_count, &e) == MANTA_OK) {
        o->waiting = ask_nodes(client, "demands");
        o->stores = ask_nodes(client, "node");
        return true;
    }
    overview_free(o);
    cli_fail("%s", e.message);
    return false;
}

enum shown { SHOWN_ALIVE, SHOWN_SUSPECT, SHOWN_DRAINING, SHOWN_LEFT, SHOWN_DEAD };
static const char *const states[] = {"ALIVE", "SUSPECT", "DRAINING", "LEFT", "DEAD", NULL};

static const char *state_of(const manta_cluster_node *node)
{
    switch (node->state) {
    case MANTA_NODE_ALIVE: return states[SHOWN_ALIVE];
    case MANTA_NODE_SUSPECT: return states[SHOWN_SUSPECT];
    case MANTA_NODE_DRAINING: return states[SHOWN_DRAINING];
    default: return states[node->has_left ? SHOWN_LEFT : SHOWN_DEAD];
    }
}

/* ---- resources of all living nodes ---- */

struct usage {
    const char *name;
    double      total, free, reserved;
};

static size_t usage_sum(const struct overview *o, struct usage *out)
{
    size_t count = 0;
    for (size_t i = 0; i < o->node_count; i++) {
        const manta_cluster_node *node = &o->nodes[i];
        for (size_t k = 0; node->state != MANTA_NODE_DEAD && k < node->resource_count; k++) {
            const manta_node_resource *r = &node->resources[k];
            size_t                     at = 0;
            while (at < count && strcmp(out[at].name, r->name) != 0)
                at++;
            if (at == KINDS_MAX)
                continue;
            if (at == count)
                out[count++] = (struct usage){r->name, 0, 0, 0};
            out[at].total += r->total;
            out[at].free += r->free;
            out[at].reserved += r->held;
        }
    }
    return count;
}

/* What of it placement groups hold, at work or not. */
static const char *reserved_text(const struct usage *u, double unit, char *out, size_t size)
{
    out[0] = '\0';
    if (u->reserved > 0)
        snprintf(out, size, " (%.4g reserved in placement groups)", u->reserved / unit);
    return out;
}

static void print_usage(const struct overview *o)
{
    char         text[64];
    struct usage all[KINDS_MAX];
    size_t       count = usage_sum(o, all);
    const double gib = 1024.0 * 1024 * 1024;
    printf("Usage:\n");
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, "memory") == 0)
            printf(" %.2f/%.2f GiB memory%s\n", (all[i].total - all[i].free) / gib, all[i].total / gib,
                   reserved_text(&all[i], gib, text, sizeof text));
        else
            printf(" %.1f/%.1f %s%s\n", all[i].total - all[i].free, all[i].total, all[i].name,
                   reserved_text(&all[i], 1, text, sizeof text));
    if (o->stores && o->stores->count) {
        double used = 0, total = 0;
        for (size_t i = 0; i < o->stores->count; i++) {
            used += strtod(cli_cell(o->stores, i, "store_used"), NULL);
            total += strtod(cli_cell(o->stores, i, "store_total"), NULL);
        }
        printf(" %.2f/%.2f GiB object store\n", used / gib, total / gib);
    }
    if (count == 0)
        printf(" (no resources)\n");
}

/* ---- status: the layout that users of Ray know ---- */

static void print_nodes(const struct overview *o, int state, const char *title, const char *none)
{
    bool is_any = false;
    printf("%s:\n", title);
    for (size_t i = 0; i < o->node_count; i++) {
        const manta_cluster_node *node = &o->nodes[i];
        if (node->state != state)
            continue;
        if (state == MANTA_NODE_DRAINING)
            printf(" %u %s: %s; %s%s; %llu s left\n", node->node, node->name, node->reason,
                   node->waits[0] ? "waits for " : "is empty", node->waits, (unsigned long long)(node->drain_left_ms / 1000));
        else
            printf(" %u %s%s%s\n", node->node, node->name, node->reason[0] ? ": " : "", node->reason);
        is_any = true;
    }
    if (!is_any)
        printf(" (%s)\n", none);
}

static bool has_draining(const struct overview *o)
{
    bool any = false;
    for (size_t i = 0; i < o->node_count; i++)
        any |= o->nodes[i].state == MANTA_NODE_DRAINING;
    return any;
}

/* Each node's own, where there are some. */
static void print_certificates(const struct overview *o)
{
    bool is_any = false;
    for (size_t i = 0; i < o->node_count; i++) {
        const manta_cluster_node *node = &o->nodes[i];
        if (node->state == MANTA_NODE_DEAD || !node->certificate_ms)
            continue;
        json_t *ends = cli_time_json(node->certificate_ms);
        printf("%s %u %s: until %s\n", is_any ? "" : "Certificates:\n", node->node, node->name, json_string_value(ends));
        json_decref(ends);
        is_any = true;
    }
}

static void print_demands(const struct overview *o)
{
    bool is_any = false;
    printf("Demands:\n");
    for (size_t i = 0; i < o->job_count; i++) {
        if (strcmp(o->jobs[i].state, "PENDING") != 0)
            continue;
        printf(" job %s (%s): %s\n", o->jobs[i].id, o->jobs[i].name, o->jobs[i].reason);
        is_any = true;
    }
    for (size_t i = 0; o->waiting && i < o->waiting->count; i++) {
        long lacking = strtol(cli_cell(o->waiting, i, "wanted"), NULL, 10) - strtol(cli_cell(o->waiting, i, "held"), NULL, 10);
        printf(" %s: %ld pending (%s of pid %s on node %s): %s\n", cli_cell(o->waiting, i, "resources"), lacking,
               cli_cell(o->waiting, i, "name"), cli_cell(o->waiting, i, "pid"), cli_cell(o->waiting, i, "node"),
               cli_cell(o->waiting, i, "why"));
        is_any = true;
    }
    if (!is_any)
        printf(" (no resource demands)\n");
}

static void print_overview(const struct cli_args *args, const struct overview *o)
{
    char      text[32];
    time_t    now = time(NULL);
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
    printf("======== Cluster status: %s ========\nNode status\n" RULE, text);
    print_nodes(o, MANTA_NODE_ALIVE, "Healthy", "no healthy nodes");
    print_nodes(o, MANTA_NODE_SUSPECT, "Suspect", "no suspect nodes");
    if (has_draining(o))
        print_nodes(o, MANTA_NODE_DRAINING, "Draining", "no draining nodes");
    print_nodes(o, MANTA_NODE_DEAD, "Recent failures", "no failures");
    print_certificates(o);
    printf("\nResources\n" RULE);
    print_usage(o);
    print_demands(o);
    printf("\n");
    cli_daemons_print(args, stdout);
    printf("Head %s (epoch %llu)%s.\n", o->cluster.address, (unsigned long long)o->cluster.head_epoch,
           o->cluster.has_tls ? ", TLS" : "");
    if (o->cluster.standbys[0])
        printf("Standing by: %s.\n", o->cluster.standbys);
    if (o->cluster.is_insecure)
        printf("WARNING: this cluster is reached over the network without TLS (--insecure): its token and all data travel in "
               "clear.\n");
    printf("Note: jobs of one user are kept apart against accidents, not against malice.\n");
    if (o->cluster.runs_as_root)
        printf("Note: this cluster runs as root, and so does every job.\n");
}

static json_t *node_json(const manta_cluster_node *node)
{
    json_t *o = json_object(), *total = json_object(), *unused = json_object(), *reserved = json_object();
    for (size_t i = 0; i < node->resource_count; i++) {
        json_object_set_new(total, node->resources[i].name, json_real(node->resources[i].total));
        json_object_set_new(unused, node->resources[i].name, json_real(node->resources[i].free));
        if (node->resources[i].held > 0)
            json_object_set_new(reserved, node->resources[i].name, json_real(node->resources[i].held));
    }
    json_object_set_new(o, "node", json_integer(node->node));
    json_object_set_new(o, "name", json_string(node->name));
    json_object_set_new(o, "state", json_string(state_of(node)));
    json_object_set_new(o, "epoch", json_integer(node->epoch));
    json_object_set_new(o, "address", json_string(node->address));
    json_object_set_new(o, "total", total);
    json_object_set_new(o, "free", unused);
    json_object_set_new(o, "reserved", reserved);
    json_object_set_new(o, "reason", json_string(node->reason));
    json_object_set_new(o, "waits", json_string(node->waits));
    json_object_set_new(o, "labels", json_string(node->labels));
    json_object_set_new(o, "certificate_ends", cli_time_json(node->certificate_ms));
    return o;
}

static json_t *overview_json(const struct cli_args *args, const struct overview *o)
{
    json_t *all = json_object(), *nodes = json_array(), *demands = json_array();
    for (size_t i = 0; i < o->node_count; i++)
        json_array_append_new(nodes, node_json(&o->nodes[i]));
    for (size_t i = 0; i < o->job_count; i++)
        if (strcmp(o->jobs[i].state, "PENDING") == 0)
            json_array_append_new(
                demands, json_pack("{s:s, s:s, s:s}", "job", o->jobs[i].id, "name", o->jobs[i].name, "reason", o->jobs[i].reason));
    json_object_set_new(all, "cluster", json_string(o->cluster.cluster));
    json_object_set_new(all, "address", json_string(o->cluster.address));
    json_object_set_new(all, "head_epoch", json_integer((json_int_t)o->cluster.head_epoch));
    json_object_set_new(all, "standbys", json_string(o->cluster.standbys));
    json_object_set_new(all, "tls", json_boolean(o->cluster.has_tls));
    json_object_set_new(all, "insecure", json_boolean(o->cluster.is_insecure));
    json_object_set_new(all, "runs_as_root", json_boolean(o->cluster.runs_as_root));
    json_object_set_new(all, "nodes", nodes);
    if (o->waiting) {
        json_t *rows = cli_rows_json(o->waiting);
        json_array_extend(demands, rows);
        json_decref(rows);
    }
    json_object_set_new(all, "demands", demands);
    json_object_set_new(all, "daemons", cli_daemons_json(args));
    json_object_set_new(all, "stores", o->stores ? cli_rows_json(o->stores) : json_array());
    return all;
}

static int status(const struct cli_args *args, manta_client *client)
{
    struct overview o;
    if (!overview_read(&o, client))
        return CLI_FAILED;
    if (cli_output_is_json(args))
        cli_print_json(overview_json(args, &o));
    else
        print_overview(args, &o);
    overview_free(&o);
    return CLI_OK;
}

/* ---- list nodes, healthcheck ---- */

static const struct cli_column columns[] = {
    {"node", "NODE", false},      {"name", "NAME", false},
    {"state", "STATE", false},    {"resources", "FREE", false},
    {"epoch", "EPOCH", true},     {"address", "ADDRESS", true},
    {"labels", "LABELS", false},  {"reason", "REASON", false},
    {"waits", "WAITS FOR", true}, {"certificate_ends", "CERTIFICATE ENDS", true},
    {NULL, NULL, false},
};

/* "CPU 1/2  memory 3/4": for the table. */
static void resources_text(const manta_cluster_node *node, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < node->resource_count && at < size; i++) {
        const manta_node_resource *r = &node->resources[i];
        double                     unit = strcmp(r->name, "memory") == 0 ? 1024.0 * 1024 * 1024 : 1;
        at += (size_t)snprintf(out + at, size - at, "%s%s %.4g/%.4g%s", i ? ", " : "", r->name, r->free / unit, r->total / unit,
                               unit > 1 ? " GiB" : "");
    }
}

static json_t *row_of(const struct cli_args *args, const manta_cluster_node *node)
{
    json_t *row = node_json(node);
    char    text[512];
    resources_text(node, text, sizeof text);
    if (!cli_output_is_json(args))
        json_object_set_new(row, "resources", json_string(text));
    return row;
}

static int list_nodes(const struct cli_args *args, manta_client *client)
{
    manta_error         e;
    manta_cluster_node *nodes;
    size_t              count;
    if (manta_nodes_list(client, &nodes, &count, NULL, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, row_of(args, &nodes[i]));
    free(nodes);
    if (!cli_filter_rows(args, row_of(args, &(manta_cluster_node){0}), states, rows)) {
        json_decref(rows);
        return CLI_USAGE;
    }
    return cli_print_rows(args, columns, rows);
}

static int healthcheck(const struct cli_args *args, manta_client *client)
{
    manta_error         e;
    manta_cluster_node *nodes;
    size_t              count, alive = 0;
    (void)args;
    if (manta_nodes_list(client, &nodes, &count, NULL, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    for (size_t i = 0; i < count; i++)
        alive += nodes[i].state == MANTA_NODE_ALIVE;
    free(nodes);
    printf("head: answers; nodes alive: %zu\n", alive);
    return alive ? CLI_OK : CLI_FAILED;
}

int cli_status(const struct cli_args *args)
{
    manta_client *client = cli_connect(args);
    int           result = client ? status(args, client) : CLI_FAILED;
    if (result != CLI_OK)
        cli_daemons_print(args, stderr); /* the head may be on its way back */
    manta_client_close(client);
    return result;
}

int cli_list_nodes(const struct cli_args *args)
{
    return cli_with_client(args, list_nodes);
}
int cli_healthcheck(const struct cli_args *args)
{
    return cli_with_client(args, healthcheck);
}

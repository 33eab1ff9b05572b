/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - nodes that three commands of the user's start and end: the door to whatever has a command line.
 *
 *   list       prints a line "ID HANDLE" for each thing that runs with this cluster's tag
 *   launch     MANTA_ID, MANTA_TYPE, MANTA_LABELS, MANTA_HEAD_FILE in the environment; prints the handle. In a cluster that
 *              speaks TLS its standard input is the ticket that this one instance joins with (`manta start --join -`)
 *   terminate  MANTA_ID and MANTA_HANDLE
 *
 * Each runs by /bin/sh with MANTA_CLUSTER and, of the type's settings, MANTA_SET_<NAME> in the environment. Status 0: done; else
 * the last line of what it said on standard error is the reason.
 */
#include "scheduler/provider/provider.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_environment(const struct cluster *cluster, const struct request *r)
{
    char name[PAIR_NAME_SIZE + 16];
    setenv("MANTA_CLUSTER", cluster->id, 1);
    setenv("MANTA_HEAD_FILE", cluster->head_file, 1);
    setenv("MANTA_ID", r ? r->id : "", 1);
    setenv("MANTA_TYPE", r ? r->type : "", 1);
    setenv("MANTA_LABELS", r ? r->labels : "", 1);
    setenv("MANTA_HANDLE", r ? r->handle : "", 1);
    for (size_t i = 0; r && i < r->settings.count; i++) {
        snprintf(name, sizeof name, "MANTA_SET_%s", r->settings.items[i].name);
        for (char *c = name; *c; c++)
            *c = (char)(isalnum((unsigned char)*c) ? toupper((unsigned char)*c) : '_');
        setenv(name, r->settings.items[i].value, 1);
    }
}

/* Runs the command that the settings name; what it printed is in `child`, which the caller frees. */
static bool run(const struct cluster *cluster, const struct request *r, const char *which, struct child *child, struct said *said)
{
    const char *argv[] = {"/bin/sh", "-c", pairs_find(&cluster->settings, which), NULL};
    *child = (struct child){.argv = argv, .input = r ? r->join : NULL};
    if (!argv[2])
        return snprintf(said->text, sizeof said->text, "the cluster file has no provider.%s", which), false;
    set_environment(cluster, r);
    children_run(child, 1, strcmp(which, "launch") == 0 ? LAUNCH_LIMIT_MS : OTHER_LIMIT_MS);
    if (child->status != 0)
        child_why(child, said->text);
    child->argv = NULL;
    return child->status == 0;
}

static bool list(const struct cluster *cluster, struct said *said)
{
    struct child child;
    bool         is_fine = run(cluster, NULL, "list", &child, said);
    char        *rest = (char *)child.out.data;
    for (char *line; is_fine && (line = strsep(&rest, "\n"));) {
        char *handle = strchr(line, ' ');
        if (handle)
            *handle++ = '\0';
        if (line[0])
            said_list(said, line, handle ? handle : "", false, "");
    }
    children_free(&child, 1);
    return is_fine;
}

static bool launch(const struct cluster *cluster, const struct request *r, struct said *said)
{
    struct child child;
    bool         is_fine = run(cluster, r, "launch", &child, said);
    const char  *text = (const char *)child.out.data;
    if (is_fine)
        snprintf(said->handle, sizeof said->handle, "%.*s", (int)strcspn(text, "\r\n"), text);
    children_free(&child, 1);
    return is_fine;
}

static bool terminate(const struct cluster *cluster, const struct request *r, struct said *said)
{
    struct child child;
    bool         is_fine = run(cluster, r, "terminate", &child, said);
    children_free(&child, 1);
    return is_fine;
}

const struct provider provider_command = {.list = list, .launch = launch, .terminate = terminate};

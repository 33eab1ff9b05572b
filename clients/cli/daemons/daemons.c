/* SPDX-License-Identifier: Apache-2.0
 *
 * daemons.c - how the daemons of a folder of this machine are, and how often their keepers had to start them again.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"

#include <string.h>

static bool folder_find(const struct cli_args *args, struct cli_folder *out)
{
    const char     *place = args->values[CLI_OPT_ADDRESS];
    struct cli_args with_dir = *args;
    if (place && !strchr(place, '/'))
        return false;
    with_dir.values[CLI_OPT_DIR] = place;
    if (!cli_folder_open(&with_dir, false, out) || !out->exists)
        return false;
    for (int i = 0; i < CLI_DAEMONS; i++)
        if (out->daemons[i].keeper.pid > 0)
            return true;
    return false;
}

static const char *state_of(const struct cli_record *d)
{
    bool is_up = cli_process_is_alive(&d->daemon), is_kept = cli_process_is_alive(&d->keeper);
    return is_up ? is_kept ? "RUNNING" : "NOT KEPT" : is_kept ? "RESTARTING" : "DEAD";
}

static const char *advice_of(const struct cli_record *d)
{
    bool is_up = cli_process_is_alive(&d->daemon), is_kept = cli_process_is_alive(&d->keeper);
    return is_kept ? "" : is_up ? " (its keeper has died: nobody starts it again)" : " (`manta start` starts it again)";
}

void cli_daemons_print(const struct cli_args *args, FILE *out)
{
    struct cli_folder f;
    if (!folder_find(args, &f))
        return;
    fprintf(out, "Daemons of %s:\n", f.path);
    for (int i = 0; i < CLI_DAEMONS; i++) {
        const struct cli_record *d = &f.daemons[i];
        if (d->keeper.pid <= 0)
            continue;
        fprintf(out, " %s: %s%s, pid %d, restarts: %u%s%s%s\n", cli_daemon_names[i], state_of(d), advice_of(d), d->daemon.pid,
                d->restarts, d->last[0] ? " (last died " : "", d->last, d->last[0] ? ")" : "");
    }
}

json_t *cli_daemons_json(const struct cli_args *args)
{
    struct cli_folder f;
    json_t           *all = json_array();
    bool              is_there = folder_find(args, &f);
    for (int i = 0; is_there && i < CLI_DAEMONS; i++) {
        const struct cli_record *d = &f.daemons[i];
        if (d->keeper.pid > 0)
            json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:i, s:s}", "daemon", cli_daemon_names[i], "state",
                                                 state_of(d), "pid", d->daemon.pid, "keeper", d->keeper.pid, "restarts",
                                                 (int)d->restarts, "last", d->last));
    }
    return all;
}

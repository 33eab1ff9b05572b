/* SPDX-License-Identifier: Apache-2.0
 *
 * backup.c - `manta head backup | restore | check`. A head that runs is asked for its state. manta-head itself, which knows stores
 * and their files, does the rest.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Becomes manta-head; returns only where it can't. */
static int become_head(const struct cli_args *args, const char *verb)
{
    static const struct {
        enum cli_option option;
        const char     *name;
        bool            has_value;
    } passed[] = {{CLI_OPT_STATE, "--state", true},
                  {CLI_OPT_STORE, "--store", true},
                  {CLI_OPT_STORE_AUTH, "--store-auth", true},
                  {CLI_OPT_STORE_MAY_LOSE, "--store-may-lose", false},
                  {CLI_OPT_REPLACE, "--replace", false}};
    const char *argv[4 + 2 * sizeof passed / sizeof *passed] = {"manta-head", verb, args->rest[0]};
    char        path[CLI_PATH_SIZE];
    size_t      count = 3;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (!args->values[passed[i].option])
            continue;
        argv[count++] = passed[i].name;
        if (passed[i].has_value)
            argv[count++] = args->values[passed[i].option];
    }
    if (!cli_program_find("manta-head", path))
        return cli_fail("manta-head is not beside this program, and only it can read a head's state");
    execv(path, (char *const *)(uintptr_t)argv);
    return cli_fail("%s: %s", path, strerror(errno));
}

static int backup(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    if (manta_cluster_backup(client, args->rest[0], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return CLI_OK;
}

int cli_head_backup(const struct cli_args *args)
{
    static const enum cli_option placed[] = {CLI_OPT_ADDRESS, CLI_OPT_TOKEN_FILE, CLI_OPT_TLS_FILE, CLI_OPT_INSECURE};
    if (args->rest_count != 1)
        return cli_usage(args, "wants one file, which is made");
    for (size_t i = 0; i < sizeof placed / sizeof *placed; i++)
        if (args->values[placed[i]] && (args->values[CLI_OPT_STATE] || args->values[CLI_OPT_STORE]))
            return cli_usage(args, "either a head that runs (--address), or the state of one that does not (--state, --store)");
    if (args->values[CLI_OPT_STATE] || args->values[CLI_OPT_STORE])
        return become_head(args, "--backup");
    int status = cli_with_client(args, backup);
    return status == CLI_OK ? become_head(args, "--check") : status; /* which says what is in it */
}

int cli_head_restore(const struct cli_args *args)
{
    if (args->rest_count != 1 || !args->values[CLI_OPT_STATE])
        return cli_usage(args, "wants a file, and by --state the folder of the head that is to go on with it");
    return become_head(args, "--restore");
}

int cli_head_check(const struct cli_args *args)
{
    return args->rest_count == 1 ? become_head(args, "--check") : cli_usage(args, "wants one file");
}

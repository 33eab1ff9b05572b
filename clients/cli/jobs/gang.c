/* SPDX-License-Identifier: Apache-2.0
 *
 * gang.c - `manta gang ...`: gangs that run by themselves. (`manta run` itself is a program of its own.)
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/jobs/jobs.h"
#include "clients/cli/table/table.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Says how it ended; its exit code, or 1 where it has none of its own. */
static int ended(const char *name, const manta_job_info *job)
{
    fprintf(stderr, "manta: gang %s: %s%s%s\n", name, job->state, job->reason[0] ? ": " : "", job->reason);
    return strcmp(job->state, "SUCCEEDED") == 0 ? CLI_OK : job->exit_code ? job->exit_code & 0xff : CLI_FAILED;
}

/* So that ranks find them where `manta run` has them: the content of the first folder in the current one, which is why it is
 * entered here, and what else there is under its last name, which is where a job puts what is named by its whole path. False:
 * errno. */
static bool files_place(const char *const *given, char **files)
{
    char        here[PATH_MAX];
    const char *folder = NULL;
    if (!getcwd(here, sizeof here))
        return false;
    for (size_t i = 0; given[i]; i++) {
        struct stat st;
        const char *file = given[i];
        bool        is_first = !folder && stat(file, &st) == 0 && S_ISDIR(st.st_mode), is_whole = file[0] == '/';
        if (is_first)
            folder = file;
        if (asprintf(&files[i], "%s%s%s", is_first || is_whole ? "" : here, is_first || is_whole ? "" : "/",
                     is_first ? "." : file) < 0)
            return files[i] = NULL, false;
    }
    return !folder || chdir(folder) == 0;
}

static int submit_with(manta_client *client, const char *const *given, manta_gang *gang)
{
    manta_error e;
    char       *files[MT_CLI_LIST_MAX + 1] = {0};
    int         status = CLI_OK;
    gang->files = (const char *const *)files;
    if (!files_place(given, files))
        status = cli_fail("--file: %s", strerror(errno));
    else if (manta_gang_submit(client, gang, &e) != MANTA_OK)
        status = cli_fail("%s", e.message);
    for (size_t i = 0; files[i]; i++)
        free(files[i]);
    return status;
}

/* Words of `manta run`, "--", the command; without "--" all are the command. */
static int submit(const struct cli_args *args, manta_client *client)
{
    char     **command = args->rest;
    manta_gang gang = {.name = args->values[CLI_OPT_NAME], .env = args->env};
    double     retries = 0;
    if (!gang.name)
        return cli_usage(args, "--name is missing");
    if (!cli_whole(args, CLI_OPT_RETRIES, 0, UINT32_MAX, &retries))
        return CLI_USAGE;
    gang.retries = (uint32_t)retries;
    while (*command && strcmp(*command, "--") != 0)
        command++;
    if (*command) {
        *command = NULL;
        gang.options = (const char *const *)args->rest;
        command++;
    } else {
        command = args->rest;
    }
    gang.argv = (const char *const *)command;
    if (!*command)
        return cli_usage(args, "the command is missing");
    int status = submit_with(client, args->files, &gang);
    if (status == CLI_OK)
        printf("gang %s runs by itself. What it prints: manta gang follow %s\nIts end: manta gang stop %s\n", gang.name, gang.name,
               gang.name);
    return status;
}

static int follow(const struct cli_args *args, manta_client *client)
{
    manta_error    e;
    manta_job_info job;
    const char    *name = args->rest[0];
    if (manta_gang_follow(client, name, cli_job_print, NULL, &e) != MANTA_OK ||
        manta_gang_wait(client, name, MANTA_FOREVER, &job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return ended(name, &job);
}

static int stop(const struct cli_args *args, manta_client *client)
{
    manta_error    e;
    manta_job_info job;
    const char    *name = args->rest[0];
    if (manta_gang_stop(client, name, &e) != MANTA_OK || manta_gang_wait(client, name, MT_CLI_GANG_STOP_MS, &job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return CLI_OK;
}

static int list(const struct cli_args *args, manta_client *client)
{
    static const struct cli_column columns[] = {
        {"name", "NAME", false},          {"state", "STATE", false}, {"node", "NODE", false},     {"exit_code", "EXIT", false},
        {"submitted", "SUBMITTED", true}, {"ended", "ENDED", true},  {"reason", "REASON", false}, {NULL, NULL, false}};
    manta_error     e;
    manta_job_info *jobs;
    size_t          count;
    if (manta_gang_list(client, &jobs, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(jobs[i].name));
        json_object_set_new(o, "state", json_string(jobs[i].state));
        json_object_set_new(o, "node", jobs[i].node ? json_integer(jobs[i].node) : json_null());
        json_object_set_new(o, "exit_code", jobs[i].ended_ms ? json_integer(jobs[i].exit_code) : json_null());
        json_object_set_new(o, "submitted", cli_time_json(jobs[i].submitted_ms));
        json_object_set_new(o, "ended", cli_time_json(jobs[i].ended_ms));
        json_object_set_new(o, "reason", json_string(jobs[i].reason));
        json_array_append_new(rows, o);
    }
    free(jobs);
    return cli_print_rows(args, columns, rows);
}

int cli_gang_submit(const struct cli_args *args)
{
    return cli_with_client(args, submit);
}

int cli_gang_follow(const struct cli_args *args)
{
    return cli_with_client(args, follow);
}

int cli_gang_stop(const struct cli_args *args)
{
    return cli_with_client(args, stop);
}

int cli_gang_list(const struct cli_args *args)
{
    return cli_with_client(args, list);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c - the table of options, and what verbs need of them.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/words/words.h"
#include "core/text/amounts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cli_option_row cli_options[CLI_OPTIONS] = {
    [CLI_OPT_HEAD] = {"head", 0, NULL, "start the head too, not only a raylet"},
    [CLI_OPT_ADDRESS] = {"address", 0, "PLACE", "the head: HOST:PORT (of several: with commas), or its runtime folder"},
    [CLI_OPT_TOKEN_FILE] = {"token-file", 0, "FILE", "the cluster's token, where PLACE is HOST:PORT, or of a head that stands by"},
    [CLI_OPT_DIR] = {"dir", 0, "DIR", "runtime folder; default: MANTA_ADDRESS, else this user's"},
    [CLI_OPT_STATE] = {"state", 0, "DIR", "what survives `manta stop`: jobs, logs, files; default: nothing does"},
    [CLI_OPT_PORT] = {"port", 0, "PORT", "of the head; default: a free one"},
    [CLI_OPT_NODE_NAME] = {"node-name", 0, "NAME", "default: the machine's name"},
    [CLI_OPT_NUM_CPUS] = {"num-cpus", 0, "N", "of the node (default: what this process may use) or of the job (default: none)"},
    [CLI_OPT_NUM_GPUS] = {"num-gpus", 0, "N", "likewise, NVIDIA devices (default of the node: those found in /dev)"},
    [CLI_OPT_RESOURCES] = {"resources", 0, "NAME=N,...", "resources of your own"},
    [CLI_OPT_LABELS] = {"labels", 0, "K=V,...", "what tasks and actors may ask for"},
    [CLI_OPT_MAX_BLOCKED] = {"max-blocked-workers", 0, "N", "workers that may wait inside a task; default: 128"},
    [CLI_OPT_MAX_WORKERS] = {"max-workers", 0, "N", "processes of tasks and actors; default: 10240, or what the descriptors allow"},
    [CLI_OPT_STORE_MEMORY] = {"store-memory", 0, "BYTES", "limit of the object store; default: 30% of the memory"},
    [CLI_OPT_JOB_USERS] = {"job-users", 0, "NAME|A-B", "users that jobs run under (root only); a range: one for each job"},
    [CLI_OPT_JOB_MEMORY] = {"job-memory", 0, "BYTES", "of the object store for one job; default: all of it"},
    [CLI_OPT_JOB_PIDS] = {"job-pids", 0, "N", "processes and threads of one job on the node; default: 37 % of the machine's"},
    [CLI_OPT_CGROUP] = {"cgroup", 0, "DIR|none", "where the node makes its control group; default: in its own"},
    [CLI_OPT_OUTPUT] = {"output", 'o', "FORMAT", "table (default), wide or json"},
    [CLI_OPT_NAME] = {"name", 0, "NAME", "of the job, for people"},
    [CLI_OPT_NAMESPACE] = {"namespace", 0, "NAME", "of the actor's name; default: \"default\""},
    [CLI_OPT_FILE] = {"file", 0, "PATH", "a file or folder that the job gets; again for more"},
    [CLI_OPT_ENV] = {"env", 0, "NAME=VALUE", "an environment variable; again for more"},
    [CLI_OPT_METADATA] = {"metadata", 0, "KEY=VALUE", "of the job, shown by `manta job list`; again for more"},
    [CLI_OPT_RETRIES] = {"retries", 0, "N", "start it again so often when it fails; default: 0"},
    [CLI_OPT_TIME_S] = {"time-s", 0, "SECONDS", "as --time, in seconds"},
    [CLI_OPT_TIME] = {"time", 0, "TIME",
                      "end an attempt that runs longer: 90s, 2h30m, 10:00 (minutes), 0:10:00, 1-02:00:00 (days)"},
    [CLI_OPT_FOLLOW] = {"follow", 'f', NULL, "show its output until it ends"},
    [CLI_OPT_FILTER] = {"filter", 0, "KEY=VALUE", "only those; KEY!=VALUE: all but those; again for more"},
    [CLI_OPT_LIMIT] = {"limit", 0, "N", "at most so many; default: 100 (memory: 1000, timeline: 100000)"},
    [CLI_OPT_TIMEOUT_S] = {"timeout-s", 0, "SECONDS", "wait no longer"},
    [CLI_OPT_TLS_FILE] = {"tls-file", 0, "FILE", "a node's certificate, where PLACE is HOST:PORT on another machine"},
    [CLI_OPT_TLS_DIR] = {"tls-dir", 0, "DIR", "certificates: your own for a new cluster, the leader's of one that stands by"},
    [CLI_OPT_INSECURE] = {"insecure", 0, NULL, "no TLS beyond this machine: token and data travel in clear"},
    [CLI_OPT_BIND] = {"bind", 0, "ADDR",
                      "this machine's address for others (turns TLS on); default: loopback, a fitting one with --join"},
    [CLI_OPT_JOIN] =
        {"join", 0, "FILE",
         "the cluster to join: a ticket (manta token create), or a copy of the head's join file; \"-\": standard input"},
    [CLI_OPT_LOGS] = {"logs", 0, "DIR", "where the head keeps jobs' output; default: in the state folder"},
    [CLI_OPT_LOG_MAX] = {"log-max", 0, "BYTES",
                         "of each daemon's own log; what is older stands in NAME.log.1 until that is full again; default: 64 MiB"},
    [CLI_OPT_STORE] = {"store", 0, "URL",
                       "keep what survives in Redis: redis://HOST:PORT/0?cluster=NAME, redis+unix:///PATH?cluster=NAME, "
                       "redis+sentinel://HOST:PORT,HOST:PORT/MASTER?cluster=NAME"},
    [CLI_OPT_STORE_AUTH] = {"store-auth", 0, "FILE", "the password of that Redis (mode 0600)"},
    [CLI_OPT_STORE_MAY_LOSE] = {"store-may-lose", 0, NULL, "take a Redis that may lose what it has acknowledged"},
    [CLI_OPT_REPLACE] = {"replace", 0, NULL, "what the state folder has is kept beside, as state.db.old"},
    [CLI_OPT_STANDBY] = {"standby", 0, NULL, "with --head and --store: another head leads; lead when it is gone"},
    [CLI_OPT_DEADLINE] = {"deadline", 0, "SECONDS", "what runs there then is stopped, and runs again elsewhere; default: 30"},
    [CLI_OPT_REASON] = {"reason", 0, "TEXT", "why, for people"},
    [CLI_OPT_LIFETIME] = {"lifetime", 0, "SECONDS", "this machine goes so long from now: the node leaves before that by itself"},
    [CLI_OPT_NOTICE_FILE] = {"notice-file", 0, "FILE",
                             "the machine goes soon when this appears: the node leaves (docs/design/drain.md)"},
    [CLI_OPT_DRY_RUN] = {"dry-run", 0, NULL, "only say what would be done"},
    [CLI_OPT_COUNT] = {"count", 0, "N", "so many of it; 0: none any more. Default: 1"},
    [CLI_OPT_DRAIN_LIMIT] = {"drain-limit", 0, "SECONDS", "what runs on the node when it leaves may go on so long; default: 30"},
    [CLI_OPT_MEMORY] = {"memory", 0, "BYTES", "of the node; default: the machine's"},
    [CLI_OPT_ORPHAN_AFTER] = {"orphan-after", 0, "SECONDS",
                              "a node that reaches no head for so long, and where nothing runs, leaves"},
    [CLI_OPT_FOREGROUND] =
        {"foreground", 0, NULL,
         "the raylet takes this process's place, for whoever watches over it himself: a batch script, a provider"},
    [CLI_OPT_USES] = {"uses", 0, "N", "so many machines may join with the ticket; default: 1"},
    [CLI_OPT_VALID_S] = {"valid-s", 0, "SECONDS", "how long it is good; default: a ticket 600, a token until it is revoked"},
    [CLI_OPT_PRIORITY] = {"priority", 0, "N", "-1000 to 1000, the higher, the sooner; default: 0, and above it for admin only"},
    [CLI_OPT_ARRAY] =
        {"array", 0, "N|INDICES",
         "N jobs ID.0, ID.1, ..., or those of 0-9, 1,3,7 or 0-99:10; with %M behind it M run at a time. Each finds its number in "
         "MANTA_ARRAY_INDEX"},
    [CLI_OPT_DEPENDENCY] = {"dependency", 0, "KIND:ID[:ID...],...",
                            "start it when others have ended: afterok, afterany or afternotok; an ID may be an array's"},
    [CLI_OPT_PREEMPTIBLE] = {"preemptible", 0, NULL, "a job of higher priority may send it away while it runs; it begins again"},
    [CLI_OPT_JOB_DEADLINE] =
        {"deadline", 0, "WHEN",
         "it is to have ended by then: \"2026-11-28 18:00\", or 2h30m from now; spot nodes while there is time"},
    [CLI_OPT_WORK] = {"work", 0, "TIME", "with --deadline: so long it runs, by your estimate (90m); default: --time-s"},
    [CLI_OPT_RESUME] =
        {"resume", 0, "TIME",
         "with --deadline: begun again elsewhere, it goes on where it was, after so long (30s); else it starts over"},
    [CLI_OPT_SIGNAL] =
        {"signal", 0, "NAME[@SECONDS]",
         "its notice (USR1@120): so long before --time-s or a drain ends it, and before it makes room; default: 60 s"},
    [CLI_OPT_HOLD] = {"hold", 0, NULL, "do not start it before `manta job release`"},
    [CLI_OPT_RIGHTS] = {"rights", 0, "RIGHT", "what the token is good for: read, submit (jobs, its own), admin (everything)"},
    [CLI_OPT_USER] = {"user", 0, "NAME", "of that user alone"},
    [CLI_OPT_SINCE] = {"since", 0, "DAY", "from that day on (2026-11-28, UTC), or of the last so many (7d)"},
    [CLI_OPT_BY] = {"by", 0, "day", "a row for each day"},
    [CLI_OPT_PURGE] = {"purge", 0, NULL, "remove the logs too, also those of clusters that were stopped before"},
    [CLI_OPT_HELP] = {"help", 'h', NULL, "show this"},
};

/* ---- errors ---- */

int cli_usage(const struct cli_args *args, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "manta %s: ", args->verb);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nSee: manta %s --help\n", args->verb);
    return CLI_USAGE;
}

int cli_fail(const char *format, ...)
{
    va_list list;
    fprintf(stderr, "manta: ");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    return CLI_FAILED;
}

void cli_shell_word(const char *text, char out[CLI_WORD_SIZE])
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    static const char quote[] = "'\\''"; /* ends the quotes, and begins them anew */
    size_t            at = 0;
    if (text[0] && !text[strspn(text, plain)]) {
        snprintf(out, CLI_WORD_SIZE, "%s", text);
        return;
    }
    out[at++] = '\'';
    for (; *text && at < CLI_WORD_SIZE - sizeof quote - 1; text++) {
        size_t size = *text == '\'' ? sizeof quote - 1 : 1;
        memcpy(out + at, size == 1 ? text : quote, size);
        at += size;
    }
    out[at++] = '\'';
    out[at] = '\0';
}

/* ---- what the verbs need of the options ---- */

bool cli_number(const struct cli_args *args, enum cli_option option, double least, double *out)
{
    const char *text = args->values[option];
    char       *end;
    if (!text)
        return true;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least) || value > 1e15) {
        cli_usage(args, "--%s \"%s\": a number of at least %.15g is wanted", cli_options[option].name, text, least);
        return false;
    }
    *out = value;
    return true;
}

bool cli_whole(const struct cli_args *args, enum cli_option option, double least, double most, double *out)
{
    double value = *out;
    if (!cli_number(args, option, least, &value))
        return false;
    if (args->values[option] && (value > most || value != (double)(int64_t)value))
        return cli_usage(args, "--%s \"%s\": a whole number from %.15g to %.15g is wanted", cli_options[option].name,
                         args->values[option], least, most),
               false;
    *out = value;
    return true;
}

bool cli_amount_of_node(const struct cli_args *args, enum cli_option option, const char *name)
{
    double value = 0;
    if (!cli_number(args, option, 0, &value))
        return false;
    const char *wrong = mt_amount_wrong_of_node(name, value);
    if (wrong)
        cli_usage(args, "--%s \"%s\": %s", cli_options[option].name, args->values[option], wrong);
    return !wrong;
}

manta_client *cli_connect(const struct cli_args *args)
{
    manta_client_opts opts = {.address = args->values[CLI_OPT_ADDRESS],
                              .token_file = args->values[CLI_OPT_TOKEN_FILE],
                              .tls_file = args->values[CLI_OPT_TLS_FILE],
                              .insecure = args->values[CLI_OPT_INSECURE] != NULL};
    manta_error       e;
    manta_client     *client = manta_client_open(&opts, &e);
    if (!client)
        cli_fail("%s", e.message);
    return client;
}

int cli_with_client(const struct cli_args *args, int (*run)(const struct cli_args *args, manta_client *client))
{
    manta_client *client = cli_connect(args);
    int           status = client ? run(args, client) : CLI_FAILED;
    manta_client_close(client);
    return status;
}

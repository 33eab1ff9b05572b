/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the program `manta`: one table of verbs; help and parsing are made from it and that of options (words/).
 *
 * Owns: nothing that outlives main. Thread: main.
 */
#include "clients/cli/account/account.h"
#include "clients/cli/daemons/daemons.h"
#include "clients/cli/jobs/jobs.h"
#include "clients/cli/look/look.h"
#include "clients/cli/scale/scale.h"
#include "clients/cli/table/table.h"
#include "clients/cli/tokens/tokens.h"
#include "clients/cli/words/printed.h"
#include "core/text/near.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the tables ---- */

typedef unsigned __int128 bits; /* of options */
static_assert(CLI_OPTIONS <= 8 * sizeof(bits), "each option has a bit");
#define BIT(name) ((bits)1 << CLI_OPT_##name)
#define PLACE     (BIT(ADDRESS) | BIT(TOKEN_FILE) | BIT(TLS_FILE) | BIT(INSECURE))
#define LOOK      (PLACE | BIT(OUTPUT) | BIT(FILTER) | BIT(LIMIT))
#define STORE_OF  (BIT(STATE) | BIT(STORE) | BIT(STORE_AUTH) | BIT(STORE_MAY_LOSE))
#define NODE \
    (BIT(NODE_NAME) | BIT(NUM_CPUS) | BIT(NUM_GPUS) | BIT(RESOURCES) | BIT(STORE_MEMORY) | BIT(JOB_MEMORY) | BIT(JOB_USERS) | \
     BIT(MAX_BLOCKED) | BIT(MAX_WORKERS) | BIT(LABELS) | BIT(JOB_PIDS) | BIT(CGROUP) | BIT(LIFETIME) | BIT(NOTICE_FILE) | \
     BIT(DRAIN_LIMIT) | BIT(MEMORY) | BIT(ORPHAN_AFTER) | BIT(FOREGROUND))

enum verb_kind {
    PLAIN,
    COMMAND, /* options end where the command begins */
    PROGRAM, /* a program of its own, manta-NAME: gets every word as it is */
};

struct verb {
    const char *name; /* one word or two */
    const char *rest; /* what stands behind the options */
    const char *help;
    int (*run)(const struct cli_args *args);
    bits           options;
    enum verb_kind kind;
};

static int show_version(const struct cli_args *args);
static int show_help(const struct cli_args *args);
static int run_program(const struct cli_args *args);

static const struct verb verbs[] = {
    {"start", "", "start a cluster on this machine (--head), or add a node to one (--join, --address)", cli_start,
     BIT(HEAD) | PLACE | BIT(JOIN) | BIT(BIND) | BIT(TLS_DIR) | BIT(DIR) | BIT(STATE) | BIT(LOGS) | BIT(LOG_MAX) | BIT(STORE) |
         BIT(STORE_AUTH) | BIT(STORE_MAY_LOSE) | BIT(STANDBY) | BIT(PORT) | NODE,
     PLAIN},
    {"stop", "", "end what `manta start` has started, and remove its files; the last logs are kept", cli_stop,
     BIT(DIR) | BIT(PURGE), PLAIN},
    {"drain", "NODE", "let a node leave: nothing new is placed there, and its raylet ends when it is empty", cli_drain,
     PLACE | BIT(DEADLINE) | BIT(REASON), PLAIN},
    {"head step-down", "", "let a head that stands by lead; the one that leads stands by then", cli_step_down, PLACE, PLAIN},
    {"head backup", "FILE",
     "write the head's state into a new file: of the one that runs, or with --state, --store of one that does not", cli_head_backup,
     PLACE | STORE_OF, PLAIN},
    {"head restore", "FILE", "make a head's state from such a file, in --state, or with --store in Redis", cli_head_restore,
     STORE_OF | BIT(REPLACE), PLAIN},
    {"head check", "FILE", "is such a file whole? With --state or --store: does nothing differ from what is there?", cli_head_check,
     STORE_OF, PLAIN},
    {"up", "FILE", "nodes are started and given back as FILE says; starts the head where none runs", cli_up,
     PLACE | BIT(DIR) | BIT(STATE) | BIT(DRY_RUN), PLAIN},
    {"down", "", "end the nodes that `manta up` lets come, and let no more come", cli_down, PLACE | BIT(TIMEOUT_S), PLAIN},
    {"scale status", "", "what can be started, and each instance", cli_scale_look, PLACE | BIT(OUTPUT), PLAIN},
    {"scale explain", "", "why each thing that waits does, and why each node is kept", cli_scale_look, PLACE | BIT(OUTPUT), PLAIN},
    {"scale history", "", "what was decided, the newest first", cli_scale_look, PLACE | BIT(OUTPUT), PLAIN},
    {"scale request", "NAME", "room that is to be there, used or not, until --count 0", cli_scale_request,
     PLACE | BIT(NUM_CPUS) | BIT(NUM_GPUS) | BIT(RESOURCES) | BIT(LABELS) | BIT(COUNT), PLAIN},
    {"token create", "[NAME [FILE]]",
     "make a token for NAME, into a new FILE or printed; without NAME print a ticket that another machine joins with, once",
     cli_token_create, PLACE | BIT(NAME) | BIT(USES) | BIT(VALID_S) | BIT(RIGHTS), PLAIN},
    {"token list", "", "the tokens and tickets, and who has used them", cli_token_list, PLACE | BIT(OUTPUT), PLAIN},
    {"token revoke", "NAME|ID", "nobody is let in with that token, or joins with that ticket, any more", cli_token_revoke, PLACE,
     PLAIN},
    {"node revoke", "NODE", "shut a node out: its certificate is refused everywhere from now on", cli_node_revoke,
     PLACE | BIT(REASON), PLAIN},
    {"status", "", "nodes, resources and what waits for them", cli_status, PLACE | BIT(OUTPUT), PLAIN},
    {"submit", "[--] COMMAND [ARGUMENT...]", "run a command, or a .so, in the cluster as a job", cli_submit,
     PLACE | BIT(NAME) | BIT(FILE) | BIT(ENV) | BIT(METADATA) | BIT(RETRIES) | BIT(TIME_S) | BIT(TIME) | BIT(NUM_CPUS) |
         BIT(NUM_GPUS) | BIT(FOLLOW) | BIT(PRIORITY) | BIT(ARRAY) | BIT(DEPENDENCY) | BIT(HOLD) | BIT(PREEMPTIBLE) |
         BIT(JOB_DEADLINE) | BIT(WORK) | BIT(SIGNAL) | BIT(RESUME),
     COMMAND},
    {"exec", "NODE [--] COMMAND [ARGUMENT...]", "run a command on a node, with its output and its end; signals go to it", cli_exec,
     PLACE | BIT(ENV) | BIT(TIME_S) | BIT(TIME), COMMAND},
    {"account", "", "what users have spent: what their jobs had reserved, times how long", cli_account,
     PLACE | BIT(OUTPUT) | BIT(USER) | BIT(SINCE) | BIT(BY), PLAIN},
    {"user set", "NAME KEY=VALUE...",
     "a user's weight=N, and what it may have at a time: cpus, gpus, memory, running, waiting=N or none", cli_user_set, PLACE,
     PLAIN},
    {"user list", "", "users: how much their shares weigh, what they have and may have, what they have used", cli_user_list,
     PLACE | BIT(OUTPUT), PLAIN},
    {"queue", "", "jobs that run or wait, in their turn, and why each of them waits", cli_queue, LOOK, PLAIN},
    {"job list", "", "all jobs, the newest first", cli_job_list, LOOK, PLAIN},
    {"job status", "ID", "how a job stands, or an array: how many of its jobs are in which state", cli_job_status,
     PLACE | BIT(OUTPUT), PLAIN},
    {"job logs", "ID", "what a job has printed", cli_job_logs, PLACE | BIT(FOLLOW), PLAIN},
    {"job wait", "ID", "wait for a job's end; exits with its exit code. Of an array: of all its jobs; 0 where all succeeded",
     cli_job_wait, PLACE | BIT(TIMEOUT_S), PLAIN},
    {"job stop", "ID", "end a job", cli_job_stop, PLACE, PLAIN},
    {"job hold", "ID", "let a job, or an array, that waits not start", cli_job_hold, PLACE, PLAIN},
    {"job release", "ID", "let a held job, or array, start when its turn comes", cli_job_hold, PLACE, PLAIN},
    {"job delete", "ID", "forget a job that has ended: its record, log and files", cli_job_delete, PLACE, PLAIN},
    {"gang submit", "[OPTION OF RUN...] -- COMMAND [ARGUMENT...]",
     "a gang that runs by itself, as `manta run --detach`; options of `manta run` behind a first --", cli_gang_submit,
     PLACE | BIT(NAME) | BIT(FILE) | BIT(ENV) | BIT(RETRIES), COMMAND},
    {"gang list", "", "gangs that run by themselves, the newest first", cli_gang_list, PLACE | BIT(OUTPUT), PLAIN},
    {"gang follow", "NAME", "what its ranks print, to its end; exits with its exit code", cli_gang_follow, PLACE, PLAIN},
    {"gang stop", "NAME", "end it: SIGTERM to all ranks, 5 s, SIGKILL", cli_gang_stop, PLACE, PLAIN},
    {"actor kill", "NAME", "end a detached actor", cli_actor_kill, PLACE | BIT(NAMESPACE), PLAIN},
    {"list nodes", "", "the nodes and what they have", cli_list_nodes, LOOK, PLAIN},
    {"list tasks", "", "tasks: waiting (and why), running, and the last ones that ended", cli_list, LOOK, PLAIN},
    {"list actors", "", "actors, where they are, and why they are dead", cli_list, LOOK, PLAIN},
    {"list workers", "", "drivers, workers, and what they run", cli_list, LOOK, PLAIN},
    {"list placement-groups", "", "placement groups, and on which node each bundle stands", cli_list, LOOK, PLAIN},
    {"list objects", "", "values in shared memory", cli_list, LOOK, PLAIN},
    {"list jobs", "", "the same as `manta job list`", cli_job_list, LOOK, PLAIN},
    {"get tasks", "ID", "all that is known of one task", cli_get, PLACE | BIT(OUTPUT), PLAIN},
    {"get actors", "ID", "all that is known of one actor", cli_get, PLACE | BIT(OUTPUT), PLAIN},
    {"get workers", "PID", "all that is known of one worker", cli_get, PLACE | BIT(OUTPUT), PLAIN},
    {"get placement-groups", "ID", "all that is known of one placement group", cli_get, PLACE | BIT(OUTPUT), PLAIN},
    {"get objects", "ID", "all that is known of one value", cli_get, PLACE | BIT(OUTPUT), PLAIN},
    {"get jobs", "ID", "the same as `manta job status`", cli_job_status, PLACE | BIT(OUTPUT), PLAIN},
    {"summary tasks", "", "how many tasks of each function are in which state", cli_summary, PLACE | BIT(OUTPUT), PLAIN},
    {"summary actors", "", "the same of actors", cli_summary, PLACE | BIT(OUTPUT), PLAIN},
    {"summary objects", "", "how many values there are", cli_summary, PLACE | BIT(OUTPUT), PLAIN},
    {"memory", "", "who holds which values: owner, pins, node", cli_memory, LOOK, PLAIN},
    {"stack", "[PID]", "where the workers are: the stack of each one's main thread", cli_stack, PLACE | BIT(OUTPUT) | BIT(FILTER),
     PLAIN},
    {"timeline", "[FILE]", "write what the workers ran as a trace for Perfetto (\"-\": print it)", cli_timeline,
     PLACE | BIT(FILTER) | BIT(LIMIT), PLAIN},
    {"healthcheck", "", "exits with 0 where the head answers and a node is alive", cli_healthcheck, PLACE, PLAIN},
    {"bench", "[OPTION...]", "measure this machine (manta-bench)", run_program, 0, PROGRAM},
    {"train", "[OPTION...]", "train a model (manta-train)", run_program, 0, PROGRAM},
    {"run", "[OPTION...] [--] COMMAND [ARGUMENT...]", "run any program as a gang of ranks (manta-run)", run_program, 0, PROGRAM},
    {"sweep", "[OPTION...]", "search for hyperparameters (manta-sweep)", run_program, 0, PROGRAM},
    {"version", "", "which version this is", show_version, 0, PLAIN},
    {"help", "[VERB]", "show this, or the options of a verb", show_help, 0, PLAIN},
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

/* ---- help ---- */

static void print_verbs(FILE *out)
{
    fprintf(out, "usage: manta VERB [OPTION...]\n       manta --help | --version\n\n");
    for (int i = 0; i < VERBS; i++)
        fprintf(out, "  %-21s %s\n", verbs[i].name, verbs[i].help);
    fprintf(out, "\n`manta VERB --help` shows the options of a verb. The cluster: --address, else MANTA_ADDRESS, else\n"
                 "~/.manta/config, else this user's on this machine. Exit status: 0 done, 1 failed, 2 wrong words.\n");
}

static void print_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "usage: manta %s%s%s%s\n  %s\n", verb->name, verb->options ? " [OPTION...]" : "", verb->rest[0] ? " " : "",
            verb->rest, verb->help);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        char left[64];
        if (!(verb->options & (bits)1 << i))
            continue;
        snprintf(left, sizeof left, "--%s%s%s", cli_options[i].name, cli_options[i].value ? " " : "",
                 cli_options[i].value ? cli_options[i].value : "");
        fprintf(out, cli_options[i].letter ? "  -%c, %-22s %s\n" : "  %c   %-22s %s\n",
                cli_options[i].letter ? cli_options[i].letter : ' ', left, cli_options[i].help);
    }
}

/* The verb that `words` begin with; *used says with how many of them. */
static const struct verb *verb_find(int count, char *const *words, int *used)
{
    for (int i = 0; i < VERBS; i++) {
        const char *space = strchr(verbs[i].name, ' ');
        size_t      size = space ? (size_t)(space - verbs[i].name) : strlen(verbs[i].name);
        if (count < 1 || strlen(words[0]) != size || strncmp(words[0], verbs[i].name, size) != 0)
            continue;
        *used = space ? 2 : 1;
        if (!space || (count > 1 && strcmp(words[1], space + 1) == 0))
            return &verbs[i];
    }
    return NULL;
}

/* ---- words that are almost right ---- */

/* The first verb of two words whose second one it is: "logs", "nodes". NULL: there is none. */
static const char *verb_with(const char *second)
{
    for (int i = 0; i < VERBS; i++) {
        const char *space = strchr(verbs[i].name, ' ');
        if (space && strcmp(space + 1, second) == 0)
            return verbs[i].name;
    }
    return NULL;
}

/* The option that is nearest to one that the verb does not have: "--nmae", "--nmae=x". */
static void suggest_option(const struct verb *verb, const char *given)
{
    char           word[64];
    struct mt_near n = {.word = word};
    if (strncmp(given, "--", 2) != 0)
        return;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
    for (int i = 0; i < CLI_OPTIONS; i++)
        if ((verb->options | BIT(HELP)) & (bits)1 << i)
            mt_near_look(&n, cli_options[i].name);
    for (int i = 0; !n.best && i < CLI_OPTIONS; i++) {
        const char    *last = strrchr(cli_options[i].name, '-'); /* "--cpus" for "--num-cpus" */
        struct mt_near of = {.word = word};
        if (last && verb->options & (bits)1 << i)
            mt_near_look(&of, last + 1);
        n.best = of.best ? cli_options[i].name : NULL;
    }
    if (n.best && strcmp(n.best, word) != 0)
        fprintf(stderr, "manta %s: did you mean --%s?\n", verb->name, n.best);
}

static bool is_of(const struct verb *verb, const char *first)
{
    size_t size = strlen(first);
    return strncmp(verb->name, first, size) == 0 && verb->name[size] == ' ';
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* The verbs behind the first word of several: "job". */
static void print_verbs_of(FILE *to, const char *first)
{
    for (int i = 0; i < VERBS; i++)
        if (is_of(&verbs[i], first))
            fprintf(to, "  %-22s %s\n", verbs[i].name, verbs[i].help);
}

/* The verb of two words that is nearest to two: "lst tasks". NULL: there is none. */
static const char *verb_near(const char *first, const char *second)
{
    char           both[64];
    struct mt_near n = {.word = both};
    snprintf(both, sizeof both, "%s %s", first, second);
    for (int i = 0; i < VERBS; i++)
        if (strchr(verbs[i].name, ' '))
            mt_near_look(&n, verbs[i].name);
    return n.best;
}

/* Who typed no verb: says which is nearest, or, behind the first word of several, which there are. */
static int no_verb(int count, char *const *words, bool is_first_known)
{
    struct mt_near n = {.word = is_first_known && count > 1 ? words[1] : words[0]};
    if (is_first_known && (count < 2 || is_help(words[1]))) {
        fprintf(count < 2 ? stderr : stdout, count < 2 ? "manta %s: say what:\n" : "usage: manta %s VERB [OPTION...]\n", words[0]);
        print_verbs_of(count < 2 ? stderr : stdout, words[0]);
        return count < 2 ? CLI_USAGE : CLI_OK;
    }
    fprintf(stderr, is_first_known ? "manta: no such verb: \"%s %s\"\n" : "manta: no such verb: \"%s\"\n", words[0],
            count > 1 ? words[1] : "");
    n.best = is_first_known ? NULL : verb_with(words[0]); /* at 0 letters: nothing is nearer */
    for (int i = 0; i < VERBS; i++)
        if (!is_first_known || is_of(&verbs[i], words[0]))
            mt_near_look(&n, is_first_known ? strchr(verbs[i].name, ' ') + 1 : verbs[i].name);
    if (!n.best && !is_first_known && count > 1)
        n.best = verb_near(words[0], words[1]);
    if (n.best)
        fprintf(stderr, "Did you mean: manta %s%s%s?\n", is_first_known ? words[0] : "", is_first_known ? " " : "", n.best);
    fprintf(stderr, "See: manta --help\n");
    return CLI_USAGE;
}

static int show_version(const struct cli_args *args)
{
    (void)args;
    printf("manta %s\n", CLI_VERSION);
    return CLI_OK;
}

static int show_help(const struct cli_args *args)
{
    int                used = 0;
    const struct verb *verb = verb_find(args->rest_count, args->rest, &used);
    if (args->rest_count == 0)
        print_verbs(stdout);
    else if (!verb && used == 2 && args->rest_count == 1)
        return no_verb(2, (char *[]){args->rest[0], "--help"}, true);
    else if (!verb)
        return no_verb(args->rest_count, args->rest, used == 2);
    else if (verb->kind == PROGRAM) /* it knows its own options */
        return run_program(&(struct cli_args){.verb = verb->name, .rest_count = 1, .rest = (char *[]){"", "--help", NULL} + 1});
    else
        print_verb(stdout, verb);
    return CLI_OK;
}

/* These programs are drivers: told nothing, they would bring a cluster of their own, and not use the one that `manta status` shows.
 * (MANTA_ADDRESS= asks for a private one.) */
static bool address_of_this_machine(void)
{
    struct cli_args   nothing = {0};
    struct cli_folder folder;
    if (getenv("MANTA_ADDRESS"))
        return true;
    if (!cli_folder_open(&nothing, false, &folder))
        return false;
    return !cli_daemon_is_there(&folder.daemons[CLI_DAEMON_RAYLET]) || setenv("MANTA_ADDRESS", folder.path, 1) == 0;
}

static int run_program(const struct cli_args *args)
{
    char name[64], path[CLI_PATH_SIZE];
    if (!address_of_this_machine())
        return CLI_FAILED;
    snprintf(name, sizeof name, "manta-%s", args->verb);
    if (!cli_program_find(name, path))
        return cli_fail("`manta %s` needs the program %s beside this one, and it is not installed", args->verb, name);
    args->rest[-1] = path; /* in the place of the verb: argv[0] */
    execv(path, args->rest - 1);
    return cli_fail("cannot run %s: %s", path, strerror(errno));
}

/* ---- parsing ---- */

static bool keep(struct cli_args *args, int option, const char *value)
{
    bool   is_file = option == CLI_OPT_FILE, is_env = option == CLI_OPT_ENV, is_filter = option == CLI_OPT_FILTER;
    bool   is_metadata = option == CLI_OPT_METADATA;
    size_t count = is_file       ? args->file_count++
                   : is_env      ? args->env_count++
                   : is_metadata ? args->metadata_count++
                   : is_filter   ? args->filter_count++
                                 : 0;
    args->values[option] = value ? value : "";
    if (count == MT_CLI_LIST_MAX)
        return cli_usage(args, "--%s was given more than %d times", cli_options[option].name, MT_CLI_LIST_MAX), false;
    if (is_env && (!strchr(value, '=') || value[0] == '='))
        return cli_usage(args, "--env \"%s\": NAME=VALUE is wanted", value), false;
    if (is_metadata && (!strchr(value, '=') || value[0] == '='))
        return cli_usage(args, "--metadata \"%s\": KEY=VALUE is wanted", value), false;
    if (is_filter && (!strchr(value, '=') || value[0] == '=' || value[0] == '!'))
        return cli_usage(args, "--filter \"%s\": KEY=VALUE or KEY!=VALUE is wanted", value), false;
    if (is_file)
        args->files[count] = value;
    if (is_filter)
        args->filters[count] = value;
    if (is_env)
        args->env[count] = value;
    if (is_metadata)
        args->metadata[count] = value;
    return true;
}

/* What getopt_long wants, for the options of one verb. */
static void getopt_tables(const struct verb *verb, struct option *out_long, char *out_short)
{
    int n = 0, s = 0;
    if (verb->kind == COMMAND)
        out_short[s++] = '+'; /* the command's own options are none of ours */
    for (int i = 0; i < CLI_OPTIONS; i++) {
        if (!((verb->options | BIT(HELP)) & (bits)1 << i))
            continue;
        out_long[n++] = (struct option){cli_options[i].name, cli_options[i].value != NULL, NULL, 256 + i};
        if (cli_options[i].letter)
            out_short[s++] = cli_options[i].letter;
        if (cli_options[i].letter && cli_options[i].value)
            out_short[s++] = ':';
    }
    out_long[n] = (struct option){0};
    out_short[s] = '\0';
}

static int option_of(int got)
{
    for (int i = 0; got < 256 && i < CLI_OPTIONS; i++)
        if (cli_options[i].letter == got)
            return i;
    return got - 256;
}

/* Words behind the command are the command's own, silently; where one of them looks like an option of ours, it is said. */
static void warn_of_options(const struct verb *verb, int count, char *const *words)
{
    for (int at = 1; at < count; at++) {
        const char *word = words[at];
        size_t      size = strcspn(word, "=");
        for (int i = 0; i < CLI_OPTIONS; i++)
            if (strncmp(word, "--", 2) == 0 && (verb->options & (bits)1 << i) && strlen(cli_options[i].name) == size - 2 &&
                strncmp(word + 2, cli_options[i].name, size - 2) == 0)
                fprintf(stderr, "manta: %.*s stands behind the command and goes to it; for `manta %s` it belongs before\n",
                        (int)size, word, verb->name);
    }
}

/* `argv[0]` is the verb's last word. */
static int run_verb(const struct verb *verb, int argc, char **argv)
{
    static struct cli_args args;
    struct option          table[CLI_OPTIONS + 1];
    char                   letters[CLI_OPTIONS * 2 + 2];
    args.verb = verb->name;
    getopt_tables(verb, table, letters);
    argv[0] = (char[]){"manta"}; /* getopt's own messages begin with it */
    for (int got; verb->kind != PROGRAM && (got = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
        if (got == '?') {
            if (!optopt)
                suggest_option(verb, argv[optind - 1]);
            return cli_usage(&args, "these options are not understood");
        }
        if (option_of(got) == CLI_OPT_HELP) {
            print_verb(stdout, verb);
            return CLI_OK;
        }
        if (!keep(&args, option_of(got), optarg))
            return CLI_USAGE;
    }
    args.rest = argv + optind;
    args.rest_count = argc - optind;
    bool wants_rest = verb->rest[0] && verb->rest[0] != '[', wants_command = verb->kind == COMMAND;
    if ((wants_rest || wants_command) && args.rest_count == 0)
        return cli_usage(&args, "%s is missing", wants_command ? "the command" : verb->rest);
    if (wants_command)
        warn_of_options(verb, args.rest_count, args.rest);
    bool is_list = strstr(verb->rest, "...") != NULL;
    if (verb->kind == PLAIN && !is_list && args.rest_count > (verb->rest[0] == 0 ? 0 : wants_rest ? 1 : 2))
        return cli_usage(&args, "unexpected word \"%s\"", args.rest[args.rest_count - 1]);
    return cli_output_check(&args) ? verb->run(&args) : CLI_USAGE;
}

static int run_words(int argc, char **argv)
{
    int                used = 0;
    const struct verb *verb = verb_find(argc - 1, argv + 1, &used);
    if (verb)
        return run_verb(verb, argc - used, argv + used);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_verbs(stdout);
        return CLI_OK;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return show_version(NULL);
    if (argc > 1)
        return no_verb(argc - 1, argv + 1, used == 2);
    print_verbs(stderr);
    return CLI_USAGE;
}

/* A closed standard descriptor gets one that can't be used for its purpose: else the next file or socket would have its number, and
 * what is printed would go there. */
static void hold_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
}

int main(int argc, char **argv)
{
    hold_standard();
    signal(SIGPIPE, SIG_DFL); /* `manta job logs | head` ends quietly */
    return cli_printed("manta", run_words(argc, argv));
}

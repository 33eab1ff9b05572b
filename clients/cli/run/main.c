/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-run, which `manta run` executes: any program as a gang of supervised ranks (clients/gang/).
 *
 * It is a driver like any other program's: it uses the cluster that MANTA_ADDRESS names, else brings its own. Exit status: that of
 * gng_run; 2 for wrong words. Under another name it is the shepherd of a rank.
 *
 * Thread: the main one.
 */
#include "clients/gang/run.h"
#include "clients/gang/rank/shepherd.h"
#include "core/base/limits/cli.h"
#include "core/sys/process.h"

#include <manta.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t pending[GNG_SIGNALS];

static void on_signal(int number)
{
    for (int i = 0; i < GNG_SIGNALS; i++)
        if (gng_signals[i] == number)
            pending[i] = 1;
}

static int usage(FILE *to, int status)
{
    fprintf(to,
            "usage: manta run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
            "  run a command as a gang: all ranks are started together, or none; supervised, and ended together\n"
            "  -n, --ranks N           how many ranks (1)\n"
            "      --nodes MIN[:MAX]   on so many nodes; with a range the gang begins again when nodes come and go\n"
            "      --per-node N        ranks on each of them\n"
            "      --cpus C            CPUs that each rank has for itself (1); 0: nothing is reserved\n"
            "      --gpus G            likewise (0)\n"
            "      --as WORD           which variables tell a rank who it is: torch, tf, horovod, pmi1 (MPICH), none\n"
            "      --roles ROLE:N,...  of --as tf: chief:1, ps:N, evaluator:1; the other ranks are workers\n"
            "      --max-restarts R    all begin again so often when one fails (0); -1: without limit\n"
            "      --restart-rank      a rank that fails is started again alone, so often (10); for programs that can take that,\n"
            "                          as those of manta_torch.survive\n"
            "      --kill-after S      from SIGTERM to SIGKILL, of ranks that are to end (10)\n"
            "      --hang-after S      a rank that neither prints nor computes for so long has failed; nobody looks if not said\n"
            "      --wait S            for room, at most; it is waited for without limit if not said\n"
            "      --env NAME=VALUE    a variable for all ranks; may be given again\n"
            "      --files PATH        a file for the ranks' current folder, or the folder itself; may be given again\n"
            "      --output-dir DIR    rank-N.out and rank-N.err are written there, and nothing here\n"
            "      --stdout-of R       standard output has that rank's lines alone, as they are; the others' go to standard error\n"
            "      --name NAME         for people, and as TORCHELASTIC_RUN_ID\n"
            "      --detach            it runs by itself, as a job, under its --name: manta gang list, follow, stop\n\n"
            "Lines of the ranks come with \"[RANK] \" in front. Ctrl-C and SIGTERM are passed on to all ranks.\n"
            "The exit status is that of the rank that failed first; 128 + N where signal N ended it.\n");
    return status;
}

static int wrong(const char *format, ...) MT_PRINTF(1, 2);
static int wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("manta run: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\nSee: manta run --help\n", stderr);
    va_end(args);
    return 2;
}

/* ---- words ---- */

enum word {
    RANKS = 'n',
    HELP = 'h',
    NODES = 256,
    PER_NODE,
    CPUS,
    GPUS,
    AS,
    ROLES,
    RESTART_RANK,
    RESTARTS,
    KILL_AFTER,
    HANG_AFTER,
    WAIT,
    ENV,
    FILES,
    OUTPUT_DIR,
    STDOUT_OF,
    NAME,
    DETACH
};

static const struct option table[] = {{"ranks", 1, NULL, RANKS},
                                      {"nodes", 1, NULL, NODES},
                                      {"per-node", 1, NULL, PER_NODE},
                                      {"cpus", 1, NULL, CPUS},
                                      {"gpus", 1, NULL, GPUS},
                                      {"as", 1, NULL, AS},
                                      {"roles", 1, NULL, ROLES},
                                      {"max-restarts", 1, NULL, RESTARTS},
                                      {"restart-rank", 0, NULL, RESTART_RANK},
                                      {"kill-after", 1, NULL, KILL_AFTER},
                                      {"wait", 1, NULL, WAIT},
                                      {"hang-after", 1, NULL, HANG_AFTER},
                                      {"env", 1, NULL, ENV},
                                      {"files", 1, NULL, FILES},
                                      {"output-dir", 1, NULL, OUTPUT_DIR},
                                      {"stdout-of", 1, NULL, STDOUT_OF},
                                      {"name", 1, NULL, NAME},
                                      {"detach", 0, NULL, DETACH},
                                      {"help", 0, NULL, HELP},
                                      {0}};

struct lists {
    const char *env[MT_CLI_LIST_MAX + 1], *files[MT_CLI_LIST_MAX + 1];
    int         env_count, file_count;
    bool        is_detached;
};

static bool whole(const char *text, long least, long most, int *out)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return false;
    *out = (int)value;
    return true;
}

static bool amount(const char *text, double most, double *out)
{
    char  *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > most)
        return false;
    *out = value;
    return true;
}

static bool seconds(const char *text, int64_t *out_ms)
{
    double value;
    if (!amount(text, 1e9, &value))
        return false;
    *out_ms = (int64_t)(value * 1000);
    return true;
}

/* "2" or "1:4". */
static bool range(const char *text, int *out_min, int *out_max)
{
    char        low[16];
    const char *colon = strchr(text, ':');
    size_t      size = colon ? (size_t)(colon - text) : strlen(text);
    if (size >= sizeof low)
        return false;
    snprintf(low, sizeof low, "%.*s", (int)size, text);
    return whole(low, 1, MT_GANG_RANKS_MAX, out_min) && whole(colon ? colon + 1 : low, 1, MT_GANG_RANKS_MAX, out_max) &&
           *out_min <= *out_max;
}

static bool list_add(const char **list, int *count, const char *text)
{
    if (*count == MT_CLI_LIST_MAX)
        return false;
    list[(*count)++] = text;
    return true;
}

static bool word_take(struct gng_plan *p, struct lists *l, int word, const char *text)
{
    switch (word) {
    case RANKS: return whole(text, 1, MT_GANG_RANKS_MAX, &p->ranks);
    case NODES: return range(text, &p->nodes_min, &p->nodes_max);
    case PER_NODE: return whole(text, 1, MT_GANG_RANKS_MAX, &p->per_node);
    case CPUS: return amount(text, 1e6, &p->cpus);
    case GPUS: return amount(text, 1e6, &p->gpus);
    case AS: return gng_as_of(text, &p->as);
    case ROLES: return gng_roles_of(text, p);
    case RESTART_RANK: return p->renews = true;
    case RESTARTS: return p->says_restarts = whole(text, -1, 1000000, &p->max_restarts);
    case KILL_AFTER: return seconds(text, &p->term_ms);
    case HANG_AFTER: return seconds(text, &p->hang_ms) && p->hang_ms > 0 && p->hang_ms < INT32_MAX;
    case WAIT: return seconds(text, &p->wait_ms);
    case ENV: return strchr(text, '=') && text[0] != '=' && list_add(l->env, &l->env_count, text);
    case FILES: return list_add(l->files, &l->file_count, text);
    case OUTPUT_DIR: p->output_dir = text; return true;
    case STDOUT_OF: return whole(text, 0, MT_GANG_RANKS_MAX - 1, &p->bare);
    case DETACH: return l->is_detached = true;
    default: p->name = text; return text[0] && strlen(text) < MT_GANG_NAME_BYTES_MAX;
    }
}

static const char *wanted(int word)
{
    switch (word) {
    case RANKS:
    case PER_NODE: return "a number from 1 to 1024 is wanted";
    case NODES: return "MIN or MIN:MAX is wanted, from 1 to 1024";
    case AS: return gng_as_words();
    case ROLES: return "chief:1, ps:N and evaluator:1 are wanted, those that are needed, with commas";
    case RESTARTS: return "a number is wanted, -1 for no limit";
    case ENV: return "NAME=VALUE is wanted, at most 256 times";
    case FILES: return "it was given too often";
    case NAME: return "1 to 63 letters are wanted";
    default: return "a number of at least 0 is wanted";
    }
}

/* -1: the plan is made. Else the exit status. */
static int words_read(struct gng_plan *p, struct lists *l, int argc, char **argv)
{
    char why[256];
    int  word, index = 0;
    opterr = 0;
    while ((word = getopt_long(argc, argv, "+n:h", table, &index)) != -1) {
        if (word == HELP)
            return usage(stdout, 0);
        if (word == '?')
            return wrong("%s is not understood, or lacks its value", argv[optind - 1]);
        if (!word_take(p, l, word, optarg))
            return word == RANKS ? wrong("-n %s: %s", optarg, wanted(word))
                                 : wrong("--%s %s: %s", table[index].name, optarg, wanted(word));
    }
    p->argv = argv + optind;
    if (!p->argv[0])
        return wrong("the command is missing");
    return gng_plan_check(p, why, sizeof why) ? -1 : wrong("%s", why);
}

/* The program `manta` beside this one submits it: manta gang submit --name NAME --file FILE... -- WORD... -- COMMAND... */
static int detach(const struct gng_plan *p, const struct lists *l, char **argv)
{
    char        path[4096];
    const char *words[2 * MT_CLI_LIST_MAX + 1024];
    size_t      n = 0, most = sizeof words / sizeof *words - 2;
    if (!p->name)
        return wrong("--detach: --name is missing");
    const char *first[] = {"manta", "gang", "submit", "--name", p->name};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        words[n++] = first[i];
    for (int i = 0; i < l->file_count; i++) {
        words[n++] = "--file";
        words[n++] = l->files[i];
    }
    words[n++] = "--";
    for (char **w = argv + 1; *w && n < most; w++) {
        if (strcmp(*w, "--detach") == 0 && w < p->argv)
            continue;
        if (w == p->argv && strcmp(words[n - 1], "--") != 0)
            words[n++] = "--";
        if (w < p->argv && (strcmp(*w, "--files") == 0 || strcmp(*w, "--name") == 0))
            w++; /* it was given above, with its value */
        else if (!(w < p->argv && (strncmp(*w, "--files=", 8) == 0 || strncmp(*w, "--name=", 7) == 0)))
            words[n++] = *w;
    }
    words[n] = NULL;
    if (n >= most)
        return wrong("more than %zu words", most);
    const char *program = mt_process_beside("manta", path, sizeof path);
    execv(program, (char **)(uintptr_t)words);
    return wrong("cannot run %s: %s", program, strerror(errno));
}

int main(int argc, char **argv)
{
    static struct lists lists;
    struct gng_plan     plan = {.cpus = 1,
                                .term_ms = MT_GANG_TERM_MS,
                                .wait_ms = -1,
                                .bare = -1,
                                .env = lists.env,
                                .files = lists.files,
                                .as = GNG_AS_NONE};
    manta_error         e;
    if (argc > 0 && strcmp(argv[0], GNG_SHEPHERD_NAME) == 0)
        return gng_shepherd_main(argc, argv);
    int status = getenv("MANTA_ROLE") ? -1 : words_read(&plan, &lists, argc, argv);
    if (status >= 0)
        return status;
    if (lists.is_detached)
        return detach(&plan, &lists, argv);
    manta_init_opts opts = {.log_to_driver = -1};
    if (manta_init(&argc, &argv, &opts, &e))
        return manta_perror(&e), 1;
    for (int i = 0; i < GNG_SIGNALS; i++)
        sigaction(gng_signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    status = gng_run(&plan, pending);
    manta_shutdown();
    return status;
}

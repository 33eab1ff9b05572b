/* SPDX-License-Identifier: Apache-2.0
 *
 * start.c - `manta start`: a head and a raylet, or a raylet for a head that runs already, as daemons.
 *
 * Owns: the lock on the runtime folder while it works. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"

#include "core/sys/folder.h"
#include "core/text/amounts.h"
#include "core/text/labels.h"
#include "core/base/limits/raylet.h"
#include "core/io/listener.h" /* io_is_loopback */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 60 };

struct arguments {
    char *list[ARGUMENTS_MAX + 1];
    int   count;
};

static void add(struct arguments *a, const char *name, const char *value)
{
    if (!value || a->count + 2 > ARGUMENTS_MAX)
        return;
    a->list[a->count++] = (char *)(uintptr_t)name;
    if (value[0])
        a->list[a->count++] = (char *)(uintptr_t)value;
}

static bool resources_check(const struct cli_args *args)
{
    static const char *const apart[][2] = {{"CPU", "num-cpus"}, {"GPU", "num-gpus"}, {"memory", "memory"}};
    struct mt_amounts        own = {.count = 0};
    char                     text[128];
    if (args->values[CLI_OPT_RESOURCES] && mt_amounts_read(args->values[CLI_OPT_RESOURCES], &own, text, sizeof text).code)
        return cli_usage(args, "--resources: %s", text), false;
    for (uint32_t i = 0; i < own.count; i++)
        for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
            if (strcmp(own.list[i].name, apart[k][0]) == 0)
                return cli_usage(args, "--resources: %s has an option of its own: --%s", apart[k][0], apart[k][1]), false;
    return true;
}

static bool check(const struct cli_args *args)
{
    bool   is_head = args->values[CLI_OPT_HEAD], is_join = args->values[CLI_OPT_JOIN];
    bool   has_address = args->values[CLI_OPT_ADDRESS];
    double number = 0;
    char   text[2 * MT_LABELS_BYTES_MAX];
    if (is_head + is_join + has_address != 1)
        return cli_usage(args, "say one of --head (a new cluster), --join FILE and --address PLACE (a node for a cluster)"), false;
    if (is_head && args->values[CLI_OPT_FOREGROUND])
        return cli_usage(args, "--foreground goes with --join or --address: two daemons can't take one process's place"), false;
    bool is_standby = args->values[CLI_OPT_STANDBY];
    if (is_standby && (!is_head || !args->values[CLI_OPT_STORE]))
        return cli_usage(args, "--standby goes with --head and the --store that the heads share"), false;
    if (!has_address && !is_standby && (args->values[CLI_OPT_TOKEN_FILE] || args->values[CLI_OPT_TLS_FILE]))
        return cli_usage(args, "--token-file and --tls-file go with --address; a new head makes its own"), false;
    if (args->values[CLI_OPT_INSECURE] && (is_join || args->values[CLI_OPT_TLS_FILE] || args->values[CLI_OPT_TLS_DIR]))
        return cli_usage(args, "--insecure is a cluster without certificates"), false;
    if (!is_head && args->values[CLI_OPT_TLS_DIR])
        return cli_usage(args, "--tls-dir goes with --head"), false;
    if (args->values[CLI_OPT_FOREGROUND] && args->values[CLI_OPT_LOG_MAX])
        return cli_usage(args, "--log-max is of the log that `manta start` makes: with --foreground the output is yours"), false;
    if (!is_head && (args->values[CLI_OPT_STATE] || args->values[CLI_OPT_LOGS] || args->values[CLI_OPT_PORT]))
        return cli_usage(args, "--state, --logs and --port go with --head"), false;
    bool has_store_words = args->values[CLI_OPT_STORE_AUTH] || args->values[CLI_OPT_STORE_MAY_LOSE];
    if ((!is_head && args->values[CLI_OPT_STORE]) || (has_store_words && !args->values[CLI_OPT_STORE]))
        return cli_usage(args, "--store goes with --head; --store-auth and --store-may-lose go with --store"), false;
    if (args->values[CLI_OPT_LABELS] && mt_labels_check(args->values[CLI_OPT_LABELS], text, sizeof text).code)
        return cli_usage(args, "%s", text), false;
    if (!resources_check(args))
        return false;
    if (!cli_whole(args, CLI_OPT_PORT, 0, UINT16_MAX, &number))
        return false;
    return cli_amount_of_node(args, CLI_OPT_NUM_CPUS, "CPU") && cli_amount_of_node(args, CLI_OPT_NUM_GPUS, "GPU") &&
           cli_number(args, CLI_OPT_STORE_MEMORY, 1 << 20, &number) &&
           cli_whole(args, CLI_OPT_MAX_BLOCKED, 1, MT_RLT_PROCS_MAX, &number) &&
           cli_whole(args, CLI_OPT_MAX_WORKERS, 1, MT_RLT_PROCS_MAX, &number) && cli_number(args, CLI_OPT_LIFETIME, 1, &number) &&
           cli_number(args, CLI_OPT_DRAIN_LIMIT, 0, &number) &&
           cli_whole(args, CLI_OPT_JOB_PIDS, MT_RLT_JOB_PIDS_MIN, 1 << 22, &number) &&
           cli_number(args, CLI_OPT_MEMORY, 1, &number) && cli_number(args, CLI_OPT_ORPHAN_AFTER, 0, &number) &&
           cli_number(args, CLI_OPT_LOG_MAX, MT_CLI_LOG_BYTES_MIN, &number);
}

/* One `manta start` at a time; the lock goes with the process. */
static bool lock(const struct cli_folder *f)
{
    int fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    return cli_fail("another `manta start` works in %s", f->path), false;
}

/* A node that leaves is listed as left before its raylet has ended, and its keeper after that. */
static void wait_for_leaving(struct cli_folder *f)
{
    struct cli_record raylet = f->daemons[CLI_DAEMON_RAYLET];
    uint64_t          end = ctl_now_ms() + MT_CLI_LEAVE_MS;
    int               fds[] = {cli_process_open(&raylet.daemon), cli_process_open(&raylet.keeper)};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] < 0)
            continue;
        (void)cli_process_wait(fds[i], end);
        close(fds[i]);
    }
    cli_folder_refresh(f);
}

static bool refuse_second(const struct cli_args *args, struct cli_folder *f)
{
    if (cli_folder_leaves(f))
        wait_for_leaving(f);
    for (int i = 0; i < CLI_DAEMONS; i++) {
        bool is_needed = i == CLI_DAEMON_RAYLET || args->values[CLI_OPT_HEAD];
        if (is_needed && !cli_daemon_is_there(&f->daemons[i]))
            return false;
    }
    char word[CLI_WORD_SIZE];
    cli_shell_word(f->path, word);
    if (cli_folder_leaves(f)) {
        cli_fail(
            "the node in %s leaves its cluster, and was not gone within %d s (raylet: pid %d): `manta status` shows what it waits "
            "for, `manta stop%s%s` ends it",
            f->path, MT_CLI_LEAVE_MS / 1000, f->daemons[CLI_DAEMON_RAYLET].daemon.pid, f->is_default ? "" : " --dir ",
            f->is_default ? "" : word);
        return true;
    }
    cli_fail("a %s runs in %s already (raylet: pid %d): end it by `manta stop%s%s`, or name another folder by --dir",
             args->values[CLI_OPT_HEAD] ? "cluster" : "node", f->path, f->daemons[CLI_DAEMON_RAYLET].daemon.pid,
             f->is_default ? "" : " --dir ", f->is_default ? "" : word);
    return true;
}

/* Files may be named relative to here; daemons run elsewhere. NULL stays NULL. */
static const char *absolute(const char *path, char *out)
{
    char here[CLI_PATH_SIZE / 2];
    if (!path || path[0] == '/' || !getcwd(here, sizeof here))
        return path;
    snprintf(out, CLI_PATH_SIZE, "%s/%s", here, path);
    return out;
}

/* "10.0.0.1:0", "[fd00::1]:6380" */
static const char *listen_text(const char *host, const char *port, char *out, size_t size)
{
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(out, size, "%s%.100s%s:%.20s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
    return out;
}

static bool start_head(const struct cli_args *args, struct cli_folder *f)
{
    char             listen[160], log_file[CLI_PATH_SIZE], file[CLI_PATH_SIZE], state[CLI_PATH_SIZE], tls[CLI_PATH_SIZE];
    char             logs[CLI_PATH_SIZE], auth[CLI_PATH_SIZE], token[CLI_PATH_SIZE], record[CLI_PATH_SIZE];
    const char      *host = args->values[CLI_OPT_BIND], *port = args->values[CLI_OPT_PORT];
    struct arguments a = {{0}, 0};
    cli_folder_file(f, "head.log", log_file);
    cli_folder_file(f, "head.addr", file);
    add(&a, "manta-head", "");
    add(&a, "--dir", f->path);
    add(&a, "--listen", listen_text(host ? host : "127.0.0.1", port ? port : "0", listen, sizeof listen));
    add(&a, "--tls-dir", absolute(args->values[CLI_OPT_TLS_DIR], tls));
    add(&a, "--insecure", args->values[CLI_OPT_INSECURE]);
    add(&a, "--state", absolute(args->values[CLI_OPT_STATE], state));
    add(&a, "--logs", absolute(args->values[CLI_OPT_LOGS], logs));
    add(&a, "--store", args->values[CLI_OPT_STORE]);
    add(&a, "--store-auth", absolute(args->values[CLI_OPT_STORE_AUTH], auth));
    add(&a, "--store-may-lose", args->values[CLI_OPT_STORE_MAY_LOSE]);
    add(&a, "--standby", args->values[CLI_OPT_STANDBY]);
    add(&a, "--token-file", absolute(args->values[CLI_OPT_TOKEN_FILE], token));
    unlink(file); /* of one that was killed */
    cli_folder_record(f, CLI_DAEMON_HEAD, record);
    return cli_daemon_start(a.list, log_file, args->values[CLI_OPT_LOG_MAX], record, &f->daemons[CLI_DAEMON_HEAD]);
}

/* A raylet that its keeper starts again must not live longer for that: it is told the time, not how long. NULL: nobody knows. */
static const char *until_text(const struct cli_args *args, char *out, size_t size)
{
    double seconds = 0;
    if (!args->values[CLI_OPT_LIFETIME] || !cli_number(args, CLI_OPT_LIFETIME, 1, &seconds))
        return NULL;
    snprintf(out, size, "%.0f", (double)time(NULL) + seconds);
    return out;
}

/* Returns only where it can't. */
static bool become(char **argv)
{
    char program[CLI_PATH_SIZE];
    if (!cli_program_find(argv[0], program))
        return cli_fail("the program %s is not beside this one", argv[0]), false;
    fflush(NULL);
    cli_interrupts_release();
    execv(program, argv);
    return cli_fail("%s: %s", program, strerror(errno)), false;
}

/* `host`: of this machine, for others; "": loopback. */
static bool start_raylet(const struct cli_args *args, struct cli_folder *f, const char *host)
{
    const char      *place = args->values[CLI_OPT_ADDRESS];
    char             log_file[CLI_PATH_SIZE], file[CLI_PATH_SIZE], token[CLI_PATH_SIZE], folder[CLI_PATH_SIZE];
    char             tls[CLI_PATH_SIZE], listen[160], record[CLI_PATH_SIZE], notice[CLI_PATH_SIZE], until[40];
    struct arguments a = {{0}, 0};
    bool             is_folder = place && strchr(place, '/');
    cli_folder_file(f, "raylet.log", log_file);
    add(&a, "manta-raylet", "");
    add(&a, "--dir", f->path);
    if (place && !is_folder) {
        add(&a, "--head", place);
    } else { /* by its file, which says where it is when it was started again */
        if (snprintf(file, sizeof file, "%s/head.addr", place ? absolute(place, folder) : f->path) >= CLI_PATH_SIZE)
            return cli_fail("the path of the head's folder is too long"), false;
        add(&a, "--head-file", file);
    }
    add(&a, "--token-file", absolute(args->values[CLI_OPT_TOKEN_FILE], token));
    add(&a, "--tls-file", absolute(args->values[CLI_OPT_TLS_FILE], tls));
    add(&a, "--insecure", args->values[CLI_OPT_INSECURE]);
    add(&a, "--listen", host[0] ? listen_text(host, "0", listen, sizeof listen) : NULL);
    add(&a, "--node-name", args->values[CLI_OPT_NODE_NAME]);
    add(&a, "--num-cpus", args->values[CLI_OPT_NUM_CPUS]);
    add(&a, "--num-gpus", args->values[CLI_OPT_NUM_GPUS]);
    add(&a, "--resources", args->values[CLI_OPT_RESOURCES]);
    add(&a, "--store-memory", args->values[CLI_OPT_STORE_MEMORY]);
    add(&a, "--labels", args->values[CLI_OPT_LABELS]);
    add(&a, "--max-blocked-workers", args->values[CLI_OPT_MAX_BLOCKED]);
    add(&a, "--max-workers", args->values[CLI_OPT_MAX_WORKERS]);
    add(&a, "--job-users", args->values[CLI_OPT_JOB_USERS]);
    add(&a, "--job-memory", args->values[CLI_OPT_JOB_MEMORY]);
    add(&a, "--job-pids", args->values[CLI_OPT_JOB_PIDS]);
    add(&a, "--until", until_text(args, until, sizeof until));
    add(&a, "--notice-file", absolute(args->values[CLI_OPT_NOTICE_FILE], notice));
    add(&a, "--drain-limit", args->values[CLI_OPT_DRAIN_LIMIT]);
    add(&a, "--cgroup", args->values[CLI_OPT_CGROUP]);
    add(&a, "--memory", args->values[CLI_OPT_MEMORY]);
    add(&a, "--orphan-after", args->values[CLI_OPT_ORPHAN_AFTER]);
    if (args->values[CLI_OPT_FOREGROUND])
        return become(a.list);
    cli_folder_record(f, CLI_DAEMON_RAYLET, record);
    return cli_daemon_start(a.list, log_file, args->values[CLI_OPT_LOG_MAX], record, &f->daemons[CLI_DAEMON_RAYLET]);
}

/* Refuses a wrong address, token or certificate in one sentence, before a raylet tries for ever; and finds by which address
 * of this machine the head's machine, and so the others, will reach it. */
static bool can_join(const struct cli_args *args, char host[CTL_ADDRESS_SIZE])
{
    const char *bind = args->values[CLI_OPT_BIND];
    snprintf(host, CTL_ADDRESS_SIZE, "%s", bind ? bind : "");
    if (!args->values[CLI_OPT_ADDRESS])
        return true;
    char          head[CTL_ADDRESS_SIZE];
    manta_client *client = cli_connect(args);
    ctl_client_address(client, head);
    bool is_fine = client && (bind || cli_address_towards(head, host));
    manta_client_close(client);
    return is_fine;
}

/* What this run has started goes again: a cluster is there as a whole or not at all. A keeper ends its daemon. */
static void undo(struct cli_folder *f, const struct cli_folder *before)
{
    char path[CLI_PATH_SIZE];
    for (int i = 0; i < CLI_DAEMONS; i++) {
        struct cli_process *keeper = &f->daemons[i].keeper;
        int                 fd = keeper->pid != before->daemons[i].keeper.pid ? cli_process_open(keeper) : -1;
        if (fd < 0)
            continue;
        close(fd);
        kill(keeper->pid, SIGTERM); /* our own child, not reaped: the number is its own */
        cli_folder_record(f, i, path);
        unlink(path);
    }
    *f = *before;
}

/* Where the records go. */
static bool make_records(const struct cli_folder *f)
{
    char path[CLI_PATH_SIZE];
    cli_folder_file(f, "daemons", path);
    return mkdir(path, 0700) == 0 || errno == EEXIST || (cli_fail("cannot make %s: %s", path, strerror(errno)), false);
}

static bool start_all(const struct cli_args *args, struct cli_folder *f, const char *host)
{
    bool needs_head = args->values[CLI_OPT_HEAD] && !cli_daemon_is_there(&f->daemons[CLI_DAEMON_HEAD]);
    if (!make_records(f) || (needs_head && !start_head(args, f)) || cli_interrupts_came())
        return false;
    if (cli_daemon_is_there(&f->daemons[CLI_DAEMON_RAYLET])) {
        printf("The raylet (pid %d) has gone on without its head, and stays as it is.\n", f->daemons[CLI_DAEMON_RAYLET].daemon.pid);
        return true;
    }
    return start_raylet(args, f, host) && !cli_interrupts_came();
}

/* One option with a path, as it is to be typed. */
static void print_path_option(const char *name, const char *path)
{
    char whole[CLI_PATH_SIZE], word[CLI_WORD_SIZE];
    cli_shell_word(absolute(path, whole), word);
    printf(" %s %s", name, word);
}

/* How a node is used, and looked at: a folder of a node that was told its head by --address knows of no head. */
static void print_usage(const struct cli_args *args, const struct cli_folder *f)
{
    const char *place = args->values[CLI_OPT_ADDRESS], *token = args->values[CLI_OPT_TOKEN_FILE],
               *tls = args->values[CLI_OPT_TLS_FILE];
    char word[CLI_WORD_SIZE];
    cli_shell_word(f->path, word);
    printf("Programs connect to it with\n  export MANTA_ADDRESS=%s\nLook at it: manta status", word);
    if (place && strchr(place, '/'))
        print_path_option("--address", place);
    else if (place)
        printf(" --address %s", place);
    if (place && token)
        print_path_option("--token-file", token);
    if (place && tls)
        print_path_option("--tls-file", tls);
    printf(". End it: manta stop%s%s\n", f->is_default ? "" : " --dir ", f->is_default ? "" : word);
}

/* `host`: of this machine, for others; "": loopback. */
static void print_started(const struct cli_args *args, const struct cli_folder *f, const char *host)
{
    char path[CLI_PATH_SIZE], address[CTL_ADDRESS_SIZE] = "";
    cli_folder_file(f, "head.addr", path);
    FILE *file = args->values[CLI_OPT_HEAD] ? fopen(path, "re") : NULL;
    if (file && fgets(address, sizeof address, file))
        address[strcspn(address, "\n")] = '\0';
    if (file)
        fclose(file);
    printf(args->values[CLI_OPT_STANDBY] ? "A head stands by on this machine.\n"
           : args->values[CLI_OPT_HEAD]  ? "A Manta cluster runs on this machine.\n"
                                         : "This machine has joined the cluster.\n");
    if (address[0])
        printf("  head     %s (pid %d)\n", address, f->daemons[CLI_DAEMON_HEAD].daemon.pid);
    printf("  raylet   pid %d\n  folder   %s (logs: %sraylet.log)\n", f->daemons[CLI_DAEMON_RAYLET].daemon.pid, f->path,
           args->values[CLI_OPT_HEAD] ? "head.log, " : "");
    cli_folder_file(f, "join", path);
    if (args->values[CLI_OPT_HEAD] && !args->values[CLI_OPT_STANDBY] && access(path, F_OK) == 0)
        printf("  TLS      other machines join by `manta start --join FILE` with a copy of\n           %s (keep it secret)\n",
               path);
    if (args->values[CLI_OPT_INSECURE] && host[0] && !io_is_loopback(host))
        printf("WARNING: --insecure: the token and all data travel over the network in clear.\n");
    print_usage(args, f);
}

/* What --join has written goes where nothing has started with it. */
static int join(const struct cli_args *args, struct cli_folder *f)
{
    struct cli_args   with_place = *args;
    struct cli_folder before = *f;
    char              host[CTL_ADDRESS_SIZE];
    if (f->daemons[CLI_DAEMON_HEAD].keeper.pid > 0)
        return cli_fail("%s is a head's folder: end it by `manta stop`, or name another folder by --dir", f->path);
    with_place.values[CLI_OPT_ADDRESS] = f->path;
    if (cli_join_prepare(args->values[CLI_OPT_JOIN], f) && can_join(&with_place, host) && start_all(&with_place, f, host)) {
        print_started(args, f, host);
        return CLI_OK;
    }
    undo(f, &before);
    cli_folder_clean(f);
    return CLI_FAILED;
}

/* A folder of ours, locked. Who is interrupted leaves nothing that runs. */
static int start(const struct cli_args *args, struct cli_folder *f, const char *host)
{
    struct cli_folder before = *f;
    if (args->values[CLI_OPT_JOIN])
        return join(args, f);
    if (start_all(args, f, host)) {
        print_started(args, f, host);
        return CLI_OK;
    }
    undo(f, &before);
    return CLI_FAILED;
}

int cli_start(const struct cli_args *args)
{
    struct cli_folder folder;
    char              host[CTL_ADDRESS_SIZE];
    if (!check(args))
        return CLI_USAGE;
    if (!can_join(args, host) || !cli_folder_open(args, true, &folder) || !lock(&folder) || refuse_second(args, &folder))
        return CLI_FAILED;
    mt_folder_sweep(folder.path); /* private clusters of dead drivers may lie beside this one */
    cli_interrupts_hold();
    int status = start(args, &folder, host);
    if (status != CLI_OK && cli_interrupts_came())
        cli_fail("interrupted: what was started is ended again");
    fflush(NULL);
    cli_interrupts_release(); /* one that has come ends this process here, as it would have before */
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-keeper: starts a daemon, and starts it again when it dies.
 *
 * usage: manta-keeper RECORD LOG_MAX PROGRAM ARGUMENT... - started by `manta start`, its output the daemon's log, of at most
 * LOG_MAX bytes (log.c). ARGUMENT... tells the daemon to say on descriptor 3 that it is ready; the keeper's own descriptor 3 is
 * for who waits for the first such line.
 *
 *     STARTS --ready--> UP --died--> SWEEPS --no child left--> PAUSES --time--> STARTS
 *        |               |                    |
 *        | died at first | ended (status 0)   | the keeper was told to end (and has told the daemon)
 *        v               v                    v
 *     its status         0                    0
 *
 * A daemon that dies before it was ever ready is not started again: its options are wrong, or its port is taken, and who
 * started it hears of it. Later the keeper never gives up.
 *
 * It is the subreaper of what the daemon leaves, so nothing of a raylet that was killed runs on beside the next one: the
 * raylet's reaper may finish its work, all others are killed.
 *
 * Owns: the daemon, its record. Thread: main. It loads libc only: it is to be small, and to outlive all others.
 */
#include "clients/cli/keeper/keeper.h"

#include "core/sys/child.h"
#include "core/sys/process.h"
#include "core/base/clock.h"
#include "core/base/limits/cli.h"
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READY_FD = 3, LINE_SIZE = 512, SWEEP_TICK_MS = 5, ARGUMENTS_MAX = 80 };

#define BECOME "--become"

extern char **environ;

enum state { STARTS, UP, SWEEPS, PAUSES };

struct keeper {
    enum state        state;
    bool              is_ending; /* told to: what ends is not started again */
    bool              was_ready; /* once */
    const char       *file;
    char            **argv;
    const char       *name; /* of the program */
    struct cli_record record;
    int               signals;                    /* a descriptor */
    int               asked_by;                   /* who waits for the first ready line; -1: nobody any more */
    int               ready;                      /* the daemon's line comes here; -1: it came, or the daemon has ended */
    pid_t             child;                      /* 0: none */
    int64_t           begun_ms, due_ms, swept_ms; /* when it was started; will be; and since when its leavings are ended */
    int               pause_ms;
    uint64_t          log_max;
    int64_t           log_due_ms; /* when its size is looked at */
    int               log_err;    /* of the last look */
};

static void save(struct keeper *k)
{
    int err = cli_record_write(k->file, &k->record);
    if (err)
        mt_log(MT_LOG_WARN, "keeper_record", "file=%s errno=%d", k->file, err);
}

/* ---- a start ---- */

/* What is started is this program once more, which writes down who it is and then becomes the daemon: so a daemon is known
 * even where its keeper is killed in between. Returns only when it can't. */
static int become(const char *file, char **argv)
{
    struct cli_record record;
    (void)cli_record_read(file, &record);
    record.daemon = (struct cli_process){getpid(), mt_process_start(getpid())};
    int err = cli_record_write(file, &record);
    if (err) /* whoever has filled the disk: the daemon is more important */
        mt_log(MT_LOG_WARN, "keeper_record", "file=%s errno=%d", file, err);
    execv(argv[0], argv);
    mt_log(MT_LOG_ERROR, "daemon_exec", "program=%s errno=%d", argv[0], errno);
    return 1;
}

static mt_status spawn(struct keeper *k, int ready)
{
    char *argv[ARGUMENTS_MAX + 1] = {(char[]){"manta-keeper"}, (char[]){BECOME}, (char *)(uintptr_t)k->file};
    for (int i = 0; k->argv[i] && i + 3 < ARGUMENTS_MAX; i++)
        argv[i + 3] = k->argv[i];
    struct mt_child_opts o = {.program = "/proc/self/exe",
                              .argv = argv,
                              .env = environ,
                              .session = MT_CHILD_SESSION,
                              .resets_signals = true,
                              .fds = {{ready, READY_FD}},
                              .fd_count = 1};
    return mt_child_start(&o, &k->child);
}

static void pause_again(struct keeper *k)
{
    k->state = PAUSES;
    k->due_ms = mt_now_ms() + k->pause_ms;
}

static void start(struct keeper *k)
{
    int ends[2] = {-1, -1};
    save(k); /* which the daemon adds itself to */
    mt_status st = pipe2(ends, O_CLOEXEC) == 0 ? spawn(k, ends[1]) : mt_error(MT_ESYS, errno, "pipe");
    if (ends[1] >= 0)
        close(ends[1]);
    k->ready = ends[0];
    k->begun_ms = mt_now_ms();
    k->state = STARTS;
    if (!st.code) {
        k->record.daemon = (struct cli_process){k->child, mt_process_start(k->child)}; /* it writes that down itself */
        return;
    }
    mt_log_status(MT_LOG_ERROR, "daemon_start", st); /* too many processes, or no memory */
    if (k->ready >= 0)
        close(k->ready);
    k->ready = -1;
    k->child = 0;
    k->pause_ms = cli_keeper_pause_ms(k->pause_ms, 0);
    pause_again(k);
}

/* The daemon's line, or the end of its pipe. */
static void ready(struct keeper *k)
{
    char    line[LINE_SIZE];
    ssize_t n = read(k->ready, line, sizeof line);
    close(k->ready);
    k->ready = -1;
    if (n <= 0)
        return; /* it has ended: a signal says so */
    k->state = UP;
    k->was_ready = true;
    if (k->record.restarts)
        mt_log(MT_LOG_INFO, "daemon_again", "daemon=%s pid=%d after_ms=%lld", k->name, (int)k->child,
               (long long)(mt_now_ms() - k->begun_ms));
    if (k->asked_by >= 0 && write(k->asked_by, line, (size_t)n) != n)
        mt_log(MT_LOG_WARN, "keeper_unread", "errno=%d", errno);
    if (k->asked_by >= 0)
        close(k->asked_by);
    k->asked_by = -1;
}

/* ---- an end ---- */

static void why_text(int status, char out[CLI_RECORD_TEXT_SIZE])
{
    if (WIFSIGNALED(status))
        snprintf(out, CLI_RECORD_TEXT_SIZE, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(out, CLI_RECORD_TEXT_SIZE, "ended with status %d", WEXITSTATUS(status));
}

/* Never returns. */
static void leave(struct keeper *k, int status)
{
    if (!k->was_ready)
        unlink(k->file); /* it was never there */
    exit(status);
}

static void died(struct keeper *k, int status)
{
    char      why[CLI_RECORD_TEXT_SIZE], when[32];
    int64_t   lived_ms = mt_now_ms() - k->begun_ms;
    time_t    now = time(NULL);
    struct tm tm;
    k->child = 0;
    if (k->ready >= 0)
        ready(k); /* it may have said it in its last moment */
    if (!k->was_ready || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        leave(k, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    why_text(status, why);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &tm));
    k->pause_ms = cli_keeper_pause_ms(k->pause_ms, lived_ms);
    mt_log(MT_LOG_ERROR, "daemon_died", "daemon=%s pid=%d why=\"%s\" lived_ms=%lld restart_in_ms=%d restarts=%u", k->name,
           k->record.daemon.pid, why, (long long)lived_ms, k->pause_ms, k->record.restarts);
    snprintf(k->record.last, sizeof k->record.last, "%s: %.100s", when, why);
    k->record.daemon = (struct cli_process){0, 0};
    if (!k->is_ending) /* else the folder is being cleaned */
        save(k);
    k->state = SWEEPS;
    k->swept_ms = mt_now_ms();
}

/* One look at the children; the daemon's end is acted on. */
static void reap(struct keeper *k)
{
    int   status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == k->child)
            died(k, status);
    if (k->state != SWEEPS)
        return;
    int64_t spent_ms = mt_now_ms() - k->swept_ms;
    if (pid < 0 || spent_ms > MT_CLI_KEEPER_SWEEP_MS + MT_CLI_KILL_MS) { /* stuck in the kernel: nobody can end it */
        if (k->is_ending)
            leave(k, 0);
        pause_again(k);
        return;
    }
    mt_children_kill(spent_ms < MT_CLI_KEEPER_SWEEP_MS ? "manta-reaper" : NULL);
}

static void told(struct keeper *k, int number)
{
    if (number == SIGCHLD)
        return; /* all are looked at anyway */
    mt_log(MT_LOG_INFO, "keeper_ends", "daemon=%s signal=%d", k->name, number);
    k->is_ending = true;
    if (number == CLI_KEEPER_LAST && k->state == UP)
        return; /* somebody else asks the daemon to end */
    if (k->child > 0)
        kill(k->child, SIGTERM); /* not reaped: the number is its own. Whoever loses patience with it has SIGKILL. */
    else if (k->state == PAUSES)
        leave(k, 0);
}

/* ---- the loop ---- */

static void look_at_log(struct keeper *k)
{
    if (mt_now_ms() < k->log_due_ms)
        return;
    k->log_due_ms = mt_now_ms() + MT_CLI_LOG_LOOK_MS;
    int err = cli_log_turn(STDERR_FILENO, k->log_max);
    if (err && err != k->log_err) /* once: a disk stays full for long */
        mt_log(MT_LOG_WARN, "keeper_log", "errno=%d: the log stays as it is", err);
    k->log_err = err;
}

static int patience_ms(const struct keeper *k)
{
    int64_t due_ms = k->state == PAUSES && k->due_ms < k->log_due_ms ? k->due_ms : k->log_due_ms, left = due_ms - mt_now_ms();
    return k->state == SWEEPS ? SWEEP_TICK_MS : left > 0 ? (int)left : 0;
}

static void run(struct keeper *k)
{
    for (;;) {
        struct pollfd           p[] = {{k->signals, POLLIN, 0}, {k->ready, POLLIN, 0}};
        struct signalfd_siginfo info;
        if (poll(p, 2, patience_ms(k)) < 0 && errno != EINTR)
            mt_sleep_ms(SWEEP_TICK_MS);
        if ((p[1].revents & (POLLIN | POLLHUP)) && k->ready >= 0)
            ready(k);
        if ((p[0].revents & POLLIN) && read(k->signals, &info, sizeof info) == sizeof info)
            told(k, (int)info.ssi_signo);
        reap(k);
        look_at_log(k);
        if (k->state == PAUSES && mt_now_ms() >= k->due_ms) {
            k->record.restarts++;
            start(k);
        }
    }
}

int main(int argc, char **argv)
{
    static struct keeper k;
    sigset_t             ours;
    if (argc < 4) {
        fprintf(stderr, "usage: manta-keeper RECORD LOG_MAX PROGRAM ARGUMENT... (`manta start` starts it)\n");
        return 2;
    }
    mt_log_set_sink(mt_log_to_stderr);
    if (strcmp(argv[1], BECOME) == 0)
        return become(argv[2], argv + 3);
    k.file = argv[1];
    k.log_max = strtoull(argv[2], NULL, 10);
    k.argv = argv + 3;
    k.name = strrchr(argv[3], '/') ? strrchr(argv[3], '/') + 1 : argv[3];
    k.record.keeper = (struct cli_process){getpid(), mt_process_start(getpid())};
    sigemptyset(&ours);
    for (const int *number = (const int[]){SIGCHLD, SIGTERM, SIGINT, SIGHUP, CLI_KEEPER_LAST, 0}; *number; number++)
        sigaddset(&ours, *number);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(k.name, "manta-head") != 0) /* what a head has started are nodes: they outlive it */
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    k.signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    k.asked_by = fcntl(READY_FD, F_DUPFD_CLOEXEC, READY_FD + 1);
    close(READY_FD);
    if (k.signals < 0) {
        mt_log(MT_LOG_ERROR, "keeper_signals", "errno=%d", errno);
        return 1;
    }
    start(&k);
    if (k.child <= 0) /* who asked hears of it */
        leave(&k, 1);
    run(&k);
}

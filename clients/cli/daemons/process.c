/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - see cli.h: which process is meant, and how a daemon is started.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"
#include "core/sys/child.h"
#include "core/sys/process.h"
#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { READY_FD = 3, TAIL_SIZE = 2000, ARGUMENTS_MAX = 69 };

bool cli_process_is_alive(const struct cli_process *process)
{
    return process->pid > 0 && process->start && mt_process_start(process->pid) == process->start;
}

int cli_process_open(const struct cli_process *process)
{
    int fd = process->pid > 0 ? (int)syscall(SYS_pidfd_open, process->pid, 0) : -1;
    if (fd >= 0 && cli_process_is_alive(process)) /* looked at after opening: the descriptor can't be another's */
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool cli_process_wait(int fd, uint64_t end_ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    uint64_t      now = ctl_now_ms();
    return poll(&p, 1, now < end_ms ? (int)(end_ms - now) : 0) > 0;
}

bool cli_program_find(const char *name, char out[CLI_PATH_SIZE])
{
    return mt_process_beside(name, out, CLI_PATH_SIZE) == out && out[0] == '/' && access(out, X_OK) == 0;
}

/* ---- daemons ---- */

static pid_t spawn(char *const argv[], const char *log_file, int ready_fd)
{
    pid_t pid = -1;
    int   log = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log < 0)
        return cli_fail("cannot write %s: %s", log_file, strerror(errno)), -1;
    struct mt_child_opts o = {.program = argv[0],
                              .argv = argv,
                              .env = environ,
                              .session = MT_CHILD_SESSION,
                              .resets_signals = true,
                              .dir = "/", /* else a file system could not be unmounted */
                              .fds = {{MT_CHILD_NULL, 0}, {log, 1}, {log, 2}, {ready_fd, READY_FD}},
                              .fd_count = 4};
    mt_status            st = mt_child_start(&o, &pid);
    close(log);
    if (st.code)
        cli_fail("cannot start %s (log: %s): %s", argv[0], log_file, strerror(st.sys));
    return st.code ? -1 : pid;
}

/* A daemon on a full disk can't say so in a log that lies there too. */
static void say_if_full(const char *log_file)
{
    struct statvfs fs;
    if (statvfs(log_file, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < MT_CLI_LOG_ROOM_BYTES)
        cli_fail("the disk of %s is full: make room there", log_file);
}

static off_t size_of(const char *file)
{
    struct stat st;
    return stat(file, &st) == 0 ? st.st_size : 0;
}

/* Whole lines of what was written since the log had `from` bytes: what earlier daemons have said there misleads. */
static void print_tail(const char *log_file, off_t from)
{
    char    text[TAIL_SIZE + 1];
    off_t   at = size_of(log_file) - TAIL_SIZE;
    int     fd = open(log_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, text, TAIL_SIZE, at > from ? at : from) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *line = at > from ? strchr(text, '\n') : NULL;
    fprintf(stderr, "The end of %s:\n%s", log_file, line ? line + 1 : text);
}

/* ---- interrupts ---- */

static int      interrupt_fd = -1; /* readable when one has come; -1: none is held */
static sigset_t usual_mask;

void cli_interrupts_hold(void)
{
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++)
        sigaddset(&held, interrupts[i]);
    sigprocmask(SIG_BLOCK, &held, &usual_mask);
    interrupt_fd = signalfd(-1, &held, SFD_CLOEXEC);
}

bool cli_interrupts_came(void)
{
    struct pollfd p = {interrupt_fd, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
}

void cli_interrupts_release(void)
{
    if (interrupt_fd >= 0)
        close(interrupt_fd);
    interrupt_fd = -1;
    sigprocmask(SIG_SETMASK, &usual_mask, NULL);
}

/* ---- the start of a daemon ---- */

enum { READY_ENDED = 0, READY_LATE = -1, READY_INTERRUPTED = -2 };

/* How much was written before the daemon said that it is ready, or one of these. */
static ssize_t wait_ready(int fd, char *line, size_t size)
{
    struct ctl_patience patience = ctl_patience_of(MT_CLI_START_MS);
    do {
        struct pollfd p[2] = {{fd, POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
        if (poll(p, 2, (int)ctl_try_begin(&patience, MT_CTL_TRY_MS)) > 0)
            return p[1].revents ? READY_INTERRUPTED : read(fd, line, size);
    } while (ctl_try_end(&patience));
    return READY_LATE;
}

/* What did not get ready goes. The keeper is our own child, not reaped yet; the daemon is its. */
static void give_up(pid_t keeper, const char *record)
{
    struct cli_record r;
    int64_t           end = mt_now_ms() + MT_CLI_UNDO_MS;
    kill(keeper, SIGTERM);
    while (waitpid(keeper, NULL, WNOHANG) == 0) {
        if (mt_now_ms() < end) {
            mt_sleep_ms(1);
            continue;
        }
        kill(keeper, SIGKILL);
        waitpid(keeper, NULL, 0);
        break;
    }
    int fd = cli_record_read(record, &r) ? cli_process_open(&r.daemon) : -1;
    if (fd >= 0) {
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        close(fd);
    }
    unlink(record);
}

bool cli_daemon_start(char *const argv[], const char *log_file, const char *log_max, const char *record, struct cli_record *out)
{
    char    text[512], keeper[CLI_PATH_SIZE], program[CLI_PATH_SIZE], usual[24];
    char   *all[ARGUMENTS_MAX + 1] = {keeper, (char *)(uintptr_t)record, log_max ? (char *)(uintptr_t)log_max : usual, program};
    ssize_t size = 0;
    int     ends[2], n = 4;
    snprintf(usual, sizeof usual, "%d", MT_CLI_LOG_BYTES_MAX);
    if (!cli_program_find("manta-keeper", keeper) || !cli_program_find(argv[0], program))
        return cli_fail("the program %s, or manta-keeper, is not beside this one", argv[0]), false;
    for (int i = 1; argv[i] && n < ARGUMENTS_MAX - 2; i++)
        all[n++] = argv[i];
    all[n++] = (char[]){"--ready-fd"};
    all[n] = (char[]){"3"};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_fail("pipe: %s", strerror(errno)), false;
    off_t before = size_of(log_file);
    pid_t pid = spawn(all, log_file, ends[1]);
    close(ends[1]);
    if (pid > 0)
        size = wait_ready(ends[0], text, sizeof text);
    close(ends[0]);
    if (size > 0 && cli_record_read(record, out))
        return true;
    if (pid > 0)
        give_up(pid, record);
    if (pid > 0 && size != READY_INTERRUPTED) {
        cli_fail(size > 0             ? "%s: its record can't be read"
                 : size == READY_LATE ? "%s was not ready within %d s"
                                      : "%s has ended at once",
                 argv[0], MT_CLI_START_MS / 1000);
        print_tail(log_file, before);
        say_if_full(log_file);
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * zygote.c - the warm process from which a job's workers are forked: one thread, nothing but this loop.
 *
 * Owns:   the children until they are reaped. It forks on CTL_FORK, passes the child's pidfd to the raylet, and reports
 *         wait statuses. It dies with the raylet, and its children with it.
 */
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/link/link.h"
#include "clients/lib/shell/serve/serve.h"
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/zygote/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

MT_NORETURN static void child(int zygote_fd, int signals, int own_fd, int output, const sigset_t *mask, int argc, char **argv,
                              pid_t parent)
{
    setpgid(0, 0); /* what its tasks start is found by this group when it ends */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    close(zygote_fd);
    close(signals);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        close(output);
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a worker may never end: what it prints is seen line by line */
    lib_crash_text_open();
    lib_worker_serve(own_fd, argc, argv);
}

static void fork_one(int fd, int signals, const sigset_t *mask, uint64_t token, int child_fd, int output, int argc, char **argv)
{
    struct ctl_forked forked = {.token = token};
    pid_t             self = getpid();
    pid_t             pid = fork();
    int               pidfd = -1;
    if (pid == 0)
        child(fd, signals, child_fd, output, mask, argc, argv, self);
    forked.pid = pid < 0 ? -errno : (int32_t)pid;
    if (pid > 0)
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* not yet reaped, so the number is still its own */
    if (lib_socket_send(fd, CTL_FORKED, (mt_id){0, 0}, &forked, sizeof forked, NULL, 0, pidfd).code)
        exit(0);
    if (pidfd >= 0)
        close(pidfd);
    close(child_fd);
    if (output >= 0)
        close(output);
}

/* As waitpid would give it. */
static int status_of(const siginfo_t *dead)
{
    if (dead->si_code == CLD_EXITED)
        return W_EXITCODE(dead->si_status, 0);
    return W_EXITCODE(0, dead->si_status) | (dead->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

/* Each is told before it is reaped: for as long as we get no CPU to say so, /proc says it to the raylet that asks. */
static void reap(int fd, int signals)
{
    struct signalfd_siginfo info;
    siginfo_t               dead;
    (void)!read(signals, &info, sizeof info);
    for (;;) {
        dead.si_pid = 0;
        if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) < 0 || dead.si_pid == 0)
            return;
        kill(-dead.si_pid, SIGKILL); /* what its tasks left running: not reaped yet, the number is still its own */
        struct ctl_child_exit gone = {.pid = dead.si_pid, .status = status_of(&dead)};
        if (lib_socket_send(fd, CTL_CHILD_EXIT, (mt_id){0, 0}, &gone, sizeof gone, NULL, 0, -1).code)
            exit(0);
        if (waitpid(dead.si_pid, NULL, WNOHANG) <= 0)
            return;
    }
}

/* One message of the raylet. False: there is none, or the raylet is gone. */
static bool serve_message(int fd, int signals, const sigset_t *mask, int argc, char **argv)
{
    uint8_t            bytes[LANE_RECORD_MAX];
    struct lane_record record;
    struct ctl_fork    fork_it;
    int                fds[CTL_FDS_MAX], fd_count;
    size_t             size;
    mt_status          st = lib_socket_receive(fd, bytes, sizeof bytes, &size, fds, &fd_count);
    if (st.code == MT_EAGAIN)
        return false;
    if (st.code || size < sizeof record)
        exit(0);
    memcpy(&record, bytes, sizeof record);
    if (record.kind == CTL_SHUTDOWN)
        exit(0);
    if (record.kind == CTL_FORK && size >= sizeof record + sizeof fork_it && fd_count >= 1) {
        memcpy(&fork_it, bytes + sizeof record, sizeof fork_it);
        fork_one(fd, signals, mask, fork_it.token, fds[0], fd_count > 1 ? fds[1] : -1, argc, argv);
    }
    return true;
}

/* The raylet tells it to whoever waits for a worker of ours. */
MT_NORETURN static void give_up(int fd, const manta_error *e)
{
    lib_socket_give_up(fd, e->code, e->message);
    exit(1);
}

/* Until now the raylet has listened to what is said there: the loader's words, if this program could not be started. */
static void stderr_back(void)
{
    const char *text = getenv("MANTA_STDERR");
    int         fd = text ? (int)strtol(text, NULL, 10) : -1;
    unsetenv("MANTA_STDERR");
    if (fd <= STDERR_FILENO || dup2(fd, STDERR_FILENO) < 0)
        return;
    close(fd);
}

/* The driver's own search path, for what this job's tasks start: the raylet had added the folder of the program's libraries,
 * which are loaded by now. */
static void search_path_back(void)
{
    const char *before = getenv("MANTA_SEARCH_PATH");
    if (before && before[0])
        setenv("LD_LIBRARY_PATH", before, 1);
    else if (before)
        unsetenv("LD_LIBRARY_PATH");
    unsetenv("MANTA_SEARCH_PATH");
}

MT_NORETURN void lib_zygote_serve(int fd, int argc, char **argv)
{
    struct pollfd polled[2];
    sigset_t      children, before;
    uint64_t      process;
    int           signals;
    manta_error   e;

    stderr_back();
    search_path_back();
    if (lib_env_enter(&e))
        give_up(fd, &e);
    lib_crash_handlers(); /* the children inherit them, and what they had to load */
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, &before);
    signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || mt_random_bytes(&process, sizeof process).code || lib_hello(fd, CTL_ZYGOTE, process, 0, argc, argv, "").code)
        exit(1);
    polled[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = signals, .events = POLLIN};
    for (;;) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            exit(1);
        if (polled[1].revents)
            reap(fd, signals);
        while (polled[0].revents && serve_message(fd, signals, &before, argc, argv))
            ;
    }
}

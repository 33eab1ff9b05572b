/* SPDX-License-Identifier: Apache-2.0
 *
 * shepherd.c - see shepherd.h. Owns: the rank and all that it starts. Thread: main, the only one.
 */
#include "clients/gang/rank/shepherd.h"

#include "core/base/clock.h"
#include "core/base/limits/gang.h"
#include "core/sys/child.h"
#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void say(int32_t kind, int32_t value)
{
    struct gng_shepherd_word word = {kind, value};
    (void)!send(GNG_SHEPHERD_FD, &word, sizeof word, MSG_NOSIGNAL);
}

/* Kills what is left, and those that these start meanwhile: orphans become our children. False: one of them does not die. */
static bool all_end(void)
{
    int64_t limit = mt_now_ns() + MT_GANG_LEAVE_MS * INT64_C(1000000);
    while (mt_now_ns() < limit) {
        pid_t pid;
        mt_children_kill(NULL);
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return true;
        mt_sleep_ms(1);
    }
    return false;
}

/* A signal goes to the rank's whole process group: a shell does not pass it on. */
static void signal_pass(pid_t rank, int32_t number)
{
    kill(-rank, number);
    if (number != SIGKILL && number != SIGSTOP)
        kill(-rank, SIGCONT); /* one that was stopped hears of it */
    if (number == SIGKILL)
        mt_children_kill(NULL);
}

/* Serves until the rank has ended. False: the supervisor is gone. */
static bool serve(pid_t rank, int signals, int *out_status)
{
    for (;;) {
        struct pollfd           fds[2] = {{GNG_SHEPHERD_FD, POLLIN, 0}, {signals, POLLIN, 0}};
        struct signalfd_siginfo info;
        int32_t                 number;
        pid_t                   pid;
        int                     status;
        poll(fds, 2, -1);
        if (fds[1].revents)
            (void)!read(signals, &info, sizeof info);
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (pid == rank) {
                *out_status = status;
                return true;
            }
        if (!fds[0].revents)
            continue;
        ssize_t n = recv(GNG_SHEPHERD_FD, &number, sizeof number, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n == sizeof number)
            signal_pass(rank, number);
    }
}

/* The pipes end with the rank, not with us. */
static void outputs_leave(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return;
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
}

static bool has_rank_fd(void)
{
    return getenv(GNG_SHEPHERD_PMI) || getenv(GNG_SHEPHERD_MEETS);
}

static mt_status rank_start(char **argv, pid_t *out_pid)
{
    struct mt_child_opts o = {
        .argv = argv, .env = environ, .session = MT_CHILD_SESSION, .dies_with_parent = true, .resets_signals = true};
    if (has_rank_fd())
        mt_child_give(&o, GNG_SHEPHERD_RANK_FD, GNG_SHEPHERD_RANK_FD);
    return mt_child_start(&o, out_pid);
}

int gng_shepherd_main(int argc, char **argv)
{
    sigset_t child;
    pid_t    rank;
    int      status = 0;
    if (argc < 2)
        return 2;
    mt_process_wake_at_parents_end(); /* the supervisor's: a rank ends with it */
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 || signals < 0) {
        say(GNG_SHEPHERD_REFUSED, errno);
        return 1;
    }
    mt_status st = rank_start(argv + 1, &rank);
    outputs_leave();
    if (has_rank_fd())
        close(GNG_SHEPHERD_RANK_FD);
    if (st.code) {
        say(GNG_SHEPHERD_REFUSED, st.sys ? st.sys : ENOMEM);
        return 1;
    }
    say(GNG_SHEPHERD_STARTED, rank);
    bool has_ended = serve(rank, signals, &status);
    (void)all_end();
    if (has_ended)
        say(GNG_SHEPHERD_ENDED, status);
    return 0;
}

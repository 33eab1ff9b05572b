/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-raylet: prepares the process, then runs the shell until it is told to leave.
 *
 * Owns: the options. Thread: main.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/shell.h"

#include "core/base/log.h"
#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* What every process started from here inherits. */
static void harden(void)
{
    struct rlimit no_core = {0, 0};
    umask(077);
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* what a dead zygote leaves is ours to reap */
    signal(SIGPIPE, SIG_IGN);
    io_say_crashes();
}

static void cloexec(int fd)
{
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* manta-raylet --run-as UID GID SOCKET PARENT PROGRAM ARGUMENT...: with --job-users the raylet starts the driver of a submitted job
 * like that, which must die with it, and be another user. Returns only when the program cannot be run. */
static int run_program(char **argv)
{
    int status = sh_users_enter(argv);
    if (status)
        return status;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's process has lost what was set before */
    if (getppid() != strtol(argv[3], NULL, 10))
        return 1; /* it had died before that */
    execvp(argv[4], argv + 4);
    fprintf(stderr, "manta: cannot run %s: %s\n", argv[4], strerrordesc_np(errno));
    return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
    struct rlt_options options = {0};
    uint32_t           fds_before, limit;
    if (argc > 6 && strcmp(argv[1], "--run-as") == 0)
        return run_program(argv + 2);
    if (argc > 4 && strcmp(argv[1], "--as") == 0)
        return sh_users_run_zygote(argv + 2);
    mt_status st = io_fill_standard_fds();
    if (st.code)
        return 1;
    st = rlt_options_read(argc, argv, &options);
    if (st.code)
        return st.code == MT_ENOENT ? 0 : 2;
    io_close_inherited((const int[]){options.driver_fd, options.ready_fd}, 2);
    harden();
    mt_log_set_sink(mt_log_to_stderr);
    mt_log_set_level(options.driver_fd >= 0 ? MT_LOG_WARN : MT_LOG_INFO); /* a private one is seen by a user */
    if (options.driver_fd >= 0)
        mt_process_wake_at_parents_end(); /* the driver's: it ends too */
    cloexec(options.driver_fd);
    cloexec(options.ready_fd);
    st = io_raise_fd_limit(&fds_before, &limit);
    if (st.code == MT_OK)
        st = sh_run(&options, fds_before);
    if (st.code)
        fprintf(stderr, "manta-raylet: %s: %s%s%s\n", st.what ? st.what : "failed", mt_code_text(st.code), st.sys ? ": " : "",
                st.sys ? strerrordesc_np(st.sys) : "");
    return st.code ? 1 : 0;
}

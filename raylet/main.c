/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - manta-raylet: prepares the process, then runs the shell until it is told to leave.
 *
 * Owns: the options. Thread: main.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/shell.h"

#include "core/base/log.h"

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
    io_say_aborts();
}

static void cloexec(int fd)
{
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* The path of a program of ours, which lies beside this one; as it is where that is not known. */
static const char *beside(const char *program, char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0)
        return program;
    path[n] = 0;
    char  *slash = strrchr(path, '/');
    size_t at = slash ? (size_t)(slash + 1 - path) : 0;
    return (size_t)snprintf(path + at, size - at, "%s", program) < size - at ? path : program;
}

/* Who runs a job that is a shared object, or the gangs' own driver; NULL: argv[0] is a program as any other. */
static const char *host_of(const char *program, char *path, size_t size)
{
    const char *dot = strrchr(program, '.');
    if (dot && strcmp(dot, ".so") == 0)
        return beside("manta-so", path, size);
    return strcmp(program, "manta-run") == 0 ? beside(program, path, size) : NULL;
}

/* manta-raylet [--run-as UID GID SOCKET | --run] PARENT PROGRAM ARGUMENT...: how the raylet starts the driver of a submitted
 * job, which must die with it. Returns only when the program cannot be run. */
static int run_program(char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != strtol(argv[0], NULL, 10))
        return 1; /* it had died before that */
    char        path[4096];
    const char *host = host_of(argv[1], path, sizeof path);
    if (host) {
        bool is_so = strcmp(argv[1], "manta-run") != 0; /* which gets the object as its first word */
        argv[is_so ? 0 : 1] = (char *)(uintptr_t)host;
        execv(host, is_so ? argv : argv + 1);
        fprintf(stderr, "manta: cannot run %s: %s\n", host, strerrordesc_np(errno));
        return 126;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "manta: cannot run %s: %s\n", argv[1], strerrordesc_np(errno));
    return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
    struct rlt_options options = {0};
    uint32_t           fds_before, limit;
    if (argc > 3 && strcmp(argv[1], "--run") == 0)
        return run_program(argv + 2);
    if (argc > 6 && strcmp(argv[1], "--run-as") == 0) {
        int status = sh_users_enter(argv + 2);
        return status ? status : run_program(argv + 5);
    }
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - see child.h.
 */
#include "sweep/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 64 * 1024 };

struct start {
    const struct swp_child_opts *opts;
    pid_t parent;
    int   null_fd;
    int   failed; /* errno */
};

/* Makes `fd` the child's descriptor number `as`. Where it is that already, dup2 would leave its close-on-exec. */
static bool descriptor_set(int fd, int as)
{
    if (fd < 0)
        return true;
    return fd == as ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, as) == as;
}

/* Runs in the child, on memory that the parent, which waits meanwhile, sees as well: system calls only. It does not return, so a
 * sanitizer's marks around its variables would stay on addresses that are somebody else's afterwards. */
__attribute__((no_sanitize_address)) static int child_run(void *user)
{
    struct start *s = user;
    const struct swp_child_opts *o = s->opts;
    sigset_t none;
    sigemptyset(&none);
    bool ok = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == s->parent;
    ok = ok && descriptor_set(o->in < 0 ? s->null_fd : o->in, 0) && descriptor_set(o->out, 1) && descriptor_set(o->err, 2);
    ok = ok && (!o->dir || chdir(o->dir) == 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (ok)
        execvpe(o->argv[0], o->argv, o->env);
    s->failed = errno ? errno : ESRCH;
    _exit(127);
}

mt_status swp_child_start(const struct swp_child_opts *opts, pid_t *out_pid)
{
    struct start s = {.opts = opts, .parent = getpid(), .null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)};
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        close(s.null_fd);
        return mt_error(MT_ENOMEM, errno, "start a program");
    }
    pid_t pid = clone(child_run, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
    int   sys = pid < 0 ? errno : s.failed;
    munmap(stack, STACK_BYTES);
    close(s.null_fd);
    if (pid >= 0 && s.failed)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    if (sys)
        return mt_error(sys == ENOENT ? MT_ENOENT : MT_ESYS, sys, "start a program");
    *out_pid = pid;
    return mt_ok();
}

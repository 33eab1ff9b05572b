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

/* ThreadSanitizer takes clone for fork: what it notes in the child would stand in the parent. So the child gets a copy of
 * the memory there, and only what both need is shared. */
#ifdef __SANITIZE_THREAD__
enum { MEMORY = MAP_SHARED, SHARING = 0 };
#else
enum { MEMORY = MAP_PRIVATE, SHARING = CLONE_VM };
#endif
/* AddressSanitizer marks what is in use of a stack, and would never hear that the child has left this one. */
#define ON_ITS_STACK __attribute__((no_sanitize_address))

enum { STACK_BYTES = 64 * 1024 };

struct start { /* at the low end of the child's stack */
    const struct swp_child_opts *opts;
    pid_t parent;
    int   null_fd;
    int   failed; /* errno */
};

/* Makes `fd` the child's descriptor number `as`. Where it is that already, dup2 would leave its close-on-exec. */
ON_ITS_STACK static bool descriptor_set(int fd, int as)
{
    if (fd < 0)
        return true;
    return fd == as ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, as) == as;
}

/* Runs in the child, on memory that the parent, which waits meanwhile, sees as well: system calls only. */
ON_ITS_STACK static int child_run(void *user)
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
    return 127; /* which ends the child without _exit: a sanitizer would take that for the parent's */
}

mt_status swp_child_start(const struct swp_child_opts *opts, pid_t *out_pid)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MEMORY | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return mt_error(MT_ENOMEM, errno, "start a program");
    struct start *s = stack;
    *s = (struct start){.opts = opts, .parent = getpid(), .null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)};
    pid_t pid = clone(child_run, (char *)stack + STACK_BYTES, SHARING | CLONE_VFORK | SIGCHLD, s);
    int   failed = s->failed, sys = pid < 0 ? errno : failed;
    close(s->null_fd);
    munmap(stack, STACK_BYTES);
    if (pid >= 0 && failed)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    if (sys)
        return mt_error(sys == ENOENT ? MT_ENOENT : MT_ESYS, sys, "start a program");
    *out_pid = pid;
    return mt_ok();
}

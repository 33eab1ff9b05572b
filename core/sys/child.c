/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - see child.h. Owns nothing.
 */
#include "core/sys/child.h"

#include "core/sys/file.h"
#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer takes clone for fork: what it notes in the child would stand in the parent. So the child
 * gets a copy of the memory there, and only what both need is shared. */
#ifdef __SANITIZE_THREAD__
enum { MEMORY = MAP_SHARED, SHARING = 0 };
#else
enum { MEMORY = MAP_PRIVATE, SHARING = CLONE_VM };
#endif
/* AddressSanitizer marks what is in use of a stack, and would never hear that the child has left this one. */
#define ON_ITS_STACK __attribute__((no_sanitize_address))

enum { STACK_BYTES = 64 * 1024 };

struct start { /* at the low end of the child's stack */
    const struct mt_child_opts *opts;
    pid_t                       parent;
    bool                        moves;  /* it is not born in its control group */
    int                         failed; /* errno */
};

/* From now on what is open stays here. Before Linux 5.11 one by one. */
ON_ITS_STACK static void descriptors_keep(void)
{
    struct rlimit limit;
    if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    for (int fd = STDERR_FILENO + 1; (rlim_t)fd < limit.rlim_cur; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Makes `fd` the child's descriptor number `as`. Where it is that already, dup2 would leave its
 * close-on-exec. */
ON_ITS_STACK static bool descriptor_set(int fd, int as)
{
    if (fd == MT_CHILD_NULL)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd == as ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, as) == as;
}

ON_ITS_STACK static bool descriptors_set(const struct mt_child_opts *o)
{
    int  from[MT_CHILD_FDS_MAX], above = 0;
    bool ok = true;
    descriptors_keep();
    for (uint32_t i = 0; i < o->fd_count; i++)
        above = o->fds[i].as >= above ? o->fds[i].as + 1 : above;
    for (uint32_t i = 0; ok && i < o->fd_count; i++) { /* none is overwritten before it is given */
        int fd = o->fds[i].fd;
        from[i] = fd == MT_CHILD_NULL || fd >= above || fd == o->fds[i].as ? fd : fcntl(fd, F_DUPFD_CLOEXEC, above);
        ok = from[i] == MT_CHILD_NULL || from[i] >= 0;
    }
    for (uint32_t i = 0; ok && i < o->fd_count; i++)
        ok = descriptor_set(from[i], o->fds[i].as);
    return ok;
}

/* All are blocked until here: a handler of ours would run in the child, on our memory. */
ON_ITS_STACK static void signals_set(const struct mt_child_opts *o)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || (action.sa_handler == SIG_IGN && !o->resets_signals && number != SIGPIPE))
            continue;
        if (action.sa_handler != SIG_DFL)
            signal(number, SIG_DFL);
    }
    if (o->session == MT_CHILD_GROUP) {
        signal(SIGTTIN, SIG_IGN);
        signal(SIGTTOU, SIG_IGN);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

ON_ITS_STACK static bool limit_set(rlim_t fds_max)
{
    struct rlimit limit;
    if (!fds_max)
        return true;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = fds_max < limit.rlim_max ? fds_max : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

ON_ITS_STACK static bool session_set(enum mt_child_session session)
{
    return session == MT_CHILD_GROUP ? setpgid(0, 0) == 0 : session == MT_CHILD_SESSION ? setsid() > 0 : true;
}

/* The PATH that the program itself will have. */
ON_ITS_STACK static const char *search_path(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/bin:/usr/bin"; /* as execvp does */
}

/* "FOLDER/NAME", where an empty folder is the present one. False: it does not fit. */
ON_ITS_STACK static bool path_join(char *out, size_t room, const char *folder, size_t size, const char *name)
{
    size_t length = strlen(name);
    if (size + length + 3 > room)
        return false;
    memcpy(out, size ? folder : ".", size ? size : 1);
    size = size ? size : 1;
    out[size] = '/';
    memcpy(out + size + 1, name, length + 1);
    return true;
}

/* As execvpe, which looks in our PATH, does it. Returns, with errno, when nothing can be run. */
ON_ITS_STACK static void run_found(const struct mt_child_opts *o)
{
    const char *name = o->argv[0], *at = search_path(o->env);
    char        path[PATH_MAX];
    int         failed = ENOENT;
    bool        is_last = strchr(name, '/') || !name[0];
    errno = ENOENT;
    if (is_last && name[0])
        execvpe(name, o->argv, o->env);
    for (; !is_last; at += strcspn(at, ":") + 1) {
        size_t size = strcspn(at, ":");
        is_last = at[size] == '\0';
        errno = ENOENT;
        if (path_join(path, sizeof path, at, size, name))
            execvpe(path, o->argv, o->env); /* it searches nothing where there is a slash, but runs a script without #! */
        if (errno == EACCES)
            failed = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
        errno = failed;
    }
}

/* "0" is who writes. */
ON_ITS_STACK static bool group_enter(int cgroup)
{
    int  fd = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, "0", 1) == 1;
    int  err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return ok;
}

/* Runs in the child, on memory that the parent, which waits meanwhile, sees as well: system calls only. */
ON_ITS_STACK static int child_run(void *user)
{
    struct start               *s = user;
    const struct mt_child_opts *o = s->opts;
    errno = ESRCH; /* its parent is another one */
    bool ok = !o->dies_with_parent || (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == s->parent);
    ok = ok && (!s->moves || group_enter(o->cgroup)) && session_set(o->session) && descriptors_set(o) && limit_set(o->fds_max) &&
         (!o->dir || chdir(o->dir) == 0);
    if (ok && !o->argv)
        return 0;
    if (ok) {
        signals_set(o);
        if (o->program)
            execve(o->program, o->argv, o->env);
        else
            run_found(o);
    }
    s->failed = errno;
    return 127; /* which ends the child without _exit: a sanitizer would take that for the parent's */
}

/* As clone, but into a control group. What is started goes on behind this very call too, on a stack where nothing stands
 * that it could return by. -1, with errno. */
static pid_t clone_into(int cgroup, char *stack, struct start *s)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    long              result = SYS_clone3;
    struct clone_args args = {.flags = SHARING | CLONE_VFORK | CLONE_INTO_CGROUP,
                              .exit_signal = SIGCHLD,
                              .stack = (uint64_t)(uintptr_t)stack,
                              .stack_size = STACK_BYTES,
                              .cgroup = (uint64_t)cgroup};
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%rdx, %%rdi\n\t"
                     "call *%%rbx\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "1:"
                     : "+a"(result)
                     : "D"(&args), "S"(sizeof args), "b"(child_run), "d"(s), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "cc", "memory");
    if (result >= 0)
        return (pid_t)result;
    errno = (int)-result;
#else
    (void)cgroup, (void)stack, (void)s;
    errno = ENOSYS;
#endif
    return -1;
}

/* Born in its group, or moved there before it is the program: that takes a lock of the kernel which waits for all processors
 * (10 ms), but also a sandbox that knows no clone3 lets it be done. */
static pid_t start_child(struct start *s)
{
    char *stack = (char *)s;
    pid_t pid = s->opts->cgroup ? clone_into(s->opts->cgroup, stack, s) : -1;
    if (pid > 0 || (s->opts->cgroup && (errno == EAGAIN || errno == ENOMEM)))
        return pid;
    s->moves = s->opts->cgroup != 0;
    return clone(child_run, stack + STACK_BYTES, SHARING | CLONE_VFORK | SIGCHLD, s);
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

mt_status mt_child_try(int cgroup)
{
    const struct mt_child_opts o = {.cgroup = cgroup};
    pid_t                      pid;
    MT_TRY(mt_child_start(&o, &pid));
    reap(pid);
    return mt_ok();
}

mt_status mt_child_start(const struct mt_child_opts *opts, pid_t *out_pid)
{
    void    *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MEMORY | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t all, before;
    if (stack == MAP_FAILED)
        return mt_error(MT_ENOMEM, errno, "start a program");
    struct start *s = stack;
    *s = (struct start){.opts = opts, .parent = getpid()};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = start_child(s);
    int   failed = s->failed, sys = pid < 0 ? errno : failed;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stack, STACK_BYTES);
    if (pid >= 0 && failed)
        reap(pid);
    if (sys)
        return mt_error(sys == ENOENT ? MT_ENOENT : MT_ESYS, sys, "start a program");
    *out_pid = pid;
    return mt_ok();
}

/* Adds the children of all threads of a process. */
static size_t children_add(pid_t pid, pid_t *tree, size_t count, size_t max)
{
    DIR *threads = mt_process_threads(pid);
    for (pid_t thread; (thread = mt_process_next(threads));) {
        char path[64];
        int  child;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)thread);
        FILE *children = fopen(path, "re");
        while (children && count < max && fscanf(children, "%d", &child) == 1)
            tree[count++] = child;
        if (children)
            fclose(children);
    }
    return count;
}

size_t mt_child_env_set(char **env, size_t count, char *variable)
{
    size_t name = strcspn(variable, "="), at = 0;
    while (at < count && !(strncmp(env[at], variable, name) == 0 && env[at][name] == '='))
        at++;
    env[at] = variable;
    return at == count ? count + 1 : count;
}

size_t mt_process_tree(pid_t root, pid_t *tree, size_t max)
{
    size_t count = 1;
    tree[0] = root;
    for (size_t i = 0; i < count; i++)
        count = children_add(tree[i], tree, count, max);
    return count;
}

static bool is_called(pid_t pid, const char *name)
{
    char path[64], text[32];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    ssize_t size = mt_file_read(path, text, sizeof text);
    return size > 0 && (size_t)size == strlen(name) + 1 && strncmp(text, name, strlen(name)) == 0;
}

void mt_children_kill(const char *spared)
{
    char path[64], word[32];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%31s", word) == 1) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (pid > 1 && !(spared && is_called(pid, spared)))
            kill(pid, SIGKILL); /* nobody else reaps: the number is its own */
    }
    if (children)
        fclose(children);
}

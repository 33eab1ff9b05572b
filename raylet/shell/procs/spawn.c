/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn.c - starting a zygote from a descriptor of the job's program, and giving it sockets to fork workers for.
 *
 * Owns: nothing; what is started belongs to its connection. Thread: the loop only, which lives as long as the process:
 * a child's PR_SET_PDEATHSIG follows the thread that created it.
 */
#include "raylet/shell/cache/cache.h"
#include "raylet/shell/said/said.h"
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/procs/procs.h"

#include "core/sys/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The texts behind a ctl_hello as argv and environment. The core has checked that they add up. */
struct program {
    char **argv;
    char **envp;
    char  *cwd;
    char   job[32];                /* MANTA_JOB */
    char  *search, *search_before; /* NULL: it has no libraries in the cache */
};

static bool is_ours(const char *variable)
{
    return strncmp(variable, "MANTA_FD=", 9) == 0 || strncmp(variable, "MANTA_ROLE=", 11) == 0 ||
           strncmp(variable, "MANTA_JOB=", 10) == 0 || strncmp(variable, "MANTA_MARK=", 11) == 0 ||
           strncmp(variable, "MANTA_SEARCH_PATH=", 18) == 0 || strncmp(variable, "MANTA_STDERR=", 13) == 0;
}

#define SEARCH "LD_LIBRARY_PATH="

static void program_fini(struct program *p)
{
    free(p->argv);
    free(p->envp);
    free(p->search);
    free(p->search_before);
}

/* The driver's own search path first, then where the libraries that came with its program lie: what it found elsewhere, in a
 * folder that this node does not have, is found there. The zygote then puts the driver's back (clients/lib/shell/zygote). */
static bool search_path_add(const struct sh *sh, uint64_t job, struct program *p, uint32_t *envc)
{
    enum { FOLDERS_SIZE = 16 * 1024 };
    char       *folders = calloc(1, FOLDERS_SIZE);
    size_t      size = folders ? sh_cache_libraries(sh, job, folders, FOLDERS_SIZE) : 0;
    const char *before = "";
    bool        is_made = size == 0;
    for (uint32_t i = 0; size && i < *envc && !before[0]; i++) {
        if (strncmp(p->envp[i], SEARCH, sizeof SEARCH - 1) != 0)
            continue;
        before = p->envp[i] + sizeof SEARCH - 1;
        p->envp[i] = p->envp[--*envc];
    }
    if (size && asprintf(&p->search, SEARCH "%s%s%s", before, before[0] ? ":" : "", folders) >= 0 &&
        asprintf(&p->search_before, "MANTA_SEARCH_PATH=%s", before) >= 0) {
        p->envp[(*envc)++] = p->search;
        p->envp[(*envc)++] = p->search_before;
        is_made = true;
    }
    free(folders);
    return is_made;
}

static mt_status program_read(struct sh *sh, const struct rlt_a_spawn_zygote *a, struct program *out)
{
    static char      fd_variable[] = "MANTA_FD=3", role_variable[] = "MANTA_ROLE=zygote", stderr_variable[] = "MANTA_STDERR=5";
    struct ctl_hello h;
    char            *text = (char *)(uintptr_t)a->hello + sizeof h;
    uint32_t         envc = 0;
    memcpy(&h, a->hello, sizeof h);
    *out = (struct program){0};
    out->argv = calloc(h.argc + 1, sizeof *out->argv);
    out->envp = calloc(h.envc + 8, sizeof *out->envp);
    if (!out->argv || !out->envp)
        return mt_error(MT_ENOMEM, ENOMEM, "strings of a program");
    for (uint32_t i = 0; i < h.argc; i++, text += strlen(text) + 1)
        out->argv[i] = text;
    for (uint32_t i = 0; i < h.envc; i++, text += strlen(text) + 1)
        if (!is_ours(text))
            out->envp[envc++] = text;
    if (!search_path_add(sh, a->job, out, &envc))
        return mt_error(MT_ENOMEM, ENOMEM, "strings of a program");
    out->envp[envc++] = fd_variable;
    out->envp[envc++] = role_variable;
    out->envp[envc++] = stderr_variable;
    out->envp[envc++] = (char *)(uintptr_t)sh_cgroup_mark(sh);
    out->envp[envc] = out->job;
    snprintf(out->job, sizeof out->job, "MANTA_JOB=%016llx", (unsigned long long)h.job);
    out->cwd = text;
    return mt_ok();
}

/* The same program, but first this one, which gives root up. */
static char **argv_as(const struct program *p, const struct sh_user *user, char (*texts)[16])
{
    size_t argc = 0;
    while (p->argv[argc])
        argc++;
    char **argv = calloc(argc + 5, sizeof *argv);
    if (!argv)
        return NULL;
    snprintf(texts[0], sizeof texts[0], "%u", user->uid);
    snprintf(texts[1], sizeof texts[1], "%u", user->gid);
    argv[0] = (char *)(uintptr_t) "manta-raylet";
    argv[1] = (char *)(uintptr_t) "--as";
    argv[2] = texts[0];
    argv[3] = texts[1];
    memcpy(argv + 4, p->argv, argc * sizeof *argv);
    return argv;
}

/* Returns 0 or an errno. `path` is what is run; `program`: a descriptor of what that is to run, -1: none. */
static int spawn(struct sh *sh, const char *path, const struct program *p, char **argv, int child_fd, int output, int said,
                 int program, pid_t *out_pid)
{
    struct mt_child_opts o = {
        .program = path,
        .argv = argv,
        .env = p->envp,
        .dir = p->cwd[0] && access(p->cwd, X_OK) == 0 ? p->cwd : NULL, /* on another node than its driver it may not exist */
        .fds = {{MT_CHILD_NULL, 0}, {child_fd, SH_CHILD_FD}},
        .fd_count = 2,
        .fds_max = sh->fds_before,
        .cgroup = sh_cgroup_folder(sh),
        .session = MT_CHILD_GROUP, /* a group of its own: the terminal's ^C is the driver's */
        .resets_signals = true,
    };
    if (output >= 0)
        mt_child_give(&o, output, STDOUT_FILENO);
    if (said >= 0)
        mt_child_give(&o, output >= 0 ? output : STDERR_FILENO, SH_STDERR_FD);
    if (said >= 0 || output >= 0)
        mt_child_give(&o, said >= 0 ? said : output, STDERR_FILENO);
    if (program >= 0)
        mt_child_give(&o, program, SH_PROGRAM_FD);
    return mt_child_start(&o, out_pid).sys;
}

/* A socket pair, the first end ours as `conn`, the second for a child. The second has a number above SH_CHILD_FD, so that
 * dup2 in the child always makes a descriptor without close-on-exec. */
static mt_status socket_pair(struct sh *sh, uint64_t conn, struct sh_conn **out_conn, int *out_child)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return mt_error(MT_ESYS, errno, "socketpair");
    int child = fcntl(pair[1], F_DUPFD_CLOEXEC, SH_CHILD_FD + 1), err = child < 0 ? errno : EMFILE;
    close(pair[1]);
    if (child < 0 || (uint32_t)child >= io_fd_share()) {
        close(pair[0]);
        if (child >= 0)
            close(child);
        return mt_error(MT_EAGAIN, err, "descriptors of this node");
    }
    mt_status st = sh_conn_open(sh, conn, pair[0], out_conn);
    if (st.code)
        close(child);
    else
        *out_child = child;
    return st;
}

/* Under a user of the job's own, where there are such. `program`: where a->program is, above all that the child is given. Returns 0
 * or an errno. */
static int spawn_program(struct sh *sh, const struct rlt_a_spawn_zygote *a, const struct program *p, int program, int child,
                         int said, pid_t *out_pid)
{
    struct ctl_hello hello;
    struct sh_user   user, own;
    char             texts[2][16], path[64];
    char           **argv;
    int              output = sh_job_workers_output(sh, a->driver_pid), err;
    /* A path through our own descriptor: the very file that the driver runs, even if its name means another now. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", program);
    if (!sh->options.users.count)
        return spawn(sh, path, p, p->argv, child, output, said, -1, out_pid);
    memcpy(&hello, a->hello, sizeof hello);
    if (!sh_user_of_job(sh, hello.job, sh_job_user(sh, a->driver_pid, &own) ? &own : NULL, &user))
        return EUSERS;
    argv = argv_as(p, &user, texts);
    err = argv ? spawn(sh, "/proc/self/exe", p, argv, child, output, said, program, out_pid) : ENOMEM;
    free(argv);
    return err;
}

static int spawn_as(struct sh *sh, const struct rlt_a_spawn_zygote *a, const struct program *p, int child, int said, pid_t *out_pid)
{
    int program = fcntl(a->program, F_DUPFD_CLOEXEC, SH_STDERR_FD + 1), err;
    if (program < 0)
        return errno;
    err = spawn_program(sh, a, p, program, child, said, out_pid);
    close(program);
    return err;
}

/* In a part of the group, and listened to until it has greeted. */
static int spawn_in_group(struct sh *sh, const struct rlt_a_spawn_zygote *a, const struct program *p, struct sh_conn *c, int child,
                          pid_t *out_pid)
{
    int output = sh_job_workers_output(sh, a->driver_pid), end = -1, err;
    c->said = sh_said_new(sh, output >= 0 ? output : STDERR_FILENO, &end);
    c->part = sh_cgroup_enter(sh);
    err = spawn_as(sh, a, p, child, end, out_pid);
    sh_cgroup_leave(sh, c->part, !err);
    if (end >= 0)
        close(end);
    if (err)
        c->part = 0;
    return err;
}

static void spawned(struct sh *sh, uint64_t conn, pid_t pid, int err)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_SPAWNED);
    e.spawned.conn = conn;
    e.spawned.pid = err ? -err : pid;
    sh_post(sh, &e);
}

/* Takes the child's end of its socket. */
static void start(struct sh *sh, const struct rlt_a_spawn_zygote *a, struct sh_conn *c, int take_child)
{
    struct program program;
    pid_t          pid = -1;
    mt_status      st = program_read(sh, a, &program);
    int            err = st.code ? st.sys : spawn_in_group(sh, a, &program, c, take_child, &pid);
    close(take_child);
    program_fini(&program);
    if (!err)
        sh_conn_watch_pid(c, (int)syscall(SYS_pidfd_open, pid, 0), pid);
    spawned(sh, a->conn, pid, err);
}

/* A zygote whose program is held against its list before. */
struct checked {
    struct sh_check           check;
    struct sh                *sh;
    struct rlt_a_spawn_zygote what; /* its descriptor and its greeting are ours */
    int                       child;
};

static void checked_free(struct checked *s)
{
    if (s->child >= 0)
        close(s->child);
    if (s->what.program >= 0)
        close(s->what.program);
    free((void *)(uintptr_t)s->what.hello);
    free(s);
}

static void checked_done(struct sh_check *check, bool is_right)
{
    struct checked *s = mt_container_of(check, struct checked, check);
    struct sh      *sh = s->sh;
    struct sh_conn *c = sh->is_exiting ? NULL : sh_conn_find(sh, s->what.conn);
    if (c && is_right) {
        start(sh, &s->what, c, s->child);
        s->child = -1;
    } else if (c) {
        spawned(sh, s->what.conn, -1, ESTALE);
    }
    checked_free(s);
}

/* Returns 0 or an errno; 0: the child's end is taken. */
static int start_checked(struct sh *sh, const struct rlt_a_spawn_zygote *a, int child)
{
    struct checked *s = calloc(1, sizeof *s);
    uint8_t        *hello = malloc(a->hello_size);
    int             err;
    if (!s || !hello) {
        free(s);
        free(hello);
        return ENOMEM;
    }
    memcpy(hello, a->hello, a->hello_size);
    s->check.done = checked_done;
    s->sh = sh;
    s->what = *a;
    s->what.hello = hello;
    s->what.program = fcntl(a->program, F_DUPFD_CLOEXEC, 0); /* the job may end first */
    s->child = child;
    err = s->what.program < 0 ? errno : sh_cache_check(sh, a->job, s->what.program, &s->check);
    if (!err)
        return 0;
    s->child = -1;
    checked_free(s);
    return err;
}

void sh_spawn_zygote(struct sh *sh, const struct rlt_a_spawn_zygote *a)
{
    struct sh_conn *c = NULL;
    int             child = -1, err;
    mt_status       st = socket_pair(sh, a->conn, &c, &child);
    if (st.code) {
        spawned(sh, a->conn, -1, st.sys ? st.sys : ENOMEM);
    } else if (!sh_cache_has(sh, a->job)) {
        start(sh, a, c, child);
    } else if ((err = start_checked(sh, a, child))) {
        close(child);
        spawned(sh, a->conn, -1, err);
    }
}

void sh_fork(struct sh *sh, const struct rlt_a_fork *a)
{
    struct sh_conn  *zygote = sh_conn_find(sh, a->zygote), *c = NULL;
    struct rlt_event e;
    int              child = -1;
    mt_status        st = zygote ? socket_pair(sh, a->worker, &c, &child) : mt_ok();
    if (st.code) {
        sh_lacks(sh, a->worker, st);
        return;
    }
    if (zygote) {
        int output = sh_output_open(sh, a->worker), fds[2] = {child, output};
        sh_conn_send(zygote, &a->record, a->payload, fds, output < 0 ? 1 : 2);
        close(child);
        if (output >= 0)
            close(output);
        return;
    }
    sh_event(&e, RLT_EV_CLOSED);
    e.closed.conn = a->worker;
    sh_post(sh, &e);
}

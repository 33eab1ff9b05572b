/* SPDX-License-Identifier: Apache-2.0
 *
 * private.c - the embedded cluster: a head and a raylet for this driver alone, gone when it is.
 *
 * Owns:   the two child processes and their runtime folder. Thread: the one in manta_init or manta_shutdown.
 *
 * The raylet gets one end of a socket pair as its first driver, so nobody waits for a socket to appear; the
 * head ends when the pipe that the driver holds closes. Both lead sessions of their own: what is typed at the
 * driver's terminal, and the end of that terminal, is the driver's matter, and its end is theirs. The folder
 * goes with the last of the three (core/sys/folder.h).
 */
#include "clients/lib/shell/state/state.h"
#include "clients/lib/start/start.h"

#include "core/base/clock.h"
#include "core/sys/child.h"
#include "core/sys/folder.h"
#include "core/base/limits/net.h"
#include "core/base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct lib_private {
    pid_t head, raylet;
    char  folder[256];
};

/* ---- folders and programs ---- */

/* The usual one, made where it is not there: of ~/.manta/run the folder above, too. */
static mt_status base_make(char *out, size_t size)
{
    MT_TRY(mt_folder_usual(out, size));
    char *slash = strrchr(out, '/');
    *slash = '\0';
    mt_status st = access(out, F_OK) == 0 ? mt_ok() : mt_folder_make(out);
    *slash = '/';
    return st.code ? st : mt_folder_make(out);
}

/* The daemons stand beside this library: ../bin, or the library's own folder; MANTA_HOME/bin says otherwise. */
static mt_status program_find(const char *name, char *out, size_t size)
{
    static const char *const places[] = {"/../bin/", "/../../bin/", "/"};
    const char              *home = getenv("MANTA_HOME");
    Dl_info                  info;
    char                     folder[4096];
    char                    *slash;

    if (home && snprintf(out, size, "%s/bin/%s", home, name) < (int)size && access(out, X_OK) == 0)
        return mt_ok();
    if (!dladdr(&lib, &info) || !info.dli_fname || strlen(info.dli_fname) >= sizeof folder)
        return mt_error(MT_ENOENT, 0, "where this library lies");
    strncpy(folder, info.dli_fname, sizeof folder - 1);
    folder[sizeof folder - 1] = 0;
    slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (snprintf(out, size, "%s%s%s", folder, places[i], name) < (int)size && access(out, X_OK) == 0)
            return mt_ok();
    return mt_error(MT_ENOENT, 0, name);
}

/* ---- starting ---- */

static mt_status spawn(const char *name, char *const argv[], int fd_from, int fd_to, pid_t *out_pid)
{
    char path[4096];
    MT_TRY(program_find(name, path, sizeof path));
    struct mt_child_opts o = {.program = path,
                              .argv = argv,
                              .env = environ,
                              .fds = {{fd_from, fd_to}},
                              .fd_count = 1,
                              .session = MT_CHILD_GROUP, /* in our session: autogroup would part us (docs/design/edges.md) */
                              .resets_signals = true};   /* what the driver ignores is its own affair */
    mt_status            st = mt_child_start(&o, out_pid);
    return st.code ? mt_error(st.code, st.sys, "start a daemon of the private cluster") : st;
}

static mt_status start_head(struct lib_private *p)
{
    char      state[300];
    int       ends[2];
    char     *argv[] = {"manta-head", "--dir", p->folder, "--state", state, "--watch-fd", "3", NULL};
    mt_status st;
    snprintf(state, sizeof state, "%s/state", p->folder);
    if (pipe2(ends, O_CLOEXEC))
        return mt_error(MT_ESYS, errno, "pipe");
    st = spawn("manta-head", argv, ends[0], 3, &p->head);
    close(ends[0]);
    lib.watch_fd = ends[1];
    return st;
}

static mt_status start_raylet(struct lib_private *p, const manta_init_opts *opts, int *out_fd)
{
    char      file[300], cpus[32], gpus[32], memory[32], job[32], spill[32], blocked[32], pids[32];
    char     *argv[30] = {"manta-raylet", "--dir", p->folder, "--head-file", file, "--driver-fd", "3"};
    int       n = 7, ends[2];
    mt_status st;

    snprintf(file, sizeof file, "%s/head.addr", p->folder);
    locale_t users = mt_real_enter();
    snprintf(cpus, sizeof cpus, "%g", opts->num_cpus);
    snprintf(gpus, sizeof gpus, "%g", opts->num_gpus);
    mt_real_leave(users);
    snprintf(memory, sizeof memory, "%lld", (long long)opts->store_memory);
    if (opts->num_cpus > 0)
        argv[n++] = "--num-cpus", argv[n++] = cpus;
    if (opts->num_gpus > 0)
        argv[n++] = "--num-gpus", argv[n++] = gpus;
    if (opts->store_memory > 0)
        argv[n++] = "--store-memory", argv[n++] = memory;
    snprintf(job, sizeof job, "%lld", (long long)opts->job_memory);
    if (opts->job_memory > 0)
        argv[n++] = "--job-memory", argv[n++] = job;
    snprintf(spill, sizeof spill, "%lld", (long long)opts->spill_bytes);
    if (opts->spill_bytes > 0)
        argv[n++] = "--spill-bytes", argv[n++] = spill;
    if (opts->spill_dir)
        argv[n++] = "--spill-dir", argv[n++] = (char *)(uintptr_t)opts->spill_dir;
    snprintf(blocked, sizeof blocked, "%d", opts->max_blocked_workers);
    if (opts->labels)
        argv[n++] = "--labels", argv[n++] = (char *)(uintptr_t)opts->labels;
    if (opts->max_blocked_workers > 0)
        argv[n++] = "--max-blocked-workers", argv[n++] = blocked;
    snprintf(pids, sizeof pids, "%d", opts->job_pids);
    if (opts->job_pids > 0)
        argv[n++] = "--job-pids", argv[n++] = pids;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return mt_error(MT_ESYS, errno, "socketpair");
    st = spawn("manta-raylet", argv, ends[0], 3, &p->raylet);
    close(ends[0]);
    if (st.code)
        close(ends[1]);
    else
        *out_fd = ends[1];
    return st;
}

/* The raylet's socket has to fit into it: said here, where it is known which path it is. */
static mt_status folder_make_in(const char *base, struct lib_private *p)
{
    if (strlen(base) + strlen("/dXXXXXXXX/raylet.sock") >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return mt_error(MT_EINVAL, 0, "the path is too long for a socket");
    mt_folder_sweep(base);
    return mt_folder_new(base, p->folder, sizeof p->folder, &lib.hold_fd);
}

static mt_status folder_new(struct lib_private *p, char text[256])
{
    char      base[200] = "";
    mt_status st = base_make(base, sizeof base);
    if (st.code == 0)
        st = folder_make_in(base, p);
    if (st.code && base[0])
        snprintf(text, 256, "no private cluster can be in %.150s (by XDG_RUNTIME_DIR or HOME): %s", base,
                 st.sys ? strerror(st.sys) : st.what);
    return st;
}

/* The daemons inherit our hard limit of descriptors, and end with too few of them: then nobody would say why. */
static mt_status limits_check(char text[256])
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max >= MT_FDS_MIN)
        return mt_ok();
    snprintf(text, 256, "a private cluster needs %d descriptors, and the hard limit of this process is %llu: raise it (ulimit -Hn)",
             MT_FDS_MIN, (unsigned long long)limit.rlim_max);
    return mt_error(MT_EAGAIN, 0, "descriptors");
}

mt_status lib_private_start(const manta_init_opts *opts, int *out_fd, char text[256])
{
    MT_TRY(limits_check(text));
    struct lib_private *p = calloc(1, sizeof *p);
    mt_status           st;
    if (!p)
        return mt_error(MT_ENOMEM, 0, "private cluster");
    lib.watch_fd = lib.hold_fd = -1;
    lib.private_cluster = p;
    text[0] = '\0';
    st = folder_new(p, text);
    if (st.code == 0)
        st = start_raylet(p, opts, out_fd);
    if (st.code == 0)
        st = start_head(p);
    if (st.code) {
        if (!text[0])
            snprintf(text, 256, "a private cluster could not be started: %s%s%s", st.what, st.sys ? ": " : "",
                     st.sys ? strerror(st.sys) : "");
        lib_private_stop();
    }
    return st;
}

void lib_private_up(void)
{
    lib_fd_close(&lib.hold_fd);
}

/* ---- ending ---- */

static void wait_for(pid_t pid, uint64_t deadline_ns)
{
    int status;
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        if (lib_now_ns() >= deadline_ns) {
            kill(pid, SIGKILL); /* our own child, not yet reaped: the number is still its own */
            waitpid(pid, &status, 0);
            return;
        }
        mt_sleep_ms(1);
    }
}

void lib_private_stop(void)
{
    struct lib_private *p = lib.private_cluster;
    uint64_t            deadline = lib_now_ns() + (uint64_t)MT_LIB_SHUTDOWN_MS * 1000000u;
    if (!p)
        return;
    lib.private_cluster = NULL;
    wait_for(p->raylet, deadline);
    lib_fd_close(&lib.hold_fd); /* the head waits for whoever holds the folder, and it was never up: that was us */
    lib_fd_close(&lib.watch_fd);
    wait_for(p->head, lib_now_ns() + (uint64_t)MT_LIB_SHUTDOWN_MS * 1000000u);
    if (p->folder[0])
        mt_folder_leave(p->folder, -1, 0);
    free(p);
}

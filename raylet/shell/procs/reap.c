/* SPDX-License-Identifier: Apache-2.0
 *
 * reap.c - the ends of processes: children are reaped, and who has something of theirs is told.
 *
 * Owns: nothing. Thread: the loop only.
 * Always: the core hears of a child's status once; what a program left in its group ends with it.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/conn/memory.h"
#include "raylet/shell/procs/procs.h"
#include "raylet/shell/said/said.h"
#include "raylet/store/store.h"

#include "core/base/clock.h"
#include "core/sys/child.h"

#include <signal.h>
#include <sys/wait.h>

enum { END_MS = 500 }; /* at the end: for killed children to be gone */

/* A zygote, or a worker whose zygote is dead: what it left running in its group goes with it. It is not reaped yet, so the
 * number is still its own. */
static void process_ends(struct sh *sh, pid_t pid)
{
    MT_MAP_EACH(&sh->conns, entry) {
        struct sh_conn *c = entry->value.ptr;
        if (c->pid != pid || c->conn < RLT_CONN_OURS)
            continue;
        kill(-pid, SIGKILL);
        (void)sh_cgroup_over(sh, c->part);
    }
}

/* Kept: the event may be stepped later. NULL: none are known. */
static const char *last_words(struct sh_conn *c)
{
    char *text = c->said ? sh_keep(c->sh, SH_SAID_SIZE) : NULL;
    if (text)
        sh_said_last(c->said, text);
    return text && text[0] ? text : NULL;
}

/* Also what is inherited: this process is the subreaper of all it started. */
void sh_reap(struct sh *sh)
{
    siginfo_t info;
    pid_t     pid;
    int       status;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        sh_job_ends(sh, info.si_pid);
        process_ends(sh, info.si_pid);
        pid = waitpid(info.si_pid, &status, WNOHANG);
        if (pid <= 0)
            return;
        sh_job_reaped(sh, pid, status);
        MT_MAP_EACH(&sh->conns, entry) {
            struct sh_conn *c = entry->value.ptr;
            if (c->pid == pid && c->conn >= RLT_CONN_OURS && !c->is_over) {
                struct rlt_event e;
                c->is_over = true;
                sh_event(&e, RLT_EV_EXITED);
                e.exited.conn = c->conn;
                e.exited.status = status;
                e.exited.has_status = true;
                e.exited.last_line = last_words(c);
                sh_post(sh, &e);
                break;
            }
        }
    }
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

void sh_conn_end(struct sh_conn *c)
{
    sh_said_free(c->said);
    sh_store_goodbye(c);
    sh_ring_over(c);
    sh_memory_forget(c);
    sh_conn_close(c);
}

void sh_processes_end(struct sh *sh)
{
    MT_MAP_EACH(&sh->conns, entry) {
        struct sh_conn *c = entry->value.ptr;
        if (c->conn >= RLT_CONN_OURS)
            sh_conn_kill(c);
    }
    MT_MAP_EACH(&sh->conns, entry)
        sh_conn_end(entry->value.ptr);
    for (int i = 0; i < END_MS; i++) { /* killed processes end at once, bar the kernel's own waits */
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0)
            return;             /* no children are left */
        mt_children_kill(NULL); /* of what the workers left running too: this process is the subreaper */
        mt_sleep_ms(1);
    }
}

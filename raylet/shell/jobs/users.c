/* SPDX-License-Identifier: Apache-2.0
 *
 * users.c - --job-users: under which user the processes of a job run, where the raylet is root's.
 *
 * Owns: who has which user. Thread: the loop, but for what a child does before it becomes the program.
 * Always: with a range, two jobs that have processes here never have one user. It is this node's matter alone: a job has
 * another user on each node.
 *
 * A job's zygote and the driver of a submitted job start as this program (--as, --run-as), which gives root up and then
 * becomes theirs. The driver finds no way into root's runtime folder after that: so it is connected before.
 */
#include "raylet/shell/jobs/jobs.h"

#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- who has which ---- */

static bool has_process(uint32_t uid)
{
    DIR *all = mt_process_all();
    bool found = !all; /* maybe */
    for (pid_t pid; (pid = mt_process_next(all));) {
        char        path[32];
        struct stat st;
        snprintf(path, sizeof path, "/proc/%d", (int)pid);
        found |= stat(path, &st) == 0 && st.st_uid == uid;
    }
    return found;
}

static void give(const struct sh *sh, uint32_t uid, struct sh_user *out)
{
    out->uid = uid;
    out->gid = sh->options.users.has_gid ? sh->options.users.gid : uid;
}

bool sh_user_new(struct sh *sh, struct sh_user *out)
{
    const struct rlt_users *users = &sh->options.users;
    for (uint32_t i = 0; i < users->count; i++) {
        uint32_t uid = users->first + sh->next_user++ % users->count;
        if (users->count > 1 && has_process(uid))
            continue;
        MT_MAP_EACH(&sh->users, entry)
            if (entry->value.num == uid && users->count > 1)
                mt_map_remove(&sh->users, entry->key); /* a job that has ended, or has nobody here now */
        give(sh, uid, out);
        return true;
    }
    return false;
}

bool sh_user_of_job(struct sh *sh, uint64_t job, const struct sh_user *own, struct sh_user *out)
{
    mt_map_entry *known = mt_map_find(&sh->users, mt_map_key(job));
    if (known) {
        give(sh, (uint32_t)known->value.num, out);
        return true;
    }
    if (own)
        *out = *own;
    else if (!sh_user_new(sh, out))
        return false;
    return mt_map_put_num(&sh->users, mt_map_key(job), out->uid).code == 0;
}

/* ---- in the child ---- */

static bool become(const char *uid_text, const char *gid_text)
{
    uid_t uid = (uid_t)strtoul(uid_text, NULL, 10);
    gid_t gid = (gid_t)strtoul(gid_text, NULL, 10);
    return uid != 0 && setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0;
}

/* To the raylet, in the words of a zygote that cannot serve. */
static void tell_why(const char *step, int err)
{
    struct {
        struct lane_record record;
        struct ctl_reply   why;
    } message = {.record = {.kind = CTL_ZYGOTE_FAILED, .length = sizeof message}};
    message.why.code = MT_EENV;
    snprintf(message.why.text, sizeof message.why.text, "could not %s as user %u of --job-users: %s", step, getuid(),
             strerrordesc_np(err));
    (void)!send(SH_CHILD_FD, &message, sizeof message, MSG_NOSIGNAL);
}

int sh_users_run_zygote(char **argv)
{
    if (!become(argv[0], argv[1])) {
        tell_why("give root up", errno);
        return 126;
    }
    fcntl(SH_PROGRAM_FD, F_SETFD, FD_CLOEXEC);
    fexecve(SH_PROGRAM_FD, argv + 2, environ);
    tell_why("run the program of the job (others than its owner must be allowed to)", errno);
    return 126;
}

int sh_users_enter(char **argv)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char               text[16];
    int                fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (fd < 0 || snprintf(at.sun_path, sizeof at.sun_path, "%s", argv[2]) >= (int)sizeof at.sun_path ||
        connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        fprintf(stderr, "manta: cannot connect to the raylet at %s: %s\n", argv[2], strerrordesc_np(errno));
        return 126;
    }
    snprintf(text, sizeof text, "%d", fd);
    if (setenv("MANTA_SOCKET", text, 1) < 0 || !become(argv[0], argv[1])) {
        fprintf(stderr, "manta: cannot become user %s: %s\n", argv[0], strerrordesc_np(errno));
        return 126;
    }
    return 0;
}

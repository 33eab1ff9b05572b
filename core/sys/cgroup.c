/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.c - see group.h. Owns nothing. Thread: any.
 *
 * The tree of version 1 that counts processes ("pids") takes single threads: a thread that goes into a group, starts a
 * process and comes back costs 0.1 ms, and the process is born inside. Version 2 knows no single threads, but a process may be
 * started into a group (mt_child_start). To move a whole process takes a lock of the kernel that waits for all processors (10 ms).
 *
 * The end: first no more processes may begin (pids.max 0), then all are killed, until the folder can be removed, which the
 * kernel refuses as long as anybody lives in it. Version 2 has cgroup.kill, which leaves no gap. With version 1 each is killed by
 * its descriptor, after a look whether that very process is of the group: numbers come back.
 */
#include "core/sys/cgroup.h"

#include "core/base/clock.h"
#include "core/sys/child.h"
#include "core/sys/file.h"
#include "core/sys/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORD "group" /* alone: one that an earlier release has written */
#define MARK   "MANTA_MARK="

enum { LINE_SIZE = 4096, LIST_SIZE = 1 << 16, ENVIRON_SIZE = 1 << 18, DEPTH_MAX = 8 };

/* ---- files of the kernel ---- */

static bool path_join(char *out, const char *folder, const char *name)
{
    return snprintf(out, MT_GROUP_PATH_SIZE, "%s/%s", folder, name) < MT_GROUP_PATH_SIZE;
}

static int put(const char *folder, const char *name, const char *value)
{
    char path[MT_GROUP_PATH_SIZE];
    int  fd = path_join(path, folder, name) ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return errno;
    int err = write(fd, value, strlen(value)) < 0 ? errno : 0;
    close(fd);
    return err;
}

static bool exists(const char *folder, const char *name)
{
    char path[MT_GROUP_PATH_SIZE];
    return path_join(path, folder, name) && access(path, F_OK) == 0;
}

/* ---- where one may be made ---- */

/* Whether `word` is one of those in a list with commas. */
static bool is_listed(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += size)
        if ((at == list || at[-1] == ',') && (at[size] == '\0' || at[size] == ','))
            return true;
    return false;
}

/* Where the tree is mounted, and which of its folders is there. */
static bool mount_find(bool is_v1, char *out_mount, char *out_root)
{
    char  line[LINE_SIZE], type[32], options[LINE_SIZE];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    bool  found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = strstr(line, " - ");
        found = rest && sscanf(rest, " - %31s %*s %4095s", type, options) == 2 && strcmp(type, is_v1 ? "cgroup" : "cgroup2") == 0 &&
                (!is_v1 || is_listed(options, "pids")) && sscanf(line, "%*s %*s %*s %1023s %1023s", out_root, out_mount) == 2;
    }
    if (file)
        fclose(file);
    return found;
}

/* The group of this process in that tree. */
static bool own_find(bool is_v1, char *out)
{
    char  line[LINE_SIZE];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool  found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        found = (is_v1 ? is_listed(controllers + 1, "pids") : controllers[1] == '\0') &&
                snprintf(out, MT_GROUP_PATH_SIZE, "%s", path) < MT_GROUP_PATH_SIZE;
    }
    if (file)
        fclose(file);
    return found;
}

/* The folder of this process's group. In a container its name may lie outside of what is mounted: then it is the mount. */
static bool home_find(bool is_v1, char *out_mount, char *out_home)
{
    char   root[MT_GROUP_PATH_SIZE], own[MT_GROUP_PATH_SIZE];
    size_t size;
    if (!mount_find(is_v1, out_mount, root) || !own_find(is_v1, own))
        return false;
    size = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const char *below = strncmp(own, root, size) == 0 && (own[size] == '/' || !own[size]) ? own + size : "";
    return snprintf(out_home, MT_GROUP_PATH_SIZE, "%s%s", out_mount, strcmp(below, "/") == 0 ? "" : below) < MT_GROUP_PATH_SIZE;
}

static bool is_inside(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Whether a thread of ours may go in and come back. 0 or an errno. */
static int v1_try(const struct mt_cgroup *g)
{
    int err = put(g->path, "tasks", "0");
    return err ? err : put(g->home, "tasks", "0");
}

/* Whether what we start can be born there, and is ended there in one go. */
static int v2_try(const struct mt_cgroup *g)
{
    int folder = exists(g->path, "cgroup.kill") ? open(g->path, O_DIRECTORY | O_CLOEXEC) : -1, err = folder < 0 ? errno : 0;
    if (folder >= 0) {
        err = mt_child_try(folder).sys;
        close(folder);
    }
    return err;
}

static mt_status make_in(const char *place, bool is_v1, uint64_t number, uint64_t pids, struct mt_cgroup *g)
{
    char name[MT_GROUP_NAME_SIZE], most[32];
    snprintf(name, sizeof name, "manta-%016llx", (unsigned long long)number);
    snprintf(most, sizeof most, "%llu", (unsigned long long)pids);
    g->is_v1 = is_v1;
    if (!path_join(g->path, place, name) || mkdir(g->path, 0755) < 0)
        return mt_error(MT_ENOENT, errno, "make a control group");
    g->has_bound = put(g->path, "pids.max", most) == 0;
    int err = is_v1 ? v1_try(g) : v2_try(g);
    if (err) {
        rmdir(g->path);
        return mt_error(MT_ENOENT, err, "use a control group");
    }
    if (!is_v1)
        (void)put(g->path, "cgroup.subtree_control", "+pids"); /* for its parts */
    return mt_ok();
}

mt_status mt_cgroup_new(const char *place, uint64_t number, uint64_t pids, struct mt_cgroup *out)
{
    mt_status st = mt_error(MT_ENOENT, 0, "find the tree of control groups");
    char      mount[MT_GROUP_PATH_SIZE];
    bool      is_in_tree = false;
    for (int version = 1; version <= 2; version++) {
        *out = (struct mt_cgroup){.path = ""};
        if (!home_find(version == 1, mount, out->home) || (place && !is_inside(place, mount)))
            continue;
        is_in_tree = true;
        if (place && version == 2)
            (void)put(place, "cgroup.subtree_control", "+pids"); /* it was given to us for that */
        st = make_in(place ? place : out->home, version == 1, number, pids, out);
        if (!st.code)
            return st;
    }
    *out = (struct mt_cgroup){.path = ""};
    return place && !is_in_tree ? mt_error(MT_EINVAL, 0, "it is no folder of the tree of control groups") : st;
}

/* ---- into it ---- */

mt_status mt_cgroup_enter(struct mt_cgroup *g, const char *part, uint64_t pids)
{
    char path[MT_GROUP_PATH_SIZE], most[32];
    int  err = 0;
    if (!g->path[0])
        return mt_ok();
    snprintf(most, sizeof most, "%llu", (unsigned long long)pids);
    if (!path_join(path, g->path, part) || (mkdir(path, 0755) < 0 && errno != EEXIST))
        return mt_error(MT_ESYS, errno, "make a part of the control group");
    if (g->has_bound)
        err = put(path, "pids.max", most);
    if (!err && g->is_v1)
        err = put(path, "tasks", "0");
    else if (!err && (g->entered = open(path, O_DIRECTORY | O_CLOEXEC)) < 0)
        err = errno, g->entered = 0;
    return err ? mt_error(MT_ESYS, err, "go into the control group") : mt_ok();
}

mt_status mt_cgroup_leave(struct mt_cgroup *g)
{
    int err = g->is_v1 && g->path[0] ? put(g->home, "tasks", "0") : 0;
    if (g->entered)
        close(g->entered);
    g->entered = 0;
    return err ? mt_error(MT_ESYS, err, "leave the control group") : mt_ok();
}

bool mt_cgroup_is_empty(const struct mt_cgroup *g, const char *part)
{
    char        path[MT_GROUP_PATH_SIZE], text[64];
    const char *file = g->has_bound ? "pids.current" : "cgroup.events", *empty = g->has_bound ? "0\n" : "populated 0\n";
    return g->path[0] && (g->has_bound || !g->is_v1) &&
           snprintf(path, sizeof path, "%s/%s/%s", g->path, part, file) < (int)sizeof path &&
           mt_file_read(path, text, sizeof text) > 0 && strncmp(text, empty, strlen(empty)) == 0;
}

/* ---- the end ---- */

static int process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void process_kill(int pidfd)
{
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    close(pidfd);
}

/* Whether /proc/PID/cgroup says that who it is of is in the folder that ends with `tail`, or below it. */
static bool is_member(const char *text, const char *tail)
{
    size_t size = strlen(tail);
    for (const char *at = text; (at = strstr(at, tail)); at += size)
        if (at[size] == '\n' || at[size] == '/')
            return true;
    return false;
}

/* Kills pid if it lives in that folder: since it was listed another process may have got its number, one of another part too. */
static void kill_member(pid_t pid, const char *tail)
{
    char path[64], text[LINE_SIZE];
    int  pidfd = process_open(pid);
    if (pidfd < 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (mt_file_read(path, text, sizeof text) > 0 && is_member(text, tail)) /* looked at after opening: it is this very process */
        process_kill(pidfd);
    else
        close(pidfd);
}

static void kill_members(const char *folder, const char *tail)
{
    char  path[MT_GROUP_PATH_SIZE];
    char *list = put(folder, "cgroup.kill", "1") ? malloc(LIST_SIZE) : NULL;
    if (list && path_join(path, folder, "cgroup.procs") && mt_file_read(path, list, LIST_SIZE) > 0)
        for (char *at = list, *next; (at[0] >= '1' && at[0] <= '9') && (next = strchr(at, '\n')); at = next + 1)
            kill_member((pid_t)strtol(at, NULL, 10), tail);
    free(list);
}

/* Stops, kills and removes a folder with all below it, as far as one try does. `above`: letters before the group's name.
 * True: it is gone. */
static bool end_once(const char *folder, size_t above, int depth)
{
    char path[MT_GROUP_PATH_SIZE];
    DIR *dir = depth < DEPTH_MAX ? opendir(folder) : NULL;
    if (!dir)
        return access(folder, F_OK) < 0;
    (void)put(folder, "pids.max", "0");
    kill_members(folder, folder + above);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && path_join(path, folder, entry->d_name))
            (void)end_once(path, above, depth + 1);
    closedir(dir);
    return rmdir(folder) == 0 || errno == ENOENT;
}

bool mt_cgroup_end(const char *group, const char *part, int limit_ms)
{
    char        path[MT_GROUP_PATH_SIZE];
    const char *name = strrchr(group, '/');
    int64_t     end = mt_now_ms() + limit_ms;
    if (!name || strncmp(name, "/manta-", 7) != 0) /* a record that was tampered with names other groups in vain */
        return group[0] == '\0';
    if (snprintf(path, sizeof path, "%s%s%s", group, part ? "/" : "", part ? part : "") >= (int)sizeof path)
        return false;
    if (rmdir(path) == 0) /* nobody is left in it */
        return true;
    for (int pause = 1; !end_once(path, (size_t)(name - group), 0); pause = pause < 16 ? pause * 2 : 16) {
        if (mt_now_ms() >= end)
            return false;
        mt_sleep_ms(pause);
    }
    return true;
}

/* ---- the mark ---- */

void mt_cgroup_mark(uint64_t number, char out[MT_GROUP_MARK_SIZE])
{
    snprintf(out, MT_GROUP_MARK_SIZE, MARK "%016llx", (unsigned long long)number);
}

static bool has_mark(pid_t pid, const char *mark, char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    ssize_t size = mt_file_read(path, text, ENVIRON_SIZE);
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1)
        if (strcmp(text + at, mark) == 0)
            return true;
    return false;
}

/* Kills all that have it now; how many there were. */
static size_t sweep_once(const char *mark, char *text)
{
    DIR   *all = mt_process_all();
    size_t count = 0;
    for (pid_t pid; (pid = mt_process_next(all));) {
        int pidfd = pid > 1 && pid != getpid() ? process_open(pid) : -1;
        if (pidfd < 0)
            continue;
        if (has_mark(pid, mark, text)) { /* looked at after opening: it is this very process */
            process_kill(pidfd);
            count++;
        } else {
            close(pidfd);
        }
    }
    return count;
}

size_t mt_cgroup_sweep(const char *mark, int limit_ms)
{
    int64_t end = mt_now_ms() + limit_ms;
    char   *text = malloc(ENVIRON_SIZE);
    size_t  left = 0;
    for (int pause = 1; text && mark[0] && (left = sweep_once(mark, text)); pause = pause < 16 ? pause * 2 : 16) {
        if (mt_now_ms() >= end)
            break;
        mt_sleep_ms(pause);
    }
    free(text);
    return left;
}

/* ---- the record ---- */

bool mt_cgroup_record(const char *folder, const char *mark, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%s/" RECORD ".%s", folder, mark + strlen(MARK)) < size;
}

mt_status mt_cgroup_save(const char *file, const char *path, const char *mark)
{
    char text[MT_GROUP_PATH_SIZE + MT_GROUP_MARK_SIZE + 2];
    int  size = snprintf(text, sizeof text, "%s\n%s\n", mark, path);
    int  fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "note the control group");
    mt_status st = write(fd, text, (size_t)size) == size ? mt_ok() : mt_error(MT_ESYS, errno, "note the control group");
    close(fd);
    return st;
}

static size_t end_saved(const char *file, int limit_ms)
{
    char        text[MT_GROUP_PATH_SIZE + MT_GROUP_MARK_SIZE + 2];
    struct stat st;
    if (lstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || mt_file_read(file, text, sizeof text) <= 0)
        return 0;
    char *path = text + strcspn(text, "\n");
    if (*path)
        *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    bool   is_ended = mt_cgroup_end(path, NULL, limit_ms);
    size_t left = strncmp(text, MARK, strlen(MARK)) == 0 ? mt_cgroup_sweep(text, limit_ms) : 0;
    if (is_ended && !left)
        unlink(file);
    return left ? left : !is_ended;
}

size_t mt_cgroup_end_saved(const char *folder, int limit_ms)
{
    char           file[MT_GROUP_PATH_SIZE];
    size_t         left = 0;
    DIR           *all = opendir(folder);
    struct dirent *one;
    while (all && (one = readdir(all)))
        if ((strcmp(one->d_name, RECORD) == 0 || strncmp(one->d_name, RECORD ".", strlen(RECORD ".")) == 0) &&
            path_join(file, folder, one->d_name))
            left += end_saved(file, limit_ms);
    if (all)
        closedir(all);
    return left;
}

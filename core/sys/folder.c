/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - see folder.h. Owns: nothing between calls; the locks are the descriptors'.
 *
 * A folder is made under a name that no sweep looks at, and gets its own once it is held.
 */
#include "core/sys/folder.h"

#include "core/base/clock.h"
#include "core/sys/cgroup.h"
#include "core/base/limits/lib.h"
#include "core/base/limits/raylet.h"
#include "core/base/rng.h"
#include "core/sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, NAME_DIGITS = 8, REMOVE_TRIES = 4 };
static const char MADE = 'd', MAKING = 'n'; /* what names begin with */

static bool is_ours(const char *name, char first)
{
    return name[0] == first && strlen(name) == 1 + NAME_DIGITS && strspn(name + 1, "0123456789abcdef") == NAME_DIGITS;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- the usual one ---- */

static bool may_write(const char *folder, const char *below)
{
    char path[PATH_SIZE];
    int  n = folder && folder[0] == '/' ? snprintf(path, sizeof path, "%s%s", folder, below) : -1;
    return n > 0 && n < PATH_SIZE && access(path, W_OK) == 0;
}

mt_status mt_folder_make(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return mt_error(MT_ESYS, errno, "make the runtime folder");
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return mt_error(MT_EAUTH, 0, "it is no folder of this user's");
    return mt_ok();
}

/* In a folder where all may write: it is made at once, so that nobody else can give us one. */
static mt_status make_among_all(const char *path)
{
    struct stat st;
    MT_TRY(mt_folder_make(path));
    if (lstat(path, &st) != 0 || (st.st_mode & 077))
        return mt_error(MT_EAUTH, 0, "it is no folder of this user's with mode 0700");
    return mt_ok();
}

mt_status mt_folder_usual(char *out, size_t size)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
    bool has_xdg = may_write(xdg, ""), has_home = may_write(home, "") || may_write(home, "/.manta"), is_root = geteuid() == 0;
    int  n;
    if (has_xdg)
        n = snprintf(out, size, "%s/manta", xdg);
    else if (is_root)
        n = snprintf(out, size, "/run/manta");
    else if (has_home)
        n = snprintf(out, size, "%s/.manta/run", home);
    else
        n = snprintf(out, size, "/tmp/manta-%u", geteuid());
    if (n < 0 || (size_t)n >= size)
        return mt_error(MT_EINVAL, 0, "the runtime folder's path is too long");
    return has_xdg || is_root || has_home ? mt_ok() : make_among_all(out);
}

/* ---- holding ---- */

mt_status mt_folder_hold(const char *path, int *out_fd)
{
    int fd = open_folder(path);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "open the runtime folder");
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        *out_fd = fd;
        return mt_ok();
    }
    int sys = errno;
    close(fd);
    return sys == EWOULDBLOCK ? mt_error(MT_ECONN, 0, "the runtime folder is being removed: its driver has gone")
                              : mt_error(MT_ESYS, sys, "hold the runtime folder");
}

mt_status mt_folder_new(const char *base, char *out_path, size_t size, int *out_fd)
{
    char     making[PATH_SIZE];
    uint64_t number;
    MT_TRY(mt_random_bytes(&number, sizeof number));
    unsigned digits = (unsigned)(number & UINT32_MAX);
    int      n = snprintf(out_path, size, "%s/%c%08x", base, MADE, digits);
    if (n < 0 || (size_t)n >= size || n >= PATH_SIZE)
        return mt_error(MT_EINVAL, 0, "the runtime folder's path is too long");
    snprintf(making, sizeof making, "%s/%c%08x", base, MAKING, digits);
    if (mkdir(making, 0700) != 0)
        return mt_error(MT_ESYS, errno, "make a private runtime folder");
    mt_status st = mt_folder_hold(making, out_fd);
    if (st.code == 0 && rename(making, out_path) != 0) {
        st = mt_error(MT_ESYS, errno, "name a private runtime folder");
        close(*out_fd);
    }
    if (st.code != 0)
        rmdir(making);
    return st;
}

/* ---- removing ---- */

/* Nobody holds it, and until the lock is let go nobody can. */
static void remove_dead(const char *path)
{
    char group[PATH_SIZE + 8];
    if (!is_ours(last_part(path), MADE)) {
        rmdir(path);
        return;
    }
    snprintf(group, sizeof group, "%s/group", path);
    (void)mt_cgroup_end_saved(group, MT_RLT_GROUP_END_MS); /* of a raylet that was killed with its reaper */
    for (int i = 0; i < REMOVE_TRIES && rmdir(path) != 0 && errno != ENOENT; i++)
        mt_tree_remove(path);
}

/* False: somebody holds it. */
static bool remove_if_dead(const char *path)
{
    struct stat st;
    int         fd = open_folder(path);
    if (fd < 0)
        return true;
    bool is_ours_to_remove = fstat(fd, &st) == 0 && st.st_uid == geteuid();
    bool is_dead = is_ours_to_remove && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_dead)
        remove_dead(path);
    close(fd);
    return is_dead || !is_ours_to_remove;
}

/* Of several that leave at once each lets go before it looks: so one of them at least finds that nobody is
 * left. */
void mt_folder_leave(const char *path, int take_fd, int wait_ms)
{
    if (take_fd >= 0)
        close(take_fd);
    for (int64_t end = mt_now_ms() + wait_ms; !remove_if_dead(path) && mt_now_ms() < end;)
        mt_sleep_ms(1);
}

/* Who dies between mkdir and rename leaves an empty folder. A young one may still get its name. */
static bool is_old(int base, const char *name)
{
    struct stat st;
    return fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_ctime > MT_FOLDER_MAKING_S;
}

void mt_folder_sweep(const char *base)
{
    char           path[PATH_SIZE];
    struct dirent *entry;
    DIR           *dir = opendir(base);
    while (dir && (entry = readdir(dir))) {
        if (is_ours(entry->d_name, MADE) && snprintf(path, sizeof path, "%s/%s", base, entry->d_name) < PATH_SIZE)
            (void)remove_if_dead(path);
        else if (is_ours(entry->d_name, MAKING) && is_old(dirfd(dir), entry->d_name))
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
    if (dir)
        closedir(dir);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.c - the runtime folder of a node: which it is, who runs there, and its end.
 *
 * Its folder `daemons` says who was started: a record of each daemon, which its keeper writes.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/daemons/daemons.h"
#include "core/sys/file.h"
#include "core/sys/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const cli_daemon_names[CLI_DAEMONS] = {[CLI_DAEMON_HEAD] = "head", [CLI_DAEMON_RAYLET] = "raylet"};

/* All that Manta makes in a runtime folder. (Folders of private clusters may lie beside: they end with their drivers.) */
static const char *const our_files[] = {"head.addr",  "head.addr.new", "token",      "raylet.sock",  "head.log",
                                        "head.log.1", "head.log.new",  "raylet.log", "raylet.log.1", "raylet.log.new",
                                        "join",       "tls.pem",       "ends",       "ends.new",     "leaving"};
static const char *const our_folders[] = {"daemons", "state", "jobs", "env", "programs", "tls", "nodes"};

void cli_folder_file(const struct cli_folder *folder, const char *name, char out[CLI_PATH_SIZE])
{
    snprintf(out, CLI_PATH_SIZE, "%s/%s", folder->path, name);
}

/* ---- opening ---- */

static bool find_path(const struct cli_args *args, struct cli_folder *f)
{
    const char *dir = args->values[CLI_OPT_DIR], *address = getenv("MANTA_ADDRESS");
    char        usual[sizeof f->path] = "", here[sizeof f->path] = "";
    mt_status   st = mt_folder_usual(usual, sizeof usual);
    if (!dir && address && strchr(address, '/'))
        dir = address;
    if (!dir && st.code)
        return cli_fail("the runtime folder %s: %s; name another one by --dir", usual, st.what), false;
    dir = dir ? dir : usual;
    if (dir[0] != '/' && !getcwd(here, sizeof here))
        return cli_fail("the current folder: %s", strerror(errno)), false;
    if (snprintf(f->path, sizeof f->path, "%s%s%s", here, here[0] ? "/" : "", dir) >= (int)sizeof f->path)
        return cli_fail("the path of the runtime folder is too long"), false;
    f->is_default = !st.code && strcmp(f->path, usual) == 0;
    return true;
}

/* Makes it, and of its parents what is missing; those with the user's own mode. */
static bool make(struct cli_folder *f)
{
    mode_t mask = umask(077);
    for (char *slash = f->path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(f->path, 0700); /* what cannot be made shows at the end */
        *slash = '/';
    }
    int err = mkdir(f->path, 0700) == 0 || errno == EEXIST ? 0 : errno;
    umask(mask);
    return !err || (cli_fail("cannot make the runtime folder %s: %s", f->path, strerror(err)), false);
}

void cli_folder_record(const struct cli_folder *f, enum cli_daemon daemon, char out[CLI_PATH_SIZE])
{
    snprintf(out, CLI_PATH_SIZE, "%s/daemons/%s", f->path, cli_daemon_names[daemon]);
}

void cli_folder_refresh(struct cli_folder *f)
{
    char path[CLI_PATH_SIZE];
    for (int i = 0; i < CLI_DAEMONS; i++) {
        cli_folder_record(f, i, path);
        (void)cli_record_read(path, &f->daemons[i]);
    }
}

bool cli_daemon_is_there(const struct cli_record *daemon)
{
    return cli_process_is_alive(&daemon->daemon) || cli_process_is_alive(&daemon->keeper);
}

bool cli_folder_leaves(const struct cli_folder *f)
{
    char path[CLI_PATH_SIZE];
    cli_folder_file(f, "leaving", path);
    return cli_daemon_is_there(&f->daemons[CLI_DAEMON_RAYLET]) && access(path, F_OK) == 0;
}

bool cli_folder_open(const struct cli_args *args, bool wants_make, struct cli_folder *out)
{
    struct stat st;
    memset(out, 0, sizeof *out);
    if (!find_path(args, out) || (wants_make && !make(out)))
        return false;
    out->exists = lstat(out->path, &st) == 0;
    if (!out->exists)
        return true;
    char *real = realpath(out->path, NULL); /* one name for it, whatever was typed */
    if (real && strlen(real) < sizeof out->path)
        memcpy(out->path, real, strlen(real) + 1);
    free(real);
    if (stat(out->path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return cli_fail("the runtime folder %s must be a folder of yours that nobody else may write to (chmod 0700)", out->path),
               false;
    cli_folder_refresh(out);
    return true;
}

/* ---- the last logs ---- */

/* logs/head.1.log is the newest of the head's. */
static void kept_log(const struct cli_folder *f, enum cli_daemon daemon, int number, char out[CLI_PATH_SIZE])
{
    snprintf(out, CLI_PATH_SIZE, "%s/logs/%s.%d.log", f->path, cli_daemon_names[daemon], number);
}

/* The last `size` bytes of a file as another one; false: there is no room for it, or so. */
static bool copy_end(int from, off_t size, const char *to)
{
    char buffer[65536];
    int  fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_fine = fd >= 0 && lseek(from, -size, SEEK_END) >= 0;
    for (ssize_t n = 1; is_fine && n > 0;) {
        n = read(from, buffer, sizeof buffer);
        is_fine = n >= 0 && write(fd, buffer, (size_t)n) == n;
    }
    if (fd >= 0)
        close(fd);
    return is_fine;
}

static void keep_log(const struct cli_folder *f, enum cli_daemon daemon)
{
    char        name[32], log[CLI_PATH_SIZE], from[CLI_PATH_SIZE], to[CLI_PATH_SIZE];
    struct stat st;
    snprintf(name, sizeof name, "%s.log", cli_daemon_names[daemon]);
    cli_folder_file(f, name, log);
    int fd = open(log, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    for (int number = MT_CLI_LOGS_KEPT; number > 1; number--) {
        kept_log(f, daemon, number, to);
        kept_log(f, daemon, number - 1, from);
        rename(from, to); /* there may be none yet */
    }
    kept_log(f, daemon, 1, to);
    bool is_large = fstat(fd, &st) == 0 && st.st_size > MT_CLI_LOG_KEPT_BYTES;
    if (!is_large || !copy_end(fd, MT_CLI_LOG_KEPT_BYTES, to)) /* without room for its end it is kept whole */
        rename(log, to);
    close(fd);
}

bool cli_logs_keep(const struct cli_folder *f, char out[CLI_PATH_SIZE])
{
    cli_folder_file(f, "logs", out);
    if (mkdir(out, 0700) != 0 && errno != EEXIST)
        return false;
    for (int i = 0; i < CLI_DAEMONS; i++)
        keep_log(f, i);
    rmdir(out); /* where nothing was there to keep */
    return access(out, F_OK) == 0;
}

void cli_logs_purge(const struct cli_folder *f)
{
    char path[CLI_PATH_SIZE];
    for (int i = 0; i < CLI_DAEMONS; i++)
        for (int number = 1; number <= MT_CLI_LOGS_KEPT; number++) {
            kept_log(f, i, number, path);
            unlink(path);
        }
    cli_folder_file(f, "logs", path);
    rmdir(path);
    rmdir(f->path); /* where nothing else is left in it */
}

/* ---- the end ---- */

static int left_over;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    if (remove(path) != 0 && errno != ENOENT) {
        left_over++;
        cli_fail("left over: file %s: %s", path, strerror(errno));
    }
    return 0;
}

int cli_folder_clean(const struct cli_folder *f)
{
    char        path[CLI_PATH_SIZE];
    struct stat st;
    left_over = 0;
    for (size_t i = 0; i < sizeof our_files / sizeof our_files[0]; i++) {
        cli_folder_file(f, our_files[i], path);
        remove_one(path, NULL, 0, NULL);
    }
    for (size_t i = 0; i < sizeof our_folders / sizeof our_folders[0]; i++) {
        cli_folder_file(f, our_folders[i], path);
        if (lstat(path, &st) != 0)
            continue;
        mt_tree_remove(path);
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* says what is left */
    }
    rmdir(f->path);
    return left_over;
}

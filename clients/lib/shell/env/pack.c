/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - the files of a runtime environment as one archive (core/sys/archive.h) in memory.
 *
 * Owns: nothing after the call; the descriptor that it gives is the caller's. Thread: any; blocks on the disk.
 * Always: the same files give the same bytes: entries go in the order of their names, and times do not count.
 */
#include "clients/lib/shell/env/env.h"
#include "clients/lib/shell/state/state.h"

#include "core/sha/sha256.h"
#include "core/sys/archive.h"
#include "core/base/limits/env.h"
#include "core/sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

struct pack {
    int                fd;
    uint64_t           size;
    uint32_t           entries;
    uint32_t           deep;
    const char        *step;
    const char *const *excludes; /* NULL: none */
    manta_error       *e;
};

static manta_status pack_failed(struct pack *p, const char *path, int err)
{
    return lib_error(p->e, MANTA_EENV, "could not %s: \"%.300s\": %s", p->step, path, strerrordesc_np(err));
}

static manta_status put_bytes(struct pack *p, const void *bytes, size_t size)
{
    int err = mt_write_all(p->fd, bytes, size);
    if (err)
        return pack_failed(p, "memory for its archive", err);
    p->size += size;
    return MANTA_OK;
}

static manta_status put_head(struct pack *p, enum mt_archive_kind kind, uint32_t mode, uint64_t size, const char *name)
{
    struct mt_archive_entry entry = {.kind = kind, .mode = mode, .size = size, .path_size = (uint32_t)strlen(name)};
    const char             *wrong = mt_archive_path_wrong(name);
    manta_status            code;
    if (wrong)
        return lib_error(p->e, MANTA_EENV, "could not %s: the path \"%.200s\" %s", p->step, name, wrong);
    if (p->entries++ >= MT_ENV_FILES_MAX)
        return lib_error(p->e, MANTA_EENV, "could not %s: it has more than %d files", p->step, MT_ENV_FILES_MAX);
    if (size > ((uint64_t)MT_ENV_MIB_MAX << 20) - p->size)
        return lib_error(p->e, MANTA_EENV,
                         "could not %s: its files are more than %d MiB (with \"%.200s\"); large data belongs into manta_put or "
                         "a file system that all nodes see",
                         p->step, MT_ENV_MIB_MAX, name);
    code = put_bytes(p, &entry, sizeof entry);
    return code ? code : put_bytes(p, name, strlen(name));
}

static manta_status put_file(struct pack *p, int at, const char *path, const char *name)
{
    struct stat  st;
    manta_status code;
    int          fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a pipe must not hold us up */
    if (fd < 0)
        return pack_failed(p, path, errno);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return lib_error(p->e, MANTA_EENV, "could not %s: \"%.300s\" is no regular file", p->step, path);
    }
    code = put_head(p, MT_ARCHIVE_FILE, st.st_mode & 0100 ? 0700 : 0600, (uint64_t)st.st_size, name);
    for (uint64_t left = (uint64_t)st.st_size; !code && left;) {
        ssize_t n = sendfile(p->fd, fd, NULL, left < 1 << 30 ? (size_t)left : (size_t)1 << 30);
        if (n < 0 && errno != EINTR)
            code = pack_failed(p, path, errno);
        if (n == 0)
            code = lib_error(p->e, MANTA_EENV, "could not %s: \"%.300s\" became shorter while it was read", p->step, path);
        left -= n > 0 ? (uint64_t)n : 0;
        p->size += n > 0 ? (uint64_t)n : 0;
    }
    close(fd);
    return code;
}

static manta_status put_link(struct pack *p, int at, const char *path, const char *name)
{
    char         target[MT_ARCHIVE_PATH_MAX] = "";
    ssize_t      size = readlinkat(at, path, target, sizeof target - 1);
    const char  *wrong;
    manta_status code;
    if (size < 0)
        return pack_failed(p, path, errno);
    wrong = mt_archive_link_wrong(name, target);
    if (wrong)
        return lib_error(p->e, MANTA_EENV, "could not %s: \"%.200s\" %s (%.100s)", p->step, name, wrong, target);
    code = put_head(p, MT_ARCHIVE_LINK, 0777, (uint64_t)size, name);
    return code ? code : put_bytes(p, target, (size_t)size);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_named(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

static manta_status put_folder(struct pack *p, int at, const char *path, const char *prefix);

static bool is_excluded(const struct pack *p, const char *name, const char *last)
{
    for (const char *const *pattern = p->excludes; pattern && *pattern; pattern++)
        if (fnmatch(*pattern, name, FNM_PATHNAME) == 0 || fnmatch(*pattern, last, 0) == 0)
            return true;
    return false;
}

static manta_status put_any(struct pack *p, int at, const char *path, const char *prefix)
{
    char         name[MT_ARCHIVE_PATH_MAX];
    struct stat  st;
    manta_status code;
    if (snprintf(name, sizeof name, "%s%s", prefix, path) >= (int)sizeof name)
        return pack_failed(p, path, ENAMETOOLONG);
    if (is_excluded(p, name, path))
        return MANTA_OK;
    if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return pack_failed(p, path, errno);
    if (S_ISLNK(st.st_mode))
        return put_link(p, at, path, name);
    if (S_ISREG(st.st_mode))
        return put_file(p, at, path, name);
    if (!S_ISDIR(st.st_mode))
        return MANTA_OK; /* sockets, pipes, devices are no files of a job */
    code = put_head(p, MT_ARCHIVE_FOLDER, 0700, 0, name);
    if (code || snprintf(name, sizeof name, "%s%s/", prefix, path) >= (int)sizeof name)
        return code ? code : pack_failed(p, path, ENAMETOOLONG);
    return put_folder(p, at, path, name);
}

/* What is in the folder `path`; its entries' names begin with `prefix`. */
static manta_status put_folder(struct pack *p, int at, const char *path, const char *prefix)
{
    struct dirent **entries = NULL;
    manta_status    code = MANTA_OK;
    int             here = openat(at, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    int             count = here < 0 ? -1 : scandirat(here, ".", &entries, is_named, by_name);
    if (count < 0)
        code = pack_failed(p, path, errno);
    else if (++p->deep > MT_ENV_FOLDERS_DEEP_MAX)
        code = lib_error(p->e, MANTA_EENV, "could not %s: its folders are more than %d deep", p->step, MT_ENV_FOLDERS_DEEP_MAX);
    for (int i = 0; i < count; i++) {
        if (!code)
            code = put_any(p, here, entries[i]->d_name, prefix);
        free(entries[i]);
    }
    p->deep -= count >= 0;
    free(entries);
    if (here >= 0)
        close(here);
    return code;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static manta_status put_all(struct pack *p, const manta_runtime_env *env, const char *code_path, const char *code_name)
{
    struct mt_archive_head head = {.magic = MT_ARCHIVE_MAGIC, .version = MT_ARCHIVE_VERSION};
    manta_status           code = put_bytes(p, &head, sizeof head);
    p->step = "load code";
    if (!code && code_path) {
        code = put_head(p, MT_ARCHIVE_FOLDER, 0700, 0, LIB_CODE_FOLDER);
        code = code ? code : put_file(p, AT_FDCWD, code_path, code_name);
    }
    p->step = "make working_dir";
    p->excludes = env->excludes;
    if (!code && env->working_dir)
        code = put_folder(p, AT_FDCWD, env->working_dir, "");
    p->step = "copy files";
    for (const char *const *file = env->files; !code && file && *file; file++)
        code = put_file(p, AT_FDCWD, *file, last_part(*file));
    head.entries = p->entries;
    if (!code && pwrite(p->fd, &head, sizeof head, 0) != sizeof head)
        code = pack_failed(p, "memory for its archive", errno);
    return code;
}

static bool hash_all(int fd, uint64_t size, uint8_t out[MT_SHA256_SIZE])
{
    mt_sha256 sha;
    void     *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, bytes, size);
    mt_sha256_end(&sha, out);
    munmap(bytes, size);
    return true;
}

manta_status lib_pack(const manta_runtime_env *env, const char *code_path, const char *code_name, struct lib_packed *out,
                      manta_error *e)
{
    struct pack  p = {.step = "make working_dir", .e = e};
    manta_status code;
    p.fd = memfd_create("manta-env", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (p.fd < 0)
        return pack_failed(&p, "memory for its archive", errno);
    code = put_all(&p, env, code_path, code_name);
    if (!code && !hash_all(p.fd, p.size, out->sha256))
        code = pack_failed(&p, "memory for its archive", errno);
    if (!code && fcntl(p.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        code = pack_failed(&p, "memory for its archive", errno);
    if (code) {
        close(p.fd);
        return code;
    }
    out->fd = p.fd;
    out->size = p.size;
    return MANTA_OK;
}

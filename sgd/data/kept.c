/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - finding, fetching and removing files by their sum. See kept.h.
 *
 * Owns: the folder's descriptor. Thread: the caller's.
 */
#include "sgd/data/kept.h"

#include "core/base/clock.h"
#include "core/base/limits/train.h"
#include "sgd/ground/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK "lock"
#define PART "part"
enum { LOOK_MS = 20 };

mt_status sgd_kept_open(struct sgd_kept *kept, const char *folder, uint64_t bytes_max)
{
    const char *base = getenv("TMPDIR");
    struct stat info;
    int         n;
    *kept = (struct sgd_kept){.dir = -1, .bytes_max = bytes_max};
    if (folder)
        n = snprintf(kept->folder, sizeof kept->folder, "%s", folder);
    else
        n = snprintf(kept->folder, sizeof kept->folder, "%s/manta-data-%u", base && base[0] ? base : "/tmp", (unsigned)geteuid());
    if (n < 0 || (size_t)n >= sizeof kept->folder)
        return mt_error(MT_EINVAL, 0, "the name of the folder for data of other machines is too long");
    if (mkdir(kept->folder, 0700) != 0 && errno != EEXIST)
        return sgd_file_error(errno, "make the folder for data of other machines");
    kept->dir = open(kept->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (kept->dir < 0 || fstat(kept->dir, &info) != 0 || info.st_uid != geteuid() || info.st_mode & 077) {
        sgd_kept_close(kept);
        return mt_error(MT_ESYS, EPERM, "the folder for data of other machines is not this user's alone");
    }
    return mt_ok();
}

void sgd_kept_close(struct sgd_kept *kept)
{
    if (kept->dir >= 0)
        close(kept->dir);
    kept->dir = -1;
}

/* Whether it is there; then it was used just now. */
static bool is_there(const struct sgd_kept *kept, const char *name, uint64_t size)
{
    struct stat info;
    return fstatat(kept->dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == size &&
           utimensat(kept->dir, name, NULL, 0) == 0;
}

static mt_status lock_take(const struct sgd_kept *kept, int *out_fd)
{
    int fd = openat(kept->dir, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sgd_file_error(errno, "open the lock of the data of other machines");
    for (int64_t until = mt_now_ms() + MT_TRAIN_DATA_MS; flock(fd, LOCK_EX | LOCK_NB) != 0; mt_sleep_ms(LOOK_MS))
        if (mt_now_ms() >= until) {
            close(fd);
            return mt_error(MT_ETIMEDOUT, 0, "another process fetches data of other machines, and does not end");
        }
    *out_fd = fd;
    return mt_ok();
}

/* All files, and the one of them that was used longest ago. */
static mt_status files_look(const struct sgd_kept *kept, uint64_t *out_bytes, char oldest[MT_SHA256_HEX_SIZE])
{
    int             fd = dup(kept->dir);
    DIR            *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct timespec least = {0};
    *out_bytes = 0;
    oldest[0] = 0;
    if (!dir) {
        int sys = errno;
        if (fd >= 0)
            close(fd);
        return sgd_file_error(sys, "look at the data of other machines");
    }
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (strlen(entry->d_name) != MT_SHA256_HEX_SIZE - 1 || fstatat(kept->dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        *out_bytes += (uint64_t)info.st_size;
        if (!oldest[0] || info.st_mtim.tv_sec < least.tv_sec ||
            (info.st_mtim.tv_sec == least.tv_sec && info.st_mtim.tv_nsec < least.tv_nsec)) {
            memcpy(oldest, entry->d_name, MT_SHA256_HEX_SIZE);
            least = info.st_mtim;
        }
    }
    closedir(dir);
    return mt_ok();
}

static mt_status room_make(const struct sgd_kept *kept, uint64_t size)
{
    char     oldest[MT_SHA256_HEX_SIZE];
    uint64_t bytes;
    if (size > kept->bytes_max)
        return mt_error(MT_EDISK_FULL, 0, "it is larger than a node keeps of other machines' data");
    for (;;) {
        MT_TRY(files_look(kept, &bytes, oldest));
        if (bytes + size <= kept->bytes_max)
            return mt_ok();
        if (unlinkat(kept->dir, oldest, 0) != 0)
            return sgd_file_error(errno, "remove data of another machine");
    }
}

static mt_status copy(int fd, const uint8_t sum[MT_SHA256_SIZE], uint64_t size, sgd_kept_read *read, void *user)
{
    mt_sha256 sha;
    uint8_t   got[MT_SHA256_SIZE];
    mt_status st = mt_ok();
    char     *piece = malloc(MT_TRAIN_PIECE_BYTES);
    if (!piece)
        return mt_error(MT_ENOMEM, 0, "no memory for data of another machine");
    mt_sha256_init(&sha);
    for (uint64_t at = 0; at < size && st.code == MT_OK;) {
        size_t n = size - at < MT_TRAIN_PIECE_BYTES ? (size_t)(size - at) : MT_TRAIN_PIECE_BYTES;
        st = read(user, at, piece, n);
        if (st.code == MT_OK)
            st = sgd_file_write(fd, piece, n);
        mt_sha256_add(&sha, piece, n);
        at += n;
    }
    free(piece);
    mt_sha256_end(&sha, got);
    if (st.code == MT_OK && memcmp(got, sum, sizeof got) != 0)
        return mt_error(MT_ECORRUPT, 0, "what came from the driver's node has another SHA-256");
    return st;
}

static mt_status fetch(const struct sgd_kept *kept, const char *name, const uint8_t sum[MT_SHA256_SIZE], uint64_t size,
                       sgd_kept_read *read, void *user)
{
    MT_TRY(room_make(kept, size));
    int fd = openat(kept->dir, PART, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600); /* one that was killed left it */
    if (fd < 0)
        return sgd_file_error(errno, "make a file for data of another machine");
    mt_status st = copy(fd, sum, size, read, user);
    if (st.code == MT_OK)
        st = sgd_file_finish(fd);
    else
        close(fd);
    if (st.code == MT_OK && renameat(kept->dir, PART, kept->dir, name) != 0)
        st = sgd_file_error(errno, "name a file of another machine's data");
    if (st.code != MT_OK)
        unlinkat(kept->dir, PART, 0);
    return st;
}

mt_status sgd_kept_get(struct sgd_kept *kept, const uint8_t sum[MT_SHA256_SIZE], uint64_t size, sgd_kept_read *read, void *user,
                       char out_path[SGD_KEPT_PATH_BYTES])
{
    char      name[MT_SHA256_HEX_SIZE];
    int       lock = -1;
    mt_status st = mt_ok();
    mt_sha256_hex(sum, name);
    snprintf(out_path, SGD_KEPT_PATH_BYTES, "%s/%s", kept->folder, name);
    if (is_there(kept, name, size))
        return st;
    MT_TRY(lock_take(kept, &lock));
    if (!is_there(kept, name, size)) /* who had the lock may have brought it */
        st = fetch(kept, name, sum, size, read, user);
    close(lock);
    return st;
}

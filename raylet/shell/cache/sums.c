/* SPDX-License-Identifier: Apache-2.0
 *
 * sums.c - see sums.h. Owns: the descriptors of the files. Thread: work() runs on the thread of the disk, the rest on the loop.
 */
#include "raylet/shell/cache/sums.h"

#include "core/sha/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024 };

static bool sum_up(int fd, uint64_t *out_size, uint8_t out_sum[MT_SHA256_SIZE])
{
    char      piece[PIECE_BYTES];
    mt_sha256 sha;
    ssize_t   n;
    mt_sha256_init(&sha);
    *out_size = 0;
    while ((n = pread(fd, piece, sizeof piece, (off_t)*out_size)) > 0) {
        mt_sha256_add(&sha, piece, (size_t)n);
        *out_size += (uint64_t)n;
    }
    mt_sha256_end(&sha, out_sum);
    return n == 0;
}

bool sh_sum_is_safe(int fd, bool is_own)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    return is_own ? (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & 022)
                  : st.st_uid == geteuid() && (st.st_mode & 07777) == 0555;
}

/* Why the file is not what it has to be, or may not stay that; NULL: it is right. Reads all of it. */
static const char *sum_wrong(int fd, const struct peer_program_file *expected, bool is_own)
{
    uint64_t size;
    uint8_t  sum[MT_SHA256_SIZE];
    if (fd < 0 || !sum_up(fd, &size, sum))
        return "can't be read";
    if (size != expected->size || memcmp(sum, expected->sha256, sizeof sum) != 0)
        return "is not what it was";
    return sh_sum_is_safe(fd, is_own) ? NULL : "may be written by others";
}

static const char *new_wrong(int fd, struct peer_program_file *out)
{
    if (fd < 0 || !sum_up(fd, &out->size, out->sha256))
        return "can't be read";
    return out->size ? NULL : "is empty";
}

static void work(struct io_job *job)
{
    struct sh_sums *sums = mt_container_of(job, struct sh_sums, job_on_disk);
    sums->is_right = true;
    for (uint32_t i = 0; i < sums->count; i++) {
        struct peer_program_file *file = &sums->files[i].expected;
        int                       fd = sums->files[i].fd;
        const char               *why = sums->files[i].is_new ? new_wrong(fd, file) : sum_wrong(fd, file, sums->files[i].is_own);
        sums->files[i].is_wrong = why != NULL;
        if (why && sums->is_right)
            snprintf(sums->text, sizeof sums->text, "%s %s", file->path, why);
        sums->is_right = sums->is_right && !why;
    }
}

static void done(struct io_job *job)
{
    struct sh_sums *sums = mt_container_of(job, struct sh_sums, job_on_disk);
    sums->done(sums, sums->is_right);
}

struct sh_sums *sh_sums_new(struct sh *sh, uint64_t job, uint32_t count, void (*fn)(struct sh_sums *sums, bool is_right))
{
    struct sh_sums *sums = calloc(1, sizeof *sums + count * sizeof sums->files[0]);
    if (!sums)
        return NULL;
    sums->sh = sh;
    sums->job = job;
    sums->done = fn;
    sums->count = count;
    sums->job_on_disk.work = work;
    sums->job_on_disk.done = done;
    for (uint32_t i = 0; i < count; i++)
        sums->files[i].fd = -1;
    return sums;
}

void sh_sums_free(struct sh_sums *sums)
{
    for (uint32_t i = 0; i < sums->count; i++)
        if (sums->files[i].fd >= 0)
            close(sums->files[i].fd);
    free(sums);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - names of checkpoints, and what stands in a folder. Owns nothing. Thread: any.
 */
#include "sgd/save/private.h"

#include "sgd/ground/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sgd_checkpoint_name(uint64_t step, char out[SGD_CHECKPOINT_NAME_SIZE])
{
    snprintf(out, SGD_CHECKPOINT_NAME_SIZE, "step-%020llu", (unsigned long long)step);
}

static bool name_parse(const char *name, uint64_t *out_step)
{
    uint64_t step = 0;
    if (strlen(name) != 25 || strncmp(name, "step-", 5) != 0)
        return false;
    for (const char *p = name + 5; *p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(step, 10, &step) ||
            __builtin_add_overflow(step, (uint64_t)(*p - '0'), &step))
            return false;
    }
    *out_step = step;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

void sgd_steps_sort(uint64_t *steps, size_t count)
{
    qsort(steps, count, sizeof *steps, newest_first);
}

static mt_status names_read(DIR *entries, uint64_t *steps, size_t *out_count)
{
    size_t count = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry)
            break;
        if (!name_parse(entry->d_name, &steps[count]))
            continue;
        if (++count == MT_CHECKPOINTS_MAX)
            return mt_error(MT_EAGAIN, 0, "list checkpoints: too many in one folder");
    }
    if (errno)
        return mt_error(MT_ESYS, errno, "list checkpoints");
    *out_count = count;
    return mt_ok();
}

mt_status sgd_checkpoint_list(int dir, uint64_t **out_steps, size_t *out_count)
{
    uint64_t *steps = malloc(MT_CHECKPOINTS_MAX * sizeof *steps);
    if (!steps)
        return mt_error(MT_ENOMEM, 0, "list checkpoints");
    int  fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        mt_status st = mt_error(MT_ESYS, errno, "list checkpoints");
        if (fd >= 0)
            close(fd);
        free(steps);
        return st;
    }
    mt_status st = names_read(entries, steps, out_count);
    closedir(entries);
    if (st.code != 0) {
        free(steps);
        return st;
    }
    sgd_steps_sort(steps, *out_count);
    *out_steps = steps;
    return st;
}

mt_status sgd_manifest_open(int checkpoint_dir, const char *name, char **out_text, size_t *out_size)
{
    struct stat info;
    mt_status   st;
    int         fd = openat(checkpoint_dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "open manifest");
    if (fstat(fd, &info) != 0) {
        st = mt_error(MT_ESYS, errno, "stat manifest");
    } else if (!S_ISREG(info.st_mode) || info.st_size > MT_MANIFEST_BYTES_MAX) {
        st = mt_error(MT_ECORRUPT, 0, "manifest: not a file, or too large");
    } else {
        size_t size = (size_t)info.st_size;
        char  *text = malloc(size + 1);
        st = text ? sgd_file_read(fd, text, size, 0) : mt_error(MT_ENOMEM, 0, "read manifest");
        if (st.code == 0) {
            *out_text = text;
            *out_size = size;
        } else {
            free(text);
        }
    }
    close(fd);
    return st;
}

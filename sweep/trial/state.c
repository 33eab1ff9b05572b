/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - see state.h.
 */
#include "sweep/trial/state.h"

#include "core/base/hash.h"
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SIZE = MT_PATH_BYTES_MAX + 64 };
static const char MAGIC[8] = "MANTASWP";

struct head {
    char     magic[8];
    int64_t  step;
    uint64_t size, sum;
};

uint64_t swp_sum(mt_view bytes)
{
    uint64_t sum = 0x9e3779b97f4a7c15u, word;
    size_t   i = 0;
    for (; i + 8 <= bytes.size; i += 8) {
        memcpy(&word, bytes.data + i, 8);
        sum = (sum ^ word) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 32;
    }
    for (; i < bytes.size; i++)
        sum = mt_hash_mix(sum, bytes.data[i]);
    return sum ^ bytes.size;
}

static void name_of(char out[NAME_SIZE], const char *folder, int64_t trial)
{
    snprintf(out, NAME_SIZE, "%s/state/%" PRId64, folder, trial);
}

/* What a run has saved and was not published yet. */
static void aside_of(char out[NAME_SIZE], const char *folder, int64_t trial, uint32_t run)
{
    snprintf(out, NAME_SIZE, "%s/state/%" PRId64 ".%u", folder, trial, run);
}

static mt_status sys_error(const char *what)
{
    return mt_error(errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? MT_EDISK_FULL
                    : errno == ENOENT                                    ? MT_ENOENT
                                                                         : MT_ESYS,
                    errno, what);
}

mt_status swp_state_write(const char *folder, int64_t trial, uint32_t run, int64_t step, mt_view bytes)
{
    char        path[NAME_SIZE], part[NAME_SIZE + 8];
    struct head head = {.step = step, .size = bytes.size, .sum = swp_sum(bytes)};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    aside_of(path, folder, trial, run);
    snprintf(part, sizeof part, "%s.part", path);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return sys_error("write a state");
    errno = mt_write_all(fd, &head, sizeof head);
    if (errno == 0)
        errno = mt_write_all(fd, bytes.data, bytes.size);
    mt_status st = errno ? sys_error("write a state") : mt_ok();
    close(fd);
    if (st.code == 0 && rename(part, path) != 0)
        st = sys_error("write a state");
    if (st.code)
        unlink(part);
    return st;
}

void swp_state_publish(const char *folder, int64_t trial, uint32_t run)
{
    char from[NAME_SIZE], to[NAME_SIZE];
    aside_of(from, folder, trial, run);
    name_of(to, folder, trial);
    (void)!rename(from, to); /* where it is gone, the trial goes on from an older one */
}

mt_status swp_state_clone(const char *folder, int64_t trial, int64_t from)
{
    char source[NAME_SIZE], to[NAME_SIZE], part[NAME_SIZE + 8];
    name_of(source, folder, from);
    name_of(to, folder, trial);
    snprintf(part, sizeof part, "%s.part", to);
    unlink(part);
    if (link(source, part) != 0 || rename(part, to) != 0)
        return sys_error("copy a state");
    unlink(part); /* it is still there where both were one file already */
    return mt_ok();
}

static mt_status part_read(int fd, void *out, size_t size)
{
    ssize_t n = mt_read_all(fd, out, size);
    if (n < 0)
        return sys_error("read a state");
    return (size_t)n == size ? mt_ok() : mt_error(MT_ECORRUPT, 0, "a state is cut off");
}

static mt_status content_read(int fd, int64_t *out_step, mt_buf *out)
{
    struct head head;
    struct stat info;
    MT_TRY(part_read(fd, &head, sizeof head));
    if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || fstat(fd, &info) != 0 ||
        (uint64_t)info.st_size != sizeof head + head.size)
        return mt_error(MT_ECORRUPT, 0, "a state is no state");
    MT_TRY(mt_buf_reserve(out, head.size));
    MT_TRY(part_read(fd, out->data + out->size, head.size));
    if (swp_sum(mt_view_of(out->data + out->size, head.size)) != head.sum)
        return mt_error(MT_ECORRUPT, 0, "a state has another sum");
    out->size += head.size;
    *out_step = head.step;
    return mt_ok();
}

mt_status swp_state_read(const char *folder, int64_t trial, int64_t *out_step, mt_buf *out)
{
    char path[NAME_SIZE];
    name_of(path, folder, trial);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sys_error("read a state");
    mt_status st = content_read(fd, out_step, out);
    close(fd);
    return st;
}

void swp_state_drop(const char *folder, int64_t trial, uint32_t run)
{
    char path[NAME_SIZE];
    name_of(path, folder, trial);
    unlink(path);
    aside_of(path, folder, trial, run);
    unlink(path);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * system.c - the process's own limits. Owns nothing; any thread.
 */
#include "core/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

mt_status io_fill_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) /* the lowest that is free: this one */
            return mt_error(MT_ESYS, errno, "open /dev/null");
    return mt_ok();
}

void io_close_inherited(const int *keep, size_t count)
{
    for (unsigned first = STDERR_FILENO + 1; first;) {
        unsigned next = UINT_MAX; /* the lowest that stays, or none */
        for (size_t i = 0; i < count; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= first && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next > first)
            close_range(first, next == UINT_MAX ? next : next - 1, 0);
        first = next == UINT_MAX ? 0 : next + 1;
    }
}

static uint32_t clamped(rlim_t limit)
{
    return limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
}

mt_status io_raise_fd_limit(uint32_t *out_before, uint32_t *out_limit)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return mt_error(MT_ESYS, errno, "getrlimit");
    *out_before = clamped(limit.rlim_cur);
    rlim_t wanted = limit.rlim_max < MT_FDS_MAX ? limit.rlim_max : MT_FDS_MAX;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            return mt_error(MT_ESYS, errno, "setrlimit");
    }
    *out_limit = clamped(limit.rlim_cur);
    if (*out_limit < MT_FDS_MIN)
        return mt_error(MT_EAGAIN, 0, "the hard limit of descriptors is below 128 (ulimit -Hn; LimitNOFILE= of systemd)");
    return mt_ok();
}
static_assert(MT_FDS_MIN == 128, "as the text says");

uint32_t io_fd_share(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > UINT32_MAX / 100)
        return UINT32_MAX / 100 * MT_FDS_SHARE_PERCENT;
    return (uint32_t)limit.rlim_cur * MT_FDS_SHARE_PERCENT / 100;
}

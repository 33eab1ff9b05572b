/* SPDX-License-Identifier: Apache-2.0
 *
 * system.c - the process's own limits. Owns nothing; any thread.
 */
#include "core/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

mt_status io_fill_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) /* the lowest that is free: this one */
            return mt_error(MT_ESYS, errno, "open /dev/null");
    return mt_ok();
}

mt_status io_raise_fd_limit(uint32_t *out_limit)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return mt_error(MT_ESYS, errno, "getrlimit");
    rlim_t wanted = limit.rlim_max < MT_FDS_MAX ? limit.rlim_max : MT_FDS_MAX;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
            return mt_error(MT_ESYS, errno, "setrlimit");
    }
    *out_limit = limit.rlim_cur > UINT32_MAX ? UINT32_MAX : (uint32_t)limit.rlim_cur;
    return mt_ok();
}

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void on_abort(int number)
{
    (void)number;
    say(program_invocation_short_name);
    say(": aborted: out of memory inside a library, or a check that failed (then the line above tells which)\n");
}

void io_say_aborts(void)
{
    signal(SIGABRT, on_abort); /* abort() goes on when it returns */
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - signals of a worker: what it leaves when it crashes, and where it is when its raylet asks.
 *
 * Owns:   the file that a backtrace is written to before it goes into the park page. glibc writes to a descriptor only, and that
 *         of the park page, with its place in the file, is many processes'. Thread: signal handlers, on whatever thread the signal
 *         comes to.
 */
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/zygote/zygote.h"
#include "core/sys/crash.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int text_fd = -1;

void lib_crash_text_open(void)
{
    text_fd = memfd_create("manta-text", MFD_CLOEXEC);
}

static bool text_begin(void)
{
    return text_fd >= 0 && lib.park && ftruncate(text_fd, 0) == 0 && lseek(text_fd, 0, SEEK_SET) == 0;
}

static void crashed(int number, void *const *frames, int count)
{
    (void)number;
    if (!text_begin())
        return;
    backtrace_symbols_fd(frames, count, text_fd);
    (void)!pread(text_fd, lib.park->crash, LANE_CRASH_SIZE, 0); /* a page that is not there is an error, no second crash */
}

/* SIGURG, which is ignored unless somebody catches it: the raylet asks where we are. A line at a time, so that what does not
 * fit is left out; the program's system calls are restarted (the raylet leaves those alone that are not). */
static void tell_stack(int number)
{
    enum { SIZE = sizeof lib.park->stack, LINE_MAX_BYTES = 512 };
    int   saved = errno, count;
    void *frames[64];
    off_t at = 0;
    (void)number;
    if (!text_begin())
        return;
    count = backtrace(frames, 64);
    for (int i = 1; i < count && at + LINE_MAX_BYTES < SIZE; i++) { /* frame 0 is this function */
        backtrace_symbols_fd(&frames[i], 1, text_fd);
        at = lseek(text_fd, 0, SEEK_CUR);
    }
    at = pread(text_fd, lib.park->stack, SIZE - 1, 0);
    lib.park->stack[at < 0 ? 0 : at] = 0;
    shm_add32(&lib.park->stack_count, 1);
    errno = saved;
}

void lib_crash_handlers(void)
{
    struct sigaction action = {.sa_handler = tell_stack, .sa_flags = SA_RESTART}, old;
    mt_crash_handlers(crashed);
    if (sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(SIGURG, &action, NULL);
}

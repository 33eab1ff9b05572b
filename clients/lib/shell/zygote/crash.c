/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - signals of a worker: what it leaves when it crashes, and where it is when its raylet asks.
 *
 * Owns:   the file that a backtrace is written to before it goes into the park page. It is written to a descriptor only, and that
 *         of the park page, with its place in the file, is many processes'. Thread: signal handlers, on whatever thread the signal
 *         comes to.
 */
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/zygote/zygote.h"
#include "core/sys/crash.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int                   text_fd = -1;
static volatile sig_atomic_t is_crashing; /* the text is this one's */

void lib_crash_text_open(void)
{
    text_fd = memfd_create("manta-text", MFD_CLOEXEC);
}

static bool text_begin(void)
{
    return text_fd >= 0 && lib.park && ftruncate(text_fd, 0) == 0 && lseek(text_fd, 0, SEEK_SET) == 0;
}

static void crashed(int number, const struct mt_frames *frames)
{
    (void)number;
    is_crashing = true;
    if (!text_begin())
        return;
    mt_frames_write(frames, text_fd);
    (void)!pread(text_fd, lib.park->crash, LANE_CRASH_SIZE, 0); /* a page that is not there is an error, no second crash */
}

/* SIGURG, which is ignored unless somebody catches it: the raylet asks where we are. The line that does not fit whole is left
 * out; the program's system calls are restarted (the raylet leaves those alone that are not). */
static void tell_stack(int number, siginfo_t *info, void *context)
{
    enum { SIZE = sizeof lib.park->stack };
    int              saved = errno;
    struct mt_frames frames;
    ssize_t          size;
    (void)number, (void)info;
    if (is_crashing || !text_begin())
        return;
    mt_frames_take(&frames, context);
    mt_frames_write(&frames, text_fd);
    size = pread(text_fd, lib.park->stack, SIZE, 0);
    while (size > 0 && (size == SIZE || lib.park->stack[size - 1] != '\n'))
        size--;
    lib.park->stack[size < 0 ? 0 : size] = 0;
    shm_add32(&lib.park->stack_count, 1);
    errno = saved;
}

void lib_crash_handlers(void)
{
    struct sigaction action = {.sa_sigaction = tell_stack, .sa_flags = SA_RESTART | SA_SIGINFO}, old;
    mt_crash_handlers(crashed);
    if (sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(SIGURG, &action, NULL);
}

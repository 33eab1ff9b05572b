/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - signals of a worker: what it leaves when it crashes, and where it is when its raylet asks.
 *
 * Owns:   nothing. Thread: signal handlers, on whatever thread the signal comes to.
 */
#include "clients/lib/shell/state/state.h"
#include "clients/lib/shell/zygote/zygote.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

static void crash(int number)
{
    void *frames[64];
    int   count = backtrace(frames, 64);
    if (lib.park_fd >= 0 && lseek(lib.park_fd, offsetof(struct lane_park, crash), SEEK_SET) >= 0)
        backtrace_symbols_fd(frames, count, lib.park_fd);
    signal(number, SIG_DFL);
    raise(number);
}

/* SIGURG, which is ignored unless somebody catches it: the raylet asks where we are. A line at a time, so that what does not
 * fit is left out; the program's system calls are restarted (the raylet leaves those alone that are not). */
static void tell_stack(int number)
{
    enum { BEGIN = offsetof(struct lane_park, stack), END = BEGIN + sizeof lib.park->stack, LINE_MAX_BYTES = 512 };
    int   saved = errno, count;
    void *frames[64];
    off_t at = BEGIN;
    (void)number;
    if (lib.park_fd < 0 || !lib.park || lseek(lib.park_fd, BEGIN, SEEK_SET) < 0)
        return;
    count = backtrace(frames, 64);
    for (int i = 1; i < count && at + LINE_MAX_BYTES < END; i++) { /* frame 0 is this function */
        backtrace_symbols_fd(&frames[i], 1, lib.park_fd);
        at = lseek(lib.park_fd, 0, SEEK_CUR);
    }
    if (at < END)
        lib.park->stack[at - BEGIN] = 0;
    shm_add32(&lib.park->stack_count, 1);
    errno = saved;
}

void lib_crash_handlers(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char      stack[64 * 1024];
    stack_t          alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = crash, .sa_flags = SA_ONSTACK | SA_NODEFER}, old;
    void            *warm[1];
    backtrace(warm, 1); /* loads what it needs now: a crashing process can't */
    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL);
    action = (struct sigaction){.sa_handler = tell_stack, .sa_flags = SA_RESTART};
    if (sigaction(SIGURG, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(SIGURG, &action, NULL);
}

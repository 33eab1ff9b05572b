/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - a daemon that crashes says where, in its log. Thread: whichever crashes.
 */
#include "core/io/io.h"
#include "core/sys/crash.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void crashed(int number, const struct mt_frames *frames)
{
    say(program_invocation_short_name);
    if (number == SIGABRT)
        say(": aborted: out of memory inside a library, or a check that failed (then the line above tells which)");
    else
        say(": crashed by SIG"), say(sigabbrev_np(number));
    say(frames->count ? "; it was at\n" : "; its stack can't be read\n");
    mt_frames_write(frames, STDERR_FILENO);
}

void io_say_crashes(void)
{
    mt_crash_handlers(crashed);
}

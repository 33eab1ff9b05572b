/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - see crash.h. Owns: the stack of the handler. Thread: whichever crashes.
 */
#include "core/base/limits/raylet.h"
#include "core/sys/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static mt_crash_fn *say_how;

/* A call through NULL has no frame from which the others could be found: it is left as if it had returned. */
static void step_out_of_null(ucontext_t *at)
{
#ifdef __x86_64__
    greg_t *registers = at->uc_mcontext.gregs;
    if (registers[REG_RIP] != 0)
        return;
    memcpy(&registers[REG_RIP], (const void *)registers[REG_RSP], sizeof(greg_t));
    registers[REG_RSP] += (greg_t)sizeof(greg_t);
#else
    (void)at;
#endif
}

/* Another thread crashes already. It ends the process when it has said where; this one's signal would end it before that. Should
 * it hang, this one ends it. */
static bool waits_for_another(void)
{
    static atomic_int first;
    struct timespec   left = {MT_CRASH_MS / 1000, 0};
    int               none = 0, self = gettid();
    if (atomic_compare_exchange_strong(&first, &none, self) || none == self)
        return false;
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
    return true;
}

/* It comes here again where the stack, or what stands there, leads nowhere: then without frames. */
static void crashed(int number, siginfo_t *info, void *at)
{
    static volatile sig_atomic_t first;
    struct mt_frames             frames = {.count = 0};
    (void)info;
    if (!waits_for_another()) {
        if (first) {
            number = first;
        } else {
            first = number;
            if (number != SIGABRT)
                step_out_of_null(at);
            mt_frames_take(&frames, at);
        }
        say_how(number, &frames);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void mt_crash_handlers(mt_crash_fn *say)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char      stack[64 * 1024];
    stack_t          alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, old;
    say_how = say;
    mt_frames_load();
    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* a sanitizer's says more */
            sigaction(numbers[i], &action, NULL);
}

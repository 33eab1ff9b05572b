/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c - a daemon that crashes says where.
 *
 * Owns: the stack of the handler. Thread: whichever crashes.
 */
#include "core/io/io.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

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

static void crashed(int number, siginfo_t *info, void *at)
{
    void *frames[64];
    (void)info;
    if (number != SIGABRT)
        step_out_of_null(at);
    say(program_invocation_short_name);
    if (number == SIGABRT)
        say(": aborted: out of memory inside a library, or a check that failed (then the line above tells which)");
    else
        say(": crashed by SIG"), say(sigabbrev_np(number));
    say("; it was at\n");
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    signal(number, SIG_DFL);
    raise(number);
}

void io_say_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char      stack[64 * 1024];
    stack_t          alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, old;
    void            *warm[1];
    backtrace(warm, 1); /* loads what it needs now: a crashing process can't */
    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* a sanitizer's says more */
            sigaction(numbers[i], &action, NULL);
}

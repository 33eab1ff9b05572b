/* SPDX-License-Identifier: Apache-2.0
 *
 * strict.c - the process of a strict actor: it runs only as long as the head lets it.
 *
 * Owns:   the timer. Thread: one of its own, which only looks at the park page and sets the timer.
 *
 * The raylet writes into the park page until when the process may run. A timer of the kernel stops the whole process then
 * (SIGSTOP), whether this thread, the raylet or anything else still runs or not. The raylet continues it (SIGCONT) when
 * the head extends its time. CLOCK_BOOTTIME, since a machine that was asleep must not think that no time has passed.
 */
#include "clients/lib/shell/lease/lease.h"
#include "clients/lib/shell/state/state.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static uint64_t boot_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Stops this process at `until`, and again should somebody continue it before its time is extended: later than this
 * thread needs to set the timer anew when it is the raylet that continues it. */
static void arm(timer_t timer, uint64_t until)
{
    struct itimerspec when = {.it_value = timespec_of(until), .it_interval = timespec_of(2u * MT_LIB_STRICT_LOOK_MS * 1000000u)};
    if (timer_settime(timer, TIMER_ABSTIME, &when, NULL))
        kill(getpid(), SIGKILL); /* an actor that can't be stopped may not run */
    shm_store64_release(&lib.park->strict_armed, until);
}

static void *watch(void *arg)
{
    timer_t        *timer = arg;
    struct timespec pause = timespec_of((uint64_t)MT_LIB_STRICT_LOOK_MS * 1000000u);
    for (uint64_t armed = shm_load64(&lib.park->strict_armed);; nanosleep(&pause, NULL)) {
        uint64_t until = shm_load64_acquire(&lib.park->strict_until);
        if (until != armed)
            arm(*timer, armed = until);
        if (armed <= boot_now())
            kill(getpid(), SIGSTOP);
    }
    return NULL;
}

static bool watch_start(timer_t *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSTOP};
    struct timespec pause = timespec_of(1000000);
    sigset_t        all, before;
    pthread_t       thread;
    if (timer_create(CLOCK_BOOTTIME, &event, timer))
        return false;
    while (shm_load64_acquire(&lib.park->strict_until) <= boot_now())
        nanosleep(&pause, NULL); /* the head has not said yet that it may begin */
    arm(*timer, shm_load64_acquire(&lib.park->strict_until));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_there = pthread_create(&thread, NULL, watch, timer) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_there;
}

void lib_strict_begin(void)
{
    timer_t *timer = malloc(sizeof *timer); /* the thread's, as long as the process lives */
    if (!timer || !watch_start(timer))
        _exit(1); /* a death like any other: its owner tries again, or says that it can't */
}

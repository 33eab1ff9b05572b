/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - the process's one struct lib: what the process is, and whether the library can be used.
 *
 * Owns:   `lib`. Thread: any, under the lock, unless a line says otherwise.
 */
#include "clients/lib/shell/state/state.h"

#include "core/base/machine.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct lib lib = {.socket = -1, .event_fd = -1, .watch_fd = -1, .hold_fd = -1};

#define X(name, number, text) static_assert((int)MANTA_##name == (int)MT_##name, "one number for one error");
MT_CODES(X)
#undef X

/* ---- what the process is ---- */

/* The drawing is in state.h. */
static const char *const roles[] = {
    [LIB_NONE] = "NONE", [LIB_DRIVER] = "DRIVER", [LIB_WORKER] = "WORKER", [LIB_OVER] = "OVER", [LIB_FORKED] = "FORKED",
};
static const uint32_t next[] = {
    [LIB_NONE] = MT_STATE(LIB_DRIVER) | MT_STATE(LIB_WORKER),
    [LIB_DRIVER] = MT_STATE(LIB_OVER) | MT_STATE(LIB_FORKED),
    [LIB_WORKER] = MT_STATE(LIB_FORKED),
    [LIB_OVER] = MT_STATE(LIB_DRIVER),
    [LIB_FORKED] = 0,
};
static const struct mt_machine machine = MT_MACHINE("libmanta", roles, next);

void lib_role_set(enum lib_role role)
{
    MT_TRANSITION(&machine, lib.role, role);
    if (mt_machine_may(&machine, lib.role, role)) /* a driver goes on after a check that failed */
        lib.role = role;
}

void lib_broken_set(int32_t code, const char *text)
{
    bool may = !lib.broken || !code;
    MT_ASSERT(may);
    if (!may)
        return;
    lib.broken = code;
    snprintf(lib.broken_text, sizeof lib.broken_text, "%s", text);
}

void lib_fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void lib_disconnect(void)
{
    lib_fd_close(&lib.socket);
}

/* ---- callbacks ---- */

bool lib_may_wait(void)
{
    return !lib_thread.in_callback;
}

bool lib_callback_enter(bool on)
{
    bool before = lib_thread.in_callback;
    lib_thread.in_callback = on;
    return before;
}

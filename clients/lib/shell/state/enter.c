/* SPDX-License-Identifier: Apache-2.0
 *
 * enter.c - who may enter: calls open and close, forks, and the end of the connection.
 *
 * Owns:   nothing. Thread: any, under the lock, unless a line says otherwise.
 */
#include "clients/lib/shell/socket/socket.h"
#include "clients/lib/shell/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- forks ---- */

/* In the child: another thread of the parent may have held the lock, and what is mapped is the parent's. The descriptors are
 * copies, and would keep the parent's end from being seen. */
static void in_child(void)
{
    if (lib.role != LIB_DRIVER && lib.role != LIB_WORKER)
        return;
    lib_door_forked();
    lib_role_set(LIB_FORKED);
    lib_disconnect();
    lib_fd_close(&lib.watch_fd);
    lib_fd_close(&lib.hold_fd);
    free(lib.private_cluster);
    lib.private_cluster = NULL;
}

static void fork_watch(void)
{
    static bool is_watched;
    if (!is_watched)
        is_watched = pthread_atfork(NULL, NULL, in_child) == 0;
    lib_door_watch_forks();
}

/* ---- in and out ---- */

manta_status lib_enter_slowly(bool is_held, manta_error *e)
{
    manta_status code;
    if (lib_is_inside())
        return lib_error(e, MANTA_EDEADLK, "%s", LIB_INTERRUPTED_TEXT);
    lib_lock();
    if (lib_door_is_open() || (is_held && lib.role == LIB_OVER))
        return MANTA_OK;
    code = lib_check(e);
    lib_unlock();
    return code;
}

void lib_open(enum lib_role role)
{
    lib_role_set(role);
    shm_store32_release(&lib_door.is_open, 1);
    fork_watch();
}

void lib_close(void)
{
    lib_role_set(LIB_OVER);
    shm_store32_release(&lib_door.is_open, 0);
}

/* ---- the end of the connection ---- */

/* After the end of the raylet. */
static const char what_to_do[] = ". Values that are in this process can still be read. To go on, call manta_shutdown, then "
                                 "manta_init, which fails until the node is there again";

void lib_unable(int fd, int32_t code, const char *text)
{
    char why[CTL_TEXT_SIZE];
    snprintf(why, sizeof why, "it could not take over what the raylet gave it: %s", text);
    lib_socket_give_up(fd, code, why);
}

void lib_break(int32_t code, const char *text)
{
    char whole[sizeof lib.broken_text];
    if (lib.broken)
        return; /* the first reason stands */
    snprintf(whole, sizeof whole, "%s%s", text, code == MT_ECONN ? what_to_do : "");
    lib_broken_set(code, whole);
    if (lib.role == LIB_WORKER) {
        if (lib.own.run.number == 0 && lib.own.completed == 0)
            lib_unable(lib.socket, code, text);
        _exit(1); /* a worker without its raylet has no reason to live */
    }
    lib_wake_all(&lib.followers);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * ends.h - what a slot notes of the trials that end in it, beside the sweep's journal.
 *
 *   FOLDER/ends/NAME   one a slot's process: made, empty, by the driver that hires it; appended to by the slot; read by the driver
 *                      when the slot has died, or by the next driver; removed when all of it is in the journal
 *
 * Between the return of a trial's function and the commit that says so lie a message, the driver and an fsync. A kill in that time
 * would make the function return twice. So the slot notes the end itself, by one write(2) right behind the return: what write(2)
 * has taken survives the death of every process, though not that of the machine. With an end come all reports of its attempt, since
 * the last of them may be missing in the journal as well.
 *
 * A slot whose machine does not have the folder finds no file, and notes nothing.
 *
 *   head    struct mt_tail: what the process printed last, which the slot has mapped
 *   chunk   u32 size | u32 is_last | u64 sum | size bytes: messages of wire.h, REPORT ...; in an attempt's last chunk then FINISHED
 *
 * Thread: a log belongs to whoever holds its slot's mutex; the rest to the driver's thread.
 */
#ifndef SWP_ENDS_H
#define SWP_ENDS_H

#include "core/base/buf.h"
#include "core/sys/tail.h"
#include "sweep/trial/left.h"
#include "sweep/trial/wire.h"

#include <stdbool.h>
#include <sys/types.h>

/* ---- the slot's side ---- */

struct swp_ends {
    int             fd;          /* -1: nothing is noted */
    mt_buf          chunk;       /* its messages so far */
    off_t           whole;       /* the file up to here is its head, and attempts that are noted as a whole */
    bool            is_skipping; /* the attempt that runs has lost a part of its notes */
    bool            is_noted;    /* the newest end is in the kernel's hands */
    struct mt_tail *tail;        /* in the file, for the life of this process; NULL: there is none */
};
/* Takes the file, which its driver has made, and holds its lock as long as this process lives. */
void swp_ends_open(struct swp_ends *ends, const char *path);
void swp_ends_close(struct swp_ends *ends);
/* A REPORT or FINISHED; with the latter the attempt's notes are complete, and in the kernel's hands when this returns. Where the
 * disk refuses, this attempt is not noted, and what there is of it is taken back; the next one is noted if there is room. */
void swp_ends_note(struct swp_ends *ends, const struct swp_wire *m);

/* ---- the driver's side ---- */

/* Makes the file for a slot that will be hired. Where that fails the slot notes nothing. */
void swp_ends_make(const char *path);

/* What the process printed last, since its newest trial began; "" where nothing is known. */
void swp_ends_tail(const char *path, char *out, size_t size);

/* Hands out each attempt whose end is in the file, in order; what is cut off or damaged ends it. The first failure of `fn` is
 * returned. No file: nothing. */
typedef mt_status (*swp_ends_fn)(void *user, const struct swp_left *left);
MT_MUST_USE mt_status swp_ends_read(const char *path, int slot, swp_ends_fn fn, void *user);
/* The same for all files of a sweep that has no driver yet, each when its process is gone; waits for those up to
 * MT_SWEEP_ENDS_WAIT_MS in all. */
MT_MUST_USE mt_status swp_ends_read_all(const char *folder, swp_ends_fn fn, void *user);
/* Removes them: all is in the journal. */
void swp_ends_clear(const char *folder);

#endif

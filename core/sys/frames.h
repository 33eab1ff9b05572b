/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.h - where a thread is that a signal has interrupted, in words: who crashes, or is asked, says so in the handler.
 *
 * Nothing here allocates or takes a lock, except for what can't be read (mt_frames_write). Thread: whichever gets the signal.
 */
#ifndef MT_FRAMES_H
#define MT_FRAMES_H

#include <stdbool.h>

enum { MT_FRAMES_MAX = 64 };

struct mt_frames {
    void *at[MT_FRAMES_MAX]; /* the innermost first */
    int   count;
    bool  is_exact; /* the first is where the thread was; all others are where calls return to, behind the call */
};

/* Loads what the others need: a crashing process can't. */
void mt_frames_load(void);

/* Of the thread that runs this handler, with the handler's third argument; its own frames are left out. */
void mt_frames_take(struct mt_frames *f, const void *context);

/* A line each, in the form of backtrace_symbols_fd: PROGRAM(FUNCTION+0xOFFSET)[0xADDRESS]. The function's name is that of the
 * symbol table in the file, looked for at most MT_FRAMES_MS. Frames of a file that is not there any more, or is another one by now,
 * are left to backtrace_symbols_fd itself, which knows the loader's names only and takes the loader's lock. */
void mt_frames_write(const struct mt_frames *f, int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * said.h - what a program writes to its standard error before it has greeted as a zygote. Loop thread.
 */
#ifndef RLT_SAID_H
#define RLT_SAID_H

#include <stdbool.h>
#include <stddef.h>

struct sh;
struct sh_said;

enum { SH_SAID_SIZE = 400 };

/* Begins to listen; *out_end is the program's descriptor 2, the caller's to close. `to`: where it is passed on, borrowed for the
 * call. NULL: no descriptor or memory for it; the program is started without. */
struct sh_said *sh_said_new(struct sh *sh, int to, int *out_end);
/* The last line so far, shortened to what matters; "" where there is none. */
void sh_said_last(struct sh_said *said, char out[SH_SAID_SIZE]);
/* The system's loader says so of a program that it can't load; the line is shortened to what matters. */
bool sh_said_by_loader(char *line);
void sh_said_free(struct sh_said *said); /* NULL: nothing */

#endif

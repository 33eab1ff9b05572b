/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.h - what a notice file says: the machine goes, and when. Thread: any; nothing is kept.
 */
#ifndef RLT_NOTICE_H
#define RLT_NOTICE_H

#include <stdint.h>

enum {
    RLT_NOTICE_SIZE = 1024,             /* more of a notice is not read, its 0 included */
    RLT_NOTICE_S_MAX = 366 * 24 * 3600, /* a number of more seconds is none */
};

/* When the machine goes, in ms since 1970; 0: the text says nothing of that. The first of these that stands in it:
 *   "120"                    so many seconds after it was written (the whole text, but for blanks)
 *   2026-11-23T18:00:00Z     that time, wherever it stands: so the answer of EC2's spot/instance-action is taken as it is */
uint64_t rlt_notice_time(const char *text, uint64_t written_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * message.h - process to process: messages, and the news of a death.
 */
#ifndef CTL_MESSAGE_H
#define CTL_MESSAGE_H

#include "core/wire/ctl/kind.h"

struct ctl_message {
    uint64_t process; /* up: to; down: from */
    uint32_t node;
    uint32_t subject; /* the library's own (clients/lib/owner/state/message.h) */
};
struct ctl_bounce {
    int32_t  code; /* MT_EOWNER_DIED, MT_ENODE_DIED, MT_EAGAIN (a bound) */
    uint32_t subject;
    uint64_t process;
};

struct ctl_monitor {
    uint64_t process; /* 0: the node itself */
    uint32_t node;
    uint32_t reserved;
};
struct ctl_death {
    uint64_t process;
    uint32_t node;
    int32_t  code; /* MT_EWORKER_DIED, MT_ENODE_DIED */
    int32_t  status;
    int32_t  pid;
    char     text[CTL_TEXT_SIZE * 4]; /* which, where, why */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * kind.h - the kinds of message, which way each goes, and the sizes of what it carries.
 */
#ifndef CTL_KIND_H
#define CTL_KIND_H

#include "core/base/release.h"
#include "core/lane/record.h"

enum {
    CTL_MAGIC = 0x61746e6d, /* "mnta" */
    CTL_NAME_SIZE = 64,
    CTL_TEXT_SIZE = 512,
    CTL_HELLO_STRINGS_MAX = 128 * 1024, /* argv, environment and working directory of a driver */
    CTL_RESOURCES = 8,
    CTL_MESSAGE_MAX = LANE_RECORD_MAX - LANE_RECORD_SIZE - 64,
    CTL_FDS_MAX = 5,
    CTL_PRINTED_NODES_MAX = 1024,
};

enum ctl_role { CTL_DRIVER = 1, CTL_ZYGOTE = 2, CTL_WORKER = 3 };

/* kind            way          direction            payload */
enum ctl_kind {
    CTL_HELLO = 64,      /* socket  up    ctl_hello, then strings; fd: executable (driver only) */
    CTL_WELCOME = 65,    /* socket  down  ctl_welcome */
    CTL_FORK = 66,       /* socket  down  to the zygote: ctl_fork; fds: [0] the child's socket, [1] where it
                                            prints, if that is not where the zygote does */
    CTL_FORKED = 67,     /* socket  up    from the zygote: ctl_forked; fd: pidfd of the child */
    CTL_CHILD_EXIT = 68, /* socket  up    from the zygote: ctl_child_exit */

    CTL_CLASS = 70,         /* ring    up    ctl_class: defines a scheduling class before its first demand */
    CTL_DEMAND = 71,        /* ring    up    ctl_demand: a level, newest version wins */
    CTL_GRANT = 72,         /* socket  down  ctl_grant; fds: [0] lane, [1] peer's park page, the one with the
                                            number record.slot there: a lease, to its owner */
    CTL_LANE = 73,          /* socket  down  ctl_grant; same fds: the same lease, to its worker */
    CTL_RECALL = 74,        /* ring    down  ctl_lease: to owner and worker (the lane's recall word is already set) */
    CTL_DRAINED = 75,       /* ring    up    ctl_lease: the worker has written LANE_END and forgets the lane */
    CTL_ENDED = 76,         /* ring    down  ctl_ended: to the owner; drain the completion ring, then read the claims */
    CTL_UNSCHEDULABLE = 77, /* ring  down  ctl_unschedulable */
    CTL_BLOCKED = 78,       /* ring    up    no payload: the worker waits inside a task; its CPUs are free */
    CTL_UNBLOCKED = 79,     /* ring    up    no payload */
    CTL_KILL = 80,          /* ring    up    ctl_lease: the owner wants the worker killed (actor kill, forced cancel) */
    CTL_LANE_WANT = 81,     /* ring    up    ctl_lane_want: a lane to the worker that holds an actor of somebody else;
                                           answered by CTL_GRANT (id of the request) or CTL_REPLY with an error */
    CTL_LANE_DROP = 82,     /* ring    up    ctl_lease: the caller is done with such a lane; an owner has no use for a lease */

    CTL_SEGMENT_WANT = 90, /* ring   up    ctl_segment: size wanted; answered by CTL_SEGMENT or CTL_REPLY */
    CTL_SEGMENT_MAP = 91,  /* ring   up    ctl_segment: which one to read; answered likewise */
    CTL_SEGMENT = 92,      /* socket down  ctl_segment; fds: [0] data (rw for the writer only), [1] generations */
    CTL_OBJECT_DEAD = 93,  /* ring   up    lane_ref: its owner will never name it again */
    CTL_SPACE_BACK = 94,   /* ring   down  ctl_space: the place may be written again */
    CTL_PULL = 95,         /* ring   up    lane_ref on another node, or of a value that a pin has not found here (it may be on
                                           disk); answered by CTL_HERE or CTL_REPLY with an error */
    CTL_HERE = 96,         /* ring   down  lane_ref of the local copy */
    CTL_SEGMENT_BACK = 97, /* ring   up    ctl_segment: its writer has nothing in it any more, and unmapped it */

    CTL_SEGMENT_ASK = 98, /* ring   down  ctl_segment: give it back, if nothing of yours stands in it (CTL_SEGMENT_BACK) */

    CTL_MOVED = 99, /* ring   both  ctl_moved: down, to the owner of a value that is at another place now; up, its answer */

    CTL_SEEK =
        111, /* ring   both  ctl_moved: up, its owner can't have the value at `from`: other nodes may have copies; answered by
                                           CTL_MOVED, or down, by this: none has */

    CTL_MESSAGE = 100,     /* ring    both  ctl_message, then bytes: process to process, through the raylets */
    CTL_BOUNCE = 101,      /* ring    down  ctl_bounce: a message could not be delivered; id is the message's */
    CTL_MONITOR = 102,     /* ring    up    ctl_monitor: tell me when it dies (at once, if it is dead already) */
    CTL_DEMONITOR = 103,   /* ring    up    no payload; id of the monitor */
    CTL_DEATH = 104,       /* ring    down  ctl_death; id of the monitor, which is spent */
    CTL_REQUEST = 105,     /* ring    up    ctl_request, then bytes: to the head */
    CTL_REPLY = 106,       /* ring    down  ctl_reply, then bytes: the answer to any request */
    CTL_REGION_WANT = 107, /* ring   up    ctl_region_want, or its ctl_segment alone: shared memory that all who know its number may
                                           write (segment 0: a new one of that size; LANE_BOARD_FAR: the one that the job has here
                                           for that owner, a new one where it has none; else: map that one) */
    CTL_REGION = 108,      /* socket  down  ctl_segment; fd: [0] read-write */
    CTL_REGION_DROP = 109, /* ring   up    ctl_segment: freed when every member has dropped it or is dead */
    CTL_SHUTDOWN = 110,    /* ring    both  ctl_reply with a reason: down, the raylet ends; up, the process leaves */

    CTL_LOOK = 126,         /* ring    down  lane_look (look.h): tell of your tasks or actors */
    CTL_LOOKED = 127,       /* ring    up    lane_looked, then rows; id of the question */
    CTL_PRINTED = 128,      /* ring    up    no payload, from a driver: what its workers on this node have printed is to come first;
                                            answered by CTL_REPLY, then the other nodes that have had workers of it (uint32_t) */
    CTL_ENV = 133,          /* socket  up    ctl_env, then strings; fd: archive of its files, if it has any: defines a
                                           runtime environment of the job; answered by CTL_REPLY in the ring */
    CTL_DETACH = 180,       /* socket  up    ctl_request (CTL_OP_ACTOR_NEW), ctl_detached, its bytes; fd: values that are too large
                                           for those; answered by CTL_REPLY in the ring */
    CTL_PROGRAM_FILE = 135, /* socket up   ctl_program_file, from a driver before CTL_HELLO; fd: a library of its program; none: the
                                           program itself, whose descriptor comes with CTL_HELLO */
    CTL_ZYGOTE_FAILED = 134, /* socket up  from a zygote or a new worker: ctl_reply: why it cannot serve; it leaves */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl.h - what a process and its raylet say to each other.
 *
 * Two ways, one format. Every message is a struct lane_record whose payload is the struct named beside its kind (ctl/kind.h):
 *   ring    in the up or down ring of the process's control lane: everything without descriptors.
 *   socket  one SOCK_SEQPACKET message on the unix socket, with descriptors (SCM_RIGHTS): the handshake and whatever
 *           gives memory. The raylet then adds 1 to park->socket_count and wakes the process; the process reads the
 *           socket until EAGAIN whenever the count has changed.
 * The two are not ordered against each other: a receiver that meets a lease it has not been given yet keeps the record.
 *
 * Request and reply: `record.id` is made by the one who asks; the reply carries the same id. A request that is repeated
 * with its id has the effect of one. Texts in fixed arrays are NUL-terminated; a reader forces that.
 *
 * Start of a process:
 *   driver   connects to <runtime>/raylet.sock, sends CTL_HELLO (with a descriptor of its executable)
 *   zygote   is started by the raylet with its socket in MANTA_FD and MANTA_ROLE=zygote; sends CTL_HELLO
 *   worker   is forked by the zygote on CTL_FORK (which brings its socket); sends CTL_HELLO
 *   raylet   answers CTL_WELCOME with descriptors: [0] control lane, [1] its park page, [2] pin table (all read-write),
 *            and [3] the park page of the switch, to wake it when the up ring has news (a zygote gets none of them);
 *            [4] to a worker, where events are kept: its ring of them (event.h);
 *            `record.slot`: which page of [1] is its own, since park pages of several processes are one memory;
 *            on a refusal code != 0 and no descriptors, then it closes.
 */
#ifndef LANE_CTL_H
#define LANE_CTL_H

#include "core/wire/ctl/group.h"
#include "core/wire/ctl/head.h"
#include "core/wire/ctl/kind.h"
#include "core/wire/ctl/lease.h"
#include "core/wire/ctl/memory.h"
#include "core/wire/ctl/message.h"
#include "core/wire/ctl/start.h"

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c - what must hold between two limits, of one area or of two. No code: a build that breaks a rule fails here.
 */
#include "core/base/limits/cli.h"
#include "core/base/limits/env.h"
#include "core/base/limits/gang.h"
#include "core/base/limits/head.h"
#include "core/base/limits/lib.h"
#include "core/base/limits/net.h"
#include "core/base/limits/object.h"
#include "core/base/limits/raylet.h"
#include "core/base/limits/sweep.h"
#include "core/base/limits/text.h"
#include "core/base/limits/train.h"

#include <assert.h>

static_assert((int)MT_HEAD_LIST_BYTES_MAX < (int)MT_CONTROL_BYTES_MAX, "a list of jobs fits into a message");
static_assert(MT_HEAD_PAUSE_MS > 2 * MT_HEAD_TICK_MS, "ticks as planned are no pause");
static_assert(MT_HEAD_PROMISE_MS_MAX > MT_HEAD_PROMISE_MS + MT_RLT_BEAT_MS, "a report comes before a promise ends");
static_assert(MT_RLT_PEER_BEAT_MS * 3 < MT_NODE_SUSPECT_MS, "two lost beats make nobody suspect");
static_assert(MT_RLT_BEAT_MS + MT_RLT_BEAT_TRIES * MT_RLT_BEAT_WAIT_MS < MT_NODE_SUSPECT_MS - 300,
              "where no datagram is answered a report is there before the node is suspect");
static_assert(MT_STRICT_LEASE_MS < MT_NODE_DEAD_MS && MT_STRICT_LEASE_MS >= 3 * MT_RLT_BEAT_MS,
              "strict: frozen before the node is dead, not by two lost beats");
static_assert((int)MT_HEAD_VIEW_JOIN_MS_MAX < (int)MT_NODE_SUSPECT_MS,
              "who fetches from a node that has just joined waits so long for its news");
static_assert(MT_STRICT_WAIT_MS > MT_STRICT_LEASE_MS + MT_HEAD_VIEW_MS_MAX, "strict: the news are there, the lease is over");
static_assert(MT_FRAMES_MS < MT_RLT_STACK_MS, "a stack has its names before the raylet stops waiting for it");
static_assert(MT_FRAMES_MS < MT_CRASH_MS, "who crashes first has its names before another thread ends the process");
static_assert(MT_RLT_SLICE_MS < MT_RLT_BEAT_MS, "a class is served in turns between two reports");
static_assert(MT_CONN_STRANGER_MS_MIN >= 2 * MT_CONN_SWEEP_MS, "a stranger's time is measured, roughly");
static_assert(MT_BOUND_ADDRESSES >= 2 * MT_NODES_MAX, "each node has a place of its own");
static_assert((int)MT_LIB_ROOM_MS > (int)MT_ROOM_MS_MAX, "the raylet answers before its asker gives up");
static_assert(MT_SERVER_GRACE_MS < MT_CLOSE_MS_MAX, "the grace is a part of closing");

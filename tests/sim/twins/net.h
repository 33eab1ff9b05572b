/* SPDX-License-Identifier: Apache-2.0
 *
 * net.h - streams between raylets, and from each raylet to the head.
 *
 * A stream is what gRPC gives: messages arrive whole and in order, or the stream ends and nobody knows how many of the
 * last ones arrived. A cut path holds what is under way (TCP sends it again) until it heals or both ends give up.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "tests/sim/sim.h"

enum {
    SIM_HEAD = SIM_NODES_MAX, /* the head's place among the ends */
    SIM_ENDS = SIM_NODES_MAX + 1,
    SIM_DIAL_MS = 500,      /* between two attempts to reach the head */
    SIM_GIVE_UP_MS = 20000, /* a stream over a cut path ends after this */
};

struct sim_end {
    int               place;  /* index of the node, or SIM_HEAD */
    uint64_t          serial; /* of its incarnation */
    uint64_t          number; /* its name for the stream */
    bool              is_open;
    uint64_t          last_at;   /* arrival of the last message to this end */
    uint64_t          last_sent; /* when it was sent */
    struct sim_event *last;      /* its arrival; only while it is now `last_sent` */
};

struct sim_stream {
    uint64_t       serial;
    struct sim_end ends[2];  /* 0 dialled */
    bool           is_reset; /* what is under way is lost */
};

struct sim_net {
    mt_map   streams;                       /* serial -> sim_stream */
    uint64_t cut_until[SIM_ENDS][SIM_ENDS]; /* from, to */
    uint64_t slow_until[SIM_ENDS];
};

/* Cuts the path in that direction for a while. */
void sim_net_cut(struct sim *s, int from, int to, uint64_t for_ns);
/* How long something sent now is under way; until when that direction is cut. Without a network: nothing, never. */
uint64_t sim_net_delay(struct sim *s, int from, int to);
uint64_t sim_net_cut_until(const struct sim *s, int from, int to);
void     sim_net_slow(struct sim *s, int place, uint64_t for_ns);
/* Ends a random stream; what is under way is lost. False: there is none. */
bool sim_net_reset_one(struct sim *s);
void sim_net_heal(struct sim *s);
/* All streams of an incarnation end: it has died. */
void sim_net_end_died(struct sim *s, int place, uint64_t serial);
/* The head sends, or ends, a stream by its own number. */
void     sim_net_head_send(struct sim *s, uint64_t number, const uint8_t *bytes, size_t size);
void     sim_net_head_close(struct sim *s, uint64_t number);
uint64_t sim_net_head_peer(struct sim *s, uint64_t number); /* serial of the raylet at the other end; 0: none */

/* ---- shells/head.c ---- */
bool     sim_head_is_up(const struct sim *s);
void     sim_head_check_views(struct sim *s); /* I16 */
uint64_t sim_head_serial(const struct sim *s);
uint64_t sim_head_stream_opened(struct sim *s); /* returns the head's number for it */
void     sim_head_message(struct sim *s, uint64_t number, const uint8_t *bytes, size_t size);
void     sim_head_stream_closed(struct sim *s, uint64_t number);
void     sim_head_count(struct sim *s); /* at the end: what this head has seen goes into the counters */
void     sim_head_new(struct sim *s);
void     sim_head_free(struct sim *s);
void     sim_head_crash(struct sim *s);
void     sim_head_start(struct sim *s);
/* It crashes between two actions of a step, after so many. */
void sim_head_plan_crash(struct sim *s, uint32_t actions);
/* Whether it is down and nobody has planned its restart; now somebody has. */
bool sim_head_wants_restart(struct sim *s);
void sim_head_pause(struct sim *s, uint64_t for_ns);
bool sim_head_knows_job(const struct sim *s, const char *id);
void sim_head_fill(struct sim *s, uint64_t for_ns, bool has_reserve);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.h - door: links and the streams that carry them, for who hears what comes in by them (hear.c). Private to raylet/core/.
 */
#ifndef RLT_STREAMS_H
#define RLT_STREAMS_H

#include "raylet/core/links/links.h"

struct rlt_peer   *rlt_peer_find(const struct rlt *r, uint32_t node); /* NULL: none */
struct rlt_peer   *rlt_peer_of(struct rlt *r, uint32_t node, uint32_t epoch);
void               rlt_link_begin(struct rlt *r, struct rlt_peer *p, uint64_t number); /* 0: draws one */
void               rlt_peer_pump(struct rlt *r, struct rlt_peer *p);                   /* sends what may go out now */
void               rlt_peer_dial(struct rlt *r, struct rlt_peer *p); /* not sooner than a beat after the last time */
struct rlt_link    rlt_peer_unlink(struct rlt *r, struct rlt_peer *p);
struct rlt_stream *rlt_stream_find(const struct rlt *r, uint64_t stream); /* NULL: none */
void               rlt_stream_opened(struct rlt *r, uint64_t stream);
void               rlt_stream_offer(struct rlt *r, struct rlt_stream *s);
/* Opened beside the one that carries the link, which has said nothing since: the other end has just spoken by it for the first
 * time. Until then nothing is sent again by it, since to one that is only slow all of that comes twice. */
bool rlt_stream_answers(const struct rlt *r, const struct rlt_stream *s);
void rlt_stream_forget(struct rlt *r, struct rlt_stream *s);
void rlt_stream_drop(struct rlt *r, struct rlt_stream *s);       /* closes it, too */
void rlt_peer_without_stream(struct rlt *r, struct rlt_peer *p); /* another one carries on, or it is dialled */
void rlt_frame_send(struct rlt *r, struct rlt_peer *p, uint64_t stream, const struct link_frame *f); /* NULL: a sign of life */
void rlt_ack_later(struct rlt *r, struct rlt_peer *p);
void rlt_close_spares(struct rlt *r, struct rlt_peer *p);

#endif

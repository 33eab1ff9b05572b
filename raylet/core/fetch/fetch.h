/* SPDX-License-Identifier: Apache-2.0
 *
 * fetch.h - something that another node sends piece by piece: the one way for greetings, programs and environments.
 *
 * Thread: the logic loop only; nothing blocks.
 */
#ifndef RLT_FETCH_H
#define RLT_FETCH_H

#include "raylet/core/state/state.h"

enum rlt_fetch_news {
    RLT_FETCH_OTHER, /* not what is on its way, or not the next piece of it: nothing was taken */
    RLT_FETCH_PIECE,
    RLT_FETCH_WHOLE, /* that was the last one; nothing is on its way any more. `bytes` is the caller's to take */
};

/* Asks for it from its begin. False: that node is dead, nothing is on its way. */
bool rlt_fetch_start(struct rlt *r, struct rlt_fetch *f, uint32_t node, const struct peer_file *what);
/* A piece that has come. memory_max: gathered in f->bytes, if it is no larger than that; 0: given to the shell, which holds it
 * against `sha256` (RLT_EV_FILE_READY when it is whole). */
enum rlt_fetch_news rlt_fetch_take(struct rlt *r, struct rlt_fetch *f, const struct peer_file_chunk *c, const uint8_t *bytes,
                                   uint64_t memory_max, const uint8_t sha256[32]);
/* It is not wanted any more: what the shell or memory has of it goes. */
void rlt_fetch_stop(struct rlt *r, struct rlt_fetch *f);

/* A window of it to another node, from memory. */
void rlt_fetch_send_memory(struct rlt *r, uint32_t node, const struct peer_file_want *want, const void *all, uint64_t total);
/* The same out of a file: the shell reads, RLT_EV_FILE_BYTES sends. */
void rlt_fetch_send_file(struct rlt *r, uint32_t node, const struct peer_file_want *want, int fd);
void rlt_fetch_send_none(struct rlt *r, uint32_t node, const struct peer_file *what);
void rlt_fetch_bytes(struct rlt *r, const struct rlt_ev_file_bytes *e);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * query.h - causal attention of one query of one head, in double, whatever the type of its numbers is.
 *
 * float32 and bfloat16 share the forward pass. Their backward passes round in different places: each file has its own.
 * Owns nothing. Thread: any.
 */
#ifndef K_QUERY_H
#define K_QUERY_H

#include <stddef.h>

/* All queries of one call. `numbers` are of the caller's type, which only `read` and `write` know. */
struct k_queries {
    const void *qkv; /* batch x time x 3 width */
    void       *out; /* batch x time x width */
    float      *lse; /* batch x heads x time */
    size_t      batch, time, heads, width;
    double (*read)(const void *numbers, size_t index);
    void (*write)(void *numbers, size_t index, double value);
    const void *user; /* the caller's */
};

/* Those of a struct k_attention or k_half_attention, which name their parts alike. */
#define K_QUERIES(of, reads, writes) \
    { \
        .qkv = (of)->qkv, .out = (of)->out, .lse = (of)->lse, .batch = (of)->batch, .time = (of)->time, .heads = (of)->heads, \
        .width = (of)->width, .read = (reads), .write = (writes), .user = (of) \
    }

struct k_query {
    const struct k_queries *all;
    size_t                  width, sample, head, at; /* width: of a head */
    double                  scale;
};

/* Calls `visit` for each query in turn: samples, their heads, their positions. */
void k_queries_each(const struct k_queries *all, void (*visit)(const struct k_query *query));
/* Where in qkv the query (part 0), key (1) or value (2) of a position begins. Where in `out` this query's row does, and where its
 * number in `lse` is. */
size_t k_query_row(const struct k_query *query, size_t position, size_t part);
size_t k_query_out(const struct k_query *query);
size_t k_query_lse(const struct k_query *query);
/* Sum of the products of `width` numbers of a from a_at on and of b from b_at on. */
double k_query_dot(const struct k_query *query, const void *a, size_t a_at, const void *b, size_t b_at);
double k_query_score(const struct k_query *query, size_t key);
/* Writes the query's row of `out`, and its lse. */
void k_query_forward(const struct k_query *query);

#endif

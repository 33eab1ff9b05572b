/* SPDX-License-Identifier: Apache-2.0
 *
 * query.c - see query.h.
 */
#include "kernels/reference/query.h"

#include <math.h>

void k_queries_each(const struct k_queries *all, void (*visit)(const struct k_query *query))
{
    struct k_query q = {.all = all, .width = all->width / all->heads};
    q.scale = 1.0 / sqrt((double)q.width);
    for (q.sample = 0; q.sample < all->batch; q.sample++)
        for (q.head = 0; q.head < all->heads; q.head++)
            for (q.at = 0; q.at < all->time; q.at++)
                visit(&q);
}

size_t k_query_row(const struct k_query *q, size_t position, size_t part)
{
    return (q->sample * q->all->time + position) * 3 * q->all->width + part * q->all->width + q->head * q->width;
}

size_t k_query_out(const struct k_query *q)
{
    return (q->sample * q->all->time + q->at) * q->all->width + q->head * q->width;
}

size_t k_query_lse(const struct k_query *q)
{
    return (q->sample * q->all->heads + q->head) * q->all->time + q->at;
}

double k_query_dot(const struct k_query *q, const void *a, size_t a_at, const void *b, size_t b_at)
{
    double sum = 0;
    for (size_t i = 0; i < q->width; i++)
        sum += q->all->read(a, a_at + i) * q->all->read(b, b_at + i);
    return sum;
}

double k_query_score(const struct k_query *q, size_t key)
{
    return k_query_dot(q, q->all->qkv, k_query_row(q, q->at, 0), q->all->qkv, k_query_row(q, key, 1)) * q->scale;
}

void k_query_forward(const struct k_query *q)
{
    const struct k_queries *a = q->all;
    double                  largest = k_query_score(q, 0), sum = 0;
    for (size_t key = 1; key <= q->at; key++)
        largest = fmax(largest, k_query_score(q, key));
    for (size_t key = 0; key <= q->at; key++)
        sum += exp(k_query_score(q, key) - largest);
    double lse = largest + log(sum);
    for (size_t c = 0; c < q->width; c++) {
        double value = 0;
        for (size_t key = 0; key <= q->at; key++)
            value += exp(k_query_score(q, key) - lse) * a->read(a->qkv, k_query_row(q, key, 2) + c);
        a->write(a->out, k_query_out(q) + c, value);
    }
    a->lse[k_query_lse(q)] = (float)lse;
}

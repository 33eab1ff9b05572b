/* SPDX-License-Identifier: Apache-2.0
 *
 * bound.c - see bound.h.
 *
 * A fixed table in sets of WAYS: an address stands in the set that its hash names, which nobody can foresee. What is put out for
 * a new one is what says nothing any more: a bucket that is full again, or what was known too long ago. Where a set has none, the
 * new address shares a bucket with all others in its case. So whoever has many addresses fills the table, and harms none in it.
 * The table is large and untouched memory: it costs what it holds.
 */
#include "core/io/listen/bound.h"

#include "core/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, SETS = MT_BOUND_ADDRESSES / WAYS, FULL = MT_BOUND_BURST * 1000 };

static_assert((SETS & (SETS - 1)) == 0, "a mask picks the set");

struct bucket {
    uint64_t at_ms; /* when `level` was right */
    uint32_t level; /* thousandths of a connection */
};

struct entry {
    struct io_origin from; /* of a bucket in IPv6: the network */
    enum { UNUSED, BUCKET, KNOWN } kind;
    struct bucket bucket;
    uint64_t      until_ms; /* KNOWN */
};

struct io_bound {
    uint64_t      seed[2];
    struct bucket spoken;   /* for those past the bound of their address that have sent their greeting */
    struct bucket homeless; /* for those whose address finds no place in the table */
    struct entry  table[SETS][WAYS];
};

struct io_origin io_origin_of(const struct sockaddr *address)
{
    struct io_origin    o = {{0}};
    struct sockaddr_in  in4;
    struct sockaddr_in6 in6;
    if (address->sa_family == AF_INET) {
        memcpy(&in4, address, sizeof in4);
        o.bytes[10] = o.bytes[11] = 0xff;
        memcpy(o.bytes + 12, &in4.sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&in6, address, sizeof in6);
        memcpy(o.bytes, &in6.sin6_addr, sizeof o.bytes);
    }
    return o;
}

mt_status io_bound_new(struct io_bound **out_bound)
{
    struct io_bound *b = calloc(1, sizeof *b);
    if (!b)
        return mt_error(MT_ENOMEM, 0, "bound of connections");
    mt_status st = mt_random_bytes(b->seed, sizeof b->seed);
    if (st.code) {
        free(b);
        return st;
    }
    b->spoken.level = b->homeless.level = FULL;
    *out_bound = b;
    return st;
}

void io_bound_free(struct io_bound *bound)
{
    free(bound);
}

static void bucket_refill(struct bucket *b, uint64_t now_ms)
{
    uint64_t passed = now_ms > b->at_ms ? now_ms - b->at_ms : 0, room = FULL - b->level;
    if (passed > room / MT_BOUND_PER_S) /* a millisecond brings MT_BOUND_PER_S thousandths */
        b->level = FULL;
    else
        b->level += (uint32_t)(passed * MT_BOUND_PER_S);
    if (now_ms > b->at_ms)
        b->at_ms = now_ms;
}

static bool bucket_take(struct bucket *b, uint64_t now_ms)
{
    bucket_refill(b, now_ms);
    if (b->level < 1000)
        return false;
    b->level -= 1000;
    return true;
}

static struct entry *set_of(const struct io_bound *b, const struct io_origin *from)
{
    uint64_t half[2];
    memcpy(half, from->bytes, sizeof half);
    mt_rng mix = {b->seed[0] ^ half[0]};
    mix.state = mt_rng_next(&mix) ^ b->seed[1] ^ half[1];
    return (struct entry *)b->table[mt_rng_next(&mix) & (SETS - 1)];
}

static struct entry *find(const struct io_bound *b, const struct io_origin *from, int kind)
{
    struct entry *set = set_of(b, from);
    for (int i = 0; i < WAYS; i++)
        if ((int)set[i].kind == kind && memcmp(&set[i].from, from, sizeof *from) == 0)
            return &set[i];
    return NULL;
}

static bool is_forgettable(struct entry *e, uint64_t now_ms)
{
    if (e->kind == BUCKET)
        bucket_refill(&e->bucket, now_ms);
    return e->kind == UNUSED || (e->kind == BUCKET ? e->bucket.level == FULL : e->until_ms <= now_ms);
}

/* A place for a new one; NULL: there is none. */
static struct entry *find_room(struct io_bound *b, const struct io_origin *from, uint64_t now_ms)
{
    struct entry *set = set_of(b, from);
    for (int i = 0; i < WAYS; i++)
        if (is_forgettable(&set[i], now_ms))
            return &set[i];
    return NULL;
}

bool io_bound_is_known(const struct io_bound *bound, const struct io_origin *from, uint64_t now_ms)
{
    const struct entry *e = find(bound, from, KNOWN);
    return e && e->until_ms > now_ms;
}

bool io_bound_take(struct io_bound *bound, const struct io_origin *from, bool has_spoken, uint64_t now_ms)
{
    struct io_origin net = *from;
    struct in6_addr  as_in6;
    if (io_bound_is_known(bound, from, now_ms))
        return true;
    memcpy(&as_in6, from->bytes, sizeof as_in6);
    if (!IN6_IS_ADDR_V4MAPPED(&as_in6))
        memset(net.bytes + 8, 0, 8);
    struct entry *e = find(bound, &net, BUCKET);
    if (!e && (e = find_room(bound, &net, now_ms)) != NULL)
        *e = (struct entry){.from = net, .kind = BUCKET, .bucket = {now_ms, FULL}};
    return bucket_take(e ? &e->bucket : &bound->homeless, now_ms) || (has_spoken && bucket_take(&bound->spoken, now_ms));
}

void io_bound_know(struct io_bound *bound, const struct io_origin *from, uint64_t now_ms)
{
    struct entry *e = find(bound, from, KNOWN), *set = set_of(bound, from);
    if (!e)
        e = find_room(bound, from, now_ms);
    for (int i = 0; i < WAYS && !e; i++)
        if (set[i].kind == BUCKET) /* who shows the token goes before who does not */
            e = &set[i];
    if (e)
        *e = (struct entry){.from = *from, .kind = KNOWN, .until_ms = now_ms + MT_BOUND_KNOWN_MS};
}

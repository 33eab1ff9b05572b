/* SPDX-License-Identifier: Apache-2.0
 *
 * halving_test.c - the pairs of every number of members, played through: each slice becomes the tree's sum at its own member and
 * then is everywhere, both sides of a pair agree, and connections and transfers are as few as promised.
 */
#include "sgd/coll/tcp/halving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = MT_GROUP_MEMBERS_MAX, PAIRS_MAX = MAX / 2 };

/* What a member has of a slice: the hash of a tree, 0: nothing. */
struct world {
    uint32_t members, steps;
    uint64_t has[MAX][MAX]; /* member, slice */
    uint32_t sent;
};

static uint64_t joined(uint64_t left, uint64_t right)
{
    return (left * 0x9e3779b97f4a7c15u ^ right) * 0xff51afd7ed558ccdu + 1; /* not the same the other way round */
}

/* As math.c's: the left part is the largest power of two below `count`. */
static uint64_t tree(uint32_t first, uint32_t count)
{
    if (count == 1)
        return first + 1;
    uint32_t left = 1u << (31 - __builtin_clz(count - 1));
    return joined(tree(first, left), tree(first + left, count - left));
}

/* The other side of a pair, which must say the same of it. */
static void agreed(const struct world *w, uint32_t rank, uint32_t step, const struct coll_pair *pair)
{
    struct coll_pair theirs[PAIRS_MAX];
    uint32_t         count = coll_halving_pairs(w->members, pair->peer, step, theirs), found = 0;
    for (uint32_t i = 0; i < count; i++)
        if (theirs[i].peer == rank && theirs[i].keep == pair->give && theirs[i].give == pair->keep) {
            assert_int_equal(theirs[i].is_left, !pair->is_left);
            assert_int_equal(pair->is_left, rank < pair->peer);
            found++;
        }
    assert_int_equal(found, 1);
}

static void step_halve(struct world *w, uint32_t step)
{
    struct world     before = *w;
    struct coll_pair pairs[PAIRS_MAX];
    for (uint32_t rank = 0; rank < w->members; rank++) {
        uint32_t count = coll_halving_pairs(w->members, rank, step, pairs);
        for (uint32_t i = 0; i < count; i++) {
            agreed(w, rank, step, &pairs[i]);
            for (uint32_t s = 0; s < w->members; s++) {
                uint32_t which = s % (2u << step);
                if (which == pairs[i].keep) {
                    uint64_t mine = before.has[rank][s], their = before.has[pairs[i].peer][s];
                    assert_true(mine && their);
                    w->has[rank][s] = pairs[i].is_left ? joined(mine, their) : joined(their, mine);
                } else if (which == pairs[i].give) {
                    assert_true(before.has[rank][s] != 0);
                    w->has[rank][s] = 0;
                    w->sent++;
                }
            }
        }
    }
}

static void step_gather(struct world *w, uint32_t step)
{
    struct world     before = *w;
    struct coll_pair pairs[PAIRS_MAX];
    for (uint32_t rank = 0; rank < w->members; rank++) {
        uint32_t count = coll_halving_pairs(w->members, rank, step, pairs);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t s = 0; s < w->members; s++)
                if (s % (2u << step) == pairs[i].give) {
                    assert_true(before.has[pairs[i].peer][s] && !before.has[rank][s]);
                    w->has[rank][s] = before.has[pairs[i].peer][s];
                    w->sent++;
                }
    }
}

static void is_the_tree(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= MAX; p++) {
        struct world w = {.members = p, .steps = coll_halving_steps(p)};
        for (uint32_t rank = 0; rank < p; rank++)
            for (uint32_t s = 0; s < p; s++)
                w.has[rank][s] = rank + 1;
        for (uint32_t step = 0; step < w.steps; step++)
            step_halve(&w, step);
        assert_int_equal(w.sent, p * (p - 1)); /* each slice p - 1 times */
        for (uint32_t rank = 0; rank < p; rank++)
            for (uint32_t s = 0; s < p; s++)
                assert_true(w.has[rank][s] == (s == rank ? tree(0, p) : 0));
        for (uint32_t step = w.steps; step-- > 0;)
            step_gather(&w, step);
        assert_int_equal(w.sent, 2 * p * (p - 1));
        for (uint32_t rank = 0; rank < p; rank++)
            for (uint32_t s = 0; s < p; s++)
                assert_true(w.has[rank][s] == tree(0, p));
    }
}

static void peers(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= MAX; p++) {
        uint32_t steps = coll_halving_steps(p);
        assert_true(1u << steps >= p && (p == 1 || 1u << (steps - 1) < p));
        for (uint32_t a = 0; a < p; a++) {
            uint64_t near = coll_halving_peers(p, a);
            assert_true(!(near >> a & 1) && (p == 64 || near >> p == 0));
            for (uint32_t b = 0; b < p; b++)
                assert_int_equal(near >> b & 1, coll_halving_peers(p, b) >> a & 1);
            if ((p & (p - 1)) == 0)
                assert_int_equal(__builtin_popcountll(near), steps);
            assert_true((uint32_t)__builtin_popcountll(near) <= (steps > 3 ? 1u << (steps - 1) : steps + 1));
        }
    }
}

/* All slices once; those of one modulus follow each other. */
static void order(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= MAX; p++) {
        uint32_t steps = coll_halving_steps(p), positions = 1u << steps;
        uint64_t seen = 0;
        for (uint32_t i = 0; i < positions; i++)
            seen |= 1ull << coll_halving_slice(p, i);
        assert_int_equal(__builtin_popcountll(seen), positions);
        for (uint32_t modulus = 1; modulus <= positions; modulus *= 2)
            for (uint32_t i = 0; i < positions; i++)
                assert_int_equal(coll_halving_slice(p, i) % modulus,
                                 coll_halving_slice(p, i / (positions / modulus) * (positions / modulus)) % modulus);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_the_tree), cmocka_unit_test(peers), cmocka_unit_test(order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

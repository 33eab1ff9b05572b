/* SPDX-License-Identifier: Apache-2.0
 *
 * sobol.c - the Sobol sequence with Joe and Kuo's direction numbers, scrambled by hashing (Owen's nested uniform scrambling in the
 * form of Laine and Karras 2011, with Burley's better mixing, JCGT 2020).
 *
 * A point is a function of its place in the sequence alone. Each coordinate has 32 bits from the sequence; scrambled ones get
 * their lower bits at random. Where constraints forbid the point, one is drawn at random instead.
 *
 * Owns:    one table of directions a parameter.
 * Thread:  one at a time.
 */
#include "sweep/sample/sobol.h"

#include "sweep/sample/method.h"
#include "sweep/sample/sobol_table.h"

enum { BITS = SWP_SOBOL_BITS };

struct sobol {
    uint32_t directions[MT_SWEEP_PARAMS_MAX][BITS];
};

/* m_1 ... m_s as published, the others by the polynomial's recurrence. */
void swp_sobol_directions(uint32_t dimension, uint32_t out[BITS])
{
    if (dimension == 0) {
        for (uint32_t i = 0; i < BITS; i++)
            out[i] = UINT32_C(1) << (BITS - 1 - i);
        return;
    }
    uint32_t degree = swp_sobol_table[dimension - 1].degree, inner = swp_sobol_table[dimension - 1].inner;
    for (uint32_t i = 0; i < BITS; i++) {
        if (i < degree) {
            out[i] = (uint32_t)swp_sobol_table[dimension - 1].m[i] << (BITS - 1 - i);
            continue;
        }
        out[i] = out[i - degree] ^ out[i - degree] >> degree;
        for (uint32_t k = 1; k < degree; k++)
            if (inner >> (degree - 1 - k) & 1)
                out[i] ^= out[i - k];
    }
}

static uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

uint32_t swp_sobol_scramble(uint32_t x, uint32_t seed)
{
    x = reverse_bits(x);
    x ^= x * 0x3d20adeau;
    x += seed;
    x *= (seed >> 16) | 1;
    x ^= x * 0x05526c56u;
    x ^= x * 0x53a22864u;
    return reverse_bits(x);
}

uint32_t swp_sobol_at(const uint32_t directions[BITS], uint32_t place)
{
    uint32_t x = 0;
    for (uint32_t bit = 0; bit < BITS && place >> bit; bit++)
        x ^= place >> bit & 1 ? directions[bit] : 0;
    return x;
}

static mt_status sobol_init(struct swp_sampler *s, struct swp_problem *out_problem)
{
    (void)out_problem;
    struct sobol *m = s->model = calloc(1, sizeof *m);
    if (!m)
        return mt_error(MT_ENOMEM, 0, "sweep: Sobol's sequence");
    uint32_t dimension = 0;
    for (uint32_t i = 0; i < swp_space_count(s->space); i++) {
        enum swp_kind kind = swp_space_param(s->space, i)->kind;
        if (kind != SWP_GRID && kind != SWP_CONSTANT)
            swp_sobol_directions(dimension++, m->directions[i]);
    }
    return mt_ok();
}

static void sobol_fini(struct swp_sampler *s)
{
    free(s->model);
}

static mt_status sobol_draw(struct swp_sampler *s, uint64_t trial, struct swp_point *point)
{
    const struct sobol    *m = s->model;
    const struct swp_point given = *point; /* its grid parameters */
    uint32_t               place = (uint32_t)(trial - s->opts.first_count);
    mt_rng                 low_bits = swp_rng_of(s->seed, trial, SWP_FOR_METHOD);
    for (uint32_t i = 0; i < swp_space_count(s->space); i++) {
        const struct swp_param *param = swp_space_param(s->space, i);
        if (param->kind == SWP_GRID)
            continue;
        uint32_t x = swp_sobol_at(m->directions[i], place);
        double   rest = 0;
        if (!s->opts.plain) {
            mt_rng seed = swp_rng_of(s->seed, i, SWP_FOR_METHOD);
            x = swp_sobol_scramble(x, (uint32_t)mt_rng_next(&seed));
            rest = swp_rng_real(&low_bits);
        }
        point->values[i] = swp_param_at(param, ((double)x + rest) * 0x1p-32);
    }
    swp_point_prune(s->space, point);
    if (swp_point_allowed(s->space, point))
        return mt_ok();
    *point = given;
    return swp_sampler_draw_random(s, trial, point);
}

const struct swp_method swp_sobol_method = {.init = sobol_init, .fini = sobol_fini, .draw = sobol_draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.c - the same graphs by bare processes that send each number as a call is sent: the METG of our lanes without our library.
 *
 * As in bare.c a process for each place, half of them on each core, and who finds nothing yields. But a number goes as a record
 * of a lane, is claimed, and is answered by an outcome: two lines of memory each way, a claim and four words of the rings. What
 * calls of actors need beyond this is the library's; what this needs beyond bare.c is the price of messages that survive a death.
 *
 * Owns: their lanes, for one graph. Thread: the main one.
 */
#include "tests/bench/metg/metg.h"

#include "core/lane/lane.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOOKS = 64, CALL_BYTES = LANE_RECORD_SIZE + 40, DONE_BYTES = LANE_RECORD_SIZE + 8 };

struct lane_out {
    struct lane_producer forward;
    struct lane_consumer back;
    shm_u64             *claims;
    uint64_t             sequence; /* of the last record; 0: nothing goes there */
};
struct lane_in {
    struct lane_consumer forward;
    struct lane_producer back;
    shm_u64             *claims;
    bool                 is_used; /* some number comes by it */
};

struct place {
    const struct metg_bare *m;
    int                     number, step, open; /* open: sent, and no outcome yet */
    int64_t                 iterations;
    uint8_t                 came[GRAPH_STEPS + 1];
    struct lane_out         out[GRAPH_WIDTH_MAX];
    struct lane_in          in[GRAPH_WIDTH_MAX];
};

struct lanes_graph {
    const struct metg_bare *m;
    uint8_t                *lanes;
    int64_t                 iterations;
    struct place            place;
};

static void give_up(void)
{
    _exit(1); /* a ring that is full, a record that is not ours, a number that is wrong */
}

static void place_open(struct place *p, uint8_t *lanes)
{
    for (int step = 1, at[GRAPH_NEEDS_MAX]; step < GRAPH_STEPS; step++)
        for (int i = graph_needs(p->m->pattern, p->m->width, step, p->number, at) - 1; i >= 0; i--)
            p->in[at[i]].is_used = at[i] != p->number;
    for (int i = 0; i < p->m->width; i++) {
        uint8_t *to = lanes + (size_t)(p->number * p->m->width + i) * LANE_BYTES;
        uint8_t *from = lanes + (size_t)(i * p->m->width + p->number) * LANE_BYTES;
        lane_producer_init(&p->out[i].forward, &lane_header_of(to)->forward, lane_forward_of(to));
        lane_consumer_init(&p->out[i].back, &lane_header_of(to)->back, lane_back_of(to));
        p->out[i].claims = lane_claims_of(to);
        lane_consumer_init(&p->in[i].forward, &lane_header_of(from)->forward, lane_forward_of(from));
        lane_producer_init(&p->in[i].back, &lane_header_of(from)->back, lane_back_of(from));
        p->in[i].claims = lane_claims_of(from);
    }
}

static void number_send(struct place *p, int to)
{
    struct lane_out   *out = &p->out[to];
    uint64_t           payload[5] = {(uint64_t)p->step + 1, (uint64_t)graph_value(p->step, p->number)};
    struct lane_record record = {.length = CALL_BYTES, .kind = LANE_CALL, .sequence = ++out->sequence};
    record.slot = (uint32_t)(record.sequence % LANE_SLOTS);
    lane_claim_set(&out->claims[record.slot], record.sequence, 0);
    if (!lane_ring_push(&out->forward, &record, payload))
        give_up();
    p->open++;
}

static void run_ready(struct place *p)
{
    int at[GRAPH_WIDTH_MAX];
    while (p->step < GRAPH_STEPS && p->came[p->step] >= graph_needs(p->m->pattern, p->m->width, p->step, p->number, at)) {
        int count = graph_feeds(p->m->pattern, p->m->width, p->step, p->number, at);
        (void)graph_work(p->iterations);
        for (int i = 0; i < count; i++)
            if (at[i] == p->number)
                p->came[p->step + 1]++;
            else
                number_send(p, at[i]);
        for (int i = 0; i < count; i++)
            lane_ring_publish(&p->out[at[i]].forward);
        p->step++;
    }
}

static void numbers_take(struct place *p, int from)
{
    struct lane_in    *in = &p->in[from];
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    while (lane_ring_peek(&in->forward, &record, &payload, &found).code == 0 && found) {
        static const uint64_t value[1];
        struct lane_record    done = {.length = DONE_BYTES, .kind = LANE_DONE, .sequence = record.sequence, .slot = record.slot};
        uint64_t              number[2];
        memcpy(number, payload, sizeof number);
        if (!lane_claim_take(&in->claims[record.slot], record.sequence, 0, LANE_RUNNING) || number[0] > GRAPH_STEPS ||
            (int64_t)number[1] != graph_value((int)number[0] - 1, from) || !lane_ring_push(&in->back, &done, value))
            give_up();
        lane_claim_finish(&in->claims[record.slot], record.sequence, 0);
        p->came[number[0]]++;
        lane_ring_consume(&in->forward);
    }
    lane_ring_release(&in->forward);
    lane_ring_publish(&in->back);
}

static void outcomes_take(struct place *p, struct lane_out *out)
{
    struct lane_record record;
    const uint8_t     *payload;
    bool               found;
    while (lane_ring_peek(&out->back, &record, &payload, &found).code == 0 && found) {
        lane_claim_clear(&out->claims[record.slot]);
        lane_ring_consume(&out->back);
        p->open--;
    }
    lane_ring_release(&out->back);
}

static void place_run(struct place *p)
{
    for (int looks = 1; p->step < GRAPH_STEPS || p->open; looks++) {
        int step = p->step;
        for (int i = 0; i < p->m->width; i++)
            if (p->in[i].is_used && lane_ring_has_more(&p->in[i].forward))
                numbers_take(p, i);
        for (int i = 0; i < p->m->width; i++)
            if (p->out[i].sequence && lane_ring_has_more(&p->out[i].back))
                outcomes_take(p, &p->out[i]);
        run_ready(p);
        if (p->step != step)
            continue;
        if (p->m->width > p->m->cores || looks % LOOKS == 0)
            sched_yield();
        else
            shm_pause();
    }
}

static void open_place(void *arg, int number)
{
    struct lanes_graph *g = arg;
    g->place = (struct place){.m = g->m, .number = number, .iterations = g->iterations};
    place_open(&g->place, g->lanes);
}

static bool run_place(void *arg, int number)
{
    struct lanes_graph *g = arg;
    (void)number;
    place_run(&g->place);
    return true;
}

double metg_lanes_run(void *arg, int64_t iterations)
{
    static struct lanes_graph g; /* each process has its own copy, and its own place */
    const struct metg_bare   *m = arg;
    size_t                    bytes = (size_t)m->width * (size_t)m->width * LANE_BYTES; /* only what is touched costs memory */
    uint8_t                  *lanes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lanes == MAP_FAILED)
        return -1;
    g.m = m, g.lanes = lanes, g.iterations = iterations;
    double seconds = metg_together(&(struct metg_crew){m->width, open_place, run_place, &g});
    munmap(lanes, bytes);
    return seconds;
}

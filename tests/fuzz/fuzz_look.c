/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_look.c - questions about a node: orders of the head that say anything (cursors, filters, kinds), and processes that
 * answer with rows which are none.
 *
 * The code itself is raylet/shell/look; what it asks the rest of the shell for is small enough to be here.
 */
#include "raylet/shell/links/links.h"
#include "raylet/shell/look/look.h"
#include "raylet/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum { STEPS_MAX = 64, FILTERS_MAX = 3, TEXT_MAX = 80, PROCESS = 7, CONN = 9, ANSWER_MAX = 512 };

struct input {
    const uint8_t *at, *end;
};

static struct world {
    struct sh        sh;
    struct sh_conn   conn;
    struct input     in;
    mt_id            asked; /* the last question to the process */
    uint64_t         now_ms;
    struct io_timer *timer;
    uint64_t         orders, answers;
} * world;

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes && in->at < in->end; i++)
        x = x << 8 | *in->at++;
    return x;
}

/* ---- the rest of the shell ------------------------------------------------------------------------------------------ */

uint64_t io_now_ms(void)
{
    return world->now_ms;
}

void io_timer_start(struct io_loop *loop, struct io_timer *timer, uint64_t timeout_ms)
{
    (void)loop;
    (void)timeout_ms;
    world->timer = timer;
}

void io_timer_stop(struct io_timer *timer)
{
    (void)timer;
    world->timer = NULL;
}

struct sh_conn *sh_conn_find(const struct sh *sh, uint64_t conn)
{
    (void)sh;
    return conn == CONN ? &world->conn : NULL;
}

void sh_switcher_act(struct sh *sh, const struct rlt_action *a, void *lane)
{
    const struct lane_record *record = &a->sw_down.record;
    (void)sh;
    (void)lane;
    if (a->kind != RLT_A_SW_DOWN || a->sw_down.conn != CONN || record->kind != CTL_LOOK ||
        record->length != LANE_RECORD_SIZE + sizeof(struct lane_look))
        abort();
    world->asked = record->id;
}

/* Each order is answered once, with rows that are whole. */
void sh_head_answer(struct sh *sh, uint64_t number, Manta__V1__QueryReply *reply)
{
    struct mt_rows_reader reader;
    mt_status             st;
    (void)sh;
    if (number > world->orders || reply->n_columns > 64)
        abort();
    st = mt_rows_read(&reader, mt_view_of(reply->rows.data, reply->rows.len), reply->n_columns, reply->count);
    while (st.code == 0)
        st = mt_rows_next(&reader);
    mt_rows_read_fini(&reader);
    if (st.code != MT_ENOENT)
        abort();
    world->answers++;
}

mt_status sh_events_rows(struct sh *sh, const struct lane_look *look, uint32_t rows_max, uint64_t *ring, uint64_t *number,
                         struct mt_rows *rows, bool *out_more)
{
    (void)sh, (void)look, (void)rows_max, (void)ring, (void)number, (void)rows;
    *out_more = false;
    return mt_ok();
}

static mt_status tell_nothing(struct sh_page *page)
{
    page->has_more = take(&world->in, 1) % 4 == 0;
    return take(&world->in, 1) % 8 ? mt_ok() : mt_error(MT_ENOMEM, 0, "nothing to tell");
}

mt_status sh_tell_workers(struct sh *sh, struct sh_page *page)
{
    (void)sh;
    return tell_nothing(page);
}
mt_status sh_tell_demands(struct sh *sh, struct sh_page *page)
{
    (void)sh;
    return tell_nothing(page);
}
mt_status sh_tell_objects(struct sh *sh, struct sh_page *page)
{
    (void)sh;
    return tell_nothing(page);
}
mt_status sh_tell_node(struct sh *sh, struct sh_page *page)
{
    (void)sh;
    return tell_nothing(page);
}

void sh_stacks(struct sh *sh, uint64_t number, const struct lane_look *look, struct sh_cursor at)
{
    (void)look, (void)at;
    sh_look_refuse(sh, number, MT_EUNSUPPORTED, "no stacks here");
}

void rlt_each_proc(const struct rlt *r, void (*fn)(void *user, const struct rlt_proc_view *view), void *user)
{
    struct rlt_proc_view view = {.process = PROCESS, .conn = CONN, .pid = 1, .is_owner = true};
    (void)r;
    fn(user, &view);
}

bool rlt_class_look(const struct rlt *r, uint64_t owner, uint32_t class_id, struct rlt_class_view *out)
{
    (void)r, (void)owner;
    memset(out, 0, sizeof *out);
    return class_id % 2;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------- */

/* A text of the input, some of its characters such as cursors and filters have. */
static char *take_text(struct input *in, char out[TEXT_MAX])
{
    static const char letters[] = "Ppew:0123456789abcdef=!-state";
    size_t            size = take(in, 1) % TEXT_MAX;
    for (size_t i = 0; i < size; i++) {
        uint8_t x = (uint8_t)take(in, 1);
        out[i] = x < 200 ? letters[x % (sizeof letters - 1)] : (char)x;
    }
    out[size] = 0;
    return out;
}

static void order_made(struct input *in)
{
    static char *const      kinds[] = {"tasks", "task_summary", "actors", "workers", "demands", "objects", "node", "stacks", "x"};
    char                    texts[FILTERS_MAX + 1][TEXT_MAX], *filters[FILTERS_MAX];
    Manta__V1__QueryRequest request = MANTA__V1__QUERY_REQUEST__INIT;
    Manta__V1__QueryOrder   order = MANTA__V1__QUERY_ORDER__INIT;
    request.kind = kinds[take(in, 1) % (sizeof kinds / sizeof *kinds)];
    request.limit = (uint32_t)take(in, 1);
    request.cursor = take_text(in, texts[FILTERS_MAX]);
    request.n_filters = take(in, 1) % 4 ? 0 : take(in, 1) % FILTERS_MAX;
    for (size_t i = 0; i < request.n_filters; i++)
        filters[i] = take_text(in, texts[i]);
    request.filters = filters;
    order.number = ++world->orders;
    order.request = take(in, 1) % 16 ? &request : NULL;
    sh_look_order(&world->sh, &order);
}

/* As it comes from the wire. */
static void order_raw(struct input *in)
{
    size_t                 size = take(in, 1) % (size_t)(in->end - in->at + 1);
    Manta__V1__QueryOrder *order = manta__v1__query_order__unpack(NULL, size, in->at);
    in->at += size;
    if (!order)
        return;
    order->number = ++world->orders;
    sh_look_order(&world->sh, order);
    manta__v1__query_order__free_unpacked(order, NULL);
}

static void process_tells(struct input *in)
{
    uint8_t              payload[ANSWER_MAX];
    struct lane_looked   head = {.cursor = take(in, 1), .row_count = (uint32_t)(take(in, 1) % 8 ? take(in, 1) % 4 : take(in, 4))};
    size_t               size = take(in, 2) % (sizeof payload - sizeof head);
    struct rlt_ev_record e = {.conn = take(in, 1) % 8 ? CONN : 1, .payload = payload};
    memcpy(payload, &head, sizeof head);
    for (size_t i = 0; i < size; i++)
        payload[sizeof head + i] = take(in, 1) % 3 ? (uint8_t)take(in, 1) : 0;
    size += take(in, 1) % 8 ? sizeof head : 0; /* or cut short */
    e.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = CTL_LOOKED, .id = world->asked};
    if (!sh_look_record(&world->sh, &e))
        abort();
}

static void time_passes(void)
{
    struct io_timer *timer = world->timer;
    world->now_ms += MT_RLT_LOOK_MS;
    world->timer = NULL;
    if (timer)
        timer->fire(timer);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct world w = {.in = {input, input + size}};
    world = &w;
    w.conn.process = PROCESS;
    if (sh_looks_start(&w.sh).code)
        abort();
    for (int i = 0; i < STEPS_MAX && w.in.at < w.in.end; i++) {
        switch (take(&w.in, 1) % 8) {
        case 0: order_raw(&w.in); break;
        case 1: time_passes(); break;
        case 2:
        case 3:
        case 4: process_tells(&w.in); break;
        default: order_made(&w.in); break;
        }
    }
    time_passes();
    if (w.answers > w.orders)
        abort();
    sh_looks_stop(&w.sh);
    return 0;
}

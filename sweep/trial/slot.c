/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.c - what goes in and out of a slot: trials to run and words about them, news of them. See trial.h.
 *
 * Owns: what the driver has told and what it was not told yet. Thread: any; all of it is under the slot's mutex.
 */
#include "sweep/trial/trial.h"

#include "core/base/cond.h"

/* ---- what is said ---- */

void swp_slot_init(struct swp_slot_side *slot)
{
    pthread_mutex_init(&slot->mutex, NULL);
    pthread_cond_init(&slot->work, NULL);
    mt_cond_init(&slot->news_come);
    mt_cond_init(&slot->room);
    pthread_cond_init(&slot->answered, NULL);
}

/* A state that was not fetched is replaced: only the newest counts, and it stays in front of the report that follows it. */
static void saved_replace(struct swp_slot_side *slot, const struct swp_wire *m)
{
    for (size_t i = slot->news.count; m->kind == SWP_WIRE_SAVED && i-- > 0;) {
        struct swp_said *said = &slot->news.data[i];
        if (said->head.kind != SWP_WIRE_SAVED)
            continue;
        free(said->memory);
        mt_vec_remove(&slot->news, i);
        return;
    }
}

static bool say_locked(struct swp_slot_side *slot, const struct swp_wire *m)
{
    struct swp_said said = {*m, NULL};
    size_t          size = m->text.size + m->bytes.size;
    if (size) {
        uint8_t *memory = said.memory = malloc(size);
        if (!memory)
            return false;
        if (m->text.size)
            memcpy(memory, m->text.data, m->text.size);
        if (m->bytes.size)
            memcpy(memory + m->text.size, m->bytes.data, m->bytes.size);
        said.head.text = mt_view_of(memory, m->text.size);
        said.head.bytes = mt_view_of(memory + m->text.size, m->bytes.size);
    }
    if (mt_vec_push(&slot->news, said).code == 0)
        return true;
    free(said.memory);
    return false;
}

void swp_slot_say(struct swp_slot_side *slot, const struct swp_wire *m, bool is_urgent)
{
    pthread_mutex_lock(&slot->mutex);
    while (slot->news.count >= MT_SWEEP_EVENTS_MAX && !slot->is_stopped && m->kind != SWP_WIRE_FINISHED)
        pthread_cond_wait(&slot->room, &slot->mutex);
    saved_replace(slot, m);
    if (m->kind == SWP_WIRE_REPORT)
        swp_ends_note(&slot->ends, m);
    bool was_empty = slot->news.count == 0;
    while (!say_locked(slot, m)) { /* no memory: what is there will be fetched and freed */
        struct timespec until = mt_cond_until(MT_SWEEP_GATHER_MS);
        pthread_cond_timedwait(&slot->room, &slot->mutex, &until);
    }
    if (was_empty || (is_urgent && !slot->is_urgent))
        pthread_cond_signal(&slot->news_come);
    slot->is_urgent = slot->is_urgent || is_urgent;
    pthread_mutex_unlock(&slot->mutex);
}

bool swp_slot_is_stopped(struct swp_slot_side *slot)
{
    pthread_mutex_lock(&slot->mutex);
    bool is_stopped = slot->is_stopped;
    pthread_mutex_unlock(&slot->mutex);
    return is_stopped;
}

mt_status swp_slot_fetch(struct swp_slot_side *slot, mt_buf *out)
{
    struct timespec until = mt_cond_until(MT_SWEEP_POLL_MS);
    mt_status       st = mt_ok();
    pthread_mutex_lock(&slot->mutex);
    while (slot->news.count == 0 && pthread_cond_timedwait(&slot->news_come, &slot->mutex, &until) == 0)
        ;
    until = mt_cond_until(MT_SWEEP_GATHER_MS);
    while (slot->news.count > 0 && !slot->is_urgent && pthread_cond_timedwait(&slot->news_come, &slot->mutex, &until) == 0)
        ;
    for (size_t i = 0; i < slot->news.count && st.code == 0; i++)
        st = swp_wire_put(out, &slot->news.data[i].head);
    for (size_t i = 0; i < slot->news.count; i++)
        free(slot->news.data[i].memory);
    slot->news.count = 0;
    slot->is_urgent = false;
    pthread_cond_broadcast(&slot->room);
    pthread_mutex_unlock(&slot->mutex);
    return st;
}

/* ---- what the driver tells ---- */

static bool start_take(struct swp_slot_side *slot, const struct swp_wire *m)
{
    struct swp_wire mine = *m;
    uint8_t        *memory = malloc(m->text.size + 1 + m->bytes.size);
    if (!memory)
        return false;
    if (m->text.size)
        memcpy(memory, m->text.data, m->text.size);
    memory[m->text.size] = 0;
    if (m->bytes.size)
        memcpy(memory + m->text.size + 1, m->bytes.data, m->bytes.size);
    mine.text = mt_view_of(memory, m->text.size);
    mine.bytes = mt_view_of(memory + m->text.size + 1, m->bytes.size);
    if (mt_vec_push(&slot->todo, mine).code == 0)
        return true;
    free(memory);
    return false;
}

/* Those that were begun make room. */
static void todo_compact(struct swp_slot_side *slot)
{
    slot->todo.count -= slot->todo_head;
    if (slot->todo_head && slot->todo.count)
        memmove(slot->todo.data, slot->todo.data + slot->todo_head, slot->todo.count * sizeof *slot->todo.data);
    slot->todo_head = 0;
}

/* A trial that is to stop before it has begun goes back. */
static void todo_stop(struct swp_slot_side *slot, const struct swp_wire *m)
{
    for (size_t i = slot->todo_head; i < slot->todo.count; i++) {
        struct swp_wire back = {.kind = SWP_WIRE_RETURNED, .trial = m->trial, .run = m->run};
        if (slot->todo.data[i].trial != m->trial || slot->todo.data[i].run != m->run || !say_locked(slot, &back))
            continue;
        free((void *)slot->todo.data[i].text.data);
        mt_vec_remove(&slot->todo, i);
        slot->is_urgent = true;
        pthread_cond_signal(&slot->news_come);
        return;
    }
}

static void answer_take(struct swp_slot_side *slot, const struct swp_wire *m)
{
    if (m->trial != slot->trial || m->run != slot->run) {
        if (m->flags != 0)
            todo_stop(slot, m);
        return;
    }
    slot->has_answer = true;
    slot->ask_from = m->ask_from;
    slot->is_stopped = slot->is_stopped || m->flags != 0;
    pthread_cond_broadcast(&slot->answered);
    pthread_cond_broadcast(&slot->room);
}

static void todo_return(struct swp_slot_side *slot)
{
    struct swp_wire none = {.kind = SWP_WIRE_RETURNED, .trial = -1};
    size_t          kept = slot->trial < 0; /* it would have been begun next */
    for (; slot->todo_head + kept < slot->todo.count; slot->todo.count--) {
        const struct swp_wire *last = &slot->todo.data[slot->todo.count - 1];
        struct swp_wire        m = {.kind = SWP_WIRE_RETURNED, .trial = last->trial, .run = last->run};
        if (!say_locked(slot, &m))
            break;
        free((void *)last->text.data);
    }
    (void)!say_locked(slot, &none);
    slot->is_urgent = true;
    pthread_cond_signal(&slot->news_come);
}

bool swp_slot_take(struct swp_slot_side *slot, mt_view words)
{
    mt_reader       r = mt_reader_of(words);
    struct swp_wire m;
    bool            has_room = true;
    pthread_mutex_lock(&slot->mutex);
    todo_compact(slot);
    while (has_room && swp_wire_take(&r, &m))
        if (m.kind == SWP_WIRE_START)
            has_room = start_take(slot, &m);
        else if (m.kind == SWP_WIRE_ANSWER)
            answer_take(slot, &m);
        else if (m.kind == SWP_WIRE_RETURN)
            todo_return(slot);
    slot->todo_peak = slot->todo.count - slot->todo_head;
    pthread_cond_signal(&slot->work);
    pthread_mutex_unlock(&slot->mutex);
    return has_room && !r.failed;
}

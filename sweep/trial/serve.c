/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.c - the actor that runs trials: how it is made, its methods, and one trial from its beginning to its end.
 *
 * Owns: the slot. Thread: create and `run` on the actor's own; tell and poll on others, one each at a time.
 */
#include "sweep/trial/gang.h"
#include "sweep/trial/trial.h"

#include "core/base/clock.h"
#include "core/base/reserved.h"

#include <stdio.h>

/* What is noted in the words of an entry that are the library's. */
struct noted {
    manta_trial_entry *next;
};
_Static_assert(sizeof(struct noted) <= sizeof(((manta_trial_entry *)0)->library), "the program's words are as many as they are");

static struct noted *noted_of(const manta_trial_entry *entry)
{
    return (struct noted *)(uintptr_t)entry->library;
}

static manta_trial_entry *entries;

void manta_trial_register(manta_trial_entry *entry)
{
    noted_of(entry)->next = entries;
    entries = entry;
}

/* ---- setup ---- */

static mt_status list_put(mt_buf *out, const char *const *list)
{
    mt_writer w = mt_writer_to_buf(out, SIZE_MAX);
    uint32_t  count = 0;
    while (list && list[count])
        count++;
    mt_writer_u32(&w, count);
    for (uint32_t i = 0; i < count; i++)
        mt_writer_bytes(&w, list[i], strlen(list[i]) + 1);
    return w.status;
}

static mt_status text_put(mt_buf *out, const char *text)
{
    return mt_buf_append(out, text ? text : "", strlen(text ? text : "") + 1);
}

static mt_status gang_put(mt_buf *out, const manta_sweep_opts *o)
{
    mt_buf    words = {0};
    uint32_t  count;
    mt_status st = swp_gang_words(o, &words, &count);
    mt_writer w = mt_writer_to_buf(out, SIZE_MAX);
    if (st.code == 0) {
        mt_writer_u32(&w, count);
        mt_writer_bytes(&w, words.data, words.size);
        st = w.status;
    }
    mt_buf_fini(&words);
    return st;
}

mt_status swp_setup_put(mt_buf *out, const manta_sweep_opts *o, const char *folder)
{
    const manta_sweep_command *command = o->command;
    MT_TRY(text_put(out, o->data ? "data" : ""));
    MT_TRY(text_put(out, o->metric));
    MT_TRY(text_put(out, folder));
    MT_TRY(text_put(out, command ? command->metrics : NULL));
    MT_TRY(list_put(out, command ? command->argv : NULL));
    MT_TRY(list_put(out, command ? command->env : NULL));
    return gang_put(out, o);
}

static char *text_take(mt_reader *r)
{
    const uint8_t *text = r->at, *end = memchr(text, 0, r->left);
    if (!end) {
        r->failed = true;
        return NULL;
    }
    (void)mt_reader_bytes(r, (size_t)(end - text) + 1);
    return (char *)text;
}

static char **list_take(mt_reader *r)
{
    uint32_t count = mt_reader_u32(r);
    char   **list = count && count <= r->left ? calloc(count + 1, sizeof *list) : NULL;
    for (uint32_t i = 0; list && i < count; i++)
        list[i] = text_take(r);
    return list;
}

static mt_status setup_take(struct swp_slot_side *slot, mt_view bytes)
{
    slot->setup_text = malloc(bytes.size + 1);
    if (!slot->setup_text)
        return mt_error(MT_ENOMEM, 0, "make a slot");
    memcpy(slot->setup_text, bytes.data, bytes.size);
    mt_reader   r = mt_reader_of(mt_view_of(slot->setup_text, bytes.size));
    const char *data = text_take(&r);
    slot->setup.has_data = data && data[0];
    slot->setup.metric = text_take(&r);
    slot->setup.folder = text_take(&r);
    slot->setup.metrics_file = text_take(&r);
    slot->setup.argv = list_take(&r);
    slot->setup.env = list_take(&r);
    slot->setup.gang = list_take(&r);
    return mt_reader_status(&r);
}

static void slot_free(void *self)
{
    struct swp_slot_side *slot = self;
    manta_release(&slot->data_view);
    manta_free(slot->data);
    swp_ends_close(&slot->ends);
    free(slot->setup.argv);
    free(slot->setup.env);
    free(slot->setup.gang);
    free(slot->setup_text);
    free(slot);
}

static manta_status slot_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct swp_slot_side *slot = calloc(1, sizeof *slot);
    const char           *name = argv[1].y.data;
    if (slot)
        swp_ends_open(&slot->ends, argv[2].y.data);
    if (!slot || setup_take(slot, mt_view_of(argv[0].y.data, argv[0].y.size)).code) {
        if (slot)
            swp_ends_close(&slot->ends);
        free(slot);
        return manta_fail(c, 0, "no memory for a slot");
    }
    slot->trial = -1;
    swp_slot_init(slot);
    (void)argc;
    slot->data = slot->setup.has_data ? manta_dup(argv[3].r) : NULL;
    if (!slot->setup.argv && slot->ends.tail) /* a command's own output is kept in command.c */
        mt_tail_attach(slot->ends.tail);
    for (slot->entry = entries; slot->entry && strcmp(slot->entry->name, name) != 0;)
        slot->entry = noted_of(slot->entry)->next;
    if (slot->entry && MT_RESERVED_IS_USED(slot->entry)) {
        slot_free(slot);
        return manta_fail(c, MANTA_EINVAL, MT_RESERVED_TEXT, name);
    }
    if (slot->entry || slot->setup.argv) {
        *self = slot;
        return MANTA_OK;
    }
    slot_free(slot);
    return manta_fail(c, MANTA_ENOFUNC, "there is no trial \"%s\": MANTA_TRIAL registers it, in the program that runs the sweep",
                      name);
}

/* ---- running ---- */

static mt_status values_read(manta_trial *t)
{
    struct mt_json json = mt_json_of(mt_view_text(t->params));
    mt_status      st = mt_json_take(&json, '{');
    mt_buf         name = {0}, text = {0}, plain = {0};
    bool           first = true;
    if (st.code)
        return st;
    while (st.code == 0 && mt_json_more(&json, '}', &first, &st)) {
        struct swp_value v = {0};
        name.size = text.size = plain.size = 0;
        st = mt_json_name(&json, &name);
        if (st.code == 0)
            st = mt_json_literal(&json, &text, &v.literal);
        if (st.code == 0 && v.literal.kind != MT_LITERAL_TEXT)
            st = mt_json_put_literal(&plain, &v.literal);
        if (st.code == 0)
            st = mt_buf_terminate(&plain);
        if (st.code)
            break;
        v.name = strdup((const char *)name.data);
        v.text = strdup(v.literal.kind == MT_LITERAL_TEXT ? (const char *)text.data : (const char *)plain.data);
        v.literal.text = v.text;
        st = v.name && v.text ? mt_vec_push(&t->values, v) : mt_error(MT_ENOMEM, 0, "read parameters");
        if (st.code)
            free(v.name), free(v.text);
    }
    mt_buf_fini(&name);
    mt_buf_fini(&text);
    mt_buf_fini(&plain);
    return st;
}

/* What a function that failed printed last. */
static void tail_add(manta_trial *t)
{
    static const char before[] = "; it printed last: ";
    char              tail[MT_TAIL_BYTES];
    size_t            size = strlen(t->why);
    mt_tail_read(t->slot->ends.tail, tail, sizeof tail);
    if (tail[0])
        snprintf(t->why + size, sizeof t->why - size, "%s%s", before, tail);
}

/* How it ended, in one message. */
static void finish(manta_trial *t, manta_status code)
{
    const char *metric = t->slot->setup.metric;
    if (code == MANTA_OK && !t->has_failed && !t->has_reported && t->state_step == 0) {
        if (t->other[0])
            swp_trial_fault(t, true, "it never reported \"%.60s\", but \"%.60s\": is the metric's name right?", metric, t->other);
        else
            swp_trial_fault(t, true, "it ended without reporting \"%.60s\"", metric);
    }
    if (t->has_failed && code == MANTA_OK)
        code = MANTA_ETASK;
    if (code != MANTA_OK && !t->has_failed)
        swp_trial_fault(t, false, "its function returned %d (%s)", code, mt_code_text(code));
    if (code != MANTA_OK && t->slot->ends.tail && !t->slot->setup.argv)
        tail_add(t);
    struct swp_wire m = {.kind = SWP_WIRE_FINISHED,
                         .trial = t->number,
                         .run = t->run,
                         .number = (uint64_t)code,
                         .ready_seq = t->ready_seq,
                         .step = (mt_now_ns() - t->began_ns) / 1000000,
                         .flags = t->is_final ? SWP_FINISHED_FINAL : 0};
    if (code != MANTA_OK)
        m.text = mt_view_text(t->why);
    pthread_mutex_lock(&t->slot->mutex);
    m.flags |= t->slot->is_stopped ? SWP_FINISHED_STOPPED : 0;
    swp_ends_note(&t->slot->ends, &m);
    /* Told at once where half of what was given is done, or the last of it begins: the driver sends more meanwhile. */
    size_t left = t->slot->todo.count - t->slot->todo_head;
    bool   is_urgent = left <= 1 || left * 2 <= t->slot->todo_peak;
    t->slot->trial = -1;
    pthread_mutex_unlock(&t->slot->mutex);
    /* Its end is noted, and the driver, which kills us when the sweep ends, has not heard of it. */
    if (t->slot->setup.argv && code == MANTA_OK)
        swp_command_tidy(t);
    swp_slot_say(t->slot, &m, is_urgent);
}

static void trial_run(struct swp_slot_side *slot, const struct swp_wire *m)
{
    manta_trial *t = swp_trial_new();
    manta_status code;
    if (!t)
        abort(); /* the driver hears of it by this process's death, and tries elsewhere */
    if (slot->ends.tail)
        mt_tail_clear(slot->ends.tail);
    t->slot = slot;
    t->number = m->trial;
    t->run = m->run;
    t->attempt = (int)m->flags;
    t->seed = m->number;
    t->ready_seq = m->ready_seq;
    t->began_ns = mt_now_ns();
    t->params = (char *)m->text.data;
    t->state = m->bytes;
    t->state_step = m->step;
    if (values_read(t).code) {
        swp_trial_fault(t, true, "its parameters can't be read: %.300s", t->params);
        code = MANTA_EINTERNAL;
    } else {
        code = slot->setup.argv ? swp_command_run(t) : slot->entry->run(t);
    }
    finish(t, code);
    for (size_t i = 0; i < t->values.count; i++)
        free(t->values.data[i].name), free(t->values.data[i].text);
    mt_vec_fini(&t->values);
    swp_trial_free(t);
}

static manta_status slot_run(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct swp_slot_side *slot = self;
    (void)c, (void)argc, (void)argv;
    for (;;) {
        pthread_mutex_lock(&slot->mutex);
        while (slot->todo_head == slot->todo.count) {
            slot->todo_head = slot->todo.count = 0;
            pthread_cond_wait(&slot->work, &slot->mutex);
        }
        struct swp_wire m = slot->todo.data[slot->todo_head++];
        slot->trial = m.trial;
        slot->run = m.run;
        slot->ask_from = m.ask_from;
        slot->is_stopped = slot->has_answer = false;
        pthread_mutex_unlock(&slot->mutex);
        trial_run(slot, &m);
        free((void *)m.text.data);
    }
    return MANTA_OK;
}

static manta_status slot_tell(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)argc;
    return swp_slot_take(self, mt_view_of(argv[0].y.data, argv[0].y.size))
               ? MANTA_OK
               : manta_fail(c, MANTA_ENOMEM, "no memory for what the driver says");
}

static manta_status slot_poll(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    mt_buf    out = {0};
    mt_status st = swp_slot_fetch(self, &out);
    (void)argc, (void)argv;
    manta_status code = st.code ? manta_fail(c, st.code, "no memory for what a trial said")
                                : manta_return_bytes(c, out.data ? (const void *)out.data : "", out.size);
    mt_buf_fini(&out);
    return code;
}

static manta_status slot_ready(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    (void)self, (void)argc, (void)argv;
    return manta_return_u64(c, manta_node());
}

MANTA_ACTOR_TYPE(manta_sweep_slot, .signature = "yssr", .create = slot_new, .destroy = slot_free,
                 .methods = {{"ready", ">u@io", slot_ready},
                             {"run", ">v", slot_run},
                             {"tell", "y>v@io", slot_tell},
                             {"poll", ">y@news", slot_poll}},
                 .groups = {{"io", 1}, {"news", 1}});

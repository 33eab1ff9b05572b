/* SPDX-License-Identifier: Apache-2.0
 *
 * map.c - manta_map: one function over an array, in chunks.
 *
 * Thread: manta_map, any; a chunk runs on the thread that runs tasks.
 *
 * The items go into the store once; a chunk is a task that names the function and its part of them. Sizes follow the
 * measured time of the chunks that are done (a millisecond of work each), and shrink towards the end, so that the
 * workers finish together.
 */
#include "clients/lib/shell/abi/abi.h"
#include "clients/lib/shell/context/context.h"
#include "clients/lib/shell/handles/handles.h"
#include "clients/lib/shell/names/names.h"
#include "clients/lib/shell/state/state.h"

#include <stdlib.h>

enum {
    CHUNK_NS = 1000 * 1000, /* of work a chunk should be: a thousand times what a task costs */
    CHUNKS_MAX = 64,        /* under way at a time */
    CHUNKS_LEFT = 16,       /* a chunk is at most so many-th of what is left */
    FIRST_ITEMS = 4,        /* of a chunk before anything is known */
};

/* How a chunk's task begins to say what it did; its results follow. */
struct chunk_done {
    uint64_t took_ns;
};

/* ---- the worker's side ---- */

static manta_arg item_arg(char type, const uint8_t *at, size_t size)
{
    manta_arg arg = {.type = type};
    if (type == 'y')
        arg.y = (manta_bytes){at, size};
    else
        memcpy(&arg.l, at, size);
    return arg;
}

/* Runs the function on one item, in a context of its own: its result goes straight to its place. */
static manta_status run_item(manta_ctx *c, manta_entry *entry, uint64_t index, const manta_arg *arg)
{
    manta_status code;
    c->has_value = c->has_failed = false;
    code = entry->run(c, 1, arg);
    if (code == MANTA_OK && !c->has_value && c->into_size)
        code = (manta_fail(c, 0, "it returned no result"), MANTA_ETYPE);
    if (code && !c->has_failed)
        manta_fail(c, 0, "it returned %d", code);
    if (code) {
        char why[sizeof c->failure.message];
        snprintf(why, sizeof why, "%s", c->failure.message);
        snprintf(c->failure.message, sizeof c->failure.message, "%s, item %llu: %.420s", entry->name, (unsigned long long)index,
                 why);
    }
    return code;
}

/* function hash, items, first of them, how many, size of an item, of a result */
static manta_status chunk_run(manta_ctx *c, int argc, const manta_arg *argv)
{
    manta_entry      *entry = lib_entry_of_hash(argv[0].u);
    uint64_t          first = argv[2].u, count = argv[3].u, item_size = argv[4].u, result_size = argv[5].u;
    const uint8_t    *items = argv[1].y.data;
    uint64_t          begin = lib_now_ns();
    struct chunk_done done;
    manta_ctx        *item;
    uint8_t          *results;
    manta_status      code = MANTA_OK;
    (void)argc;
    if (!entry)
        return manta_fail(c, 0, "no such remote function in this executable"), MANTA_ENOFUNC;
    item = malloc(sizeof *item);
    results = malloc(sizeof done + count * result_size + 1);
    if (!item || !results) {
        free(item);
        free(results);
        return manta_fail(c, 0, "no memory for %llu results", (unsigned long long)count), MANTA_ENOMEM;
    }
    *item = *c;
    item->name = entry->name;
    item->signature = entry->signature;
    item->wanted = lib_result_wanted(entry->signature);
    item->into_size = result_size;
    for (uint64_t i = 0; i < count && code == MANTA_OK; i++) {
        manta_arg arg = item_arg(entry->signature[0], items + (first + i) * item_size, item_size);
        item->into = results + sizeof done + i * result_size;
        code = run_item(item, entry, first + i, &arg);
    }
    c->failure = item->failure;
    c->has_failed = item->has_failed;
    done.took_ns = lib_now_ns() - begin;
    memcpy(results, &done, sizeof done);
    if (code == MANTA_OK)
        code = manta_return_bytes(c, results, sizeof done + count * result_size);
    free(item);
    free(results);
    return code;
}

static manta_entry                       chunk_entry = {"manta.map", "uyuuuu>y", chunk_run, __FILE__, __LINE__, {0}, {0}};
__attribute__((constructor)) static void chunk_register(void)
{
    manta_register(&chunk_entry);
}

/* ---- the caller's side ---- */

struct chunk {
    manta_ref *ref;
    size_t     first, count;
};

struct map {
    manta_entry           *entry;
    const manta_task_opts *opts;
    manta_ref             *items;
    size_t                 count, item_size, chunk;
    uint8_t               *results;
    size_t                 result_size;
    size_t                 next; /* item that is in no chunk yet */
    uint64_t               done_items, done_ns;
    struct chunk           chunks[CHUNKS_MAX]; /* a ring, oldest at `oldest` */
    size_t                 oldest, open;
};

static size_t value_size(char type)
{
    return type == 'b' ? 1 : type == 'l' || type == 'u' || type == 'd' ? 8 : 0;
}

static manta_status map_check(const struct map *m, const char *name, const void *items, manta_error *e)
{
    const char *s = m->entry ? m->entry->signature : NULL;
    char        result = s && s[0] && s[1] == '>' ? s[2] : 0;
    if (!m->entry) {
        struct own_failure f;
        lib_unknown_function(&f, "remote function", name ? name : "(null)");
        return lib_error_failure(e, &f, (mt_id){0, 0});
    }
    if (!s[0] || s[1] != '>' || !strchr("ludby", s[0]) || (result && (s[3] || !strchr("ludby", result))))
        return lib_error(e, MANTA_ETYPE,
                         "%s (\"%s\"): manta_map needs a function of one argument 'l', 'u', 'd', 'b' or 'y' "
                         "and at most one such result; defined at %s:%d",
                         name, s, m->entry->file, m->entry->line);
    if (m->item_size == 0 || (value_size(s[0]) && m->item_size != value_size(s[0])))
        return lib_error(e, MANTA_EINVAL, "%s: items of %zu bytes, but the argument '%c' has %zu", name, m->item_size, s[0],
                         value_size(s[0]));
    if ((m->count && !items) || m->count > SIZE_MAX / 2 / (m->item_size + m->result_size))
        return lib_error(e, MANTA_EINVAL, "%s: %zu items at %s", name, m->count, items ? "an address" : "NULL");
    if ((m->result_size == 0) != (result == 0) || (m->result_size && !m->results) ||
        (result && value_size(result) && m->result_size != value_size(result)))
        return lib_error(e, MANTA_EINVAL, "%s (\"%s\"): results of %zu bytes at %s", name, s, m->result_size,
                         m->results ? "an address" : "NULL");
    return MANTA_OK;
}

static size_t next_chunk(const struct map *m)
{
    size_t left = m->count - m->next, n = FIRST_ITEMS;
    if (m->chunk)
        return m->chunk < left ? m->chunk : left;
    if (m->done_items)
        n = (size_t)(CHUNK_NS / (m->done_ns / m->done_items + 1));
    if (n > left / CHUNKS_LEFT + 1)
        n = left / CHUNKS_LEFT + 1;
    return n ? n : 1;
}

static void chunk_send(struct map *m)
{
    struct chunk *chunk = &m->chunks[(m->oldest + m->open++) % CHUNKS_MAX];
    chunk->first = m->next;
    chunk->count = next_chunk(m);
    m->next += chunk->count;
    chunk->ref = manta_call_entry(&chunk_entry, m->opts,
                                  MANTA_ARGS(manta_u64(lib_of_entry(m->entry)->hash), manta_ref_arg(m->items),
                                             manta_u64(chunk->first), manta_u64(chunk->count), manta_u64(m->item_size),
                                             manta_u64(m->result_size)));
}

static manta_status chunk_failed(const struct map *m, const struct chunk *chunk, manta_status code, manta_error *e)
{
    char why[sizeof e->message];
    if (!e)
        return code;
    snprintf(e->function, sizeof e->function, "%s", m->entry->name);
    if (strstr(e->message, ", item "))
        return code; /* the worker has said which */
    snprintf(why, sizeof why, "%s", e->message);
    snprintf(e->message, sizeof e->message, "%s, items %zu to %zu: %.400s", m->entry->name, chunk->first,
             chunk->first + chunk->count - 1, why);
    return code;
}

/* The oldest chunk: its results go to their place. */
static manta_status chunk_take(struct map *m, manta_error *e)
{
    struct chunk     *chunk = &m->chunks[m->oldest];
    struct chunk_done done;
    manta_view        view;
    manta_status      code = manta_get(chunk->ref, MANTA_FOREVER, &view, e);
    m->oldest = (m->oldest + 1) % CHUNKS_MAX;
    m->open--;
    if (code == MANTA_OK && view.size != sizeof done + chunk->count * m->result_size) {
        code = lib_error(e, MANTA_EPROTO, "%zu bytes came back", view.size);
        manta_release(&view);
    }
    if (code) {
        manta_free(chunk->ref);
        return chunk_failed(m, chunk, code, e);
    }
    memcpy(&done, view.data, sizeof done);
    if (m->result_size)
        memcpy(m->results + chunk->first * m->result_size, (const uint8_t *)view.data + sizeof done, chunk->count * m->result_size);
    m->done_items += chunk->count;
    m->done_ns += done.took_ns;
    manta_release(&view);
    manta_free(chunk->ref);
    return MANTA_OK;
}

/* What else fails is not asked for: the first item that failed tells it. */
static void drop(manta_ref *handle)
{
    struct own_ref *ref;
    if (lib_enter_held(NULL))
        return;
    ref = lib_ref_in(&lib.own, handle);
    if (ref)
        ref->is_heard = 1;
    lib_unlock();
    manta_free(handle);
}

static manta_status map_run(struct map *m, manta_error *e)
{
    manta_status code = MANTA_OK;
    while (code == MANTA_OK && (m->next < m->count || m->open)) {
        /* Of unknown work two chunks a core are enough to learn from. */
        size_t most = m->chunk || m->done_items ? CHUNKS_MAX : 4;
        while (m->next < m->count && m->open < most)
            chunk_send(m);
        code = chunk_take(m, e);
    }
    for (; m->open; m->open--, m->oldest = (m->oldest + 1) % CHUNKS_MAX)
        drop(m->chunks[m->oldest].ref);
    return code;
}

manta_status manta_map(const char *name, const manta_task_opts *opts, const void *items, size_t count, size_t item_size,
                       size_t chunk, void *results, size_t result_size, manta_error *e)
{
    struct map   m = {.entry = name ? lib_entry_find(name) : NULL,
                      .opts = opts,
                      .count = count,
                      .item_size = item_size,
                      .chunk = chunk,
                      .results = results,
                      .result_size = result_size};
    manta_status code = lib_check(e);
    if (code == MANTA_OK)
        code = map_check(&m, name, items, e);
    if (code || count == 0)
        return code;
    if (!lib_may_wait())
        return lib_error(e, MANTA_EDEADLK, "manta_map waits, which a callback may not do");
    m.items = manta_put(items, count * item_size);
    code = map_run(&m, e);
    manta_free(m.items);
    return code;
}

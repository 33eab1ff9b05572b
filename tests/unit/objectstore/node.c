/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - the shell between store and clients, for the tests. Thread: one.
 */
#include "tests/unit/objectstore/node.h"

#include "objectstore/system/backing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* What a client has mapped. */
struct node_mapping {
    struct node_mapping *next;
    struct node_client  *client;
    uint32_t             segment;
    uint64_t             size;
    void                *data, *generations;
};

static void expect_ok(mt_status st)
{
    if (st.code != MT_OK)
        fail_msg("%s: %s (errno %d)", mt_code_name(st.code), st.what, st.sys);
}

void node_open(struct node *node, uint64_t bytes_max)
{
    *node = (struct node){0};
    struct os_store_config config = {.bytes_max = bytes_max, .node = NODE_NUMBER};
    expect_ok(os_store_new(&config, &node->store));
}

static void unmap_client(struct node *node, struct node_client *c, uint32_t segment)
{
    for (struct node_mapping **link = &node->mappings; *link;) {
        struct node_mapping *mapping = *link;
        if (mapping->client != c || (segment && mapping->segment != segment)) {
            link = &mapping->next;
            continue;
        }
        *link = mapping->next;
        os_memory_unmap(mapping->data, mapping->size);
        os_memory_unmap(mapping->generations, os_generations_bytes(mapping->size));
        free(mapping);
    }
}

static void map_for(struct node *node, struct node_client *c, const struct os_segment_view *view, bool own)
{
    struct node_mapping *mapping = calloc(1, sizeof *mapping);
    assert_non_null(mapping);
    *mapping = (struct node_mapping){node->mappings, c, view->segment, view->size, NULL, NULL};
    node->mappings = mapping;
    uint64_t generations = os_generations_bytes(view->size);
    expect_ok(os_memory_map(own ? view->backing.data_rw : view->backing.data_ro, view->size, own, &mapping->data));
    expect_ok(os_memory_map(view->backing.generations_ro, generations, false, &mapping->generations));
    if (own)
        expect_ok(os_client_add_own(&c->client, view->segment, view->size, mapping->data, mapping->data, mapping->generations));
    else
        expect_ok(os_client_add_reader(&c->client, view->segment, view->size, mapping->data, mapping->generations));
}

static void forget_client(struct node *node, struct node_client *c)
{
    os_client_fini(&c->client);
    unmap_client(node, c, 0);
    os_memory_unmap(c->pins, OS_PINS_BYTES);
    os_memory_unmap(c->pins_store, OS_PINS_BYTES);
    close(c->pins_fd);
    *c = (struct node_client){0};
}

void node_close(struct node *node)
{
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (node->clients[i].process)
            forget_client(node, &node->clients[i]);
    if (node->local)
        expect_ok(os_local_close(node->local));
    node->local = NULL;
    expect_ok(os_store_close_all(node->store, &node->actions));
    node_act(node);
    os_actions_fini(&node->actions);
    os_store_free(node->store);
}

struct node_client *node_add(struct node *node, uint64_t process, uint32_t job)
{
    struct node_client *c = node->clients;
    while (c->process)
        assert_true(++c < node->clients + NODE_CLIENTS);
    c->process = process;
    c->job = job;
    expect_ok(os_memory_create("pins", OS_PINS_BYTES, &c->pins_fd, NULL));
    expect_ok(os_memory_map(c->pins_fd, OS_PINS_BYTES, true, &c->pins));
    expect_ok(os_memory_map(c->pins_fd, OS_PINS_BYTES, false, &c->pins_store));
    expect_ok(os_client_init(&c->client, process, NODE_NUMBER, job, c->pins));
    expect_ok(os_store_add_process(node->store, process, job, c->pins_store));
    return c;
}

void node_kill(struct node *node, struct node_client *c)
{
    expect_ok(os_store_process_gone(node->store, c->process));
    forget_client(node, c);
    node_sweep(node);
}

static struct node_client *find_client(struct node *node, uint64_t process)
{
    for (int i = 0; i < NODE_CLIENTS; i++)
        if (node->clients[i].process == process)
            return &node->clients[i];
    return NULL;
}

void node_act(struct node *node)
{
    for (size_t i = 0; i < node->actions.count; i++) {
        struct os_action *a = &node->actions.data[i];
        if (a->kind == OS_SPACE_BACK) {
            struct node_client *c = find_client(node, a->process);
            bool                ours = node->local && a->process == node->local->client.process;
            assert_true(c || ours);
            expect_ok(os_client_space_back(ours ? &node->local->client : &c->client, a->segment, a->offset));
            node->space_backs++;
            continue;
        }
        if (a->kind == OS_PUNCH) {
            expect_ok(os_memory_punch(a->backing.data_rw, a->offset, a->size));
            continue;
        }
        if (a->kind == OS_ASK_BACK)
            continue; /* a test that wants it looks at the actions */
        if (node->local)
            os_local_forget(node->local, a->segment);
        os_backing_close(&a->backing, a->size);
        node->closes++;
    }
    node->actions.count = 0;
    assert_null(os_store_check(node->store));
}

void node_sweep(struct node *node)
{
    expect_ok(os_store_sweep(node->store, &node->actions));
    node_act(node);
}

void node_tick(struct node *node, int64_t now_ms)
{
    expect_ok(os_store_tick(node->store, now_ms, &node->actions));
    node_act(node);
}

static uint32_t make_segment(struct node *node, struct node_client *c, uint64_t size)
{
    struct os_backing b;
    uint32_t          number;
    expect_ok(os_backing_make(size, &b));
    expect_ok(os_store_add_segment(node->store, c->process, size, &b, &number));
    return number;
}

mt_status node_alloc(struct node *node, struct node_client *c, uint64_t size, struct os_place *place, void **data)
{
    uint64_t  want;
    mt_status st = os_client_alloc(&c->client, size, place, data, &want);
    if (st.code != MT_EAGAIN)
        return st;
    struct os_grant grant;
    st = os_store_want(node->store, c->process, want, node->room.limit ? &node->room : NULL, &grant, node->text, &node->actions);
    node_act(node);
    if (st.code != MT_OK)
        return st;
    uint32_t               number = grant.segment ? grant.segment : make_segment(node, c, grant.create_size);
    struct os_segment_view view;
    expect_ok(os_store_segment(node->store, c->process, number, &view));
    assert_int_equal(view.writer, c->process);
    if (os_client_drop(&c->client, number).code == MT_OK)
        unmap_client(node, c, number); /* it has read what it writes now */
    map_for(node, c, &view, true);
    return os_client_alloc(&c->client, size, place, data, &want);
}

mt_status node_put(struct node *node, struct node_client *c, uint64_t owner, uint64_t size, uint8_t seed, struct lane_ref *ref)
{
    struct os_place place;
    void           *data;
    MT_TRY(node_alloc(node, c, size, &place, &data));
    for (uint64_t i = 0; i < size; i++)
        ((uint8_t *)data)[i] = (uint8_t)(seed + i);
    uint64_t counter = c->process << 24 | ++c->counter; /* ids of one owner, made here by several clients */
    os_client_publish(&c->client, place, data, mt_id_make(owner, counter, 1), node->owner_node ? node->owner_node : NODE_NUMBER,
                      size, 'b', ref);
    return mt_ok();
}

mt_status node_pin(struct node *node, struct node_client *c, const struct lane_ref *ref, const void **data)
{
    mt_status st = os_client_pin(&c->client, ref, data);
    if (st.code != MT_ENOENT)
        return st;
    struct os_segment_view view;
    MT_TRY(os_store_segment(node->store, c->process, ref->segment, &view));
    map_for(node, c, &view, false);
    return os_client_pin(&c->client, ref, data);
}

void node_expect(const void *data, uint64_t size, uint8_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (((const uint8_t *)data)[i] != (uint8_t)(seed + i))
            fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)size);
}

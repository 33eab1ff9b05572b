/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - a node in one process for the tests: a store, clients, real shared memory, and the shell between them.
 */
#ifndef TEST_OBJECTSTORE_NODE_H
#define TEST_OBJECTSTORE_NODE_H

#include "objectstore/server/local.h"

enum { NODE_NUMBER = 3, NODE_JOB = 9, NODE_CLIENTS = 8 };

struct node_client {
    struct os_client client;
    uint64_t         process; /* 0: none */
    uint32_t         job;
    int              pins_fd;
    void            *pins; /* as the process maps it; the store has a second mapping */
    void            *pins_store;
    uint64_t         counter; /* of ids */
};

struct node {
    struct os_store     *store;
    struct os_actions    actions;
    struct node_client   clients[NODE_CLIENTS];
    struct os_local     *local; /* the raylet itself, where a test has it */
    struct os_headroom   room;  /* limit 0: not passed on */
    char                 text[OS_TEXT_SIZE];
    uint64_t             space_backs, closes;
    uint32_t             owner_node; /* of what node_put makes; 0: this one */
    struct node_mapping *mappings;
};

void node_open(struct node *node, uint64_t bytes_max);
void node_close(struct node *node);

struct node_client *node_add(struct node *node, uint64_t process, uint32_t job);
/* The process is dead: its private memory and mappings go, the store learns of it and sweeps. */
void node_kill(struct node *node, struct node_client *c);

/* Does what the actions say. */
void node_act(struct node *node);
void node_sweep(struct node *node);
void node_tick(struct node *node, int64_t now_ms);

/* alloc, asking for segments as needed. */
mt_status node_alloc(struct node *node, struct node_client *c, uint64_t size, struct os_place *place, void **data);
/* A whole put: the value is a pattern of `seed`. */
mt_status node_put(struct node *node, struct node_client *c, uint64_t owner, uint64_t size, uint8_t seed, struct lane_ref *ref);
/* pin, mapping the segment as needed. */
mt_status node_pin(struct node *node, struct node_client *c, const struct lane_ref *ref, const void **data);
/* Fails the test unless the value is the pattern of `seed`. */
void node_expect(const void *data, uint64_t size, uint8_t seed);

#endif

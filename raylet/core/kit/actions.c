/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.c - the list of actions of one step, and the memory that they point to.
 *
 * Owns: the array and its chunks; both are kept from step to step. Thread: the logic loop only.
 * Always: what rlt_keep gave stays where it is until the next reset.
 */
#include "raylet/core/kit/actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16 * 1024 };

struct rlt_chunk {
    struct rlt_chunk *next;
    size_t            used, size;
    uint64_t          data[];
};

void rlt_actions_reset(struct rlt_actions *out)
{
    struct rlt_chunk *chunk = out->chunks;
    out->count = 0;
    while (chunk && chunk->next) { /* one is kept: most steps need no more */
        struct rlt_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    if (chunk && chunk->size > CHUNK_BYTES) {
        free(chunk);
        chunk = NULL;
    }
    if (chunk)
        chunk->used = 0;
    out->chunks = chunk;
}

void rlt_actions_fini(struct rlt_actions *out)
{
    rlt_actions_reset(out);
    free(out->chunks);
    free(out->data);
    memset(out, 0, sizeof *out);
}

void *rlt_keep(struct rlt_actions *out, const void *data, size_t size)
{
    size_t            bytes = (size + 7) & ~(size_t)7;
    struct rlt_chunk *chunk = out->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk)
            rlt_out_of_memory();
        chunk->next = out->chunks;
        chunk->used = 0;
        chunk->size = room;
        out->chunks = chunk;
    }
    void *at = (uint8_t *)chunk->data + chunk->used;
    chunk->used += bytes;
    if (data)
        memcpy(at, data, size);
    else
        memset(at, 0, bytes);
    return at;
}

struct rlt_action *rlt_act(struct rlt_actions *out, enum rlt_action_kind kind)
{
    if (out->count == out->capacity) {
        size_t             capacity = out->capacity ? out->capacity * 2 : 32;
        struct rlt_action *data = realloc(out->data, capacity * sizeof *data);
        if (!data)
            rlt_out_of_memory();
        out->data = data;
        out->capacity = capacity;
    }
    struct rlt_action *action = &out->data[out->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

struct lane_record rlt_record(struct rlt_actions *out, enum ctl_kind ctl, mt_id id, const void *payload, size_t size,
                              const uint8_t **out_payload)
{
    *out_payload = size ? rlt_keep(out, payload, size) : NULL;
    return (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = (uint16_t)ctl, .id = id};
}

struct rlt_a_socket *rlt_socket(struct rlt_actions *out, uint64_t conn, enum ctl_kind ctl, mt_id id, const void *payload,
                                size_t size)
{
    struct rlt_a_socket *a = &rlt_act(out, RLT_A_SOCKET)->socket;
    a->conn = conn;
    a->record = rlt_record(out, ctl, id, payload, size, &a->payload);
    return a;
}

struct rlt_a_sw_down *rlt_down(struct rlt_actions *out, uint64_t conn, enum ctl_kind ctl, mt_id id, const void *payload,
                               size_t size)
{
    struct rlt_a_sw_down *a = &rlt_act(out, RLT_A_SW_DOWN)->sw_down;
    a->conn = conn;
    a->record = rlt_record(out, ctl, id, payload, size, &a->payload);
    return a;
}

void rlt_close_fd(struct rlt_actions *out, int fd)
{
    if (fd >= 0)
        rlt_act(out, RLT_A_CLOSE_FD)->close_fd.fd = fd;
}

void rlt_down_reply(struct rlt_actions *out, uint64_t conn, mt_id id, int32_t code, const char *text)
{
    struct ctl_reply reply = {.code = code};
    snprintf(reply.text, sizeof reply.text, "%s", text ? text : mt_code_text(code));
    rlt_down(out, conn, CTL_REPLY, id, &reply, sizeof reply);
}

void rlt_out_of_memory(void)
{
    fputs("manta-raylet: out of memory\n", stderr);
    abort();
}

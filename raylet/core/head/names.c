/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - requests to the head, and what this node answers itself when there is none: names and the list of nodes.
 *
 * Owns: the table of names of a cluster without a head. Thread: the logic loop only.
 * Always: a name belongs to a living process.
 *
 * Where jobs are apart a name is its job's: its name space is "SPACE of job JOB", which no process can say itself, unless its
 * creator wants it found by all. So a job knows nothing of another's actors: their ids are drawn, and come by name or handle only.
 */
#include "raylet/core/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_MAX = 4096 };

/* Two texts make one key; the texts are compared as well, so a collision is EEXIST at worst, never a wrong answer. */
static mt_id name_key(const struct ctl_name *n)
{
    uint64_t h[2] = {14695981039346656037u, 0x9ae16a3b2f90404fu};
    for (int i = 0; i < 2; i++) {
        for (const char *s = n->space; *s; s++)
            h[i] = (h[i] ^ (uint8_t)*s) * 1099511628211u;
        h[i] = (h[i] ^ 0x100) * 1099511628211u;
        for (const char *s = n->name; *s; s++)
            h[i] = (h[i] ^ (uint8_t)*s) * 1099511628211u;
    }
    return (mt_id){h[0] | 1, h[1]};
}

static bool same_name(const struct ctl_name *a, const struct ctl_name *b)
{
    return strcmp(a->space, b->space) == 0 && strcmp(a->name, b->name) == 0;
}

void rlt_reply_bytes(struct rlt *r, uint64_t conn, mt_id id, const void *bytes, size_t size)
{
    struct ctl_reply   reply = {.code = MT_OK, .size = (uint32_t)size};
    struct rlt_action *a = rlt_act(r->out, RLT_A_SW_DOWN);
    uint8_t           *payload = rlt_keep(r->out, NULL, sizeof reply + size);
    memcpy(payload, &reply, sizeof reply);
    memcpy(payload + sizeof reply, bytes, size);
    a->conn = conn;
    a->record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + sizeof reply + size), .kind = CTL_REPLY, .id = id};
    a->payload = payload;
}

static int32_t name_put(struct rlt *r, struct rlt_proc *p, const struct ctl_name *n)
{
    struct ctl_name *there = mt_map_ptr(&r->names, name_key(n));
    if (there && !(same_name(there, n) && mt_id_equal(there->actor, n->actor)))
        return MT_EEXIST;
    if (there)
        return MT_OK; /* said twice */
    if (r->names.count >= NAMES_MAX)
        return MT_EAGAIN;
    struct ctl_name *copy = rlt_calloc(sizeof *copy);
    *copy = *n;
    rlt_map_put(&r->names, name_key(n), copy);
    p->has_names = true;
    return MT_OK;
}

#define OF_JOB " of job "

/* Where the name stands; `for_all`: what all jobs may find. EINVAL: no process may ask for that space. */
mt_status rlt_name_place(const struct rlt *r, struct rlt_proc *p, bool for_all, struct ctl_name *n)
{
    size_t size = strlen(n->space);
    if (!r->config.jobs_apart)
        return mt_ok();
    if (strstr(n->space, OF_JOB) || size + sizeof OF_JOB + 16 > sizeof n->space)
        return mt_error(MT_EINVAL, 0, "with --job-users a name space has at most 103 bytes, and not \"" OF_JOB "\" in it");
    if (!for_all)
        snprintf(n->space + size, sizeof n->space - size, OF_JOB "%016" PRIx64, rlt_job_base(p->job)->job);
    return mt_ok();
}

bool rlt_name_is_apart(const struct rlt *r, const struct ctl_name *n)
{
    return r->config.jobs_apart && strstr(n->space, OF_JOB);
}

void rlt_name_unplace(const struct rlt *r, struct ctl_name *n)
{
    char *end = r->config.jobs_apart ? strstr(n->space, OF_JOB) : NULL;
    if (end)
        memset(end, 0, sizeof n->space - (size_t)(end - n->space));
}

static struct ctl_name *name_find(const struct rlt *r, struct ctl_name *n)
{
    struct ctl_name *there = mt_map_ptr(&r->names, name_key(n));
    if (!(there && same_name(there, n)) && rlt_name_is_apart(r, n)) {
        rlt_name_unplace(r, n);
        there = mt_map_ptr(&r->names, name_key(n));
    }
    return there && same_name(there, n) ? there : NULL;
}

static void name_request(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, struct ctl_name *n)
{
    n->space[sizeof n->space - 1] = n->name[sizeof n->name - 1] = n->type[sizeof n->type - 1] = 0;
    mt_status st = rlt_name_place(r, p, op != CTL_OP_NAME_GET && n->flags & CTL_NAME_FOR_ALL, n);
    if (st.code) {
        rlt_down_reply(r->out, p->conn, id, st.code, st.what);
        return;
    }
    if (r->config.has_head) {
        rlt_head_ask(r, p, id, op, n);
        return;
    }
    if (op == CTL_OP_NAME_PUT) {
        rlt_down_reply(r->out, p->conn, id, name_put(r, p, n), NULL);
        return;
    }
    struct ctl_name *there = op == CTL_OP_NAME_GET ? name_find(r, n) : mt_map_ptr(&r->names, name_key(n));
    if (!there || !same_name(there, n)) {
        rlt_down_reply(r->out, p->conn, id, MT_ENOENT, NULL);
    } else if (op == CTL_OP_NAME_GET) {
        rlt_reply_bytes(r, p->conn, id, there, sizeof *there);
    } else if (!mt_id_equal(there->actor, n->actor)) {
        rlt_down_reply(r->out, p->conn, id, MT_ENOENT, NULL); /* the name is another actor's */
    } else {
        mt_map_remove(&r->names, name_key(n));
        free(there);
        rlt_down_reply(r->out, p->conn, id, MT_OK, NULL);
    }
}

void rlt_request(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_request request;
    struct ctl_name    name;
    memcpy(&request, payload, sizeof request);
    if (request.op == CTL_OP_NODES) {
        rlt_nodes_reply(r, p, record->id, request.after);
    } else if (request.op == CTL_OP_ACTOR_NEW || request.op == CTL_OP_ACTOR) {
        rlt_detach(r, p, record, payload, -1);
    } else if (request.op == CTL_OP_GROUP) {
        rlt_group_ask(r, p, record, payload);
    } else if (request.op < CTL_OP_NAME_PUT || request.op > CTL_OP_NAME_DELETE ||
               record->length < LANE_RECORD_SIZE + sizeof request + sizeof name) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "no such request");
    } else {
        memcpy(&name, payload + sizeof request, sizeof name);
        name_request(r, p, record->id, request.op, &name);
    }
}

void rlt_names_process_gone(struct rlt *r, uint64_t process)
{
    MT_MAP_EACH(&r->names, entry) {
        struct ctl_name *n = entry->value.ptr;
        if (n->owner == process) {
            mt_map_remove(&r->names, entry->key);
            free(n);
        }
    }
}

void rlt_names_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->names, entry)
        free(entry->value.ptr);
    mt_map_fini(&r->names);
}

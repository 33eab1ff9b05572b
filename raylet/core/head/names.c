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
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"

#include "core/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_MAX = 4096 };

/* Two texts make one key; the texts are compared as well, so a collision is EEXIST at worst, never a wrong answer. */
static mt_id name_key(const struct ctl_name *n)
{
    uint64_t h[2] = {MT_HASH_START, 0x9ae16a3b2f90404fu};
    for (int i = 0; i < 2; i++)
        h[i] = mt_hash_text(mt_hash_mix(mt_hash_text(h[i], n->space), 0x100), n->name);
    return (mt_id){h[0] | 1, h[1]};
}

static bool same_name(const struct ctl_name *a, const struct ctl_name *b)
{
    return strcmp(a->space, b->space) == 0 && strcmp(a->name, b->name) == 0;
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

static bool name_is_apart(const struct rlt *r, const struct ctl_name *n)
{
    return r->config.jobs_apart && strstr(n->space, OF_JOB);
}

static void name_unplace(const struct rlt *r, struct ctl_name *n)
{
    char *end = r->config.jobs_apart ? strstr(n->space, OF_JOB) : NULL;
    if (end)
        memset(end, 0, sizeof n->space - (size_t)(end - n->space));
}

static struct ctl_name *name_find(const struct rlt *r, struct ctl_name *n)
{
    struct ctl_name *there = mt_map_ptr(&r->names, name_key(n));
    if (!(there && same_name(there, n)) && name_is_apart(r, n)) {
        name_unplace(r, n);
        there = mt_map_ptr(&r->names, name_key(n));
    }
    return there && same_name(there, n) ? there : NULL;
}

static void head_ask(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, const struct ctl_name *name)
{
    struct rlt_asked *asked = rlt_head_asked(r, p, id, op, true);
    if (!asked)
        return;
    asked->name = *name;
    p->has_names |= op == CTL_OP_NAME_PUT;
    rlt_head_ask_go(r, asked);
}

void rlt_name_request(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, struct ctl_name *n)
{
    n->space[sizeof n->space - 1] = n->name[sizeof n->name - 1] = n->type[sizeof n->type - 1] = 0;
    mt_status st = rlt_name_place(r, p, op != CTL_OP_NAME_GET && n->flags & CTL_NAME_FOR_ALL, n);
    if (st.code) {
        rlt_down_reply(r->out, p->conn, id, st.code, st.what);
        return;
    }
    if (r->config.has_head) {
        head_ask(r, p, id, op, n);
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

void rlt_name_answered(struct rlt *r, const Manta__V1__NameReply *reply)
{
    mt_id             id = {reply->id_process, reply->id_counter};
    struct rlt_asked *asked = mt_map_ptr(&r->head.asked, id);
    if (!asked || asked->group)
        return;
    if (asked->op == CTL_OP_NAME_GET && reply->code == MT_ENOENT && name_is_apart(r, &asked->name)) {
        name_unplace(r, &asked->name); /* its job has none of that name: perhaps another has one for all */
        rlt_asked_send(r, asked);
        return;
    }
    bool is_place = asked->op == CTL_OP_NAME_GET || (asked->op == CTL_OP_ACTOR && asked->actor->verb == CTL_ACTOR_WHERE);
    if (rlt_proc_of_conn(r, asked->conn) && reply->code == MT_OK && is_place) {
        struct ctl_name name = asked->name;
        name_unplace(r, &name);
        name.flags = reply->detached ? CTL_NAME_DETACHED : 0;
        name.actor = (mt_id){reply->actor_process, reply->actor_counter};
        name.owner = reply->owner;
        name.owner_node = reply->owner_node;
        snprintf(name.type, sizeof name.type, "%s", reply->type);
        rlt_reply_bytes(r, asked->conn, id, &name, sizeof name);
    } else if (rlt_proc_of_conn(r, asked->conn)) {
        rlt_down_reply(r->out, asked->conn, id, reply->code, reply->text[0] ? reply->text : NULL);
    }
    rlt_head_asked_over(r, asked);
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

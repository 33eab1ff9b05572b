/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - named actors: who holds which name.
 *
 * Owns:    the names, what is remembered of requests (by id), and which processes have ended lately.
 * Always:  a name's owner is a process that nobody has reported as ended, on a node that is not dead; only a detached
 *          actor's name may be without one for a while.
 *
 * A request may come twice: the reply of the first is repeated. A process may end before its name arrives, by another
 * node's stream: so ended processes are remembered, and a put in their name is refused.
 */

#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"

enum { NAME_SEPARATOR = 0x1f };
enum name_op { NAME_PUT = 1, NAME_GET = 2, NAME_DELETE = 3 }; /* NameRequest.op: enum ctl_op of the local protocol */

bool head_names_text_is_fine(const char *text, bool may_be_empty)
{
    size_t size = strlen(text);
    if (size >= HEAD_NAME_SIZE || (size == 0 && !may_be_empty))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

static void make_key(const char *space, const char *name, char key[2 * MT_NAME_BYTES_MAX])
{
    snprintf(key, 2 * MT_NAME_BYTES_MAX, "%s%c%s", space, NAME_SEPARATOR, name);
}

static struct name *find(const struct head *h, const char *key)
{
    struct head_index_node *at = head_index_find(&h->names, key);
    return at ? mt_container_of(at, struct name, at) : NULL;
}

static void count_owner(struct head *h, uint64_t owner, int change)
{
    if (owner == 0)
        return;
    mt_map_entry *entry = mt_map_find(&h->name_owners, mt_map_key(owner));
    uint64_t      count = (entry ? entry->value.num : 0) + (uint64_t)(int64_t)change;
    if (count == 0)
        mt_map_remove(&h->name_owners, mt_map_key(owner));
    else
        HEAD_TRY(h, mt_map_put_num(&h->name_owners, mt_map_key(owner), count));
}

void head_names_free(struct head *h, struct name *n)
{
    head_index_remove(&h->names, &n->at);
    count_owner(h, n->holder.owner, -1);
    free(n->key);
    free(n);
}

static mt_status add(struct head *h, const char *key, const struct holder *holder, struct name **out_name)
{
    struct name *n = calloc(1, sizeof *n);
    char        *copy = strdup(key);
    mt_status    st = n && copy ? mt_ok() : mt_error(MT_ENOMEM, 0, "add a name");
    if (st.code == 0)
        st = head_index_add(&h->names, &n->at, copy);
    if (st.code != 0) {
        free(n);
        free(copy);
        return st;
    }
    n->key = copy;
    n->name = strchr(copy, NAME_SEPARATOR) + 1;
    n->holder = *holder;
    count_owner(h, holder->owner, 1);
    *out_name = n;
    return mt_ok();
}

/* ---- the store ---- */

static void store(struct head *h, const struct name *n)
{
    Manta__Store__NameRecord record = MANTA__STORE__NAME_RECORD__INIT;
    char                     space[MT_NAME_BYTES_MAX];
    snprintf(space, sizeof space, "%.*s", (int)(n->name - n->key - 1), n->key);
    record.space = space;
    record.name = (char *)n->name;
    record.actor_process = n->holder.actor.process;
    record.actor_counter = n->holder.actor.counter_index;
    record.owner = n->holder.owner;
    record.owner_node = n->holder.owner_node;
    record.type = (char *)n->holder.type;
    record.detached = n->holder.is_detached;
    head_record_change(h, HEAD_TABLE_NAMES, n->key, strlen(n->key), &record.base);
}

static void unstore(struct head *h, const struct name *n)
{
    head_record_change(h, HEAD_TABLE_NAMES, n->key, strlen(n->key), NULL);
}

mt_status head_names_load(struct head *h, const Manta__Store__NameRecord *r)
{
    char          key[2 * MT_NAME_BYTES_MAX];
    struct name  *n;
    struct holder holder = {{r->actor_process, r->actor_counter}, "", r->owner, r->owner_node, r->detached};
    snprintf(holder.type, sizeof holder.type, "%s", r->type);
    if (!head_names_text_is_fine(r->space, true) || !head_names_text_is_fine(r->name, false))
        return mt_error(MT_ECORRUPT, 0, "the store holds a name that can't be");
    make_key(r->space, r->name, key);
    if (find(h, key))
        return mt_error(MT_ECORRUPT, 0, "the store holds a name twice");
    return add(h, key, &holder, &n);
}

/* ---- requests ---- */

struct outcome {
    int32_t       code;
    struct holder holder; /* of a get that found the name, and of a put: who has it. A repeat is told the code alone. */
};

static void reply(struct head *h, struct stream *s, const Manta__V1__NameRequest *r, const struct outcome *o)
{
    Manta__V1__NameReply answer = MANTA__V1__NAME_REPLY__INIT;
    to_node              message = MANTA__V1__HEAD_TO_NODE__INIT;
    char                 text[HEAD_TEXT_SIZE] = "";
    const char          *space = r->space[0] ? r->space : "default";
    if (o->code == MT_EEXIST)
        snprintf(text, sizeof text, "the name %.64s (namespace %.64s) is another actor's: choose another name, or get that one",
                 r->name, space);
    else if (o->code == MT_ENOENT)
        snprintf(text, sizeof text, "no actor has the name %.64s (namespace %.64s); its creator may have ended", r->name, space);
    else if (o->code == MT_EACTOR_DIED)
        snprintf(text, sizeof text, "the process that answers for %.64s has ended", r->name);
    else if (o->code == MT_EINVAL)
        snprintf(text, sizeof text, "a name has 1 to %d bytes and no control characters", HEAD_NAME_SIZE - 1);
    else if (o->code == MT_EAGAIN)
        snprintf(text, sizeof text, "the cluster holds %d names already: delete some", MT_HEAD_NAMES_MAX);
    answer.id_process = r->id_process;
    answer.id_counter = r->id_counter;
    answer.code = o->code;
    answer.text = text;
    answer.actor_process = o->holder.actor.process;
    answer.actor_counter = o->holder.actor.counter_index;
    answer.owner = o->holder.owner;
    answer.owner_node = o->holder.owner_node;
    answer.type = (char *)o->holder.type;
    answer.detached = o->holder.is_detached;
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_NAME;
    message.name = &answer;
    head_out_send(h, s, &message, true);
}

static bool owner_has_ended(const struct head *h, const Manta__V1__NameRequest *r)
{
    const struct node *n = head_nodes_find(h, r->owner_node);
    return r->owner == 0 || head_names_is_gone(h, r->owner) || !n || n->place.state == POLICY_DEAD;
}

/* Of a detached actor: its warden is up, or (0) has ended. */
static void set_owner(struct head *h, struct name *n, uint64_t owner, uint32_t node)
{
    count_owner(h, n->holder.owner, -1);
    count_owner(h, owner, 1);
    n->holder.owner = owner;
    n->holder.owner_node = node;
    store(h, n);
}

static void put(struct head *h, const Manta__V1__NameRequest *r, const char *key, struct outcome *o)
{
    struct holder holder = {{r->actor_process, r->actor_counter}, "", r->owner, r->owner_node, false};
    struct name  *n = find(h, key);
    snprintf(holder.type, sizeof holder.type, "%s", r->type);
    if (n) {
        o->code = mt_id_equal(n->holder.actor, holder.actor) ? MT_OK : MT_EEXIST;
        h->count.name_exists += o->code == MT_EEXIST;
        if (o->code == MT_OK && n->holder.is_detached && !owner_has_ended(h, r))
            set_owner(h, n, r->owner, r->owner_node);
        o->holder = n->holder;
        return;
    }
    if (owner_has_ended(h, r)) {
        o->code = MT_EACTOR_DIED;
        return;
    }
    if (h->names.count >= MT_HEAD_NAMES_MAX) {
        o->code = MT_EAGAIN;
        return;
    }
    if (!head_has_room(h, sizeof *n)) {
        o->code = head_room_refusal(h).code;
        return;
    }
    mt_status st = add(h, key, &holder, &n);
    if (st.code != 0) {
        head_broken(h, st);
        return;
    }
    h->count.name_put++;
    store(h, n);
    o->holder = holder;
}

/* A delete names the actor that it means, or none: then whoever holds the name. */
static void drop(struct head *h, const Manta__V1__NameRequest *r, const char *key, struct outcome *o)
{
    mt_id        actor = {r->actor_process, r->actor_counter};
    struct name *n = find(h, key);
    if (!n || n->holder.is_detached || (!mt_id_is_zero(actor) && !mt_id_equal(actor, n->holder.actor))) {
        o->code = MT_ENOENT;
        return;
    }
    unstore(h, n);
    head_names_free(h, n);
}

static void get(struct head *h, const char *key, struct outcome *o)
{
    struct name *n = find(h, key);
    if (n)
        o->holder = n->holder;
    else
        o->code = MT_ENOENT;
}

/* A warden has a job of its own, and where jobs are apart another name space than the creator of its actor. */
static const char *space_of(const Manta__V1__NameRequest *r, const Manta__V1__DetachedActor *actor)
{
    return actor && strcmp(actor->name, r->name) == 0 ? actor->space : r->space;
}

void head_names_request(struct head *h, struct stream *s, const Manta__V1__NameRequest *r, const Manta__V1__DetachedActor *actor)
{
    struct outcome outcome = {.code = MT_OK};
    mt_id          id = {r->id_process, r->id_counter};
    const int32_t *before = r->op == NAME_GET ? NULL : mt_recent_find(&h->outcomes, id);
    char           key[2 * MT_NAME_BYTES_MAX];
    if (before) {
        h->count.outcome_hit++;
        outcome.code = *before;
        reply(h, s, r, &outcome);
        return;
    }
    if (!head_names_text_is_fine(r->space, true) || !head_names_text_is_fine(r->name, false) ||
        !head_names_text_is_fine(r->type, true)) {
        outcome.code = MT_EINVAL;
        reply(h, s, r, &outcome);
        return;
    }
    make_key(r->op == NAME_PUT ? space_of(r, actor) : r->space, r->name, key);
    if (r->op == NAME_PUT)
        put(h, r, key, &outcome);
    else if (r->op == NAME_DELETE)
        drop(h, r, key, &outcome);
    else if (r->op == NAME_GET)
        get(h, key, &outcome);
    else
        outcome.code = MT_EUNSUPPORTED;
    if ((r->op == NAME_PUT || r->op == NAME_DELETE) && !mt_id_is_zero(id))
        mt_recent_put(&h->outcomes, id, outcome.code);
    reply(h, s, r, &outcome);
}

/* ---- ends ---- */

static void release(struct head *h, struct name *n, const char *why)
{
    if (n->holder.is_detached) {
        set_owner(h, n, 0, 0); /* its job starts another warden, or ends */
        return;
    }
    mt_log(MT_LOG_INFO, "name_released", "name=%s why=\"%s\"", n->name, why);
    h->count.name_released++;
    unstore(h, n);
    head_names_free(h, n);
}

void head_names_process_gone(struct head *h, uint64_t process)
{
    head_names_remember_gone(h, process);
    if (!mt_map_find(&h->name_owners, mt_map_key(process)))
        return;
    for (struct head_index_node *at = h->names.first, *next; at; at = next) {
        struct name *n = mt_container_of(at, struct name, at);
        next = at->next;
        if (n->holder.owner == process)
            release(h, n, "its process ended");
    }
}

void head_names_node_dead(struct head *h, uint32_t node)
{
    for (struct head_index_node *at = h->names.first, *next; at; at = next) {
        struct name *n = mt_container_of(at, struct name, at);
        next = at->next;
        if (n->holder.owner_node == node)
            release(h, n, "its node died");
    }
}

/* ---- detached actors ---- */

static struct name *find_detached(const struct head *h, const Manta__V1__DetachedActor *actor)
{
    char         key[2 * MT_NAME_BYTES_MAX];
    mt_id        id = {actor->process, actor->counter};
    struct name *n;
    if (!head_names_text_is_fine(actor->space, true) || !head_names_text_is_fine(actor->name, false))
        return NULL;
    make_key(actor->space, actor->name, key);
    n = find(h, key);
    return n && n->holder.is_detached && mt_id_equal(n->holder.actor, id) ? n : NULL;
}

int32_t head_names_add_detached(struct head *h, const Manta__V1__DetachedActor *actor)
{
    char          key[2 * MT_NAME_BYTES_MAX];
    struct holder holder = {{actor->process, actor->counter}, "", 0, 0, true};
    struct name  *n;
    if (!head_names_text_is_fine(actor->space, true) || !head_names_text_is_fine(actor->name, false) ||
        !head_names_text_is_fine(actor->type, true))
        return MT_EINVAL;
    make_key(actor->space, actor->name, key);
    if (find(h, key)) {
        h->count.name_exists++;
        return MT_EEXIST;
    }
    if (h->names.count >= MT_HEAD_NAMES_MAX)
        return MT_EAGAIN;
    snprintf(holder.type, sizeof holder.type, "%s", actor->type);
    mt_status st = add(h, key, &holder, &n);
    if (st.code != 0) {
        head_broken(h, st);
        return st.code;
    }
    h->count.name_put++;
    store(h, n);
    return MT_OK;
}

void head_names_drop_detached(struct head *h, const Manta__V1__DetachedActor *actor)
{
    struct name *n = find_detached(h, actor);
    if (!n)
        return;
    h->count.name_released++;
    unstore(h, n);
    head_names_free(h, n);
}

const struct holder *head_names_holder(const struct head *h, const Manta__V1__DetachedActor *actor)
{
    const struct name *n = find_detached(h, actor);
    return n ? &n->holder : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - runtime environments of a job: what they are, their files on this node, and the workers that run in them.
 *
 * Owns: every struct rlt_env, its archive's descriptor and the struct rlt_job of its workers; all end with the job itself.
 * Thread: the logic loop only.
 * Always: an environment that is defined is whole: what it takes from the one it builds on was copied when it was given.
 *
 *   asked for by another node's lease:  definition fetched --> archive fetched --.
 *   given by CTL_ENV of a process here ----------------------------------------- '--> unpacked --> zygote, workers
 *
 * Workers are shared among equal environments of one job only. A step that fails is told to whoever waits for such a
 * worker (MT_EENV, with the step's name), and is not tried again while the job lasts.
 */
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/jobs/private.h"
#include "raylet/core/pool/pool.h"
#include "core/base/limits/env.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t number_of(const struct rlt_job *base, uint64_t key)
{
    uint64_t n = (base->job ^ (key << 32 | key >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return n ? n : 1;
}

static struct rlt_env *env_find(const struct rlt *r, const struct rlt_job *base, uint64_t key)
{
    struct rlt_env *env = key ? mt_map_ptr(&r->envs, mt_map_key(number_of(base, key))) : NULL;
    return env && env->key == key && env->base == base ? env : NULL;
}

static struct rlt_env *env_new(struct rlt *r, struct rlt_job *base, uint64_t key)
{
    uint32_t count = 0;
    MT_MAP_EACH(&r->envs, entry)
        count += ((const struct rlt_env *)entry->value.ptr)->base == base;
    if (count >= MT_ENVS_MAX || !key || mt_map_find(&r->envs, mt_map_key(number_of(base, key))))
        return NULL;
    struct rlt_env *env = rlt_calloc(sizeof *env);
    env->key = key;
    env->number = number_of(base, key);
    env->base = base;
    env->archive = -1;
    rlt_map_put(&r->envs, mt_map_key(env->number), env);
    return env;
}

static void env_failed(struct rlt *r, struct rlt_env *env, const char *step, const char *why)
{
    char text[CTL_TEXT_SIZE];
    snprintf(text, sizeof text, "could not %s on node %u (%s): %.300s", step, r->node, r->config.node_name, why);
    if (env->workers)
        rlt_job_fail(r, env->workers, MT_EENV, text);
}

/* ---- the greeting of its zygote: the job's own, with other variables and another folder ---------------------------------- */

struct text {
    char  *at;
    size_t size, room;
};

static void text_add(struct text *t, const char *string)
{
    size_t size = strlen(string) + 1;
    if (t->size + size <= t->room)
        memcpy(t->at + t->size, string, size);
    t->size += size; /* beyond the room: seen at the end */
}

static bool same_name(const char *a, const char *b)
{
    size_t size = strcspn(a, "=");
    return strncmp(a, b, size) == 0 && b[size] == '=';
}

/* Whether a variable of that name is among those from `from` on. */
static bool is_set_in(const struct rlt_env *env, const char *variable, const char *from)
{
    const char *end = (const char *)env->strings + env->def.strings_size;
    for (; from < end; from += strlen(from) + 1)
        if (same_name(variable, from))
            return true;
    return false;
}

static void add_variables(const struct rlt_env *env, const char **texts, struct ctl_hello *h, struct text *to)
{
    const char *own = (const char *)env->strings, *end = own + env->def.strings_size;
    char        line[sizeof env->folder + sizeof env->def.code + 32];
    uint32_t    count = 0;
    for (uint32_t i = 0; i < h->envc; i++, *texts += strlen(*texts) + 1) {
        if (is_set_in(env, *texts, own))
            continue;
        text_add(to, *texts);
        count++;
    }
    for (const char *v = own; v < end; v += strlen(v) + 1) {
        if (is_set_in(env, v, v + strlen(v) + 1))
            continue; /* set again further on */
        text_add(to, v);
        count++;
    }
    snprintf(line, sizeof line, "MANTA_ENV=%016llx", (unsigned long long)env->key);
    text_add(to, line);
    count++;
    if (env->def.code[0]) {
        snprintf(line, sizeof line, "MANTA_CODE=%s/%s", env->folder, env->def.code);
        text_add(to, line);
        count++;
    }
    h->envc = count;
}

/* False: it is too long. */
static bool hello_make(const struct rlt_env *env, struct rlt_job *job)
{
    struct ctl_hello h;
    const char      *texts = (const char *)env->base->hello + sizeof h;
    struct text      to = {.room = CTL_HELLO_STRINGS_MAX};
    job->hello = rlt_calloc(sizeof h + CTL_HELLO_STRINGS_MAX);
    to.at = (char *)job->hello + sizeof h;
    memcpy(&h, env->base->hello, sizeof h);
    for (uint32_t i = 0; i < h.argc; i++, texts += strlen(texts) + 1)
        text_add(&to, texts);
    add_variables(env, &texts, &h, &to);
    text_add(&to, env->def.flags & CTL_ENV_CHDIR ? env->folder : texts);
    h.strings_size = (uint32_t)to.size;
    memcpy(job->hello, &h, sizeof h);
    job->hello_size = (uint32_t)(sizeof h + to.size);
    return to.size <= to.room;
}

/* ---- making it: each call does the next step ---- */

static void fetch(struct rlt *r, struct rlt_env *env, enum peer_file_part part)
{
    struct peer_file what = {.job = env->base->job, .env = env->key, .part = part};
    if (!rlt_fetch_start(r, &env->fetch, env->from, &what))
        env_failed(r, env, "fetch the runtime environment", "the node that has it is dead");
}

static bool is_whole(const struct rlt_env *env)
{
    return env->is_defined && (env->archive >= 0 || !env->def.archive_size);
}

const struct rlt_env *rlt_env_whole(const struct rlt *r, const struct rlt_job *base, uint64_t key)
{
    const struct rlt_env *env = env_find(r, base, key);
    return env && is_whole(env) ? env : NULL;
}

static void env_go(struct rlt *r, struct rlt_env *env)
{
    struct rlt_job *job = env->workers;
    bool            has_files = env->def.archive_size != 0;
    if (!job || job->hello || job->is_ending || rlt_job_is_broken(r, job))
        return;
    if (!is_whole(env)) {
        if (!rlt_fetch_is_busy(&env->fetch))
            fetch(r, env, env->is_defined ? PEER_ARCHIVE : PEER_DEFINITION);
    } else if (has_files && !env->folder[0]) {
        if (env->is_making)
            return;
        env->is_making = true;
        struct rlt_a_env_make *a = &rlt_act(r->out, RLT_A_ENV_MAKE)->env_make;
        a->env = env->number;
        a->archive = env->archive;
        a->size = env->def.archive_size;
        memcpy(a->sha256, env->def.sha256, sizeof a->sha256);
    } else if (env->base->program >= 0) {
        if (hello_make(env, job))
            rlt_pool_begin(r, job);
        else
            env_failed(r, env, "set env_vars", "with those of the driver they are too many bytes");
    }
}

struct rlt_job *rlt_env_workers(struct rlt *r, struct rlt_job *base, uint64_t key, uint32_t from)
{
    struct rlt_env *env = env_find(r, base, key);
    if (!env && from && (env = env_new(r, base, key)))
        env->from = from;
    if (!env)
        return NULL;
    if (!env->workers) {
        env->workers = rlt_job_new(r, base->job, env->number, base->node, base->name);
        env->workers->env = env;
        env->workers->number = base->number;
        env->workers->is_ending = base->is_ending;
    }
    if (from && env->from != from && !rlt_fetch_is_busy(&env->fetch) && !is_whole(env))
        env->from = from; /* who was asked first is gone; this one knows it too */
    env_go(r, env);
    return env->workers;
}

void rlt_env_go_all(struct rlt *r, struct rlt_job *base)
{
    MT_MAP_EACH(&r->envs, entry) {
        struct rlt_env *env = entry->value.ptr;
        if (env->base == base)
            env_go(r, env);
    }
}

void rlt_env_made(struct rlt *r, const struct rlt_ev_env_made *e)
{
    struct rlt_env *env = mt_map_ptr(&r->envs, mt_map_key(e->env));
    if (!env)
        return;
    env->is_making = false;
    if (e->wrong) {
        env_failed(r, env, "make working_dir", e->wrong);
        return;
    }
    snprintf(env->folder, sizeof env->folder, "%s", e->folder);
    env_go(r, env);
}

/* ---- given by a process of this node ---- */

static const char *definition_wrong(const struct ctl_env *def, const uint8_t *strings, size_t size, bool has_fd)
{
    if (!def->key || def->strings_size != size || (size && strings[size - 1] != 0))
        return "a runtime environment that does not add up";
    if (size > MT_ENV_VARS_BYTES_MAX)
        return "set env_vars: they are too many bytes";
    if (has_fd != (def->archive_size != 0) || def->archive_size > (uint64_t)MT_ENV_MIB_MAX << 20)
        return "a runtime environment whose files do not add up, or are too large";
    for (const uint8_t *v = strings; v < strings + size; v += strlen((const char *)v) + 1)
        if (!strchr((const char *)v, '=') || v[0] == '=')
            return "set env_vars: one is no NAME=value";
    return NULL;
}

/* Takes from its parent what it does not say itself. */
static void env_inherit(struct rlt_env *env, const struct rlt_env *parent)
{
    if (!env->def.archive_size) {
        env->archive = parent->archive; /* the parent's to close: both end with the job */
        env->def.archive_size = parent->def.archive_size;
        env->def.flags |= parent->def.flags & CTL_ENV_CHDIR;
        memcpy(env->def.sha256, parent->def.sha256, sizeof env->def.sha256);
        memcpy(env->def.code, parent->def.code, sizeof env->def.code);
    }
    if (parent->def.strings_size) {
        uint32_t size = parent->def.strings_size + env->def.strings_size;
        uint8_t *all = rlt_calloc(size);
        memcpy(all, parent->strings, parent->def.strings_size);
        if (env->def.strings_size)
            memcpy(all + parent->def.strings_size, env->strings, env->def.strings_size);
        free(env->strings);
        env->strings = all;
        env->def.strings_size = size;
    }
}

static void env_set(struct rlt *r, struct rlt_env *env, const struct ctl_env *def, const uint8_t *strings)
{
    rlt_fetch_stop(r, &env->fetch); /* a definition that was on its way */
    env->def = *def;
    env->def.code[sizeof env->def.code - 1] = 0;
    env->def.parent = 0;
    if (def->strings_size) {
        env->strings = rlt_calloc(def->strings_size);
        memcpy(env->strings, strings, def->strings_size);
    }
    env->is_defined = true;
}

static const char *env_define(struct rlt *r, struct rlt_job *base, const struct ctl_env *def, const uint8_t *strings, size_t size,
                              int take_fd)
{
    const struct rlt_env *parent = env_find(r, base, def->parent);
    struct rlt_env       *env = env_find(r, base, def->key);
    const char           *wrong = definition_wrong(def, strings, size, take_fd >= 0);
    if (!wrong && def->parent && (!parent || !parent->is_defined || (parent->def.archive_size && parent->archive < 0)))
        wrong = "the environment that this one builds on is not known here";
    if (!wrong && parent && parent->def.strings_size + size > MT_ENV_VARS_BYTES_MAX)
        wrong = "set env_vars: with those that it builds on they are too many bytes";
    if (!wrong && !env && !(env = env_new(r, base, def->key)))
        wrong = "the job has too many runtime environments on this node";
    if (wrong || env->is_defined) {
        rlt_close_fd(r->out, take_fd);
        return wrong;
    }
    env_set(r, env, def, strings);
    env->archive = take_fd;
    env->from = 0;
    env->has_archive = take_fd >= 0;
    if (parent)
        env_inherit(env, parent);
    env_go(r, env);
    return NULL;
}

void rlt_env_define(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e)
{
    struct ctl_env def;
    const char    *wrong = "a process without a job has no environments";
    memcpy(&def, e->payload, sizeof def);
    if (p->job && !p->job->is_ending)
        wrong = env_define(r, rlt_job_base(p->job), &def, e->payload + sizeof def, e->record.length - LANE_RECORD_SIZE - sizeof def,
                           e->fd);
    else
        rlt_close_fd(r->out, e->fd);
    rlt_down_reply(r->out, p->conn, e->record.id, wrong ? MT_EENV : MT_OK, wrong ? wrong : "");
}

/* ---- between nodes ---- */

static struct rlt_env *env_of(const struct rlt *r, const struct peer_file *what)
{
    const struct rlt_job *base = mt_map_ptr(&r->jobs, mt_map_key(what->job));
    return base && !base->env ? env_find(r, base, what->env) : NULL;
}

static void definition_send(struct rlt *r, uint32_t node, const struct peer_file_want *want, const struct rlt_env *env)
{
    size_t   total = sizeof env->def + env->def.strings_size;
    uint8_t *all = rlt_keep(r->out, NULL, total);
    memcpy(all, &env->def, sizeof env->def);
    if (env->def.strings_size)
        memcpy(all + sizeof env->def, env->strings, env->def.strings_size);
    rlt_fetch_send_memory(r, node, want, all, total);
}

void rlt_env_wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want)
{
    const struct rlt_env *env = env_of(r, &want->what);
    if (env && env->is_defined && want->what.part == PEER_DEFINITION)
        definition_send(r, node, want, env);
    else if (env && env->is_defined && want->what.part == PEER_ARCHIVE && env->archive >= 0)
        rlt_fetch_send_file(r, node, want, env->archive);
    else
        rlt_fetch_send_none(r, node, &want->what);
}

static void definition_in(struct rlt *r, struct rlt_env *env)
{
    struct ctl_env def;
    uint8_t       *all = env->fetch.bytes;
    const char    *wrong = "its definition is cut short";
    env->fetch.bytes = NULL;
    if (env->fetch.total >= sizeof def) {
        memcpy(&def, all, sizeof def);
        wrong = definition_wrong(&def, all + sizeof def, (size_t)env->fetch.total - sizeof def, def.archive_size != 0);
    }
    if (!wrong)
        env_set(r, env, &def, all + sizeof def);
    free(all);
    if (wrong)
        env_failed(r, env, "fetch the runtime environment", wrong);
    else
        env_go(r, env);
}

void rlt_env_chunk(struct rlt *r, uint32_t node, const struct peer_file_chunk *c, const uint8_t *bytes)
{
    struct rlt_env *env = env_of(r, &c->what);
    bool            is_definition = c->what.part == PEER_DEFINITION;
    uint64_t        most = is_definition ? sizeof env->def + MT_ENV_VARS_BYTES_MAX : 0;
    if (!env || env->fetch.node != node || (!is_definition && c->total != env->def.archive_size))
        return;
    if (rlt_fetch_take(r, &env->fetch, c, bytes, most, env->def.sha256) == RLT_FETCH_WHOLE && is_definition)
        definition_in(r, env);
}

void rlt_env_none(struct rlt *r, uint32_t node, const struct peer_file *what)
{
    struct rlt_env *env = env_of(r, what);
    if (!env || env->fetch.node != node)
        return;
    rlt_fetch_stop(r, &env->fetch);
    env_failed(r, env, "fetch the runtime environment", "the node that asked for it does not know it any more");
}

void rlt_env_file_ready(struct rlt *r, const struct rlt_ev_file_ready *e)
{
    struct rlt_env *env = env_of(r, &e->file);
    if (env && e->is_refused) {
        rlt_fetch_stop(r, &env->fetch);
        env_failed(r, env, "fetch the files of the runtime environment", e->why ? e->why : "they could not be written");
    } else if (env && env->archive < 0) {
        env->archive = e->fd;
        env->has_archive = true;
        env_go(r, env);
    } else {
        rlt_close_fd(r->out, e->fd);
    }
}

/* What was on its way from that node is lost; the next lease that comes with the environment asks its own node. */
void rlt_env_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->envs, entry) {
        struct rlt_env *env = entry->value.ptr;
        if (env->fetch.node == node)
            rlt_fetch_stop(r, &env->fetch);
    }
}

/* ---- the end ---- */

bool rlt_env_job_is_empty(const struct rlt *r, const struct rlt_job *base)
{
    MT_MAP_EACH(&r->envs, entry) {
        const struct rlt_env *env = entry->value.ptr;
        const struct rlt_job *w = env->base == base ? env->workers : NULL;
        if (w && (w->zygote || w->worker_count || w->lease_count))
            return false;
    }
    return true;
}

void rlt_env_job_free(struct rlt *r, struct rlt_job *base)
{
    MT_MAP_EACH(&r->envs, entry) {
        struct rlt_env *env = entry->value.ptr;
        if (env->base != base)
            continue;
        if (env->has_archive)
            rlt_close_fd(r->out, env->archive);
        rlt_fetch_stop(r, &env->fetch);
        if (env->folder[0] || env->is_making)
            rlt_act(r->out, RLT_A_ENV_DROP)->env_drop.env = env->number;
        if (env->workers)
            rlt_job_free(r, env->workers);
        mt_map_remove(&r->envs, mt_map_key(env->number));
        free(env->strings);
        free(env);
    }
}

void rlt_envs_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->envs, entry) {
        struct rlt_env *env = entry->value.ptr;
        free(env->fetch.bytes);
        free(env->strings);
        free(env);
    }
    mt_map_fini(&r->envs);
}

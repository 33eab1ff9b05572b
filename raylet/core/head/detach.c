/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.c - detached actors, on their way from a process of this node to the head.
 *
 * Owns: nothing; what waits for the head stands in struct rlt_asked. Thread: the logic loop only.
 *
 * The head keeps a detached actor as a job whose driver, the warden, is the creator's own program. So the program goes
 * to the head first (PROGRAM_SEND), by its SHA-256 as those of submitted jobs do, and with it what is too large for the
 * request: values, files of its runtime environment. Then the job, with the arguments and the environment that the
 * creator's driver was started with.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/jobs/jobs.h"

#include "core/sha/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A copy that lives as long as the request: the message it came in does not. */
static Manta__V1__ActorRequest *request_copy(const Manta__V1__ActorRequest *from)
{
    size_t                   size = manta__v1__actor_request__get_packed_size(from);
    uint8_t                 *bytes = rlt_calloc(size + 1);
    Manta__V1__ActorRequest *copy;
    manta__v1__actor_request__pack(from, bytes);
    copy = manta__v1__actor_request__unpack(NULL, size, bytes);
    free(bytes);
    if (!copy)
        rlt_out_of_memory();
    return copy;
}

static void actor_ask(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_actor *actor)
{
    Manta__V1__ActorRequest request = MANTA__V1__ACTOR_REQUEST__INIT;
    struct rlt_asked       *asked = rlt_head_asked(r, p, id, CTL_OP_ACTOR, true);
    char                    text[CTL_TEXT_SIZE];
    if (!asked)
        return;
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, actor->text);
    request.id_process = id.process;
    request.id_counter = id.counter_index;
    request.verb = actor->verb;
    request.actor_process = actor->actor.process;
    request.actor_counter = actor->actor.counter_index;
    request.restarts = actor->restarts;
    request.reason = text;
    request.lease = actor->lease;
    request.node = actor->node;
    asked->actor = request_copy(&request);
    asked->name.actor = actor->actor;
    rlt_head_ask_go(r, asked);
}

/* ---- a new one ---- */

/* What the warden is started with: argv, then the environment, out of the greeting of the creator's driver. */
struct strings {
    char   **items;
    uint32_t argc, envc;
};

static bool strings_take(const struct rlt_job *job, struct strings *out)
{
    const struct ctl_hello *hello = job->hello;
    const char             *at = (const char *)(hello + 1);
    if (!hello || job->program < 0)
        return false;
    out->argc = hello->argc;
    out->envc = hello->envc;
    out->items = rlt_calloc(((size_t)out->argc + out->envc + 1) * sizeof *out->items);
    for (uint32_t i = 0; i < out->argc + out->envc; i++, at += strlen(at) + 1)
        out->items[i] = (char *)(uintptr_t)at;
    return true;
}

static void spec_fill(const struct ctl_detached *d, Manta__V1__JobSpec *spec, char id[CTL_NAME_SIZE], char *label,
                      size_t label_size)
{
    snprintf(id, CTL_NAME_SIZE, "actor-%016" PRIx64 "-%" PRIx64, d->name.actor.process, d->name.actor.counter_index);
    snprintf(label, label_size, "%s/%s", d->name.space, d->name.name);
    spec->id = id;
    spec->name = label;
    spec->retries = d->restarts < 0 ? UINT32_MAX : (uint32_t)d->restarts;
}

/* What the warden gets in its environment: the library's bytes, then the definition of its runtime environment. */
static uint8_t *create_make(struct rlt *r, const struct ctl_detached *d, const uint8_t *bytes, const struct rlt_env *env,
                            size_t *out_size)
{
    size_t   more = env ? sizeof env->def + env->def.strings_size : 0;
    uint8_t *all = rlt_keep(r->out, NULL, d->size + more + 1);
    memcpy(all, bytes, d->size);
    if (env)
        memcpy(all + d->size, &env->def, sizeof env->def);
    if (env && env->def.strings_size)
        memcpy(all + d->size + sizeof env->def, env->strings, env->def.strings_size);
    *out_size = d->size + more;
    return all;
}

/* One more file of the request. `sum` NULL: it is filled in before the file is sent. */
static void file_add(struct rlt *r, Manta__V1__JobSpec *spec, const char *path, uint32_t mode, const uint8_t *sum)
{
    Manta__V1__JobFile *file = rlt_keep(r->out, NULL, sizeof *file);
    manta__v1__job_file__init(file);
    file->path = (char *)(uintptr_t)path;
    file->mode = mode;
    file->sha256 = (ProtobufCBinaryData){MT_SHA256_SIZE, rlt_keep(r->out, sum, MT_SHA256_SIZE)};
    spec->files[spec->n_files++] = file;
}

/* In the order in which they are uploaded. */
static void files_add(struct rlt *r, Manta__V1__JobSpec *spec, const struct ctl_detached *d, const struct rlt_job *job,
                      const struct rlt_env *env)
{
    uint32_t programs = rlt_program_count(job);
    spec->files = rlt_keep(r->out, NULL, (programs + 2) * sizeof(Manta__V1__JobFile *));
    for (uint32_t i = 0; i < programs; i++)
        file_add(r, spec, rlt_program_path(job, i), 0755, NULL);
    if (d->values_size)
        file_add(r, spec, CTL_VALUES_FILE, 0600, d->values_sha256);
    if (env && env->def.archive_size)
        file_add(r, spec, CTL_ENV_FILE, 0600, env->def.sha256);
}

/* The driver's, but for the program's new place: in the job's folder. */
static void argv_set(struct rlt *r, Manta__V1__JobSpec *spec, const struct strings *strings, const char *path)
{
    size_t argc = strings->argc ? strings->argc : 1, size = strlen(path) + sizeof "./";
    char  *first = rlt_keep(r->out, NULL, size);
    snprintf(first, size, "./%s", path);
    spec->argv = rlt_keep(r->out, NULL, argc * sizeof *spec->argv);
    memcpy(spec->argv, strings->items, strings->argc * sizeof *spec->argv);
    spec->argv[0] = first;
    spec->n_argv = argc;
}

static void actor_fill(const struct ctl_detached *d, Manta__V1__DetachedActor *actor)
{
    actor->space = (char *)(uintptr_t)d->name.space;
    actor->name = (char *)(uintptr_t)d->name.name;
    actor->type = (char *)(uintptr_t)d->name.type;
    actor->process = d->name.actor.process;
    actor->counter = d->name.actor.counter_index;
    actor->strict = d->is_strict;
}

static Manta__V1__ActorRequest *request_make(struct rlt *r, mt_id id, const struct ctl_detached *d, const uint8_t *create,
                                             const struct strings *strings, const struct rlt_job *creator,
                                             const struct rlt_env *env)
{
    Manta__V1__ActorRequest  request = MANTA__V1__ACTOR_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__DetachedActor actor = MANTA__V1__DETACHED_ACTOR__INIT;
    char                     job[CTL_NAME_SIZE], label[2 * CTL_NAME_SIZE];

    spec_fill(d, &spec, job, label, sizeof label);
    argv_set(r, &spec, strings, rlt_program_path(creator, 0));
    spec.env = strings->items + strings->argc;
    spec.n_env = strings->envc;
    files_add(r, &spec, d, creator, env);
    actor_fill(d, &actor);
    actor.create.data = create_make(r, d, create, env, &actor.create.len);
    spec.actor = &actor;
    request.id_process = id.process;
    request.id_counter = id.counter_index;
    request.actor_process = actor.process;
    request.actor_counter = actor.counter;
    request.verb = CTL_ACTOR_NEW;
    request.spec = &spec;
    return request_copy(&request);
}

/* Takes the descriptor. */
static void detach_new(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_detached *d, const uint8_t *create,
                       int take_fd)
{
    struct rlt_job       *job = p->job ? rlt_job_base(p->job) : NULL;
    uint64_t              key = d->env ? d->env : p->job && p->job->env ? p->job->env->key : 0;
    const struct rlt_env *env = job && key ? rlt_env_whole(r, job, key) : NULL;
    struct strings        strings = {0};
    struct rlt_asked     *asked = NULL;
    if (key && !env)
        rlt_down_reply(r->out, p->conn, id, MT_EENV, "the runtime environment of the actor is not known here");
    else if (!job || !strings_take(job, &strings))
        rlt_down_reply(r->out, p->conn, id, MT_EAGAIN, "the program of this job is not here yet");
    else
        asked = rlt_head_asked(r, p, id, CTL_OP_ACTOR_NEW, true);
    if (asked) {
        asked->actor = request_make(r, id, d, create, &strings, job, env);
        asked->programs = rlt_program_count(job);
        asked->values = take_fd;
        asked->env = key;
    } else {
        rlt_close_fd(r->out, take_fd);
    }
    free(strings.items);
    if (asked && r->head.is_registered)
        rlt_detach_go(r, asked);
}

/* The next of its files. */
static void upload_next(struct rlt *r, const struct rlt_asked *asked, const struct rlt_job *job)
{
    const Manta__V1__JobFile *file = asked->actor->spec->files[asked->uploaded];
    const struct rlt_env     *env = asked->env ? rlt_env_whole(r, job, asked->env) : NULL;
    bool                      has_values = asked->values >= 0 && asked->uploaded == asked->programs;
    if (asked->uploaded >= asked->programs && !has_values && !env)
        return;
    struct rlt_a_program_send *a = &rlt_act(r->out, RLT_A_PROGRAM_SEND)->program_send;
    a->file = (struct peer_file){.job = job->job, .part = PEER_PROGRAM, .index = asked->uploaded};
    a->fd = asked->uploaded < asked->programs ? rlt_program_fd(job, asked->uploaded) : has_values ? asked->values : env->archive;
    a->index = asked->uploaded;
    memcpy(a->sha256, file->sha256.data, sizeof a->sha256);
    a->id = asked->id;
}

static struct rlt_job *job_of_asked(const struct rlt *r, const struct rlt_asked *asked)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, asked->conn);
    return asked->is_held && asked->op == CTL_OP_ACTOR_NEW && p && p->job ? rlt_job_base(p->job) : NULL;
}

void rlt_detach_go(struct rlt *r, struct rlt_asked *asked)
{
    struct rlt_job *job = job_of_asked(r, asked);
    if (!job || job->program < 0)
        return; /* where its process is gone: given up when its time is over */
    if (!rlt_program_is_listed(r, job))
        return; /* goes on when the sums of its files are known */
    for (uint32_t i = 0; i < asked->programs && i < job->list_count; i++)
        memcpy(asked->actor->spec->files[i]->sha256.data, job->list[i].sha256, MT_SHA256_SIZE);
    upload_next(r, asked, job);
}

void rlt_detach_listed(struct rlt *r, const struct rlt_job *job, const char *why)
{
    RLT_LIST_EACH(&r->head.all_asked, link) {
        struct rlt_asked *asked = mt_container_of(link, struct rlt_asked, in_all);
        if (job_of_asked(r, asked) != job)
            continue;
        if (!job->list)
            rlt_head_ask_failed(r, asked, MT_EACTOR_DIED, why ? why : "the program's files can't be read");
        else if (r->head.is_registered)
            rlt_detach_go(r, asked);
    }
}

void rlt_detach_uploaded(struct rlt *r, const struct rlt_ev_program_sent *e)
{
    struct rlt_asked *asked = mt_map_ptr(&r->head.asked, e->id);
    if (!asked || asked->op != CTL_OP_ACTOR_NEW || !asked->is_held || e->index != asked->uploaded)
        return; /* given up meanwhile, or told twice: once by each of two heads */
    if (e->is_refused) {
        if (r->head.is_registered) /* else it is tried again with the next head */
            rlt_head_ask_failed(r, asked, MT_ECONN, e->why);
        return;
    }
    Manta__V1__JobFile *file = asked->actor->spec->files[asked->uploaded++];
    file->size = e->total;
    memcpy(file->sha256.data, e->sha256, file->sha256.len);
    if (asked->uploaded < asked->actor->spec->n_files)
        rlt_detach_go(r, asked);
    else
        rlt_head_ask_go(r, asked);
}

/* ---- from the processes ---- */

static void detach_asked(struct rlt *r, struct rlt_proc *p, mt_id id, const uint8_t *payload, size_t size, int take_fd)
{
    struct ctl_detached d;
    memcpy(&d, payload, sizeof d);
    d.name.space[CTL_NAME_SIZE - 1] = d.name.name[CTL_NAME_SIZE - 1] = d.name.type[CTL_NAME_SIZE - 1] = 0;
    mt_status st = rlt_name_place(r, p, d.name.flags & CTL_NAME_FOR_ALL, &d.name);
    if (st.code) {
        rlt_down_reply(r->out, p->conn, id, st.code, st.what);
    } else if (d.size <= size - sizeof d && (take_fd >= 0) == (d.values_size != 0)) {
        detach_new(r, p, id, &d, payload + sizeof d, take_fd);
        return;
    } else {
        rlt_down_reply(r->out, p->conn, id, MT_EINVAL, "a detached actor's arguments run past their record");
    }
    rlt_close_fd(r->out, take_fd);
}

void rlt_detach(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload, int take_fd)
{
    size_t             size = record->length - LANE_RECORD_SIZE - sizeof(struct ctl_request);
    struct ctl_request request;
    struct ctl_actor   actor;
    memcpy(&request, payload, sizeof request);
    payload += sizeof request;
    if (r->config.has_head && request.op == CTL_OP_ACTOR_NEW && size >= sizeof(struct ctl_detached)) {
        detach_asked(r, p, record->id, payload, size, take_fd);
        return;
    }
    rlt_close_fd(r->out, take_fd);
    if (!r->config.has_head) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EUNSUPPORTED, "a detached actor needs a cluster with a head");
    } else if (request.op == CTL_OP_ACTOR && size >= sizeof actor) {
        memcpy(&actor, payload, sizeof actor);
        actor_ask(r, p, record->id, &actor);
    } else {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "a request that is cut short");
    }
}

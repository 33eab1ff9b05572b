/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.c - detached actors, on their way from a process of this node to the head.
 *
 * Owns: nothing; what waits for the head stands in struct rlt_asked. Thread: the logic loop only.
 *
 * The head keeps a detached actor as a job whose driver, the warden, is the creator's own program. So the program goes
 * to the head first (PROGRAM_SEND), by its SHA-256 as those of submitted jobs do, and then the job, with the arguments
 * and the environment that the creator's driver was started with.
 */
#include "raylet/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODE_TEXT_MAX = 255 /* bytes of a file's name */ };

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

void rlt_actor_ask(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_actor *actor)
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

/* Where the program stands in the job's folder, and its first argument. */
static void program_name(const struct strings *strings, char out[NODE_TEXT_MAX + 1])
{
    const char *path = strings->argc ? strings->items[0] : "", *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    bool        is_fine = name[0] && strlen(name) <= NODE_TEXT_MAX && strcmp(name, ".") && strcmp(name, "..");
    snprintf(out, NODE_TEXT_MAX + 1, "%s", is_fine ? name : "program");
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

static Manta__V1__ActorRequest *request_make(mt_id id, const struct ctl_detached *d, const uint8_t *create,
                                             const struct strings *strings)
{
    Manta__V1__ActorRequest  request = MANTA__V1__ACTOR_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__DetachedActor actor = MANTA__V1__DETACHED_ACTOR__INIT;
    Manta__V1__JobFile       program = MANTA__V1__JOB_FILE__INIT, *files[] = {&program};
    char                     job[CTL_NAME_SIZE], label[2 * CTL_NAME_SIZE], name[NODE_TEXT_MAX + 1], first[NODE_TEXT_MAX + 3];
    uint8_t                  sum[32] = {0};
    char                   **argv = rlt_calloc(((size_t)strings->argc + 1) * sizeof *argv);

    spec_fill(d, &spec, job, label, sizeof label);
    program_name(strings, name);
    snprintf(first, sizeof first, "./%s", name);
    memcpy(argv, strings->items, strings->argc * sizeof *argv);
    argv[0] = first;
    spec.argv = argv;
    spec.n_argv = strings->argc ? strings->argc : 1;
    spec.env = strings->items + strings->argc;
    spec.n_env = strings->envc;
    program.path = name;
    program.mode = 0755;
    program.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    spec.files = files;
    spec.n_files = 1;
    actor.space = (char *)(uintptr_t)d->name.space;
    actor.name = (char *)(uintptr_t)d->name.name;
    actor.type = (char *)(uintptr_t)d->name.type;
    actor.process = request.actor_process = d->name.actor.process;
    actor.counter = request.actor_counter = d->name.actor.counter_index;
    actor.strict = d->is_strict;
    actor.create = (ProtobufCBinaryData){d->size, (uint8_t *)(uintptr_t)create};
    spec.actor = &actor;
    request.id_process = id.process;
    request.id_counter = id.counter_index;
    request.verb = CTL_ACTOR_NEW;
    request.spec = &spec;
    Manta__V1__ActorRequest *copy = request_copy(&request);
    free(argv);
    return copy;
}

static void detach_new(struct rlt *r, struct rlt_proc *p, mt_id id, const struct ctl_detached *d, const uint8_t *create)
{
    struct rlt_job   *job = p->job ? rlt_job_base(p->job) : NULL;
    struct strings    strings;
    struct rlt_asked *asked;
    if (p->job && p->job->env) {
        rlt_down_reply(r->out, p->conn, id, MT_EUNSUPPORTED, "a detached actor can't be made in a runtime environment");
        return;
    }
    if (!job || !strings_take(job, &strings)) {
        rlt_down_reply(r->out, p->conn, id, MT_EAGAIN, "the program of this job is not here yet");
        return;
    }
    asked = rlt_head_asked(r, p, id, CTL_OP_ACTOR_NEW, true);
    if (asked)
        asked->actor = request_make(id, d, create, &strings);
    free(strings.items);
    if (asked && r->head.is_registered)
        rlt_detach_go(r, asked);
}

void rlt_detach_go(struct rlt *r, struct rlt_asked *asked)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, asked->conn);
    struct rlt_job  *job = p && p->job ? rlt_job_base(p->job) : NULL;
    if (!asked->is_held || asked->op != CTL_OP_ACTOR_NEW || !job || job->program < 0)
        return; /* where its process is gone: given up when its time is over */
    struct rlt_action *a = rlt_act(r->out, RLT_A_PROGRAM_SEND);
    a->job = job->job;
    a->fd = job->program;
    a->record.id = asked->id;
}

void rlt_detach_uploaded(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_asked *asked = mt_map_ptr(&r->head.asked, e->record.id);
    if (!asked || asked->op != CTL_OP_ACTOR_NEW || !asked->is_held)
        return; /* given up meanwhile */
    if (e->refused) {
        if (r->head.is_registered) /* else it is tried again with the next head */
            rlt_head_ask_failed(r, asked, MT_ECONN, e->text);
        return;
    }
    Manta__V1__JobFile *program = asked->actor->spec->files[0];
    program->size = e->total;
    memcpy(program->sha256.data, e->sha256, program->sha256.len);
    rlt_head_ask_go(r, asked);
}

/* ---- from the processes ---- */

void rlt_detach(struct rlt *r, struct rlt_proc *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t              size = record->length - LANE_RECORD_SIZE - sizeof(struct ctl_request);
    struct ctl_request  request;
    struct ctl_detached d;
    struct ctl_actor    actor;
    memcpy(&request, payload, sizeof request);
    payload += sizeof request;
    if (!r->config.has_head) {
        rlt_down_reply(r->out, p->conn, record->id, MT_EUNSUPPORTED, "a detached actor needs a cluster with a head");
    } else if (request.op == CTL_OP_ACTOR && size >= sizeof actor) {
        memcpy(&actor, payload, sizeof actor);
        rlt_actor_ask(r, p, record->id, &actor);
    } else if (request.op == CTL_OP_ACTOR_NEW && size >= sizeof d) {
        memcpy(&d, payload, sizeof d);
        d.name.space[CTL_NAME_SIZE - 1] = d.name.name[CTL_NAME_SIZE - 1] = d.name.type[CTL_NAME_SIZE - 1] = 0;
        if (d.size <= size - sizeof d)
            detach_new(r, p, record->id, &d, payload + sizeof d);
        else
            rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "a detached actor's arguments run past their record");
    } else {
        rlt_down_reply(r->out, p->conn, record->id, MT_EINVAL, "a request that is cut short");
    }
}

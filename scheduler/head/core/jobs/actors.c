/* SPDX-License-Identifier: Apache-2.0
 *
 * actors.c - detached actors: named ones that outlive their creator.
 *
 * Owns:    nothing: a detached actor is a job (jobs.c) and a name (names.c), written in one batch.
 * Always:  the name of a detached actor is there exactly as long as its job has neither ended nor been told to stop.
 *
 * The job's driver is the warden: the creator's own program, which makes the actor, puts its own process behind the
 * name, and answers for the actor. When it or its node dies, the job's retries start another one: that is a restart of
 * the actor, and counts together with those that a warden itself has made (job->failures).
 */

#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/head/core/names/names.h"

#include <inttypes.h>

enum verb { ACTOR_NEW = 1, ACTOR_WHERE = 2, ACTOR_END = 3, ACTOR_RESTARTED = 4, ACTOR_VOID = 5 }; /* enum ctl_actor_verb */

static void job_id(uint64_t process, uint64_t counter, char out[HEAD_JOB_ID_SIZE])
{
    snprintf(out, HEAD_JOB_ID_SIZE, "actor-%016" PRIx64 "-%" PRIx64, process, counter);
}

static void reply(struct head *h, struct stream *s, const Manta__V1__ActorRequest *r, int32_t code, const char *text,
                  const struct holder *holder)
{
    Manta__V1__NameReply answer = MANTA__V1__NAME_REPLY__INIT;
    to_node              message = MANTA__V1__HEAD_TO_NODE__INIT;
    answer.id_process = r->id_process;
    answer.id_counter = r->id_counter;
    answer.code = code;
    answer.text = (char *)text;
    answer.actor_process = r->actor_process;
    answer.actor_counter = r->actor_counter;
    answer.detached = true;
    if (holder) {
        answer.owner = holder->owner;
        answer.owner_node = holder->owner_node;
        answer.type = (char *)holder->type;
    }
    message.kind_case = MANTA__V1__HEAD_TO_NODE__KIND_NAME;
    message.name = &answer;
    head_out_send(h, s, &message, true);
}

/* ---- making one ---- */

static bool spec_is_fine(const Manta__V1__ActorRequest *r, char *text, size_t text_size)
{
    const job_spec *spec = r->spec;
    char            id[HEAD_JOB_ID_SIZE];
    job_id(r->actor_process, r->actor_counter, id);
    if (spec && spec->actor && strcmp(spec->id, id) == 0 && spec->actor->process == r->actor_process &&
        spec->actor->counter == r->actor_counter)
        return true;
    snprintf(text, text_size, "the request does not say which actor it is for");
    return false;
}

static int32_t make(struct head *h, const Manta__V1__ActorRequest *r, char *text, size_t text_size)
{
    struct job *job;
    if (!spec_is_fine(r, text, text_size))
        return MT_EINVAL;
    if ((job = head_jobs_find(h, r->spec->id)))
        return head_spec_equal(job->spec, r->spec) ? MT_OK : MT_EEXIST; /* said twice */
    const Manta__V1__DetachedActor *actor = r->spec->actor;
    int32_t                         code = head_names_add_detached(h, actor);
    if (code == MT_EEXIST)
        snprintf(text, text_size, "the name %.64s (namespace %.64s) is another actor's: choose another name, or get that one",
                 actor->name, actor->space);
    else if (code == MT_EINVAL)
        snprintf(text, text_size, "a name has 1 to %d bytes and no control characters", HEAD_NAME_SIZE - 1);
    else if (code == MT_EAGAIN)
        snprintf(text, text_size, "the cluster holds %d names already: delete some", MT_HEAD_NAMES_MAX);
    if (code != MT_OK)
        return code;
    code = head_jobs_submit(h, r->spec, NULL, "", &job, text, text_size);
    if (code != MT_OK)
        head_names_drop_detached(h, actor);
    return code;
}

/* ---- of one that is there ---- */

static void where(struct head *h, struct stream *s, const Manta__V1__ActorRequest *r, const struct job *job)
{
    const struct holder *holder = head_names_holder(h, job->spec->actor);
    char                 text[HEAD_TEXT_SIZE];
    if (holder) {
        reply(h, s, r, MT_OK, "", holder);
        return;
    }
    snprintf(text, sizeof text, "%s", job->reason ? job->reason : "");
    reply(h, s, r, MT_EACTOR_DIED, text, NULL);
}

/* Restarts that its warden made count as those that the head makes. */
static void restarted(struct head *h, struct job *job, uint32_t restarts)
{
    if (head_jobs_has_ended(job) || restarts <= job->failures || restarts > job->spec->retries)
        return;
    job->failures = restarts;
    head_jobs_store(h, job);
}

void head_actors_request(struct head *h, struct stream *s, const Manta__V1__ActorRequest *r)
{
    char        text[HEAD_TEXT_SIZE] = "", id[HEAD_JOB_ID_SIZE];
    struct job *job;
    if (r->verb == ACTOR_NEW) {
        int32_t code = make(h, r, text, sizeof text);
        reply(h, s, r, code, text, NULL);
        return;
    }
    if (r->verb == ACTOR_VOID) { /* of any actor, detached or not */
        head_strict_void(h, r->node, r->lease);
        reply(h, s, r, MT_OK, "", NULL);
        return;
    }
    job_id(r->actor_process, r->actor_counter, id);
    job = head_jobs_find(h, id);
    if (!job || !job->spec->actor) {
        reply(h, s, r, MT_EACTOR_DIED, "the cluster does not know it any more", NULL);
        return;
    }
    if (r->verb == ACTOR_WHERE) {
        where(h, s, r, job);
        return;
    }
    if (r->verb == ACTOR_END)
        head_attempts_stop(h, job, r->reason[0] ? r->reason : "it was killed");
    else if (r->verb == ACTOR_RESTARTED)
        restarted(h, job, r->restarts);
    reply(h, s, r, r->verb > ACTOR_RESTARTED ? MT_EUNSUPPORTED : MT_OK, "", NULL);
}

/* ---- their names ---- */

static const Manta__V1__DetachedActor *actor_of(const struct head *h, mt_id id)
{
    char              text[HEAD_JOB_ID_SIZE];
    const struct job *job;
    job_id(id.process, id.counter_index, text);
    job = head_jobs_find(h, text);
    return job ? job->spec->actor : NULL;
}

void head_actors_name(struct head *h, struct stream *s, const Manta__V1__NameRequest *r)
{
    head_names_request(h, s, r, actor_of(h, (mt_id){r->actor_process, r->actor_counter}));
}

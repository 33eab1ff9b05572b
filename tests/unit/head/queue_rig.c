/* SPDX-License-Identifier: Apache-2.0
 *
 * queue_rig.c - see queue_rig.h.
 */
#include "tests/unit/head/queue_rig.h"

#include <stdio.h>

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

uint64_t queue_ask(struct rig *rig, const struct asked *a)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    Manta__V1__JobAfter      after[3], *list[3];
    Manta__V1__IndexRange    ranges[2], *indices[2];
    char                    *argv[] = {"./x"};
    for (; spec.n_after < 3 && a->after[spec.n_after]; spec.n_after++) {
        const char *text = a->after[spec.n_after]; /* "1job": its kind, then the id */
        list[spec.n_after] = &after[spec.n_after];
        after[spec.n_after] = (Manta__V1__JobAfter)MANTA__V1__JOB_AFTER__INIT;
        after[spec.n_after].kind = (uint32_t)(text[0] - '0');
        after[spec.n_after].id = (char *)(uintptr_t)(text + 1);
    }
    cpu.name = "CPU";
    cpu.milli = a->cpus ? a->cpus : 1000;
    spec.id = (char *)(uintptr_t)a->id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = resources;
    spec.n_resources = a->cpus >= 0;
    spec.after = list;
    spec.priority = a->priority;
    spec.array_count = a->array;
    spec.array_most = a->most;
    for (; r.n_indices < 2 && (a->ranges[r.n_indices][1] || a->ranges[r.n_indices][2]); r.n_indices++) {
        const uint32_t *from = a->ranges[r.n_indices];
        indices[r.n_indices] = &ranges[r.n_indices];
        ranges[r.n_indices] = (Manta__V1__IndexRange){PROTOBUF_C_MESSAGE_INIT(&manta__v1__index_range__descriptor), from[0],
                                                      from[1], from[2]};
    }
    r.indices = indices;
    spec.is_held = a->is_held;
    spec.is_preemptible = a->is_preemptible;
    spec.retries = a->retries;
    spec.node = a->node;
    spec.signal = a->signal;
    spec.notice_ms = a->notice_ms;
    spec.time_ms = a->time_ms;
    r.spec = &spec;
    return rig_call(rig, HEAD_SUBMIT, &r.base);
}

/* The code of the reply, -1: none; its text in `text` (256 bytes) where that is wanted. */
int queue_code(struct rig *rig, uint64_t call, char *text)
{
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    int                  code = reply ? reply->code : -1;
    if (reply && text)
        snprintf(text, 256, "%.255s", reply->text);
    if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}

int queue_do(struct rig *rig, enum head_method method, const char *id)
{
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = (char *)(uintptr_t)id;
    return queue_code(rig, rig_call(rig, method, &r.base), NULL);
}

void queue_is(struct rig *rig, const char *id, const char *state, const char *reason)
{
    Manta__V1__JobReply *reply;
    const char          *has = rig_job(rig, id, &reply);
    if (strcmp(has, state) != 0 || (reason && !strstr(reply->job->reason, reason)))
        fail_msg("%s is %s (%s)", id, has, reply && reply->job ? reply->job->reason : "");
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

/* The node that runs everything says how it ended. */
void queue_end(struct rig *rig, const struct rig_node *node, const char *id, bool is_good)
{
    rig_job_state(rig, node, id, 1, "RUNNING", 0, "");
    rig_job_state(rig, node, id, 1, is_good ? "SUCCEEDED" : "FAILED", !is_good, "said so");
}

bool queue_was_started(struct rig *rig, const struct rig_node *node, const char *id)
{
    for (size_t i = 0; i < rig->sent_count; i++) {
        const Manta__V1__HeadToNode *m = rig->sent[i].message;
        if (rig->sent[i].stream == node->stream && m->kind_case == KIND(START_JOB) && strcmp(m->start_job->spec->id, id) == 0)
            return true;
    }
    return false;
}

/* The node has so much free, until what starts now has taken it. */
void queue_pass(struct rig *rig, struct rig_node *node, int64_t free_milli)
{
    for (int i = 0; i < 6; i++) {
        rig_report(rig, node, i ? 0 : free_milli, NULL, 0);
        rig_pass(rig, 300);
    }
}

struct rig *queue_rig(struct rig_node *node, int64_t cpus)
{
    struct rig *rig = rig_new();
    *node = (struct rig_node){.boot = 11, .cpus = cpus};
    rig_register(rig, node);
    queue_pass(rig, node, cpus);
    queue_pass(rig, node, cpus); /* past the grace */
    rig_report(rig, node, cpus, NULL, 0);
    return rig;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.c - see rig.h.
 */
#include "tests/unit/head/rig.h"

#include <stdio.h>

static void carry_out(struct rig *rig);

/* ---- the store ---- */

static void record_apply(struct rig *rig, const struct head_record *change)
{
    size_t i = 0;
    while (i < rig->record_count && !(rig->records[i].table == change->table && rig->records[i].key_size == change->key_size &&
                                      memcmp(rig->records[i].key, change->key, change->key_size) == 0))
        i++;
    if (i < rig->record_count) {
        free(rig->records[i].value);
        if (!change->value) {
            rig->records[i] = rig->records[--rig->record_count];
            return;
        }
    } else if (!change->value) {
        return;
    } else {
        assert_true(rig->record_count < RIG_RECORDS && change->key_size <= sizeof rig->records[i].key);
        rig->record_count++;
        rig->records[i].table = change->table;
        rig->records[i].key_size = change->key_size;
        memcpy(rig->records[i].key, change->key, change->key_size);
    }
    rig->records[i].value = malloc(change->value_size + 1);
    rig->records[i].value_size = change->value_size;
    memcpy(rig->records[i].value, change->value, change->value_size);
}

static void take_batch(struct rig *rig, struct head_action *action)
{
    bool crashes = ++rig->batches == rig->crash_at && rig->crash != RIG_NO_CRASH;
    if (!crashes || rig->crash == RIG_AFTER_WRITE)
        for (size_t i = 0; i < action->store.count; i++)
            record_apply(rig, &action->store.records[i]);
    if (crashes) {
        rig->has_crashed = true;
        return;
    }
    assert_true(rig->held_count < 64);
    rig->held[rig->held_count++] = action->store.token;
}

static void step(struct rig *rig, struct head_event *event)
{
    if (rig->has_crashed || rig->has_exited)
        return;
    event->now_ms = rig->now_ms;
    event->wall_ms = 1700000000000u + rig->wall_ahead_ms + rig->now_ms;
    assert_int_equal(head_step(rig->head, event, &rig->actions).code, MT_OK);
    assert_null(head_check(rig->head));
    carry_out(rig);
}

void rig_store(struct rig *rig, mt_status st)
{
    assert_true(rig->held_count > 0);
    struct head_event event = {.kind = HEAD_EV_STORED, .stored = {rig->held[0], st}};
    memmove(rig->held, rig->held + 1, --rig->held_count * sizeof *rig->held);
    step(rig, &event);
}

/* ---- actions ---- */

static void log_append(struct rig *rig, const struct head_action *action)
{
    size_t i = 0;
    while (rig->logs[i].job[0] && strcmp(rig->logs[i].job, action->log_append.job) != 0)
        assert_true(++i < RIG_LOGS);
    memcpy(rig->logs[i].job, action->log_append.job, HEAD_JOB_ID_SIZE);
    assert_int_equal(rig->logs[i].size, action->log_append.offset);
    assert_true(rig->logs[i].size + action->log_append.bytes->size < RIG_LOG_SIZE);
    memcpy(rig->logs[i].text + rig->logs[i].size, action->log_append.bytes->data, action->log_append.bytes->size);
    rig->logs[i].size += action->log_append.bytes->size;
}

static void keep_reply(struct rig *rig, const struct head_action *action)
{
    assert_true(rig->reply_count < RIG_REPLIES);
    struct rig_reply *reply = &rig->replies[rig->reply_count++];
    if (action->kind == HEAD_ACT_REFUSE) {
        *reply = (struct rig_reply){.call = action->refuse.call, .is_refused = true, .refused = action->refuse.status.code};
        return;
    }
    const struct head_bytes *bytes = action->reply.bytes;
    *reply = (struct rig_reply){.call = action->reply.call, .method = action->reply.method, .size = bytes->size};
    reply->bytes = malloc(bytes->size + 1);
    memcpy(reply->bytes, bytes->data, bytes->size);
}

static void carry_out_one(struct rig *rig, struct head_action *action)
{
    switch (action->kind) {
    case HEAD_ACT_SEND:
        assert_true(rig->sent_count < RIG_SENT);
        rig->sent[rig->sent_count].stream = action->send.stream;
        rig->sent[rig->sent_count].message = manta__v1__head_to_node__unpack(NULL, action->send.bytes->size,
                                                                             action->send.bytes->data);
        assert_non_null(rig->sent[rig->sent_count++].message);
        break;
    case HEAD_ACT_CLOSE:
        assert_true(rig->closed_count < 64);
        rig->closed[rig->closed_count++] = action->close.stream;
        break;
    case HEAD_ACT_REPLY:
    case HEAD_ACT_REFUSE: keep_reply(rig, action); break;
    case HEAD_ACT_STORE: take_batch(rig, action); break;
    case HEAD_ACT_LOG_APPEND: log_append(rig, action); break;
    case HEAD_ACT_JOB_ENDED:
        assert_true(rig->ended_count < RIG_ENDED);
        memcpy(rig->ended[rig->ended_count++], action->job.id, HEAD_JOB_ID_SIZE);
        break;
    case HEAD_ACT_TOKENS:
        assert_true(action->tokens.count <= RIG_TOKENS);
        memcpy(rig->tokens, action->tokens.items, action->tokens.count * sizeof rig->tokens[0]);
        rig->token_count = action->tokens.count;
        break;
    case HEAD_ACT_REVOKED:
        assert_true(rig->revoked_count < 64);
        rig->revoked[rig->revoked_count++] = action->revoked.id;
        break;
    case HEAD_ACT_EXIT:
        rig->has_exited = true;
        rig->exit_status = action->exit.status;
        break;
    case HEAD_ACT_PROVIDE:
        if (rig->provide)
            rig->provide(rig, action);
        break;
    case HEAD_ACT_LOG_DROP:
    case HEAD_ACT_BLOB_DROP: break;
    }
}

static void carry_out(struct rig *rig)
{
    struct head_actions actions = rig->actions;
    memset(&rig->actions, 0, sizeof rig->actions);
    for (size_t i = 0; i < actions.count && !rig->has_crashed; i++)
        carry_out_one(rig, &actions.items[i]);
    rig->actions.next_ms = actions.next_ms;
    head_actions_fini(&actions);
    while (rig->held_count > 0 && !rig->holds_store && !rig->has_crashed && !rig->has_exited)
        rig_store(rig, mt_ok());
}

/* ---- life ---- */

static void start(struct rig *rig)
{
    rig->config.now_ms = rig->now_ms;
    assert_int_equal(head_new(&rig->config, &rig->head).code, MT_OK);
    for (size_t i = 0; i < rig->record_count; i++) {
        struct rig_record *r = &rig->records[i];
        assert_int_equal(head_load(rig->head, r->table, r->key, r->key_size, r->value, r->value_size).code, MT_OK);
    }
    for (size_t i = 0; i < RIG_LOGS && rig->logs[i].job[0]; i++) {
        bool keep;
        assert_int_equal(head_load_log(rig->head, rig->logs[i].job, rig->logs[i].size, &keep).code, MT_OK);
    }
    assert_int_equal(head_start(rig->head, rig->now_ms, &rig->actions).code, MT_OK);
    carry_out(rig);
}

struct rig *rig_new(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->now_ms = 1000;
    rig->config.seed = 42;
    snprintf(rig->config.cluster, sizeof rig->config.cluster, "%s", "test-cluster");
    start(rig);
    return rig;
}

void rig_restart(struct rig *rig)
{
    head_free(rig->head);
    head_actions_fini(&rig->actions);
    rig->held_count = 0;
    rig->has_crashed = rig->has_exited = false;
    start(rig);
}

void rig_wipe(struct rig *rig)
{
    while (rig->record_count > 0)
        free(rig->records[--rig->record_count].value);
    rig_restart(rig);
}

void rig_forget(struct rig *rig)
{
    for (size_t i = 0; i < rig->sent_count; i++)
        manta__v1__head_to_node__free_unpacked(rig->sent[i].message, NULL);
    for (size_t i = 0; i < rig->reply_count; i++)
        free(rig->replies[i].bytes);
    rig->sent_count = rig->reply_count = 0;
}

void rig_free(struct rig *rig)
{
    rig_forget(rig);
    head_free(rig->head);
    head_actions_fini(&rig->actions);
    for (size_t i = 0; i < rig->record_count; i++)
        free(rig->records[i].value);
    free(rig);
}

/* ---- events ---- */

void rig_event(struct rig *rig, struct head_event *event)
{
    step(rig, event);
}

void rig_drain(struct rig *rig, const struct rig_node *node)
{
    Manta__V1__DrainRequest drain = MANTA__V1__DRAIN_REQUEST__INIT;
    drain.node = node->node;
    drain.limit_ms = 60 * 1000;
    rig_call(rig, HEAD_DRAIN_NODE, &drain.base);
}

void rig_pass(struct rig *rig, uint64_t ms)
{
    for (uint64_t end = rig->now_ms + ms; rig->now_ms < end;) {
        uint64_t next = rig->actions.next_ms;
        rig->now_ms = next > rig->now_ms && next < end ? next : next <= rig->now_ms ? rig->now_ms + 1 : end;
        struct head_event event = {.kind = HEAD_EV_TICK};
        step(rig, &event);
    }
}

uint64_t rig_open(struct rig *rig)
{
    struct head_event event = {.kind = HEAD_EV_STREAM_OPENED, .stream = {.number = ++rig->next_stream, .peer = rig->peer}};
    step(rig, &event);
    return event.stream.number;
}

void rig_close(struct rig *rig, uint64_t stream)
{
    struct head_event event = {.kind = HEAD_EV_STREAM_CLOSED, .stream = {.number = stream}};
    step(rig, &event);
}

/* The caller frees. */
static uint8_t *pack(const ProtobufCMessage *message, size_t *out_size)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);
    *out_size = protobuf_c_message_pack(message, bytes);
    return bytes;
}

void rig_say(struct rig *rig, uint64_t stream, const Manta__V1__NodeToHead *message)
{
    struct head_event event = {.kind = HEAD_EV_STREAM_MESSAGE, .message.stream = stream};
    uint8_t          *bytes = pack(&message->base, &event.message.size);
    event.message.bytes = bytes;
    step(rig, &event);
    free(bytes);
}

uint64_t rig_call(struct rig *rig, enum head_method method, const ProtobufCMessage *request)
{
    struct head_event event = {
        .kind = HEAD_EV_CALL,
        .call = {.number = ++rig->next_call, .method = method, .peer = rig->peer, .asks = rig->asks, .token = rig->token}};
    uint8_t *bytes = pack(request, &event.call.size);
    event.call.bytes = bytes;
    step(rig, &event);
    free(bytes);
    return event.call.number;
}

void *rig_reply_to(struct rig *rig, uint64_t call, const ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < rig->reply_count; i++)
        if (rig->replies[i].call == call && !rig->replies[i].is_refused)
            return protobuf_c_message_unpack(type, NULL, rig->replies[i].size, rig->replies[i].bytes);
    return NULL;
}

int rig_code_of(struct rig *rig, uint64_t call, const ProtobufCMessageDescriptor *type)
{
    struct with_code { /* as the messages that are asked for begin */
        ProtobufCMessage base;
        int32_t          code;
        char            *text;
    } *reply = rig_reply_to(rig, call, type);
    for (size_t i = 0; !reply && i < rig->reply_count; i++)
        if (rig->replies[i].call == call && rig->replies[i].is_refused)
            return rig->replies[i].refused;
    if (!reply)
        return -1;
    int code = reply->code;
    if (code)
        assert_true(strlen(reply->text) > 10); /* words for people */
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    return code;
}

Manta__V1__HeadToNode *rig_last(struct rig *rig, uint64_t stream, Manta__V1__HeadToNode__KindCase kind)
{
    for (size_t i = rig->sent_count; i-- > 0;)
        if (rig->sent[i].stream == stream && rig->sent[i].message->kind_case == kind)
            return rig->sent[i].message;
    return NULL;
}

size_t rig_count(struct rig *rig, uint64_t stream, Manta__V1__HeadToNode__KindCase kind)
{
    size_t count = 0;
    for (size_t i = 0; i < rig->sent_count; i++)
        count += rig->sent[i].stream == stream && rig->sent[i].message->kind_case == kind;
    return count;
}

const char *rig_log(struct rig *rig, const char *job)
{
    for (size_t i = 0; i < RIG_LOGS; i++)
        if (strcmp(rig->logs[i].job, job) == 0)
            return rig->logs[i].text;
    return "";
}

bool rig_was_closed(struct rig *rig, uint64_t stream)
{
    for (size_t i = 0; i < rig->closed_count; i++)
        if (rig->closed[i] == stream)
            return true;
    return false;
}

/* ---- what raylets and clients say ---- */

void rig_register(struct rig *rig, struct rig_node *node)
{
    Manta__V1__Register   r = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *total[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = node->cpus;
    r.version_min = r.version_max = mt_release.wire.max;
    r.boot = node->boot;
    r.before = node->before;
    r.node = node->node;
    r.epoch = node->epoch;
    r.name = "host";
    r.address = "127.0.0.1:1";
    if (node->labels)
        r.labels = node->labels;
    r.total = total;
    r.n_total = 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    m.register_ = &r;
    node->stream = rig_open(rig);
    node->version = 0;
    rig_say(rig, node->stream, &m);
    Manta__V1__HeadToNode *answer = rig_last(rig, node->stream, MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED);
    if (answer && answer->registered->code == MT_OK) {
        node->node = answer->registered->node;
        node->epoch = answer->registered->epoch;
    }
}

static void report(struct rig *rig, struct rig_node *node, int64_t free_milli, Manta__V1__Report r, Manta__V1__Want **wants,
                   size_t count)
{
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *free_list[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = free_milli;
    r.version = ++node->version;
    r.free = free_list;
    r.n_free = 1;
    r.wants = wants;
    r.n_wants = count;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    m.report = &r;
    rig_say(rig, node->stream, &m);
}

void rig_report(struct rig *rig, struct rig_node *node, int64_t free_milli, Manta__V1__Want **wants, size_t count)
{
    report(rig, node, free_milli, (Manta__V1__Report)MANTA__V1__REPORT__INIT, wants, count);
}

void rig_report_full(struct rig *rig, struct rig_node *node, uint32_t workers_max, bool is_stuck, Manta__V1__Want **wants,
                     size_t count)
{
    Manta__V1__Report r = MANTA__V1__REPORT__INIT;
    r.workers_max = workers_max;
    r.is_stuck = is_stuck;
    report(rig, node, 4000, r, wants, count);
}

void rig_job_state(struct rig *rig, const struct rig_node *node, const char *id, uint32_t attempt, const char *state, int exit_code,
                   const char *reason)
{
    Manta__V1__JobState   s = MANTA__V1__JOB_STATE__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    s.id = (char *)id;
    s.attempt = attempt;
    s.state = (char *)state;
    s.exit_code = exit_code;
    s.reason = (char *)reason;
    s.pid = 77;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
    m.job = &s;
    rig_say(rig, node->stream, &m);
}

void rig_log_chunk(struct rig *rig, const struct rig_node *node, const char *id, uint32_t attempt, uint64_t offset,
                   const char *text)
{
    Manta__V1__LogChunk   c = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    c.id = (char *)id;
    c.attempt = attempt;
    c.offset = offset;
    c.text.data = (uint8_t *)text;
    c.text.len = strlen(text);
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_LOG;
    m.log = &c;
    rig_say(rig, node->stream, &m);
}

int rig_name(struct rig *rig, const struct rig_node *node, uint64_t id, uint32_t op, const char *name, uint64_t actor,
             uint64_t owner, uint32_t owner_node, uint64_t *out_actor)
{
    Manta__V1__NameRequest r = MANTA__V1__NAME_REQUEST__INIT;
    Manta__V1__NodeToHead  m = MANTA__V1__NODE_TO_HEAD__INIT;
    r.id_process = 5;
    r.id_counter = id;
    r.op = op;
    r.space = "space";
    r.name = (char *)name;
    r.type = op == 1 ? "counter_type" : "";
    r.actor_process = actor;
    r.actor_counter = actor;
    r.owner = owner;
    r.owner_node = owner_node;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_NAME;
    m.name = &r;
    rig_say(rig, node->stream, &m);
    for (size_t i = rig->sent_count; i-- > 0;) {
        Manta__V1__HeadToNode *sent = rig->sent[i].message;
        if (rig->sent[i].stream == node->stream && sent->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_NAME &&
            sent->name->id_counter == id) {
            if (sent->name->code == MT_OK && op == 2)
                assert_string_equal(sent->name->type, "counter_type");
            if (out_actor)
                *out_actor = sent->name->actor_process;
            return sent->name->code;
        }
    }
    return -1;
}

void rig_gone(struct rig *rig, const struct rig_node *node, uint64_t process)
{
    Manta__V1__ProcessGone g = MANTA__V1__PROCESS_GONE__INIT;
    Manta__V1__NodeToHead  m = MANTA__V1__NODE_TO_HEAD__INIT;
    g.process = process;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_GONE;
    m.gone = &g;
    rig_say(rig, node->stream, &m);
}

uint64_t rig_user(struct rig *rig, const char *name, uint8_t fill)
{
    Manta__V1__CreateTokenRequest r = MANTA__V1__CREATE_TOKEN_REQUEST__INIT;
    uint8_t                       sum[HEAD_SHA_SIZE];
    memset(sum, fill, sizeof sum);
    r.name = (char *)(uintptr_t)name;
    r.right = MT_MAY_SUBMIT;
    r.sha256 = (ProtobufCBinaryData){sizeof sum, sum};
    (void)rig_call(rig, HEAD_CREATE_TOKEN, &r.base);
    return head_token_number(sum);
}

uint64_t rig_submit(struct rig *rig, const char *id, uint32_t retries, int64_t cpu_milli)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    char                    *argv[] = {"./trainer", "--epochs", "5"};
    cpu.name = "CPU";
    cpu.milli = cpu_milli;
    spec.id = (char *)id;
    spec.argv = argv;
    spec.n_argv = 3;
    spec.retries = retries;
    spec.resources = resources;
    spec.n_resources = 1;
    r.spec = &spec;
    return rig_call(rig, HEAD_SUBMIT, &r.base);
}

const char *rig_job(struct rig *rig, const char *id, Manta__V1__JobReply **out_reply)
{
    static char           state[32];
    Manta__V1__JobRequest r = MANTA__V1__JOB_REQUEST__INIT;
    r.id = (char *)id;
    uint64_t             call = rig_call(rig, HEAD_GET_JOB, &r.base);
    Manta__V1__JobReply *reply = rig_reply_to(rig, call, &manta__v1__job_reply__descriptor);
    snprintf(state, sizeof state, "%s", reply && reply->job ? reply->job->state : "");
    if (out_reply)
        *out_reply = reply;
    else if (reply)
        manta__v1__job_reply__free_unpacked(reply, NULL);
    return state;
}

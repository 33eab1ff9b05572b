/* SPDX-License-Identifier: Apache-2.0
 *
 * check_test.c - head_check bites: each of its breaches is planted into the tables of a head, and named.
 */
#include "tests/unit/base/says.h"
#include "tests/unit/head/rig.h"

#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/internal.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"
#include "core/base/limits/net.h"

/* Two nodes, the second dead; a job that runs and has a waiter, one that has ended; a name; a detached actor that waits for room; a
 * placement group that waits for its node's answer and has a waiter; a want; a file that nobody needs. */
struct scene {
    struct rig     *rig;
    struct rig_node alive, dead;
};

static void say_actor(struct rig *rig, const struct rig_node *node)
{
    Manta__V1__NodeToHead    m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__ActorRequest  r = MANTA__V1__ACTOR_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__DetachedActor actor = MANTA__V1__DETACHED_ACTOR__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    char                    *argv[] = {"./program"};
    cpu.name = "CPU";
    cpu.milli = 4000;
    spec.id = "actor-0000000000000005-1";
    spec.argv = argv;
    spec.n_argv = 1;
    spec.actor = &actor;
    spec.resources = resources;
    spec.n_resources = 1;
    actor.name = "detached";
    actor.process = r.actor_process = 5;
    actor.counter = r.actor_counter = 1;
    r.verb = 1;
    r.spec = &spec;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_ACTOR;
    m.actor = &r;
    rig_say(rig, node->stream, &m);
}

static void say_group(struct rig *rig, const struct rig_node *node, uint32_t verb)
{
    Manta__V1__NodeToHead   m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__GroupRequest r = MANTA__V1__GROUP_REQUEST__INIT;
    Manta__V1__Resource     cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    Manta__V1__Bundle       bundle = MANTA__V1__BUNDLE__INIT, *bundles[] = {&bundle};
    cpu.name = "CPU";
    cpu.milli = 500;
    bundle.resources = resources;
    bundle.n_resources = 1;
    r.id_process = 9;
    r.id_counter = verb;
    r.verb = verb;
    r.group_process = r.group_counter = 6;
    r.job = 77;
    r.job_node = node->node;
    r.job_epoch = node->epoch;
    r.wait_ms = 10000;
    r.bundles = bundles;
    r.n_bundles = 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_GROUP;
    m.group = &r;
    rig_say(rig, node->stream, &m);
}

static void run_jobs(struct scene *s)
{
    Manta__V1__WaitJobRequest wait = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    rig_submit(s->rig, "ended", 0, 1000);
    rig_job_state(s->rig, &s->alive, "ended", 1, "SUCCEEDED", 0, "");
    rig_submit(s->rig, "runs", 0, 1000);
    rig_job_state(s->rig, &s->alive, "runs", 1, "RUNNING", 0, "");
    assert_string_equal(rig_job(s->rig, "ended", NULL), "SUCCEEDED");
    assert_string_equal(rig_job(s->rig, "runs", NULL), "RUNNING");
    wait.id = "runs";
    wait.wait_ms = 60000;
    rig_call(s->rig, HEAD_WAIT_JOB, &wait.base);
}

static struct scene scene_new(void)
{
    static const uint8_t sha256[HEAD_SHA_SIZE] = {1};
    struct scene         s = {rig_new(), {.boot = 1, .cpus = 4000}, {.boot = 2, .cpus = 1000}};
    Manta__V1__Want      want = MANTA__V1__WANT__INIT, *wants[] = {&want};
    Manta__V1__Resource  cpu = MANTA__V1__RESOURCE__INIT, *resources[] = {&cpu};
    struct head_event    blob = {.kind = HEAD_EV_BLOB_ADDED, .blob_added = {sha256, 10}};
    rig_event(s.rig, &blob);
    rig_register(s.rig, &s.dead);
    rig_close(s.rig, s.dead.stream);
    rig_pass(s.rig, MT_NODE_DEAD_MS + 1000);
    rig_register(s.rig, &s.alive);
    run_jobs(&s);
    rig_name(s.rig, &s.alive, 1, 1, "name", 8, 8, s.alive.node, NULL);
    say_actor(s.rig, &s.alive);
    say_group(s.rig, &s.alive, 1);
    say_group(s.rig, &s.alive, 2);
    cpu.name = "CPU";
    cpu.milli = 1000;
    want.owner = 3;
    want.version = want.wanted = 1;
    want.resources = resources;
    want.n_resources = 1;
    rig_report(s.rig, &s.alive, 0, wants, 1);
    assert_null(head_check(s.rig->head));
    Manta__V1__HeadToNode *reply = rig_last(s.rig, s.alive.stream, MANTA__V1__HEAD_TO_NODE__KIND_GROUP);
    assert_true(reply && reply->group->code == MT_OK);
    return s;
}

static struct node *node_of(struct scene *s)
{
    return head_nodes_find(s->rig->head, s->alive.node);
}
static struct stream *stream_of(struct scene *s)
{
    return head_nodes_stream_find(s->rig->head, s->alive.stream);
}
static struct job *runs(struct scene *s)
{
    return head_jobs_find(s->rig->head, "runs");
}
static struct group *group_of(struct scene *s)
{
    return head_groups_find(s->rig->head, (mt_id){6, 6});
}
static struct bundle *bundle_of(struct scene *s)
{
    return &group_of(s)->bundles[0];
}
static struct name *name_of(struct scene *s)
{
    struct head_index_node *at = s->rig->head->names.first;
    while (mt_container_of(at, struct name, at)->holder.is_detached)
        at = at->next;
    return mt_container_of(at, struct name, at);
}

/* X(the breach, what plants it into scene `s` with head `h`). What a field is set to is taken back before the head is freed. */
#define BREACHES(X) \
    X("a node has a number that was not given yet", uint32_t, h->next_node, 1) \
    X("a node's stream is not its own", uint32_t, stream_of(s)->node, s->dead.node) \
    X("an alive node has no stream", uint64_t, node_of(s)->stream, 0) \
    X("a dead node has a stream", enum policy_state, node_of(s)->place.state, POLICY_DEAD) \
    X("a stream's node is on another stream", uint64_t, stream_of(s)->number, 4711) \
    X("a want was answered with more leases than it asked for", uint32_t, node_of(s)->wants.data[0].placed, 2) \
    X("the count of living nodes is wrong", uint32_t, h->nodes_living, 2) \
    X("the list of dead nodes is wrong", size_t, h->dead.count, 0) \
    X("the changes that nodes are told of are not in order", uint64_t, h->view.log.data[0].version, 0) \
    X("a stream was told of changes that are to come", uint64_t, stream_of(s)->view_version, h->view.version + 1) \
    X("a node's last change is not among those that the others are told of", uint64_t, node_of(s)->view_version, 0) \
    X("a node is told of in another state than its own, and nobody will hear of it", enum policy_state, node_of(s)->told, \
      POLICY_SUSPECT) \
    X("a job runs nowhere", uint32_t, runs(s)->attempt, 0) \
    X("a job runs on a dead node", uint32_t, runs(s)->node, s->dead.node) \
    X("a job was started again too often", uint32_t, runs(s)->failures, 1) \
    X("somebody waits for a job that has ended", enum job_state, runs(s)->state, JOB_STOPPED) \
    X("a detached actor has ended and has a name, or lives and has none", bool, \
      head_jobs_find(h, "actor-0000000000000005-1")->stop_requested, true) \
    X("the counts of jobs are wrong", uint32_t, h->jobs_active, 0) \
    X("the count of those who wait for jobs is wrong", uint32_t, runs(s)->waits, 2) \
    X("a file is needed by more jobs than it knows, or by fewer", uint32_t, \
      mt_container_of(h->blobs.first, struct blob, at)->needed_by, 1) \
    X("the sum of the files' sizes is wrong", uint64_t, h->blob_bytes, 11) \
    X("a name belongs to a dead node", uint32_t, name_of(s)->holder.owner_node, s->dead.node) \
    X("a name belongs to nobody", uint64_t, name_of(s)->holder.owner, 0) \
    X("the counts of names by their owners are wrong", uint64_t, mt_map_find(&h->name_owners, mt_map_key(8))->value.num, 2) \
    X("a bundle stands nowhere and has a node, or the other way round", enum bundle_state, bundle_of(s)->state, BUNDLE_NONE) \
    X("a bundle stands on a dead node", uint32_t, bundle_of(s)->epoch, 2) \
    X("a bundle is of a placement that was not made yet", uint64_t, bundle_of(s)->version, 9) \
    X("a placement group is open and not listed, or the other way round", bool, group_of(s)->is_open, false) \
    X("the count of those who wait for groups is wrong", uint32_t, h->group_waits, 2) \
    X("the count of messages that wait on streams is wrong", uint32_t, stream_of(s)->held, 1) \
    X("there are more names than may be", size_t, h->names.count, MT_HEAD_NAMES_MAX + 1) \
    X("there are more placement groups than may be", size_t, h->groups.count, MT_HEAD_GROUPS_MAX + 1)

static void each_breach_is_named(void **unused)
{
    (void)unused;
    struct scene scene = scene_new(), *s = &scene;
    struct head *h = s->rig->head;
#define X(text, type, field, planted) \
    { \
        type *at = &(field), before = *at; \
        *at = (planted); \
        if (!head_check(h)) \
            fail_msg("nothing is found where this was planted: %s", text); \
        assert_string_equal(head_check(h), text); \
        *at = before; \
        assert_null(head_check(h)); \
    }
    BREACHES(X)
#undef X
    rig_free(s->rig);
}

static void one_more_of_an_ended_process(void **unused)
{
    (void)unused;
    struct scene s = scene_new();
    head_names_remember_gone(s.rig->head, 8);
    assert_string_equal(head_check(s.rig->head), "a name belongs to a process that has ended");
    rig_free(s.rig);
}

static void what_a_group_gave_up_in_part(void **unused)
{
    (void)unused;
    struct scene   s = scene_new();
    struct group  *g = group_of(&s);
    struct bundle *two = calloc(2, sizeof *two);
    two[0] = g->bundles[0];
    free(g->bundles);
    g->bundles = two;
    g->bundle_count = 2;
    assert_string_equal(head_check(s.rig->head), "part of a placement was given up, and part not");
    rig_free(s.rig);
}

static void what_is_in_no_batch(void **unused)
{
    (void)unused;
    struct scene s = scene_new();
    head_record_meta(s.rig->head);
    assert_string_equal(head_check(s.rig->head), "a change of this step, or what depends on it, is in no batch");
    rig_free(s.rig);
}

static void batches_keep_their_order(void **unused)
{
    (void)unused;
    struct scene s = scene_new();
    s.rig->holds_store = true;
    rig_submit(s.rig, "one", 0, 1000);
    rig_submit(s.rig, "two", 0, 1000);
    assert_null(head_check(s.rig->head));
    s.rig->head->batches.data[0]->token++;
    assert_string_equal(head_check(s.rig->head), "batches are not in order");
    rig_free(s.rig);
}

static void more_changes_than_may_be(void **unused)
{
    (void)unused;
    struct scene       s = scene_new();
    struct head       *h = s.rig->head;
    struct view_change last = h->view.log.data[h->view.log.count - 1];
    head_view_changed(h, node_of(&s));
    while (h->view.log.count <= head_changes_most(h)) {
        last = (struct view_change){.version = ++h->view.version, .node = last.node};
        assert_int_equal(mt_vec_push(&h->view.log, last).code, MT_OK);
        head_nodes_find(h, last.node)->view_version = last.version;
    }
    assert_string_equal(head_check(h), "more changes are kept than may be");
    head_view_forgot(h, 4711); /* a node of a number that is in the table no more: one more change, and the log is shortened */
    assert_null(head_check(h));
    rig_free(s.rig);
}

/* A message that waits for the end of the step is counted at its stream until it leaves. */
static void what_leaves_was_counted(void **unused)
{
    (void)unused;
    struct scene          s = scene_new();
    struct stream        *stream = stream_of(&s);
    struct head          *h = s.rig->head;
    Manta__V1__HeadToNode message = MANTA__V1__HEAD_TO_NODE__INIT;
    head_out_begin(h, &s.rig->actions);
    head_out_send(h, stream, &message, true);
    assert_int_equal(stream->held, 1);
    stream->held = 0;
    assert_string_equal(SAYS(head_out_end(h)), "s->held > 0");
    stream->held = 1;
    assert_string_equal(SAYS(head_out_end(h)), "");
    assert_null(head_check(h));
    rig_free(s.rig);
}

static const char *said_of_answer(struct head *h, const struct node *n, Manta__V1__QueryAnswer *answer)
{
    return SAYS(head_queries_answer(h, n, answer));
}

/* A query that waits is there once, under its number and for its call: so it is answered once. */
static void a_query_is_answered_once(void **unused)
{
    (void)unused;
    struct scene            s = scene_new();
    struct head            *h = s.rig->head;
    Manta__V1__QueryRequest request = MANTA__V1__QUERY_REQUEST__INIT;
    Manta__V1__QueryAnswer  answer = MANTA__V1__QUERY_ANSWER__INIT;
    Manta__V1__QueryReply   reply = MANTA__V1__QUERY_REPLY__INIT;
    mt_id                   key = mt_map_key(1), wrong = mt_map_key(2);
    request.node = s.alive.node;
    request.kind = "tasks";
    answer.number = 2;
    answer.reply = &reply;
    uint64_t call = rig_call(s.rig, HEAD_QUERY, &request.base);
    void    *query = mt_map_ptr(&h->queries, key);
    assert_non_null(query);
    assert_null(head_check(h));
    assert_int_equal(mt_map_put_ptr(&h->queries, wrong, query).code, MT_OK); /* it would be answered, and freed, twice */
    assert_string_equal(head_check(h), "a query does not stand under its number");
    assert_true(mt_map_remove(&h->queries, key));
    assert_string_equal(said_of_answer(h, node_of(&s), &answer), "mt_map_ptr(&h->queries, mt_map_key(q->number)) == q");
    assert_true(mt_map_remove(&h->queries, wrong));
    assert_int_equal(mt_map_put_ptr(&h->queries, key, query).code, MT_OK);
    h->next_query = 0;
    assert_string_equal(head_check(h), "a query has a number that was not given out");
    h->next_query = 1;
    head_out_begin(h, &s.rig->actions);
    head_queries_take(h, call, &request); /* the same call asks once more */
    head_out_end(h);
    assert_string_equal(head_check(h), "a call has two queries: it would be answered twice");
    head_queries_call_gone(h, call);
    assert_int_equal(h->queries.count, 0);
    assert_null(head_check(h));
    rig_free(s.rig);
}

/* ---- states ---- */

static void jump(const char *expr, const char *file, int line)
{
    (void)file;
    (void)line;
    mock_assert(0, expr, __FILE__, __LINE__);
}

static void what_is_no_transition_is_refused(void **unused)
{
    (void)unused;
    struct scene s = scene_new();
    mt_assert_set_hook(jump);
    expect_assert_failure(head_jobs_set_state(s.rig->head, head_jobs_find(s.rig->head, "ended"), JOB_RUNNING));
    expect_assert_failure(head_bundles_set_state(bundle_of(&s), BUNDLE_COMMITTED));
    expect_assert_failure(head_nodes_set_state(s.rig->head, head_nodes_find(s.rig->head, s.dead.node), POLICY_SUSPECT, ""));
    mt_assert_set_hook(NULL);
    assert_null(head_check(s.rig->head));
    rig_free(s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_breach_is_named),         cmocka_unit_test(one_more_of_an_ended_process),
        cmocka_unit_test(what_a_group_gave_up_in_part), cmocka_unit_test(what_is_in_no_batch),
        cmocka_unit_test(batches_keep_their_order),     cmocka_unit_test(what_is_no_transition_is_refused),
        cmocka_unit_test(more_changes_than_may_be),     cmocka_unit_test(what_leaves_was_counted),
        cmocka_unit_test(a_query_is_answered_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * users_test.c - whose turn it is where two users always want more, by the head's core through hours of virtual time; and what
 * users may have at a time. With a number: that bug is planted (core/base/plant.h).
 */
#include "core/base/plant.h"
#include "core/base/rng.h"
#include "tests/unit/head/rig.h"

#include <stdio.h>

#ifdef MANTA_PLANTS
int mt_plant;
#endif

#define KIND(name) MANTA__V1__HEAD_TO_NODE__KIND_##name

/* ---- what is asked ---- */

/* The code, with its text. */
static int set_user(struct rig *rig, const char *name, const char *setting, char text[256])
{
    Manta__V1__SetUserRequest r = MANTA__V1__SET_USER_REQUEST__INIT;
    char                     *settings[] = {(char *)(uintptr_t)setting};
    r.name = (char *)(uintptr_t)name;
    r.settings = settings;
    r.n_settings = 1;
    Manta__V1__SetUserReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_SET_USER, &r.base),
                                                  &manta__v1__set_user_reply__descriptor);
    if (!reply)
        return -1;
    int code = reply->code;
    snprintf(text, 256, "%.255s", reply->text);
    manta__v1__set_user_reply__free_unpacked(reply, NULL);
    return code;
}

static void set(struct rig *rig, const char *name, const char *setting)
{
    char text[256];
    int  code = set_user(rig, name, setting, text);
    if (code)
        fail_msg("%s %s: %d %s", name, setting, code, text);
}

struct asked {
    const char *id;
    int64_t     cpus, gpus;
    uint32_t    array;
};

static int submit(struct rig *rig, uint64_t token, struct asked a, char text[256])
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, gpu = MANTA__V1__RESOURCE__INIT, *has[] = {&cpu, &gpu};
    char                    *argv[] = {"x"};
    cpu.name = "CPU";
    cpu.milli = a.cpus;
    gpu.name = "GPU";
    gpu.milli = a.gpus;
    spec.id = (char *)(uintptr_t)a.id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = has;
    spec.n_resources = a.gpus ? 2 : 1;
    spec.array_count = a.array;
    r.spec = &spec;
    rig->token = token;
    Manta__V1__JobReply *reply = rig_reply_to(rig, rig_call(rig, HEAD_SUBMIT, &r.base), &manta__v1__job_reply__descriptor);
    rig->token = 0;
    assert_non_null(reply);
    int code = reply->code;
    snprintf(text, 256, "%.255s", reply->text);
    manta__v1__job_reply__free_unpacked(reply, NULL);
    return code;
}

static void is(struct rig *rig, const char *id, const char *state, const char *reason)
{
    Manta__V1__JobReply *reply;
    const char          *has = rig_job(rig, id, &reply);
    if (strcmp(has, state) != 0 || (reason && !strstr(reply->job->reason, reason)))
        fail_msg("%s is %s (%s)", id, has, reply && reply->job ? reply->job->reason : "");
    manta__v1__job_reply__free_unpacked(reply, NULL);
}

/* ---- fair shares: a machine whose jobs take their time ---- */

enum { CPUS = 8, USERS = 3, WAIT = CPUS }; /* each one's queue could fill the machine at any time */
struct running {
    char     id[32];
    int      who;
    uint64_t ends_ms, from_ms; /* what was before from_ms is told */
};
struct world {
    struct rig     *rig;
    struct rig_node node;
    struct running  jobs[CPUS];
    mt_rng          rng; /* jobs take up to a fifth more or less than is said, so that they don't all end at once */
    uint64_t        tokens[USERS], length_ms[USERS], begins_ms[USERS], made[USERS], started[USERS], told, told_ms;
    uint64_t        held_ms[USERS]; /* what the world counts */
    char            names[USERS][8];
};

static void tell(struct world *w)
{
    Manta__V1__NodeToHead out = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Usage      usage = MANTA__V1__USAGE__INIT;
    Manta__V1__UsageOf    of[CPUS], *list[CPUS];
    uint64_t              now = w->rig->now_ms;
    for (int i = 0; i < CPUS; i++) {
        struct running *job = &w->jobs[i];
        if (!job->id[0])
            continue;
        list[usage.n_of] = &of[usage.n_of];
        Manta__V1__UsageOf *to = list[usage.n_of++];
        *to = (Manta__V1__UsageOf)MANTA__V1__USAGE_OF__INIT;
        to->job = 1000 + (uint64_t)i;
        for (const char *c = job->id; *c; c++)
            to->job = to->job * 131 + (uint8_t)*c;
        to->is_known = true;
        to->id = job->id;
        to->cpu_us = (now - job->from_ms) * 1000;
        to->node_us = to->cpu_us / CPUS;
        to->cpu_milli = 1000;
        to->node_milli = 1000 / CPUS;
        w->held_ms[job->who] += now - job->from_ms;
        job->from_ms = now;
    }
    usage.boot = w->node.boot;
    usage.number = usage.first = ++w->told;
    usage.of = list;
    out.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_USAGE;
    out.usage = &usage;
    w->told_ms = now;
    if (usage.n_of)
        rig_say(w->rig, w->node.stream, &out);
    else
        w->told--;
}

static uint32_t busy(const struct world *w)
{
    uint32_t n = 0;
    for (int i = 0; i < CPUS; i++)
        n += w->jobs[i].id[0] != 0;
    return n;
}

static void begin(struct world *w, const char *id)
{
    for (int i = 0; i < CPUS; i++) {
        if (w->jobs[i].id[0])
            continue;
        struct running *job = &w->jobs[i];
        snprintf(job->id, sizeof job->id, "%.31s", id);
        job->who = id[0] - 'a';
        job->from_ms = w->rig->now_ms;
        job->ends_ms = w->rig->now_ms + w->length_ms[job->who] * (800 + mt_rng_below(&w->rng, 401)) / 1000;
        w->started[job->who]++;
        rig_job_state(w->rig, &w->node, job->id, 1, "RUNNING", 0, "");
        return;
    }
    fail_msg("more jobs are started than there are CPUs");
}

static void one_second(struct world *w)
{
    char text[256], id[32];
    for (int k = 0; k < USERS; k++)
        while (w->length_ms[k] && w->rig->now_ms >= w->begins_ms[k] && w->made[k] - w->started[k] < WAIT) {
            snprintf(id, sizeof id, "%c%llu", 'a' + k, (unsigned long long)w->made[k]++);
            assert_int_equal(submit(w->rig, w->tokens[k], (struct asked){id, 1000, 0, 0}, text), MT_OK);
        }
    for (int i = 0; i < CPUS; i++) {
        if (!w->jobs[i].id[0] || w->jobs[i].ends_ms > w->rig->now_ms)
            continue;
        snprintf(id, sizeof id, "%s", w->jobs[i].id);
        tell(w); /* as a raylet does before the word of an end */
        w->jobs[i].id[0] = 0;
        rig_job_state(w->rig, &w->node, id, 1, "SUCCEEDED", 0, "");
    }
    if (w->rig->now_ms - w->told_ms >= 10000)
        tell(w);
    rig_report(w->rig, &w->node, (int64_t)(CPUS - busy(w)) * 1000, NULL, 0);
    for (size_t at = 0; at < w->rig->sent_count; at++) {
        const Manta__V1__HeadToNode *m = w->rig->sent[at].message;
        if (m->kind_case == KIND(START_JOB))
            begin(w, m->start_job->spec->id);
    }
    rig_forget(w->rig);
    rig_pass(w->rig, 1000);
}

static struct world *world_new(const char *const weights[USERS], const uint64_t length_ms[USERS])
{
    struct world *w = calloc(1, sizeof *w);
    w->rig = rig_new();
    w->rng = (mt_rng){7};
    w->node = (struct rig_node){.boot = 11, .cpus = CPUS * 1000};
    rig_register(w->rig, &w->node);
    for (int k = 0; k < USERS; k++) {
        snprintf(w->names[k], sizeof w->names[k], "user%d", k);
        w->tokens[k] = rig_user(w->rig, w->names[k], (uint8_t)(k + 1));
        w->length_ms[k] = length_ms[k];
        if (weights[k])
            set(w->rig, w->names[k], weights[k]);
    }
    return w;
}

static void run(struct world *w, uint64_t seconds)
{
    for (uint64_t i = 0; i < seconds; i++)
        one_second(w);
}

/* Thousandths of all that was held since the times were cleared. */
static uint64_t part(const struct world *w, int who)
{
    uint64_t all = 0;
    for (int k = 0; k < USERS; k++)
        all += w->held_ms[k];
    return w->held_ms[who] * 1000 / all;
}

static void world_free(struct world *w)
{
    rig_free(w->rig);
    free(w);
}

/* The gate is 5 % of the weights, and the target 1 %. */
static void two_to_one_in_an_hour(void **state)
{
    static const uint64_t lengths[][USERS] = {{60000, 60000}, {10000, 100000}, {90000, 7000}};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct world *w = world_new((const char *const[USERS]){"weight=2"}, lengths[i]);
        run(w, 3600);
        printf("jobs of %llu and %llu s, weights 2:1: %llu thousandths of 666.7\n", (unsigned long long)lengths[i][0] / 1000,
               (unsigned long long)lengths[i][1] / 1000, (unsigned long long)part(w, 0));
        assert_in_range(part(w, 0), 660, 674);
        world_free(w);
    }
}

/* Who comes late has used nothing, so he comes first until he has had as much for his weight; and nobody starves behind him. */
static void who_comes_late_catches_up(void **state)
{
    (void)state;
    struct world *w = world_new((const char *const[USERS]){0}, (const uint64_t[USERS]){20000, 20000, 20000});
    w->begins_ms[2] = 1200000;
    run(w, 1200);
    assert_in_range(part(w, 0), 490, 510);
    memset(w->held_ms, 0, sizeof w->held_ms);
    run(w, 300);
    assert_true(part(w, 2) > 900);
    run(w, 2100);
    memset(w->held_ms, 0, sizeof w->held_ms);
    run(w, 900);
    for (int k = 0; k < USERS; k++)
        assert_in_range(part(w, k), 325, 342);
    world_free(w);
}

/* A head that is restarted has not forgotten who has used what. */
static void shares_outlive_the_head(void **state)
{
    (void)state;
    struct world *w = world_new((const char *const[USERS]){"weight=3"}, (const uint64_t[USERS]){30000, 30000});
    for (int i = 0; i < 12; i++) {
        run(w, 300);
        rig_restart(w->rig);
        rig_register(w->rig, &w->node);
    }
    assert_in_range(part(w, 0), 735, 765);
    world_free(w);
}

/* ---- what a user may have ---- */

static struct rig *rig_with(struct rig_node *node, uint64_t *ann)
{
    struct rig *rig = rig_new();
    *node = (struct rig_node){.boot = 11, .cpus = 8000};
    rig_register(rig, node);
    *ann = rig_user(rig, "ann", 1);
    rig_pass(rig, 4000);
    rig_report(rig, node, 8000, NULL, 0);
    return rig;
}

static void who_has_his_bound_waits(void **state)
{
    struct rig_node node;
    uint64_t        ann;
    char            text[256];
    (void)state;
    struct rig *rig = rig_with(&node, &ann);
    set(rig, "ann", "cpus=2.5");
    for (const char *id = "a"; id; id = id[0] == 'a' ? "b" : id[0] == 'b' ? "c" : NULL)
        assert_int_equal(submit(rig, ann, (struct asked){id, 1000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    is(rig, "b", "PENDING", "starting on node 1");
    is(rig, "c", "PENDING", "waits since ann has 2 of the 2.500 CPUs that this user may have at a time");
    assert_int_equal(submit(rig, 0, (struct asked){"other", 1000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    is(rig, "other", "PENDING", "starting on node 1"); /* nobody waits behind it */
    rig_restart(rig);
    rig_register(rig, &node);
    rig_report(rig, &node, 5000, NULL, 0);
    rig_pass(rig, 100);
    is(rig, "c", "PENDING", "waits since ann has 2 of");
    rig_job_state(rig, &node, "a", 1, "RUNNING", 0, "");
    rig_job_state(rig, &node, "a", 1, "SUCCEEDED", 0, "");
    rig_report(rig, &node, 6000, NULL, 0);
    rig_pass(rig, 100);
    is(rig, "c", "PENDING", "starting on node 1");
    set(rig, "ann", "cpus=none");
    set(rig, "ann", "running=2");
    assert_int_equal(submit(rig, ann, (struct asked){"d", 1000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    is(rig, "d", "PENDING", "waits since ann has 2 of the 2 running jobs");
    set(rig, "ann", "running=3");
    rig_pass(rig, 100);
    is(rig, "d", "PENDING", "starting on node 1");
    rig_free(rig);
}

/* What a job's tasks hold counts, once a node has said so. */
static void tasks_count_too(void **state)
{
    struct rig_node       node;
    uint64_t              ann;
    char                  text[256];
    Manta__V1__NodeToHead out = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Usage      usage = MANTA__V1__USAGE__INIT;
    Manta__V1__UsageOf    of = MANTA__V1__USAGE_OF__INIT, *list[] = {&of};
    (void)state;
    struct rig *rig = rig_with(&node, &ann);
    set(rig, "ann", "cpus=4");
    assert_int_equal(submit(rig, ann, (struct asked){"a", 1000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    of.job = 5;
    of.is_known = true;
    of.id = "a";
    of.cpu_us = 1;
    of.cpu_milli = 4000;
    usage.boot = node.boot;
    usage.number = usage.first = 1;
    usage.of = list;
    usage.n_of = 1;
    out.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_USAGE;
    out.usage = &usage;
    rig_say(rig, node.stream, &out);
    assert_int_equal(submit(rig, ann, (struct asked){"b", 1000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    is(rig, "b", "PENDING", "waits since ann has 4 of the 4 CPUs");
    usage.number = usage.first = 2;
    of.cpu_milli = 1000;
    rig_say(rig, node.stream, &out);
    rig_pass(rig, 100);
    is(rig, "b", "PENDING", "starting on node 1");
    rig_free(rig);
}

static void what_can_never_be_is_refused(void **state)
{
    struct rig_node node;
    uint64_t        ann;
    char            text[256];
    (void)state;
    struct rig *rig = rig_with(&node, &ann);
    set(rig, "ann", "cpus=2");
    assert_int_equal(submit(rig, ann, (struct asked){"a", 3000, 0, 0}, text), MT_EUNSCHEDULABLE);
    assert_non_null(strstr(text, "ann may have 2 CPUs at a time, and this wants 3"));
    set(rig, "ann", "cpus=0"); /* a quota of nothing */
    assert_int_equal(submit(rig, ann, (struct asked){"a", 1, 0, 0}, text), MT_EUNSCHEDULABLE);
    set(rig, "ann", "cpus=none");
    set(rig, "ann", "gpus=0");
    assert_int_equal(submit(rig, ann, (struct asked){"a", 1000, 1000, 0}, text), MT_EUNSCHEDULABLE);
    set(rig, "ann", "running=0");
    assert_int_equal(submit(rig, ann, (struct asked){"a", 1000, 0, 0}, text), MT_EUNSCHEDULABLE);
    set(rig, "ann", "running=none");
    set(rig, "ann", "waiting=2");
    assert_int_equal(submit(rig, ann, (struct asked){"many", 1000, 0, 3}, text), MT_EUNSCHEDULABLE);
    assert_int_equal(submit(rig, ann, (struct asked){"big", 8000, 0, 0}, text), MT_OK);
    rig_pass(rig, 100);
    rig_report(rig, &node, 0, NULL, 0);
    assert_int_equal(submit(rig, ann, (struct asked){"b", 1000, 0, 0}, text), MT_OK);
    assert_int_equal(submit(rig, ann, (struct asked){"c", 1000, 0, 0}, text), MT_OK);
    assert_int_equal(submit(rig, ann, (struct asked){"d", 1000, 0, 0}, text), MT_EAGAIN);
    assert_non_null(strstr(text, "ann has 2 jobs that wait, and may have 2"));
    assert_int_equal(submit(rig, ann, (struct asked){"b", 1000, 0, 0}, text), MT_OK); /* the same again is the same job */
    set(rig, "ann", "waiting=0");
    assert_int_equal(submit(rig, ann, (struct asked){"e", 1000, 0, 0}, text), MT_EUNSCHEDULABLE);
    assert_int_equal(submit(rig, 0, (struct asked){"f", 1000, 0, 0}, text), MT_OK);
    rig_free(rig);
}

static void settings_are_checked(void **state)
{
    static const char *const bad[] = {"cpus=0.0004", "gpus=1e13", "cpus=",     "cpus=-1",     "cpus=many",
                                      "cpus",        "gpus=1x",   "memory=5Q", "running=1.5", "weight=-1",
                                      "weight=1e9",  "",          "weights=2", "waiting=nan", "weight=none"};
    struct rig_node          node;
    uint64_t                 ann;
    char                     text[256];
    (void)state;
    struct rig *rig = rig_with(&node, &ann);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (set_user(rig, "ann", bad[i], text) != MT_EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(strlen(text) > 20);
    }
    assert_int_equal(set_user(rig, "", "cpus=1", text), MT_EINVAL);
    assert_int_equal(set_user(rig, "a b", "cpus=1", text), MT_EINVAL);
    rig->token = ann; /* nobody gives himself more */
    assert_int_equal(set_user(rig, "ann", "cpus=100", text), -1);
    rig->token = 0;
    set(rig, "later", "memory=2G"); /* he has no token yet */
    rig_restart(rig);
    Manta__V1__ListUsersRequest list = MANTA__V1__LIST_USERS_REQUEST__INIT;
    Manta__V1__ListUsersReply  *reply = rig_reply_to(rig, rig_call(rig, HEAD_LIST_USERS, &list.base),
                                                     &manta__v1__list_users_reply__descriptor);
    assert_int_equal(reply->n_users, 1);
    assert_string_equal(reply->users[0]->name, "later");
    assert_int_equal(reply->users[0]->memory, (UINT64_C(2) << 30) + 1);
    assert_int_equal(reply->users[0]->cpu_milli, 0);
    manta__v1__list_users_reply__free_unpacked(reply, NULL);
    rig_free(rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_to_one_in_an_hour),   cmocka_unit_test(who_comes_late_catches_up),
        cmocka_unit_test(shares_outlive_the_head), cmocka_unit_test(who_has_his_bound_waits),
        cmocka_unit_test(tasks_count_too),         cmocka_unit_test(what_can_never_be_is_refused),
        cmocka_unit_test(settings_are_checked),
    };
#ifdef MANTA_PLANTS
    mt_plant = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#endif
    (void)argc, (void)argv;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

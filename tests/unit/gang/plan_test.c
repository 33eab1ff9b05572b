/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_test.c - how many ranks are wanted where, which rank is whose, and what each is told.
 */
#include "clients/gang/plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct gng_plan good(struct gng_plan p)
{
    char why[256] = "";
    p.cpus = 1;
    assert_true(gng_plan_check(&p, why, sizeof why));
    return p;
}

static void sizes(void **state)
{
    (void)state;
    struct gng_plan p = good((struct gng_plan){0});
    assert_int_equal(p.ranks, 1);
    p = good((struct gng_plan){.ranks = 4, .nodes_min = 1, .nodes_max = 4});
    assert_true(p.per_node == 1 && p.ranks == 4);
    p = good((struct gng_plan){.ranks = 4, .nodes_min = 2, .nodes_max = 2});
    assert_int_equal(p.per_node, 2);
    p = good((struct gng_plan){.ranks = 6, .per_node = 3});
    assert_true(p.nodes_min == 2 && p.nodes_max == 2);
    p = good((struct gng_plan){.nodes_min = 1, .nodes_max = 3, .per_node = 2});
    assert_int_equal(p.ranks, 6);
    p = good((struct gng_plan){.per_node = 2});
    assert_true(p.nodes_max == 1 && p.ranks == 2);
    p = good((struct gng_plan){.renews = true});
    assert_int_equal(p.max_restarts, MT_GANG_RESTARTS);
    p = good((struct gng_plan){.renews = true, .says_restarts = true}); /* --max-restarts 0 */
    assert_int_equal(p.max_restarts, 0);
}

/* Members 0 and 2 are on one node, 1 and 3 on another: ranks of a node stand behind each other. */
static struct gng_layout layout_of_two(void)
{
    struct gng_layout l;
    struct gng_place  of[4] = {{.seat = {7, 11000, "0"}, .address = "10.0.0.7"},
                               {.seat = {9, 11001, "4"}, .address = "10.0.0.9"},
                               {.seat = {7, 11002, "1"}, .address = "10.0.0.7"},
                               {.seat = {9, 11003, "5"}, .address = "10.0.0.9"}};
    assert_int_equal(gng_layout_make(&l, of, 4).code, 0);
    return l;
}

static void ranks(void **state)
{
    (void)state;
    struct gng_layout l = layout_of_two();
    int               wanted[4][3] = {{0, 0, 0}, {2, 0, 1}, {1, 1, 0}, {3, 1, 1}};
    assert_int_equal(l.nodes, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(l.of[i].rank, wanted[i][0]);
        assert_int_equal(l.of[i].local_rank, wanted[i][1]);
        assert_int_equal(l.of[i].node_rank, wanted[i][2]);
        assert_int_equal(l.member[l.of[i].rank], i);
        assert_int_equal(gng_layout_local(&l, i), 2);
    }
    gng_layout_fini(&l);
}

static bool says(const mt_buf *env, const char *variable)
{
    for (size_t at = 0; at < env->size; at += strlen((const char *)env->data + at) + 1)
        if (strcmp((const char *)env->data + at, variable) == 0)
            return true;
    return false;
}

static void torch_words(void **state)
{
    (void)state;
    struct gng_layout l = layout_of_two();
    const char *const own[] = {"A=b", NULL};
    struct gng_plan   p = {.as = GNG_AS_TORCH, .cpus = 1, .env = own, .max_restarts = 2};
    mt_buf            env = {0};
    assert_int_equal(gng_env_put(&env, &p, &l, 3, "x", 1).code, 0);
    const char *const wanted[] = {"RANK=3",
                                  "LOCAL_RANK=1",
                                  "GROUP_RANK=1",
                                  "ROLE_RANK=3",
                                  "WORLD_SIZE=4",
                                  "LOCAL_WORLD_SIZE=2",
                                  "GROUP_WORLD_SIZE=2",
                                  "MASTER_ADDR=10.0.0.7",
                                  "MASTER_PORT=11000",
                                  "TORCHELASTIC_RESTART_COUNT=1",
                                  "TORCHELASTIC_RUN_ID=x",
                                  "CUDA_VISIBLE_DEVICES=4,5",
                                  "A=b"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!says(&env, wanted[i]))
            fail_msg("%s is not there", wanted[i]);
    mt_buf_fini(&env);
    gng_layout_fini(&l);
}

static void tf_words(void **state)
{
    (void)state;
    struct gng_layout l = layout_of_two();
    struct gng_plan   p = {.as = GNG_AS_TF, .cpus = 1};
    mt_buf            env = {0};
    assert_int_equal(gng_env_put(&env, &p, &l, 1, "x", 0).code, 0);
    assert_true(says(&env, "TF_CONFIG={\"cluster\":{\"worker\":[\"10.0.0.7:11000\",\"10.0.0.7:11002\",\"10.0.0.9:11001\","
                           "\"10.0.0.9:11003\"]},\"task\":{\"type\":\"worker\",\"index\":2}}"));
    mt_buf_fini(&env);
    gng_layout_fini(&l);
}

static void tf_roles(void **state)
{
    (void)state;
    struct gng_layout l = layout_of_two();
    char              why[256] = "";
    struct gng_plan   p = {.as = GNG_AS_TF, .cpus = 1, .ranks = 4};
    const char *const wrong[] = {"", "chief:2", "ps:0", "ps", "ps:1,", "worker:1", "ps:1,ps:1", "ps:1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(gng_roles_of(wrong[i], &(struct gng_plan){0}));
    assert_true(gng_roles_of("ps:1,evaluator:1,chief:1", &p) && gng_plan_check(&p, why, sizeof why));
    const char *const wanted[] = {"{\"type\":\"chief\",\"index\":0}", "{\"type\":\"worker\",\"index\":0}",
                                  "{\"type\":\"ps\",\"index\":0}", "{\"type\":\"evaluator\",\"index\":0}"};
    for (int rank = 0; rank < 4; rank++) {
        mt_buf env = {0};
        char   text[512];
        assert_int_equal(gng_env_put(&env, &p, &l, l.member[rank], "x", 0).code, 0);
        snprintf(text, sizeof text,
                 "TF_CONFIG={\"cluster\":{\"chief\":[\"10.0.0.7:11000\"],\"worker\":[\"10.0.0.7:11002\"],"
                 "\"ps\":[\"10.0.0.9:11001\"]},\"task\":%s}",
                 wanted[rank]);
        if (!says(&env, text))
            fail_msg("rank %d is not told %s", rank, text);
        assert_int_equal(gng_role_serves(&p, rank, 4), rank != 0);
        mt_buf_fini(&env);
    }
    p = (struct gng_plan){.as = GNG_AS_TF, .cpus = 1, .ranks = 2};
    assert_true(gng_roles_of("ps:2", &p) && !gng_plan_check(&p, why, sizeof why) && strstr(why, "leave no worker"));
    gng_layout_fini(&l);
}

/* With a third rank on the first node, whose place nobody has on the second. */
static void horovod_words(void **state)
{
    (void)state;
    struct gng_layout        l;
    struct gng_plan          p = {.as = GNG_AS_HOROVOD, .cpus = 1};
    struct gng_place         of[3] = {{.seat = {7, 11000, "0"}, .address = "10.0.0.7"},
                                      {.seat = {7, 11002, "1"}, .address = "10.0.0.7"},
                                      {.seat = {9, 11001, ""}, .address = "10.0.0.9"}};
    static const char *const wanted[3][6] = {{"HOROVOD_RANK=0", "HOROVOD_LOCAL_RANK=0", "HOROVOD_LOCAL_SIZE=2",
                                              "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=2", "HOROVOD_HOSTNAME=node-0"},
                                             {"HOROVOD_RANK=1", "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=2",
                                              "HOROVOD_CROSS_RANK=0", "HOROVOD_CROSS_SIZE=1", "CUDA_VISIBLE_DEVICES=0,1"},
                                             {"HOROVOD_RANK=2", "HOROVOD_LOCAL_RANK=0", "HOROVOD_LOCAL_SIZE=1",
                                              "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=2", "HOROVOD_HOSTNAME=node-1"}};
    assert_int_equal(gng_layout_make(&l, of, 3).code, 0);
    snprintf(l.secret, sizeof l.secret, "5ec7e7");
    for (int i = 0; i < 3; i++) {
        mt_buf env = {0};
        assert_int_equal(gng_env_put(&env, &p, &l, i, "x", 0).code, 0);
        for (int k = 0; k < 6; k++)
            if (!says(&env, wanted[i][k]))
                fail_msg("rank %d is not told %s", i, wanted[i][k]);
        assert_true(says(&env, "HOROVOD_SIZE=3") && says(&env, "HOROVOD_CONTROLLER=gloo") &&
                    says(&env, "HOROVOD_CPU_OPERATIONS=gloo"));
        assert_true(says(&env, "HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.7:11000/5ec7e7") &&
                    says(&env, "HOROVOD_GLOO_RENDEZVOUS_PORT=11000"));
        mt_buf_fini(&env);
    }
    gng_layout_fini(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes),    cmocka_unit_test(ranks),    cmocka_unit_test(torch_words),
                                       cmocka_unit_test(tf_words), cmocka_unit_test(tf_roles), cmocka_unit_test(horovod_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

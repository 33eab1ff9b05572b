/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - for tests: real worker processes over one shared region, and the coordinator's side of their life.
 *
 * The parent plays whoever learns of deaths: it forks workers, sends each the generation to join, waits for
 * reports, aborts a generation when a worker has died, and starts a replacement. Also what members of such groups sum, and what
 * comes out.
 */
#ifndef TEST_SGD_CREW_H
#define TEST_SGD_CREW_H

#include "core/base/rng.h"
#include "sgd/sum/collective.h"
#include "sgd/sum/group.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CREW_MAX = 8 };

struct crew_order {
    uint32_t generation; /* 0: go home */
    uint32_t members;
};

/* What a worker says when its generation is over. */
struct crew_report {
    int32_t  code; /* MT_OK: the work is done */
    uint32_t rank;
};

struct crew;
/* Works in one generation; returns how it ended. */
typedef mt_status (*crew_work)(struct crew *crew, uint32_t rank, struct crew_order order);

struct crew {
    void                 *region;
    size_t                region_size;
    struct sgd_group_plan plan;
    crew_work             work;
    void                 *shared; /* more shared memory, for what the test wants */
    pid_t                 pids[CREW_MAX];
    int                   orders[CREW_MAX], reports[CREW_MAX]; /* the parent's ends of pipes */
};

static inline void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static inline void crew_init(struct crew *crew, struct sgd_group_plan plan, crew_work work)
{
    *crew = (struct crew){.plan = plan, .work = work};
    assert_int_equal(sgd_group_region_size(&plan, &crew->region_size).code, MT_OK);
    crew->region = shared_memory(crew->region_size);
}

static inline void crew_fini(struct crew *crew)
{
    munmap(crew->region, crew->region_size);
}

static inline mt_status crew_join(struct crew *crew, struct sgd_group *group, uint32_t rank, struct crew_order order)
{
    struct sgd_group_config config = {.region = crew->region,
                                      .region_size = crew->region_size,
                                      .plan = crew->plan,
                                      .generation = order.generation,
                                      .rank = rank,
                                      .members = order.members};
    return sgd_group_join(group, &config);
}

static inline void crew_worker(struct crew *crew, uint32_t rank, int orders, int reports)
{
    struct crew_order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(orders, &order, sizeof order) == sizeof order && order.generation) {
        mt_status          st = crew->work(crew, rank, order);
        struct crew_report report = {st.code, rank};
        if (write(reports, &report, sizeof report) != sizeof report)
            _exit(3);
    }
    _exit(0);
}

/* Forks the worker of a rank; it waits for an order. */
static inline void crew_hire(struct crew *crew, uint32_t rank)
{
    int orders[2], reports[2];
    assert_int_equal(pipe(orders), 0);
    assert_int_equal(pipe(reports), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(orders[1]);
        close(reports[0]);
        crew_worker(crew, rank, orders[0], reports[1]);
    }
    close(orders[0]);
    close(reports[1]);
    crew->pids[rank] = pid;
    crew->orders[rank] = orders[1];
    crew->reports[rank] = reports[0];
}

static inline void crew_order_all(struct crew *crew, uint32_t generation, uint32_t members)
{
    struct crew_order order = {generation, members};
    for (uint32_t rank = 0; rank < members; rank++)
        assert_int_equal(write(crew->orders[rank], &order, sizeof order), sizeof order);
}

/* Waits for a worker's report and gives its code. */
static inline int32_t crew_report(struct crew *crew, uint32_t rank)
{
    struct crew_report report;
    assert_int_equal(read(crew->reports[rank], &report, sizeof report), sizeof report);
    assert_int_equal(report.rank, rank);
    return report.code;
}

/* Waits until a worker is dead by SIGKILL, and tells the others as the engine's death event would. */
static inline void crew_bury(struct crew *crew, uint32_t rank, uint32_t generation)
{
    int status;
    assert_int_equal(waitpid(crew->pids[rank], &status, 0), crew->pids[rank]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sgd_group_abort(crew->region, generation, MT_EWORKER_DIED, rank);
    close(crew->orders[rank]);
    close(crew->reports[rank]);
}

static inline void crew_dismiss(struct crew *crew, uint32_t rank)
{
    struct crew_order home = {0, 0};
    int               status;
    assert_int_equal(write(crew->orders[rank], &home, sizeof home), sizeof home);
    assert_int_equal(waitpid(crew->pids[rank], &status, 0), crew->pids[rank]);
    close(crew->orders[rank]);
    close(crew->reports[rank]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline const struct k_ops *crew_kernels(void)
{
    const struct k_ops *ops = NULL;
    assert_int_equal(k_ops_choose(&(struct k_config){.kind = K_CPU}, &ops).code, MT_OK);
    return ops;
}

/* What virtual rank v contributes in a round: the same wherever it runs. */
static inline void crew_contribution(float *out, size_t floats, uint32_t round, uint32_t v)
{
    mt_rng rng = {round * 1000u + v};
    for (size_t i = 0; i < floats; i++)
        out[i] = (float)((double)mt_rng_below(&rng, 2000001) / 1e6 - 1.0);
}

/* What this member's virtual ranks give. */
static inline mt_status crew_contribute(struct sgd_group *group, uint32_t round)
{
    const struct sgd_lane *lane = sgd_group_lane(group, 0);
    size_t                 floats = group->plan.slot_floats;
    float                 *room;
    for (uint32_t done = 0; done < sgd_lane_length(lane); done++) {
        MT_TRY(sgd_group_room(group, crew_kernels(), 0, done, (struct sgd_range){0, floats}, &room));
        crew_contribution(room, floats, round, sgd_lane_vrank(lane, done));
    }
    return mt_ok();
}

/* The sum of a round, as one process computes it alone. */
static inline void crew_sum(float *out, size_t floats, uint32_t round, uint32_t vranks)
{
    float       *slots = calloc((size_t)vranks * floats, sizeof *slots);
    const float *in[MT_VRANKS_MAX];
    assert_non_null(slots);
    for (uint32_t v = 0; v < vranks; v++) {
        crew_contribution(slots + v * floats, floats, round, v);
        in[v] = slots + v * floats;
    }
    assert_int_equal(crew_kernels()->tree_sum(NULL, in, vranks, floats, out).code, MT_OK);
    free(slots);
}

/* The whole life of a crew whose workers all finish in generation 1. */
static inline void crew_run(struct crew *crew, uint32_t members)
{
    for (uint32_t rank = 0; rank < members; rank++)
        crew_hire(crew, rank);
    crew_order_all(crew, 1, members);
    for (uint32_t rank = 0; rank < members; rank++)
        assert_int_equal(crew_report(crew, rank), MT_OK);
    for (uint32_t rank = 0; rank < members; rank++)
        crew_dismiss(crew, rank);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - for tests: processes that are members of a collective group, and the test that watches them.
 */
#ifndef TEST_SGD_COLL_CREW_H
#define TEST_SGD_COLL_CREW_H

#include "sgd/coll/shm/shm.h"

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

enum { COLL_CREW_MAX = 8 };

struct coll_crew {
    void                *region;
    size_t               size;
    struct coll_shm_plan plan;
    uint32_t             members, wait_ms;
    pid_t                pids[COLL_CREW_MAX];
};

/* A member's life; its return value becomes the exit status (0 to 255). */
typedef int (*coll_life)(struct coll_crew *crew, uint32_t rank, void *arg);

static inline void coll_crew_init(struct coll_crew *crew, uint32_t members, uint64_t heap)
{
    *crew = (struct coll_crew){.plan = {COLL_CREW_MAX, heap}, .members = members, .wait_ms = 20000};
    assert_int_equal(coll_shm_size(&crew->plan, &crew->size).code, MT_OK);
    crew->region = mmap(NULL, crew->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(crew->region != MAP_FAILED);
    coll_shm_lay(crew->region, &crew->plan);
}

static inline void coll_crew_fini(struct coll_crew *crew)
{
    munmap(crew->region, crew->size);
}

static inline mt_status coll_crew_join(struct coll_crew *crew, struct coll_shm *g, uint32_t generation, uint32_t rank,
                                       uint32_t members)
{
    struct coll_shm_config config = {.region = crew->region,
                                     .region_size = crew->size,
                                     .plan = crew->plan,
                                     .generation = generation,
                                     .rank = rank,
                                     .members = members,
                                     .wait_limit_ms = crew->wait_ms,
                                     .name = "test"};
    return coll_shm_join(g, &config);
}

static inline void coll_crew_hire(struct coll_crew *crew, uint32_t rank, coll_life life, void *arg)
{
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(99);
        _exit(life(crew, rank, arg));
    }
    crew->pids[rank] = pid;
}

/* Waits for one; its exit status, or 1000 + the signal that ended it. */
static inline int coll_crew_end(struct coll_crew *crew, uint32_t rank)
{
    int status;
    assert_int_equal(waitpid(crew->pids[rank], &status, 0), crew->pids[rank]);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A crew whose members all end well. */
static inline void coll_crew_run(uint32_t members, uint64_t heap, coll_life life, void *arg)
{
    struct coll_crew crew;
    coll_crew_init(&crew, members, heap);
    for (uint32_t rank = 0; rank < members; rank++)
        coll_crew_hire(&crew, rank, life, arg);
    for (uint32_t rank = 0; rank < members; rank++)
        assert_int_equal(coll_crew_end(&crew, rank), 0);
    coll_crew_fini(&crew);
}

#endif

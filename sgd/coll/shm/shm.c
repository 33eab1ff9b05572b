/* SPDX-License-Identifier: Apache-2.0
 *
 * shm.c - generations: joining one, and leaving.
 *
 * Owns:   a member's pidfds of the others; the region is the caller's.
 * Always: a member writes only its own entry, mails and rings, its bits of `sleepers`, and by compare and swap the abort,
 *         the decision and the latest generation. So a member that dies at any instruction leaves nothing half done.
 */
#include "sgd/coll/shm/private.h"

#include "core/base/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS_MAX = 200 };

static const char *const names[] = {[COLL_SHM_OUT] = "OUT", [COLL_SHM_JOINING] = "JOINING", [COLL_SHM_IN] = "IN"};
static const uint32_t    next_of[] = {
       [COLL_SHM_OUT] = MT_STATE(COLL_SHM_JOINING),
       [COLL_SHM_JOINING] = MT_STATE(COLL_SHM_IN) | MT_STATE(COLL_SHM_OUT),
       [COLL_SHM_IN] = MT_STATE(COLL_SHM_OUT),
};
static const struct mt_machine machine = MT_MACHINE("member over shared memory", names, next_of);

static void coll_shm_set_state(struct coll_shm *g, enum coll_shm_state next)
{
    MT_TRANSITION(&machine, g->state, next);
    g->state = next;
}

static uint64_t pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Whether this member can read all others': they have descriptors (so that their numbers mean the same here), and what stands
 * there is what they said. */
static bool can_peek(const struct coll_shm *g)
{
    for (uint32_t rank = 0; rank < g->members; rank++) {
        uint64_t address = atomic_load(&g->shared->entries[rank].address) + offsetof(struct coll_shm, generation);
        uint32_t generation = 0;
        if (rank == g->rank)
            continue;
        if (g->pidfds[rank] < 0 || !coll_memory_read(g, rank, address, &generation, sizeof generation) ||
            generation != g->generation)
            return false;
    }
    return !g->plan.is_bare;
}

static mt_status config_check(const struct coll_shm_config *config)
{
    size_t need;
    MT_TRY(coll_shm_size(&config->plan, &need));
    if ((uintptr_t)config->region % 64 != 0 || config->region_size < need)
        return mt_error(MT_EINVAL, 0, "group: region too small or not aligned");
    if (atomic_load(&((struct coll_shared *)config->region)->layout) != coll_layout_word(&config->plan))
        return mt_error(MT_EINVAL, 0, "group: the region is laid out for another group");
    return mt_ok();
}

/* Takes over this rank's words: from what their last writer left. */
static mt_status words_take(struct coll_shm *g)
{
    struct coll_entry *entry = &g->shared->entries[g->rank];
    uint64_t           mine = (uint64_t)g->generation << 32, seen = atomic_load(&g->shared->formed);

    g->sequence = g->chunks = g->reduced = g->round = 0;
    g->heap_used = 0;
    g->peeks = false;
    memset(g->sent, 0, sizeof g->sent);
    memset(g->taken, 0, sizeof g->taken);
    for (uint32_t i = 0; i < COLL_MAILS; i++) {
        g->mail_words[i] = atomic_load(&coll_mail_of(g, g->rank, i)->arrived);
        if (g->mail_words[i] >> 32 >= g->generation)
            return coll_fenced(g); /* or this rank is taken already */
    }
    atomic_store(&entry->pid_space, pid_space());
    atomic_store(&entry->address, (uintptr_t)g);
    atomic_store(&entry->joined, mine | (uint32_t)getpid());
    atomic_store(&entry->staged, mine);
    atomic_store(&entry->reduced, mine);
    while (seen >> 32 < g->generation && !atomic_compare_exchange_weak(&g->shared->formed, &seen, mine | g->members))
        ;
    return mt_ok();
}

mt_status coll_shm_move(struct coll_shm *g, uint32_t generation, uint32_t rank, uint32_t members, const int8_t *from)
{
    int              kept[MT_GROUP_MEMBERS_MAX];
    struct coll_call call = {.kind = COLL_JOIN, .count = members};

    if (generation <= g->generation || members == 0 || members > g->plan.members_max || rank >= members) {
        snprintf(g->text, sizeof g->text, "group \"%s\": generation %u (after %u), rank %u of %u members (at most %u)", g->name,
                 generation, g->generation, rank, members, g->plan.members_max);
        return mt_error(MT_EINVAL, 0, "group: generation, rank or number of members out of range");
    }
    MT_TRY(coll_shm_give_back_all(g));
    for (uint32_t r = 0; r < MT_GROUP_MEMBERS_MAX; r++)
        kept[r] = -1;
    for (uint32_t r = 0; from && r < members; r++)
        if (from[r] >= 0) {
            kept[r] = g->pidfds[from[r]];
            g->pidfds[from[r]] = -1;
        }
    coll_shm_fini(g);
    memcpy(g->pidfds, kept, sizeof kept);
    g->generation = generation, g->rank = rank, g->members = members;
    coll_shm_set_state(g, COLL_SHM_JOINING);
    MT_TRY(words_take(g));
    MT_TRY(coll_arrive(g, &call, NULL, 0));
    coll_pidfds_open(g);
    g->peeks = can_peek(g);
    coll_shm_set_state(g, COLL_SHM_IN);
    return mt_ok();
}

mt_status coll_shm_join(struct coll_shm *g, const struct coll_shm_config *config)
{
    *g = (struct coll_shm){.shared = config->region,
                           .loops = coll_loops_choose(NULL),
                           .plan = config->plan,
                           .spin_ns = MT_SPIN_NS_MAX,
                           .looks_max = config->is_crowded ? 0 : LOOKS_MAX,
                           .wait_limit_ms = config->wait_limit_ms ? config->wait_limit_ms : MT_COLL_WAIT_MS};
    for (uint32_t r = 0; r < MT_GROUP_MEMBERS_MAX; r++)
        g->pidfds[r] = -1;
    snprintf(g->name, sizeof g->name, "%s", config->name ? config->name : "");
    mt_status st = config_check(config);
    g->creator = config->creator ? (int)syscall(SYS_pidfd_open, (pid_t)config->creator, 0) : -1;
    if (st.code == MT_OK && config->creator && g->creator < 0 && errno == ESRCH)
        coll_creator_died(g->shared, config->generation);
    if (st.code == MT_OK)
        st = coll_shm_move(g, config->generation, config->rank, config->members, NULL);
    else
        snprintf(g->text, sizeof g->text, "%s", st.what);
    if (g->creator >= 0)
        close(g->creator);
    g->creator = -1;
    return st;
}

void coll_shm_fini(struct coll_shm *g)
{
    if (g->state == COLL_SHM_OUT)
        return;
    mt_status st = coll_shm_give_back_all(g);
    (void)st; /* without memory for the content, the buffers stay on the pages of the region */
    for (uint32_t r = 0; r < MT_GROUP_MEMBERS_MAX; r++) {
        if (g->pidfds[r] >= 0)
            close(g->pidfds[r]);
        g->pidfds[r] = -1;
    }
    coll_shm_set_state(g, COLL_SHM_OUT);
}

void coll_shm_leave(struct coll_shm *g)
{
    if (g->state == COLL_SHM_IN)
        atomic_store(&g->shared->entries[g->rank].left, g->generation);
    coll_shm_fini(g);
}

uint32_t coll_shm_generation(const void *region, uint32_t *out_members)
{
    uint64_t formed = atomic_load(&((struct coll_shared *)(uintptr_t)region)->formed);
    *out_members = (uint32_t)formed;
    return (uint32_t)(formed >> 32);
}

uint32_t coll_shm_rank_of(const void *region, uint32_t generation, int pid)
{
    struct coll_shared *shared = (struct coll_shared *)(uintptr_t)region;
    for (uint32_t rank = 0; rank < MT_GROUP_MEMBERS_MAX; rank++)
        if (atomic_load(&shared->entries[rank].joined) == ((uint64_t)generation << 32 | (uint32_t)pid))
            return rank;
    return MT_GROUP_MEMBERS_MAX;
}

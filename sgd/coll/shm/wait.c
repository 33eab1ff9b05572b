/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - aborts and deaths; publishing a word and waiting for another's.
 *
 * Owns:   nothing; the region is the caller's.
 * Always: a member writes only its own entry, mails and rings, its bits of `sleepers`, and by compare and swap the abort and the
 *         decision. So a member that dies at any instruction leaves nothing half done.
 */
#include "sgd/coll/shm/private.h"

#include "core/base/clock.h"
#include "sgd/ground/futex.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* In place of a mail's number: two members disagree on a message; nobody disagrees. In place of a rank: the creator. */
enum { OF_MESSAGE = 0xff, OF_NOBODY = 0xfe, CREATOR = 0xfe };

/* ---- waking, aborts, deaths ---- */

static void park_wake(struct coll_shared *shared, uint32_t rank)
{
    atomic_fetch_add(&shared->entries[rank].park, 1);
    sgd_futex_wake_all(&shared->entries[rank].park);
}

static void wake_all(struct coll_shared *shared)
{
    uint64_t members = atomic_load(&shared->layout) >> 48; /* 0: nobody has been here yet */
    for (uint32_t rank = 0; rank < members && rank < MT_GROUP_MEMBERS_MAX; rank++)
        park_wake(shared, rank);
}

static void abort_set(struct coll_shared *shared, uint64_t word)
{
    uint64_t seen = atomic_load(&shared->abort);
    while (seen >> 32 < word >> 32 && !atomic_compare_exchange_weak(&shared->abort, &seen, word))
        ;
    /* Even where another was first: its wakes may have died with it. */
    wake_all(shared);
}

void coll_shm_abort(void *region, uint32_t generation, enum mt_code reason, uint32_t rank)
{
    MT_ASSERT(generation != 0 && reason != MT_OK);
    abort_set(region, (uint64_t)generation << 32 | (uint64_t)(reason & 0xff) << 24 | (rank & 0xff) << 16 | OF_NOBODY);
}

struct coll_abort coll_shm_why(const void *region)
{
    uint64_t word = atomic_load(&((struct coll_shared *)(uintptr_t)region)->abort);
    return (struct coll_abort){(uint32_t)(word >> 32), (int32_t)(word >> 24 & 0xff), (uint32_t)(word >> 16 & 0xff)};
}

uint64_t coll_shm_arrived(const void *region, uint32_t rank)
{
    const struct coll_mail *mails = (const struct coll_mail *)((const struct coll_shared *)region + 1);
    uint64_t                last = 0;
    MT_ASSERT(rank < MT_GROUP_MEMBERS_MAX);
    for (uint32_t i = 0; i < COLL_MAILS; i++) {
        uint64_t word = atomic_load((coll_word *)&mails[(size_t)rank * COLL_MAILS + i].arrived);
        last = word > last ? word : last;
    }
    return last;
}

void coll_shm_died(void *region, uint32_t generation, uint32_t rank)
{
    struct coll_shared *shared = region;
    if (rank < MT_GROUP_MEMBERS_MAX)
        atomic_store(&shared->entries[rank].dead, generation);
    coll_shm_abort(region, generation, MT_EWORKER_DIED, rank);
}

static mt_status disagree(struct coll_shm *g, uint32_t a, uint32_t b, uint32_t sequence)
{
    struct coll_mail *mail_a = coll_mail_of(g, a, sequence), *mail_b = coll_mail_of(g, b, sequence);
    coll_head_explain(g->text, g->name, a, &mail_a->head, b, &mail_b->head);
    abort_set(g->shared, (uint64_t)g->generation << 32 | (uint64_t)MT_EINVAL << 24 | a << 16 | b << 8 | sequence % COLL_MAILS);
    return mt_error(MT_EINVAL, 0, "members of the group disagree");
}

void coll_abort_message(struct coll_shm *g, uint32_t from)
{
    abort_set(g->shared, (uint64_t)g->generation << 32 | (uint64_t)MT_EINVAL << 24 | from << 16 | g->rank << 8 | OF_MESSAGE);
}

void coll_message_explain(struct coll_shm *g, uint32_t from, uint32_t to)
{
    struct coll_dispute d = coll_pipe_of(g, from, to)->dispute;
    snprintf(g->text, sizeof g->text, "group \"%s\": rank %u sent %llu %s, rank %u expected %llu %s", g->name, from,
             (unsigned long long)d.sent_count, d.sent_type < COLL_TYPES ? coll_type_name((enum coll_type)d.sent_type) : "?", to,
             (unsigned long long)d.wanted_count, d.wanted_type < COLL_TYPES ? coll_type_name((enum coll_type)d.wanted_type) : "?");
}

static mt_status aborted(struct coll_shm *g, uint64_t word)
{
    uint32_t reason = word >> 24 & 0xff, a = word >> 16 & 0xff, b = word >> 8 & 0xff, number = word & 0xff;
    char     who[32] = "a member";
    if (a < MT_GROUP_MEMBERS_MAX)
        snprintf(who, sizeof who, "rank %u", a);
    if (reason == MT_EFENCED && a == CREATOR) {
        snprintf(g->text, sizeof g->text, "group \"%s\": its creator has gone before all had joined", g->name);
        return mt_error(MT_EFENCED, 0, "the group's creator has gone");
    }
    if (reason != MT_EINVAL || number == OF_NOBODY)
        return coll_over(g->text, g->name, (enum mt_code)reason, who);
    if (number == OF_MESSAGE && a < g->members && b < g->members)
        coll_message_explain(g, a, b);
    else if (a < g->members && b < g->members && number < COLL_MAILS)
        coll_head_explain(g->text, g->name, a, &coll_mail_of(g, a, number)->head, b, &coll_mail_of(g, b, number)->head);
    return mt_error(MT_EINVAL, 0, "members of the group disagree");
}

mt_status coll_fenced(struct coll_shm *g)
{
    snprintf(g->text, sizeof g->text, "group \"%s\": a later generation than %u exists", g->name, g->generation);
    return mt_error(MT_EFENCED, 0, "a later generation of the group exists");
}

mt_status coll_alive(struct coll_shm *g)
{
    uint64_t word = atomic_load_explicit(&g->shared->abort, memory_order_acquire);
    if (MT_LIKELY(word >> 32 < g->generation))
        return mt_ok();
    return word >> 32 > g->generation ? coll_fenced(g) : aborted(g, word);
}

/* ---- deaths seen by the members themselves ---- */

static bool has_left(const struct coll_shm *g, uint32_t rank)
{
    return atomic_load(&g->shared->entries[rank].left) == g->generation;
}

void coll_pidfds_open(struct coll_shm *g)
{
    uint64_t space = atomic_load(&g->shared->entries[g->rank].pid_space);
    for (uint32_t rank = 0; rank < g->members; rank++) {
        struct coll_entry *entry = &g->shared->entries[rank];
        uint64_t           joined = atomic_load(&entry->joined);
        if (rank == g->rank || g->pidfds[rank] >= 0 || joined >> 32 != g->generation || space == 0 ||
            atomic_load(&entry->pid_space) != space)
            continue;
        g->pidfds[rank] = (int)syscall(SYS_pidfd_open, (pid_t)(uint32_t)joined, 0);
        if (g->pidfds[rank] < 0 && errno == ESRCH && !has_left(g, rank))
            coll_shm_died(g->shared, g->generation, rank);
    }
}

void coll_creator_died(struct coll_shared *shared, uint32_t generation)
{
    coll_shm_abort(shared, generation, MT_EFENCED, CREATOR);
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

void coll_look_for_dead(struct coll_shm *g, uint32_t wanted)
{
    if (g->state == COLL_SHM_JOINING)
        coll_pidfds_open(g);
    for (uint32_t rank = 0; rank < g->members; rank++)
        if (has_ended(g->pidfds[rank]) && (rank == wanted || !has_left(g, rank)))
            coll_shm_died(g->shared, g->generation, rank);
    if (g->state == COLL_SHM_JOINING && has_ended(g->creator)) /* who has not come yet finds no memory any more */
        coll_creator_died(g->shared, g->generation);
}

mt_status coll_shm_look(struct coll_shm *g)
{
    coll_look_for_dead(g, MT_GROUP_MEMBERS_MAX);
    return coll_alive(g);
}

/* ---- reading each other's memory ---- */

bool coll_memory_read(const struct coll_shm *g, uint32_t rank, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};
    pid_t        pid = (pid_t)(uint32_t)atomic_load(&g->shared->entries[rank].joined);
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

mt_status coll_peek(struct coll_shm *g, uint32_t rank, uint64_t address, void *to, size_t size)
{
    if (coll_memory_read(g, rank, address, to, size))
        return mt_ok();
    int why = errno;
    for (int64_t until = mt_now_ms() + MT_COLL_PEEK_MS; mt_now_ms() < until;) { /* it may be dead */
        coll_look_for_dead(g, rank);
        MT_TRY(coll_alive(g));
        mt_sleep_ms(1);
    }
    coll_shm_abort(g->shared, g->generation, MT_ESYS, rank);
    snprintf(g->text, sizeof g->text, "group \"%s\": the buffer of rank %u can't be read (%s)", g->name, rank, strerror(why));
    return mt_error(MT_ESYS, why, "group: read a member's buffer");
}

/* ---- publishing and waiting ---- */

static void sleepers_wake(struct coll_shm *g)
{
    uint64_t all = atomic_load(&g->shared->sleepers) & ~(1ull << g->rank), mask = 0;
    if (MT_LIKELY(all == 0))
        return;
    for (; all; all &= all - 1) {
        uint32_t wants = atomic_load(&g->shared->entries[__builtin_ctzll(all)].waits_for);
        if (wants == g->rank || wants >= MT_GROUP_MEMBERS_MAX)
            mask |= all & -all;
    }
    mask &= mask ? atomic_fetch_and(&g->shared->sleepers, ~mask) : 0;
    for (; mask; mask &= mask - 1)
        park_wake(g->shared, (uint32_t)__builtin_ctzll(mask));
}

mt_status coll_publish(struct coll_shm *g, coll_word *word, uint64_t *last, uint32_t number)
{
    uint64_t next = (uint64_t)g->generation << 32 | number;
    /* A full fence: what we say is before what we read of `sleepers`, as a sleeper's bit is before its last look. */
    if (!atomic_compare_exchange_strong(word, last, next))
        return coll_fenced(g);
    *last = next;
    sleepers_wake(g);
    return mt_ok();
}

static mt_status timed_out(struct coll_shm *g, uint32_t rank)
{
    coll_shm_abort(g->shared, g->generation, MT_ETIMEDOUT, rank);
    char who[32];
    snprintf(who, sizeof who, "rank %u", rank);
    return coll_over(g->text, g->name, MT_ETIMEDOUT, who);
}

static void idle_sleep(struct coll_shm *g, struct coll_idle *idle, uint32_t rank)
{
    struct coll_entry *entry = &g->shared->entries[g->rank];
    if (!idle->is_announced) { /* and look once more */
        idle->parked = atomic_load(&entry->park);
        atomic_store(&entry->waits_for, idle->is_for_one ? rank : MT_GROUP_MEMBERS_MAX);
        atomic_fetch_or(&g->shared->sleepers, 1ull << g->rank);
        idle->is_announced = true;
        return;
    }
    idle->has_slept = true;
    sgd_futex_wait(&entry->park, idle->parked, MT_GROUP_SLEEP_MS);
    if (atomic_load(&entry->park) == idle->parked)
        coll_look_for_dead(g, rank);
    idle->is_announced = false;
}

mt_status coll_idle(struct coll_shm *g, struct coll_idle *idle, uint32_t rank, bool is_deaf)
{
    if (!is_deaf)
        MT_TRY(coll_alive(g));
    if (idle->looks++ < g->looks_max) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return mt_ok();
    }
    uint64_t now = mt_now_ns();
    idle->start_ns = idle->start_ns ? idle->start_ns : now;
    if (now - idle->start_ns >= (uint64_t)g->wait_limit_ms * 1000000u)
        return timed_out(g, rank);
    if (now - idle->start_ns < g->spin_ns)
        sched_yield();
    else
        idle_sleep(g, idle, rank);
    return mt_ok();
}

void coll_idle_end(struct coll_shm *g, const struct coll_idle *idle)
{
    if (idle->looks <= g->looks_max)
        return;
    g->spin_ns = idle->has_slept ? g->spin_ns / 2 : g->spin_ns * 2;
    g->spin_ns = g->spin_ns < MT_SPIN_NS_MIN ? MT_SPIN_NS_MIN : g->spin_ns > MT_SPIN_NS_MAX ? MT_SPIN_NS_MAX : g->spin_ns;
}

mt_status coll_wait(struct coll_shm *g, const coll_word *word, uint32_t want, uint32_t rank)
{
    struct coll_idle idle = {.is_for_one = true};
    while (!coll_reached(g, word, want)) {
        if (atomic_load(word) >> 32 > g->generation)
            return coll_fenced(g);
        MT_TRY(coll_idle(g, &idle, rank, false));
    }
    coll_idle_end(g, &idle);
    return mt_ok();
}

/* ---- arrival ---- */

static uint64_t region_offset(const struct coll_shm *g, const struct coll_call *call, const void *data)
{
    return call->kind == COLL_ALL_REDUCE ? coll_heap_offset(g, data, coll_part_bytes(call), call->type) : 0;
}

mt_status coll_arrive(struct coll_shm *g, const struct coll_call *call, const void *body, size_t size)
{
    MT_TRY(coll_alive(g));
    uint32_t          sequence = ++g->sequence;
    struct coll_mail *mail = coll_mail_of(g, g->rank, sequence);
    mail->head = coll_head_of(call);
    mail->in_at = region_offset(g, call, call->in);
    mail->out_at = region_offset(g, call, call->out);
    mail->address = (uintptr_t)call->in;
    mail->peeks = g->peeks;
    if (size)
        memcpy(mail->body, body, size);
    MT_TRY(coll_publish(g, &mail->arrived, &g->mail_words[sequence % COLL_MAILS], sequence));
    for (uint32_t rank = 0; rank < g->members; rank++)
        if (rank != g->rank)
            MT_TRY(coll_wait(g, &coll_mail_of(g, rank, sequence)->arrived, sequence, rank));
    for (uint32_t rank = 1; rank < g->members; rank++)
        if (!coll_head_equals(&coll_mail_of(g, 0, sequence)->head, &coll_mail_of(g, rank, sequence)->head))
            return disagree(g, 0, rank, sequence);
    return mt_ok();
}

mt_status coll_shm_arrive(struct coll_shm *g, const struct coll_call *call)
{
    if (atomic_load(&g->shared->formed) >> 32 > g->generation)
        return coll_fenced(g);
    return coll_arrive(g, call, NULL, 0);
}

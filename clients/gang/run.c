/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h. Owns: crew, room, layout and output of the gang.
 */
#include "clients/gang/run.h"

#include "clients/gang/plan/gang.h"
#include "clients/gang/plan/meet.h"
#include "clients/gang/output.h"
#include "clients/gang/room.h"
#include "core/base/clock.h"
#include "core/base/limits/cli.h"
#include "core/base/rng.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

const int gng_signals[GNG_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

struct seen { /* of a member */
    int    pid;
    bool   has_ended;
    char   fault[256];   /* its end is a fault of PMI, whatever its status */
    char   failure[700]; /* for people, of its end: several may fail before one is started again */
    bool   has_fence;    /* of the first rank of a node: all ranks there wait */
    mt_buf fence;        /* ... what they have put */
};

struct run {
    const struct gng_plan *plan;
    struct gng_gang        gang;
    struct gng_room        room;
    struct gng_crew        crew;
    struct gng_layout      layout;
    struct gng_output      output;
    struct roster          nodes;
    struct gng_meet        meet;   /* where ranks go on without a dead one */
    struct gng_place      *places; /* of members, before they have ranks */
    struct seen           *seen;
    manta_env             *env;
    char                   run_id[MT_GANG_NAME_BYTES_MAX];
    char                   failure[1024]; /* for people, of the member that failed first */
    int                    failed_rank, status;
    int64_t                looked_ns, room_since_ns;
    int64_t                round_ns, awake_ns; /* of the last round; since when rounds have come as they should */
    bool                   is_done;
};

static void tell(const char *format, ...) MT_PRINTF(1, 2);
static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("manta run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
    va_end(args);
}

static bool wants_port(const struct gng_plan *plan)
{
    return plan->as == GNG_AS_TORCH || plan->as == GNG_AS_TF || plan->as == GNG_AS_HOROVOD;
}

/* So many random digits, at most 64, and an end. */
static mt_status digits_draw(char *out, size_t count)
{
    uint8_t bytes[32];
    MT_TRY(mt_random_bytes(bytes, count / 2));
    for (size_t i = 0; i < count / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return mt_ok();
}

static mt_status step(struct run *r, struct gng_event ev)
{
    ev.now_ns = mt_now_ns();
    return gng_step(&r->gang, &ev);
}

/* ---- failures, for people ---- */

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* How a rank ended that did not end with 0, and the exit status of that. */
static int how(int64_t ended, const char *text, char *out, size_t size)
{
    int status = (int)ended;
    if (ended < 0) {
        snprintf(out, size, "could not be started: %s", text[0] ? text : strerror((int)-ended));
        return -ended == ENOENT ? 127 : 126;
    }
    if (WIFSIGNALED(status)) {
        snprintf(out, size, "was killed by signal %d (%s)%s%s", WTERMSIG(status), strsignal(WTERMSIG(status)), text[0] ? ": " : "",
                 text);
        return 128 + WTERMSIG(status);
    }
    snprintf(out, size, "ended with status %d%s%s", WEXITSTATUS(status), text[0] ? ": " : "", text);
    return WEXITSTATUS(status);
}

static void failure_note(struct run *r, int member, const char *text)
{
    const struct gng_place *p = &r->layout.of[member];
    char                    pid[32] = "";
    if (r->seen[member].pid)
        snprintf(pid, sizeof pid, " (pid %d)", r->seen[member].pid);
    r->failed_rank = p->rank;
    snprintf(r->failure, sizeof r->failure, "rank %d%s on node %s %s", p->rank, pid, p->name, text);
    snprintf(r->seen[member].failure, sizeof r->seen[member].failure, "%.*s", (int)sizeof r->seen[member].failure - 1, r->failure);
}

static void last_lines_tell(const struct run *r)
{
    char tail[MT_GANG_TAIL_BYTES + 2];
    if (r->failed_rank < 0)
        return;
    gng_output_tail(&r->output, r->failed_rank, tail, sizeof tail);
    if (tail[0])
        fprintf(stderr, "its last lines:\n%s", tail);
}

/* ---- PMI: what the ranks of one node have put goes to those of the others ---- */

static void fences_forget(struct run *r)
{
    for (int i = 0; i < r->crew.count; i++) {
        mt_buf_fini(&r->seen[i].fence);
        r->seen[i] = (struct seen){0};
    }
}

static bool is_first_of_node(const struct run *r, int member)
{
    return r->layout.of[member].local_rank == 0;
}

static mt_status fence_pass(struct run *r, int member)
{
    mt_buf    puts = {0};
    mt_status st = mt_ok();
    for (int i = 0; i < r->crew.count && st.code == 0; i++)
        if (i != member && r->seen[i].fence.size)
            st = mt_buf_append(&puts, r->seen[i].fence.data, r->seen[i].fence.size);
    if (st.code == 0)
        st = gng_crew_write(&r->crew, member,
                            &(struct gng_wire){.kind = GNG_WIRE_FENCED, .attempt = r->gang.attempt, .bytes = mt_buf_view(&puts)});
    mt_buf_fini(&puts);
    return st;
}

static mt_status fault_step(struct run *r, int member, const char *text, int code);

/* Do all nodes wait? One whose ranks have all ended keeps the others waiting for ever. */
static mt_status fences_look(struct run *r)
{
    int waiting = 0, over = -1;
    for (int i = 0; i < r->crew.count; i++) {
        waiting += r->seen[i].has_fence;
        if (is_first_of_node(r, i) && !r->seen[i].has_fence && r->seen[i].has_ended)
            over = i;
    }
    if (waiting && over >= 0)
        return fault_step(r, over, "ended before MPI_Init or after MPI_Finalize, and others wait for it in MPI", -1);
    if (waiting < r->layout.nodes)
        return mt_ok();
    for (int i = 0; i < r->crew.count; i++)
        if (is_first_of_node(r, i))
            MT_TRY(fence_pass(r, i));
    for (int i = 0; i < r->crew.count; i++) {
        r->seen[i].has_fence = false;
        r->seen[i].fence.size = 0;
    }
    return mt_ok();
}

static mt_status fence_take(struct run *r, int member, mt_view puts)
{
    r->seen[member].has_fence = true;
    MT_TRY(mt_buf_append(&r->seen[member].fence, puts.data, puts.size));
    return fences_look(r);
}

/* ---- ranks that go on when one of them dies ---- */

static bool meets(const struct run *r)
{
    return gng_plan_meets(r->plan);
}

static mt_status meet_begin(struct run *r)
{
    struct gng_met *of = calloc((size_t)r->layout.count, sizeof *of);
    if (!of)
        return mt_error(MT_ENOMEM, 0, "let ranks meet");
    for (int i = 0; i < r->layout.count; i++) {
        const struct gng_place *p = &r->layout.of[r->layout.member[i]];
        of[i].local_rank = p->local_rank;
        of[i].local_size = gng_layout_local(&r->layout, r->layout.member[i]);
    }
    gng_meet_fini(&r->meet);
    gng_meet_init(&r->meet, of, r->layout.count, r->layout.nodes == 1);
    return mt_ok();
}

static mt_status meet_tell(struct run *r, mt_status st)
{
    for (size_t i = 0; i < r->meet.lines.count && st.code == 0; i++) {
        const struct gng_heard *h = &r->meet.lines.data[i];
        st = gng_crew_write(&r->crew, r->layout.member[h->rank],
                            &(struct gng_wire){.kind = GNG_WIRE_HEARS, .attempt = r->gang.attempt, .bytes = mt_buf_view(&h->line)});
    }
    gng_meet_sent(&r->meet);
    return st;
}

static mt_status said_take(struct run *r, int member, mt_view line)
{
    char digits[GNG_MEET_KEY + 1];
    MT_TRY(digits_draw(digits, GNG_MEET_KEY));
    mt_status st = gng_meet_said(&r->meet, r->layout.of[member].rank, line, digits);
    return st.code == MT_EPROTO ? fault_step(r, member, st.what, -1) : meet_tell(r, st);
}

/* Before the gang hears of it. Who fails when others have finished can't join them any more: that is a failure of all. */
static mt_status left_take(struct run *r, int member, bool is_failed)
{
    int rank = r->layout.of[member].rank;
    MT_TRY(meet_tell(r, gng_meet_ended(&r->meet, rank, is_failed)));
    if (!is_failed || r->gang.state != GNG_RUNNING || !gng_meet_stuck(&r->meet, rank))
        return mt_ok();
    r->gang.renews = false;
    r->gang.max_restarts = r->gang.restarts;
    tell("rank %d can't go on: others have finished, and nobody has its state any more", rank);
    return mt_ok();
}

/* ---- news ---- */

static mt_status fault_step(struct run *r, int member, const char *text, int code)
{
    if (r->gang.state == GNG_RUNNING) {
        failure_note(r, member, text);
        r->status = code >= 0 ? code : 1;
    }
    return step(r, (struct gng_event){.kind = GNG_EV_FAULT, .member = member});
}

static mt_status fault_take(struct run *r, const struct gng_wire *word)
{
    struct gng_fault f = gng_fault_of(word->number);
    char             text[256];
    if (f.rank < 0 || f.rank >= r->layout.count)
        return mt_ok();
    int member = r->layout.member[f.rank];
    snprintf(text, sizeof text, "%.*s", (int)word->bytes.size, word->bytes.size ? (const char *)word->bytes.data : "");
    if (!f.is_end || r->seen[member].has_ended)
        return fault_step(r, member, text, f.code);
    memcpy(r->seen[member].fault, text, sizeof text); /* until its supervisor has said how it ended */
    return mt_ok();
}

static mt_status ended_take(struct run *r, int member, const struct gng_wire *word)
{
    char text[256], words[512];
    bool is_first = r->gang.state == GNG_RUNNING && word->number != 0 && word->attempt == r->gang.attempt;
    snprintf(text, sizeof text, "%.*s", (int)word->bytes.size, word->bytes.size ? (const char *)word->bytes.data : "");
    r->seen[member].has_ended = true;
    MT_TRY(gng_output_end(&r->output, r->layout.of[member].rank));
    if (word->number == 0 && r->seen[member].fault[0])
        MT_TRY(fault_step(r, member, r->seen[member].fault, -1));
    if (meets(r))
        MT_TRY(left_take(r, member, word->number != 0));
    if (is_first) {
        r->status = how(word->number, text, words, sizeof words);
        if (word->number < 0)
            snprintf(words + strlen(words), sizeof words - strlen(words), ": %.200s", r->plan->argv[0]);
        failure_note(r, member, words);
    }
    MT_TRY(step(r, (struct gng_event){.kind = GNG_EV_ENDED, .ended = {member, word->attempt, word->number != 0}}));
    return r->plan->as == GNG_AS_PMI1 ? fences_look(r) : mt_ok();
}

static mt_status word_take(struct run *r, int member, const struct gng_wire *word)
{
    if (!r->layout.of || word->attempt != r->gang.attempt)
        return mt_ok();
    switch (word->kind) {
    case GNG_WIRE_OUT:
    case GNG_WIRE_ERR: return gng_output_take(&r->output, r->layout.of[member].rank, word->kind == GNG_WIRE_ERR, word->bytes);
    case GNG_WIRE_STARTED: r->seen[member].pid = (int)word->number; return mt_ok();
    case GNG_WIRE_ENDED: return ended_take(r, member, word);
    case GNG_WIRE_SAID: return meets(r) ? said_take(r, member, word->bytes) : mt_ok();
    case GNG_WIRE_FENCE: return fence_take(r, member, word->bytes);
    case GNG_WIRE_FAULT: return fault_take(r, word);
    default: return mt_ok();
    }
}

static mt_status down_take(struct run *r, int member, const manta_error *why)
{
    char text[700];
    snprintf(text, sizeof text, "is gone: %.600s", why->message);
    if (r->gang.state == GNG_RUNNING && r->layout.of && r->gang.members[member].state == GNG_MEMBER_RUNNING) {
        failure_note(r, member, text);
        r->status = 1;
    } else if (r->gang.state == GNG_GATHERING) {
        r->failed_rank = -1;
        r->status = 1;
        snprintf(r->failure, sizeof r->failure, "a rank can't be supervised: %.700s", why->message);
    }
    return step(r, (struct gng_event){.kind = GNG_EV_GONE, .member = member});
}

static mt_status news_take(void *user, const struct gng_news *news)
{
    struct run *r = user;
    switch (news->kind) {
    case GNG_NEWS_READY:
        r->places[news->member].seat = *news->seat;
        return step(r, (struct gng_event){.kind = GNG_EV_READY, .member = news->member});
    case GNG_NEWS_WORD: return word_take(r, news->member, news->word);
    default: return down_take(r, news->member, news->why);
    }
}

/* ---- actions ---- */

static mt_status hire(struct run *r)
{
    const struct gng_plan *p = r->plan;
    int                    count = r->room.count;
    free(r->places);
    free(r->seen);
    r->places = calloc((size_t)count, sizeof *r->places);
    r->seen = calloc((size_t)count, sizeof *r->seen);
    if (!r->places || !r->seen)
        return mt_error(MT_ENOMEM, 0, "make a gang");
    return gng_crew_hire(&r->crew, r->room.berths, count, p->cpus, p->gpus, r->env, wants_port(p));
}

/* What a START says. */
static mt_status start_put(const struct run *r, int member, int restarts, mt_view mapping, mt_buf *out)
{
    const struct gng_layout *l = &r->layout;
    const struct gng_place  *p = &l->of[member];
    int                      first = p->rank - p->local_rank;
    const char              *pmi = l->of[l->member[first]].seat.pmi;
    mt_buf                   texts = {0};
    struct gng_start         s = {.rank = (uint32_t)p->rank,
                                  .first = (uint32_t)first,
                                  .local = (uint32_t)gng_layout_local(l, member),
                                  .size = (uint32_t)l->count,
                                  .hang_ms = (uint32_t)r->plan->hang_ms,
                                  .meets = meets(r)};
    mt_status                st = gng_env_put(&texts, r->plan, l, member, r->run_id, restarts);
    for (size_t i = 0; i < texts.size; i++)
        s.env_count += texts.data[i] == 0;
    for (char *const *a = r->plan->argv; *a && st.code == 0; a++, s.argc++)
        st = mt_buf_append(&texts, *a, strlen(*a) + 1);
    s.texts = mt_buf_view(&texts);
    if (r->plan->as == GNG_AS_PMI1) {
        s.pmi = mt_view_text(pmi);
        s.mapping = mapping;
        s.space = mt_view_text(l->of[l->member[0]].seat.pmi); /* drawn */
    }
    if (r->plan->as == GNG_AS_HOROVOD)
        s.horovod = (struct gng_horovod){mt_view_text(gng_layout_address(l, member)),
                                         mt_view_text(gng_layout_address(l, l->member[0])), mt_view_text(l->secret),
                                         (uint32_t)l->of[l->member[0]].seat.port};
    if (st.code == 0)
        st = gng_start_put(out, &s);
    mt_buf_fini(&texts);
    return st;
}

static mt_status start(struct run *r)
{
    roster_look(&r->nodes, MANTA_NEWS_FREE, 0);
    for (int i = 0; i < r->crew.count; i++) {
        const manta_node_info *node = roster_find(&r->nodes, r->places[i].seat.node);
        snprintf(r->places[i].address, sizeof r->places[i].address, "%s", node ? node->address : "");
        snprintf(r->places[i].name, sizeof r->places[i].name, "%s", node ? node->name : "?");
    }
    gng_layout_fini(&r->layout);
    MT_TRY(gng_layout_make(&r->layout, r->places, r->crew.count));
    MT_TRY(digits_draw(r->layout.secret, GNG_SECRET_DIGITS));
    fences_forget(r);
    MT_TRY(meet_begin(r));
    for (int i = 0; i < r->layout.count; i++)
        if (gng_role_serves(r->plan, r->layout.of[i].rank, r->layout.count))
            gng_serves(&r->gang, i);
    mt_buf    bytes = {0}, mapping = {0};
    mt_status st = gng_mapping_put(&mapping, &r->layout);
    for (int i = 0; i < r->crew.count && st.code == 0; i++) {
        bytes.size = 0;
        st = start_put(r, i, r->gang.restarts, mt_buf_view(&mapping), &bytes);
        if (st.code == 0)
            st = gng_crew_write(
                &r->crew, i, &(struct gng_wire){.kind = GNG_WIRE_START, .attempt = r->gang.attempt, .bytes = mt_buf_view(&bytes)});
    }
    mt_buf_fini(&bytes);
    mt_buf_fini(&mapping);
    r->room_since_ns = 0;
    return st;
}

/* One rank alone: it hears what the others have heard, and a higher count of restarts. */
static mt_status renew(struct run *r, int member, int restarts)
{
    mt_buf bytes = {0};
    tell("%s; it is started again, the others go on (restart %d)", r->seen[member].failure, restarts);
    mt_buf_fini(&r->seen[member].fence);
    r->seen[member] = (struct seen){0};
    mt_status st = start_put(r, member, restarts, (mt_view){0}, &bytes);
    if (st.code == 0)
        st = gng_crew_write(&r->crew, member,
                            &(struct gng_wire){.kind = GNG_WIRE_START, .attempt = r->gang.attempt, .bytes = mt_buf_view(&bytes)});
    mt_buf_fini(&bytes);
    return st;
}

static void again_tell(const struct run *r)
{
    const struct gng_gang *g = &r->gang;
    if (g->cause == GNG_CAUSE_LEAVING)
        tell("a node is being drained: the gang begins again elsewhere");
    else if (g->cause == GNG_CAUSE_GROWING)
        tell("there is room for more ranks: the gang begins again");
    else if (g->max_restarts < 0)
        tell("%s; the gang begins again (restart %d)", r->failure, g->restarts);
    else
        tell("%s; the gang begins again (restart %d of %d)", r->failure, g->restarts, g->max_restarts);
}

static void done(struct run *r)
{
    const struct gng_gang *g = &r->gang;
    r->is_done = true;
    if (g->cause == GNG_CAUSE_SIGNAL) {
        tell("ended by signal %d (%s)", g->signal_number, strsignal(g->signal_number));
        r->status = 128 + g->signal_number;
    } else if (g->cause != GNG_CAUSE_NONE) {
        tell("%s", r->failure[0] ? r->failure : "it has failed");
        last_lines_tell(r);
        r->status = r->status ? r->status : 1;
    } else {
        r->status = 0;
    }
}

static mt_status action_do(struct run *r, const struct gng_action *a)
{
    switch (a->kind) {
    case GNG_DO_RESERVE: gng_room_begin(&r->room); return mt_ok();
    case GNG_DO_HIRE: return hire(r);
    case GNG_DO_GATHER: gng_crew_gather(&r->crew, wants_port(r->plan)); return mt_ok();
    case GNG_DO_START: return start(r);
    case GNG_DO_SIGNAL:
        return gng_crew_write(&r->crew, a->member,
                              &(struct gng_wire){.kind = GNG_WIRE_SIGNAL, .attempt = r->gang.attempt, .number = a->number});
    case GNG_DO_RENEW: return renew(r, a->member, a->number);
    case GNG_DO_DISMISS:
        fences_forget(r);
        gng_crew_dismiss(&r->crew);
        gng_room_drop(&r->room);
        return mt_ok();
    case GNG_DO_AGAIN: again_tell(r); return mt_ok();
    case GNG_DO_DONE: done(r); return mt_ok();
    }
    return mt_ok();
}

static mt_status actions_do(struct run *r)
{
    mt_status st = mt_ok();
    for (size_t i = 0; i < r->gang.actions.count && st.code == 0; i++) {
        struct gng_action a = r->gang.actions.data[i];
        st = action_do(r, &a);
    }
    r->gang.actions.count = 0;
    if (st.code == 0 && meets(r) && r->gang.state == GNG_STOPPING) /* behind the signal: for those that do not end by it */
        st = meet_tell(r, gng_meet_close(&r->meet));
    gng_crew_send(&r->crew);
    return st;
}

/* ---- what comes from outside ---- */

static mt_status signals_take(struct run *r, volatile sig_atomic_t *pending)
{
    for (int i = 0; i < GNG_SIGNALS; i++) {
        if (!pending[i])
            continue;
        pending[i] = 0;
        MT_TRY(step(r, (struct gng_event){.kind = GNG_EV_SIGNAL, .number = gng_signals[i]}));
    }
    return mt_ok();
}

/* Now and then: nodes that leave, and room for more. */
static mt_status nodes_take(struct run *r)
{
    int64_t now_ns = mt_now_ns();
    if (r->gang.state != GNG_RUNNING || now_ns - r->looked_ns < MT_GANG_LOOK_MS * INT64_C(1000000))
        return mt_ok();
    r->looked_ns = now_ns;
    roster_look(&r->nodes, MANTA_NEWS_FREE, 0);
    for (int i = 0; i < r->layout.count; i++) {
        const manta_node_info *node = roster_find(&r->nodes, r->layout.of[i].seat.node);
        if (node && node->draining)
            MT_TRY(step(r, (struct gng_event){.kind = GNG_EV_LEAVING, .member = i}));
    }
    if (r->layout.nodes >= r->plan->nodes_max || gng_nodes_with_room(&r->nodes, r->plan, &r->layout) == 0) {
        r->room_since_ns = 0;
        return mt_ok();
    }
    r->room_since_ns = r->room_since_ns ? r->room_since_ns : now_ns;
    if (now_ns - r->room_since_ns < MT_GANG_GROW_MS * INT64_C(1000000))
        return mt_ok();
    return step(r, (struct gng_event){.kind = GNG_EV_GROW});
}

/* With --hang-after: a supervisor that stands still tells nothing of its rank, not even that it hangs, or has ended. */
static mt_status silent_take(struct run *r)
{
    int64_t now_ns = mt_now_ns(), limit_ns = (r->plan->hang_ms + MT_GANG_LEAVE_MS) * INT64_C(1000000);
    if (now_ns - r->round_ns > MT_GANG_POLL_MS * INT64_C(1000000))
        r->awake_ns = now_ns; /* we stood still ourselves, or could not print: what was said meanwhile has still to come */
    r->round_ns = now_ns;
    if (!r->plan->hang_ms || r->gang.state != GNG_RUNNING || now_ns - r->awake_ns < limit_ns)
        return mt_ok();
    return gng_crew_end_silent(&r->crew, now_ns - limit_ns, news_take, r);
}

static mt_status room_take(struct run *r)
{
    enum gng_room_is is = gng_room_look(&r->room, &r->nodes);
    if (is == GNG_ROOM_THERE)
        return step(r, (struct gng_event){.kind = GNG_EV_ROOM, .count = r->room.count});
    if (is == GNG_ROOM_NEVER) {
        snprintf(r->failure, sizeof r->failure, "there is no room for %d rank%s: %.900s", r->plan->ranks, plural(r->plan->ranks),
                 r->room.why);
        r->failed_rank = -1;
        r->status = 1;
        return step(r, (struct gng_event){.kind = GNG_EV_NEVER});
    }
    if (!r->room.is_told && mt_now_ns() - r->room.began_ns > MT_GANG_WHY_MS * INT64_C(1000000) && r->room.why[0]) {
        r->room.is_told = true;
        tell("waits for %s", r->room.why);
    }
    return mt_ok();
}

static mt_status round_do(struct run *r, volatile sig_atomic_t *pending)
{
    MT_TRY(signals_take(r, pending));
    if (r->gang.state == GNG_RESERVING)
        MT_TRY(room_take(r));
    else if (r->gang.state != GNG_DONE)
        MT_TRY(gng_crew_look(&r->crew, MT_GANG_TICK_MS, news_take, r));
    MT_TRY(nodes_take(r));
    MT_TRY(silent_take(r));
    MT_TRY(step(r, (struct gng_event){.kind = GNG_EV_TICK}));
    return actions_do(r);
}

/* ---- the whole ---- */

/* Its files as a runtime environment: one folder, which becomes the current one, and single files beside. */
static bool env_make(struct run *r)
{
    manta_runtime_env env = {0};
    const char       *files[MT_CLI_LIST_MAX + 1] = {0};
    int               count = 0;
    manta_error       e;
    for (const char *const *f = r->plan->files; f && *f; f++) {
        struct stat st;
        if (stat(*f, &st) == 0 && S_ISDIR(st.st_mode) && !env.working_dir)
            env.working_dir = *f;
        else if (count < MT_CLI_LIST_MAX)
            files[count++] = *f;
    }
    env.files = count ? files : NULL;
    if (!env.working_dir && !count)
        return true;
    r->env = manta_env_new(&env, &e);
    if (!r->env)
        tell("--files: %s", e.message);
    return r->env != NULL;
}

static void run_id_make(struct run *r)
{
    uint64_t number = (uint64_t)mt_now_ns();
    (void)!mt_random_bytes(&number, sizeof number).code;
    if (r->plan->name)
        snprintf(r->run_id, sizeof r->run_id, "%s", r->plan->name);
    else
        snprintf(r->run_id, sizeof r->run_id, "%016llx", (unsigned long long)number);
}

int gng_run(const struct gng_plan *plan, volatile sig_atomic_t *pending)
{
    struct run r = {.plan = plan, .room = {.plan = plan}, .failed_rank = -1};
    run_id_make(&r);
    gng_init(&r.gang, plan->max_restarts, plan->term_ms * 1000000);
    r.gang.renews = plan->renews;
    mt_status st = gng_output_open(&r.output, plan->output_dir, plan->bare, plan->ranks);
    if (st.code == MT_ESYS) {
        tell("--output-dir %s can't be made: %s", plan->output_dir, strerror(st.sys));
        st = mt_ok(), r.is_done = true, r.status = 1;
    }
    if (st.code == 0 && !r.is_done && !env_make(&r))
        r.is_done = true, r.status = 1;
    if (st.code == 0 && !r.is_done)
        st = actions_do(&r);
    while (st.code == 0 && !r.is_done)
        st = round_do(&r, pending);
    if (st.code) {
        tell("%s: %s", st.what, st.sys ? strerror(st.sys) : mt_code_text(st.code));
        r.status = 1;
    }
    fences_forget(&r);
    gng_crew_dismiss(&r.crew);
    gng_room_drop(&r.room);
    gng_layout_fini(&r.layout);
    gng_meet_fini(&r.meet);
    gng_output_close(&r.output);
    gng_fini(&r.gang);
    manta_env_free(r.env);
    roster_fini(&r.nodes);
    free(r.places);
    free(r.seen);
    return r.status;
}

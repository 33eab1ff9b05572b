/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes_test.c - a real head and two real raylets: leases, actors' lanes, messages and monitors from node to node, and
 * what is told when a worker, an owner or a whole node dies.
 *
 * Only the second node has "gold", so what wants it runs there.
 */
#include "tests/unit/raylet/folder.h"
#include "tests/unit/raylet/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 15000 };

static struct client_message m;

struct fixture {
    char          dir[64], head_dir[96], node_dir[2][96], path[2][128];
    pid_t         head, raylet[2];
    struct client c;
};

static void ready_wait(const int ready[2])
{
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
}

/* Until it serves: ended before, it would die of the signal in place of leaving by it. */
static void start_head(struct fixture *f)
{
    char ready_fd[16];
    int  ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    f->head = fork();
    if (f->head == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this test, it leaves nothing */
        fcntl(ready[1], F_SETFD, 0);
        execl(MANTA_HEAD, "manta-head", "--dir", f->head_dir, "--ready-fd", ready_fd, NULL);
        _exit(127);
    }
    ready_wait(ready);
}

static void start_raylet(struct fixture *f, int i)
{
    char file[160], ready_fd[16], name[16];
    int  ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    snprintf(file, sizeof file, "%s/head.addr", f->head_dir);
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    snprintf(name, sizeof name, "n%d", i);
    f->raylet[i] = fork();
    if (f->raylet[i] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this test, it leaves nothing */
        fcntl(ready[1], F_SETFD, 0);
        execl(MANTA_RAYLET, "manta-raylet", "--dir", f->node_dir[i], "--node-name", name, "--head-file", file, "--num-cpus", "2",
              "--ready-fd", ready_fd, "--resources", i ? "gold=2" : "tin=2", NULL);
        _exit(127);
    }
    ready_wait(ready);
}

/* Until the first node's raylet has heard of both. */
static void wait_for_nodes(struct client *c, uint32_t count)
{
    struct ctl_request nodes = {.op = CTL_OP_NODES};
    for (int i = 0; i < 1000; i++) {
        client_up(c, CTL_REQUEST, &nodes, sizeof nodes);
        assert_true(client_expect(c, CTL_REPLY, &m, WAIT_MS));
        if (((struct ctl_reply *)(void *)m.payload)->size == count * sizeof(struct ctl_node))
            return;
        usleep(2000);
    }
    fail_msg("the nodes do not find each other");
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/manta-nodes-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->head_dir, sizeof f->head_dir, "%s/head", f->dir);
    start_head(f);
    for (int i = 0; i < 2; i++) {
        snprintf(f->node_dir[i], sizeof f->node_dir[i], "%s/node%d", f->dir, i);
        snprintf(f->path[i], sizeof f->path[i], "%s/raylet.sock", f->node_dir[i]);
        start_raylet(f, i);
    }
    assert_int_equal(client_hello(&f->c, client_connect(f->path[0]), CTL_DRIVER, 0x77, mt_release.wire.max), 0);
    wait_for_nodes(&f->c, 2);
    *state = f;
    return 0;
}

static int end(pid_t pid)
{
    int status = -1;
    if (pid <= 0)
        return 0;
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    return status;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    client_close(&f->c);
    int first = end(f->raylet[0]), second = end(f->raylet[1]), head = end(f->head);
    for (int i = 0; i < WAIT_MS && waitpid(-1, NULL, WNOHANG) >= 0; i++)
        usleep(1000);
    bool has_children = waitpid(-1, NULL, WNOHANG) >= 0;
    bool is_removed = folder_remove(f->dir);
    free(f);
    assert_true(is_removed);
    assert_int_equal(first, 0); /* all left in order */
    assert_int_equal(second, 0);
    assert_int_equal(head, 0);
    assert_false(has_children); /* this is the subreaper: no process is left */
    return 0;
}

static void define_class(struct client *c, uint32_t id, const char *resource, uint32_t flags)
{
    struct ctl_class def = {.class_id = id, .flags = flags, .resource_count = 1};
    snprintf(def.name, sizeof def.name, "double");
    snprintf(def.resources[0].name, sizeof def.resources[0].name, "%s", resource);
    def.resources[0].milli = 1000;
    client_up(c, CTL_CLASS, &def, sizeof def);
}

static void demand(struct client *c, uint32_t id, uint32_t wanted)
{
    static uint64_t   version;
    struct ctl_demand d = {.class_id = id, .wanted = wanted, .version = ++version};
    client_up(c, CTL_DEMAND, &d, sizeof d);
}

static struct client_lane *grant(struct client *c, struct ctl_grant *out)
{
    assert_true(client_expect(c, CTL_GRANT, &m, WAIT_MS));
    memcpy(out, m.payload, sizeof *out);
    struct client_lane *lane = client_lane_map(c, &m, false);
    assert_non_null(lane);
    return lane;
}

static struct ctl_ended *ended(struct client *c)
{
    assert_true(client_expect(c, CTL_ENDED, &m, WAIT_MS));
    return (struct ctl_ended *)(void *)m.payload;
}

static void tasks_run_on_the_other_node(void **state)
{
    struct fixture  *f = *state;
    struct client   *c = &f->c;
    struct ctl_grant g;
    define_class(c, 1, "gold", 0);
    demand(c, 1, 1);
    struct client_lane *lane = grant(c, &g);
    assert_true(g.flags & CTL_GRANT_REMOTE);
    assert_int_not_equal(g.peer_node, c->welcome.node);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(client_call(lane, TASK_DOUBLE, i), 2 * i);
    pid_t worker = (pid_t)client_call(lane, TASK_PID, 0);
    assert_int_equal(g.peer_pid, worker);

    for (uint32_t slot = 0; slot < 500; slot++) /* many under way at once */
        client_task(lane, slot, TASK_DOUBLE, slot);
    for (uint32_t slot = 0; slot < 500; slot++) {
        struct lane_record r;
        assert_true(client_outcome(lane, &r, WAIT_MS));
        assert_int_equal(r.slot, slot);
        assert_int_equal(r.trace, 2 * slot);
        lane_claim_clear(&lane_claims_of(lane->memory)[slot]);
    }
    demand(c, 1, 0);
    assert_true(client_expect(c, CTL_RECALL, &m, WAIT_MS));
    assert_int_equal(ended(c)->code, MT_OK);
}

/* A process that does nothing, for a task to last as long as it is there. */
static pid_t hold_make(void)
{
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static void hold_end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_death_there_is_told_here_with_what_never_began(void **state)
{
    struct fixture    *f = *state;
    struct client     *c = &f->c;
    struct ctl_grant   g;
    struct lane_record r;
    define_class(c, 1, "gold", 0);
    demand(c, 1, 1);
    struct client_lane *lane = grant(c, &g);
    struct ctl_monitor  watch = {.process = g.peer, .node = g.peer_node};
    client_up(c, CTL_MONITOR, &watch, sizeof watch);
    pid_t hold = hold_make();
    client_task(lane, 0, TASK_HOLD, (uint64_t)hold);
    client_task(lane, 1, TASK_CRASH, 0);
    client_task(lane, 2, TASK_DOUBLE, 1);
    hold_end(hold);
    assert_true(client_outcome(lane, &r, WAIT_MS));
    assert_int_equal(r.slot, 0);
    lane_claim_clear(&lane_claims_of(lane->memory)[0]);
    struct ctl_ended *e = ended(c);
    assert_int_equal(e->code, MT_EWORKER_DIED);
    assert_int_equal(e->node, g.peer_node);
    assert_true(WIFSIGNALED(e->status) && WTERMSIG(e->status) == SIGSEGV);
    assert_non_null(strstr(e->text, "frobnicate"));
    assert_int_equal(lane_claim_state_of(shm_load64(&lane_claims_of(lane->memory)[1])), LANE_RUNNING);
    assert_int_equal(lane_claim_state_of(shm_load64(&lane_claims_of(lane->memory)[2])), LANE_RETURNED_CLAIM);
    assert_true(client_expect(c, CTL_DEATH, &m, WAIT_MS));
    assert_int_equal(((struct ctl_death *)(void *)m.payload)->node, g.peer_node);

    lane = grant(c, &g); /* the level still stands */
    struct ctl_lease lease = {lane->lease};
    assert_int_equal(client_call(lane, TASK_DOUBLE, 8), 16);
    client_up(c, CTL_KILL, &lease, sizeof lease);
    assert_int_equal(ended(c)->code, MT_EWORKER_DIED);
}

static void an_unstarted_task_is_taken_back_from_there(void **state)
{
    struct fixture    *f = *state;
    struct client     *c = &f->c;
    struct ctl_grant   g;
    struct lane_record r;
    define_class(c, 1, "gold", 0);
    demand(c, 1, 1);
    struct client_lane *lane = grant(c, &g);
    pid_t               hold = hold_make();
    client_task(lane, 0, TASK_HOLD, (uint64_t)hold);
    client_task(lane, 1, TASK_DOUBLE, 1);
    usleep(100000); /* it is there */
    client_revoke(lane, 1);
    assert_true(client_outcome(lane, &r, WAIT_MS));
    assert_int_equal(r.kind, LANE_RETURNED); /* before the other one is done */
    assert_int_equal(r.slot, 1);
    hold_end(hold);
    assert_true(client_outcome(lane, &r, WAIT_MS));
    assert_int_equal(r.kind, LANE_DONE);
}

static void an_actor_there_is_called_from_here(void **state)
{
    struct fixture  *f = *state;
    struct client   *c = &f->c, d;
    struct ctl_grant g, g2;
    define_class(c, 1, "gold", CTL_CLASS_ACTOR);
    demand(c, 1, 1);
    struct client_lane *own = grant(c, &g);
    assert_int_equal(client_call(own, TASK_DOUBLE, 3), 6);
    assert_int_equal(client_hello(&d, client_connect(f->path[0]), CTL_DRIVER, 0x78, mt_release.wire.max), 0);
    struct ctl_lane_want want = {.process = g.peer, .node = g.peer_node, .incarnation = 4};
    mt_id                id = client_up(&d, CTL_LANE_WANT, &want, sizeof want);
    struct client_lane  *lane = grant(&d, &g2);
    assert_true(mt_id_equal(m.record.id, id));
    assert_int_equal(g2.incarnation, 4);
    assert_int_equal(client_call(lane, TASK_DOUBLE, 21), 42);
    demand(c, 1, 0);
    assert_int_equal(ended(c)->code, MT_OK);
    assert_int_equal(ended(&d)->code, MT_EWORKER_DIED);
    id = client_up(&d, CTL_LANE_WANT, &want, sizeof want);
    assert_true(client_expect(&d, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_EACTOR_DIED);
    client_close(&d);
}

static void messages_go_from_node_to_node(void **state)
{
    struct fixture *f = *state;
    struct client  *c = &f->c, d;
    assert_int_equal(client_hello(&d, client_connect(f->path[1]), CTL_DRIVER, 0x78, mt_release.wire.max), 0);
    struct {
        struct ctl_message m;
        char               text[8];
    } hello = {{d.process, d.welcome.node, 5}, "hello"};
    uint64_t first = c->next_id + 1;
    for (int i = 0; i < 100; i++)
        client_up(c, CTL_MESSAGE, &hello, sizeof hello);
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(client_expect(&d, CTL_MESSAGE, &m, WAIT_MS));
        assert_int_equal(mt_id_counter(m.record.id), first + i);
    }
    struct ctl_message *in = (struct ctl_message *)(void *)m.payload;
    assert_true(in->process == c->process);
    assert_int_equal(in->node, c->welcome.node);
    assert_string_equal((char *)(in + 1), "hello");
    hello.m.process = 12345;
    mt_id id = client_up(c, CTL_MESSAGE, &hello, sizeof hello);
    assert_true(client_expect(c, CTL_BOUNCE, &m, WAIT_MS));
    assert_true(mt_id_equal(m.record.id, id));
    assert_int_equal(((struct ctl_bounce *)(void *)m.payload)->code, MT_EOWNER_DIED);
    client_close(&d);
}

static void a_dead_node_ends_all_that_was_bound_to_it(void **state)
{
    struct fixture  *f = *state;
    struct client   *c = &f->c;
    struct ctl_grant g;
    int              status;
    define_class(c, 1, "gold", 0);
    demand(c, 1, 1);
    struct client_lane *lane = grant(c, &g);
    struct ctl_monitor  watch = {.process = g.peer, .node = g.peer_node}, node = {.process = 0, .node = g.peer_node};
    mt_id               ids[2] = {client_up(c, CTL_MONITOR, &watch, sizeof watch), client_up(c, CTL_MONITOR, &node, sizeof node)};
    assert_int_equal(client_call(lane, TASK_DOUBLE, 3), 6);
    client_task(lane, 1, TASK_SLOW, 100000);
    for (int i = 0; lane_claim_state_of(shm_load64(&lane_claims_of(lane->memory)[1])) != LANE_RUNNING; i++) {
        assert_true(i < WAIT_MS);
        usleep(1000);
    }
    kill(f->raylet[1], SIGKILL);
    assert_int_equal(waitpid(f->raylet[1], &status, 0), f->raylet[1]);
    f->raylet[1] = 0;
    assert_int_equal(ended(c)->code, MT_ENODE_DIED);
    assert_int_equal(lane_claim_state_of(shm_load64(&lane_claims_of(lane->memory)[1])), LANE_RUNNING);
    for (int i = 0; i < 2; i++) {
        assert_true(client_expect(c, CTL_DEATH, &m, WAIT_MS));
        assert_int_equal(((struct ctl_death *)(void *)m.payload)->code, MT_ENODE_DIED);
        assert_true(mt_id_equal(m.record.id, ids[0]) || mt_id_equal(m.record.id, ids[1]));
    }
    struct {
        struct ctl_message m;
        char               text[8];
    } hello = {{g.peer, g.peer_node, 5}, "hello"};
    client_up(c, CTL_MESSAGE, &hello, sizeof hello);
    assert_true(client_expect(c, CTL_BOUNCE, &m, WAIT_MS));
    start_raylet(f, 1); /* the next one takes its place: what was wanted is granted there */
    lane = grant(c, &g);
    assert_int_equal(client_call(lane, TASK_DOUBLE, 5), 10);
}

/* Nodes that have met go on without the head, and nothing is held twice when it is back. */
static void leases_are_had_without_the_head(void **state)
{
    struct fixture  *f = *state;
    struct client   *c = &f->c, d;
    struct ctl_grant g;
    int              status;
    define_class(c, 1, "gold", 0);
    demand(c, 1, 1);
    assert_int_equal(client_call(grant(c, &g), TASK_DOUBLE, 3), 6); /* there is a link */
    demand(c, 1, 0);
    assert_int_equal(ended(c)->code, MT_OK);
    kill(f->head, SIGKILL);
    assert_int_equal(waitpid(f->head, &status, 0), f->head);
    demand(c, 1, 1);
    assert_int_equal(client_call(grant(c, &g), TASK_DOUBLE, 4), 8);
    demand(c, 1, 2);
    assert_int_equal(client_call(grant(c, &g), TASK_DOUBLE, 5), 10);
    demand(c, 1, 1);
    assert_int_equal(ended(c)->code, MT_OK);
    start_head(f);
    assert_int_equal(client_hello(&d, client_connect(f->path[0]), CTL_DRIVER, 0x78, mt_release.wire.max), 0);
    define_class(&d, 1, "gold", 0);
    demand(&d, 1, 1);
    assert_int_equal(client_call(grant(&d, &g), TASK_DOUBLE, 6), 12); /* there are two, and `c` has one */
    client_close(&d);
    wait_for_nodes(c, 2);
}

static void an_owner_that_dies_gives_back_what_it_held_there(void **state)
{
    struct fixture  *f = *state;
    struct client    d;
    struct ctl_grant g;
    assert_int_equal(client_hello(&d, client_connect(f->path[0]), CTL_DRIVER, 0x78, mt_release.wire.max), 0);
    define_class(&d, 1, "gold", 0);
    demand(&d, 1, 2);
    pid_t worker = (pid_t)client_call(grant(&d, &g), TASK_PID, 0);
    grant(&d, &g);
    define_class(&f->c, 1, "gold", 0);
    demand(&f->c, 1, 2); /* none is left */
    client_close(&d);
    struct client_lane *lane = grant(&f->c, &g);
    assert_int_not_equal(client_call(lane, TASK_PID, 0), worker); /* another job: another process */
    grant(&f->c, &g);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A figure, no verdict. */
static int fd_count(pid_t pid)
{
    char path[64];
    int  count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* A node that stands still is dialled again and again; when it goes on, one connection is kept. */
/* Descriptors of both raylets, once the workers that are forked ahead have all come. */
static int fds_at_rest(const struct fixture *f)
{
    int all = -1;
    for (int i = 0, same = 0; i < 1000 && same < 30; i++) {
        int now = fd_count(f->raylet[0]) + fd_count(f->raylet[1]);
        same = now == all ? same + 1 : 0;
        all = now;
        usleep(10 * 1000);
    }
    return all;
}

static void pauses_leave_no_connections(void **state)
{
    enum { PAUSES = 3, ONE_CONNECTION = 3 /* both ends, and the one just accepted */ };
    struct fixture *f = *state;
    define_class(&f->c, 1, "gold", 0);
    demand(&f->c, 1, 1);
    assert_true(client_expect(&f->c, CTL_GRANT, &m, WAIT_MS)); /* there is a link */
    int before = fds_at_rest(f), more = 0;
    for (int i = 0; i < PAUSES; i++) {
        assert_int_equal(kill(f->raylet[1], SIGSTOP), 0);
        usleep(3000 * 1000);
        assert_int_equal(kill(f->raylet[1], SIGCONT), 0);
        usleep(1000 * 1000);
        more = fds_at_rest(f) - before;
    }
    assert_in_range(more + 100, 0, 100 + ONE_CONNECTION); /* each pause left six once */
}

static void how_fast(void **state)
{
    struct fixture    *f = *state;
    struct ctl_grant   g;
    struct lane_record r;
    const uint8_t     *payload;
    bool               found;
    enum { COUNT = 50000, WINDOW = 512 };
    define_class(&f->c, 1, "gold", 0);
    demand(&f->c, 1, 1);
    struct client_lane *lane = grant(&f->c, &g);
    client_call(lane, TASK_DOUBLE, 1);
    uint64_t begin = now_ns();
    for (uint32_t sent = 0, done = 0; done < COUNT;) {
        for (; sent < COUNT && sent - done < WINDOW; sent++)
            client_task(lane, sent % 1024, TASK_DOUBLE, sent);
        while (lane_ring_peek(&lane->from, &r, &payload, &found).code == 0 && found) {
            lane_ring_consume(&lane->from);
            assert_int_equal(r.trace, 2 * done);
            lane_claim_clear(&lane_claims_of(lane->memory)[r.slot]);
            done++;
        }
        lane_ring_release(&lane->from);
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    print_message("remote tasks: %.0f per second\n", COUNT / seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tasks_run_on_the_other_node, setup, teardown),
        cmocka_unit_test_setup_teardown(a_death_there_is_told_here_with_what_never_began, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unstarted_task_is_taken_back_from_there, setup, teardown),
        cmocka_unit_test_setup_teardown(an_actor_there_is_called_from_here, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_go_from_node_to_node, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dead_node_ends_all_that_was_bound_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(leases_are_had_without_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(an_owner_that_dies_gives_back_what_it_held_there, setup, teardown),
        cmocka_unit_test_setup_teardown(pauses_leave_no_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(how_fast, setup, teardown),
    };
    const char *role = getenv("MANTA_ROLE");
    if (role && strcmp(role, "zygote") == 0)
        client_serve_as_zygote((int)strtol(getenv("MANTA_FD"), NULL, 10));
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * shell_test.c - the daemon with real processes: handshake, leases, deaths, garbage, and nothing left behind.
 *
 * This executable is driver, zygote and worker: the raylet runs the driver's own file.
 */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 10000 };

static struct client_message m; /* one at a time */

struct fixture {
    pid_t raylet;
    char  dir[64], path[96];
    int   private_fd; /* of --driver-fd; -1: by path */
};

static void start(struct fixture *f, bool is_private, const char *cpus)
{
    int  pair[2] = {-1, -1}, ready[2];
    char driver[16], ready_fd[16], byte;
    snprintf(f->dir, sizeof f->dir, "/tmp/manta-raylet-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/raylet.sock", f->dir);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    if (is_private)
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->raylet = fork();
    if (f->raylet == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this test, it leaves nothing */
        const char *argv[16] = {MANTA_RAYLET, "--dir",       f->dir,   "--num-cpus", cpus,    "--memory",
                                "1000000",    "--resources", "gold=1", "--ready-fd", ready_fd};
        int         n = 11;
        snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
        fcntl(ready[1], F_SETFD, 0);
        if (is_private) {
            snprintf(driver, sizeof driver, "%d", pair[1]);
            fcntl(pair[1], F_SETFD, 0);
            argv[n++] = "--driver-fd";
            argv[n++] = driver;
        }
        execv(MANTA_RAYLET, (char **)(uintptr_t)argv);
        _exit(127);
    }
    close(ready[1]);
    if (is_private)
        close(pair[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    f->private_fd = pair[0];
}

static void assert_no_children_of(pid_t session_leader_gone)
{
    (void)session_leader_gone;
    /* This process is the subreaper: whatever the raylet left would be its child now. */
    for (int i = 0; i < WAIT_MS; i++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return;
        usleep(1000);
    }
    fail_msg("processes are left");
}

static void stop(struct fixture *f)
{
    int         status;
    struct stat st;
    if (f->private_fd >= 0)
        close(f->private_fd);
    else
        kill(f->raylet, SIGTERM);
    assert_int_equal(waitpid(f->raylet, &status, 0), f->raylet);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_no_children_of(f->raylet);
    assert_int_not_equal(stat(f->path, &st), 0);
    if (f->private_fd >= 0)
        assert_int_not_equal(stat(f->dir, &st), 0); /* the last of a private cluster removes its folder */
    else
        assert_int_equal(rmdir(f->dir), 0);
}

static void define_class(struct client *c, uint32_t id, const char *resource, int64_t milli, uint32_t flags)
{
    struct ctl_class def = {.class_id = id, .flags = flags, .resource_count = 1};
    snprintf(def.name, sizeof def.name, "double");
    snprintf(def.resources[0].name, sizeof def.resources[0].name, "%s", resource);
    def.resources[0].milli = milli;
    client_up(c, CTL_CLASS, &def, sizeof def);
}

static void demand(struct client *c, uint32_t id, uint32_t wanted)
{
    static uint64_t   version;
    struct ctl_demand d = {.class_id = id, .wanted = wanted, .version = ++version};
    client_up(c, CTL_DEMAND, &d, sizeof d);
}

static struct client_lane *grant(struct client *c)
{
    assert_true(client_expect(c, CTL_GRANT, &m, WAIT_MS));
    struct client_lane *lane = client_lane_map(c, &m, false);
    assert_non_null(lane);
    return lane;
}

static struct ctl_ended *ended(struct client *c)
{
    assert_true(client_expect(c, CTL_ENDED, &m, WAIT_MS));
    return (struct ctl_ended *)(void *)m.payload;
}

static void driver_leases_runs_tasks_and_gives_back(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, true, "2");
    assert_int_equal(client_hello(&c, f.private_fd, CTL_DRIVER, 77, mt_release.wire.max), 0);
    assert_int_equal(c.welcome.node, 1);
    assert_int_not_equal(c.welcome.job, 0);
    define_class(&c, 1, "CPU", 1000, 0);
    demand(&c, 1, 1);
    struct client_lane *lane = grant(&c);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(client_call(lane, TASK_DOUBLE, i), 2 * i);
    demand(&c, 1, 0);
    assert_true(client_expect(&c, CTL_RECALL, &m, WAIT_MS));
    assert_int_equal(ended(&c)->code, MT_OK);
    struct lane_record r;
    assert_true(client_outcome(lane, &r, WAIT_MS));
    assert_int_equal(r.kind, LANE_END);
    f.private_fd = c.fd;
    c.fd = -1;
    client_close(&c);
    stop(&f);
}

static void crash_and_kill_are_told_with_signal_and_backtrace(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "2");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    define_class(&c, 1, "CPU", 1000, 0);
    demand(&c, 1, 1);
    struct client_lane *lane = grant(&c);
    pid_t               worker = (pid_t)client_call(lane, TASK_PID, 0);
    struct ctl_monitor  watch = {.process = ((struct ctl_grant *)(void *)m.payload)->peer, .node = 1};
    mt_id               monitor = client_up(&c, CTL_MONITOR, &watch, sizeof watch);
    client_task(lane, 1, TASK_CRASH, 0);
    struct ctl_ended *e = ended(&c);
    assert_int_equal(e->code, MT_EWORKER_DIED);
    assert_int_equal(e->pid, worker);
    assert_true(WIFSIGNALED(e->status) && WTERMSIG(e->status) == SIGSEGV);
    assert_non_null(strstr(e->text, "SIGSEGV"));
    assert_non_null(strstr(e->text, "frobnicate"));
    assert_true(client_expect(&c, CTL_DEATH, &m, WAIT_MS));
    assert_true(mt_id_equal(m.record.id, monitor));
    assert_int_equal(lane_claim_state_of(shm_load64(&lane_claims_of(lane->memory)[1])), LANE_RUNNING);

    lane = grant(&c); /* the level still says one */
    struct ctl_lease lease = {lane->lease};
    assert_int_not_equal(client_call(lane, TASK_PID, 0), worker);
    client_up(&c, CTL_KILL, &lease, sizeof lease);
    e = ended(&c);
    assert_true(WIFSIGNALED(e->status) && WTERMSIG(e->status) == SIGKILL);
    client_close(&c);
    stop(&f);
}

static void impossible_requests_are_answered(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "2");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    struct {
        const char *name;
        int64_t     milli;
        int         code;
        const char *text;
    } cases[] = {{"CPU", 3000, MT_EUNSCHEDULABLE, "CPU"},
                 {"GPU", 1000, MT_EUNSCHEDULABLE, "GPU"},
                 {"gold", 1500, MT_EUNSCHEDULABLE, "gold"},
                 {"CPU", 0, MT_EINVAL, "above zero"},
                 {"CPU", -5, MT_EINVAL, "above zero"}};
    for (uint32_t i = 0; i < 5; i++) {
        define_class(&c, i, cases[i].name, cases[i].milli, 0);
        demand(&c, i, 1);
        assert_true(client_expect(&c, CTL_UNSCHEDULABLE, &m, WAIT_MS));
        struct ctl_unschedulable *u = (struct ctl_unschedulable *)(void *)m.payload;
        assert_int_equal(u->class_id, i);
        assert_int_equal(u->code, cases[i].code);
        assert_non_null(strstr(u->text, cases[i].text));
        if (cases[i].code == MT_EINVAL)
            assert_true(client_expect(&c, CTL_UNSCHEDULABLE, &m, WAIT_MS)); /* once for the class, once for the level */
    }
    client_close(&c);
    stop(&f);
}

static void a_blocked_worker_lends_its_cpu(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    define_class(&c, 1, "CPU", 1000, 0);
    define_class(&c, 2, "CPU", 1000, 0);
    demand(&c, 1, 1);
    struct client_lane *first = grant(&c);
    client_task(first, 0, TASK_BLOCK, 2000);
    demand(&c, 2, 1);
    struct client_lane *second = grant(&c); /* one CPU, yet two leases: the first is blocked */
    assert_int_equal(client_call(second, TASK_DOUBLE, 4), 8);
    client_close(&c);
    stop(&f);
}

static void a_slice_is_recalled_for_those_who_wait(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    define_class(&c, 1, "CPU", 1000, 0);
    define_class(&c, 2, "CPU", 1000, 0);
    demand(&c, 1, 1);
    uint64_t first = grant(&c)->lease;
    demand(&c, 2, 1);
    assert_true(client_expect(&c, CTL_RECALL, &m, WAIT_MS));
    assert_int_equal(((struct ctl_lease *)(void *)m.payload)->lease, first);
    assert_true(client_expect(&c, CTL_GRANT, &m, WAIT_MS));
    assert_int_equal(((struct ctl_grant *)(void *)m.payload)->class_id, 2);
    client_close(&c);
    stop(&f);
}

static void an_actor_is_called_by_others_and_dies_with_its_level(void **state)
{
    struct fixture f;
    struct client  c, d;
    (void)state;
    start(&f, false, "2");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    assert_int_equal(client_hello(&d, client_connect(f.path), CTL_DRIVER, 78, mt_release.wire.max), 0);
    define_class(&c, 1, "CPU", 1000, CTL_CLASS_ACTOR);
    demand(&c, 1, 1);
    grant(&c);
    struct ctl_lane_want want = {.process = ((struct ctl_grant *)(void *)m.payload)->peer, .node = 1, .incarnation = 3};
    mt_id                id = client_up(&d, CTL_LANE_WANT, &want, sizeof want);
    struct client_lane  *lane = grant(&d);
    assert_true(mt_id_equal(m.record.id, id));
    assert_int_equal(((struct ctl_grant *)(void *)m.payload)->incarnation, 3);
    assert_int_equal(client_call(lane, TASK_DOUBLE, 21), 42);
    demand(&c, 1, 0);
    assert_int_equal(ended(&c)->code, MT_OK);
    assert_int_equal(ended(&d)->code, MT_EWORKER_DIED);
    client_up(&d, CTL_LANE_WANT, &want, sizeof want);
    assert_true(client_expect(&d, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_EACTOR_DIED);
    client_close(&c);
    client_close(&d);
    stop(&f);
}

static void messages_regions_and_names(void **state)
{
    struct fixture f;
    struct client  c, d;
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    assert_int_equal(client_hello(&d, client_connect(f.path), CTL_DRIVER, 78, mt_release.wire.max), 0);
    struct {
        struct ctl_message m;
        char               text[8];
    } hello = {{d.process, 1, 5}, "hello"};
    mt_id id = client_up(&c, CTL_MESSAGE, &hello, sizeof hello);
    assert_true(client_expect(&d, CTL_MESSAGE, &m, WAIT_MS));
    assert_true(mt_id_equal(m.record.id, id));
    assert_true(((struct ctl_message *)(void *)m.payload)->process == c.process);
    assert_string_equal((char *)m.payload + sizeof(struct ctl_message), "hello");
    hello.m.process = 12345;
    id = client_up(&c, CTL_MESSAGE, &hello, sizeof hello);
    assert_true(client_expect(&c, CTL_BOUNCE, &m, WAIT_MS));
    assert_true(mt_id_equal(m.record.id, id));
    assert_int_equal(((struct ctl_bounce *)(void *)m.payload)->code, MT_EOWNER_DIED);

    struct ctl_segment region = {.size = 8192};
    client_up(&c, CTL_REGION_WANT, &region, sizeof region);
    assert_true(client_expect(&c, CTL_REGION, &m, WAIT_MS));
    assert_int_equal(m.fd_count, 1);
    struct stat st;
    assert_int_equal(fstat(m.fds[0], &st), 0);
    assert_int_equal(st.st_size, 8192);
    assert_int_not_equal(ftruncate(m.fds[0], 0), 0); /* sealed */
    close(m.fds[0]);
    region.segment = ((struct ctl_segment *)(void *)m.payload)->segment;
    client_up(&d, CTL_REGION_WANT, &region, sizeof region); /* of another job */
    assert_true(client_expect(&d, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_ENOENT);

    struct {
        struct ctl_request r;
        struct ctl_name    n;
    } name = {{CTL_OP_NAME_PUT, 0}, {.space = "s", .name = "n", .actor = {9, 9}, .owner = c.process, .owner_node = 1}};
    client_up(&c, CTL_REQUEST, &name, sizeof name);
    assert_true(client_expect(&c, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_OK);
    name.r.op = CTL_OP_NAME_GET;
    client_up(&d, CTL_REQUEST, &name, sizeof name);
    assert_true(client_expect(&d, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_OK);
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->size, sizeof(struct ctl_name));
    client_close(&c);
    struct ctl_monitor watch = {.process = c.process, .node = 1};
    client_up(&d, CTL_MONITOR, &watch, sizeof watch);
    assert_true(client_expect(&d, CTL_DEATH, &m, WAIT_MS));
    client_up(&d, CTL_REQUEST, &name, sizeof name);
    assert_true(client_expect(&d, CTL_REPLY, &m, WAIT_MS));
    assert_int_equal(((struct ctl_reply *)(void *)m.payload)->code, MT_ENOENT);
    client_close(&d);
    stop(&f);
}

static void broken_peers_are_dropped_and_others_stay(void **state)
{
    struct fixture f;
    struct client  good, bad;
    char           bytes[512];
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&good, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    assert_int_equal(client_hello(&bad, client_connect(f.path), CTL_DRIVER, 78, mt_release.wire.max + 5), MT_EVERSION);
    assert_non_null(strstr(bad.welcome.text, "version"));
    client_close(&bad);
    memset(bytes, 0xa5, sizeof bytes);
    for (size_t size = 1; size < sizeof bytes; size += 61) { /* garbage of many sizes */
        int fd = client_connect(f.path);
        assert_int_equal(write(fd, bytes, size), size);
        assert_int_equal(recv(fd, bytes + 256, 1, 0), 0);
        close(fd);
    }
    struct lane_record truncated = {.length = 4096, .kind = CTL_HELLO};
    int                fd = client_connect(f.path);
    assert_int_equal(write(fd, &truncated, sizeof truncated), sizeof truncated);
    assert_int_equal(recv(fd, bytes, 1, 0), 0);
    close(fd);

    for (int kind = 0; kind < 3; kind++) { /* a greeted process that then breaks the rules of its ring */
        assert_int_equal(client_hello(&bad, client_connect(f.path), CTL_DRIVER, 80 + kind, mt_release.wire.max), 0);
        struct lane_record r = {.length = kind == 0   ? 99999
                                          : kind == 1 ? LANE_RECORD_SIZE
                                                      : LANE_RECORD_SIZE + 8,
                                .kind = kind == 1 ? 999 : CTL_DEMAND};
        void              *at = lane_ring_reserve(&bad.up, 128);
        memcpy(at, &r, sizeof r);
        lane_ring_commit(&bad.up, 128);
        lane_ring_publish(&bad.up);
        lane_park_wake(bad.switch_park);
        assert_int_equal(recv(bad.fd, bytes, 1, 0), 0);
        client_close(&bad);
    }
    define_class(&good, 1, "CPU", 1000, 0);
    demand(&good, 1, 1);
    assert_int_equal(client_call(grant(&good), TASK_DOUBLE, 5), 10);
    client_close(&good);
    stop(&f);
}

enum { ANSWERS = 600 }; /* each with a descriptor: more than a socket takes */

/* ... of which the process reads none yet. All were given when this returns: a later request of it has come true. */
static void ask_for_a_region(struct client *c, struct client *other, const char *name)
{
    struct {
        struct ctl_request r;
        struct ctl_name    n;
    } put = {{CTL_OP_NAME_PUT, 0}, {.space = "s", .actor = {9, 9}, .owner = c->process, .owner_node = 1}}, get;
    struct ctl_segment region = {.size = 8192};
    client_up(c, CTL_REGION_WANT, &region, sizeof region);
    assert_true(client_expect(c, CTL_REGION, &m, WAIT_MS));
    close(m.fds[0]);
    region.segment = ((struct ctl_segment *)(void *)m.payload)->segment;
    for (int i = 0; i < ANSWERS; i++)
        while (!client_up_id(c, CTL_REGION_WANT, (mt_id){c->process, (uint64_t)i + 1}, &region, sizeof region))
            usleep(1000);
    snprintf(put.n.name, sizeof put.n.name, "%s", name);
    while (!client_up_id(c, CTL_REQUEST, (mt_id){c->process, ANSWERS + 1}, &put, sizeof put))
        usleep(1000);
    get = put;
    get.r.op = CTL_OP_NAME_GET;
    do {
        client_up(other, CTL_REQUEST, &get, sizeof get);
        assert_true(client_expect(other, CTL_REPLY, &m, WAIT_MS));
    } while (((struct ctl_reply *)(void *)m.payload)->code == MT_ENOENT);
}

/* What a socket doesn't take is kept, in order, for who reads it late; who goes without it costs nobody else anything. */
static void who_does_not_read_finds_all_of_it_later(void **state)
{
    struct fixture f;
    struct client  late, never, other;
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&other, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    assert_int_equal(client_hello(&late, client_connect(f.path), CTL_DRIVER, 78, mt_release.wire.max), 0);
    ask_for_a_region(&late, &other, "late");
    assert_true(client_expect(&late, CTL_REPLY, &m, WAIT_MS)); /* by its ring */
    for (uint64_t i = 1; i <= ANSWERS; i++) {
        assert_true(client_expect(&late, CTL_REGION, &m, WAIT_MS));
        assert_true(m.record.id.counter_index == i && m.fd_count == 1);
        close(m.fds[0]);
    }
    client_close(&late);
    assert_int_equal(client_hello(&never, client_connect(f.path), CTL_DRIVER, 79, mt_release.wire.max), 0);
    ask_for_a_region(&never, &other, "never");
    client_close(&never);
    define_class(&other, 1, "CPU", 1000, 0);
    demand(&other, 1, 1);
    assert_int_equal(client_call(grant(&other), TASK_DOUBLE, 5), 10);
    client_close(&other);
    stop(&f);
}

static void a_program_that_cannot_start_is_reported(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "1");
    client_zygote_dies = true; /* its greeting asks the zygote to */
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    client_zygote_dies = false;
    define_class(&c, 1, "CPU", 1000, 0);
    demand(&c, 1, 1);
    assert_true(client_expect(&c, CTL_UNSCHEDULABLE, &m, WAIT_MS));
    struct ctl_unschedulable *u = (struct ctl_unschedulable *)(void *)m.payload;
    assert_int_equal(u->code, MT_EWORKER_DIED);
    assert_non_null(strstr(u->text, "exited with status 7"));
    client_close(&c);
    stop(&f);
}

static void workers_die_with_their_raylet(void **state)
{
    struct fixture f;
    struct client  c;
    (void)state;
    start(&f, false, "1");
    assert_int_equal(client_hello(&c, client_connect(f.path), CTL_DRIVER, 77, mt_release.wire.max), 0);
    define_class(&c, 1, "CPU", 1000, 0);
    demand(&c, 1, 1);
    pid_t worker = (pid_t)client_call(grant(&c), TASK_PID, 0);
    assert_int_equal(kill(worker, 0), 0);
    kill(f.raylet, SIGKILL);
    assert_no_children_of(f.raylet);
    assert_int_not_equal(kill(worker, 0), 0);
    client_close(&c);
    unlink(f.path);
    rmdir(f.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_leases_runs_tasks_and_gives_back),
        cmocka_unit_test(crash_and_kill_are_told_with_signal_and_backtrace),
        cmocka_unit_test(impossible_requests_are_answered),
        cmocka_unit_test(a_blocked_worker_lends_its_cpu),
        cmocka_unit_test(a_slice_is_recalled_for_those_who_wait),
        cmocka_unit_test(an_actor_is_called_by_others_and_dies_with_its_level),
        cmocka_unit_test(messages_regions_and_names),
        cmocka_unit_test(broken_peers_are_dropped_and_others_stay),
        cmocka_unit_test(who_does_not_read_finds_all_of_it_later),
        cmocka_unit_test(a_program_that_cannot_start_is_reported),
        cmocka_unit_test(workers_die_with_their_raylet),
    };
    const char *role = getenv("MANTA_ROLE");
    if (role && strcmp(role, "zygote") == 0)
        client_serve_as_zygote((int)strtol(getenv("MANTA_FD"), NULL, 10));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

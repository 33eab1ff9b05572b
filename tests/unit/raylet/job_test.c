/* SPDX-License-Identifier: Apache-2.0
 *
 * job_test.c - a real head and a real raylet: registration, submitted jobs, their logs, their ends, restarts of the head.
 */
#include "tests/port.h"
#include "tests/unit/raylet/folder.h"
#include "core/sha/sha256.h"
#include "core/proto/manta.pb-c.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char                dir[64], head_dir[96], node_dir[96], address[128], head_port[128];
    pid_t               head, raylet;
    int                 port; /* the head's, also while there is no head */
    struct rpc         *rpc;
    struct rpc_channel *channel;
    struct io_token     token;
};

static void start_head(struct fixture *f)
{
    char path[160];
    f->head = fork();
    if (f->head == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this test, it leaves nothing */
        execl(MANTA_HEAD, "manta-head", "--dir", f->head_dir, "--listen", f->head_port, NULL);
        _exit(127);
    }
    snprintf(path, sizeof path, "%s/head.addr", f->head_dir);
    for (int i = 0; i < 10000; i++) {
        FILE *file = fopen(path, "r");
        if (file && fgets(f->address, sizeof f->address, file) && strchr(f->address, '\n')) {
            *strchr(f->address, '\n') = 0;
            fclose(file);
            return;
        }
        if (file)
            fclose(file);
        usleep(1000);
    }
    fail_msg("the head does not come up");
}

static void start_raylet(struct fixture *f)
{
    char file[160], ready_fd[16], byte;
    int  ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    snprintf(file, sizeof file, "%s/head.addr", f->head_dir);
    snprintf(ready_fd, sizeof ready_fd, "%d", ready[1]);
    f->raylet = fork();
    if (f->raylet == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of this test, it leaves nothing */
        fcntl(ready[1], F_SETFD, 0);
        execl(MANTA_RAYLET, "manta-raylet", "--dir", f->node_dir, "--head-file", file, "--num-cpus", "2", "--ready-fd", ready_fd,
              NULL);
        _exit(127);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* registered */
    close(ready[0]);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char            path[160];
    snprintf(f->dir, sizeof f->dir, "/tmp/manta-job-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->head_dir, sizeof f->head_dir, "%s/head", f->dir);
    snprintf(f->node_dir, sizeof f->node_dir, "%s/node", f->dir);
    f->port = port_hold();
    snprintf(f->head_port, sizeof f->head_port, "127.0.0.1:%u", port_of(f->port));
    start_head(f);
    start_raylet(f);
    snprintf(path, sizeof path, "%s/token", f->head_dir);
    assert_int_equal(io_token_read(path, &f->token).code, 0);
    struct rpc_channel_config config = {.target = f->address, .token = &f->token};
    assert_int_equal(rpc_new(NULL, &f->rpc).code, 0);
    assert_int_equal(rpc_channel_open(f->rpc, &config, &f->channel).code, 0);
    *state = f;
    return 0;
}

static int end(pid_t pid)
{
    int status = -1;
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    return status;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct stat     st;
    char            jobs[160];
    rpc_channel_close(f->channel);
    rpc_free(f->rpc);
    int raylet = end(f->raylet), head = end(f->head);
    snprintf(jobs, sizeof jobs, "%s/jobs", f->node_dir);
    for (int i = 0; i < 20000 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
        usleep(1000); /* what the raylet has started may go on for a moment after it */
    bool has_jobs = stat(jobs, &st) == 0, has_children = waitpid(-1, NULL, WNOHANG) >= 0;
    bool is_removed = folder_remove(f->dir);
    close(f->port);
    free(f);
    assert_true(is_removed);
    assert_int_equal(raylet, 0); /* both left in order */
    assert_int_equal(head, 0);
    assert_false(has_jobs);     /* no file of a job is left */
    assert_false(has_children); /* this is the subreaper: no process is left either */
    return 0;
}

static Manta__V1__JobReply *ask(struct fixture *f, const char *method, const ProtobufCMessage *request)
{
    ProtobufCMessage *reply = NULL;
    mt_buf            bytes = {0}, answer = {0};
    char              detail[MT_ERROR_BYTES_MAX];
    assert_int_equal(rpc_pack(request, &bytes).code, 0);
    mt_status st = rpc_call_blocking(f->channel, method, mt_buf_view(&bytes), 30000, RPC_WAIT_READY, &answer, detail);
    if (st.code)
        print_error("%s: %s\n", method, detail);
    assert_int_equal(st.code, 0);
    assert_int_equal(rpc_unpack(&manta__v1__job_reply__descriptor, mt_buf_view(&answer), 1 << 20, &reply).code, 0);
    mt_buf_fini(&bytes);
    mt_buf_fini(&answer);
    return (Manta__V1__JobReply *)reply;
}

static void submit(struct fixture *f, const char *id, const char *script, uint64_t time_ms, uint32_t retries)
{
    Manta__V1__SubmitRequest request = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *resources[1] = {&cpu};
    char                    *argv[3] = {"/bin/sh", "-c", (char *)(uintptr_t)script}, *env[1] = {"COLOUR=green"};
    cpu.name = "CPU";
    cpu.milli = 1000;
    spec.id = spec.name = (char *)(uintptr_t)id;
    spec.n_argv = 3;
    spec.argv = argv;
    spec.n_env = 1;
    spec.env = env;
    spec.n_resources = 1;
    spec.resources = resources;
    spec.time_ms = time_ms;
    spec.retries = retries;
    request.spec = &spec;
    Manta__V1__JobReply *reply = ask(f, "/manta.v1.Head/Submit", &request.base);
    assert_int_equal(reply->code, 0);
    rpc_unpack_free(&reply->base);
}

static void wait_for(struct fixture *f, const char *id, const char *state, int exit_code, const char *reason)
{
    Manta__V1__WaitJobRequest request = MANTA__V1__WAIT_JOB_REQUEST__INIT;
    request.id = (char *)(uintptr_t)id;
    request.wait_ms = 20000;
    Manta__V1__JobReply *reply = ask(f, "/manta.v1.Head/WaitJob", &request.base);
    assert_int_equal(reply->code, 0);
    assert_string_equal(reply->job->state, state);
    assert_int_equal(reply->job->exit_code, exit_code);
    if (reason && !strstr(reply->job->reason, reason))
        fail_msg("reason: %s", reply->job->reason);
    rpc_unpack_free(&reply->base);
}

static void read_log(struct fixture *f, const char *id, char *out, size_t size)
{
    Manta__V1__FollowRequest request = MANTA__V1__FOLLOW_REQUEST__INIT;
    struct rpc_stream_config config = {.method = "/manta.v1.Head/FollowJob"};
    struct rpc_reader       *reader;
    mt_buf                   bytes = {0}, message = {0};
    char                     detail[MT_ERROR_BYTES_MAX];
    size_t                   at = 0;
    request.id = (char *)(uintptr_t)id;
    assert_int_equal(rpc_pack(&request.base, &bytes).code, 0);
    assert_int_equal(rpc_reader_open(f->channel, &config, mt_buf_view(&bytes), &reader).code, 0);
    while (rpc_reader_next(reader, 20000, &message, detail).code == 0) {
        ProtobufCMessage *m = NULL;
        assert_int_equal(rpc_unpack(&manta__v1__log_chunk__descriptor, mt_buf_view(&message), 1 << 20, &m).code, 0);
        Manta__V1__LogChunk *chunk = (Manta__V1__LogChunk *)m;
        assert_true(at + chunk->text.len < size);
        memcpy(out + at, chunk->text.data, chunk->text.len);
        at += chunk->text.len;
        rpc_unpack_free(m);
        mt_buf_fini(&message);
    }
    out[at] = 0;
    rpc_reader_close(reader);
    mt_buf_fini(&bytes);
}

static void a_job_runs_and_its_log_is_kept(void **state)
{
    struct fixture *f = *state;
    static char     text[4096];
    char            expected[256];
    submit(f, "hello", "echo \"colour $COLOUR\"; echo \"at $MANTA_ADDRESS\" >&2; echo \"token [$MANTA_TOKEN]\"", 0, 0);
    wait_for(f, "hello", "SUCCEEDED", 0, NULL);
    read_log(f, "hello", text, sizeof text);
    snprintf(expected, sizeof expected, "colour green\nat %s\ntoken []\n", f->node_dir);
    assert_string_equal(text, expected);
}

static void a_failure_tells_status_and_signal(void **state)
{
    struct fixture *f = *state;
    submit(f, "fails", "exit 3", 0, 0);
    wait_for(f, "fails", "FAILED", 3, "status 3");
    submit(f, "killed", "kill -9 $$", 0, 0);
    wait_for(f, "killed", "FAILED", 128 + 9, "SIGKILL");
    submit(f, "again", "test $MANTA_JOB_ATTEMPT -gt 1", 0, 2);
    wait_for(f, "again", "SUCCEEDED", 0, NULL);
}

/* The system's own loader says what is missing; to try it again here is of no use, so the first attempt is the last. */
static void who_cannot_be_loaded_tells_what_is_missing(void **state)
{
    static const char loader[] = "exited with status 127: error while loading shared libraries: libq.so.6: cannot open shared";
    static char       text[4096];
    struct fixture   *f = *state;
    submit(f, "missing",
           "sed 's/libc[.]so[.]6/libq.so.6/g' /bin/true >it; chmod +x it; echo \"attempt $MANTA_JOB_ATTEMPT\"; exec ./it", 0, 5);
    wait_for(f, "missing", "FAILED", 127, loader);
    read_log(f, "missing", text, sizeof text);
    assert_true(strncmp(text, "attempt 1\n", 10) == 0 && !strstr(text, "attempt 2"));
    assert_non_null(strstr(text, "error while loading shared libraries"));
    submit(f, "own", "test $MANTA_JOB_ATTEMPT -gt 1 || exit 127", 0, 1); /* a status of the program's own is one as any other */
    wait_for(f, "own", "SUCCEEDED", 0, NULL);
}

static void a_job_is_stopped_and_times_out(void **state)
{
    struct fixture       *f = *state;
    Manta__V1__JobRequest request = MANTA__V1__JOB_REQUEST__INIT;
    submit(f, "slow", "sleep 100", 300, 0);
    wait_for(f, "slow", "FAILED", 128 + 15, "time limit");
    submit(f, "long", "sleep 100", 0, 0);
    request.id = "long";
    rpc_unpack_free(&ask(f, "/manta.v1.Head/StopJob", &request.base)->base);
    wait_for(f, "long", "STOPPED", 128 + 15, NULL);
}

static void the_head_may_die_and_come_back(void **state)
{
    struct fixture *f = *state;
    static char     text[1 << 20];
    int             status;
    submit(f, "through", "for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; sleep 0.2; done", 0, 0);
    usleep(300000);
    kill(f->head, SIGKILL);
    assert_int_equal(waitpid(f->head, &status, 0), f->head);
    usleep(300000);
    char path[160];
    snprintf(path, sizeof path, "%s/head.addr", f->head_dir);
    unlink(path);
    start_head(f);
    wait_for(f, "through", "SUCCEEDED", 0, NULL);
    read_log(f, "through", text, sizeof text);
    assert_string_equal(text, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\n");
}

/* As a process that a raylet was just starting when it was killed: it has the socket for a moment still. */
static void a_socket_that_is_let_go_late_is_waited_for(void **state)
{
    struct fixture    *f = *state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int                holds[2];
    char               byte = 0;
    kill(f->raylet, SIGKILL);
    waitpid(f->raylet, NULL, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/raylet.sock", f->node_dir);
    unlink(at.sun_path);
    assert_int_equal(pipe2(holds, O_CLOEXEC), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 8) < 0 || write(holds[1], &byte, 1) != 1)
            _exit(1);
        usleep(500 * 1000);
        _exit(0);
    }
    assert_int_equal(read(holds[0], &byte, 1), 1);
    close(holds[0]), close(holds[1]);
    start_raylet(f);
    submit(f, "after", "exit 0", 0, 0);
    wait_for(f, "after", "SUCCEEDED", 0, NULL);
    waitpid(holder, NULL, 0);
}

static void a_large_log_arrives_whole(void **state)
{
    struct fixture *f = *state;
    static char     text[3 << 20];
    submit(f, "large", "seq 1 200000", 0, 0);
    wait_for(f, "large", "SUCCEEDED", 0, NULL);
    read_log(f, "large", text, sizeof text);
    char *at = text;
    for (long i = 1; i <= 200000; i++) {
        assert_int_equal(strtol(at, &at, 10), i);
        assert_int_equal(*at++, '\n');
    }
    assert_int_equal(*at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_runs_and_its_log_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_tells_status_and_signal, setup, teardown),
        cmocka_unit_test_setup_teardown(who_cannot_be_loaded_tells_what_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_is_stopped_and_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(the_head_may_die_and_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_socket_that_is_let_go_late_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_log_arrives_whole, setup, teardown),
    };
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

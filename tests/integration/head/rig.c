/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.c - see rig.h. The fake raylet's callbacks run on gRPC's thread, everything else on the test's.
 */
#include <sys/resource.h>

#include "tests/integration/head/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the daemon ---- */

void daemon_init(struct daemon *d)
{
    memset(d, 0, sizeof *d);
    snprintf(d->folder, sizeof d->folder, "/tmp/manta-head-XXXXXX");
    assert_non_null(mkdtemp(d->folder));
    snprintf(d->run, sizeof d->run, "%s/run", d->folder);
    snprintf(d->state, sizeof d->state, "%s/state", d->run);
    d->out = -1;
}

static void child(const struct daemon *d, char *const *argv, int ready)
{
    if (d->preload) {
        const char *options = getenv("ASAN_OPTIONS");
        char        more[512];
        snprintf(more, sizeof more, "%s:verify_asan_link_order=0", options ? options : "");
        setenv("ASAN_OPTIONS", more, 1);
        setenv("LD_PRELOAD", d->preload, 1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (d->out >= 0)
        dup2(d->out, 2);
    dup2(ready, 3);
    execv(MANTA_HEAD, argv);
    _exit(127);
}

bool daemon_start(struct daemon *d, const char *const *more, int *out_status)
{
    char *argv[RIG_ARGS] = {(char *)MANTA_HEAD, (char *)"--dir", d->run, (char *)"--ready-fd", (char *)"3"};
    int   ready[2], count = 5;
    for (; more && *more; more++)
        argv[count++] = (char *)*more;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid == 0)
        child(d, argv, ready[1]);
    close(ready[1]);
    struct pollfd wait = {ready[0], POLLIN, 0};
    assert_int_equal(poll(&wait, 1, RIG_PATIENCE_MS), 1);
    ssize_t size = read(ready[0], d->address, sizeof d->address - 1);
    close(ready[0]);
    if (size > 0) {
        d->address[size - 1] = '\0';
        return true;
    }
    int status = daemon_wait(d);
    if (out_status)
        *out_status = status;
    return false;
}

bool daemon_is_over(const struct daemon *d)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)d->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == d->pid;
}

int daemon_wait(struct daemon *d)
{
    int status = 0;
    for (int i = 0; i < RIG_PATIENCE_MS / 10; i++) {
        pid_t pid = waitpid(d->pid, &status, WNOHANG);
        assert_true(pid >= 0);
        if (pid == d->pid) {
            d->pid = 0;
            return status;
        }
        mt_sleep_ms(10);
    }
    fail_msg("manta-head does not end");
    return status;
}

int daemon_end(struct daemon *d, int number)
{
    assert_int_equal(kill(d->pid, number), 0);
    return daemon_wait(d);
}

static void remove_tree(const char *path)
{
    char *argv[] = {(char *)"rm", (char *)"-rf", (char *)path, NULL}, *env[] = {NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, "/bin/rm", NULL, NULL, argv, env), 0);
    waitpid(pid, NULL, 0);
}

void daemon_fini(struct daemon *d)
{
    if (d->pid > 0)
        daemon_end(d, SIGKILL);
    remove_tree(d->folder);
}

static const char *file_read(const char *path, size_t *size)
{
    static char said[1 << 20];
    FILE       *file = fopen(path, "re");
    assert_non_null(file);
    *size = fread(said, 1, sizeof said - 1, file);
    fclose(file);
    said[*size] = '\0';
    return said;
}

manta_client *daemon_client(const struct daemon *d)
{
    manta_error       e;
    manta_client_opts opts = {.address = d->run, .timeout_ms = 15000};
    manta_client     *c = manta_client_open(&opts, &e);
    if (!c)
        fail_msg("%s", e.message);
    return c;
}

void rig_file_write(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

bool rig_file_says(const char *path, const char *text)
{
    size_t size;
    return strstr(file_read(path, &size), text) != NULL;
}

const char *rig_file_end(const char *path)
{
    size_t      size;
    const char *said = file_read(path, &size);
    return said + (size > RIG_END ? size - RIG_END : 0);
}

/* ---- the raylet ---- */

static void message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view bytes)
{
    struct fake_raylet *r = mt_container_of(handler, struct fake_raylet, handler);
    ProtobufCMessage   *m = NULL;
    (void)stream;
    if (rpc_unpack(&manta__v1__head_to_node__descriptor, bytes, MT_CONTROL_BYTES_MAX, &m).code != 0)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->count < RIG_MESSAGES)
        r->messages[r->count++] = (Manta__V1__HeadToNode *)m;
    else
        rpc_unpack_free(m);
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct fake_raylet *r = mt_container_of(handler, struct fake_raylet, handler);
    (void)stream;
    (void)result;
    pthread_mutex_lock(&r->lock);
    r->is_closed = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static struct timespec in_ms(int ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += ms % 1000 * 1000000L;
    end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return end;
}

static int say(struct fake_raylet *r, const Manta__V1__NodeToHead *m)
{
    mt_buf bytes = {0};
    assert_int_equal(rpc_pack(&m->base, &bytes).code, MT_OK);
    int code = rpc_stream_send(r->stream, mt_buf_view(&bytes)).code;
    mt_buf_fini(&bytes);
    return code;
}

void raylet_say(struct fake_raylet *r, const Manta__V1__NodeToHead *m)
{
    assert_int_equal(say(r, m), MT_OK);
}

const Manta__V1__HeadToNode *raylet_next(struct fake_raylet *r, Manta__V1__HeadToNode__KindCase kind)
{
    const Manta__V1__HeadToNode *found = NULL;
    for (int64_t end = mt_now_ms() + RIG_PATIENCE_MS; !found && mt_now_ms() < end;) {
        struct timespec soon = in_ms(RIG_LIFE_MS);
        int             rc = 0;
        pthread_mutex_lock(&r->lock);
        while (!found && rc == 0) {
            while (r->taken < r->count && !found)
                if (r->messages[r->taken++]->kind_case == kind)
                    found = r->messages[r->taken - 1];
            if (!found)
                rc = pthread_cond_timedwait(&r->changed, &r->lock, &soon);
        }
        pthread_mutex_unlock(&r->lock);
        if (!found && r->is_registered)
            raylet_report(r);
    }
    if (!found)
        fail_msg("the head did not send a message of kind %d", (int)kind);
    return found;
}

static void attach(struct fake_raylet *r, const struct daemon *d)
{
    struct rpc_stream_config  config = {.method = "/manta.v1.Head/Attach", .flags = RPC_DIRECT | RPC_WAIT_READY};
    struct io_token           token;
    struct rpc_channel_config channel = {.target = d->address, .token = &token};
    char                      path[128];
    snprintf(path, sizeof path, "%s/token", d->run);
    assert_int_equal(io_token_read(path, &token).code, MT_OK);
    assert_int_equal(rpc_channel_open(r->rpc, &channel, &r->channel).code, MT_OK);
    r->is_closed = r->is_registered = false;
    r->handler = (struct rpc_stream_handler){message, NULL, NULL, closed};
    assert_int_equal(rpc_stream_open(r->channel, &config, &r->handler, &r->stream).code, MT_OK);
    Manta__V1__Register   reg = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *total[] = {&cpu};
    cpu.name = (char *)"CPU";
    cpu.milli = RIG_CPU_MILLI;
    reg.version_min = reg.version_max = mt_release.wire.max;
    reg.boot = r->boot;
    reg.node = r->node;
    reg.epoch = r->epoch;
    reg.name = (char *)"fake";
    reg.address = (char *)"127.0.0.1:9";
    reg.total = total;
    reg.n_total = 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    m.register_ = &reg;
    raylet_say(r, &m);
    const Manta__V1__Registered *answer = raylet_next(r, MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED)->registered;
    assert_int_equal(answer->code, MT_OK);
    r->node = answer->node;
    r->epoch = answer->epoch;
    r->is_registered = true;
}

static void detach(struct fake_raylet *r)
{
    struct timespec end = in_ms(RIG_PATIENCE_MS);
    int             rc = 0;
    rpc_stream_cancel(r->stream);
    pthread_mutex_lock(&r->lock);
    while (!r->is_closed && rc == 0)
        rc = pthread_cond_timedwait(&r->changed, &r->lock, &end);
    pthread_mutex_unlock(&r->lock);
    assert_int_equal(rc, 0);
    rpc_stream_free(r->stream);
    rpc_channel_close(r->channel);
}

void raylet_open(struct fake_raylet *r, const struct daemon *d, uint64_t boot)
{
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->boot = boot;
    assert_int_equal(rpc_new(NULL, &r->rpc).code, MT_OK);
    attach(r, d);
}

void raylet_again(struct fake_raylet *r, const struct daemon *d)
{
    detach(r);
    attach(r, d);
}

void raylet_close(struct fake_raylet *r)
{
    detach(r);
    rpc_free(r->rpc);
    for (size_t i = 0; i < r->count; i++)
        rpc_unpack_free(&r->messages[i]->base);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

void raylet_job_state(struct fake_raylet *r, const char *id, uint32_t attempt, const char *state, int exit_code, const char *reason)
{
    Manta__V1__JobState   s = MANTA__V1__JOB_STATE__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    s.id = (char *)id;
    s.attempt = attempt;
    s.state = (char *)state;
    s.exit_code = exit_code;
    s.reason = (char *)reason;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
    m.job = &s;
    raylet_say(r, &m);
}

void raylet_log(struct fake_raylet *r, const char *id, uint32_t attempt, uint64_t offset, const char *text)
{
    Manta__V1__LogChunk   c = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    c.id = (char *)id;
    c.attempt = attempt;
    c.offset = offset;
    c.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_LOG;
    m.log = &c;
    raylet_say(r, &m);
}

void raylet_report(struct fake_raylet *r)
{
    Manta__V1__Report     report = MANTA__V1__REPORT__INIT;
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *free_here[] = {&cpu};
    cpu.name = (char *)"CPU";
    cpu.milli = RIG_CPU_MILLI;
    report.free = free_here;
    report.n_free = 1;
    report.version = ++r->version;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    m.report = &report;
    (void)say(r, &m);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - 100,000 jobs that wait. A decision is measured in the head's core, in this process: the step in which a raylet says
 * that a job has ended, and the next one starts. Its floor is the same with one shape that waits. Memory, a page of `manta
 * queue` and the submit of an array are those of a real head with its store.
 *
 * Owns: the children, and a folder that goes with them. Thread: the main one.
 */
#include "tests/bench/cluster/jobs/queue.h"

#include "tests/bench/cluster/rig.h"

#include "core/base/release.h"
#include "core/proto/manta.pb-c.h"
#include "scheduler/head/core/core.h"

#include <manta_client.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARRAYS = 10, EACH = 10000, ENDS = 500, PAGES = 20, STREAM = 1, SHAPES = 20, CPUS = 1000 };

/* ---- decisions, in the core ---- */

struct core {
    struct head        *head;
    struct head_actions actions;
    uint64_t            now_ms, call, report;
    char                started[64]; /* the last one */
    uint32_t            starts, failures;
};

static void heard(struct core *c, const struct head_bytes *bytes)
{
    Manta__V1__HeadToNode *m = manta__v1__head_to_node__unpack(NULL, bytes->size, bytes->data);
    if (m && m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_START_JOB) {
        snprintf(c->started, sizeof c->started, "%s", m->start_job->spec->id);
        c->starts++;
    }
    manta__v1__head_to_node__free_unpacked(m, NULL);
}

/* Nanoseconds of the step itself; the store confirms at once. */
static uint64_t step(struct core *c, struct head_event event)
{
    uint64_t took = 0;
    for (bool again = true; again;) {
        uint64_t stored = 0, from = bench_now_ns();
        event.now_ms = event.wall_ms = c->now_ms;
        c->failures += head_step(c->head, &event, &c->actions).code != 0;
        took += bench_now_ns() - from;
        for (size_t i = 0; i < c->actions.count; i++) {
            const struct head_action *a = &c->actions.items[i];
            if (a->kind == HEAD_ACT_SEND)
                heard(c, a->send.bytes);
            else if (a->kind == HEAD_ACT_STORE)
                stored = a->store.token;
        }
        head_actions_clear(&c->actions);
        again = stored != 0;
        event = (struct head_event){.kind = HEAD_EV_STORED, .stored = {.token = stored}};
    }
    return took;
}

static uint64_t say(struct core *c, Manta__V1__NodeToHead *m)
{
    uint8_t bytes[1024];
    size_t  size = protobuf_c_message_pack(&m->base, bytes);
    return step(c, (struct head_event){.kind = HEAD_EV_STREAM_MESSAGE, .message = {STREAM, bytes, size}});
}

static uint64_t report(struct core *c, int64_t free_milli)
{
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Report     r = MANTA__V1__REPORT__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *list[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = free_milli;
    r.version = ++c->report;
    r.free = list;
    r.n_free = 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REPORT;
    m.report = &r;
    return say(c, &m);
}

static void join(struct core *c)
{
    Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__Register   r = MANTA__V1__REGISTER__INIT;
    Manta__V1__Resource   cpu = MANTA__V1__RESOURCE__INIT, *list[] = {&cpu};
    cpu.name = "CPU";
    cpu.milli = CPUS * 1000;
    r.version_min = r.version_max = mt_release.wire.max;
    r.boot = 1;
    r.name = r.address = r.data_address = (char *)(uintptr_t) "node";
    r.total = list;
    r.n_total = 1;
    m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_REGISTER;
    m.register_ = &r;
    (void)step(c, (struct head_event){.kind = HEAD_EV_STREAM_OPENED, .stream = {STREAM}});
    (void)say(c, &m);
    (void)report(c, 0);
}

static void submit(struct core *c, uint32_t index, uint32_t count, uint32_t cpus)
{
    Manta__V1__SubmitRequest r = MANTA__V1__SUBMIT_REQUEST__INIT;
    Manta__V1__JobSpec       spec = MANTA__V1__JOB_SPEC__INIT;
    Manta__V1__Resource      cpu = MANTA__V1__RESOURCE__INIT, *list[] = {&cpu};
    char                     id[32], *argv[] = {(char *)(uintptr_t) "./work"};
    uint8_t                  bytes[512];
    snprintf(id, sizeof id, "array-%u", index);
    cpu.name = "CPU";
    cpu.milli = cpus * 1000;
    spec.id = id;
    spec.argv = argv;
    spec.n_argv = 1;
    spec.resources = list;
    spec.n_resources = 1;
    spec.array_count = count;
    r.spec = &spec;
    size_t size = protobuf_c_message_pack(&r.base, bytes);
    (void)step(c, (struct head_event){.kind = HEAD_EV_CALL,
                                      .call = {.number = ++c->call, .method = HEAD_SUBMIT, .bytes = bytes, .size = size}});
}

/* What runs ends, and the next one starts in that step; its node's next report has it. */
static double end_one(struct core *c)
{
    static const char *const words[] = {"RUNNING", "SUCCEEDED"};
    uint64_t                 took = 0;
    for (int i = 0; i < 2; i++) {
        Manta__V1__NodeToHead m = MANTA__V1__NODE_TO_HEAD__INIT;
        Manta__V1__JobState   state = MANTA__V1__JOB_STATE__INIT;
        state.id = c->started;
        state.attempt = 1;
        state.state = (char *)(uintptr_t)words[i];
        m.kind_case = MANTA__V1__NODE_TO_HEAD__KIND_JOB;
        m.job = &state;
        took = say(c, &m);
        c->now_ms += MT_HEAD_AHEAD_RUN_MS; /* it was no short one: the next is not sent ahead */
    }
    c->now_ms += MT_HEAD_PROMISE_MS_MAX;
    (void)report(c, 0);
    return (double)took / 1e6;
}

/* The median and the longest of many decisions while `arrays` arrays of `each` wait. */
static bool decide(uint32_t arrays, uint32_t each, double *out_p50, double *out_max)
{
    struct core         *c = calloc(1, sizeof *c);
    struct head_config   config = {.cluster = "bench", .seed = 1, .now_ms = 1000};
    struct bench_samples samples = {0};
    struct bench_row     row = {0};
    if (!c || !bench_samples_init(&samples) || head_new(&config, &c->head).code ||
        head_start(c->head, c->now_ms = 1000, &c->actions).code)
        return false;
    head_actions_clear(&c->actions);
    (void)step(c, (struct head_event){.kind = HEAD_EV_STORED, .stored = {.token = 1}});
    join(c);
    c->now_ms += 5000;
    for (uint32_t i = 0; i < arrays; i++)
        for (uint32_t k = 0; k < (each > 1 ? 2 : 1); k++)
            submit(c, 2 * i + k, each > 1 ? each / 2 : 1, 1 + (2 * i + k) % SHAPES); /* the first of them wants one CPU */
    if (each == 1)
        submit(c, 9, ENDS + 2, 1);
    c->now_ms += MT_HEAD_PROMISE_MS_MAX;
    (void)report(c, 1000);
    for (uint32_t i = 0; i < ENDS; i++) {
        double ms = end_one(c);
        *out_max = ms > *out_max ? ms : *out_max;
        bench_samples_add(&samples, ms);
    }
    bool ok = c->failures == 0 && c->starts == ENDS + 1;
    if (!ok)
        fprintf(stderr, "queue_100k: %u of %u jobs were started, %u steps failed\n", c->starts, ENDS + 1, c->failures);
    bench_samples_row(&samples, 0.5, &row);
    *out_p50 = row.value;
    head_free(c->head);
    head_actions_fini(&c->actions);
    free(c);
    return ok;
}

/* ---- a real head ---- */

static double rss_mb(pid_t pid)
{
    char   path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

static bool submit_arrays(struct bench *b, manta_client *client)
{
    static const char *const argv[] = {"./work", "--input", "part", NULL};
    double                   sum = 0, max = 0;
    manta_error              e;
    for (int i = 0; i < ARRAYS; i++) {
        manta_job job = {.id = manta_job_new_id(), .argv = argv, .cpus = 1 + i, .array = EACH};
        double    from = rig_now_ms(), took;
        if (manta_job_submit(client, &job, &e) != MANTA_OK)
            return bench_say(&e, "queue_100k: submit");
        took = rig_now_ms() - from;
        sum += took;
        max = took > max ? took : max;
    }
    bench_print_value(b, "queue_100k.submit", "ms", sum / ARRAYS, ARRAYS);
    bench_print_value(b, "queue_100k.submit.max", "ms", max, ARRAYS);
    return true;
}

/* `manta WORD...` from its start to its end. */
static double cli_ms(const struct rig_folder *f, const char *verb, const char *option, const char *value)
{
    char        program[RIG_PATH + 16];
    const char *argv[] = {program, verb, option, value, NULL};
    double      from = rig_now_ms();
    int         status = -1;
    snprintf(program, sizeof program, "%s/manta", f->bin);
    pid_t pid = rig_spawn(f, "manta.log", -1, (char *const *)(uintptr_t)argv);
    waitpid(pid, &status, 0);
    if (status)
        fprintf(stderr, "queue_100k: `manta %s` failed: see %s/manta.log\n", verb, f->dir);
    return status ? -1 : rig_now_ms() - from;
}

static bool measure(struct bench *b, const struct rig_folder *f, pid_t head, manta_client *client)
{
    double          before = rss_mb(head), page = 0, program = 0, bare = 0;
    manta_job_info *jobs;
    size_t          count, total;
    manta_error     e;
    if (!submit_arrays(b, client))
        return false;
    bench_print_value(b, "queue_100k.memory", "MB", rss_mb(head), ARRAYS * EACH);
    bench_print_value(b, "queue_100k.memory.before", "MB", before, 0);
    for (int i = 0; i < PAGES; i++) {
        double from = rig_now_ms();
        if (manta_job_queue(client, 0, 100, &jobs, &count, &total, &e) != MANTA_OK)
            return bench_say(&e, "queue_100k: queue");
        page += rig_now_ms() - from;
        free(jobs);
        double took = cli_ms(f, "queue", "--limit", "100"), none = cli_ms(f, "version", NULL, NULL);
        if (took < 0 || none < 0)
            return false;
        program += took;
        bare += none;
    }
    bench_print_value(b, "queue_100k.page", "ms", page / PAGES, PAGES);
    bench_print_value(b, "queue_100k.page.cli", "ms", program / PAGES, PAGES);
    bench_print_value(b, "queue_100k.page.cli.floor", "ms", bare / PAGES, PAGES); /* `manta version` */
    if (count == 100 && total == (size_t)ARRAYS * EACH)
        return true;
    fprintf(stderr, "queue_100k: %zu of %zu jobs are listed\n", count, total);
    return false;
}

bool bench_queue_100k(struct bench *b)
{
    struct rig_folder f;
    double            p50 = 0, max = 0, floor = 0, floor_max = 0;
    if (!decide(ARRAYS, EACH, &p50, &max) || !decide(1, 1, &floor, &floor_max))
        return false;
    bench_print_value(b, "queue_100k", "ms", p50, ENDS);
    bench_print_value(b, "queue_100k.max", "ms", max, ENDS);
    bench_print_value(b, "queue_100k.floor", "ms", floor, ENDS);
    if (!rig_folder_make(&f))
        return false;
    setenv("MANTA_ADDRESS", f.dir, 1);
    pid_t         head = rig_head(&f);
    manta_error   e;
    manta_client *client = head > 0 ? manta_client_open(NULL, &e) : NULL;
    bool          ok = client && measure(b, &f, head, client);
    if (!client)
        fprintf(stderr, "queue_100k: no head in %s\n", f.dir);
    manta_client_close(client);
    rig_end(&head, SIGTERM);
    unsetenv("MANTA_ADDRESS");
    if (ok)
        rig_folder_remove(&f);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - `manta submit` and `manta job ...`.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/jobs/jobs.h"
#include "clients/cli/table/table.h"
#include "core/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { QUEUE_ROWS = 100, INDICES_SIZE = 64 * 1024, NOTICE_S = 60 /* as sbatch has it */ };

/* ---- how a job looks ---- */

static json_t *seconds_of(const manta_job_info *job)
{
    uint64_t end = job->ended_ms ? job->ended_ms : mt_wall_ms();
    return job->started_ms && end >= job->started_ms ? json_real((double)(end - job->started_ms) / 1000) : json_null();
}

/* As an object: keys are the user's, and none comes twice. */
static json_t *metadata_of(const manta_job_info *job)
{
    json_t *o = json_object();
    for (const char *line = job->metadata; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t size = strcspn(line, "\n"), key = strcspn(line, "=");
        char   name[MANTA_JOB_METADATA];
        snprintf(name, sizeof name, "%.*s", (int)key, line);
        if (key < size)
            json_object_set_new(o, name, json_stringn(line + key + 1, size - key - 1));
    }
    return o;
}

static json_t *json_of(const manta_job_info *job)
{
    json_t *o = json_object();
    json_object_set_new(o, "id", json_string(job->id));
    json_object_set_new(o, "name", json_string(job->name));
    json_object_set_new(o, "user", json_string(job->user));
    json_object_set_new(o, "state", json_string(job->state));
    json_object_set_new(o, "seconds", seconds_of(job));
    json_object_set_new(o, "node", job->node ? json_integer(job->node) : json_null());
    json_object_set_new(o, "pid", job->pid ? json_integer(job->pid) : json_null());
    json_object_set_new(o, "attempt", json_integer(job->attempt));
    json_object_set_new(o, "exit_code", job->ended_ms ? json_integer(job->exit_code) : json_null());
    json_object_set_new(o, "submitted", cli_time_json(job->submitted_ms));
    json_object_set_new(o, "started", cli_time_json(job->started_ms));
    json_object_set_new(o, "ended", cli_time_json(job->ended_ms));
    json_object_set_new(o, "priority", json_integer(job->priority));
    json_object_set_new(o, "array", job->array_id[0] ? json_string(job->array_id) : json_null());
    json_object_set_new(o, "held", json_boolean(job->is_held));
    json_object_set_new(o, "deadline", cli_time_json(job->deadline_ms));
    json_object_set_new(o, "log_bytes", json_integer((json_int_t)job->log_size));
    json_object_set_new(o, "cpu_s", json_real(job->cpu_s));
    json_object_set_new(o, "gpu_s", json_real(job->gpu_s));
    json_object_set_new(o, "memory_gib_s", json_real(job->memory_gib_s));
    json_object_set_new(o, "cost", json_real(job->cost));
    json_object_set_new(o, "metadata", metadata_of(job));
    json_object_set_new(o, "reason", json_string(job->reason));
    return o;
}

static const struct cli_column queue_columns[] = {
    {"id", "ID", false},
    {"name", "NAME", false},
    {"user", "USER", false},
    {"priority", "PRIORITY", false},
    {"state", "STATE", false},
    {"seconds", "SECONDS", false},
    {"node", "NODE", false},
    {"submitted", "SUBMITTED", true},
    {"deadline", "DEADLINE", true},
    {"reason", "REASON", false},
    {NULL, NULL, false},
};

static const struct cli_column columns[] = {
    {"id", "ID", false},
    {"name", "NAME", false},
    {"user", "USER", false},
    {"state", "STATE", false},
    {"seconds", "SECONDS", false},
    {"node", "NODE", false},
    {"pid", "PID", true},
    {"attempt", "ATTEMPT", true},
    {"exit_code", "EXIT", false},
    {"submitted", "SUBMITTED", true},
    {"started", "STARTED", true},
    {"ended", "ENDED", true},
    {"log_bytes", "LOG", true},
    {"cpu_s", "CPU_S", true},
    {"gpu_s", "GPU_S", true},
    {"cost", "COST", true},
    {"metadata", "METADATA", true},
    {"reason", "REASON", false},
    {NULL, NULL, false},
};

/* ---- following ---- */

int cli_job_print(void *user, const manta_log *log)
{
    (void)user;
    return fwrite(log->text, 1, log->len, stdout) != log->len || fflush(stdout) != 0;
}

/* Says how it ended; its exit code, or 1 where it has none of its own. */
static int ended(const manta_job_info *job)
{
    bool is_good = strcmp(job->state, "SUCCEEDED") == 0;
    fprintf(stderr, "manta: job %s: %s%s%s\n", job->id, job->state, job->reason[0] ? ": " : "", job->reason);
    return is_good ? job->exit_code : job->exit_code ? job->exit_code & 0xff : CLI_FAILED;
}

static int follow(manta_client *client, const char *id)
{
    manta_error    e;
    manta_job_info job;
    if (manta_job_follow(client, id, cli_job_print, NULL, &e) != MANTA_OK ||
        manta_job_wait(client, id, MANTA_FOREVER, &job, &e) != MANTA_OK)
        return e.code == MANTA_ENOENT
                   ? cli_fail("%s", e.message)
                   : cli_fail("%s (the job goes on; follow it again: manta job logs --follow %s)", e.message, id);
    return ended(&job);
}

/* ---- verbs ---- */

/* A newcomer's program stands here, and the job's folder is another: said now, not by the job's end. */
static void warn_of_program(const struct cli_args *args)
{
    const char *program = args->rest[0];
    const char *slash = strchr(program, '/');
    if (slash && slash != program && args->file_count == 0 && access(program, F_OK) == 0)
        fprintf(stderr, "manta: %s is looked for in the job's own folder: --file %s brings it there\n", program, program);
}

/* A job that is a shared object travels with its files, without being asked for. */
static int add_object(const struct cli_args *args, const char **files)
{
    const char *program = args->rest[0], *dot = strrchr(program, '.');
    size_t      count = 0;
    bool        is_named = !dot || strcmp(dot, ".so");
    for (; args->files[count]; count++) {
        files[count] = args->files[count];
        is_named |= strcmp(files[count], program) == 0;
    }
    if (!is_named && count == MT_CLI_LIST_MAX)
        return cli_fail("at most %d files", MT_CLI_LIST_MAX);
    if (is_named)
        warn_of_program(args);
    files[count] = is_named ? NULL : program;
    files[count + !is_named] = NULL;
    if (!is_named && (program[0] == '/' || strncmp(program, "../", 3) == 0))
        args->rest[0] = strrchr(program, '/') + 1; /* as it will be called there */
    return CLI_OK;
}

struct after {
    char        text[MT_CLI_LIST_MAX][128];
    const char *list[MT_CLI_LIST_MAX + 1];
};

/* "afterok:A:B,afterany:C" as "afterok:A", "afterok:B", "afterany:C": as users of Slurm write it. */
static bool split_after(const struct cli_args *args, struct after *out)
{
    size_t count = 0;
    for (const char *at = args->values[CLI_OPT_DEPENDENCY]; at && *at; at += *at == ',') {
        size_t kind = strcspn(at, ":,"), size = strcspn(at, ",");
        for (const char *id = at + kind; id < at + size;) {
            size_t length = strcspn(++id, ":,");
            if (count == MT_CLI_LIST_MAX)
                return cli_usage(args, "--dependency names more than %d jobs", MT_CLI_LIST_MAX), false;
            snprintf(out->text[count], sizeof out->text[count], "%.*s:%.*s", (int)kind, at, (int)length, id);
            out->list[count] = out->text[count];
            count++;
            id += length;
        }
        if (kind == size)
            return cli_usage(args, "--dependency \"%.*s\": KIND:ID is wanted", (int)size, at), false;
        at += size;
    }
    out->list[count] = NULL;
    return true;
}

/* "USR1@120", as users of Slurm write it; SIGUSR1 and 10 are the same. */
static bool notice_of(const struct cli_args *args, int32_t *out_signal, uint32_t *out_s)
{
    const char *text = args->values[CLI_OPT_SIGNAL], *at = text ? strchr(text, '@') : NULL;
    char        name[16] = "", *end;
    *out_signal = 0;
    *out_s = 0;
    if (!text)
        return true;
    snprintf(name, sizeof name, "%.*s", at ? (int)(at - text) : (int)strlen(text), text);
    const char   *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    unsigned long number = strtoul(bare, &end, 10), seconds = at ? strtoul(at + 1, &end, 10) : NOTICE_S;
    for (int i = 1; i < 32; i++)
        if (number == (unsigned long)i || (sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), bare) == 0))
            *out_signal = i;
    *out_s = seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
    if (*out_signal && (!at || (at[1] >= '0' && at[1] <= '9' && !*end)))
        return true;
    cli_usage(args, "--signal \"%s\": a signal and how long before the end it comes is wanted, such as USR1@120", text);
    return false;
}

/* May be below 0. */
static bool priority_of(const struct cli_args *args, int32_t *out)
{
    double value = 0;
    bool   is_fine = cli_whole(args, CLI_OPT_PRIORITY, -1e9, 1e9, &value);
    *out = is_fine ? (int32_t)value : 0;
    return is_fine;
}

/* "10" are ten jobs, as "10%2" are, of which two run at a time; all else are indices, which the library reads. */
static bool array_of(const struct cli_args *args, uint32_t *out_count, char out_indices[INDICES_SIZE])
{
    const char   *text = args->values[CLI_OPT_ARRAY];
    char         *end;
    unsigned long count = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    int           size = 0;
    *out_count = 0;
    if (!text)
        return true;
    if (!count || (*end && *end != '%'))
        size = snprintf(out_indices, INDICES_SIZE, "%s", text);
    else if (*end)
        size = snprintf(out_indices, INDICES_SIZE, "0-%lu%s", count - 1, end);
    else
        *out_count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
    if (size < INDICES_SIZE && strcmp(text, "0") != 0)
        return true;
    return cli_usage(args, "--array \"%.40s\": a number of jobs, or their indices as 0-9, 1,3,7 or 0-99:10 are wanted", text),
           false;
}

/* A job, and what it points to. */
struct request {
    manta_job    job;
    struct after after;
    char         indices[INDICES_SIZE];
    const char  *files[MT_CLI_LIST_MAX + 2];
};

/* Before anybody is asked: what is wrong is said where no head is there, too. */
static int request_read(const struct cli_args *args, struct request *out)
{
    manta_job *job = &out->job;
    double     retries = 0;
    *job = (manta_job){.argv = (const char *const *)args->rest,
                       .files = out->files,
                       .env = args->env,
                       .metadata = args->metadata,
                       .after = out->after.list,
                       .hold = args->values[CLI_OPT_HOLD] != NULL,
                       .preemptible = args->values[CLI_OPT_PREEMPTIBLE] != NULL};
    if (!cli_number(args, CLI_OPT_NUM_CPUS, 0, &job->cpus) || !cli_number(args, CLI_OPT_NUM_GPUS, 0, &job->gpus) ||
        !cli_whole(args, CLI_OPT_RETRIES, 0, UINT32_MAX, &retries) || !cli_time_limit(args, &job->time_s) ||
        !array_of(args, &job->array, out->indices) || !priority_of(args, &job->priority) || !split_after(args, &out->after) ||
        !cli_time_until(args, CLI_OPT_JOB_DEADLINE, &job->deadline_ms) || !cli_duration(args, CLI_OPT_WORK, &job->work_s) ||
        !cli_duration(args, CLI_OPT_RESUME, &job->resume_s) || !notice_of(args, &job->signal, &job->notice_s))
        return CLI_USAGE;
    if (args->values[CLI_OPT_ARRAY] && args->values[CLI_OPT_FOLLOW])
        return cli_usage(args, "an array has a log for each of its jobs: manta job logs --follow ID.INDEX");
    if (add_object(args, out->files) != CLI_OK)
        return CLI_FAILED;
    job->name = args->values[CLI_OPT_NAME] ? args->values[CLI_OPT_NAME] : args->rest[0];
    job->retries = (uint32_t)retries;
    job->array_indices = out->indices[0] ? out->indices : NULL;
    return CLI_OK;
}

static int submit(const struct cli_args *args, manta_client *client, manta_job *job)
{
    manta_error e;
    job->id = manta_job_new_id();
    if (manta_job_submit(client, job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    if (args->values[CLI_OPT_FOLLOW]) {
        fprintf(stderr, "manta: job %s\n", job->id);
        return follow(client, job->id);
    }
    printf("%s\n", job->id);
    return CLI_OK;
}

static int print_jobs(const struct cli_args *args, const struct cli_column *which, manta_job_info *take_jobs, size_t count)
{
    static const char *const states[] = {"PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED", NULL};
    json_t                  *rows = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(rows, json_of(&take_jobs[i]));
    free(take_jobs);
    if (!cli_filter_rows(args, json_of(&(manta_job_info){0}), states, rows)) {
        json_decref(rows);
        return CLI_USAGE;
    }
    return cli_print_rows(args, which, rows);
}

static int list(const struct cli_args *args, manta_client *client)
{
    manta_error     e;
    manta_job_info *jobs;
    size_t          count;
    if (manta_job_list(client, &jobs, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    return print_jobs(args, columns, jobs, count);
}

static int queue(const struct cli_args *args, manta_client *client)
{
    double          limit = QUEUE_ROWS;
    manta_error     e;
    manta_job_info *jobs;
    size_t          count, total;
    if (!cli_whole(args, CLI_OPT_LIMIT, 1, 1e15, &limit))
        return CLI_USAGE;
    if (manta_job_queue(client, 0, args->filter_count ? SIZE_MAX : (size_t)limit, &jobs, &count, &total, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    if (count < total)
        fprintf(stderr, "manta: the first %zu of %zu jobs: --limit\n", count, total);
    return print_jobs(args, queue_columns, jobs, count);
}

/* ---- arrays, summed up ---- */

static const struct cli_column array_columns[] = {
    {"id", "ID", false},           {"name", "NAME", false},          {"user", "USER", true},     {"jobs", "JOBS", false},
    {"pending", "PENDING", false}, {"running", "RUNNING", false},    {"ok", "SUCCEEDED", false}, {"failed", "FAILED", false},
    {"stopped", "STOPPED", false}, {"forgotten", "FORGOTTEN", true}, {NULL, NULL, false},
};

static json_t *json_of_array(const manta_job_array_info *a)
{
    uint32_t known = a->pending + a->running + a->succeeded + a->failed + a->stopped;
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", a->id, "name", a->name, "user", a->user, "jobs",
                     (json_int_t)a->count, "pending", (json_int_t)a->pending, "running", (json_int_t)a->running, "ok",
                     (json_int_t)a->succeeded, "failed", (json_int_t)a->failed, "stopped", (json_int_t)a->stopped, "forgotten",
                     (json_int_t)(a->count > known ? a->count - known : 0));
}

static int print_array(const struct cli_args *args, const manta_job_array_info *a)
{
    if (cli_output_is_json(args))
        return cli_print_json(json_of_array(a));
    json_t *rows = json_array();
    json_array_append_new(rows, json_of_array(a));
    return cli_print_rows(args, array_columns, rows);
}

/* 0: all have succeeded. */
static int array_ended(const manta_job_array_info *a)
{
    fprintf(stderr, "manta: array %s: of %u jobs %u have succeeded, %u failed, %u were stopped\n", a->id, a->count, a->succeeded,
            a->failed, a->stopped);
    if (a->failed + a->stopped == 0)
        return CLI_OK;
    fprintf(stderr, "manta: the first that did not: manta job logs %s.%u\n", a->id, a->first_failed);
    return CLI_FAILED;
}

/* ---- one job ---- */

static int status(const struct cli_args *args, manta_client *client)
{
    manta_error          e, of_array;
    manta_job_info       job;
    manta_job_array_info array;
    if (manta_job_get(client, args->rest[0], &job, &e) != MANTA_OK) {
        if (e.code == MANTA_ENOENT && manta_job_array_get(client, args->rest[0], &array, &of_array) == MANTA_OK)
            return print_array(args, &array);
        return cli_fail("%s", e.message);
    }
    if (cli_output_is_json(args))
        return cli_print_json(json_of(&job));
    json_t *rows = json_array();
    json_array_append_new(rows, json_of(&job));
    return cli_print_rows(args, columns, rows);
}

struct so_far {
    uint64_t size;
};

/* Stops where the log ended when it was asked for. */
static int print_so_far(void *user, const manta_log *log)
{
    struct so_far *s = user;
    size_t         n = log->offset + log->len > s->size ? (size_t)(s->size - log->offset) : log->len;
    return fwrite(log->text, 1, n, stdout) != n || log->offset + n >= s->size;
}

static int logs(const struct cli_args *args, manta_client *client)
{
    manta_error    e;
    manta_job_info job;
    if (args->values[CLI_OPT_FOLLOW])
        return follow(client, args->rest[0]);
    if (manta_job_get(client, args->rest[0], &job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    struct so_far s = {job.log_size};
    manta_status  code = s.size ? manta_job_follow(client, job.id, print_so_far, &s, &e) : MANTA_OK;
    return code == MANTA_OK || code == MANTA_ECANCELLED ? CLI_OK : cli_fail("%s", e.message);
}

static int wait_for(const struct cli_args *args, manta_client *client)
{
    double               limit = -1;
    manta_error          e, of_array;
    manta_job_info       job;
    manta_job_array_info array;
    const char          *id = args->rest[0];
    if (!cli_number(args, CLI_OPT_TIMEOUT_S, 0, &limit))
        return CLI_USAGE;
    int64_t      limit_ms = limit < 0 ? MANTA_FOREVER : (int64_t)(limit * 1000);
    manta_status code = manta_job_wait(client, id, limit_ms, &job, &e);
    if (code == MANTA_ENOENT && manta_job_array_get(client, id, &array, &of_array) == MANTA_OK)
        return manta_job_array_wait(client, id, limit_ms, &array, &e) == MANTA_OK ? array_ended(&array) : cli_fail("%s", e.message);
    return code == MANTA_OK ? ended(&job) : cli_fail("%s", e.message);
}

static int delete_job(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    if (manta_job_delete(client, args->rest[0], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("%s: deleted\n", args->rest[0]);
    return CLI_OK;
}

static int hold(const struct cli_args *args, manta_client *client)
{
    manta_error e;
    bool        is_hold = strcmp(args->verb, "job hold") == 0;
    if ((is_hold ? manta_job_hold : manta_job_release)(client, args->rest[0], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("%s: %s\n", args->rest[0], is_hold ? "held" : "released");
    return CLI_OK;
}

static int stop(const struct cli_args *args, manta_client *client)
{
    manta_error    e;
    manta_job_info job;
    if (manta_job_stop(client, args->rest[0], &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    if (manta_job_get(client, args->rest[0], &job, &e) == MANTA_ENOENT) { /* an array: its jobs end each in its own time */
        printf("%s: its jobs are stopped\n", args->rest[0]);
        return CLI_OK;
    }
    if (manta_job_wait(client, args->rest[0], MT_CLI_START_MS, &job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("%s: %s\n", job.id, job.state);
    return CLI_OK;
}

/* A detached actor is kept by a job of its own. */
static int actor_kill(const struct cli_args *args, manta_client *client)
{
    const char     *space = args->values[CLI_OPT_NAMESPACE] ? args->values[CLI_OPT_NAMESPACE] : "default";
    manta_error     e;
    manta_job_info *jobs, job;
    size_t          count, i;
    if (manta_job_list(client, &jobs, &count, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    for (i = 0; i < count; i++)
        if (strcmp(jobs[i].actor_name, args->rest[0]) == 0 && strcmp(jobs[i].actor_space, space) == 0 && !jobs[i].ended_ms)
            break;
    if (i < count)
        job = jobs[i];
    free(jobs);
    if (i == count)
        return cli_fail("no detached actor is named \"%s\" in the namespace \"%s\"", args->rest[0], space);
    if (manta_job_stop(client, job.id, &e) != MANTA_OK || manta_job_wait(client, job.id, MT_CLI_START_MS, &job, &e) != MANTA_OK)
        return cli_fail("%s", e.message);
    printf("%s: killed\n", args->rest[0]);
    return CLI_OK;
}

int cli_submit(const struct cli_args *args)
{
    static struct request request;
    int                   status = request_read(args, &request);
    if (status != CLI_OK)
        return status;
    manta_client *client = cli_connect(args);
    status = client ? submit(args, client, &request.job) : CLI_FAILED;
    manta_client_close(client);
    return status;
}
int cli_job_list(const struct cli_args *args)
{
    return cli_with_client(args, list);
}
int cli_job_status(const struct cli_args *args)
{
    return cli_with_client(args, status);
}
int cli_job_logs(const struct cli_args *args)
{
    return cli_with_client(args, logs);
}
int cli_job_wait(const struct cli_args *args)
{
    return cli_with_client(args, wait_for);
}
int cli_job_stop(const struct cli_args *args)
{
    return cli_with_client(args, stop);
}
int cli_job_hold(const struct cli_args *args)
{
    return cli_with_client(args, hold);
}
int cli_queue(const struct cli_args *args)
{
    return cli_with_client(args, queue);
}
int cli_job_delete(const struct cli_args *args)
{
    return cli_with_client(args, delete_job);
}
int cli_actor_kill(const struct cli_args *args)
{
    return cli_with_client(args, actor_kill);
}

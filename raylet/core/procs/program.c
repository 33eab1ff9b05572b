/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - a job's program on a node that its driver is not on: the greeting of the driver, then the program's files, fetched
 * from the driver's node at the first lease.
 *
 * Owns: job->files (their descriptors), job->list and job->fetch. Thread: the logic loop only.
 *
 *   driver here      CTL_PROGRAM_FILE ... CTL_HELLO: files --(somebody asks)--> the shell sums them up: list
 *   driver elsewhere greeting -> list -> PROGRAM_OPEN -> the file that is missing -> PROGRAM_OPEN -> ... -> its descriptor
 *
 * The program is its file and the libraries that the driver had mapped, at the places where they stood to each other. What is run
 * is what the driver's raylet read through the descriptors that the driver gave it: each file has the SHA-256 of the list, when
 * it comes and again before each zygote.
 */
#include "raylet/core/state.h"

#include "core/sys/archive.h"

#include <stdio.h>
#include <stdlib.h>

#define LIST_BYTES_MAX ((1 + MT_PROGRAM_LIBRARIES_MAX) * sizeof(struct peer_program_file))

static const uint8_t no_sum[32];

/* ---- the driver is here ------------------------------------------------------------------------------------------- */

void rlt_program_files_close(struct rlt *r, struct rlt_program_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].fd >= 0)
            rlt_act(r->out, RLT_A_CLOSE_FD)->fd = files[i].fd;
}

static void file_add(rlt_program_files *files, const char *path, int take_fd)
{
    struct rlt_program_file file = {.fd = take_fd};
    snprintf(file.path, sizeof file.path, "%s", path);
    if (mt_vec_push(files, file).code)
        rlt_out_of_memory();
}

void rlt_program_file(struct rlt *r, struct rlt_proc *p, const struct rlt_event *e)
{
    struct ctl_program_file file;
    memcpy(&file, e->payload, sizeof file);
    file.path[sizeof file.path - 1] = 0;
    if ((e->fd >= 0) == (p->files.count > 0) && !mt_archive_path_wrong(file.path)) { /* the program itself comes first */
        file_add(&p->files, file.path, e->fd);
        return;
    }
    if (e->fd >= 0)
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = e->fd;
    rlt_proc_gone(r, p);
}

/* What the program is called where its driver has not said more. */
static const char *name_of(const struct rlt_job *job)
{
    const char *path = (const char *)job->hello + sizeof(struct ctl_hello), *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return mt_archive_path_wrong(name) ? "program" : name;
}

void rlt_program_greeted(struct rlt *r, struct rlt_job *job, int program)
{
    struct rlt_proc *driver = job->driver;
    (void)r;
    job->program = program;
    for (size_t i = 0; i < driver->files.count; i++)
        file_add(&job->files, driver->files.data[i].path, driver->files.data[i].fd);
    driver->files.count = 0;
    if (!job->files.count)
        file_add(&job->files, name_of(job), -1);
}

uint32_t rlt_program_count(const struct rlt_job *job)
{
    return job->files.count ? (uint32_t)job->files.count : job->list_count;
}

const char *rlt_program_path(const struct rlt_job *job, uint32_t index)
{
    return job->files.count ? job->files.data[index].path : job->list[index].path;
}

int rlt_program_fd(const struct rlt_job *job, uint32_t index)
{
    return index == 0 ? job->program : job->files.count ? job->files.data[index].fd : -1;
}

bool rlt_program_is_listed(struct rlt *r, struct rlt_job *job)
{
    if (job->list || job->is_listing || job->program < 0 || !job->files.count)
        return job->list != NULL;
    struct rlt_action       *a = rlt_act(r->out, RLT_A_PROGRAM_LIST);
    struct rlt_program_file *files = rlt_keep(r->out, job->files.data, job->files.count * sizeof *files);
    files[0].fd = job->program;
    a->job = job->job;
    a->payload = (const uint8_t *)files;
    a->size = job->files.count * sizeof *files;
    job->is_listing = true;
    return false;
}

static void list_send(struct rlt *r, const struct rlt_job *job, uint32_t node, uint64_t offset)
{
    struct peer_file_want want = {.what = {.job = job->job, .part = PEER_LIST}, .offset = offset};
    rlt_fetch_send_memory(r, node, &want, job->list, job->list_count * sizeof *job->list);
}

static void program_listed(struct rlt *r, struct rlt_job *job, const struct rlt_event *e)
{
    struct peer_file what = {.job = job->job, .part = PEER_LIST};
    job->is_listing = false;
    if (!e->refused && e->size == job->files.count * sizeof *job->list) {
        job->list = rlt_calloc(e->size);
        job->list_count = (uint32_t)job->files.count;
        memcpy(job->list, e->bytes, e->size);
    }
    while (job->listed.count) {
        uint32_t node = mt_vec_pop(&job->listed);
        if (job->list)
            list_send(r, job, node, 0);
        else
            rlt_fetch_send_none(r, node, &what);
    }
    rlt_detach_listed(r, job);
}

static void note(rlt_node_list *nodes, uint32_t node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->data[i] == node)
            return;
    if (mt_vec_push(nodes, node).code)
        rlt_out_of_memory();
}

static void wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(want->what.job));
    uint32_t        index = want->what.index;
    if (!job || !job->driver || job->is_ending || want->what.part > PEER_PROGRAM || index >= job->files.count) {
        rlt_fetch_send_none(r, node, &want->what);
        return;
    }
    note(&job->served, node);
    if (want->what.part == PEER_GREETING)
        rlt_fetch_send_memory(r, node, want, job->hello, job->hello_size);
    else if (want->what.part == PEER_PROGRAM)
        rlt_fetch_send_file(r, node, want, rlt_program_fd(job, index));
    else if (rlt_program_is_listed(r, job))
        list_send(r, job, node, want->offset);
    else
        note(&job->listed, node);
}

void rlt_program_job_end(struct rlt *r, const struct rlt_job *job)
{
    struct peer_job end = {job->job};
    for (size_t i = 0; i < job->served.count; i++)
        rlt_peer_send(r, job->served.data[i], PEER_JOB_END, (mt_id){0, 0}, &end, sizeof end);
}

/* ---- the driver is elsewhere --------------------------------------------------------------------------------------- */

static void job_failed(struct rlt *r, struct rlt_job *job, const char *why)
{
    char text[CTL_TEXT_SIZE];
    snprintf(text, sizeof text, "the program of job \"%s\" cannot be had on node %u (%s): %.300s", job->name, r->node,
             r->config.node_name, why);
    rlt_fetch_stop(r, &job->fetch);
    rlt_job_fail(r, job, MT_EWORKER_DIED, text);
}

static bool fetch(struct rlt *r, struct rlt_job *job, enum peer_file_part part, uint64_t index)
{
    struct peer_file what = {.job = job->job, .part = part, .index = (uint32_t)index};
    return rlt_fetch_start(r, &job->fetch, job->node, &what);
}

static void program_open(struct rlt *r, const struct rlt_job *job)
{
    struct rlt_action *a = rlt_act(r->out, RLT_A_PROGRAM_OPEN);
    a->job = job->job;
    a->size = job->list_count * sizeof *job->list;
    a->payload = rlt_keep(r->out, job->list, a->size);
}

void rlt_program_want(struct rlt *r, struct rlt_job *job)
{
    if (fetch(r, job, PEER_GREETING, 0))
        return;
    job_failed(r, job, "its driver's node is dead");
    rlt_job_end(r, job); /* nobody will say so later */
}

void rlt_program_again(struct rlt *r, struct rlt_job *job)
{
    if (!job->list || job->driver || job->program < 0 || job->is_ending)
        return;
    rlt_act(r->out, RLT_A_CLOSE_FD)->fd = job->program;
    job->program = -1;
    program_open(r, job);
}

static void greeting_in(struct rlt *r, struct rlt_job *job)
{
    struct ctl_hello hello;
    uint64_t         size = job->fetch.total;
    job->hello = job->fetch.bytes;
    job->hello_size = (uint32_t)size;
    job->fetch.bytes = NULL;
    if (size < sizeof hello) {
        job_failed(r, job, "the greeting of its driver is cut short");
        return;
    }
    memcpy(&hello, job->hello, sizeof hello);
    if (!rlt_hello_strings_ok(&hello, (const uint8_t *)job->hello + sizeof hello, size - sizeof hello))
        job_failed(r, job, "the greeting of its driver does not add up");
    else
        fetch(r, job, PEER_LIST, 0);
}

static const char *list_wrong(const struct peer_program_file *list, uint64_t size)
{
    uint64_t total = 0;
    if (!size || size % sizeof *list || size > LIST_BYTES_MAX)
        return "the list of its files does not add up";
    for (size_t i = 0; i < size / sizeof *list; i++) {
        if (list[i].path[sizeof list[i].path - 1] || mt_archive_path_wrong(list[i].path) || !list[i].size)
            return "the list of its files has one that can't be";
        total += list[i].size;
        if (list[i].size > (uint64_t)MT_PROGRAM_MIB_MAX << 20 || total > (uint64_t)MT_PROGRAM_MIB_MAX << 20)
            return "its files are too large";
    }
    return NULL;
}

static void list_in(struct rlt *r, struct rlt_job *job)
{
    const char *wrong;
    job->list = (struct peer_program_file *)(void *)job->fetch.bytes;
    job->list_count = (uint32_t)(job->fetch.total / sizeof *job->list);
    wrong = list_wrong(job->list, job->fetch.total);
    job->fetch.bytes = NULL;
    if (wrong)
        job_failed(r, job, wrong);
    else
        program_open(r, job);
}

static void program_opened(struct rlt *r, struct rlt_job *job, const struct rlt_event *e)
{
    if (e->refused) {
        job_failed(r, job, e->text ? e->text : "it could not be kept");
    } else if (e->fd < 0) {
        if (e->number < job->list_count)
            fetch(r, job, PEER_PROGRAM, e->number); /* where its node is dead by now, rlt_program_node_lost follows */
    } else {
        job->program = e->fd;
        snprintf(job->remark, sizeof job->remark, "%.80s", e->text ? e->text : "");
        rlt_job_begin(r, job);
    }
}

/* ---- what other nodes say ------------------------------------------------------------------------------------------- */

static void chunk_in(struct rlt *r, uint32_t node, const struct peer_file_chunk *c, const uint8_t *bytes)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(c->what.job));
    uint32_t        part = c->what.part;
    uint64_t        most = part == PEER_GREETING ? sizeof(struct ctl_hello) + CTL_HELLO_STRINGS_MAX
                           : part == PEER_LIST   ? LIST_BYTES_MAX
                                                 : 0;
    if (!job || job->fetch.node != node || job->is_ending || part != job->fetch.what.part)
        return;
    if (part == PEER_PROGRAM && (c->what.index >= job->list_count || c->total != job->list[c->what.index].size))
        return;
    const uint8_t *sum = part == PEER_PROGRAM ? job->list[c->what.index].sha256 : no_sum;
    if (rlt_fetch_take(r, &job->fetch, c, bytes, most, sum) != RLT_FETCH_WHOLE)
        return;
    if (part == PEER_GREETING)
        greeting_in(r, job);
    else if (part == PEER_LIST)
        list_in(r, job);
}

static void job_over(struct rlt *r, uint32_t node, uint64_t number, bool is_none)
{
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(number));
    if (!job || job->node != node || job->driver)
        return;
    if (is_none)
        job_failed(r, job, "its driver has ended, or its files can't be read there");
    rlt_job_end(r, job);
}

void rlt_program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t                 size = record->length - LANE_RECORD_SIZE;
    struct peer_file_want  want;
    struct peer_file_chunk chunk;
    struct peer_file       none;
    struct peer_job        end;
    if (record->kind == PEER_FILE_WANT && size >= sizeof want) {
        memcpy(&want, payload, sizeof want);
        (want.what.env ? rlt_env_wanted : wanted)(r, p->node, &want);
    } else if (record->kind == PEER_FILE_CHUNK && size >= sizeof chunk) {
        memcpy(&chunk, payload, sizeof chunk);
        if (chunk.size <= size - sizeof chunk)
            (chunk.what.env ? rlt_env_chunk : chunk_in)(r, p->node, &chunk, payload + sizeof chunk);
    } else if (record->kind == PEER_FILE_NONE && size >= sizeof none) {
        memcpy(&none, payload, sizeof none);
        if (none.env)
            rlt_env_none(r, p->node, &none);
        else
            job_over(r, p->node, none.job, true);
    } else if (record->kind == PEER_JOB_END && size >= sizeof end) {
        memcpy(&end, payload, sizeof end);
        job_over(r, p->node, end.job, false);
    }
}

/* ---- what the shell says --------------------------------------------------------------------------------------------- */

static void file_ready(struct rlt *r, struct rlt_job *job, const struct rlt_event *e)
{
    if (e->refused)
        job_failed(r, job, e->text ? e->text : "a file of it could not be written");
    else
        program_open(r, job);
}

void rlt_program_event(struct rlt *r, const struct rlt_event *e)
{
    bool is_file = e->kind == RLT_EV_FILE_READY;
    if (is_file && e->file.env) {
        rlt_env_file_ready(r, e);
        return;
    }
    struct rlt_job *job = mt_map_ptr(&r->jobs, mt_map_key(is_file ? e->file.job : e->job));
    if (e->kind == RLT_EV_PROGRAM_LISTED) {
        if (job && job->is_listing)
            program_listed(r, job, e);
    } else if (job && job->program < 0 && !job->driver && job->list && !job->is_ending) {
        (is_file ? file_ready : program_opened)(r, job, e);
    } else if (e->fd >= 0) {
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = e->fd;
    }
}

void rlt_program_node_lost(struct rlt *r, uint32_t node)
{
    MT_MAP_EACH(&r->jobs, entry) {
        struct rlt_job *job = entry->value.ptr;
        if (job->node == node && !job->driver && !job->is_ending)
            rlt_job_end(r, job);
    }
}

void rlt_program_job_free(struct rlt *r, struct rlt_job *job)
{
    if (job->program >= 0)
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = job->program;
    rlt_program_files_close(r, job->files.data, job->files.count);
    rlt_fetch_stop(r, &job->fetch);
    if (job->list && !job->files.count)
        rlt_act(r->out, RLT_A_PROGRAM_DROP)->job = job->job;
}

void rlt_program_fini(struct rlt_job *job)
{
    mt_vec_fini(&job->served);
    mt_vec_fini(&job->listed);
    mt_vec_fini(&job->shunned);
    mt_vec_fini(&job->files);
    free(job->fetch.bytes);
    free(job->list);
}

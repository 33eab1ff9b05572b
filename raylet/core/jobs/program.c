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
#include "raylet/core/fetch/fetch.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/jobs/private.h"
#include "raylet/core/links/links.h"

#include "core/sys/archive.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the driver is here ------------------------------------------------------------------------------------------- */

void rlt_program_files_close(struct rlt *r, struct rlt_program_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rlt_close_fd(r->out, files[i].fd);
}

static void file_add(rlt_program_files *files, const char *path, int take_fd)
{
    struct rlt_program_file file = {.fd = take_fd};
    snprintf(file.path, sizeof file.path, "%s", path);
    if (mt_vec_push(files, file).code)
        rlt_out_of_memory();
}

bool rlt_program_file(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_socket *e)
{
    struct ctl_program_file file;
    memcpy(&file, e->payload, sizeof file);
    file.path[sizeof file.path - 1] = 0;
    if ((e->fd >= 0) == (p->files.count > 0) && !mt_archive_path_wrong(file.path)) { /* the program itself comes first */
        file_add(&p->files, file.path, e->fd);
        return true;
    }
    rlt_close_fd(r->out, e->fd);
    return false;
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
    struct rlt_a_program_list *a = &rlt_act(r->out, RLT_A_PROGRAM_LIST)->program_list;
    struct rlt_program_file   *files = rlt_keep(r->out, job->files.data, job->files.count * sizeof *files);
    files[0].fd = job->program;
    a->job = job->job;
    a->files = files;
    a->count = job->files.count;
    job->is_listing = true;
    return false;
}

static void list_send(struct rlt *r, const struct rlt_job *job, uint32_t node, uint64_t offset)
{
    struct peer_file_want want = {.what = {.job = job->job, .part = PEER_LIST}, .offset = offset};
    rlt_fetch_send_memory(r, node, &want, job->list, job->list_count * sizeof *job->list);
}

const struct rlt_job *rlt_program_listed(struct rlt *r, const struct rlt_ev_program_listed *e)
{
    struct rlt_job  *job = mt_map_ptr(&r->jobs, mt_map_key(e->job));
    struct peer_file what = {.job = e->job, .part = PEER_LIST};
    if (!job || !job->is_listing)
        return NULL;
    job->is_listing = false;
    if (!e->is_refused && e->count == job->files.count) {
        job->list = rlt_calloc(e->count * sizeof *job->list);
        job->list_count = (uint32_t)e->count;
        memcpy(job->list, e->files, e->count * sizeof *job->list);
    }
    while (job->listed.count) {
        uint32_t node = mt_vec_pop(&job->listed);
        if (job->list)
            list_send(r, job, node, 0);
        else
            rlt_fetch_send_none(r, node, &what);
    }
    return job;
}

static void note(rlt_node_list *nodes, uint32_t node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->data[i] == node)
            return;
    if (mt_vec_push(nodes, node).code)
        rlt_out_of_memory();
}

void rlt_program_wanted(struct rlt *r, uint32_t node, const struct peer_file_want *want)
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

/* ---- the end ---- */

void rlt_program_job_free(struct rlt *r, struct rlt_job *job)
{
    rlt_close_fd(r->out, job->program);
    rlt_program_files_close(r, job->files.data, job->files.count);
    rlt_fetch_stop(r, &job->fetch);
    if (job->list && !job->files.count)
        rlt_act(r->out, RLT_A_PROGRAM_DROP)->program_drop.job = job->job;
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

/* The struct alone, in no list or table any more. */
void rlt_job_free(struct rlt *r, struct rlt_job *job)
{
    rlt_timer_clear(r, &job->timer);
    rlt_list_out(&job->in_failing);
    mt_map_remove(&r->jobs, mt_map_key(job->key));
    rlt_program_fini(job);
    free(job->hello);
    free(job);
}

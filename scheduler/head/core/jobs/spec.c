/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.c - what a submitted job may look like. Everything in it comes from a client, and ends up in a raylet's file
 * names and in a process's arguments: so it is checked here, once, before anything is kept.
 */

#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/pace.h"
#include "scheduler/head/core/jobs/private.h"
#include "scheduler/policy/queue.h"

#include <signal.h>

enum { TEXT_MAX = 128 * 1024 /* what Linux allows for one argument */, PATH_MAX_BYTES = 1024, MODES = 0777 };

static const char *check_id(const char *id)
{
    size_t size = strlen(id);
    if (size == 0 || size >= HEAD_JOB_ID_SIZE)
        return "has 1 to 63 bytes";
    if (id[0] == '.' || id[0] == '-')
        return "begins with a letter, a digit or '_'";
    for (const char *c = id; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("_.-", *c)))
            return "has letters, digits, '_', '.' and '-' only";
    return NULL;
}

/* A relative path that stays inside the job's folder. */
static const char *check_path(const char *path)
{
    if (path[0] == '\0' || path[0] == '/')
        return "is a relative path";
    if (strlen(path) >= PATH_MAX_BYTES)
        return "has less than 1024 bytes";
    for (const char *part = path; part;) {
        const char *end = strchr(part, '/');
        size_t      size = end ? (size_t)(end - part) : strlen(part);
        if (size == 0 || (size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
            return "has no empty parts, no '.' and no '..'";
        if (size > 255)
            return "has parts of at most 255 bytes";
        part = end ? end + 1 : NULL;
    }
    return NULL;
}

static const char *check_argv(const job_spec *spec)
{
    if (spec->n_argv == 0 || spec->argv[0][0] == '\0')
        return "argv: names the program to run";
    if (spec->n_argv > MT_HEAD_JOB_ARGS_MAX || spec->n_env > MT_HEAD_JOB_ARGS_MAX)
        return "argv and env: have at most 4096 entries";
    for (size_t i = 0; i < spec->n_argv; i++)
        if (strlen(spec->argv[i]) >= TEXT_MAX)
            return "argv: an argument has less than 128 KiB";
    for (size_t i = 0; i < spec->n_env; i++) {
        const char *equal = strchr(spec->env[i], '=');
        if (!equal || equal == spec->env[i] || strlen(spec->env[i]) >= TEXT_MAX)
            return "env: an entry is NAME=value, of less than 128 KiB";
    }
    return NULL;
}

/* "key=value": the key as in labels of jobs elsewhere, the value one line. */
static const char *check_metadata(const job_spec *spec)
{
    size_t bytes = 0;
    for (size_t i = 0; i < spec->n_metadata; i++) {
        const char *entry = spec->metadata[i];
        size_t      key = strcspn(entry, "="), size = strlen(entry);
        bytes += size + 1;
        if (key == 0 || !entry[key])
            return "metadata: an entry is KEY=VALUE";
        for (size_t k = 0; k < size; k++)
            if ((unsigned char)entry[k] < ' ' || entry[k] == 0x7f || (k < key && entry[k] == ' '))
                return "metadata: a key has no spaces, a value is one line of text";
        for (size_t k = 0; k < i; k++)
            if (strncmp(spec->metadata[k], entry, key + 1) == 0)
                return "metadata: no key comes twice";
    }
    return bytes > MT_HEAD_JOB_METADATA_BYTES ? "metadata: all entries have at most 1024 bytes" : NULL;
}

static const char *check_turn(const job_spec *spec)
{
    if (spec->priority > MT_HEAD_JOB_PRIORITY_MAX || spec->priority < -MT_HEAD_JOB_PRIORITY_MAX)
        return "priority: is -1000 to 1000";
    if (spec->n_after > MT_HEAD_JOB_AFTER_MAX)
        return "waits for at most 64 others; a job of their own may wait for more";
    for (size_t i = 0; i < spec->n_after; i++) {
        const Manta__V1__JobAfter *after = spec->after[i];
        if (after->kind < POLICY_AFTER_OK || after->kind > POLICY_AFTER_NOT_OK)
            return "waits for others by afterok, afterany or afternotok";
        if (strcmp(after->id, spec->id) == 0 || (spec->array_id[0] && strcmp(after->id, spec->array_id) == 0))
            return "can't wait for itself";
    }
    if (spec->array_count > MT_HEAD_ARRAY_MAX)
        return "an array has at most 10000 jobs";
    if (spec->array_most && !spec->array_count)
        return "only of an array so many run at a time";
    return NULL;
}

static const char *check_notice(const job_spec *spec)
{
    if (!spec->signal)
        return spec->notice_ms ? "signal: it is to have time after a notice, and names none" : NULL;
    if (spec->signal > 31 || spec->signal == SIGKILL || spec->signal == SIGSTOP)
        return "signal: a notice is 1 to 31, and none that nobody can catch";
    if (spec->notice_ms < 1000 || spec->notice_ms > MT_HEAD_NOTICE_MS_MAX)
        return "signal: it comes 1 to 600 s before the end";
    return spec->time_ms && spec->notice_ms >= spec->time_ms ? "signal: it would come before the job begins, by its time limit"
                                                             : NULL;
}

static mt_status wrong(char *text, size_t text_size, const char *what, const char *which, const char *rule)
{
    snprintf(text, text_size, "%s \"%.200s\": %s", what, which, rule);
    return mt_error(MT_EINVAL, 0, "check a job");
}

mt_status head_spec_check(const job_spec *spec, char *text, size_t text_size)
{
    const char *rule = check_id(spec->id);
    if (rule)
        return wrong(text, text_size, "job id", spec->id, rule);
    if ((rule = check_argv(spec)))
        return wrong(text, text_size, "job", spec->id, rule);
    if ((rule = check_metadata(spec)))
        return wrong(text, text_size, "job", spec->id, rule);
    if ((rule = check_turn(spec)) || (rule = check_notice(spec)) || (rule = head_pace_check(spec)))
        return wrong(text, text_size, "job", spec->id, rule);
    if (strlen(spec->name) >= MT_NAME_BYTES_MAX)
        return wrong(text, text_size, "job name", spec->name, "has less than 128 bytes");
    if (spec->n_files > MT_HEAD_JOB_FILES_MAX)
        return wrong(text, text_size, "job", spec->id, "has at most 4096 files");
    for (size_t i = 0; i < spec->n_files; i++) {
        const Manta__V1__JobFile *f = spec->files[i];
        if ((rule = check_path(f->path)))
            return wrong(text, text_size, "file", f->path, rule);
        if (f->sha256.len != HEAD_SHA_SIZE)
            return wrong(text, text_size, "file", f->path, "its SHA-256 has 32 bytes");
        if (f->mode & ~(uint32_t)MODES)
            return wrong(text, text_size, "file", f->path, "its mode has permission bits only");
    }
    return mt_ok();
}

mt_status head_spec_request(struct head *h, const job_spec *spec, struct policy_request *out, char *text, size_t text_size)
{
    mt_status st = head_resources_to_request(h, spec->resources, spec->n_resources, out, text, text_size);
    out->is_driver = true;
    if (st.code == 0 && spec->node) {
        out->policy = POLICY_NODE;
        out->node = spec->node;
    }
    return st;
}

mt_status head_spec_copy(const job_spec *spec, job_spec **out_spec)
{
    struct head_bytes *bytes = head_bytes_pack(&spec->base);
    job_spec          *copy = bytes ? manta__v1__job_spec__unpack(NULL, bytes->size, bytes->data) : NULL;
    head_bytes_unref(bytes);
    if (!copy)
        return mt_error(MT_ENOMEM, 0, "copy a job");
    *out_spec = copy;
    return mt_ok();
}

/* Fields that a newer client may have added count as well. */
bool head_spec_equal(const job_spec *a, const job_spec *b)
{
    struct head_bytes *x = head_bytes_pack(&a->base), *y = head_bytes_pack(&b->base);
    bool               equal = x && y && x->size == y->size && memcmp(x->data, y->data, x->size) == 0;
    head_bytes_unref(x);
    head_bytes_unref(y);
    return equal;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * bring.c - asking other machines for their checkpoints: which there are, and their files piece by piece.
 *
 * Owns: the calls while they are asked. Thread: the caller's; the tasks' is a process on the machine that is asked.
 */
#include "sgd/apart/apart.h"

#include "clients/roster/roster.h"
#include "core/base/clock.h"
#include "sgd/ground/file.h"

#include <manta.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 50, STEPS_EACH = 64, STEPS_MAX = 4096, SAID_BYTES = 96 };
#define BROUGHT "optimizer-brought" /* what a killed one leaves is removed with the parts of its folder */

/* What stands before a piece. */
struct sgd_apart_piece {
    int32_t  code, sys;
    uint64_t size; /* of the file */
};

/* ---- on the machine that is asked ---- */

static manta_status manta_sgd_apart_steps(manta_ctx *c, int argc, const manta_arg *argv)
{
    uint64_t steps[STEPS_EACH];
    (void)argc;
    size_t count = sgd_checkpoint_steps(argv[0].y.data, steps, STEPS_EACH);
    return manta_return_bytes(c, steps, count * sizeof *steps);
}
MANTA_REGISTER(manta_sgd_apart_steps, "s>y");

static bool is_plain(const char *name)
{
    return name[0] && !strchr(name, '/') && strcmp(name, "..") != 0;
}

static bool is_there(int dir, const char *name)
{
    return name[0] && faccessat(dir, name, F_OK, 0) == 0;
}

/* A file of that folder, or what stands there in its place. ENOENT: neither. */
static mt_status file_open(int dir, const manta_arg *names, int *out_fd, uint64_t *out_size)
{
    const char *file = names[0].y.data;
    struct stat info;
    *out_fd = is_plain(file) ? openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (*out_fd >= 0 && fstat(*out_fd, &info) == 0 && S_ISREG(info.st_mode)) {
        *out_size = (uint64_t)info.st_size;
        return mt_ok();
    }
    if (is_there(dir, names[1].y.data))
        return mt_error(MT_EDISK_FULL, ENOSPC, "");
    if (is_there(dir, names[2].y.data))
        return mt_error(MT_ESYS, 0, "");
    return mt_error(MT_ENOENT, 0, "");
}

/* Reads a piece of the file in the first of the two folders that has it. */
static mt_status piece_read(const manta_arg *argv, uint64_t at, void *out, struct sgd_apart_piece *head)
{
    mt_status st = mt_error(MT_ENOENT, 0, "");
    int       top, dir, fd = -1;
    MT_TRY(sgd_file_open_dir(AT_FDCWD, argv[0].y.data, &top));
    for (int i = 1; i <= 2 && st.code == MT_ENOENT; i++) {
        const char *name = argv[i].y.data;
        if (!is_plain(name) || sgd_file_open_dir(top, name, &dir).code != MT_OK)
            continue;
        st = file_open(dir, argv + 3, &fd, &head->size);
        uint64_t left = st.code == MT_OK && at < head->size ? head->size - at : 0;
        if (left)
            st = sgd_file_read(fd, out, left < MT_TRAIN_PIECE_BYTES ? (size_t)left : MT_TRAIN_PIECE_BYTES, at);
        if (fd >= 0)
            close(fd);
        close(dir);
    }
    close(top);
    return st;
}

static manta_status manta_sgd_apart_piece(manta_ctx *c, int argc, const manta_arg *argv)
{
    struct sgd_apart_piece *head = calloc(1, sizeof *head + MT_TRAIN_PIECE_BYTES);
    uint64_t                at = argv[6].u;
    (void)argc;
    if (!head)
        return manta_fail(c, MANTA_ENOMEM, "no memory for a piece of a checkpoint");
    mt_status st = piece_read(argv, at, head + 1, head);
    uint64_t  left = st.code == MT_OK && at < head->size ? head->size - at : 0;
    head->code = st.code;
    head->sys = st.sys;
    manta_status code = manta_return_bytes(c, head,
                                           sizeof *head + (size_t)(left < MT_TRAIN_PIECE_BYTES ? left : MT_TRAIN_PIECE_BYTES));
    free(head);
    return code;
}
MANTA_REGISTER(manta_sgd_apart_piece, "ssssssu>y");

/* ---- who asks ---- */

static manta_task_opts only_on(uint32_t node)
{
    return (manta_task_opts){.node = node, .no_cpu = true, .max_retries = MANTA_NO_RETRY};
}

static manta_ref *piece_ask(const char *folder, const struct sgd_bring *what, uint64_t at)
{
    manta_task_opts opts = only_on(what->node);
    const char     *second = what->names[1] ? what->names[1] : "", *full = what->refusals[0], *failed = what->refusals[1];
    return manta_call("manta_sgd_apart_piece", &opts,
                      MANTA_ARGS(manta_str(folder), manta_str(what->names[0]), manta_str(second), manta_str(what->file),
                                 manta_str(full ? full : ""), manta_str(failed ? failed : ""), manta_u64(at)));
}

/* An answer, waited for in pieces of time: in between this worker says that it lives, and a save that is given up ends. */
static manta_status answer_wait(manta_ref *ref, int64_t limit_ms, const struct sgd_beat *life, const _Atomic bool *given_up,
                                manta_view *out)
{
    manta_error  e;
    manta_status code;
    do {
        if (given_up && atomic_load(given_up))
            return MANTA_ECANCELLED;
        code = manta_get(ref, LOOK_MS, out, &e);
        if (code == MANTA_ETIMEDOUT && life && life->beat)
            life->beat(life->user);
    } while (code == MANTA_ETIMEDOUT && mt_now_ms() < limit_ms);
    return code;
}

static mt_status piece_await(manta_ref *ref, const struct sgd_bring *what, manta_view *out)
{
    manta_status code = answer_wait(ref, mt_now_ms() + MT_TRAIN_APART_MS, NULL, what->given_up, out);
    if (code == MANTA_ECANCELLED)
        return mt_error(MT_ECANCELLED, 0, "save checkpoint: the group changed before all parts were brought");
    return code ? mt_error(code, 0, "bring a checkpoint's file from another machine") : mt_ok();
}

/* A piece is written, or says why it is none. */
static mt_status piece_take(const manta_view *view, uint64_t at, int fd, uint64_t *out_size)
{
    struct sgd_apart_piece head;
    if (view->size < sizeof head)
        return mt_error(MT_EPROTO, 0, "another machine's checkpoint: something else was given");
    memcpy(&head, view->data, sizeof head);
    if (head.code)
        return mt_error(head.code, head.sys, "another machine's part of a checkpoint");
    uint64_t left = at < head.size ? head.size - at : 0, size = view->size - sizeof head;
    if (size != (left < MT_TRAIN_PIECE_BYTES ? left : MT_TRAIN_PIECE_BYTES))
        return mt_error(MT_EPROTO, 0, "another machine's checkpoint: a piece of another size");
    *out_size = head.size;
    return sgd_file_write(fd, (const char *)view->data + sizeof head, (size_t)size);
}

/* The next piece is on its way while one is written. */
static mt_status pieces_take(const char *folder, const struct sgd_bring *what, int fd)
{
    manta_ref *now = piece_ask(folder, what, 0), *ahead = NULL;
    uint64_t   size = 1;
    mt_status  st = mt_ok();
    for (uint64_t at = 0; at < size && st.code == MT_OK; at += MT_TRAIN_PIECE_BYTES) {
        manta_view view = {0};
        st = piece_await(now, what, &view);
        if (st.code == MT_OK && view.size == sizeof(struct sgd_apart_piece) + MT_TRAIN_PIECE_BYTES)
            ahead = piece_ask(folder, what, at + MT_TRAIN_PIECE_BYTES); /* there may be none */
        if (st.code == MT_OK)
            st = piece_take(&view, at, fd, &size);
        manta_release(&view);
        manta_free(now);
        now = ahead;
        ahead = NULL;
    }
    manta_free(now);
    return st;
}

mt_status sgd_apart_bring(void *user, const struct sgd_bring *what)
{
    int fd = openat(what->dir, BROUGHT, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return sgd_file_error(errno, "make a file for another machine's part of a checkpoint");
    mt_status st = pieces_take(user, what, fd);
    if (st.code == MT_OK)
        st = sgd_file_finish(fd);
    else
        close(fd);
    if (st.code == MT_OK && renameat(what->dir, BROUGHT, what->dir, what->file) != 0)
        st = sgd_file_error(errno, "name another machine's part of a checkpoint");
    if (st.code != MT_OK)
        unlinkat(what->dir, BROUGHT, 0);
    return st;
}

/* ---- which there are ---- */

/* What all other machines have below a folder. */
struct found {
    struct sgd_elsewhere elsewhere; /* points into this */
    uint64_t             steps[STEPS_MAX];
    uint32_t             nodes[MT_TRAIN_NODES_MAX];
    char                 said[SAID_BYTES];
    bool                 is_silent; /* a node that should have answered is among these */
};

static void said_add(struct found *out, uint32_t node, bool is_alive)
{
    out->is_silent = out->is_silent || is_alive;
    size_t used = strlen(out->said);
    snprintf(out->said + used, sizeof out->said - used, "%s%u", used ? ", " : "no answer from node ", node);
}

static void answer_add(struct found *out, uint32_t node, const manta_view *view)
{
    size_t count = view->size / sizeof(uint64_t), room = STEPS_MAX - out->elsewhere.steps_count;
    count = count < room ? count : room;
    if (count == 0 || out->elsewhere.nodes_count == MT_TRAIN_NODES_MAX)
        return;
    memcpy(out->steps + out->elsewhere.steps_count, view->data, count * sizeof(uint64_t));
    out->elsewhere.steps_count += count;
    out->nodes[out->elsewhere.nodes_count++] = node;
}

static void look(const char *folder, const struct sgd_beat *life, struct found *out)
{
    manta_error      e;
    int              count;
    manta_node_info *nodes = roster_list(&count, &e);
    manta_ref      **asked = nodes ? calloc((size_t)count, sizeof *asked) : NULL;
    int64_t          limit_ms = mt_now_ms() + MT_TRAIN_APART_MS;
    out->said[0] = 0;
    out->is_silent = false;
    out->elsewhere = (struct sgd_elsewhere){
        .steps = out->steps, .nodes = out->nodes, .said = out->said, .bring = sgd_apart_bring, .user = (void *)(uintptr_t)folder};
    for (int i = 0; asked && i < count; i++) {
        manta_task_opts opts = only_on(nodes[i].node);
        if (nodes[i].alive && nodes[i].node != manta_node())
            asked[i] = manta_call("manta_sgd_apart_steps", &opts, MANTA_ARGS(manta_str(folder)));
    }
    for (int i = 0; asked && i < count; i++) {
        manta_view view = {0};
        if (asked[i] && answer_wait(asked[i], limit_ms, life, NULL, &view) == MANTA_OK)
            answer_add(out, nodes[i].node, &view);
        else if (nodes[i].node != manta_node())
            said_add(out, nodes[i].node, nodes[i].alive);
        manta_release(&view);
        manta_free(asked[i]);
    }
    free(asked);
    free(nodes);
}

mt_status sgd_apart_resume(struct sgd_trainer *trainer, const char *folder, bool asks_others, struct sgd_checkpoint_report *report)
{
    struct sgd_beat life = {sgd_pulse_beat, trainer->pulse};
    struct found   *found = asks_others ? malloc(sizeof *found) : NULL;
    if (found)
        look(folder, &life, found);
    trainer->elsewhere = found ? &found->elsewhere : NULL;
    mt_status st = sgd_trainer_resume(trainer, folder, report);
    trainer->elsewhere = NULL;
    if (found && found->is_silent)
        snprintf(report->silent, sizeof report->silent, "%.*s", (int)sizeof report->silent - 1, found->said);
    free(found);
    return st;
}

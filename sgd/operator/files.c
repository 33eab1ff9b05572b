/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - the actor that gives mapped files away, and who asks it. See files.h.
 *
 * Owns: the actor's list; a worker's calls while it asks. Thread: the actor's; the worker's.
 */
#include "sgd/operator/files.h"

#include "core/base/limits/net.h"
#include "sgd/ground/file.h"
#include "sgd/ground/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert((int)SGD_KEPT_PATH_BYTES == (int)SGD_MAPPED_BYTES, "a path of the one is one of the other");

struct sgd_file_sum {
    uint64_t size;
    uint8_t  sum[MT_SHA256_SIZE];
};

static void name_of(uint64_t group, char out[64])
{
    snprintf(out, 64, SGD_FILES_TYPE "/%016llx", (unsigned long long)group);
}

/* ---- the actor ---- */

struct files {
    uint32_t            count;
    char               *list; /* a name and a path, each with its end, for each file */
    const char         *names[SGD_MAPPED_MAX], *paths[SGD_MAPPED_MAX];
    struct sgd_file_sum sums[SGD_MAPPED_MAX];
    bool                has_sum[SGD_MAPPED_MAX];
};

static void files_free(void *self)
{
    free(((struct files *)self)->list);
    free(self);
}

static manta_status files_new(manta_ctx *c, void **self, int argc, const manta_arg *argv)
{
    struct files *f = calloc(1, sizeof *f);
    (void)argc;
    if (!f || !(f->list = malloc(argv[0].y.size + 1))) {
        free(f);
        return manta_fail(c, MANTA_ENOMEM, "no memory for a list of files");
    }
    memcpy(f->list, argv[0].y.data, argv[0].y.size);
    f->list[argv[0].y.size] = 0;
    for (const char *at = f->list; at < f->list + argv[0].y.size && f->count < SGD_MAPPED_MAX; f->count++) {
        f->names[f->count] = at;
        at += strlen(at) + 1;
        f->paths[f->count] = at;
        at += strlen(at) + 1;
    }
    *self = f;
    return MANTA_OK;
}

static manta_status files_names(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    const struct files *f = self;
    char                all[SGD_MAPPED_MAX * SGD_KEPT_PATH_BYTES];
    size_t              size = 0;
    (void)argc, (void)argv;
    for (uint32_t i = 0; i < f->count; i++) {
        memcpy(all + size, f->names[i], strlen(f->names[i]) + 1);
        size += strlen(f->names[i]) + 1;
    }
    return manta_return_bytes(c, all, size);
}

static mt_status sum_up(const char *path, struct sgd_file_sum *out)
{
    struct stat info;
    mt_sha256   sha;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    char       *piece = malloc(MT_TRAIN_PIECE_BYTES);
    mt_status   st = fd < 0 || fstat(fd, &info) != 0 ? sgd_file_error(errno, "open the file")
                     : piece                         ? mt_ok()
                                                     : mt_error(MT_ENOMEM, 0, "no memory to sum up a file");
    mt_sha256_init(&sha);
    out->size = st.code == MT_OK ? (uint64_t)info.st_size : 0;
    for (uint64_t at = 0; at < out->size && st.code == MT_OK; at += MT_TRAIN_PIECE_BYTES) {
        size_t n = out->size - at < MT_TRAIN_PIECE_BYTES ? (size_t)(out->size - at) : MT_TRAIN_PIECE_BYTES;
        st = sgd_file_read(fd, piece, n, at);
        mt_sha256_add(&sha, piece, st.code == MT_OK ? n : 0);
    }
    mt_sha256_end(&sha, out->sum);
    if (fd >= 0)
        close(fd);
    free(piece);
    return st;
}

static manta_status fail_of(manta_ctx *c, const char *path, mt_status st)
{
    char text[SGD_TEXT_BYTES];
    return manta_fail(c, st.code, "%.200s: %s", path, sgd_status_text(st, text));
}

static manta_status files_sum(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    struct files *f = self;
    uint64_t      which = argv[0].u;
    (void)argc;
    if (which >= f->count)
        return manta_fail(c, MANTA_EINVAL, "the run has no such file");
    mt_status st = f->has_sum[which] ? mt_ok() : sum_up(f->paths[which], &f->sums[which]);
    f->has_sum[which] = st.code == MT_OK;
    return st.code ? fail_of(c, f->paths[which], st) : manta_return_bytes(c, &f->sums[which], sizeof f->sums[which]);
}

static manta_status files_piece(manta_ctx *c, void *self, int argc, const manta_arg *argv)
{
    const struct files *f = self;
    uint64_t            which = argv[0].u, at = argv[1].u;
    (void)argc;
    if (which >= f->count || !f->has_sum[which] || at >= f->sums[which].size)
        return manta_fail(c, MANTA_EINVAL, "the run has no such file, or it is not so long");
    uint64_t  left = f->sums[which].size - at;
    size_t    size = left < MT_TRAIN_PIECE_BYTES ? (size_t)left : MT_TRAIN_PIECE_BYTES;
    char     *piece = malloc(size);
    int       fd = open(f->paths[which], O_RDONLY | O_CLOEXEC);
    mt_status st = fd < 0 ? sgd_file_error(errno, "open the file") : piece ? mt_ok() : mt_error(MT_ENOMEM, 0, "no memory");
    if (st.code == MT_OK)
        st = sgd_file_read(fd, piece, size, at);
    manta_status code = st.code ? fail_of(c, f->paths[which], st) : manta_return_bytes(c, piece, size);
    if (fd >= 0)
        close(fd);
    free(piece);
    return code;
}

MANTA_ACTOR(manta_sgd_files, "y", files_new, files_free, {"names", ">y", files_names}, {"sum", "u>y", files_sum},
            {"piece", "uu>y", files_piece});

manta_actor *sgd_files_offer(uint64_t group, const manta_sgd *op)
{
    char   list[2 * SGD_MAPPED_MAX * SGD_KEPT_PATH_BYTES], path[PATH_MAX], name[64];
    size_t size = 0;
    for (uint32_t i = 0; i < op->mapped_count; i++) {
        if (!realpath(op->mapped[i], path) || strlen(path) >= SGD_KEPT_PATH_BYTES)
            continue;
        size += (size_t)snprintf(list + size, sizeof list - size, "%s", op->mapped[i]) + 1;
        size += (size_t)snprintf(list + size, sizeof list - size, "%s", path) + 1;
    }
    name_of(group, name);
    return size ? manta_actor_new(SGD_FILES_TYPE, &(manta_actor_opts){.node = manta_node(), .name = name},
                                  MANTA_ARGS(manta_bytes_of(list, size)))
                : NULL;
}

/* ---- a worker ---- */

/* A file that comes piece by piece: while one is written, the next is on its way. */
struct asker {
    manta_actor *actor;
    uint32_t     which;
    uint64_t     size, ahead_at;
    manta_ref   *ahead;
    manta_error  e;
};

/* Takes an answer of `size` bytes, or of any (`size` 0) up to `*out_size`. */
static mt_status answer_take(manta_ref *take_ref, void *out, size_t size, size_t *out_size, manta_error *e)
{
    manta_view   view = {0};
    manta_status code = manta_get(take_ref, MT_TRAIN_DATA_MS, &view, e);
    mt_status    st = code ? mt_error(code, 0, e->message) : mt_ok();
    if (st.code == MT_OK && (out_size ? view.size > size : view.size != size))
        st = mt_error(MT_EPROTO, 0, "the driver's node gives something else");
    if (st.code == MT_OK)
        memcpy(out, view.data, view.size);
    if (out_size)
        *out_size = view.size;
    manta_release(&view);
    manta_free(take_ref);
    return st;
}

static manta_ref *piece_ask(const struct asker *a, uint64_t at)
{
    return manta_actor_call(a->actor, "piece", MANTA_ARGS(manta_u64(a->which), manta_u64(at)));
}

static mt_status piece_read(void *user, uint64_t at, void *out, size_t size)
{
    struct asker *a = user;
    manta_ref    *now = a->ahead && a->ahead_at == at ? a->ahead : piece_ask(a, at);
    a->ahead = NULL;
    if (at + size < a->size)
        a->ahead = piece_ask(a, a->ahead_at = at + size);
    return answer_take(now, out, size, NULL, &a->e);
}

static mt_status file_take(struct asker *a, const char *name, struct sgd_kept *kept, struct sgd_moved *out)
{
    struct sgd_file_sum sum;
    MT_TRY(answer_take(manta_actor_call(a->actor, "sum", MANTA_ARGS(manta_u64(a->which))), &sum, sizeof sum, NULL, &a->e));
    a->size = sum.size;
    mt_status st = sgd_kept_get(kept, sum.sum, sum.size, piece_read, a, out->to[out->count]);
    manta_free(a->ahead);
    a->ahead = NULL;
    if (st.code == MT_OK)
        snprintf(out->from[out->count++], SGD_MAPPED_BYTES, "%.*s", SGD_MAPPED_BYTES - 1, name);
    return st;
}

static mt_status missing_take(struct asker *a, const char *names, size_t size, struct sgd_moved *out, char text[SGD_OPERATOR_TEXT])
{
    struct sgd_kept kept;
    for (const char *name = names; name < names + size && a->which < SGD_MAPPED_MAX; name += strlen(name) + 1, a->which++) {
        char why[SGD_TEXT_BYTES];
        if (access(name, R_OK) == 0)
            continue;
        mt_status st = sgd_kept_open(&kept, NULL, (uint64_t)MT_TRAIN_DATA_MIB_MAX << 20);
        if (st.code == MT_OK)
            st = file_take(a, name, &kept, out);
        snprintf(text, SGD_OPERATOR_TEXT, "%.200s is not on this node, and did not come from the driver's: %.120s", name,
                 sgd_status_text(st, why));
        sgd_kept_close(&kept);
        if (st.code != MT_OK)
            return mt_error(st.code, 0, text);
    }
    return mt_ok();
}

mt_status sgd_files_take(uint64_t group, struct sgd_moved *out, char text[SGD_OPERATOR_TEXT])
{
    struct asker a = {.which = 0};
    char         names[SGD_MAPPED_MAX * SGD_KEPT_PATH_BYTES], name[64];
    size_t       size = 0;
    name_of(group, name);
    a.actor = manta_actor_find(name, MT_CALL_MS, &a.e);
    mt_status st = a.actor ? answer_take(manta_actor_call(a.actor, "names", MANTA_NO_ARGS), names, sizeof names, &size, &a.e)
                           : mt_error(a.e.code, 0, a.e.message);
    if (st.code == MT_OK && (size == 0 || names[size - 1]))
        st = mt_error(MT_EPROTO, 0, "the list of the run's files is cut short");
    if (st.code != MT_OK) {
        snprintf(text, SGD_OPERATOR_TEXT, "the list of the run's files did not come from the driver's node: %.200s", st.what);
        st = mt_error(st.code, 0, text);
    } else {
        st = missing_take(&a, names, size, out, text);
    }
    manta_actor_free(a.actor);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - see output.h. Owns: lines that have begun, and files.
 */
#include "clients/gang/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

mt_status gng_output_open(struct gng_output *o, const char *dir, int bare, int count)
{
    *o = (struct gng_output){.dir = dir, .bare = bare, .count = count, .of = calloc((size_t)count, sizeof *o->of)};
    if (!o->of)
        return mt_error(MT_ENOMEM, 0, "keep what ranks print");
    if (dir && mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mt_error(MT_ESYS, errno, "make the folder for output");
    return mt_ok();
}

void gng_output_close(struct gng_output *o)
{
    for (int i = 0; o->of && i < o->count; i++)
        for (int k = 0; k < 2; k++) {
            mt_buf_fini(&o->of[i].line[k]);
            if (o->of[i].file[k])
                fclose(o->of[i].file[k]);
        }
    free(o->of);
    *o = (struct gng_output){0};
}

static mt_status written(bool is_done)
{
    return is_done ? mt_ok() : mt_error(errno == ENOSPC ? MT_EDISK_FULL : MT_ESYS, errno, "write what a rank printed");
}

static void tail_take(struct gng_printed *p, mt_view bytes)
{
    size_t skipped = bytes.size > sizeof p->tail ? bytes.size - sizeof p->tail : 0;
    p->tail_at += skipped;
    for (size_t i = skipped; i < bytes.size; i++)
        p->tail[p->tail_at++ % sizeof p->tail] = (char)bytes.data[i];
}

/* ---- files ---- */

static mt_status file_write(struct gng_output *o, int rank, int stream, mt_view bytes)
{
    static const char *const names[2] = {"out", "err"};
    struct gng_printed      *p = &o->of[rank];
    char                     path[4096];
    if (!p->file[stream]) {
        snprintf(path, sizeof path, "%.4000s/rank-%d.%s", o->dir, rank, names[stream]);
        p->file[stream] = fopen(path, "ae");
    }
    if (!p->file[stream])
        return written(false);
    return written(fwrite(bytes.data, 1, bytes.size, p->file[stream]) == bytes.size && fflush(p->file[stream]) == 0);
}

/* ---- lines ---- */

static FILE *stream_of(const struct gng_output *o, int rank, int stream)
{
    return stream || (o->bare >= 0 && rank != o->bare) ? stderr : stdout;
}

static mt_status line_print(struct gng_output *o, int rank, int stream, mt_view rest)
{
    struct gng_printed *p = &o->of[rank];
    FILE               *to = stream_of(o, rank, stream);
    mt_buf              line = p->line[stream];
    p->line[stream].size = 0;
    bool ok = (o->bare >= 0 && to == stdout) || fprintf(to, "[%d] ", rank) > 0;
    ok = ok && fwrite(line.data ? (const void *)line.data : "", 1, line.size, to) == line.size &&
         fwrite(rest.size ? (const void *)rest.data : "", 1, rest.size, to) == rest.size && fputc('\n', to) != EOF;
    return written(ok);
}

static mt_status lines_take(struct gng_output *o, int rank, int stream, mt_view bytes)
{
    struct gng_printed *p = &o->of[rank];
    while (bytes.size > 0) {
        const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
        size_t         part = end ? (size_t)(end - bytes.data) : bytes.size;
        if (!end && p->line[stream].size + part < MT_GANG_PART_BYTES)
            return mt_buf_append(&p->line[stream], bytes.data, part);
        MT_TRY(line_print(o, rank, stream, mt_view_of(bytes.data, part)));
        part += end != NULL;
        bytes = mt_view_of(bytes.data + part, bytes.size - part);
    }
    return mt_ok();
}

mt_status gng_output_take(struct gng_output *o, int rank, int stream, mt_view bytes)
{
    if (rank < 0 || rank >= o->count)
        return mt_ok();
    tail_take(&o->of[rank], bytes);
    if (o->dir)
        return file_write(o, rank, stream, bytes);
    MT_TRY(lines_take(o, rank, stream, bytes));
    return written(fflush(stream_of(o, rank, stream)) == 0);
}

mt_status gng_output_end(struct gng_output *o, int rank)
{
    if (rank < 0 || rank >= o->count || o->dir)
        return mt_ok();
    for (int stream = 0; stream < 2; stream++)
        if (o->of[rank].line[stream].size)
            MT_TRY(line_print(o, rank, stream, (mt_view){0}));
    return written(fflush(stdout) == 0);
}

void gng_output_tail(const struct gng_output *o, int rank, char *out, size_t size)
{
    const struct gng_printed *p = &o->of[rank];
    size_t                    kept = p->tail_at < sizeof p->tail ? p->tail_at : sizeof p->tail, lines = 0;
    char                      text[MT_GANG_TAIL_BYTES + 1];
    for (size_t i = 0; i < kept; i++) {
        char byte = p->tail[(p->tail_at - kept + i) % sizeof p->tail];
        text[i] = byte ? byte : '?';
    }
    while (kept && text[kept - 1] == '\n')
        kept--;
    text[kept] = 0;
    size_t from = kept;
    while (from > 0 && !(text[from - 1] == '\n' && ++lines == MT_GANG_TAIL_LINES))
        from--;
    snprintf(out, size, "%s%s", text + from, kept ? "\n" : "");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - a run's reports as lines of a CSV file: each step once, however often its run was interrupted.
 *
 * A driver that died, or a run that lost its workers, makes steps again that are logged already. So what stands there of later
 * steps than the state that is gone on with is cut off. A run that begins anew finds another's lines: they are put aside, as
 * FILE.old.
 *
 * Owns: the file. Thread: the main one.
 */
#include "clients/cli/train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char what_it_is[] = "the CSV log";

bool train_csv_open(struct train_csv *csv, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    *csv = (struct train_csv){.path = path, .file.out = {.fd = fd, .end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END)}};
    return fd >= 0;
}

void train_csv_close(struct train_csv *csv)
{
    train_file_close(&csv->file, what_it_is);
}

/* Of a whole line "time,what,step,..."; -1: it has none, as the head. */
static int64_t step_of(const char *line)
{
    const char *what = strchr(line, ','), *step = what ? strchr(what + 1, ',') : NULL;
    char       *end = NULL;
    long long   value = step ? strtoll(step + 1, &end, 10) : -1;
    return end && end > step + 1 && *end == ',' ? value : -1;
}

/* Where the first line of a later step than `from` begins, or one that was not finished; and how many lines of steps there are.
 * NULL: it is empty. */
static off_t later_find(FILE *take_file, int64_t from, int64_t *out_lines)
{
    FILE   *file = take_file;
    char   *line = NULL;
    size_t  room = 0;
    ssize_t size;
    off_t   at = 0;
    bool    is_found = false;
    *out_lines = 0;
    while (file && (size = getline(&line, &room, file)) > 0) {
        is_found = is_found || line[size - 1] != '\n' || step_of(line) > from;
        at += is_found ? 0 : size;
        *out_lines += step_of(line) >= 0;
    }
    free(line);
    if (file)
        fclose(file);
    return at;
}

static bool put_aside(struct train_csv *csv)
{
    char old[4096];
    if ((size_t)snprintf(old, sizeof old, "%s.old", csv->path) >= sizeof old) {
        errno = ENAMETOOLONG;
        return false;
    }
    const char *path = csv->path;
    train_csv_close(csv);
    csv->columns = 0;
    return rename(path, old) == 0 && train_csv_open(csv, path);
}

/* The run goes on behind this step. */
static bool goes_on(struct train_csv *csv, int64_t from)
{
    struct mt_append *out = &csv->file.out;
    int64_t           lines, lines_waiting;
    off_t             at = later_find(fopen(csv->path, "re"), from, &lines);
    FILE             *late = out->waiting.size ? fmemopen(out->waiting.data, out->waiting.size, "r") : NULL;
    off_t             waiting = later_find(late, from, &lines_waiting);
    bool              is_anothers = from <= 0 && lines > 0 && !csv->has_begun;
    bool              ok = is_anothers ? put_aside(csv) : ftruncate(out->fd, at) == 0;
    csv->has_begun = true;
    if (!ok || is_anothers)
        return ok;
    out->waiting.size = at < out->end ? 0 : (size_t)waiting; /* which come behind what is in the file */
    out->end = at;
    return true;
}

static bool head_write(FILE *to, const manta_sgd_event *event)
{
    bool ok = fprintf(to, "time,what,step,workers,samples_per_s,data_wait,lr,recovery_s") > 0;
    for (int i = 0; i < event->metrics && ok; i++)
        ok = fprintf(to, ",%s", event->names[i]) > 0;
    return ok && fputc('\n', to) != EOF;
}

static bool line_write(struct train_csv *csv, FILE *to, const manta_sgd_event *event)
{
    const char *what = event->kind == MANTA_SGD_STEP ? "train" : event->kind == MANTA_SGD_VALIDATED ? "validate" : "recovered";
    bool        ok = true;
    if (csv->columns == 0 && csv->file.out.end == 0 && csv->file.out.waiting.size == 0)
        ok = head_write(to, event);
    csv->columns = event->metrics ? event->metrics : csv->columns;
    ok = ok &&
         fprintf(to, "%lld,%s,%lld,%d,%.1f,%.4f,%.9g,%.6f", (long long)time(NULL), what, (long long)event->step, event->workers,
                 event->samples_per_s, event->data_wait, event->lr, event->recovery ? event->recovery->total_s : 0.0) > 0;
    for (int i = 0; i < csv->columns && ok; i++)
        ok = event->metrics ? fprintf(to, ",%.9g", event->values[i]) > 0 : fputc(',', to) != EOF;
    return ok && fputc('\n', to) != EOF;
}

void train_csv_event(struct train_csv *csv, const manta_sgd_event *event)
{
    bool   is_begun = event->kind == MANTA_SGD_BEGUN, ok = true;
    char  *text = NULL;
    size_t size = 0;
    if (csv->file.out.fd < 0)
        return;
    if (is_begun || !csv->has_begun) /* who follows a detached run late has missed its begin */
        ok = goes_on(csv, is_begun ? event->step : event->step - 1);
    FILE *to = ok && !is_begun ? open_memstream(&text, &size) : NULL;
    if (ok && !is_begun) {
        ok = to && line_write(csv, to, event);
        ok = to && fclose(to) == 0 && ok;
    }
    if (!ok)
        train_file_fail(&csv->file, what_it_is, errno);
    else if (size)
        train_file_put(&csv->file, what_it_is, text, size);
    free(text);
}

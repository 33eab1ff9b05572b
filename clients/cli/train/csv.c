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
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool train_csv_open(struct train_csv *csv, const char *path)
{
    *csv = (struct train_csv){.path = path, .file = fopen(path, "a+e")};
    return csv->file != NULL;
}

void train_csv_close(struct train_csv *csv)
{
    if (csv->file)
        fclose(csv->file);
    csv->file = NULL;
}

static void failed(struct train_csv *csv)
{
    fprintf(stderr, "manta train: the CSV log ends here: %s\n", strerror(errno));
    train_csv_close(csv);
}

/* Of a whole line "time,what,step,..."; -1: it has none, as the head. */
static int64_t step_of(const char *line)
{
    const char *what = strchr(line, ','), *step = what ? strchr(what + 1, ',') : NULL;
    char       *end = NULL;
    long long   value = step ? strtoll(step + 1, &end, 10) : -1;
    return end && end > step + 1 && *end == ',' ? value : -1;
}

/* Where the first line of a later step than `from` begins, or one that was not finished; and how many lines of steps there are. */
static off_t later_find(FILE *file, int64_t from, int64_t *out_lines)
{
    char   *line = NULL;
    size_t  room = 0;
    ssize_t size;
    off_t   at = 0;
    bool    is_found = false;
    *out_lines = 0;
    rewind(file);
    while ((size = getline(&line, &room, file)) > 0) {
        is_found = is_found || line[size - 1] != '\n' || step_of(line) > from;
        at += is_found ? 0 : size;
        *out_lines += step_of(line) >= 0;
    }
    free(line);
    return at;
}

static bool put_aside(struct train_csv *csv)
{
    char old[4096];
    if ((size_t)snprintf(old, sizeof old, "%s.old", csv->path) >= sizeof old) {
        errno = ENAMETOOLONG;
        return false;
    }
    fclose(csv->file);
    csv->file = NULL;
    csv->columns = 0;
    if (rename(csv->path, old) == 0)
        csv->file = fopen(csv->path, "a+e");
    return csv->file != NULL;
}

/* The run goes on behind this step. */
static bool goes_on(struct train_csv *csv, int64_t from)
{
    int64_t lines;
    off_t   at = later_find(csv->file, from, &lines);
    bool    is_anothers = from <= 0 && lines > 0 && !csv->has_begun;
    csv->has_begun = true;
    return is_anothers ? put_aside(csv) : ftruncate(fileno(csv->file), at) == 0 && fseek(csv->file, 0, SEEK_END) == 0;
}

static bool head_write(struct train_csv *csv, const manta_sgd_event *event)
{
    bool ok = fprintf(csv->file, "time,what,step,workers,samples_per_s,data_wait,lr,recovery_s") > 0;
    for (int i = 0; i < event->metrics && ok; i++)
        ok = fprintf(csv->file, ",%s", event->names[i]) > 0;
    return ok && fputc('\n', csv->file) != EOF;
}

static bool line_write(struct train_csv *csv, const manta_sgd_event *event)
{
    const char *what = event->kind == MANTA_SGD_STEP ? "train" : event->kind == MANTA_SGD_VALIDATED ? "validate" : "recovered";
    bool        ok = true;
    if (csv->columns == 0 && ftell(csv->file) == 0)
        ok = head_write(csv, event);
    csv->columns = event->metrics ? event->metrics : csv->columns;
    ok = ok && fprintf(csv->file, "%lld,%s,%lld,%d,%.1f,%.4f,%.9g,%.6f", (long long)time(NULL), what, (long long)event->step,
                       event->workers, event->samples_per_s, event->data_wait, event->lr,
                       event->recovery ? event->recovery->total_s : 0.0) > 0;
    for (int i = 0; i < csv->columns && ok; i++)
        ok = event->metrics ? fprintf(csv->file, ",%.9g", event->values[i]) > 0 : fputc(',', csv->file) != EOF;
    return ok && fputc('\n', csv->file) != EOF && fflush(csv->file) == 0;
}

void train_csv_event(struct train_csv *csv, const manta_sgd_event *event)
{
    bool is_begun = event->kind == MANTA_SGD_BEGUN, ok = true;
    if (!csv->file)
        return;
    if (is_begun || !csv->has_begun) /* who follows a detached run late has missed its begin */
        ok = goes_on(csv, is_begun ? event->step : event->step - 1);
    if (ok && !is_begun)
        ok = line_write(csv, event);
    if (!ok)
        failed(csv);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - reading CSV files of numbers. Owns nothing between calls. Thread: any.
 */
#include "sgd/table.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    float   *values; /* lines x columns */
    uint8_t *labels;
    uint64_t lines, room; /* of both */
    uint32_t columns;     /* without the label; known after the first line */
    int64_t  label;       /* column, from 0; -1: none */
    uint32_t classes;
};

static const char *blanks_skip(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* A head, or a line with nothing in it. */
static bool is_to_skip(const char *text, uint64_t number)
{
    const char *p = blanks_skip(text);
    char       *end;
    if (*p == '\n' || *p == '\r' || *p == 0)
        return true;
    (void)strtof(p, &end);
    return number == 1 && end == p;
}

static uint32_t columns_count(const char *text)
{
    uint32_t count = 1;
    for (const char *p = text; *p; p++)
        count += *p == ',';
    return count;
}

static mt_status first_line(struct table *t, const char *text, int64_t label)
{
    uint32_t all = columns_count(text);
    t->label = label < 0 ? (int64_t)all - 1 : label - 1;
    if (label > (int64_t)all || label < -1)
        return mt_error(MT_EINVAL, 0, "CSV: there is no such column for the label");
    t->columns = all - (t->label >= 0);
    return t->columns ? mt_ok() : mt_error(MT_EINVAL, 0, "CSV: there is nothing beside the label");
}

static mt_status room_make(struct table *t)
{
    uint64_t room = t->room ? 2 * t->room : 1024;
    if (t->lines < t->room)
        return mt_ok();
    float *values = room > (UINT64_C(1) << 40) / (t->columns * sizeof *values)
                        ? NULL : realloc(t->values, room * t->columns * sizeof *values);
    if (values)
        t->values = values;
    uint8_t *labels = realloc(t->labels, room);
    if (labels)
        t->labels = labels;
    if (!values || !labels)
        return mt_error(MT_ENOMEM, 0, "CSV");
    t->room = room;
    return mt_ok();
}

static mt_status label_take(struct table *t, float value)
{
    if (!(value >= 0) || value >= (float)t->classes || value != (float)(uint32_t)value)
        return mt_error(MT_ECORRUPT, 0, "CSV: the label is out of range");
    t->labels[t->lines] = (uint8_t)value;
    return mt_ok();
}

static mt_status line_take(struct table *t, const char *text)
{
    const char *p = text;
    uint32_t    all = t->columns + (t->label >= 0);
    float      *to = t->values + t->lines * t->columns;

    for (uint32_t c = 0; c < all; c++) {
        char *end;
        errno = 0;
        float value = strtof(p, &end);
        const char *next = blanks_skip(end);
        if (end == p || (c + 1 < all && *next != ',' && *next != 0 && !isspace((unsigned char)*next)))
            return mt_error(MT_ECORRUPT, 0, "CSV: what stands there is no number");
        if (c + 1 < all && *next != ',')
            return mt_error(MT_ECORRUPT, 0, "CSV: fewer columns than in the first line");
        if (c + 1 == all && *next == ',')
            return mt_error(MT_ECORRUPT, 0, "CSV: more columns than in the first line");
        if (c + 1 == all && *next && !isspace((unsigned char)*next))
            return mt_error(MT_ECORRUPT, 0, "CSV: what stands there is no number");
        if ((int64_t)c == t->label)
            MT_TRY(label_take(t, value));
        else
            *to++ = value;
        p = next + 1;
    }
    t->lines++;
    return mt_ok();
}

static mt_status file_read(FILE *file, struct table *t, int64_t label, uint64_t *number)
{
    char     *text = NULL;
    size_t    room = 0;
    mt_status st = mt_ok();
    for (*number = 1; st.code == 0 && getline(&text, &room, file) >= 0; ++*number) {
        if (is_to_skip(text, *number))
            continue;
        if (t->columns == 0)
            st = first_line(t, text, label);
        if (st.code == 0)
            st = room_make(t);
        if (st.code == 0)
            st = line_take(t, text);
    }
    --*number; /* the last that was read */
    free(text);
    if (st.code == 0 && ferror(file))
        st = mt_error(MT_ESYS, errno, "CSV: read the file");
    return st;
}

mt_status sgd_csv_load(const char *path, int64_t label, uint32_t classes, char where[SGD_WHERE_BYTES],
                       struct sgd_dataset *out_set)
{
    struct table t = {.classes = classes && classes < 256 ? classes : 256};
    uint64_t     number = 0;
    FILE        *file = fopen(path, "re");

    where[0] = 0;
    if (!file)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "CSV: open the file");
    mt_status st = file_read(file, &t, label, &number);
    fclose(file);
    if (st.code == 0)
        st = t.lines ? sgd_dataset_borrow((const uint8_t *)t.values, t.label >= 0 ? t.labels : NULL, t.lines,
                                          t.columns * (uint32_t)sizeof(float), out_set)
                     : mt_error(MT_ECORRUPT, 0, "CSV: there is no line of numbers");
    else
        snprintf(where, SGD_WHERE_BYTES, "line %llu", (unsigned long long)number);
    if (st.code == 0 && t.label < 0) {
        free(t.labels);
        t.labels = NULL;
    }
    if (st.code == 0) {
        out_set->owned_records = t.values;
        out_set->owned_labels = t.labels;
        return st;
    }
    free(t.values);
    free(t.labels);
    return st;
}

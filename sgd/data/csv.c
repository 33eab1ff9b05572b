/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - reading CSV files of numbers. Owns nothing between calls. Thread: any.
 */
#include "sgd/data/table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SHOWN = 48, NO_COLUMN = -1 };

struct table {
    float   *values; /* lines x columns */
    uint8_t *labels;
    uint64_t lines, room; /* of both */
    uint32_t columns;     /* without the label; known after the first line */
    int64_t  label;       /* column, from 0; NO_COLUMN: none */
    uint32_t classes;
    char    *head;           /* the line with the names; NULL: there is none */
    uint64_t number;         /* of the line that is read */
    int64_t  at;             /* the column of it that an error is in; NO_COLUMN */
    bool     is_about_label; /* the error is in what was asked for, not in the file */
};

static const char *blanks_skip(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* Words that strtof knows, such as nan, may begin a name: they are no numbers here. */
static bool is_number(const char *p)
{
    return *p && strchr("+-.0123456789", *p);
}

/* ---- the head ---- */

/* The name that begins at *at, without the blanks and the quotes around it; *at goes behind its comma, NULL: there is none. */
static const char *name_next(const char **at, size_t *out_size)
{
    const char *p = blanks_skip(*at), *end;
    bool        is_quoted = *p == '"';
    p += is_quoted;
    end = is_quoted ? strchr(p, '"') : NULL;
    const char *comma = strchr(end ? end : p, ',');
    if (!end) {
        end = comma ? comma : p + strlen(p);
        while (end > p && isspace((unsigned char)end[-1]))
            end--;
    }
    *out_size = (size_t)(end - p);
    *at = comma ? comma + 1 : NULL;
    return p;
}

/* The column of this name, from 0; NO_COLUMN. */
static int64_t name_find(const char *head, const char *name)
{
    size_t size;
    for (int64_t c = 0; head; c++) {
        const char *here = name_next(&head, &size);
        if (size == strlen(name) && memcmp(here, name, size) == 0)
            return c;
    }
    return NO_COLUMN;
}

static uint32_t columns_count(const char *text, bool is_head)
{
    uint32_t count = 0;
    size_t   size;
    if (!is_head)
        for (count = 1; *text; text++)
            count += *text == ',';
    for (; is_head && text; count++)
        (void)name_next(&text, &size);
    return count;
}

static void where_tell(const struct table *t, char where[SGD_WHERE_BYTES])
{
    const char *head = t->head, *name = NULL;
    size_t      size = 0;
    int         n = snprintf(where, SGD_WHERE_BYTES, "line %llu", (unsigned long long)t->number);
    if (t->at == NO_COLUMN)
        return;
    for (int64_t c = 0; head && c <= t->at; c++)
        name = name_next(&head, &size);
    n += snprintf(where + n, SGD_WHERE_BYTES - (size_t)n, ", column %lld", (long long)t->at + 1);
    if (name)
        snprintf(where + n, SGD_WHERE_BYTES - (size_t)n, " (%.*s)", (int)(size < NAME_SHOWN ? size : NAME_SHOWN), name);
}

/* ---- the first line of numbers ---- */

static mt_status label_refuse(struct table *t, const char *what)
{
    t->is_about_label = true;
    return mt_error(MT_EINVAL, 0, what);
}

static mt_status label_find(struct table *t, const struct sgd_csv *csv, uint32_t all)
{
    int64_t label = csv->label;
    char   *end;
    t->label = csv->label_name ? name_find(t->head, csv->label_name) : NO_COLUMN;
    if (t->label != NO_COLUMN)
        return mt_ok();
    if (csv->label_name) {
        label = strtol(csv->label_name, &end, 10);
        if (end == csv->label_name || *end)
            return label_refuse(t, t->head ? "CSV: the head has no column of this name for the label"
                                           : "CSV: there is no head with the names of columns: count the label's from 1");
        if (label == 0)
            return label_refuse(t, "CSV: columns are counted from 1; -1 is the last");
    }
    if (label > (int64_t)all || label < -1)
        return label_refuse(t, "CSV: there is no such column for the label");
    t->label = label < 0 ? (int64_t)all - 1 : label - 1;
    return mt_ok();
}

static mt_status first_line(struct table *t, const struct sgd_csv *csv, const char *text)
{
    uint32_t all = columns_count(text, false);
    if (t->head && columns_count(t->head, true) != all)
        return mt_error(MT_ECORRUPT, 0, "CSV: another number of columns than the head has names");
    MT_TRY(label_find(t, csv, all));
    t->columns = all - (t->label >= 0);
    return t->columns ? mt_ok() : label_refuse(t, "CSV: there is nothing beside the label");
}

/* ---- each line ---- */

static mt_status room_make(struct table *t)
{
    uint64_t room = t->room ? 2 * t->room : 1024;
    if (t->lines < t->room)
        return mt_ok();
    float *values = room > (UINT64_C(1) << 40) / (t->columns * sizeof *values)
                        ? NULL
                        : realloc(t->values, room * t->columns * sizeof *values);
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

static mt_status number_take(const char *p, const char **end, float *out)
{
    char *behind = (char *)(uintptr_t)p;
    if (is_number(p))
        *out = strtof(p, &behind);
    *end = behind;
    if (behind == p)
        return mt_error(MT_ECORRUPT, 0, "CSV: what stands there is no number");
    return isfinite(*out) ? mt_ok() : mt_error(MT_ECORRUPT, 0, "CSV: what stands there is no number that float32 can hold");
}

/* Digits, which a point and zeros may follow: other programs write whole numbers so. Never by way of a float. */
static mt_status label_take(struct table *t, const char *p, const char **end)
{
    char              *behind;
    bool               is_negative = *p == '-';
    unsigned long long value = strtoull(p, &behind, 10); /* too large is ULLONG_MAX */
    *end = behind;
    if (behind == p)
        return mt_error(MT_ECORRUPT, 0, "CSV: a label is a whole number, and this is none");
    if (*behind == '.')
        *end = behind + 1 + strspn(behind + 1, "0");
    if (isdigit((unsigned char)**end) || **end == 'e' || **end == 'E')
        return mt_error(MT_ECORRUPT, 0, "CSV: a label is a whole number, and this is none");
    if (is_negative || value >= t->classes)
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
        const char *end;
        t->at = c;
        p = blanks_skip(p);
        if ((int64_t)c == t->label)
            MT_TRY(label_take(t, p, &end));
        else
            MT_TRY(number_take(p, &end, to++));
        end = blanks_skip(end);
        if (*end != ',' && *end && !isspace((unsigned char)*end))
            return mt_error(MT_ECORRUPT, 0, "CSV: what stands there is no number");
        if (c + 1 < all && *end != ',')
            return mt_error(MT_ECORRUPT, 0, "CSV: fewer columns than in the first line");
        if (c + 1 == all && *end == ',')
            return mt_error(MT_ECORRUPT, 0, "CSV: more columns than in the first line");
        p = end + 1;
    }
    t->lines++;
    t->at = NO_COLUMN;
    return mt_ok();
}

static mt_status head_take(struct table *t, const char *text)
{
    t->head = strdup(text);
    return t->head ? mt_ok() : mt_error(MT_ENOMEM, 0, "CSV");
}

static mt_status any_line(struct table *t, const struct sgd_csv *csv, const char *text)
{
    if (t->number == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0) /* the mark that some programs begin UTF-8 with */
        text += 3;
    const char *p = blanks_skip(text);
    if (*p == '\n' || *p == '\r' || *p == 0)
        return mt_ok();
    if (t->number == 1 && !is_number(p))
        return head_take(t, text);
    if (t->columns == 0)
        MT_TRY(first_line(t, csv, text));
    MT_TRY(room_make(t));
    return line_take(t, text);
}

static mt_status file_read(FILE *file, struct table *t, const struct sgd_csv *csv)
{
    char     *text = NULL;
    size_t    room = 0;
    mt_status st = mt_ok();
    while (st.code == 0 && getline(&text, &room, file) >= 0) {
        t->number++;
        st = any_line(t, csv, text);
    }
    free(text);
    if (st.code == 0 && ferror(file))
        st = mt_error(MT_ESYS, errno, "CSV: read the file");
    return st;
}

/* What was read, as a set that owns it. */
static mt_status set_make(struct table *t, struct sgd_dataset *out_set)
{
    if (!t->lines)
        return mt_error(MT_ECORRUPT, 0, "CSV: there is no line of numbers");
    if (t->label < 0) {
        free(t->labels);
        t->labels = NULL;
    }
    MT_TRY(sgd_dataset_borrow((const uint8_t *)t->values, t->labels, t->lines, t->columns * (uint32_t)sizeof(float), out_set));
    out_set->owned_records = t->values;
    out_set->owned_labels = t->labels;
    out_set->element = (struct sgd_element){'f', sizeof(float)};
    return mt_ok();
}

mt_status sgd_csv_load(const struct sgd_csv *csv, const char **out_of, char where[SGD_WHERE_BYTES], struct sgd_dataset *out_set)
{
    struct table t = {.classes = csv->classes && csv->classes < 256 ? csv->classes : 256, .at = NO_COLUMN};
    FILE        *file = fopen(csv->path, "re");

    where[0] = 0;
    *out_of = csv->path;
    if (!file)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "CSV: open the file");
    mt_status st = file_read(file, &t, csv);
    fclose(file);
    if (st.code != 0)
        where_tell(&t, where);
    else
        st = set_make(&t, out_set);
    if (t.is_about_label && csv->label_name)
        *out_of = csv->label_name;
    free(t.head);
    if (st.code == 0)
        return st;
    free(t.values);
    free(t.labels);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.c - arrays of NumPy.
 *
 *   0            6       8            10 (version 1) or 12
 *   +------------+-------+------------+---------------------------------------------------------------------+------
 *   | 93 "NUMPY" | 1..3,0 | u16 or u32 | {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), } | bytes
 *   +------------+-------+------------+---------------------------------------------------------------------+------
 *
 * Owns nothing between calls. Thread: any.
 */
#include "sgd/data/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_MAX = 64 * 1024, FIRST = 12 };

struct array {
    uint8_t *file;
    size_t   file_size, data_at;
    char     kind; /* of its elements: u, i, f, b */
    uint32_t width;
    uint64_t count, record; /* elements along the first axis; bytes of each of these */
};

static mt_status bad(const char *what)
{
    return mt_error(MT_ECORRUPT, 0, what);
}

/* Behind "'key':" in the head; NULL: it is not there. */
static const char *value_of(const char *head, const char *key)
{
    const char *at = strstr(head, key);
    at = at ? strchr(at + strlen(key), ':') : NULL;
    return at ? at + 1 + strspn(at + 1, " ") : NULL;
}

static mt_status descr_read(const char *head, struct array *a)
{
    const char *at = value_of(head, "'descr'");
    if (!at || (at[0] != '\'' && at[0] != '"'))
        return mt_error(MT_EUNSUPPORTED, 0, "npy: elements of several fields");
    if (!strchr("<|", at[1]) || !strchr("uifb", at[2]) || at[1] == 0 || at[2] == 0)
        return mt_error(MT_EUNSUPPORTED, 0, "npy: elements that are no little-endian numbers");
    a->kind = at[2];
    a->width = (uint32_t)strtoul(at + 3, NULL, 10);
    return a->width >= 1 && a->width <= 8 ? mt_ok() : mt_error(MT_EUNSUPPORTED, 0, "npy: the size of its elements");
}

static mt_status shape_read(const char *head, struct array *a)
{
    const char *order = value_of(head, "'fortran_order'"), *at = value_of(head, "'shape'");
    if (!order || strncmp(order, "False", 5) != 0)
        return mt_error(MT_EUNSUPPORTED, 0, "npy: Fortran order");
    if (!at || *at != '(')
        return bad("npy: its head has no shape");
    a->record = a->width;
    for (int d = 0; at[1 + strspn(at + 1, ", ")] != ')'; d++) {
        char    *end;
        uint64_t size = strtoull(at + 1 + strspn(at + 1, ", "), &end, 10);
        if (end == at + 1 + strspn(at + 1, ", ") || (d > 0 && (size == 0 || a->record > UINT32_MAX / size)))
            return bad("npy: its head's shape can't be read");
        if (d == 0)
            a->count = size;
        else
            a->record *= size;
        at = end - 1;
    }
    return a->count && a->count <= INT64_MAX / a->record ? mt_ok() : bad("npy: an empty array");
}

static mt_status head_read(struct array *a)
{
    char   head[HEAD_MAX];
    size_t size, at;
    if (a->file_size < FIRST || memcmp(a->file, "\x93NUMPY", 6) != 0 || a->file[6] < 1 || a->file[6] > 3)
        return bad("npy: this is no such file");
    at = a->file[6] == 1 ? 10 : 12;
    size = (size_t)(a->file[8] | a->file[9] << 8);
    if (at == 12)
        size |= (size_t)a->file[10] << 16 | (size_t)a->file[11] << 24;
    if (size >= HEAD_MAX || size > a->file_size - at)
        return bad("npy: cut short in its head");
    memcpy(head, a->file + at, size);
    head[size] = 0;
    a->data_at = at + size;
    MT_TRY(descr_read(head, a));
    return shape_read(head, a);
}

static mt_status array_open(const char *path, struct array *a, char where[SGD_WHERE_BYTES])
{
    struct stat info;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    *a = (struct array){.file = NULL};
    if (fd < 0)
        return mt_error(errno == ENOENT || errno == ENOTDIR ? MT_ENOENT : MT_ESYS, errno, "npy: open the file");
    mt_status st = fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < FIRST ? bad("npy: this is no such file")
                                                                                           : mt_ok();
    if (st.code == 0) {
        a->file_size = (size_t)info.st_size;
        a->file = mmap(NULL, a->file_size, PROT_READ, MAP_SHARED, fd, 0);
        if (a->file == MAP_FAILED)
            st = mt_error(MT_ESYS, errno, "npy: map the file");
    }
    close(fd);
    if (st.code != 0)
        return st;
    st = head_read(a);
    if (st.code == 0 && a->file_size - a->data_at != a->count * a->record) {
        snprintf(where, SGD_WHERE_BYTES, "byte %zu", a->file_size);
        st = bad("npy: cut short, or longer than its head says");
    }
    if (st.code != 0)
        munmap(a->file, a->file_size);
    return st;
}

/* A label; one that is negative is too large. */
static uint64_t element(const struct array *a, uint64_t i)
{
    uint64_t value = 0;
    memcpy(&value, a->file + a->data_at + i * a->width, a->width);
    return a->kind == 'i' && value >> (8 * a->width - 1) ? UINT64_MAX : value;
}

static mt_status labels_check(const struct array *a, const struct sgd_dataset *set, char where[SGD_WHERE_BYTES])
{
    if (a->kind == 'f')
        return bad("npy: labels are whole numbers, and these are not");
    if (a->record != a->width)
        return bad("npy: labels are one number for each record, and this array has several");
    if (a->count == set->count)
        return mt_ok();
    snprintf(where, SGD_WHERE_BYTES, "%llu labels for %llu records", (unsigned long long)a->count, (unsigned long long)set->count);
    return bad("npy: another number of labels than of records");
}

static mt_status labels_read(const char *path, uint32_t classes, char where[SGD_WHERE_BYTES], struct sgd_dataset *set)
{
    struct array a;
    uint32_t     limit = classes && classes < 256 ? classes : 256;
    MT_TRY(array_open(path, &a, where));
    mt_status st = labels_check(&a, set, where);
    uint8_t  *labels = st.code == 0 ? malloc(a.count) : NULL;
    if (st.code == 0 && !labels)
        st = mt_error(MT_ENOMEM, 0, "npy: labels");
    for (uint64_t i = 0; st.code == 0 && i < a.count; i++) {
        uint64_t label = element(&a, i);
        if (label >= limit) {
            snprintf(where, SGD_WHERE_BYTES, "record %llu, byte %llu", (unsigned long long)i,
                     (unsigned long long)(a.data_at + i * a.width));
            st = bad("npy: a label is out of range");
        } else {
            labels[i] = (uint8_t)label;
            set->classes = label >= set->classes ? (uint32_t)label + 1 : set->classes;
        }
    }
    munmap(a.file, a.file_size);
    if (st.code != 0)
        free(labels);
    else
        set->labels = set->owned_labels = labels;
    return st;
}

mt_status sgd_npy_map(const char *path, const char *labels, uint32_t classes, const char **out_of, char where[SGD_WHERE_BYTES],
                      struct sgd_dataset *out_set)
{
    struct array a;
    where[0] = 0;
    *out_of = path;
    MT_TRY(array_open(path, &a, where));
    struct sgd_dataset set = {.records = a.file + a.data_at,
                              .count = a.count,
                              .record_size = (uint32_t)a.record,
                              .mapped = a.file,
                              .mapped_size = a.file_size,
                              .element = {a.kind, a.width}};
    *out_of = labels ? labels : path;
    mt_status st = labels ? labels_read(labels, classes, where, &set) : mt_ok();
    if (st.code == 0)
        *out_set = set;
    else
        munmap(a.file, a.file_size);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - data sets in memory. Owns: what it loads, until sgd_dataset_fini. Thread: any, one at a time per
 * set.
 */
#include "sgd/data/data.h"

#include "sgd/ground/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MARK_RECORDS = 64, MARK_BYTES = 1024 }; /* of a record */

mt_status sgd_dataset_borrow(const uint8_t *records, const uint8_t *labels, uint64_t count, uint32_t record_size,
                             struct sgd_dataset *out_set)
{
    struct sgd_dataset set = {.records = records, .labels = labels, .count = count, .record_size = record_size};

    if (count == 0 || record_size == 0)
        return mt_error(MT_EINVAL, 0, "data set: empty");
    for (uint64_t i = 0; labels && i < count; i++)
        set.classes = labels[i] >= set.classes ? labels[i] + 1u : set.classes;
    *out_set = set;
    return mt_ok();
}

static mt_status file_map(int fd, uint64_t record_size, uint64_t skip, struct sgd_dataset *set)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return mt_error(MT_EINVAL, 0, "data: not a file");
    uint64_t size = (uint64_t)info.st_size;
    if (size < skip || (size - skip) % record_size != 0 || size - skip == 0)
        return mt_error(MT_ECORRUPT, 0, "data: the file does not end with a whole record: cut short, or records of another size");
    set->mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (set->mapped == MAP_FAILED) {
        set->mapped = NULL;
        return mt_error(MT_ESYS, errno, "data: map the file");
    }
    set->mapped_size = size;
    set->records = (const uint8_t *)set->mapped + skip;
    set->count = (size - skip) / record_size;
    set->record_size = (uint32_t)record_size;
    return mt_ok();
}

mt_status sgd_dataset_map(const char *path, uint64_t record_size, uint64_t skip, struct sgd_dataset *out_set)
{
    struct sgd_dataset set = {0};
    if (record_size == 0 || record_size > UINT32_MAX || skip > INT64_MAX)
        return mt_error(MT_EINVAL, 0, "data: a record has 1 byte to 4 GiB");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mt_error(errno == ENOENT ? MT_ENOENT : MT_ESYS, errno, "data: open the file");
    mt_status st = file_map(fd, record_size, skip, &set);
    close(fd);
    if (st.code == 0)
        *out_set = set;
    return st;
}

uint64_t sgd_dataset_mark(const struct sgd_dataset *set)
{
    uint64_t sums[MARK_RECORDS + 1] = {0}, parts[] = {set->count, set->record_size, set->labels != NULL};
    uint64_t looked = set->count < MARK_RECORDS ? set->count : MARK_RECORDS;
    size_t   size = set->record_size < MARK_BYTES ? set->record_size : MARK_BYTES;
    for (uint64_t i = 0; i < looked; i++) {
        uint64_t at = looked < 2 ? 0 : (uint64_t)((unsigned __int128)(set->count - 1) * i / (looked - 1));
        sums[i] = sgd_checksum(set->records + at * set->record_size, size) + (set->labels ? set->labels[at] : 0);
    }
    sums[looked] = sgd_checksum(parts, sizeof parts);
    uint64_t mark = sgd_checksum(sums, (looked + 1) * sizeof *sums);
    return mark ? mark : 1; /* 0 is nobody's */
}

void sgd_dataset_fini(struct sgd_dataset *set)
{
    free(set->owned_records);
    free(set->owned_labels);
    if (set->mapped)
        munmap(set->mapped, set->mapped_size);
    memset(set, 0, sizeof *set);
}

void sgd_dataset_gather(const struct sgd_dataset *set, const uint64_t *indices, uint32_t count, uint8_t *records, uint8_t *labels)
{
    size_t size = set->record_size;
    for (uint32_t i = 0; i < count; i++) {
        MT_ASSERT(indices[i] < set->count);
        memcpy(records + i * size, set->records + indices[i] * size, size);
        if (set->labels)
            labels[i] = set->labels[indices[i]];
    }
}

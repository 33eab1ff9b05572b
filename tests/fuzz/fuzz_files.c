/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_files.c - files that anybody may have written or damaged: checkpoints (safetensors, manifests), data sets (IDX, CSV,
 * npy), and the files that say where a cluster is.
 */
#include "clients/control/control.h"
#include "sgd/data/idx.h"
#include "sgd/save/manifest.h"
#include "sgd/save/safetensors.h"
#include "sgd/data/table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* The input as a file in memory, by a name that can be opened. */
static int file_of(const uint8_t *bytes, size_t size, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void fuzz_safetensors(const uint8_t *input, size_t size)
{
    struct sgd_safetensors file;
    struct sgd_manifest    manifest = {.sums = NULL};
    char                   path[64], byte;
    uint8_t               *with_size = malloc(size + 8);
    uint64_t               header = size > 4 ? size - 4 : size;
    if (!with_size)
        return;
    memcpy(with_size, &header, 8); /* a header's size that fits, else nothing behind it would be looked at */
    memcpy(with_size + 8, input, size);
    int fd = file_of(size % 2 ? with_size : input, size % 2 ? size + 8 : size, path);
    if (sgd_safetensors_open(AT_FDCWD, path, &file).code == MT_OK) {
        if (file.data_size)
            (void)sgd_safetensors_read(&file, 0, &byte, 1).code;
        if (sgd_manifest_read((const char *)input, size, file.tensors, file.count, &manifest).code == MT_OK)
            free(manifest.sums);
        sgd_safetensors_close(&file);
    }
    free(with_size);
    close(fd);
}

static void fuzz_manifest(const uint8_t *input, size_t size)
{
    struct sgd_tensor          tensors[2] = {{.name = "w", .dtype = SGD_F32}, {.name = "b", .dtype = SGD_F32}};
    struct sgd_manifest        manifest = {.sums = NULL};
    struct sgd_checkpoint_meta meta;
    if (sgd_manifest_read((const char *)input, size, tensors, 2, &manifest).code == MT_OK)
        free(manifest.sums);
    (void)sgd_manifest_read_meta((const char *)input, size, &meta).code;
}

static void fuzz_idx(const uint8_t *input, size_t size)
{
    struct sgd_idx idx;
    char           path[64];
    int            fd = file_of(input, size, path);
    if (sgd_idx_read(path, &idx).code == MT_OK)
        free(idx.data);
    close(fd);
}

/* The same bytes as a CSV file with the label in its second column, and, behind a head that is right so far, as an array that is
 * its own labels. */
static void fuzz_tables(const uint8_t *input, size_t size)
{
    static const char  head[] = "\x93NUMPY\1\0\x60\0{'descr': '<u1', 'fortran_order': False, 'shape': (";
    struct sgd_dataset set;
    const char        *of;
    char               path[64], where[SGD_WHERE_BYTES];
    uint8_t           *array = malloc(sizeof head + size);
    int                fd = file_of(input, size, path);
    if (sgd_csv_load(&(struct sgd_csv){.path = path, .label_name = "2"}, &of, where, &set).code == MT_OK)
        sgd_dataset_fini(&set);
    close(fd);
    if (!array)
        return;
    memcpy(array, head, sizeof head - 1);
    memcpy(array + sizeof head - 1, input, size);
    fd = file_of(array, sizeof head - 1 + size, path);
    if (sgd_npy_map(path, path, 0, &of, where, &set).code == MT_OK)
        sgd_dataset_fini(&set);
    close(fd);
    free(array);
}

static void fuzz_place(const uint8_t *input, size_t size)
{
    struct ctl_place place;
    manta_error      e;
    char             path[64];
    int              fd = file_of(input, size, path);
    setenv("MANTA_CONFIG", path, 1);
    unsetenv("MANTA_ADDRESS");
    manta_client_opts none = {.address = NULL};
    (void)ctl_place_find(&none, &place, &e);
    memset(&place, 0, sizeof place);
    snprintf(place.address_file, sizeof place.address_file, "%s", path);
    (void)ctl_place_refresh(&place);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size == 0)
        return 0;
    switch (input[0] % 5) {
    case 0: fuzz_safetensors(input + 1, size - 1); break;
    case 1: fuzz_manifest(input + 1, size - 1); break;
    case 2: fuzz_idx(input + 1, size - 1); break;
    case 3: fuzz_tables(input + 1, size - 1); break;
    default: fuzz_place(input + 1, size - 1); break;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_tool.c - our half of a check against an independent implementation (safetensors_check.py).
 *
 *   tensor_tool save FOLDER   saves a checkpoint with known contents
 *   tensor_tool show FILE     prints each tensor of a safetensors file: name, type, shape, bytes in hex
 */
#include "sgd/save/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int show(const char *path)
{
    static const char *const names[] = {
#define X(name, size) #name,
        SGD_DTYPES(X)
#undef X
    };
    struct sgd_safetensors file;
    mt_status              st = sgd_safetensors_open(AT_FDCWD, path, &file);
    bool                   is_open = st.code == 0;
    for (size_t i = 0; st.code == 0 && i < file.count; i++) {
        const struct sgd_tensor *tensor = &file.tensors[i];
        size_t                   size = tensor->end - tensor->begin;
        unsigned char           *bytes = malloc(size + 1);
        if (!bytes)
            return 1;
        st = sgd_safetensors_read(&file, tensor->begin, bytes, size);
        printf("%s %s", tensor->name, names[tensor->dtype]);
        for (uint32_t d = 0; d < tensor->ndim; d++)
            printf("%c%llu", d ? ',' : ' ', (unsigned long long)tensor->shape[d]);
        printf(" :");
        for (size_t b = 0; st.code == 0 && b < size; b++)
            printf("%02x", bytes[b]);
        printf("\n");
        free(bytes);
    }
    if (is_open)
        sgd_safetensors_close(&file);
    if (st.code != 0)
        fprintf(stderr, "%s: %s\n", mt_code_name(st.code), st.what);
    return st.code;
}

static int save(const char *folder)
{
    float                      matrix[12], scalar = -0.5f;
    int64_t                    counts[3] = {-1, 0, INT64_MAX};
    struct sgd_checkpoint_meta meta = {.step = 7, .samples = 672, .seed = 1, .generation = 1, .kernels = "none"};
    struct sgd_tensor          tensors[] = {
                 {.name = "counts", .dtype = SGD_I64, .ndim = 1, .shape = {3}, .data = counts},
                 {.name = "layers.0.weight", .dtype = SGD_F32, .ndim = 2, .shape = {3, 4}, .data = matrix},
                 {.name = "scalar", .dtype = SGD_F32, .ndim = 0, .data = &scalar},
    };
    for (int i = 0; i < 12; i++)
        matrix[i] = (float)i / 3;
    mt_status st = sgd_checkpoint_save(folder, &(struct sgd_keep){.newest = 1}, &meta, tensors, 3);
    if (st.code != 0)
        fprintf(stderr, "%s: %s\n", mt_code_name(st.code), st.what);
    return st.code;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "save") == 0)
        return save(argv[2]);
    if (argc == 3 && strcmp(argv[1], "show") == 0)
        return show(argv[2]);
    return 2;
}

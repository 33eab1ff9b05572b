/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.h - texts and token files as data sets of windows, for a language model.
 *
 * What a file is, is told by its first bytes:
 *   - the text of Debian's package bible-kjv-text ("EC02"): 64 KiB blocks, each compressed by LZW as compress(1) does;
 *   - a token file of llm.c: 256 int32 (20240520, 1, count), then the tokens, 2 bytes each;
 *   - anything else: its bytes are the tokens.
 * A file is not trusted.
 */
#ifndef SGD_TOKENS_H
#define SGD_TOKENS_H

#include "sgd/data/data.h"

#define SGD_BIBLE_PATH "/usr/lib/bible.data"

struct sgd_tokens {
    uint8_t *data; /* count tokens of `width` bytes, little-endian */
    uint64_t count;
    uint32_t width;      /* 1 or 2 */
    uint32_t vocabulary; /* 256, or one more than the largest token */
};

/* Reads a whole file; NULL: the package's. Blocks. ENOENT, naming the package where the path was NULL; ECORRUPT: damaged
 * or cut short, or empty; ENOMEM; ESYS. End it with sgd_tokens_fini. */
MT_MUST_USE mt_status sgd_tokens_load(const char *path, struct sgd_tokens *out_tokens);
void                  sgd_tokens_fini(struct sgd_tokens *tokens);

/* The windows of context + 1 tokens that begin at every multiple of `context`: of the first nine tenths for training, of
 * the last tenth for testing. Labels are 0. EINVAL where the text is too short for one window; ENOMEM. */
MT_MUST_USE mt_status sgd_dataset_windows(const struct sgd_tokens *tokens, uint32_t context, bool is_train,
                                          struct sgd_dataset *out_set);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - the small part of JSON that checkpoints use: objects, arrays, strings and unsigned integers.
 *
 * A pull reader over borrowed bytes that are not trusted: each call takes the next piece that its caller
 * expects, or says ECORRUPT and leaves the reader where it was of no more use. Nothing recurses and nothing
 * is allocated. Floats, negative numbers, true, false and null are refused.
 */
#ifndef SGD_JSON_H
#define SGD_JSON_H

#include "core/base/limits.h"
#include "core/base/status.h"

#include <stdbool.h>

struct sgd_json {
    const char *next, *end;
};

/* Takes one of { } [ ] : , after blanks. */
MT_MUST_USE mt_status sgd_json_take(struct sgd_json *json, char symbol);
/* Takes the symbol if it is next; else takes nothing. */
bool sgd_json_try(struct sgd_json *json, char symbol);
/* Takes a string into `out` (`size` bytes with its end) as UTF-8. ECORRUPT also where it does not fit or
 * holds NUL. */
MT_MUST_USE mt_status sgd_json_string(struct sgd_json *json, char *out, size_t size);
/* Takes a string of any length and forgets it. */
MT_MUST_USE mt_status sgd_json_string_skip(struct sgd_json *json);
MT_MUST_USE mt_status sgd_json_u64(struct sgd_json *json, uint64_t *out);
/* Only blanks are left. */
MT_MUST_USE mt_status sgd_json_end(struct sgd_json *json);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - reading and writing JSON: heads of checkpoints, spaces and points of sweeps.
 *
 * A pull reader over borrowed bytes that are not trusted: each call takes the next piece that its caller expects, or says
 * ECORRUPT and leaves the reader where it was of no more use. Nothing recurses. Numbers are read and written the same in every
 * locale; a double is written with as few digits as bring it back bit for bit, and always looks like one (1.0, not 1).
 */
#ifndef MT_BASE_JSON_H
#define MT_BASE_JSON_H

#include "core/base/buf.h"

#include <stdbool.h>

/* A string, number, true, false or null as it stands in JSON: an integer is printed as one, so 1 and 1.0 differ. */
enum mt_literal_kind { MT_LITERAL_TEXT, MT_LITERAL_INT, MT_LITERAL_REAL, MT_LITERAL_BOOL, MT_LITERAL_NULL };
struct mt_literal {
    enum mt_literal_kind kind;
    const char          *text;    /* of TEXT: borrowed as long as its holder says */
    int64_t              integer; /* of INT, and of BOOL: 0 or 1 */
    double               real;    /* of REAL */
};

struct mt_json {
    const char *next, *end;
};

static inline struct mt_json mt_json_of(mt_view view)
{
    struct mt_json json = {(const char *)view.data, (const char *)view.data + view.size};
    return json;
}
/* Takes one of { } [ ] : , after blanks. */
MT_MUST_USE mt_status mt_json_take(struct mt_json *json, char symbol);
/* Takes the symbol if it is next; else takes nothing. */
bool mt_json_try(struct mt_json *json, char symbol);
/* Walks the members of an object or the items of an array: true while there is another one. `*first` is true at the call behind
 * the opening bracket. False also where neither a comma nor `close` is next; then *out_status says so. */
bool mt_json_more(struct mt_json *json, char close, bool *first, mt_status *out_status);
/* Takes a string, as UTF-8 with an end mark that is not counted, in place of what stood in `out`. ECORRUPT (NUL in it included),
 * ENOMEM. */
MT_MUST_USE mt_status mt_json_text(struct mt_json *json, mt_buf *out);
/* The same into `out` (`size` bytes with its end); ECORRUPT also where it does not fit. Nothing is allocated. */
MT_MUST_USE mt_status mt_json_string(struct mt_json *json, char *out, size_t size);
/* Takes a string of any length and forgets it; nothing is allocated. */
MT_MUST_USE mt_status mt_json_string_skip(struct mt_json *json);
/* Takes an unsigned whole number, without sign, fraction or exponent. */
MT_MUST_USE mt_status mt_json_u64(struct mt_json *json, uint64_t *out);
/* Takes the name of a member and the colon behind it. */
MT_MUST_USE mt_status mt_json_name(struct mt_json *json, mt_buf *out);
/* Takes a number; NaN, Infinity and -Infinity too, as Python writes them. */
MT_MUST_USE mt_status mt_json_real(struct mt_json *json, double *out);
/* Takes a string, number, true, false or null. The text of a string lies in `text`. */
MT_MUST_USE mt_status mt_json_literal(struct mt_json *json, mt_buf *text, struct mt_literal *out);
/* The same, as a flag: all but `true` is false. */
MT_MUST_USE mt_status mt_json_bool(struct mt_json *json, mt_buf *text, bool *out);
/* Takes any value and forgets it; ECORRUPT also past 64 levels. */
MT_MUST_USE mt_status mt_json_skip(struct mt_json *json);
/* Only blanks are left. */
MT_MUST_USE mt_status mt_json_end(struct mt_json *json);

/* With its quotes; bytes that are not UTF-8 become '?'. */
MT_MUST_USE mt_status mt_json_put_text(mt_buf *out, const char *text);
MT_MUST_USE mt_status mt_json_put_real(mt_buf *out, double value);
MT_MUST_USE mt_status mt_json_put_literal(mt_buf *out, const struct mt_literal *literal);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - reading and writing JSON: spaces and points, and whatever else a sweep exchanges.
 *
 * A pull reader over borrowed bytes that are not trusted: each call takes the next piece that its caller expects, or says
 * ECORRUPT and leaves the reader where it was of no more use. Nothing recurses. Numbers are read and written the same in every
 * locale; a double is written with as few digits as bring it back bit for bit, and always looks like one (1.0, not 1).
 */
#ifndef SWP_JSON_H
#define SWP_JSON_H

#include "core/base/buf.h"
#include "sweep/space.h"

struct swp_json {
    const char *next, *end;
};

static inline struct swp_json swp_json_of(mt_view view)
{
    struct swp_json json = {(const char *)view.data, (const char *)view.data + view.size};
    return json;
}
/* Takes one of { } [ ] : , after blanks. */
MT_MUST_USE mt_status swp_json_take(struct swp_json *json, char symbol);
/* Takes the symbol if it is next; else takes nothing. */
bool swp_json_try(struct swp_json *json, char symbol);
/* Walks the members of an object or the items of an array: true while there is another one. `*first` is true at the call behind
 * the opening bracket. False also where neither a comma nor `close` is next; then *out_status says so. */
bool swp_json_more(struct swp_json *json, char close, bool *first, mt_status *out_status);
/* Takes a string, as UTF-8 with an end mark that is not counted, in place of what stood in `out`. ECORRUPT (NUL in it included),
 * ENOMEM. */
MT_MUST_USE mt_status swp_json_text(struct swp_json *json, mt_buf *out);
/* Takes the name of a member and the colon behind it. */
MT_MUST_USE mt_status swp_json_name(struct swp_json *json, mt_buf *out);
/* Takes a number; NaN, Infinity and -Infinity too, as Python writes them. */
MT_MUST_USE mt_status swp_json_real(struct swp_json *json, double *out);
/* Takes a string, number, true, false or null. The text of a string lies in `text`. */
MT_MUST_USE mt_status swp_json_literal(struct swp_json *json, mt_buf *text, struct swp_literal *out);
/* Takes any value and forgets it; ECORRUPT also past 64 levels. */
MT_MUST_USE mt_status swp_json_skip(struct swp_json *json);
/* Only blanks are left. */
MT_MUST_USE mt_status swp_json_end(struct swp_json *json);

MT_MUST_USE mt_status swp_json_put_text(mt_buf *out, const char *text);
MT_MUST_USE mt_status swp_json_put_real(mt_buf *out, double value);
MT_MUST_USE mt_status swp_json_put_literal(mt_buf *out, const struct swp_literal *literal);

#endif

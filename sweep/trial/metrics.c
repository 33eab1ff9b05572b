/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - see metrics.h.
 */
#include "sweep/trial/metrics.h"

#include "core/base/real.h"
#include "core/text/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char NAME_BYTES[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";

static bool is_step(const char *name)
{
    return strcmp(name, "step") == 0 || strcmp(name, "epoch") == 0 || strcmp(name, "iteration") == 0 ||
           strcmp(name, "training_iteration") == 0;
}

static bool add(struct swp_metrics *out, const char *name, size_t size, double value)
{
    if (size == 0 || size >= MT_NAME_BYTES_MAX || out->count == SWP_METRICS_MAX)
        return false;
    struct swp_metric *m = &out->items[out->count];
    memcpy(m->name, name, size);
    m->name[size] = 0;
    m->value = value;
    if (!is_step(m->name)) {
        out->count++;
    } else if (value >= 0 && value < 0x1p62) {
        out->has_step = true;
        out->step = (int64_t)value;
    }
    return true;
}

static bool object_read(const char *line, size_t size, struct swp_metrics *out)
{
    struct mt_json    json = mt_json_of(mt_view_of(line, size));
    mt_buf            name = {0}, text = {0};
    struct mt_literal value;
    bool              first = true;
    mt_status         st = mt_json_take(&json, '{');
    while (st.code == 0 && mt_json_more(&json, '}', &first, &st)) {
        const char *before;
        name.size = text.size = 0;
        st = mt_json_name(&json, &name);
        before = json.next;
        if (st.code == 0)
            st = mt_json_literal(&json, &text, &value);
        if (st.code) { /* an array, an object, NaN */
            double real;
            json.next = before;
            st = mt_json_real(&json, &real);
            value = (struct mt_literal){.kind = MT_LITERAL_REAL, .real = real};
            if (st.code) {
                json.next = before;
                st = mt_json_skip(&json);
                continue;
            }
        }
        if (value.kind == MT_LITERAL_INT || value.kind == MT_LITERAL_REAL)
            (void)add(out, (const char *)name.data, name.size, value.kind == MT_LITERAL_INT ? (double)value.integer : value.real);
    }
    if (st.code == 0)
        st = mt_json_end(&json);
    mt_buf_fini(&name);
    mt_buf_fini(&text);
    return st.code == 0;
}

static bool pairs_read(char *line, struct swp_metrics *out)
{
    for (char *at = line + strspn(line, " \t,;"); *at; at += strspn(at, " \t,;")) {
        char  *end;
        size_t size = strspn(at, NAME_BYTES);
        if (at[size] != '=')
            return false;
        double value = mt_real_read(at + size + 1, &end);
        if (end == at + size + 1 || (*end && !strchr(" \t,;", *end)) || !add(out, at, size, value))
            return false;
        at = end;
    }
    return true;
}

bool swp_metrics_read(const char *line, size_t size, struct swp_metrics *out)
{
    char copy[MT_SWEEP_LINE_BYTES];
    out->count = 0;
    out->has_step = false;
    while (size && (line[size - 1] == '\r' || line[size - 1] == ' '))
        size--;
    while (size && (*line == ' ' || *line == '\t'))
        line++, size--;
    if (size == 0 || size >= sizeof copy || memchr(line, 0, size))
        return false;
    if (*line != '{' && !memchr(line, '=', size))
        return false;
    memcpy(copy, line, size);
    copy[size] = 0;
    bool ok = *copy == '{' ? object_read(copy, size, out) : pairs_read(copy, out);
    return ok && out->count > 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * labels.c - see labels.h. Owns nothing.
 */
#include "core/text/labels.h"

#include <stdio.h>
#include <string.h>

struct word { /* inside the text that is read */
    const char *at;
    size_t      size;
};

enum operation { EQUALS, DIFFERS, IN, NOT_IN, EXISTS, MISSING };

struct term {
    struct word    key;
    enum operation operation;
    const char    *values; /* EQUALS, DIFFERS: the value; IN, NOT_IN: behind the '(' */
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._-/", c));
}

static const char *skip(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

static bool take(const char **at, char c)
{
    const char *next = skip(*at);
    if (*next != c)
        return false;
    *at = next + 1;
    return true;
}

static bool take_word(const char **at, struct word *out)
{
    out->at = skip(*at);
    out->size = 0;
    while (is_letter(out->at[out->size]))
        out->size++;
    if (out->size)
        *at = out->at + out->size;
    return out->size > 0;
}

static bool same(const struct word *a, const struct word *b)
{
    return a->size == b->size && memcmp(a->at, b->at, a->size) == 0;
}

/* The value of a key. The labels have been checked, or else nothing is found behind what can't be read. */
static bool value_of(const char *labels, const struct word *key, struct word *out)
{
    struct word name;
    while (take_word(&labels, &name) && take(&labels, '=') && take_word(&labels, out)) {
        if (same(&name, key))
            return true;
        if (!take(&labels, ','))
            return false;
    }
    return false;
}

/* ---- reading a selector ---- */

/* "(a, b)" behind the '('; moves behind the ')'. */
static bool take_values(const char **at)
{
    struct word value;
    do {
        if (!take_word(at, &value))
            return false;
    } while (take(at, ','));
    return take(at, ')');
}

static bool take_in(const char **at)
{
    const char *next = *at;
    struct word word, in = {"in", 2};
    if (!take_word(&next, &word) || !same(&word, &in) || !take(&next, '('))
        return false;
    *at = next;
    return true;
}

/* One term; false where it can't be read, with *at there. */
static bool take_term(const char **at, struct term *out)
{
    const char *next;
    struct word value;
    bool        is_not = take(at, '!');
    out->operation = is_not ? MISSING : EXISTS;
    if (!take_word(at, &out->key))
        return false;
    if (is_not)
        return true;
    next = *at;
    is_not = take(&next, '!');
    if (take(&next, '=')) {
        out->operation = is_not ? DIFFERS : EQUALS;
        *at = out->values = skip(next);
        return take_word(at, &value);
    }
    if (take_in(&next)) {
        out->operation = is_not ? NOT_IN : IN;
        *at = out->values = next;
        return take_values(at);
    }
    *at = is_not ? next : *at;
    return !is_not;
}

static bool is_among(const char *values, const struct word *value)
{
    struct word one;
    while (take_word(&values, &one)) {
        if (same(&one, value))
            return true;
        if (!take(&values, ','))
            return false;
    }
    return false;
}

static bool holds(const struct term *term, const char *labels)
{
    struct word value, wanted;
    const char *values = term->values;
    bool        has = value_of(labels, &term->key, &value);
    switch (term->operation) {
    case EQUALS: return has && take_word(&values, &wanted) && same(&wanted, &value);
    case DIFFERS: return !has || (take_word(&values, &wanted) && !same(&wanted, &value));
    case IN: return has && is_among(values, &value);
    case NOT_IN: return !has || !is_among(values, &value);
    case EXISTS: return has;
    case MISSING: return !has;
    }
    return false;
}

/* Reads one alternative up to its ';' or the end. *out_holds: of the labels (NULL: not asked). */
static bool take_alternative(const char **at, const char *labels, bool *out_holds)
{
    struct term term;
    *out_holds = true;
    *at = skip(*at);
    if (**at == 0 || **at == ';')
        return true;
    do {
        if (!take_term(at, &term))
            return false;
        *out_holds = *out_holds && labels && holds(&term, labels);
    } while (take(at, ','));
    *at = skip(*at);
    return **at == 0 || **at == ';';
}

unsigned mt_selector_match(const char *selector, const char *labels)
{
    bool is_held;
    for (unsigned i = 1;; i++) {
        if (!take_alternative(&selector, labels, &is_held))
            return 0;
        if (is_held)
            return i;
        if (!take(&selector, ';'))
            return 0;
    }
}

/* ---- checking ---- */

static mt_status wrong(const char *what, const char *whole, const char *at, char *text, size_t text_size)
{
    snprintf(text, text_size, "%s \"%.*s\": can't be read from \"%.32s\" on", what, MT_LABELS_BYTES_MAX, whole,
             *at ? at : "its end");
    return mt_error(MT_EINVAL, 0, "read labels");
}

static mt_status check_size(const char *what, const char *whole, char *text, size_t text_size)
{
    if (strlen(whole) < MT_LABELS_BYTES_MAX)
        return mt_ok();
    snprintf(text, text_size, "%s have at most %d letters", what, MT_LABELS_BYTES_MAX - 1);
    return mt_error(MT_EINVAL, 0, "read labels");
}

mt_status mt_labels_check(const char *labels, char *text, size_t text_size)
{
    const char *at = labels;
    struct word key, value, other;
    MT_TRY(check_size("labels", labels, text, text_size));
    if (*skip(at) == 0)
        return mt_ok();
    do {
        if (!take_word(&at, &key) || !take(&at, '=') || !take_word(&at, &value))
            return wrong("labels", labels, skip(at), text, text_size);
        if (value_of(labels, &key, &other) && other.at != value.at) {
            snprintf(text, text_size, "labels \"%s\": \"%.*s\" stands there twice", labels, (int)key.size, key.at);
            return mt_error(MT_EINVAL, 0, "read labels");
        }
    } while (take(&at, ','));
    at = skip(at);
    return *at ? wrong("labels", labels, at, text, text_size) : mt_ok();
}

mt_status mt_selector_check(const char *selector, char *text, size_t text_size)
{
    const char *at = selector;
    bool        is_held;
    MT_TRY(check_size("label selectors", selector, text, text_size));
    do {
        if (!take_alternative(&at, NULL, &is_held))
            return wrong("label selector", selector, skip(at), text, text_size);
    } while (take(&at, ';'));
    return mt_ok();
}

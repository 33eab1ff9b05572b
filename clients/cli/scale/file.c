/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - the cluster file: what can be started, and by whom. Each fault is said with its line and key.
 *
 * Owns: nothing. Thread: main.
 */
#include "clients/cli/scale/private.h"

#include "clients/cli/settings/settings.h"
#include "core/base/limits/scaler.h"
#include "core/text/amounts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *plain(const struct settings_at *at, const settings_value *value)
{
    const char *text = settings_text(value);
    if (!text)
        settings_fail(at, "must be a plain value");
    else if (strlen(text) >= SCALE_TEXT_SIZE)
        settings_fail(at, "is longer than %d bytes", SCALE_TEXT_SIZE - 1);
    return text && strlen(text) < SCALE_TEXT_SIZE ? text : NULL;
}

static bool unknown(const struct settings_at *at, const char *keys)
{
    return settings_fail(at, "no such key; there are %s", keys);
}

/* ---- values ---- */

static bool count_read(const struct settings_at *at, const settings_value *value, uint32_t *out)
{
    const char *text = plain(at, value);
    int64_t     n;
    if (!text || !settings_whole(at, text, &n))
        return false;
    if (n < 0 || n > MT_SCL_INSTANCES_MAX)
        return settings_fail(at, "is a number from 0 to %d, not %lld", MT_SCL_INSTANCES_MAX, (long long)n);
    *out = (uint32_t)n;
    return true;
}

static bool seconds_read(const struct settings_at *at, const settings_value *value, double *out)
{
    const char *text = plain(at, value);
    if (!text || !settings_number(at, text, out))
        return false;
    return *out >= 0 && *out <= 1e9 ? true : settings_fail(at, "is a time in seconds, not %s", text);
}

/* A number, or bytes as 4GiB, 512MiB, 10KiB. */
static bool amount_read(const struct settings_at *at, const char *text, double *out)
{
    static const struct {
        const char *unit;
        double      bytes;
    } units[] = {{"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1024.0 * (1 << 30)}};
    char  *end;
    double number = strtod(text, &end), times = 1;
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) {
            times = units[i].bytes;
            end += 3;
        }
    if (end == text || *end || !(number >= 0) || number * times > 1e15)
        return settings_fail(at, "\"%.60s\" is no amount: a number, or bytes as 4GiB", text);
    *out = number * times;
    return true;
}

/* ---- pairs ---- */

static bool pair_add(const struct settings_at *at, const char *text, struct scale_pairs *p)
{
    if (p->count == SCALE_PAIRS_MAX)
        return settings_fail(at, "there are more than %d", SCALE_PAIRS_MAX);
    if (strlen(at->name) >= sizeof p->names[0])
        return settings_fail(at, "is longer than %zu bytes", sizeof p->names[0] - 1);
    snprintf(p->names[p->count], sizeof p->names[0], "%s", at->name);
    snprintf(p->values[p->count], sizeof p->values[0], "%s", text);
    p->settings[p->count] = (manta_scale_setting){p->names[p->count], p->values[p->count]};
    p->count++;
    return true;
}

static bool resource_read(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_pairs *p = user;
    const char         *text = plain(at, value);
    double              amount = 0;
    if (!text || !amount_read(at, text, &amount))
        return false;
    const char *wrong = mt_amount_wrong_of_node(at->name, amount);
    if (wrong)
        return settings_fail(at, "%s: %s", text, wrong);
    if (!pair_add(at, text, p))
        return false;
    p->resources[p->count - 1] = (manta_scale_resource){p->names[p->count - 1], amount};
    return true;
}

static bool setting_read(const struct settings_at *at, const settings_value *value, void *user)
{
    const char *text = plain(at, value);
    return text && pair_add(at, text, user);
}

/* ---- zones ---- */

struct type_reading {
    manta_scale_type  *type;
    struct scale_type *text;
};

static bool zone_add(const struct settings_at *at, const settings_value *value, struct type_reading *r)
{
    const char *text = value ? plain(at, value) : NULL;
    size_t      count = r->type->zone_count;
    if (!text)
        return false;
    if (!text[0] || strlen(text) >= sizeof r->text->zones[0] ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz"
                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") < strlen(text))
        return settings_fail(at, "\"%.60s\" is no name of a zone: letters, digits, '.', '_', '-' and '/', 63 at most", text);
    for (size_t z = 0; z < count; z++)
        if (strcmp(r->text->zones[z], text) == 0)
            return settings_fail(at, "%s stands there twice", text);
    if (count == MT_SCL_ZONES_MAX)
        return settings_fail(at, "there are more than %d", MT_SCL_ZONES_MAX);
    snprintf(r->text->zones[count], sizeof r->text->zones[0], "%s", text);
    r->text->zone_list[count] = r->text->zones[count];
    r->type->zone_count++;
    return true;
}

/* One, or a list of them. */
static bool zones_read(const struct settings_at *at, const settings_value *value, struct type_reading *r)
{
    if (!settings_is_list(value))
        return zone_add(at, value, r);
    for (size_t i = 0; i < settings_count(value); i++)
        if (!zone_add(at, settings_item(at, value, i), r))
            return false;
    return r->type->zone_count > 0 || settings_fail(at, "there are none");
}

/* ---- one type ---- */

static bool type_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct type_reading *r = user;
    char                 section[160];
    snprintf(section, sizeof section, "%.90s.%.60s", at->section, at->name);
    if (strcmp(at->name, "resources") == 0 && settings_text(value) && strcmp(settings_text(value), "learn") == 0)
        return r->text->learns = true;
    if (strcmp(at->name, "resources") == 0)
        return settings_walk(at, value, section, resource_read, &r->text->resources);
    if (strcmp(at->name, "settings") == 0)
        return settings_walk(at, value, section, setting_read, &r->text->settings);
    if (strcmp(at->name, "min") == 0)
        return count_read(at, value, &r->type->min);
    if (strcmp(at->name, "max") == 0)
        return count_read(at, value, &r->type->max);
    if (strcmp(at->name, "idle_s") == 0)
        return seconds_read(at, value, &r->text->idle_s);
    if (strcmp(at->name, "boot_s") == 0)
        return seconds_read(at, value, &r->text->boot_s);
    if (strcmp(at->name, "zones") == 0)
        return zones_read(at, value, r);
    const char *text = plain(at, value);
    if (!text)
        return false;
    if (strcmp(at->name, "spot") == 0)
        return settings_bool(at, text, &r->type->is_spot);
    if (strcmp(at->name, "spread") == 0)
        return settings_bool(at, text, &r->type->is_spread);
    if (strcmp(at->name, "price") == 0)
        return settings_number(at, text, &r->type->price) && (r->type->price >= 0 || settings_fail(at, "is less than nothing"));
    if (strcmp(at->name, "labels") != 0)
        return unknown(at, "resources, labels, min, max, idle_s, boot_s, price, spot, zones, spread and settings");
    snprintf(r->text->labels, sizeof r->text->labels, "%s", text);
    return strlen(text) < sizeof r->text->labels || settings_fail(at, "is longer than 255 bytes");
}

static bool type_read(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_file  *f = user;
    char                section[100];
    struct type_reading r = {&f->types[f->cluster.type_count], &f->texts[f->cluster.type_count]};
    if (f->cluster.type_count == SCALE_TYPES_MAX)
        return settings_fail(at, "there are more than %d types", SCALE_TYPES_MAX);
    if (strlen(at->name) >= sizeof r.text->name)
        return settings_fail(at, "is longer than %zu bytes", sizeof r.text->name - 1);
    snprintf(section, sizeof section, "%.30s.%.60s", at->section, at->name);
    snprintf(r.text->name, sizeof r.text->name, "%s", at->name);
    r.text->idle_s = r.text->boot_s = -1;
    r.type->max = UINT32_MAX;
    if (!settings_walk(at, value, section, type_key, &r))
        return false;
    if (r.type->max == UINT32_MAX)
        return settings_fail(at, "has no max: how many of it there may be");
    if (r.type->max < r.type->min)
        return settings_fail(at, "its max (%u) is less than its min (%u)", r.type->max, r.type->min);
    if (r.text->resources.count == 0 && !r.text->learns)
        return settings_fail(at, "has no resources: what such a node has, as {CPU: 4}; or learn, as the first one tells");
    if (r.type->is_spread && r.type->zone_count == 0)
        return settings_fail(at, "is to be spread, and has no zones");
    f->cluster.type_count++;
    return true;
}

/* ---- the file ---- */

static bool provider_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_file *f = user;
    const char        *text = plain(at, value);
    if (!text)
        return false;
    if (strcmp(at->name, "kind") != 0)
        return pair_add(at, text, &f->settings);
    snprintf(f->provider, sizeof f->provider, "%s", text);
    return true;
}

static bool head_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_file *f = user;
    const char        *text = plain(at, value);
    double             cpus;
    if (strcmp(at->name, "cpus") != 0)
        return unknown(at, "cpus");
    if (!text || !settings_number(at, text, &cpus))
        return false;
    const char *wrong = mt_amount_wrong_of_node("CPU", cpus);
    if (wrong)
        return settings_fail(at, "%s: %s", text, wrong);
    snprintf(f->head_cpus, sizeof f->head_cpus, "%.30s", text);
    return true;
}

static bool floor_read(const struct settings_at *at, const settings_value *value, struct scale_file *f)
{
    uint32_t count = 0;
    if (!count_read(at, value, &count))
        return false;
    f->cluster.on_demand_min = count;
    f->floor_line = at->line;
    return true;
}

/* What only the whole file tells. */
static bool floor_check(const struct settings_at *at, const struct scale_file *f)
{
    struct settings_at here = {at->settings, "", "on_demand_min", f->floor_line};
    bool               has_other = false;
    for (size_t t = 0; t < f->cluster.type_count; t++)
        has_other = has_other || !f->types[t].is_spot;
    if (f->cluster.on_demand_min && !has_other)
        return settings_fail(&here, "all types are spot: there must be one that is not");
    if (f->cluster.max && f->cluster.on_demand_min > f->cluster.max)
        return settings_fail(&here, "(%u) is more than max (%u)", (unsigned)f->cluster.on_demand_min, f->cluster.max);
    return true;
}

static bool top_key(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_file *f = user;
    if (strcmp(at->name, "provider") == 0)
        return settings_walk(at, value, "provider", provider_key, f);
    if (strcmp(at->name, "head") == 0)
        return settings_walk(at, value, "head", head_key, f);
    if (strcmp(at->name, "types") == 0)
        return settings_walk(at, value, "types", type_read, f);
    if (strcmp(at->name, "max") == 0)
        return count_read(at, value, &f->cluster.max);
    if (strcmp(at->name, "on_demand_min") == 0)
        return floor_read(at, value, f);
    if (strcmp(at->name, "consolidate_s") == 0)
        return seconds_read(at, value, &f->consolidate_s);
    if (strcmp(at->name, "idle_s") == 0)
        return seconds_read(at, value, &f->idle_s);
    if (strcmp(at->name, "boot_s") == 0)
        return seconds_read(at, value, &f->boot_s);
    return unknown(at, "provider, head, types, max, on_demand_min, consolidate_s, idle_s and boot_s");
}

static bool top_read(const struct settings_at *at, const settings_value *value, void *user)
{
    struct scale_file *f = user;
    if (!value)
        return settings_fail(at, "the file is empty");
    if (!settings_walk(at, value, "", top_key, f))
        return false;
    if (!f->provider[0])
        return settings_fail(at, "provider.kind is missing: local, ssh, slurm, kubernetes, command, or the path of a program");
    if (f->cluster.type_count == 0)
        return settings_fail(at, "types is missing: what can be started");
    return floor_check(at, f);
}

static void types_finish(struct scale_file *f)
{
    for (size_t i = 0; i < f->cluster.type_count; i++) {
        manta_scale_type  *t = &f->types[i];
        struct scale_type *text = &f->texts[i];
        t->name = text->name;
        t->labels = text->labels;
        t->resources = text->resources.resources;
        t->resource_count = text->resources.count;
        t->zones = text->zone_list;
        t->settings = text->settings.settings;
        t->setting_count = text->settings.count;
        t->idle_ms = (int64_t)((text->idle_s < 0 ? f->idle_s : text->idle_s) * 1000);
        t->boot_ms = (int64_t)((text->boot_s < 0 ? f->boot_s : text->boot_s) * 1000);
    }
}

bool scale_file_read(const char *file, struct scale_file *f)
{
    struct settings settings = {0};
    f->idle_s = MT_SCL_IDLE_MS / 1000;
    f->boot_s = MT_SCL_BOOT_MS / 1000;
    f->consolidate_s = MT_SCL_CONSOLIDATE_MS / 1000;
    if (!settings_read(&settings, file, "cluster file", top_read, f)) {
        cli_fail("%s", settings.error);
        return false;
    }
    types_finish(f);
    f->cluster.consolidate_ms = f->consolidate_s > 0 ? (int64_t)(f->consolidate_s * 1000) : -1;
    f->cluster.provider = f->provider;
    f->cluster.settings = f->settings.settings;
    f->cluster.setting_count = f->settings.count;
    f->cluster.types = f->types;
    return true;
}

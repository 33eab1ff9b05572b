/* SPDX-License-Identifier: Apache-2.0
 *
 * manta_report.h - for a program that is a trial of a sweep (manta_sweep_command, `trial: {command: ...}`): its parameters, its
 * metrics, and that it is done. Needs libc only and no library; by hand, without a sweep, the same program prints the same lines.
 *
 *     double lr = manta_report_param("lr", 0.01);
 *     for (int epoch = 1; epoch <= 10; epoch++)
 *         manta_report(epoch, "loss", train(lr));
 *     manta_report_done(10, "loss", loss);
 *
 * One that is to stop gets SIGTERM. Thread: any, one at a time.
 */
#ifndef MANTA_REPORT_H
#define MANTA_REPORT_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a parameter as text; NULL: this trial does not have it. Valid until the environment changes. */
static inline const char *manta_report_text(const char *name)
{
    char variable[128];
    snprintf(variable, sizeof variable, "MANTA_PARAM_%.100s", name);
    return getenv(variable);
}

/* A number has a point in what a sweep writes and reads, whatever locale this program has set. For the functions below: `text` into
 * `out`, with `to` where `from` stands first. */
static inline void manta_report_put(char *out, size_t size, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    else
        snprintf(out, size, "%s", text);
}

/* The same as a number; `otherwise` where this trial does not have it, or it is none. */
static inline double manta_report_param(const char *name, double otherwise)
{
    const char *text = manta_report_text(name);
    char        local[128], *end;
    double      value;
    if (!text)
        return otherwise;
    manta_report_put(local, sizeof local, text, ".", localeconv()->decimal_point);
    value = strtod(local, &end);
    return end == local || *end ? otherwise : value;
}

/* A folder for files of this trial, which those find who go on with it; NULL: there is no sweep. */
static inline const char *manta_report_dir(void)
{
    return getenv("MANTA_TRIAL_DIR");
}

static inline int manta_report_line(FILE *to, long long step, const char *metric, double value)
{
    char local[64], plain[64];
    snprintf(local, sizeof local, "%.17g", value);
    manta_report_put(plain, sizeof plain, local, localeconv()->decimal_point, ".");
    return fprintf(to, "step=%lld %s=%s\n", step, metric, plain);
}

/* Tells a metric at a step: a line of standard output, so nothing else may stand in that line. */
static inline void manta_report(long long step, const char *metric, double value)
{
    manta_report_line(stdout, step, metric, value);
    fflush(stdout);
}

/* The last value. From now on the trial is completed: it is not run again, whatever dies, and however this program exits.
 * Returns 0, or -1: the disk refused (errno says why), and the trial ends with the program as any. */
static inline int manta_report_done(long long step, const char *metric, double value)
{
    const char *path = getenv("MANTA_TRIAL_DONE");
    char        aside[4200];
    FILE       *f;
    int         is_written;
    manta_report(step, metric, value);
    if (!path)
        return 0;
    snprintf(aside, sizeof aside, "%.4190s.new", path);
    f = fopen(aside, "w");
    if (!f)
        return -1;
    is_written = manta_report_line(f, step, metric, value) > 0;
    return fclose(f) == 0 && is_written && rename(aside, path) == 0 ? 0 : -1;
}

#ifdef __cplusplus
}
#endif
#endif

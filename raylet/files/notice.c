/* SPDX-License-Identifier: Apache-2.0
 *
 * notice.c - see notice.h. Owns nothing.
 */
#include "raylet/files/notice.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t time_at(const char *text)
{
    struct tm t = {0};
    int       end = 0, year, month, day, hour, minute, second;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &end) != 6 || text[end] != 'Z')
        return 0;
    if (end != sizeof "2026-11-23T18:00:00" - 1 || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
        return 0;
    t.tm_year = year - 1900, t.tm_mon = month - 1, t.tm_mday = day;
    t.tm_hour = hour, t.tm_min = minute, t.tm_sec = second;
    time_t seconds = timegm(&t);
    return seconds > 0 ? (uint64_t)seconds * 1000 : 0;
}

uint64_t rlt_notice_time(const char *text, uint64_t written_ms)
{
    char  *end;
    double seconds = strtod(text, &end);
    if (end != text && seconds >= 0 && seconds <= RLT_NOTICE_S_MAX && end[strspn(end, " \t\r\n")] == '\0')
        return written_ms + (uint64_t)(seconds * 1000);
    for (const char *at = text; *at; at++) {
        uint64_t when = isdigit((unsigned char)*at) ? time_at(at) : 0;
        if (when)
            return when;
    }
    return 0;
}

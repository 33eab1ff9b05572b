/* SPDX-License-Identifier: Apache-2.0
 *
 * journal.h - a sweep on the disk: what it is, each record in order, and the states that trials have saved.
 *
 *   FOLDER/journal.db    spec(key, value)                            what the sweep is, written once
 *                        event(seq, kind, trial, at, step, value, code, text)   one row a record (record.h)
 *                        control(id, what, value)                    words from outside that wait to be heeded
 *   FOLDER/stop          a STOP that found no room in the database
 *   FOLDER/lock          held by the driver of the sweep
 *   FOLDER/state/N       what trial N goes on from (state.h)
 *   FOLDER/ends/NAME     what slots have noted of ends that may not be in the journal yet (ends.h)
 *
 * The journal is SQLite with a write-ahead log: readers may look at any time. A thread of its own writes: what has come meanwhile
 * goes into one transaction and one fsync, so that nobody waits for the disk who does not want to. Files of states are written
 * by the same thread, in the order of the calls: written aside first, then the records, then published.
 *
 * A disk that becomes full is waited for: the thread tries the same transaction again (what failed has left nothing behind) until
 * there is room, or until it is told to give up. What is pushed meanwhile waits in memory: from SWP_JOURNAL_BYTES_MAX on the news
 * say is_behind, and the caller takes nothing more from its trials, which wait in their turn. Words from outside are heard all the
 * time; a STOP for which the disk has no row is a file without content, FOLDER/stop.
 *
 * Thread: all calls from one thread, but swp_journal_tell.
 */
#ifndef SWP_JOURNAL_H
#define SWP_JOURNAL_H

#include "core/base/buf.h"
#include "core/ds/vec.h"
#include "sweep/journal/record.h"

enum { SWP_JOURNAL_BYTES_MAX = 64 * 1024 * 1024 };

struct swp_journal;

/* Opens what is there, or with `create` makes it; takes the lock unless `is_reader`. EEXIST: another driver has it; ENOENT, EAUTH,
 * ECORRUPT, EDISK_FULL, ENOMEM, ESYS: `text` says what and where. */
MT_MUST_USE mt_status swp_journal_open(const char *folder, bool create, bool is_reader, struct swp_journal **out,
                                       char text[MT_ERROR_BYTES_MAX]);
/* Ends the thread, after it has written what it has, and closes. NULL is allowed. */
void swp_journal_close(struct swp_journal *j);
/* Why something failed. */
const char *swp_journal_text(const struct swp_journal *j);

/* ---- before the thread is started, and for readers ---- */

/* Appends the value of a setting, ended by a NUL that is not counted; nothing where there is none. */
MT_MUST_USE mt_status swp_journal_get(struct swp_journal *j, const char *key, mt_buf *out);
/* Sets it; durable when swp_journal_start returns, gone where the journal is closed before. */
MT_MUST_USE mt_status swp_journal_set(struct swp_journal *j, const char *key, const char *value);
/* All records in order; `fn`'s first failure ends it and is returned. */
typedef mt_status (*swp_journal_fn)(void *user, const struct swp_record *record);
MT_MUST_USE mt_status swp_journal_read(struct swp_journal *j, swp_journal_fn fn, void *user);

/* ---- the thread ---- */

MT_MUST_USE mt_status swp_journal_start(struct swp_journal *j);
/* What is done later, in this order. ENOMEM. Texts and bytes are the journal's from the call on, whatever it returns. */
MT_MUST_USE mt_status swp_journal_push(struct swp_journal *j, const struct swp_record *take_record);
MT_MUST_USE mt_status swp_journal_save(struct swp_journal *j, int64_t trial, uint32_t run, int64_t step, mt_buf *take_bytes);
MT_MUST_USE mt_status swp_journal_publish(struct swp_journal *j, int64_t trial, uint32_t run);
MT_MUST_USE mt_status swp_journal_clone(struct swp_journal *j, int64_t trial, int64_t from);

/* What the trial has saved is wanted no more. */
MT_MUST_USE mt_status swp_journal_drop(struct swp_journal *j, int64_t trial, uint32_t run);

/* Blocks until all that was pushed is on the disk, or writing has failed; a full disk is not waited for here. */
MT_MUST_USE mt_status swp_journal_flush(struct swp_journal *j);
/* A full disk is waited for no longer: it is a failure, EDISK_FULL. So is one that is found later. */
void swp_journal_give_up(struct swp_journal *j);

struct swp_word {
    int64_t id, value;
    int     what;
};
struct swp_copied {
    int64_t trial;
    bool    is_done;
};
struct swp_news {
    uint64_t  durable;
    mt_status failed;    /* the first failure; nothing is written after it, and swp_journal_text says why */
    bool      is_full;   /* the disk is: all waits for room */
    bool      is_behind; /* so much waits for the disk that no more is to be pushed but what can't be helped */
    MT_VEC(struct swp_copied) copies;
    MT_VEC(struct swp_word) words;
};
/* What has happened since the last call; replaces *news, whose arrays are the caller's to keep and, at the end, to free. */
void swp_journal_news(struct swp_journal *j, struct swp_news *news);
/* Words up to this id are in records that were pushed before: they are forgotten when those are durable. */
MT_MUST_USE mt_status swp_journal_heeded(struct swp_journal *j, int64_t id);

/* From outside. ENOENT: there is no such sweep. Blocks up to 5 s. */
MT_MUST_USE mt_status swp_journal_tell(const char *folder, int what, int64_t value, char text[MT_ERROR_BYTES_MAX]);

#endif

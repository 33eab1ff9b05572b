/* SPDX-License-Identifier: Apache-2.0
 *
 * journal.c - the journal and its thread. See journal.h.
 *
 * Owns:   the database, the lock, the thread, what is queued for it.
 * Thread: the caller's and the journal's meet at `mutex` only; the database is the caller's before swp_journal_start, then the
 *         thread's.
 */
#include "sweep/journal/journal.h"

#include "core/base/cond.h"
#include "core/sys/file.h"
#include "core/db/db.h"
#include "sweep/trial/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKPOINT_PAGES = 4000 };
enum job_kind { JOB_RECORD, JOB_SAVE, JOB_PUBLISH, JOB_CLONE, JOB_DROP, JOB_HEEDED };
struct job {
    enum job_kind     kind;
    uint32_t          run;
    int64_t           trial, from; /* SAVE: from is the step; HEEDED: the id */
    struct swp_record record;
    mt_buf            bytes;
};
typedef MT_VEC(struct job) job_vec;

struct swp_journal {
    char            folder[MT_PATH_BYTES_MAX];
    struct db       db;
    struct db_query insert, words, heeded;
    int             lock_fd;
    bool            has_thread;
    pthread_t       thread;
    pthread_mutex_t mutex;
    pthread_cond_t  cond, idle;
    job_vec         queue;   /* under mutex, as all below */
    size_t          waiting; /* bytes of the queue, and of what the thread has taken of it */
    struct swp_news news;
    bool            is_ending, is_busy, gives_up;
    bool            has_stop;  /* the file was seen; of the thread */
    int64_t         word_last; /* the newest that was told */
    char            text[MT_ERROR_BYTES_MAX];
};

/* ---- failures ---- */

/* Passes a status of the database on, a failure with where and what to do about it. */
static mt_status told(struct swp_journal *j, mt_status st)
{
    const char *advice = "; the disk is full, or takes no more: make room and resume, what is in the journal is kept";
    if (st.code == 0)
        return st;
    snprintf(j->text, sizeof j->text, "%.230s/journal.db: %.160s%s", j->folder, j->db.text, st.code == MT_EDISK_FULL ? advice : "");
    return mt_error(st.code, st.sys, "use the sweep's journal");
}

/* ---- opening ---- */

static mt_status sys_fail(struct swp_journal *j, const char *path, const char *step)
{
    int sys = errno;
    snprintf(j->text, sizeof j->text, "%.400s: %s: %s", path, step, strerror(sys));
    int32_t code = sys == ENOENT ? MT_ENOENT : sys == ENOSPC ? MT_EDISK_FULL : sys == EACCES || sys == EROFS ? MT_EAUTH : MT_ESYS;
    return mt_error(code, sys, "open the sweep's folder");
}

static mt_status folder_make_one(struct swp_journal *j, const char *path)
{
    if (mkdir(path, 0755) != 0)
        return errno == EEXIST ? mt_ok() : sys_fail(j, path, "make the folder");
    (void)mt_name_sync(path); /* as good as the file system can; SQLite goes on there too */
    return mt_ok();
}

/* Makes the folder, and those above it that are missing. */
static mt_status folder_make(struct swp_journal *j, const char *path)
{
    char part[MT_PATH_BYTES_MAX + 16];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        MT_TRY(folder_make_one(j, part));
    }
    return folder_make_one(j, path);
}

static mt_status lock(struct swp_journal *j)
{
    char path[MT_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/lock", j->folder);
    j->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (j->lock_fd < 0)
        return sys_fail(j, path, "open the lock");
    if (flock(j->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return mt_ok();
    snprintf(j->text, sizeof j->text, "another driver runs this sweep, in %.300s: stop it, or give this one another name",
             j->folder);
    return mt_error(MT_EEXIST, 0, "lock the sweep");
}

static mt_status database_open(struct swp_journal *j, bool create)
{
    static const char schema[] =
        "CREATE TABLE IF NOT EXISTS spec(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
        "CREATE TABLE IF NOT EXISTS event(seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, trial INTEGER NOT NULL, at REAL NOT NULL,"
        " step INTEGER, value REAL, code INTEGER, text TEXT);"
        "CREATE TABLE IF NOT EXISTS control(id INTEGER PRIMARY KEY AUTOINCREMENT, what INTEGER NOT NULL, value INTEGER NOT NULL);";
    char path[MT_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/journal.db", j->folder);
    if (!create && access(path, F_OK) != 0)
        return sys_fail(j, path, "open the journal");
    struct db_options options = {
        .may_create = create, .is_durable = true, .wait_ms = MT_SWEEP_BUSY_MS, .checkpoint_pages = CHECKPOINT_PAGES};
    MT_TRY(told(j, db_open(&j->db, path, &options)));
    if (!create)
        return mt_ok();
    MT_TRY(told(j, db_run(&j->db, schema, "make its tables")));
    return told(j, db_begin(&j->db)); /* what the sweep is, in one transaction, which swp_journal_start ends */
}

static mt_status open_all(struct swp_journal *j, bool create, bool is_reader)
{
    char path[MT_PATH_BYTES_MAX + 16];
    for (int i = 0; create && i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", j->folder, i == 0 ? "state" : "ends");
        MT_TRY(folder_make(j, path));
    }
    if (!is_reader)
        MT_TRY(lock(j));
    return database_open(j, create);
}

mt_status swp_journal_open(const char *folder, bool create, bool is_reader, struct swp_journal **out, char text[MT_ERROR_BYTES_MAX])
{
    struct swp_journal *j = calloc(1, sizeof *j);
    snprintf(text, MT_ERROR_BYTES_MAX, "no memory");
    if (!j)
        return mt_error(MT_ENOMEM, 0, "open the journal");
    j->lock_fd = -1;
    pthread_mutex_init(&j->mutex, NULL);
    mt_cond_init(&j->cond);
    pthread_cond_init(&j->idle, NULL);
    snprintf(j->folder, sizeof j->folder, "%s", folder);
    mt_status st = open_all(j, create, is_reader);
    if (st.code == 0) {
        *out = j;
        return st;
    }
    snprintf(text, MT_ERROR_BYTES_MAX, "%s", j->text);
    swp_journal_close(j);
    return st;
}

const char *swp_journal_text(const struct swp_journal *j)
{
    return j->text;
}

/* ---- settings and reading ---- */

mt_status swp_journal_get(struct swp_journal *j, const char *key, mt_buf *out)
{
    struct db_query q;
    bool            has_row = false;
    mt_status       st = db_prepare(&j->db, &q, "SELECT value FROM spec WHERE key = ?1", "read what the sweep is");
    if (st.code == 0) {
        db_bind_text(&q, 1, key);
        st = db_next(&q, &has_row);
    }
    st = told(j, st);
    if (has_row) {
        mt_view value = db_bytes(&q, 0);
        st = mt_buf_append(out, value.data, value.size);
    }
    db_finish(&q);
    return st.code ? st : mt_buf_terminate(out);
}

mt_status swp_journal_set(struct swp_journal *j, const char *key, const char *value)
{
    static const char sql[] = "INSERT OR REPLACE INTO spec(key, value) VALUES(?1, ?2)";
    struct db_query   q;
    mt_status         st = db_prepare(&j->db, &q, sql, "write what the sweep is");
    if (st.code == 0) {
        db_bind_text(&q, 1, key);
        db_bind_text(&q, 2, value);
        st = db_do(&q);
    }
    db_finish(&q);
    return told(j, st);
}

mt_status swp_journal_read(struct swp_journal *j, swp_journal_fn fn, void *user)
{
    static const char sql[] = "SELECT seq, kind, trial, at, step, value, code, text FROM event ORDER BY seq";
    struct db_query   q;
    bool              has_row = true;
    mt_status         st = told(j, db_prepare(&j->db, &q, sql, "read"));
    while (st.code == 0 && (st = told(j, db_next(&q, &has_row))).code == 0 && has_row) {
        struct swp_record r = {.seq = (uint64_t)db_int(&q, 0),
                               .kind = (enum swp_record_kind)db_int(&q, 1),
                               .trial = db_int(&q, 2),
                               .at = db_real(&q, 3),
                               .step = db_int(&q, 4),
                               .value = db_real(&q, 5),
                               .code = (int)db_int(&q, 6),
                               .text = db_text(&q, 7)};
        st = fn(user, &r);
    }
    db_finish(&q);
    return st;
}

/* ---- the thread ---- */

static mt_status record_write(struct swp_journal *j, const struct swp_record *r)
{
    struct db_query *q = &j->insert;
    db_bind_int(q, 1, (int64_t)r->seq);
    db_bind_int(q, 2, (int)r->kind);
    db_bind_int(q, 3, r->trial);
    db_bind_real(q, 4, r->at);
    db_bind_int(q, 5, r->step);
    db_bind_real(q, 6, r->value);
    db_bind_int(q, 7, r->code);
    db_bind_text(q, 8, r->text);
    return db_do(q);
}

static mt_status heeded_write(struct swp_journal *j, int64_t id)
{
    db_bind_int(&j->heeded, 1, id);
    return db_do(&j->heeded);
}

static bool is_of_database(const struct job *job)
{
    return job->kind == JOB_RECORD || job->kind == JOB_HEEDED;
}

static mt_status rows_write(struct swp_journal *j, const job_vec *jobs, uint64_t *out_seq)
{
    bool has_rows = false;
    for (size_t i = 0; i < jobs->count && !has_rows; i++)
        has_rows = is_of_database(&jobs->data[i]);
    if (!has_rows)
        return mt_ok();
    mt_status st = db_begin(&j->db);
    for (size_t i = 0; i < jobs->count && st.code == 0; i++) {
        const struct job *job = &jobs->data[i];
        if (job->kind == JOB_RECORD) {
            st = record_write(j, &job->record);
            *out_seq = job->record.seq;
        } else if (job->kind == JOB_HEEDED) {
            st = heeded_write(j, job->from);
        }
    }
    if (st.code == 0)
        st = db_commit(&j->db);
    if (st.code == 0)
        return st;
    st = told(j, st);
    db_rollback(&j->db);
    return st;
}

/* States are written aside before the records that are behind them, and published after. */
static mt_status files_write(struct swp_journal *j, const job_vec *jobs)
{
    mt_status st = mt_ok();
    for (size_t i = 0; i < jobs->count && st.code == 0; i++) {
        const struct job *job = &jobs->data[i];
        if (job->kind == JOB_SAVE)
            st = swp_state_write(j->folder, job->trial, job->run, job->from, mt_buf_view(&job->bytes));
    }
    if (st.code)
        snprintf(j->text, sizeof j->text, "%.300s/state: a trial's state can't be written: %s", j->folder, strerror(st.sys));
    return st;
}

static mt_status files_publish(struct swp_journal *j, const job_vec *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->data[i];
        struct swp_copied copy = {job->trial, false};
        if (job->kind == JOB_PUBLISH)
            swp_state_publish(j->folder, job->trial, job->run);
        if (job->kind == JOB_DROP)
            swp_state_drop(j->folder, job->trial, job->run);
        if (job->kind != JOB_CLONE)
            continue;
        copy.is_done = swp_state_clone(j->folder, job->trial, job->from).code == 0;
        pthread_mutex_lock(&j->mutex);
        mt_status st = mt_vec_push(&j->news.copies, copy);
        pthread_mutex_unlock(&j->mutex);
        MT_TRY(st);
    }
    return mt_ok();
}

static void stop_path(const char *folder, char out[MT_PATH_BYTES_MAX + 16])
{
    snprintf(out, MT_PATH_BYTES_MAX + 16, "%s/stop", folder);
}

/* The file that stands for a STOP on a full disk; it is heeded once. */
static mt_status stop_look(struct swp_journal *j)
{
    char path[MT_PATH_BYTES_MAX + 16];
    stop_path(j->folder, path);
    if (j->has_stop || access(path, F_OK) != 0)
        return mt_ok();
    j->has_stop = true;
    pthread_mutex_lock(&j->mutex);
    mt_status st = mt_vec_push(&j->news.words, (struct swp_word){.what = SWP_CONTROL_STOP});
    pthread_mutex_unlock(&j->mutex);
    return st;
}

static mt_status words_read(struct swp_journal *j)
{
    mt_status st = stop_look(j);
    db_bind_int(&j->words, 1, j->word_last);
    for (bool has_row; st.code == 0 && (st = told(j, db_next(&j->words, &has_row))).code == 0 && has_row;) {
        struct swp_word word = {db_int(&j->words, 0), db_int(&j->words, 2), (int)db_int(&j->words, 1)};
        j->word_last = word.id;
        pthread_mutex_lock(&j->mutex);
        st = mt_vec_push(&j->news.words, word);
        pthread_mutex_unlock(&j->mutex);
    }
    db_rewind(&j->words);
    return st;
}

static size_t job_size(const struct job *job)
{
    return sizeof *job + (job->record.text ? strlen(job->record.text) : 0) + job->bytes.size;
}

/* Returns how many bytes they were. */
static size_t jobs_free(job_vec *jobs)
{
    size_t size = 0;
    for (size_t i = 0; i < jobs->count; i++) {
        size += job_size(&jobs->data[i]);
        free((char *)jobs->data[i].record.text);
        mt_buf_fini(&jobs->data[i].bytes);
    }
    jobs->count = 0;
    return size;
}

/* Takes what is queued; waits for it a while. False: it is time to end. */
static bool jobs_take(struct swp_journal *j, job_vec *jobs)
{
    struct timespec until = mt_cond_until(MT_SWEEP_WORDS_MS);
    pthread_mutex_lock(&j->mutex);
    while (j->queue.count == 0 && !j->is_ending && pthread_cond_timedwait(&j->cond, &j->mutex, &until) == 0)
        ;
    job_vec taken = j->queue;
    j->queue = *jobs;
    *jobs = taken;
    j->is_busy = jobs->count > 0;
    bool is_over = j->is_ending && jobs->count == 0;
    pthread_mutex_unlock(&j->mutex);
    return !is_over;
}

/* The disk is full: waits a while. False: nobody waits for it any more. */
static bool room_wait(struct swp_journal *j)
{
    struct timespec until = mt_cond_until(MT_SWEEP_ROOM_MS);
    pthread_mutex_lock(&j->mutex);
    j->news.is_full = true;
    pthread_cond_signal(&j->idle); /* who flushes does not wait for room */
    while (!j->is_ending && !j->gives_up && pthread_cond_timedwait(&j->cond, &j->mutex, &until) == 0)
        ;
    bool goes_on = !j->is_ending && !j->gives_up;
    pthread_mutex_unlock(&j->mutex);
    mt_status st = words_read(j); /* who says STOP does not wait for room */
    return goes_on && st.code == 0;
}

/* Files and rows, as often as it takes: what finds no room leaves nothing behind. */
static mt_status jobs_write(struct swp_journal *j, const job_vec *jobs, uint64_t *out_seq)
{
    for (;;) {
        mt_status st = files_write(j, jobs);
        if (st.code == 0)
            st = rows_write(j, jobs, out_seq);
        if (st.code != MT_EDISK_FULL || !room_wait(j))
            return st;
    }
}

static void *thread_run(void *user)
{
    struct swp_journal *j = user;
    job_vec             jobs = {0};
    mt_status           st = mt_ok();
    while (jobs_take(j, &jobs)) {
        uint64_t seq = 0;
        if (st.code == 0)
            st = jobs_write(j, &jobs, &seq);
        if (st.code == 0)
            st = files_publish(j, &jobs);
        if (st.code == 0)
            st = words_read(j);
        size_t size = jobs_free(&jobs);
        pthread_mutex_lock(&j->mutex);
        if (st.code == 0 && seq)
            j->news.durable = seq;
        j->news.failed = st;
        j->news.is_full = j->is_busy = false;
        j->waiting -= size;
        pthread_cond_signal(&j->idle);
        pthread_mutex_unlock(&j->mutex);
    }
    mt_vec_fini(&jobs);
    return NULL;
}

mt_status swp_journal_start(struct swp_journal *j)
{
    static const char insert[] = "INSERT INTO event(seq, kind, trial, at, step, value, code, text) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)";
    char              stop[MT_PATH_BYTES_MAX + 16];
    MT_TRY(told(j, db_run(&j->db, "DELETE FROM control WHERE what = 1", "begin"))); /* a STOP was for the driver before */
    stop_path(j->folder, stop);
    unlink(stop);
    MT_TRY(told(j, db_commit(&j->db)));
    MT_TRY(told(j, db_prepare(&j->db, &j->insert, insert, "write")));
    MT_TRY(told(j, db_prepare(&j->db, &j->words, "SELECT id, what, value FROM control WHERE id > ?1 ORDER BY id", "read")));
    MT_TRY(told(j, db_prepare(&j->db, &j->heeded, "DELETE FROM control WHERE id <= ?1", "write")));
    MT_TRY(words_read(j)); /* what was left while nobody ran the sweep is heeded first */
    int sys = pthread_create(&j->thread, NULL, thread_run, j);
    if (sys != 0) {
        snprintf(j->text, sizeof j->text, "%.300s: start a thread: %s", j->folder, strerror(sys));
        return mt_error(MT_ENOMEM, sys, "start a thread");
    }
    j->has_thread = true;
    return mt_ok();
}

static mt_status push(struct swp_journal *j, struct job job)
{
    pthread_mutex_lock(&j->mutex);
    mt_status st = mt_vec_push(&j->queue, job);
    if (st.code == 0)
        j->waiting += job_size(&job);
    if (j->queue.count == 1)
        pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->mutex);
    if (st.code) {
        free((char *)job.record.text);
        mt_buf_fini(&job.bytes);
    }
    return st;
}

mt_status swp_journal_push(struct swp_journal *j, const struct swp_record *take_record)
{
    return push(j, (struct job){.kind = JOB_RECORD, .record = *take_record});
}

mt_status swp_journal_save(struct swp_journal *j, int64_t trial, uint32_t run_number, int64_t step, mt_buf *take_bytes)
{
    return push(j,
                (struct job){.kind = JOB_SAVE, .trial = trial, .run = run_number, .from = step, .bytes = mt_buf_move(take_bytes)});
}

mt_status swp_journal_publish(struct swp_journal *j, int64_t trial, uint32_t run_number)
{
    return push(j, (struct job){.kind = JOB_PUBLISH, .trial = trial, .run = run_number});
}

mt_status swp_journal_clone(struct swp_journal *j, int64_t trial, int64_t from)
{
    return push(j, (struct job){.kind = JOB_CLONE, .trial = trial, .from = from});
}

mt_status swp_journal_drop(struct swp_journal *j, int64_t trial, uint32_t run_number)
{
    return push(j, (struct job){.kind = JOB_DROP, .trial = trial, .run = run_number});
}

mt_status swp_journal_heeded(struct swp_journal *j, int64_t id)
{
    return push(j, (struct job){.kind = JOB_HEEDED, .from = id});
}

mt_status swp_journal_flush(struct swp_journal *j)
{
    pthread_mutex_lock(&j->mutex);
    while (j->queue.count > 0 || j->is_busy) {
        if (j->news.is_full) {
            j->gives_up = true;
            pthread_cond_signal(&j->cond);
        }
        pthread_cond_wait(&j->idle, &j->mutex);
    }
    mt_status st = j->news.failed;
    pthread_mutex_unlock(&j->mutex);
    return st;
}

void swp_journal_give_up(struct swp_journal *j)
{
    pthread_mutex_lock(&j->mutex);
    j->gives_up = true;
    pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->mutex);
}

void swp_journal_news(struct swp_journal *j, struct swp_news *news)
{
    news->copies.count = news->words.count = 0;
    pthread_mutex_lock(&j->mutex);
    struct swp_news taken = j->news;
    taken.is_behind = j->waiting > SWP_JOURNAL_BYTES_MAX;
    j->news.copies.data = news->copies.data, j->news.copies.capacity = news->copies.capacity, j->news.copies.count = 0;
    j->news.words.data = news->words.data, j->news.words.capacity = news->words.capacity, j->news.words.count = 0;
    pthread_mutex_unlock(&j->mutex);
    *news = taken;
}

void swp_journal_close(struct swp_journal *j)
{
    if (!j)
        return;
    if (j->has_thread) {
        pthread_mutex_lock(&j->mutex);
        j->is_ending = true;
        pthread_cond_signal(&j->cond);
        pthread_mutex_unlock(&j->mutex);
        pthread_join(j->thread, NULL);
    }
    (void)jobs_free(&j->queue);
    mt_vec_fini(&j->queue);
    mt_vec_fini(&j->news.copies);
    mt_vec_fini(&j->news.words);
    db_finish(&j->insert);
    db_finish(&j->words);
    db_finish(&j->heeded);
    db_close(&j->db);
    if (j->lock_fd >= 0)
        close(j->lock_fd);
    pthread_cond_destroy(&j->cond);
    pthread_cond_destroy(&j->idle);
    pthread_mutex_destroy(&j->mutex);
    free(j);
}

/* A name needs no room where a row does. */
static mt_status stop_leave(const char *folder, char text[MT_ERROR_BYTES_MAX])
{
    char path[MT_PATH_BYTES_MAX + 16];
    stop_path(folder, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        snprintf(text, MT_ERROR_BYTES_MAX, "%.400s: leave a stop: %s", path, strerror(errno));
        return mt_error(MT_EDISK_FULL, errno, "leave a stop");
    }
    close(fd);
    return mt_ok();
}

static mt_status row_leave(const char *folder, int what, int64_t value, char text[MT_ERROR_BYTES_MAX])
{
    struct swp_journal *j;
    MT_TRY(swp_journal_open(folder, false, true, &j, text));
    struct db_query q;
    mt_status       st = db_prepare(&j->db, &q, "INSERT INTO control(what, value) VALUES(?1, ?2)", "leave a word");
    if (st.code == 0) {
        db_bind_int(&q, 1, what);
        db_bind_int(&q, 2, value);
        st = db_do(&q);
    }
    db_finish(&q);
    st = told(j, st);
    snprintf(text, MT_ERROR_BYTES_MAX, "%s", j->text);
    swp_journal_close(j);
    return st;
}

mt_status swp_journal_tell(const char *folder, int what, int64_t value, char text[MT_ERROR_BYTES_MAX])
{
    mt_status st = row_leave(folder, what, value, text);
    return st.code == MT_EDISK_FULL && what == SWP_CONTROL_STOP ? stop_leave(folder, text) : st;
}

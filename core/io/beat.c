/* SPDX-License-Identifier: Apache-2.0
 *
 * beat.c - see beat.h.
 *
 * Owns:    the socket, room for one batch each way, OpenSSL's SipHash. Thread: the loop's.
 * Always:  in one turn at most ROUNDS batches are read, and where there was more than one datagram the next look is REST_MS later:
 * whoever floods the port costs a bounded share of the loop, and many nodes cost a wake-up for each of them no more.
 */
#include "core/io/beat.h"

#include "core/io/address.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROUNDS = 16,
    REST_MS = 10,
    ROOM_BYTES = 16 * 1024 * 1024, /* asked of the kernel: 10,000 beats at once, each with what the kernel needs around it */
    SEAL_AT = IO_BEAT_BYTES - 16,
    VERSION = 1,
    KIND_BEAT = 1,
    KIND_ANSWER = 2,
    KIND_HEARD = 3,
};

struct batch {
    struct mmsghdr      heads[IO_BEATS_BATCH];
    struct iovec        parts[IO_BEATS_BATCH];
    struct sockaddr_in6 peers[IO_BEATS_BATCH];
    uint8_t             bytes[IO_BEATS_BATCH][IO_BEAT_BYTES + 8]; /* a longer datagram shows as such */
};

struct io_beats_impl {
    struct io_loop   *loop;
    struct io_beats  *beats;
    int               fd;
    struct io_watch   watch;
    struct io_timer   rest;
    EVP_MAC          *algorithm;
    EVP_MAC_CTX      *mac;
    struct batch      in, out;
    struct io_beat_in list[IO_BEATS_BATCH];
    uint32_t          queued;
};

/* ---- a datagram ---- */

static void number_put(uint8_t *at, uint64_t number)
{
    number = htole64(number);
    memcpy(at, &number, sizeof number);
}

static uint64_t number_get(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return le64toh(number);
}

/* False: OpenSSL failed, and `out` is to be used for nothing. */
static bool seal(struct io_beats_impl *impl, const uint8_t *bytes, const uint8_t key[IO_BEAT_KEY_BYTES], uint8_t out[16])
{
    size_t size = 0;
    return EVP_MAC_init(impl->mac, key, IO_BEAT_KEY_BYTES, NULL) == 1 && EVP_MAC_update(impl->mac, bytes, SEAL_AT) == 1 &&
           EVP_MAC_final(impl->mac, out, &size, 16) == 1 && size == 16;
}

static bool beat_write(struct io_beats_impl *impl, const struct io_beat *beat, const uint8_t key[IO_BEAT_KEY_BYTES],
                       uint8_t out[IO_BEAT_BYTES])
{
    uint8_t       kind = beat->is_answer ? beat->is_heard ? KIND_HEARD : KIND_ANSWER : KIND_BEAT;
    const uint8_t head[8] = {'M', 'B', VERSION, kind};
    memcpy(out, head, sizeof head);
    number_put(out + 8, beat->session);
    number_put(out + 16, beat->counter);
    number_put(out + 24, beat->echo);
    number_put(out + 32, beat->report);
    return seal(impl, out, key, out + SEAL_AT);
}

/* Of another version, or no beat at all: false. */
static bool beat_read(const uint8_t *bytes, size_t size, struct io_beat *out)
{
    static const uint8_t zeros[4];
    if (size != IO_BEAT_BYTES || bytes[0] != 'M' || bytes[1] != 'B' || bytes[2] != VERSION || bytes[3] < KIND_BEAT ||
        bytes[3] > KIND_HEARD || memcmp(bytes + 4, zeros, sizeof zeros) != 0)
        return false;
    *out = (struct io_beat){.is_answer = bytes[3] != KIND_BEAT,
                            .is_heard = bytes[3] == KIND_HEARD,
                            .session = number_get(bytes + 8),
                            .counter = number_get(bytes + 16),
                            .echo = number_get(bytes + 24),
                            .report = number_get(bytes + 32)};
    return true;
}

bool io_beat_check(struct io_beats *beats, const struct io_beat_in *in, const uint8_t key[IO_BEAT_KEY_BYTES])
{
    uint8_t own[16];
    return seal(beats->impl, in->bytes, key, own) && CRYPTO_memcmp(own, in->bytes + SEAL_AT, sizeof own) == 0;
}

/* ---- the socket ---- */

/* What came of one batch; -1: nothing more is there. */
static int batch_read(struct io_beats_impl *impl, uint32_t *out_count)
{
    struct batch *in = &impl->in;
    *out_count = 0;
    for (int i = 0; i < IO_BEATS_BATCH; i++)
        in->heads[i].msg_hdr.msg_namelen = sizeof in->peers[i];
    int got = recvmmsg(impl->fd, in->heads, IO_BEATS_BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < got; i++) {
        struct io_beat_in *to = &impl->list[*out_count];
        if (!beat_read(in->bytes[i], in->heads[i].msg_len, &to->beat))
            continue;
        memcpy(to->bytes, in->bytes[i], sizeof to->bytes);
        to->from = in->peers[i];
        to->from_size = in->heads[i].msg_hdr.msg_namelen;
        ++*out_count;
    }
    return got;
}

static void look(struct io_beats_impl *impl)
{
    struct io_beats *beats = impl->beats;
    int              all = 0, got = IO_BEATS_BATCH;
    for (int i = 0; i < ROUNDS && got == IO_BEATS_BATCH; i++) {
        uint32_t count;
        got = batch_read(impl, &count);
        all += got > 0 ? got : 0;
        if (count)
            beats->came(beats, impl->list, count);
        if (beats->impl != impl)
            return; /* closed by whoever was told */
        io_beats_flush(beats);
    }
    io_watch_set(&impl->watch, all > 1 ? 0 : IO_READABLE);
    if (all > 1)
        io_timer_start(impl->loop, &impl->rest, REST_MS);
}

static void ready(struct io_watch *watch, unsigned events)
{
    struct io_beats_impl *impl = mt_container_of(watch, struct io_beats_impl, watch);
    int                   err = 0;
    socklen_t             size = sizeof err;
    if (events & IO_HANGUP) /* an error is pending, which nobody can do anything about: it is taken off, and all goes on */
        getsockopt(impl->fd, SOL_SOCKET, SO_ERROR, &err, &size);
    look(impl);
}

static void rested(struct io_timer *timer)
{
    look(mt_container_of(timer, struct io_beats_impl, rest));
}

static void batch_init(struct batch *batch)
{
    for (int i = 0; i < IO_BEATS_BATCH; i++) {
        batch->parts[i] = (struct iovec){batch->bytes[i], sizeof batch->bytes[i]};
        batch->heads[i].msg_hdr = (struct msghdr){.msg_name = &batch->peers[i], .msg_iov = &batch->parts[i], .msg_iovlen = 1};
    }
}

static bool mac_make(struct io_beats_impl *impl)
{
    size_t     size = 16;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end()};
    impl->algorithm = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_SIPHASH, NULL);
    impl->mac = impl->algorithm ? EVP_MAC_CTX_new(impl->algorithm) : NULL;
    return impl->mac && EVP_MAC_CTX_set_params(impl->mac, params) == 1;
}

static mt_status socket_make(struct io_beats *beats, int family)
{
    int room = ROOM_BYTES;
    int fd = beats->impl->fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mt_error(MT_ESYS, errno, "socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room); /* as much of it as the machine allows */
    return mt_ok();
}

static mt_status socket_bind(struct io_beats *beats, const struct sockaddr_in6 *at, socklen_t size)
{
    struct sockaddr_in6 bound;
    MT_TRY(socket_make(beats, at->sin6_family));
    if (bind(beats->impl->fd, (const struct sockaddr *)at, size) != 0)
        return mt_error(errno == EADDRINUSE ? MT_EEXIST : MT_ESYS, errno, "bind a UDP port");
    if (getsockname(beats->impl->fd, (struct sockaddr *)&bound, &size) != 0)
        return mt_error(MT_ESYS, errno, "getsockname");
    beats->port = ntohs(bound.sin6_port); /* which stands at the same place in both */
    return mt_ok();
}

static mt_status socket_dial(struct io_beats *beats, const struct sockaddr_in6 *to, socklen_t size)
{
    MT_TRY(socket_make(beats, to->sin6_family));
    if (connect(beats->impl->fd, (const struct sockaddr *)to, size) != 0)
        return mt_error(MT_ESYS, errno, "connect a UDP socket");
    return mt_ok();
}

static mt_status beats_open(struct io_loop *loop, struct io_beats *beats, const char *host, uint16_t port,
                            mt_status (*make)(struct io_beats *beats, const struct sockaddr_in6 *address, socklen_t size))
{
    struct sockaddr_in6 address;
    socklen_t           size;
    IO_ON_LOOP(loop);
    if (!io_address_read(host, port, &address, &size))
        return mt_error(MT_EINVAL, 0, "it is not a numeric IPv4 or IPv6 address");
    struct io_beats_impl *impl = calloc(1, sizeof *impl);
    if (!impl)
        return mt_error(MT_ENOMEM, 0, "signs of life");
    *impl = (struct io_beats_impl){.loop = loop, .beats = beats, .fd = -1, .watch.ready = ready, .rest.fire = rested};
    batch_init(&impl->in);
    batch_init(&impl->out);
    beats->impl = impl;
    mt_status st = mac_make(impl) ? make(beats, &address, size) : mt_error(MT_ENOMEM, 0, "OpenSSL has no SipHash");
    if (st.code == 0)
        st = io_watch_start(loop, &impl->watch, impl->fd, IO_READABLE);
    if (st.code)
        io_beats_close(beats);
    return st;
}

mt_status io_beats_open(struct io_loop *loop, struct io_beats *beats, const char *host, uint16_t port)
{
    return beats_open(loop, beats, host, port, socket_bind);
}

mt_status io_beats_dial(struct io_loop *loop, struct io_beats *beats, const char *host, uint16_t port)
{
    return beats_open(loop, beats, host, port, socket_dial);
}

void io_beats_close(struct io_beats *beats)
{
    struct io_beats_impl *impl = beats->impl;
    if (!impl)
        return;
    beats->impl = NULL;
    io_watch_stop(&impl->watch);
    io_timer_stop(&impl->rest);
    if (impl->fd >= 0)
        close(impl->fd);
    EVP_MAC_CTX_free(impl->mac);
    EVP_MAC_free(impl->algorithm);
    free(impl);
}

/* ---- sending ---- */

void io_beats_flush(struct io_beats *beats)
{
    struct io_beats_impl *impl = beats->impl;
    uint32_t              sent = 0;
    while (sent < impl->queued) {
        int n = sendmmsg(impl->fd, impl->out.heads + sent, impl->queued - sent, MSG_DONTWAIT);
        if (n > 0)
            sent += (uint32_t)n;
        else if (errno == EAGAIN || errno == ENOBUFS)
            break;
        else if (errno != EINTR)
            sent++; /* that one can't be reached */
    }
    impl->queued = 0;
}

/* `to` NULL: to whom the socket was dialled. */
static void queue(struct io_beats_impl *impl, const struct io_beat *beat, const struct io_beat_in *to,
                  const uint8_t key[IO_BEAT_KEY_BYTES])
{
    struct batch *out = &impl->out;
    if (impl->queued == IO_BEATS_BATCH)
        io_beats_flush(impl->beats);
    uint32_t i = impl->queued;
    if (!beat_write(impl, beat, key, out->bytes[i]))
        return;
    if (to)
        out->peers[i] = to->from;
    out->parts[i].iov_len = IO_BEAT_BYTES;
    out->heads[i].msg_hdr.msg_name = to ? &out->peers[i] : NULL;
    out->heads[i].msg_hdr.msg_namelen = to ? to->from_size : 0;
    impl->queued++;
}

void io_beats_answer(struct io_beats *beats, const struct io_beat *beat, const struct io_beat_in *to,
                     const uint8_t key[IO_BEAT_KEY_BYTES])
{
    queue(beats->impl, beat, to, key);
}

void io_beats_say(struct io_beats *beats, const struct io_beat *beat, const uint8_t key[IO_BEAT_KEY_BYTES])
{
    queue(beats->impl, beat, NULL, key);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - a connection to the head that outlives the head.
 *
 * Every request here has one effect however often it comes (jobs by id, blobs by content), so a call is simply tried
 * again while nobody answers.
 */
#include "clients/control/control.h"

#include "core/base/reserved.h"
#include "core/ds/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct mt_handles clients = MT_HANDLES_INIT;

static manta_status hello(struct ctl_client *c, manta_error *e);

bool ctl_may_retry(mt_status st)
{
    return st.code == MT_ECONN || st.code == MT_ETIMEDOUT || st.code == MT_EAGAIN || st.code == MT_ENOTLEADER;
}

static mt_status open_channel(struct ctl_client *c)
{
    struct rpc_channel_config config = {
        .target = c->place.address, .token = &c->token, .tls = c->tls, .peer = IO_TLS_HEAD, .is_insecure = c->place.is_insecure};
    return rpc_channel_open(c->rpc, &config, &c->channel);
}

/* A head that was started again may have another port: its address file says so. And another may lead by now. */
void ctl_reconnect(struct ctl_client *c, int32_t code, const char *detail)
{
    struct rpc_channel *old = c->channel;
    bool                is_reached = code == MT_EAGAIN; /* it leads, and says so itself */
    if (!ctl_place_refresh(&c->place) && (is_reached || !ctl_place_turn(&c->place, code, detail))) {
        rpc_channel_kick(old);
        return;
    }
    if (open_channel(c).code == 0)
        rpc_channel_close(old);
    else
        c->channel = old;
}

bool ctl_is_foreign_certificate(const char *detail)
{
    return strstr(detail, "certificate verify failed") || strstr(detail, "Hostname Verification Check failed");
}

/* Why a head did not do it. */
struct refusal {
    mt_status st;
    char      detail[MT_ERROR_BYTES_MAX];
    char      address[CTL_ADDRESS_SIZE];
};

static manta_status sent_on(const struct ctl_client *c, const struct refusal *r, manta_error *e)
{
    if (strcmp(r->detail, RPC_TOKEN_NOT_HERE) == 0)
        return ctl_fail(e, r->st.code, MANTA_NOT_DONE,
                        "the head at %s stands by, and does not know the token in %.200s: whether it is wrong, only the head that "
                        "leads can say, and this one names it to nobody whom it does not know; name all heads",
                        r->address, c->place.token_file);
    return ctl_fail(e, r->st.code, MANTA_NOT_DONE,
                    "the head at %s stands by, and knows of none that leads: wait, or look at its log", r->address);
}

static manta_status call_failed(const struct ctl_client *c, const struct refusal *r, manta_error *e)
{
    const char *detail = r->detail, *address = r->address;
    int32_t     code = r->st.code;
    if (code == MT_EAUTH && strncmp(detail, "the token", 9) == 0) /* a named one: it is known, and not good for that */
        return ctl_fail(e, code, MANTA_NOT_DONE, "the head at %s refuses: %s", address, detail);
    if (code == MT_EAUTH)
        return ctl_fail(e, code, MANTA_NOT_DONE,
                        "the head at %s refuses the token in %.200s: it is another cluster's; copy "
                        "the head's token file",
                        address, c->place.token_file);
    if (code == MT_ECONN && ctl_is_foreign_certificate(detail))
        return ctl_fail(e, MT_EAUTH, MANTA_NOT_DONE,
                        "the head at %s shows a certificate that does not fit %.200s: it is another "
                        "cluster's, or not the head; copy the head's join file",
                        address, c->place.tls_file);
    if (code == MT_ENOTLEADER)
        return sent_on(c, r, e);
    if (ctl_may_retry(r->st))
        return ctl_fail(e, code == MT_EAGAIN ? MT_EAGAIN : MT_ECONN, MANTA_UNKNOWN,
                        "the head at %s does not answer (%s): is it running? Calling again with the same ids is safe", address,
                        detail[0] ? detail : mt_code_text(code));
    return ctl_fail(e, code, MANTA_NOT_DONE, "the head at %s refuses: %s", address, detail[0] ? detail : mt_code_text(code));
}

/* The last try, which the limit has cut short, may have been taken: but why it came to that, an earlier answer says. */
static manta_status cut_short(const struct ctl_client *c, const struct refusal *earlier, manta_error *e)
{
    manta_status code = call_failed(c, earlier, e);
    if (e)
        e->outcome = MANTA_UNKNOWN;
    return code;
}

/* Of several heads one may stand still with its port open: the first tries are short, so that the others are asked too. What waits
 * for long at the head (each_ms says so) is not asked again for that. */
static uint32_t one_try_ms(const struct ctl_client *c, unsigned silent, uint32_t each_ms)
{
    uint32_t limit = silent < 3 ? (uint32_t)MT_CTL_TRY_MS << silent : each_ms;
    return ctl_place_has_others(&c->place) && each_ms <= MT_CALL_MS && limit < each_ms ? limit : each_ms;
}

manta_status ctl_call(struct ctl_client *c, const char *method, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *reply_type, int64_t patience_ms, uint32_t each_ms,
                      ProtobufCMessage **out_reply, manta_error *e)
{
    mt_buf              bytes = {0}, reply = {0};
    struct refusal      last = {0}, said = {0}; /* of the last try; and the last one that a head has given */
    bool                is_cut;
    struct ctl_patience patience = ctl_patience_of(patience_ms);
    unsigned            silent = 0; /* tries that nobody answered */
    mt_status           st = rpc_pack(request, &bytes);
    if (st.code != 0)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "the request is larger than %d MiB: fewer files or arguments",
                        MT_CONTROL_BYTES_MAX >> 20);
    for (;;) {
        uint32_t wanted = one_try_ms(c, silent, each_ms), limit = ctl_try_begin(&patience, wanted);
        is_cut = limit < wanted;
        memcpy(last.address, c->place.address, sizeof last.address);
        last.st = st = rpc_call_blocking(c->channel, method, mt_buf_view(&bytes), limit, 0, &reply, last.detail);
        if (!ctl_try_end(&patience) || !ctl_may_retry(st) || (st.code && ctl_is_foreign_certificate(last.detail)))
            break;
        silent += st.code == MT_ETIMEDOUT;
        if (st.code == MT_ENOTLEADER || st.code == MT_EAGAIN)
            said = last;
        ctl_reconnect(c, st.code, last.detail);
        if (!ctl_try_pause(&patience))
            break;
    }
    mt_buf_fini(&bytes);
    if (st.code == MT_ETIMEDOUT && is_cut && said.st.code)
        return cut_short(c, &said, e);
    if (st.code != 0)
        return call_failed(c, &last, e);
    st = rpc_unpack(reply_type, mt_buf_view(&reply), MT_CONTROL_BYTES_MAX, out_reply);
    mt_buf_fini(&reply);
    return st.code == 0
               ? MANTA_OK
               : ctl_fail(e, MT_EPROTO, MANTA_UNKNOWN, "the answer of %s can't be read: is it a Manta head?", c->place.address);
}

struct rpc_asked *ctl_ask(struct ctl_client *c, const char *method, const ProtobufCMessage *request, uint32_t each_ms)
{
    struct rpc_asked *asked = NULL;
    mt_buf            bytes = {0};
    if (rpc_pack(request, &bytes).code || rpc_ask(c->channel, method, mt_buf_view(&bytes), each_ms, 0, &asked).code)
        asked = NULL;
    mt_buf_fini(&bytes);
    return asked;
}

ProtobufCMessage *ctl_answer(struct rpc_asked *take_asked, const ProtobufCMessageDescriptor *reply_type)
{
    ProtobufCMessage *message = NULL;
    mt_buf            reply = {0};
    if (rpc_answer(take_asked, &reply, NULL).code ||
        rpc_unpack(reply_type, mt_buf_view(&reply), MT_CONTROL_BYTES_MAX, &message).code)
        message = NULL;
    mt_buf_fini(&reply);
    return message;
}

/* Shows that somebody answers and takes the token. Two tries at least: the first may be lost with a machine that stood still. */
static manta_status hello(struct ctl_client *c, manta_error *e)
{
    Manta__V1__HasBlobsRequest request = MANTA__V1__HAS_BLOBS_REQUEST__INIT;
    ProtobufCMessage          *reply;
    int64_t                    patience = c->timeout_ms < MT_CTL_HELLO_MS ? c->timeout_ms : MT_CTL_HELLO_MS;
    manta_status st = ctl_call(c, "/manta.v1.Head/HasBlobs", &request.base, &manta__v1__has_blobs_reply__descriptor, patience,
                               ctl_half_of(patience), &reply, e);
    if (st == MANTA_OK)
        rpc_unpack_free(reply);
    else if (e)
        e->outcome = MANTA_NOT_DONE;
    return st;
}

/* The system's word where it has one, but for EPERM: that is our own refusal of a file that others may read. */
static const char *file_fault(mt_status st)
{
    return st.sys && st.sys != EPERM ? strerror(st.sys) : st.what;
}

static manta_status read_token(struct ctl_client *c, manta_error *e)
{
    mt_status st = io_token_read(c->place.token_file, &c->token);
    if (st.code == 0)
        return MANTA_OK;
    return ctl_fail(e, st.code, MANTA_NOT_DONE, "token file %.300s: %s; it must be yours, mode 0600, and hold the head's token",
                    c->place.token_file, file_fault(st));
}

static manta_status read_certificate(struct ctl_client *c, manta_error *e)
{
    mt_status st = c->place.tls_file[0] ? io_tls_load(c->place.tls_file, &c->tls) : mt_ok();
    return st.code == 0 ? MANTA_OK : ctl_fail(e, st.code, MANTA_NOT_DONE, "TLS file %.300s: %s", c->place.tls_file, file_fault(st));
}

static manta_status open_client(struct ctl_client *c, const manta_client_opts *opts, manta_error *e)
{
    if (MT_RESERVED_IS_USED(opts))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_client_open");
    manta_status code = ctl_place_find(opts, &c->place, e);
    if (code == MANTA_OK)
        code = read_token(c, e);
    if (code == MANTA_OK)
        code = read_certificate(c, e);
    if (code != MANTA_OK)
        return code;
    mt_status st = rpc_new(NULL, &c->rpc);
    if (st.code == 0)
        st = open_channel(c);
    if (st.code == MT_EUNSUPPORTED)
        return ctl_fail(e, st.code, MANTA_NOT_DONE,
                        "the head at %s is on another machine, and no TLS file is named: join by "
                        "`manta start --join FILE`, or name one (--tls-file, MANTA_TLS_FILE); in clear only with --insecure",
                        c->place.address);
    if (st.code != 0)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "address %s: %s", c->place.address, st.what);
    return hello(c, e);
}

static void client_free(struct ctl_client *c)
{
    if (!c)
        return;
    if (c->channel)
        rpc_channel_close(c->channel);
    if (c->rpc)
        rpc_free(c->rpc);
    io_tls_free(c->tls);
    io_token_wipe(&c->token);
    free(c);
}

static manta_status client_fail(manta_error *e, mt_status st, const char *call)
{
    if (st.code == MT_EINVAL)
        return ctl_fail(e, st.code, MANTA_NOT_DONE, "%s: client is NULL", call);
    if (st.code == MT_EFORKED)
        return ctl_fail(e, st.code, MANTA_NOT_DONE,
                        "%s: this process was forked from one that has made clients, whose threads are not here: exec first", call);
    return ctl_fail(e, st.code, MANTA_NOT_DONE, "%s: client: %s", call, st.what);
}

manta_status ctl_enter(manta_client *handle, const char *call, struct ctl_client **out_client, manta_error *e)
{
    void     *object = NULL;
    mt_status st = mt_handle_enter(&clients, MT_HANDLE_CLIENT, handle, &object);
    *out_client = object;
    return st.code ? client_fail(e, st, call) : MANTA_OK;
}

manta_status ctl_enter_given(manta_client *handle, const char *call, bool is_given, const char *what,
                             struct ctl_client **out_client, manta_error *e)
{
    manta_status st = ctl_enter(handle, call, out_client, e);
    if (st != MANTA_OK || is_given)
        return st;
    return ctl_leave(handle, ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "%s: %s may not be NULL", call, what));
}

manta_status ctl_leave(manta_client *handle, manta_status code)
{
    client_free(mt_handle_leave(&clients, handle));
    return code;
}

void ctl_client_address(manta_client *handle, char out[CTL_ADDRESS_SIZE])
{
    struct ctl_client *c;
    out[0] = '\0';
    if (ctl_enter(handle, "ctl_client_address", &c, NULL) != MANTA_OK)
        return;
    snprintf(out, CTL_ADDRESS_SIZE, "%s", c->place.address);
    (void)ctl_leave(handle, MANTA_OK);
}

manta_client *manta_client_open(const manta_client_opts *opts, manta_error *e)
{
    static const char  call[] = "manta_client_open";
    manta_client_opts  none = {0};
    void              *handle = NULL;
    struct ctl_client *c;
    mt_status          st = mt_handles_usable(&clients);
    if (st.code) {
        client_fail(e, st, call);
        return NULL;
    }
    c = calloc(1, sizeof *c);
    if (!c) {
        ctl_fail(e, MT_ENOMEM, MANTA_NOT_DONE, "no memory for a client");
        return NULL;
    }
    opts = opts ? opts : &none;
    c->timeout_ms = opts->timeout_ms > 0 ? opts->timeout_ms : MT_CTL_PATIENCE_MS;
    if (open_client(c, opts, e) == MANTA_OK) {
        st = mt_handle_new(&clients, MT_HANDLE_CLIENT, c, &handle);
        if (!st.code)
            return handle;
        client_fail(e, st, call);
    }
    client_free(c);
    return NULL;
}

void manta_client_close(manta_client *handle)
{
    client_free(mt_handle_close(&clients, MT_HANDLE_CLIENT, handle));
}

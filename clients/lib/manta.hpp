/* SPDX-License-Identifier: Apache-2.0
 *
 * manta.hpp - manta.h for C++17: handles that free themselves, typed calls, exceptions. Header only.
 *
 *   static double scale(double x, std::int64_t n) { return x * double(n); }
 *   MANTA_FUNCTION(scale);
 *
 *   int main(int argc, char **argv)
 *   {
 *       manta::session session(argc, argv);
 *       auto half = manta::submit<scale>(2.0, 21);          // manta::ref<double>
 *       auto whole = manta::submit<scale>(half, 2);         // a reference stands for its value
 *       return whole.get() == 84.0 ? 0 : 1;
 *   }
 *
 * Types of parameters and results: integers ('l' signed, 'u' unsigned; one that does not fit is refused, not cut), double
 * and float ('d'), bool ('b'), std::string, std::string_view and const char * ('s'), manta_bytes and manta::bytes ('y');
 * of parameters besides manta_ref * ('r') and manta_actor * ('A'). A first parameter of type manta_ctx * gets the context.
 * A view (string_view, const char *, manta_bytes) is a parameter's for the call only. A string may hold NULs, but a const char *
 * ends at the first. What a reference gives is what was sent: another type is refused (ETYPE), never read as bytes.
 *
 * Errors of manta.h come as manta::error, or what derives from it: one class for each thing that a caller does about it. An
 * exception that leaves a remote function is the task's failure (MANTA_ETASK); a manta::failure carries a number of the
 * user's own. Everything blocks, and may be called from any thread, as manta.h says of the call below it.
 */
#ifndef MANTA_HPP
#define MANTA_HPP

#if __cplusplus < 201703L
#error "manta.hpp needs C++17 or later: compile with -std=c++17"
#else

#include "manta.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace manta
{

using bytes = std::vector<unsigned char>;

/* ---- errors ----------------------------------------------------------------------------------------------------- */

class error : public std::runtime_error
{
  public:
    explicit error(const manta_error &e) : std::runtime_error(e.message), detail_(e)
    {
    }
    manta_status code() const noexcept
    {
        return detail_.code;
    }
    int outcome() const noexcept
    {
        return detail_.outcome;
    } /* MANTA_NOT_DONE, _DONE, _UNKNOWN */
    const manta_error &detail() const noexcept
    {
        return detail_;
    } /* node, pid, attempt, backtrace ... */

  private:
    manta_error detail_;
};
struct bad_request : error {
    using error::error;
};                           /* change the request: EINVAL, ETYPE, ENOFUNC, ENOENT, ... */
struct task_failed : error { /* the function itself reported an error */
    using error::error;
    int user_code() const noexcept
    {
        return detail().user_code;
    }
};
struct cancelled : error {
    using error::error;
};
struct died : error {
    using error::error;
}; /* worker, actor, owner, node, or the last copy of a value */
struct timed_out : error {
    using error::error;
};
struct no_room : error {
    using error::error;
}; /* ENOMEM, ESTORE_FULL, EDISK_FULL, EAGAIN */

/* Throws what fits e.code. */
[[noreturn]] inline void raise(const manta_error &e)
{
    switch (e.code) {
    case MANTA_ETASK: throw task_failed(e);
    case MANTA_ECANCELLED: throw cancelled(e);
    case MANTA_ETIMEDOUT: throw timed_out(e);
    case MANTA_EAGAIN:
    case MANTA_ENOMEM:
    case MANTA_ESTORE_FULL:
    case MANTA_EDISK_FULL: throw no_room(e);
    default: break;
    }
    if (e.code > 0 && e.code < MANTA_EWORKER_DIED)
        throw bad_request(e);
    if (e.code >= MANTA_EWORKER_DIED && e.code < MANTA_ETIMEDOUT)
        throw died(e);
    throw error(e);
}
inline void check(manta_status code, const manta_error &e)
{
    if (code != MANTA_OK)
        raise(e);
}
[[noreturn]] inline void raise(manta_status code, const char *message)
{
    manta_error e{};
    e.code = code;
    std::snprintf(e.message, sizeof e.message, "%s", message);
    raise(e);
}

/* Thrown by a remote function: its caller gets task_failed with this number. */
struct failure : std::runtime_error {
    failure(int code, const std::string &message) : std::runtime_error(message), user_code(code)
    {
    }
    int user_code;
};

/* ---- the session -------------------------------------------------------------------------------------------------- */

/* manta_init and manta_shutdown. In a worker the constructor never returns. */
class session
{
  public:
    session(int &argc, char **&argv, const manta_init_opts &opts = {})
    {
        manta_error e;
        check(manta_init(&argc, &argv, &opts, &e), e);
    }
    ~session()
    {
        manta_shutdown();
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
};

/* ---- values ------------------------------------------------------------------------------------------------------- */

/* A value in place: read-only as a manta_view is, released at the end of its life. */
class view
{
  public:
    explicit view(const manta_view &take) noexcept : view_(take)
    {
    }
    view(view &&other) noexcept : view_(std::exchange(other.view_, manta_view{}))
    {
    }
    view &operator=(view &&other) noexcept
    {
        std::swap(view_, other.view_);
        return *this;
    }
    ~view()
    {
        manta_release(&view_);
    }
    const void *data() const noexcept
    {
        return view_.data;
    }
    std::size_t size() const noexcept
    {
        return view_.size;
    }
    char type() const noexcept
    {
        return view_.type;
    }
    std::string_view text() const noexcept
    {
        return {static_cast<const char *>(view_.data), view_.size};
    }

  private:
    manta_view view_;
};

template <class T> class ref;

/* The result of a function that writes it in place: manta::in_place f(manta_ctx *c, ...), which has called room_for(c, n) before. */
struct in_place {
};
/* Room for `count` elements as result `index`: manta_return_buffer. Throws what that returns. */
template <class T> T *room_for(manta_ctx *c, std::size_t count, int index = 0)
{
    static_assert(std::is_trivially_copyable_v<T>, "a result in place is bytes");
    void        *out = nullptr;
    manta_status code = count > SIZE_MAX / sizeof(T) ? MANTA_EINVAL : manta_return_buffer(c, index, count * sizeof(T), &out);
    if (code)
        raise(code, "there is no room for a result in place");
    return static_cast<T *>(out);
}

namespace detail
{

template <class T> using plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T> using decayed = std::decay_t<const T>; /* of a literal: const char * */

/* The letter of a C++ type in a signature; 0: none. */
template <class T> constexpr char letter()
{
    using P = plain<T>;
    if constexpr (std::is_void_v<P>)
        return 'v';
    else if constexpr (std::is_same_v<P, bool>)
        return 'b';
    else if constexpr (std::is_floating_point_v<P>)
        return 'd';
    else if constexpr (std::is_integral_v<P>)
        return std::is_signed_v<P> ? 'l' : 'u';
    else if constexpr (std::is_same_v<P, std::string> || std::is_same_v<P, std::string_view>)
        return 's';
    else if constexpr (std::is_same_v<P, const char *>)
        return 's';
    else if constexpr (std::is_same_v<P, bytes> || std::is_same_v<P, manta_bytes> || std::is_same_v<P, view> ||
                       std::is_same_v<P, in_place>)
        return 'y';
    else if constexpr (std::is_same_v<P, manta_ref *>)
        return 'r';
    else if constexpr (std::is_same_v<P, manta_actor *>)
        return 'A';
    else
        return 0;
}

template <class To, class From> To narrow(From x)
{
    if constexpr (std::is_integral_v<To>)
        if (x < From(std::numeric_limits<To>::min()) || x > From(std::numeric_limits<To>::max()))
            raise(MANTA_ETYPE, "a number does not fit into the type of the parameter or result");
    return static_cast<To>(x);
}

/* What a remote function gets for a parameter of type T. */
template <class T> plain<T> fetch(const manta_arg &a)
{
    using P = plain<T>;
    constexpr char l = letter<P>();
    if constexpr (l == 'l')
        return narrow<P>(a.l);
    else if constexpr (l == 'u')
        return narrow<P>(a.u);
    else if constexpr (l == 'd')
        return static_cast<P>(a.d);
    else if constexpr (l == 'b')
        return a.b;
    else if constexpr (l == 'r')
        return a.r;
    else if constexpr (l == 'A')
        return a.A;
    else if constexpr (std::is_same_v<P, const char *>)
        return static_cast<const char *>(a.y.data);
    else if constexpr (std::is_same_v<P, manta_bytes>)
        return a.y;
    else if constexpr (std::is_same_v<P, bytes>) {
        const auto *data = static_cast<const unsigned char *>(a.y.data);
        return bytes(data, data + a.y.size);
    } else
        return P(static_cast<const char *>(a.y.data), a.y.size);
}

template <class T> struct is_ref : std::false_type {
};
template <class T> struct is_ref<ref<T>> : std::true_type {
};

/* All of it, also behind a NUL in it. Borrowed. */
inline manta_arg text_of(const std::string &x)
{
    manta_arg a = manta_bytes_of(x.c_str(), x.size()); /* its NUL is there */
    a.type = 's';
    return a;
}

/* The argument for a parameter of type P. Strings and bytes are borrowed until the call returns. */
template <class P, class A> manta_arg make(const A &x)
{
    if constexpr (is_ref<A>::value) {
        using V = typename A::value_type;
        static_assert(letter<P>() == 'r' || letter<P>() == letter<V>(), "this reference is of another type");
        return manta_ref_arg(x.handle());
    } else {
        static_assert(std::is_convertible_v<const A &, plain<P>> || (letter<P>() == 'y' && letter<A>() == 'y'),
                      "this argument does not fit the parameter");
        constexpr char l = letter<P>();
        if constexpr (l == 'l' || l == 'u') {
            static_assert(std::is_integral_v<A>, "an integer is wanted");
            if constexpr (l == 'l') {
                if constexpr (!std::is_signed_v<A>)
                    if (x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                        raise(MANTA_ETYPE, "a number does not fit into the type of the parameter or result");
                return manta_i64(static_cast<std::int64_t>(x));
            } else {
                if constexpr (std::is_signed_v<A>)
                    if (x < 0)
                        raise(MANTA_ETYPE, "a number does not fit into the type of the parameter or result");
                return manta_u64(static_cast<std::uint64_t>(x));
            }
        } else if constexpr (l == 'd')
            return manta_f64(static_cast<double>(x));
        else if constexpr (l == 'b')
            return manta_bool(x);
        else if constexpr (l == 'r')
            return manta_ref_arg(x);
        else if constexpr (l == 'A')
            return manta_actor_arg(x);
        else if constexpr (std::is_same_v<A, manta_bytes>)
            return manta_data(x);
        else if constexpr (l == 'y')
            return manta_bytes_of(x.data(), x.size());
        else if constexpr (std::is_same_v<A, std::string>)
            return text_of(x);
        else {
            static_assert(!std::is_same_v<A, std::string_view>, "a string argument needs its NUL: give a std::string");
            return manta_str(x);
        }
    }
}

template <class T> manta_status give(manta_ctx *c, const T &x)
{
    constexpr char l = letter<T>();
    if constexpr (std::is_same_v<T, in_place>)
        return MANTA_OK;
    else if constexpr (l == 'l')
        return manta_return_i64(c, x);
    else if constexpr (l == 'u')
        return manta_return_u64(c, x);
    else if constexpr (l == 'd')
        return manta_return_f64(c, x);
    else if constexpr (l == 'b')
        return manta_return_bool(c, x);
    else if constexpr (std::is_same_v<T, const char *>)
        return manta_return_str(c, x);
    else if constexpr (l == 's')
        return manta_return_at(c, 0, text_of(std::string(x)));
    else if constexpr (std::is_same_v<T, manta_bytes>)
        return manta_return_bytes(c, x.data, x.size);
    else
        return manta_return_bytes(c, x.data(), x.size());
}

/* Runs `body`; what it throws becomes the task's failure. */
template <class R, class F> manta_status guarded(manta_ctx *c, F &&body) noexcept
{
    try {
        if constexpr (std::is_void_v<R>) {
            body();
            return MANTA_OK;
        } else {
            return give<plain<R>>(c, body());
        }
    } catch (const failure &f) {
        return manta_fail(c, f.user_code, "%s", f.what());
    } catch (const std::exception &x) {
        return manta_fail(c, 0, "%s", x.what());
    } catch (...) {
        return manta_fail(c, 0, "an exception that is no std::exception");
    }
}

/* A signature's text: letters of the parameters, '>', letter of the result. */
template <class R, class... A> struct signature {
    static_assert(((letter<A>() != 0) && ... && true), "a parameter's type cannot be sent");
    static_assert(letter<R>() != 0 && letter<R>() != 'r' && letter<R>() != 'A', "the result's type cannot be sent");
    static_assert(sizeof...(A) <= MANTA_ARGS_MAX, "too many parameters");
    static constexpr char text[] = {letter<A>()..., '>', letter<R>(), 0};
    static constexpr char create[] = {letter<A>()..., 0};
};

/* What is called, taken apart: with or without a context in front. */
template <class R, class... A> struct shape {
    using result = R;
    using names = signature<R, A...>;
    template <class I> using items = signature<I, A...>; /* of a generator */
    static constexpr std::size_t count = sizeof...(A);

    template <class F> static manta_status run(manta_ctx *c, const manta_arg *argv, F &&call)
    {
        return run_at(c, argv, std::forward<F>(call), std::index_sequence_for<A...>{});
    }
    template <class... X> static std::vector<manta_arg> arguments(const X &...x)
    {
        static_assert(sizeof...(X) == sizeof...(A), "another number of arguments than parameters");
        return {make<plain<A>>(x)...};
    }

  private:
    template <class F, std::size_t... I>
    static manta_status run_at(manta_ctx *c, const manta_arg *argv, F &&call, std::index_sequence<I...>)
    {
        (void)argv;
        return guarded<R>(c, [&]() -> R { return call(fetch<A>(argv[I])...); });
    }
};

/* The same function or method without what is no part of its signature: noexcept, and & of a method. */
template <class F> struct unqualified {
    using type = F;
};
template <class R, class... A> struct unqualified<R (*)(A...) noexcept> {
    using type = R (*)(A...);
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) noexcept> {
    using type = R (T::*)(A...);
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) &> {
    using type = R (T::*)(A...);
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) &noexcept> {
    using type = R (T::*)(A...);
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) const noexcept> {
    using type = R (T::*)(A...) const;
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) const &> {
    using type = R (T::*)(A...) const;
};
template <class T, class R, class... A> struct unqualified<R (T::*)(A...) const &noexcept> {
    using type = R (T::*)(A...) const;
};

template <class F> struct function_shape;
template <class R, class... A> struct function_shape<R (*)(A...)> : shape<R, A...> {
    static constexpr bool wants_context = false;
};
template <class R, class... A> struct function_shape<R (*)(manta_ctx *, A...)> : shape<R, A...> {
    static constexpr bool wants_context = true;
};
template <class F> struct method_shape;
template <class T, class R, class... A> struct method_shape<R (T::*)(A...)> : shape<R, A...> {
    using self = T;
};
template <class T, class R, class... A> struct method_shape<R (T::*)(A...) const> : shape<R, A...> {
    using self = T;
};

/* One remote function: its entry, and what the library calls. */
template <auto F> struct function {
    using form = function_shape<typename unqualified<decltype(+F)>::type>;
    static inline manta_entry entry{};

    static manta_status run(manta_ctx *c, int argc, const manta_arg *argv)
    {
        (void)argc;
        return form::run(c, argv, [c](auto &&...a) -> typename form::result {
            (void)c;
            if constexpr (form::wants_context)
                return F(c, std::forward<decltype(a)>(a)...);
            else
                return F(std::forward<decltype(a)>(a)...);
        });
    }
    static void add(const char *name, const char *file, int line, const char *text = form::names::text)
    {
        entry.name = name;
        entry.signature = text;
        entry.run = run;
        entry.file = file;
        entry.line = line;
        manta_register(&entry);
    }
};

template <auto M> struct method {
    using form = method_shape<typename unqualified<decltype(M)>::type>;
    static inline const char *name = nullptr;

    static manta_status run(manta_ctx *c, void *self, int argc, const manta_arg *argv)
    {
        (void)argc;
        return form::run(c, argv, [self](auto &&...a) -> typename form::result {
            return (static_cast<typename form::self *>(self)->*M)(std::forward<decltype(a)>(a)...);
        });
    }
    static manta_method made(const char *of_name)
    {
        manta_method m{};
        m.name = name = of_name;
        m.signature = form::names::text;
        m.run = run;
        return m;
    }
};

template <class T> struct actor_class {
    static inline manta_actor_type type{};
    static void                    destroy(void *self)
    {
        delete static_cast<T *>(self);
    }
    template <class... A> static manta_status create(manta_ctx *c, void **self, int argc, const manta_arg *argv)
    {
        (void)argc;
        return shape<void, A...>::run(c, argv, [self](auto &&...a) { *self = new T(std::forward<decltype(a)>(a)...); });
    }
    template <class... A>
    static void add(const char *name, const char *file, int line, void (*)(A...), std::initializer_list<manta_method> methods)
    {
        std::size_t n = 0;
        type.name = name;
        type.signature = signature<void, A...>::create;
        type.create = create<A...>;
        type.destroy = destroy;
        type.file = file;
        type.line = line;
        for (const manta_method &m : methods)
            if (n < sizeof type.methods / sizeof type.methods[0])
                type.methods[n++] = m;
        manta_register_actor(&type);
    }
};

} // namespace detail

/* ---- references --------------------------------------------------------------------------------------------------- */

/* A value of type T that is there, or will be. Copies are further handles on the same value. */
template <class T> class ref
{
  public:
    using value_type = T;
    ref() = default;
    explicit ref(manta_ref *take) noexcept : ref_(take)
    {
    }
    ref(const ref &other) : ref_(manta_dup(other.ref_))
    {
    }
    ref(ref &&other) noexcept : ref_(std::exchange(other.ref_, nullptr))
    {
    }
    ref &operator=(ref other) noexcept
    {
        std::swap(ref_, other.ref_);
        return *this;
    }
    ~ref()
    {
        manta_free(ref_);
    }
    manta_ref *handle() const noexcept
    {
        return ref_;
    } /* stays ours */
    explicit operator bool() const noexcept
    {
        return ref_ != nullptr;
    }

    /* Waits for the value; throws what became of it instead. Of bytes: see look. */
    T get(int64_t timeout_ms = MANTA_FOREVER) const
    {
        manta_error    e;
        constexpr char l = detail::letter<T>();
        if constexpr (l == 'l') {
            std::int64_t x = 0;
            check(manta_get_i64(ref_, timeout_ms, &x, &e), e);
            return detail::narrow<T>(x);
        } else if constexpr (l == 'u') {
            std::uint64_t x = 0;
            check(manta_get_u64(ref_, timeout_ms, &x, &e), e);
            return detail::narrow<T>(x);
        } else if constexpr (l == 'd') {
            double x = 0;
            check(manta_get_f64(ref_, timeout_ms, &x, &e), e);
            return static_cast<T>(x);
        } else if constexpr (l == 'b') {
            bool x = false;
            check(manta_get_bool(ref_, timeout_ms, &x, &e), e);
            return x;
        } else if constexpr (std::is_void_v<T>) {
            (void)look(timeout_ms);
        } else if constexpr (std::is_same_v<T, bytes>) {
            view        v = look_at('y', timeout_ms);
            const auto *data = static_cast<const unsigned char *>(v.data());
            return bytes(data, data + v.size());
        } else {
            return T(look_at('s', timeout_ms).text());
        }
    }
    /* The value in place, without a copy. */
    view look(int64_t timeout_ms = MANTA_FOREVER) const
    {
        manta_error e;
        manta_view  v;
        check(manta_get(ref_, timeout_ms, &v, &e), e);
        return view(v);
    }
    /* Takes the task or call back, or asks it to stop (manta_is_cancelled): get throws `cancelled` then. With `force` the worker of
     * a task that runs is killed. Does not block. False: it had finished, and nothing changed. */
    bool cancel(bool force = false, bool recursive = false) const
    {
        manta_error       e;
        manta_cancel_opts opts{};
        opts.force = force;
        opts.recursive = recursive;
        manta_status code = manta_cancel(ref_, &opts, &e);
        if (code != MANTA_ENOENT)
            check(code, e);
        return code == MANTA_OK;
    }
    /* Whether get would not wait: the value, or its error, is there. */
    bool ready() const
    {
        manta_error e;
        int         n = manta_wait(&ref_, 1, 1, 0, nullptr, &e);
        if (n < 0)
            raise(e);
        return n == 1;
    }

  private:
    view look_at(char type, int64_t timeout_ms) const
    {
        view v = look(timeout_ms);
        if (v.type() == type)
            return v;
        std::string text = "the value's type is 'x', and 'x' was wanted";
        text[text.find('x')] = v.type();
        text[text.rfind('x')] = type;
        raise(MANTA_ETYPE, text.c_str());
    }
    manta_ref *ref_ = nullptr;
};

namespace detail
{
/* A borrowed type in a result is kept as its owner: string for string_view and const char *, bytes for manta_bytes. */
template <class T>
using kept = std::conditional_t<letter<T>() == 's', std::string, std::conditional_t<letter<T>() == 'y', bytes, plain<T>>>;
} // namespace detail

/* Calls a function that MANTA_FUNCTION has registered. Arguments are values or references of the parameters' types. */
template <auto F, class... A>
ref<detail::kept<typename detail::function<F>::form::result>> submit_with(const manta_task_opts &opts, const A &...a)
{
    using form = typename detail::function<F>::form;
    if (!detail::function<F>::entry.name)
        raise(MANTA_ENOFUNC, "this function has not been registered: MANTA_FUNCTION(name) is missing");
    std::vector<manta_arg> argv = form::arguments(a...);
    return ref<detail::kept<typename form::result>>(
        manta_call_entry(&detail::function<F>::entry, &opts, static_cast<int>(argv.size()), argv.data()));
}
template <auto F, class... A> auto submit(const A &...a)
{
    return submit_with<F>(manta_task_opts{}, a...);
}

/* The raw form: by name, for functions of C or of a .so. R is what the signature says. */
template <class R, class... A> ref<R> call(const char *name, const manta_task_opts &opts, const A &...a)
{
    std::vector<manta_arg> argv{detail::make<detail::decayed<A>>(a)...};
    return ref<R>(manta_call(name, &opts, static_cast<int>(argv.size()), argv.data()));
}

/* ---- generators --------------------------------------------------------------------------------------------------- */

/* Items of type T that a remote function yields, each taken once: for (double x : manta::stream<double>("countdown", {}, 3)).
 * What made the function fail is thrown after the items that came before. Moved, never copied; one thread at a time. */
template <class T> class generator
{
  public:
    generator() = default;
    explicit generator(manta_generator *take) noexcept : generator_(take)
    {
    }
    generator(generator &&other) noexcept : generator_(std::exchange(other.generator_, nullptr))
    {
    }
    generator &operator=(generator &&other) noexcept
    {
        std::swap(generator_, other.generator_);
        return *this;
    }
    ~generator()
    {
        manta_generator_free(generator_);
    }
    manta_generator *handle() const noexcept
    {
        return generator_;
    } /* stays ours */

    /* The next item as a reference, which outlives the generator; an empty one after the last. */
    ref<T> next(int64_t timeout_ms = MANTA_FOREVER)
    {
        manta_ref   *item = nullptr;
        manta_error  e;
        manta_status code = manta_next_ref(generator_, timeout_ms, &item, &e);
        if (code == MANTA_EEND)
            return ref<T>();
        check(code, e);
        return ref<T>(item);
    }

    struct iterator {
        generator *of;
        ref<T>     item;
        T          operator*() const
        {
            return item.get();
        }
        iterator &operator++()
        {
            item = of->next();
            return *this;
        }
        bool operator!=(const iterator &) const
        {
            return static_cast<bool>(item);
        } /* against end alone */
    };
    iterator begin()
    {
        return {this, next()};
    }
    iterator end()
    {
        return {this, ref<T>()};
    }

  private:
    manta_generator *generator_ = nullptr;
};

/* Starts a function that yields; T is what its signature says of its items. */
template <class T, class... A> generator<T> stream(const char *name, const manta_task_opts &opts, const A &...a)
{
    std::vector<manta_arg> argv{detail::make<detail::decayed<A>>(a)...};
    return generator<T>(manta_call_stream(name, &opts, static_cast<int>(argv.size()), argv.data()));
}

/* Inside a generator: hands out one item; false: nobody wants more. */
template <class T> bool yield(manta_ctx *c, const T &item)
{
    manta_status code = manta_yield(c, detail::make<detail::decayed<T>>(item));
    if (code != MANTA_OK && code != MANTA_ECANCELLED)
        raise(code, "manta_yield refused an item");
    return code == MANTA_OK;
}

inline ref<bytes> put(const void *data, std::size_t size)
{
    return ref<bytes>(manta_put(data, size));
}

/* Waits for `want` of the references, at most timeout_ms; says of each whether it is ready. */
template <class T> std::vector<bool> wait(const std::vector<ref<T>> &refs, std::size_t want, int64_t timeout_ms = MANTA_FOREVER)
{
    std::vector<manta_ref *>   handles;
    std::vector<unsigned char> ready(refs.size());
    manta_error                e;
    for (const ref<T> &r : refs)
        handles.push_back(r.handle());
    if (manta_wait(handles.data(), handles.size(), want, timeout_ms, ready.data(), &e) < 0)
        raise(e);
    return {ready.begin(), ready.end()};
}

/* ---- placement groups --------------------------------------------------------------------------------------------- */

/* A handle; it removes nothing when it goes. opts.pg = pg.handle() puts tasks and actors there. */
class placement_group
{
  public:
    placement_group() = default;
    explicit placement_group(manta_pg *take) noexcept : pg_(take)
    {
    }
    explicit placement_group(const std::vector<manta_bundle> &bundles, const manta_pg_opts &opts = {})
    {
        manta_error e;
        pg_ = manta_pg_new(bundles.data(), static_cast<int>(bundles.size()), &opts, &e);
        if (!pg_)
            raise(e);
    }
    placement_group(placement_group &&other) noexcept : pg_(std::exchange(other.pg_, nullptr))
    {
    }
    placement_group &operator=(placement_group &&other) noexcept
    {
        std::swap(pg_, other.pg_);
        return *this;
    }
    ~placement_group()
    {
        manta_pg_free(pg_);
    }
    const manta_pg *handle() const noexcept
    {
        return pg_;
    }
    void wait(int64_t timeout_ms = MANTA_FOREVER) const
    {
        manta_error e;
        check(manta_pg_wait(pg_, timeout_ms, &e), e);
    }
    void remove() const
    {
        manta_error e;
        check(manta_pg_remove(pg_, &e), e);
    }

  private:
    manta_pg *pg_ = nullptr;
};

/* ---- actors ------------------------------------------------------------------------------------------------------- */

/* A handle on an actor of class T; T is registered by MANTA_CLASS. The actor ends with its creator's last handle. */
template <class T> class actor
{
  public:
    actor() = default;
    explicit actor(manta_actor *take) noexcept : actor_(take)
    {
    }
    actor(const actor &other) : actor_(manta_actor_dup(other.actor_))
    {
    }
    actor(actor &&other) noexcept : actor_(std::exchange(other.actor_, nullptr))
    {
    }
    actor &operator=(actor other) noexcept
    {
        std::swap(actor_, other.actor_);
        return *this;
    }
    ~actor()
    {
        manta_actor_free(actor_);
    }
    manta_actor *handle() const noexcept
    {
        return actor_;
    }

    template <auto M, class... A> auto call(const A &...a) const
    {
        using form = typename detail::method<M>::form;
        static_assert(std::is_base_of_v<typename form::self, T>, "a method of another class");
        if (!detail::method<M>::name)
            raise(MANTA_ENOFUNC, "this method has not been registered: MANTA_CLASS does not list it");
        std::vector<manta_arg> argv = form::arguments(a...);
        return ref<detail::kept<typename form::result>>(
            manta_actor_call(actor_, detail::method<M>::name, static_cast<int>(argv.size()), argv.data()));
    }
    void kill(bool restart = false) const
    {
        manta_actor_kill(actor_, restart);
    }

  private:
    manta_actor *actor_ = nullptr;
};

/* Several actors of class T as one; they end with it. */
template <class T> class group
{
  public:
    group() = default;
    explicit group(manta_group *take) noexcept : group_(take)
    {
    }
    group(group &&other) noexcept : group_(std::exchange(other.group_, nullptr))
    {
    }
    group &operator=(group &&other) noexcept
    {
        std::swap(group_, other.group_);
        return *this;
    }
    ~group()
    {
        manta_group_free(group_);
    }
    manta_group *handle() const noexcept
    {
        return group_;
    }
    int size() const noexcept
    {
        return group_ ? manta_group_size(group_) : 0;
    }
    actor<T> at(int index) const
    {
        return actor<T>(manta_actor_dup(manta_group_actor(group_, index)));
    }

    /* The same call to every member; a reference of each, in their order. */
    template <auto M, class... A> auto call(const A &...a) const
    {
        using form = typename detail::method<M>::form;
        static_assert(std::is_base_of_v<typename form::self, T>, "a method of another class");
        std::vector<manta_arg>   argv = form::arguments(a...);
        std::vector<manta_ref *> out(static_cast<std::size_t>(size()));
        manta_status code = manta_group_call(group_, name_of<M>(), static_cast<int>(argv.size()), argv.data(), out.data());
        if (code != MANTA_OK)
            raise(code, "manta_group_call refused the call");
        return refs<typename form::result>(out);
    }
    /* One call an item, by whichever member is idle; the references in the order of the items. Blocks until the last item is
     * handed out. Of methods with one parameter. */
    template <auto M, class X> auto map(const std::vector<X> &items) const
    {
        using form = typename detail::method<M>::form;
        static_assert(form::count == 1, "a method with one parameter");
        std::vector<manta_arg>   argv;
        std::vector<manta_ref *> out(items.size());
        manta_error              e;
        for (const X &item : items)
            argv.push_back(form::arguments(item)[0]);
        check(manta_group_map(group_, name_of<M>(), argv.data(), argv.size(), out.data(), &e), e);
        return refs<typename form::result>(out);
    }
    /* Until what the members have begun between them has come to its end: manta_group_quiet. */
    void quiet(int64_t timeout_ms = MANTA_FOREVER) const
    {
        manta_error e;
        check(manta_group_quiet(group_, timeout_ms, &e), e);
    }
    /* Every member finishes what is queued, destroys its state and ends. */
    void end(int64_t timeout_ms = MANTA_FOREVER) const
    {
        manta_error e;
        check(manta_group_end(group_, timeout_ms, &e), e);
    }

  private:
    template <auto M> static const char *name_of()
    {
        if (!detail::method<M>::name)
            raise(MANTA_ENOFUNC, "this method has not been registered: MANTA_CLASS does not list it");
        return detail::method<M>::name;
    }
    template <class R> static std::vector<ref<detail::kept<R>>> refs(const std::vector<manta_ref *> &take)
    {
        std::vector<ref<detail::kept<R>>> out;
        for (manta_ref *r : take)
            out.emplace_back(r);
        return out;
    }
    manta_group *group_ = nullptr;
};

/* Starts an actor. The arguments' types must be those that MANTA_CLASS gave to the constructor; they are checked when it
 * is called (MANTA_ETYPE out of its calls). */
template <class T, class... A> actor<T> start_with(const manta_actor_opts &opts, const A &...a)
{
    if (!detail::actor_class<T>::type.name)
        raise(MANTA_ENOFUNC, "this class has not been registered: MANTA_CLASS(name, ...) is missing");
    std::vector<manta_arg> argv{detail::make<detail::decayed<A>>(a)...};
    return actor<T>(manta_actor_new(detail::actor_class<T>::type.name, &opts, static_cast<int>(argv.size()), argv.data()));
}
template <class T, class... A> actor<T> start(const A &...a)
{
    return start_with<T>(manta_actor_opts{}, a...);
}
/* `count` of them, all with the same arguments. */
template <class T, class... A> group<T> start_group(const manta_actor_opts &opts, int count, const A &...a)
{
    if (!detail::actor_class<T>::type.name)
        raise(MANTA_ENOFUNC, "this class has not been registered: MANTA_CLASS(name, ...) is missing");
    std::vector<manta_arg> argv{detail::make<detail::decayed<A>>(a)...};
    manta_error            e;
    manta_group *made = manta_group_new(detail::actor_class<T>::type.name, &opts, count, static_cast<int>(argv.size()), argv.data(),
                                        &e);
    if (!made)
        raise(e);
    return group<T>(made);
}
/* A named actor of somebody. */
template <class T> actor<T> find(const char *name, int64_t timeout_ms = MANTA_FOREVER)
{
    manta_error  e;
    manta_actor *found = manta_actor_find(name, timeout_ms, &e);
    if (!found)
        raise(e);
    return actor<T>(found);
}

} // namespace manta

/* ---- registration, at the scope of a file --------------------------------------------------------------------------- */

/* MANTA_FUNCTION(scale); or with its namespace, MANTA_FUNCTION(geometry::scale): it is registered under the name as written here. */
#define MANTA_FUNCTION(...)               MANTA_HPP_FUNCTION(__COUNTER__, __VA_ARGS__)

/* A function that returns nothing and hands out items of one type by manta::yield: for manta::stream. */
#define MANTA_GENERATOR(fn, item)         MANTA_HPP_GENERATOR(__COUNTER__, fn, item)

/* MANTA_CLASS(counter, (std::int64_t), MANTA_METHOD(counter, add), MANTA_METHOD(counter, value));
 * The second is the constructor's parameters in parentheses: (), if there are none. */
#define MANTA_METHOD(cls, fn)             ::manta::detail::method<&cls::fn>::made(#fn)
#define MANTA_CLASS(cls, parameters, ...) MANTA_HPP_CLASS(__COUNTER__, cls, parameters, __VA_ARGS__)

/* Names of their own, whatever is registered: a qualified name can't be part of one. */
#define MANTA_HPP_JOIN_(a, b)             a##b
#define MANTA_HPP_JOIN(a, b)              MANTA_HPP_JOIN_(a, b)
#define MANTA_HPP_FUNCTION(id, ...) \
    __attribute__((constructor)) static void MANTA_HPP_JOIN(manta_add_, id)() \
    { \
        ::manta::detail::function<__VA_ARGS__>::add(#__VA_ARGS__, __FILE__, __LINE__); \
    } \
    static_assert(true, "takes the semicolon")
#define MANTA_HPP_GENERATOR(id, fn, item) \
    __attribute__((constructor)) static void MANTA_HPP_JOIN(manta_add_, id)() \
    { \
        using one = ::manta::detail::function<fn>; \
        one::add(#fn, __FILE__, __LINE__, one::form::items<item>::text); \
    } \
    static_assert(true, "takes the semicolon")
#define MANTA_HPP_CLASS(id, cls, parameters, ...) \
    static void MANTA_HPP_JOIN(manta_constructs_, id) parameters \
    { \
    } \
    __attribute__((constructor)) static void MANTA_HPP_JOIN(manta_add_, id)() \
    { \
        ::manta::detail::actor_class<cls>::add(#cls, __FILE__, __LINE__, MANTA_HPP_JOIN(manta_constructs_, id), {__VA_ARGS__}); \
    } \
    static_assert(true, "takes the semicolon")

#endif /* C++17 */
#endif

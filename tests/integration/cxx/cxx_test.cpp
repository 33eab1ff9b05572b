/* SPDX-License-Identifier: Apache-2.0
 *
 * cxx_test.cpp - manta.hpp against real processes: typed calls, references for values, exceptions, actors.
 *
 * Thread: the driver's main one. Each check that fails ends the program with its line.
 */
#include <manta.hpp>

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
            std::exit(1); \
        } \
    } while (0)

enum { WAIT_MS = 20 * 1000 };

static double scale(double x, std::int64_t n)
{
    return x * double(n);
}
MANTA_FUNCTION(scale);

static std::string greet(const std::string &who, bool loud)
{
    return "hello " + who + (loud ? "!" : "");
}
MANTA_FUNCTION(greet);

static manta::bytes twice(manta_bytes in)
{
    const auto  *data = static_cast<const unsigned char *>(in.data);
    manta::bytes out(data, data + in.size);
    out.insert(out.end(), data, data + in.size);
    return out;
}
MANTA_FUNCTION(twice);

/* Text with NULs, which is all of it text. */
static std::string doubled(const std::string &text)
{
    return text + text;
}
MANTA_FUNCTION(doubled);

static std::string_view piece()
{
    static const char text[] = "one\0two\0three";
    return {text, 7};
}
MANTA_FUNCTION(piece);

static std::uint8_t small(int x)
{
    return std::uint8_t(x);
}
MANTA_FUNCTION(small);

static int attempt_of(manta_ctx *c, std::string_view unused)
{
    return manta_attempt(c) + int(unused.size());
}
MANTA_FUNCTION(attempt_of);

static void refuse(int how)
{
    if (how == 1)
        throw manta::failure(42, "no thanks");
    if (how == 2)
        throw std::out_of_range("too far");
    if (how == 3)
        throw 3;
    if (how == 4)
        _exit(4);
}
MANTA_FUNCTION(refuse);

/* Nested: a task that submits tasks and passes their exception on. */
static std::int64_t nested(int how)
{
    manta::submit<refuse>(how).get();
    return std::int64_t(manta::submit<scale>(10.0, 2).get());
}
MANTA_FUNCTION(nested);

/* As people write them: in a namespace, noexcept, for lvalues only. */
namespace geometry
{
static double area(double a, double b) noexcept
{
    return a * b;
}
static void sides(manta_ctx *c, int count) noexcept
{
    for (int i = 0; i < count; i++)
        (void)manta::yield(c, double(i));
}
template <int N> static std::int64_t times(std::int64_t x)
{
    return N * x;
}
template <int N, int M> static std::int64_t plus(std::int64_t x)
{
    return N * x + M;
}
class square
{
  public:
    explicit square(double side) noexcept : side_(side)
    {
    }
    double grow(double by) noexcept
    {
        return side_ += by;
    }
    double side() const noexcept
    {
        return side_;
    }
    double twice() const &
    {
        return 2 * side_;
    }
    void halve() &
    {
        side_ /= 2;
    }

  private:
    double side_;
};
} // namespace geometry
MANTA_FUNCTION(geometry::area);
MANTA_FUNCTION(geometry::times<3>);
MANTA_FUNCTION(geometry::plus<2, 1>);
MANTA_GENERATOR(geometry::sides, double);
MANTA_CLASS(geometry::square, (double), MANTA_METHOD(geometry::square, grow), MANTA_METHOD(geometry::square, side),
            MANTA_METHOD(geometry::square, twice), MANTA_METHOD(geometry::square, halve));

static double unregistered(double x)
{
    return x;
}

/* Runs until it is asked to stop; the file says that it runs. It has submitted something, so there is a helper thread beside it,
 * which sleeps by then: that one once kept the lock for ever. */
static std::int64_t until_cancelled(manta_ctx *c, std::string_view file)
{
    manta::submit<scale>(1.0, 2).get(WAIT_MS);
    usleep(100 * 1000);
    close(open(std::string(file).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    while (!manta_is_cancelled(c))
        usleep(1000);
    return 1;
}
MANTA_FUNCTION(until_cancelled);

class counter
{
  public:
    explicit counter(std::int64_t start) : value_(std::make_unique<std::int64_t>(start))
    {
        if (start < 0)
            throw manta::failure(7, "below zero");
    }
    std::int64_t add(std::int64_t n)
    {
        return *value_ += n;
    }
    std::int64_t value() const
    {
        return *value_;
    }
    void leave()
    {
        _exit(9);
    }
    std::int64_t hidden()
    {
        return 0;
    }

  private:
    std::unique_ptr<std::int64_t> value_;
};
MANTA_CLASS(counter, (std::int64_t), MANTA_METHOD(counter, add), MANTA_METHOD(counter, value), MANTA_METHOD(counter, leave));

/* Runs `call`, which must throw E; gives it. */
template <class E, class F> static E thrown(F &&call)
{
    try {
        call();
    } catch (const E &e) {
        return e;
    }
    CHECK(!"the exception that was wanted");
    std::exit(1);
}

static void values()
{
    CHECK(manta::submit<scale>(2.0, 21).get(WAIT_MS) == 42.0);
    CHECK(manta::submit<greet>("you", true).get(WAIT_MS) == "hello you!");
    CHECK(manta::submit<greet>(std::string(20000, 'x'), false).get(WAIT_MS).size() == 20006);
    CHECK(manta::submit<attempt_of>(std::string("abc")).get(WAIT_MS) == 3);
    const std::string nuls("a\0b\0", 4);
    CHECK(manta::submit<doubled>(nuls).get(WAIT_MS) == nuls + nuls);
    CHECK(manta::submit<doubled>(manta::submit<doubled>(nuls)).get(WAIT_MS).size() == 16);
    CHECK(manta::submit<doubled>(std::string(20000, '\0')).get(WAIT_MS) == std::string(40000, '\0'));
    CHECK(manta::submit<doubled>("").get(WAIT_MS).empty());
    CHECK(manta::submit<piece>().get(WAIT_MS) == std::string_view("one\0two", 7));
    manta::bytes big(100000, 7);
    CHECK(manta::submit<twice>(big).get(WAIT_MS) == manta::bytes(200000, 7));
    CHECK(manta::submit<twice>(big).look(WAIT_MS).size() == 200000);
    auto put = manta::put(big.data(), big.size());
    CHECK(manta::submit<twice>(put).look(WAIT_MS).size() == 200000);
    auto half = manta::submit<scale>(1.5, 2);
    CHECK(manta::submit<scale>(half, 2).get(WAIT_MS) == 6.0); /* a reference stands for its value */
    manta::ref<double> copy = half, moved = std::move(half);
    CHECK(copy.get(WAIT_MS) == 3.0 && moved.get(WAIT_MS) == 3.0 && !half);
    CHECK(manta::call<double>("scale", {}, 3.0, std::int64_t(3)).get(WAIT_MS) == 9.0);
    std::vector<manta::ref<double>> many;
    for (int i = 0; i < 100; i++)
        many.push_back(manta::submit<scale>(1.0, i));
    CHECK(manta::wait(many, 100, WAIT_MS) == std::vector<bool>(100, true));
    CHECK(many[99].ready() && many[99].get() == 99.0);
    CHECK(manta::submit<nested>(0).get(WAIT_MS) == 20);
}

/* ---- in place ---- */

static manta::in_place ramp(manta_ctx *c, std::size_t count)
{
    double *to = manta::room_for<double>(c, count);
    for (std::size_t i = 0; i < count; i++)
        to[i] = double(i);
    return {};
}
MANTA_FUNCTION(ramp);
static manta::in_place ramp_twice(manta_ctx *c, std::size_t count)
{
    (void)manta::room_for<double>(c, count);
    (void)manta::room_for<double>(c, count);
    return {};
}
MANTA_FUNCTION(ramp_twice);

static void in_place()
{
    for (std::size_t count : {std::size_t(1), std::size_t(500), std::size_t(1) << 17}) {
        auto r = manta::submit<ramp>(count);
        auto bytes = r.get(WAIT_MS);
        CHECK(bytes.size() == count * sizeof(double));
        double last;
        std::memcpy(&last, bytes.data() + (count - 1) * sizeof last, sizeof last);
        CHECK(last == double(count - 1));
    }
    CHECK(thrown<manta::task_failed>([] { manta::submit<ramp_twice>(std::size_t(100)).get(WAIT_MS); }).user_code() == 0);
}

static void qualified()
{
    CHECK(manta::submit<geometry::area>(2.0, 3.0).get(WAIT_MS) == 6.0);
    CHECK(manta::call<double>("geometry::area", {}, 2.0, 4.0).get(WAIT_MS) == 8.0);
    CHECK(manta::submit<geometry::times<3>>(5).get(WAIT_MS) == 15);
    CHECK((manta::submit<geometry::plus<2, 1>>(5).get(WAIT_MS) == 11));
    double sum = 0;
    for (double x : manta::stream<double>("geometry::sides", {}, 4))
        sum += x;
    CHECK(sum == 6);
    auto a = manta::start<geometry::square>(3.0);
    CHECK(a.call<&geometry::square::grow>(1.0).get(WAIT_MS) == 4.0);
    a.call<&geometry::square::halve>().get(WAIT_MS);
    CHECK(a.call<&geometry::square::side>().get(WAIT_MS) == 2.0 && a.call<&geometry::square::twice>().get(WAIT_MS) == 4.0);
}

static void errors()
{
    auto own = thrown<manta::task_failed>([] { manta::submit<refuse>(1).get(WAIT_MS); });
    CHECK(own.user_code() == 42 && own.what() == std::string("no thanks"));
    auto std = thrown<manta::task_failed>([] { manta::submit<refuse>(2).get(WAIT_MS); });
    CHECK(std.user_code() == 0 && std.what() == std::string("too far"));
    thrown<manta::task_failed>([] { manta::submit<refuse>(3).get(WAIT_MS); });
    manta_task_opts once{};
    once.max_retries = MANTA_NO_RETRY;
    auto dead = thrown<manta::died>([&] { manta::submit_with<refuse>(once, 4).get(WAIT_MS); });
    CHECK(dead.code() == MANTA_EWORKER_DIED && dead.detail().pid > 0);
    auto far = thrown<manta::task_failed>([] { manta::submit<nested>(1).get(WAIT_MS); });
    CHECK(far.what() == std::string("no thanks"));
    thrown<manta::bad_request>([] { manta::submit<unregistered>(1.0); });
    auto none = thrown<manta::bad_request>([] { manta::call<double>("scael", {}).get(WAIT_MS); });
    CHECK(none.code() == MANTA_ENOFUNC && std::strstr(none.what(), "scale"));
    thrown<manta::bad_request>([] { manta::call<double>("scale", {}, 1.0).get(WAIT_MS); });
    CHECK(thrown<manta::bad_request>([] { manta::submit<small>(~0ull); }).code() == MANTA_ETYPE); /* not cut to -1 */
    thrown<manta::task_failed>([] { manta::submit<small>(std::int64_t(1) << 40).get(WAIT_MS); });
    /* A value is what it was sent as. */
    CHECK(thrown<manta::bad_request>([] { manta::call<std::string>("small", {}, 5).get(WAIT_MS); }).code() == MANTA_ETYPE);
    CHECK(thrown<manta::bad_request>([] { manta::call<manta::bytes>("scale", {}, 1.0, 5).get(WAIT_MS); }).code() == MANTA_ETYPE);
    CHECK(thrown<manta::bad_request>([] { manta::call<std::string>("twice", {}, manta::bytes(3, 'x')).get(WAIT_MS); }).code() ==
          MANTA_ETYPE);
    CHECK(thrown<manta::bad_request>([] { manta::call<double>("piece", {}).get(WAIT_MS); }).code() == MANTA_ETYPE);
    CHECK(manta::submit<small>(200).get(WAIT_MS) == 200);
    CHECK(thrown<manta::bad_request>([] { manta::find<counter>("nobody"); }).code() == MANTA_ENOENT);
}

static void actors()
{
    manta_actor_opts named{};
    named.name = "the counter";
    auto a = manta::start_with<counter>(named, std::int64_t(5));
    for (int i = 0; i < 100; i++)
        a.call<&counter::add>(i);
    CHECK(a.call<&counter::value>().get(WAIT_MS) == 5 + 99 * 50);
    auto same = manta::find<counter>("the counter"), copy = same;
    CHECK(copy.call<&counter::add>(manta::submit<small>(3).get(WAIT_MS)).get(WAIT_MS) == 8 + 99 * 50);
    thrown<manta::bad_request>([&] { a.call<&counter::hidden>(); });
    thrown<manta::died>([&] { a.call<&counter::leave>().get(WAIT_MS); });
    auto bad = manta::start<counter>(std::int64_t(-1));
    CHECK(std::strstr(thrown<manta::error>([&] { bad.call<&counter::value>().get(WAIT_MS); }).what(), "below zero"));
    auto wrong = manta::start<counter>("text");
    CHECK(thrown<manta::error>([&] { wrong.call<&counter::value>().get(WAIT_MS); }).code() == MANTA_ETYPE);
}

/* ---- cancel ---- */

static bool comes(const std::string &file)
{
    for (int i = 0; i < WAIT_MS && access(file.c_str(), F_OK) != 0; i++)
        usleep(1000);
    return unlink(file.c_str()) == 0;
}

static void cancels()
{
    std::string name = "/tmp/manta-cxx-" + std::to_string(getpid()) + "-";
    for (int i = 0; i < 6; i++) {
        std::string file = name + std::to_string(i);
        auto        running = manta::submit<until_cancelled>(file);
        if (i % 2) { /* else it may not have begun */
            CHECK(comes(file));
            thrown<manta::timed_out>([&] { running.get(0); });
        }
        CHECK(running.cancel(i == 5));
        thrown<manta::cancelled>([&] { running.get(WAIT_MS); });
        CHECK(!running.cancel());
        unlink(file.c_str());
    }
    auto done = manta::submit<scale>(1.0, 1);
    CHECK(done.get(WAIT_MS) == 1.0 && !done.cancel());
    CHECK(thrown<manta::error>([] { manta::ref<double>().cancel(); }).code() == MANTA_EINVAL);
}

/* ---- generators, groups ---- */

static void countdown(manta_ctx *c, int from)
{
    for (int i = from; i > 0; i--)
        if (!manta::yield(c, double(i)))
            return;
    if (from == 13)
        throw manta::failure(13, "unlucky");
}
MANTA_GENERATOR(countdown, double);

static void seasons(manta_ctx *c)
{
    (void)manta::yield(c, "spring"); /* a literal, as in a call */
    (void)manta::yield(c, std::string("fall"));
}
MANTA_GENERATOR(seasons, std::string);

static void generators()
{
    double sum = 0;
    int    count = 0;
    for (double x : manta::stream<double>("countdown", {}, 100))
        sum += x, count++;
    CHECK(sum == 5050 && count == 100);
    auto g = manta::stream<double>("countdown", {}, 3);
    auto first = g.next(WAIT_MS), second = g.next(WAIT_MS);
    CHECK(manta::submit<scale>(first, 2).get(WAIT_MS) == 6.0 && second.get() == 2.0); /* an item is a value like any other */
    CHECK(g.next(WAIT_MS).get() == 1.0 && !g.next(WAIT_MS) && !g.next(WAIT_MS));
    auto failing = manta::stream<double>("countdown", {}, 13);
    count = 0;
    CHECK(thrown<manta::task_failed>([&] {
              for (double x : failing)
                  count += x > 0;
          }).user_code() == 13);
    CHECK(count == 13); /* what came before the failure */
    std::string said;
    for (const std::string &word : manta::stream<std::string>("seasons", {}))
        said += word + ";";
    CHECK(said == "spring;fall;");
    {
        auto dropped = manta::stream<double>("countdown", {}, 1000000);
    }
}

static void groups()
{
    auto g = manta::start_group<counter>({}, 3, std::int64_t(10));
    g.quiet(WAIT_MS);
    CHECK(g.size() == 3);
    auto all = g.call<&counter::add>(5);
    CHECK(all.size() == 3);
    for (auto &r : all)
        CHECK(r.get(WAIT_MS) == 15);
    auto mapped = g.map<&counter::add>(std::vector<int>(30, 1));
    CHECK(mapped.size() == 30);
    for (auto &r : mapped)
        r.get(WAIT_MS);
    std::int64_t sum = 0;
    for (int i = 0; i < 3; i++)
        sum += g.at(i).call<&counter::value>().get(WAIT_MS);
    CHECK(sum == 3 * 15 + 30);
    thrown<manta::bad_request>([&] { g.call<&counter::hidden>(); });
    thrown<manta::bad_request>([] { manta::start_group<counter>({}, 0, std::int64_t(1)); });
    g.end(WAIT_MS);
}

static void placement()
{
    manta_bundle one{};
    one.num_cpus = 1;
    manta::placement_group pg({one, one});
    pg.wait(WAIT_MS);
    manta_actor_opts opts{};
    opts.pg = pg.handle();
    opts.bundle = 2;
    opts.num_cpus = 1;
    auto a = manta::start_with<counter>(opts, std::int64_t(3));
    CHECK(a.call<&counter::value>().get(WAIT_MS) == 3);
    pg.remove();
    auto late = manta::start_with<counter>(opts, std::int64_t(3));
    CHECK(thrown<manta::died>([&] { late.call<&counter::value>().get(WAIT_MS); }).code() == MANTA_EPG_REMOVED);
    CHECK(thrown<manta::died>([&] { pg.wait(WAIT_MS); }).code() == MANTA_EPG_REMOVED);
    thrown<manta::bad_request>([] { manta::placement_group none(std::vector<manta_bundle>{}); });
}

int main(int argc, char **argv)
{
    manta_init_opts opts{};
    opts.num_cpus = 2;
    opts.store_memory = 256 << 20;
    try {
        manta::session session(argc, argv, opts);
        values();
        qualified();
        errors();
        actors();
        cancels();
        groups();
        placement();
        generators();
        in_place();
    } catch (const manta::error &e) {
        manta_perror(&e.detail());
        return 1;
    }
    return 0;
}

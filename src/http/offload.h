// Runs blocking work on a pool thread while a session's coroutine waits on its loop.
//
// A timer that never fires is the thing waited on: finishing the work posts to the loop, which cancels the timer. This
// keeps closures out of co_await expressions, where g++ 12 destroys them twice. Internal to http; included by
// session*.cc alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "http/session.h"

namespace cairn::http {

// Shared by the waiting coroutine and the job. `result` is written by the job before it posts, and read after.
template <class T>
struct Offloaded {
  explicit Offloaded(const boost::asio::any_io_executor& executor) : wake(executor) {
    wake.expires_at(boost::asio::steady_timer::time_point::max());
  }
  boost::asio::steady_timer wake;
  bool finished = false;
  std::optional<T> result;
};

template <class T>
std::function<void()> offloaded_job(std::shared_ptr<Offloaded<T>> state, std::function<T()> work) {
  return [state, work = std::move(work)]() mutable {
    try {
      state->result.emplace(work());
    } catch (const std::exception& error) {
      log_error("a request's handler threw: {}", error.what());
    }
    work = nullptr;
    // The executor is taken first: the coroutine may be gone as soon as the post is done.
    auto executor = state->wake.get_executor();
    boost::asio::post(executor, [state = std::move(state)] {
      state->finished = true;
      state->wake.cancel();
    });
  };
}

template <class T>
boost::asio::awaitable<std::optional<T>> Session::offload(JobRunner& runner, bool always, std::function<T()> work,
                                                          bool& accepted) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto state = std::make_shared<Offloaded<T>>(executor);
  std::function<void()> job = offloaded_job<T>(state, std::move(work));
  accepted = true;
  if (always) {
    runner.submit_always(std::move(job));
  } else {
    accepted = runner.submit(std::move(job));
  }
  std::optional<T> result;
  if (!accepted) co_return result;
  while (!state->finished) {
    boost::system::error_code ignored;
    auto token = boost::asio::redirect_error(boost::asio::use_awaitable, ignored);
    co_await state->wake.async_wait(token);
  }
  result = std::move(state->result);
  co_return result;
}

}  // namespace cairn::http

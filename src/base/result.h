// Result<T> is a value or an Error. It cannot be dropped silently: the class is [[nodiscard]] on both compilers, which
// tl::expected itself is not. Status is Result<void>.
//
//   Result<Pack> open_pack(...);
//   CAIRN_TRY(Pack pack, open_pack(key));          // returns the error from the enclosing function
//   CAIRN_CHECK_OK(pack.verify());                 // the same for a Status
//
// The two macros are statements and must not stand in a coroutine (see docs/STYLE.md).
#pragma once

#include <utility>

#include <tl/expected.hpp>

#include "base/error.h"

namespace cairn {

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}  // NOLINT(google-explicit-constructor)
};

template <>
class [[nodiscard]] Result<void> : public tl::expected<void, Error> {
 public:
  using Base = tl::expected<void, Error>;
  using Base::Base;
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}  // NOLINT(google-explicit-constructor)
};

using Status = Result<void>;

inline Status ok() { return {}; }

#define CAIRN_CONCAT_INNER(a, b) a##b
#define CAIRN_CONCAT(a, b) CAIRN_CONCAT_INNER(a, b)

#define CAIRN_TRY_INNER(result, declaration, expression)  \
  auto result = (expression);                             \
  if (!result) return std::move(result).error();          \
  declaration = *std::move(result)
#define CAIRN_TRY(declaration, ...) CAIRN_TRY_INNER(CAIRN_CONCAT(cairn_result_, __LINE__), declaration, __VA_ARGS__)

#define CAIRN_CHECK_OK(...)                                   \
  do {                                                        \
    auto cairn_status = (__VA_ARGS__);                        \
    if (!cairn_status) return std::move(cairn_status).error(); \
  } while (false)

}  // namespace cairn

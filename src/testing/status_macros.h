// Checks of Status and Result that print the error.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

#define ASSERT_OK(...)                                               \
  do {                                                               \
    auto assert_status = (__VA_ARGS__);                              \
    ASSERT_TRUE(assert_status) << assert_status.error().to_string(); \
  } while (false)
#define EXPECT_CODE(code_value, ...)                                                                                  \
  do {                                                                                                                \
    auto expect_status = (__VA_ARGS__);                                                                               \
    EXPECT_FALSE(expect_status);                                                                                      \
    if (!expect_status) {                                                                                             \
      EXPECT_EQ(wire_name(expect_status.error().code()), wire_name(code_value)) << expect_status.error().to_string(); \
    }                                                                                                                 \
  } while (false)

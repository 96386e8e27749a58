// What most tests include, compiled once (cmake/cairn.cmake). A file still includes what it uses.
#pragma once

#include "cairn_headers.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

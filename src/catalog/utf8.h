// Text the catalog takes: UTF-8 without NUL. PostgreSQL would cut at NUL and refuse broken UTF-8, SQLite would store both.
#pragma once

#include <string_view>

namespace cairn::catalog {

bool is_catalog_text(std::string_view text);

}  // namespace cairn::catalog

// Paths on a volume are bytes: segments of 1..255 bytes joined by '/', at most 4096 bytes and 1024 segments, no NUL, no
// segment "." or "..", no leading or trailing '/'. They need not be UTF-8. The empty path names the root and is never an
// entry. Every path that comes from a user, a client or stored data goes through validate_path; there is no second check.
//
// Order: '/' sorts below every other byte, so a path is followed at once by everything below it.
//
// Pure functions; thread-safe.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::store {

// kPathInvalid, with the path escaped, unless `path` may name an entry.
Status validate_path(std::string_view path);
// The same without building a message.
bool is_valid_path(std::string_view path);
// kPathInvalid unless 1..4095 bytes without NUL. Where it points to is not looked at.
Status validate_symlink_target(std::string_view target);

// A path as a person types it ("/data//x/./y/") in its one spelling ("data/x/y"); the empty string for the root.
// kPathInvalid for ".." and for what validate_path refuses.
Result<std::string> normalize_path(std::string_view text);

// Negative, zero or positive. REQUIRES: neither holds a NUL byte.
int path_compare(std::string_view a, std::string_view b);
struct PathLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return path_compare(a, b) < 0; }
};

// True for `prefix` itself and all below it; the empty prefix holds everything. Whole segments only.
bool is_at_or_under(std::string_view path, std::string_view prefix);
// True for what lies below `prefix`, not for itself.
bool is_under(std::string_view path, std::string_view prefix);
// Where `path` lies relative to everything at or under `prefix`: -1 before, 0 within, 1 after.
int compare_to_subtree(std::string_view path, std::string_view prefix);

// "runs" and everything below it, which uploads may not write.
bool is_under_runs(std::string_view path);
// True when an operation on `prefix` as a whole would reach `runs`: `prefix` is under runs, or holds it (the root).
bool prefix_touches_runs(std::string_view prefix);

// "a/b" of "a/b/c"; empty for a path of one segment.
std::string_view parent_path(std::string_view path);
// "c" of "a/b/c".
std::string_view base_name(std::string_view path);
// `name` below `parent`; `parent` may be the root.
std::string join_path(std::string_view parent, std::string_view name);

// The path for people: printable UTF-8 stays, a backslash is doubled, everything else becomes \xNN.
std::string escape_for_display(std::string_view bytes);

}  // namespace cairn::store

// What may stand on a terminal: never a control character of a file's name, of an error or of what somebody else wrote.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace cairn::cli {

// A path or name as people and JSON see it (docs/SCRIPTING.md, "Names of files"): reversible.
std::string shown_path(std::string_view path);
// One cell or name of other text: printable UTF-8 stays, everything else becomes \xNN. A backslash stays as it is.
std::string shown_words(std::string_view text);
// The same for text of several lines: line ends and tabs stay.
std::string shown_text(std::string_view text);

}  // namespace cairn::cli

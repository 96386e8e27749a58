#define PCRE2_CODE_UNIT_WIDTH 8
#include "dataset/split_pattern.h"

#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>
#include <pcre2.h>

#include "dataset/unicode_classes.h"

namespace cairn::dataset {
namespace {

constexpr size_t kPatternBytesMax = 64 * 1024;
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr size_t kJitStackBytesMax = 8u << 20;

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct DataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct StackFree {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

enum class Family { kGpt2, kQwen, kLlama3 };

struct PatternImpl final : SplitPattern {
  std::string name;
  std::optional<Family> family;
  std::unique_ptr<pcre2_code, CodeFree> code;  // when there is no family
  bool jit = false;
};

// Why PCRE2 might read `pattern` otherwise than Oniguruma does with Ruby's syntax; empty: it does not.
std::string foreign_construct(std::string_view pattern) {
  size_t depth = 0;  // of brackets
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i], next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      if (std::isalnum(static_cast<unsigned char>(next)) != 0 && std::string_view("pPsSdDrntfx").find(next) == std::string_view::npos) {
        return fmt::format("\\{}", next);
      }
      ++i;
      if (next == 'p' || next == 'P' || next == 'x') {
        const size_t close = pattern.find('}', i);
        if (i + 1 >= pattern.size() || pattern[i + 1] != '{' || close == std::string_view::npos) return fmt::format("\\{} without braces", next);
        i = close;
      }
    } else if (depth > 0) {
      if (c == '[') return "a bracket inside a bracket";
      if (c == '&' && next == '&') return "&& inside a bracket";
      if (c == ']') depth = 0;
    } else if (c == '[') {
      depth = 1;
      if (next == '^') ++i;
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') return "a bracket that begins with ]";
    } else if (c == '^' || c == '$') {
      return std::string(1, c);
    } else if (c == '}' && next == '+') {
      return "}+";
    } else if (c == '{' && next == ',') {
      return "{,";
    } else if (c == '(' && (next == '*' || next == '?')) {
      static constexpr std::array<std::string_view, 7> kKnown = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
      bool known = false;
      for (std::string_view group : kKnown) known = known || pattern.substr(i).substr(0, group.size()) == group;
      if (!known) return std::string(pattern.substr(i, 4));
    }
  }
  return {};
}

// The pattern for PCRE2: its \s has U+180E, which lost that property long ago, and its tables end with Unicode 14.
std::string for_pcre2(std::string_view pattern) {
  static constexpr std::string_view kSpaces = R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  auto put = [&](std::string_view base, std::span<const CodePointRange> more, bool negated) {
    if (!in_class) out += negated ? "[^" : "[";
    out += base;
    for (const CodePointRange& range : more) out += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", uint32_t{range.first}, uint32_t{range.last});
    if (!in_class) out += ']';
  };
  for (size_t i = 0; i < pattern.size();) {
    const std::string_view rest = pattern.substr(i);
    if (rest.substr(0, 5) == "\\p{L}" || rest.substr(0, 5) == "\\p{N}") {
      put(rest.substr(0, 5), rest[3] == 'L' ? new_letters() : new_numbers(), false);
      i += 5;
    } else if (rest.substr(0, 2) == "\\s" || (rest.substr(0, 2) == "\\S" && !in_class)) {
      put(kSpaces, {}, rest[1] == 'S');
      i += 2;
    } else if (rest[0] == '\\') {
      out += rest.substr(0, 2);
      i += 2;
    } else {
      if (rest[0] == '[') in_class = true;
      if (rest[0] == ']') in_class = false;
      out += rest[0];
      ++i;
    }
  }
  return out;
}

// ---- own matchers ----

struct Cursor {
  std::string_view text;
  const CharClass* classes;

  struct Char {
    CharClass kind = CharClass::kOther;
    size_t length = 0;  // 0: the end
  };
  Char at(size_t position) const {
    if (position >= text.size()) return {};
    if (const auto byte = static_cast<unsigned char>(text[position]); byte < 0x80) return {classes[byte], 1};
    CodePoint point = code_point_at(text, position);
    return {classes[point.value], point.length};
  }
  bool is(size_t position, CharClass kind) const {
    Char c = at(position);
    return c.length != 0 && c.kind == kind;
  }
  size_t run(size_t position, CharClass kind) const {
    for (Char c = at(position); c.length != 0 && c.kind == kind; c = at(position)) position += c.length;
    return position;
  }
};

// Length of 's, 't, 're, 've, 'm, 'll or 'd at `at`, else 0. Without case, U+017F is an s too.
size_t contraction(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  auto letter = [&](size_t position) -> char {
    if (position >= text.size()) return '\0';
    char c = text[position];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return 3;
  if (any_case && text.substr(at + 1, 2) == "\xC5\xBF") return 3;
  return 0;
}

// The white space at `at`: `\s+(?!\S)|\s+`, with `\s*[\r\n]+` before them when `lines`.
size_t space_end(const Cursor& cursor, size_t at, bool lines) {
  size_t end = at, last = at, after_line = 0;
  for (Cursor::Char c = cursor.at(end); c.length != 0 && (c.kind == CharClass::kSpace || c.kind == CharClass::kNewline); c = cursor.at(end)) {
    last = end;
    end += c.length;
    if (c.kind == CharClass::kNewline) after_line = end;
  }
  if (lines && after_line != 0) return after_line;
  return end == cursor.text.size() || last == at ? end : last;
}

size_t gpt2_end(const Cursor& cursor, size_t at) {
  if (size_t length = contraction(cursor.text, at, false); length != 0) return at + length;
  size_t word = at;
  Cursor::Char c = cursor.at(at);
  if (cursor.text[at] == ' ') {
    Cursor::Char next = cursor.at(at + 1);
    if (next.length != 0 && next.kind != CharClass::kSpace && next.kind != CharClass::kNewline) {
      word = at + 1;
      c = next;
    }
  }
  if (c.kind == CharClass::kSpace || c.kind == CharClass::kNewline) return space_end(cursor, at, false);
  return cursor.run(word, c.kind);
}

size_t qwen_end(const Cursor& cursor, size_t at, size_t digits_max) {
  if (size_t length = contraction(cursor.text, at, true); length != 0) return at + length;
  Cursor::Char c = cursor.at(at);
  switch (c.kind) {
    case CharClass::kLetter:
      return cursor.run(at + c.length, CharClass::kLetter);
    case CharClass::kNumber: {
      size_t end = at + c.length;
      for (size_t digits = 1; digits < digits_max; ++digits) {
        Cursor::Char next = cursor.at(end);
        if (next.length == 0 || next.kind != CharClass::kNumber) break;
        end += next.length;
      }
      return end;
    }
    case CharClass::kSpace:
    case CharClass::kOther: {
      size_t end = cursor.run(at + c.length, CharClass::kLetter);
      if (end > at + c.length) return end;
      size_t marks = c.kind == CharClass::kOther ? at : at + 1;
      if (c.kind == CharClass::kOther || (cursor.text[at] == ' ' && cursor.is(marks, CharClass::kOther))) {
        return cursor.run(cursor.run(marks, CharClass::kOther), CharClass::kNewline);
      }
      return space_end(cursor, at, true);
    }
    case CharClass::kNewline:
      return space_end(cursor, at, true);
  }
  return at + c.length;
}

class FamilySplitter final : public Splitter {
 public:
  explicit FamilySplitter(Family family) : family_(family), classes_(char_classes()) {}

  Status split(std::string_view text, size_t& from, size_t count, std::vector<size_t>& ends) override {
    const Cursor cursor{text, classes_};
    const size_t full = ends.size() + count;
    auto more = [&] { return from < text.size() && ends.size() < full; };
    switch (family_) {
      case Family::kGpt2:
        while (more()) ends.push_back(from = gpt2_end(cursor, from));
        break;
      case Family::kQwen:
        while (more()) ends.push_back(from = qwen_end(cursor, from, 1));
        break;
      case Family::kLlama3:
        while (more()) ends.push_back(from = qwen_end(cursor, from, 3));
        break;
    }
    return ok();
  }

 private:
  Family family_;
  const CharClass* classes_;
};

// ---- PCRE2 ----

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class Pcre2Splitter final : public Splitter {
 public:
  explicit Pcre2Splitter(std::shared_ptr<const PatternImpl> pattern)
      : pattern_(std::move(pattern)), data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(64 * 1024, kJitStackBytesMax, nullptr)) {
    if (context_ == nullptr) return;
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  Status split(std::string_view text, size_t& from, size_t count, std::vector<size_t>& ends) override {
    if (data_ == nullptr || context_ == nullptr) return Error(Code::kInternal, "no memory for matching");
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const size_t full = ends.size() + count;
    size_t at = from;  // to look for the next match; `from` is the end of the last piece
    auto cut = [&](size_t end) {
      if (end > from) ends.push_back(end);
      from = std::max(from, end);
    };
    while (at < text.size()) {
      int found = pcre2_match(pattern_->code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) {
        return Error(Code::kLimitExceeded, fmt::format("the Split pattern of {} gave up {} bytes into a text of {} bytes: {}", pattern_->name, at, text.size(), pcre2_message(found)),
                     "use a tokenizer whose pattern does not backtrack, or split the text into shorter documents");
      }
      const size_t* bounds = pcre2_get_ovector_pointer(data_.get());
      cut(bounds[0]);
      cut(bounds[1]);
      at = bounds[1];
      if (bounds[1] > bounds[0]) {
        if (ends.size() >= full) return ok();
      } else if (at < text.size()) {  // empty: go on behind the next character
        at += code_point_at(text, at).length;
      }
    }
    cut(text.size());
    return ok();
  }

 private:
  std::shared_ptr<const PatternImpl> pattern_;
  std::unique_ptr<pcre2_match_data, DataFree> data_;
  std::unique_ptr<pcre2_match_context, ContextFree> context_;
  std::unique_ptr<pcre2_jit_stack, StackFree> stack_;
};

}  // namespace

Result<std::shared_ptr<const SplitPattern>> SplitPattern::compile(std::string_view pattern, const std::string& name, bool use_own_code) {
  auto made = std::make_shared<PatternImpl>();
  made->name = name;
  if (use_own_code && pattern == kGpt2Pattern) made->family = Family::kGpt2;
  if (use_own_code && pattern == kQwenPattern) made->family = Family::kQwen;
  if (use_own_code && pattern == kLlama3Pattern) made->family = Family::kLlama3;
  if (made->family) return std::shared_ptr<const SplitPattern>(std::move(made));

  if (pattern.size() > kPatternBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: a Split pattern of {} bytes; the limit is {}", name, pattern.size(), kPatternBytesMax));
  }
  if (std::string foreign = foreign_construct(pattern); !foreign.empty()) {
    return Error(Code::kFormatUnsupported, fmt::format("{}: the Split pattern uses {}, which Cairn's matcher would read differently from Hugging Face's", name, foreign),
                 "use a tokenizer with the pattern of Qwen, Llama 3 or GPT-2, or train one: cairn tokenizer train");
  }
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (context == nullptr) return Error(Code::kInternal, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const std::string changed = for_pcre2(pattern);
  int error = 0;
  PCRE2_SIZE error_at = 0;
  made->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(changed.data()), changed.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &error_at, context.get()));
  if (made->code == nullptr) {
    return Error(Code::kDataInvalid, fmt::format("{}: the Split pattern '{}' is wrong: {}", name, pattern.substr(0, 200), pcre2_message(error)));
  }
  made->jit = pcre2_jit_compile(made->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return std::shared_ptr<const SplitPattern>(std::move(made));
}

std::unique_ptr<Splitter> Splitter::create(std::shared_ptr<const SplitPattern> pattern) {
  auto impl = std::static_pointer_cast<const PatternImpl>(std::move(pattern));
  if (impl->family) return std::make_unique<FamilySplitter>(*impl->family);
  return std::make_unique<Pcre2Splitter>(std::move(impl));
}

}  // namespace cairn::dataset

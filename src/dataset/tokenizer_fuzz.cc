// Any bytes as a tokenizer.json; behind a zero byte follows a text for it. Also the text alone for one good tokenizer: whatever it
// holds, its ids spell it again.
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "dataset/byte_alphabet.h"
#include "dataset/tokenizer.h"
#include "dataset/unicode_classes.h"
#include "dataset/utf8_repair.h"

namespace {

using namespace cairn::dataset;

std::shared_ptr<const Tokenizer> good_tokenizer() {
  nlohmann::json vocab = nlohmann::json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text[1] = {static_cast<char>(byte)};
    vocab[spell_bytes(std::string_view(text, 1))] = byte;
  }
  vocab["ab"] = 256;
  vocab["abab"] = 257;
  const nlohmann::json json = {
      {"added_tokens", {{{"id", 258}, {"content", "<x>"}, {"single_word", false}, {"lstrip", true}, {"rstrip", true}, {"normalized", false}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab ab"}}}}};
  auto parsed = Tokenizer::parse(json.dump(), "good");
  if (!parsed) std::abort();
  return *parsed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view json = input.substr(0, cut), text = cut < size ? input.substr(cut + 1) : input;

  if (auto tokenizer = Tokenizer::parse(json, "fuzz")) {
    auto encoder = Encoder::create(*tokenizer);
    std::vector<uint32_t> ids;
    std::vector<size_t> offsets;
    if (encoder->encode(text, ids, offsets)) {
      if (offsets.size() != ids.size()) std::abort();
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= (*tokenizer)->vocab_size() || offsets[i] >= text.size()) std::abort();
      }
      static_cast<void>((*tokenizer)->decode(ids));
    }
  }

  static const std::shared_ptr<const Tokenizer> good = good_tokenizer();
  static const std::unique_ptr<Encoder> encoder = Encoder::create(good);
  std::vector<uint32_t> ids;
  if (!encoder->encode(text, ids)) std::abort();
  std::string repaired;
  repair_utf8(text, repaired, nullptr);
  // The white space beside <x> is its own, so only other texts come back whole.
  if (repaired.find("<x>") == std::string::npos && good->decode(ids) != repaired) std::abort();
  return 0;
}

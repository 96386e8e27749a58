// Any bytes as a safetensors file: what is accepted has tensors that tile the data, and a header written from it reads
// back as the same.
#include "base/check.h"
#include "trainer/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::trainer;
  const std::string name = "fuzz";
  auto header_size = parse_safetensors_size({data, std::min<size_t>(size, 8)}, size, name);
  if (!header_size) return 0;
  CAIRN_CHECK(*header_size <= size - 8);
  std::string_view text(reinterpret_cast<const char*>(data) + 8, *header_size);
  auto header = parse_safetensors_header(text, size - 8 - *header_size, name);
  if (!header) return 0;
  uint64_t at = 0;
  for (const TensorLayout& tensor : header->tensors) {
    CAIRN_CHECK(tensor.begin == at && tensor.end >= at);
    at = tensor.end;
  }
  CAIRN_CHECK(at == size - 8 - *header_size);
  std::string again = safetensors_header_bytes(*header);
  CAIRN_CHECK(again.size() % 8 == 0);
  auto second = parse_safetensors_header(std::string_view(again).substr(8), at, name);
  CAIRN_CHECK(second.has_value());
  CAIRN_CHECK(second->metadata == header->metadata && second->tensors.size() == header->tensors.size());
  for (size_t i = 0; i < second->tensors.size(); ++i) {
    const TensorLayout &left = header->tensors[i], &right = second->tensors[i];
    CAIRN_CHECK(left.name == right.name && left.type == right.type && left.shape == right.shape &&
                left.begin == right.begin && left.end == right.end);
  }
  return 0;
}

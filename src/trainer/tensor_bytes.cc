#include "trainer/tensor_bytes.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "base/check.h"

namespace cairn::trainer {
namespace {

constexpr int64_t kBlockElements = 1 << 22;

std::span<uint8_t> bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<uint8_t*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel()) * tensor.element_size()};
}

constexpr std::pair<at::ScalarType, TensorType> kTypes[] = {
    {at::kBool, TensorType::kBool},    {at::kByte, TensorType::kU8},   {at::kChar, TensorType::kI8},
    {at::kShort, TensorType::kI16},    {at::kInt, TensorType::kI32},   {at::kLong, TensorType::kI64},
    {at::kHalf, TensorType::kF16},     {at::kFloat, TensorType::kF32}, {at::kDouble, TensorType::kF64},
    {at::kBFloat16, TensorType::kBF16}};

TensorType type_of(at::ScalarType type) {
  for (const auto& [torch_type, file_type] : kTypes) {
    if (torch_type == type) return file_type;
  }
  CAIRN_CHECK(false);  // the trainer makes no tensors of other types
}

}  // namespace

TensorLayout layout_of(const NamedParameter& tensor) {
  return {tensor.name, type_of(tensor.tensor.scalar_type()), tensor.tensor.sizes().vec(), 0, 0};
}

Status write_tensors_as(os::FileSystem& files, const std::string& path, const std::vector<NamedParameter>& tensors,
                        std::optional<TensorType> type, const std::map<std::string, std::string>& metadata) {
  at::NoGradGuard no_grad;
  std::vector<TensorLayout> layouts;
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const NamedParameter& tensor : tensors) {
    layouts.push_back(layout_of(tensor));
    if (type && layouts.back().type == TensorType::kF32) layouts.back().type = *type;
    by_name.emplace(tensor.name, &tensor.tensor);
  }
  CAIRN_TRY(SafetensorsWriter writer, SafetensorsWriter::create(files, path, std::move(layouts), metadata));
  for (const TensorLayout& layout : writer.tensors()) {
    at::Tensor flat = by_name.at(layout.name)->detach().reshape({-1});
    for (int64_t begin = 0; begin < flat.numel(); begin += kBlockElements) {
      at::Tensor block = flat.narrow(0, begin, std::min(kBlockElements, flat.numel() - begin)).to(at::kCPU);
      if (layout.type == TensorType::kBF16) block = block.to(at::kBFloat16);
      CAIRN_CHECK_OK(writer.write(bytes_of_tensor(block.contiguous())));
    }
  }
  return writer.finish();
}

Status read_bytes_into(const SafetensorsFile& file, const TensorLayout& from, at::Tensor to) {
  at::NoGradGuard no_grad;
  CAIRN_CHECK(to.is_contiguous());
  at::Tensor flat = to.detach().view({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += kBlockElements) {
    at::Tensor block = flat.narrow(0, begin, std::min(kBlockElements, flat.numel() - begin));
    at::Tensor host = block.device().is_cpu() ? block : at::empty_like(block, block.options().device(at::kCPU));
    CAIRN_CHECK_OK(file.read(from, static_cast<uint64_t>(begin) * to.element_size(), bytes_of_tensor(host)));
    if (!host.is_same(block)) block.copy_(host);
  }
  return ok();
}

}  // namespace cairn::trainer

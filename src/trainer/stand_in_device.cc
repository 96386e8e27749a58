#include "trainer/stand_in_device.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace cairn::trainer {
namespace {

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device() == stand_in_device();
}

at::Tensor make(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType type) {
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = at::detail::computeStorageNbytes(size, stride, meta.itemsize());
  c10::DataPtr memory = c10::GetDefaultCPUAllocator()->allocate(bytes);
  memory.unsafe_set_device(stand_in_device());
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory), nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<at::TensorImpl>(std::move(storage),
                                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), meta);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return tensor;
}

// The same memory as a tensor of the CPU. An empty one gets memory of its own, for operations that give their result
// its size.
at::Tensor as_cpu(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  auto options = at::TensorOptions().dtype(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

at::Tensor as_ours(const at::Tensor& cpu) {
  at::Tensor ours = make(cpu.sizes(), cpu.strides(), cpu.scalar_type());
  if (cpu.numel() > 0) as_cpu(ours).copy_(cpu);
  return ours;
}

// A tensor argument, and what the CPU works on in its place.
struct Argument {
  at::Tensor ours;
  at::Tensor cpu;
};

// Numbers of the CPU may go into an operation of any device; other tensors may not.
at::Tensor argument_as_cpu(const at::Tensor& tensor, const c10::OperatorHandle& op, std::vector<Argument>& arguments) {
  if (!tensor.defined()) return tensor;
  TORCH_CHECK(is_ours(tensor) || tensor.dim() == 0, op.schema().name(),
              " mixes tensors of the CPU with those of the device");
  if (!is_ours(tensor)) return tensor;
  arguments.push_back({tensor, as_cpu(tensor)});
  return arguments.back().cpu;
}

// An operation that wrote into an argument answers that argument.
at::Tensor result_as_ours(const at::Tensor& result, const std::vector<Argument>& arguments) {
  for (const Argument& argument : arguments) {
    if (!argument.cpu.is_same(result)) continue;
    if (argument.ours.sizes() != result.sizes()) {
      at::Tensor sized = as_ours(result);
      argument.ours.unsafeGetTensorImpl()->set_storage_keep_dtype(sized.storage());
      argument.ours.unsafeGetTensorImpl()->set_sizes_and_strides(sized.sizes(), sized.strides());
    }
    return argument.ours;
  }
  return as_ours(result);
}

c10::IValue value_as_cpu(const c10::IValue& value, const c10::OperatorHandle& op, std::vector<Argument>& arguments) {
  if (value.isTensor()) return argument_as_cpu(value.toTensor(), op, arguments);
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(argument_as_cpu(tensor, op, arguments));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> list;
    for (const c10::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? c10::optional<at::Tensor>(argument_as_cpu(*tensor, op, arguments)) : c10::nullopt);
    }
    return list;
  }
  return value;
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const size_t first = stack->size() - count;
  std::vector<Argument> arguments;
  for (size_t i = first; i < stack->size(); ++i) (*stack)[i] = value_as_cpu((*stack)[i], op, arguments);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined()) value = result_as_ours(value.toTensor(), arguments);
  }
}

at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<at::Device>, c10::optional<bool>, c10::optional<at::MemoryFormat>) {
  return make(size, at::detail::defaultStrides(size), type.value_or(at::kFloat));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::optional<at::ScalarType> type,
                         c10::optional<at::Layout>, c10::optional<at::Device>, c10::optional<bool>) {
  return make(size, stride, type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  as_cpu(to).copy_(as_cpu(from));
  return to;
}

at::Scalar number_of(const at::Tensor& tensor) {
  return as_cpu(tensor).item();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_local_scalar_dense", number_of);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1>);

}  // namespace
}  // namespace cairn::trainer
